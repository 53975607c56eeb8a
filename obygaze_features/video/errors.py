"""What can be wrong with a video, named so that a run can list bad clips by stage and reason."""

from __future__ import annotations

from pathlib import Path

from obygaze_features.core.errors import FixInput

REASONS = {
    "missing": "the path in the manifest, or `obygaze manifest link`",
    "unreadable": "another copy of the file",
    "no-video": "a file that holds pictures",
    "no-frames": "another copy of the file",
    "truncated": "another copy of the file: this one was not written or fetched to its end",
    "outside": "a start before the end of the video",
    "damaged": "another copy of the file, or a higher --max-substituted",
    "too-large": "a smaller --size or --count",
    "timeout": "a longer time limit, or another copy of the file",
    "crashed": "another copy of the file: the decoder cannot survive this one",
}


class BadVideo(FixInput):
    """One file or clip that cannot be used; the rest of a run is not touched by it.

    `stage` is where it happened (open, decode, worker), `reason` a word of `REASONS`.
    """

    def __init__(
        self, what: str, *, path: Path | str, stage: str, reason: str, hint: str | None = None
    ) -> None:
        super().__init__(what, where=str(path), hint=hint or REASONS[reason])
        self.stage = stage
        self.reason = reason

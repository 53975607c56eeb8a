"""What a person sees of a run: the bar of its clips, and notes; each is counted and said once."""

from collections.abc import Callable
from typing import Any, Protocol

from obygaze_features.core.console import Progress, ProgressBars

# Gets the number of a row, and whether it failed.
Watch = Callable[[int, bool], object]


def watch_nothing(row: int, failed: bool) -> None:
    """Do nothing."""


class Listener(Protocol):
    """Hears how a run goes on, in this process or in that of a device."""

    def expect(self, n_clips: int) -> None:
        """Hear how many clips are missing."""

    def row(self, clip_id: str, row: int, failed: bool) -> None:
        """Hear of a row that was decoded, or that failed in a backbone."""

    def note(self, text: str) -> None:
        """Hear what a person should know before the run."""


class Shown:
    """Shows a run, also one of several processes that compute the same clips.

    Args:
        bars: Makes the progress bar.
        watch: Is called with each row, and whether it failed.
        say: Is called with each note.
    """

    def __init__(
        self, bars: ProgressBars, watch: Watch, say: Callable[[str], object]
    ) -> None:
        self.watch = watch
        self.say = say
        self._bars = bars
        self._open: Any = None
        self._bar = Progress()
        self._seen: set[str] = set()
        self._failed: set[str] = set()
        self._said: set[str] = set()

    def expect(self, n_clips: int) -> None:
        """Open the bar; the first process says how many clips there are."""
        if self._open is None:
            self._open = self._bars("extract", n_clips)
            self._bar = self._open.__enter__()
            self._bar.expect(n_clips, "clips")

    def row(self, clip_id: str, row: int, failed: bool) -> None:
        """Count a clip once, and show how many failed."""
        if clip_id not in self._seen:
            self._seen.add(clip_id)
            self._bar.advance()
        if failed and clip_id not in self._failed:
            self._failed.add(clip_id)
            self._bar.remark(f"{len(self._failed)} failed")
        self.watch(row, failed)

    def note(self, text: str) -> None:
        """Say a note, unless another process has said it."""
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def close(self) -> None:
        """Close the bar."""
        if self._open is not None:
            self._open.__exit__(None, None, None)

"""The tested clips of a cell in the order of their films, with score and decision."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from obygaze_features.manifest.model import Clip, clock
from obygaze_features.manifest.times import spans_in_films
from obygaze_models.report.lookup import ReportRun, grouped
from obygaze_models.runner.summary import CellRows

MOST_ERRORS = 10


@dataclass(frozen=True)
class ScoredClip:
    """A clip that a cell tested.

    Attributes:
        clip: The clip of the manifest; without the manifest, what is known of it.
        is_positive: Its class.
        score: Its mean score over the fits that tested it, from 0 to 1.
        is_correct: Whether the decision by this score is right.
        start_s: Where it begins in its film; None where this is not known.
    """

    clip: Clip
    is_positive: bool
    score: float
    is_correct: bool
    start_s: float | None

    @property
    def position(self) -> str:
        """Where the clip is in its film: its time, else the number of its scene."""
        if self.start_s is not None:
            return clock(self.start_s)
        return "" if self.clip.scene is None else f"scene {self.clip.scene}"


def scored_clips(run: ReportRun, cell: CellRows) -> dict[str, list[ScoredClip]]:
    """Return the tested clips of a cell by film, in the order of each film.

    Margins are scaled so that the threshold, 0, becomes 0.5.
    """
    key = (cell.train, cell.test, cell.store, cell.model)
    rows = []
    for row in run.predictions:
        if (row["train"], row["test"], row["store"], row["model"]) == key:
            rows.append(row)
    by_clip = grouped(rows, lambda row: str(row["clip_id"]))
    means = {}
    for clip_id, of_clip in by_clip.items():
        means[clip_id] = fmean(row["score"] for row in of_clip)
    are_margins = any(is_margin(row["score"], row["decision"]) for row in rows)
    threshold = 0.0 if are_margins else 0.5
    farthest = max(map(abs, means.values()), default=1.0) or 1.0
    spans = spans_in_films(run.clips.values())
    tested = []
    for clip_id, mean in means.items():
        row = by_clip[clip_id][0]
        is_positive = bool(row["y"])
        score = 0.5 + mean / (2 * farthest) if are_margins else mean
        clip = run.clips.get(clip_id) or Clip(clip_id, row["movie_id"])
        is_correct = (mean > threshold) == is_positive
        start_s = spans[clip_id][0] if clip_id in spans else None
        tested.append(ScoredClip(clip, is_positive, score, is_correct, start_s))
    tested.sort(key=_order)
    return grouped(tested, lambda clip: clip.clip.movie_id)


def is_margin(score: float, decision: bool) -> bool:
    """Return whether a score cannot be a probability, which is positive above one half."""
    return not 0 <= score <= 1 or decision != (score > 0.5)


def _order(tested: ScoredClip) -> tuple[str, float, float, str]:
    clip = tested.clip
    start = math.inf if tested.start_s is None else tested.start_s
    scene = math.inf if clip.scene is None else clip.scene
    return clip.movie_id, start, scene, clip.clip_id


def surest_errors(clips: Sequence[ScoredClip]) -> list[ScoredClip]:
    """Return the wrong decisions that are farthest from the threshold."""
    wrong = [clip for clip in clips if not clip.is_correct]

    def order(tested: ScoredClip) -> tuple[float, str]:
        return -abs(tested.score - 0.5), tested.clip.clip_id

    return sorted(wrong, key=order)[:MOST_ERRORS]

"""The tested clips of a cell in the order of their films, with score and decision."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from obygaze_features.manifest.link import FILM_COLUMNS, seconds_in_film
from obygaze_features.manifest.model import Clip, clock
from obygaze_models.reporting.lookup import ReportRun, grouped
from obygaze_models.runner.summary import CellRows

MOST_ERRORS = 10


@dataclass(frozen=True)
class TestedClip:
    """A clip that a cell tested.

    Attributes:
        clip: The clip of the manifest; without the manifest, what is known of it.
        is_positive: Its class.
        score: Its mean score over the fits that tested it, from 0 to 1.
        is_correct: Whether the decision by this score is right.
    """

    clip: Clip
    is_positive: bool
    score: float
    is_correct: bool

    @property
    def position(self) -> str:
        """Where the clip is in its film: its time, else the number of its scene."""
        start = start_of(self.clip)
        if start is not None:
            return clock(start)
        return "" if self.clip.scene is None else f"scene {self.clip.scene}"


def tested_clips(run: ReportRun, cell: CellRows) -> dict[str, list[TestedClip]]:
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
    are_margins = any(_is_margin(row["score"], row["decision"]) for row in rows)
    threshold = 0.0 if are_margins else 0.5
    farthest = max(map(abs, means.values()), default=1.0) or 1.0
    tested = []
    for clip_id, mean in means.items():
        row = by_clip[clip_id][0]
        is_positive = bool(row["y"])
        score = 0.5 + mean / (2 * farthest) if are_margins else mean
        clip = run.clips.get(clip_id) or Clip(clip_id, row["movie_id"])
        is_correct = (mean > threshold) == is_positive
        tested.append(TestedClip(clip, is_positive, score, is_correct))
    tested.sort(key=_order)
    return grouped(tested, lambda clip: clip.clip.movie_id)


def _is_margin(score: float, decision: bool) -> bool:
    """Return whether a score cannot be a probability, which is positive above one half."""
    return not 0 <= score <= 1 or decision != (score > 0.5)


def start_of(clip: Clip) -> float | None:
    """Return the start in the film if the manifest has it, else the start in the video."""
    in_film = seconds_in_film(clip, FILM_COLUMNS[0])
    return clip.start_s if in_film is None else in_film


def _order(tested: TestedClip) -> tuple[str, float, float, str]:
    clip = tested.clip
    start = start_of(clip)
    scene = math.inf if clip.scene is None else clip.scene
    return clip.movie_id, math.inf if start is None else start, scene, clip.clip_id


def surest_errors(clips: Sequence[TestedClip]) -> list[TestedClip]:
    """Return the wrong decisions that are farthest from the threshold."""
    wrong = [clip for clip in clips if not clip.is_correct]

    def order(tested: TestedClip) -> tuple[float, str]:
        return -abs(tested.score - 0.5), tested.clip.clip_id

    return sorted(wrong, key=order)[:MOST_ERRORS]

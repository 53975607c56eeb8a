"""What a suggestion does to annotators: labels, times and the shift towards it, by arm.

Each clip of a queue is in the arm `assisted`, where the page showed what a model suggests, or in
the arm `blind`, at random (`queue.py`). So the difference between the arms in how often the
annotator chose the suggested level is what seeing the suggestion did: the shift. It is help where
suggestions are right and harm where they are wrong. Where annotators saw the model, their agreement
with it is too high by the shift.

A label outside the task of the model, such as NS, counts as one that does not follow the
suggestion: leaving such clips out would compare other clips in each arm. The labels are those that
were saved first.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.films.queue import ASSISTED, BLIND, ORDERS, is_judgement
from obygaze_features.manifest.model import LEVELS
from obygaze_models.evaluation.bootstrap import draw, interval_of
from obygaze_models.evaluation.predictions import as_codes

Floats = NDArray[np.float64]
Row = dict[str, Any]
N_DRAWS = 2000
# The arm of clips that could not have a suggestion, in queues where others have one.
NO_SCORE = "no score"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Judgement:
    """The first label that an annotator gave a clip of a queue, and the seconds that it took.

    `suggested` and `otherwise` are the levels on both sides of the model's decision, empty where
    there was none.
    """

    annotator: str
    clip_id: str
    movie_id: str
    order: str
    arm: str
    level: str
    seconds: float
    suggested: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()

    @property
    def follows(self) -> bool:
        """Whether the label is on the side that the model suggests."""
        return self.level in self.suggested


def first_judgements(table: Path) -> list[Judgement]:
    """Return the first label of each clip of a queue, from the history beside a table of marks."""
    path = table.with_suffix(".history.jsonl")
    lines = path.read_bytes().split(b"\n") if path.is_file() else []
    first: dict[str, Judgement] = {}
    for line in lines:
        try:
            judgement = _judgement_of(json.loads(line)["after"])
        except (ValueError, LookupError, TypeError):
            continue  # a line that was cut off, or of another program
        if judgement is not None:
            first.setdefault(judgement.clip_id, judgement)
    return list(first.values())


def _judgement_of(mark: Mapping[str, Any] | None) -> Judgement | None:
    """Return the label of a clip of a queue; None for another mark, or a deleted one."""
    cells = mark["more"] if mark else {}
    if mark is None or not is_judgement(cells):
        return None
    return Judgement(
        annotator=mark["annotator"],
        clip_id=cells["clip_id"],
        movie_id=mark["movie_id"],
        order=cells["order"],
        arm=mark["arm"],
        level=mark["level"],
        seconds=float(cells["seconds"]),
        suggested=_levels(cells["suggested"]),
        otherwise=_levels(cells["otherwise"]),
    )


def labels_by_arm(judgements: Sequence[Judgement]) -> list[Row]:
    """Return the share of each level and the median time of each annotator, order and arm.

    Shares of clips that were chosen because a model is unsure of them are not those of all clips:
    only the order `random` estimates these. Clips that the model has no score of were in no arm by
    chance, so that they have rows of their own beside those that were.
    """
    rows = []
    for annotator in sorted({one.annotator for one in judgements}):
        of_annotator = [one for one in judgements if one.annotator == annotator]
        has_suggestions = any(one.suggested for one in of_annotator)
        for order in ORDERS:
            for arm in (BLIND, ASSISTED, NO_SCORE):
                of_arm = []
                for one in of_annotator:
                    is_without = has_suggestions and not one.suggested
                    arm_of_clip = NO_SCORE if is_without else one.arm
                    if (one.order, arm_of_clip) == (order, arm):
                        of_arm.append(one)
                if of_arm:
                    row = {"annotator": annotator, "order": order, "arm": arm}
                    rows.append(row | _labels_and_time(of_arm))
    return rows


def _labels_and_time(judgements: Sequence[Judgement]) -> Row:
    shares = {}
    for level in LEVELS:
        has_level = np.array([one.level == level for one in judgements], dtype=float)
        shares[level] = _with_interval(
            judgements, _mean_of(has_level), within_unit=True
        )
    seconds = np.array([one.seconds for one in judgements])
    return {
        **_counts(judgements),
        "levels": shares,
        "seconds": _with_interval(judgements, _median_of(seconds), least=0.0),
    }


def anchoring(
    judgements: Sequence[Judgement], annotated: Mapping[str, str] | None = None
) -> list[Row]:
    """Return the shift of each annotator towards the suggestions, with its interval.

    `shift` is the share of labels that follow the suggestion in the arm `assisted`, minus that in
    the arm `blind`. `followed` is the share of clips with another label without the suggestion
    that got the suggested one with it: shift / (1 - share in the arm `blind`).

    Args:
        judgements: The labels of clips of queues.
        annotated: The annotated level of clips, to tell right suggestions from wrong ones.
    """
    rows = []
    for annotator in sorted({one.annotator for one in judgements}):
        of_annotator = [
            one for one in judgements if one.annotator == annotator and one.suggested
        ]
        for name, chosen in _parts(of_annotator, annotated or {}).items():
            if {one.arm for one in chosen} == {BLIND, ASSISTED}:
                row = {"annotator": annotator, "suggestions": name}
                rows.append(row | _shift(chosen))
    return rows


def _parts(
    judgements: Sequence[Judgement], annotated: Mapping[str, str]
) -> dict[str, list[Judgement]]:
    """Return all clips, those of each suggestion, and those whose suggestion is right and wrong."""
    parts = {"all": list(judgements)}
    for one in judgements:
        parts.setdefault("|".join(one.suggested), []).append(one)
    for one in judgements:
        level = annotated.get(one.clip_id, "")
        if level in one.suggested:
            parts.setdefault("as annotated", []).append(one)
        elif level in one.otherwise:
            parts.setdefault("not as annotated", []).append(one)
    return parts


def _shift(judgements: Sequence[Judgement]) -> Row:
    follows = np.array([one.follows for one in judgements], dtype=float)
    is_assisted = np.array([one.arm == ASSISTED for one in judgements])
    with_it = _mean_of(follows, is_assisted)
    without_it = _mean_of(follows, ~is_assisted)

    def shift(weights: Floats) -> Floats:
        return with_it(weights) - without_it(weights)

    def followed(weights: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return shift(weights) / (1 - without_it(weights))

    every_clip = np.ones((1, len(judgements)))
    return {
        **_counts(judgements),
        "blind": float(without_it(every_clip)[0]),
        "assisted": float(with_it(every_clip)[0]),
        "shift": _with_interval(judgements, shift, least=-1.0, most=1.0),
        "followed": _with_interval(judgements, followed, most=1.0),
    }


def _counts(judgements: Sequence[Judgement]) -> Row:
    films = {one.movie_id for one in judgements}
    return {"clips": len(judgements), "films": len(films)}


def _mean_of(
    values: Floats, is_part: NDArray[np.bool_] | None = None
) -> Callable[[Floats], Floats]:
    """Return a function from rows of weights of clips to weighted means, of a part of the clips."""
    part = np.ones(len(values)) if is_part is None else is_part.astype(float)

    def mean(weights: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(weights @ (part * values) / (weights @ part))

    return mean


def _median_of(values: Floats) -> Callable[[Floats], Floats]:
    """Return a function from rows of weights of clips to weighted medians."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]

    def median(weights: Floats) -> Floats:
        below = np.cumsum(weights[:, order], axis=1)
        half = below[:, -1:] / 2
        # Where exactly half of the weight is below, the median is between two values.
        first = np.argmax(below >= half, axis=1)
        second = np.argmax(below > half, axis=1)
        return np.asarray((ordered[first] + ordered[second]) / 2)

    return median


def _with_interval(
    judgements: Sequence[Judgement],
    statistic: Callable[[Floats], Floats],
    *,
    within_unit: bool = False,
    least: float = -math.inf,
    most: float = math.inf,
) -> Row:
    """Return a value with its 95 % interval over films; of one film, over its clips.

    An interval ends where no value can be: `least` and `most`.
    """
    films = [one.movie_id for one in judgements]
    units = films
    if len(set(films)) == 1:
        units = [one.clip_id for one in judgements]
    _, codes = as_codes(np.asarray(units), len(units))
    value = float(statistic(np.ones((1, len(units))))[0])
    drawn = draw(lambda weights: {"value": statistic(weights)}, codes, N_DRAWS, 0)
    interval, _ = interval_of(
        drawn["value"],
        value,
        len(set(units)),
        CONFIDENCE,
        within_unit=within_unit,
    )
    low, high = interval.ends
    if low is not None and high is not None:
        low = max(low, least)
        high = min(high, most)
    finite = value if np.isfinite(value) else None
    return {"value": finite, "low": low, "high": high}


def _levels(text: str) -> tuple[str, ...]:
    return tuple(text.split("|")) if text else ()


def arms_rows(rows: Iterable[Row]) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Return the names of columns and the cells of what `labels_by_arm` found."""
    names = ("annotator", "order", "arm", "clips", "films", *LEVELS, "seconds")
    cells = []
    for row in rows:
        facts = [row[name] for name in names[:5]]
        levels = [interval_text(row["levels"][level]) for level in LEVELS]
        cells.append([*facts, *levels, interval_text(row["seconds"], 1)])
    return names, cells


def anchoring_rows(rows: Iterable[Row]) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Return the names of columns and the cells of what `anchoring` found."""
    names = ("annotator", "suggestions", "clips", "films", "blind", "assisted")
    cells = []
    for row in rows:
        facts = [row[name] for name in names]
        shifts = [interval_text(row[name]) for name in ("shift", "followed")]
        cells.append([*facts, *shifts])
    return (*names, "shift", "followed"), cells


def interval_text(facts: Mapping[str, Any], digits: int = 2) -> str:
    """Return a value with its interval, as `0.40 [0.21, 0.63]`."""
    if facts["value"] is None:
        return "-"
    value = f"{facts['value']:.{digits}f}"
    if facts["low"] is None:
        return value
    return f"{value} [{facts['low']:.{digits}f}, {facts['high']:.{digits}f}]"

"""The Gender Score of a caption (Sabir and Padro): how strongly its wording leans to a gender.

A language model's prior for the caption is revised by how well the caption fits what is seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.tables import TableRow, read_table

# Cosines computed in single precision leave [-1, 1] by noise; by more than this they are wrong.
NOISE = 1e-4
MASK = "[MASK]"
SCORE_COLUMNS = ("lm", "sim", "prob")
ESTIMATION_COLUMNS = ("caption", "lm_man", "sim_man", "lm_woman", "sim_woman", "prob")


@dataclass(frozen=True)
class Score:
    """The score of one caption, with a word on anything unusual about it."""

    score: float
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The score as a JSON record."""
        return {"score": self.score, "note": self.note}


@dataclass(frozen=True)
class Estimate:
    """Which of the two wordings of one caption scores higher, and by how much."""

    caption: str
    man: Score
    woman: Score

    @property
    def gender(self) -> str:
        """The wording that wins; a tie goes to man, as in the original."""
        return "man" if self.man.score >= self.woman.score else "woman"

    @property
    def ratio_to_man(self) -> float | None:
        """The share of the man's score in the sum of both, in percent."""
        total = self.man.score + self.woman.score
        return 100 * self.man.score / total if total else None

    def to_json(self) -> dict[str, Any]:
        """The outcome as a JSON record; `caption` is worded as the winner has it."""
        to_man = self.ratio_to_man
        return {
            "caption": self.caption.replace(MASK, self.gender),
            "score": max(self.man.score, self.woman.score),
            "gender": self.gender,
            "score_man": self.man.score,
            "score_woman": self.woman.score,
            "ratio_to_man": to_man,
            "ratio_to_woman": None if to_man is None else 100 - to_man,
            "note": "; ".join(note for note in (self.man.note, self.woman.note) if note),
        }


def gender_score(lm: float, sim: float, prob: float) -> Score:
    """lm ** (((1 - sim) / (1 + sim)) ** (1 - prob)), with its limits where it has no value.

    `lm` is the mean token probability of the caption, `sim` the cosine of caption and visual
    word, `prob` the probability of the visual word.
    """
    _probability("the prior", lm)
    _probability("the visual probability", prob)
    cosine, note = _cosine(sim)
    if cosine == -1.0 and prob < 1.0:
        # The exponent is infinite: any prior below one vanishes.
        return Score(1.0 if lm == 1.0 else 0.0, "similarity -1: the limit")
    base = math.inf if cosine == -1.0 else (1 - cosine) / (1 + cosine)
    return Score(lm ** (base ** (1 - prob)), note)


def prior_of_tokens(log_probabilities: Sequence[float]) -> float:
    """The prior of a caption: the arithmetic mean of its tokens' probabilities."""
    if not log_probabilities:
        raise FixInput("a caption without tokens has no prior")
    probabilities = [math.exp(value) for value in log_probabilities]
    return _probability("the prior", math.fsum(probabilities) / len(probabilities))


def printed_ratios(man: int, woman: int) -> tuple[float, float]:
    """The two shares as the poster prints them: cut after two decimals, never rounded."""
    total = man + woman
    if total <= 0 or man < 0 or woman < 0:
        raise FixInput(f"counts of {man} and {woman} have no ratio")
    return 100 * man // total / 100, 100 * woman // total / 100


def score_table(path: Path) -> list[Score | Estimate]:
    """The score of each row of a table, in one of its two forms; every bad row at once."""
    violations = Violations(path)
    table = read_table(path, required=("prob",), violations=violations)
    estimation = "lm_man" in table.columns
    needed = ESTIMATION_COLUMNS if estimation else SCORE_COLUMNS
    missing = [name for name in needed if name not in table.columns]
    if table.columns and missing:
        forms = f"{', '.join(SCORE_COLUMNS)} or {', '.join(ESTIMATION_COLUMNS)}"
        violations.add(1, None, f"no column {', '.join(missing)}; a table has {forms}")
    violations.raise_if_any(
        "this is not a table of captions", hint="--compute FILE fills in priors and similarities"
    )
    scores = [_row(row, estimation, violations) for row in table.rows]
    violations.raise_if_any("some rows cannot be scored")
    return [score for score in scores if score is not None]


def _row(row: TableRow, estimation: bool, violations: Violations) -> Score | Estimate | None:
    if not estimation:
        return _cell_score(row, "lm", "sim", violations)
    man = _cell_score(row, "lm_man", "sim_man", violations)
    woman = _cell_score(row, "lm_woman", "sim_woman", violations)
    return Estimate(row["caption"], man, woman) if man and woman else None


def _cell_score(row: TableRow, lm: str, sim: str, violations: Violations) -> Score | None:
    try:
        return gender_score(*(_number(row, column) for column in (lm, sim, "prob")))
    except FixInput as error:
        violations.add(row.line, None, error.what)
        return None


def _number(row: TableRow, column: str) -> float:
    try:
        return float(row[column])
    except ValueError:
        raise FixInput(f"{column} is {row[column]!r}, not a number") from None


def _probability(what: str, value: float) -> float:
    if 1.0 < value <= 100.0:
        raise FixInput(f"{what} is {value}: a probability above 1; is it in percent?")
    if not 0.0 <= value <= 1.0:
        raise FixInput(f"{what} is {value}, not a probability")
    return value


def _cosine(sim: float) -> tuple[float, str]:
    if not abs(sim) <= 1 + NOISE:
        raise FixInput(f"the similarity is {sim}, not a cosine")
    if abs(sim) > 1:
        return math.copysign(1.0, sim), "similarity clipped to 1: float noise"
    return sim, ""

"""The Gender Score of a caption (Sabir and Padro), and the audit of a table of captions.

The prior probability of a caption from a language model is revised by how well the caption fits
what is seen.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from obygaze.audits.printed import SABIR, as_range, printed_shares
from obygaze.audits.result import Audit, Finding
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import TableRow, number_of_cell, read_table
from obygaze_features.extraction.text import CAPTION_MASK

# Cosines computed in single precision leave [-1, 1] by rounding errors up to this.
NOISE = 1e-4
SCORE_COLUMNS = ("lm", "sim", "prob")
ESTIMATE_COLUMNS = ("caption", "lm_man", "sim_man", "lm_woman", "sim_woman", "prob")


@dataclass(frozen=True)
class GenderScore:
    """The score of one caption, with a note on anything unusual."""

    score: float
    note: str = ""


@dataclass(frozen=True)
class GenderEstimate:
    """Which of the two wordings of a caption scores higher, and by how much.

    A tie goes to man, as in the original. Ratios are shares of the sum of both scores, in percent;
    None if both scores are zero. `caption` has the wording with the higher score.
    """

    caption: str
    score: float
    gender: str
    score_man: float
    score_woman: float
    ratio_to_man: float | None
    ratio_to_woman: float | None
    note: str


@dataclass(frozen=True, eq=False, repr=False)
class GenderAudit(Audit):
    """The scores of a table, all of one form; without `estimates` there are no ratios."""

    rows: tuple[GenderScore | GenderEstimate, ...]
    source: str = ""

    @property
    def estimates(self) -> tuple[GenderEstimate, ...]:
        """The rows with both wordings."""
        return tuple(row for row in self.rows if isinstance(row, GenderEstimate))

    def to_json(self) -> dict[str, Any]:
        """Return every row, the means, and how many captions each wording wins."""
        ratios = [
            row.ratio_to_man for row in self.estimates if row.ratio_to_man is not None
        ]
        to_man = None
        to_woman = None
        if ratios:
            to_man = math.fsum(ratios) / len(ratios)
            to_woman = 100 - to_man
        counts = None
        printed = None
        paper = None
        if self.estimates:
            genders = [row.gender for row in self.estimates]
            counts = {name: genders.count(name) for name in ("man", "woman")}
            printed = list(cut_shares(**counts))
            paper = printed_shares("score")
        return {
            **_mean_scores(self.estimates),
            "rows": [
                {"ratio_to_man": None, "ratio_to_woman": None, **asdict(row)}
                for row in self.rows
            ],
            "mean": math.fsum(row.score for row in self.rows) / len(self.rows),
            "mean_ratio_to_man": to_man,
            "mean_ratio_to_woman": to_woman,
            "counts": counts,
            "printed": printed,
            "paper": paper,
            "n_ties": sum(row.score_man == row.score_woman for row in self.estimates),
            "n_without_ratio": len(self.estimates) - len(ratios),
            "n": len(self.rows),
        }

    def finding(self) -> Finding:
        """Return one row per caption, and sentences with the means."""
        summary = self.to_json()
        sentences = [
            f"Mean score of {count(len(self.rows), 'caption')}: {summary['mean']:.3f}."
        ]
        n_noted = sum(bool(row.note) for row in self.rows)
        if n_noted:
            sentences.append(f"Captions with a note on the similarity: {n_noted}.")
        if self.estimates:
            sentences += _sentences_of_estimates(summary)
        headers, rows = self._table()
        title = f"Gender score: {self.source}" if self.source else "Gender score"
        return Finding(title, headers, tuple(rows), sentences=tuple(sentences))

    def _table(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the headers and rows for a reader: by caption, or by number."""
        rows: list[tuple[object, ...]] = []
        if self.estimates:
            for row in self.estimates:
                shares = (row.ratio_to_man, row.ratio_to_woman)
                rows.append((row.caption, row.score, *shares, row.note or None))
            return ("caption", "score", "% to man", "% to woman", "note"), rows
        for number, scored in enumerate(self.rows, 1):
            rows.append((number, scored.score, scored.note or None))
        return ("row", "score", "note"), rows


def _sentences_of_estimates(summary: Mapping[str, Any]) -> list[str]:
    """Return how often each wording wins, and the means of both."""
    counts = summary["counts"]
    man, woman = summary["printed"]
    to_man, to_woman = zip(*summary["paper"].values(), strict=True)
    sentences = [
        f"'man' scores higher in {count(counts['man'], 'caption')} and 'woman' in "
        f"{counts['woman']}: {man:.2f} and {woman:.2f}, cut after two decimals as "
        f"published, not rounded. Printed for {SABIR}: {as_range(to_man)} and"
        f" {as_range(to_woman)}."
    ]
    if summary["n_ties"]:
        n_ties = count(summary["n_ties"], "caption")
        sentences.append(
            f"{n_ties} with the same score for both are counted for 'man', as published."
        )
    mean = summary["mean_ratio_to_man"]
    if mean is not None and summary["n_without_ratio"]:
        n_captions = count(summary["n_without_ratio"], "caption")
        sentences.append(
            f"{n_captions} with two scores of 0 have no share and are left out of its average."
        )
    if mean is not None:
        sentences.append(
            f"On average the share of 'man' in the two scores is {mean:.1f} %. Mean score "
            f"of 'man' {summary['mean_man']:.3f}, of 'woman' {summary['mean_woman']:.3f}, "
            "over all captions whatever wording wins: "
            f"{summary['ratio_of_means_to_man']:.1f} % to man."
        )
    return sentences


def _mean_scores(rows: Sequence[GenderEstimate]) -> dict[str, float | None]:
    """Return the mean score of each wording over all rows, and the share of man in their sum."""
    if not rows:
        return {}
    man = math.fsum(row.score_man for row in rows) / len(rows)
    woman = math.fsum(row.score_woman for row in rows) / len(rows)
    share = 100 * man / (man + woman) if man + woman else None
    return {"mean_man": man, "mean_woman": woman, "ratio_of_means_to_man": share}


def audit_gender_score(captions: str | Path) -> GenderAudit:
    """Score how strongly each caption of a table leans to a gender.

    Args:
        captions: A CSV table with the columns lm, sim, prob, or with caption, lm_man, sim_man,
            lm_woman, sim_woman, prob for captions in both wordings.

    Example:
        audit = audit_gender_score("captions.csv")

    Commands:
        obygaze audit gender-score captions.csv
    """
    path = Path(captions)
    violations = Violations(path)
    read = read_table(path, required=("prob",), violations=violations)
    _check_columns(read.columns, violations)
    rows = [_score_row(row) for row in read.rows]
    violations.raise_if_any("some rows cannot be scored")
    if not rows:
        raise FixInput(
            "the table has no captions (no row after the header)", where=str(path)
        )
    return GenderAudit(tuple(row for row in rows if row is not None), path.name)


def _check_columns(columns: Sequence[str], violations: Violations) -> None:
    """Raise an error if a table has the columns of neither form."""
    form = ESTIMATE_COLUMNS if "lm_man" in columns else SCORE_COLUMNS
    missing = [name for name in form if name != "prob" and name not in columns]
    # Without a header, the table itself is already a violation.
    if columns and missing:
        scores = ", ".join(SCORE_COLUMNS)
        estimates = ", ".join(ESTIMATE_COLUMNS)
        names = ", ".join(missing)
        violations.add(
            1, None, f"missing column {names}; expected {scores} or {estimates}"
        )
    hint = "obygaze extract captions --help"
    violations.raise_if_any("this is not a table of captions", hint=hint)


def gender_score(lm: float, sim: float, prob: float) -> GenderScore:
    """Return lm ** (((1 - sim) / (1 + sim)) ** (1 - prob)), or its limit where it is undefined.

    Args:
        lm: The mean token probability of the caption.
        sim: The cosine of the caption and the visual word.
        prob: The probability of the visual word.
    """
    _check_probability("lm", lm)
    _check_probability("prob", prob)
    if not abs(sim) <= 1 + NOISE:
        raise FixInput(f"sim must be a cosine between -1 and 1, got {sim}")
    note = "similarity clipped to 1: rounding error" if abs(sim) > 1 else ""
    cosine = math.copysign(1.0, sim) if note else sim
    if cosine == -1.0 and prob < 1.0:
        # The exponent is infinite, so any prior below one gives zero.
        return GenderScore(1.0 if lm == 1.0 else 0.0, "similarity -1: the limit")
    if lm == 0.0 and cosine == 1.0 and prob < 1.0:
        note = "lm 0 and similarity 1: 0 ** 0, taken as 1"
    base = math.inf if cosine == -1.0 else (1 - cosine) / (1 + cosine)
    return GenderScore(lm ** (base ** (1 - prob)), note)


def gender_estimate(
    caption: str, man: GenderScore, woman: GenderScore
) -> GenderEstimate:
    """Compare the scores of both wordings of a caption; [MASK] stands for the gendered word."""
    total = man.score + woman.score
    to_man = 100 * man.score / total if total else None
    gender = "man" if man.score >= woman.score else "woman"
    return GenderEstimate(
        caption=CAPTION_MASK.sub(gender, caption),
        score=max(man.score, woman.score),
        gender=gender,
        score_man=man.score,
        score_woman=woman.score,
        ratio_to_man=to_man,
        ratio_to_woman=None if to_man is None else 100 - to_man,
        note="; ".join(note for note in (man.note, woman.note) if note),
    )


def cut_shares(man: int, woman: int) -> tuple[float, float]:
    """Return both shares cut after two decimals, as published tables have them."""
    total = man + woman
    if total <= 0 or man < 0 or woman < 0:
        raise FixInput(f"expected counts with a positive sum, got {man} and {woman}")
    return 100 * man // total / 100, 100 * woman // total / 100


def _score_row(row: TableRow) -> GenderScore | GenderEstimate | None:
    def score(*columns: str) -> GenderScore:
        values = []
        for column in columns:
            value = number_of_cell(row[column])
            if value is None:
                raise FixInput(f"{column} must be a number, got {row[column]!r}")
            values.append(value)
        return gender_score(*values)

    try:
        if "lm_man" not in row.cells:
            return score(*SCORE_COLUMNS)
        man = score("lm_man", "sim_man", "prob")
        woman = score("lm_woman", "sim_woman", "prob")
        return gender_estimate(row["caption"], man, woman)
    except FixInput as error:
        row.add(None, error.message)
        return None


def _check_probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        asked = ": is it in percent?" if 1.0 < value <= 100.0 else ""
        raise FixInput(f"{name} must be a probability, got {value}{asked}")

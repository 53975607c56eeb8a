"""The Gender Score of a caption (Sabir and Padro), and the audit of a table of captions.

The prior probability of a caption from a language model is revised by how well the caption fits
what is seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from obygaze.audits.printed import SABIR, GenderShares, as_range, printed_shares
from obygaze.audits.result import Audit, Plot, Point
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


@dataclass(frozen=True)
class GenderMeans:
    """What captions in both wordings say together.

    Ratios are in percent, and None where no caption has one. A caption with two scores of 0 has no
    ratio.
    """

    mean: float
    mean_man: float
    mean_woman: float
    ratio_of_means_to_man: float | None
    mean_ratio_to_man: float | None
    counts: Mapping[str, int]
    n_ties: int
    n_without_ratio: int
    n: int


def compute(estimates: Sequence[GenderEstimate]) -> GenderMeans:
    """Return the means of captions in both wordings, and how often each wording scores higher."""
    n = len(estimates)
    ratios = [row.ratio_to_man for row in estimates if row.ratio_to_man is not None]
    mean_man = math.fsum(row.score_man for row in estimates) / n
    mean_woman = math.fsum(row.score_woman for row in estimates) / n
    of_means = None
    if mean_man + mean_woman:
        of_means = 100 * mean_man / (mean_man + mean_woman)
    genders = [row.gender for row in estimates]
    return GenderMeans(
        mean=math.fsum(row.score for row in estimates) / n,
        mean_man=mean_man,
        mean_woman=mean_woman,
        ratio_of_means_to_man=of_means,
        mean_ratio_to_man=math.fsum(ratios) / len(ratios) if ratios else None,
        counts={name: genders.count(name) for name in ("man", "woman")},
        n_ties=sum(row.score_man == row.score_woman for row in estimates),
        n_without_ratio=n - len(ratios),
        n=n,
    )


def present(estimates: Sequence[GenderEstimate], source: str) -> Audit:
    """Return the table and the sentences of captions in both wordings."""
    found = compute(estimates)
    man, woman = cut_shares(**found.counts)
    paper = printed_shares()
    to_man = found.mean_ratio_to_man
    rows = []
    points = []
    for row in estimates:
        shares = (row.ratio_to_man, row.ratio_to_woman)
        rows.append((row.caption, row.score, *shares, row.note or None))
        points.append(Point(row.caption, row.ratio_to_man))
    title = f"Gender score: {source}"
    return Audit(
        title=title,
        headers=("caption", "score", "% to man", "% to woman", "note"),
        rows=rows,
        answers=list(_answers(found, (man, woman), paper)),
        limits=[*_noted(estimates), *_limits(found)],
        values={
            **asdict(found),
            "rows": [asdict(row) for row in estimates],
            "mean_ratio_to_woman": None if to_man is None else 100 - to_man,
            "printed": [man, woman],
            "paper": paper,
        },
        figure=Plot(title, points, "% to man", 50.0),
    )


def _answers(
    found: GenderMeans, cut: tuple[float, float], paper: Mapping[str, GenderShares]
) -> Iterator[str]:
    """Yield how often each wording scores higher, and the mean share of 'man'."""
    yield f"Mean score of {count(found.n, 'caption')}: {found.mean:.3f}."
    man, woman = cut
    of_paper = " and ".join(map(as_range, zip(*paper.values(), strict=True)))
    yield (
        f"'man' scores higher in {count(found.counts['man'], 'caption')} and 'woman' in "
        f"{found.counts['woman']}: {man:.2f} and {woman:.2f}, cut after two decimals as "
        f"published, not rounded. Printed for {SABIR}: {of_paper}."
    )
    if found.mean_ratio_to_man is not None:
        yield (
            f"On average the share of 'man' in the two scores is {found.mean_ratio_to_man:.1f} %."
            f" Mean score of 'man' {found.mean_man:.3f}, of 'woman' {found.mean_woman:.3f}, "
            f"over all captions whatever wording wins: {found.ratio_of_means_to_man:.1f} % to man."
        )


def _limits(found: GenderMeans) -> Iterator[str]:
    """Yield which captions count otherwise."""
    if found.n_ties:
        yield (
            f"{count(found.n_ties, 'caption')} with the same score for both are counted for 'man',"
            " as published."
        )
    if found.n_without_ratio and found.mean_ratio_to_man is not None:
        yield (
            f"{count(found.n_without_ratio, 'caption')} with two scores of 0 have no share and are"
            " left out of its average."
        )


def present_scores(scores: Sequence[GenderScore], source: str) -> Audit:
    """Return the scores of captions of one wording."""
    mean = math.fsum(row.score for row in scores) / len(scores)
    rows = [
        (number, row.score, row.note or None) for number, row in enumerate(scores, 1)
    ]
    documents = []
    for row in scores:
        documents.append({"ratio_to_man": None, "ratio_to_woman": None, **asdict(row)})
    title = f"Gender score: {source}"
    points = [Point(f"row {number}", score) for number, score, _ in rows]
    not_known = (
        "mean_ratio_to_man",
        "mean_ratio_to_woman",
        "counts",
        "printed",
        "paper",
    )
    return Audit(
        title=title,
        headers=("row", "score", "note"),
        rows=rows,
        answers=[f"Mean score of {count(len(scores), 'caption')}: {mean:.3f}."],
        limits=_noted(scores),
        values={
            **dict.fromkeys(not_known),
            "rows": documents,
            "mean": mean,
            "n": len(scores),
        },
        figure=Plot(title, points, "score"),
    )


def _noted(rows: Sequence[GenderScore | GenderEstimate]) -> list[str]:
    """Return how many captions have a note."""
    n_noted = sum(bool(row.note) for row in rows)
    return [f"Captions with a note on the similarity: {n_noted}."] if n_noted else []


def audit_gender_score(
    captions: str | Path,
) -> Audit:
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
    scores: list[GenderScore] = []
    estimates: list[GenderEstimate] = []
    for row in read.rows:
        try:
            if "lm_man" in row.cells:
                man = _score_of(row, "lm_man", "sim_man")
                woman = _score_of(row, "lm_woman", "sim_woman")
                estimates.append(gender_estimate(row["caption"], man, woman))
            else:
                scores.append(_score_of(row, "lm", "sim"))
        except FixInput as error:
            row.add(None, error.message)
    violations.raise_if_any("some rows cannot be scored")
    if estimates:
        return present(estimates, path.name)
    if scores:
        return present_scores(scores, path.name)
    raise FixInput(
        "the table has no captions (no row after the header)", where=str(path)
    )


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


def _score_of(row: TableRow, lm: str, sim: str) -> GenderScore:
    """Return the score of a wording of a row, from its columns."""
    values = []
    for column in (lm, sim, "prob"):
        value = number_of_cell(row[column])
        if value is None:
            raise FixInput(f"{column} must be a number, got {row[column]!r}")
        values.append(value)
    return gender_score(*values)


def _check_probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        asked = ": is it in percent?" if 1.0 < value <= 100.0 else ""
        raise FixInput(f"{name} must be a probability, got {value}{asked}")

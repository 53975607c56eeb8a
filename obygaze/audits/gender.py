"""The Gender Score of a caption (Sabir and Padro), and the audit of a table of captions.

A language model gives the prior probability of a caption. The score revises this probability by how
well the caption fits what is seen. A caption with [MASK] has two scores: as a caption of a man, and
as a caption of a woman.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from obygaze.audits.printed import SABIR, GenderShares, as_range, published_shares
from obygaze.audits.result import Audit, Plot, Point
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import TableRow, number_of_cell, read_table
from obygaze_features.extraction.text import CAPTION_MASK

# Rounding errors of single precision can move a cosine out of [-1, 1] by at most this.
NOISE = 1e-4
COLUMNS = ("caption", "lm_man", "sim_man", "lm_woman", "sim_woman", "prob")


@dataclass(frozen=True)
class GenderEstimate:
    """The scores of the two wordings of a caption, and the wording with the higher score.

    If both scores are equal, `gender` is man, as in the original of Sabir and Padro. A ratio is the
    share of one score in the sum of both scores, in percent. It is None if both scores are 0.
    `caption` has the wording with the higher score.
    """

    caption: str
    score: float
    gender: str
    score_man: float
    score_woman: float
    ratio_to_man: float | None
    ratio_to_woman: float | None


@dataclass(frozen=True)
class GenderMeans:
    """The mean scores over captions, and the number of captions for each gender.

    The ratio of a caption is the share of the score of man in the sum of both scores, in percent. A
    caption with two scores of 0 has no ratio. A mean ratio is None if no caption has a ratio.
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


def audit_gender_score(
    captions: str | Path,
) -> Audit:
    """Score how strongly each caption of a table leans to a gender.

    Args:
        captions: A CSV table with the columns caption, lm_man, sim_man, lm_woman, sim_woman, prob,
            as `og.audit.caption_scores` writes it.

    Example:
        audit = audit_gender_score("captions.csv")
    """
    path = Path(captions)
    violations = Violations(path)
    read = read_table(path, required=COLUMNS, violations=violations)
    hint = "make the table with obygaze audit caption-scores"
    violations.raise_if_any(
        "expected each caption with both words, man and woman", hint
    )
    estimates: list[GenderEstimate] = []
    for row in read.rows:
        try:
            man = _parse_score(row, "lm_man", "sim_man")
            woman = _parse_score(row, "lm_woman", "sim_woman")
            estimates.append(gender_estimate(row["caption"], man, woman))
        except FixInput as error:
            row.add(None, error.message)
    violations.raise_if_any("rows of the table cannot be scored")
    if not estimates:
        raise FixInput("the table has no captions", where=str(path))
    return present(estimates, path.name)


# ---- numbers -------------------------------------------------------------------------------------


def gender_score(lm: float, sim: float, prob: float) -> float:
    """Return lm ** (((1 - sim) / (1 + sim)) ** (1 - prob)), or its limit where it is undefined.

    Args:
        lm: The mean token probability of the caption.
        sim: The cosine of the caption and the visual word.
        prob: The probability of the visual word.
    """
    for name, value in (("lm", lm), ("prob", prob)):
        if not 0.0 <= value <= 1.0:
            asked = ": is it in percent?" if 1.0 < value <= 100.0 else ""
            raise FixInput(f"{name} must be a probability, got {value}{asked}")
    if not abs(sim) <= 1 + NOISE:
        raise FixInput(f"sim must be a cosine between -1 and 1, got {sim}")
    cosine = min(max(sim, -1.0), 1.0)
    if cosine == -1.0 and prob < 1.0:
        # The exponent is infinite, so any prior below one gives zero.
        return float(lm == 1.0)
    base = math.inf if cosine == -1.0 else (1 - cosine) / (1 + cosine)
    return float(lm ** (base ** (1 - prob)))


def gender_estimate(caption: str, man: float, woman: float) -> GenderEstimate:
    """Compare the scores of both wordings of a caption; [MASK] stands for the gendered word."""
    total = man + woman
    to_man = 100 * man / total if total else None
    gender = "man" if man >= woman else "woman"
    return GenderEstimate(
        caption=CAPTION_MASK.sub(gender, caption),
        score=max(man, woman),
        gender=gender,
        score_man=man,
        score_woman=woman,
        ratio_to_man=to_man,
        ratio_to_woman=None if to_man is None else 100 - to_man,
    )


def compute(estimates: Sequence[GenderEstimate]) -> GenderMeans:
    """Return the mean scores over captions, and how often each wording has the higher score."""
    n = len(estimates)
    ratios = [row.ratio_to_man for row in estimates if row.ratio_to_man is not None]
    mean_man = math.fsum(row.score_man for row in estimates) / n
    mean_woman = math.fsum(row.score_woman for row in estimates) / n
    total = mean_man + mean_woman
    genders = [row.gender for row in estimates]
    return GenderMeans(
        mean=math.fsum(row.score for row in estimates) / n,
        mean_man=mean_man,
        mean_woman=mean_woman,
        ratio_of_means_to_man=100 * mean_man / total if total else None,
        mean_ratio_to_man=math.fsum(ratios) / len(ratios) if ratios else None,
        counts={name: genders.count(name) for name in ("man", "woman")},
        n_ties=sum(row.score_man == row.score_woman for row in estimates),
        n_without_ratio=n - len(ratios),
        n=n,
    )


def cut_shares(man: int, woman: int) -> tuple[float, float]:
    """Return the share of each of two counts in their sum, cut after two decimals.

    Published tables cut such shares in the same way, instead of rounding them.
    """
    total = man + woman
    if total <= 0 or man < 0 or woman < 0:
        raise FixInput(f"expected counts with a positive sum, got {man} and {woman}")
    return 100 * man // total / 100, 100 * woman // total / 100


def _parse_score(row: TableRow, lm: str, sim: str) -> float:
    """Return the score of one wording of a row, from the columns `lm`, `sim` and prob."""
    values = []
    for column in (lm, sim, "prob"):
        value = number_of_cell(row[column])
        if value is None:
            raise FixInput(f"{column} must be a number, got {row[column]!r}")
        values.append(value)
    return gender_score(*values)


# ---- the page ------------------------------------------------------------------------------------


def present(estimates: Sequence[GenderEstimate], source: str) -> Audit:
    """Return the audit of captions: its table, sentences and figure."""
    found = compute(estimates)
    cut = cut_shares(**found.counts)
    paper = published_shares()
    rows = []
    points = []
    for row in estimates:
        rows.append((row.caption, row.score, row.ratio_to_man, row.ratio_to_woman))
        points.append(Point(row.caption, row.ratio_to_man))
    title = f"Gender score: {source}"
    return Audit(
        title=title,
        headers=("caption", "score", "% to man", "% to woman"),
        rows=rows,
        answers=list(_answers(found, cut, paper)),
        limits=list(_limits(found)),
        values={
            **asdict(found),
            "rows": [asdict(row) for row in estimates],
            "printed": [*cut],
            "paper": paper,
        },
        figure=Plot(title, points, "% to man", 50.0),
    )


def _answers(
    found: GenderMeans, cut: tuple[float, float], paper: Mapping[str, GenderShares]
) -> Iterator[str]:
    """Yield how often each wording scores higher, and the mean ratio of man.

    The ratio of a caption is the share of the score of man in the sum of both scores.
    """
    yield f"Mean score of {count(found.n, 'caption')}: {found.mean:.3f}."
    man, woman = cut
    of_paper = " and ".join(map(as_range, zip(*paper.values(), strict=True)))
    yield (
        f"'man' scores higher in {count(found.counts['man'], 'caption')} and 'woman' in "
        f"{found.counts['woman']}: {man:.2f} and {woman:.2f}, cut after two decimals as "
        f"published, not rounded. Published for {SABIR}: {of_paper}."
    )
    if found.mean_ratio_to_man is not None:
        yield (
            f"On average the share of 'man' in the two scores is {found.mean_ratio_to_man:.1f} %."
            f" Mean score of 'man' {found.mean_man:.3f}, of 'woman' {found.mean_woman:.3f}, "
            f"over all captions: {found.ratio_of_means_to_man:.1f} % to man."
        )


def _limits(found: GenderMeans) -> Iterator[str]:
    """Yield the number of captions with two equal scores, and of captions without a ratio."""
    if found.n_ties:
        yield (
            f"{count(found.n_ties, 'caption')} with the same score for both count for 'man',"
            " as published."
        )
    if found.n_without_ratio:
        yield (
            f"{count(found.n_without_ratio, 'caption')} with two scores of 0 have no share and are"
            " excluded from the average."
        )

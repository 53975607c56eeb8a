"""The Gender Score of a caption (Sabir and Padro), and the audit of a table of captions.

The prior probability of a caption from a language model is revised by how well the caption fits
what is seen.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from obygaze.extensions.audits.figure import Plot, Point
from obygaze.extensions.audits.result import Audit, Finding, audit_command
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.core.options import Option
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.tables import TableRow, read_table
from obygaze_features.store import Store, open_store
from obygaze_models.text_vectors import store_word_probabilities

# Cosines computed in single precision leave [-1, 1] by rounding errors up to this.
NOISE = 1e-4
MASK = "[MASK]"
SCORE_COLUMNS = ("lm", "sim", "prob")
ESTIMATE_COLUMNS = ("caption", "lm_man", "sim_man", "lm_woman", "sim_woman", "prob")
OBJECT_HEADERS = (
    "object",
    "captions",
    "mean score man",
    "mean score woman",
    "% to man",
)


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
    objects: tuple[str, ...] = ()
    context: Mapping[str, Any] | None = None

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
        if self.estimates:
            genders = [row.gender for row in self.estimates]
            counts = {name: genders.count(name) for name in ("man", "woman")}
            printed = list(cut_shares(**counts))
        document: dict[str, Any] = {}
        if self.context:
            document["context"] = dict(self.context)
        if self.objects:
            document["by_object"] = self.by_object()
        return {
            **document,
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
            "n": len(self.rows),
        }

    def by_object(self) -> dict[str, dict[str, Any]]:
        """Return the means of both wordings over all captions of each object, in their order."""
        rows: dict[str, list[GenderEstimate]] = {}
        for name, row in zip(self.objects, self.estimates, strict=True):
            rows.setdefault(name, []).append(row)
        return {
            name: {"n": len(same_object), **_mean_scores(same_object)}
            for name, same_object in sorted(rows.items())
        }

    def finding(self) -> Finding:
        """Return one row per caption, or per object if they are known; sentences with the means."""
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
        if self.context:
            sentences.append(
                f"P(c) is the softmax over {len(self.context['words'])} words of "
                f"{self.context['logit_scale']:g} times the cosine of clip and word."
            )
        title = f"Gender score: {self.source}" if self.source else "Gender score"
        return Finding(title, headers, tuple(rows), sentences=tuple(sentences))

    def _table(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the headers and rows for a reader: by object, by caption, or by number."""
        rows: list[tuple[object, ...]] = []
        if self.objects:
            for name, means in self.by_object().items():
                rows.append((name, *means.values()))
            return OBJECT_HEADERS, rows
        if self.estimates:
            for row in self.estimates:
                shares = (row.ratio_to_man, row.ratio_to_woman)
                rows.append((row.caption, row.score, *shares, row.note or None))
            return ("caption", "score", "% to man", "% to woman", "note"), rows
        for number, scored in enumerate(self.rows, 1):
            rows.append((number, scored.score, scored.note or None))
        return ("row", "score", "note"), rows

    def plot(self) -> Plot:
        """Return the share of 'man' in the scores of each caption or object; else the scores."""
        shares = [(row.caption, row.ratio_to_man) for row in self.estimates]
        if self.objects:
            shares = [
                (name, means["ratio_of_means_to_man"])
                for name, means in self.by_object().items()
            ]
        if not shares:
            rows = [Point(f"row {i}", row.score) for i, row in enumerate(self.rows, 1)]
            return Plot("Gender scores", rows, "score")
        points = [
            Point(name, share, (), f"{share:.1f} %")
            for name, share in shares
            if share is not None
        ]
        points.sort(key=lambda point: -point.value)
        title = "Share of 'man' in the two scores, in percent"
        return Plot(title, points, "woman  ←  →  man", 50)


def _sentences_of_estimates(summary: Mapping[str, Any]) -> list[str]:
    """Return how often each wording wins, and the means of both."""
    counts = summary["counts"]
    man, woman = summary["printed"]
    sentences = [
        f"'man' scores higher in {count(counts['man'], 'caption')} and 'woman' in "
        f"{counts['woman']}: {man:.2f} and {woman:.2f}, cut after two decimals as "
        "published, not rounded."
    ]
    mean = summary["mean_ratio_to_man"]
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


def audit_gender_score(
    captions: str | Path,
    *,
    by: Annotated[str | None, Option(metavar="COLUMN")] = None,
    store: Store | str | Path | None = None,
    text: str | Path | None = None,
    array: str = "clip",
    logit_scale: float | None = None,
    assume_space: bool = False,
    workspace: str | Path | None = None,
) -> GenderAudit:
    """Score how strongly each caption of a table leans to a gender.

    With a store, the probability of the visual word (the column visual) is computed from the vector
    of the clip (clip_id): the softmax, over the attributes of the texts, of the logit scale times
    the cosine of clip and word. The column prob is then not used.

    Args:
        captions: A CSV table with the columns lm, sim, prob, or with caption, lm_man, sim_man,
            lm_woman, sim_woman, prob for captions in both wordings.
        by: The column of the object that a caption is about: means of both wordings for each.
        store: The store that has the vectors of the clips, or its name, path or URL.
        text: An npz file of text vectors; by default the texts of the store.
        array: The array of the store to read.
        logit_scale: The factor of the model's cosines; by default that of CLIP, 100.
        assume_space: Assume one embedding space if the store or the texts do not name theirs.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_gender_score("captions.csv")

    Commands:
        obygaze audit gender-score captions.csv
        obygaze audit gender-score captions.csv --store obygaze12.clip-b16 --text objects.npz
        obygaze audit gender-score captions.csv --by visual --json
    """
    path = Path(captions)
    violations = Violations(path)
    required = ("prob",) if store is None else ("clip_id", "visual")
    read = read_table(path, required=required, violations=violations)
    _check_columns(read.columns, by, violations)
    lines = read.rows
    context = None
    if store is not None and lines:
        chances, scale = store_word_probabilities(
            open_store(store, workspace=workspace),
            [row["clip_id"] for row in lines],
            logit_scale=logit_scale,
            text=text,
            array=array,
            assume_space=assume_space,
        )
        prob = _visual_probabilities(lines, chances, violations)
        context = {"logit_scale": scale, "words": list(chances[0]), "prob": prob}
        lines = tuple(
            replace(row, cells={**row.cells, "prob": repr(p)})
            for row, p in zip(lines, prob, strict=True)
        )
    rows = [_score_row(row) for row in lines]
    violations.raise_if_any("some rows cannot be scored")
    if not rows:
        raise FixInput(
            "the table has no captions (no row after the header)", where=str(path)
        )
    objects: tuple[str, ...] = ()
    if by is not None:
        objects = tuple(row[by] for row in read.rows)
    scored = tuple(row for row in rows if row is not None)
    return GenderAudit(scored, path.name, objects, context)


def _visual_probabilities(
    lines: Sequence[TableRow],
    chances: Sequence[Mapping[str, float]],
    violations: Violations,
) -> list[float]:
    """Return the probability of the visual word of each caption; all words must be known."""
    for row in lines:
        if row["visual"] not in chances[0]:
            row.add("visual", f"the texts have no attribute {row['visual']!r}")
    violations.raise_if_any("the texts do not have every visual word")
    return [chance[row["visual"]] for row, chance in zip(lines, chances, strict=True)]


def _check_columns(
    columns: Sequence[str], by: str | None, violations: Violations
) -> None:
    """Raise an error if a table has the columns of neither form."""
    form = ESTIMATE_COLUMNS if by or "lm_man" in columns else SCORE_COLUMNS
    wanted = [name for name in form if name != "prob"]
    if by:
        wanted.append(by)
    missing = [name for name in wanted if name not in columns]
    # Without a header, the table itself is already a violation.
    if columns and missing:
        scores = ", ".join(SCORE_COLUMNS)
        estimates = ", ".join(ESTIMATE_COLUMNS)
        names = ", ".join(missing)
        violations.add(
            1, None, f"missing column {names}; expected {scores} or {estimates}"
        )
    hint = "obygaze extract captions adds priors and similarities"
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
        caption=caption.replace(MASK, gender),
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
            try:
                values.append(float(row[column]))
            except ValueError:
                raise FixInput(
                    f"{column} must be a number, got {row[column]!r}"
                ) from None
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


command = audit_command(audit_gender_score, "gender-score")

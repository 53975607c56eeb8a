"""The runs of MediaEval 2015 Affective Impact of Movies: read, written and scored.

Violence is ranked (TREC lines); valence and arousal are classified as -1, 0 or 1. `ap_trec` is what
trec_eval prints: scores descending, ties by document name descending, and every judged relevant
document in the denominator, even if it was not returned.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import TableRow, numbered_lines, whole_number

CLASSES = (-1, 0, 1)
# trec_eval kept scores as C floats when the 2015 results were made; later versions as doubles.
Precision = Literal["float32", "float64"]
# A measure, its value, that of the returned clips, that of chance, and that of the majority.
Row = tuple[str, float, float | None, float | None, float | None]


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Return judgements by topic and document, from TREC lines `topic 0 document grade`.

    Args:
        path: The file.
    """
    violations = Violations(path)
    grades = dict[str, dict[str, int]]()
    for row in _rows(Path(path), "topic 0 document grade", violations):
        judged = grades.setdefault(row["topic"], {})
        grade = whole_number(row["grade"])
        if grade is None:
            row.add("grade", f"expected a whole number, got {row['grade']!r}")
        elif row["document"] in judged:
            row.add("document", f"{row['document']!r} has more than one judgement")
        else:
            judged[row["document"]] = grade
    violations.raise_if_any("these are not TREC judgements")
    return grades


def read_trec_run(
    path: str | Path,
) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
    """Return scores by topic and document, and warnings about lines.

    The lines of TREC are `topic Q0 document rank score tag`. As in trec_eval, a score that is not
    a number becomes 0 and NaN ranks last, with a warning.

    Args:
        path: The file.
    """
    violations = Violations(path)
    scores = dict[str, dict[str, float]]()
    warnings = list[str]()
    for row in _rows(Path(path), "topic Q0 document rank score tag", violations):
        returned = scores.setdefault(row["topic"], {})
        text = row["score"]
        if row["document"] in returned:
            row.add("document", f"{row['document']!r} is in the run more than once")
        try:
            score = float(text)
            outcome = "ranked last" if math.isnan(float(text)) else ""
        except ValueError:
            score = 0.0
            outcome = "counted as 0"
        if outcome:
            warnings.append(
                f"{path}:{row.line}: the score {text!r} is {outcome}, as in trec_eval"
            )
        returned[row["document"]] = score
    violations.raise_if_any("this is not a TREC run")
    return scores, tuple(warnings)


def read_affect_run(path: str | Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return valence and arousal classes by clip, from lines `name valenceClass arousalClass`.

    Args:
        path: The file.
    """
    violations = Violations(path)
    lines = dict[str, int]()
    valence = dict[str, int]()
    arousal = dict[str, int]()
    for row in _rows(Path(path), "name valence arousal", violations):
        name = row.unique("name", lines)
        for column, classes in (("valence", valence), ("arousal", arousal)):
            text = row.one_of(column, list(map(str, CLASSES)))
            classes[name] = whole_number(text) or 0
    violations.raise_if_any("this is not an affect run")
    return valence, arousal


def is_affect_run(path: Path) -> bool:
    """Return whether the lines of a run have three words: classes of affect, not a ranking."""
    first = next(numbered_lines(path, Violations(path)), (1, ""))[1]
    return len(first.split()) == 3


def _rows(path: Path, form: str, violations: Violations) -> Iterator[TableRow]:
    """Yield the words of each line that has as many as the form; other lines are violations."""
    columns = form.split()
    line = ""
    for number, line in numbered_lines(path, violations):
        words = line.split()
        if len(words) == len(columns):
            yield TableRow(number, dict(zip(columns, words, strict=True)), violations)
        else:
            violations.add(number, None, f"expected {form!r}, got {len(words)} words")
    if not line:
        violations.add(1, None, "the file is empty")


@dataclass(frozen=True)
class RankingScore:
    """A ranked run against its judgements, in every form published as average precision.

    `tied` is the share of returned documents with a tied score, and `ap_random` what a random
    order gives on average.
    """

    ap_trec: float
    ap_sklearn: float
    pr_auc_trapezoid: float
    tied: float
    ap_random: float
    n_returned: int
    n_judged: int
    n_relevant: int
    n_relevant_returned: int
    n_unjudged: int

    def rows(self) -> list[Row]:
        """Return each average precision: its name, value, none of the returned, and chance."""
        chance = self.ap_random
        return [
            ("ap_trec", self.ap_trec, None, chance, None),
            ("ap_sklearn", self.ap_sklearn, None, chance, None),
            ("pr_auc_trapezoid", self.pr_auc_trapezoid, None, None, None),
        ]

    def to_sentences(self) -> list[str]:
        """Return what a reader must know about ties and missing clips."""
        sentences = []
        if self.tied:
            sentences.append(
                f"{100 * self.tied:.1f} % of the scores are tied; as in trec_eval, their order "
                "is that of the names, from z to a."
            )
        missing = self.n_judged + self.n_unjudged - self.n_returned
        if missing:
            sentences.append(f"{missing} judged clips were not returned.")
        if self.n_unjudged:
            sentences.append(
                f"{self.n_unjudged} clips without judgement count as not relevant."
            )
        return sentences


@dataclass(frozen=True)
class AffectScore:
    """Predicted classes against true ones, over all clips and over the returned ones.

    The rows of `confusion` are the true classes -1, 0, 1.
    """

    accuracy: float
    accuracy_returned: float | None
    n: int
    n_returned: int
    n_unknown: int
    majority: float
    random: float
    confusion: tuple[tuple[int, ...], ...]

    def rows(self) -> list[Row]:
        """Return the accuracy: over all, of the returned, by chance and of the largest class."""
        values = (self.accuracy, self.accuracy_returned, self.random, self.majority)
        return [("accuracy", *values)]

    def to_sentences(self) -> list[str]:
        """Return what a reader must know about missing and unknown clips."""
        texts = {
            "clips without a class count as wrong over all.": self.n - self.n_returned,
            "clips of the run have no true class.": self.n_unknown,
        }
        return [f"{n} {text}" for text, n in texts.items() if n]


def score_affect(truth: Mapping[str, int], predicted: Mapping[str, int]) -> AffectScore:
    """Score the classes of a run; a clip that was not returned counts as wrong over all.

    Args:
        truth: The true class of each clip.
        predicted: The class of each returned clip.
    """
    returned = [name for name in predicted if name in truth]
    hits = sum(truth[name] == predicted[name] for name in returned)
    pairs = Counter((truth[name], predicted[name]) for name in returned)
    confusion = []
    for true in CLASSES:
        confusion.append(tuple(pairs[true, guess] for guess in CLASSES))
    accuracy_returned = None
    if returned:
        accuracy_returned = hits / len(returned)
    return AffectScore(
        accuracy=hits / len(truth),
        accuracy_returned=accuracy_returned,
        n=len(truth),
        n_returned=len(returned),
        n_unknown=len(predicted) - len(returned),
        majority=max(Counter(truth.values()).values()) / len(truth),
        random=1 / len(CLASSES),
        confusion=tuple(confusion),
    )


def score_ranking(
    judgements: Mapping[str, int],
    run: Mapping[str, float],
    precision: Precision = "float32",
) -> RankingScore:
    """Score the ranking of one topic. A document without a judgement counts as not relevant.

    Args:
        judgements: The grade of each judged document; above 0 is relevant.
        run: The score of each returned document.
        precision: How `ap_trec` compares scores; sklearn always compares doubles.
    """
    relevant = {name for name, grade in judgements.items() if grade > 0}
    n_relevant = len(relevant)
    order, groups = _ranked(run, relevant, precision)
    # sklearn ranks all judged and returned documents, those not returned below all others.
    _, sklearn_groups = _ranked(run, relevant, "float64")
    unreturned = judgements.keys() - run.keys()
    if unreturned:
        sklearn_groups.append((len(unreturned), len(relevant & unreturned)))
    steps = []
    trapezoids = []
    curve = _recall_and_precision(sklearn_groups, n_relevant)
    for (recall_before, precision_before), (recall_at, precision_at) in pairwise(curve):
        width = recall_at - recall_before
        steps.append(width * precision_at)
        trapezoids.append(width * (precision_before + precision_at) / 2)
    return RankingScore(
        ap_trec=_ap((name in relevant for name in order), n_relevant),
        ap_sklearn=sum(steps, 0.0),
        pr_auc_trapezoid=sum(trapezoids, 0.0),
        tied=sum(size for size, _ in groups if size > 1) / max(len(order), 1),
        ap_random=_random_ap(len(judgements), n_relevant),
        n_returned=len(order),
        n_judged=len(judgements),
        n_relevant=n_relevant,
        n_relevant_returned=sum(n_hits for _, n_hits in groups),
        n_unjudged=len(run.keys() - judgements.keys()),
    )


def _recall_and_precision(
    groups: Sequence[tuple[int, int]], n_relevant: int
) -> list[tuple[float, float]]:
    """Return recall and precision before all documents and after each group of equal scores."""
    curve = [(0.0, 1.0)]
    n_ranked = 0
    n_hits = 0
    for size, n_hits_of_group in groups:
        n_ranked += size
        n_hits += n_hits_of_group
        curve.append((n_hits / max(n_relevant, 1), n_hits / n_ranked))
    return curve


def _ranked(
    run: Mapping[str, float], relevant: set[str], precision: Precision
) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the documents from the highest score to the lowest, and the groups of one score.

    A group is how many documents it has, and how many of them are relevant.
    """
    values = np.array(list(run.values()), dtype=np.float64)
    values[np.isnan(values)] = -np.inf  # below all other scores, as in trec_eval
    with np.errstate(over="ignore"):
        scores = dict(zip(run, values.astype(precision).tolist(), strict=True))
    order = sorted(
        scores, key=lambda name: (scores[name], name.encode("utf-8")), reverse=True
    )
    groups = []
    for _, tied in groupby(order, key=scores.__getitem__):
        is_relevant = [name in relevant for name in tied]
        groups.append((len(is_relevant), sum(is_relevant)))
    return order, groups


def _ap(hits: Iterable[bool], n_relevant: int) -> float:
    """Return the average precision of documents in their order."""
    ranks = [rank for rank, hit in enumerate(hits, start=1) if hit]
    precisions = [n_hits / rank for n_hits, rank in enumerate(ranks, start=1)]
    return math.fsum(precisions) / max(n_relevant, 1)


def _random_ap(n: int, n_relevant: int) -> float:
    """Return the mean average precision over all orders of n documents."""
    if not n_relevant:
        return 0.0
    position = np.arange(1, n + 1)
    others = (n_relevant - 1) / (n - 1) if n > 1 else 0.0
    precisions = (1 + (position - 1) * others) / position
    return float(precisions.mean())

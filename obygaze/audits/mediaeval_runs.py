"""The runs of MediaEval 2015 Affective Impact of Movies: read, written and scored.

Violence is ranked (TREC lines); valence and arousal are classified as -1, 0 or 1. The files of the
task derive the classes from scores on [-1, 1]: below -.15 is negative, above .15 positive, and the
bounds themselves are neutral. `ap_trec` is what trec_eval prints: scores descending, ties by
document name descending, and every judged relevant document in the denominator, even if it was not
returned.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from obygaze.films.predictions import score_column
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import write_new
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import (
    TableRow,
    number_of_cell,
    numbered_lines,
    read_table,
    whole_number,
)

CLASSES = (-1, 0, 1)
AFFECT = ("valence", "arousal")
BOUND = 0.15
# The clips of the task; official files name them with their file ending.
_OFFICIAL_CLIP = re.compile(r"(ACCEDE|MEDIAEVAL)[0-9]{5}")
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
        for column, classes in zip(AFFECT, (valence, arousal), strict=True):
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


def official_name(clip_id: str) -> str:
    """Return the name of a clip in the official files of the task; other ids as they are.

    >>> official_name("ACCEDE00286"), official_name("tt0108160-001")
    ('ACCEDE00286.mp4', 'tt0108160-001')
    """
    return f"{clip_id}.mp4" if _OFFICIAL_CLIP.fullmatch(clip_id) else clip_id


def affect_class(score: float) -> int:
    """Return the class of a score on [-1, 1], as in the files of the task.

    >>> [affect_class(score) for score in (-0.16, -0.15, 0.0, 0.15, 0.16)]
    [-1, 0, 0, 0, 1]
    """
    if score < -BOUND:
        return -1
    if score > BOUND:
        return 1
    return 0


def write_affect_run(path: Path, table: Path, *, force: bool = False) -> int:
    """Write a run of valence and arousal, and return how many clips it has.

    Args:
        path: The file of the run: a line has the name of a clip, and its classes of both.
        table: The scores: a table with the columns clip_id, valence and arousal, on [-1, 1].
        force: Replace the file if it exists.
    """
    scores = _scores_of_table(table, AFFECT, "scores of affect", least=-1, most=1)
    lines = []
    for name, of_clip in sorted(_by_official_name(scores, table).items()):
        valence, arousal = map(affect_class, of_clip)
        lines.append(f"{name} {valence} {arousal}\n")
    write_new(path, "".join(lines).encode("utf-8"), force=force)
    return len(lines)


def write_trec_run(path: Path, predictions: Path, *, force: bool = False) -> int:
    """Write a run of violence, and return how many clips it has.

    Args:
        path: The file of the run, of TREC lines; the name of the table is their tag.
        predictions: A table of predictions of a model of two classes.
        force: Replace the file if it exists.
    """
    columns = read_table(predictions, required=("clip_id",)).columns
    column = score_column(columns, predictions)
    scores = _scores_of_table(predictions, (column,), "predictions")
    named = {}
    for name, (score,) in _by_official_name(scores, predictions).items():
        named[name] = score
    tag = predictions.stem
    _require_word(tag, predictions)
    # In the order of trec_eval, so that ranks and scores agree.
    order = sorted(
        named, key=lambda name: (named[name], name.encode("utf-8")), reverse=True
    )
    lines = []
    for rank, name in enumerate(order, start=1):
        lines.append(f"violence Q0 {name} {rank} {named[name]!r} {tag}\n")
    write_new(path, "".join(lines).encode("utf-8"), force=force)
    return len(lines)


def _scores_of_table(
    path: Path,
    columns: Sequence[str],
    content: str,
    *,
    least: float = -math.inf,
    most: float = math.inf,
) -> dict[str, tuple[float, ...]]:
    """Return the finite numbers of some columns of a table, for each clip."""
    violations = Violations(path)
    table = read_table(
        path, required=("clip_id", *columns), content=content, violations=violations
    )
    violations.raise_if_any(f"these are no {content}")
    expected = "a number"
    if least > -math.inf:
        expected = f"a number from {least} to {most}"
    scores: dict[str, tuple[float, ...]] = {}
    lines: dict[str, int] = {}
    for row in table.rows:
        clip_id = row.unique("clip_id", lines)
        of_clip = []
        for column in columns:
            score = number_of_cell(row[column])
            if score is None or not least <= score <= most:
                row.add(column, f"expected {expected}, got {row[column]!r}")
            else:
                of_clip.append(score)
        scores[clip_id] = tuple(of_clip)
    violations.raise_if_any(f"these are no {content}")
    return scores


def _by_official_name(
    scores: Mapping[str, tuple[float, ...]], path: Path
) -> dict[str, tuple[float, ...]]:
    """Return scores by the official names of clips, which are words, each once."""
    named = {}
    for clip_id, of_clip in scores.items():
        name = official_name(clip_id)
        _require_word(name, path)
        if name in named:
            raise FixInput(
                f"the scores have {name!r} under two ids, with .mp4 and without, and a run has each"
                " clip once",
                where=str(path),
                hint="leave out one row of each",
            )
        named[name] = of_clip
    return named


def _require_word(name: str, path: Path) -> None:
    if name.split() != [name]:
        raise FixInput(
            f"{name!r} cannot be written to a run file: names must not have blanks",
            where=str(path),
        )


@dataclass(frozen=True)
class RankingScore:
    """A ranked run against its judgements: average precision, as trec_eval has it.

    `tied` is the share of returned documents with a tied score, and `ap_random` what a random
    order gives on average.
    """

    ap_trec: float
    tied: float
    ap_random: float
    n_returned: int
    n_judged: int
    n_relevant: int
    n_relevant_returned: int
    n_unjudged: int

    def rows(self) -> list[Row]:
        """Return average precision: its name, value, none of the returned, and chance."""
        return [("ap_trec", self.ap_trec, None, self.ap_random, None)]

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
    judgements: Mapping[str, int], run: Mapping[str, float]
) -> RankingScore:
    """Score the ranking of one topic. A document without a judgement counts as not relevant.

    Args:
        judgements: The grade of each judged document; above 0 is relevant.
        run: The score of each returned document.
    """
    relevant = {name for name, grade in judgements.items() if grade > 0}
    scores = _as_trec_eval(run)
    order = sorted(
        scores, key=lambda name: (scores[name], name.encode("utf-8")), reverse=True
    )
    n_of_score = Counter(scores.values())
    n_tied = sum(n for n in n_of_score.values() if n > 1)
    return RankingScore(
        ap_trec=_ap((name in relevant for name in order), len(relevant)),
        tied=n_tied / max(len(order), 1),
        ap_random=_random_ap(len(judgements), len(relevant)),
        n_returned=len(order),
        n_judged=len(judgements),
        n_relevant=len(relevant),
        n_relevant_returned=len(relevant & run.keys()),
        n_unjudged=len(run.keys() - judgements.keys()),
    )


def _as_trec_eval(run: Mapping[str, float]) -> dict[str, float]:
    """Return scores as C floats, as trec_eval kept them when the results of 2015 were made."""
    values = np.array(list(run.values()), dtype=np.float64)
    values[np.isnan(values)] = -np.inf  # below all other scores
    with np.errstate(over="ignore"):
        return dict(zip(run, values.astype(np.float32).tolist(), strict=True))


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

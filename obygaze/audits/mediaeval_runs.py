"""The runs of MediaEval 2015 Affective Impact of Movies: read, written and scored.

Violence is ranked (TREC lines); valence and arousal are classified as -1, 0 or 1. The files of the
task derive the classes from scores on [-1, 1]: below -.15 is negative, above .15 positive, and the
bounds themselves are neutral. `ap_trec` is the average precision that trec_eval prints. Documents
are ranked by descending score, documents with equal scores by descending name. The denominator of
the average precision is the number of all documents that are judged relevant, even if the run did
not return them.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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


# ---- read ----------------------------------------------------------------------------------------


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Return judgements by topic and document, from TREC lines `topic 0 document grade`."""
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
    a number becomes 0, and the score NaN ranks last. Both give a warning.
    """
    violations = Violations(path)
    scores = dict[str, dict[str, float]]()
    warnings = list[str]()
    for row in _rows(Path(path), "topic Q0 document rank score tag", violations):
        returned = scores.setdefault(row["topic"], {})
        if row["document"] in returned:
            row.add("document", f"{row['document']!r} is in the run more than once")
        try:
            score = float(row["score"])
            outcome = "ranked last" if math.isnan(score) else ""
        except ValueError:
            score = 0.0
            outcome = "counted as 0"
        if outcome:
            warnings.append(
                f"{path}:{row.line}: the score {row['score']!r} is {outcome}, as in trec_eval"
            )
        returned[row["document"]] = score
    violations.raise_if_any("this is not a TREC run")
    return scores, tuple(warnings)


def read_affect_run(path: str | Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return valence and arousal classes by clip, from lines `name valenceClass arousalClass`."""
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
    first = next(numbered_lines(path), (1, ""))[1]
    return len(first.split()) == 3


def _rows(path: Path, form: str, violations: Violations) -> Iterator[TableRow]:
    """Yield the words of each line that has as many words as `form`.

    A line with another number of words becomes a violation.
    """
    columns = form.split()
    line = ""
    for number, line in numbered_lines(path):
        words = line.split()
        if len(words) == len(columns):
            yield TableRow(number, dict(zip(columns, words, strict=True)), violations)
        else:
            violations.add(number, None, f"expected {form!r}, got {len(words)} words")
    if not line:
        violations.add(1, None, "the file is empty")


# ---- write ---------------------------------------------------------------------------------------


def official_name(clip_id: str) -> str:
    """Return the name of a clip in the official files of the task; other ids stay unchanged.

    >>> official_name("ACCEDE00286"), official_name("tt0108160-001")
    ('ACCEDE00286.mp4', 'tt0108160-001')
    """
    return f"{clip_id}.mp4" if _OFFICIAL_CLIP.fullmatch(clip_id) else clip_id


def affect_class(score: float) -> int:
    """Return the class of a score on [-1, 1], as in the official files of MediaEval 2015.

    >>> [affect_class(score) for score in (-0.16, -0.15, 0.0, 0.15, 0.16)]
    [-1, 0, 0, 0, 1]
    """
    return int(score > BOUND) - int(score < -BOUND)


def write_affect_run(path: Path, table: Path, *, force: bool = False) -> int:
    """Write a run of valence and arousal, and return how many clips it has.

    Args:
        path: The file of the run; a line has a clip, its class of valence and its class of arousal.
        table: The scores: a table with the columns clip_id, valence and arousal, on [-1, 1].
        force: Replace the file if it exists.
    """
    scores = _scores_of_table(table, AFFECT, "scores of affect", most=1)
    lines = []
    for name, of_clip in sorted(scores.items()):
        valence, arousal = map(affect_class, of_clip)
        lines.append(f"{name} {valence} {arousal}\n")
    write_new(path, "".join(lines).encode("utf-8"), force=force)
    return len(lines)


def write_trec_run(path: Path, predictions: Path, *, force: bool = False) -> int:
    """Write a run of violence, and return how many clips it has.

    Args:
        path: The file of the run, with TREC lines; their tag is the name of the table.
        predictions: A table of predictions of a model of two classes.
        force: Replace the file if it exists.
    """
    columns = read_table(predictions, required=("clip_id",)).columns
    column = score_column(columns, predictions)
    scores = _scores_of_table(predictions, (column,), "predictions")
    tag = predictions.stem
    _require_word(tag, predictions)
    lines = []
    score_of = {name: score for name, (score,) in scores.items()}
    for rank, name in enumerate(_in_order(score_of), start=1):
        lines.append(f"violence Q0 {name} {rank} {score_of[name]!r} {tag}\n")
    write_new(path, "".join(lines).encode("utf-8"), force=force)
    return len(lines)


def _scores_of_table(
    path: Path, columns: Sequence[str], content: str, most: float = math.inf
) -> dict[str, tuple[float, ...]]:
    """Return for each official name of a clip its numbers in some columns of a table.

    Raise an error for a name with blanks, and for a clip with two ids.
    """
    violations = Violations(path)
    table = read_table(
        path, required=("clip_id", *columns), content=content, violations=violations
    )
    violations.raise_if_any(f"these are no {content}")
    expected = f"a number from {-most} to {most}" if most < math.inf else "a number"
    scores: dict[str, tuple[float, ...]] = {}
    lines: dict[str, int] = {}
    for row in table.rows:
        name = official_name(row.unique("clip_id", lines))
        of_clip = []
        for column in columns:
            score = number_of_cell(row[column])
            if score is None or not -most <= score <= most:
                row.add(column, f"expected {expected}, got {row[column]!r}")
            else:
                of_clip.append(score)
        if name in scores and lines[row["clip_id"]] == row.line:
            row.add("clip_id", f"{name!r} has two ids, with .mp4 and without")
        scores[name] = tuple(of_clip)
    violations.raise_if_any(f"these are no {content}")
    for name in scores:
        _require_word(name, path)
    return scores


def _require_word(name: str, path: Path) -> None:
    if name.split() != [name]:
        raise FixInput(
            f"expected a name without blanks for a run file, got {name!r}",
            where=str(path),
        )


# ---- score ---------------------------------------------------------------------------------------


def _in_order(scores: Mapping[str, float]) -> list[str]:
    """Return documents sorted as trec_eval sorts them.

    Scores are descending. Documents with equal scores have descending names.
    """
    return sorted(
        scores, key=lambda name: (scores[name], name.encode("utf-8")), reverse=True
    )


def score_affect(
    truth: Mapping[str, int], predicted: Mapping[str, int]
) -> dict[str, Any]:
    """Return the accuracy of the classes of a run; a clip that was not returned counts as wrong.

    The rows of `confusion` are the true classes -1, 0, 1, and its columns are the predicted
    classes.
    """
    returned = [name for name in predicted if name in truth]
    pairs = Counter((truth[name], predicted[name]) for name in returned)
    confusion = []
    for true in CLASSES:
        confusion.append([pairs[true, guess] for guess in CLASSES])
    return {
        "accuracy": sum(pairs[true, true] for true in CLASSES) / len(truth),
        "confusion": confusion,
        "n_judged": len(truth),
        "n_missing": len(truth) - len(returned),
        "n_unjudged": len(predicted) - len(returned),
    }


def score_ranking(
    judgements: Mapping[str, int], run: Mapping[str, float]
) -> dict[str, Any]:
    """Return average precision of the ranking of one topic.

    A document with a grade above 0 is relevant. A document without a judgement counts as not
    relevant. Scores are rounded to single precision, as in the trec_eval of the year 2015.
    """
    relevant = {name for name, grade in judgements.items() if grade > 0}
    values = np.array(list(run.values()), dtype=np.float64)
    values[np.isnan(values)] = -np.inf  # NaN ranks below all other scores.
    with np.errstate(over="ignore"):
        scores = dict(zip(run, values.astype(np.float32).tolist(), strict=True))
    order = enumerate(_in_order(scores), start=1)
    ranks = [rank for rank, name in order if name in relevant]
    precisions = [n_hits / rank for n_hits, rank in enumerate(ranks, start=1)]
    return {
        "ap_trec": math.fsum(precisions) / max(len(relevant), 1),
        "n_judged": len(judgements),
        "n_missing": len(judgements.keys() - run.keys()),
        "n_unjudged": len(run.keys() - judgements.keys()),
    }

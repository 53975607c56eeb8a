"""The files of MediaEval 2015 Affective Impact of Movies: runs, judgements, and the task's rules.

Violence is ranked (TREC lines); valence and arousal are classified as -1, 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import pretty_json, require_file, write_all_new
from obygaze_features.core.schema_check import Violations, read_json

T = TypeVar("T")
CLASSES = (-1, 0, 1)
MAX_RUNS = 5


@dataclass(frozen=True)
class TrecRun:
    """The scores of a run by topic and document, and warnings about its lines."""

    scores: Mapping[str, Mapping[str, float]]
    warnings: tuple[str, ...] = ()


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Return judgements by topic and document, from TREC lines `topic 0 document grade`.

    Args:
        path: The file.
    """
    violations, grades = Violations(path), dict[str, dict[str, int]]()
    for number, words in _rows(Path(path), "topic 0 document grade", violations):
        topic, _, document, grade = words
        if _parsed(int, grade) is None:
            violations.add(number, "grade", f"expected a whole number, got {grade!r}")
        elif document in grades.setdefault(topic, {}):
            violations.add(number, "document", f"{document!r} has more than one judgement")
        else:
            grades[topic][document] = int(grade)
    violations.raise_if_any("these are not TREC judgements")
    return grades


def read_trec_run(path: str | Path) -> TrecRun:
    """Return scores by topic and document, from TREC lines `topic Q0 document rank score tag`.

    As in trec_eval, a score that is not a number becomes 0 and NaN ranks last, with a warning.

    Args:
        path: The file.
    """
    violations, scores = Violations(path), dict[str, dict[str, float]]()
    warnings = []
    for number, words in _rows(Path(path), "topic Q0 document rank score tag", violations):
        topic, _, document, _, text, _ = words
        if document in scores.setdefault(topic, {}):
            violations.add(number, "document", f"{document!r} is in the run more than once")
        score = _parsed(float, text)
        if score is None or math.isnan(score):
            outcome = "counted as 0" if score is None else "ranked last"
            warnings.append(f"{path}:{number}: the score {text!r} is {outcome}, as in trec_eval")
        scores[topic][document] = 0.0 if score is None else score
    violations.raise_if_any("this is not a TREC run")
    return TrecRun(scores, tuple(warnings))


def read_affect_run(path: str | Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return valence and arousal classes by clip, from lines `name valenceClass arousalClass`.

    Args:
        path: The file.
    """
    violations, valence, arousal = Violations(path), dict[str, int](), dict[str, int]()
    for number, (name, *classes) in _rows(Path(path), "name valence arousal", violations):
        if name in valence:
            violations.add(number, "name", f"{name!r} is in the run more than once")
        elif any(_parsed(int, text) not in CLASSES for text in classes):
            violations.add(number, None, f"expected classes -1, 0 or 1, got {' '.join(classes)}")
        else:
            valence[name], arousal[name] = map(int, classes)
    violations.raise_if_any("this is not an affect run")
    return valence, arousal


def is_affect_run(path: Path) -> bool:
    """Return whether the lines of a run have three words: classes of affect, not a ranking."""
    require_file(path)
    with path.open("rb") as stream:
        first = next((line.split() for line in stream if line.strip()), [])
    return len(first) == 3


def check_rules(runs: Sequence[Path]) -> list[str]:
    """Return which rules of the task are broken by the runs of one subtask and one team.

    A JSON file of the same name beside each run must have the field `external_data`.
    """
    broken = []
    if len(runs) > MAX_RUNS:
        broken.append(f"{len(runs)} runs, at most {MAX_RUNS} are allowed for a subtask")
    external = {run: uses_external_data(run) for run in runs}
    broken += [
        f"{run}: {run.with_suffix('.json').name} with the field external_data is missing"
        for run, uses in external.items()
        if uses is None
    ]
    # A run whose file is missing may be the one without external data.
    if runs and all(external.values()):
        broken.append("all runs use external data; at least one must be without it")
    return broken


def uses_external_data(run: Path) -> bool | None:
    """Return the field `external_data` of the JSON file beside a run; None without a file."""
    path = run.with_suffix(".json")
    if not path.is_file():
        return None
    answer = read_json(path.read_bytes(), str(path)).tree.get("external_data")
    if not isinstance(answer, bool):
        raise FixInput("the field external_data must be true or false", where=str(path))
    return answer


def write_run_file(
    path: Path,
    predictions: Mapping[str, float] | Mapping[str, tuple[int, int]],
    *,
    subtask: str,
    external_data: bool,
    tag: str = "obygaze",
    about: Mapping[str, Any] | None = None,
    force: bool = False,
) -> tuple[Path, Path]:
    """Write a run in the format of the task and a JSON file beside it; return both paths.

    Args:
        path: The file of the run.
        predictions: The score of each clip, or its valence and arousal classes.
        subtask: "violence" (scores) or "affect" (classes).
        external_data: Whether data from outside the task were used.
        tag: The name of the run, last on each TREC line.
        about: Further fields of the JSON file.
        force: Replace files that exist.
    """
    if subtask not in ("violence", "affect"):
        raise FixUsage(f"unknown subtask {subtask!r}", hint="violence or affect")
    if not predictions:
        raise FixInput("a run needs at least one clip, got none", where=str(path))
    if path.suffix == ".json":
        raise FixUsage(f"a run must not be a .json file, got {path.name!r}", hint="run.txt")
    lines = (_trec_lines if subtask == "violence" else _affect_lines)(predictions, tag)
    beside = path.with_suffix(".json")
    document = {"subtask": subtask, "external_data": external_data, "tag": tag, **(about or {})}
    text = "".join(f"{line}\n" for line in lines)
    write_all_new({path: text.encode("utf-8"), beside: pretty_json(document)}, force=force)
    return path, beside


def _trec_lines(predictions: Mapping[str, Any], tag: str) -> list[str]:
    scores = {_word(name): float(score) for name, score in predictions.items()}
    for name, score in scores.items():
        if not math.isfinite(score):
            raise FixInput(f"the score of {name} must be a finite number, got {score}")
    # In the order of trec_eval, so that ranks and scores agree.
    order = sorted(scores, key=lambda name: (scores[name], name.encode("utf-8")), reverse=True)
    return [
        f"violence Q0 {name} {rank} {scores[name]!r} {_word(tag)}"
        for rank, name in enumerate(order, start=1)
    ]


def _affect_lines(predictions: Mapping[str, Any], tag: str) -> list[str]:
    lines = []
    for name in sorted(predictions):
        valence, arousal = predictions[name]
        if valence not in CLASSES or arousal not in CLASSES:
            raise FixInput(f"{name} must have classes -1, 0 or 1, got {valence} and {arousal}")
        lines.append(f"{_word(name)} {int(valence)} {int(arousal)}")
    return lines


def _word(name: str) -> str:
    if not name or name.split() != [name]:
        raise FixInput(f"{name!r} cannot be written to a run file: names must not have blanks")
    return name


def _rows(path: Path, form: str, violations: Violations) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of each line that has as many as the form; other lines are violations."""
    require_file(path)
    n_lines = 0
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            words = raw.decode("utf-8").split()
        except UnicodeDecodeError:
            violations.add(number, None, "not UTF-8")
            continue
        n_lines += bool(words)
        if len(words) == len(form.split()):
            yield number, words
        elif words:
            violations.add(number, None, f"expected {form!r}, got {len(words)} words")
    if not n_lines:
        violations.add(1, None, "the file is empty")


def _parsed(kind: Callable[[str], T], text: str) -> T | None:
    try:
        return kind(text)
    except ValueError:
        return None

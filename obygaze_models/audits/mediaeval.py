"""MediaEval 2015 Affective Impact of Movies: its run files read, checked and scored.

Violence is ranked (TREC lines), valence and arousal are classified into -1, 0, 1.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.files import pretty_json, write_all_new
from obygaze_features.core.schema_check import Violations
from obygaze_models.audits.ranking import Precision, RankingScore, score_ranking

SUBTASKS = ("violence", "valence", "arousal")
CLASSES = (-1, 0, 1)
NEUTRAL = 0.15
MAX_RUNS = 5


@dataclass(frozen=True)
class AffectScore:
    """Classes of clips against their true ones, over all clips and over the returned ones."""

    accuracy: float
    accuracy_returned: float | None
    n: int
    n_returned: int
    n_unknown: int
    majority: float
    random: float
    confusion: tuple[tuple[int, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """The values under their names; rows of `confusion` are the true classes -1, 0, 1."""
        return {**vars(self), "confusion": [list(row) for row in self.confusion]}


@dataclass(frozen=True)
class TrecRun:
    """The scores of one run, by topic and document, and what was odd about its lines."""

    scores: Mapping[str, Mapping[str, float]]
    warnings: tuple[str, ...] = field(default=())


def affect_class(score: float) -> int:
    """The class of a score on [-1, 1]; the bounds themselves are neutral."""
    if not -1 <= score <= 1:
        raise FixInput(f"an affect score lies between -1 and 1, not at {score}")
    return (score > NEUTRAL) - (score < -NEUTRAL)


def score_affect(truth: Mapping[str, int], predicted: Mapping[str, int]) -> AffectScore:
    """Accuracy of a classification; a clip that was not returned counts as wrong over all."""
    if not truth:
        raise FixInput("there are no true classes to score against")
    returned = [name for name in predicted if name in truth]
    hits = sum(truth[name] == predicted[name] for name in returned)
    counts = Counter(truth.values())
    pairs = Counter((truth[name], predicted[name]) for name in returned)
    return AffectScore(
        accuracy=hits / len(truth),
        accuracy_returned=hits / len(returned) if returned else None,
        n=len(truth),
        n_returned=len(returned),
        n_unknown=len(predicted) - len(returned),
        majority=max(counts.values()) / len(truth),
        random=1 / len(CLASSES),
        confusion=tuple(tuple(pairs[true, guess] for guess in CLASSES) for true in CLASSES),
    )


def score_violence(
    qrels: Mapping[str, Mapping[str, int]], run: TrecRun, precision: Precision = "float32"
) -> RankingScore:
    """Score a run on its one topic."""
    topics = [topic for topic in run.scores if topic in qrels]
    if len(topics) != 1 or len(run.scores) != 1:
        named = f"{', '.join(sorted(run.scores))} in the run, {', '.join(sorted(qrels))} judged"
        raise FixInput(f"a run and its judgements share exactly one topic: {named}")
    return score_ranking(qrels[topics[0]], run.scores[topics[0]], precision)


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Judgements by topic and document, from TREC lines `topic 0 document grade`."""
    violations = Violations(path)
    judged: dict[str, dict[str, int]] = {}
    for number, words in _lines(path, violations):
        if len(words) != 4:
            violations.add(number, None, f"{len(words)} words, not 'topic 0 document grade'")
        elif _int(words[3]) is None:
            violations.add(number, "grade", f"{words[3]!r} is not a whole number")
        elif words[2] in judged.setdefault(words[0], {}):
            violations.add(number, "document", f"{words[2]!r} is judged already")
        else:
            judged[words[0]][words[2]] = int(words[3])
    violations.raise_if_any("these are not TREC judgements")
    return judged


def read_trec_run(path: Path) -> TrecRun:
    """Scores by topic and document, from TREC lines `topic Q0 document rank score tag`.

    A score that is no number becomes 0 and a NaN ranks last, as in trec_eval, with a warning.
    """
    violations = Violations(path)
    scores: dict[str, dict[str, float]] = {}
    warnings = []
    for number, words in _lines(path, violations):
        if len(words) != 6:
            text = f"{len(words)} words, not 'topic Q0 document rank score tag'"
            violations.add(number, None, text)
            continue
        topic, _, document, _, text, _ = words
        if document in scores.setdefault(topic, {}):
            violations.add(number, "document", f"{document!r} stands in the run already")
        score = _float(text)
        if score is None or math.isnan(score):
            outcome = "counted as 0" if score is None else "ranked last"
            warnings.append(f"{path}:{number}: the score {text!r} is {outcome}, as trec_eval does")
        scores[topic][document] = 0.0 if score is None else score
    violations.raise_if_any("this is not a TREC run")
    return TrecRun(scores, tuple(warnings))


def read_affect_run(path: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Valence and arousal classes by clip, from lines `name valenceClass arousalClass`."""
    violations = Violations(path)
    valence: dict[str, int] = {}
    arousal: dict[str, int] = {}
    for number, words in _lines(path, violations):
        if len(words) != 3:
            violations.add(number, None, f"{len(words)} words, not 'name valence arousal'")
        elif words[0] in valence:
            violations.add(number, "name", f"{words[0]!r} stands in the run already")
        elif any(_int(word) not in CLASSES for word in words[1:]):
            violations.add(number, None, f"classes are -1, 0, 1, not {' '.join(words[1:])}")
        else:
            valence[words[0]], arousal[words[0]] = int(words[1]), int(words[2])
    violations.raise_if_any("this is not an affect run")
    return valence, arousal


def check_rules(runs: Sequence[Path]) -> list[str]:
    """What the task's rules are broken by: the runs of one subtask, as one team sends them.

    Beside each run stands a JSON file of the same name that says `external_data`.
    """
    broken = []
    if len(runs) > MAX_RUNS:
        broken.append(f"{len(runs)} runs, at most {MAX_RUNS} are allowed for a subtask")
    external = [uses_external_data(run) for run in runs]
    broken += [
        f"{run}: no {run.with_suffix('.json').name} beside it says whether it used external data"
        for run, uses in zip(runs, external, strict=True)
        if uses is None
    ]
    # One that does not say is told of above; it may be the one.
    if runs and all(external):
        broken.append("no run is without external data; at least one must be")
    return broken


def uses_external_data(run: Path) -> bool | None:
    """What the JSON file beside a run says; None where there is none."""
    path = run.with_suffix(".json")
    if not path.is_file():
        return None
    try:
        document = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise FixInput(f"not JSON: {error}", where=str(path)) from error
    answer = document.get("external_data") if isinstance(document, dict) else None
    if not isinstance(answer, bool):
        raise FixInput("'external_data' must be true or false", where=str(path))
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
    """Write a run as the task takes it, and beside it the JSON that says what it was made with.

    `subtask` is "violence" (clip -> score, TREC lines, best first) or "affect" (clip -> valence
    and arousal class). Both paths come back.
    """
    if subtask not in ("violence", "affect"):
        raise FixUsage(f"{subtask!r} is not a kind of run", hint="violence or affect")
    if not predictions:
        raise FixInput("a run of no clips", where=str(path))
    if path.suffix == ".json":
        raise FixUsage("the JSON goes beside the run: give the run another ending", hint="run.txt")
    lines = (_trec_lines if subtask == "violence" else _affect_lines)(predictions, tag)
    beside = path.with_suffix(".json")
    document = {"subtask": subtask, "external_data": external_data, "tag": tag, **(about or {})}
    text = "".join(f"{line}\n" for line in lines)
    write_all_new({path: text.encode("utf-8"), beside: pretty_json(document)}, force=force)
    return path, beside


def _trec_lines(predictions: Mapping[str, Any], tag: str) -> list[str]:
    scores = {_word(name): float(score) for name, score in predictions.items()}
    odd = [name for name, score in scores.items() if not math.isfinite(score)]
    if odd:
        raise FixInput(f"the score of {odd[0]} is not a number")
    # In the order that trec_eval will see, so that rank and score say the same.
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
            raise FixInput(f"classes are -1, 0, 1, not {valence} {arousal} of {name}")
        lines.append(f"{_word(name)} {int(valence)} {int(arousal)}")
    return lines


def _word(name: str) -> str:
    if not name or name.split() != [name]:
        raise FixInput(f"{name!r} cannot stand in a run file: blanks end a word there")
    return name


def _lines(path: Path, violations: Violations) -> list[tuple[int, list[str]]]:
    if not path.is_file():
        raise NotFound("no such file", where=str(path))
    lines = []
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            words = raw.decode("utf-8").split()
        except UnicodeDecodeError:
            violations.add(number, None, "not UTF-8")
            continue
        if words:
            lines.append((number, words))
    if not lines:
        violations.add(1, None, "the file is empty")
    return lines


def _int(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

"""The MediaEval 2015 audit: the runs of a team are scored, checked against the rules, and drawn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from obygaze.audits.mediaeval_runs import (
    AffectScore,
    Precision,
    RankingScore,
    is_affect_run,
    read_affect_run,
    read_qrels,
    read_trec_run,
    score_affect,
    score_ranking,
)
from obygaze.audits.result import Audit, Plot, Point
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.schema_check import read_json
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_models.zoo.mediaeval_file import facts_path, official_name

# The column of a manifest with the classes of each subtask.
COLUMNS = {
    "violence": "violence",
    "valence": "valence_class",
    "arousal": "arousal_class",
}
SPLIT = "mediaeval2015"
TEST = 0
MAX_RUNS = 5
TITLE = "MediaEval 2015, Affective Impact of Movies"
HEADERS = (
    "run",
    "subtask",
    "measure",
    "value",
    "of the returned",
    "chance",
    "majority",
)


@dataclass(frozen=True)
class RunScore:
    """The scores of one run file; None for a subtask that it does not belong to."""

    run: str
    violence: RankingScore | None
    valence: AffectScore | None
    arousal: AffectScore | None
    external_data: bool | None
    warnings: tuple[str, ...] = ()


def audit_mediaeval(
    runs: Sequence[str | Path],
    *,
    qrels: str | Path | None = None,
    manifest: Manifest | str | Path | None = None,
    precision: Precision = "float32",
    workspace: str | Path | None = None,
) -> Audit:
    """Score predictions for MediaEval 2015, a contest on violence and emotion in films."""
    if (qrels is None) == (manifest is None):
        sources = "neither" if qrels is None else "both"
        raise FixUsage(f"expected --qrels or --manifest, got {sources}")
    if not runs:
        raise FixInput("expected at least one run, got none")
    grades = read_qrels(qrels) if qrels is not None else None
    classes: Mapping[str, Mapping[str, int]] = {}
    if manifest is not None:
        classes = classes_of(read_manifest(manifest, workspace=workspace))
    scores = [_score_run(path, grades, classes, precision) for path in map(Path, runs)]
    violence = [run for run in scores if run.violence is not None]
    affect = [run for run in scores if run.violence is None]
    broken = [f"violence: {line}" for line in check_rules(violence)]
    broken += [f"affect: {line}" for line in check_rules(affect)]
    limits = [*chain.from_iterable(run.warnings for run in scores)]
    rows: list[tuple[object, ...]] = []
    points = []
    # At the top, for each subtask, its first run.
    first = dict[str, Any].fromkeys(COLUMNS)
    for run in scores:
        name = Path(run.run).name
        for subtask in COLUMNS:
            score: RankingScore | AffectScore | None = getattr(run, subtask)
            if score is not None:
                first[subtask] = first[subtask] or asdict(score)
                for measure, value, *others in score.rows():
                    rows.append((name, subtask, measure, value, *others))
                    points.append(Point(f"{name}, {subtask}, {measure}", value))
                limits += [
                    f"{name}, {subtask}: {line}" for line in score.to_sentences()
                ]
    return Audit(
        title=TITLE,
        headers=HEADERS,
        rows=rows,
        answers=[f"Against the rules of the task: {line}." for line in broken],
        limits=limits,
        values={
            **first,
            "precision": precision,
            "broken": broken,
            "runs": [asdict(run) for run in scores],
        },
        figure=Plot(TITLE, points, "average precision, or accuracy"),
    )


def check_rules(runs: Sequence[RunScore]) -> list[str]:
    """Return which rules of the task are broken by the runs of one subtask and one team."""
    broken = []
    if len(runs) > MAX_RUNS:
        broken.append(f"{len(runs)} runs, at most {MAX_RUNS} are allowed for a subtask")
    broken += [
        f"{run.run}: {Path(run.run).stem}.json with the field external_data is missing"
        for run in runs
        if run.external_data is None
    ]
    # A run whose file is missing may be the one without external data.
    if runs and all(run.external_data for run in runs):
        broken.append("all runs use external data; at least one must be without it")
    return broken


def classes_of(manifest: Manifest) -> dict[str, dict[str, int]]:
    """Return the classes of the official test clips by subtask and official name.

    Without an official split, the classes of all clips.
    """
    official = SPLIT in manifest.folds
    clips = [clip for clip in manifest if not official or clip.fold(SPLIT) == TEST]
    classes: dict[str, dict[str, int]] = {}
    for subtask, column in COLUMNS.items():
        cells = {}
        for clip in clips:
            cells[official_name(clip.clip_id)] = clip.extra.get(column, "")
        try:
            classes[subtask] = {name: int(cell) for name, cell in cells.items() if cell}
        except ValueError:
            raise FixInput(
                f"column {column!r} must hold integers", where=manifest.name
            ) from None
    if not any(classes.values()):
        raise FixInput(
            f"no clip has a value in the columns {', '.join(COLUMNS.values())}",
            where=manifest.name,
            hint="obygaze manifest import --help",
        )
    return classes


def _check_names(judged: Iterable[str], returned: Iterable[str], run: Path) -> None:
    """Raise an error if no clip of a run is judged: its score would be 0 whatever it says."""
    judged_names = sorted(judged)
    run_names = sorted(returned)
    if set(judged_names).isdisjoint(run_names):
        raise FixInput(
            f"no clip of the run is judged: its first name is {run_names[0]!r}, the first judged"
            f" one is {judged_names[0]!r}",
            where=str(run),
            hint="name clips as the official files do: ACCEDE00001.mp4",
        )


def _uses_external_data(run: Path) -> bool | None:
    """Return the field `external_data` of the JSON file beside a run; None without a file."""
    path = facts_path(run)
    if not path.is_file():
        return None
    answer = read_json(path.read_bytes(), str(path)).tree.get("external_data")
    if not isinstance(answer, bool):
        raise FixInput("the field external_data must be true or false", where=str(path))
    return answer


def _score_run(
    path: Path,
    grades: Mapping[str, Mapping[str, int]] | None,
    classes: Mapping[str, Mapping[str, int]],
    precision: Precision,
) -> RunScore:
    """Score a run against TREC judgements (violence), or the classes of each subtask."""
    external = _uses_external_data(path)
    if is_affect_run(path):
        predicted_valence, predicted_arousal = read_affect_run(path)
        valence = _score_classes(path, classes.get("valence"), predicted_valence)
        arousal = _score_classes(path, classes.get("arousal"), predicted_arousal)
        if valence is None and arousal is None:
            raise FixInput(
                "no valence or arousal classes given",
                where=str(path),
                hint="--manifest",
            )
        return RunScore(str(path), None, valence, arousal, external)
    scores, warnings = read_trec_run(path)
    topic, returned = next(iter(scores.items()))
    if grades is None and classes.get("violence"):
        grades = {topic: classes["violence"]}
    if not grades:
        raise FixInput(
            "no violence judgements for this run", where=str(path), hint="--qrels"
        )
    if len(scores) != 1 or topic not in grades:
        topics = f"{', '.join(sorted(scores))} in the run, {', '.join(sorted(grades))} judged"
        raise FixInput(
            f"a run and its judgements must have the same topic, got {topics}",
            where=str(path),
        )
    _check_names(grades[topic], returned, path)
    score = score_ranking(grades[topic], returned, precision)
    return RunScore(str(path), score, None, None, external, warnings)


def _score_classes(
    path: Path, classes: Mapping[str, int] | None, predicted: Mapping[str, int]
) -> AffectScore | None:
    """Score the classes that a run predicts for a subtask; None without classes."""
    if not classes:
        return None
    _check_names(classes, predicted, path)
    return score_affect(classes, predicted)

"""The MediaEval 2015 audit: score the runs of a team, and check them against the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze.audits.mediaeval_runs import (
    is_affect_run,
    official_name,
    read_affect_run,
    read_qrels,
    read_trec_run,
    score_affect,
    score_ranking,
    write_affect_run,
    write_trec_run,
)
from obygaze.audits.result import Audit, Plot, Point
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest import Manifest, read_manifest

# The column of a manifest with the classes of each subtask.
COLUMNS = {
    "violence": "violence",
    "valence": "valence_class",
    "arousal": "arousal_class",
}
SPLIT = "mediaeval2015"
TEST = 0
MAX_RUNS = 5
EXTERNAL_DATA = (
    "At least one run of each subtask must be made without external data; run files do not state"
    " this."
)
TITLE = "MediaEval 2015, Affective Impact of Movies"
# The true class, or the grade, of each clip by subtask.
Judged = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class RunScore:
    """The scores of one run file by subtask, and warnings about its lines."""

    run: str
    subtasks: Mapping[str, Mapping[str, Any]]
    warnings: tuple[str, ...] = ()


def audit_mediaeval(
    runs: Sequence[str | Path] = (),
    *,
    qrels: str | Path | None = None,
    manifest: Manifest | str | Path | None = None,
    write: PathLike | None = None,
    affect: PathLike | None = None,
    predictions: PathLike | None = None,
    force: bool = False,
    workspace: str | Path | None = None,
) -> Audit:
    """Score predictions for MediaEval 2015, on violence and emotion in films.

    A run is a file of predictions. Runs for violence rank clips, and are scored by average
    precision; runs for affect give each clip a class of valence (pleasant or not) and of arousal
    (calm or excited), and are scored by accuracy.

    Runs are scored against either judgements (`qrels`) or a manifest. If the official split is
    known, only its test clips are scored. Runs name clips as the official files do:
    ACCEDE00001.mp4. At most five runs per subtask are allowed, one of them without external data.

    `write` makes a run from a table of scores; this run is scored, too, if there are judgements.

    Args:
        runs: The files: TREC lines for violence, or lines of name, valence class, arousal class.
        qrels: TREC judgements of violence.
        manifest: A manifest of LIRIS-ACCEDE, or its TOML file.
        write: The new file of a run: of violence from `predictions`, of affect from `affect`.
        affect: A table of scores of valence and arousal (clip_id, valence, arousal; from -1 to 1),
            which become classes: below -0.15 negative, above 0.15 positive, else neutral.
        predictions: The scores of a model of two classes, as `og.predict(...).write` writes them.
        force: Replace a run that exists.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_mediaeval(["run1.txt"], qrels="violence.qrels")
    """
    if (affect is not None) + (predictions is not None) != (write is not None):
        raise FixUsage(
            "--write RUN requires one table of scores: --affect TABLE or --predictions PATH"
        )
    if qrels is not None and manifest is not None:
        raise FixUsage("expected --qrels or --manifest, got both")
    if not runs and write is None:
        raise FixInput("expected at least one run, got none")
    if qrels is None and manifest is None and runs:
        raise FixUsage("expected --qrels or --manifest, got neither")
    grades = read_qrels(qrels) if qrels is not None else {}
    classes: Judged = {}
    if manifest is not None:
        classes = read_classes(read_manifest(manifest, workspace=workspace))
    paths = [*map(Path, runs)]
    answers = []
    if write is not None:
        written = Path(write)
        if affect is not None:
            n_clips = write_affect_run(written, Path(affect), force=force)
        elif predictions is not None:
            n_clips = write_trec_run(written, Path(predictions), force=force)
        answers.append(f"{written}: {count(n_clips, 'clip')}.")
        if grades or classes:
            paths.append(written)
    return present([score_run(path, grades, classes) for path in paths], answers)


def read_classes(manifest: Manifest) -> dict[str, dict[str, int]]:
    """Return the classes of the official test clips by subtask and official name.

    Without an official split, return the classes of all clips.
    """
    official = SPLIT in manifest.folds
    clips = [clip for clip in manifest if not official or clip.fold(SPLIT) == TEST]
    classes: dict[str, dict[str, int]] = {}
    for subtask, column in COLUMNS.items():
        cells = {
            official_name(clip.clip_id): clip.extra.get(column, "") for clip in clips
        }
        try:
            classes[subtask] = {name: int(cell) for name, cell in cells.items() if cell}
        except ValueError:
            raise FixInput(
                f"expected whole numbers in the column {column!r}", where=manifest.name
            ) from None
    if not any(classes.values()):
        raise FixInput(
            f"no clip has a value in the columns {', '.join(COLUMNS.values())}",
            where=manifest.name,
        )
    return classes


def score_run(path: Path, grades: Judged, classes: Judged) -> RunScore:
    """Score a run of affect or of violence.

    A run of affect is scored against the classes of valence and arousal in `classes`. A run of
    violence is scored against the classes of violence in `classes`, or without such classes against
    the TREC judgements `grades`.
    """
    if is_affect_run(path):
        scores = {}
        predicted = zip(("valence", "arousal"), read_affect_run(path), strict=True)
        for subtask, returned in predicted:
            if classes.get(subtask):
                _check_names(classes[subtask], returned, path)
                scores[subtask] = score_affect(classes[subtask], returned)
        if not scores:
            raise FixInput(
                "expected judgements of valence or arousal for this run of affect, got none",
                where=str(path),
            )
        return RunScore(str(path), scores)
    ranked, warnings = read_trec_run(path)
    topic, returned_scores = next(iter(ranked.items()))
    if classes.get("violence"):
        grades = {topic: classes["violence"]}
    if not grades:
        raise FixInput(
            "expected judgements of violence for this run, got none", where=str(path)
        )
    if len(ranked) != 1 or topic not in grades:
        topics = f"{', '.join(sorted(ranked))} in the run, {', '.join(sorted(grades))} judged"
        raise FixInput(
            f"expected a run and judgements of the same topic, got {topics}",
            where=str(path),
        )
    _check_names(grades[topic], returned_scores, path)
    score = score_ranking(grades[topic], returned_scores)
    return RunScore(str(path), {"violence": score}, warnings)


def _check_names(judged: Iterable[str], returned: Iterable[str], run: Path) -> None:
    """Raise an error if no clip of a run is judged: the score of such a run would always be 0."""
    judged_names = sorted(judged)
    run_names = sorted(returned)
    if set(judged_names).isdisjoint(run_names):
        raise FixInput(
            f"no clip of the run is judged: the first name in the run is {run_names[0]!r}, the"
            f" first judged name is {judged_names[0]!r}",
            where=str(run),
        )


def present(scores: Sequence[RunScore], answers: Sequence[str]) -> Audit:
    """Return the audit of the scores of runs: its table, sentences and figure.

    Args:
        scores: The runs.
        answers: Sentences to print first.
    """
    n_violence = sum("violence" in run.subtasks for run in scores)
    broken = []
    for subtask, n_runs in (
        ("violence", n_violence),
        ("affect", len(scores) - n_violence),
    ):
        if n_runs > MAX_RUNS:
            broken.append(f"{subtask}: expected at most {MAX_RUNS} runs, got {n_runs}")
    limits: list[str] = []
    rows: list[tuple[object, ...]] = []
    points = []
    # The first run of each subtask is at the top of the JSON.
    first = dict[str, Any].fromkeys(COLUMNS)
    for run in scores:
        name = Path(run.run).name
        limits += run.warnings
        for subtask, score in run.subtasks.items():
            first[subtask] = first[subtask] or score
            measure, value = next(iter(score.items()))
            rows.append((name, subtask, measure, value))
            points.append(Point(f"{name}, {subtask}, {measure}", value))
            if score["n_missing"]:
                missing = f"{score['n_missing']} judged clips are missing in the run"
                limits.append(f"{name}, {subtask}: {missing}, and count as wrong.")
            if score["n_unjudged"]:
                unjudged = f"{score['n_unjudged']} clips without judgement"
                limits.append(f"{name}, {subtask}: {unjudged} do not count.")
    against = [f"Against the rules of the task: {line}." for line in broken]
    return Audit(
        title=TITLE,
        headers=("run", "subtask", "measure", "value"),
        rows=rows,
        answers=[*answers, *against],
        limits=[*limits, EXTERNAL_DATA],
        values={
            **first,
            "broken": broken,
            "runs": [{"run": run.run, **run.subtasks} for run in scores],
        },
        figure=Plot(TITLE, points, "average precision, or accuracy"),
    )

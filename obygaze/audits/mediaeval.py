"""The MediaEval 2015 audit: the runs of a team are scored, checked against the rules, and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from obygaze.audits.mediaeval_runs import (
    AffectScore,
    RankingScore,
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
    "At least one run of each subtask must be without external data, which no run file"
    " states."
)
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
    warnings: tuple[str, ...] = ()

    @property
    def subtasks(self) -> dict[str, RankingScore | AffectScore]:
        """The scores by subtask."""
        scores = {name: getattr(self, name) for name in COLUMNS}
        return {name: score for name, score in scores.items() if score is not None}


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

    Runs are scored against either --qrels or --manifest. If the official split is known, only its
    test clips are scored. Runs name clips as the official files do: ACCEDE00001.mp4. At most five
    runs per subtask are allowed, one of them without external data.

    With --write, a run is written of the scores of a table, and scored if there are judgements.

    Args:
        runs: The files: TREC lines for violence, or lines of name, valence class, arousal class.
        qrels: TREC judgements of violence.
        manifest: A manifest of LIRIS-ACCEDE, or its TOML file.
        write: Write a run: of violence from --predictions, of affect from --affect.
        affect: A table of scores of valence and arousal (clip_id, valence, arousal; from -1 to 1),
            which become classes: below -0.15 negative, above 0.15 positive, else neutral.
        predictions: The scores of a model of two classes, as `models predict -o` writes them.
        force: Replace a run that exists.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_mediaeval(["run1.txt"], qrels="violence.qrels")

    Commands:
        obygaze audit mediaeval run1.txt --qrels violence.qrels --json
        obygaze audit mediaeval affect.txt --manifest liris-accede
        obygaze audit mediaeval --write violence.txt --predictions scores.csv
        obygaze audit mediaeval --write affect.txt --affect affect.csv --manifest liris-accede
    """
    _check_options(runs, qrels, manifest, write, affect, predictions)
    grades = read_qrels(qrels) if qrels is not None else None
    classes: Mapping[str, Mapping[str, int]] = {}
    if manifest is not None:
        classes = classes_of(read_manifest(manifest, workspace=workspace))
    paths = [*map(Path, runs)]
    answers = []
    if write is not None:
        written = Path(write)
        if affect is not None:
            n_clips = write_affect_run(written, Path(affect), force=force)
        elif predictions is not None:
            n_clips = write_trec_run(written, Path(predictions), force=force)
        answers.append(f"{written}: {count(n_clips, 'clip')}.")
        if grades is not None or classes:
            paths.append(written)
    return present([score_run(path, grades, classes) for path in paths], answers)


def _check_options(
    runs: Sequence[str | Path],
    qrels: str | Path | None,
    manifest: Manifest | str | Path | None,
    write: PathLike | None,
    affect: PathLike | None,
    predictions: PathLike | None,
) -> None:
    """Raise an error for options that do not go together."""
    if (affect is not None) + (predictions is not None) != (write is not None):
        raise FixUsage(
            "--write RUN takes the scores of one table: --affect TABLE or --predictions PATH"
        )
    if qrels is not None and manifest is not None:
        raise FixUsage("expected --qrels or --manifest, got both")
    if qrels is None and manifest is None and (runs or write is None):
        raise FixUsage("expected --qrels or --manifest, got neither")
    if not runs and write is None:
        raise FixInput("expected at least one run, got none")


def present(scores: Sequence[RunScore], answers: Sequence[str] = ()) -> Audit:
    """Return the table and the sentences of the scores of runs.

    Args:
        scores: The runs.
        answers: What is said before.
    """
    broken = _broken_rules(scores)
    limits = [*chain.from_iterable(run.warnings for run in scores), EXTERNAL_DATA]
    rows: list[tuple[object, ...]] = []
    points = []
    # At the top, for each subtask, its first run.
    first = dict[str, Any].fromkeys(COLUMNS)
    for run in scores:
        name = Path(run.run).name
        for subtask, score in run.subtasks.items():
            first[subtask] = first[subtask] or asdict(score)
            for measure, value, *others in score.rows():
                rows.append((name, subtask, measure, value, *others))
                points.append(Point(f"{name}, {subtask}, {measure}", value))
            limits += [f"{name}, {subtask}: {line}" for line in score.to_sentences()]
    return Audit(
        title=TITLE,
        headers=HEADERS,
        rows=rows,
        answers=[
            *answers,
            *(f"Against the rules of the task: {line}." for line in broken),
        ],
        limits=limits,
        values={
            **first,
            "broken": broken,
            "runs": [asdict(run) for run in scores],
        },
        figure=Plot(TITLE, points, "average precision, or accuracy"),
    )


def _broken_rules(scores: Sequence[RunScore]) -> list[str]:
    """Return the rules of the task that the runs break."""
    n_violence = sum(run.violence is not None for run in scores)
    n_runs_of = {"violence": n_violence, "affect": len(scores) - n_violence}
    return [
        f"{subtask}: {n_runs} runs, at most {MAX_RUNS} are allowed for a subtask"
        for subtask, n_runs in n_runs_of.items()
        if n_runs > MAX_RUNS
    ]


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


def score_run(
    path: Path,
    grades: Mapping[str, Mapping[str, int]] | None,
    classes: Mapping[str, Mapping[str, int]],
) -> RunScore:
    """Score a run against TREC judgements (violence), or the classes of each subtask."""
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
        return RunScore(str(path), None, valence, arousal)
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
    score = score_ranking(grades[topic], returned)
    return RunScore(str(path), score, None, None, warnings)


def _score_classes(
    path: Path, classes: Mapping[str, int] | None, predicted: Mapping[str, int]
) -> AffectScore | None:
    """Score the classes that a run predicts for a subtask; None without classes."""
    if not classes:
        return None
    _check_names(classes, predicted, path)
    return score_affect(classes, predicted)

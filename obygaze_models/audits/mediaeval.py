"""The MediaEval 2015 audit: the runs of a team are scored, checked against the rules, and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.figures import MUTED
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.adapters import liris_accede
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_models.audits.figure import BLUE, DOT, RED, TICK, Dot, Drawing, Panel, Row, Tick
from obygaze_models.audits.mediaeval_files import (
    check_rules,
    is_affect_run,
    read_affect_run,
    read_qrels,
    read_trec_run,
    uses_external_data,
)
from obygaze_models.audits.mediaeval_scores import (
    AffectScore,
    Precision,
    RankingScore,
    score_affect,
    score_violence,
)
from obygaze_models.audits.result import Audit, Finding

SUBTASKS = ("violence", "valence", "arousal")
SPLIT, TEST = "mediaeval2015", 0
HEADERS = ("run", "subtask", "measure", "value", "of the returned", "chance", "majority")


@dataclass(frozen=True)
class RunScore:
    """The scores of one run file; None for a subtask that it does not belong to."""

    run: str
    violence: RankingScore | None
    valence: AffectScore | None
    arousal: AffectScore | None
    external_data: bool | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class MediaEvalAudit(Audit):
    """The scores of the runs of one team, and the rules of the task that they break."""

    precision: Precision
    broken: tuple[str, ...]
    runs: tuple[RunScore, ...]

    @property
    def warnings(self) -> Sequence[str]:
        """The rules that are broken."""
        return [f"against the rules of the task: {line}" for line in self.broken]

    @property
    def scores(self) -> list[tuple[str, str, RankingScore | AffectScore]]:
        """The file name, the subtask and the score of each run and subtask."""
        return [
            (Path(run.run).name, name, score)
            for run in self.runs
            for name in SUBTASKS
            if (score := getattr(run, name)) is not None
        ]

    def to_json(self) -> dict[str, Any]:
        """Return every run; at the top, for each subtask, its first run."""
        first = dict[str, Any].fromkeys(SUBTASKS)
        for _, name, score in reversed(self.scores):
            first[name] = asdict(score)
        return {**first, **asdict(self)}

    def finding(self) -> Finding:
        """Return a row for each run and measure, and sentences about ties and missing clips."""
        rows = [(run, name, *row) for run, name, score in self.scores for row in score.to_rows()]
        sentences = [line for run in self.runs for line in run.warnings]
        sentences += [
            f"{run}, {name}: {line}"
            for run, name, score in self.scores
            for line in score.to_sentences()
        ]
        bits = self.precision.removeprefix("float")
        if any(run.violence is not None and run.violence.tied for run in self.runs):
            sentences.append(f"Tied scores are equal as {bits}-bit numbers.")
        sentences += [f"Against the rules of the task: {line}." for line in self.broken]
        title = "MediaEval 2015, Affective Impact of Movies"
        return Finding(title, HEADERS, tuple(rows), sentences=tuple(sentences))

    def drawing(self) -> Drawing:
        """Return the score of each run with its range under ties, beside chance."""
        panels, titles = [], ("Violence: average precision", "Valence and arousal: accuracy")
        for title, is_ranked in zip(titles, (True, False), strict=True):
            rows = []
            for run, name, score in self.scores:
                if (name == "violence") == is_ranked:
                    value, low, high, chance, majority = score.span
                    marks: list[Dot | Tick] = [Dot(value, RED, (low, high)), Tick(chance, BLUE)]
                    marks += [] if majority is None else [Tick(majority, MUTED)]
                    label = run if is_ranked else f"{run}, {name}"
                    rows.append(Row(label, marks, f"{value:.3f}"))
            if rows:
                panels.append(Panel(title, rows, limits=(-0.02, 1.02)))
        last = panels[-1]._replace(xlabel="line: other orders of ties, or clips not returned")
        legend = {"score": (DOT, RED), "chance": (TICK, BLUE), "majority class": (TICK, MUTED)}
        return Drawing([*panels[:-1], last], legend)


def audit_mediaeval(
    runs: Sequence[str | Path],
    *,
    qrels: str | Path | None = None,
    annotations: Sequence[str | Path] = (),
    manifest: Manifest | str | Path | None = None,
    precision: Precision = "float32",
) -> MediaEvalAudit:
    """Score the runs of a team in MediaEval 2015 and check them against the rules of the task.

    Runs are scored against exactly one of `qrels`, `annotations` and `manifest`. If the official
    split is known, only its test clips are scored.

    Args:
        runs: The files: TREC lines for violence, or lines of name, valence class, arousal class.
        qrels: TREC judgements of violence.
        annotations: The annotation files, or the folder that has them.
        manifest: A manifest of LIRIS-ACCEDE, or its TOML file.
        precision: How scores are compared: "float32" as in 2015, "float64" as later trec_eval.

    Example:
        audit = audit_mediaeval(["run1.txt"], qrels="violence.qrels")
    """
    if (qrels is not None) + bool(annotations) + (manifest is not None) != 1:
        raise FixUsage("expected exactly one of --qrels, --annotations and --manifest")
    if not runs:
        raise FixInput("expected at least one run, got none")
    if annotations:
        manifest = liris_accede.read([Path(path) for path in annotations]).manifest
    elif isinstance(manifest, str | Path):
        manifest = read_manifest(Workspace.current().existing_manifest(str(manifest)))
    grades = read_qrels(qrels) if qrels is not None else None
    classes = classes_of(manifest) if manifest is not None else {}
    paths = {path: is_affect_run(path) for path in map(Path, runs)}
    scores = [
        _score_classes(path, classes)
        if paths[path]
        else _score_ranks(path, grades, classes, precision)
        for path in map(Path, runs)
    ]
    broken = [
        f"{'affect' if affect else 'violence'}: {line}"
        for affect in (False, True)
        for line in check_rules([path for path in map(Path, runs) if paths[path] == affect])
    ]
    return MediaEvalAudit(precision, tuple(broken), tuple(scores))


def classes_of(manifest: Manifest) -> dict[str, dict[str, int]]:
    """Return the classes of the official test clips by subtask and name without file ending.

    Without an official split, the classes of all clips.
    """
    official = SPLIT in manifest.folds
    clips = [clip for clip in manifest if not official or clip.fold(SPLIT) == TEST]
    classes: dict[str, dict[str, int]] = {}
    for subtask, column in zip(
        SUBTASKS, ("violence", "valence_class", "arousal_class"), strict=True
    ):
        cells = {PurePosixPath(clip.clip_id).stem: clip.extra.get(column, "") for clip in clips}
        try:
            classes[subtask] = {stem: int(cell) for stem, cell in cells.items() if cell}
        except ValueError:
            raise FixInput(f"column {column!r} must hold integers", where=manifest.name) from None
    if not any(classes.values()):
        raise FixInput(
            "no clip has a value in the columns violence, valence_class and arousal_class",
            where=manifest.name,
            hint="obygaze manifest import liris-accede FOLDER",
        )
    return classes


def _renamed(classes: Mapping[str, int], returned: Iterable[str]) -> dict[str, int]:
    """Return classes by clip under the names of a run, with or without a file ending."""
    names: dict[str, str] = {}
    for name in returned:
        other = names.setdefault(PurePosixPath(name).stem, name)
        if other != name:
            raise FixInput(f"{name!r} and {other!r} in the run are the same clip")
    return {names.get(stem, stem): value for stem, value in classes.items()}


def _score_ranks(
    path: Path,
    grades: Mapping[str, Mapping[str, int]] | None,
    classes: Mapping[str, Mapping[str, int]],
    precision: Precision,
) -> RunScore:
    run = read_trec_run(path)
    if grades is None and classes.get("violence"):
        topic, returned = next(iter(run.scores.items()))
        grades = {topic: _renamed(classes["violence"], returned)}
    if not grades:
        raise FixInput("no violence judgements for this run", where=str(path), hint="--qrels")
    score = score_violence(grades, run, precision)
    return RunScore(str(path), score, None, None, uses_external_data(path), run.warnings)


def _score_classes(path: Path, classes: Mapping[str, Mapping[str, int]]) -> RunScore:
    valence, arousal = (
        score_affect(_renamed(classes[subtask], predicted), predicted)
        if classes.get(subtask)
        else None
        for subtask, predicted in zip(SUBTASKS[1:], read_affect_run(path), strict=True)
    )
    if valence is None and arousal is None:
        raise FixInput("no valence or arousal classes given", where=str(path), hint="--annotations")
    return RunScore(str(path), None, valence, arousal, uses_external_data(path))

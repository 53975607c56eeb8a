"""The MediaEval 2015 audit: the runs of a team are scored, checked against the rules, and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.figures import INK, MUTED, canvas, save
from obygaze_features.manifest.adapters import liris_accede
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_models.audits.figures import RED, draw_grid, label_rows
from obygaze_models.audits.mediaeval_files import (
    TrecRun,
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
    score_ranking,
)
from obygaze_models.audits.result import Audit, Finding

AFFECT = ("valence", "arousal")
SPLIT = "mediaeval2015"
TEST = 0
RANGE, CHANCE = "#dfb3bb", "#7fa8c9"
HEADERS = ("run", "subtask", "measure", "value", "of the returned", "chance", "majority")


@dataclass(frozen=True)
class TrueClasses:
    """Violence judgements by topic, and valence and arousal classes by clip.

    TREC judgements name clips exactly as runs do. Annotation files do not (`by_stem`): a run may
    name a clip with or without its file ending.
    """

    violence: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    valence: Mapping[str, int] = field(default_factory=dict)
    arousal: Mapping[str, int] = field(default_factory=dict)
    by_stem: bool = False

    def renamed(self, known: Mapping[str, int], returned: Iterable[str]) -> Mapping[str, int]:
        """Return values by clip under the names that a run has for the clips."""
        if not self.by_stem:
            return known
        names: dict[str, str] = {}
        for name in returned:
            other = names.setdefault(PurePosixPath(name).stem, name)
            if other != name:
                raise FixInput(f"{name!r} and {other!r} in a run are one clip")
        return {names.get(stem, stem): value for stem, value in known.items()}


@dataclass(frozen=True)
class RunScore:
    """The scores of one run file; None for a subtask that it does not belong to."""

    run: str
    violence: RankingScore | None = None
    valence: AffectScore | None = None
    arousal: AffectScore | None = None
    external_data: bool | None = None
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the file."""
        return Path(self.run).name

    @property
    def affect(self) -> list[tuple[str, AffectScore]]:
        """The subtasks valence and arousal that were scored."""
        return [(name, score) for name in AFFECT if (score := getattr(self, name)) is not None]


@dataclass(frozen=True, eq=False, repr=False)
class MediaEvalAudit(Audit):
    """The scores of the runs of one team, and the rules of the task that they break."""

    runs: tuple[RunScore, ...]
    precision: Precision = "float32"
    broken: tuple[str, ...] = ()

    @property
    def warnings(self) -> Sequence[str]:
        """The rules that are broken."""
        return [f"against the rules of the task: {line}" for line in self.broken]

    def to_json(self) -> dict[str, Any]:
        """Return every run; at the top, for each subtask, its first run."""
        document = asdict(self)
        first = {
            name: next((run[name] for run in document["runs"] if run[name] is not None), None)
            for name in ("violence", *AFFECT)
        }
        return {**first, **{name: document[name] for name in ("precision", "broken", "runs")}}

    def finding(self) -> Finding:
        """Return a row for each run and subtask, and sentences about ties and missing clips."""
        rows = [row for run in self.runs for row in _rows(run)]
        sentences = [line for run in self.runs for line in _sentences(run, self.precision)]
        sentences += [f"Against the rules of the task: {line}." for line in self.broken]
        return Finding("MediaEval 2015, Affective Impact of Movies", sentences, HEADERS, rows)

    def draw(self, stem: Path) -> tuple[Path, Path]:
        """Draw the score of each run with its range under ties, beside chance."""
        panels = {
            "Violence: average precision (trec_eval)": [
                dot for run in self.runs for dot in _violence_dots(run)
            ],
            "Valence and arousal: accuracy over all clips": [
                dot for run in self.runs for dot in _affect_dots(run)
            ],
        }
        panels = {title: dots for title, dots in panels.items() if dots}
        heights = [len(dots) + 0.6 for dots in panels.values()]
        height = 0.9 + 0.36 * sum(heights) + 0.45 * len(panels)
        rows: dict[str, Any] = {"nrows": len(panels), "height_ratios": heights, "squeeze": False}
        with canvas(7.2, height, **rows) as (figure, all_axes):
            for axes, (title, dots) in zip(all_axes[:, 0], panels.items(), strict=True):
                _draw_panel(axes, title, dots)
            _draw_legend(figure, [dot for dots in panels.values() for dot in dots])
            return save(figure, stem)


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
    if qrels is not None:
        truth = TrueClasses(violence=read_qrels(qrels))
    elif manifest is None:
        truth = classes_of(liris_accede.read([Path(path) for path in annotations]).manifest)
    else:
        read = manifest if isinstance(manifest, Manifest) else read_manifest(Path(manifest))
        truth = classes_of(read)
    affect = {Path(path): is_affect_run(Path(path)) for path in runs}
    scores = [
        _score_affect(path, truth) if affect[path] else _score_violence(path, truth, precision)
        for path in map(Path, runs)
    ]
    broken = [
        f"{kind}: {line}"
        for kind in ("violence", "affect")
        for line in check_rules(
            [path for path in map(Path, runs) if affect[path] == (kind == "affect")]
        )
    ]
    return MediaEvalAudit(tuple(scores), precision, tuple(broken))


def classes_of(manifest: Manifest) -> TrueClasses:
    """Return the classes of the official test clips; of all clips without an official split."""
    official = SPLIT in manifest.folds
    clips = [clip for clip in manifest if not official or clip.fold(SPLIT) == TEST]

    def column(name: str) -> dict[str, int]:
        cells = {PurePosixPath(clip.clip_id).stem: clip.extra.get(name, "") for clip in clips}
        try:
            return {stem: int(cell) for stem, cell in cells.items() if cell}
        except ValueError:
            raise FixInput(f"column {name!r} must hold classes", where=manifest.name) from None

    violence, valence, arousal = map(column, ("violence", "valence_class", "arousal_class"))
    if not (violence or valence or arousal):
        raise FixInput(
            "no clip has a value in the columns violence, valence_class and arousal_class",
            where=manifest.name,
            hint="obygaze manifest import liris-accede FOLDER",
        )
    return TrueClasses({"": violence} if violence else {}, valence, arousal, by_stem=True)


def score_violence(
    qrels: Mapping[str, Mapping[str, int]], run: TrecRun, precision: Precision = "float32"
) -> RankingScore:
    """Score a run on the one topic that it shares with the judgements.

    Args:
        qrels: The grade of each document by topic.
        run: The run, as read_trec_run returns it.
        precision: How `ap_trec` compares scores.
    """
    topics = [topic for topic in run.scores if topic in qrels]
    if len(topics) != 1 or len(run.scores) != 1:
        names = f"{', '.join(sorted(run.scores))} in the run, {', '.join(sorted(qrels))} judged"
        raise FixInput(f"a run and its judgements must have the same topic, got {names}")
    return score_ranking(qrels[topics[0]], run.scores[topics[0]], precision)


def _score_violence(path: Path, truth: TrueClasses, precision: Precision) -> RunScore:
    run, qrels = read_trec_run(path), truth.violence
    if not qrels:
        raise FixInput("violence judgements to score this run are missing", where=str(path))
    if truth.by_stem:
        topic, returned = next(iter(run.scores.items()))
        qrels = {topic: truth.renamed(qrels[""], returned)}
    score = score_violence(qrels, run, precision)
    return RunScore(str(path), score, None, None, uses_external_data(path), run.warnings)


def _score_affect(path: Path, truth: TrueClasses) -> RunScore:
    def score(known: Mapping[str, int], predicted: Mapping[str, int]) -> AffectScore | None:
        classes = truth.renamed(known, predicted)
        return score_affect(classes, predicted) if classes else None

    valence, arousal = map(score, (truth.valence, truth.arousal), read_affect_run(path))
    if valence is None and arousal is None:
        raise FixInput("valence and arousal classes to score this run are missing", where=str(path))
    return RunScore(str(path), None, valence, arousal, uses_external_data(path))


def _rows(run: RunScore) -> Iterator[tuple[object, ...]]:
    if run.violence is not None:
        for name in ("ap_trec", "ap_sklearn", "pr_auc_trapezoid"):
            chance = None if name == "pr_auc_trapezoid" else run.violence.ap_random
            yield run.name, "violence", name, getattr(run.violence, name), None, chance, None
    for name, score in run.affect:
        values = (score.accuracy, score.accuracy_returned, score.random, score.majority)
        yield run.name, name, "accuracy", *values


def _sentences(run: RunScore, precision: Precision) -> Iterator[str]:
    yield from run.warnings
    if (score := run.violence) is not None:
        if score.tied:
            yield (
                f"{run.name}: {100 * score.tied:.1f} % of the scores are tied (as "
                f"{precision.removeprefix('float')}-bit numbers); ap_trec could be "
                f"{score.ap_ties_worst:.4f} to {score.ap_ties_best:.4f} by their order, "
                f"{score.ap_ties_expected:.4f} on average."
            )
        if missed := score.n_judged + score.n_unjudged - score.n_returned:
            yield f"{run.name}: {missed} judged clips were not returned."
        if score.n_unjudged:
            yield (
                f"{run.name}: {score.n_unjudged} returned clips have no judgement; they count as "
                "not relevant."
            )
    for name, affect in run.affect:
        if missed := affect.n - affect.n_returned:
            yield f"{run.name}: {missed} clips without a class of {name} count as wrong over all."
        if affect.n_unknown:
            yield f"{run.name}: {affect.n_unknown} clips of the run have no true class of {name}."


class _Dot(NamedTuple):
    label: str
    value: float
    low: float
    high: float
    chance: float
    majority: float | None = None


def _violence_dots(run: RunScore) -> Iterator[_Dot]:
    if (score := run.violence) is not None:
        ties = (score.ap_ties_worst, score.ap_ties_best)
        yield _Dot(run.name, score.ap_trec, *ties, score.ap_random)


def _affect_dots(run: RunScore) -> Iterator[_Dot]:
    for name, score in run.affect:
        # The accuracy if all clips that were not returned had been right.
        high = score.accuracy + (score.n - score.n_returned) / score.n
        values = (score.accuracy, score.accuracy, high, score.random, score.majority)
        yield _Dot(f"{run.name}, {name}", *values)


def _draw_panel(axes: Any, title: str, dots: list[_Dot]) -> None:
    for row, dot in enumerate(reversed(dots)):
        axes.plot([dot.low, dot.high], [row, row], color=RANGE, lw=6, solid_capstyle="butt")
        axes.plot([dot.chance] * 2, [row - 0.3, row + 0.3], color=CHANCE, lw=2)
        if dot.majority is not None:
            axes.plot([dot.majority] * 2, [row - 0.3, row + 0.3], color=MUTED, lw=2)
        axes.scatter(dot.value, row, s=44, color=RED, zorder=3)
        axes.annotate(
            f"{dot.value:.3f}",
            (dot.value, row),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color=INK,
        )
    label_rows(axes, [dot.label for dot in reversed(dots)], top=0.2)
    highest = max(max(dot.high, dot.chance, dot.majority or 0.0) for dot in dots)
    axes.set_xlim(0, min(1.02, 1.15 * highest))
    draw_grid(axes)
    axes.set_title(title)


def _draw_legend(figure: Any, dots: list[_Dot]) -> None:
    axes = figure.axes[-1]
    axes.scatter([], [], s=44, color=RED, label="score")
    if any(dot.high > dot.low for dot in dots):
        label = "other orders of ties, or clips not returned"
        axes.plot([], [], color=RANGE, lw=6, label=label)
    axes.plot([], [], color=CHANCE, lw=2, label="chance")
    if any(dot.majority is not None for dot in dots):
        axes.plot([], [], color=MUTED, lw=2, label="majority class")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)

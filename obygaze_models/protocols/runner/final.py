"""The model to save: evaluated on the honest splits, then fitted in the same way on every clip.

The functions that fit it are those that fit the cells of a run. Nothing is held out to test, but a
perceptron still stops on the validation clips of the first split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.schema_rules import near
from obygaze_features.manifest.model import Manifest
from obygaze_models.models import registry
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.kinds import (
    ALIASES,
    CAV,
    defaults,
    for_task,
    is_choice,
    trainable,
)
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.runner.banks import MIN_ROWS, findable, targets_of
from obygaze_models.protocols.runner.execute import FitContext, find_every_vector, fit_every_clip
from obygaze_models.protocols.runner.keeping import training_clips
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.protocols.runner.run import Inputs
from obygaze_models.protocols.schedule import schedule
from obygaze_models.protocols.schema import Grid, Model, Protocol
from obygaze_models.zoo.training_clips import TrainingClips


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted estimator with everything that a saved model records.

    `classes` are the names of its outputs in their order, `concepts` those of its margins.
    `metrics` is the cell record of the same recipe (see `records`), `provenance` plain JSON: the
    protocol, the manifest, the store with backbone and fingerprint, the run, what trained.
    `clips` are the clips it was trained on, with their out-of-fold scores in the run.
    """

    name: str
    kind: str
    model: Any
    features: Mapping[str, Any]
    classes: tuple[str, ...]
    metrics: Sequence[Record]
    provenance: Mapping[str, Any]
    clips: TrainingClips
    concepts: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def training_protocol(name: str, task: str, changes: Sequence[str] = ()) -> Protocol:
    """Return the protocol `honest` with one model and one task.

    Args:
        name: A kind of model, or "cav" for concept vectors, which have a task for each concept.
        task: A task of the protocol `honest`.
        changes: Keys of that protocol to change, or `model.KEY=VALUE` for the model.
    """
    if name not in trainable():
        hint = f"one of {', '.join(trainable())}"
        raise FixUsage(f"unknown model {name!r}{near(name, trainable())}", hint=hint)
    kind = ALIASES.get(name, name)
    if kind == CAV:
        return _concepts_protocol(load_protocol("honest", changes))
    honest = load_protocol("honest", [f"models.{name}.kind={kind}", *_spelt_out(changes, name)])
    if task not in honest.tasks:
        hint = f"one of {', '.join(honest.tasks)}, or --set tasks.{task}.positive=..."
        raise FixUsage(f"unknown task {task!r}{near(task, honest.tasks)}", hint=hint)
    if honest.data.scale != "none":
        raise FixUsage("a saved model reads unscaled features", hint="omit data.scale")
    return replace(
        honest,
        name=f"train-{name}",
        tasks={task: honest.tasks[task]},
        models={name: honest.models[name]},
        grid=replace(honest.grid, train=(task,), test=(task,), models=(name,)),
        report=replace(honest.report, title=f"{name}: {honest.tasks[task].title or task}"),
    )


def _spelt_out(changes: Sequence[str], name: str) -> list[str]:
    """Replace `model.C=1` by the key of the one model that is trained."""
    return [
        f"models.{name}.{change.removeprefix('model.')}" if change.startswith("model.") else change
        for change in changes
    ]


def for_clips(protocol: Protocol, manifest: Manifest) -> Protocol:
    """Return a protocol of concepts without those that too few clips or films have."""
    if protocol.model_names != [CAV]:
        return protocol
    table = clip_table(manifest, protocol.data)
    has = {name: table.has_concept[:, i] for i, name in enumerate(table.concept_names)}
    tasks = {
        name: task
        for name, task in protocol.tasks.items()
        if name in has
        and has[name].sum() >= MIN_ROWS
        and len(np.unique(table.movies[has[name]])) > 1
    }
    if not tasks:
        raise FixInput(
            f"no visual concept has {MIN_ROWS} clips in at least two films", where=table.name
        )
    return replace(protocol, tasks=tasks)


def _concepts_protocol(honest: Protocol) -> Protocol:
    """Each visual concept as a task of a linear machine, on the honest splits."""
    concepts = load_protocol("paper-fig3").tasks
    tasks = {name: replace(task, folds="") for name, task in concepts.items()}
    settings = {**defaults("svm", "none"), "C": "paper"}
    return Protocol(
        name="train-cav",
        data=honest.data,
        tasks=tasks,
        splits=honest.splits,
        models={CAV: Model("svm", settings)},
        grid=Grid(pairs="same", baselines=("all_positive", "neighbour")),
        fit=honest.fit,
        report=replace(honest.report, title="Concept vectors, films unseen"),
    )


def fit_final(inputs: Inputs, run: Run) -> FittedModel:
    """Return the model of a training protocol, fitted as in its run, but on every clip of its task.

    Args:
        inputs: The inputs of the run, of one model and one task.
        run: The finished run, which has the metrics and the chosen settings.
    """
    protocol, features = inputs.protocol, inputs.features[0]
    (name,) = protocol.model_names
    task = protocol.train_tasks[0]
    model = protocol.models[name]
    if name == CAV:
        settings = {**defaults("pcbm-lr", "none"), "tolerance": "paper", "cross_fit": 0}
    else:
        settings = for_task(model.kind, _settled(model, run.cells), task)
    plan = schedule(protocol, inputs.table, inputs.labels, inputs.usable(features))
    context = FitContext(protocol, inputs.table, inputs.labels, plan, features, {})
    if name == CAV:
        return _concept_vectors(inputs, run, context, settings)
    rows, learned = fit_every_clip(context, Model(model.kind, settings), task)
    estimator = learned.estimator
    if registry.find_kind(model.kind).head:
        rows = np.union1d(rows, _with_targets(inputs, learned.found_on, settings["against"]))
    names = {"0": "negative", "1": "positive"}
    classes = [names.get(str(code), str(code)) for code in estimator.classes_]
    column = _positive_column(estimator, model.kind, classes, inputs)
    return FittedModel(
        name=name,
        kind=model.kind,
        model=estimator,
        features=features.facts,
        classes=tuple(classes),
        metrics=run.cells,
        provenance=_provenance(inputs, run, rows, task),
        clips=training_clips(run, [inputs.table.ids[row] for row in rows], {task: column}),
        concepts=tuple(map(str, estimator.bank_.concepts_)) if hasattr(estimator, "bank_") else (),
        settings=settings,
    )


def _positive_column(fitted: Any, kind: str, classes: Sequence[str], inputs: Inputs) -> str:
    """The column of a kept model that the scores of its run belong to, "" where there is none.

    A run scores the positive side of a task; for levels in their order that may be several classes.
    """
    (task,) = inputs.protocol.train_tasks
    positive = classes[-1]
    if kind == "ordinal":
        levels = {inputs.table.levels[row] for row in np.flatnonzero(inputs.labels[task] == 1)}
        positive = levels.pop() if len(levels) == 1 else ""
    if positive not in classes:
        return ""
    return f"p:{positive}" if hasattr(fitted, "predict_proba") else f"score:{positive}"


def _settled(model: Model, cells: Sequence[Record]) -> dict[str, Any]:
    """Settings with every choice made: the value that most folds chose."""
    chosen = [fold["chosen"] for cell in cells for fold in cell["folds"]]
    settled = dict(model.settings)
    for name, value in model.settings.items():
        if is_choice(name, value):
            votes = Counter(repr(fold.get(name, value[0])) for fold in chosen)
            winner = votes.most_common(1)[0][0] if votes else repr(value[0])
            settled[name] = next(item for item in value if repr(item) == winner)
    return settled


def _concept_vectors(
    inputs: Inputs, run: Run, context: FitContext, settings: Mapping[str, Any]
) -> FittedModel:
    """The vectors of all concepts, each of which the run evaluated as a task."""
    features = inputs.features[0]
    bank, found_on = find_every_vector(context, settings)
    names = [str(concept) for concept in bank.concepts_]
    rows = _with_targets(inputs, found_on, settings["against"])
    ids = [inputs.table.ids[row] for row in rows]
    columns = {name: f"margin:{name}" for name in names}
    return FittedModel(
        name=CAV,
        kind=CAV,
        model=bank,
        features=features.facts,
        classes=(),
        metrics=run.cells,
        provenance=_provenance(inputs, run, rows, "concepts"),
        clips=training_clips(run, ids, columns, unit_norm=settings["unit_norm"]),
        concepts=tuple(names),
        settings={name: settings[name] for name in ("method", "tolerance", "balance", "unit_norm")},
    )


def _with_targets(inputs: Inputs, clips: NDArray[np.intp], against: Any) -> NDArray[np.intp]:
    """The clips that have or lack some concept of those that vectors were found for."""
    features = inputs.features[0]
    targets = targets_of(features, inputs.table, against)[features.row_of[clips]]
    rows: NDArray[np.intp] = clips[(targets[:, findable(targets)] >= 0).any(axis=1)]
    return rows


def _provenance(inputs: Inputs, run: Run, rows: NDArray[np.intp], task: str) -> dict[str, Any]:
    """The origin of a model, for its card."""
    movies = inputs.table.movies[rows]
    return {
        "run": run.about["name"],
        "identity": run.about["identity"],
        "task": task,
        "protocol": run.about["protocol"],
        "manifest": run.about["manifest"],
        "store": next(iter(run.about["stores"].values())),
        "n_train": len(rows),
        "movies": sorted(set(movies.tolist())),
        "versions": run.about["versions"],
        "seed": inputs.protocol.fit.seed,
    }

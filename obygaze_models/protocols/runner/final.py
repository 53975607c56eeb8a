"""One model for keeps: judged by the honest splits, then fitted on every clip it may learn from.

`Fitted` is what the zoo takes over: the estimator, what it was made from, and the metrics of the
same recipe on films it had not seen. A judged model never is the kept one; it is its stand-in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.model import Manifest
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.kinds import (
    ALIASES,
    CAV,
    LISTS,
    defaults,
    for_task,
    trainable,
)
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.rules import near
from obygaze_models.protocols.runner.banks import (
    MIN_ROWS,
    build_bank,
    build_head,
    build_residual,
    findable,
    targets_of,
)
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.out_of_fold import training_clips
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.protocols.runner.run import Inputs
from obygaze_models.protocols.schema import Grid, Model, Protocol
from obygaze_models.zoo.training_clips import TrainingClips


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted estimator with everything a saved model must say of itself.

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
    """The honest protocol with one model and one task."""
    if name not in trainable():
        hint = f"one of {', '.join(trainable())}"
        raise FixUsage(f"no model is called {name!r}{near(name, trainable())}", hint=hint)
    kind = ALIASES.get(name, name)
    if kind == CAV:
        return _concepts_protocol(load_protocol("honest", changes))
    honest = load_protocol("honest", [f"models.{name}.kind={kind}", *_spelt_out(changes, name)])
    if task not in honest.tasks:
        hint = f"one of {', '.join(honest.tasks)}, or --set tasks.{task}.positive=..."
        raise FixUsage(f"no task is called {task!r}{near(task, honest.tasks)}", hint=hint)
    if honest.data.scale != "none":
        raise FixUsage("a model that is kept reads features as they are", hint="without data.scale")
    return replace(
        honest,
        name=f"train-{name}",
        tasks={task: honest.tasks[task]},
        models={name: honest.models[name]},
        grid=replace(honest.grid, train=(task,), test=(task,), models=(name,)),
        report=replace(honest.report, title=f"{name}: {honest.tasks[task].title or task}"),
    )


def _spelt_out(changes: Sequence[str], name: str) -> list[str]:
    """`model.C=1` means the one model that is trained."""
    return [
        f"models.{name}.{change.removeprefix('model.')}" if change.startswith("model.") else change
        for change in changes
    ]


def for_clips(protocol: Protocol, manifest: Manifest) -> Protocol:
    """A protocol of concepts without those that too few clips have, or clips of one film only."""
    if protocol.model_names != [CAV]:
        return protocol
    table = clip_table(manifest, protocol.data)
    has = {name: table.has_concept[:, i] for i, name in enumerate(table.concept_names)}
    told = {
        name: task
        for name, task in protocol.tasks.items()
        if name in has
        and has[name].sum() >= MIN_ROWS
        and len(np.unique(table.movies[has[name]])) > 1
    }
    if not told:
        raise FixInput("no visual concept has clips enough, in films enough", where=table.name)
    return replace(protocol, tasks=told)


def _concepts_protocol(honest: Protocol) -> Protocol:
    """Each visual concept as a task of its own, told by a linear machine, on honest splits."""
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


def fit_final(inputs: Inputs, run: Run) -> Fitted:
    """The model of a training protocol, fitted on every clip of its task."""
    protocol, features = inputs.protocol, inputs.features[0]
    (name,) = protocol.model_names
    model = protocol.models[name]
    settings = _settled(model, run.cells)
    if name == CAV:
        return _fit_bank(inputs, features, run)
    (task,) = protocol.train_tasks
    settings = for_task(model.kind, settings, task)
    labels = inputs.labels[task]
    rows = np.flatnonzero(features.present & (labels >= 0))
    groups = np.array(inputs.table.column(protocol.splits.group), dtype=np.str_)
    if "tolerance" in settings:
        fitted = _fit_bottleneck(model.kind, settings, inputs, features, groups)
        clips, _, targets = _told(inputs, features, settings["against"])
        rows = np.union1d(rows, clips[(targets >= 0).any(axis=1)])  # who found the vectors
    else:
        X, y = features.X[features.row_of[rows]], labels[rows].astype(np.int64)
        fitted = _fit_probe(model.kind, settings, X, y, groups[rows], protocol.fit.seed)
    classes = [str(code) for code in getattr(fitted, "classes_", (0, 1))]
    names = {"0": "negative", "1": "positive"}
    classes = [names.get(code, code) for code in classes]
    column = _positive_column(fitted, model.kind, classes, inputs)
    return Fitted(
        name=name,
        kind=model.kind,
        model=fitted,
        features=features.facts,
        classes=tuple(classes),
        metrics=run.cells,
        provenance=_provenance(inputs, run, rows, task),
        clips=training_clips(run, [inputs.table.ids[row] for row in rows], {task: column}),
        concepts=tuple(str(c) for c in fitted.bank_.concepts_) if hasattr(fitted, "bank_") else (),
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
        if isinstance(value, list) and name not in LISTS:
            votes = Counter(repr(fold.get(name, value[0])) for fold in chosen)
            winner = votes.most_common(1)[0][0] if votes else repr(value[0])
            settled[name] = next(item for item in value if repr(item) == winner)
    return settled


def _fit_probe(
    kind: str,
    settings: Mapping[str, Any],
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    groups: NDArray[np.str_],
    seed: int,
) -> Any:
    from obygaze_models.models.mlp import MLPProbe
    from obygaze_models.protocols.runner.models import build_probe, several

    if kind != "mlp":
        return build_probe(kind, settings).fit(X, y, several(groups))
    weight = None if settings["class_weight"] == "none" else settings["class_weight"]
    own = {**settings, "class_weight": weight, "hidden": tuple(settings["hidden"])}
    return MLPProbe(**own, random_state=seed).fit(X, y)


def _fit_bottleneck(
    kind: str,
    settings: Mapping[str, Any],
    inputs: Inputs,
    features: Features,
    groups: NDArray[np.str_],
) -> Any:
    from obygaze_models.models.bottleneck import Bottleneck

    (task,) = inputs.protocol.train_tasks
    clips, names, targets = _told(inputs, features, settings["against"])
    labels, levels = inputs.labels[task][clips], np.array(inputs.table.levels)[clips]
    model = Bottleneck(
        build_bank(settings, names, settings["tolerance"], inputs.protocol.fit.seed),
        build_head(kind, settings),
        residual=build_residual(settings) if kind == "pcbm-h" else None,
        cross_fit=settings["cross_fit"],
    )
    y = levels if kind == "ordinal" else np.maximum(labels, 0).astype(np.int64)
    X = features.X[features.row_of[clips]]
    return model.fit(X, y, targets, groups=groups[clips], rows=labels >= 0)


def _told(
    inputs: Inputs, features: Features, against: str
) -> tuple[NDArray[np.intp], list[str], NDArray[np.int64]]:
    """The clips that vectors are found on, the concepts that can be, and who has them."""
    table = inputs.table
    clips = np.flatnonzero(features.present & (np.array(table.levels) != ""))
    targets = targets_of(features, table, against)[features.row_of[clips]]
    known = findable(targets)
    return clips, [table.concept_names[column] for column in known], targets[:, known]


def _fit_bank(inputs: Inputs, features: Features, run: Run) -> Fitted:
    settings = {**defaults("pcbm-lr", "none"), "tolerance": "paper"}
    clips, names, targets = _told(inputs, features, "absent")
    bank = build_bank(settings, names, settings["tolerance"], inputs.protocol.fit.seed)
    rows = clips[(targets >= 0).any(axis=1)]
    ids = [inputs.table.ids[row] for row in rows]
    columns = {name: f"margin:{name}" for name in names}
    return Fitted(
        name=CAV,
        kind=CAV,
        model=bank.fit(features.X[features.row_of[clips]], targets),
        features=features.facts,
        classes=(),
        metrics=run.cells,
        provenance=_provenance(inputs, run, rows, "concepts"),
        clips=training_clips(run, ids, columns, unit_norm=settings["unit_norm"]),
        concepts=tuple(names),
        settings={name: settings[name] for name in ("method", "tolerance", "balance", "unit_norm")},
    )


def _provenance(inputs: Inputs, run: Run, rows: NDArray[np.intp], task: str) -> dict[str, Any]:
    """What a reader of the model's card must be told."""
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

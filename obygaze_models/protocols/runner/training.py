"""The protocol that trains one model: `honest` with one task, or each concept as a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.schema_rules import near
from obygaze_features.manifest.model import Manifest
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.kinds import AGAINST_EN, ALIASES, CAV, defaults, trainable
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.runner.banks import MIN_ROWS
from obygaze_models.protocols.schema import Grid, Model, Protocol


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
    if kind != CAV:
        changes = [f"models.{name}.kind={kind}", *_spelt_out(changes, name)]
    honest = load_protocol("honest", changes)
    if honest.data.scale != "none":
        raise FixUsage("a saved model reads unscaled features", hint="omit data.scale")
    if kind == CAV:
        return _concepts_protocol(honest)
    if task not in honest.tasks:
        hint = f"one of {', '.join(honest.tasks)}, or --set tasks.{task}.positive=..."
        raise FixUsage(f"unknown task {task!r}{near(task, honest.tasks)}", hint=hint)
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
    tasks = {
        name: replace(task, folds="")
        for name, task in concepts.items()
        if not name.endswith(AGAINST_EN)
    }
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

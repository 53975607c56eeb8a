"""Test a saved model on labels of one's own: a run with a fitted model in place of fits.

Scores, decisions and refusals are those of `predict`. The clips that trained the model train the
baselines, as in any other run, and are not tested.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    NotFound,
    ObygazeError,
    UnknownName,
)
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.expression import quoted_word
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.evaluation.basis import FILM_SEEN, FILM_UNKNOWN, UNSEEN
from obygaze_models.evaluation.predictions import NO_ROWS, BoolArray, as_scores
from obygaze_models.evaluation.tables import (
    CLIP_WAS_SEEN,
    FILM_WAS_SEEN,
    NOT_KNOWN,
    NOTHING_SEEN,
)
from obygaze_models.models.registry import BASELINES, UNTRAINED
from obygaze_models.protocols.clips import (
    LEFT_OUT,
    LabelArray,
    class_names,
    task_labels,
)
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schema import (
    AUTO,
    Model,
    Protocol,
    Question,
    Splits,
    Task,
)
from obygaze_models.protocols.tasks import one_task
from obygaze_models.runner.files import Run, check_run_folder
from obygaze_models.runner.heldout import HeldOut
from obygaze_models.runner.inputs import Inputs, gather
from obygaze_models.runner.run import OneTest, Outcomes, run_fitted, tested
from obygaze_models.runner.store_run import StoreRun
from obygaze_models.zoo.info import Classes, ModelInfo
from obygaze_models.zoo.predicting import Predicted, predict, store_to_read
from obygaze_models.zoo.saving import SavedModel, read_document
from obygaze_models.zoo.seen import COPY

FOLD = "test"
# The keys of `honest` that a test reads: which clips, in which view, and by which metrics.
CHANGES = (
    *("data.where", "data.view"),
    *("report.primary", "report.metrics", "report.replicates"),
)
# The words of the table of tests for clips that did not train the model.
SEEN = {
    UNSEEN: NOTHING_SEEN,
    FILM_SEEN: FILM_WAS_SEEN,
    FILM_UNKNOWN: NOT_KNOWN,
    COPY: CLIP_WAS_SEEN,
}


def inputs_of_test(
    model: SavedModel,
    task: str,
    changes: Sequence[str],
    clips: tuple[Manifest, str],
    stores: dict[str, Store],
) -> Inputs:
    """Return the clips, the classes and the features that a saved model is tested on.

    Args:
        model: The model, of two classes.
        task: The task; "" for that of the model.
        changes: Keys of the protocol `honest` to change, of `CHANGES`.
        clips: The manifest and its path.
        stores: The store, by its name in tables.
    """
    info = model.info
    _check(info, changes, stores)
    ((name, store),) = stores.items()
    manifest, path = clips
    store, array = store_to_read(model, store)
    stores = {name: store}
    protocol = _protocol(info, task, changes, manifest, array)
    try:
        inputs = gather(protocol, manifest, path, stores)
    except ObygazeError as error:
        if not task and str(error.where).startswith("tasks."):
            error.hint = f"--task for another task than {info.task}, of these labels"
        raise
    _refuse_exchanged(info, inputs)
    # What the numbers depend on, with the model that gave the scores.
    settings = {"task": info.task, "sha256": read_document(model.folder).sha256}
    models = {info.name: Model(info.kind, {**info.chosen, **settings})}
    baselines = protocol.grid.baselines if _can_teach(model, inputs) else UNTRAINED
    grid = replace(protocol.grid, models=(info.name,), baselines=baselines)
    return replace(inputs, protocol=replace(inputs.protocol, models=models, grid=grid))


def _check(
    info: ModelInfo, changes: Sequence[str], stores: Mapping[str, Store]
) -> None:
    """Raise an error for a model, a store or a key that a test cannot have."""
    if len(info.classes) != 2:
        raise FixUsage(
            f"a test needs a model of two classes, and {info.name} ({info.summary}) has"
            f" {', '.join(info.classes) or 'none'}",
            hint="obygaze models predict --help",
        )
    if info.name in BASELINES:
        raise FixUsage(
            f"a model that is tested cannot be called {info.name!r}, as a baseline",
            hint="a copy of its folder with another name",
        )
    if len(stores) != 1:
        raise FixUsage(f"a saved model reads one store, got {', '.join(stores)}")
    for change in changes:
        key = change.partition("=")[0].strip()
        if key not in CHANGES:
            raise FixUsage(
                f"--set {key} has no meaning where nothing is fitted",
                hint=f"one of {', '.join(CHANGES)}",
            )


def _protocol(
    info: ModelInfo, task: str, changes: Sequence[str], manifest: Manifest, array: str
) -> Protocol:
    """Return the protocol of a test: one task, one fixed set of test clips, nothing to fit."""
    asked = task or info.task
    honest = load_protocol("honest", changes, [asked])
    data = replace(honest.data, array=(array,))
    if data.view == AUTO and info.training.view:
        view: Any = info.training.view
        data = replace(data, view=view)
    if info.features.rule:
        cut: Any = {"rule": info.features.rule, "reduce": info.features.reduce}
        data = replace(data, segments=manifest.name, **cut)
    if not task and info.asked is not None:
        name = info.task
        asked_task = Task(**msgspec.to_builtins(info.asked))
    else:
        name, asked_task = one_task(asked, replace(honest, data=data), manifest)
    question = Question(
        f"How well does {info.name} rank clips that it was not trained on?",
        first=info.name,
        second="random",
        train=name,
        test=name,
    )
    report = replace(
        honest.report,
        title=f"The saved model {info.name}: {asked_task.in_words(name) or name}",
        questions=(question,),
        contrast=(),
        concepts=False,
        notes=tuple(_terms_of(info)),
    )
    return Protocol(
        f"test-{info.name}",
        data=data,
        tasks={name: asked_task},
        splits=Splits("fixed", validation="none"),
        grid=replace(honest.grid, train=(name,), test=(name,), pairs="same", models=()),
        report=report,
    )


def _terms_of(info: ModelInfo) -> Iterator[str]:
    """Yield the terms of what trained a model, which its numbers are made of, too."""
    for kind, source in (("annotations", info.training), ("features", info.features)):
        terms = []
        if source.licence:
            terms.append(f"licence {source.licence}")
        if source.citation:
            terms.append(f"to cite: {source.citation.removesuffix('.')}")
        if terms:
            yield f"The {kind} that trained {info.name}: {'; '.join(terms)}."


def _refuse_exchanged(info: ModelInfo, inputs: Inputs) -> None:
    """Raise an error if the positive clips of a task are what the model learned as negative.

    Both tasks are asked of the clips. Where these lack what the model was asked for, the names of
    the classes say it.
    """
    ((task, labels),) = inputs.labels.items()
    names = class_names(task, inputs.protocol.tasks[task], labels, inputs.table)
    trained = _labels_of_model(info, inputs)
    both = (labels != LEFT_OUT) & (trained != LEFT_OUT)
    is_exchanged = names == [*reversed(info.classes)]
    if len(np.unique(labels[both])) == 2:
        is_exchanged = bool((labels != trained)[both].all())
    if is_exchanged:
        raise FixUsage(
            f"the task {task} calls {names[1]!r} positive, and {info.name} was trained for"
            f" {info.classes[1]!r}: the classes are exchanged",
            hint=f"a --task that calls {info.classes[1]!r} positive",
        )


def _labels_of_model(info: ModelInfo, inputs: Inputs) -> LabelArray:
    """Return the class of each clip in the task of a model; none where the clips lack it."""
    unknown = np.full(len(inputs.table), LEFT_OUT, dtype=np.int8)
    if info.asked is None:
        return unknown
    try:
        asked = Task(**msgspec.to_builtins(info.asked))
        return task_labels(info.task, asked, inputs.table)
    except (FixInput, NotFound, UnknownName):
        return unknown


def _can_teach(model: SavedModel, inputs: Inputs) -> bool:
    """Return whether the manifest has all clips that trained a model, with both classes."""
    if model.clips is None:
        return False
    is_of_training = np.isin(inputs.table.id_array, model.clips.clip_ids)
    (labels,) = inputs.labels.values()
    (features,) = inputs.stores
    classes = np.unique(labels[is_of_training & features.present])
    has_all = int(is_of_training.sum()) == len(model.clips)
    return has_all and {0, 1} <= {*classes.tolist()}


def run_test(
    model: SavedModel,
    inputs: Inputs,
    store: Store,
    folder: Path,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> Run:
    """Test a saved model, and write the run.

    Args:
        model: The model.
        inputs: What it is tested on (`inputs_of_test`).
        store: The store of the features.
        folder: The folder of the run.
        force: Replace another run that is there.
        workspace: The workspace, if it is not the current one.
    """
    check_run_folder(folder, inputs.identity, force=force)
    predicted = predict(
        model,
        store,
        inputs.table.ids,
        manifest=inputs.manifest,
        in_sample=True,
        workspace=workspace,
    )
    run = _store_run(model, inputs, predicted)
    (pair,) = run.protocol.pairs
    outcomes: Outcomes = {(model.info.name, pair, 0, 0): _test(model, run, predicted)}
    remarks = {**inputs.table.remarks, **_remarks(model, run, predicted)}
    inputs = replace(inputs, table=replace(inputs.table, remarks=remarks))
    return run_fitted(run, inputs, folder, outcomes, force=force)


def _store_run(model: SavedModel, inputs: Inputs, predicted: Predicted) -> StoreRun:
    """Return the store with one fold: the clips that trained the model train, others are tested."""
    table = inputs.table
    ((task, labels),) = inputs.labels.items()
    is_scored = np.isin(table.id_array, predicted.clip_ids) & (labels != LEFT_OUT)
    is_tested = is_scored & _is_new(inputs, predicted)
    train = np.flatnonzero(is_scored & ~is_tested)
    if not is_tested.any():
        clips = count(len(train), "clip")
        raise FixInput(
            f"{model.info.name} was trained, or may have been, on each of the {clips} with a class"
            f" in {task} and features: there is nothing to test",
            where=inputs.manifest_path,
            hint="clips of other films, with features of the same recipe",
        )
    test = np.flatnonzero(is_tested)
    held = HeldOut(
        FOLD,
        units=np.arange(len(table)),
        films=table.groups,
        is_by_film=False,
        train=train,
        validation=NO_ROWS,
        test=test,
        hidden=test,
        excluded=NO_ROWS,
    )
    (features,) = inputs.stores
    folds = {(task, task): [held]}
    return StoreRun(inputs.protocol, table, inputs.labels, features, folds)


def _is_new(inputs: Inputs, predicted: Predicted) -> BoolArray:
    """Return which clips of the table have a score, and did not train the model."""
    new = np.array(predicted.clip_ids)[np.isin(predicted.basis, [*SEEN])]
    return np.isin(inputs.table.id_array, new)


def _test(model: SavedModel, run: StoreRun, predicted: Predicted) -> OneTest:
    """Return the test of the model on the clips that it was not trained on."""
    info = model.info
    (pair,) = run.protocol.pairs
    (held,) = run.folds[pair]
    place_of = {clip_id: place for place, clip_id in enumerate(predicted.clip_ids)}
    places = [place_of[clip_id] for clip_id in run.table.id_array[held.test].tolist()]
    facts = {
        "seed": 0,
        "is_model": True,
        "is_trained": True,
        "is_probability": predicted.are_probabilities,
        # A model that does not say how many clips trained has seen one of each of its films.
        "n_seen": max(info.training.n_clips, len(info.training.films)),
    }
    seen = np.array([SEEN[predicted.basis[place]] for place in places])
    return tested(
        run,
        (info.name, pair, 0),
        facts,
        as_scores(predicted.scores[places, -1], len(places)),
        np.array(predicted.decisions)[places] == info.classes[1],
        replace(run.leak(pair, held, NO_ROWS), seen=seen),
        chosen=info.chosen,
    )


def _remarks(model: SavedModel, run: StoreRun, predicted: Predicted) -> dict[str, str]:
    """Return what a reader should know of the clips, the films and the task of a test."""
    info = model.info
    ((task, held),) = ((pair[0], folds[0]) for pair, folds in run.folds.items())
    protocol = run.protocol
    remarks = {}
    if len(held.train):
        has = f"{count(len(held.train), 'clip')} with a class in {task}"
        # A model that does not list its clips may have learned from any of its films.
        is_sure = model.clips is not None and not predicted.n_by_id
        trained = "trained" if is_sure else "may have trained"
        remarks["trained"] = f"{has} {trained} {info.name}, and are not tested."
    if protocol.grid.baselines == UNTRAINED:
        remarks["guesses"] = (
            f"Only guesses that learn nothing stand beside {info.name}"
            f" ({' and '.join(UNTRAINED)}): the clips that trained it are not all here, from which"
            " a run learns film_prior and neighbour."
        )
    classes = Classes.of(protocol.tasks[task])
    is_other = info.asked is not None and classes != info.asked
    if is_other or task != info.task or info.where not in ("", protocol.data.where):
        asked = f"{info.task}{info.with_where}"
        if is_other:
            asked = f"{asked}: {info.asked}"
        remarks["other task"] = f"{info.name} was trained for the task {asked}."
    if predicted.n_by_id:
        clips = count(predicted.n_by_id, "clip")
        remarks["by ids"] = (
            f"{clips} taken for clips of the training by their ids alone: no film and no time is"
            " known on both sides."
        )
    if predicted.windows:
        remarks["lengths"] = f"{predicted.windows}."
    if predicted.replaced:
        remarks["replaced films"] = (
            "These videos have other files than those whose features were scored:"
            f" {few(predicted.replaced)}."
        )
    return {**remarks, **_films_seen(model, run, predicted)}


def _films_seen(
    model: SavedModel, run: StoreRun, predicted: Predicted
) -> dict[str, str]:
    """Return which films of the test the model has seen in training, and how they are left out."""
    ((held,),) = run.folds.values()
    film_of = dict(zip(run.table.ids, run.table.films.tolist(), strict=True))
    tested_ids = {*run.table.id_array[held.test].tolist()}
    basis_of = dict(zip(predicted.clip_ids, predicted.basis, strict=True))
    was_seen = [clip for clip in tested_ids if basis_of[clip] == FILM_SEEN]
    films = sorted({film_of[clip] for clip in was_seen})
    if not films:
        return {}
    text = f"{model.info.name} was trained on other clips of {few(films)}"
    if not run.protocol.data.where and len(was_seen) < len(tested_ids):
        words = ", ".join(map(quoted_word, films))
        option = shell_word(f"data.where=movie_id not in {{{words}}}")
        text = f"{text}; --set {option} tests other films alone"
    return {"films seen": f"{text}."}

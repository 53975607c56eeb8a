"""Test a saved model on the user's own labels: a run with a fitted model instead of fits.

Scores, decisions and refusals are those of `predict`. Clips that the model was trained on are not
tested, but the baselines that learn are trained on these clips.
"""

import time
from collections.abc import Mapping, Sequence
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
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.clip_table import find_rows
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.evaluation.basis import FILM_SEEN, FILM_UNKNOWN, UNSEEN
from obygaze_models.evaluation.predictions import NO_ROWS, BoolArray, IntArray
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
    TaskClips,
    class_names,
    task_labels,
)
from obygaze_models.protocols.reading import load_protocol, require_each_once
from obygaze_models.protocols.schema import (
    AUTO,
    Model,
    Protocol,
    Splits,
    Task,
)
from obygaze_models.protocols.tasks import one_task
from obygaze_models.runner.features import Features
from obygaze_models.runner.files import Run, check_run_folder
from obygaze_models.runner.heldout import HeldOut
from obygaze_models.runner.inputs import Inputs, gather
from obygaze_models.runner.processes import fitting
from obygaze_models.runner.run import (
    TestKey,
    evaluate_baselines,
    finish,
    group_into_cells,
    make_test,
)
from obygaze_models.runner.store_run import StoreRun
from obygaze_models.zoo.info import Classes, ModelInfo
from obygaze_models.zoo.predicting import Predicted, predict, store_to_read
from obygaze_models.zoo.saving import SavedModel, read_document
from obygaze_models.zoo.training_overlap import COPY

FOLD = "test"
# The keys of `honest` that can be changed in a test: clips, view and metrics.
CHANGES = (
    *("data.where", "data.view"),
    *("report.primary", "report.metrics", "report.replicates"),
)
# The value in the column `seen` for each basis on which a clip is tested.
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
    stores: Mapping[str, Store],
) -> Inputs:
    """Return the clips, classes and features for the test of a saved model.

    Args:
        model: The model, of two classes.
        task: The task. Empty: the task of the model.
        changes: Keys of the protocol `honest` to change, from `CHANGES`.
        clips: The manifest and its path.
        stores: The store, by its name in tables.
    """
    info = model.info
    _check(info, changes, stores)
    ((name, store),) = stores.items()
    manifest, path = clips
    store, array = store_to_read(model, store)
    protocol = _protocol(info, task, changes, manifest, array)
    try:
        inputs = gather(protocol, manifest, path, {name: store})
    except ObygazeError as error:
        if not task and str(error.where).startswith("tasks."):
            error.hint = (
                f"use --task with a label of these clips, instead of {info.task}"
            )
        raise
    _refuse_exchanged(info, inputs)
    # The identity of the run includes the model.
    settings = {"task": info.task, "sha256": read_document(model.folder).sha256}
    models = {info.name: Model(info.kind, {**info.chosen, **settings})}
    baselines = UNTRAINED
    if model.clips is not None:
        # Baselines that learn need all training clips of the model, and clips of both classes.
        is_of_training = np.isin(inputs.table.id_array, model.clips.clip_ids)
        ((_, labels),) = inputs.labels.items()
        classes = labels[is_of_training & inputs.stores[0].present]
        has_all = int(is_of_training.sum()) == len(model.clips)
        if has_all and {0, 1} <= {*classes.tolist()}:
            baselines = protocol.grid.baselines
    grid = replace(protocol.grid, models=(info.name,), baselines=baselines)
    return replace(inputs, protocol=replace(inputs.protocol, models=models, grid=grid))


def _check(
    info: ModelInfo, changes: Sequence[str], stores: Mapping[str, Store]
) -> None:
    """Raise an error for a model, a store or a key that cannot be used in a test."""
    if len(info.classes) != 2:
        raise FixUsage(
            f"expected a model with two classes, got {info.name} ({info.summary}) with"
            f" {', '.join(info.classes) or 'no classes'}",
        )
    if info.name in BASELINES:
        raise FixUsage(
            f"a tested model cannot have the name {info.name!r}: a baseline has this name",
            hint="rename the folder of the model",
        )
    if len(stores) != 1:
        raise FixUsage(f"expected one store, got {', '.join(stores)}")
    require_each_once(changes)
    for change in changes:
        key = change.partition("=")[0].strip()
        if key not in CHANGES:
            raise FixUsage(
                f"--set {key} has no effect on a saved model, because nothing is fitted",
                hint=f"use one of {', '.join(CHANGES)}",
            )


def _protocol(
    info: ModelInfo, task: str, changes: Sequence[str], manifest: Manifest, array: str
) -> Protocol:
    """Return the protocol `honest`, changed to one task, one fixed test set and no models."""
    asked = task or info.task
    honest = load_protocol("honest", changes, [asked])
    data = replace(honest.data, array=(array,))
    if data.view == AUTO and info.training.view:
        view: Any = info.training.view
        data = replace(data, view=view)
    if not task and info.asked is not None:
        name = info.task
        asked_task = Task(**msgspec.to_builtins(info.asked))
    else:
        name, asked_task = one_task(asked, replace(honest, data=data), manifest)
    text = f"Does {info.name} rank clips that it was not trained on?"
    # The results depend on the training data, so the notes have their licences and citations.
    notes = []
    for kind, source in (("annotations", info.training), ("features", info.features)):
        terms = []
        if source.licence:
            terms.append(f"licence {source.licence}")
        if source.citation:
            terms.append(f"citation: {source.citation.removesuffix('.')}")
        if terms:
            notes.append(f"Training {kind} of {info.name}: {'; '.join(terms)}.")
    report = replace(
        honest.report,
        title=f"The saved model {info.name}: {asked_task.in_words(name) or name}",
        lead="",
        ask=text,
        contrast=(),
        concepts=False,
        notes=tuple(notes),
    )
    return Protocol(
        f"test-{info.name}",
        data=data,
        tasks={name: asked_task},
        splits=Splits("fixed", validation="none"),
        grid=replace(honest.grid, train=(name,), test=(name,), pairs="same", models=()),
        report=report,
    )


def _refuse_exchanged(info: ModelInfo, inputs: Inputs) -> None:
    """Raise an error if the positive class of a task is the negative class of the model.

    The classes of the clips with a label in both tasks are compared. If these clips are not of two
    classes, the names of the classes are compared.
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
            f"the classes are exchanged: the positive class of the task {task} is {names[1]!r}, and"
            f" the positive class of {info.name} is {info.classes[1]!r}",
            hint=f"use --task with a label whose positive class is {info.classes[1]!r}",
        )


def _labels_of_model(info: ModelInfo, inputs: Inputs) -> LabelArray:
    """Return the class of each clip in the task of a model, or LEFT_OUT if it is unknown."""
    unknown = np.full(len(inputs.table), LEFT_OUT, dtype=np.int8)
    if info.asked is None:
        return unknown
    try:
        asked = Task(**msgspec.to_builtins(info.asked))
        return task_labels(info.task, asked, inputs.table)
    except (FixInput, NotFound, UnknownName):
        return unknown


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

    The run has one fold. The baselines are trained on the labelled clips that the model was, or may
    have been, trained on. All other labelled clips with features are tested.

    Args:
        model: The model.
        inputs: The inputs of the test (`inputs_of_test`).
        store: The store of the features.
        folder: The folder of the run.
        force: Replace an existing run.
        workspace: The workspace, if it is not the current one.
    """
    check_run_folder(folder, inputs.identity, force=force)
    started = time.perf_counter()
    info = model.info
    table = inputs.table
    ((task, labels),) = inputs.labels.items()
    clips: Any = {"manifest": inputs.manifest, "in_sample": True}
    with fitting():
        predicted = predict(model, store, table.ids, **clips, workspace=workspace)
        places = find_rows(table.ids, predicted.clip_ids)
        basis = np.array([*predicted.basis, ""])[places]
        has_class = (labels != LEFT_OUT) & (places >= 0)
        is_tested = has_class & np.isin(basis, [*SEEN])
        train = np.flatnonzero(has_class & ~is_tested)
        test = np.flatnonzero(is_tested)
        if not len(test):
            raise FixInput(
                f"no clip to test: {info.name} was trained, or may have been trained, on all"
                f" {count(len(train), 'clip')} with features and a class in {task}",
                where=inputs.manifest_path,
            )
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
        films = table.films[test[basis[test] == FILM_SEEN]]
        remarks = _remarks(model, inputs, predicted, len(train), films.tolist())
        remarks = {**table.remarks, **remarks}
        (features,) = inputs.stores
        may_be_tested = (labels != LEFT_OUT) & _is_untrained(model, table)
        features = _count_tested_clips(features, table, test, may_be_tested)
        inputs = replace(
            inputs, table=replace(table, remarks=remarks), stores=[features]
        )
        folds = {(task, task): [held]}
        run = StoreRun(inputs.protocol, inputs.table, inputs.labels, features, folds)
        # If the number of training clips is unknown, one clip of each training film is counted.
        n_seen = max(info.training.n_clips, len(info.training.films))
        has_all = inputs.protocol.grid.baselines != UNTRAINED
        if has_all and model.clips is not None and info.asked is not None:
            # As in a run, clips that were used only to find concept vectors are not counted.
            is_of_training = np.isin(table.id_array, model.clips.clip_ids)
            has_its_class = _labels_of_model(info, inputs) != LEFT_OUT
            n_seen = int((is_of_training & has_its_class).sum()) or n_seen
        facts = {
            "is_model": True,
            "is_trained": True,
            "is_probability": predicted.are_probabilities,
            "n_seen": n_seen,
        }
        seen = np.array([SEEN[of_clip] for of_clip in basis[test].tolist()])
        key = TestKey(info.name, (task, task), 0)
        outcome = make_test(
            run,
            key,
            facts,
            predicted.scores[places[test], -1],
            np.array(predicted.decisions)[places[test]] == info.classes[1],
            replace(run.leak(key.pair, held, NO_ROWS), seen=seen),
            chosen=info.chosen,
        )
        cells = group_into_cells(run, [info.name], {key: outcome})
        cells += evaluate_baselines([run])
        return finish(inputs, folder, [run], cells, started, force=force)


def _is_untrained(model: SavedModel, table: TaskClips) -> BoolArray:
    """Return whether a model was certainly not trained on each clip, also without features."""
    training = model.info.training
    if model.clips is not None:
        return ~np.isin(table.id_array, model.clips.clip_ids)
    if training.films:
        return ~np.isin(table.films, training.films)
    # A model without a list of films may have been trained on any film.
    return np.full(len(table), training.n_clips == 0)


def _count_tested_clips(
    features: Features, table: TaskClips, test: IntArray, may_be_tested: BoolArray
) -> Features:
    """Return features whose counts of clips are of the tested clips only.

    Args:
        features: The features; they also have the training clips of the model.
        table: The clips.
        test: The rows of the tested clips.
        may_be_tested: Whether a clip is tested if it has features.
    """
    ids = {*table.id_array[may_be_tested].tolist()}
    missing = {clip: reason for clip, reason in features.missing.items() if clip in ids}
    origin = dict(features.origin)
    if origin.pop("without_words", 0):
        # Clips without words have no hash.
        n_silent = sum(row not in features.hashes for row in test.tolist())
        origin |= {"without_words": n_silent} if n_silent else {}
    return replace(features, missing=missing, origin=origin)


def _remarks(
    model: SavedModel,
    inputs: Inputs,
    predicted: Predicted,
    n_trained: int,
    films_seen: Sequence[str],
) -> dict[str, str]:
    """Return remarks on the clips, the films and the task of a test."""
    info = model.info
    protocol = inputs.protocol
    ((name, task),) = protocol.tasks.items()
    remarks = {}
    if n_trained:
        has = f"{count(n_trained, 'clip')} with a class in {name}"
        # A model without a list of clips may have learned from any clip of its films.
        is_sure = model.clips is not None and not predicted.n_by_id
        were = "were" if is_sure else "may have been"
        remarks["trained"] = f"Left out: {has}, which {were} used to train {info.name}."
    if protocol.grid.baselines == UNTRAINED:
        remarks["baselines"] = (
            f"{info.name} is compared only with baselines that are not trained"
            f" ({' and '.join(UNTRAINED)}), because film_prior and neighbour need all training"
            f" clips of {info.name}, and some are missing here."
        )
    is_other = name != info.task or info.where not in ("", protocol.data.where)
    if is_other or info.asked not in (None, Classes.of(task)):
        asked = f" ({info.asked})" if info.asked is not None else ""
        where = f", on clips{info.with_where}" if info.with_where else ""
        remarks["other task"] = (
            f"{info.name} was trained for the task {info.task}{asked}{where}."
        )
    if films_seen:
        films = few(sorted({*films_seen}))
        remarks["films seen"] = f"{info.name} was trained on other clips of {films}."
    for doubt, text in predicted.doubts.items():
        remarks[doubt] = f"{text[0].upper()}{text[1:]}."
    return remarks

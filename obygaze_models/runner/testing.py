"""Test a saved model on labels of one's own: the table of tests of a run, without a fit.

Scores, decisions and refusals are those of `predict`. Clips that the model was trained on are left
out: its scores of these are no test.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.expression import quoted_word
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.evaluation.basis import FILM_SEEN, FILM_UNKNOWN, UNSEEN
from obygaze_models.evaluation.predictions import as_scores
from obygaze_models.evaluation.results import results
from obygaze_models.evaluation.tables import (
    FILM_WAS_SEEN,
    NOT_KNOWN,
    NOTHING_SEEN,
    RunRow,
    Test,
    table_of_tests,
)
from obygaze_models.models.registry import BASELINES, UNTRAINED
from obygaze_models.protocols.clips import LEFT_OUT, class_names
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schema import (
    AUTO,
    GridSettings,
    Model,
    Protocol,
    Question,
    Splits,
    Task,
)
from obygaze_models.protocols.tasks import one_task
from obygaze_models.runner.about import about_run
from obygaze_models.runner.files import Run, check_run_folder, settings_of, write_run
from obygaze_models.runner.inputs import Inputs, gather
from obygaze_models.runner.text import printed
from obygaze_models.zoo.info import Classes, ModelInfo
from obygaze_models.zoo.predicting import Predicted, array_to_read, predict
from obygaze_models.zoo.saving import SavedModel, read_document

RANDOM, ALL_POSITIVE = UNTRAINED
FOLD = "test"
# The keys of `honest` that a test reads: which clips, in which view, and by which metrics.
CHANGES = (
    *("data.where", "data.view"),
    *("report.primary", "report.metrics", "report.replicates"),
)
SEEN = {UNSEEN: NOTHING_SEEN, FILM_SEEN: FILM_WAS_SEEN, FILM_UNKNOWN: NOT_KNOWN}


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
    (store,) = stores.values()
    manifest, path = clips
    array = array_to_read(model, store)
    protocol = _protocol(model, task, changes, manifest, array)
    try:
        inputs = gather(protocol, manifest, path, stores)
    except ObygazeError as error:
        if not task and str(error.where).startswith("tasks."):
            error.hint = f"--task for another task than {info.task}, of these labels"
        raise
    (name,) = protocol.tasks
    names = class_names(name, protocol.tasks[name], inputs.labels[name], inputs.table)
    if names == [*reversed(info.classes)]:
        raise FixUsage(
            f"the task {name} calls {names[1]!r} positive, and {info.name} was trained for"
            f" {info.classes[1]!r}",
            hint=f"a --task that calls {info.classes[1]!r} positive",
        )
    # What the numbers depend on, with the model that gave the scores.
    settings = {"task": info.task, "sha256": read_document(model.folder).sha256}
    tested = {info.name: Model(info.kind, {**info.chosen, **settings})}
    grid = replace(protocol.grid, models=(info.name,))
    return replace(inputs, protocol=replace(inputs.protocol, models=tested, grid=grid))


def _protocol(
    model: SavedModel,
    task: str,
    changes: Sequence[str],
    manifest: Manifest,
    array: str,
) -> Protocol:
    """Return the protocol of a test: one task, one fixed set of test clips, nothing to fit."""
    for change in changes:
        key = change.partition("=")[0].strip()
        if key not in CHANGES:
            raise FixUsage(
                f"--set {key} has no meaning where nothing is fitted",
                hint=f"one of {', '.join(CHANGES)}",
            )
    info = model.info
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
        name, found = one_task(asked, replace(honest, data=data), manifest)
        asked_task = found.task
    question = Question(
        f"How well does {info.name} rank clips that it was not trained on?",
        first=info.name,
        second=RANDOM,
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
        grid=GridSettings((name,), (name,), "same", baselines=UNTRAINED),
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
    started = time.perf_counter()
    predicted = predict(
        model,
        store,
        inputs.table.ids,
        manifest=inputs.manifest,
        in_sample=True,
        workspace=workspace,
    )
    tests, n_trained = _tests(model, inputs, predicted)
    remarks = {
        **inputs.table.remarks,
        **_remarks(model, inputs, predicted, n_trained),
        **_films_seen(tests[0], inputs),
    }
    inputs = replace(inputs, table=replace(inputs.table, remarks=remarks))
    fits = [_about_test(test) for test in tests]
    fits[0]["folds"][0]["chosen"] = dict(model.info.chosen)
    about = about_run(inputs, folder, [], fits)
    table = table_of_tests(tests)
    found = results(table, settings_of(about))
    about["seconds"] = round(time.perf_counter() - started, 3)
    files = {"predictions.csv": table, "results.csv": found}
    return printed(write_run(folder, about, files, force=force))


def _tests(
    model: SavedModel, inputs: Inputs, predicted: Predicted
) -> tuple[list[Test], int]:
    """Return the tests of the model and of the baselines, and how many clips were left out.

    These are clips with a class that trained the model. The baselines are those that learn nothing.
    """
    info = model.info
    table = inputs.table
    ((task, labels),) = inputs.labels.items()
    row_of = {clip_id: row for row, clip_id in enumerate(table.ids)}
    rows = np.array([row_of[clip_id] for clip_id in predicted.clip_ids])
    has_class = labels[rows] != LEFT_OUT
    is_tested = has_class & np.isin(predicted.basis, [*SEEN])
    n_trained = int((has_class & ~is_tested).sum())
    if not is_tested.any():
        clips = count(n_trained, "clip")
        raise FixInput(
            f"{info.name} was trained, or may have been, on each of the {clips} with a class in"
            f" {task} and features: there is nothing to test",
            where=inputs.manifest_path,
            hint="clips of other films, with features of the same recipe",
        )
    rows = rows[is_tested]
    facts: RunRow = {"task": task, "train": task, "test": task, "fold": FOLD, "seed": 0}
    # A model that does not say how many clips trained has seen one of each of its films.
    n_seen = max(info.training.n_clips, len(info.training.films))
    facts["n_seen"] = n_seen
    of_model = Test(
        {
            **facts,
            "store": inputs.stores[0].name,
            "model": info.name,
            "is_model": True,
            "is_trained": True,
            "is_probability": predicted.are_probabilities,
        },
        clip_id=table.id_array[rows],
        movie_id=table.films[rows],
        group=table.groups[rows],
        y=labels[rows] == 1,
        score=as_scores(predicted.scores[is_tested, -1], len(rows)),
        decision=np.array(predicted.decisions)[is_tested] == info.classes[1],
        seen=np.array([SEEN[basis] for basis in np.array(predicted.basis)[is_tested]]),
        leaked=np.zeros(len(rows), dtype=np.bool_),
    )
    tests = [of_model]
    for name, score, decision in ((RANDOM, 0.0, 0.5), (ALL_POSITIVE, 1.0, 1.0)):
        of_baseline = {"store": "", "model": name, "is_probability": name != RANDOM}
        tests.append(
            of_model._replace(
                facts={**facts, **of_baseline, "is_model": False, "is_trained": False},
                score=np.full(len(rows), score),
                decision=np.full(len(rows), decision),
            )
        )
    return tests, n_trained


def _remarks(
    model: SavedModel, inputs: Inputs, predicted: Predicted, n_trained: int
) -> dict[str, str]:
    """Return what a reader should know of the clips, the films and the task of a test."""
    info = model.info
    (task,) = inputs.labels
    remarks = {}
    if n_trained:
        clips = count(n_trained, "clip")
        has = f"{clips} with a class in {task}"
        # A model that does not list its clips may have learned from any of its films.
        is_sure = model.clips is not None and not predicted.n_by_id
        trained = "trained" if is_sure else "may have trained"
        remarks["trained"] = f"{has} {trained} {info.name}, and are not tested."
    classes = Classes.of(inputs.protocol.tasks[task])
    is_other = info.asked is not None and classes != info.asked
    if (
        is_other
        or task != info.task
        or info.where not in ("", inputs.protocol.data.where)
    ):
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
    return remarks


def _films_seen(of_model: Test, inputs: Inputs) -> dict[str, str]:
    """Return which films of the test the model has seen in training, and how they are left out."""
    was_seen = of_model.seen == FILM_WAS_SEEN
    films = sorted({*of_model.movie_id[was_seen].tolist()})
    if not films:
        return {}
    text = f"{of_model.facts['model']} was trained on other clips of {few(films)}"
    if not inputs.protocol.data.where and not was_seen.all():
        words = ", ".join(map(quoted_word, films))
        option = shell_word(f"data.where=movie_id not in {{{words}}}")
        text = f"{text}; --set {option} tests other films alone"
    return {"films seen": f"{text}."}


def _about_test(test: Test) -> dict[str, Any]:
    """Return what run.json says of a test, as of the fits of a run."""
    facts = test.facts
    fold = {"fold": FOLD, "seed": 0, "n_train": facts["n_seen"], "n_validation": 0}
    return {
        **{name: facts[name] for name in ("train", "test", "store", "model")},
        "skipped": {},
        "skipped_films": {},
        "folds": [{**fold, "chosen": {}}],
    }

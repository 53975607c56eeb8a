"""Train one model to keep: its protocol, and after the run its fit on every clip.

The protocol is `honest` with one task, or each concept as a task. The functions that fit the model
are those that fit the cells of a run. No clip is held out to test, but a perceptron still stops on
the validation clips of the first split.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from obygaze_features.core.console import count, plural
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning, near
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.clip_facts import ClipFacts
from obygaze_features.manifest.expression import quoted_word
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.spans import span_in_film
from obygaze_features.store import Store
from obygaze_models.evaluation.basis import tested_on, weakest
from obygaze_models.evaluation.bootstrap import CONFIDENCE
from obygaze_models.evaluation.cells import Cell
from obygaze_models.evaluation.metrics import METRICS, RANKING_METRICS
from obygaze_models.evaluation.predictions import NO_ROWS, IntArray
from obygaze_models.models.examples import RATED, rows_of_vectors
from obygaze_models.models.fitting import gives_probabilities
from obygaze_models.models.lessons import Lessons
from obygaze_models.models.registry import (
    CAV,
    DEFAULT_TASK,
    KINDS,
    MIN_CLIPS,
    PUBLISHED_TOLERANCE,
    build_bank,
    default_settings,
    has_epochs,
    trainable,
)
from obygaze_models.protocols.clips import class_names, clip_table, with_view
from obygaze_models.protocols.kinds import for_task, most_chosen
from obygaze_models.protocols.reading import load_protocol, protocol_names
from obygaze_models.protocols.schedule import unit_of, with_groups
from obygaze_models.protocols.schema import NONE, GridSettings, Model, Protocol, Task
from obygaze_models.protocols.tasks import one_task, with_tasks
from obygaze_models.runner.answer import intervals_are_of, sentence_of
from obygaze_models.runner.files import Run
from obygaze_models.runner.fitting import Fitted, fit_model, seed_of
from obygaze_models.runner.heldout import nothing_held_out
from obygaze_models.runner.inputs import Inputs
from obygaze_models.runner.limits import why_no_interval
from obygaze_models.runner.store_run import StoreRun, store_runs
from obygaze_models.zoo.info import (
    CardMetric,
    Classes,
    FeatureSpec,
    ModelInfo,
    TrainingClips,
    TrainingData,
)
from obygaze_models.zoo.saving import save_model
from obygaze_models.zoo.seen import video_hashes

if TYPE_CHECKING:
    import pandas as pd

# A fitted estimator, what it learned from, its column of scores for each task, facts for its card.
_Kept = tuple[Any, Lessons, dict[str, str], dict[str, Any]]
CARD_METRICS = [metric.name for metric in METRICS.values() if metric.is_on_card]


def training_protocol(
    name: str,
    task: str,
    manifest: Manifest,
    changes: Sequence[str] = (),
    stores: Mapping[str, Store] | None = None,
) -> Protocol:
    """Return the protocol `honest` with one model and one task.

    Args:
        name: A kind of model, or "cav" for concept vectors, which have a task for each concept.
        task: What is asked for (`protocols.tasks`), such as EN_S or rating>=2.
        manifest: The clips; a concept that too few of them or of their films have is no task.
        changes: Keys of that protocol to change, or `model.KEY=VALUE` for the model.
        stores: The features, which decide on the view of the labels.
    """
    if name in KINDS and not KINDS[name].is_trained:
        raise FixUsage(
            f"{name} is not trained, so there is no model to save",
            hint=f"obygaze run PROTOCOL.toml, with kind = {name!r} in a model of it",
        )
    if name not in trainable():
        hint = f"one of {', '.join(trainable())}"
        if name.endswith(".toml") or name in protocol_names():
            own_task = f"obygaze train MODEL --task {shell_word(f'{name}:NAME')}"
            hint += f"; the task NAME of a protocol: {own_task}"
        raise FixUsage(f"unknown model {name!r}{near(name, trainable())}", hint=hint)
    if name == CAV:
        _refuse_settings_of_vectors(changes)
    else:  # `model.C=1` is a key of the one model that is trained
        keys = [f"models.{name}.kind={name}"]
        for change in changes:
            if change.startswith("model."):
                change = f"models.{name}.{change.removeprefix('model.')}"
            keys.append(change)
        changes = keys
    honest = load_protocol("honest", changes, [task])
    _refuse_another_model(name, honest)
    honest = replace(honest, data=with_view(honest.data, manifest, stores))
    not_saved = {
        "data.scale": honest.data.scale != NONE,
        "fit.choose_store": honest.fit.choose_store,
    }
    for key, is_set in not_saved.items():
        if is_set:
            what = "a saved model reads one store, and its features as they are"
            raise FixUsage(what, hint=f"omit {key}")
    if name == CAV and task != DEFAULT_TASK:
        raise FixUsage(
            f"concept vectors have a task for each concept, got the task {task!r}",
            hint="leave out --task",
        )
    if name == CAV:
        return _concepts_protocol(honest, manifest)
    task_name, asked = one_task(task, honest, manifest)
    of_task = with_tasks(honest, [task], manifest).with_models([name])
    title = f"{name}: {asked.title or task_name}"
    report = replace(of_task.report, title=title)
    return replace(of_task, name=f"train-{name}", report=report)


def _refuse_another_model(kind: str, protocol: Protocol) -> None:
    """Raise an error if settings would train another model under the name of this one."""
    asked = set(protocol.grid.models) - {kind}
    if kind in protocol.models:
        asked |= {protocol.models[kind].kind} - {kind}
    if asked:
        raise FixUsage(
            f"the model to train is {kind}, and --set asks for {', '.join(sorted(asked))}",
            hint="obygaze train MODEL --store STORE, for each model that is wanted",
        )


def _refuse_settings_of_vectors(changes: Sequence[str]) -> None:
    """Raise an error for a setting of concept vectors: all of theirs are fixed."""
    for change in changes:
        section, _, _ = change.partition(".")
        if section in ("model", "models"):
            raise FixUsage(
                f"{CAV} has no settings of its own, got --set {change}: each vector is that of a"
                " linear machine with the published strength",
                hint="--set data.view=raw or another key of [data], [splits], [fit] or [report];"
                " a bottleneck, such as pcbm-lr, has settings of its concept vectors",
            )


def _concepts_protocol(honest: Protocol, manifest: Manifest) -> Protocol:
    """Each visual concept as a task of a linear machine, on the honest splits."""
    table = with_groups(clip_table(manifest, honest.data), honest.splits)
    unit = unit_of(honest.splits.kind, honest.splits.column)
    has = {name: table.has_concept[:, i] for i, name in enumerate(table.concept_names)}
    rated = np.isin(table.levels, RATED)
    n_of_concept: Counter[str] = Counter()
    for clip in manifest:
        n_of_concept.update(clip.concepts)
    tasks = {}
    left_out = []
    for name, modality in manifest.header.concepts.items():
        if modality != "visual" or name not in has:
            if n_of_concept[name]:
                clips = count(n_of_concept[name], manifest.header.unit)
                left_out.append(f"{name} ({clips}, not visual)")
            continue
        if not n_of_concept[name]:
            continue
        positive = has[name] & rated
        n_clips = int(np.count_nonzero(positive))
        n_groups = len(np.unique(table.groups[positive]))
        if n_clips >= MIN_CLIPS and n_groups > 1:
            tasks[name] = _concept_task(name)
        else:
            of_groups = f"{count(n_clips, 'clip')} of {count(n_groups, unit)}"
            left_out.append(f"{name} ({of_groups})")
    if not tasks:
        what = f"no visual concept has {MIN_CLIPS} HN or S clips in at least two {plural(unit)}"
        raise FixInput(what, where=table.name)
    title = "Concept vectors, films unseen"
    report = replace(honest.report, title=title, questions=())
    if left_out:
        listed = ", ".join(left_out)
        text = (
            f"No vector is found for concepts that are not visual, or with fewer than {MIN_CLIPS} "
            f"HN or S clips or 2 {plural(unit)}: {listed}."
        )
        warnings.warn(text, ObygazeWarning, stacklevel=3)
        report = replace(report, notes=(*report.notes, text))
    n_others = int((~np.isin(table.levels, ("EN", *RATED))).sum())
    if n_others:
        text = (
            f"{count(n_others, 'clip')} of other levels than EN, HN and S (such as NS)"
            " train no vector: they are an example of no concept, and of its absence."
        )
        report = replace(report, notes=(*report.notes, text))
    settings = {**default_settings("svm"), "C": PUBLISHED_TOLERANCE}
    return replace(
        honest,
        name="train-cav",
        tasks=tasks,
        models={CAV: Model("svm", settings)},
        grid=GridSettings(pairs="same", baselines=("all_positive", "neighbour")),
        report=report,
    )


def _concept_task(concept: str) -> Task:
    """Return the task of telling HN and S clips with a concept from EN, and from those without."""
    levels = f"level in {{{', '.join(RATED)}}}"
    word = quoted_word(concept)
    return Task(
        positive=f"{levels} and {word} in concept",
        negative=f"level == EN or ({levels} and {word} not in concept)",
    )


def fit_final(
    inputs: Inputs,
    run: Run,
    folder: Path,
    *,
    store: Store | None = None,
    force: bool = False,
) -> Path:
    """Fit the model of a training protocol as in its run, but on every clip of its task; save it.

    Args:
        inputs: The inputs of the run, of one model and one task.
        run: The finished run, which has the metrics and the chosen settings.
        folder: The folder of the model, which is returned; its name is the name of the model.
        store: The store of the features, which may know the hashes of the videos, and how films
            were cut into its windows.
        force: Replace a model that is there.
    """
    (store_run,) = store_runs(inputs)
    is_of_vectors = inputs.protocol.model_names == [CAV]
    kept = _vectors(store_run) if is_of_vectors else _model(store_run, run)
    estimator, lessons, columns, facts = kept
    vectors = getattr(estimator.core, "bank_", estimator.core)
    facts["concepts"] = tuple(getattr(vectors, "concepts_", NO_ROWS).tolist())
    taught = np.union1d(lessons.train, lessons.validation)
    if estimator.reads_concepts:
        taught = np.union1d(taught, rows_of_vectors(lessons, vectors.against))
    rows = np.flatnonzero(store_run.of_store.present)[taught]
    stated = ClipFacts.of_clips([inputs.table.clips[row] for row in rows.tolist()])
    info = _model_info(inputs, run, rows, name=folder.name, **facts)
    clips = training_clips(run, stated, columns, unit_norm=is_of_vectors)
    hashes = store_run.of_store.hashes
    clips = replace(clips, hashes=[hashes.get(row, "") for row in rows.tolist()])
    if store is not None:
        videos = tuple(video_hashes(stated, store))
        training = structs.replace(info.training, video_hashes=videos)
        made_of = structs.replace(info.features, grid=store.recipe.grid)
        info = structs.replace(info, training=training, features=made_of)
    X = store_run.of_store.of(rows)
    return save_model(estimator, info, folder, X, clips=clips, force=force)


def _vectors(run: StoreRun) -> _Kept:
    """Return the vectors of the concepts that are tasks, found on every clip."""
    protocol = run.protocol
    settings = {**default_settings("pcbm-lr"), "tolerance": PUBLISHED_TOLERANCE}
    held = nothing_held_out(run.table, NO_ROWS)
    lessons = run.lessons(protocol.train_tasks[0], held)
    # A concept that is no task has no metrics, and no vector.
    of_tasks = lessons.concepts.only(list(protocol.tasks))
    lessons = replace(lessons, concepts=of_tasks)
    unfitted = run.reading(build_bank(settings, seed=protocol.fit.seed))
    (estimator,) = unfitted.learn_each([lessons])
    concepts = estimator.core.concepts_.tolist()
    columns = {concept: f"margin:{concept}" for concept in concepts}
    return estimator, lessons, columns, {"kind": CAV, "task": "concepts", "classes": ()}


def _model(store_run: StoreRun, run: Run) -> _Kept:
    """Return the model of a run, with the settings that most folds chose, fitted on every clip."""
    protocol = store_run.protocol
    (model,) = store_run.models.values()
    task = protocol.train_tasks[0]
    of_folds: list[Mapping[str, Any]] = []
    for cell in run.cells:
        if cell.is_model:
            of_folds += [fold["chosen"] for fold in run.folds_of(cell)]
    chosen = most_chosen(model, task, of_folds)
    settings = for_task({**model.settings, **chosen}, task)
    fitted = _fit_every_clip(store_run, Model(model.kind, settings), task)
    estimator = fitted.estimator
    names = ["negative", "positive"]
    asked = protocol.tasks[task]
    if asked != load_protocol("honest").tasks.get(task):
        names = class_names(task, asked, store_run.labels[task], store_run.table)
    name_of_code = dict(zip(("0", "1"), names, strict=True))
    classes = [
        name_of_code.get(str(code), str(code)) for code in estimator.core.classes_
    ]
    prefix = "p" if gives_probabilities(estimator) else "score"
    columns = {task: f"{prefix}:{classes[-1]}"}
    facts = {
        "kind": model.kind,
        "task": task,
        "classes": tuple(classes),
        "chosen": chosen,
        "asked": Classes.of(asked),
    }
    return estimator, fitted.lessons, columns, facts


def _fit_every_clip(run: StoreRun, model: Model, task: str) -> Fitted:
    """Fit a model as the cells are fitted, but on every clip of a task.

    What is left out inside the fit is as in the folds: whole films, or clips. A model with epochs
    stops on the validation clips of the first fold, and trains on all others.
    """
    rows = np.flatnonzero(run.of_store.present & (run.labels[task] >= 0))
    # A protocol may not test the task that it trains on.
    pairs = sorted(run.folds, key=lambda pair: pair[1] != task)
    pair = next(pair for pair in pairs if pair[0] == task)
    first = run.folds[pair][0]
    held = first.without_test(rows)
    if has_epochs(model.kind):
        validation = np.intersect1d(rows, first.validation)
        train = np.setdiff1d(rows, validation)
        held = replace(held, train=train, validation=validation)
    seed = seed_of(model.kind, run.protocol.fit.seed)
    (fitted,) = fit_model(run, model, task, [held], seed)
    return fitted


def _model_info(inputs: Inputs, run: Run, rows: IntArray, **facts: Any) -> ModelInfo:
    """Return the facts for the card of a model that was trained on these rows."""
    protocol = inputs.protocol
    manifest = inputs.manifest
    origin = inputs.stores[0].origin
    table = inputs.table
    trained_on = [table.clips[row] for row in rows.tolist()]
    film_ids = sorted({clip.movie_id for clip in trained_on} - {""})
    models = run.models
    held_out = tested_on(weakest(cell.basis for cell in models), run.units)
    note = f"The metrics and the out-of-fold scores are those of the same recipe on {held_out}"
    of_intervals = intervals_are_of(run, models)
    if of_intervals:
        note += f"; intervals are {100 * CONFIDENCE:g} % ones, over {run.units}, of {of_intervals}"
    notes = [f"{note}."]
    task = protocol.tasks.get(facts["task"], Task())
    words = task.in_words(facts["task"])
    if words:
        notes.append(f"The task {facts['task']} is: {words}.")
    # Who receives the model does not have the run, which says what guessing has.
    notes += [sentence_of(run, cell) for cell in models]
    has_interval = [any(map(cell.has_interval, RANKING_METRICS)) for cell in models]
    if not any(has_interval):
        reasons = dict.fromkeys(why_no_interval(cell, run) for cell in models)
        notes.append(
            f"No metric has an interval: {'; '.join(reasons)}. The values may be far from those of"
            f" other {run.units}."
        )
    if "annotators differ" in table.remarks:
        notes.append(table.remarks["annotators differ"])
    if "parts" in origin:
        notes.append(
            "The coefficients have a factor for each part of the features, by which all parts of"
            " the training clips have the same total variance."
        )
    return ModelInfo(
        **facts,
        where=protocol.data.where,
        features=_features_of(origin),
        training=TrainingData(
            manifest=manifest.name,
            manifest_sha256=manifest_sha256(manifest),
            view=protocol.data.view,
            n_clips=len(rows),
            n_films=len(film_ids),
            films=tuple(film_ids),
            citation=manifest.header.citation,
            licence=manifest.header.licence,
            median_s=_median_length_s(trained_on),
        ),
        metrics=_metrics(run, models),
        protocol=f"{protocol.name} (run {run.about['name']})",
        notes=tuple(notes),
    )


def _features_of(origin: Mapping[str, Any]) -> FeatureSpec:
    """Return what a model keeps of the features that it was trained on, or of one part of them."""
    parts = origin.get("parts", {}).values()
    return FeatureSpec(
        **{
            key: origin[key]
            for key in ("backbone", "array", "dtype", "width", "fingerprint")
        },
        store=str(origin["location"]),
        seal=origin["seal"],
        told=origin.get("told", {}),
        rule=origin.get("rule", ""),
        reduce=origin.get("reduce", ""),
        licence=origin.get("licence", ""),
        citation=origin.get("citation", ""),
        parts=tuple(_features_of(of_part) for of_part in parts),
    )


def _median_length_s(clips: Sequence[Clip]) -> float:
    """Return the median length of clips in seconds; 0 where it is not known."""
    lengths = []
    for clip in clips:
        start_s, end_s = span_in_film(clip) or (clip.start_s, clip.end_s)
        if start_s is not None and end_s is not None:
            lengths.append(end_s - start_s)
    return round(median(lengths), 2) if lengths else 0.0


def _metrics(run: Run, models: Sequence[Cell]) -> dict[str, CardMetric]:
    """Return the value and interval of each metric; of several tasks, with the task's name.

    The primary metric of the protocol is the first of each task.
    """
    report = run.protocol["report"]
    names = dict.fromkeys((report["primary"], *CARD_METRICS, *report["metrics"]))
    metrics = {}
    for cell in models:
        prefix = f"{cell.test}: " if len(models) > 1 else ""
        for name in names:
            if name in cell.metrics:
                ci = cell.ends(name)
                metrics[prefix + name] = CardMetric(value=cell.value(name), ci=ci)
    return metrics


def training_clips(
    run: Run,
    stated: ClipFacts,
    columns: Mapping[str, str],
    *,
    unit_norm: bool = False,
) -> TrainingClips:
    """Return the clips a model was trained on, with scores of the run's fits without them.

    `stated` is what the manifest states of the clips. `columns` names, for each tested task, the
    column of the kept model that its score belongs to.
    A clip that several fits tested (repeats, seeds, several splits) gets the mean of their scores.
    With `unit_norm` margins of linear machines become distances, as those of a concept bank are.
    """
    scores = {}
    for cell in run.cells:
        if cell.is_model and cell.test in columns:
            tests = cell.rows[~cell.rows["leaked"]]
            if unit_norm:
                tests = _with_distances(run, cell, tests)
            mean_of_clip = tests.groupby("clip_id")["score"].mean()
            in_order = mean_of_clip.reindex(stated.clip_ids)
            scores[columns[cell.test]] = in_order.to_numpy(dtype=np.float64)
    return TrainingClips(stated, scores)


def _with_distances(run: Run, cell: Cell, tests: "pd.DataFrame") -> "pd.DataFrame":
    """Return tests of a linear machine with the distance of each clip from its boundary."""
    shift = {}
    length = {}
    for fold in run.folds_of(cell):
        shift[fold["fold"]] = fold["chosen"]["bias_shift"]
        length[fold["fold"]] = fold["chosen"]["length"]
    fold_of_test = tests["fold"]
    distance = (tests["score"] + fold_of_test.map(shift)) / fold_of_test.map(length)
    return tests.assign(score=distance)

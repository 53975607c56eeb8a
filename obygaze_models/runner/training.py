"""Train one model to save: make its protocol, and after the run fit it on all clips.

The protocol is `honest-negatives` with one task, or with each concept as a task. The model is
fitted by the same functions as in a run. No clips are held out for a test, but a perceptron still
stops early on the validation clips of the first split.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from obygaze_features.core.console import count, plural
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning, near
from obygaze_features.core.user_code import is_of_sklearn
from obygaze_features.core.workspace import last_part
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.expression import quote_word
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.spans import span_in_film
from obygaze_features.store import Store
from obygaze_features.store.joining import PLUS
from obygaze_models.evaluation.basis import tested_on, weakest
from obygaze_models.evaluation.bootstrap import CONFIDENCE
from obygaze_models.evaluation.metrics import AP, METRICS
from obygaze_models.evaluation.predictions import NO_ROWS, IntArray
from obygaze_models.models.common import FixTraining, Floats
from obygaze_models.models.examples import RATED, concept_example_rows
from obygaze_models.models.fitting import fit, reads_concepts, score_features
from obygaze_models.models.fold_data import FoldData
from obygaze_models.models.preprocessing import last_step
from obygaze_models.models.registry import (
    DEFAULT_TASK,
    ESTIMATOR,
    MIN_CLIPS,
    PUBLISHED_TOLERANCE,
    VECTORS,
    build_bank,
    default_settings,
    find_kind,
    public_path,
    trainable,
)
from obygaze_models.models.state import load_state, save_state
from obygaze_models.protocols.clips import class_names, clip_table, with_view
from obygaze_models.protocols.kinds import for_task, most_chosen
from obygaze_models.protocols.reading import load_protocol, require_each_once
from obygaze_models.protocols.schedule import unit_name, with_groups
from obygaze_models.protocols.schema import NONE, GridSettings, Model, Protocol, Task
from obygaze_models.protocols.tasks import (
    NEGATIVES,
    one_task,
    tasks_of_levels,
    with_tasks,
)
from obygaze_models.runner.answer import describe_cell, intervals_hold_for
from obygaze_models.runner.estimators import Described
from obygaze_models.runner.files import Run
from obygaze_models.runner.heldout import hold_out_nothing
from obygaze_models.runner.inputs import Inputs
from obygaze_models.runner.limits import ON_BOTH_SIDES, find_limits
from obygaze_models.runner.run import handful
from obygaze_models.runner.store_run import StoreRun, fit_model, fit_seed, store_runs
from obygaze_models.zoo.info import (
    CardMetric,
    Classes,
    FeatureSpec,
    ModelInfo,
    TrainingClips,
    TrainingData,
)
from obygaze_models.zoo.saving import save_model
from obygaze_models.zoo.training_overlap import video_hashes

# The fitted estimator, its fold data, the column of scores of each task, facts for the card.
_Kept = tuple[Any, FoldData, dict[str, str], dict[str, Any]]
OF_TRAIN = ("name", "report.title", "data.manifest")  # keys that cannot be changed
CARD_METRICS = [metric.name for metric in METRICS.values() if metric.is_on_card]


def training_protocol(
    name: str,
    task: str,
    manifest: Manifest,
    changes: Sequence[str] = (),
    stores: Mapping[str, Store] | None = None,
    *,
    described: Described | None = None,
) -> Protocol:
    """Return the protocol `honest-negatives` with one model and one task.

    Args:
        name: A model type; "cav" for concept vectors, which have a task for each concept; a class
            of scikit-learn; or "estimator" for the described estimator.
        task: The task (`protocols.tasks`), such as EN_S or rating>=2.
        manifest: The clips. Concepts of too few clips or films do not become tasks.
        changes: Keys of the protocol to change, or `model.KEY=VALUE` for the model.
        stores: The stores by name. The default view of the labels depends on their features.
        described: The name, the description and the estimator, of one estimator of Python.
    """
    kind = name
    own_keys = []
    if described:
        ((name, (text, _)),) = described.items()
        own_keys = [f"models.{name}.{ESTIMATOR}={json.dumps(text)}"]
    elif is_of_sklearn(kind):
        name = kind.rpartition(".")[2].lower()
    elif name not in trainable():
        raise FixUsage(
            f"unknown model {name!r}{near(name, trainable())}",
            hint=f"use one of {', '.join(trainable())}, or a class such as"
            " sklearn.naive_bayes.GaussianNB",
        )
    if name == VECTORS and task != DEFAULT_TASK:
        raise FixUsage(
            f"expected no --task for {VECTORS}, got {task!r}: each concept vector has its own task",
        )
    asked = [] if name == VECTORS else [f"models.{name}.kind={kind}", *own_keys]
    if asked and not any(one.startswith(("grid.models", "grid=")) for one in changes):
        asked.append(f'grid.models=["{name}"]')
    for change in changes:
        section, _, rest = change.partition(".")
        key = change.partition("=")[0].strip()
        if key in OF_TRAIN:
            raise FixUsage(
                f"train has a {key} of its own, got --set {change}",
                hint="use -o for the name of the run and the model, and --manifest",
            )
        if name == VECTORS and section in ("model", "models", "grid", "tasks"):
            raise FixUsage(
                f"{VECTORS} has no settings, got --set {change}: each vector is from a linear"
                " support vector machine with the published tolerance",
                hint="use --set with a key of [data], [splits], [fit] or [report], such as"
                " data.view=raw; to set concept vectors, train a bottleneck such as pcbm-lr",
            )
        # `model.C=1` is a key of the one model that is trained.
        asked.append(f"models.{name}.{rest}" if section == "model" else change)
    require_each_once(asked)
    honest = load_protocol(NEGATIVES, asked, [task])
    others = {*honest.grid.models} - {name}
    if others:
        raise FixUsage(
            f"expected only the model {name}, got --set with {', '.join(sorted(others))}",
        )
    if honest.data.scale != NONE or len(stores or ()) > 1:
        named = f", got {', '.join(stores)}" if stores and len(stores) > 1 else ""
        raise FixUsage(
            f"a saved model reads the unscaled features of one store{named}",
            hint="use one --store, without data.scale",
        )
    honest = replace(honest, data=with_view(honest.data, manifest, stores))
    if name == VECTORS:
        return _concepts_protocol(honest, manifest)
    task_name, of_task = one_task(task, honest, manifest)
    protocol = with_tasks(honest, [task], manifest).with_models([name])
    title = f"{name}: {of_task.title or task_name}"
    report = replace(protocol.report, title=title)
    return replace(protocol, name=f"train-{name}", report=report)


def _concepts_protocol(honest: Protocol, manifest: Manifest) -> Protocol:
    """Return the protocol with each visual concept as a task of a linear SVM."""
    table = with_groups(clip_table(manifest, honest.data), honest.splits)
    unit = unit_name(honest.splits.kind, honest.splits.column)
    is_rated = np.isin(table.levels, RATED)
    levels = f"level in {{{', '.join(RATED)}}}"
    tasks = {}
    left_out = []
    for column, name in enumerate(table.concept_names):
        positive = is_rated & table.has_concept[:, column]
        n_clips = int(positive.sum())
        n_groups = len(np.unique(table.groups[positive]))
        word = quote_word(name)
        if n_clips >= MIN_CLIPS and n_groups > 1:
            tasks[name] = Task(
                positive=f"{levels} and {word} in concept",
                negative=f"level == EN or ({levels} and {word} not in concept)",
            )
        elif n_clips:
            of_groups = f"{count(n_clips, 'clip')} of {count(n_groups, unit)}"
            left_out.append(f"{name} ({of_groups})")
    if not tasks:
        raise FixInput(
            f"no visual concept has {MIN_CLIPS} HN or S clips in at least two {plural(unit)}",
            where=table.name,
        )
    notes = [
        *honest.report.notes,
        "The tolerances of the vectors are those of the released code of ObyGaze12, for features of"
        " X-CLIP. For other features, a run with a bottleneck such as pcbm-lr chooses them, and may"
        " find more concepts.",
    ]
    if left_out:
        notes.append(
            f"Concepts without a vector, because they have fewer than {MIN_CLIPS} clips of HN or S,"
            f" or these are of one {unit}: {', '.join(left_out)}."
        )
        warnings.warn(notes[-1], ObygazeWarning, stacklevel=3)
    settings = {**default_settings("svm"), "C": PUBLISHED_TOLERANCE}
    return replace(
        honest,
        name="train-cav",
        tasks=tasks,
        models={VECTORS: Model("svm", settings)},
        grid=GridSettings(pairs="same", baselines=("all_positive", "neighbour")),
        report=replace(
            honest.report,
            title="Concept vectors with the tolerances of the paper, on unseen films",
            lead="",
            ask="",
            notes=tuple(notes),
        ),
    )


def fit_final(
    inputs: Inputs,
    run: Run,
    folder: Path,
    *,
    store: Store | None = None,
    force: bool = False,
) -> Path:
    """Fit the model of a training protocol on all clips of its task, and return its new folder.

    Args:
        inputs: The inputs of the run: one model and one task.
        run: The finished run with the metrics and the chosen settings.
        folder: The folder of the model. The name of the folder is the name of the model.
        store: The store of the features, for the hashes of the videos. None: no hashes.
        force: Replace an existing model.
    """
    (store_run,) = store_runs(inputs)
    is_of_vectors = inputs.protocol.model_names == [VECTORS]
    if is_of_vectors:
        estimator, data, columns, facts = _vectors(store_run)
    else:
        estimator, data, columns, facts = _model(
            store_run, [fold["chosen"] for fold in run.folds_of(run.models[0])]
        )
    last = last_step(estimator)
    vectors = getattr(last, "bank_", last)
    facts["concepts"] = tuple(getattr(vectors, "concepts_", NO_ROWS).tolist())
    taught = np.union1d(data.train, data.validation)
    if reads_concepts(estimator):
        taught = np.union1d(taught, concept_example_rows(data, vectors.against))
    of_store = store_run.of_store
    rows = np.flatnonzero(of_store.present)[taught]
    stated = ClipTable.of_clips([inputs.table.clips[row] for row in rows.tolist()])
    scores = out_of_fold_scores(run, stated, columns, unit_norm=is_of_vectors)
    hashes = [of_store.hashes.get(row, "") for row in rows.tolist()]
    clips = TrainingClips(stated, scores, hashes)
    videos = video_hashes(stated, store) if store is not None else ()
    info = _model_info(inputs, run, rows, videos, name=folder.name, **facts)
    return save_model(
        estimator, info, folder, of_store.of(rows), clips=clips, force=force
    )


def check_can_be_saved(inputs: Inputs) -> None:
    """Raise an error before the first fit if the model of a training protocol cannot be saved.

    A model of scikit-learn is fitted on a few clips and saved in memory. It must give these clips
    the same scores when it is loaded again.
    """
    protocol = inputs.protocol
    (model,) = (protocol.models[name] for name in protocol.model_names)
    if find_kind(model.kind).estimator:
        return
    (run,) = store_runs(inputs)
    save_state(run.unfitted(model))  # refuses a class that cannot be kept
    task = protocol.train_tasks[0]
    held = run.for_model(model, run.folds[task, task][0])
    few = handful(run, task, held)
    try:
        (fitted,) = fit_model(run, model, task, [few], protocol.fit.seed)
    except FixTraining:  # the run states the reason
        return
    description, arrays = save_state(fitted.estimator)
    loaded = load_state(json.loads(json.dumps(description)), arrays)
    X = run.rows.X[fitted.data.train]
    if not np.array_equal(
        score_features(loaded, X), score_features(fitted.estimator, X)
    ):
        raise FixInput(
            f"{public_path(type(last_step(fitted.estimator)))} cannot be kept: when it is loaded"
            " again, it gives clips other scores",
            hint="test it with og.evaluate, or as models.mine.kind of a run",
        )


def _vectors(run: StoreRun) -> _Kept:
    """Return the vectors of all concepts that are tasks. The vectors are found on all clips."""
    protocol = run.protocol
    settings = {**default_settings("pcbm-lr"), "tolerance": PUBLISHED_TOLERANCE}
    held = hold_out_nothing(run.table, NO_ROWS)
    data = run.fold_data(protocol.train_tasks[0], held)
    # Concepts without a task have no metrics, and get no vector.
    of_tasks = data.concepts.only(list(protocol.tasks))
    data = replace(data, concepts=of_tasks)
    bank = build_bank(settings, seed=protocol.fit.seed)
    estimator = fit(run.preprocess(bank), data)
    concepts = last_step(estimator).concepts_.tolist()
    columns = {concept: f"margin:{concept}" for concept in concepts}
    return (
        estimator,
        data,
        columns,
        {"kind": VECTORS, "task": "concepts", "classes": ()},
    )


def _model(run: StoreRun, of_folds: Sequence[Mapping[str, Any]]) -> _Kept:
    """Return the model of a run, with the settings that most folds chose, fitted on all clips.

    If the folds hold out whole films, inner splits of the fit also hold out whole films. A model
    with epochs stops early on the validation clips of the first fold, and trains on all other
    clips.
    """
    protocol = run.protocol
    (model,) = run.models.values()
    task = protocol.train_tasks[0]
    chosen = most_chosen(model, task, of_folds)
    settings = for_task({**model.settings, **chosen}, task)
    rows = np.flatnonzero(run.of_store.present & (run.labels[task] >= 0))
    first = run.folds[task, task][0]
    held = first.without_test(rows)
    if run.stops_early(model):
        validation = np.intersect1d(rows, first.validation)
        train = np.setdiff1d(rows, validation)
        held = replace(held, train=train, validation=validation)
    seed = fit_seed(model.kind, protocol.fit.seed)
    (fitted,) = fit_model(run, Model(model.kind, settings), task, [held], seed)
    classes = ["negative", "positive"]
    asked = protocol.tasks[task]
    if asked != tasks_of_levels().get(task):
        classes = class_names(task, asked, run.labels[task], run.table)
    prefix = "p" if fitted.gives_probabilities else "score"
    kind = model.kind
    if not find_kind(kind).estimator:
        kind = public_path(type(last_step(fitted.estimator)))
    facts = {
        "kind": kind,
        "task": task,
        "classes": tuple(classes),
        "chosen": chosen,
        "asked": Classes.of(asked),
    }
    columns = {task: f"{prefix}:{classes[-1]}"}
    return fitted.estimator, fitted.data, columns, facts


def _model_info(
    inputs: Inputs, run: Run, rows: IntArray, videos: Sequence[str], **facts: Any
) -> ModelInfo:
    """Return the facts for the card of a model that was trained on the clips `rows`."""
    protocol = inputs.protocol
    header = inputs.manifest.header
    trained_on = [inputs.table.clips[row] for row in rows.tolist()]
    films = sorted({clip.movie_id for clip in trained_on} - {""})
    lengths = []
    for clip in trained_on:
        start_s, end_s = span_in_film(clip) or (clip.start_s, clip.end_s)
        if start_s is not None and end_s is not None:
            lengths.append(end_s - start_s)
    report = run.protocol["report"]
    names = dict.fromkeys((report["primary"], *CARD_METRICS, *report["metrics"]))
    metrics = {}
    for cell, name in product(run.models, names):
        # In folds of one class, AP is 1 for every order.
        if np.isfinite(cell.value(name)) and (name != AP.name or cell.is_ranked(name)):
            # With several tasks, add the name of the task.
            prefix = f"{cell.test}: " if len(run.models) > 1 else ""
            ends = cell.ends(name)
            metrics[prefix + name] = CardMetric(value=cell.value(name), ci=ends)
    return ModelInfo(
        **facts,
        where=protocol.data.where,
        features=_feature_spec(inputs.stores[0].origin),
        training=TrainingData(
            manifest=inputs.manifest.name,
            manifest_sha256=manifest_sha256(inputs.manifest),
            view=protocol.data.view,
            n_clips=len(rows),
            n_films=len(films),
            films=tuple(films),
            citation=header.citation,
            licence=header.licence,
            video_hashes=tuple(videos),
            median_s=round(median(lengths), 2) if lengths else 0.0,
        ),
        metrics=metrics,
        protocol=evaluated_by(inputs, run.folder.name),
        notes=tuple(_notes(inputs, run, facts["task"], facts.get("chosen"))),
    )


def evaluated_by(inputs: Inputs, run: str) -> str:
    """Return the protocol and the run of the metrics of a model, as text.

    The start of the identity distinguishes runs of the same name in two workspaces.
    """
    return f"{inputs.protocol.name} (run {run}, {inputs.identity[:8]})"


def _notes(
    inputs: Inputs, run: Run, task: str, chosen: Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield the notes of a card on its metrics, because a card is sent without its run."""
    models = run.models
    held_out = tested_on(weakest(cell.basis for cell in models), run.units)
    settings = "settings of their own choice" if chosen else "the same settings"
    note = f"The metrics and out-of-fold scores are from fits with {settings}, on {held_out}"
    of_intervals = intervals_hold_for(run, models)
    if of_intervals:
        note += f"; {100 * CONFIDENCE:g} % intervals over {run.units} hold for {of_intervals}"
    yield f"{note}."
    words = inputs.protocol.tasks.get(task, Task()).in_words(task)
    if words:
        yield f"The task {task} is: {words}."
    for cell in models:
        yield describe_cell(run, cell)
    for limit in find_limits(run):
        if limit.name in ("no interval", "annotators differ", *ON_BOTH_SIDES):
            yield limit.text
    if inputs.stores[0].parts:
        yield (
            "Each part of the features is multiplied by a factor, so that all parts have the same"
            " total variance on the training clips. The coefficients include this factor."
        )


def _feature_spec(origin: Mapping[str, Any]) -> FeatureSpec:
    """Return the facts that a model keeps of its training features, or of a part of them."""
    known = {key: origin[key] for key in FeatureSpec.__struct_fields__ if key in origin}
    known["parts"] = tuple(map(_feature_spec, origin.get("parts", {}).values()))
    # Others receive the model: paths would show them the disk and the user.
    location = str(origin["location"])
    # Of a single store, a + is part of a path.
    places = location.split(PLUS) if known["parts"] else [location]
    return FeatureSpec(**known, store=PLUS.join(map(last_part, places)))


def out_of_fold_scores(
    run: Run, stated: ClipTable, columns: Mapping[str, str], *, unit_norm: bool = False
) -> dict[str, Floats]:
    """Return the out-of-fold scores of the training clips, for each column of scores.

    The score of a clip is the mean over the fits of the run that tested it (with repeats, seeds or
    several splits, there are several fits). It is NaN if no fit tested the clip without a leak.

    Args:
        run: The run.
        stated: The clips, with the facts in the manifest.
        columns: For each tested task, the column of scores of the saved model.
        unit_norm: Divide margins of linear SVMs by the norm of their coefficients, as in a concept
            bank.
    """
    scores = {}
    for cell in run.models:
        if cell.test not in columns:
            continue
        tests = run.tests_of(cell)
        tests = tests[~tests["leaked"]]
        if unit_norm:
            folds = run.folds_of(cell)
            shift = {fold["fold"]: fold["chosen"]["bias_shift"] for fold in folds}
            length = {fold["fold"]: fold["chosen"]["length"] for fold in folds}
            fold_of_test = tests["fold"]
            moved = tests["score"] + fold_of_test.map(shift)
            tests = tests.assign(score=moved / fold_of_test.map(length))
        mean_of_clip = tests.groupby("clip_id")["score"].mean()
        in_order = mean_of_clip.reindex(stated.clip_ids)
        scores[columns[cell.test]] = in_order.to_numpy(dtype=np.float64)
    return scores

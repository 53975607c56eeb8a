"""Compute the tables concepts.csv and trees.csv: concept vectors, weights and trees of bottlenecks.

A concept vector is evaluated on films that were not used to find it. Each film is held out in turn;
if there are more than twelve films, several are held out together. Vectors and their tolerances are
found without the held-out films. Weights and trees are from a model that is fitted on all clips.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.files import canonical_json
from obygaze_models.evaluation.metrics import AP, AUC
from obygaze_models.evaluation.predictions import FloatArray, IntArray
from obygaze_models.evaluation.tables import RunRow, number_of_groups
from obygaze_models.models.common import FixTraining
from obygaze_models.models.fitting import fit
from obygaze_models.models.fold_data import FoldData
from obygaze_models.models.preprocessing import apply_steps, last_step, steps_of
from obygaze_models.models.registry import (
    BANK,
    TEXTS,
    build,
    build_bank,
    find_kind,
)
from obygaze_models.models.sentences import bank_from_sentences
from obygaze_models.protocols.kinds import for_task, most_chosen
from obygaze_models.runner.heldout import hold_out_nothing
from obygaze_models.runner.store_run import StoreRun

MOST_PARTS = 12


def concept_tables(
    run: StoreRun, fits: Sequence[Mapping[str, Any]]
) -> tuple[list[RunRow], list[RunRow]]:
    """Return the rows of concepts.csv and of trees.csv for the bottlenecks on one store.

    Args:
        run: The store, with its folds.
        fits: The entries of the fits in run.json. Bottlenecks have the settings that most folds
            chose.
    """
    concepts: list[RunRow] = []
    trees: list[RunRow] = []
    if not run.table.concept_names:
        return concepts, trees
    qualities: dict[bytes, dict[str, RunRow]] = {}
    for (name, model), task in product(run.models.items(), run.protocol.train_tasks):
        if not find_kind(model.kind).head:
            continue
        chosen: list[Mapping[str, Any]] = []
        for cell in fits:
            of_cell = (cell["store"], cell["model"], cell["train"])
            if of_cell == (run.name, name, task):
                chosen += [fold["chosen"] for fold in cell["folds"]]
        most = most_chosen(model, task, chosen)
        settings = for_task({**model.settings, **most}, task)
        settings["best_of_folds"] = False
        # The tolerance is chosen by inner splits, because films are held out here and not the folds
        # of a published file.
        if settings["tolerance"] == "folds":
            settings["tolerance"] = "inner"
        of_vectors = {key: settings[key] for key in (*BANK, TEXTS) if key in settings}
        key = canonical_json(of_vectors)
        if key not in qualities:
            qualities[key] = _qualities(run, of_vectors)
        # Weights and trees are from a fit on all clips of the task.
        clips = np.flatnonzero(run.of_store.present & (run.labels[task] >= 0))
        data = run.fold_data(task, hold_out_nothing(run.table, clips))
        unfitted = build(model.kind, settings, seed=run.protocol.fit.seed)
        weights: dict[str, float] = {}
        of_model = {"store": run.name, "model": name, "train": task}
        try:
            bottleneck = last_step(fit(run.preprocess(unfitted), data))
        except FixTraining:
            bottleneck = None
        if bottleneck is not None:
            names = [str(concept) for concept in bottleneck.bank_.concepts_]
            head = bottleneck.head_
            if hasattr(head, "coef_"):
                weights = dict(zip(names, head.coef_.tolist(), strict=True))
            if hasattr(head, "left_"):
                trees += [{**node, **of_model} for node in _nodes(head, names)]
        for concept, quality in qualities[key].items():
            weight = weights.get(concept, math.nan)
            concepts.append({**quality, **of_model, "weight": weight})
    return concepts, trees


def _nodes(tree: Any, names: Sequence[str]) -> Iterator[RunRow]:
    """Yield a row of trees.csv for each node. Clips with a margin up to the threshold go left."""
    for node, left in enumerate(tree.left_.tolist()):
        row: RunRow = {"node": node}
        if left >= 0:
            row["left"] = left
            row["right"] = int(tree.right_[node])
            row["concept"] = names[int(tree.feature_[node])]
            row["threshold"] = float(tree.threshold_[node])
        row["clips"] = int(tree.n_rows_[node])
        row["share"] = float(tree.share_[node])
        yield row


def _qualities(run: StoreRun, settings: Mapping[str, Any]) -> dict[str, RunRow]:
    """Return how well each concept vector ranks clips of films that were not used to find it.

    A vector has no metrics if it cannot be found without some film, or if its clips are all
    positive or all negative. Return {} if no vector can be found on all clips.
    """
    from obygaze_models.models.concept_report import concept_quality

    clips = np.flatnonzero(run.of_store.present)
    held = hold_out_nothing(run.table, clips)
    whole = run.fold_data(run.protocol.train_tasks[0], held)
    try:
        bank = last_step(_bank(run, settings, whole))
    except FixTraining:
        return {}
    names = bank.concepts_.tolist()
    films = whole.films
    # A part is one film, or several films if there are more films than parts.
    film_names, film_numbers = np.unique(films, return_inverse=True)
    parts = film_numbers % min(len(film_names), MOST_PARTS)
    margins = _left_out_margins(run, settings, whole, names, parts)
    targets = np.full(margins.shape, -1)
    known = []
    qualities: dict[str, RunRow] = {}
    for column, name in enumerate(names):
        # A sentence may describe a concept that is not in the labels.
        if name in run.concepts.names:
            of_concept = run.concepts.only([name]).targets[settings["against"]]
            targets[:, column] = of_concept[:, 0]
        is_target = targets[:, column] >= 0
        n_clips = int(is_target.sum())
        n_positive = int((targets[:, column] == 1).sum())
        qualities[name] = {
            "concept": name,
            "clips": n_clips,
            "films": number_of_groups(films[is_target]),
            "positive": n_positive,
            "tolerance": float(bank.C_[column]),
        }
        has_both = 0 < n_positive < n_clips
        if has_both and np.isfinite(margins[is_target, column]).all():
            known.append(column)
    if not known:
        return qualities
    order = _order_in_films(run, clips, films)
    ranked = concept_quality(
        np.nan_to_num(margins[order][:, known]),
        targets[order][:, known],
        films[order],
        [names[column] for column in known],
        n_replicates=run.protocol.report.replicates,
        seed=run.protocol.fit.seed,
        n_folds=len(np.unique(parts)),
    )
    for quality in ranked:
        ap = quality.metrics[AP.name]
        qualities[quality.concept] |= {
            "films_with_value": ap.n_films,
            "ap": ap.value,
            "low": ap.by_film.low,
            "high": ap.by_film.high,
            "auc": quality.metrics[AUC.name].value,
        }
        # Labels are shifted in time, so the order of the clips must be known.
        if run.table.scenes is not None:
            p = {"p": quality.p, "p_holm": quality.p_holm}
            qualities[quality.concept] |= p
    return qualities


def _left_out_margins(
    run: StoreRun,
    settings: Mapping[str, Any],
    whole: FoldData,
    names: Sequence[str],
    parts: IntArray,
) -> FloatArray:
    """Return the margin of each row to each concept, by vectors found without the row's part.

    A margin is NaN if the vector cannot be found, and all margins are NaN without films.
    """
    margins = np.full((len(parts), len(names)), np.nan)
    if not number_of_groups(whole.films):
        return margins
    for part in np.unique(parts):
        tested = np.flatnonzero(parts == part)
        # Clips of the tested films are excluded from learning.
        data = whole.inside(np.flatnonzero(parts != part), tested)
        try:
            found = _bank(run, settings, data)
        except FixTraining:
            continue
        steps, vectors = steps_of(found)
        of_rows = vectors.margins(apply_steps(steps, run.rows.X))[tested]
        for column, name in enumerate(vectors.concepts_.tolist()):
            if name in names:
                tied = run.rows.equalize(tested, of_rows[:, column])
                margins[tested, names.index(name)] = tied
    return margins


def _bank(run: StoreRun, settings: Mapping[str, Any], data: FoldData) -> Any:
    """Return the vectors of sentences if the settings name texts, or else fitted vectors."""
    if settings[TEXTS]:
        return bank_from_sentences(run.sentences[settings[TEXTS]])
    unfitted = build_bank(settings, seed=run.protocol.fit.seed)
    return fit(run.preprocess(unfitted), data)


def _order_in_films(
    run: StoreRun, clips: IntArray, films: NDArray[np.str_]
) -> IntArray:
    """Return the indices that sort clips by `films`, and in a film by scene.

    If `films` has groups of films, clips of a group are sorted by film first.
    """
    scenes = run.table.scenes
    if scenes is None:
        scenes = np.arange(len(run.table))
    return np.lexsort((scenes[clips], run.table.films[clips], films))

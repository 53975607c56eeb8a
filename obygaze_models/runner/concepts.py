"""The tables concepts.csv and trees.csv: what bottlenecks are made of.

How well a vector ranks clips is evaluated on films that it was not found on: each film in turn is
held out (of more than twelve films several together), and the vectors are found without it, with
tolerances that are chosen without it. Weights and trees are those of a model of every clip.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.files import canonical_json
from obygaze_models.evaluation.cells import number_of_groups
from obygaze_models.evaluation.metrics import AP, AUC
from obygaze_models.evaluation.predictions import FloatArray, IntArray
from obygaze_models.evaluation.tables import RunRow
from obygaze_models.models.common import FixTraining
from obygaze_models.models.examples import fewest_examples
from obygaze_models.models.fitting import fit
from obygaze_models.models.lessons import Lessons
from obygaze_models.models.registry import (
    BANK,
    MIN_CLIPS,
    TEXTS,
    build,
    build_bank,
    find_kind,
    finds_concepts,
)
from obygaze_models.models.sentences import bank_of
from obygaze_models.protocols.kinds import candidates, for_task, most_chosen
from obygaze_models.protocols.schema import Model
from obygaze_models.runner.heldout import nothing_held_out
from obygaze_models.runner.store_run import StoreRun

MOST_PARTS = 12


def concept_tables(
    run: StoreRun, fits: Sequence[Mapping[str, Any]]
) -> tuple[list[RunRow], list[RunRow]]:
    """Return the rows of concepts.csv and of trees.csv for the bottlenecks on one store.

    Args:
        run: The store.
        fits: What run.json says of the fits; the tables are of the settings that most folds chose.
    """
    protocol = run.protocol
    concepts: list[RunRow] = []
    trees: list[RunRow] = []
    if not run.table.concept_names:
        return concepts, trees
    qualities: dict[bytes, dict[str, RunRow]] = {}
    for name, model in run.models.items():
        if not find_kind(model.kind).head:
            continue
        for task in protocol.train_tasks:
            chosen: list[Mapping[str, Any]] = []
            for cell in fits:
                if (cell["store"], cell["model"], cell["train"]) == (
                    run.name,
                    name,
                    task,
                ):
                    chosen += [fold["chosen"] for fold in cell["folds"]]
            settings = _settings(model, task, chosen)
            of_vectors = {
                key: settings[key] for key in (*BANK, TEXTS) if key in settings
            }
            key = canonical_json(of_vectors)
            if key not in qualities:
                qualities[key] = _qualities(run, of_vectors)
            head = _head(run, Model(model.kind, settings), task)
            weights = _weights(head)
            for concept, quality in qualities[key].items():
                row = quality.copy()
                row |= {"store": run.name, "model": name, "train": task}
                row |= {"weight": weights.get(concept, math.nan)}
                concepts.append(row)
            for node in _nodes(head):
                node |= {"store": run.name, "model": name, "train": task}
                trees.append(node)
    return concepts, trees


def rare_concepts(run: StoreRun) -> dict[str, dict[str, int]]:
    """Return the concepts that bottlenecks on a store do without in some fold.

    Of each: in how many folds (`folds`), of how many (`of`), and the fewest clips with the concept,
    or without it, in one of them (`least`). Folds that find vectors on the same clips are one.
    """
    heads = [
        model
        for model in run.models.values()
        if finds_concepts(model.kind, model.settings)
    ]
    rare: dict[str, dict[str, int]] = {}
    if not heads:
        return rare
    seen: set[tuple[str, Hashable]] = set()
    for pair, _, held in run.every_fold:
        for model in heads:
            lessons = run.lessons(pair[0], run.for_model(model, held))
            key = lessons.key_of_concepts
            for settings in candidates(model):
                against = for_task(settings, pair[0])["against"]
                if (against, key) in seen:
                    continue
                seen.add((against, key))
                targets = lessons.concepts.targets[against]
                n_of_concept = fewest_examples(targets[lessons.of_concepts])
                for name, n_clips in _too_few(run, n_of_concept).items():
                    of_concept = {"folds": 0, "of": 0, "least": n_clips}
                    facts = rare.setdefault(name, of_concept)
                    facts["folds"] += 1
                    facts["least"] = min(facts["least"], n_clips)
    for facts in rare.values():
        facts["of"] = len(seen)
    return rare


def _too_few(run: StoreRun, n_clips: IntArray) -> dict[str, int]:
    """Return the concepts that too few clips have or lack, with the number of these clips."""
    # A concept that this manifest never uses is no news of a fold.
    is_used = run.table.has_concept.any(axis=0)
    rare = {}
    for column in np.flatnonzero(is_used & (n_clips < MIN_CLIPS)).tolist():
        rare[run.table.concept_names[column]] = int(n_clips[column])
    return rare


def _settings(
    model: Model, task: str, chosen: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the settings that most folds of a training task chose."""
    settings = for_task({**model.settings, **most_chosen(model, task, chosen)}, task)
    # Here films are left out, not folds of a published file.
    if settings["tolerance"] == "folds":
        settings["tolerance"] = "inner"
    return {**settings, "best_of_folds": False}


def _head(run: StoreRun, model: Model, task: str) -> Any:
    """Return a bottleneck that is fitted on every clip of a task; None where that fails."""
    clips = np.flatnonzero(run.of_store.present & (run.labels[task] >= 0))
    lessons = run.lessons(task, nothing_held_out(run.table, clips))
    unfitted = build(model.kind, model.settings, seed=run.protocol.fit.seed)
    try:
        return fit(run.reading(unfitted), lessons).core
    except FixTraining:
        return None


def _weights(bottleneck: Any) -> dict[str, float]:
    """Return the weight of each concept in a linear head; none of another head."""
    if bottleneck is None or not hasattr(bottleneck.head_, "coef_"):
        return {}
    names = map(str, bottleneck.bank_.concepts_)
    return dict(zip(names, bottleneck.head_.coef_.tolist(), strict=True))


def _nodes(bottleneck: Any) -> Iterator[RunRow]:
    """Yield the nodes of a tree; a row goes left where its margin is at most the threshold."""
    if bottleneck is None or not hasattr(bottleneck.head_, "left_"):
        return
    tree = bottleneck.head_
    names = [str(name) for name in bottleneck.bank_.concepts_]
    for node, left in enumerate(tree.left_.tolist()):
        row: RunRow = {"node": node}
        is_leaf = left < 0
        if not is_leaf:
            row["left"] = left
            row["right"] = int(tree.right_[node])
            row["concept"] = names[int(tree.feature_[node])]
            row["threshold"] = float(tree.threshold_[node])
        row["clips"] = int(tree.n_rows_[node])
        row["share"] = float(tree.share_[node])
        yield row


def _qualities(run: StoreRun, settings: Mapping[str, Any]) -> dict[str, RunRow]:
    """Return how well each concept vector ranks clips of films that it was not found on.

    A concept whose vector was not found without every film has its numbers of clips alone.
    """
    from obygaze_models.models.concept_report import concept_quality

    clips = np.flatnonzero(run.of_store.present)
    held = nothing_held_out(run.table, clips)
    whole = run.lessons(run.protocol.train_tasks[0], held)
    try:
        bank = _bank(run, settings, whole).core
    except FixTraining:
        return {}
    names = bank.concepts_.tolist()
    films = whole.films
    # A part is one film, or several of many.
    film_names, film_numbers = np.unique(films, return_inverse=True)
    parts = film_numbers % min(len(film_names), MOST_PARTS)
    margins = _left_out_margins(run, settings, whole, names, parts)
    targets = np.full(margins.shape, -1)
    known = []
    qualities: dict[str, RunRow] = {}
    for column, name in enumerate(names):
        # Sentences may be of what no clip is labelled with.
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
            "p": quality.p,
            "p_holm": quality.p_holm,
        }
    return qualities


def _left_out_margins(
    run: StoreRun,
    settings: Mapping[str, Any],
    whole: Lessons,
    names: Sequence[str],
    parts: IntArray,
) -> FloatArray:
    """Return the margin of each row to each concept, by vectors that were found without its part.

    It is NaN where no such vector is found. Without films, nothing can be left out.
    """
    margins = np.full((len(parts), len(names)), np.nan)
    if not number_of_groups(whole.films):
        return margins
    for part in np.unique(parts):
        tested = np.flatnonzero(parts == part)
        # Nothing is learned from a clip of the tested films.
        lessons = whole.inside(np.flatnonzero(parts != part), tested)
        try:
            found = _bank(run, settings, lessons)
        except FixTraining:
            continue
        of_rows = found.margins(run.rows.machines.X)[tested]
        for column, name in enumerate(found.core.concepts_.tolist()):
            if name in names:
                tied = run.rows.tied(tested, of_rows[:, column])
                margins[tested, names.index(name)] = tied
    return margins


def _bank(run: StoreRun, settings: Mapping[str, Any], lessons: Lessons) -> Any:
    """Return the concept vectors that some lessons teach, or those of sentences."""
    if settings[TEXTS]:
        return bank_of(run.sentences[settings[TEXTS]])
    unfitted = build_bank(settings, seed=run.protocol.fit.seed)
    (bank,) = run.reading(unfitted).learn_each([lessons])
    return bank


def _order_in_films(
    run: StoreRun, clips: IntArray, films: NDArray[np.str_]
) -> IntArray:
    """Return the order of clips by film, and in a film by scene."""
    scenes = run.table.scenes
    if scenes is None:
        scenes = np.arange(len(run.table))
    return np.lexsort((scenes[clips], run.table.films[clips], films))

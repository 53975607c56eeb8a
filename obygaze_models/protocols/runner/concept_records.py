"""The records of the bottlenecks of a run: concept vectors, their heads, what leaks through them.

Everything evaluated here is evaluated on films that the vectors were not found on: each film in
turn is left out (from thirteen films on, several together), and heads are evaluated on films that
they were not fitted on. The vectors and heads in the records are those of all clips; how well such
a model does is in the cells of the run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from obygaze_features.core.files import canonical_json
from obygaze_models.evaluation.metrics import DECISION_METRICS
from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import BANK, build_head, find_kind
from obygaze_models.protocols.kinds import candidates, for_task
from obygaze_models.protocols.results.cells import Estimate
from obygaze_models.protocols.results.concepts import (
    Concept,
    ConceptVectors,
    Corrections,
    FilmLeak,
    Head,
    Leakage,
    Tree,
    Weights,
)
from obygaze_models.protocols.results.record import RunRecord
from obygaze_models.protocols.runner.banks import Examples
from obygaze_models.protocols.runner.execute import FitContext
from obygaze_models.protocols.runner.vectors import FoundVectors, find_vectors

N_DRAWS = 5
SHOWN = ("C", "penalty", "scaled", "max_depth", "min_samples_leaf", "max_concepts")


def concept_jobs(context: FitContext) -> list[Callable[[], list[RunRecord]]]:
    """Return functions that compute the records of each kind of concept vectors.

    There are none unless the protocol has `concepts = true`.
    """
    return [
        partial(_bank_records, context, settings, models)
        for settings, models in _banks(context)
    ]


def _banks(context: FitContext) -> list[tuple[dict[str, Any], list[str]]]:
    """Return each kind of concept vectors that models of a protocol use, and those models."""
    protocol = context.protocol
    if not protocol.report.concepts or not context.table.concept_names:
        return []
    banks: dict[bytes, tuple[dict[str, Any], list[str]]] = {}
    for name in protocol.model_names:
        model = protocol.models[name]
        if not find_kind(model.kind).head:
            continue
        settings = candidates(model)[0]
        of_bank = {key: settings[key] for key in BANK}
        # Here films are left out, not folds of a published file.
        if of_bank["tolerance"] == "folds":
            of_bank["tolerance"] = "inner"
        _, models = banks.setdefault(canonical_json(of_bank), (of_bank, []))
        models.append(name)
    return list(banks.values())


def _bank_records(
    context: FitContext, settings: Mapping[str, Any], models: Sequence[str]
) -> list[RunRecord]:
    """Return the record of a kind of concept vectors, and those of the heads on their margins."""
    protocol = context.protocol
    feature = context.feature
    try:
        vectors = find_vectors(
            context.store, context.table, settings, protocol.fit.seed
        )
    except FixTraining as error:
        without_vectors = ConceptVectors(
            feature=feature, models=models, concepts=[], note=error.message
        )
        return [without_vectors]
    of_vectors = ConceptVectors(
        feature=feature,
        models=models,
        settings=settings,
        n_parts=len(vectors.part_names),
        concepts=list(_qualities(vectors, protocol.report.replicates)),
        left_out=vectors.left_out,
        film_leak=_film_leak(vectors),
        leakage=_leakage(context, vectors),
        note="",
    )
    records: list[RunRecord] = [of_vectors]
    for name in models:
        for task in dict.fromkeys(pair[0] for pair in protocol.pairs):
            head = _head_record(context, name, vectors, task)
            if head is not None:
                records.append(head)
    return records


def _film_leak(vectors: FoundVectors) -> FilmLeak | None:
    """Return how well margins predict the film; None where films have too few clips.

    The margins are of one set of vectors for all films: those found without a film would identify
    that film.
    """
    from obygaze_models.models.concept_report import film_leak

    margins = vectors.bank.transform(vectors.features.X)
    try:
        leak = film_leak(margins, vectors.films, seed=vectors.examples.seed)
    except FixTraining:
        return None
    return FilmLeak.from_json(leak)


def _leakage(context: FitContext, vectors: FoundVectors) -> dict[str, Leakage]:
    """Return the leakage scores of the margins for each training task."""
    from obygaze_models.models.concept_report import leakage_scores

    scores: dict[str, Leakage] = {}
    for task in dict.fromkeys(train for train, _ in context.protocol.pairs):
        labels = context.labels[task][vectors.clips]
        rows = np.flatnonzero(labels >= 0)
        if len(rows) <= 10 or len(np.unique(labels[rows])) != 2:
            continue
        of_task = leakage_scores(
            vectors.margins[rows],
            vectors.has[rows],
            labels[rows],
            seed=context.protocol.fit.seed,
        )
        scores[task] = Leakage(**of_task)
    return scores


def _qualities(vectors: FoundVectors, n_replicates: int) -> Iterator[Concept]:
    """Yield the record of each concept."""
    from obygaze_models.models.concept_report import concept_quality

    targets = vectors.examples.targets
    seed = vectors.examples.seed
    scenes = vectors.table.scenes
    if scenes is None:
        scenes = np.arange(len(vectors.table))
    # The clips of a film in its order.
    order = np.lexsort((scenes[vectors.clips], vectors.films))
    qualities = concept_quality(
        vectors.margins[order],
        targets[order],
        vectors.films[order],
        vectors.examples.names,
        n_replicates=n_replicates,
        seed=seed,
        n_folds=len(vectors.part_names),
    )
    for column, quality in enumerate(qualities):
        metrics = {}
        for name, estimate in quality.metrics.items():
            interval = [estimate.by_film.low, estimate.by_film.high]
            if name in DECISION_METRICS:  # too wide at a fixed threshold of margins
                interval = [np.nan, np.nan]
            metrics[name] = Estimate(value=estimate.value, ci=interval)
        yield Concept(
            name=quality.concept,
            n=quality.n,
            n_positive=quality.n_positive,
            prevalence=quality.n_positive / quality.n,
            ap=metrics["ap"],
            auc=metrics["auc"],
            f1_binary=metrics["f1_binary"],
            p=quality.p,
            p_holm=quality.p_holm,
            tolerance=vectors.bank.C_[column],
        )


def _head_record(
    context: FitContext, name: str, vectors: FoundVectors, task: str
) -> Head | None:
    """Return the record of a head on all clips of a task, or None if it cannot be fitted.

    Interventions are evaluated on films that neither the head nor any vector of its margins was
    fitted on. Where a setting offers a choice, the first value is taken.
    """
    model = context.protocol.models[name]
    labels = context.labels[task]
    settings = for_task(model.kind, candidates(model)[0], task)
    new_head = partial(build_head, model.kind, settings)
    rows = labels[vectors.clips] >= 0
    y = labels[vectors.clips][rows].astype(np.int64)
    has = vectors.has[rows]
    films = vectors.films[rows]
    margins = vectors.margins[rows]
    try:
        head = new_head().fit(margins, y, groups=films)
    except FixTraining:
        return None
    folds = vectors.head_folds[rows]
    fold_numbers = np.unique(folds).tolist()
    without = [vectors.margins_without(fold) for fold in fold_numbers]
    tested = []
    for fold, margins_without in zip(fold_numbers, without, strict=True):
        if margins_without is not None:
            tested.append((folds == fold, margins_without[rows], has, y, films))
    curves: list[Corrections] = []
    if len(tested) == len(without):
        curves = _interventions(new_head, tested, vectors.examples)
    tree = None
    if hasattr(head, "left_"):
        tree = Tree(
            left=head.left_.tolist(),
            right=head.right_.tolist(),
            concept=head.feature_.tolist(),
            threshold=head.threshold_.tolist(),
            share=head.share_.tolist(),
            n=head.n_rows_.tolist(),
        )
    weights = None
    if hasattr(head, "coef_"):
        weights = Weights(
            intercept=float(head.intercept_),
            coef=head.coef_.tolist(),
            sd=margins.std(axis=0).tolist(),
        )
    return Head(
        feature=context.feature,
        model=name,
        task=task,
        head=model.kind,
        settings={key: value for key, value in settings.items() if key in SHOWN},
        n=len(y),
        n_positive=int(y.sum()),
        concepts=vectors.examples.names,
        tree=tree,
        weights=weights,
        interventions=curves,
    )


def _interventions(
    new_head: Callable[[], Any], folds: Sequence[tuple[Any, ...]], examples: Examples
) -> list[Corrections]:
    """Return one curve for each order: the mean over folds of whole films, by their clips.

    The curves of a fold are those of a head of the other folds. A fold is its rows, then margins,
    true concepts, class and film of all rows.
    """
    from obygaze_models.models.bottleneck import TrueValues, intervene

    sizes: list[float] = []
    by_order: dict[str, list[Any]] = {"greedy": [], "random": []}
    for inside, margins, has, y, films in folds:
        outside = ~inside
        if any(len(np.unique(y[part])) < 2 for part in (inside, outside)):
            continue
        head = new_head().fit(margins[outside], y[outside], groups=films[outside])
        fitting = (margins[outside], has[outside], y[outside])
        # A concept that no clip of the other films has cannot be corrected.
        try:
            values = TrueValues.from_training(margins[outside], has[outside])
        except FixTraining:
            continue
        tested = (head, margins[inside], has[inside], y[inside], values)
        greedy = intervene(*tested, order="greedy", fitting=fitting)
        random = intervene(*tested, order="random", n_draws=N_DRAWS, seed=examples.seed)
        by_order["greedy"].append(greedy)
        by_order["random"].append(random)
        sizes.append(float(inside.sum()))
    records = []
    for order, curves in by_order.items():
        if not curves:
            continue
        f1 = np.average([curve.f1 for curve in curves], axis=0, weights=sizes)
        ap = np.average([curve.ap for curve in curves], axis=0, weights=sizes)
        first = {
            examples.names[curve.sequence[0]] for curve in curves if curve.sequence
        }
        records.append(
            Corrections(
                order=order,
                n_folds=len(curves),
                f1=f1.tolist(),
                ap=ap.tolist(),
                first=sorted(first),
            )
        )
    return records

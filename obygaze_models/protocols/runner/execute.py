"""Fit and test every cell of a protocol: fold by fold, model by model, store by store.

A cell depends on its own splits, settings and seeds alone, so that it has the same bytes in every
grid. Two cells that fit on the same rows share the fit; each is scored by itself, because the last
bits of a product depend on the number of its rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import Progress
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE
from obygaze_models.evaluation.leakage import Leak, check_leaks
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import find_kind
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.kinds import candidates
from obygaze_models.protocols.runner.banks import Banks
from obygaze_models.protocols.runner.cells import Cell, TestedFold, tune
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.finished import FinishedTests, Outcomes, Pair, TestKey
from obygaze_models.protocols.runner.fold_data import FoldData
from obygaze_models.protocols.runner.models import (
    NO_ROWS,
    FoldFit,
    best_perceptron,
    fit_baseline,
    fit_model,
    fit_perceptrons,
    perceptron_jobs,
)
from obygaze_models.protocols.runner.processes import map_parts
from obygaze_models.protocols.schedule import Labels, Schedule, leaks, split_leak
from obygaze_models.protocols.schema import Model, Protocol
from obygaze_models.protocols.splits import Split

if TYPE_CHECKING:
    from obygaze_models.models.concepts import ConceptBank

SEEDS_APART = 10_000


@dataclass(frozen=True, eq=False)
class FitContext:
    """A protocol with its clips, and one store's features (or none) and splits on the table."""

    protocol: Protocol
    table: ClipTable
    labels: Labels
    schedule: Schedule
    features: Features | None
    leaks: Mapping[Pair, Sequence[Leak]]
    n_jobs: int = 0
    finished: FinishedTests = field(default_factory=FinishedTests)

    @property
    def feature(self) -> str:
        """The name of the store, "" without one."""
        return self.features.name if self.features else ""

    @property
    def folds(self) -> Iterator[tuple[Pair, int, Split]]:
        """Each fold of each cell, with its number."""
        for pair in self.protocol.pairs:
            for number, split in enumerate(self.schedule.pairs[pair]):
                yield pair, number, split

    def new_banks(self) -> Banks:
        """Return the store's features with its concept vectors, of which none is found yet."""
        if self.features is None:
            raise FixInput("a model needs a store", hint="--store NAME=STORE")
        splits, seed, video = self.protocol.splits, self.protocol.fit.seed, self.table.has_video
        files = {}
        if splits.follow_paper:
            tasks = {train: self.protocol.tasks[train] for train, _ in self.protocol.pairs}
            usable = video if video.any() else np.ones(len(self.table), dtype=np.bool_)
            files = {
                name: np.where(usable, self.table.fold(task.folds), OUTSIDE)
                for name, task in tasks.items()
            }
        return Banks(self.features, self.table, splits.are_grouped, seed, files)

    def fold_data(self, train: str, split: Split, **options: Any) -> FoldData:
        """Return what a model is fitted on in a fold."""
        return FoldData(
            train, split, self.labels[train], self.table, self.schedule.groups, **options
        )


def check_cells(protocol: Protocol, schedule: Schedule, table: ClipTable) -> dict[Pair, list[Leak]]:
    """Return the leaks of every cell; raise an error where the protocol forbids them."""
    found = {pair: leaks(schedule, pair, table) for pair in protocol.pairs}
    check_leaks(
        [leak for listed in found.values() for leak in listed], allowed=protocol.leakage == "warn"
    )
    return found


def count_fits(protocol: Protocol, schedule: Schedule) -> int:
    """Return the number of fits of models for the cells of a store."""
    models = [protocol.models[name] for name in protocol.model_names]
    perceptrons = sum(len(candidates(m.settings)) for m in models if m.kind == "mlp")
    others = sum(m.kind != "mlp" for m in models)
    return sum(
        len(schedule.pairs[pair]) * (others + perceptrons * protocol.n_seeds(pair[0]))
        for pair in protocol.pairs
    )


def run_models(context: FitContext, progress: Progress) -> list[Cell]:
    """Return the cells of all models on one store."""
    names, banks = context.protocol.model_names, context.new_banks()
    models = {name: context.protocol.models[name] for name in names}
    perceptrons = {name: model for name, model in models.items() if model.kind == "mlp"}
    others = {name: model for name, model in models.items() if model.kind != "mlp"}
    n_fits = {name: len(candidates(perceptrons[name].settings)) for name in perceptrons}
    # The splits too: learning curves train on fewer films of the same folds.
    splits = f"{context.feature} {context.schedule.sha256}"
    outcomes = context.finished.of(splits)
    progress.advance(sum(n_fits.get(key[0], 1) for key in outcomes))
    tested = chain(
        _test_perceptrons(context, banks.features, perceptrons, set(outcomes)),
        _test_others(context, banks, others, set(outcomes)),
    )
    for made in tested:
        context.finished.add(splits, made)
        outcomes |= made
        progress.advance(sum(n_fits.get(key[0], 1) for key in made))
    cells = _cells(context, names, outcomes)
    # The clips of concept vectors are known only now; the first check knew those of the splits.
    found = [t.leak for cell in cells for t in cell.tested]
    check_leaks(found, allowed=context.protocol.leakage == "warn")
    return cells


def run_baselines(context: FitContext) -> list[Cell]:
    """Return the cells of all baselines, on the clips of the splits."""
    outcomes: Outcomes = {}
    seen: set[tuple[str, Pair, bytes, bytes]] = set()
    names = [n for n in context.protocol.grid.baselines if _is_possible(n, context.table)]
    for name in names:
        for pair, number, split in context.folds:
            seed = context.protocol.fit.seed + number
            data = context.fold_data(pair[0], split, seed=seed, join_validation=True)
            # Folds that differ only in their validation clips are one fold to a baseline.
            key = (name, pair, data.fit_rows.tobytes(), split.test.tobytes())
            if key not in seen:
                seen.add(key)
                fit = _try(partial(fit_baseline, name, data), data)
                outcomes[name, pair, number, 0] = _test(context, pair, number, data, fit)
    return _cells(context, names, outcomes)


def _is_possible(name: str, table: ClipTable) -> bool:
    """Return whether the manifest has what a baseline reads."""
    if name == "oracle":
        return bool(table.has_concept.any())
    return name != "neighbour" or table.places is not None


def fit_every_clip(
    context: FitContext, model: Model, task: str
) -> tuple[NDArray[np.intp], FoldFit]:
    """Fit a model as the cells are fitted, but on every clip of a task; return clips and fit.

    Perceptrons stop on the validation clips of the first split, and train on all others.
    """
    banks, data = context.new_banks(), _every_clip(context, task)
    rows = data.fit_rows
    if model.kind != "mlp":
        return rows, fit_model(model, data, banks)
    validation = np.intersect1d(rows, context.schedule.pairs[task, task][0].validation)
    split = Split("every clip", np.setdiff1d(rows, validation), validation, NO_ROWS)
    held_out = context.fold_data(task, split, seed=context.protocol.fit.seed * SEEDS_APART)
    jobs = perceptron_jobs(model, held_out, banks.features)
    return rows, best_perceptron(model, fit_perceptrons(banks.features, jobs), banks.features)


def find_every_vector(
    context: FitContext, settings: Mapping[str, Any]
) -> tuple[ConceptBank, NDArray[np.intp]]:
    """Find concept vectors as the cells do, but on every clip; return them and the clips."""
    data = _every_clip(context, context.protocol.train_tasks[0])
    margins = context.new_banks().margins(settings, data)
    return margins.bank, margins.found_on


def _every_clip(context: FitContext, task: str) -> FoldData:
    rows = np.flatnonzero(context.new_banks().features.present & (context.labels[task] >= 0))
    split = Split("every clip", rows, NO_ROWS, NO_ROWS)
    return context.fold_data(task, split, seed=context.protocol.fit.seed, join_validation=True)


def _test_others(
    context: FitContext, banks: Banks, models: Mapping[str, Model], finished: Container[TestKey]
) -> Iterator[Outcomes]:
    """Yield the tests of every model but perceptrons; each process has whole folds."""
    by_number: dict[int, list[tuple[TestKey, Split]]] = defaultdict(list)
    for pair, number, split in context.folds:
        for name in models:
            if (name, pair, number, 0) not in finished:
                by_number[number].append(((name, pair, number, 0), split))
    if by_number and any(find_kind(m.kind).head or m.kind == "svm" for m in models.values()):
        banks.gram.products  # noqa: B018 - computed here, so that no process computes its own
    # All cells of a fold stay in one process, because they share fits and concept vectors.
    folds = list(by_number.values())
    fits: dict[tuple[str, str, bytes], FoldFit | str] = {}

    def work(part: int) -> Outcomes:
        outcomes: Outcomes = {}
        for key, split in folds[part]:
            name, pair, number, _ = key
            data = _fold_data(context, models[name], pair[0], split)
            fit = (name, pair[0], _rows_of(data, models[name], banks))
            if fit not in fits:
                fits[fit] = _try(partial(fit_model, models[name], data, banks), data)
            outcomes[key] = _test(context, pair, number, data, fits[fit])
        return outcomes

    return map_parts(work, len(folds), context.n_jobs)


def _fold_data(context: FitContext, model: Model, train: str, split: Split) -> FoldData:
    splits = context.protocol.splits
    chooses = len(candidates(model.settings)) > 1 and not splits.are_grouped
    joins = not splits.follow_paper and not chooses
    return context.fold_data(train, split, seed=context.protocol.fit.seed, join_validation=joins)


def _rows_of(data: FoldData, model: Model, banks: Banks) -> bytes:
    """Return all rows that a fit depends on: two cells that have the same here share the fit."""
    parts = [data.fit_rows, np.setdiff1d(data.split.validation, data.fit_rows)]
    if find_kind(model.kind).head:
        parts.append(banks.bank_rows(data))
        if len(candidates(model.settings)) > 1:
            parts.append(data.split.test)  # held out of the fits that choose
    return b"|".join(part.tobytes() for part in parts)


def _try(fit: Callable[[], FoldFit], data: FoldData) -> FoldFit | str:
    """Return the fit, or the reason why there is none for the rows of this fold."""
    try:
        return data.problem or fit()
    except FixTraining as error:
        return error.what


def _test_perceptrons(
    context: FitContext,
    features: Features,
    models: Mapping[str, Model],
    finished: Container[TestKey],
) -> Iterator[Outcomes]:
    """Yield the tests of the best candidates; fits that share a trajectory are in one process."""
    # Each training set of a cell starts from weights of its own: with one start for all,
    # the luck of that start would look like a property of the features.
    starts: dict[tuple[str, Pair], dict[bytes, int]] = defaultdict(dict)
    together: dict[tuple[str, str, int, bytes], list[tuple[TestKey, FoldData]]] = defaultdict(list)
    for (pair, number, split), name in product(context.folds, models):
        data, rows = context.fold_data(pair[0], split), split.train.tobytes()
        own = starts[name, pair]
        start = 0 if data.problem else own.setdefault(rows, len(own))
        for repeat in range(1 if data.problem else context.protocol.n_seeds(pair[0])):
            seed = (context.protocol.fit.seed + repeat) * SEEDS_APART + start
            key = (name, pair, number, repeat)
            if key not in finished:
                together[name, pair[0], seed, rows].append((key, replace(data, seed=seed)))
    groups = list(together.values())

    def work(part: int) -> Outcomes:
        model = models[groups[part][0][0][0]]
        return _perceptron_tests(context, features, model, groups[part])

    return map_parts(work, len(groups), context.n_jobs)


def _perceptron_tests(
    context: FitContext, features: Features, model: Model, folds: Sequence[tuple[TestKey, FoldData]]
) -> Outcomes:
    """Fit a perceptron on training rows that folds share, and test it in each of them."""
    distinct = {data.split.validation.tobytes(): data for _, data in folds if not data.problem}
    jobs = [perceptron_jobs(model, data, features) for data in distinct.values()]
    done = iter(fit_perceptrons(features, list(chain.from_iterable(jobs))))
    fits = {
        rows: best_perceptron(model, list(islice(done, len(own))), features)
        for rows, own in zip(distinct, jobs, strict=True)
    }
    outcomes: Outcomes = {}
    for key, data in folds:
        fit = data.problem or fits[data.split.validation.tobytes()]
        seed = context.protocol.fit.seed + key[3]
        outcomes[key] = _test(context, key[1], key[2], data, fit, seed)
    return outcomes


def _cells(context: FitContext, names: Sequence[str], outcomes: Outcomes) -> list[Cell]:
    return [
        _cell(context, name, pair, outcomes) for pair in context.protocol.pairs for name in names
    ]


def _cell(context: FitContext, model: str, pair: Pair, outcomes: Outcomes) -> Cell:
    found = [
        (split.name, outcomes[model, pair, number, repeat])
        for number, split in enumerate(context.schedule.pairs[pair])
        for repeat in range(context.protocol.n_seeds(pair[0]))
        if (model, pair, number, repeat) in outcomes
    ]
    tested = [outcome for _, outcome in found if not isinstance(outcome, str)]
    skipped = [{"fold": fold, "reason": why} for fold, why in found if isinstance(why, str)]
    if not tested:
        raise FixInput(
            f"no fold of {pair[0]} -> {pair[1]} could be trained and tested: "
            f"{skipped[0]['reason'] if skipped else 'there is none'}",
            where=f"model {model}" + (f" on {context.feature}" if context.feature else ""),
            hint="other splits, or a task with more clips of both classes",
        )
    averaged, share = context.schedule.is_repeated(pair), 0.5 if model == "random" else None
    return Cell(pair[1], pair[0], pair[1], model, context.feature, tested, skipped, averaged, share)


def _test(
    context: FitContext,
    pair: Pair,
    number: int,
    data: FoldData,
    fit: FoldFit | str,
    seed: int = 0,
) -> TestedFold | str:
    """Return the test of a fit, or the reason why there is none."""
    split = data.split
    if not len(split.test):
        return "no clip of this task is tested in it"
    if isinstance(fit, str):
        return fit
    clips = np.union1d(split.test, split.validation)
    values = fit.score(clips)
    scores, chosen = (values[np.searchsorted(clips, r)] for r in (split.test, split.validation))
    y = context.labels[pair[1]][split.test] == 1
    # Clips that the model was fitted on cannot choose a threshold by its own scores.
    labels = context.labels[pair[0]][split.validation]
    inner = fit.inner or (NO_ROWS, NO_ROWS) if data.join_validation else (labels, chosen)
    leak = context.leaks[pair][number]
    if len(fit.found_on):
        leak = split_leak(split, pair, context.table, fit.found_on)
    return TestedFold(
        fold=split.name,
        seed=seed,
        rows=split.test,
        predictions=Predictions.of(y, scores, fit.threshold),
        n_train=len(split.train),
        n_validation=len(split.validation),
        leak=leak,
        are_probabilities=fit.threshold == 0.5,
        tuned=tune(*inner),
        facts=fit.chosen,
    )

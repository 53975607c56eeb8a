"""Trains and tests every cell of a protocol: fold by fold, model by model, store by store.

A cell is made from its own splits, settings and seeds, so that it has the same bytes whatever else
a protocol asks for. What two cells would learn from the same rows is learned once; each is scored
by itself, because the last bits of a product depend on how many rows are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.leakage import Leak, check_leaks
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import FixTraining
from obygaze_models.models.mlp import Job, MLPFit, MLPSettings
from obygaze_models.models.registry import Settings, build, find_kind, mlp_settings
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.kinds import candidates
from obygaze_models.protocols.runner.banks import Banks
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.models import (
    NO_ROWS,
    Case,
    Learned,
    train_baseline,
    train_model,
)
from obygaze_models.protocols.runner.processes import fit_all, map_parts, workers_for
from obygaze_models.protocols.runner.scoring import Cell, Tested, tune
from obygaze_models.protocols.schedule import Labels, Schedule, leaks, split_leak
from obygaze_models.protocols.schema import Model, Protocol
from obygaze_models.protocols.splits import Split

if TYPE_CHECKING:
    from obygaze_models.models.concepts import ConceptBank

Pair = tuple[str, str]
SEEDS_APART = 10_000
FoldKey = tuple[str, Pair, int]  # model, training and test task, number of the fold


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
    progress: Progress = field(default_factory=Quiet)

    @property
    def feature(self) -> str:
        """The name of the store."""
        return self.features.name if self.features else ""

    @property
    def folds(self) -> Iterator[tuple[Pair, int, Split]]:
        """Each fold of each cell, with its number."""
        for pair in self.protocol.pairs:
            for number, split in enumerate(self.schedule.pairs[pair]):
                yield pair, number, split

    def case(self, train: str, split: Split, **more: Any) -> Case:
        """What a fold gives to a model."""
        return Case(train, split, self.labels[train], self.table, self.schedule.groups, **more)


@dataclass(frozen=True, eq=False)
class FittedCell:
    """Scores of one fit for the clips that a fold tests or chooses with, or why there are none.

    `clips` are sorted; `found_on` are the clips that concept vectors were found on.
    """

    clips: NDArray[np.intp]
    values: NDArray[np.float64] | None = None
    threshold: float = 0.5
    chosen: Mapping[str, Any] = field(default_factory=dict)
    found_on: NDArray[np.intp] = field(default_factory=NO_ROWS.copy)
    reason: str = ""
    seed: int = 0
    joined: bool = False  # the clips that might have chosen a threshold have trained

    @classmethod
    def of(cls, split: Split, learned: Learned | str, **more: Any) -> FittedCell:
        """The scores of a fold's own clips."""
        clips = np.union1d(split.test, split.validation)
        if isinstance(learned, str):
            return cls(clips, reason=learned, **more)
        own = (learned.threshold, learned.chosen, learned.found_on)
        return cls(clips, learned.score(clips), *own, **more)


def check_cells(protocol: Protocol, schedule: Schedule, table: ClipTable) -> dict[Pair, list[Leak]]:
    """The leaks of every cell; an error where the protocol forbids them."""
    found = {pair: leaks(schedule, pair, table) for pair in protocol.pairs}
    check_leaks(
        [leak for listed in found.values() for leak in listed], allowed=protocol.leakage == "warn"
    )
    return found


def count_fits(protocol: Protocol, schedule: Schedule) -> int:
    """How many fits of models the cells of a store ask for."""
    n_folds = sum(len(schedule.pairs[pair]) for pair in protocol.pairs)
    models = [protocol.models[name] for name in protocol.model_names]
    repeats = [
        len(candidates(m.settings)) * protocol.fit.seeds if m.kind == "mlp" else 1 for m in models
    ]
    return n_folds * sum(repeats)


def run_models(context: FitContext) -> list[Cell]:
    """All models on one store."""
    names = context.protocol.model_names
    models = {name: context.protocol.models[name] for name in names}
    perceptrons = {name: model for name, model in models.items() if model.kind == "mlp"}
    others = {name: model for name, model in models.items() if model.kind != "mlp"}
    fits: dict[FoldKey, list[FittedCell]] = {}
    if perceptrons:
        fits.update(_run_perceptrons(context, _features(context), perceptrons))
    if others:
        fits.update(_run_others(context, _banks(context), others))
    cells = [_cell(context, name, pair, fits) for pair in context.protocol.pairs for name in names]
    # Concept vectors are known only now: what was counted before is what the splits say.
    found = [t.leak for cell in cells for t in cell.tested]
    check_leaks(found, allowed=context.protocol.leakage == "warn")
    return cells


def fit_every_clip(
    context: FitContext, model: Model, task: str
) -> tuple[NDArray[np.intp], Learned]:
    """Fit a model as the cells are fitted, but on every clip of a task; return clips and fit.

    Perceptrons stop on the validation clips of the first split, and learn from all others.
    """
    case = _every_clip(context, task)
    if model.kind != "mlp":
        return case.learn, train_model(model, case, _features(context), _banks(context))
    features, rows = _features(context), case.learn
    chosen = np.intersect1d(rows, context.schedule.pairs[task, task][0].validation)
    train, choose = (features.row_of[r] for r in (np.setdiff1d(rows, chosen), chosen))
    labels = case.labels.astype(np.int64)[features.present]
    job = Job(train, labels, choose, context.protocol.fit.seed * SEEDS_APART)
    settings = dict(model.settings)
    (fit,) = fit_all(features.X, [(mlp_settings(settings), job)], 1)
    return rows, _learned(fit, settings, features)


def find_every_vector(
    context: FitContext, settings: Mapping[str, Any]
) -> tuple[ConceptBank, NDArray[np.intp]]:
    """Find concept vectors as the cells do, but on every clip; return them and the clips."""
    case = _every_clip(context, context.protocol.train_tasks[0])
    margins = _banks(context).margins(settings, case)
    return margins.bank, margins.found_on


def _every_clip(context: FitContext, task: str) -> Case:
    rows = np.flatnonzero(_features(context).present & (context.labels[task] >= 0))
    split = Split("every clip", rows, NO_ROWS, NO_ROWS)
    return context.case(task, split, seed=context.protocol.fit.seed, join_validation=True)


def _features(context: FitContext) -> Features:
    if context.features is None:
        raise FixInput("a model needs a store", hint="--store NAME=STORE")
    return context.features


def _banks(context: FitContext) -> Banks:
    protocol = context.protocol
    return Banks(_features(context), context.table, protocol.splits.are_grouped, protocol.fit.seed)


def run_baselines(context: FitContext) -> list[Cell]:
    """All baselines, on the clips that the splits hold."""
    fits: dict[FoldKey, list[FittedCell]] = {}
    seen: set[tuple[str, Pair, bytes, bytes]] = set()
    names = [n for n in context.protocol.grid.baselines if _is_possible(n, context.table)]
    for name in names:
        for pair, number, split in context.folds:
            seed = context.protocol.fit.seed + number
            case = context.case(pair[0], split, seed=seed, join_validation=True)
            # Folds that only differ in which clips choose are one fold to a baseline.
            key = (name, pair, case.learn.tobytes(), split.test.tobytes())
            if key in seen:
                continue
            seen.add(key)
            learned = _try(partial(train_baseline, name, case), case)
            fits[name, pair, number] = [FittedCell.of(split, learned, joined=True)]
    return [_cell(context, name, pair, fits) for pair in context.protocol.pairs for name in names]


def _is_possible(name: str, table: ClipTable) -> bool:
    """Whether the manifest has what a baseline looks at."""
    if name == "oracle":
        return bool(table.has_concept.any())
    return name != "neighbour" or table.places is not None


def _run_others(
    context: FitContext, banks: Banks, models: Mapping[str, Model]
) -> dict[FoldKey, list[FittedCell]]:
    """Every fold of every other model; folds are shared among processes."""
    n_folds = max(len(splits) for splits in context.schedule.pairs.values())
    if any(find_kind(m.kind).head or m.kind == "svm" for m in models.values()):
        banks.gram.products  # noqa: B018 - made here, so that no process has to make its own
    # All cells of a fold stay in one process, because they share fits and concept vectors.
    n_parts = min(workers_for(context.n_jobs), n_folds)
    quiet = replace(context, progress=Quiet())  # what another process can be given

    def work(part: int, progress: Progress) -> dict[FoldKey, list[FittedCell]]:
        found = {}
        learned: dict[tuple[str, str, bytes], Learned | str] = {}
        for pair, number, split in quiet.folds:
            if number % n_parts == part:
                for name, model in models.items():
                    case = _case(quiet, model, pair[0], split)
                    key = (name, pair[0], _rows_of(case, model, banks))
                    if key not in learned:
                        fit = partial(train_model, model, case, _features(quiet), banks)
                        learned[key] = _try(fit, case)
                    joined = case.join_validation
                    found[name, pair, number] = [FittedCell.of(split, learned[key], joined=joined)]
                    progress.advance(n_parts)  # the other parts are about as far
        return found

    done: dict[FoldKey, list[FittedCell]] = {}
    for part in map_parts(work, n_parts, context.progress):
        done.update(part)
    return done


def _case(context: FitContext, model: Model, train: str, split: Split) -> Case:
    splits = context.protocol.splits
    choosing = len(candidates(model.settings)) > 1 and not splits.are_grouped
    joined = not splits.follow_paper and not choosing
    return context.case(train, split, seed=context.protocol.fit.seed, join_validation=joined)


def _rows_of(case: Case, model: Model, banks: Banks) -> bytes:
    """All rows that a fit depends on: two cells that have the same here share the fit."""
    parts = [case.learn, np.setdiff1d(case.split.validation, case.learn)]
    if find_kind(model.kind).head:
        parts.append(banks.bank_rows(case))
        if len(candidates(model.settings)) > 1:
            parts.append(case.split.test)  # held out of the fits that choose
    return b"|".join(part.tobytes() for part in parts)


def _try(train: Callable[[], Learned], case: Case) -> Learned | str:
    """A fit, or the reason why the rows of this fold could not teach one."""
    classes = np.unique(case.labels[case.learn])
    if len(classes) < 2:
        return _one_class(classes)
    try:
        return train()
    except FixTraining as error:
        return error.what


def _one_class(classes: NDArray[Any]) -> str:
    if not len(classes):
        return "no clip is left to train on"
    return f"the training clips hold one class only: {int(classes[0])}"


def _run_perceptrons(
    context: FitContext, features: Features, models: Mapping[str, Model]
) -> dict[FoldKey, list[FittedCell]]:
    """Every fit of every perceptron in one call, then the best candidate of each by validation."""
    asked: list[tuple[FoldKey, Split, int, int, list[Settings]]] = []
    work: list[tuple[MLPSettings, Job]] = []
    places: dict[tuple[str, str, bytes, bytes, int], int] = {}
    fits: dict[FoldKey, list[FittedCell]] = {}
    for name, model in models.items():
        options = candidates(model.settings)
        starts: dict[Pair, dict[bytes, int]] = {}
        for pair, number, split in context.folds:
            train = pair[0]
            labels = context.labels[train].astype(np.int64)[features.present]
            key = (name, pair, number)
            fits[key] = []
            classes = np.unique(context.labels[train][split.train])
            if len(classes) < 2:
                fits[key].append(FittedCell.of(split, _one_class(classes)))
                continue
            rows, choose = (features.row_of[r] for r in (split.train, split.validation))
            # Each training set of a cell starts from weights of its own: with one start for all,
            # the luck of that start would look like a property of the features.
            own_starts = starts.setdefault(pair, {})
            start = own_starts.setdefault(rows.tobytes(), len(own_starts))
            for repeat in range(context.protocol.fit.seeds):
                seed = context.protocol.fit.seed + repeat
                own_seed = seed * SEEDS_APART + start
                place = (name, train, rows.tobytes(), choose.tobytes(), own_seed)
                if place not in places:
                    places[place] = len(work)
                    job = Job(rows, labels, choose, own_seed)
                    work += [(mlp_settings(own), job) for own in options]
                asked.append((key, split, seed, places[place], options))
    done = fit_all(features.X, work, context.n_jobs)
    context.progress.advance(sum(len(options) for *_, options in asked))
    for key, split, seed, at, options in asked:
        pairs = zip(done[at : at + len(options)], options, strict=True)
        fit, settings = min(pairs, key=lambda pair: _validation_loss(pair[0]))
        fits[key].append(FittedCell.of(split, _learned(fit, settings, features), seed=seed))
    return fits


def _learned(fit: MLPFit, settings: Settings, features: Features) -> Learned:
    facts = {"epochs": fit.n_epochs, "kept_epoch": fit.kept_epoch}
    probe = build("mlp", settings).adopt(fit, (0, 1))
    return Learned(probe, lambda clips: fit.probabilities(features.of(clips))[:, 1], 0.5, facts)


def _validation_loss(fit: MLPFit) -> float:
    curve = fit.validation_loss
    return float(curve[fit.kept_epoch - 1]) if len(curve) else float(fit.train_loss[-1])


def _cell(
    context: FitContext, model: str, pair: Pair, fits: Mapping[FoldKey, list[FittedCell]]
) -> Cell:
    tested, skipped = [], []
    for number, split in enumerate(context.schedule.pairs[pair]):
        for fitted in fits.get((model, pair, number), []):
            reason = fitted.reason if len(split.test) else "no clip of this task is tested in it"
            if fitted.values is None or not len(split.test):
                skipped.append({"fold": split.name, "reason": reason})
            else:
                leak = context.leaks[pair][number]
                if len(fitted.found_on):
                    leak = split_leak(split, pair, context.table, fitted.found_on)
                tested.append(_tested(context, pair, split, fitted, fitted.values, leak))
    if not tested:
        raise FixInput(
            f"no fold of {pair[0]} -> {pair[1]} could be trained and tested: "
            f"{skipped[0]['reason'] if skipped else 'there is none'}",
            where=f"model {model}" + (f" on {context.feature}" if context.feature else ""),
            hint="other splits, or a task with more clips of both classes",
        )
    averaged = context.schedule.is_repeated(pair)
    cell = Cell(pair[1], pair[0], pair[1], model, context.feature, tested, skipped, averaged)
    if model == "random":
        return replace(cell, share=0.5)
    return cell


def _tested(
    context: FitContext,
    pair: Pair,
    split: Split,
    fitted: FittedCell,
    values: NDArray[np.float64],
    leak: Leak,
) -> Tested:
    at = np.searchsorted(fitted.clips, split.test)
    choose = np.searchsorted(fitted.clips, split.validation)
    y = context.labels[pair[1]][split.test] == 1
    chosen_y = context.labels[pair[0]][split.validation] == 1
    return Tested(
        fold=split.name,
        seed=fitted.seed,
        rows=split.test,
        predictions=Predictions.of(y, values[at], fitted.threshold),
        n_train=len(split.train),
        n_validation=len(split.validation),
        leak=leak,
        are_probabilities=fitted.threshold == 0.5,
        tuned=None if fitted.joined else tune(chosen_y, values[choose]),
        facts=fitted.chosen,
    )

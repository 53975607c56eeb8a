"""Trains and tests every cell of a protocol: fold by fold, model by model, store by store.

A cell is made from its own splits, settings and seeds, so that it has the same bytes whatever else
a protocol asks for. What two cells would learn from the same rows is learned once; each is scored
by itself, because the last bits of a product depend on how many rows are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.leakage import Leak, check_leaks
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import FixTraining
from obygaze_models.models.mlp import Job, MLPFit, MLPSettings
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
from obygaze_models.protocols.runner.perceptrons import fit_all, settings_of
from obygaze_models.protocols.runner.processes import map_parts, workers_for
from obygaze_models.protocols.runner.scoring import Cell, Tested, tune
from obygaze_models.protocols.schedule import Labels, Schedule, leaks, split_leak
from obygaze_models.protocols.schema import Model, Protocol
from obygaze_models.protocols.splits import Split

Pair = tuple[str, str]
SEEDS_APART = 10_000
FoldKey = tuple[str, Pair, int]  # model, training and test task, number of the fold


@dataclass(frozen=True, eq=False)
class Bench:
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
class Fitted:
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
    def of(cls, split: Split, learned: Learned | str, **more: Any) -> Fitted:
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


def run_models(bench: Bench) -> list[Cell]:
    """All models on one store."""
    if bench.features is None:
        raise FixInput("a model needs a store", hint="--store NAME=STORE")
    grouped = bench.schedule.grouped
    banks = Banks(bench.features, bench.table, grouped, bench.protocol.fit.seed)
    fits: dict[FoldKey, list[Fitted]] = {}
    perceptrons = {n: bench.protocol.models[n] for n in bench.protocol.model_names}
    others = {n: m for n, m in perceptrons.items() if m.kind != "mlp"}
    perceptrons = {n: m for n, m in perceptrons.items() if m.kind == "mlp"}
    if perceptrons:
        fits.update(_run_perceptrons(bench, bench.features, perceptrons))
    if others:
        fits.update(_run_others(bench, banks, others))
    names = bench.protocol.model_names
    cells = [_cell(bench, name, pair, fits) for pair in bench.protocol.pairs for name in names]
    # Concept vectors are known only now: what was counted before is what the splits say.
    found = [t.leak for cell in cells for t in cell.tested]
    check_leaks(found, allowed=bench.protocol.leakage == "warn")
    return cells


def run_baselines(bench: Bench) -> list[Cell]:
    """All baselines, on the clips that the splits hold."""
    fits: dict[FoldKey, list[Fitted]] = {}
    seen: set[tuple[str, Pair, bytes, bytes]] = set()
    names = [n for n in bench.protocol.grid.baselines if _is_possible(n, bench.table)]
    for name in names:
        for pair, number, split in bench.folds:
            seed = bench.protocol.fit.seed + number
            case = bench.case(pair[0], split, seed=seed, join_validation=True)
            # Folds that only differ in which clips choose are one fold to a baseline.
            key = (name, pair, case.learn.tobytes(), split.test.tobytes())
            if key in seen:
                continue
            seen.add(key)
            learned = _try(partial(train_baseline, name, case), case)
            fits[name, pair, number] = [Fitted.of(split, learned, joined=True)]
    return [_cell(bench, name, pair, fits) for pair in bench.protocol.pairs for name in names]


def _is_possible(name: str, table: ClipTable) -> bool:
    """Whether the manifest has what a baseline looks at."""
    if name == "oracle":
        return bool(table.has_concept.any())
    return name != "neighbour" or table.places is not None


def _run_others(
    bench: Bench, banks: Banks, models: Mapping[str, Model]
) -> dict[FoldKey, list[Fitted]]:
    """Every fold of every other model; folds are shared among processes."""
    n_folds = max(len(splits) for splits in bench.schedule.pairs.values())
    if any("tolerance" in model.settings or model.kind == "svm" for model in models.values()):
        banks.gram.products  # noqa: B018 - made here, so that no process has to make its own
    # All cells of a fold stay in one process, because they share fits and concept vectors.
    n_parts = min(workers_for(bench.n_jobs), n_folds)
    quiet = replace(bench, progress=Quiet())  # what another process can be given

    def work(part: int, progress: Progress) -> dict[FoldKey, list[Fitted]]:
        found = {}
        learned: dict[tuple[str, str, bytes], Learned | str] = {}
        for pair, number, split in quiet.folds:
            if number % n_parts == part:
                for name, model in models.items():
                    case = _case(quiet, model, pair[0], split)
                    key = (name, pair[0], _rows_of(case, model, banks))
                    if key not in learned:
                        learned[key] = _learn(quiet, banks, model, case)
                    joined = case.join_validation
                    found[name, pair, number] = [Fitted.of(split, learned[key], joined=joined)]
                    progress.advance(n_parts)  # the other parts are about as far
        return found

    done: dict[FoldKey, list[Fitted]] = {}
    for part in map_parts(work, n_parts, bench.progress):
        done.update(part)
    return done


def _case(bench: Bench, model: Model, train: str, split: Split) -> Case:
    exact = bench.protocol.splits.kind == "published" and bench.protocol.splits.quirk != "none"
    choosing = len(candidates(model.settings)) > 1 and not bench.schedule.grouped
    joined = not exact and not choosing
    return bench.case(train, split, seed=bench.protocol.fit.seed, join_validation=joined)


def _rows_of(case: Case, model: Model, banks: Banks) -> bytes:
    """All rows that a fit depends on: two cells that have the same here share the fit."""
    parts = [case.learn, np.setdiff1d(case.split.validation, case.learn)]
    if "tolerance" in model.settings:
        parts.append(banks.bank_rows(case))
        if len(candidates(model.settings)) > 1:
            parts.append(case.split.test)  # held out of the fits that choose
    return b"|".join(part.tobytes() for part in parts)


def _learn(bench: Bench, banks: Banks, model: Model, case: Case) -> Learned | str:
    features = bench.features
    if features is None:
        raise FixInput("a model needs a store")
    return _try(partial(train_model, model, case, features, banks), case)


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
    bench: Bench, features: Features, models: Mapping[str, Model]
) -> dict[FoldKey, list[Fitted]]:
    """Every fit of every perceptron in one call, then the best candidate of each by validation."""
    asked: list[tuple[FoldKey, Split, int, int, int]] = []
    work: list[tuple[MLPSettings, Job]] = []
    places: dict[tuple[str, str, bytes, bytes, int], int] = {}
    fits: dict[FoldKey, list[Fitted]] = {}
    for name, model in models.items():
        options = [settings_of(one) for one in candidates(model.settings)]
        starts: dict[Pair, dict[bytes, int]] = {}
        for pair, number, split in bench.folds:
            train = pair[0]
            labels = bench.labels[train].astype(np.int64)[features.present]
            key = (name, pair, number)
            fits[key] = []
            classes = np.unique(bench.labels[train][split.train])
            if len(classes) < 2:
                fits[key].append(Fitted.of(split, _one_class(classes)))
                continue
            rows, choose = (features.row_of[r] for r in (split.train, split.validation))
            # Each training set of a cell starts from weights of its own: with one start for all,
            # the luck of that start would look like a property of the features.
            own_starts = starts.setdefault(pair, {})
            start = own_starts.setdefault(rows.tobytes(), len(own_starts))
            for repeat in range(bench.protocol.fit.seeds):
                seed = bench.protocol.fit.seed + repeat
                own_seed = seed * SEEDS_APART + start
                place = (name, train, rows.tobytes(), choose.tobytes(), own_seed)
                if place not in places:
                    places[place] = len(work)
                    work += [(own, Job(rows, labels, choose, own_seed)) for own in options]
                asked.append((key, split, seed, places[place], len(options)))
    done = fit_all(features.X, work, bench.n_jobs)
    bench.progress.advance(sum(n_options for *_, n_options in asked))
    for key, split, seed, at, n_options in asked:
        best = min(done[at : at + n_options], key=_validation_loss)
        learned = _learned(best, features)
        fits[key].append(Fitted.of(split, learned, seed=seed))
    return fits


def _learned(fit: MLPFit, features: Features) -> Learned:
    facts = {"epochs": fit.n_epochs, "kept_epoch": fit.kept_epoch}
    return Learned(
        lambda clips: fit.probabilities(features.X[features.row_of[clips]])[:, 1], 0.5, facts
    )


def _validation_loss(fit: MLPFit) -> float:
    curve = fit.validation_loss
    return float(curve[fit.kept_epoch - 1]) if len(curve) else float(fit.train_loss[-1])


def _cell(bench: Bench, model: str, pair: Pair, fits: Mapping[FoldKey, list[Fitted]]) -> Cell:
    tested, skipped = [], []
    for number, split in enumerate(bench.schedule.pairs[pair]):
        for fitted in fits.get((model, pair, number), []):
            reason = fitted.reason if len(split.test) else "no clip of this task is tested in it"
            if fitted.values is None or not len(split.test):
                skipped.append({"fold": split.name, "reason": reason})
            else:
                leak = bench.leaks[pair][number]
                if len(fitted.found_on):
                    leak = split_leak(split, pair, bench.table, fitted.found_on)
                tested.append(_tested(bench, pair, split, fitted, fitted.values, leak))
    if not tested:
        raise FixInput(
            f"no fold of {pair[0]} -> {pair[1]} could be trained and tested: "
            f"{skipped[0]['reason'] if skipped else 'there is none'}",
            where=f"model {model}" + (f" on {bench.feature}" if bench.feature else ""),
            hint="other splits, or a task with more clips of both classes",
        )
    averaged = bench.schedule.is_repeated(pair)
    cell = Cell(pair[1], pair[0], pair[1], model, bench.feature, tested, skipped, averaged)
    if model == "random":
        return replace(cell, share=0.5)
    return cell


def _tested(
    bench: Bench,
    pair: Pair,
    split: Split,
    fitted: Fitted,
    values: NDArray[np.float64],
    leak: Leak,
) -> Tested:
    at = np.searchsorted(fitted.clips, split.test)
    choose = np.searchsorted(fitted.clips, split.validation)
    y = bench.labels[pair[1]][split.test] == 1
    chosen_y = bench.labels[pair[0]][split.validation] == 1
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

"""Trains and tests every cell of a protocol: fold by fold, model by model, store by store."""

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
from obygaze_models.models.ground import FixTraining
from obygaze_models.models.mlp_many import Job, MLPFit
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.kinds import candidates
from obygaze_models.protocols.runner.banks import Banks
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.models import Case, Scores, train_baseline, train_model
from obygaze_models.protocols.runner.perceptrons import fit_all, settings_of
from obygaze_models.protocols.runner.processes import map_parts, workers_for
from obygaze_models.protocols.runner.scoring import Cell, Tested, tune
from obygaze_models.protocols.schedule import Labels, Schedule, leaks
from obygaze_models.protocols.schema import Model, Protocol
from obygaze_models.protocols.splits import Split

Pair = tuple[str, str]
SEEDS_APART = 10_000
FoldKey = tuple[str, str, int]  # model, training task, number of the fold


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

    def folds(self, train: str) -> Iterator[tuple[int, Split, NDArray[np.intp]]]:
        """Each fold of a training task, and all clips that some cell tests in it."""
        pairs = [pair for pair in self.protocol.pairs if pair[0] == train]
        for number, split in enumerate(self.schedule.pairs[pairs[0]]):
            tests = [self.schedule.pairs[pair][number].test for pair in pairs]
            wanted = np.unique(np.concatenate([*tests, split.validation]))
            yield number, split, wanted

    def case(self, train: str, split: Split, wanted: NDArray[np.intp], **more: Any) -> Case:
        """What a fold gives to a model."""
        return Case(
            train, split, self.labels[train], self.table, self.schedule.groups, wanted, **more
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """Scores of one fit for the clips that were wanted of it, or why there are none."""

    wanted: NDArray[np.intp]
    scores: Scores | None
    reason: str = ""
    seed: int = 0
    joined: bool = False  # the clips that might have chosen a threshold have trained


def check_cells(protocol: Protocol, schedule: Schedule, table: ClipTable) -> dict[Pair, list[Leak]]:
    """The leaks of every cell; an error where the protocol forbids them."""
    found = {pair: leaks(schedule, pair, table) for pair in protocol.pairs}
    check_leaks(
        [leak for listed in found.values() for leak in listed], allowed=protocol.leakage == "warn"
    )
    return found


def count_fits(protocol: Protocol, schedule: Schedule) -> int:
    """How many fits of models a store asks for."""
    folds = {pair[0]: len(schedule.pairs[pair]) for pair in protocol.pairs}
    models = [protocol.models[name] for name in protocol.model_names]
    repeats = [
        len(candidates(m.settings)) * protocol.fit.seeds if m.kind == "mlp" else 1 for m in models
    ]
    return sum(folds.values()) * sum(repeats)


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
    return [_cell(bench, name, pair, fits) for pair in bench.protocol.pairs for name in names]


def run_baselines(bench: Bench) -> list[Cell]:
    """All baselines, on the clips that the splits hold."""
    fits: dict[FoldKey, list[Fitted]] = {}
    seen: set[tuple[str, str, bytes, bytes]] = set()
    names = [n for n in bench.protocol.grid.baselines if _is_possible(n, bench.table)]
    for name in names:
        for train in dict.fromkeys(pair[0] for pair in bench.protocol.pairs):
            for number, split, wanted in bench.folds(train):
                seed = bench.protocol.fit.seed + number
                case = bench.case(train, split, wanted, seed=seed, join_validation=True)
                # Folds that only differ in which clips choose are one fold to a baseline.
                key = (name, train, case.learn.tobytes(), split.test.tobytes())
                if key in seen:
                    continue
                seen.add(key)
                fits[name, train, number] = [_try(partial(train_baseline, name, case), case)]
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
    trains = list(dict.fromkeys(pair[0] for pair in bench.protocol.pairs))
    n_folds = max(len(list(bench.folds(train))) for train in trains)
    if any("tolerance" in model.settings or model.kind == "svm" for model in models.values()):
        banks.gram.products  # noqa: B018 - made here, so that no process has to make its own
    # All tasks and heads of a fold stay in one process, because they share its concept vectors.
    n_parts = min(workers_for(bench.n_jobs), n_folds)
    quiet = replace(bench, progress=Quiet())  # what another process can be given

    def work(part: int, progress: Progress) -> dict[FoldKey, list[Fitted]]:
        found = {}
        for train in trains:
            for number, split, wanted in quiet.folds(train):
                if number % n_parts == part:
                    for name, model in models.items():
                        fitted = _run_one(quiet, banks, model, train, split, wanted)
                        found[name, train, number] = [fitted]
                        progress.advance(n_parts)  # the other parts are about as far
        return found

    done: dict[FoldKey, list[Fitted]] = {}
    for part in map_parts(work, n_parts, bench.progress):
        done.update(part)
    return done


def _run_one(
    bench: Bench, banks: Banks, model: Model, train: str, split: Split, wanted: NDArray[np.intp]
) -> Fitted:
    exact = bench.protocol.splits.kind == "published" and bench.protocol.splits.quirk != "none"
    choosing = len(candidates(model.settings)) > 1 and not bench.schedule.grouped
    case = bench.case(
        train,
        split,
        wanted,
        seed=bench.protocol.fit.seed,
        join_validation=not exact and not choosing,
    )
    features = bench.features
    if features is None:
        raise FixInput("a model needs a store")
    return _try(partial(train_model, model, case, features, banks), case)


def _try(train: Callable[[], Scores], case: Case) -> Fitted:
    """A fit, or the reason why the rows of this fold could not teach one."""
    classes = np.unique(case.labels[case.learn])
    if len(classes) < 2:
        return Fitted(case.wanted, None, _one_class(classes))
    try:
        return Fitted(case.wanted, train(), joined=case.join_validation)
    except FixTraining as error:
        return Fitted(case.wanted, None, error.what)


def _one_class(classes: NDArray[Any]) -> str:
    if not len(classes):
        return "no clip is left to train on"
    return f"the training clips hold one class only: {int(classes[0])}"


def _run_perceptrons(
    bench: Bench, features: Features, models: Mapping[str, Model]
) -> dict[FoldKey, list[Fitted]]:
    """Every fit of every perceptron in one call, then the best candidate of each by validation."""
    asked: list[tuple[FoldKey, int, int, NDArray[np.intp]]] = []
    work = []
    fits: dict[FoldKey, list[Fitted]] = {}
    for name, model in models.items():
        options = [settings_of(one) for one in candidates(model.settings)]
        for train in dict.fromkeys(pair[0] for pair in bench.protocol.pairs):
            labels = bench.labels[train].astype(np.int64)[features.present]
            starts: dict[bytes, int] = {}
            for number, split, wanted in bench.folds(train):
                key = (name, train, number)
                fits[key] = []
                classes = np.unique(bench.labels[train][split.train])
                if len(classes) < 2:
                    fits[key].append(Fitted(wanted, None, _one_class(classes)))
                    continue
                rows, choose = (features.row_of[r] for r in (split.train, split.validation))
                # Each training set starts from weights of its own: with one start for all, the
                # luck of that start would look like a property of the features.
                start = starts.setdefault(rows.tobytes(), len(starts))
                for repeat in range(bench.protocol.fit.seeds):
                    seed = bench.protocol.fit.seed + repeat
                    asked.append((key, seed, len(options), wanted))
                    own_seed = seed * SEEDS_APART + start
                    work += [(own, Job(rows, labels, choose, own_seed)) for own in options]
    done = fit_all(features.X, work, bench.n_jobs)
    bench.progress.advance(len(done))
    at = 0
    for key, seed, n_options, wanted in asked:
        best = min(done[at : at + n_options], key=_validation_loss)
        at += n_options
        p = best.probabilities(features.X[features.row_of[wanted]])[:, 1]
        facts = {"epochs": best.n_epochs, "kept_epoch": best.kept_epoch}
        fits[key].append(Fitted(wanted, Scores(p, 0.5, facts), seed=seed))
    return fits


def _validation_loss(fit: MLPFit) -> float:
    curve = fit.validation_loss
    return float(curve[fit.kept_epoch - 1]) if len(curve) else float(fit.train_loss[-1])


def _cell(bench: Bench, model: str, pair: Pair, fits: Mapping[FoldKey, list[Fitted]]) -> Cell:
    tested, skipped = [], []
    for number, split in enumerate(bench.schedule.pairs[pair]):
        for fitted in fits.get((model, pair[0], number), []):
            reason = fitted.reason if len(split.test) else "no clip of this task is tested in it"
            if fitted.scores is None or not len(split.test):
                skipped.append({"fold": split.name, "reason": reason})
            else:
                leak = bench.leaks[pair][number]
                tested.append(_tested(bench, pair, split, fitted, fitted.scores, leak))
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
    bench: Bench, pair: Pair, split: Split, fitted: Fitted, scores: Scores, leak: Leak
) -> Tested:
    at = np.searchsorted(fitted.wanted, split.test)
    choose = np.searchsorted(fitted.wanted, split.validation)
    y = bench.labels[pair[1]][split.test] == 1
    chosen_y = bench.labels[pair[0]][split.validation] == 1
    return Tested(
        fold=split.name,
        seed=fitted.seed,
        rows=split.test,
        predictions=Predictions.of(y, scores.values[at], scores.threshold),
        n_train=len(split.train),
        n_validation=len(split.validation),
        leak=leak,
        are_probabilities=scores.are_probabilities,
        tuned=None if fitted.joined else tune(chosen_y, scores.values[choose]),
        facts=scores.chosen,
    )

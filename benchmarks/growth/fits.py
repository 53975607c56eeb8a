"""How the zoo's fits grow: with dimensions, folds, concepts, clips, models, and with workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.growth.costs import Cost, Growth
from benchmarks.timing import Comparison, Contestant, Settings, compare
from obygaze_features.core.errors import Corrupt
from obygaze_features.core.machine import Runs, this_machine, time_runs, usable_cores
from obygaze_models.models.bottleneck import Bottleneck
from obygaze_models.models.concepts import ConceptBank, cross_fitted_margins
from obygaze_models.models.heads import LogisticHead, TreeHead
from obygaze_models.models.linear import LogisticProbe, RidgeProbe
from obygaze_models.models.mlp import Job, MLPProbe, fit_many
from obygaze_models.protocols.runner.processes import map_parts

PACKAGES = ("numpy", "scikit-learn")
DIMENSIONS = (64, 256, 1024, 4096)
FOLDS = (5, 10, 20)
CONCEPTS = (8, 32, 128)
CLIPS = (250, 500, 1000, 2000)
MODELS = (4, 16, 64)
ROUNDS = 3
# Every fit takes the same number of epochs, so that only the work of an epoch grows.
PERCEPTRON = MLPProbe(min_epochs=3, max_epochs=3)
VECTORS = "concept vectors (CAV)"
BOTTLENECK = "bottleneck (PCBM)"
HEADS = ("its logistic head", "its tree")  # fitted to margins, not to features
Fits = Mapping[str, Callable[[], object]]


@dataclass(frozen=True)
class MadeUpClips:
    """Made-up clips: two classes and some concepts that the features depend on, and noise."""

    n_clips: int = 600
    width: int = 256
    n_concepts: int = 8
    n_folds: int = 5
    n_models: int = 4

    def features(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Features, classes, concepts and folds of the clips."""
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, self.n_clips)
        concepts = (
            rng.random((self.n_clips, self.n_concepts)) < 0.3 + 0.2 * y[:, None]
        ).astype(np.int64)
        X = rng.normal(size=(self.n_clips, self.width)).astype(np.float32)
        X[:, 0] += y
        mixed = rng.normal(size=(self.n_concepts, self.width)).astype(np.float32)
        X += (concepts @ mixed / np.sqrt(self.n_concepts)).astype(np.float32)
        return X, y, concepts, np.arange(self.n_clips) % self.n_folds

    def fits(self) -> Fits:
        """The zoo's fits on all clips; a perceptron is trained once for each fold."""
        X, y, concepts, _ = self.features()
        bank = ConceptBank(C="published")
        margins = bank.fit(X, concepts).transform(X)
        return {
            "perceptrons, one a fold": lambda: fit_many(X, self.jobs(), PERCEPTRON),
            "logistic probe": lambda: LogisticProbe().fit(X, y),
            "ridge probe, all strengths": lambda: RidgeProbe().fit(X, y),
            VECTORS: lambda: ConceptBank(C="published").fit(X, concepts),
            BOTTLENECK: lambda: Bottleneck(bank, LogisticHead()).fit(X, y, concepts),
            HEADS[0]: lambda: LogisticHead().fit(margins, y),
            HEADS[1]: lambda: TreeHead().fit(margins, y),
        }

    def fits_by_fold(self) -> Fits:
        """The same, trained without each fold in turn."""
        X, y, concepts, folds = self.features()
        bank = ConceptBank(C="published")
        crossed = Bottleneck(bank, LogisticHead(), cross_fit=self.n_folds)

        def probes() -> None:
            for fold in range(self.n_folds):
                LogisticProbe().fit(X[folds != fold], y[folds != fold])

        return {
            "perceptrons": lambda: fit_many(X, self.jobs(), PERCEPTRON),
            "logistic probes": probes,
            VECTORS: lambda: cross_fitted_margins(bank, X, concepts, folds),
            BOTTLENECK: lambda: crossed.fit(X, y, concepts),
        }

    def jobs(self) -> list[Job]:
        """A perceptron for each fold."""
        _, y, _, folds = self.features()
        rows = np.arange(self.n_clips)
        return [
            Job(rows[folds != fold], y, rows[folds == fold], seed=fold)
            for fold in range(self.n_folds)
        ]


def by_dimensions(settings: Settings) -> Growth:
    """Fits on features of more and more dimensions."""
    sets = {width: MadeUpClips(width=width) for width in _sizes(DIMENSIONS, settings)}

    def fits(made_up: MadeUpClips) -> Fits:
        return {name: fit for name, fit in made_up.fits().items() if name not in HEADS}

    return _growth("Dimensions of the features", "dimensions", sets, fits, settings)


def by_folds(settings: Settings) -> Growth:
    """Fits of more and more folds."""
    sets = {k: MadeUpClips(n_folds=k) for k in _sizes(FOLDS, settings)}
    return _growth("Folds", "folds", sets, MadeUpClips.fits_by_fold, settings)


def by_concepts(settings: Settings) -> Growth:
    """Fits with more and more concepts."""
    sets = {n: MadeUpClips(n_concepts=n) for n in _sizes(CONCEPTS, settings)}
    names = (VECTORS, BOTTLENECK, *HEADS)

    def fits(made_up: MadeUpClips) -> Fits:
        return {name: fit for name, fit in made_up.fits().items() if name in names}

    return _growth("Concepts", "concepts", sets, fits, settings)


def by_clips(settings: Settings) -> Growth:
    """Fits on more and more clips."""
    sets = {n: MadeUpClips(n_clips=n) for n in _sizes(CLIPS, settings)}
    return _growth("Clips to learn from", "clips", sets, MadeUpClips.fits, settings)


def by_models(settings: Settings) -> Growth:
    """More and more perceptrons in one call, each from a start of its own."""
    sets = {n: MadeUpClips(n_models=n) for n in _sizes(MODELS, settings)}

    def fits(made_up: MadeUpClips) -> Fits:
        X = made_up.features()[0]
        jobs = made_up.jobs()
        many = [replace(jobs[i % len(jobs)], seed=i) for i in range(made_up.n_models)]
        return {"perceptrons in one call": lambda: fit_many(X, many, PERCEPTRON)}

    return _growth("Models in one call", "models", sets, fits, settings)


def by_workers(settings: Settings) -> Comparison:
    """The fits of many folds, shared among processes; the same bits whatever their number."""
    made_up = MadeUpClips(n_folds=6 if settings.quick else 20)
    X = made_up.features()[0]
    jobs = made_up.jobs()
    perceptron = PERCEPTRON
    if not settings.quick:
        perceptron = replace(PERCEPTRON, min_epochs=10, max_epochs=10)
    work = [*jobs, *(replace(j, seed=j.seed + 100) for j in jobs)]
    layers_of: dict[int, list[bytes]] = {}

    def fit(n_jobs: int) -> None:
        fitted = map_parts(
            lambda part: fit_many(X, work[part : part + 1], perceptron),
            len(work),
            n_jobs,
        )
        layers = []
        for (fit_of_job,) in fitted:
            layers += [layer.tobytes() for layer in fit_of_job.layers_]
        layers_of[n_jobs] = layers

    names = {
        1: f"{len(work)} perceptrons, one process",
        2: f"{len(work)} perceptrons, two processes",
    }
    result = compare(
        "Workers of the zoo",
        [Contestant(name, partial(fit, n)) for n, name in names.items()],
        reference=names[1],
        rounds=settings.rounds_or(ROUNDS),
        packages=PACKAGES,
    )
    if layers_of[1] != layers_of[2]:
        raise Corrupt("perceptrons from two processes differ from those of one process")
    facts = {
        "two processes against one": f"{1 / result.ratio(names[2]):.2f} times as quick,"
        f" at best 2 on {usable_cores()} cores",
        "weights": "the same bits from one process and from two",
    }
    return replace(result, facts=facts)


def _sizes(sizes: Sequence[int], settings: Settings) -> tuple[int, ...]:
    return tuple(sizes[:2] if settings.quick else sizes)


def _growth(
    title: str,
    axis: str,
    sets: Mapping[int, MadeUpClips],
    fits: Callable[[MadeUpClips], Fits],
    settings: Settings,
) -> Growth:
    rounds = settings.rounds_or(ROUNDS)
    runs: dict[str, list[Runs]] = {}
    for made_up in sets.values():
        for name, work in fits(made_up).items():
            runs.setdefault(name, []).append(time_runs(work, rounds))
    costs = tuple(Cost(name, tuple(taken)) for name, taken in runs.items())
    base = MadeUpClips()
    sizes = f"{base.n_clips} clips, {base.width} dimensions, {base.n_concepts} concepts"
    facts = {"otherwise": f"{sizes}, {base.n_folds} folds, made up"}
    return Growth(title, axis, tuple(sets), costs, this_machine(PACKAGES), facts)

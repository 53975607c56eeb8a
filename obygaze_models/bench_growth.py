"""How the zoo's fits grow: with dimensions, folds, concepts, clips, models, and with workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.bench import BenchResult, Contestant, compare
from obygaze_features.core.bench_sizes import Cost, Growth, Runs, take_runs
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import Corrupt
from obygaze_features.core.machine import this_machine, usable_cores
from obygaze_models.models.bottleneck import Bottleneck
from obygaze_models.models.concepts import ConceptBank, cross_fitted_margins
from obygaze_models.models.heads import LogisticHead, TreeHead
from obygaze_models.models.linear import LogisticProbe, RidgeProbe
from obygaze_models.models.mlp_many import Job, MLPSettings, fit_many
from obygaze_models.protocols.runner.perceptrons import fit_all

PACKAGES = ("numpy", "scikit-learn")
DIMENSIONS = (64, 256, 1024, 4096)
FOLDS = (5, 10, 20)
CONCEPTS = (8, 32, 128)
CLIPS = (250, 500, 1000, 2000)
MODELS = (4, 16, 64)
ROUNDS, QUICK_ROUNDS = 3, 1
# As many epochs for every fit, so that what grows is the work and not the patience.
PERCEPTRON = MLPSettings(min_epochs=3, max_epochs=3)
VECTORS, BOTTLENECK = "concept vectors (CAV)", "bottleneck (PCBM)"
HEADS = ("its logistic head", "its tree")  # they see margins, whatever the features were
Fits = Mapping[str, Callable[[], object]]


@dataclass(frozen=True)
class World:
    """Made-up clips: two classes and some concepts that features tell of, in noise."""

    n_clips: int = 600
    width: int = 256
    n_concepts: int = 8
    n_folds: int = 5
    n_models: int = 4

    def features(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Features, classes, concepts and folds of the clips."""
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, self.n_clips)
        concepts = (rng.random((self.n_clips, self.n_concepts)) < 0.3 + 0.2 * y[:, None]).astype(
            np.int64
        )
        X = rng.normal(size=(self.n_clips, self.width)).astype(np.float32)
        X[:, 0] += y
        mixed = rng.normal(size=(self.n_concepts, self.width)).astype(np.float32)
        X += (concepts @ mixed / np.sqrt(self.n_concepts)).astype(np.float32)
        return X, y, concepts, np.arange(self.n_clips) % self.n_folds

    def fits(self) -> Fits:
        """The zoo's fits on all clips; a perceptron is trained once for each fold."""
        X, y, concepts, _ = self.features()
        bank = ConceptBank(C="paper")
        margins = bank.fit(X, concepts).transform(X)
        return {
            "perceptrons, one a fold": lambda: fit_many(X, self.jobs(), PERCEPTRON),
            "logistic probe": lambda: LogisticProbe().fit(X, y),
            "ridge probe, all strengths": lambda: RidgeProbe().fit(X, y),
            VECTORS: lambda: ConceptBank(C="paper").fit(X, concepts),
            BOTTLENECK: lambda: Bottleneck(bank, LogisticHead()).fit(X, y, concepts),
            HEADS[0]: lambda: LogisticHead().fit(margins, y),
            HEADS[1]: lambda: TreeHead().fit(margins, y),
        }

    def fits_by_fold(self) -> Fits:
        """The same, trained without each fold in turn."""
        X, y, concepts, folds = self.features()
        bank = ConceptBank(C="paper")
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


def by_dimensions(quick: bool = False, progress: Progress | None = None) -> Growth:
    """Fits on features of more and more dimensions."""
    worlds = {width: World(width=width) for width in _sizes(DIMENSIONS, quick)}

    def fits(world: World) -> Fits:
        return {name: fit for name, fit in world.fits().items() if name not in HEADS}

    return _growth("Dimensions of the features", "dimensions", worlds, fits, quick, progress)


def by_folds(quick: bool = False, progress: Progress | None = None) -> Growth:
    """Fits of more and more folds."""
    worlds = {k: World(n_folds=k) for k in _sizes(FOLDS, quick)}
    return _growth("Folds", "folds", worlds, World.fits_by_fold, quick, progress)


def by_concepts(quick: bool = False, progress: Progress | None = None) -> Growth:
    """Fits with more and more concepts."""
    worlds = {n: World(n_concepts=n) for n in _sizes(CONCEPTS, quick)}
    names = (VECTORS, BOTTLENECK, *HEADS)

    def fits(world: World) -> Fits:
        return {name: fit for name, fit in world.fits().items() if name in names}

    return _growth("Concepts", "concepts", worlds, fits, quick, progress)


def by_clips(quick: bool = False, progress: Progress | None = None) -> Growth:
    """Fits on more and more clips."""
    worlds = {n: World(n_clips=n) for n in _sizes(CLIPS, quick)}
    return _growth("Clips to learn from", "clips", worlds, World.fits, quick, progress)


def by_models(quick: bool = False, progress: Progress | None = None) -> Growth:
    """More and more perceptrons in one call, each from a start of its own."""
    worlds = {n: World(n_models=n) for n in _sizes(MODELS, quick)}

    def fits(world: World) -> Fits:
        X, jobs = world.features()[0], world.jobs()
        many = [replace(jobs[i % len(jobs)], seed=i) for i in range(world.n_models)]
        return {"perceptrons in one call": lambda: fit_many(X, many, PERCEPTRON)}

    return _growth("Models in one call", "models", worlds, fits, quick, progress)


def by_workers(quick: bool = False, progress: Progress | None = None) -> BenchResult:
    """The fits of many folds, shared among processes; the same bits whatever their number."""
    world = World(n_folds=6 if quick else 20)
    X, jobs = world.features()[0], world.jobs()
    settings = PERCEPTRON if quick else replace(PERCEPTRON, min_epochs=10, max_epochs=10)
    work = [(settings, job) for job in (*jobs, *(replace(j, seed=j.seed + 100) for j in jobs))]
    found: dict[int, list[bytes]] = {}

    def fit(n_jobs: int) -> None:
        done = fit_all(X, work, n_jobs)
        found[n_jobs] = [layer.tobytes() for one in done for layer in one.layers]

    names = {
        1: f"{len(work)} perceptrons, one process",
        2: f"{len(work)} perceptrons, two processes",
    }
    result = compare(
        "Workers of the zoo",
        [Contestant(name, partial(fit, n)) for n, name in names.items()],
        reference=names[1],
        rounds=QUICK_ROUNDS if quick else ROUNDS,
        packages=PACKAGES,
    )
    if found[1] != found[2]:
        raise Corrupt("two processes trained other perceptrons than one")
    facts = {
        "two processes against one": f"{1 / result.ratio(names[2]):.2f} times as quick,"
        f" at best 2 on {usable_cores()} cores",
        "weights": "the same bits from one process and from two",
    }
    return replace(result, facts=facts)


def _sizes(sizes: Sequence[int], quick: bool) -> tuple[int, ...]:
    return tuple(sizes[:2] if quick else sizes)


def _growth(
    title: str,
    axis: str,
    worlds: Mapping[int, World],
    fits: Callable[[World], Fits],
    quick: bool,
    progress: Progress | None,
) -> Growth:
    progress, rounds = progress or Quiet(), QUICK_ROUNDS if quick else ROUNDS
    runs: dict[str, list[Runs]] = {}
    for size, world in worlds.items():
        progress.say(f"{size:,} {axis}")
        for name, work in fits(world).items():
            runs.setdefault(name, []).append(take_runs(work, rounds))
    costs = tuple(Cost(name, tuple(taken)) for name, taken in runs.items())
    base = World()
    told = f"{base.n_clips} clips, {base.width} dimensions, {base.n_concepts} concepts"
    facts = {"otherwise": f"{told}, {base.n_folds} folds, made up"}
    return Growth(title, axis, tuple(worlds), costs, this_machine(PACKAGES), facts)

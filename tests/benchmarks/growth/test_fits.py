"""The fits whose costs are measured: what grows in each table, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.growth import fits
from benchmarks.growth.costs import counted
from benchmarks.growth.fits import BOTTLENECK, HEADS, VECTORS, MadeUpClips
from benchmarks.timing import Settings
from obygaze_features.core.errors import Corrupt

pytestmark = pytest.mark.check("benchmarks")


def test_clips_are_made_up_as_asked_and_tell_of_their_class() -> None:
    X, y, concepts, folds = MadeUpClips(
        n_clips=300, width=20, n_concepts=5, n_folds=3
    ).features()
    assert X.shape == (300, 20)
    assert concepts.shape == (300, 5)
    assert np.bincount(folds).tolist() == [100, 100, 100]
    assert np.corrcoef(X[:, 0], y)[0, 1] > 0.2
    assert 0.2 < concepts.mean() < 0.6


def test_a_perceptron_is_trained_without_each_fold() -> None:
    jobs = MadeUpClips(n_clips=60, n_folds=3).jobs()
    for number, job in enumerate(jobs):
        assert job.validation.tolist() == list(range(number, 60, 3))
        assert sorted([*job.train, *job.validation]) == list(range(60))


def test_every_fit_can_be_made() -> None:
    made_up = MadeUpClips(n_clips=80, width=6, n_concepts=2, n_folds=2)
    for works in (made_up.fits(), made_up.fits_by_fold()):
        for work in works.values():
            work()


@pytest.mark.parametrize(
    ("measure", "sizes", "names"),
    [
        ("by_dimensions", "DIMENSIONS", {VECTORS, BOTTLENECK, "logistic probe"}),
        ("by_folds", "FOLDS", {VECTORS, BOTTLENECK, "perceptrons"}),
        ("by_concepts", "CONCEPTS", {VECTORS, BOTTLENECK, *HEADS}),
        ("by_clips", "CLIPS", {VECTORS, "ridge probe, all strengths", *HEADS}),
        ("by_models", "MODELS", {"perceptrons in one call"}),
    ],
)
def test_each_table_has_its_sizes_and_costs(
    measure: str, sizes: str, names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One run of nothing, so that the tables are made in no time.
    monkeypatch.setattr(fits, "time_runs", lambda work, rounds: counted(0.5))
    growth = getattr(fits, measure)(Settings())
    assert growth.sizes == getattr(fits, sizes)
    assert names <= {cost.name for cost in growth.costs}
    assert {len(cost.runs) for cost in growth.costs} == {len(growth.sizes)}
    assert all(abs(growth.exponent(cost)) < 1e-12 for cost in growth.costs)


def test_two_processes_train_the_same_perceptrons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = fits.by_workers(Settings(quick=True))
    assert result.facts["weights"] == "the same bits from one process and from two"
    assert len(result.timings) == 2
    honest = fits.map_parts

    def lying(work, n_parts, n_jobs):
        done = list(honest(work, n_parts, n_jobs))
        return done[::-1] if n_jobs == 2 else done

    monkeypatch.setattr(fits, "map_parts", lying)
    with pytest.raises(Corrupt):
        fits.by_workers(Settings(quick=True))

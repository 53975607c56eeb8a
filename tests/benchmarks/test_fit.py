"""The timed fits: as many as in the paper, of the same size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fit
from obygaze_models.models.mlp import fit_many

# What its tests share is made once: they stay in one process.
pytestmark = [pytest.mark.check("benchmarks"), pytest.mark.xdist_group("bench fit")]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bench")
    fit.write_workspace(root)
    return root


def test_the_table_has_the_published_fits(workspace: Path) -> None:
    X, jobs = fit.fits_of(workspace)
    assert X.shape == (997, 512)
    assert len(jobs) == 90
    assert len({job.train.tobytes() for job in jobs}) == 45
    for job in jobs:
        assert not np.intersect1d(job.train, job.validation).size


@pytest.mark.parametrize("source", ["matrix", "loader"])
def test_the_loop_counts_its_fits(source: str, workspace: Path) -> None:
    pytest.importorskip("torch")
    fit.main(str(workspace), source, "89")
    costs = json.loads((workspace / f"{source}.json").read_text(encoding="utf-8"))
    assert costs["fits"] == 2
    assert costs["steps"] > 0 < costs["cpu_s"]


def test_the_loop_learns_what_ours_learns(workspace: Path) -> None:
    torch = pytest.importorskip("torch")
    X, jobs = fit.fits_of(workspace)
    epochs = fit.fit(torch, X, jobs[0], fit.rows_of_a_tensor(torch, X, jobs[0]))
    (ours,) = fit_many(X, [jobs[0]], fit.SETTINGS)
    # Patience 5: both end early, after other draws.
    assert 6 <= epochs < 100
    assert 6 <= ours.n_epochs < 100


@pytest.mark.parametrize("batches_of", [fit.rows_of_a_tensor, fit.loader])
def test_batches_are_the_rows_of_the_fit(batches_of, workspace: Path) -> None:
    torch = pytest.importorskip("torch")
    X, jobs = fit.fits_of(workspace)
    batches = [*batches_of(torch, X, jobs[0])()]
    assert {len(rows) for rows, _ in batches[:-1]} == {16}
    taken = np.concatenate([rows.numpy() for rows, _ in batches])
    assert sorted(taken[:, 0].tolist()) == sorted(X[jobs[0].train, 0].tolist())

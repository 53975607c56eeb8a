"""The timed fits: as many as in the paper, of the same size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fit
from obygaze_models.models.lessons import lessons_of

# What its tests share is made once: they stay in one process.
pytestmark = pytest.mark.check("benchmarks")


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


def test_the_loop_learns_what_ours_learns(workspace: Path) -> None:
    torch = pytest.importorskip("torch")
    X, jobs = fit.fits_of(workspace)
    epochs = fit.fit(torch, X, jobs[0])
    job = jobs[0]
    nothing = np.zeros((len(X), 0), dtype=np.int64)
    lessons = lessons_of(X, job.labels, [], nothing, None)
    lessons = replace(lessons, train=job.train, validation=job.validation)
    ours = replace(fit.SETTINGS, random_state=job.seed).learn(lessons)
    # Patience 5: both end early, after other draws.
    assert 6 <= epochs < 100
    assert 6 <= ours.n_epochs < 100

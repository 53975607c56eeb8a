"""The timed fits: as many as in the paper, of the same size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import fit

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

"""The work that the bench of the zoo times: as many fits, of the size, that the paper has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from obygaze_models import bench_work
from obygaze_models.bench import plain_loops
from obygaze_models.models.mlp_many import MLPSettings, fit_many


def test_the_tables_have_the_published_sizes() -> None:
    two, two_wide, four = bench_work.made_up_tables()
    for table, width in ((two, 512), (two_wide, 768)):
        assert table.X.shape == (744, width)
        assert len(table.jobs) == 16
        sizes = [len(job.train) for job in table.jobs]
        assert (min(sizes), max(sizes)) == (322, 459)
    assert len(four.jobs) == 90
    assert {len(job.train) for job in four.jobs} == {10 * 49}
    assert len({job.train.tobytes() for job in four.jobs}) == 45
    for job in (*two.jobs, *four.jobs):
        assert not np.intersect1d(job.train, job.validation).size


@pytest.mark.parametrize("source", ["memory", "files"])
def test_the_plain_loop_counts_its_steps(source: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "out.json"
    bench_work.main(["loop", "1000", source, "0", "1", str(out)])
    # One epoch of the first fit of each table: 322, 322 and 490 clips in batches of 16.
    assert json.loads(out.read_text())["steps"] == 21 + 21 + 31


def test_the_plain_loop_learns_what_ours_learns() -> None:
    torch = pytest.importorskip("torch")
    table = bench_work.made_up_tables()[0]
    job = table.jobs[0]
    epochs = bench_work._plain_fit(torch, table.X, job, None, 0, 100)
    (fit,) = fit_many(table.X, [job], MLPSettings(double_softmax=True, keep="last"))
    assert 6 <= epochs < 100  # patience 5: both end early, after other draws
    assert 6 <= fit.n_epochs < 100


def test_the_loop_is_timed_at_its_kindest_and_as_released() -> None:
    loops = plain_loops(16)
    assert [(loop.source, loop.workers) for loop in loops] == [
        *(("memory", 0), ("files", 0), ("files", 19)),
    ]

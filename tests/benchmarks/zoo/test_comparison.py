"""The timed work of the zoo: as many fits, of the same size, as in the paper."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.zoo import plain_loop
from benchmarks.zoo.comparison import _costs, plain_loops
from benchmarks.zoo.workspace import write_workspace
from obygaze_features.manifest.io import read_manifest
from obygaze_models.models.mlp import MLPProbe, fit_many

# What its tests share is made once: they stay in one process.
pytestmark = [pytest.mark.check("benchmarks"), pytest.mark.xdist_group("bench zoo")]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bench")
    write_workspace(root)
    return root


def test_the_clips_are_as_many_as_the_published(workspace: Path) -> None:
    manifest = read_manifest(workspace / "manifests" / "bench.toml")
    sizes = {
        name: sum(clip.fold(name) is not None for clip in manifest)
        for name in manifest.folds
    }
    assert sizes["02_EN_S"] == 744
    assert sizes["02_HN_S"] == 612
    assert sizes["02_ENHN_S"] == sizes["02_EN_HN_S"] == 1048
    assert sizes["by_movie_ENHN_S"] == 997


def test_the_tables_have_the_published_fits(workspace: Path) -> None:
    wide, narrow, four = plain_loop.tables(workspace)
    for table, width in ((wide, 768), (narrow, 512)):
        assert table.X.shape == (997, width)
        assert len(table.jobs) == 16
        sizes = [len(job.train) for job in table.jobs]
        assert 290 < min(sizes) < max(sizes) < 480  # published: 322 to 459
    assert len(four.jobs) == 90
    assert len({job.train.tobytes() for job in four.jobs}) == 45
    for job in (*wide.jobs, *four.jobs):
        assert not np.intersect1d(job.train, job.validation).size


@pytest.mark.parametrize("source", ["matrix", "memory", "files"])
def test_the_plain_loop_counts_its_steps(
    source: str, workspace: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "out.json"
    plain_loop.main([str(workspace), "1000", source, "0", "1", str(out)])
    # One epoch of the first fit of each table, in batches of 16.
    first = [len(table.jobs[0].train) for table in plain_loop.tables(workspace)]
    assert json.loads(out.read_text())["steps"] == sum(-(-n // 16) for n in first)


def test_the_plain_loop_learns_what_ours_learns(workspace: Path) -> None:
    torch = pytest.importorskip("torch")
    table = plain_loop.tables(workspace)[1]
    job = table.jobs[0]
    batches = plain_loop._of_matrix(torch, table.X, job)
    epochs = plain_loop._plain_fit(torch, table.X, job, batches, 100)
    (fit,) = fit_many(table.X, [job], MLPProbe(double_softmax=True, keep="last"))
    assert 6 <= epochs < 100  # patience 5: both end early, after other draws
    assert 6 <= fit.n_epochs < 100


def test_the_loop_of_a_careful_user_comes_first_and_trains_every_fit() -> None:
    loops = plain_loops()
    assert [(loop.source, loop.workers) for loop in loops] == [
        ("matrix", 0),
        ("memory", 0),
        ("files", 0),
        ("files", 19),
    ]
    assert [loop.every for loop in loops] == [1, 16, 16, 1000]


def test_what_is_extrapolated_is_said() -> None:
    whole, sampled, *_ = plain_loops()
    rounds = [{"fits": 4, "steps": 1000, "cpu_s": cpu_s} for cpu_s in (1.0, 2.0, 9.0)]
    assert _costs(whole, rounds, 50_000, 10.0) == (
        "ran 4 fits of 1,000 steps, 2,000 CPU us a step"
    )
    # The median round, 50,000 steps of 2 ms, beside 10 CPU s.
    assert _costs(sampled, rounds, 50_000, 10.0).endswith(
        "; all fits, extrapolated: 100 CPU s, 10 times"
    )


def test_rows_of_a_tensor_are_the_rows_of_the_fit(workspace: Path) -> None:
    torch = pytest.importorskip("torch")
    table = plain_loop.tables(workspace)[1]
    job = table.jobs[0]
    train, validation = plain_loop._of_matrix(torch, table.X, job)
    batches = [*train()]
    assert {len(rows) for rows, _ in batches[:-1]} == {16}
    taken = np.concatenate([rows.numpy() for rows, _ in batches])
    assert sorted(taken[:, 0].tolist()) == sorted(table.X[job.train, 0].tolist())
    ((rows, targets),) = validation()
    assert np.array_equal(rows.numpy(), table.X[job.validation])
    assert np.array_equal(targets.numpy().argmax(axis=1), job.labels[job.validation])

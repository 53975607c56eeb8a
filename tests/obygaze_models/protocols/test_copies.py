"""The same pictures under two names, and features that hold the label."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.experiments import films, quick, run_on, store_of
from threadpoolctl import threadpool_info, threadpool_limits

from obygaze_features.manifest.model import Manifest
from obygaze_models.runner import copies
from obygaze_models.runner.copies import deciding_column, find_copies, near_pairs
from obygaze_models.protocols.runner.features import COPY
from obygaze_models.runner.text import result_text

CHANGES = (
    *('grid.models=["ridge"]', 'grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]'),
    *("report.contrast=[]", "report.concepts=false", "report.compare=false"),
    'grid.baselines=["all_positive"]',
)


def noise(n: int, width: int = 24, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)


def doubled(manifest: Manifest) -> Manifest:
    """Every clip again, under the name of a second film."""
    again = [
        replace(clip, clip_id=f"x{clip.clip_id}", movie_id=f"x{clip.movie_id}")
        for clip in manifest
    ]
    return replace(manifest, clips=(*manifest.clips, *again))


@pytest.mark.parametrize("difference", [0.0, 0.02])
def test_copies_under_another_film_are_counted_warned_of_and_left_out(
    difference: float, tmp_path: Path
) -> None:
    manifest = films(4, 20, seed=2)
    twice = doubled(manifest)
    X = noise(len(manifest))
    copies = X + difference * noise(len(manifest), seed=1)
    store = store_of(tmp_path / "s", twice, np.concatenate([X, copies]))
    run = run_on(
        tmp_path, quick("honest", *CHANGES, replicates=20), twice, {"s": store}
    )
    (cell,) = run.cells
    # Each clip but those that are not sure is tested once, by a model of its copy.
    assert cell["leaked"] == cell["copies"] == cell["n_test"] > 0
    assert cell["leak_share"] == 1
    assert run.baselines[0]["leaked"] == 0
    (record,) = run.of("copies")
    assert len(record["groups"]) == len(manifest)
    n_equal, n_near = record["n_equal"], record["n_near"]
    assert (n_equal, n_near) == (
        (len(twice), 0) if difference == 0 else (0, len(twice))
    )
    (remark,) = [r for r in run.of("remark") if r["about"] == "copies"]
    assert f"{cell['n_test']} of the {cell['n_test']} test clips" in result_text(run)
    assert "data.copies=leave_out" in remark["text"]

    changes = (*CHANGES, "data.copies=leave_out")
    alone = run_on(
        tmp_path, quick("honest", *changes, replicates=20), twice, {"s": store}
    )
    (kept,) = alone.cells
    assert (kept["n_test"], kept["leaked"]) == (cell["n_test"] // 2, 0)
    assert not [r for r in alone.of("remark") if r["about"] == "copies"]
    (coverage,) = alone.of("coverage")
    assert coverage["reasons"] == {COPY: len(manifest)}
    # What is left is the run on the clips without their copies.
    folder = store_of(tmp_path / "once", manifest, X)
    once = run_on(
        tmp_path, quick("honest", *CHANGES, replicates=20), manifest, {"s": folder}
    )
    assert kept["auc"] == once.cells[0]["auc"]


@pytest.mark.parametrize(("width", "n"), [(2, 400), (24, 240), (768, 200)])
def test_noise_has_no_copies_in_any_dimension(width: int, n: int) -> None:
    films = np.repeat([f"f{i}" for i in range(10)], n // 10)
    found = [near_pairs(noise(n, width, seed), films) for seed in range(10)]
    assert found == [[]] * 10


def test_a_copy_is_found_among_clips_of_unequal_lengths_and_far_from_zero() -> None:
    X = noise(200, 16).astype(np.float64)
    X *= np.random.default_rng(3).uniform(0.2, 5, size=(200, 1))
    X[150] = X[7] + 0.01 * noise(1, 16)[0]
    films = np.repeat([f"f{i}" for i in range(10)], 20)
    assert near_pairs(X + 1000, films) == [(7, 150), (150, 7)]
    films[150] = films[7]  # neighbours of one film are alike
    assert near_pairs(X + 1000, films) == []


def test_distances_of_thousands_of_clips_take_little_memory() -> None:
    X = noise(4000, 8)
    X[3001] = X[7]
    films = np.repeat([f"f{i}" for i in range(10)], 400)
    tracemalloc.start()
    pairs = near_pairs(X, films)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pairs == [(7, 3001), (3001, 7)]
    assert peak < 100_000_000  # all distances take 128 million bytes


def test_distances_are_computed_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def near(*_: object) -> None:
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        threads.extend(pool["num_threads"] for pool in pools)

    monkeypatch.setattr(copies, "near_pairs", near)
    with threadpool_limits(2, "blas"):
        find_copies(
            noise(2), [b"a", b"b"], ["x", "y"], ["f", "f"], {"x": "x", "y": "y"}
        )
    assert set(threads) == {1}


def test_it_is_not_known_of_frames_and_of_few_clips() -> None:
    assert near_pairs(noise(20), np.array(["a", "b"] * 10)) is None
    assert near_pairs(noise(60).reshape(60, 4, 6), np.array(["a", "b"] * 30)) is None
    assert near_pairs(noise(60), np.array(["a"] * 60)) is None


def test_a_column_that_equals_the_label_is_warned_of(tmp_path: Path) -> None:
    manifest = films(4, 20, seed=2)
    X = noise(len(manifest))
    X[:, 5] = [clip.level == "S" for clip in manifest]
    store = store_of(tmp_path / "s", manifest, X)
    run = run_on(
        tmp_path, quick("honest", *CHANGES, replicates=20), manifest, {"s": store}
    )
    (remark,) = [r for r in run.of("remark") if r["about"] == "one number"]
    assert "ENHN_S (number 5)" in remark["text"]


def test_one_column_decides_only_where_chance_does_not() -> None:
    y = np.arange(60) < 20
    X = noise(60, 30)
    assert deciding_column(X, y) is None
    X[:, 11] = np.where(y, -0.1, 0.1) + 0.01 * X[:, 11]
    assert deciding_column(X, y) == 11
    # Of 3 clips and 3 others one column of 24 separates them with 2 chances in 20.
    few = np.arange(6) < 3
    assert (
        deciding_column(np.where(few, 1.0, 0.0)[:, None] + np.zeros((6, 24)), few)
        is None
    )
    assert deciding_column(X, np.ones(60, dtype=bool)) is None

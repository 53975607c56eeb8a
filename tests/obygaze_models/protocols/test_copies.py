"""The same pictures under two names."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.experiments import films, quick, run_on, store_of
from support.tables import baselines, models
from threadpoolctl import threadpool_info, threadpool_limits

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Manifest
from obygaze_models.runner import copies
from obygaze_models.runner.copies import find_copies, near_pairs
from obygaze_models.runner.summary import warnings_of
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
def test_copies_under_another_film_are_counted_and_warned_of(
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
    (cell,) = models(run)
    # Each clip but those that are not sure is tested once, by a model of its copy.
    assert cell.leaked == cell.facts["copies"] == cell.n_clips > 0
    assert baselines(run)[0].leaked == 0
    facts = run.about["stores"]["s"]
    n_equal, n_near = facts["n_equal_copies"], facts["n_near_copies"]
    expected = (len(twice), 0) if difference == 0 else (0, len(twice))
    assert (n_equal, n_near) == expected
    (said,) = [w.text for w in warnings_of(run) if w.about == "copies"]
    assert f"{cell.n_clips} of the {cell.n_clips} test clips" in said
    assert "data.copies=leave_out" in said
    assert said in result_text(run)


def test_copies_are_left_out_of_each_fold(tmp_path: Path) -> None:
    """Three clips of the second film have the features of clips of the first one."""
    manifest = films(5, 20, seed=2)
    X = noise(len(manifest))
    rows = [
        number
        for number, clip in enumerate(manifest)
        if clip.level in ("EN", "HN", "S") and clip.movie_id == "tt0000001"
    ]
    others = [
        number
        for number, clip in enumerate(manifest)
        if clip.level in ("EN", "HN", "S") and clip.movie_id == "tt0000002"
    ]
    first, second = rows[:3], others[:3]
    X[second] = X[first]
    store = store_of(tmp_path / "s", manifest, X)
    changes = (*CHANGES, "data.copies=leave_out")
    run = run_on(
        tmp_path, quick("honest", *changes, replicates=20), manifest, {"s": store}
    )
    (cell,) = models(run)
    assert cell.leaked == cell.facts["copies"] == 0
    tested = {row["clip_id"] for row in run.predictions if row["model"] == "ridge"}
    # Each is tested by a model of the film of its copy: neither is.
    assert not tested & {manifest.clips[row].clip_id for row in [*first, *second]}
    n_in_task = sum(clip.level in ("EN", "HN", "S") for clip in manifest)
    assert len(tested) == n_in_task - 6
    n_fitted = [fold["n_train"] + fold["n_validation"] for fold in cell.facts["folds"]]
    whole = {
        film: sum(c.level in ("EN", "HN", "S") for c in manifest if c.movie_id != film)
        for film in sorted(manifest.films)
    }
    # Where both films train, the first one's clips do.
    both_train = sorted(manifest.films)[2:]
    for film, n_train in zip(sorted(manifest.films), n_fitted, strict=True):
        assert n_train == whole[film] - (3 if film in both_train else 0)


def test_baselines_have_the_clips_that_each_store_leaves(tmp_path: Path) -> None:
    """They had those of the first store, and stood beside models of the second one."""
    manifest = films(5, 20, seed=2)
    X = noise(len(manifest))
    few = X.copy()
    in_task = [n for n, clip in enumerate(manifest) if clip.level in ("EN", "HN", "S")]
    few[in_task[-4:]] = few[in_task[:4]]
    stores = {
        "all": store_of(tmp_path / "all", manifest, X),
        "few": store_of(tmp_path / "few", manifest, few),
    }
    changes = (*CHANGES, "data.copies=leave_out")
    run = run_on(tmp_path, quick("honest", *changes, replicates=20), manifest, stores)
    n_clips = {cell.store: cell.n_clips for cell in models(run)}
    assert n_clips["few"] == n_clips["all"] - 8
    assert {(cell.store, cell.n_clips) for cell in baselines(run)} == {*n_clips.items()}
    with pytest.raises(FixInput, match="choose_store needs keep"):
        quick("honest", *changes, "fit.choose_store=true")


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

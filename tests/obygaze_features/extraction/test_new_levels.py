"""A run that asks for arrays that a sealed store does not have adds them as a version of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, call_obygaze
from support.extraction import film_folder, keep_manifest

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.extraction import recipes
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import (
    derive,
    diff_stores,
    open_store,
    store_log,
    verify,
    withdraw,
)
from obygaze_features.store.write.added_levels import add_levels

N_CLIPS = 6


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return film_folder(tmp_path_factory.mktemp("films"), N_CLIPS)


def run(workspace: Path, *options: str) -> Result:
    words = ("extract", "run", "films", "-b", "descriptors", *options)
    return call_obygaze("-C", workspace, *words)


def store_of(workspace: Path) -> Path:
    return workspace / "stores" / "films.descriptors"


@pytest.fixture
def pooled_only(films: Manifest, tmp_path: Path) -> Path:
    """A workspace with a sealed store of one level."""
    keep_manifest(films, tmp_path)
    run(tmp_path, "--arrays", "pooled").ok()
    return tmp_path


def test_levels_that_are_added_are_those_of_one_extraction(
    films, pooled_only, tmp_path
):
    path = store_of(pooled_only)
    sha256 = open_store(path).seal_sha256
    plan = call_obygaze(
        *("-C", pooled_only, "extract", "plan", "films", "-b", "descriptors"),
        *("--arrays", "frames,pooled", "--probe", "0"),
    ).ok()
    assert "does not have frames: a run extracts it into a new version" in plan.stdout
    done = run(pooled_only, "--arrays", "frames").ok()
    assert "films.descriptors@2: the array frames added for 6 clips" in done.stdout
    run(pooled_only, "--arrays", "clip").ok()

    at_once = tmp_path / "at-once"
    keep_manifest(films, at_once)
    run(at_once).ok()
    compared = diff_stores(path, store_of(at_once))
    assert str(compared) == f"the same: recipe, {N_CLIPS} clips, every number"
    assert not verify(path, hashes=True).problems
    newest, added, _ = store_log(path).versions
    assert newest.reason == "levels extracted later: clip"
    assert added.reason == "levels extracted later: frames"
    assert added.change_text.startswith("added: 1 level, made by obygaze ")
    first = open_store(path, version=1)
    assert first.seal_sha256 == sha256 and first.feature_arrays == ("pooled",)
    assert not (path / "versions" / "draft-levels").exists()


def test_the_same_command_again_has_nothing_to_do(pooled_only):
    run(pooled_only, "--arrays", "frames").ok()
    for options in (("--arrays", "frames"), (), ("--arrays", "pooled,frames")):
        again = run(pooled_only, *options).ok()
        assert "films.descriptors@" not in again.stdout
    assert open_store(store_of(pooled_only)).version == 2


def test_another_recipe_adds_no_level(pooled_only, monkeypatch):
    monkeypatch.setattr(recipes, "DECODER_RULE", 2)
    done = run(pooled_only, "--arrays", "frames")
    assert done.code == 5 and "decoder" in done.stderr
    assert "levels" not in done.stderr.splitlines()[0]
    assert open_store(store_of(pooled_only)).version == 1


def test_new_clips_get_the_levels_that_were_added(films, tmp_path):
    keep_manifest(films.with_clips(films.clips[:3]), tmp_path)
    run(tmp_path, "--arrays", "pooled").ok()
    keep_manifest(films, tmp_path)
    done = run(tmp_path, "--arrays", "frames").ok()
    assert "@2: the array frames added for 3 clips" in done.stdout
    assert "@3: 3 clips" in done.stdout
    store = open_store(store_of(tmp_path))
    assert np.isfinite(store.matrix("frames").values).all()
    assert store.n_clips == N_CLIPS


@pytest.mark.parametrize(
    "first", [["--no-seal"], ["--timeout", "0.0001"], ["--worker", "0/2"]]
)
def test_new_clips_wait_for_levels_that_are_not_there_yet(films, tmp_path, first):
    keep_manifest(films.with_clips(films.clips[:3]), tmp_path)
    run(tmp_path, "--arrays", "pooled", "--block-clips", "2").ok()
    keep_manifest(films, tmp_path)
    waiting = run(tmp_path, "--arrays", "frames", *first)
    store = open_store(store_of(tmp_path))
    if store.version == 1:
        assert waiting.code in (0, 1, 3), waiting.stderr
        assert "wait until it has the new levels: the same command" in waiting.stderr
    done = run(tmp_path, "--arrays", "frames", "--retry-failed").ok()
    assert done.code == 0
    store = open_store(store_of(tmp_path))
    assert store.version == 3 and store.n_clips == N_CLIPS
    assert np.isfinite(store.matrix("frames").values).all()
    assert not verify(store_of(tmp_path), hashes=True).problems


def test_levels_that_a_store_has_by_now_are_no_longer_extracted(pooled_only, tmp_path):
    run(pooled_only, "--arrays", "frames", "--no-seal").ok()
    draft = store_of(pooled_only) / "versions" / "draft-levels"
    assert draft.exists()
    add_levels(store_of(pooled_only), draft, reason="by hand")
    again = run(pooled_only, "--arrays", "frames").ok()
    assert "films.descriptors@" not in again.stdout and not draft.exists()


def test_a_derived_array_is_no_level_of_the_backbone(films, tmp_path):
    keep_manifest(films, tmp_path)
    run(tmp_path, "--arrays", "frames").ok()
    derive(store_of(tmp_path), array="frames", by="max", name="pooled")
    done = run(tmp_path, "--arrays", "pooled")
    assert done.code == 5
    assert "the array pooled of this store is the max of frames" in done.stderr


def test_a_store_without_features_gets_no_level(pooled_only):
    path = store_of(pooled_only)
    withdraw(path, clips=open_store(path).clip_ids.tolist(), reason="asked for")
    done = run(pooled_only, "--arrays", "frames")
    assert done.code != 0 and "no clip has features, so none gets frames" in done.stderr


def test_withdrawn_clips_get_no_level(pooled_only):
    path = store_of(pooled_only)
    gone = str(open_store(path).clip_ids[1])
    withdraw(path, clips=[gone], reason="asked for")
    run(pooled_only, "--arrays", "frames").ok()
    store = open_store(path)
    matrix = store.matrix("frames", missing="drop")
    assert len(matrix.clip_ids) == N_CLIPS - 1 and gone not in matrix.clip_ids
    stored = store.arrays.read(store.plan.array("frames"), np.array([1]))
    assert np.isnan(stored).all()


def test_clips_that_fail_now_keep_the_levels_out_until_they_are_retried(pooled_only):
    path = store_of(pooled_only)
    failed = run(pooled_only, "--arrays", "frames", "--timeout", "0.0001")
    assert failed.code != 0
    assert "with features failed now, so no level is added" in failed.stderr
    assert open_store(path).version == 1
    sealed = run(pooled_only, "--arrays", "frames", "--seal")
    assert sealed.code != 0 and open_store(path).version == 1
    other = run(pooled_only, "--arrays", "clip")
    assert other.code == 5 and "other arrays are being extracted" in other.stderr
    done = run(pooled_only, "--arrays", "frames", "--retry-failed").ok()
    assert "@2: the array frames added for 6 clips" in done.stdout
    assert not verify(path, hashes=True).problems


def test_rows_of_other_frames_are_no_levels_of_a_store(films, pooled_only, tmp_path):
    path = store_of(pooled_only)
    other = tmp_path / "other"
    keep_manifest(films.with_clips(films.clips[1:]), other)
    run(other, "--arrays", "frames").ok()
    with pytest.raises(FixInput, match=r"1 clip with features have none"):
        add_levels(path, store_of(other), reason="a level was wanted")


def test_features_of_other_videos_are_no_levels_of_a_store(
    films, pooled_only, tmp_path
):
    """Two clips change places: the same ids, recipe and number of frames."""
    path = store_of(pooled_only)
    other = tmp_path / "other"
    first, second, *more = films.clips
    swapped = [
        replace(first, video=second.video),
        replace(second, video=first.video),
        *more,
    ]
    keep_manifest(films.with_clips(swapped), other)
    run(other, "--arrays", "frames").ok()
    with pytest.raises(Mismatch, match=r"2 clips of the new levels have other frames"):
        add_levels(path, store_of(other), reason="a level was wanted")
    assert open_store(path).version == 1

"""A run on a manifest that has grown, or that retries clips, makes a version of a sealed store."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, call_obygaze
from support.extraction import film_folder, keep_manifest
from support.videos import write_video

from obygaze_features.core.errors import Mismatch
from obygaze_features.extraction import devices, extract, new_versions, recipes
from obygaze_features.extraction.planning import chosen_plan
from obygaze_features.extraction.status import status_of_plan
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import open_store, store_log, verify, withdraw

N_CLIPS = 9


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return film_folder(tmp_path_factory.mktemp("films"), N_CLIPS)


def run(workspace: Path, *options: str) -> Result:
    words = ("extract", "run", "films", "-b", "descriptors", *options)
    return call_obygaze("-C", workspace, *words)


def keep_some(films: Manifest, workspace: Path, clips: list[int]) -> None:
    keep_manifest(films.with_clips([films.clips[i] for i in clips]), workspace)


def fresh_values(
    films: Manifest, workspace: Path, clips: list[int]
) -> dict[str, np.ndarray]:
    """What an extraction into a new store has, by clip."""
    keep_some(films, workspace / "fresh", clips)
    run(workspace / "fresh").ok()
    store = open_store(workspace / "fresh" / "stores" / "films.descriptors")
    matrix = store.matrix("clip")
    return dict(zip(matrix.clip_ids.tolist(), matrix.values, strict=True))


def test_a_grown_manifest_makes_a_version_of_a_sealed_store(
    films, tmp_path, monkeypatch
):
    keep_some(films, tmp_path, [1, 2, 5, 6])
    run(tmp_path).ok()
    path = tmp_path / "stores" / "films.descriptors"
    first = open_store(path)
    sha256 = first.seal_sha256
    keep_manifest(films, tmp_path)
    done = run(tmp_path)
    assert done.code == 0, done.stderr
    assert "films.descriptors@2: 5 clips of 1 film added" in done.stdout
    store = open_store(path)
    # New clips are appended: the rows of the others stay.
    assert store.clip_ids.tolist()[:4] == first.clip_ids.tolist()
    values = fresh_values(films, tmp_path, list(range(N_CLIPS)))
    matrix = store.matrix("clip")
    for clip, row in zip(matrix.clip_ids.tolist(), matrix.values, strict=True):
        assert np.array_equal(row, values[clip]), clip
    assert open_store(path, version=1).seal_sha256 == sha256
    assert not verify(path, hashes=True).problems
    assert store_log(path).versions[0].reason == "clips added to the manifest films"
    # The same command again does nothing, and still compares the recipe.
    again = run(tmp_path).ok()
    assert "films.descriptors@" not in again.stdout and open_store(path).version == 2
    assert {entry.name for entry in (path / "versions").iterdir()} == {"files", "seals"}
    monkeypatch.setattr(recipes, "DECODER_RULE", 2)
    other = run(tmp_path)
    assert other.code == 5 and "decoder" in other.stderr


def test_another_recipe_is_an_error_that_names_what_differs(
    films, tmp_path, monkeypatch
):
    keep_some(films, tmp_path, [0, 1])
    run(tmp_path).ok()
    keep_manifest(films, tmp_path)
    monkeypatch.setattr(recipes, "DECODER_RULE", 2)
    done = run(tmp_path)
    assert done.code == 5
    assert "this store has another recipe: decoder" in done.stderr
    assert "choose another store name: --store descriptors=NAME" in done.stderr
    assert open_store(tmp_path / "stores" / "films.descriptors").version == 1


def test_withdrawn_clips_are_not_extracted_again(films, tmp_path):
    keep_some(films, tmp_path, [0, 1, 2, 3])
    run(tmp_path).ok()
    path = tmp_path / "stores" / "films.descriptors"
    withdraw(path, clips=["tt0-001"], reason="asked for")
    assert run(tmp_path).code == 0
    assert run(tmp_path, "--retry-failed").code == 0
    # The manifest may list it or not.
    keep_some(films, tmp_path, [0, 2, 3, 4])
    done = run(tmp_path)
    assert done.code == 0, done.stderr
    store = open_store(path)
    assert store.version == 3 and store.status().counts == {"ok": 4, "withdrawn": 1}
    assert "withdrawn  1" in run(tmp_path).stdout
    # A store of which all is withdrawn has nothing to extract, which is no failure.
    withdraw(path, films=store.movie_ids.tolist(), reason="all of it")
    done = run(tmp_path)
    assert done.code == 0, done.stderr
    assert open_store(path).status().counts["withdrawn"] == 5


def test_a_manifest_without_clips_of_the_store_is_refused(films, tmp_path):
    keep_some(films, tmp_path, [0, 1, 2])
    run(tmp_path).ok()
    keep_some(films, tmp_path, [0, 1, 5])
    done = run(tmp_path)
    assert done.code == 5 and "another state of the manifest" in done.stderr


def test_workers_share_the_rows_of_a_version(films, tmp_path):
    keep_some(films, tmp_path, [0, 1])
    run(tmp_path).ok()
    path = tmp_path / "stores" / "films.descriptors"
    keep_manifest(films, tmp_path)
    # It takes over what the other worker leaves.
    assert run(tmp_path, "--worker", "0/2").code == 0
    assert open_store(path).version == 2 and len(open_store(path)) == N_CLIPS
    assert run(tmp_path, "--worker", "1/2").code == 0
    assert open_store(path).version == 2


def test_a_worker_whose_rows_another_one_has_added_is_done(
    films, tmp_path, monkeypatch
):
    """The other one makes the version, and removes the rows, before this one commits a block."""
    from obygaze_features.extraction import devices

    keep_some(films, tmp_path, [0, 1])
    run(tmp_path).ok()
    path = tmp_path / "stores" / "films.descriptors"
    keep_manifest(films, tmp_path)
    extract_on_devices = devices.extract_on_devices

    def overtaken(*args, **options):
        monkeypatch.undo()
        run(tmp_path).ok()
        raise FileNotFoundError(f"{path}/versions/draft-clips/staging")

    monkeypatch.setattr(devices, "extract_on_devices", overtaken)
    done = run(tmp_path)
    assert devices.extract_on_devices is extract_on_devices
    assert done.code == 0, done.stderr
    assert open_store(path).version == 2 and len(open_store(path)) == N_CLIPS


def test_an_error_after_a_version_of_the_same_run_is_not_hidden(tmp_path, monkeypatch):
    """New clips become a version; then the failed ones cannot be extracted again."""
    from obygaze_features.extraction import devices

    whole = film_folder(tmp_path, 4, bad={1: b"broken"})
    keep_some(whole, tmp_path, [0, 1])
    assert run(tmp_path, "--seal").code == 3
    keep_manifest(whole, tmp_path)
    extract_on_devices = devices.extract_on_devices
    calls = []

    def fail_the_second(*args, **options):
        calls.append(args)
        if len(calls) == 2:
            raise Mismatch("the weights cannot be read")
        return extract_on_devices(*args, **options)

    monkeypatch.setattr(devices, "extract_on_devices", fail_the_second)
    done = run(tmp_path, "--retry-failed")
    assert open_store(tmp_path / "stores/films.descriptors").version == 2
    assert done.code == 5 and "the weights cannot be read" in done.stderr


def test_rows_of_another_state_of_the_manifest_are_not_mixed(films, tmp_path):

    keep_some(films, tmp_path, [0, 1])
    run(tmp_path).ok()
    path = tmp_path / "stores" / "films.descriptors"
    keep_some(films, tmp_path, [0, 1, 2, 3])
    assert run(tmp_path, "--no-seal").code == 0
    assert open_store(path).version == 1
    keep_manifest(films, tmp_path)
    done = run(tmp_path)
    assert done.code == 5 and "another state of the manifest" in done.stderr
    keep_some(films, tmp_path, [0, 1, 2, 3])
    assert "2 clips of 1 film added" in run(tmp_path).ok().stdout
    assert len(open_store(path)) == 4


def test_a_store_with_a_derived_array_is_extracted_into_as_before(films, tmp_path):
    from obygaze_features.store import derive

    keep_some(films, tmp_path, [0, 1, 2])
    run(tmp_path).ok()
    path = tmp_path / "stores" / "films.descriptors"
    several = [s.name for s in open_store(path).plan.arrays if len(s.tail_shape) > 1]
    derive(path, array=several[0])
    assert "films.descriptors@" not in run(tmp_path).ok().stdout
    keep_some(films, tmp_path, [0, 1, 2, 3])
    assert "films.descriptors@3: 1 clip of 1 film added" in run(tmp_path).ok().stdout
    store = open_store(path)
    vectors = store.matrix(several[0], clips=["tt0-003"]).values[0]
    mean = store.matrix(f"{several[0]}_mean", clips=["tt0-003"]).values[0]
    expected = vectors.astype(np.float64).mean(axis=0).astype(np.float32)
    assert np.array_equal(mean, expected)


def test_a_plan_counts_the_clips_that_a_sealed_store_lacks(films, tmp_path):
    keep_some(films, tmp_path, [0, 1, 2, 3, 4, 5])
    run(tmp_path, "--block-clips", "4").ok()
    keep_manifest(films, tmp_path)
    plan = ("-C", tmp_path, "extract", "plan", "films", "-b", "descriptors")
    words = (*plan, "-o", tmp_path / "plan.json", "--probe", "0")
    planned = call_obygaze(*words).ok()
    note = (
        "3 clips of the manifest are not in the sealed store films.descriptors:"
        " a run extracts them into a new version"
    )
    assert note in planned.stdout
    (store,) = call_obygaze(*plan, "--probe", "0", "--json").ok().json()["stores"]
    # Six clips in blocks of 4 are two blocks, and three new ones a third.
    assert (store["blocks"], store["blocks_done"], store["new_clips"]) == (3, 2, 3)
    assert store["share_of_new"] == pytest.approx(3 / 9)
    status = ("-C", tmp_path, "extract", "status", tmp_path / "plan.json")
    (before,) = call_obygaze(*status, "--json").ok().json()["stores"]
    assert (before["clips"], before["ok"], before["missing"]) == (9, 6, 3)
    assert (before["blocks"], before["blocks_done"]) == (3, 2)
    assert note in call_obygaze(*status).ok().stdout
    # The clips are extracted, and not a version of the store yet.
    run(tmp_path, "--no-seal")
    (begun,) = call_obygaze(*status, "--json").ok().json()["stores"]
    assert (begun["clips"], begun["ok"], begun["missing"]) == (9, 9, 0)
    assert begun["blocks_done"] == 3
    assert begun["seconds"]["decode"] > before["seconds"]["decode"]
    note = (
        "3 clips of the manifest are extracted, and not yet in the sealed store"
        " films.descriptors: a run adds them, with --seal also where some failed"
    )
    assert note in call_obygaze(*status).ok().stdout
    assert note in call_obygaze(*plan, "--probe", "0").ok().stdout
    run(tmp_path).ok()
    done = call_obygaze(*status).ok().stdout
    assert "not in the sealed store" not in done
    (store,) = call_obygaze(*plan, "--probe", "0", "--json").ok().json()["stores"]
    assert (store["new_clips"], store["share_of_new"]) == (0, 0)


def test_a_plan_tells_of_withdrawn_clips(films, tmp_path):
    keep_some(films, tmp_path, [0, 1, 2, 3])
    run(tmp_path).ok()
    path = tmp_path / "stores" / "films.descriptors"
    plan = ("-C", tmp_path, "extract", "plan", "films", "-b", "descriptors")
    words = (*plan, "--probe", "0")
    assert "withdrawn" not in call_obygaze(*words).ok().stdout
    withdraw(path, clips=["tt0-001"], reason="asked for")
    same = call_obygaze(*words).ok().stdout
    assert "1 clip withdrawn from films.descriptors stays withdrawn" in same
    other = call_obygaze(*words, "--store", "descriptors=again").ok().stdout
    assert (
        "1 clip (tt0-001) was withdrawn from films.descriptors, and would be extracted again"
        " into the new store again"
    ) in other
    # A run into a new store says so too; one into the store itself has nothing to say.
    again = run(tmp_path, "--store", "descriptors=again").ok()
    assert "1 clip (tt0-001) was withdrawn from films.descriptors" in again.stderr
    assert "was withdrawn" not in run(tmp_path).ok().stderr
    shutil.rmtree(tmp_path / "stores/again")
    keep_some(films, tmp_path, [0, 2, 3])
    without = call_obygaze(*words, "--store", "descriptors=again").ok().stdout
    assert "withdrawn" not in without


def test_the_joint_status_of_a_version_and_of_its_workers(tmp_path):
    """Rows of the plan are not those of a version: it was an IndexError."""
    whole = film_folder(tmp_path, N_CLIPS, bad={8: b"broken"})
    keep_some(whole, tmp_path, [0, 1])
    run(tmp_path, "--block-clips", "2").ok()
    keep_manifest(whole, tmp_path)
    plan = ("-C", tmp_path, "extract", "plan", "films", "-b", "descriptors")
    plan_file = tmp_path / "plan.json"
    call_obygaze(*plan, "-o", plan_file, "--probe", "0").ok()
    words = ("-C", tmp_path, "extract", "run", plan_file, "--json")
    # Seven new clips are 4 blocks: those of worker 1 are the second and the last, which failed.
    of_worker = {}
    for worker in ("0/2", "1/2", "8/9"):
        done = call_obygaze(*words, "--worker", worker)
        document = done.json()
        counts = [document[name] for name in ("clips", "ok", "failed", "missing")]
        of_worker[worker] = (done.code, counts)
    assert of_worker == {
        "0/2": (0, [4, 4, 0, 0]),
        "1/2": (3, [3, 2, 1, 0]),
        "8/9": (0, [0, 0, 0, 0]),
    }
    # With the store of another backbone, which has all clips.
    several = ("-b", "descriptors", "-b", "frames:xclip-b16-k600-zs", "--json")
    done = call_obygaze("-C", tmp_path, "extract", "run", "films", *several)
    document = done.json()
    counts = [document[name] for name in ("clips", "ok", "failed", "missing")]
    assert (done.code, counts) == (3, [9, 8, 1, 0])


def test_an_interrupt_says_what_is_kept_of_a_version(films, tmp_path, monkeypatch):
    """Rows of the plan are not those of the store: it was an IndexError in place of the stop."""
    keep_some(films, tmp_path, [0, 1])
    run(tmp_path, "--block-clips", "2").ok()
    keep_manifest(films, tmp_path)
    run(tmp_path, "--no-seal")

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(devices, "extract_on_devices", interrupt)
    # Seven new clips are 4 blocks: those of worker 1 are the second and the last.
    for worker, kept in (
        (None, "7 of 7 clips are kept"),
        ("1/2", "3 of 3 clips are kept"),
    ):
        with pytest.raises(KeyboardInterrupt) as stopped:
            extract("films", "descriptors", worker=worker, workspace=tmp_path)
        assert stopped.value.__notes__[0] == kept


def test_rows_of_a_stopped_version_are_extracted_again(tmp_path):
    """What was extracted for a version that was not made is retried, and may change again."""
    whole = film_folder(tmp_path, 3, bad={1: b"broken", 2: b"broken"})
    keep_manifest(whole, tmp_path)
    run(tmp_path, "--block-clips", "1", "--seal")
    run(tmp_path, "--retry-failed", "--no-seal")
    video = tmp_path / "videos/tt0/tt0-001.mp4"
    write_video(video, numbers=range(1, 19), size=(64, 48))
    assert "1 row replaced" in run(tmp_path, "--retry-failed").stdout
    store = tmp_path / "stores/films.descriptors"
    times_and_options = [
        (0.0, 0.4, ["--changed", "--no-seal"]),
        (0.2, 0.6, ["--changed"]),
    ]
    for start_s, end_s, options in times_and_options:
        moved = replace(whole.clips[0], start_s=start_s, end_s=end_s)
        keep_manifest(whole.with_clips([moved, *whole.clips[1:]]), tmp_path)
        done = run(tmp_path, *options)
        assert done.code == 3, done.stderr
    opened = open_store(store)
    source = opened.commits.source(0)
    assert (opened.version, source.start_s, source.end_s) == (3, 0.2, 0.6)


def test_a_version_that_another_worker_makes_at_the_end_is_no_error(
    films, tmp_path, monkeypatch
):
    """It removes the rows while this worker counts them."""
    keep_some(films, tmp_path, [0, 1])
    run(tmp_path).ok()
    keep_manifest(films, tmp_path)
    run(tmp_path, "--no-seal").ok()
    store_status = new_versions.store_status

    def overtaken(*arguments):
        monkeypatch.undo()
        run(tmp_path).ok()
        return store_status(*arguments)

    monkeypatch.setattr(new_versions, "store_status", overtaken)
    (state,) = extract("films", "descriptors", seal=False, workspace=tmp_path)
    assert (state.ok, state.sealed) == (N_CLIPS, True)


def test_rows_of_another_state_of_the_manifest_are_not_counted(films, tmp_path):
    """Of five clips in a plan of four, it said that -1 were missing."""
    keep_some(films, tmp_path, [0, 1])
    run(tmp_path).ok()
    keep_some(films, tmp_path, [0, 1, 2, 3, 4])
    run(tmp_path, "--no-seal").ok()
    counts = {}
    for n_clips in (3, 5, 6):
        keep_some(films, tmp_path, list(range(n_clips)))
        plan = chosen_plan("films", ["descriptors"], workspace=tmp_path)
        (state,) = status_of_plan(plan)
        counts[n_clips] = (state.clips, state.ok, state.missing, state.done)
    assert counts == {
        3: (3, 2, 1, False),
        5: (5, 5, 0, True),
        6: (6, 2, 4, False),
    }

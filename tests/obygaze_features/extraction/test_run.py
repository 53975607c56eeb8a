"""`obygaze extract plan`, `run` and `status`: what they say, and how they end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from support.cli import Result, call_obygaze, environment, obygaze_argv, run_obygaze
from support.extracted_stores import BROKEN, films_with_failures
from support.extraction import film_folder, keep_manifest
from support.videos import write_video

import obygaze as og
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import layout, open_store
from obygaze_features.store.filling import BlockWriter, Filling

N_CLIPS = 20
STORE = Path("stores", "films.descriptors")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return films_with_failures(tmp_path_factory.mktemp("films"), N_CLIPS)


@pytest.fixture
def world(films: Manifest, tmp_path: Path) -> Path:
    keep_manifest(films, tmp_path)
    return tmp_path


def extract(folder: Path, verb: str, *words: str) -> Result:
    return call_obygaze("-C", folder, "extract", verb, *words)


def run(folder: Path, *words: str) -> Result:
    return extract(folder, "run", "films", "-b", "descriptors", *words)


def unlinked(manifest: Manifest, *numbers: int) -> Manifest:
    clips = [replace(c, video="") if c.scene in numbers else c for c in manifest.clips]
    return manifest.with_clips(clips)


# --- What a run says ---


def test_hints_speak_of_what_happened_in_this_run(world: Path) -> None:
    first = run(world)
    assert f"tt0-00{BROKEN}: failed: " in first.stderr
    hint = (
        "2 clips failed: correct their files, or their times in the table, then the same"
        " command and --retry-failed"
    )
    assert hint in first.stderr
    link = "obygaze manifest link films FOLDER, or mount the folder"
    assert f"1 clip without a video: {link}" in first.stderr
    again = run(world)
    assert again.code == 3
    assert "correct their files" not in again.stderr
    assert "manifest link" not in again.stderr
    assert "2 clips failed before; --retry-failed tries again" in again.stderr
    assert "1 clip without a video" in again.stderr
    retried = run(world, "--retry-failed")
    assert hint in retried.stderr
    assert "manifest link" not in retried.stderr


def test_nothing_extracted_is_an_error(tmp_path: Path) -> None:
    keep_manifest(film_folder(tmp_path, 2, bad={0: b"bad", 1: b"bad"}), tmp_path)
    done = run(tmp_path)
    assert done.code == 1
    assert "no clip was extracted" in done.stderr
    again = run(tmp_path)
    assert again.code == 1
    assert "next:" not in again.stderr


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_row_without_features_has_the_corrected_times_of_its_clip(
    is_linked: bool, tmp_path: Path
) -> None:
    """It kept the old ones if it failed again, so that an experiment took it for another clip."""
    films = film_folder(tmp_path, 3)
    wrong = list(films.clips)
    wrong[1] = replace(wrong[1], start_s=3.0, end_s=4.0)
    (tmp_path / "videos" / wrong[1].video).unlink()
    if not is_linked:
        wrong[1] = replace(wrong[1], video="")
    right = list(wrong)
    right[1] = replace(wrong[1], start_s=5.0, end_s=6.0)
    keep_manifest(films.with_clips(wrong), tmp_path)
    run(tmp_path)
    keep_manifest(films.with_clips(right), tmp_path)
    assert "1 clip had no features, and other times" in run(tmp_path).stderr
    store = open_store(tmp_path / STORE)
    row = store.rows[1]
    assert (row.start_s, row.end_s, row.is_ok) == (5.0, 6.0, False)
    manifest = og.read_manifest(tmp_path / "manifests" / "films.toml")
    present, _ = store.presence(manifest)
    assert present.tolist() == [True, False, True]
    assert "other times" not in run(tmp_path).stderr


def test_clips_that_are_added_are_said_to_be_withdrawn_from_another_store(
    tmp_path: Path,
) -> None:
    films = film_folder(tmp_path, 3)
    keep_manifest(films, tmp_path)
    run(tmp_path)
    gone = films.clips[2].clip_id
    words = f"--without {gone} --reason request --author me"
    call_obygaze("-C", tmp_path, "store", "subset", STORE.name, *words.split()).ok()
    other = ("--store", "descriptors=other")
    keep_manifest(films.with_clips(films.clips[:2]), tmp_path)
    assert "withdrawn" not in run(tmp_path, *other).ok().stderr
    keep_manifest(films, tmp_path)
    added = run(tmp_path, *other).ok().stderr
    assert f"{gone} (1 clip) was withdrawn from films.descriptors" in added
    assert "this store has or gets their features" in added
    assert f"{gone} (1 clip) was withdrawn" in run(tmp_path, *other).ok().stderr


@pytest.mark.parametrize("seals_now", [False, True])
def test_a_resumed_run_names_all_of_its_clips_that_were_withdrawn_from_another_store(
    seals_now: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of them is in a block that was finished before."""
    films = film_folder(tmp_path, 6)
    keep_manifest(films, tmp_path)
    run(tmp_path, "--store", "descriptors=other").ok()
    monkeypatch.setattr(layout, "CLIPS_OF_A_BLOCK", 2)
    commit = BlockWriter.commit

    def interrupted(writer: BlockWriter) -> bool:
        if Filling.open(tmp_path / STORE).listed()[0]:
            raise KeyboardInterrupt
        return commit(writer)

    with monkeypatch.context() as patch:
        patch.setattr(BlockWriter, "commit", interrupted)
        assert "2 of 6 clips are kept" in run(tmp_path).stderr
    # A clip of each block: the order of the blocks is left to the run.
    gone = [films.clips[number].clip_id for number in (0, 2, 4)]
    words = f"--without {' --without '.join(gone)} --reason request --author me"
    call_obygaze("-C", tmp_path, "store", "subset", "other", *words.split()).ok()
    if seals_now:
        sealed = run(tmp_path, "--seal-now").stderr
        assert "(1 clip) was withdrawn from other" in sealed
        assert open_store(tmp_path / STORE).status().counts == {
            "ok": 2,
            "not-extracted": 4,
        }
        return
    resumed = run(tmp_path).ok().stderr
    assert f"{', '.join(gone)} (3 clips) were withdrawn from other" in resumed
    assert open_store(tmp_path / STORE).status().counts == {"ok": 6}


# --- Clips without a video ---


def test_a_run_before_the_link_is_refused_and_leaves_no_store(
    films: Manifest, tmp_path: Path
) -> None:
    keep_manifest(unlinked(films, *range(N_CLIPS)), tmp_path)
    done = run(tmp_path)
    assert done.code == 1
    assert "no clip of films has a video file" in done.stderr
    assert "obygaze manifest link films FOLDER" in done.stderr
    assert not (tmp_path / "stores").exists()


def test_the_same_command_extracts_clips_whose_video_came_later(
    tmp_path: Path,
) -> None:
    """Two clips are linked later, the file of another one is missing at first."""
    films = film_folder(tmp_path, 9)
    keep_manifest(unlinked(films, 2, 7), tmp_path)
    path = tmp_path / "videos" / films.clips[4].video
    path.rename(tmp_path / "away.mp4")
    done = run(tmp_path)
    assert done.code == 3
    assert "3 clips without a video: obygaze manifest link films FOLDER" in done.stderr
    status = open_store(tmp_path / STORE).status()
    assert status.counts == {"ok": 6, "no-video": 3}
    assert status.reasons[4].sentence == "no such file"
    assert status.reasons[2].sentence == "the manifest names no video"
    (tmp_path / "away.mp4").rename(path)
    keep_manifest(films, tmp_path)
    run(tmp_path).ok()
    run(tmp_path, "--store", "descriptors=undisturbed").ok()
    store = open_store(tmp_path / STORE)
    undisturbed = open_store(tmp_path / "stores" / "undisturbed")
    for array in ("clip", "frames", "time_s"):
        values = store.matrix(array).values
        assert values.tobytes() == undisturbed.matrix(array).values.tobytes()


# --- What cannot be run ---


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("-b", "nothing"), 1, "no backbone called"),
        ((), 2, "no backbone given"),
        (("-b", "descriptors", "--arrays", "clip,none"), 2, "no array none"),
        (("-b", "clip-b16", "--arrays", "clp"), 1, "no weights for clip-b16"),
        (("-b", "descriptors", "--store", "other=x"), 2, "names the backbone 'other'"),
        (("-b", "descriptors", "-b", "clip-b16", "--weights", "x"), 2, "NAME=VALUE"),
        (("-b", "descriptors", "-b", "descriptors"), 2, "a store of its own"),
        (
            ("-b", "descriptors", "--store", "descriptors=a.next"),
            1,
            "do not end with .next",
        ),
        (("-b", "descriptors", "--timeout", "0"), 2, "more than 0, got 0"),
        (("-b", "descriptors", "--timeout", "nan"), 2, "more than 0, got 'nan'"),
        (("-b", "descriptors", "--device", "cpu,cuda"), 2, "only GPUs or only cpu"),
        (("-b", "descriptors", "--device", "cudda"), 2, "unknown device 'cudda'"),
        (("-b", "descriptors", "--device", ","), 2, "--device names no device"),
        (("-b", "descriptors", "--seal-now"), 1, "blocks are missing"),
    ],
)
def test_invalid_options_leave_no_store(
    world: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    done = extract(world, "run", "films", *words)
    assert (done.code, message in done.stderr) == (code, True), done.stderr
    assert not list(world.glob("stores/*"))


def test_a_device_that_is_not_there_is_named(world: Path) -> None:
    words = ("run", "films", "-b", "descriptors", "--device", "cuda")
    # A process of its own: torch looks for devices once.
    done = run_obygaze("-C", world, "extract", *words, env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.code != 0
    assert "no CUDA device" in done.stderr
    assert not list(world.glob("stores/*"))


# --- The plan ---


def test_a_film_that_cannot_be_decoded_does_not_hide_the_seconds(
    tmp_path: Path,
) -> None:
    keep_manifest(film_folder(tmp_path, 3, bad={0: b"bad"}), tmp_path)
    planned = extract(tmp_path, "plan", "films", "-b", "descriptors")
    assert "decoding takes about" in planned.ok().stdout
    for path in (tmp_path / "videos").rglob("*.mp4"):
        path.write_bytes(b"bad")
    planned = extract(tmp_path, "plan", "films", "-b", "descriptors").ok()
    reason = "unreadable: the file is not a video, or its beginning is damaged"
    assert f"3 with video; no clip could be decoded ({reason})" in planned.stdout
    shutil.rmtree(tmp_path / "videos")
    planned = extract(tmp_path, "plan", "films", "-b", "descriptors").ok()
    assert "3 clips, 0 with video; no clip could be decoded" in planned.stdout


# --- Licence and citation ---


def licence_of(folder: Path) -> str:
    return og.store.info("films.descriptors", workspace=folder).to_json()["licence"]


def test_the_card_has_the_licence_of_the_option_else_of_the_manifest(
    films: Manifest, tmp_path: Path
) -> None:
    header = structs.replace(films.header, licence="CC-BY-4.0", citation="Doe 2020")
    few = replace(films, header=header).with_clips(films.clips[:3])
    keep_manifest(few, tmp_path)
    run(tmp_path)
    card = (tmp_path / STORE / "README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: cc-by-4.0\n")
    assert "16 frames of each clip were taken by the rule" in card
    assert "Doe 2020" in card
    assert licence_of(tmp_path) == "CC-BY-4.0"
    # What a person corrected in the card stays when clips are added.
    card = card.replace("license: cc-by-4.0", "license: cc0-1.0")
    (tmp_path / STORE / "README.md").write_text(card, "utf-8")
    keep_manifest(few.with_clips(films.clips[:4]), tmp_path)
    run(tmp_path)
    assert licence_of(tmp_path) == "CC0-1.0"
    card = (tmp_path / STORE / "README.md").read_text("utf-8")
    assert ", in 4 rows." in card
    keep_manifest(few.with_clips(films.clips[:5]), tmp_path)
    run(tmp_path, "--licence", "CC-BY-NC-4.0")
    assert licence_of(tmp_path) == "CC-BY-NC-4.0"
    unchanged = "nothing was added, so that its licence stays CC-BY-NC-4.0"
    assert unchanged in run(tmp_path, "--licence", "CC0-1.0").stderr
    assert unchanged not in run(tmp_path, "--licence", "cc-by-nc-4.0").stderr
    assert licence_of(tmp_path) == "CC-BY-NC-4.0"


# --- The status ---


def test_the_status_counts_blocks_while_a_store_is_filled(
    world: Path, films: Manifest
) -> None:
    """Also of a store that is changed: its rows count, and those that are still to compute."""
    keep_manifest(films.with_clips(films.clips[:4]), world)
    run(world)
    keep_manifest(films, world)

    def stop(row: int, failed: bool) -> None:
        signal.raise_signal(signal.SIGTERM)

    done = og.extract("films", "descriptors", workspace=world, watch=stop, workers=1)
    assert done.stop.signal_name == "SIGTERM"
    (state,) = extract(world, "status", "films", "--json").ok().json()["stores"]
    assert (state["clips"], state["sealed"], state["blocks"]) == (N_CLIPS, False, 2)
    assert state["blocks_done"] == 0
    assert (state["ok"], state["not_extracted"]) == (4, N_CLIPS - 4)
    text = extract(world, "status", "films.descriptors").ok().stdout
    assert "being filled, 0 of 2 blocks; 20 clips: 4 ok, 16 not-extracted" in text
    run(world)
    text = extract(world, "status", "films.descriptors").ok().stdout
    assert "sealed; 20 clips: 17 ok, 2 failed, 1 no-video" in text


def test_a_status_of_nothing_names_what_there_is(world: Path) -> None:
    run(world)
    done = extract(world, "status", "films.descriptor")
    assert done.code == 1
    assert "did you mean 'films.descriptors'?" in done.stderr
    (world / "manifests" / "empty.toml").write_bytes(b"")
    assert extract(world, "status", "empty").code == 1


def test_a_store_that_cannot_be_read_does_not_hide_others(world: Path) -> None:
    run(world)
    shutil.copytree(world / STORE, world / "stores" / "damaged")
    (world / "stores" / "damaged" / "store.json").write_bytes(b"{")
    done = extract(world, "status", "films").ok()
    assert "films.descriptors (descriptors): sealed" in done.stdout
    assert "damaged: it cannot be read, and is not counted" in done.stderr


def test_the_root_of_the_disk_is_no_store(tmp_path: Path) -> None:
    done = extract(tmp_path, "status", "/")
    assert done.code == 1
    assert "no store here" in done.stderr


def test_the_status_needs_no_engine(world: Path) -> None:
    run(world)
    program = (
        "import sys; import obygaze as og\n"
        f"print(og.extraction.status(['films'], workspace={str(world)!r}))\n"
        "print({'torch', 'av', 'transformers'} & sys.modules.keys())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "sealed" in done.stdout
    assert done.stdout.endswith("set()\n")


# --- Signals ---


@pytest.mark.check("kills an extraction")
def test_a_signal_to_every_process_of_a_job_fails_no_clip(tmp_path: Path) -> None:
    """As Slurm sends it: the decoders get it too, while they decode."""
    manifest = film_folder(tmp_path, 1)
    slow = {"preset": "ultrafast", "g": "300", "bf": "0"}
    path = Path(manifest.header.video_root) / manifest.clips[0].video
    write_video(path, numbers=range(60), size=(1280, 720), options=slow)
    (first,) = manifest.clips
    clips = [replace(first, clip_id=f"tt0-{n:03d}", scene=n) for n in range(48)]
    keep_manifest(manifest.with_clips(clips), tmp_path)
    words = ("-C", tmp_path, "extract", "run", "films", "-b", "descriptors")
    blocks = tmp_path / f"{STORE}.next" / "blocks"
    with subprocess.Popen(
        obygaze_argv(*words, "--workers", "2"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
    ) as job:
        for _ in range(6000):
            if list(blocks.glob("0*")) or job.poll() is not None:
                break
            time.sleep(0.01)
        os.killpg(job.pid, signal.SIGUSR1)
        _, message = job.communicate(timeout=60)
    assert job.returncode == 75, message
    assert b"stopped by SIGUSR1: " in message
    run(tmp_path).ok()
    store = open_store(tmp_path / STORE)
    assert store.status().counts == {"ok": 48}
    values = store.matrix("clip").values
    np.testing.assert_array_equal(values, np.repeat(values[:1], 48, axis=0))


def test_a_notebook_gets_the_interrupt_with_what_is_kept(world: Path) -> None:
    n_rows = 0

    def interrupt_twice(row: int, failed: bool) -> None:
        nonlocal n_rows
        n_rows += 1
        if n_rows == 3:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        og.extract(
            "films", "descriptors", workspace=world, watch=interrupt_twice, workers=1
        )
    kept, what_next = caught.value.__notes__
    assert kept == "0 of 20 clips are kept"
    assert what_next == "run the same command again to resume"
    assert run(world).code == 3
    assert len(open_store(world / STORE)) == N_CLIPS

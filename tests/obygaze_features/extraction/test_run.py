"""`obygaze extract plan`, `run` and `status`: what they say, and how they end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from support.cli import Result, call_obygaze, environment, obygaze_argv
from support.extracted_stores import films_with_failures
from support.extraction import film_folder, keep_manifest
from support.videos import write_video

import obygaze as og
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import open_store

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
        ((), 2, "no backbone given"),
        (("-b", "descriptors", "--arrays", "clip,none"), 2, "no array none"),
        (("-b", "descriptors", "--store", "other=x"), 2, "names the backbone 'other'"),
        (("-b", "descriptors", "-b", "descriptors"), 2, "a store of its own"),
        (
            ("-b", "descriptors", "--store", "descriptors=a.next"),
            1,
            "do not end with .next",
        ),
        (("-b", "descriptors", "--seal-now"), 1, "blocks are missing"),
    ],
)
def test_invalid_options_leave_no_store(
    world: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    done = extract(world, "run", "films", *words)
    assert (done.code, message in done.stderr) == (code, True), done.stderr
    assert not list(world.glob("stores/*"))


# --- The plan ---


def test_a_film_that_cannot_be_decoded_does_not_hide_the_seconds(
    tmp_path: Path,
) -> None:
    keep_manifest(film_folder(tmp_path, 3, bad={0: b"bad"}), tmp_path)
    planned = extract(tmp_path, "plan", "films", "-b", "descriptors")
    assert "decoding takes about" in planned.ok().stdout
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
    # The root of the disk has no name.
    assert "no store here" in extract(world, "status", "/").stderr


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

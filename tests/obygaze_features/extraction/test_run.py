"""`obygaze extract run` with real videos, processes, signals, kills and invalid files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze, environment, obygaze_argv, run_obygaze
from support.extraction import (
    a_plan,
    array_bytes,
    film_folder,
    keep_manifest,
    plan_file,
)
from support.videos import write_video

from obygaze_features.extraction import recipes
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import open_store

N_CLIPS = 23


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Films of which two clips cannot be read and one has no video."""
    folder = tmp_path_factory.mktemp("films")
    manifest = film_folder(folder, N_CLIPS, bad={5: b"this is not a video", 6: b""})
    clips = list(manifest.clips)
    clips[9] = type(clips[9])(clips[9].clip_id, clips[9].movie_id, 9, "", level="S")
    return manifest.with_clips(clips)


@pytest.fixture
def world(films: Manifest, tmp_path: Path) -> Path:
    keep_manifest(films, tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def undisturbed(
    films: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    plan = plan_file(a_plan(films, folder, "descriptors"), folder / "plan.json")
    assert call_obygaze("extract", "run", plan, "--workers", "1").code == 3
    return array_bytes(folder / "stores" / "descriptors")


def test_a_run_reports_its_counts(world: Path) -> None:
    done = call_obygaze(
        "-C", world, "extract", "run", "films", "-b", "descriptors", "--json"
    )
    assert done.code == 3
    document = done.json()
    assert (document["clips"], document["ok"], document["failed"]) == (N_CLIPS, 20, 2)
    assert document["missing"] == 1
    (location,) = document["store"]
    assert location.endswith("films.descriptors")
    assert document["failures"].keys() == {"tt0-005", "tt0-006"}
    assert {"wait", "decode", "forward"} <= document["seconds"].keys()
    store = open_store(location)
    assert not store.sealed
    assert store.status().status_of_row[9].state == "no-video"


def test_the_same_bytes_from_four_decoders(
    films: Manifest, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    call_obygaze("extract", "run", plan, "--workers", "4", "--batch", "1")
    assert array_bytes(tmp_path / "stores" / "descriptors") == undisturbed


def test_the_same_bytes_from_workers_that_share_the_units(
    films: Manifest, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    argv = [
        obygaze_argv("extract", "run", plan, "--worker", f"{i}/2") for i in range(2)
    ]
    workers = [
        subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL)
        for words in argv
    ]
    # The clips that fail, 5 and 6, are in unit 1; units 0, 2 and 4 are those of worker 0.
    assert [worker.wait(timeout=120) for worker in workers] == [0, 3]
    assert array_bytes(tmp_path / "stores" / "descriptors") == undisturbed


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_worker_reports_its_own_clips(
    films: Manifest, tmp_path: Path, order: tuple[int, int]
) -> None:
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    done = {
        i: call_obygaze("extract", "run", plan, "--worker", f"{i}/2", "--json")
        for i in order
    }
    assert {i: result.code for i, result in done.items()} == {0: 0, 1: 3}
    counts = ("worker", "clips", "ok", "failed", "missing", "blocks", "blocks_done")
    reported = {
        i: tuple(result.json()[key] for key in counts) for i, result in done.items()
    }
    # Blocks of four of 23 clips: 0, 2, 4 are 12 clips with the one that has no video, 1, 3, 5 are
    # 11 with the two that fail.
    assert reported == {0: ("0/2", 12, 11, 0, 1, 3, 3), 1: ("1/2", 11, 9, 2, 0, 3, 3)}
    assert done[0].json()["failures"] == {}
    assert done[0].json()["seconds"]["forward"] > 0
    again = call_obygaze("extract", "run", plan, "--worker", "0/2")
    assert again.code == 0 and "worker 0/2 only" in again.stderr
    assert "tt0-005" not in again.stderr
    status = call_obygaze(
        "extract", "status", tmp_path / "stores" / "descriptors", "--json"
    )
    assert status.json()["stores"][0]["failed"] == 2


def test_a_worker_without_blocks_has_nothing_to_do(
    films: Manifest, tmp_path: Path
) -> None:
    # Six blocks for eight workers.
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    done = call_obygaze("extract", "run", plan, "--worker", "7/8")
    assert (
        done.code,
        "worker 7/8 has no clips: the plan has 6 units" in done.stderr,
    ) == (0, True)
    document = (
        call_obygaze("extract", "run", plan, "--worker", "6/8", "--json").ok().json()
    )
    assert (document["worker"], document["clips"], document["stores"]) == ("6/8", 0, [])


def test_the_document_of_a_run_has_one_form(films: Manifest, tmp_path: Path) -> None:
    keys = []
    for names in (("descriptors",), ("descriptors", "frames:descriptors")):
        plan = plan_file(
            a_plan(films, tmp_path, *names), tmp_path / f"{len(names)}.json"
        )
        words = ("extract", "run", plan, "--worker", "0/6", "--json")
        document = call_obygaze(*words).ok().json()
        keys.append({key: type(value) for key, value in document.items()})
        assert [Path(store).name for store in document["store"]] == list(names)
        assert len(document["stores"]) == len(names)
        counts = ("clips", "ok", "failed", "missing", "blocks")
        assert [document[key] for key in counts] == [4, 4, 0, 0, len(names)]
    assert keys[0] == keys[1]


def _start(plan: Path, *more: str) -> subprocess.Popen[bytes]:
    words = obygaze_argv("-q", "extract", "run", plan, *more)
    return subprocess.Popen(
        words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def _n_blocks(store: Path) -> int:
    return len(list((store / "commits").glob("block-*.json"))) if store.exists() else 0


def _wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("waited in vain")


@pytest.mark.check("kills an extraction")
@pytest.mark.parametrize("name", ["SIGUSR1"])
def test_a_signal_to_every_process_of_a_job_fails_no_clip(
    tmp_path: Path, name: str
) -> None:
    """As Slurm sends it: the decoders get it too, while they decode."""
    manifest = film_folder(tmp_path, 1)
    slow = {"preset": "ultrafast", "g": "300", "bf": "0"}
    path = Path(manifest.header.video_root) / manifest.clips[0].video
    write_video(path, numbers=range(60), size=(1280, 720), options=slow)
    (first,) = manifest.clips
    clips = [replace(first, clip_id=f"tt0-{n:03d}", scene=n) for n in range(12)]
    plan = plan_file(
        a_plan(manifest.with_clips(clips), tmp_path, "descriptors"),
        tmp_path / "plan.json",
    )
    argv = obygaze_argv("extract", "run", plan, "--workers", "2", "--json")
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, env=environment(), start_new_session=True
    ) as run:
        _wait_for(lambda: _n_blocks(tmp_path / "stores" / "descriptors") > 0)
        os.killpg(run.pid, getattr(signal, name))
        message, _ = run.communicate(timeout=60)
    document = json.loads(message)
    assert document["failed"] == 0
    assert run.returncode == (130 if name == "SIGINT" else 75) or document["ok"] == 12


@pytest.mark.check("kills an extraction")
@pytest.mark.parametrize(
    ("name", "code"),
    [("SIGTERM", 75), ("SIGUSR2", 75)],
)
def test_a_signal_keeps_committed_blocks(
    films: Manifest, tmp_path: Path, name: str, code: int
) -> None:
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    store = tmp_path / "stores" / "descriptors"
    run = _start(plan, "--workers", "1")
    _wait_for(lambda: _n_blocks(store) > 0)
    run.send_signal(getattr(signal, name))
    _, message = run.communicate(timeout=60)
    if run.returncode != 3:  # it may just have ended
        assert run.returncode == code, message
        assert f"stopped by {name}" in message.decode()
        assert b"the same command again" in message
    call_obygaze("extract", "run", plan)
    assert _n_blocks(store) == 6


def test_a_signal_during_the_start_is_not_lost(films: Manifest, tmp_path: Path) -> None:
    """Handlers are installed before slow imports."""
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    code = (
        "import os, signal, sys\n"
        "from obygaze_features.extraction import shared_machine\n"
        "caught = shared_machine.stop_on_signals\n"
        "def at_once(note):\n"
        "    manager = caught(note)\n"
        "    flag = manager.__enter__()\n"
        "    assert 'obygaze_features.extraction.run' not in sys.modules\n"
        "    heavy = {'av', 'torch', 'zarr', 'numpy'}.intersection(sys.modules)\n"
        "    assert not heavy, heavy\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    import contextlib\n"
        "    @contextlib.contextmanager\n"
        "    def again():\n"
        "        yield flag\n"
        "    return again()\n"
        "import obygaze_features.extraction.extracting as commands\n"
        "commands.stop_on_signals = at_once\n"
        "from obygaze import cli\n"
        f"cli.main(['extract', 'run', {str(plan)!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, timeout=60
    )
    assert done.returncode == 75, done.stderr


def test_retry_extracts_failed_rows_only(films: Manifest, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    manifest = film_folder(folder, 9, bad={4: b"broken"})
    keep_manifest(manifest, tmp_path)
    command = ("-C", tmp_path, "extract", "run", "films", "-b", "descriptors", "--json")
    assert call_obygaze(*command).code == 3
    store = tmp_path / "stores" / "films.descriptors"
    before = open_store(store).matrix("clip", missing="nan").values
    write_video(
        folder / "videos" / "tt0/tt0-004.mp4", numbers=range(4, 22), size=(64, 48)
    )
    assert call_obygaze(*command).code == 3, (
        "running again does not touch committed rows"
    )
    done = call_obygaze(
        "-C", tmp_path, "extract", "run", *command[4:], "--retry-failed"
    )
    assert (done.code, done.json()["ok"], done.json()["sealed"]) == (0, 9, True)
    after = open_store(store).matrix("clip").values
    np.testing.assert_array_equal(np.delete(after, 4, 0), np.delete(before, 4, 0))


def test_a_retry_that_fails_again_makes_no_version_of_a_sealed_store(
    world: Path,
) -> None:
    words = ("films", "-b", "descriptors")
    assert call_obygaze("-C", world, "extract", "run", *words, "--seal").code == 3
    done = call_obygaze("-C", world, "extract", "run", *words, "--retry-failed")
    assert done.code == 3, done.stderr
    assert "no row is new or other than before; no new version" in done.stdout
    assert open_store(world / "stores" / "films.descriptors").version == 1


def test_status_needs_no_engine(world: Path) -> None:
    call_obygaze("-C", world, "extract", "run", "films", "-b", "descriptors")
    done = call_obygaze("-C", world, "extract", "status", "films.descriptors", "--json")
    (state,) = done.json()["stores"]
    assert (state["blocks"], state["blocks_done"]) == (1, 1)
    assert sum(state["reasons"].values()) == 2
    assert all(reason.startswith("open: ") for reason in state["reasons"])
    assert "of the time" in state["who_waits"]


def test_a_plan_reports_what_is_missing(world: Path) -> None:
    done = call_obygaze(
        "-C", world, "extract", "plan", "films", "-b", "descriptors", "--json"
    )
    plan = done.ok().json()
    assert (plan["clips"], plan["with_video"]) == (N_CLIPS, N_CLIPS - 1)
    assert plan["stores"][0]["blocks"] == 1
    # clip 128 and pooled 64 in float32, 16 frames of 64 in float16, 16 times twice in float64.
    assert plan["stores"][0]["n_bytes"] == N_CLIPS * (192 * 4 + 1024 * 2 + 32 * 8)
    assert any("no video" in text for text in plan["obstacles"])
    done = call_obygaze(
        "-C", world, "extract", "plan", "films", "-b", "clip-b16", "--json"
    )
    assert any("not cached" in text for text in done.json()["obstacles"])


def test_a_plan_of_complete_stores_needs_nothing(tmp_path: Path) -> None:
    manifest = film_folder(tmp_path / "own", 3)
    keep_manifest(manifest, tmp_path)
    call_obygaze("-C", tmp_path, "extract", "run", "films", "-b", "descriptors").ok()
    words = ("-C", tmp_path, "extract", "plan", "films", "-b", "descriptors", "--json")
    plan = call_obygaze(*words).ok().json()
    # The seal has replaced the markers.
    assert (plan["stores"][0]["blocks"], plan["stores"][0]["blocks_done"]) == (1, 1)
    assert plan["decode_hours"] == 0
    assert plan["obstacles"] == []


def test_a_file_that_ffmpeg_hangs_on_does_not_hang_the_plan(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obygaze_features.extraction.estimate import estimate
    from obygaze_features.extraction.run import Resources

    plan = replace(a_plan(films, tmp_path, "descriptors"), timeout_s=1e-6)
    found = estimate(plan, [Resources()], n_probed=1)
    assert found.decode_s is None
    assert list(found.unreadable.values()) == ["not decoded within 1e-06 s"]


def test_a_plans_file_is_not_changed_by_options(
    films: Manifest, tmp_path: Path
) -> None:
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    for words in (
        ("--dtype", "bfloat16"),
        ("--arrays", "clip"),
        ("-b", "descriptors"),
        ("--licence", "MIT"),
    ):
        done = call_obygaze("extract", "run", plan, *words)
        assert done.code == 2 and words[0] in done.stderr
    assert not (tmp_path / "stores").exists()
    words = ("extract", "plan", plan, "--probe", "1", "--timeout", "0.000001", "--json")
    assert "not decoded within 1e-06 s" in str(
        call_obygaze(*words).ok().json()["unreadable"]
    )


def test_parts_of_one_film_file(tmp_path: Path) -> None:
    """Clips cut from a film by time see the film's own frames, without any file in between."""
    path = tmp_path / "films" / "tt7.mp4"
    path.parent.mkdir()
    write_video(path, numbers=range(250), size=(64, 48))
    table = tmp_path / "clips.csv"
    table.write_text(
        "clip_id,movie_id,start_s,end_s\ntt7-001,tt7,0,2\ntt7-002,tt7,4,8\n", "utf-8"
    )
    call_obygaze("-C", tmp_path, "manifest", "import", "csv", table, "-o", "films").ok()
    call_obygaze("-C", tmp_path, "manifest", "link", "films", path.parent).ok()
    call_obygaze("-C", tmp_path, "extract", "run", "films", "-b", "descriptors").ok()
    times = (
        open_store(tmp_path / "stores" / "films.descriptors").matrix("time_s").values
    )
    np.testing.assert_allclose(times[0], np.arange(16) * 50 // 16 / 25)
    np.testing.assert_allclose(times[1], (100 + np.arange(16) * 100 // 16) / 25)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("plan", "films", "-b", "clip-b16", "--arrays", "clp"),
            "(did you mean 'clip'?)",
        ),
        (
            ("run", "films", "-b", "clip-b16", "--weights", "none"),
            "no weights for clip-b16",
        ),
    ],
)
def test_a_command_says_what_cannot_be_run(
    world: Path, words: tuple[str, ...], told: str
) -> None:
    done = call_obygaze("-C", world, "extract", *words)
    assert done.code != 0
    assert told in done.stderr
    assert not list((world / "stores").glob("*"))


def test_a_device_that_is_not_there_is_named(world: Path) -> None:
    words = ("run", "films", "-b", "descriptors", "--device", "cuda")
    # A process of its own: torch looks for devices once.
    done = run_obygaze("-C", world, "extract", *words, env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.code != 0
    assert "no CUDA device" in done.stderr
    assert not list((world / "stores").glob("*"))


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("-b", "nothing"), 1, "no backbone called"),
        ((), 2, "no backbone given"),
        (("-b", "descriptors", "--arrays", "clip,none"), 2, "no array none"),
        (("-b", "descriptors", "--store", "other=x"), 2, "other"),
        (("-b", "descriptors", "-b", "clip-b16", "--weights", "x"), 2, "NAME=VALUE"),
        (("-b", "descriptors", "--worker", "3"), 2, "0/8"),
        (("-b", "descriptors", "--timeout", "0"), 2, "--timeout must be above 0"),
        (("-b", "descriptors", "--timeout", "nan"), 2, "must be a number, got"),
        (("-b", "descriptors", "--timeout", "inf"), 2, "must be a number, got"),
    ],
)
def test_invalid_options(
    world: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    done = call_obygaze("-C", world, "extract", "run", "films", *words)
    assert (done.code, message in done.stderr) == (code, True), done.stderr
    assert not list((world / "stores").glob("*"))


def test_another_recipe_is_refused_before_anything_is_decoded(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("-C", world, "extract", "run", "films", "-b", "descriptors")
    call_obygaze(*command)
    before = array_bytes(world / "stores" / "films.descriptors")
    monkeypatch.setattr(recipes, "DECODER_RULE", 2)
    done = call_obygaze(*command)
    assert done.code == 5
    assert "decoder.rule" in done.stderr
    assert array_bytes(world / "stores" / "films.descriptors") == before


def test_a_store_is_compared_with_its_videos(films: Manifest, tmp_path: Path) -> None:
    """Extracting clips again gives what the store holds; other pictures under the names do not."""
    manifest = film_folder(tmp_path / "own", 6)
    keep_manifest(manifest, tmp_path)
    call_obygaze("-C", tmp_path, "extract", "run", "films", "-b", "descriptors").ok()
    command = (
        "-C",
        tmp_path,
        "store",
        "verify",
        "films.descriptors",
        "--decode",
        "6",
        "--json",
    )
    found = call_obygaze(*command).ok().json()
    assert {
        array: cosine["least"] > 0.999999 for array, cosine in found["cosines"].items()
    } == {
        "clip": True,
        "pooled": True,
        "frames": True,
    }
    for clip in manifest:
        path = tmp_path / "own" / "videos" / clip.video
        write_video(path, numbers=range(900, 918), size=(64, 48))
    assert call_obygaze(*command).code == 4

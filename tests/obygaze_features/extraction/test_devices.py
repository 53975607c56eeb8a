"""Several devices of one machine: a process for each, all of them workers of the same stores."""

from __future__ import annotations

import multiprocessing
import signal
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from support.extracted_stores import (
    CountedBar,
    bytes_of,
    films_with_failures,
    no_work_is_left,
    run,
)
from support.extraction import keep_manifest

from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.extraction import devices
from obygaze_features.extraction.devices import devices_of
from obygaze_features.manifest.model import Manifest

# A block of 16 and one of four.
N_CLIPS = 20
N_FAILED = 2
STORE = Path("stores", "films.descriptors")
PAIR = "cpu,cpu"


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return films_with_failures(tmp_path_factory.mktemp("films"), N_CLIPS)


@pytest.fixture(scope="module")
def undisturbed(films: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    run(films, folder)
    return folder / STORE


SMI = """#!/bin/sh
echo "0, GPU-aaa, 60000"
echo "1, GPU-bbb, 12"
echo "2, GPU-ccc, 1500"
"""


def test_the_devices_of_an_option(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert devices_of("cuda:1") == ["cuda:1"]
    assert devices_of("cuda:0, cuda:2") == ["cuda:0", "cuda:2"]
    for wrong in ("cuda:0,cuda:x", "cpu,cuda:0", "", " ", ","):
        with pytest.raises(FixUsage):
            devices_of(wrong)
    n_gpus = 3
    cuda = types.SimpleNamespace(device_count=lambda: n_gpus)
    torch = types.SimpleNamespace(cuda=cuda)
    monkeypatch.setattr(devices, "need", lambda *words: torch)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    # Without nvidia-smi, nothing is known of the others that compute.
    assert devices_of("cuda:all") == ["cuda:0", "cuda:1", "cuda:2"]
    (tmp_path / "nvidia-smi").write_text(SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert devices_of("cuda:all") == ["cuda:1", "cuda:2"]
    n_gpus = 2
    for visible in ("2,0", "GPU-ccc,GPU-aaa"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert devices_of("cuda:all") == ["cuda:0"]
    n_gpus = 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(FixUsage, match="no idle GPU"):
        devices_of("cuda:all")
    n_gpus = 0
    with pytest.raises(FixUsage, match="no CUDA device"):
        devices_of("cuda:all")


def test_two_devices_give_the_bytes_of_one(
    films: Manifest, undisturbed: Path, tmp_path: Path
) -> None:
    failed: set[int] = set()
    seen: set[int] = set()
    notes: list[str] = []

    def watch(row: int, has_failed: bool) -> None:
        seen.add(row)
        if has_failed:
            failed.add(row)

    bar = CountedBar()
    options = {"watch": watch, "note": notes.append, "progress": bar.of}
    done = run(films, tmp_path, device=PAIR, **options)
    (state,) = done
    assert (state.ok, state.failed, done.exit_code) == (N_CLIPS - 3, N_FAILED, 3)
    assert bytes_of(tmp_path / STORE) == bytes_of(undisturbed)
    assert no_work_is_left(tmp_path / STORE)
    assert seen == set(range(N_CLIPS))
    # The first process says how many clips there are; both count them, each clip once.
    assert bar.labels == ["extract"]
    assert bar.total == bar.done == N_CLIPS
    assert len(failed) == 3
    assert len(done.notes) == len(set(done.notes)) == 2
    assert multiprocessing.active_children() == []


@pytest.mark.check("kills a process of two")
def test_the_others_do_the_work_of_a_process_that_ends(
    films: Manifest, undisturbed: Path, tmp_path: Path
) -> None:
    def kill_one(row: int, failed: bool) -> None:
        for process in multiprocessing.active_children()[1:]:
            process.kill()

    done = run(films, tmp_path, device=PAIR, watch=kill_one)
    (warning,) = done.warnings
    assert "the process of cpu ended (signal 9)" in warning
    assert bytes_of(tmp_path / STORE) == bytes_of(undisturbed)


@pytest.mark.check("two processes, stopped")
def test_a_stop_ends_all_processes(
    films: Manifest, undisturbed: Path, tmp_path: Path
) -> None:
    keep_manifest(films, tmp_path)
    stop = _at_first_row(lambda: signal.raise_signal(signal.SIGTERM))
    done = run(films, tmp_path, device=PAIR, watch=stop)
    assert done.stop.signal_name == "SIGTERM"
    assert multiprocessing.active_children() == []
    with pytest.raises(ObygazeError, match="stopped by SIGTERM") as error:
        done.require_ok()
    assert error.value.exit_code == 75
    run(films, tmp_path, device=PAIR)
    assert bytes_of(tmp_path / STORE) == bytes_of(undisturbed)


def _at_first_row(what: Callable[[], object]) -> Callable[[int, bool], None]:
    seen: list[int] = []

    def watch(row: int, failed: bool) -> None:
        seen.append(row)
        if len(seen) == 1:
            what()

    return watch

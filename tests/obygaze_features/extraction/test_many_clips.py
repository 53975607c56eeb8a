"""Hundreds of clips, one in twenty invalid in one of twelve ways; memory does not grow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.cli import environment
from support.videos import write_video

from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import open_store

N_CLIPS = 240
EVERY = 20
N_VIDEOS = 10


def _missing(path: Path, good: Path) -> None:
    pass


def _empty(path: Path, good: Path) -> None:
    path.write_bytes(b"")


def _text(path: Path, good: Path) -> None:
    path.write_text("a text that is called a video\n" * 50, encoding="utf-8")


def _noise(path: Path, good: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(5000))


def _cut_short(path: Path, good: Path) -> None:
    path.write_bytes(good.read_bytes()[: good.stat().st_size // 3])


def _head_only(path: Path, good: Path) -> None:
    path.write_bytes(good.read_bytes()[:40])


def _folder(path: Path, good: Path) -> None:
    path.mkdir()


def _dead_link(path: Path, good: Path) -> None:
    path.symlink_to("nowhere.mp4")


def _picture(path: Path, good: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 100)


def _sound_only(path: Path, good: Path) -> None:
    import av

    with av.open(str(path), "w", format="mp4") as out:
        stream = out.add_stream("aac", rate=44100)
        samples = np.zeros((1, 44100), dtype=np.float32)
        frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
        frame.sample_rate = 44100
        out.mux(stream.encode(frame))
        out.mux(stream.encode())


def _damaged(path: Path, good: Path) -> None:
    """Pictures overwritten from the first third on; the table of contents stays whole."""
    data = bytearray(good.read_bytes())
    start = data.index(b"mdat") + 4
    end = data.index(b"moov") if data.index(b"moov") > start else len(data)
    third = start + (end - start) // 3
    data[third:end] = np.random.default_rng(1).bytes(end - third)
    path.write_bytes(bytes(data))


def _pipe(path: Path, good: Path) -> None:
    os.mkfifo(path)


BAD: tuple[Callable[[Path, Path], None], ...] = (
    _missing,
    _empty,
    _text,
    _noise,
    _cut_short,
    _head_only,
    _folder,
    _dead_link,
    _picture,
    _sound_only,
    _damaged,
    _pipe,
)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("many")
    good = [
        write_video(folder / f"good{i}.mp4", numbers=range(i, i + 16), size=(64, 48))
        for i in range(N_VIDEOS)
    ]
    clips = []
    for number in range(N_CLIPS):
        name = f"videos/{number:04d}.mp4"
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if number % EVERY == 7:
            BAD[number // EVERY % len(BAD)](path, good[0])
        else:
            shutil.copyfile(good[number % N_VIDEOS], path)
        clips.append(Clip(f"tt-{number:04d}", "tt", number, name))
    return Manifest("many", Header("Many", {}, video_root=str(folder)), tuple(clips))


def _run(manifest: Manifest, workspace: Path) -> dict[str, int]:
    """Extract in a new process; return its exit code and its peak memory in kB."""
    write_manifest(manifest, workspace / "manifests" / "many.toml")
    words = ["-q", "-C", str(workspace), "extract", "run", "many", "-b", "descriptors"]
    code = (
        "import json, pathlib\nfrom obygaze import cli\n"
        f"code = cli.run_line({words!r} + ['--workers', '2'])\n"
        # Not ru_maxrss: that is never less than what the process of the tests has had itself.
        "status = pathlib.Path('/proc/self/status').read_text().split()\n"
        "peak = int(status[status.index('VmHWM:') + 1])\n"
        "print(json.dumps({'code': code, 'peak_kb': peak}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        timeout=600,
    )
    document: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return document


@pytest.mark.check("hundreds of clips")
def test_invalid_clips_do_not_change_the_others(
    manifest: Manifest, tmp_path: Path
) -> None:
    done = _run(manifest, tmp_path)
    assert done["code"] == 3
    store = open_store(tmp_path / "stores" / "many.descriptors")
    status = store.status()
    bad = {row for row in range(N_CLIPS) if row % EVERY == 7}
    assert set(status.reasons) == bad
    n_missing = status.counts["no-video"]
    assert status.counts["ok"] == N_CLIPS - len(bad)
    assert status.counts["failed"] == len(bad) - n_missing
    reasons: dict[str, set[str]] = {}
    for row, reason in status.reasons.items():
        kind = BAD[row // EVERY % len(BAD)].__name__
        reasons.setdefault(kind, set()).add(reason.sentence.partition(":")[0])
    assert reasons.keys() == {bad.__name__ for bad in BAD}
    # One kind of badness has one reason, every time.
    assert all(len(found) == 1 for found in reasons.values()), reasons
    assert reasons["_missing"] == {"no such file"}
    _check_good_rows(manifest, tmp_path, bad)
    small = manifest.with_clips(manifest.clips[:60])
    (tmp_path / "small").mkdir()
    peak_small = _run(small, tmp_path / "small")["peak_kb"]
    # Memory does not grow with the number of clips.
    assert done["peak_kb"] - peak_small < 40_000


def _check_good_rows(manifest: Manifest, workspace: Path, bad: set[int]) -> None:
    """Clips that are copies of one file have the same features, and others have others."""
    matrix = open_store(workspace / "stores" / "many.descriptors").matrix(
        "clip", missing="nan"
    )
    first: dict[int, int] = {}
    for row in range(N_CLIPS):
        if row in bad:
            continue
        like = first.setdefault(row % N_VIDEOS, row)
        np.testing.assert_array_equal(matrix.values[row], matrix.values[like])
    distinct = np.unique(matrix.values[list(first.values())], axis=0)
    assert len(distinct) == N_VIDEOS

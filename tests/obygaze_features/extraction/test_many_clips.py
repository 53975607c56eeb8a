"""Clips whose files are invalid in twelve ways: each is a row with its reason."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from support.extracted_stores import run
from support.videos import write_video

from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import open_store


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


def test_invalid_clips_do_not_change_the_others(tmp_path: Path) -> None:
    """Good and bad clips by turns; the good ones are copies of one file."""
    good = write_video(tmp_path / "good.mp4", numbers=range(16), size=(64, 48))
    clips = []
    for number in range(2 * len(BAD)):
        path = tmp_path / f"{number}.mp4"
        if number % 2:
            BAD[number // 2](path, good)
        else:
            shutil.copyfile(good, path)
        clips.append(Clip(f"tt-{number:02d}", "tt", number, path.name))
    header = Header("Many", {}, video_root=str(tmp_path))
    done = run(Manifest("many", header, tuple(clips)), tmp_path, workers=2)
    assert done.exit_code == 3
    store = open_store(tmp_path / "stores" / "many.descriptors")
    assert store.status().is_ok.tolist() == [True, False] * len(BAD)
    reasons = {}
    for row, reason in store.status().reasons.items():
        reasons[BAD[row // 2].__name__] = (reason.status, reason.sentence)
    missing = ("no-video", "no such file")
    assert reasons.pop("_missing") == reasons.pop("_dead_link") == missing
    assert {status for status, _ in reasons.values()} == {"failed"}
    values = store.matrix("clip", missing="drop").values
    np.testing.assert_array_equal(values, np.repeat(values[:1], len(BAD), axis=0))

"""Clips whose files are invalid in ten ways: each is a row with its reason."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
from support.extracted_stores import run
from support.videos import write_video

from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import open_store


def write_bad_files(folder: Path, good: bytes) -> list[str]:
    """Write what is no video, and return the names; the first two are not there."""
    contents = {
        "empty.mp4": b"",
        "text.mp4": b"a text that is called a video\n" * 50,
        "noise.mp4": np.random.default_rng(0).bytes(5000),
        "cut.mp4": good[: len(good) // 3],
        "head.mp4": good[:40],
        "picture.mp4": b"\x89PNG\r\n\x1a\n" + bytes(100),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.mp4").mkdir()
    (folder / "link.mp4").symlink_to("nowhere.mp4")
    os.mkfifo(folder / "pipe.mp4")
    return ["none.mp4", "link.mp4", *contents, "folder.mp4", "pipe.mp4"]


def test_invalid_clips_do_not_change_the_others(tmp_path: Path) -> None:
    """Good and bad clips by turns; the good ones are copies of one file."""
    good = write_video(tmp_path / "good.mp4", numbers=range(16), size=(64, 48))
    bad = write_bad_files(tmp_path, good.read_bytes())
    names = []
    for number, name in enumerate(bad):
        copy = shutil.copy(good, tmp_path / f"{number}.mp4")
        names += [Path(copy).name, name]
    clips = [Clip(f"c{n:02d}", "tt", n, name) for n, name in enumerate(names)]
    header = Header("Many", {}, video_root=str(tmp_path))
    done = run(Manifest("many", header, tuple(clips)), tmp_path, workers=2)
    assert done.exit_code == 3
    store = open_store(tmp_path / "stores" / "many.descriptors")
    statuses = [row.status for row in store.rows]
    assert statuses[::2] == ["ok"] * len(bad)
    assert statuses[1::2] == ["no-video"] * 2 + ["failed"] * (len(bad) - 2)
    assert store.rows[1].reason == "no such file"
    values = store.matrix("clip", missing="drop").values
    np.testing.assert_array_equal(values, np.repeat(values[:1], len(bad), axis=0))

"""What a received file leaves open is refused or said, and not guessed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import av
import h5py
import numpy as np
import pytest
from support.cli import call_obygaze

import obygaze as og
from obygaze_features.video.resample import mixed


def frames_with_padding(folder: Path, mask: np.ndarray) -> None:
    """Write four clips of five frames; of all but the first clip, two are frames of ones."""
    frames = np.ones((4, 5, 2))
    frames[1:, 2:] = 99
    ids = [f"lake-{number}" for number in range(4)]
    np.savez(folder / "sent.npz", clip_id=ids, frames=frames, mask=mask)


def test_padding_is_never_a_frame(tmp_path: Path) -> None:
    real = np.ones((4, 5))
    real[1:, 2:] = 0
    frames_with_padding(tmp_path, real)
    pooled = ("store", "import", "sent.npz", "--pool", "mean")
    call_obygaze(*pooled, "-o", "right", cwd=tmp_path).ok()
    store = og.open_store("right", workspace=tmp_path)
    assert np.all(store.read(store.default_array, np.arange(4)) == 1)
    for mask in (real[..., None], np.ones((4, 6)), np.ones((4, 5, 2))):
        frames_with_padding(tmp_path, mask)
        for named in ((), ("--array", "frames=frames", "--array", "mask=mask")):
            refused = call_obygaze(*pooled, *named, "-o", "wrong", cwd=tmp_path)
            assert refused.code == 1, named
            assert "mask has" in refused.stderr
    assert not (tmp_path / "stores" / "wrong").exists()


def test_labels_that_nobody_gave_are_no_absent_concepts(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = "lake-0,lake,S,Look\nlake-1,lake,EN,\nlake-2,lake,,\n"
    (tmp_path / "clips.csv").write_text(f"clip_id,movie_id,level,concepts\n{rows}")
    call_obygaze("manifest", "import", "clips.csv", "-o", "films", cwd=tmp_path).ok()
    ids = [f"lake-{number}" for number in range(3)]
    np.savez(tmp_path / "sent.npz", clip_id=ids, x=np.ones((3, 2)))
    made = ("store", "import", "sent.npz", "--manifest", "films", "-o", "films")
    call_obygaze(*made, cwd=tmp_path).ok()
    words = ("store", "export", "films", "sent.parquet", "--with-labels", "films")
    call_obygaze(*words, cwd=tmp_path).ok()
    table = pq.read_table(tmp_path / "sent.parquet").to_pydict()
    assert table["concepts"] == [["Look"], [], None]


def test_bass_does_not_count_where_a_file_names_no_channel() -> None:
    """As FFmpeg orders six channels, the fourth is the bass."""
    samples = np.zeros((6, 100), np.float32)
    samples[3] = 0.5
    frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="6 channels")
    assert {channel.name for channel in frame.layout.channels} == {"NONE"}
    assert not mixed([frame]).any()


def test_clips_without_words_are_known_after_an_export(tmp_path: Path) -> None:
    """All of them have one vector, which nothing else would show."""
    ids = [f"lake-{number}" for number in range(3)]
    n_words = np.array([4, 0, 7])
    np.savez(tmp_path / "sent.npz", clip_id=ids, clip=np.eye(3), n_words=n_words)
    call_obygaze("store", "import", "sent.npz", "-o", "said", cwd=tmp_path).ok()
    names = ["said"]
    for ending in ("npz", "h5", "parquet"):
        if ending != "parquet" or find_spec("pyarrow") is not None:
            sent = f"said.{ending}"
            call_obygaze("store", "export", "said", sent, cwd=tmp_path).ok()
            call_obygaze("store", "import", sent, "-o", ending, cwd=tmp_path).ok()
            names.append(ending)
    with h5py.File(tmp_path / "theirs.h5", "w") as file:
        for clip, vector, n in zip(ids, np.eye(3), n_words, strict=True):
            file[f"{clip}/clip"] = vector
            file[f"{clip}/n_words"] = n
    made = ("store", "import", "theirs.h5", "--array", "clip={id}/clip", "-o", "again")
    refused = call_obygaze(*made, cwd=tmp_path)
    assert "beside {id}/clip is n_words" in refused.stderr
    too = ("--array", "n_words={id}/n_words")
    call_obygaze(*made, *too, cwd=tmp_path).ok()
    for name in (*names, "again"):
        store = og.open_store(name, workspace=tmp_path)
        has_words = store.has_words("clip", np.arange(3))
        assert has_words.tolist() == [True, False, True]

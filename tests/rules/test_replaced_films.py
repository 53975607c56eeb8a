"""Rule (e): scores of a file that is not there any more are not those of the file that is."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.seeds import amount
from support.stores import made_store

from obygaze_features.manifest.model import Clip
from obygaze_features.store import Row
from obygaze_features.store.matching import replaced_videos
from obygaze_features.store.rows import FAILED, OK

# A film has so many bytes, or is not there.
LENGTHS = st.sampled_from([3, 5, None])


@st.composite
def some_rows(draw: st.DrawFn) -> list[tuple[Clip, Row]]:
    """Clips of three films, each with its row; of some rows the file is not known."""
    drawn = []
    for number in range(draw(st.integers(1, 8))):
        film = draw(st.sampled_from(["alba", "brug", "cirk"]))
        video = draw(st.sampled_from([f"{film}.mp4", f"{film}.mp4", ""]))
        clip = Clip(f"{film}-{number}", film, number, video)
        status = draw(st.sampled_from([OK, OK, FAILED]))
        row = Row(f"{film}-{number}", film, status=status, video_bytes=draw(LENGTHS))
        drawn.append((clip, row))
    return drawn


@settings(deadline=None, max_examples=amount(40, 400))
@given(
    drawn=some_rows(),
    lengths=st.fixed_dictionaries(dict.fromkeys(["alba", "brug", "cirk"], LENGTHS)),
    n_without_row=st.integers(0, 2),
)
def test_a_video_is_named_whose_file_is_another_one(
    drawn: list[tuple[Clip, Row]], lengths: dict[str, int | None], n_without_row: int
) -> None:
    expected = set()
    in_store = drawn[: max(1, len(drawn) - n_without_row)]
    for clip, row in in_store:
        length = lengths[clip.movie_id]
        are_known = row.video_bytes is not None and length is not None
        if clip.video and row.is_ok and are_known and row.video_bytes != length:
            expected.add(clip.video)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for film, length in lengths.items():
            if length is not None:
                (folder / f"{film}.mp4").write_bytes(b"x" * length)
        rows = [row for _, row in in_store]
        vectors = np.ones((len(rows), 2), np.float32)
        store = made_store(folder / "store", rows, {"clip": vectors})
        clips = [clip for clip, _ in drawn]
        found = replaced_videos(clips, str(folder), store)
        assert sorted(found) == sorted(expected)
        assert replaced_videos(clips, "", store) == []


@settings(deadline=None, max_examples=amount(20, 200))
@given(
    lengths=st.fixed_dictionaries(dict.fromkeys(["alba", "brug"], LENGTHS)),
    in_store=st.fixed_dictionaries(dict.fromkeys(["alba", "brug"], LENGTHS)),
    n_segments=st.integers(0, 3),
    has_own_files=st.booleans(),
    has_windows=st.booleans(),
)
def test_a_segment_has_the_file_of_the_windows_of_its_film(
    lengths: dict[str, int | None],
    in_store: dict[str, int | None],
    n_segments: int,
    has_own_files: bool,
    has_windows: bool,
) -> None:
    rows = []
    for film, length in in_store.items():
        for number in range(4):
            rows.append(Row(f"{film}:{number:06d}", film, video_bytes=length))
    clips = []
    for film in ("alba", "brug", "cirk"):
        for number in range(n_segments):
            times = (float(number), number + 1.0)
            clips.append(
                Clip(f"{film}-ada-{number}", film, None, f"{film}.mp4", *times)
            )
    # A clip in a file of its own says nothing of the file of its film.
    if has_own_files:
        in_film = {"film_start_s": "7", "film_end_s": "9"}
        for number, clip in enumerate(clips):
            video = f"{clip.movie_id}-{number}.mp4"
            clips[number] = Clip(
                clip.clip_id, clip.movie_id, None, video, extra=in_film
            )
    expected = []
    for film, length in lengths.items():
        is_known = None not in (length, in_store[film])
        if n_segments and is_known and not has_own_files:
            expected += [f"{film}.mp4"] if length != in_store[film] else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for film, length in lengths.items():
            if length is not None:
                (folder / f"{film}.mp4").write_bytes(b"x" * length)
        for clip in clips if has_own_files else ():
            (folder / clip.video).write_bytes(b"x" * 7)
        values = {"clip": np.ones((len(rows), 2), np.float32)}
        # Windows have times; a store of clips has no features of segments.
        if has_windows:
            values["start_s"] = np.arange(len(rows), dtype=np.float64)
            values["end_s"] = values["start_s"] + 1
        store = made_store(folder / "store", rows, values)
        found = replaced_videos(clips, str(folder), store)
        assert sorted(found) == (sorted(expected) if has_windows else [])

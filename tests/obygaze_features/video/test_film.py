import os
from pathlib import Path

import numpy as np
import pytest
from support.seeds import amount
from support.video_kinds import KINDS
from support.videos import read_numbers

from obygaze_features.video import film
from obygaze_features.video.decode import decode_views
from obygaze_features.video.decoded_clip import DecodedClip, PictureView
from obygaze_features.video.film import probe
from obygaze_features.video.resize import Resize

WHOLE = (None, None)
PARTS = [(0.7, 2.2), (1.999, 2.6), (0.0, 0.05), (3.0, None), (None, 1.0), WHOLE]
VIEWS = (PictureView(8), PictureView(4, "fps", Resize(48)))


@pytest.fixture(autouse=True)
def no_films_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(film, "_FILMS", {})


def same(
    one: DecodedClip,
    other: DecodedClip,
    facts: tuple[str, ...] = ("total", "damaged", "is_incomplete"),
) -> bool:
    arrays = ("pictures", "index", "time_s", "asked_s", "substituted", "mask")
    return all(
        np.array_equal(
            getattr(one, name), getattr(other, name), equal_nan=name.endswith("_s")
        )
        for name in arrays
    ) and all(getattr(one, name) == getattr(other, name) for name in facts)


# A quarter of all kinds; `make torture` tries them all.
@pytest.mark.parametrize("name", amount(sorted(KINDS)[::4], sorted(KINDS)))
def test_clips_are_the_same_with_a_kept_index(name: str, tmp_path: Path) -> None:
    made = KINDS[name](tmp_path)
    indexes = tmp_path / "indexes"
    times = probe(made.path).index.times_s
    one_part = PARTS[sorted(KINDS).index(name) % 5]
    for start, end in amount([one_part, WHOLE], PARTS):
        if start is not None and start > times[-1]:
            continue
        if end is not None and end <= times[0]:
            continue
        part = {"start_s": start, "end_s": end}
        plain = decode_views(made.path, VIEWS, **part)
        first = plain[VIEWS[0]]
        assert read_numbers(first.pictures) == [made.numbers[i] for i in first.index]
        # Made, read from its file, and from memory.
        for _ in range(2):
            kept = decode_views(made.path, VIEWS, **part, indexes=indexes)
            assert all(same(kept[view], plain[view]) for view in VIEWS)
        film._FILMS.clear()
    assert len(list(indexes.glob("*/index.npz"))) == 1


def index_file(folder: Path) -> Path:
    (path,) = folder.glob("*/index.npz")
    return path


def test_an_index_with_damage_of_any_kind_is_made_again(tmp_path: Path) -> None:
    """Damaged npz files raise errors of zlib, tokenize and zipfile too."""
    made = KINDS["ts_h264"](tmp_path)
    film.film_index(made.path, tmp_path / "indexes")
    good = index_file(tmp_path / "indexes").read_bytes()
    damaged = tmp_path / "damaged.npz"
    random = np.random.default_rng(3)
    for _ in range(40):
        data = bytearray(good)
        start = int(random.integers(len(data)))
        if random.random() < 0.5:
            data[start] ^= 1 << int(random.integers(8))
        else:
            del data[start : start + int(random.integers(1, 99))]
        damaged.write_bytes(data)
        # What is read is the whole index, or nothing.
        values = film.read_or_make(damaged, lambda: {"new": np.array(1)}, dict)
        assert values.keys() == {"new"} or "pts" in values


def test_the_index_of_another_film_is_not_used(tmp_path: Path) -> None:
    made = KINDS["avi_mpeg4_b"](tmp_path)
    (tmp_path / "other").mkdir()
    other = KINDS["mkv_variable_rate"](tmp_path / "other")
    film.film_index(made.path, tmp_path / "indexes")
    film.film_index(other.path, tmp_path / "others")
    wrong = index_file(tmp_path / "others").read_bytes()
    index_file(tmp_path / "indexes").write_bytes(wrong)
    film._FILMS.clear()
    part = {"start_s": 1.0, "end_s": 2.0}
    plain = decode_views(made.path, VIEWS, **part)
    kept = decode_views(made.path, VIEWS, **part, indexes=tmp_path / "indexes")
    assert all(same(kept[view], plain[view]) for view in VIEWS)
    assert not list((tmp_path / "indexes").glob("*/index.npz"))


def test_a_film_that_is_repaired_has_a_new_index(tmp_path: Path) -> None:
    """The bytes that differ are not among those that are read to tell films apart."""
    path = KINDS["ts_h264"](tmp_path).path
    # Long enough for a part that is not read; packets of a transport stream may hold nothing.
    filler = (b"\x47\x1f\xff\x10" + b"\xff" * 184) * 3000
    whole = path.read_bytes() + filler
    damaged = bytearray(whole)
    # A packet of the pictures, of which the stream has the number 0x100.
    start = whole.index(b"\x47\x01\x00", 188 * 100)
    assert start % 188 == 0
    indexes = tmp_path / "indexes"
    path.write_bytes(filler + whole + 5 * filler)
    facts = path.stat()
    # The bit by which a receiver says that a packet has an error.
    damaged[start + 1] |= 0x80
    path.write_bytes(filler + damaged + 5 * filler)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    spoilt = decode_views(path, [PictureView(8)], indexes=indexes)[PictureView(8)]
    assert spoilt.damaged
    # A copy of the whole film gets the time of the damaged one.
    path.write_bytes(filler + whole + 5 * filler)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    for _ in range(2):
        clip = decode_views(path, [PictureView(8)], indexes=indexes)[PictureView(8)]
        assert not clip.damaged and not clip.substituted.any()
        film._FILMS.clear()

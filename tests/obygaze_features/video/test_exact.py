"""Every kind of file: the numbers read from the pixels are those of the rule, and none is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.seeds import amount
from support.video_kinds import KINDS, Made
from support.videos import read_numbers, write_video

from obygaze_features.video.decode import decode_clip, decode_views
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.film import probe
from obygaze_features.video.resize import Resize


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """Files made so far; each kind is made when it is first asked for."""
    return {}


def kinds() -> list[Any]:
    """All kinds of files, of which every second one is made in `make check` alone."""
    mark = pytest.mark.check("many kinds of files")
    return [
        pytest.param(name, marks=mark if number % 2 else ())
        for number, name in enumerate(sorted(KINDS))
    ]


@pytest.fixture(params=kinds())
def made(
    request: pytest.FixtureRequest,
    corpus: dict[str, Made],
    tmp_path_factory: pytest.TempPathFactory,
) -> Made:
    name = request.param
    if name not in corpus:
        corpus[name] = KINDS[name](tmp_path_factory.mktemp(name))
    return corpus[name]


# Height and width, where they are not those of most files.
SHAPES = {
    "mp4_odd_size": (123, 161),
    "mp4_wide_pixels": (120, 233),
    "mp4_narrow_pixels": (120, 142),
}
SOME_KINDS = amount(sorted(KINDS)[::6], sorted(KINDS))


def test_probe_counts_the_pictures(made: Made) -> None:
    quick, full = probe(made.path), probe(made.path, decode=True)
    assert quick.index.frames == full.index.frames == len(made.numbers)
    assert quick.index.timed == full.index.timed == made.timed
    assert not quick.damaged and not full.damaged
    if made.times_s is not None:
        assert np.allclose(quick.index.times_s, made.times_s, atol=1e-3)


def test_whole_files_are_exact(made: Made) -> None:
    total, count = len(made.numbers), 32
    clip = decode_clip(made.path, PictureView(count))
    wanted = [int(i * total / count) for i in range(count)]
    assert clip.index.tolist() == wanted
    assert read_numbers(clip.pictures) == [made.numbers[i] for i in wanted]
    assert not clip.substituted.any() and clip.mask.all() and not clip.damaged
    assert clip.total == total
    shown = SHAPES.get(made.path.stem, (120, 160))
    assert clip.pictures.shape[1:3] == shown


def test_parts_are_exact(made: Made) -> None:
    times = probe(made.path).index.times_s
    for start, end in [(0.7, 2.2), (1.999, 2.6), (0.0, 0.05), (3.0, None)]:
        inside = [
            i
            for i, t in enumerate(times)
            if start <= t + 1e-6 and t + 1e-6 < (end or 1e9)
        ]
        if not inside:
            continue
        clip = decode_clip(made.path, PictureView(8), start_s=start, end_s=end)
        wanted = [inside[i * len(inside) // 8] for i in range(8)]
        assert clip.index.tolist() == wanted
        assert read_numbers(clip.pictures) == [made.numbers[i] for i in wanted]
        assert np.allclose(clip.time_s, times[wanted])


@pytest.mark.parametrize("suffix", [".mp4", ".ts", ".wmv"])
def test_the_clock_is_that_of_the_file_where_pictures_begin_late(
    suffix: str, tmp_path: Path
) -> None:
    """As that of the sound, which begins with the file. AVI repeats its first picture."""
    draw = np.random.default_rng([ord(letter) for letter in suffix])
    late = int(draw.integers(2, 80))
    number = int(draw.integers(1, 89))
    path = write_video(
        tmp_path / f"late{suffix}",
        "wmv2" if suffix == ".wmv" else "libx264",
        numbers=range(90),
        ticks=range(late, late + 90),
        audio=True,
    )
    # Some writers move all times by up to 23 ms, before which the sound begins.
    start_s = (late + number) / 25 - 0.01
    clip = decode_clip(path, PictureView(1), start_s=start_s, end_s=start_s + 0.04)
    assert read_numbers(clip.pictures) == [number]


@pytest.mark.parametrize("made", SOME_KINDS, indirect=True)
def test_several_views_share_one_decode(made: Made) -> None:
    small, square = Resize(48), Resize(40, fit="squash", filter="bilinear")
    views = [
        PictureView(32),
        PictureView(8, resize=small),
        PictureView(16, resize=square),
        PictureView(4, "fps", small),
    ]
    clips = decode_views(made.path, views)
    for view, clip in clips.items():
        alone = decode_clip(made.path, view)
        assert np.array_equal(clip.pictures, alone.pictures)
        assert np.array_equal(clip.index, alone.index)
        real = clip.pictures[clip.mask]
        assert read_numbers(real) == [made.numbers[i] for i in clip.index[clip.mask]]

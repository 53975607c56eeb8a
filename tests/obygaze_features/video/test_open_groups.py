"""Films that were cut in the middle of a group: the exact picture, or a mark that it is damaged."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.videos import read_number, read_numbers, remux, write_video

from obygaze_features.video import PictureView, decode_clip
from obygaze_features.video.film import probe
from obygaze_features.video.index import NO_PTS

RATE = 24


def shown(path: Path) -> dict[int, float]:
    """The time of each picture by its number, as another program decodes the file in order."""
    import av

    time_of: dict[int, float] = {}
    with av.open(str(path)) as container:
        start_s = (container.start_time or 0) / 1e6
        for packet in container.demux(video=0):
            # A decoder may refuse what it cannot know, and goes on with the next packet.
            with suppress(av.error.InvalidDataError):
                for frame in packet.decode():
                    number = read_number(frame.to_ndarray(format="rgb24"))
                    time_of[number] = frame.time - start_s
    return time_of


def cut(source: Path, target: Path, group: int, start: int) -> Path:
    """Copy the packets from a key frame on, as `ffmpeg -ss -c copy` does; it gets the time `start`.

    The pictures that precede it on the screen are earlier. Matroska has no times below 0, so that
    these pictures have none if the key frame is at 0.
    """
    keys = 0
    shift: int | None = None

    def each(number: int, packet: Any) -> Any:
        nonlocal keys, shift
        keys += packet.is_keyframe
        if keys <= group:
            return None
        if shift is None:
            shift = round(start / packet.time_base) - packet.pts
        packet.pts += shift
        packet.dts += shift
        return packet

    return remux(source, target, each, options={"avoid_negative_ts": "disabled"})


OPTIONS = {
    "libx265": {
        "x265-params": "open-gop=1:keyint=48:min-keyint=48:bframes=4:log-level=none:pools=1"
    },
    "libx264": {
        "x264-params": "open-gop=1:keyint=48:min-keyint=48:bframes=3:scenecut=0"
    },
    "mpeg2video": {"g": "24", "bf": "2"},
}


@pytest.fixture(scope="module")
def open_groups(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("open")
    tick = Fraction(1, RATE)
    return {
        codec: write_video(
            folder / f"{codec}.mkv",
            codec,
            numbers=range(120),
            tick=tick,
            rate=RATE,
            options=options,
        )
        for codec, options in OPTIONS.items()
    }


@pytest.mark.parametrize(
    ("codec", "container", "start", "indexed"),
    [
        # Without libx264 in a transport stream: copied so, it has no parameters to decode it with.
        ("libx265", "mkv", 0, False),
        ("libx265", "mkv", 10, True),
        ("libx265", "ts", 10, False),
        ("libx264", "mkv", 0, True),
        ("libx264", "mp4", 10, False),
        ("mpeg2video", "mkv", 0, False),
        ("mpeg2video", "ts", 0, True),
    ],
)
def test_pictures_of_an_open_group_have_their_own_times(
    open_groups: dict[str, Path],
    tmp_path: Path,
    codec: str,
    container: str,
    start: int,
    indexed: bool,
) -> None:
    film = cut(open_groups[codec], tmp_path / f"cut.{container}", 1, start)
    time_of = shown(film)
    indexes = tmp_path / "indexes" if indexed else None
    part = decode_clip(film, PictureView(4), start_s=1.0, end_s=2.0, indexes=indexes)
    numbers = read_numbers(part.pictures)
    assert part.time_s.tolist() == pytest.approx(
        [time_of[n] for n in numbers], abs=1e-3
    )
    assert numbers[0] == min(
        number for number, time in time_of.items() if time >= 1.0 - 1e-3
    )
    whole = decode_clip(film, PictureView(len(time_of)), indexes=indexes)
    assert read_numbers(whole.pictures) == sorted(time_of)
    assert whole.time_s.tolist() == pytest.approx(sorted(time_of.values()), abs=1e-3)
    index = probe(film).index
    assert index.timed
    if container == "mkv" and codec == "libx265":
        assert bool((index.pts == NO_PTS).any()) == (start == 0)

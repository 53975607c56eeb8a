"""The films of the bench: five characters coded alike, one character coded otherwise, odd ones."""

from __future__ import annotations

from typing import Any

from obygaze_features.video.bench_films import RATE, FilmSpec
from obygaze_features.video.bench_pictures import CHARACTERS


def character_films(seconds: int) -> list[FilmSpec]:
    """Films of every character, coded as x264 does when it is told nothing."""
    count = seconds * RATE
    return [FilmSpec(f"h264, {name}", character=name, n_frames=count) for name in CHARACTERS]


def coded_films(seconds: int) -> list[FilmSpec]:
    """The calm film in other groups and by another codec."""
    count = seconds * RATE
    ten_bit = {"preset": "ultrafast", "x265-params": "log-level=none"}
    return [
        FilmSpec("h264, calm, no cuts", options={"sc_threshold": "0"}, n_frames=count),
        FilmSpec("h264, calm, groups of 24", options={"g": "24"}, n_frames=count),
        FilmSpec("hevc, calm, 10 bit", ".mkv", "libx265", "yuv420p10le", ten_bit, count),
    ]


def odd_films() -> list[FilmSpec]:
    """Small films of the kinds on which readers go wrong without a word."""
    small: dict[str, Any] = {"n_frames": 120, "width": 320, "height": 240}
    quick = {"preset": "veryfast", "g": "30"}
    open_groups = quick | {"x264-params": "open-gop=1:bframes=3:b-adapt=0"}
    refresh = quick | {"x264-params": "intra-refresh=1:bframes=0"}
    rich = {"b": "1500k", "bf": "2", "g": "30"}
    uneven = tuple(2400 + 40 * n + 20 * (n % 2) + 90 * (n // 30) for n in range(120))
    return [
        FilmSpec("mp4, open groups", options=open_groups, **small),
        FilmSpec("mp4, intra refresh", options=refresh, **small),
        FilmSpec("mp4, edit list", options=quick, hidden=20, **small),
        FilmSpec("mp4, variable rate", options=quick, ticks=uneven, **small),
        FilmSpec("mkv, variable rate", ".mkv", options=quick, ticks=uneven, **small),
        FilmSpec("avi, mpeg-4 with b", ".avi", "mpeg4", options=rich, **small),
        FilmSpec("avi, h.264 with b", ".avi", options=quick, **small),
        FilmSpec("mpg, mpeg-2", ".mpg", "mpeg2video", options=rich, **small),
        FilmSpec("ts, h.264", ".ts", options=quick, **small),
        FilmSpec("flv, h.264", ".flv", options=quick, **small),
        FilmSpec("webm, vp9", ".webm", "libvpx-vp9", options={"b": "600k"}, **small),
        FilmSpec("raw h.264", ".h264", options=quick, **small),
    ]

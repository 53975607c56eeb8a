"""Playable copies: the same pictures at the same times, whole or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.kills import kill_everywhere
from support.video_kinds import KINDS
from support.videos import read_numbers

from obygaze.films.page.media import make_proxy, media_facts, proxy_path
from obygaze_features.core.console import Quiet
from obygaze_features.video import View, decode_clip
from obygaze_features.video.container import open_video
from obygaze_features.video.film import film_index

REFUSED = {
    "avi_with_sound": "avi files, mpeg4 video (yuv420p)",
    "mpg_mpeg2_b": "mpeg files, mpeg2video video (yuv420p)",
    "mp4_hevc": "hevc video (yuv420p)",
    "mkv_times_in_disorder": "ffv1 video (yuv420p)",
    "ts_cut_in_the_middle": "mpegts files",
    "mp4_odd_size": "h264 video (yuv444p)",
    "mp4_turned_90": "",
    "mp4_with_sound": "",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_copy_has_the_pictures_and_times_of_its_original(
    tmp_path: Path, name: str
) -> None:
    made = KINDS[name](tmp_path)
    assert media_facts(made.path).refused == REFUSED[name]
    copy = make_proxy(made.path, tmp_path / "proxies", tmp_path / "indexes", Quiet())
    assert not media_facts(copy).refused
    assert copy == proxy_path(made.path, tmp_path / "proxies")
    first, second = (
        film_index(file, tmp_path / "indexes")[0] for file in (made.path, copy)
    )
    assert np.abs(first.times_s[1:] - second.times_s[1:]).max() < 1e-4
    assert second.times_s[0] == 0
    assert read_numbers(decode_clip(copy, View(second.frames)).pictures) == made.numbers
    with open_video(made.path) as (one, _), open_video(copy) as (other, _):
        assert len(one.streams.audio) == len(other.streams.audio)
        for before, after in zip(one.streams.audio, other.streams.audio, strict=True):
            n_before = sum(frame.samples for frame in one.decode(before))
            n_after = sum(frame.samples for frame in other.decode(after))
            # AAC has pieces of 1,024 samples.
            assert abs(n_after - n_before) <= 3 * 1024


@pytest.mark.check("kills it before every change of the disk")
def test_a_kill_leaves_no_half_copy(tmp_path: Path) -> None:
    video = KINDS["mp4_five_pictures"](tmp_path).path
    folder, indexes = tmp_path / "proxies", tmp_path / "indexes"

    def look() -> None:
        copy = proxy_path(video, folder)
        assert not copy.exists() or film_index(copy, indexes)[0].frames == 5

    kills = kill_everywhere(lambda: make_proxy(video, folder, indexes, Quiet()), look)
    assert kills > 3
    assert [file.name for file in folder.iterdir()] == [proxy_path(video, folder).name]

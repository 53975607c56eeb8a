"""Playable copies: the same pictures at the same times, whole or not there."""

from __future__ import annotations

import numpy as np
import pytest
from support.video_kinds import KINDS
from support.videos import read_numbers

from obygaze_features.core.console import Quiet
from obygaze_features.video import View, decode_clip
from obygaze_features.video.film import film_index
from obygaze_features.video.playable import make_proxy

av = pytest.importorskip("av")


@pytest.mark.parametrize("name", KINDS)
def test_all(tmp_path, name):
    made = KINDS[name](tmp_path)
    copy = make_proxy(made.path, tmp_path / "proxies", tmp_path / "indexes", Quiet())
    first, second = (film_index(file, tmp_path / "indexes")[0] for file in (made.path, copy))
    got = read_numbers(decode_clip(copy, View(second.frames)).frames)
    assert np.abs(first.times_s - second.times_s).max() < 1e-4
    assert got == made.numbers

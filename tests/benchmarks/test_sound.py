"""Comparing readers of sound: how late a click is, and what clips of a long film cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.sound.films import click, click_errors, click_offset, make_long
from obygaze_features.video.sound import SoundView, decode_sound

# What its tests share is made once: they stay in one process.
pytestmark = pytest.mark.check("benchmarks")


@pytest.mark.parametrize("late", [-700, -1, 0, 3, 400])
def test_a_click_is_found_where_it_is(late: int) -> None:
    samples = np.zeros(48000, np.float32)
    wave = click(48000)
    samples[24000 + late : 24000 + late + len(wave)] = wave
    found, fit = click_offset(samples, 48000, 0.5)
    assert found == late
    assert fit > 0.99


def test_a_film_without_its_clicks_is_an_error(tmp_path: Path) -> None:
    path = make_long(tmp_path, 12.0)
    sound = decode_sound(path, SoundView(48000))
    assert max(map(abs, click_errors(path, sound.samples, 48000))) <= 96
    with pytest.raises(ValueError, match=r"no click at 1\.20 s"):
        click_errors(path, np.zeros_like(sound.samples), 48000)

"""Comparing readers of sound: how late a click is, and what clips of a long film cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.sound import readers
from benchmarks.sound.comparison import cost_text, lateness_text
from benchmarks.sound.films import FILMS, click, click_errors, click_offset, make_long
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


def test_readers_stand_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(readers.READERS, "torchcodec")
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment = os.environ | paths
    text = lateness_text(FILMS[:1], tmp_path, environment)
    assert text.splitlines()[-1].split() == ["mp4-aac", "48000", "0", "0"]
    text = cost_text(2, tmp_path, environment)
    rows = [line.split()[0] for line in text.splitlines()[2:]]
    assert rows == ["obygaze", "wav"]

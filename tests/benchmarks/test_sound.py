"""Comparing readers of sound: how late a click is."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.sound.films import click, click_offset

pytestmark = pytest.mark.check("benchmarks")


@pytest.mark.parametrize("late", [-700, 0, 3])
def test_a_click_is_found_where_it_is(late: int) -> None:
    samples = np.zeros(48000, np.float32)
    wave = click(48000)
    samples[24000 + late : 24000 + late + len(wave)] = wave
    found, fit = click_offset(samples, 48000, 0.5)
    assert found == late
    assert fit > 0.99

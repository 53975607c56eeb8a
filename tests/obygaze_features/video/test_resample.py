import math
from typing import Any

import numpy as np
import pytest

from obygaze_features.video import resample
from obygaze_features.video.resample import Resampler, mix_to_mono

HALF = math.sqrt(0.5)
# Left, right, centre, bass, and two behind; and the type of the samples that are tried.
WEIGHTS = {
    "mono": ([1], "fltp"),
    "stereo": ([1, 1], "flt"),
    "2.1": ([1, 1, 0], "s16"),
    "5.1": ([1, 1, HALF, 0, HALF, HALF], "s32"),
    "5.1(side)": ([1, 1, HALF, 0, HALF, HALF], "u8"),
    "quad": ([1, 1, HALF, HALF], "dbl"),
}


def frame_of(values: np.ndarray, kind: str, layout: str) -> Any:
    import av

    stored = values if kind.endswith("p") else values.T.reshape(1, -1)
    samples = np.ascontiguousarray(stored)
    frame = av.AudioFrame.from_ndarray(samples, format=kind, layout=layout)
    frame.sample_rate = 8000
    return frame


@pytest.mark.parametrize("layout", WEIGHTS)
def test_channels_are_weighted_by_their_places(layout: str) -> None:
    of_channels, kind = WEIGHTS[layout]
    weights = np.array(of_channels)
    levels = np.random.default_rng(1).uniform(-1, 1, (len(weights), 2000))
    types = {"flt": np.float32, "dbl": np.float64, "s16": np.int16, "s32": np.int32}
    dtype = types.get(kind.removesuffix("p"), np.uint8)
    stored = levels.astype(dtype)
    truth = levels
    if kind == "u8":
        stored = np.round(levels * 127 + 128).astype(np.uint8)
        truth = (stored.astype(float) - 128) / 128
    elif kind.startswith("s"):
        scale = 2.0 ** (8 * np.dtype(dtype).itemsize - 1)
        stored = np.round(levels * (scale - 1)).astype(dtype)
        truth = stored / scale
    parts = np.split(stored, [700, 900], axis=1)
    frames = [frame_of(part, kind, layout) for part in parts]
    expected = weights @ truth / weights.sum()
    assert np.abs(mix_to_mono(frames) - expected).max() < 1e-6


def test_frames_of_several_layouts_follow_each_other() -> None:
    stereo = np.stack([np.full(50, 0.5), np.full(50, -0.1)]).astype(np.float32)
    mono = np.full((1, 30), 0.25, np.float32)
    frames = [frame_of(stereo, "fltp", "stereo"), frame_of(mono, "fltp", "mono")]
    assert mix_to_mono(frames) == pytest.approx([0.2] * 50 + [0.25] * 30)
    assert len(mix_to_mono([])) == 0


@pytest.mark.parametrize(
    ("rate", "new_rate"),
    [(48000, 16000), (44100, 16000), (22050, 48000), (8000, 16000), (16000, 16000)],
)
def test_another_rate_keeps_what_it_can_carry(rate: int, new_rate: int) -> None:
    change = Resampler(rate, new_rate)
    lower = min(rate, new_rate)
    times = (np.arange(rate + 2 * change.margin) - change.margin) / rate
    new_times = np.arange(new_rate) / new_rate

    def changed(hertz: float) -> np.ndarray:
        return change(np.sin(2 * np.pi * hertz * times).astype(np.float32), new_rate)

    for hertz in (0.02 * lower, 0.1 * lower, 0.33 * lower):
        expected = np.sin(2 * np.pi * hertz * new_times)
        assert np.abs(changed(hertz) - expected).max() < 0.01
    if rate > new_rate:
        assert np.abs(changed(0.6 * new_rate)).max() < 0.01


@pytest.mark.parametrize(
    ("rate", "new_rate"),
    [(48000, 16000), (44100, 16000), (8000, 16000), (11025, 48000), (1200, 1000)],
)
def test_each_new_sample_is_an_exact_sum(rate: int, new_rate: int) -> None:
    """Whole numbers of Python have no order of a sum: no library can return other samples."""
    change = Resampler(rate, new_rate)
    random = np.random.default_rng(rate)
    steps = random.integers(-(2**24), 2**24, rate + 2 * change.margin)
    new = change((steps * 2.0**-24).astype(np.float32), new_rate)
    half = 10 * max(change.up, change.down)
    taps = (resample._taps(half, change.up, change.down) * 2**26).astype(int).tolist()
    for number in (0, 1, *random.integers(0, new_rate, 60).tolist(), new_rate - 1):
        total = 0
        centre = change.margin + number * change.down // change.up
        for old in range(centre - change.margin, centre + change.margin + 1):
            apart = number * change.down - (old - change.margin) * change.up
            if abs(apart) <= half:
                total += taps[half + apart] * int(steps[old])
        assert abs(total) < 2**53
        assert new[number] == np.float32(total * 2.0**-50)


def test_recipes_see_another_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed() -> str:
        resample.resampler.cache_clear()
        resample.resampling_sha256.cache_clear()
        return resample.resampling_sha256()

    first = hashed()
    assert hashed() == first
    monkeypatch.setattr(resample, "_BETA", 6.01)
    assert hashed() != first
    monkeypatch.undo()
    assert hashed() == first


def test_bass_does_not_count_where_a_file_names_no_channel() -> None:
    """As FFmpeg orders six channels, the fourth is the bass."""
    samples = np.zeros((6, 100), np.float32)
    samples[3] = 0.5
    frame = frame_of(samples, "fltp", "6 channels")
    assert {channel.name for channel in frame.layout.channels} == {"NONE"}
    assert not mix_to_mono([frame]).any()

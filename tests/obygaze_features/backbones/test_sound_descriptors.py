from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.backbones.sound import ClipSound, SoundBackbone, part_weights
from obygaze_features.backbones.sound_descriptors import describe_sound

RATE = 16000
LEVEL, PEAK, ZEROS, CENTRE, SPREAD, FLATNESS = range(6)
BANDS = slice(8, 24)
ONSET, SILENCE, PERIODIC = 25, 26, 27


def tone(hertz: float, seconds: float = 1.0, level: float = 0.5) -> Any:
    at_s = np.arange(round(seconds * RATE)) / RATE
    return level * np.sin(2 * np.pi * hertz * at_s)


def test_a_tone() -> None:
    steps = describe_sound(tone(250.0), RATE)
    assert steps.shape == (98, 28)
    # The level of a sine is 3.01 dB below its peak, which is 6.02 dB below full scale.
    np.testing.assert_allclose(steps[:, LEVEL], 1 - 0.0903, atol=1e-3)
    np.testing.assert_allclose(steps[:, PEAK], 0.5, atol=1e-3)
    # Twice a period, over 8,000 Hz.
    assert steps[:, ZEROS].mean() == pytest.approx(2 * 250 / RATE, abs=0.003)
    assert steps[:, CENTRE].mean() == pytest.approx(250 / 8000, abs=0.01)
    assert steps[:, FLATNESS].max() < 0.01
    assert steps[:, PERIODIC].min() > 0.7
    assert not steps[:, SILENCE].any()
    np.testing.assert_allclose(steps[:, BANDS].sum(axis=1), 1, atol=1e-9)
    # In the middle of all frequencies but 0; a frequency of the spectrum is 1/256.
    middle = describe_sound(tone(4000.0), RATE)[:, CENTRE]
    assert middle.mean() == pytest.approx(0.5, abs=1e-3)


def test_a_higher_tone_is_in_a_higher_band() -> None:
    bands = [
        int(describe_sound(tone(hertz), RATE)[:, BANDS].mean(axis=0).argmax())
        for hertz in (150, 600, 1500, 4000, 7000)
    ]
    assert bands == sorted(set(bands))


def test_noise_is_flat_and_not_periodic() -> None:
    noise = 0.1 * np.random.default_rng(0).standard_normal(RATE)
    steps = describe_sound(noise, RATE)
    assert steps[:, FLATNESS].mean() > 0.4
    assert steps[:, CENTRE].mean() == pytest.approx(0.5, abs=0.05)
    assert steps[:, PERIODIC].mean() < 0.4


def test_silence_is_silence() -> None:
    steps = describe_sound(np.zeros(RATE), RATE)
    assert steps[:, SILENCE].all()
    others = np.delete(steps, SILENCE, axis=1)
    np.testing.assert_allclose(others, 0, atol=1e-9)


def test_an_onset_is_where_a_sound_begins() -> None:
    samples = np.zeros(2 * RATE)
    begins_s = (0.5, 1.2)
    for begin_s in begins_s:
        begin = round(begin_s * RATE)
        # A sudden end would be a click.
        samples[begin : begin + 3200] = tone(800.0, 0.2) * np.linspace(1, 0, 3200)
    onsets = np.flatnonzero(describe_sound(samples, RATE)[:, ONSET])
    assert (onsets * 0.01).tolist() == pytest.approx(begins_s, abs=0.03)


def test_a_clip_is_the_mean_and_deviation_and_maximum_of_its_steps() -> None:
    backbone = load_backbone("sound-descriptors")
    assert isinstance(backbone, SoundBackbone)
    samples = np.concatenate([tone(200.0), tone(3000.0, level=0.1)]).astype(np.float32)
    arrays = backbone.forward([ClipSound(samples)])
    steps = describe_sound(samples.astype(np.float64), RATE)
    np.testing.assert_allclose(arrays["clip"][0, :28], steps.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(arrays["clip"][0, 28:], steps.std(axis=0), atol=1e-6)
    np.testing.assert_allclose(arrays["pooled"][0], steps.max(axis=0), atol=1e-6)
    parts = arrays["frames"][0]
    assert parts[:7, CENTRE].max() < 0.1
    assert parts[9:, CENTRE].min() > 0.3


@settings(max_examples=60, deadline=None)
@given(st.integers(400, 60_000), st.integers(1, 40), st.randoms())
def test_parts_are_means_over_time_of_the_nearest_step(n_samples, n_steps, random):
    """Against sums over samples, each of which takes the step that is nearest to its middle."""
    moments = np.sort([random.uniform(0, n_samples) for _ in range(n_steps)])
    assume((np.diff(moments) > 1).all())
    weights = part_weights(moments, n_samples)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    middles = np.arange(n_samples) + 0.5
    nearest = np.abs(middles[:, None] - moments).argmin(axis=1)
    part = (middles * 16 / n_samples).astype(int)
    counts = np.zeros((16, n_steps))
    np.add.at(counts, (part, nearest), 1)
    counts /= counts.sum(axis=1, keepdims=True)
    # At most a sample at each border of a step, and one at each border of a part.
    np.testing.assert_allclose(weights, counts, atol=3 * 16 / n_samples)

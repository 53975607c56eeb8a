"""Low-level statistics of each frame, without weights and without torch: a baseline.

The 64 numbers of a frame, in this order (all from a 64 x 64 reduction, values 0..1):

| columns | what |
|---|---|
| 0-2, 3-5 | means of red, green, blue; their standard deviations |
| 6-13 | share of pixels in eight steps of brightness |
| 14, 15 | mean and standard deviation of saturation |
| 16-23 | shares of eight hues, red first, weighted by saturation |
| 24, 25 | colourfulness; warmth (red minus blue) |
| 26-34 | mean brightness of a 3 x 3 grid, row by row |
| 35 | entropy of the shares 6-13, 1 if they are equal |
| 36-43 | shares of eight edge directions over half a turn, weighted by strength |
| 44, 45 | mean strength of edges; share of strong edges |
| 46, 47 | mean brightness: left half minus right half; centre minus border |
| 48, 49 | absolute change since the frame before: mean and standard deviation |
| 50, 51 | share of pixels that change; mean of the change with its sign |
| 52-60 | mean absolute change of a 3 x 3 grid, row by row |
| 61 | difference of the shares 6-13 from those of the frame before (a cut is near 1) |
| 62, 63 | centre of change across and down, 0.5 where nothing moves |

No frame is before the first frame: its change is 0, and the centre of change is the middle.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.backbone import PictureBackbone
from obygaze_features.core.errors import FixInput
from obygaze_features.video.resize import Resize

Array = npt.NDArray[np.float64]

SIDE = 64
# Rows and columns of a frame that are sampled for each row and column of the reduction.
_SAMPLES = 4
_CHANGED = 0.1
_STRONG = 0.15
_VERSION = 1

# The pixels of each frame that are used, and the memory for them.
SEEN = Resize(SIDE * _SAMPLES, fit="squash", filter="nearest")
FRAME_BYTES = SIDE * SIDE * 8 * 12


class Descriptors(PictureBackbone):
    """The backbone without weights: colour, edges and motion in NumPy, in double precision."""

    computes_in = "float64"

    def normalise(self, pictures: Any) -> npt.NDArray[np.float32]:
        """Return resized pictures [t, 256, 256, 3] as pixels [t, 3, 64, 64] from 0 to 1."""
        samples = np.asarray(pictures).reshape(-1, SIDE, _SAMPLES, SIDE * _SAMPLES * 3)
        rows = samples.sum(axis=2, dtype=np.uint16)
        cells = rows.reshape(-1, SIDE, SIDE, _SAMPLES, 3)
        # NumPy adds whole arrays much faster than it sums along a short axis.
        sums = cells[:, :, :, 0].copy()
        for number in range(1, _SAMPLES):
            sums += cells[:, :, :, number]
        means = sums.astype(np.float32) / np.float32(255 * _SAMPLES * _SAMPLES)
        return np.ascontiguousarray(means.transpose(0, 3, 1, 2))

    def outputs(self, pixels: Any, mask: Any) -> dict[str, npt.NDArray[np.float32]]:
        """Return the vectors of the frames, and their mean, standard deviation and maximum."""
        clips = np.asarray(pixels, dtype=np.float64)
        if clips.shape[-1] < 8:
            raise FixInput(f"{self.card.label} needs pixels of at least 8 x 8")
        frames = np.stack([describe(clip) for clip in clips])
        mean = frames.mean(axis=1)
        deviation = frames.std(axis=1)
        arrays = {
            "descriptors": frames,
            "descriptors-mean-sd": np.concatenate([mean, deviation], axis=1),
            "descriptors-max": frames.max(axis=1),
        }
        return {name: values.astype(np.float32) for name, values in arrays.items()}

    def preprocessing(self) -> dict[str, Any]:
        """Return the settings that change the pixels."""
        return {"side": SIDE, "block": _SAMPLES, "version": _VERSION}


def describe(clip: Array) -> Array:
    """Return the vectors [T, 64] of one clip [T, 3, S, S]."""
    luma = 0.299 * clip[:, 0] + 0.587 * clip[:, 1] + 0.114 * clip[:, 2]
    shares = _shares(luma, np.ones_like(luma), 8)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    entropy = -(shares * logs).sum(axis=1, keepdims=True) / np.log(shares.shape[1])
    columns = [
        _colour(clip, shares),
        _grid(luma),
        entropy,
        _edges(luma),
        _balance(luma),
        _motion(luma, shares),
    ]
    return np.concatenate(columns, axis=1)


def _shares(values: Array, weights: Array, n: int) -> Array:
    """Return the weighted shares [T, n] of values 0..1 in n equal bins; 0 if all weights are 0."""
    n_frames = len(values)
    steps = np.clip((values * n).astype(np.int64), 0, n - 1)
    first_bins = n * np.arange(n_frames)
    bins = (steps + first_bins[:, None, None]).ravel()
    sums = np.bincount(bins, weights=weights.ravel(), minlength=n * n_frames)
    sums = sums.reshape(n_frames, n)
    total = sums.sum(axis=1, keepdims=True)
    shares = np.zeros(sums.shape)
    np.divide(sums, total, out=shares, where=total > 1e-9)
    return shares


def _colour(clip: Array, shares: Array) -> Array:
    red = clip[:, 0]
    green = clip[:, 1]
    blue = clip[:, 2]
    top = clip.max(axis=1)
    spread = clip.max(axis=1) - clip.min(axis=1)
    saturation = np.divide(spread, top, out=np.zeros_like(top), where=top > 1e-9)
    safe = np.where(spread > 1e-9, spread, 1.0)
    hue_of_red = (green - blue) / safe % 6
    hue_of_green = (blue - red) / safe + 2
    hue_of_blue = (red - green) / safe + 4
    hue = np.where(top == green, hue_of_green, hue_of_blue)
    hue = np.where(top == red, hue_of_red, hue)
    # Shifted by half a bin, so that red is in the middle of a bin.
    hues = _shares((hue / 6 + 1 / 16) % 1.0, saturation * (spread > 1e-9), 8)
    opponents = np.stack([red - green, (red + green) / 2 - blue], axis=1)
    deviation = opponents.std(axis=(2, 3))
    mean = opponents.mean(axis=(2, 3))
    colourfulness = np.hypot(*deviation.T) + 0.3 * np.hypot(*mean.T)
    warmth = (red - blue).mean(axis=(1, 2))
    columns = [
        clip.mean(axis=(2, 3)),
        clip.std(axis=(2, 3)),
        shares,
        saturation.mean(axis=(1, 2))[:, None],
        saturation.std(axis=(1, 2))[:, None],
        hues,
        colourfulness[:, None],
        warmth[:, None],
    ]
    return np.concatenate(columns, axis=1)


def _grid(values: Array) -> Array:
    """Return the means [T, 9] of a 3 x 3 grid."""
    bands = np.array_split(values, 3, axis=1)
    means = []
    for band in bands:
        for cell in np.array_split(band, 3, axis=2):
            means.append(cell.mean(axis=(1, 2)))
    return np.stack(means, axis=1)


def _edges(luma: Array) -> Array:
    across = luma[:, 1:-1, 2:] - luma[:, 1:-1, :-2]
    down = luma[:, 2:, 1:-1] - luma[:, :-2, 1:-1]
    strength = np.hypot(across, down)
    # Shifted too, so that vertical and horizontal edges are in the middle of a bin.
    turn = (np.arctan2(down, across) / np.pi + 1 / 16) % 1.0
    columns = [
        _shares(turn, strength, 8),
        strength.mean(axis=(1, 2))[:, None],
        (strength > _STRONG).mean(axis=(1, 2))[:, None],
    ]
    return np.concatenate(columns, axis=1)


def _balance(luma: Array) -> Array:
    half = luma.shape[2] // 2
    left = luma[:, :, :half].mean(axis=(1, 2))
    right = luma[:, :, -half:].mean(axis=(1, 2))
    edge = luma.shape[1] // 4
    centre = luma[:, edge:-edge, edge:-edge]
    sum_of_border = luma.sum(axis=(1, 2)) - centre.sum(axis=(1, 2))
    n_border = luma[0].size - centre[0].size
    mean_of_border = sum_of_border / n_border
    middle = centre.mean(axis=(1, 2)) - mean_of_border
    return np.stack([left - right, middle], axis=1)


def _motion(luma: Array, shares: Array) -> Array:
    change = np.diff(luma, axis=0, prepend=luma[:1])
    size = np.abs(change)
    cut = np.abs(np.diff(shares, axis=0, prepend=shares[:1])).sum(axis=1) / 2
    total = size.sum(axis=(1, 2))
    centres = []
    for axis in (1, 2):
        profile = size.sum(axis=axis)
        length = profile.shape[1]
        places = (np.arange(length) + 0.5) / length
        centre = np.full_like(total, 0.5)
        np.divide(profile @ places, total, out=centre, where=total > 1e-9)
        centres.append(centre[:, None])
    columns = [
        size.mean(axis=(1, 2))[:, None],
        size.std(axis=(1, 2))[:, None],
        (size > _CHANGED).mean(axis=(1, 2))[:, None],
        change.mean(axis=(1, 2))[:, None],
        _grid(size),
        cut[:, None],
        *centres,
    ]
    return np.concatenate(columns, axis=1)

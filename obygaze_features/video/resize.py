"""Resize pictures for models in integer arithmetic, with the same result in every version.

Image libraries change their filters between releases. Here, NumPy computes a table of integer
weights, and a resized pixel is a weighted sum of integers, equal to the pixel of Pillow or OpenCV
to the bit. First SciPy computes the sums. After some pictures, compiled code computes them, if
Numba is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.core.files import sha256_bytes

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Pixels = npt.NDArray[np.uint8]
Taps = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
"""For each output position, its input positions and their integer weights."""

_OPENCV_BITS = 11
# Importing Numba and reading compiled code takes as long as resizing some hundred pictures.
COMPILED_AFTER = 200
# Weights are integer multiples of 2 ** -BITS, as in Pillow.
BITS = 22
# How many rows are resized at once, and how many weights are added at once.
_ROWS = 48
_TAPS = 4
_REACH = {"bilinear": 1.0, "bicubic": 2.0}


@dataclass(frozen=True)
class Resize:
    """The resizing of a picture for a model.

    If `fit` is "shortest-edge", `edge` is the length in pixels of the shortest edge, and the
    proportions are kept. If `fit` is "squash", `edge` is the length of both edges. `crop` is the
    edge of the square that is cut from the middle (0: no crop). `filter` is "bilinear", "bicubic"
    or "nearest". The crop begins after half of the pixels that are left over; `crop_offset` is how
    this half is rounded: "floor" or "round". `squash_first` is the edge of a square to which the
    picture is first resized, as OpenCV does (0: none). `target` is the (height, width) of a result
    that is not square. It replaces `edge` and `crop`: if `fit` is "squash", a picture is squashed
    to the target; if not, it is resized until it covers the target, and cropped.
    """

    edge: int
    crop: int = 0
    fit: str = "shortest-edge"
    filter: str = "bicubic"
    crop_offset: str = "floor"
    squash_first: int = 0
    target: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Convert a target that is a list, as in JSON, to a tuple."""
        if self.target is not None:
            object.__setattr__(self, "target", tuple(self.target))

    def __call__(self, pictures: Any) -> Pixels:
        """Return pictures [T, H, W, 3] uint8 resized and cropped."""
        pictures = np.asarray(pictures)
        if self.squash_first:
            pictures = squash_like_opencv(pictures, self.squash_first)
        size, box = self.size_and_box(*pictures.shape[1:3])
        return resize_crop(pictures, size, box, self.filter)

    def shape(self, height: int, width: int) -> tuple[int, int]:
        """Return (height, width) of the result for pictures of this height and width."""
        if self.squash_first:
            height = width = self.squash_first
        return self.size_and_box(height, width)[1][2:]

    def recipe(self) -> dict[str, Any]:
        """Return the settings, and a hash of test pictures that were resized with them."""
        settings = asdict(self)
        settings["target"] = list(self.target or ())
        if self.target is None:
            del settings["target"]
        return {
            **settings,
            "behaviour_sha256": sha256_bytes(self(make_test_picture()).tobytes()),
        }

    def size_and_box(
        self, height: int, width: int
    ) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
        """Return the size before the crop, and the crop's top, left, height and width."""
        least = self.target or (self.edge, self.edge)
        to_height, to_width = least
        size = least
        if self.fit != "squash" and height * to_width >= width * to_height:
            size = (max(to_height, to_width * height // width), to_width)
        elif self.fit != "squash":
            size = (to_height, max(to_width, to_height * width // height))
        box = size
        if self.target or self.crop:
            box = self.target or (self.crop, self.crop)
        rounds = self.crop_offset == "round"
        spare = (size[0] - box[0], size[1] - box[1])
        top, left = (round(n / 2) if rounds else n // 2 for n in spare)
        return size, (top, left, *box)


def float_taps(
    n_in: int, n_out: int, kernel: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the first input pixel of each output pixel, and the weights of the pixels from there.

    The weights are antialiased: if pictures shrink, the kernel is widened by the ratio of sizes.
    """
    scale = n_in / n_out
    widen = max(scale, 1.0)
    reach = _REACH[kernel] * widen
    centre = (np.arange(n_out) + 0.5) * scale
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach + 0.5).astype(np.int64), n_in)
    count = int(np.ceil(reach)) * 2 + 1
    weights = np.zeros((n_out, count))
    total = np.zeros(n_out)
    for k in range(count):
        x = np.abs((first + k - centre + 0.5) * (1.0 / widen))
        if kernel == "bilinear":
            value = np.maximum(1.0 - x, 0.0)
        else:
            # Keys' kernel with a = -0.5, in the form that rounds as Pillow's does.
            a = -0.5
            inner = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
            outer = (((x - 5.0) * x + 8.0) * x - 4.0) * a
            value = np.where(x < 1.0, inner, np.where(x < 2.0, outer, 0.0))
        weights[:, k] = np.where(first + k < last, value, 0.0)
        total += weights[:, k]
    weights /= total[:, None]
    return first, weights


def pillow_taps(n_in: int, n_out: int, kernel: str) -> Taps:
    """Return the inputs and integer weights of each output pixel, as Pillow computes them."""
    first, weights = float_taps(n_in, n_out, kernel)
    index = np.minimum(first[:, None] + np.arange(weights.shape[1]), n_in - 1)
    half = np.where(weights < 0, -0.5, 0.5)
    return index, np.trunc(weights * (1 << BITS) + half).astype(np.int32)


def opencv_taps(n_in: int, n_out: int, down: bool) -> Taps:
    """Return two inputs and weights for each output pixel, as in OpenCV's linear resize.

    There is no antialiasing. Beyond the border, both inputs are the pixel at the edge. Across,
    OpenCV gives all weight to one of them. Down (`down`), it rounds and adds both weighted pixels.
    """
    at = ((np.arange(n_out) + 0.5) * (1.0 / (n_out / n_in)) - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    part = at - first.astype(np.float32)
    if not down:
        part = np.where((first < 0) | (first >= n_in - 1), np.float32(0), part)
    scale = np.float32(1 << _OPENCV_BITS)
    weight = np.rint(np.stack([(np.float32(1) - part) * scale, part * scale], axis=1))
    index = np.clip(np.stack([first, first + 1], axis=1), 0, n_in - 1)
    return index, weight.astype(np.int32)


def resize_crop(
    pictures: Pixels,
    size: tuple[int, int],
    box: tuple[int, int, int, int],
    kernel: str,
) -> Pixels:
    """Resize pictures [T, H, W, 3] to `size`, and return only `box` (top, left, height, width).

    To the bit, the result equals an antialiased resize of Pillow, followed by a crop: pictures are
    first resized across, rounded to uint8, and then resized down. The kernel "nearest" takes the
    old pixel at the centre of each new pixel.
    """
    top, left, height, width = box
    n_rows, n_columns = pictures.shape[1:3]
    if kernel == "nearest":
        rows = nearest_positions(n_rows, size[0])
        columns = nearest_positions(n_columns, size[1])
        return pictures[:, rows[top : top + height]][:, :, columns[left : left + width]]
    down = resize_axis(n_rows, size[0], top, height, kernel)
    across = resize_axis(n_columns, size[1], left, width, kernel)
    resized = []
    for picture in pictures:
        resized.append(_down(_across(picture[down.chosen], across), down))
    return np.stack(resized)


def nearest_positions(n_in: int, n_out: int) -> npt.NDArray[np.int64]:
    """Return the position of the input pixel at the centre of each output pixel."""
    return ((np.arange(n_out) + 0.5) * n_in / n_out).astype(np.int64)


@dataclass(frozen=True, eq=False)
class ResizeAxis:
    """How pictures are resized along an axis.

    `chosen` is the range of input pixels that are read. `first` is the first input of each output
    pixel, and `weights` are the weights of the inputs from there on. `matrix` holds the same
    weights for SciPy. If the size does not change, `weights` is empty and `matrix` is None.
    """

    chosen: slice
    first: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int32]
    matrix: csr_matrix | None


@lru_cache(maxsize=64)
def resize_axis(
    n_in: int, n_out: int, start: int, length: int, kernel: str
) -> ResizeAxis:
    """Return how `length` output pixels, from `start` on, are computed from input pixels."""
    if n_in == n_out:
        nothing = np.zeros((0, 0), np.int32)
        part = slice(start, start + length)
        return ResizeAxis(part, np.zeros(0, np.int64), nothing, None)
    index, weights = pillow_taps(n_in, n_out, kernel)
    index = index[start : start + length]
    weights = weights[start : start + length]
    begin = int(index.min())
    stop = int(index.max()) + 1
    matrix = _matrix(index - begin, weights, stop - begin)
    # Zeros are appended, so that weights can be added four at a time.
    n_more = -weights.shape[1] % _TAPS
    padded = np.pad(weights, ((0, 0), (0, n_more)))
    return ResizeAxis(slice(begin, stop), index[:, 0] - begin, padded, matrix)


def _across(picture: Pixels, axis: ResizeAxis) -> Pixels:
    """Resize one picture [H, W, 3] across."""
    part = picture[:, axis.chosen]
    if axis.matrix is None:
        return part
    kernels = kernels_after(1)
    if kernels is None:
        return _resize_lines(axis.matrix, part.swapaxes(0, 1)).swapaxes(0, 1)
    # The columns are a view of whole rows: a contiguous part would have to be copied first.
    rows = np.ascontiguousarray(picture).reshape(len(picture), -1)
    columns = rows[:, 3 * axis.chosen.start : 3 * axis.chosen.stop]
    resized = np.empty((len(rows), 3 * len(axis.first)), np.uint8)
    kernels.across(columns, axis.first, axis.weights, resized)
    return resized.reshape(len(rows), -1, 3)


def _down(part: Pixels, axis: ResizeAxis) -> Pixels:
    """Resize one picture down; `part` contains only the rows that are needed."""
    if axis.matrix is None:
        return part
    kernels = kernels_after(0)
    if kernels is None:
        return _resize_lines(axis.matrix, part)
    rows = np.ascontiguousarray(part).reshape(len(part), -1)
    resized = np.empty((len(axis.first), rows.shape[1]), np.uint8)
    kernels.down(rows, axis.first, axis.weights, resized)
    return resized.reshape(len(axis.first), -1, 3)


def _resize_lines(matrix: csr_matrix, lines: Pixels) -> Pixels:
    """Return the weighted sums of lines of pixels, rounded to values from 0 to 255."""
    sums = _sums(matrix, lines)
    sums += 1 << (BITS - 1)
    sums >>= BITS
    return sums.clip(0, 255, out=sums).astype(np.uint8)


def _matrix(
    index: npt.NDArray[np.int64], weight: npt.NDArray[np.int32], n_in: int
) -> csr_matrix:
    # Imported late, since decoding full pictures does not need it.
    from scipy.sparse import csr_matrix

    n_out, n_taps = index.shape
    rows = np.repeat(np.arange(n_out), n_taps)
    return csr_matrix((weight.ravel(), (rows, index.ravel())), shape=(n_out, n_in))


def _sums(weights: csr_matrix, lines: Pixels) -> npt.NDArray[np.int32]:
    """Return the weighted sums along the first axis, in int32."""
    flat = lines.astype(np.int32, order="C").reshape(len(lines), -1)
    sums: Any = weights @ flat
    return np.asarray(sums).reshape(-1, *lines.shape[1:])


def squash_like_opencv(pictures: Pixels, size: int) -> Pixels:
    """Squash pictures [T, H, W, 3] to a square as cv2.resize does by default."""
    height, width = pictures.shape[1:3]
    if (height, width) == (size, size):
        return pictures
    across = _matrix(*opencv_taps(width, size, False), width)
    rows, weights = opencv_taps(height, size, True)
    squashed = []
    for picture in pictures:
        sums = _sums(across, picture.swapaxes(0, 1)).swapaxes(0, 1) >> 4  # [H, size, 3]
        total = np.full((size, size, 3), 2, np.int32)
        for k in range(2):
            total += sums[rows[:, k]] * weights[:, k, None, None] >> 16
        squashed.append((total >> 2).clip(0, 255).astype(np.uint8))
    return np.stack(squashed)


def make_test_picture() -> Pixels:
    """Return two pictures of edges, ramps and a coarse texture, whose resized pixels are hashed."""
    t, y, x, c = np.ogrid[0:2, 0:301, 0:397, 0:3]
    value = (x * (3 + c) + y * (5 - c) + (x * y) // 7 + t * 40) % 256
    blocks = ((x // 16 + y // 16 + c) % 2) * 90
    return np.asarray((value + blocks) % 256, dtype=np.uint8)


# --- Compiled by Numba: the same bits in less than half of the time ---

_n_resized = 0


class Kernels(NamedTuple):
    """The compiled functions that resize along an axis."""

    across: Callable[..., None]
    down: Callable[..., None]


def kernels_after(n_pictures: int) -> Kernels | None:
    """Count resized pictures, and return the compiled functions if there were enough of them.

    Return None for the first `COMPILED_AFTER` pictures, and if Numba is missing or does not work.
    """
    global _n_resized
    _n_resized += n_pictures
    return compiled_kernels() if _n_resized > COMPILED_AFTER else None


@cache
def compiled_kernels() -> Kernels | None:
    """Return the compiled functions; None where Numba is missing or cannot be used."""
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        numba = importlib.import_module("numba")
    except ImportError:  # it was made for another version of NumPy
        return None
    compiled = numba.njit(cache=True, nogil=True)
    try:
        return Kernels(compiled(_sums_across), compiled(_sums_down))
    except RuntimeError:  # no folder for compiled code can be written to
        compiled = numba.njit(nogil=True)
        return Kernels(compiled(_sums_across), compiled(_sums_down))


def _sums_across(rows: Any, first: Any, weights: Any, resized: Any) -> None:
    """Resize rows [H, W * 3] across.

    Several rows are transposed together, so that the values of a column lie next to each other.
    """
    n_rows, n_values = rows.shape
    n_out, n_taps = weights.shape
    lanes = 3 * _ROWS
    half = np.int32(1 << (BITS - 1))
    turned = np.zeros((n_values + 3 * n_taps) * _ROWS, np.uint8)
    sums = np.zeros(lanes, np.int32)
    levels = np.zeros(lanes, np.uint8)
    for top in range(0, n_rows, _ROWS):
        height = min(_ROWS, n_rows - top)
        for x in range(n_values):
            for y in range(height):
                turned[x * _ROWS + y] = rows[top + y, x]
        for out in range(n_out):
            begin = first[out] * lanes
            for lane in range(lanes):
                sums[lane] = half
            for tap in range(0, n_taps, _TAPS):
                at = begin + tap * lanes
                part = turned[at : at + _TAPS * lanes]
                a = weights[out, tap]
                b = weights[out, tap + 1]
                c = weights[out, tap + 2]
                d = weights[out, tap + 3]
                for lane in range(lanes):
                    sums[lane] += (
                        a * np.int32(part[lane])
                        + b * np.int32(part[lanes + lane])
                        + c * np.int32(part[2 * lanes + lane])
                        + d * np.int32(part[3 * lanes + lane])
                    )
            for lane in range(lanes):
                level = sums[lane] >> BITS
                levels[lane] = min(np.int32(255), max(np.int32(0), level))
            for y in range(height):
                for channel in range(3):
                    resized[top + y, 3 * out + channel] = levels[channel * _ROWS + y]


def _sums_down(rows: Any, first: Any, weights: Any, resized: Any) -> None:
    """Resize rows [H, W * 3] down."""
    last = len(rows) - 1
    n_values = rows.shape[1]
    half = np.int32(1 << (BITS - 1))
    sums = np.zeros(n_values, np.int32)
    for out in range(len(first)):
        for x in range(n_values):
            sums[x] = half
        for tap in range(0, weights.shape[1], 2):
            a = weights[out, tap]
            b = weights[out, tap + 1]
            # Beyond the last row the weights are 0.
            row = rows[min(first[out] + tap, last)]
            next_row = rows[min(first[out] + tap + 1, last)]
            for x in range(n_values):
                sums[x] += a * np.int32(row[x]) + b * np.int32(next_row[x])
        for x in range(n_values):
            level = sums[x] >> BITS
            resized[out, x] = min(np.int32(255), max(np.int32(0), level))

"""Permutation p-values of a difference of group means: counted exactly, or sampled and said so.

The groups are exchanged within blocks (films), because items of one film are not exchangeable
with those of another; without blocks all items are one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, erfc, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput

Floats = NDArray[np.float64]

# Two halves of 2**24 sums each are 48 items, a quarter of a gigabyte and some seconds.
MAX_LOG2_HALF = 24.0
# Shuffles at a time: few enough for their items to stay near the processor.
CHUNK, POOL = 1 << 15, 1 << 19


@dataclass(frozen=True)
class PValue:
    """One-sided and two-sided p, and how they were come by."""

    greater: float
    less: float
    two_sided: float
    method: str
    n: int
    n_greater: int
    z: float | None = None

    @property
    def normal(self) -> dict[str, float] | None:
        """The closed normal form of the three: the permutations' own mean and variance."""
        if self.z is None:
            return None
        greater, less = (0.5 * erfc(z / sqrt(2)) for z in (self.z, -self.z))
        return {"greater": greater, "less": less, "two_sided": erfc(abs(self.z) / sqrt(2))}

    def to_json(self) -> dict[str, Any]:
        """The values with the name of their method, and the normal form under its own."""
        return {
            "greater": self.greater,
            "less": self.less,
            "two_sided": self.two_sided,
            "method": self.method,
            "n": self.n,
            "n_greater": self.n_greater,
            "normal": self.normal,
        }


@dataclass(frozen=True)
class _Block:
    """Items that may change sides with each other, `taken` of which are in the first group."""

    values: Floats
    taken: int

    @property
    def log2_size(self) -> float:
        return log2(comb(len(self.values), self.taken))

    @property
    def variance(self) -> float:
        """That of the sum of the items taken, over all ways to take them."""
        n = len(self.values)
        if self.taken in {0, n}:
            return 0.0
        return self.taken * (n - self.taken) / n * float(self.values.var(ddof=1))


@dataclass(frozen=True)
class _Bounds:
    """What a permuted sum of the first group is compared with; ties count as reached."""

    observed: float
    mean: float
    variance: float
    tolerance: float

    @property
    def distance(self) -> float:
        return abs(self.observed - self.mean)

    @property
    def z(self) -> float | None:
        """How many standard deviations off the mean; None where the sum cannot vary."""
        if self.variance <= self.tolerance**2:
            return None
        return (self.observed - self.mean) / sqrt(self.variance)


def permutation_p(
    values: ArrayLike,
    is_first: ArrayLike,
    block: ArrayLike | None = None,
    *,
    permutations: int = 1_000_000,
    seed: int = 0,
) -> PValue:
    """How often groups made at random would have a difference of means as large as this one.

    Exact where both halves of a meet in the middle fit into memory, else sampled with `seed`.
    """
    blocks, bounds = _problem(values, is_first, block)
    halves = _split(blocks)
    if halves is None:
        return _sampled(blocks, bounds, permutations, seed)
    return _exact(*halves, bounds)


def sampled_p(
    values: ArrayLike,
    is_first: ArrayLike,
    block: ArrayLike | None = None,
    *,
    permutations: int = 1_000_000,
    seed: int = 0,
) -> PValue:
    """The same by seeded permutations, even where all of them could be counted."""
    return _sampled(*_problem(values, is_first, block), permutations, seed)


def _problem(
    values: ArrayLike, is_first: ArrayLike, block: ArrayLike | None
) -> tuple[list[_Block], _Bounds]:
    s, first = np.asarray(values, dtype=np.float64), np.asarray(is_first, dtype=bool)
    labels = np.zeros(len(s), dtype=np.int64) if block is None else np.asarray(block)
    if not (s.shape == first.shape == labels.shape) or s.ndim != 1:
        raise FixInput("values, groups and blocks must be lists of one length")
    if not np.isfinite(s).all():
        raise FixInput(f"value {int(np.argmin(np.isfinite(s)))} is not a number")
    if not first.any() or first.all():
        raise FixInput("both groups need at least one item")
    members = [labels == label for label in np.unique(labels)]
    blocks = [_Block(s[inside], int(first[inside].sum())) for inside in members]
    mean = sum(part.taken * float(part.values.mean()) for part in blocks)
    tolerance = 1e-10 * max(1.0, float(np.abs(s).sum()))
    variance = sum(part.variance for part in blocks)
    return blocks, _Bounds(float(s[first].sum()), mean, variance, tolerance)


def normal_p(effect_size: float, n_first: int, n_second: int) -> float:
    """The closed normal approximation to the one-sided permutation p of a standardised effect."""
    return 0.5 * erfc(effect_size * sqrt(n_first * n_second / (n_first + n_second)) / sqrt(2))


@dataclass(frozen=True)
class _Half:
    """Some whole blocks, and a part of the one block that is cut in two."""

    whole: Sequence[_Block]
    part: Floats

    @property
    def log2_size(self) -> float:
        return sum(block.log2_size for block in self.whole) + len(self.part)


def _split(blocks: Sequence[_Block]) -> tuple[_Half, _Half, int] | None:
    """Share the blocks out into two halves of like size, the largest one cut; None: too many."""
    largest, *others = sorted(blocks, key=lambda block: -block.log2_size)
    best: tuple[_Half, _Half, int] | None = None
    for cut in range(len(largest.values) + 1):
        sides: tuple[list[_Block], list[_Block]] = ([], [])
        sizes = [float(cut), float(len(largest.values) - cut)]
        for block in others:
            smaller = int(sizes[1] < sizes[0])
            sides[smaller].append(block)
            sizes[smaller] += block.log2_size
        left = _Half(sides[0], largest.values[:cut])
        right = _Half(sides[1], largest.values[cut:])
        size = max(left.log2_size, right.log2_size)
        if best is None or size < max(best[0].log2_size, best[1].log2_size):
            best = left, right, largest.taken
    if best is None or max(best[0].log2_size, best[1].log2_size) > MAX_LOG2_HALF:
        return None
    return best


def _exact(left: _Half, right: _Half, taken: int, bounds: _Bounds) -> PValue:
    left_sums, right_sums = _sums_by_size(left, taken), _sums_by_size(right, taken)
    counts = np.zeros(4, dtype=object)
    total = 0
    for size, sums in enumerate(left_sums):
        other = taken - size
        if not len(sums) or other >= len(right_sums) or not len(right_sums[other]):
            continue
        total += len(sums) * len(right_sums[other])
        counts += _count_pairs(np.sort(sums), np.sort(right_sums[other]), bounds)
    greater, less, above, below = (int(count) for count in counts)
    # At a distance of nothing, above and below overlap and every split is as far.
    two_sided = total if bounds.distance <= bounds.tolerance else above + below
    return PValue(
        greater / total, less / total, two_sided / total, "exact", total, greater, bounds.z
    )


def _sums_by_size(half: _Half, taken: int) -> list[Floats]:
    """All sums of the half, by how many items of the cut block they take."""
    base = np.zeros(1)
    for block in half.whole:
        base = np.add.outer(base, _subset_sums(block.values, block.taken)[block.taken]).ravel()
    return [np.add.outer(base, sums).ravel() for sums in _subset_sums(half.part, taken)]


def _subset_sums(values: Floats, largest: int) -> list[Floats]:
    """The sums of all subsets, by the size of the subset, up to a size."""
    sums = [np.zeros(1), *(np.zeros(0) for _ in range(min(largest, len(values))))]
    for value in values:
        for size in range(len(sums) - 1, 0, -1):
            sums[size] = np.concatenate([sums[size], sums[size - 1] + value])
    return sums


def _count_pairs(left: Floats, right: Floats, bounds: _Bounds) -> NDArray[np.object_]:
    """How many sums left + right are >= and <= the observed, and as far above and below."""
    low, high = bounds.mean - bounds.distance, bounds.mean + bounds.distance
    return np.array(
        [
            _n_reaching(left, right, bounds.observed - bounds.tolerance),
            _n_up_to(left, right, bounds.observed + bounds.tolerance),
            _n_reaching(left, right, high - bounds.tolerance),
            _n_up_to(left, right, low + bounds.tolerance),
        ],
        dtype=object,
    )


def _n_reaching(left: Floats, right: Floats, bound: float) -> int:
    below = np.searchsorted(right, bound - left, side="left")
    return len(left) * len(right) - int(below.sum())


def _n_up_to(left: Floats, right: Floats, bound: float) -> int:
    return int(np.searchsorted(right, bound - left, side="right").sum())


def _sampled(blocks: Sequence[_Block], bounds: _Bounds, permutations: int, seed: int) -> PValue:
    """A random subset of each block, many times; the observed one counts as one of them."""
    generator = np.random.default_rng(seed)
    greater = less = far = 0
    largest = max(len(block.values) for block in blocks)
    chunk = int(np.clip(POOL // largest, 256, CHUNK))
    for start in range(0, permutations, chunk):
        size = min(chunk, permutations - start)
        sums = np.zeros(size)
        for block in blocks:
            sums += _random_sums(block, size, generator)
        greater += int((sums >= bounds.observed - bounds.tolerance).sum())
        less += int((sums <= bounds.observed + bounds.tolerance).sum())
        far += int((np.abs(sums - bounds.mean) >= bounds.distance - bounds.tolerance).sum())
    n = permutations + 1
    method = f"sampled, {permutations} permutations, seed {seed}"
    return PValue(
        (greater + 1) / n, (less + 1) / n, (far + 1) / n, method, n, greater + 1, bounds.z
    )


def _random_sums(block: _Block, size: int, generator: np.random.Generator) -> Floats:
    """The sums of random subsets: the first steps of a shuffle, in `size` shuffles at once."""
    n, taken = len(block.values), block.taken
    total = float(block.values.sum())
    if taken in {0, n}:
        return np.full(size, total if taken else 0.0)
    # The items left out are as random as those taken, and may be fewer.
    fewer = min(taken, n - taken)
    # A row for each item and a column for each shuffle, so that a step reads whole rows.
    pool = np.repeat(block.values, size)
    columns, sums = np.arange(size), np.zeros(size)
    for step in range(fewer):
        drawn = generator.integers(step, n, size=size, dtype=np.int32) * np.int64(size) + columns
        sums += pool[drawn]
        pool[drawn] = pool[step * size : (step + 1) * size]
    return sums if fewer == taken else total - sums

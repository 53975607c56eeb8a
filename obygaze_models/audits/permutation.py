"""Permutation p-values of a difference of group means, counted exactly or sampled.

Items are exchanged only within blocks (films), because items of different films are not
exchangeable. Without blocks all items form one block.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import comb, erfc, log2, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import hypergeom

from obygaze_features.core.errors import FixInput

Floats = NDArray[np.float64]

# Two halves of 2**24 sums each: 48 items, 0.25 GB and a few seconds.
MAX_LOG2_HALF = 24.0
# Shuffles at a time: their items must fit into the processor's cache.
CHUNK, POOL = 1 << 15, 1 << 19


@dataclass(frozen=True)
class PValue:
    """One-sided and two-sided p-values, and how they were computed.

    `n` is the number of permutations and `n_greater` how many of them reach the observed value;
    `normal` holds the three p-values of a normal with the permutations' own mean and variance,
    None if all permutations give the same value. All three are None for `occurrence_p`.
    """

    greater: float
    less: float
    two_sided: float
    method: str
    n: int | None = None
    n_greater: int | None = None
    normal: dict[str, float] | None = None


@dataclass(frozen=True)
class _Block:
    """Items that can be exchanged with each other; `taken` of them are in the first group."""

    values: Floats
    taken: int

    @property
    def log2_size(self) -> float:
        return log2(comb(len(self.values), self.taken))

    @property
    def variance(self) -> float:
        """The variance of the sum of the taken items, over all ways to take them."""
        n = len(self.values)
        if self.taken in {0, n}:
            return 0.0
        return self.taken * (n - self.taken) / n * float(self.values.var(ddof=1))


def permutation_p(
    values: ArrayLike,
    is_first: ArrayLike,
    block: ArrayLike | None = None,
    *,
    permutations: int = 1_000_000,
    seed: int = 0,
    exact: bool = True,
) -> PValue:
    """Return how often random groups have a difference of means as large as the observed one.

    Args:
        values: One number for each item.
        is_first: True for the items of the first group.
        block: The block (film) of each item; items are exchanged only within a block.
        permutations: How many permutations are drawn if they are too many to count.
        seed: The seed of these draws.
        exact: Count all permutations if they fit into memory; False draws them always.
    """
    s, first = np.asarray(values, dtype=np.float64), np.asarray(is_first, dtype=bool)
    labels = np.zeros(len(s), dtype=np.int64) if block is None else np.asarray(block)
    if not (s.shape == first.shape == labels.shape) or s.ndim != 1:
        shapes = f"{s.shape}, {first.shape} and {labels.shape}"
        raise FixInput(f"values, groups and blocks must be lists of one length, got {shapes}")
    if not np.isfinite(s).all():
        raise FixInput(f"value {int(np.argmin(np.isfinite(s)))} is not a finite number")
    if not first.any() or first.all():
        raise FixInput("both groups need at least one item")
    members = [labels == label for label in np.unique(labels)]
    blocks = [_Block(s[inside], int(first[inside].sum())) for inside in members]
    halves = _split(blocks) if exact else None
    sums = _all_sums(*halves) if halves else _random_sums(blocks, permutations, seed)
    observed = float(s[first].sum())
    mean = sum(block.taken * float(block.values.mean()) for block in blocks)
    tolerance = 1e-10 * max(1.0, float(np.abs(s).sum()))
    # The observed groups count as one of the sampled permutations.
    counts = _count(sums, observed, mean, tolerance)
    greater, less, far, n = (count + (halves is None) for count in counts)
    variance = sum(block.variance for block in blocks)
    normal = None
    if variance > tolerance**2:
        z = (observed - mean) / sqrt(variance)
        above, below = (0.5 * erfc(value / sqrt(2)) for value in (z, -z))
        normal = {"greater": above, "less": below, "two_sided": erfc(abs(z) / sqrt(2))}
    method = "exact" if halves else f"sampled, {permutations} permutations, seed {seed}"
    return PValue(greater / n, less / n, far / n, method, n, greater, normal)


def occurrence_p(
    occurs: NDArray[np.bool_], is_first: NDArray[np.bool_], block: ArrayLike | None = None
) -> PValue:
    """Return the p-values of `permutation_p` for yes and no, of any number of items.

    How many of a block's items with a yes are in the first group has a hypergeometric distribution,
    and the distribution of the sum over the blocks is their convolution.

    Args:
        occurs: Yes or no for each item.
        is_first: True for the items of the first group.
        block: The block (film) of each item; items are exchanged only within a block.
    """
    lowest, chances = 0, np.ones(1)
    labels = np.zeros(len(occurs)) if block is None else np.asarray(block)
    for label in np.unique(labels):
        inside = labels == label
        n, n_yes, taken = (int(v[inside].sum()) for v in (inside, occurs, is_first))
        least, most = max(0, taken + n_yes - n), min(n_yes, taken)
        possible = hypergeom.pmf(np.arange(least, most + 1), n, n_yes, taken)
        lowest, chances = lowest + least, np.convolve(chances, possible)
    counts, observed = lowest + np.arange(len(chances)), int(occurs[is_first].sum())
    mean = float(chances @ counts)
    far = np.abs(counts - mean) >= abs(observed - mean) - 1e-9 * len(occurs)
    ends = (counts >= observed, counts <= observed, far)
    greater, less, two_sided = (min(1.0, float(chances[end].sum())) for end in ends)
    return PValue(greater, less, two_sided, "exact")


# Whole blocks, and a part of the one block that is split in two.
_Half = tuple[Sequence[_Block], Floats]


def _split(blocks: Sequence[_Block]) -> tuple[_Half, _Half, int] | None:
    """Distribute the blocks over two halves of similar size, with the largest block split.

    The third value is how many items of the split block are taken; None if a half is too large.
    """
    largest, *others = sorted(blocks, key=lambda block: -block.log2_size)
    options: list[tuple[float, _Half, _Half]] = []
    for cut in range(len(largest.values) + 1):
        sides: tuple[list[_Block], list[_Block]] = ([], [])
        log2_sizes = [float(cut), float(len(largest.values) - cut)]
        for block in others:
            smaller = int(log2_sizes[1] < log2_sizes[0])
            sides[smaller].append(block)
            log2_sizes[smaller] += block.log2_size
        parts = (largest.values[:cut], largest.values[cut:])
        options.append((max(log2_sizes), (sides[0], parts[0]), (sides[1], parts[1])))
    log2_size, left, right = min(options, key=lambda option: option[0])
    return (left, right, largest.taken) if log2_size <= MAX_LOG2_HALF else None


def _count(
    sums: Iterable[tuple[Floats, Floats]], observed: float, mean: float, tolerance: float
) -> tuple[int, int, int, int]:
    """Return how many sums are as great, as small, and as far from the mean as observed, and all.

    The sums are those of each pair of lists: every number of one plus every number of the other.
    """
    distance = abs(observed - mean)
    total = greater = less = far = 0
    for left, right in sums:
        steps, others, n = np.sort(left), np.sort(right), len(left) * len(right)
        below, above = observed - tolerance - steps, observed + tolerance - steps
        nearer, farther = mean + distance - tolerance - steps, mean - distance + tolerance - steps
        total += n
        greater += n - int(np.searchsorted(others, below).sum())
        less += int(np.searchsorted(others, above, side="right").sum())
        far += n - int(np.searchsorted(others, nearer).sum())
        far += int(np.searchsorted(others, farther, side="right").sum())
    # If the distance is zero, every permutation is as far, and `far` counts some of them twice.
    return greater, less, total if distance <= tolerance else far, total


def _all_sums(left: _Half, right: _Half, taken: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield the sums of both halves, by how many items of the split block the left one takes."""
    others = _sums_by_size(*right, taken)
    for size, sums in enumerate(_sums_by_size(*left, taken)):
        if taken - size < len(others):
            yield sums, others[taken - size]


def _sums_by_size(whole: Sequence[_Block], part: Floats, taken: int) -> list[Floats]:
    """Return all sums of a half, by how many items of the split block they take."""
    base = np.zeros(1)
    for block in whole:
        base = np.add.outer(base, _subset_sums(block.values, block.taken)[block.taken]).ravel()
    return [np.add.outer(base, sums).ravel() for sums in _subset_sums(part, taken)]


def _subset_sums(values: Floats, largest: int) -> list[Floats]:
    """Return the sums of all subsets, by the size of the subset, up to a size."""
    sums = [np.zeros(1), *(np.zeros(0) for _ in range(min(largest, len(values))))]
    for value in values:
        for size in range(len(sums) - 1, 0, -1):
            sums[size] = np.concatenate([sums[size], sums[size - 1] + value])
    return sums


def _random_sums(
    blocks: Sequence[_Block], permutations: int, seed: int
) -> Iterator[tuple[Floats, Floats]]:
    """Yield the sums of random subsets of each block, many at a time, as pairs with a zero."""
    generator = np.random.default_rng(seed)
    largest = max(len(block.values) for block in blocks)
    chunk = int(np.clip(POOL // largest, 256, CHUNK))
    for start in range(0, permutations, chunk):
        size = min(chunk, permutations - start)
        sums = np.zeros(size)
        for block in blocks:
            sums += _shuffled(block, size, generator)
        yield np.zeros(1), sums


def _shuffled(block: _Block, size: int, generator: np.random.Generator) -> Floats:
    """Return the sums of random subsets: the first steps of `size` shuffles at once."""
    n, taken = len(block.values), block.taken
    total = float(block.values.sum())
    if taken in {0, n}:
        return np.full(size, total if taken else 0.0)
    # Draw the items that are left out if they are fewer: they are as random.
    fewer = min(taken, n - taken)
    # One row per item and one column per shuffle, so that a step reads whole rows.
    pool = np.repeat(block.values, size)
    columns, sums = np.arange(size), np.zeros(size)
    for step in range(fewer):
        drawn = generator.integers(step, n, size=size, dtype=np.int32) * np.int64(size) + columns
        sums += pool[drawn]
        pool[drawn] = pool[step * size : (step + 1) * size]
    return sums if fewer == taken else total - sums

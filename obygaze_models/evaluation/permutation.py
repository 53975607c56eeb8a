"""Permutation p-values of a difference of group means, counted exactly or sampled.

Items are exchanged only within blocks (films), because items of different films are not
exchangeable. Without blocks all items form one block.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import comb, erfc, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import hypergeom

from obygaze_features.core.errors import FixInput

Floats = NDArray[np.float64]

# Two halves of 2**24 sums each: 48 items, 0.25 GB and a few seconds.
MAX_LOG2_HALF = 24.0
# Values that are few whole numbers are counted exactly up to this cost: about ten seconds.
MAX_DIFFERENT_VALUES = 12
MAX_GRID_COST = 1e10
# Of so many different sums, about a hundred lists are held at once: 1.6 GB.
MAX_SUMS = 2_000_000
# Shuffles at a time: their items must fit into the processor's cache.
CHUNK = 1 << 15
POOL = 1 << 19


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
    s = np.asarray(values, dtype=np.float64)
    first = np.asarray(is_first, dtype=bool)
    labels = np.zeros(len(s), dtype=np.int64) if block is None else np.asarray(block)
    _check_items(s, first, labels)
    blocks, observed = _exchangeable(s, first, labels)
    halves = _split(blocks) if exact and blocks else None
    is_sampled = bool(blocks) and halves is None
    if is_sampled and exact:
        grid = _value_grid(blocks)
        if grid is not None:
            return _p_on_grid(blocks, grid, observed)
    if is_sampled:
        sums = _random_sums(blocks, permutations, seed)
    elif halves is not None:
        sums = _all_sums(*halves)
    else:
        sums = iter([(np.zeros(1), np.zeros(1))])
    mean = sum(block.taken * float(block.values.mean()) for block in blocks)
    # Sums that are equal as fractions differ in their last bits, in proportion to the values.
    tolerance = 1e-10 * float(np.abs(s).sum())
    counts = _count(sums, observed, mean, tolerance)
    # The observed groups count as one of the sampled permutations.
    greater, less, far, n = (count + is_sampled for count in counts)
    variance = sum(block.variance for block in blocks)
    normal = None
    if variance > tolerance**2:
        normal = _normal_p((observed - mean) / sqrt(variance))
    method = (
        f"sampled, {permutations} permutations, seed {seed}" if is_sampled else "exact"
    )
    return PValue(greater / n, less / n, far / n, method, n, greater, normal)


def _check_items(
    values: Floats, is_first: NDArray[np.bool_], labels: NDArray[Any]
) -> None:
    """Raise an error if no group of the items can be compared with another."""
    same_length = values.shape == is_first.shape == labels.shape
    if not same_length or values.ndim != 1:
        shapes = f"{values.shape}, {is_first.shape} and {labels.shape}"
        raise FixInput(
            f"values, groups and blocks must be lists of one length, got {shapes}"
        )
    is_finite = np.isfinite(values)
    if not is_finite.all():
        raise FixInput(f"value {int(np.argmin(is_finite))} is not a finite number")
    if not is_first.any() or is_first.all():
        raise FixInput("both groups need at least one item")


def _exchangeable(
    values: Floats, is_first: NDArray[np.bool_], labels: NDArray[Any]
) -> tuple[list[_Block], float]:
    """Return the blocks with items of both groups, and the sum of their items in the first."""
    observed = float(values[is_first].sum())
    blocks: list[_Block] = []
    for label in np.unique(labels):
        inside = labels == label
        block_values = values[inside]
        n_taken = int(is_first[inside].sum())
        if n_taken in {0, len(block_values)}:
            # Nothing can be exchanged here: these items are the same in every permutation.
            observed -= float(block_values[is_first[inside]].sum())
        else:
            blocks.append(_Block(block_values, n_taken))
    return blocks, observed


def _normal_p(z: float) -> dict[str, float]:
    """Return the p-values of a standard normal, one-sided both ways and two-sided."""
    above = 0.5 * erfc(z / sqrt(2))
    below = 0.5 * erfc(-z / sqrt(2))
    return {"greater": above, "less": below, "two_sided": erfc(abs(z) / sqrt(2))}


def occurrence_p(
    occurs: NDArray[np.bool_],
    is_first: NDArray[np.bool_],
    block: ArrayLike | None = None,
) -> PValue:
    """Return the p-values of `permutation_p` for yes and no, of any number of items.

    How many of a block's items with a yes are in the first group has a hypergeometric distribution,
    and the distribution of the sum over the blocks is their convolution.

    Args:
        occurs: Yes or no for each item.
        is_first: True for the items of the first group.
        block: The block (film) of each item; items are exchanged only within a block.
    """
    labels = np.zeros(len(occurs)) if block is None else np.asarray(block)
    blocks: list[_Block] = []
    for label in np.unique(labels):
        inside = labels == label
        n_taken = int(is_first[inside].sum())
        blocks.append(_Block(occurs[inside].astype(np.float64), n_taken))
    p = _p_on_grid(blocks, _Grid(0.0, 1.0), float(occurs[is_first].sum()))
    return replace(p, normal=None)


@dataclass(frozen=True)
class _Grid:
    """Values that are all `lowest` plus a whole number of steps."""

    lowest: float
    step: float

    def numbers(self, values: Floats) -> NDArray[np.int64]:
        """Return how many steps each value is above the lowest."""
        return np.rint((values - self.lowest) / self.step).astype(np.int64)


def _value_grid(blocks: Sequence[_Block]) -> _Grid | None:
    """Return the grid of values that are few whole numbers; None if they are not, or too many."""
    values = np.unique(np.concatenate([block.values for block in blocks]))
    if len(values) > MAX_DIFFERENT_VALUES or (values != np.rint(values)).any():
        return None
    if float(np.abs(values).max()) >= 2**53:
        return None
    step = 1.0
    if len(values) > 1:
        step = float(np.gcd.reduce(np.diff(values).astype(np.int64)))
    grid = _Grid(float(values[0]), step)
    cost = 0.0
    n_sums = 1
    for block in blocks:
        n_sums_of_block = _n_sums(grid.numbers(block.values), block.taken)
        cost += _grid_cost(block, grid)
        if n_sums > 1:  # the convolution with the sums of the blocks before
            cost += float(n_sums) * float(n_sums_of_block)
        n_sums += n_sums_of_block - 1
        if cost > MAX_GRID_COST or n_sums > MAX_SUMS:
            return None
    return grid


def _n_sums(numbers: NDArray[np.int64], taken: int) -> int:
    """Return how many sums, from 0, there can be of some of the numbers."""
    largest = np.sort(numbers)[len(numbers) - taken :]
    return int(largest.sum()) + 1


def _grid_cost(block: _Block, grid: _Grid) -> float:
    """Return about how many numbers `_chances_of_sums` computes for a block."""
    numbers, n_items = np.unique(grid.numbers(block.values), return_counts=True)
    in_rare_values = float(np.sort(n_items)[:-2].sum())
    return (in_rare_values + 1) ** 2 * float(numbers[-1] + 1) * block.taken


def _p_on_grid(blocks: Sequence[_Block], grid: _Grid, observed: float) -> PValue:
    """Return the exact p-values of blocks whose values lie on a grid.

    The chances of the sum of all blocks are the convolution of those of each.
    """
    chances = np.ones(1)
    for block in blocks:
        numbers = grid.numbers(block.values)
        chances = np.convolve(chances, _chances_of_sums(numbers, block.taken))
    n_taken = sum(block.taken for block in blocks)
    n_items = sum(len(block.values) for block in blocks)
    # In whole numbers of steps, so that ties are ties.
    steps = np.arange(len(chances))
    observed_steps = round((observed - n_taken * grid.lowest) / grid.step)
    mean = float(chances @ steps)
    variance = float(chances @ (steps - mean) ** 2)
    distance = abs(observed_steps - mean)
    is_as_far = np.abs(steps - mean) >= distance - 1e-9 * n_items
    greater = min(1.0, float(chances[steps >= observed_steps].sum()))
    less = min(1.0, float(chances[steps <= observed_steps].sum()))
    two_sided = min(1.0, float(chances[is_as_far].sum()))
    normal = None
    if variance > 0:
        normal = _normal_p((observed_steps - mean) / sqrt(variance))
    return PValue(greater, less, two_sided, "exact", normal=normal)


def _chances_of_sums(numbers: NDArray[np.int64], taken: int) -> Floats:
    """Return the chance of each sum, from 0, of some of the numbers that are taken at random.

    How many items of a value are taken, given those of the values before it, has a hypergeometric
    distribution. The values come by how many items have them, the most frequent last: it has what
    is left of the items to be taken.
    """
    values, n_items = np.unique(numbers, return_counts=True)
    order = np.argsort(n_items, kind="stable")
    # The chance of each number of items taken so far, with each sum.
    chances_by_taken: dict[int, Floats] = {0: np.ones(1)}
    n_left = len(numbers)
    for index in order[:-1]:
        value = int(values[index])
        n_with_value = int(n_items[index])
        after: dict[int, Floats] = defaultdict(lambda: np.zeros(0))
        for n_before, chances in chances_by_taken.items():
            to_take = taken - n_before
            fewest = max(0, to_take + n_with_value - n_left)
            most = min(n_with_value, to_take)
            possible = np.arange(fewest, most + 1)
            possible_chances = hypergeom.pmf(possible, n_left, n_with_value, to_take)
            for n_more, chance in zip(possible.tolist(), possible_chances, strict=True):
                shifted = np.concatenate([np.zeros(n_more * value), chance * chances])
                after[n_before + n_more] = _add(after[n_before + n_more], shifted)
        chances_by_taken = after
        n_left -= n_with_value
    total = np.zeros(_n_sums(numbers, taken))
    last_value = int(values[order[-1]])
    for n_taken, chances in chances_by_taken.items():
        first_sum = (taken - n_taken) * last_value
        total[first_sum : first_sum + len(chances)] += chances
    return total


def _add(shorter: Floats, longer: Floats) -> Floats:
    """Return the sum of two arrays, of which the shorter one is followed by zeros."""
    if len(shorter) > len(longer):
        return _add(longer, shorter)
    longer[: len(shorter)] += shorter
    return longer


# Whole blocks, and a part of the one block that is split in two.
_Half = tuple[Sequence[_Block], Floats]


def _split(blocks: Sequence[_Block]) -> tuple[_Half, _Half, int] | None:
    """Distribute the blocks over two halves of similar size, with the largest block split.

    The third value is how many items of the split block are taken; None if a half is too large.
    """
    largest, *others = sorted(blocks, key=lambda block: -block.log2_size)
    options: list[tuple[float, _Half, _Half, int]] = []
    for cut in range(len(largest.values) + 1):
        log2_sizes = [float(cut), float(len(largest.values) - cut)]
        sides = _distribute(others, log2_sizes)
        left: _Half = (sides[0], largest.values[:cut])
        right: _Half = (sides[1], largest.values[cut:])
        options.append((max(log2_sizes), left, right, largest.taken))
    # A block of which few items are taken has fewer sums as a whole than in two parts.
    log2_sizes = [0.0, 0.0]
    sides = _distribute([largest, *others], log2_sizes)
    options.append(
        (max(log2_sizes), (sides[0], np.zeros(0)), (sides[1], np.zeros(0)), 0)
    )
    log2_size, left, right, taken = min(options, key=lambda option: option[0])
    return (left, right, taken) if log2_size <= MAX_LOG2_HALF else None


def _distribute(
    blocks: Sequence[_Block], log2_sizes: list[float]
) -> tuple[list[_Block], list[_Block]]:
    """Give each block to the half that is smaller by then; `log2_sizes` of the halves grow."""
    sides: tuple[list[_Block], list[_Block]] = ([], [])
    for block in blocks:
        smaller = int(log2_sizes[1] < log2_sizes[0])
        sides[smaller].append(block)
        log2_sizes[smaller] += block.log2_size
    return sides


def _count(
    sums: Iterable[tuple[Floats, Floats]],
    observed: float,
    mean: float,
    tolerance: float,
) -> tuple[int, int, int, int]:
    """Return how many sums are as great, as small, and as far from the mean as observed, and all.

    The sums are those of each pair of lists: every number of one plus every number of the other.
    """
    distance = abs(observed - mean)
    total = greater = less = far = 0
    for left, right in sums:
        steps = np.sort(left)
        others = np.sort(right)
        n = len(left) * len(right)
        below = observed - tolerance - steps
        above = observed + tolerance - steps
        nearer = mean + distance - tolerance - steps
        farther = mean - distance + tolerance - steps
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
        base = np.add.outer(base, _taken_sums(block)).ravel()
    return [np.add.outer(base, sums).ravel() for sums in _subset_sums(part, taken)]


def _taken_sums(block: _Block) -> Floats:
    """Return the sums of the taken items of a block, for all ways to take them."""
    n_left_out = len(block.values) - block.taken
    if n_left_out >= block.taken:
        return _subset_sums(block.values, block.taken)[block.taken]
    # There are as many ways to leave the others out, and fewer subsets on the way to them.
    return (
        float(block.values.sum()) - _subset_sums(block.values, n_left_out)[n_left_out]
    )


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
    n = len(block.values)
    taken = block.taken
    total = float(block.values.sum())
    if taken in {0, n}:
        return np.full(size, total if taken else 0.0)
    # Draw the items that are left out if they are fewer: they are as random.
    fewer = min(taken, n - taken)
    # One row per item and one column per shuffle, so that a step reads whole rows.
    pool = np.repeat(block.values, size)
    columns = np.arange(size)
    sums = np.zeros(size)
    for step in range(fewer):
        drawn = (
            generator.integers(step, n, size=size, dtype=np.int32) * np.int64(size)
            + columns
        )
        sums += pool[drawn]
        pool[drawn] = pool[step * size : (step + 1) * size]
    return sums if fewer == taken else total - sums


def p_text(p: float) -> str:
    """Return a p-value as papers print it, never as zero."""
    if p < 1e-4:
        return "< .0001"
    if p < 0.001:
        return f"{p:.4f}"
    return f"{p:.3f}"


def p_equals(p: float) -> str:
    """Return a p-value in a sentence: "p = 0.300" or "p < .0001"."""
    return f"p {p_text(p)}" if p < 1e-4 else f"p = {p_text(p)}"

"""Permutation p-values of differences of group means, exact or sampled, and Holm's correction.

Items are exchanged only within blocks (films), because items of different films are not
exchangeable. Without blocks all items form one block. Neighbouring items of a film are not
exchangeable either: their groups are moved along the film.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, erfc, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput

Floats = NDArray[np.float64]
# Exchangeable items, and the number of items of the first group among them.
Block = tuple[Floats, int]

# Most items of a block that is counted: two halves of 2**24 sums each, 0.25 GB, a few seconds.
MAX_ITEMS = 48
# Largest number of permutations to count for several blocks, or for a larger block.
MAX_COUNTED = 2**20
# Longer lists of probabilities are cut at both ends, where these are below NO_CHANCE.
MOST_CHANCES = 4096
NO_CHANCE = 1e-300
SEED = 0  # seed of sampled permutations
# Numbers of shuffles at a time, so that their items fit into the cache of the processor.
CHUNK = 1 << 15
POOL = 1 << 19


@dataclass(frozen=True)
class PValue:
    """One-sided and two-sided p-values, and their method.

    `n` is the number of permutations. If they are sampled, the observed groups count as one of
    them. `n_greater` is the number of permutations with at least the observed value. `normal`
    contains the three p-values of a normal distribution with the mean and variance of the
    permutations, or None if all permutations give the same value. The p-values of `occurrence_p`
    have neither `n` nor `n_greater` nor `normal`.
    """

    greater: float
    less: float
    two_sided: float
    method: str
    n: int | None = None
    n_greater: int | None = None
    normal: dict[str, float] | None = None


def permutation_p(
    values: ArrayLike,
    is_first: ArrayLike,
    block: ArrayLike | None = None,
    *,
    permutations: int = 1_000_000,
) -> PValue:
    """Return the p-values of the difference of two group means under random exchanges of items.

    Args:
        values: One number for each item.
        is_first: True for the items of the first group.
        block: The block (film) of each item; items are exchanged only within a block.
        permutations: The number of random permutations if there are too many to enumerate.
    """
    s = np.asarray(values, dtype=np.float64)
    first = np.asarray(is_first, dtype=bool)
    labels = np.zeros(len(s), dtype=np.int64) if block is None else np.asarray(block)
    _check_items(s, first, labels)
    blocks = []
    observed = mean = variance = 0.0
    for label in np.unique(labels):
        inside = labels == label
        items = s[inside]
        n = len(items)
        taken = int(first[inside].sum())
        # A block of one group has no exchanges.
        if 0 < taken < n:
            blocks.append((items, taken))
            observed += float(s[inside & first].sum())
            mean += taken * float(items.mean())
            variance += taken * (n - taken) / n * float(items.var(ddof=1))
    is_whole = len(blocks) == 1 and len(blocks[0][0]) <= MAX_ITEMS
    n_permutations = prod(comb(len(items), taken) for items, taken in blocks)
    is_sampled = not is_whole and n_permutations > MAX_COUNTED
    if is_whole:
        sums = _sums_of_halves(blocks[0])
    elif is_sampled:
        sums = _random_sums(blocks, permutations)
    else:
        sums = _all_sums(blocks)
    return _p_of_sums(
        sums, s, observed, mean, variance, permutations if is_sampled else 0
    )


def _p_of_sums(
    sums: Iterable[tuple[Floats, Floats]],
    values: Floats,
    observed: float,
    mean: float,
    variance: float,
    n_sampled: int,
) -> PValue:
    """Return the p-values of the observed sum of the first group.

    Args:
        sums: The sums under permutations, for `_count`.
        values: The values of all items.
        observed: The observed sum.
        mean: The mean of the sums.
        variance: The variance of the sums.
        n_sampled: The number of sampled permutations; 0 for all permutations.
    """
    is_sampled = n_sampled > 0
    # Equal sums differ by rounding, in proportion to the values.
    tolerance = 1e-10 * float(np.abs(values).sum())
    counts = _count(sums, observed, mean, tolerance)
    # The observed groups count as one sampled permutation.
    greater, less, far, n = (count + is_sampled for count in counts)
    normal = None
    if variance > tolerance**2:
        z = (observed - mean) / sqrt(variance)
        normal = {"greater": 0.5 * erfc(z / sqrt(2)), "less": 0.5 * erfc(-z / sqrt(2))}
        normal["two_sided"] = erfc(abs(z) / sqrt(2))
    method = (
        f"sampled, {n_sampled} permutations, seed {SEED}" if is_sampled else "exact"
    )
    return PValue(greater / n, less / n, far / n, method, n, greater, normal)


def _check_items(
    values: Floats, is_first: NDArray[np.bool_], labels: NDArray[Any]
) -> None:
    """Raise an error unless the items form two groups."""
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


def occurrence_p(
    occurs: NDArray[np.bool_],
    is_first: NDArray[np.bool_],
    block: ArrayLike | None = None,
) -> PValue:
    """Return the exact p-values of `permutation_p` for booleans, for any number of items.

    In each block, the number of true items of the first group has a hypergeometric distribution.
    The distribution of the sum over all blocks is the convolution of these distributions.

    Args:
        occurs: The boolean value of each item.
        is_first: True for the items of the first group.
        block: The block (film) of each item; items are exchanged only within a block.
    """
    labels = np.zeros(len(occurs)) if block is None else np.asarray(block)
    _, codes = np.unique(labels, return_inverse=True)
    items_of_blocks = np.bincount(codes)
    yes_of_blocks = np.bincount(codes, weights=occurs).astype(np.int64)
    taken_of_blocks = np.bincount(codes, weights=is_first).astype(np.int64)
    chances_of_blocks = []
    for number, n_items in enumerate(items_of_blocks.tolist()):
        n_yes = int(yes_of_blocks[number])
        n_taken = int(taken_of_blocks[number])
        if n_yes and n_taken:
            chances_of_blocks.append(_hypergeometric(n_items, n_yes, n_taken))
    return _p_of_count(int(occurs[is_first].sum()), chances_of_blocks, len(occurs))


def moved_p(
    values: ArrayLike,
    is_first: ArrayLike,
    block: ArrayLike,
    place: ArrayLike,
    *,
    permutations: int = 1_000_000,
) -> PValue:
    """Return the p-values for neighbouring items, whose values depend on each other.

    In each block, the groups of the items are moved along the items by every number of places; what
    leaves the block at its end enters it at its start. So neighbouring items stay neighbours, and
    all moves of a block are equally likely. For booleans, the p-values are exact.

    Args:
        values: One number or boolean for each item.
        is_first: True for the items of the first group.
        block: The block (film) of each item.
        place: A number for each item, by which the items of a block are sorted.
        permutations: The number of random moves if there are too many to enumerate.
    """
    s = np.asarray(values)
    first = np.asarray(is_first, dtype=bool)
    labels = np.asarray(block)
    places = np.asarray(place)
    # For each block, the sum of the first group after each move: a circular correlation.
    sums_of_blocks: list[Floats] = []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        rows = rows[np.argsort(places[rows], kind="stable")]
        spectrum = np.fft.rfft(s[rows]) * np.conj(np.fft.rfft(first[rows]))
        sums_of_blocks.append(np.fft.irfft(spectrum, len(rows)))
    if s.dtype == bool:
        counts = [np.rint(sums).astype(np.int64) for sums in sums_of_blocks]
        chances = [np.bincount(of_block) / len(of_block) for of_block in counts]
        return _p_of_count(int(s[first].sum()), chances, len(s))
    mean = sum(float(sums.mean()) for sums in sums_of_blocks)
    variance = sum(float(sums.var()) for sums in sums_of_blocks)
    n_moves = prod(map(len, sums_of_blocks))
    is_sampled = n_moves > MAX_COUNTED
    moved: Iterable[tuple[Floats, Floats]]
    if is_sampled:
        moved = _random_moves(sums_of_blocks, permutations)
    else:
        total = np.zeros(1)
        for sums in sums_of_blocks:
            total = np.add.outer(total, sums).ravel()
        moved = [(np.zeros(1), total)]
    observed = float(s[first].sum())
    return _p_of_sums(
        moved, s, observed, mean, variance, permutations if is_sampled else 0
    )


def _random_moves(
    sums_of_blocks: Sequence[Floats], permutations: int
) -> Iterator[tuple[Floats, Floats]]:
    """Yield pairs of lists for `_count`: one zero, and sums after a random move of each block."""
    generator = np.random.default_rng(SEED)
    for start in range(0, permutations, CHUNK):
        size = min(CHUNK, permutations - start)
        total = np.zeros(size)
        for sums in sums_of_blocks:
            total += sums[generator.integers(len(sums), size=size)]
        yield np.zeros(1), total


def _p_of_count(
    observed: int, chances_of_blocks: Iterable[Floats], n_items: int
) -> PValue:
    """Return the p-values of a sum of counts.

    `chances_of_blocks` has for each block the probability of the counts 0, 1, 2, and so on.
    """
    # The probability of each number of occurrences, from `least` on.
    chances = np.ones(1)
    least = 0
    for of_block in chances_of_blocks:
        chances = np.convolve(chances, of_block)
        if len(chances) > MOST_CHANCES:
            # For many films, nearly all probabilities are 0; skip them to save time.
            possible = np.flatnonzero(chances > NO_CHANCE)
            least += int(possible[0])
            chances = chances[possible[0] : possible[-1] + 1]
    counts = least + np.arange(len(chances))
    mean = float(chances @ counts)
    is_as_far = np.abs(counts - mean) >= abs(observed - mean) - 1e-9 * n_items
    sides = (counts >= observed, counts <= observed, is_as_far)
    greater, less, far = (min(1.0, float(chances[side].sum())) for side in sides)
    return PValue(greater, less, far, "exact")


def _hypergeometric(n_items: int, n_yes: int, n_taken: int) -> Floats:
    """Return the probability of 0, 1, 2, ... true items in the first group, for one block.

    The logarithms of the ratios of neighbouring probabilities are summed, starting at the most
    probable number. Therefore, the sums stay small. SciPy is not used, because its time for one
    probability grows with the number of items.
    """
    counts = np.arange(min(n_yes, n_taken) + 1)
    least = max(0, n_yes + n_taken - n_items)
    before = counts[least:-1].astype(np.float64)
    ratios = (n_yes - before) * (n_taken - before)
    ratios /= (before + 1) * (n_items - n_yes - n_taken + before + 1)
    steps = np.log(ratios)
    middle = (n_yes + 1) * (n_taken + 1) // (n_items + 2) - least
    logs = np.zeros(len(steps) + 1)
    logs[middle + 1 :] = np.cumsum(steps[middle:])
    logs[:middle] = -np.cumsum(steps[:middle][::-1])[::-1]
    chances = np.zeros(len(counts))
    chances[least:] = np.exp(logs)
    return np.asarray(chances / chances.sum())


def _sums_of_halves(block: Block) -> Iterator[tuple[Floats, Floats]]:
    """Yield the sums of the first group under all permutations of one block, for `_count`.

    The items of the block are divided into two halves. For each number k, there is a pair of lists:
    the sums of all choices of k items from the first half, and the sums of all choices of the
    remaining items of the group from the second half.
    """
    values, taken = block
    middle = len(values) // 2
    left = _subset_sums(values[:middle], taken)
    right = _subset_sums(values[middle:], taken)
    for size, sums in enumerate(left):
        if taken - size < len(right):
            yield sums, right[taken - size]


def _all_sums(blocks: Sequence[Block]) -> Iterator[tuple[Floats, Floats]]:
    """Yield one pair of lists for `_count`: one zero, and the sums of all permutations."""
    sums = np.zeros(1)
    for values, taken in blocks:
        of_block = map(sum, combinations(values.tolist(), taken))
        sums = np.add.outer(sums, np.fromiter(of_block, np.float64)).ravel()
    yield np.zeros(1), sums


def _count(
    sums: Iterable[tuple[Floats, Floats]],
    observed: float,
    mean: float,
    tolerance: float,
) -> tuple[int, int, int, int]:
    """Count sums: at least `observed`, at most `observed`, at least as far from the mean, and all.

    The third count compares the distance of a sum from the mean with the distance of `observed`.
    Each pair of lists stands for all sums of a number of the first list and one of the second list.
    """
    distance = abs(observed - mean)
    total = greater = less = far = 0
    for left, right in sums:
        others = np.sort(right)
        steps = np.sort(left)

        def below(
            limit: float, side: Any, *, others: Floats = others, steps: Floats = steps
        ) -> int:
            return int(np.searchsorted(others, limit - steps, side=side).sum())

        n = len(left) * len(right)
        total += n
        greater += n - below(observed - tolerance, "left")
        less += below(observed + tolerance, "right")
        far += n - below(mean + distance - tolerance, "left")
        far += below(mean - distance + tolerance, "right")
    # If the distance is zero, every permutation is as far, and `far` counts some of them twice.
    return greater, less, total if distance <= tolerance else far, total


def _subset_sums(values: Floats, largest: int) -> list[Floats]:
    """Return a list for each size up to `largest`: the sums of all subsets of this size."""
    sums = [np.zeros(1), *(np.zeros(0) for _ in range(min(largest, len(values))))]
    for value in values:
        for size in range(len(sums) - 1, 0, -1):
            sums[size] = np.concatenate([sums[size], sums[size - 1] + value])
    return sums


def _random_sums(
    blocks: Sequence[Block], permutations: int
) -> Iterator[tuple[Floats, Floats]]:
    """Yield pairs of lists for `_count`: one zero, and sums over random subsets of all blocks."""
    generator = np.random.default_rng(SEED)
    largest = max(len(values) for values, _ in blocks)
    chunk = int(np.clip(POOL // largest, 256, CHUNK))
    for start in range(0, permutations, chunk):
        size = min(chunk, permutations - start)
        sums = np.zeros(size)
        for values, taken in blocks:
            sums += _shuffled(values, taken, size, generator)
        yield np.zeros(1), sums


def _shuffled(
    values: Floats, taken: int, size: int, generator: np.random.Generator
) -> Floats:
    """Return the sums of `size` random subsets, each of `taken` values.

    `size` copies of the values are partially shuffled in parallel.
    """
    n = len(values)
    # Sample the items outside the subset if these are fewer.
    fewer = min(taken, n - taken)
    # One row per item and one column per shuffle, so that a step reads whole rows.
    pool = np.repeat(values, size)
    columns = np.arange(size)
    sums = np.zeros(size)
    for step in range(fewer):
        rows = generator.integers(step, n, size=size, dtype=np.int32)
        drawn = rows * np.int64(size) + columns
        sums += pool[drawn]
        pool[drawn] = pool[step * size : (step + 1) * size]
    return sums if fewer == taken else float(values.sum()) - sums


class PText(str):
    """A p-value as text. `value` is the number, which a file shows with all decimals."""

    value: float


def p_text(p: float) -> PText:
    """Return a p-value as text, such as "0.300" or "< .0001"; it is never shown as zero."""
    text = PText("< .0001" if p < 1e-4 else f"{p:.{3 + (p < 0.001)}f}")
    text.value = p
    return text


def p_equals(p: float) -> str:
    """Return a p-value as a part of a sentence, such as "p = 0.300" or "p < .0001"."""
    return ("p " if p < 1e-4 else "p = ") + p_text(p)


def holm(p_values: ArrayLike) -> Floats:
    """Return Holm's adjusted p-values, in the given order; tests may be dependent."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not p.size or not ((p >= 0) & (p <= 1)).all():
        raise FixInput(
            f"p-values must be at least 1 number from 0 to 1, got {p_values!r:.80}"
        )
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted

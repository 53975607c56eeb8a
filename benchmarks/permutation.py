"""Permutation tests, exact and sampled, beside a plain Python loop."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import comb

import numpy as np

from benchmarks.timing import Comparison, Contestant, Settings, compare
from obygaze_features.core.machine import duration
from obygaze_models.evaluation.permutation import permutation_p

N_ITEMS = 40
N_FIRST = 20
N_LOOP = 1_000
N_SAMPLED = 1_000_000
EXACT = f"all {comb(N_ITEMS, N_FIRST):,} splits, counted"
SAMPLED = f"{N_SAMPLED:,} permutations, drawn"
LOOP = f"plain Python loop, {N_LOOP:,} permutations"


def plain_loop(
    values: Sequence[float], n_first: int, permutations: int, seed: int = 0
) -> float:
    """Return the one-sided p as it is usually computed: shuffle, sum, compare."""
    generator = random.Random(seed)
    items = list(values)
    observed = sum(values[:n_first])
    reached = 0
    for _ in range(permutations):
        generator.shuffle(items)
        reached += sum(items[:n_first]) >= observed
    return reached / permutations


def measure(settings: Settings) -> Comparison:
    """Time the exact count and a million sampled permutations of 40 items beside the loop."""
    values = np.random.default_rng(0).normal(size=N_ITEMS)
    values[:N_FIRST] += 0.5
    first = np.arange(N_ITEMS) < N_FIRST
    items = values.tolist()
    result = compare(
        f"Permutation tests of {N_FIRST} against {N_ITEMS - N_FIRST} items",
        [
            Contestant(LOOP, lambda: plain_loop(items, N_FIRST, N_LOOP)),
            Contestant(EXACT, lambda: permutation_p(values, first)),
            Contestant(
                SAMPLED,
                lambda: permutation_p(
                    values, first, permutations=N_SAMPLED, exact=False
                ),
            ),
        ],
        reference=LOOP,
        rounds=settings.rounds_or(5),
        packages=("numpy",),
    )
    each_s = result.timing(LOOP).median_s / N_LOOP
    counted = permutation_p(values, first).greater
    drawn = permutation_p(values, first, permutations=N_SAMPLED, exact=False).greater
    facts: dict[str, object] = {
        f"the loop, for {N_SAMPLED:,} permutations": duration(each_s * N_SAMPLED),
        "a permutation drawn, to one of the loop": f"{_each(result, SAMPLED):.4f}x",
        "the loop, for all splits": duration(each_s * comb(N_ITEMS, N_FIRST)),
        "p, counted": f"{counted:.6f}",
        f"p, {N_SAMPLED:,} drawn": f"{drawn:.6f}",
        f"p, {N_LOOP:,} by the loop": f"{plain_loop(items, N_FIRST, N_LOOP):.6f}",
    }
    return replace(result, facts={**result.facts, **facts})


def _each(result: Comparison, name: str) -> float:
    return result.ratio(name) * N_LOOP / N_SAMPLED

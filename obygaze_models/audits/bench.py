"""`obygaze bench audits`: all splits counted, and a million drawn, beside a plain loop."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import comb

import click
import numpy as np

from obygaze_features.core.bench import BenchResult, Contestant, compare, duration
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import Progress
from obygaze_models.audits.permutation import permutation_p, sampled_p

N_ITEMS, N_FIRST = 40, 20
N_LOOP, N_SAMPLED = 1_000, 1_000_000
EXACT = f"all {comb(N_ITEMS, N_FIRST):,} splits, counted"
SAMPLED = f"{N_SAMPLED:,} permutations, drawn"
LOOP = f"plain Python loop, {N_LOOP:,} permutations"


def plain_loop(values: Sequence[float], n_first: int, permutations: int, seed: int = 0) -> float:
    """The one-sided p as it is usually written: shuffle, sum, compare."""
    generator = random.Random(seed)
    items, observed, reached = list(values), sum(values[:n_first]), 0
    for _ in range(permutations):
        generator.shuffle(items)
        reached += sum(items[:n_first]) >= observed
    return reached / permutations


def bench_permutations(rounds: int = 5, progress: Progress | None = None) -> BenchResult:
    """Time the exact count and a million drawn permutations of 40 items beside the loop."""
    values = np.random.default_rng(0).normal(size=N_ITEMS)
    values[:N_FIRST] += 0.5
    first = np.arange(N_ITEMS) < N_FIRST
    items = values.tolist()
    result = compare(
        f"Permutation tests of {N_FIRST} against {N_ITEMS - N_FIRST} items",
        [
            Contestant(LOOP, lambda: plain_loop(items, N_FIRST, N_LOOP)),
            Contestant(EXACT, lambda: permutation_p(values, first)),
            Contestant(SAMPLED, lambda: sampled_p(values, first, permutations=N_SAMPLED)),
        ],
        reference=LOOP,
        rounds=rounds,
        packages=("numpy",),
        progress=progress,
    )
    each_s = result.timing(LOOP).median_s / N_LOOP
    counted = permutation_p(values, first).greater
    drawn = sampled_p(values, first, permutations=N_SAMPLED).greater
    facts: dict[str, object] = {
        f"the loop, for {N_SAMPLED:,} permutations": duration(each_s * N_SAMPLED),
        "a permutation drawn, to one of the loop": f"{_each(result, SAMPLED):.4f}x",
        "the loop, for all splits": duration(each_s * comb(N_ITEMS, N_FIRST)),
        "p, counted": f"{counted:.6f}",
        f"p, {N_SAMPLED:,} drawn": f"{drawn:.6f}",
        f"p, {N_LOOP:,} by the loop": f"{plain_loop(items, N_FIRST, N_LOOP):.6f}",
    }
    return replace(result, facts={**result.facts, **facts})


def _each(result: BenchResult, name: str) -> float:
    return result.ratio(name) * N_LOOP / N_SAMPLED


@click.command(
    name="audits",
    cls=ExampleCommand,
    examples="""
    obygaze bench audits
    obygaze bench audits --rounds 9 --json
    """,
)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Rounds.")
@json_option
@pass_session
def bench_audits(session: Session, rounds: int, as_json: bool) -> None:
    """Exact and drawn permutation tests beside a plain Python loop."""
    with session.console.progress("audits", 3 * (rounds + 1), "runs") as progress:
        result = bench_permutations(rounds, progress)
    if as_json:
        session.console.json(result.as_json())
    else:
        session.console.result(result.as_text())

"""How often the p-values and intervals of a run reject a true null hypothesis.

    python -m benchmarks.calibration
    python -m benchmarks.calibration ridge --world raw --world 5-films --worlds 200

In each simulated world (`benchmarks/worlds.py`) the films, with the levels of their clips, and two
stores of features are drawn from one distribution. They are like those of ObyGaze12, or differ from
them in one respect; where `--signal` is above 0, sure clips stand out. The same model is run on
both stores by `run_protocol`, so a comparison of the two tests a null that is true. For `family`
there are four stores, hence six differences, of which none should be found in .95 of the worlds.
For `guess` a model on one store of noise is compared with a random order. For `concepts` the
features of one store have nothing to do with the labels. At a nominal rate of .05 a test should
reject in .03 to .07 of the worlds; an interval of 95 % should leave out the truth in .02 to .08.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from benchmarks.worlds import WORLDS, World, clips_of, features_of
from obygaze_features.core.console import Console, table
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Header, Manifest
from obygaze_features.manifest.vocabulary import concepts
from obygaze_models.evaluation.metrics import RANKING_METRICS
from obygaze_models.evaluation.tables import rows_as_dicts
from obygaze_models.models.registry import BASELINES
from obygaze_models.protocols.clips import clip_table, task_labels
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.features import Features
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import Inputs
from obygaze_models.runner.run import run_protocol

NOMINAL = 0.05
RANGE = (0.03, 0.07)
MISS_RANGE = (0.02, 0.08)
ONE_CELL = (
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    "grid.baselines=[]",
    "report.concepts=false",
)
# Changes of the protocol `honest`, by what is calibrated.
DESIGNS: Mapping[str, tuple[str, ...]] = {
    "ridge": ('grid.models=["ridge"]',),
    "guess": ('grid.models=["ridge"]', 'grid.baselines=["random"]'),
    "family": ('grid.models=["ridge"]',),
    "mlp": ('grid.models=["mlp"]',),
    "concepts": (
        'grid.models=["pcbm-lr"]',
        "models.pcbm-lr.tolerance=published",
        "models.pcbm-lr.cross_fit=0",
        "report.concepts=true",
    ),
}
STORES = {"guess": ("a",), "family": ("a", "b", "c", "d"), "concepts": ("a",)}
TWO_STORES = ("a", "b")


@dataclass(frozen=True)
class Rate:
    """How often one quantity rejected at the nominal rate.

    Of intervals, `above` lay above the truth and `below` below it.
    """

    design: str
    world: str
    signal: float
    quantity: str
    rejected: int
    n: int
    n_worlds: int
    above: int | None = None
    below: int | None = None

    @property
    def rate(self) -> float:
        """The share of all that were rejected."""
        return self.rejected / self.n

    @property
    def is_in_range(self) -> bool:
        """Whether the rate is as near to the nominal one as it should be."""
        low, high = MISS_RANGE if "interval" in self.quantity else RANGE
        return low <= self.rate <= high

    @property
    def error(self) -> float:
        """The standard error of the rate, were what is counted in one world the same."""
        return float((self.rate * (1 - self.rate) / self.n_worlds) ** 0.5)


def simulate(
    design: str,
    *,
    world: str = "raw",
    signal: float = 0.0,
    n_worlds: int = 200,
    seed: int = 0,
) -> list[Rate]:
    """Run a design on worlds in which the null is true; count what rejects it."""
    rng = np.random.default_rng(seed)
    decisions: dict[str, list[bool]] = defaultdict(list)
    estimates: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    n_run = 0
    with TemporaryDirectory(prefix="obygaze-calibration-") as folder:
        for _ in range(n_worlds):
            try:
                inputs = draw(design, WORLDS[world], signal, rng)
                run = run_protocol(inputs, Path(folder) / "run", force=True, n_jobs=1)
            except FixInput:
                continue  # such as a world with too few clips of a class
            n_run += 1
            for quantity, is_rejected in _decisions(run, is_null=not signal):
                decisions[quantity].append(is_rejected)
            for quantity, estimate in _estimates(run):
                estimates[quantity].append(estimate)
    rates = []
    for quantity, rejected in decisions.items():
        counts = (sum(rejected), len(rejected), n_run)
        rates.append(Rate(design, world, signal, quantity, *counts))
    misses: dict[str, list[int]] = defaultdict(list)
    for whose, of_one in estimates.items():
        misses[whose.partition(",")[0]] += sides(of_one)
    for metric, of_metric in misses.items():
        above = of_metric.count(1)
        below = of_metric.count(-1)
        quantity = f"truth outside the interval of {metric}"
        counts = (above + below, len(of_metric), n_run)
        rates.append(Rate(design, world, signal, quantity, *counts, above, below))
    return rates


def draw(design: str, world: World, signal: float, rng: np.random.Generator) -> Inputs:
    """Draw the clips of a world, and their features in one store or two."""
    changes = ["report.primary=ap", *ONE_CELL, *DESIGNS[design]]
    protocol = load_protocol("honest", [*changes, "data.view=raw"])
    clips = Manifest("world", Header("world", concepts()), tuple(clips_of(world, rng)))
    rows = clip_table(clips, protocol.data)
    tasks = {"EN_S": protocol.tasks["EN_S"]}
    labels = {name: task_labels(name, task, rows) for name, task in tasks.items()}
    is_sure = np.array([level == "S" for level in rows.levels])
    _, film_of_row = np.unique(rows.films, return_inverse=True)
    stores = []
    if design == "concepts":
        # Scenes next to each other look alike.
        world = replace(world, runs_on=True)
    for name in STORES.get(design, TWO_STORES):
        X = features_of(world, film_of_row, is_sure, signal, rng)
        origin = {"location": name, "sha256": name, "backbone": "made up"}
        stores.append(Features(name, X, np.arange(len(rows)), {}, origin))
    return Inputs(protocol, clips, "", rows, labels, stores)


def _is_random(model: str) -> bool:
    """Return whether a name is that of a baseline of random order."""
    return model in BASELINES and BASELINES[model].is_drawn


def _decisions(run: Run, is_null: bool) -> Iterator[tuple[str, bool]]:
    """What a run says of a null that is true: every p that it gives, and its intervals."""
    p_of_family = []
    for row in rows_as_dicts(run.results):
        # Two models can differ; one model on two stores does not, and on noise no order of clips
        # is better than a random one.
        is_same = row["against_store"] and row["against_model"] == row["model"]
        is_random = _is_random(row["against_model"])
        if not is_same and not (is_null and is_random):
            continue
        if not math.isnan(row["low"]):
            yield "0 outside the interval", not row["low"] <= 0 <= row["high"]
        if not math.isnan(row["p"]):
            p_of_family.append(row["p"])
    if p_of_family:
        yield "the least p of a family", min(p_of_family) <= NOMINAL
    if is_null:
        for p in run.table("concepts.csv")["p"]:
            yield "p of a concept", p <= NOMINAL


def _estimates(run: Run) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What has an interval, with a name; what has the same name estimates the same truth."""
    concepts = rows_as_dicts(run.table("concepts.csv"))
    for concept in concepts:
        yield f"ap, {concept['concept']}", {**concept, "value": concept["ap"]}
    if concepts:
        return
    for row in rows_as_dicts(run.results):
        is_value = not row["film"] and not row["against_model"]
        is_value = is_value and not _is_random(row["model"])
        if is_value and row["metric"] in RANKING_METRICS:
            yield f"{row['metric']}, {row['model']}", row


def sides(estimates: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return where each interval lies: above the truth (1), below it (-1), or around it (0).

    The truth is the mean over all worlds.
    """
    known = [e["value"] for e in estimates if not math.isnan(e["value"])]
    truth = float(np.mean(known)) if known else np.nan
    of_intervals = []
    for estimate in estimates:
        if not math.isnan(estimate["low"]):
            is_above = estimate["low"] > truth
            is_below = estimate["high"] < truth
            of_intervals.append(int(is_above) - int(is_below))
    return of_intervals


def to_text(rates: Sequence[Rate]) -> str:
    """A line for each rate; a star where it is not within the range."""
    headers = (
        *("design", "world", "signal", "quantity"),
        *("rejected", "of", "rate", "above", "below", ""),
    )
    rows = []
    for rate in rates:
        share = f"{rate.rate:.3f} +- {rate.error:.3f}"
        star = "" if rate.is_in_range else "*"
        counted = (rate.rejected, rate.n, share, rate.above, rate.below, star)
        rows.append((rate.design, rate.world, rate.signal, rate.quantity, *counted))
    ranges = "{} to {} (p) or {} to {} (intervals)".format(*RANGE, *MISS_RANGE)
    return table(headers, rows) + f"\n* not within {ranges}"


@click.command(help=__doc__)
@click.argument("designs", nargs=-1, type=click.Choice(list(DESIGNS)))
@click.option("--signal", "signals", multiple=True, type=float, default=(0.0, 0.6))
@click.option(
    "--world", "worlds", multiple=True, type=click.Choice(list(WORLDS)), default=WORLDS
)
@click.option(
    "--worlds", "n_worlds", type=click.IntRange(1), default=200, show_default=True
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(
    designs: tuple[str, ...],
    signals: tuple[float, ...],
    worlds: tuple[str, ...],
    n_worlds: int,
    seed: int,
) -> None:
    """Simulate, and print the rates."""
    console = Console()
    rates = []
    for design, world, signal in product(designs or DESIGNS, worlds, signals):
        console.note(f"{design}, {world}, signal {signal:g} ...")
        rates += simulate(
            design, world=world, signal=signal, n_worlds=n_worlds, seed=seed
        )
    console.result(to_text(rates))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.calibration")

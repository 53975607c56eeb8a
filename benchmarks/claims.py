"""How often a run claims a difference that is not there, and finds one that is.

    python -m benchmarks.claims
    python -m benchmarks.claims noise "weak effect" --films 7 --worlds 200

Films and features are drawn as in `benchmarks/worlds.py`, and each world goes through
`run_protocol`. A claim is a p of at most .05 of a model beside guesses, or of a model on two stores
beside each other. Where nothing holds on other films, at most .05 of the worlds should have a
claim. AP and AUC are computed from the same tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.worlds import WIDTH, World, clips_of, features_of
from obygaze_features.core.console import Console, table
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Header, Manifest
from obygaze_features.manifest.vocabulary import concepts
from obygaze_models.evaluation.cells import Cell, cells_from_tests
from obygaze_models.evaluation.results import (
    BLIND,
    RunSettings,
    add_p,
    asked_cells,
    comparable,
    difference,
)
from obygaze_models.evaluation.tables import RunRow
from obygaze_models.protocols.clips import clip_table, task_labels
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.features import Features
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import Inputs
from obygaze_models.runner.run import run_protocol

NOMINAL = 0.05
METRICS = ("ap", "auc")
JOINED = ("joined: some better than guessing", "joined: some store better than another")
CHANGES = (
    *("data.view=raw", 'grid.models=["ridge"]', 'grid.train=["EN_S"]'),
    *('grid.test=["EN_S"]', 'grid.baselines=["random"]', "report.concepts=false"),
    *("report.compare=false", "report.contrast=[]", "report.replicates=2"),
)


@dataclass(frozen=True)
class Case:
    """What is drawn.

    Attributes:
        signals: How far sure clips stand out in each store, in all films alike.
        own: How far they stand out in the own direction of each film.
        positives: The mean share of sure clips; None: that of the real films.
        films_of_group: How many films a group has, where groups are left out; 0: films are.
        joined: Whether a third store joins the two.
    """

    signals: tuple[float, ...] = (0.0,)
    own: float = 0.0
    positives: float | None = None
    films_of_group: int = 0
    joined: bool = False


CASES: Mapping[str, Case] = {
    "noise": Case((0.0, 0.0)),
    "own directions": Case((0.0, 0.0), own=0.3),
    "noise, joined": Case((0.0, 0.0), joined=True),
    "rare positives": Case(positives=0.05),
    "two equal stores": Case((0.6, 0.6), own=0.3),
    "noise, groups of two films": Case(films_of_group=2),
    "own directions, groups of two films": Case(own=0.3, films_of_group=2),
    "weak effect": Case((0.25, 0.0)),
    "strong effect": Case((0.6, 0.3)),
}


def draw(case: Case, n_groups: int, rng: np.random.Generator) -> Inputs:
    """Draw the clips of a world, and their features in each store."""
    n_films = n_groups * max(1, case.films_of_group)
    world = World(n_films=n_films, positives=case.positives)
    changes = list(CHANGES)
    clips = clips_of(world, rng)
    header = Header("world", concepts())
    if case.films_of_group:
        changes.append("splits.column=director")
        clips = [
            replace(clip, extra={"director": f"d{int(clip.movie_id[4:]) % n_groups}"})
            for clip in clips
        ]
    protocol = load_protocol("honest", changes)
    manifest = Manifest("world", header, tuple(clips))
    rows = clip_table(manifest, protocol.data)
    labels = {"EN_S": task_labels("EN_S", protocol.tasks["EN_S"], rows)}
    is_sure = np.array([level == "S" for level in rows.levels])
    _, film_of_row = np.unique(rows.films, return_inverse=True)
    stores = []
    for name, signal in zip("ab", case.signals, strict=False):
        X: NDArray[np.float32] = features_of(world, film_of_row, is_sure, 0.0, rng)
        X[:, :4] += signal * is_sure[:, None]
        own = case.own * rng.normal(size=(n_films, WIDTH))
        X += (own[film_of_row] * is_sure[:, None]).astype(np.float32)
        origin = {"location": name, "sha256": name, "backbone": "made up"}
        stores.append(Features(name, X, np.arange(len(rows)), {}, origin))
    if case.joined:
        both = np.concatenate([store.X for store in stores], axis=1)
        of_join: dict[str, Any] = {"location": "both", "sha256": "both"}
        of_join["parts"] = {store.name: store.origin for store in stores}
        stores.append(Features("both", both, np.arange(len(rows)), {}, of_join))
    return Inputs(protocol, manifest, "", rows, labels, stores)


def claims_of(run: Run, metric: str) -> dict[str, bool]:
    """Return what a run claims of one store alone, of each of its stores, and of both."""
    settings = replace(run.settings, primary=metric)
    cells = cells_from_tests(run.predictions)
    one_store = [cell for cell in cells if cell.store in ("", "a")]
    claims = {}
    for row in differences_of(one_store, settings):
        claims["one store: better than guessing"] = is_claimed(row)
    if len(one_store) == len(cells):
        return claims
    if settings.parts:
        claims = dict.fromkeys(JOINED, False)
        for row in differences_of(cells, settings):
            claims[JOINED[row["against_model"] not in BLIND]] |= is_claimed(row)
        return claims
    some = "two stores: some better than guessing"
    claims[some] = False
    for row in differences_of(cells, settings):
        if row["against_model"] in BLIND:
            claims[some] |= is_claimed(row)
            claims[f"two stores: {row['store']} better than guessing"] = is_claimed(row)
        else:
            claims["two stores: one better than the other"] = is_claimed(row)
    return claims


def differences_of(cells: Sequence[Cell], settings: RunSettings) -> list[RunRow]:
    """Return the rows of the differences of cells, with their p."""
    found = [difference(*both, settings) for both in comparable(cells)]
    add_p(found, [cell.name for cell in asked_cells(cells, settings)], settings)
    return [item.row for item in found]


def is_claimed(row: RunRow) -> bool:
    """Return whether a difference has a p of at most .05."""
    return bool(row.get("p", 1.0) <= NOMINAL)


def simulate(
    case: Case, n_groups: int, n_worlds: int, keep: Path | None = None
) -> list[tuple[str, str, float, int]]:
    """Return the metric, the claim, its rate, and the number of worlds that could be run."""
    rng = np.random.default_rng(n_groups)
    found: dict[tuple[str, str], list[bool]] = {}
    tests: list[pd.DataFrame] = []
    with TemporaryDirectory(prefix="obygaze-claims-") as folder:
        for number in range(n_worlds):
            try:
                inputs = draw(case, n_groups, rng)
                run = run_protocol(inputs, Path(folder) / "run", force=True, n_jobs=1)
            except FixInput:
                continue  # such as a world with too few clips of a class
            for metric in METRICS:
                for claim, is_made in claims_of(run, metric).items():
                    found.setdefault((metric, claim), []).append(is_made)
            tests.append(run.predictions.assign(world=number))
    if keep is not None and tests:
        pd.concat(tests).to_pickle(keep)
    rates = []
    for (metric, claim), made in found.items():
        rates.append((metric, claim, float(np.mean(made)), len(made)))
    return rates


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, type=click.Choice(list(CASES)))
@click.option("--films", "numbers", multiple=True, type=int, default=(7, 12))
@click.option("--worlds", type=click.IntRange(1), default=200, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Folder of all tests.")
def main(
    cases: tuple[str, ...], numbers: tuple[int, ...], worlds: int, keep: Path | None
) -> None:
    """Simulate, and print the rates."""
    console = Console()
    rows = []
    for name in cases or CASES:
        for n_groups in numbers:
            console.note(f"{name}, {n_groups} ...")
            place = keep / f"{name}-{n_groups}.pickle" if keep else None
            rates = simulate(CASES[name], n_groups, worlds, place)
            for metric, claim, rate, n in rates:
                error = (rate * (1 - rate) / n) ** 0.5
                rows.append(
                    (name, n_groups, metric, claim, n, f"{rate:.3f} +- {error:.3f}")
                )
    headers = ("world", "films or groups", "metric", "claim", "worlds", "rate")
    console.result(table(headers, rows))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.claims")

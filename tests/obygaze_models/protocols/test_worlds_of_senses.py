"""Simulated films in which it is known what several senses say together: is a gain claimed there?

In each world, pictures, sound and words have other widths and scales. The gain is that of the
question of `honest-fusion`: joined minus the store that training films choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.seeds import amount, most_by_chance

from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.vocabulary import concepts
from obygaze_models.evaluation.cells import Cell, cells_of
from obygaze_models.evaluation.results import (
    RunSettings,
    difference,
)
from obygaze_models.evaluation.tables import CHOSEN, table_of_tests
from obygaze_models.models.joined import FeaturePart
from obygaze_models.protocols.clips import clip_table, task_labels
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner import run as running
from obygaze_models.runner.features import Features
from obygaze_models.runner.inputs import Inputs
from obygaze_models.runner.processes import fitting
from obygaze_models.runner.store_run import store_runs

pytestmark = pytest.mark.check("hundreds of simulated data sets")

N_WORLDS = amount(12, 120)
N_FILMS = 12
CLIPS_OF_A_FILM = 18
# The width and the scale of each sense.
SENSES = {"seen": (20, 1.0), "heard": (40, 12.0), "read": (10, 0.2)}
SIGNAL = 0.55
LOOK = 0.3
# An interval of 95 % lies above zero in 2.5 % of the worlds without a gain, and misses 5 % of all.
MOST_CLAIMS = most_by_chance(N_WORLDS, 0.025, 0.02)
MOST_MISSED = most_by_chance(N_WORLDS, 0.05, 0.04)
ONE_CELL = (
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    'grid.models=["ridge"]',
    "grid.baselines=[]",
)

Values = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Gain:
    """The gain of joined features in a world, and its interval."""

    value: float
    low: float
    high: float

    @property
    def is_claimed(self) -> bool:
        """Whether the interval says that there is a gain."""
        return self.low > 0


def clips_of(is_sure: NDArray[np.bool_], film_of: NDArray[np.intp]) -> Manifest:
    clips = []
    for number, (sure, film) in enumerate(zip(is_sure, film_of, strict=True)):
        level = "S" if sure else "EN"
        clips.append(
            Clip(f"{film:02d}-{number:04d}", f"{film:02d}", number, level=level)
        )
    return Manifest("world", Header("world", concepts()), tuple(clips))


def cells_on_stores(manifest: Manifest, values: Values) -> dict[str, Cell]:
    """The cells of ridge on each sense, on the joined one, and on the chosen one."""
    protocol = load_protocol("honest-fusion", ONE_CELL)
    table = clip_table(manifest, protocol.data)
    labels = {"EN_S": task_labels("EN_S", protocol.tasks["EN_S"], table)}
    rows = np.arange(len(table))
    stores = []
    for name, X in values.items():
        origin = {"location": name, "sha256": name, "backbone": name}
        stores.append(Features(name, X, rows, {}, origin))
    # The order of their recipes is that of their names.
    parts = [FeaturePart(name, values[name].shape[1]) for name in sorted(values)]
    X = np.concatenate([values[part.name] for part in parts], axis=1)
    origin = {"location": "joined", "sha256": "joined", "backbone": "joined"}
    stores.append(Features("joined", X, rows, {}, origin, parts=parts))
    inputs = Inputs(protocol, manifest, "", table, labels, stores)
    cells = []
    with fitting():
        for run in store_runs(inputs):
            cells += running.tests_of_models(run, 1, running.without_bar)
    single = [cell for cell in cells if cell.name["store"] in values]
    cells += running.on_chosen_stores(single)
    tests = table_of_tests([one.test for cell in cells for one in cell.tests])
    return {cell.store: cell for cell in cells_of(tests)}


def world(kind: str, seed: int) -> Gain:
    """A world in which some senses say which clips are sure."""
    rng = np.random.default_rng([seed, len(kind)])
    film_of = np.repeat(np.arange(N_FILMS), CLIPS_OF_A_FILM)
    share = rng.beta(4, 8, N_FILMS)
    is_sure = rng.random(len(film_of)) < share[film_of]
    values = {}
    for name, (width, scale) in SENSES.items():
        X = rng.normal(size=(len(film_of), width))
        X += LOOK * rng.normal(size=(N_FILMS, width))[film_of]
        if name != "read":
            X[:, :3] += SIGNAL * is_sure[:, None]
        if kind == "shuffled" and name == "heard":
            for film in range(N_FILMS):
                rows = np.flatnonzero(film_of == film)
                X[rows] = X[rng.permutation(rows)]
        values[name] = (scale * X).astype(np.float32)
    manifest = clips_of(is_sure, film_of)
    cells = cells_on_stores(manifest, values)
    both = (cells["joined"], cells[CHOSEN])
    row = difference(*both, RunSettings()).row
    return Gain(row["over_films"], row["low"], row["high"])


@cache
def gains(kind: str) -> Sequence[Gain]:
    """The gains of all worlds of a kind."""
    return [world(kind, seed) for seed in range(N_WORLDS)]


def test_where_no_sense_adds_anything_no_gain_is_claimed() -> None:
    n_claimed = sum(gain.is_claimed for gain in gains("shuffled"))
    assert n_claimed <= MOST_CLAIMS


@pytest.mark.parametrize("kind", ["shuffled", "two"])
def test_the_interval_of_a_gain_has_the_mean_gain_in_it(kind: str) -> None:
    """Of 120 worlds each, 2 and 5 intervals leave out the mean gain of all worlds."""
    truth = np.mean([gain.value for gain in gains(kind)])
    assert (truth > 0.01) == (kind == "two")
    n_missed = sum(not gain.low <= truth <= gain.high for gain in gains(kind))
    assert n_missed <= MOST_MISSED

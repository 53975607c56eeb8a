"""Stores of maps: for each clip and direction, a number at each place of a grid on each frame."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.core.notebook import unknown_name
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.schema import (
    MASK,
    OK,
    TIME_ARRAYS,
    ArraySpec,
    RowStatus,
)
from obygaze_features.store.read.reader import Store
from obygaze_features.store.write.create import BLOCK_ROWS_LARGE, create_store
from obygaze_features.store.write.writer import StoreWriter

MAPS = "maps"
RANDOM = "random "  # how the names of random directions begin
LEVEL_OF_CHANCE = 0.05
DIMS = ("direction", "step", "grid_row", "grid_column")

Directions = Mapping[str, NDArray[np.float64]]
"""Directions in feature space by name; their length plays no role."""


def random_directions(width: int, n: int = 20) -> Directions:
    """Return random directions, always the same: the null of others."""
    drawn = np.random.default_rng(0).standard_normal((n, width))
    return {f"{RANDOM}{i}": direction for i, direction in enumerate(drawn, start=1)}


@dataclass(frozen=True)
class BesideRandom:
    """How much a map of a clip varies, beside those of the random directions of the store."""

    n_random: int
    n_below: int  # random directions whose map varies less

    @property
    def passes(self) -> bool:
        """Whether so large a variation is rarer than .05 among random directions."""
        n_not_below = self.n_random - self.n_below
        return (1 + n_not_below) / (1 + self.n_random) <= LEVEL_OF_CHANCE

    def __str__(self) -> str:
        if not self.n_random:
            return "This store has no random directions to compare the map with."
        verdict = "no more than chance may paint"
        if self.passes:
            verdict = "chance paints as much in at most 1 map of 20"
        directions = f"{self.n_below} of {self.n_random} random directions"
        return f"It varies over the pictures more than {directions}: {verdict}."


def beside_random(names: Sequence[str], maps: NDArray[Any]) -> dict[str, BesideRandom]:
    """Return each direction that is not random with how much its map varies beside random ones.

    Args:
        names: The directions.
        maps: The maps of one clip [direction, step, row, column], without padding: a map whose mean
            is not 0 would vary from step to step of the padding.
    """
    spread = maps.astype(np.float64).reshape(len(names), -1).std(axis=1)
    is_random = np.array([name.startswith(RANDOM) for name in names])
    of_random = spread[is_random]
    compared = {}
    for name, own_spread in zip(names, spread, strict=True):
        if not name.startswith(RANDOM):
            n_below = int((of_random < own_spread).sum())
            compared[name] = BesideRandom(len(of_random), n_below)
    return compared


def grid_of(store: Store) -> tuple[int, int, int]:
    """Return the steps in time, the rows and the columns of the spatial tokens of a store."""
    recipe = store.recipe.to_json()
    grid = recipe.get("backbone", {}).get("geometry", {}).get("grid", (0, 0, 0))
    if 0 in grid:
        problem = "the recipe of this store does not name a grid of spatial tokens"
        raise FixInput(
            problem, where=store.location, hint="a store of an image or video model"
        )
    return grid[0], grid[1], grid[2]


def map_names(store: Store) -> list[str]:
    """Return the directions of a store of maps, the random ones last."""
    facts = store.recipe.to_json().get(MAPS)
    if facts is None:
        hint = "obygaze explain concepts or obygaze explain model makes one"
        raise FixInput("this is not a store of maps", where=store.location, hint=hint)
    return list(facts["directions"])


def real_steps(store: Store, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which steps [clip, step] of maps are real, not the padding of a short clip."""
    n_steps = store.plan.array(MAPS).tail_shape[1]
    masks = [
        spec
        for spec in store.plan.arrays
        if (spec.name, spec.tail_shape) == (MASK, (n_steps,))
    ]
    if not masks:
        return np.ones((len(rows), n_steps), dtype=np.bool_)
    return store.arrays.read(masks[0], rows).astype(np.bool_)


def write_maps(
    path: Path,
    source: Store,
    clip_ids: Sequence[str],
    names: Sequence[str],
    facts: Mapping[str, Any],
    results: Iterable[NDArray[Any] | RowStatus],
) -> None:
    """Write and seal a store of maps of clips of another store, with its recipe and times.

    Args:
        path: The folder of the new store.
        source: The other store, which has these clips.
        clip_ids: The clips.
        names: The directions.
        facts: What else determines the maps, for the recipe.
        results: For each clip in turn its maps [direction, step, row, column], or why there are
            none.
    """
    plan = source.plan
    grid = grid_of(source)
    recipe = Recipe.from_json(
        {
            **source.recipe.to_json(),
            "levels": [MAPS],
            "storage": {MAPS: "float16"},
            MAPS: {**facts, "directions": list(names), "of": source.fingerprint},
        }
    )
    spec = ArraySpec(MAPS, (len(names), *grid), DIMS, "float16")
    times = [array for array in plan.arrays if array.name in (*TIME_ARRAYS, MASK)]
    rows = source.select(clips=clip_ids).rows
    if rows.min(initial=0) < 0:
        absent = clip_ids[int(rows.argmin())]
        raise unknown_name("clip", absent, source.clip_ids.tolist(), source.location)
    create_store(
        path,
        recipe=recipe,
        manifest_name=plan.manifest_name,
        manifest_sha256=plan.manifest_sha256,
        clip_ids=list(clip_ids),
        movie_ids=source.movie_ids_of(rows).tolist(),
        arrays=[spec, *times],
        licence=source.licence,
        citation=source.citation,
        block_rows=BLOCK_ROWS_LARGE,
    )
    writer = StoreWriter(path)
    empty = np.full((len(names), *grid), np.nan)
    remaining_results = iter(results)
    for block in range(writer.plan.n_blocks):
        source_rows = rows[slice(*writer.plan.block_range(block))]
        results_of_block = list(islice(remaining_results, len(source_rows)))
        arrays = {array.name: source.arrays.read(array, source_rows) for array in times}
        values = [
            empty if isinstance(result, RowStatus) else result
            for result in results_of_block
        ]
        arrays[MAPS] = np.stack(values).astype(np.float16)
        statuses = [
            result if isinstance(result, RowStatus) else OK
            for result in results_of_block
        ]
        sources = [source.commits.source(row) for row in source_rows.tolist()]
        writer.commit_block(block, arrays, statuses, sources=sources)
    writer.seal()

"""Stores of maps: for each clip and direction, a grid of numbers on each frame."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.core.notebook import unknown_name
from obygaze_features.store import (
    Array,
    Reason,
    Recipe,
    Row,
    Store,
    open_store,
    write_store,
)
from obygaze_features.store.changing import list_origins
from obygaze_features.store.layout import MASK, OF_FRAMES
from obygaze_features.store.rows import STATUS_OF_WORD, RowColumns

MAPS = "maps"
RANDOM_PREFIX = "random "  # The names of random directions begin with this.
N_RANDOM = 20
DIMS = ("direction", "step", "grid_row", "grid_column")

Directions = Mapping[str, NDArray[np.float64]]
"""Directions in feature space by name; only the direction of a vector counts."""


def random_directions(width: int) -> Directions:
    """Return random directions, with which the directions of concepts and texts are compared.

    They are the same in each call.
    """
    drawn = np.random.default_rng(0).standard_normal((N_RANDOM, width))
    return {
        f"{RANDOM_PREFIX}{i}": direction for i, direction in enumerate(drawn, start=1)
    }


def token_grid(store: Store) -> tuple[int, int, int]:
    """Return the steps in time, the rows and the columns of the spatial tokens of a store."""
    recipe = store.recipe.to_json()
    grid = recipe.get("backbone", {}).get("geometry", {}).get("grid", (0, 0, 0))
    if 0 in grid:
        problem = "the recipe of this store has no grid of spatial tokens"
        raise FixInput(problem, where=store.location)
    return grid[0], grid[1], grid[2]


def frames_of_step(store: Store) -> int:
    """Return the number of frames that a step of maps covers; some models join frames."""
    n_steps = store.array(MAPS).shape[1]
    geometry = store.recipe.to_json()["backbone"]["geometry"]
    return int(geometry.get("frames", n_steps)) // n_steps


def map_names(store: Store) -> list[str]:
    """Return the directions of a store of maps, the random directions last."""
    facts = store.recipe.to_json().get(MAPS)
    if facts is None:
        hint = "make a store of maps with obygaze explain concepts or model"
        raise FixInput("this is not a store of maps", where=store.location, hint=hint)
    return list(facts["directions"])


def real_steps(store: Store, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each step [clip, step] of maps whether it is real, not the padding of a clip."""
    n_steps = store.array(MAPS).shape[1]
    mask = store.record.array(MASK)
    # A model that joins frames has fewer steps than the mask has frames.
    if mask is None or mask.shape != (n_steps,):
        return np.ones((len(rows), n_steps), dtype=np.bool_)
    return store.read(mask, rows).astype(np.bool_)


@dataclass(frozen=True)
class WrittenMaps:
    """A new store of maps; `counts` has the number of its clips by status."""

    path: Path
    counts: Mapping[str, int]
    n_clips: int

    def to_json(self) -> dict[str, Any]:
        """Return the folder and the counts."""
        return {"store": str(self.path), "clips": dict(self.counts)}

    def __str__(self) -> str:
        return f"{self.path}: maps of {self.counts['ok']} of {self.n_clips} clips"


def write_maps(
    path: Path,
    source: Store,
    clip_ids: Sequence[str],
    names: Sequence[str],
    facts: Mapping[str, Any],
    results: Iterable[NDArray[Any] | Reason],
) -> WrittenMaps:
    """Write a store of maps for clips of another store, with the recipe and times of that store.

    Args:
        path: The folder of the new store.
        source: The other store, which has these clips.
        clip_ids: The clips.
        names: The directions.
        facts: Further facts that determine the maps; they are written into the recipe.
        results: For each clip in turn its maps [direction, step, row, column], or the reason why
            there are none.
    """
    record = source.record
    maps = Array.of(MAPS, "float16", (len(names), *token_grid(source)), DIMS)
    of_frames = [array for array in record.arrays if array.name in OF_FRAMES]
    arrays = (maps, *of_frames)
    about_maps = {**facts, "directions": list(names), "of": source.fingerprint}
    recipe = Recipe.from_json({**source.recipe.to_json(), MAPS: about_maps})
    numbers = source.select(clips=clip_ids).rows
    if numbers.min(initial=0) < 0:
        absent = clip_ids[int(numbers.argmin())]
        raise unknown_name("clip", absent, source.clip_ids.tolist(), source.location)
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (len(clip_ids), *maps.shape)
    # A store needs the status of all rows before its first number. Until then, the maps are kept in
    # a temporary file.
    with TemporaryFile(dir=path.parent) as file:
        values = np.memmap(file, maps.dtype, "w+", shape=shape)
        rows: list[Row] = []
        for row, result in zip(source.table.some(numbers), results, strict=True):
            if isinstance(result, Reason):
                row = row._replace(
                    status=STATUS_OF_WORD[result.status], reason=result.sentence
                )
            else:
                values[len(rows)] = result
            rows.append(row)
        write_store(
            path,
            _RowsOfMaps(rows, values, source, numbers),
            arrays=arrays,
            recipe=recipe,
            manifest=record.manifest,
            origins=list_origins([source]),
            terms=source.terms,
        )
    return WrittenMaps(path, open_store(path).status().counts, len(rows))


@dataclass(frozen=True)
class _RowsOfMaps:
    """The rows of a new store of maps, with their maps and the arrays copied from `source`.

    Args:
        rows: The rows of the new store.
        maps: The maps of each row.
        source: The store of the clips.
        numbers: For each row, its number in `source`.
    """

    rows: Sequence[Row]
    maps: NDArray[np.float16]
    source: Store
    numbers: NDArray[np.int64]

    def columns(self) -> RowColumns:
        """Return all rows of the new store."""
        return RowColumns.of(self.rows)

    def read(self, array: Array, first: int, after: int) -> NDArray[Any]:
        """Return the rows from `first` to before `after` of an array."""
        if array.name == MAPS:
            return self.maps[first:after]
        return self.source.read(array.name, self.numbers[first:after])

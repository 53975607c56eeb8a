"""Sheets of maps of where a model looks, drawn over the exact pictures of clips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from obygaze.audits.maps.pictures import exact_pictures
from obygaze.audits.maps.stores import MAPS, RANDOM_PREFIX, map_names, real_steps
from obygaze_features.core.clip_ids import each_name
from obygaze_features.core.file_names import FileNames, file_name
from obygaze_features.core.files import write_new
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.store import Store, open_store
from obygaze_features.video.decoded_clip import contact_sheet

COLOR = (255, 96, 0)


class MapSheets(list[Path]):
    """The pictures that were written."""

    def to_json(self) -> dict[str, Any]:
        """Return the paths."""
        return {"files": [str(path) for path in self]}

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def draw_maps(
    maps: PathLike | Store,
    clips: str | Sequence[str],
    folder: PathLike,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> MapSheets:
    """Draw the maps of clips over their exact pictures: a sheet for each clip and direction.

    All maps of a clip are drawn on one scale. If the store has random directions, the first of them
    is drawn too, to show what a map by chance looks like.

    Args:
        maps: A store of maps.
        clips: The clips, whose frames are decoded again.
        folder: A folder.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one: it has the manifest of the store.

    Commands:
        obygaze explain draw concept-maps tt1-001 tt1-002 -o sheets
    """
    store = open_store(maps, workspace=workspace)
    opened_workspace = Workspace.of(workspace)
    paths = MapSheets()
    clip_ids = each_name(clips)
    for clip in clip_ids:
        names = FileNames()
        for direction, sheet in map_sheets(opened_workspace, store, clip):
            path = (
                Path(folder) / f"{file_name(clip)}.{names.unique_name(direction)}.png"
            )
            write_new(path, sheet, force=force)
            paths.append(path)
    return paths


def map_sheets(
    workspace: Workspace, store: Store, clip: str
) -> Iterator[tuple[str, bytes]]:
    """Yield directions, each with a PNG of its maps over the pictures of a clip.

    All directions have the same scale of colours. The directions that are drawn are all those that
    are not random, and the first random direction.
    """
    names = map_names(store)
    maps_of_clip = store.matrix(MAPS, clips=[clip])
    real = real_steps(store, maps_of_clip.rows)[0]
    maps = fill_padding(maps_of_clip.values[0], real)
    n_planned = sum(not name.startswith(RANDOM_PREFIX) for name in names)
    drawn = names[: n_planned + 1]  # The random directions are the last.
    decoded = exact_pictures(workspace, store, clip)
    scale = max(height_above_mean(maps[names.index(name)]) for name in drawn)
    for name in drawn:
        pictures = overlay(decoded.pictures, maps[names.index(name)], scale)
        shown = replace(
            decoded, shared_pictures=pictures, rows=np.arange(len(pictures))
        )
        yield name, contact_sheet(shown)


def fill_padding(maps: NDArray[Any], real: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return maps whose padded steps have the mean of the real steps of their direction.

    So nothing is drawn on padded steps.

    Args:
        maps: The maps of a clip [direction, step, row, column].
        real: Which steps are real.
    """
    drawn = maps.astype(np.float32)
    for map_of_direction in drawn:
        map_of_direction[~real] = map_of_direction[real].mean()
    return drawn


def height_above_mean(maps: NDArray[Any]) -> float:
    """Return the highest value of a map minus the mean of the map."""
    wide = maps.astype(np.float32)
    return float((wide - wide.mean()).max())


def overlay(
    pictures: NDArray[np.uint8], maps: NDArray[Any], scale: float
) -> NDArray[np.uint8]:
    """Return pictures in grey, with orange where a map [step, row, column] is above its mean.

    A value that exceeds the mean by `scale` gets the full colour.
    """
    wide = maps.astype(np.float32)
    (n, height, width, _) = pictures.shape
    seen = np.maximum(wide - wide.mean(), 0)
    seen /= max(scale, 1e-12)
    smooth = Image.Resampling.BILINEAR
    large = [
        np.asarray(Image.fromarray(one).resize((width, height), smooth)) for one in seen
    ]
    share = 0.8 * np.repeat(np.stack(large), n // len(wide), axis=0)[..., None]
    mixed = pictures.mean(axis=3, keepdims=True) * (1 - share) + np.array(COLOR) * share
    return np.asarray(mixed.round(), dtype=np.uint8)

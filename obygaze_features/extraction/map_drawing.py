"""Sheets of maps of where a model looks, drawn over the exact pictures of clips."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from obygaze_features.core.file_names import FileNames, file_name
from obygaze_features.core.files import write_new
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.recipes import exact_pictures
from obygaze_features.store import Store
from obygaze_features.store.maps import MAPS, RANDOM, map_names
from obygaze_features.video.decoded_clip import contact_sheet

COLOR = (255, 96, 0)


def draw_maps(
    workspace: Workspace, store: Store, clip: str, folder: Path, *, force: bool = False
) -> list[Path]:
    """Draw the maps of a clip over its exact pictures: a file for each direction not at random.

    Args:
        workspace: Where the manifest of the store is.
        store: A store of maps.
        clip: The clip, whose frames are decoded again.
        folder: Where the files are written.
        force: Replace files that are there.
    """
    names = FileNames()
    paths = list[Path]()
    for direction, sheet in map_sheets(workspace, store, clip):
        path = folder / f"{file_name(clip)}.{names.name_of(direction)}.png"
        write_new(path, sheet, force=force)
        paths.append(path)
    return paths


def map_sheets(
    workspace: Workspace, store: Store, clip: str
) -> Iterator[tuple[str, bytes]]:
    """Yield each direction not at random, with a PNG of the maps of a clip over its pictures."""
    names = map_names(store)
    maps = store.matrix(MAPS, clips=[clip])
    decoded = exact_pictures(workspace, store, clip)
    for name, own in zip(names, maps.values[0], strict=True):
        if not name.startswith(RANDOM):
            pictures = overlay(decoded.frames, own)
            shown = replace(decoded, pictures=pictures, rows=np.arange(len(pictures)))
            yield name, contact_sheet(shown)


def overlay(pictures: NDArray[np.uint8], maps: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pictures in grey, with orange where a map [step, row, column] is above its mean."""
    wide = maps.astype(np.float32)
    (n, height, width, _) = pictures.shape
    seen = np.maximum(wide - wide.mean(), 0)
    seen /= max(float(seen.max()), 1e-12)
    smooth = Image.Resampling.BILINEAR
    large = [
        np.asarray(Image.fromarray(one).resize((width, height), smooth)) for one in seen
    ]
    share = 0.8 * np.repeat(np.stack(large), n // len(wide), axis=0)[..., None]
    mixed = pictures.mean(axis=3, keepdims=True) * (1 - share) + np.array(COLOR) * share
    return np.asarray(mixed.round(), dtype=np.uint8)

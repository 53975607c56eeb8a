"""Maps of where a model looks, from its weights; sheets of maps over the pictures of clips."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from obygaze_features.backbones.saliency import grad_cam, rollout, score_cam
from obygaze_features.core.errors import FixUsage, Mismatch
from obygaze_features.core.file_names import FileNames, file_name
from obygaze_features.core.files import write_new
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.recipes import exact_pictures, load_target, target_of
from obygaze_features.store import RowStatus, Store
from obygaze_features.store.maps import MAPS, RANDOM, Directions, map_names, write_maps
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decoded_clip import contact_sheet

COLOR = (255, 96, 0)
METHODS = {"grad-cam": grad_cam, "score-cam": score_cam}


def write_saliency(
    path: Path,
    workspace: Workspace,
    store: Store,
    clips: Sequence[str],
    directions: Directions,
    *,
    level: str = "clip",
    method: str = "grad-cam",
    weights: str | None = None,
    facts: Mapping[str, Any],
) -> None:
    """Write a store of maps of clips of a CLIP or X-CLIP, whose frames are decoded again.

    Args:
        path: The folder of the new store.
        workspace: Where the manifest of the store is.
        store: The store of the clips; model and frames are those of its recipe.
        clips: The clips.
        directions: What is looked for; without any, attention rollout is computed.
        level: The level of the backbone that the directions are compared with.
        method: How directions are looked for: "grad-cam", or "score-cam".
        weights: The file or folder of the weights.
        facts: What the directions were made from, for the recipe.
    """
    if method not in METHODS:
        raise FixUsage(f"unknown method {method!r}", hint=" or ".join(METHODS))
    recipe = store.recipe.to_json()
    backbone = load_target(target_of(recipe, weights), workspace)
    if backbone.hashes != recipe["weights"]:
        raise Mismatch(
            "these weights are not those of the store", hint="--weights PATH"
        )

    def made() -> Iterator[NDArray[Any] | RowStatus]:
        for clip in clips:
            try:
                frames = exact_pictures(workspace, store, clip).frames
            except BadVideo as error:
                yield RowStatus.failed(error.stage, error.reason, error.what)
                continue
            pixels = backbone.normalise(frames)[None]
            if directions:
                vectors = np.stack(list(directions.values()))
                yield METHODS[method](backbone, pixels, level, vectors)[0]
            else:
                yield rollout(backbone, pixels)[0]

    made_by = (
        {"method": method, "level": level} if directions else {"method": "rollout"}
    )
    write_maps(
        path,
        store,
        clips,
        list(directions) or ["rollout"],
        {**made_by, **facts},
        made(),
    )


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
    names, paths = FileNames(), list[Path]()
    for direction, sheet in map_sheets(workspace, store, clip):
        path = folder / f"{file_name(clip)}.{names.name_of(direction)}.png"
        write_new(path, sheet, force=force)
        paths.append(path)
    return paths


def map_sheets(
    workspace: Workspace, store: Store, clip: str
) -> Iterator[tuple[str, bytes]]:
    """Yield each direction not at random, with a PNG of the maps of a clip over its pictures."""
    names, maps = map_names(store), store.matrix(MAPS, clips=[clip])
    decoded = exact_pictures(workspace, store, clip)
    for name, own in zip(names, maps.values[0], strict=True):
        if not name.startswith(RANDOM):
            pictures = overlay(decoded.frames, own)
            shown = replace(decoded, pictures=pictures, rows=np.arange(len(pictures)))
            yield name, contact_sheet(shown)


def overlay(pictures: NDArray[np.uint8], maps: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pictures in grey, with orange where a map [step, row, column] is above its mean."""
    wide, (n, height, width, _) = maps.astype(np.float32), pictures.shape
    seen = np.maximum(wide - wide.mean(), 0)
    seen /= max(float(seen.max()), 1e-12)
    smooth = Image.Resampling.BILINEAR
    large = [
        np.asarray(Image.fromarray(one).resize((width, height), smooth)) for one in seen
    ]
    share = 0.8 * np.repeat(np.stack(large), n // len(wide), axis=0)[..., None]
    mixed = pictures.mean(axis=3, keepdims=True) * (1 - share) + np.array(COLOR) * share
    return np.asarray(mixed.round(), dtype=np.uint8)

"""Maps of where a model looks, from its weights; sheets of maps over the pictures of their clips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from obygaze_features.backbones.saliency import grad_cam, rollout
from obygaze_features.backbones.text import load_text_tower
from obygaze_features.core.errors import Mismatch
from obygaze_features.core.files import write_new
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.recipes import chosen_levels, exact_pictures, exact_source
from obygaze_features.store import RowStatus, Store
from obygaze_features.store.format.text import same_space, space_of_level
from obygaze_features.store.maps import MAPS, RANDOM, Directions, map_names, write_maps
from obygaze_features.video.container import BadVideo
from obygaze_features.video.saving import contact_sheet

ROLLOUT = "rollout"
COLOR = (255, 96, 0)


def text_directions(
    workspace: Workspace,
    store: Store,
    texts: Sequence[str],
    level: str = "clip",
    weights: str | None = None,
    tokenizer: str | None = None,
) -> Directions:
    """Return the vectors of texts, which must be in the space of a level of the store."""
    backbone = store.recipe.to_json()["backbone"]["name"]
    tower = load_text_tower(backbone, weights, tokenizer=tokenizer, workspace=workspace)
    space = space_of_level(store.recipe, level)
    if space is None or not same_space(space, tower.space_id):
        what = "the texts and the clips are in different embedding spaces"
        raise Mismatch(what, where=store.location, hint="--weights of the store")
    return dict(zip(texts, tower.embed(texts).astype(np.float64), strict=True))


def write_saliency(
    path: Path,
    workspace: Workspace,
    store: Store,
    clips: Sequence[str],
    directions: Directions,
    *,
    level: str = "clip",
    weights: str | None = None,
    facts: Mapping[str, Any],
) -> None:
    """Write a store of maps of clips of a CLIP or X-CLIP, whose frames are decoded again.

    Args:
        path: The folder of the new store.
        workspace: Where the manifest of the store is.
        store: The store of the clips; the maps are of the model and the frames of its recipe.
        clips: The clips.
        directions: What Grad-CAM looks for; without any, the maps are those of attention rollout.
        level: The level of the backbone that the directions are compared with.
        weights: The file or folder of the weights.
        facts: What the directions were made from, for the recipe.
    """
    source = exact_source(workspace, store, weights)
    chosen_levels(source.backbone, [level])
    vectors = np.stack(list(directions.values())) if directions else None

    def made() -> Iterator[NDArray[Any] | RowStatus]:
        for clip in clips:
            try:
                frames = source.decode(source.clips[clip]).frames
            except BadVideo as error:
                yield RowStatus.failed(error.stage, error.reason, error.what)
                continue
            pixels = source.backbone.normalise(frames)[None]
            if vectors is None:
                yield rollout(source.backbone, pixels)[0]
            else:
                yield grad_cam(source.backbone, pixels, level, vectors)[0]

    method = {"method": "grad-cam", "level": level} if directions else {"method": ROLLOUT}
    write_maps(path, store, clips, list(directions) or [ROLLOUT], {**method, **facts}, made())


def draw_maps(
    workspace: Workspace, store: Store, clip: str, folder: Path, *, force: bool = False
) -> list[Path]:
    """Draw a sheet for each direction of a clip, over its exact pictures; return the files.

    Random directions are left out.
    """
    decoded, (maps,) = exact_pictures(workspace, store, clip), store.matrix(MAPS, clips=[clip])
    paths = []
    for name, own in zip(map_names(store), maps, strict=True):
        if not name.startswith(RANDOM):
            pictures = overlay(decoded.frames, own)
            shown = replace(decoded, pictures=pictures, rows=np.arange(len(pictures)))
            paths.append(folder / f"{clip}.{'-'.join(name.split())}.png")
            write_new(paths[-1], contact_sheet(shown), force=force)
    return paths


def overlay(pictures: NDArray[np.uint8], maps: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pictures in grey, in orange where a map [step, row, column] is above its mean."""
    wide, (n, height, width, _) = maps.astype(np.float32), pictures.shape
    seen = np.maximum(wide - wide.mean(), 0)
    seen /= max(float(seen.max()), 1e-12)
    large = [Image.fromarray(one).resize((width, height), Image.Resampling.BILINEAR) for one in seen]
    share = 0.8 * np.repeat(np.stack([np.asarray(one) for one in large]), n // len(wide), axis=0)
    grey = pictures.mean(axis=3, keepdims=True)
    mixed = grey * (1 - share[..., None]) + np.array(COLOR) * share[..., None]
    return mixed.round().astype(np.uint8)

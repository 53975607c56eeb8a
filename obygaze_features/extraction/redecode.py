"""Extracts some clips of a store again, so that what it holds can be compared with the videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import DEFAULT_PRESET, Backbone
from obygaze_features.backbones.load import blank_padding, load_backbone
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.backends import stack, to_numpy
from obygaze_features.extraction.plan import Row, Target
from obygaze_features.extraction.recipes import SPELLED, chosen_levels, recipe_of, view_of
from obygaze_features.extraction.sources import rows_by_clip
from obygaze_features.store.read.reader import Store
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import DecodedClip, View, decode_clip

Levels = dict[str, npt.NDArray[Any]]


def redecoder(
    workspace: Workspace, store: Store, weights: str | None = None
) -> Callable[[Sequence[str]], Mapping[str, Levels]]:
    """A function from clip ids to their levels, made by the store's own recipe or not at all."""
    if store.recipe.is_unknown:
        raise FixInput("how these features were made is not known", where=store.location)
    recipe = store.recipe.to_dict()
    target = _target(recipe, weights)
    backbone = load_backbone(
        target.backbone,
        weights,
        dtype=target.dtype,
        attn_implementation=target.attention,
        tf32=target.tf32,
        compiled=target.compiled,
        workspace=workspace,
    )
    view, levels = view_of(backbone, target), chosen_levels(backbone, recipe["levels"])
    here = recipe_of(backbone, view, levels).as_claimed_by(store.recipe)
    if here.fingerprint != store.fingerprint:
        differences = list(map(str, here.diff(store.recipe, ("here", "in the store"))))
        raise Mismatch(
            "what is installed here would not make these features",
            where=store.location,
            hint="the same weights: --weights PATH",
            details=differences,
        )
    rows = rows_by_clip(workspace, store)

    def again(clip_ids: Sequence[str]) -> Mapping[str, Levels]:
        made = ((clip, _make(rows[clip], backbone, view, set(levels))) for clip in clip_ids)
        return {clip: found for clip, found in made if found is not None}

    return again


def _target(recipe: Mapping[str, Any], weights: str | None) -> Target:
    backbone, compute = recipe["backbone"], recipe["compute"]
    keyframes = recipe["sampling"].get("rule") == SPELLED["keyframes"]
    return Target(
        store="",
        backbone=f"{backbone['name']}@{backbone.get('preset', DEFAULT_PRESET)}",
        weights=weights,
        sampling="keyframes" if keyframes else "card",
        dtype=compute.get("dtype", "float32") if "attention" in compute else "float32",
        attention=compute.get("attention"),
        tf32=bool(compute.get("tf32", False)),
        compiled=bool(compute.get("compiled", False)),
    )


def _make(row: Row, backbone: Backbone, view: View, levels: set[str]) -> Levels | None:
    if not row.video or not Path(row.video).is_file():
        return None
    try:
        clip: DecodedClip = decode_clip(row.video, view, start_s=row.start_s, end_s=row.end_s)
    except BadVideo:
        return None
    pixels = backbone.preprocess(clip.frames)
    mask = None
    if backbone.takes_mask:
        pixels, mask = blank_padding(pixels, clip.mask), clip.mask[np.newaxis]
    found = backbone.forward(stack([pixels]), mask, only=levels)
    return {name: to_numpy(level)[0] for name, level in found.items()}

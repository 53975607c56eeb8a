"""Joined stores that are made by hand, beside the stores of their parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Recipe, Row, Store
from obygaze_features.store.joining import JoinedPart, canonical_order, recipe_of_parts
from support.experiments import store_of
from support.stores import a_recipe, made_store

MEDIA = {"heard": "sound", "read": "words"}


def recipe_of(name: str, cut: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe of a store of one sense, of clips or of windows that were cut so."""
    sampling = {"medium": MEDIA.get(name, "pictures"), **(cut or {})}
    return a_recipe(backbone={"name": name}, sampling=sampling)


def part_of(name: str, X: NDArray[Any]) -> JoinedPart:
    """The part of a joined store that is the array `clip` of a store of one sense."""
    recipe = recipe_of(name)
    fingerprint = recipe.fingerprint
    return JoinedPart(name, fingerprint, "clip", "float32", X.shape[1], recipe.medium)


def joined_stores(
    folder: Path,
    manifest: Manifest,
    senses: Mapping[str, NDArray[Any]],
    lacking: Mapping[str, Sequence[str]] | None = None,
    cut: Mapping[str, Any] | None = None,
) -> dict[str, Store]:
    """A store of each sense, and the store `joined` of all of them.

    `lacking` are the clips that failed in the store of a sense; `cut` says how films were cut into
    windows.
    """
    failed_in = lacking or {}
    stores = {}
    parts = []
    for name, X in senses.items():
        recipe = recipe_of(name, cut)
        failed = failed_in.get(name, ())
        stores[name] = store_of(
            folder / name, manifest, X, failed=failed, recipe=recipe
        )
        parts.append(part_of(name, X))
    order = canonical_order(parts)
    parts = [parts[place] for place in order]
    names = [[*senses][place] for place in order]
    rows = []
    for clip in manifest:
        row = Row(clip.clip_id, clip.movie_id)
        for name in names:
            if clip.clip_id in failed_in.get(name, ()):
                row = row._replace(status="failed", reason=f"{name}: no-sound: none")
        rows.append(row)
    values = np.concatenate([senses[name] for name in names], axis=1)
    recipe = Recipe.from_json(recipe_of_parts(parts, cut))
    arrays = {"clip": values.astype(np.float32)}
    if cut:
        for name in ("start_s", "end_s"):
            arrays[name] = np.array([getattr(clip, name) for clip in manifest])
    stores["joined"] = made_store(folder / "joined", rows, arrays, recipe=recipe)
    return stores

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


def recipe_of(name: str) -> Recipe:
    """The recipe of a store of one sense."""
    changes: dict[str, Any] = {"backbone": {"name": name}}
    if name in MEDIA:
        changes["sampling"] = {"medium": MEDIA[name]}
    return a_recipe(**changes)


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
) -> dict[str, Store]:
    """A store of each sense, and the store `joined` of all of them.

    `lacking` are the clips that failed in the store of a sense.
    """
    failed_in = lacking or {}
    stores = {}
    parts = []
    for name, X in senses.items():
        recipe = recipe_of(name)
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
    recipe = Recipe.from_json(recipe_of_parts(parts))
    values = values.astype(np.float32)
    stores["joined"] = made_store(
        folder / "joined", rows, {"clip": values}, recipe=recipe
    )
    return stores

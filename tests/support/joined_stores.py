"""Stores of several senses, and the join of all of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Recipe, Store
from obygaze_features.store.joining import JoinedPart, JoinedStore
from support.experiments import store_of
from support.stores import a_recipe

MEDIA = {"heard": "sound", "read": "words"}


def recipe_of(name: str) -> Recipe:
    sampling = {"medium": MEDIA.get(name, "pictures")}
    return a_recipe(backbone={"name": name}, sampling=sampling)


def join_of(stores: Mapping[str, Store]) -> JoinedStore:
    return JoinedStore(
        [JoinedPart(name, store, name) for name, store in stores.items()]
    )


def joined_stores(
    folder: Path,
    manifest: Manifest,
    senses: Mapping[str, NDArray[Any]],
    lacking: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Store]:
    """A store of each sense, and the join `joined` of all of them.

    `lacking` are the clips that failed in the store of a sense.
    """
    stores = {}
    for name, X in senses.items():
        failed = (lacking or {}).get(name, ())
        recipe = recipe_of(name)
        stores[name] = store_of(
            folder / name, manifest, X, failed=failed, recipe=recipe
        )
    return {**stores, "joined": join_of(stores)}

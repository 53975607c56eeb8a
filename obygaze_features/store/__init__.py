"""The feature store at rest: format, reader, writer, verification, sharing, interchange.

Making one: `create_store`, then `StoreWriter.commit_block` for each block, then `seal`.
Reading one: `open_store(path or URL)`, then `store.matrix(level, clips=...)` or `store.stream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obygaze_features.store.create import create_store as create_store
    from obygaze_features.store.reader import Matrix as Matrix
    from obygaze_features.store.reader import Store as Store
    from obygaze_features.store.reader import open_store as open_store
    from obygaze_features.store.recipe import Recipe as Recipe
    from obygaze_features.store.schema import ArraySpec as ArraySpec
    from obygaze_features.store.schema import RowStatus as RowStatus
    from obygaze_features.store.text import TextTable as TextTable
    from obygaze_features.store.writer import StoreWriter as StoreWriter

_HOME = {
    "ArraySpec": "schema",
    "Matrix": "reader",
    "Recipe": "recipe",
    "RowStatus": "schema",
    "Store": "reader",
    "StoreWriter": "writer",
    "TextTable": "text",
    "create_store": "create",
    "open_store": "reader",
}


def __getattr__(name: str) -> Any:
    # Listing commands must not import zarr.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

"""Feature stores: write, read, verify, change, copy, import and export them.

docs/store.md describes the files. `write_store` makes a store, `open_store(path or URL)` opens one,
and `store.matrix(array, clips=...)` reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.store.changing import merge as merge
    from obygaze_features.store.changing import subset as subset
    from obygaze_features.store.copying import pull as pull
    from obygaze_features.store.copying import push as push
    from obygaze_features.store.exporting import export_features as export_features
    from obygaze_features.store.importing import import_features as import_features
    from obygaze_features.store.importing import write_features as write_features
    from obygaze_features.store.layout import Array as Array
    from obygaze_features.store.making import write_store as write_store
    from obygaze_features.store.reading import Matrix as Matrix
    from obygaze_features.store.reading import Reason as Reason
    from obygaze_features.store.reading import Store as Store
    from obygaze_features.store.reading import open_store as open_store
    from obygaze_features.store.recipe import Recipe as Recipe
    from obygaze_features.store.rows import Row as Row
    from obygaze_features.store.texts import TextTable as TextTable
    from obygaze_features.store.texts import read_texts as read_texts
    from obygaze_features.store.texts import write_texts as write_texts
    from obygaze_features.store.verifying import verify as verify
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

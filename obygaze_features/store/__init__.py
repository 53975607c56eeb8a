"""Feature stores: format, reader, writer, verification, sharing, interchange.

Making one: `create_store`, then `StoreWriter.commit_block` for each block, then `seal`.
Reading one: `open_store(path or URL)`, then `store.matrix(array, clips=...)` or `store.stream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.store.format.recipe import Recipe as Recipe
    from obygaze_features.store.format.schema import ArraySpec as ArraySpec
    from obygaze_features.store.format.schema import RowSource as RowSource
    from obygaze_features.store.format.schema import RowStatus as RowStatus
    from obygaze_features.store.format.schema import TextTable as TextTable
    from obygaze_features.store.interchange import open_features as open_features
    from obygaze_features.store.interchange.export import export_store as export_store
    from obygaze_features.store.interchange.importing import (
        ImportSettings as ImportSettings,
    )
    from obygaze_features.store.interchange.importing import (
        import_features as import_features,
    )
    from obygaze_features.store.interchange.importing import (
        import_store as import_store,
    )
    from obygaze_features.store.read.diff import Diff as Diff
    from obygaze_features.store.read.diff import diff_stores as diff_stores
    from obygaze_features.store.read.log import StoreLog as StoreLog
    from obygaze_features.store.read.log import store_log as store_log
    from obygaze_features.store.read.overview import describe_store as describe_store
    from obygaze_features.store.read.overview import list_stores as list_stores
    from obygaze_features.store.read.reader import Matrix as Matrix
    from obygaze_features.store.read.reader import Status as Status
    from obygaze_features.store.read.reader import Store as Store
    from obygaze_features.store.read.reader import open_store as open_store
    from obygaze_features.store.read.segments import Segments as Segments
    from obygaze_features.store.read.uses import store_uses as store_uses
    from obygaze_features.store.read.verify import verify as verify
    from obygaze_features.store.remote.fetch import pull as pull
    from obygaze_features.store.remote.fetch import unpack as unpack
    from obygaze_features.store.remote.send import pack as pack
    from obygaze_features.store.remote.send import push as push
    from obygaze_features.store.write.create import create_store as create_store
    from obygaze_features.store.write.edit import merge as merge
    from obygaze_features.store.write.edit import subset as subset
    from obygaze_features.store.write.levels import derive as derive
    from obygaze_features.store.write.licence import state_licence as state_licence
    from obygaze_features.store.write.licence import store_licence as store_licence
    from obygaze_features.store.write.purge import purge as purge
    from obygaze_features.store.write.upgrade import upgrade as upgrade
    from obygaze_features.store.write.version import NewVersion as NewVersion
    from obygaze_features.store.write.withdraw import withdraw as withdraw
    from obygaze_features.store.write.writer import StoreWriter as StoreWriter
else:
    _EXPORTS = {
        "obygaze_features.store.format.recipe": ("Recipe",),
        "obygaze_features.store.format.schema": (
            "ArraySpec",
            "RowSource",
            "RowStatus",
            "TextTable",
        ),
        "obygaze_features.store.interchange": ("open_features",),
        "obygaze_features.store.interchange.export": ("export_store",),
        "obygaze_features.store.interchange.importing": (
            "ImportSettings",
            "import_features",
            "import_store",
        ),
        "obygaze_features.store.read.diff": ("Diff", "diff_stores"),
        "obygaze_features.store.read.log": ("StoreLog", "store_log"),
        "obygaze_features.store.read.overview": ("describe_store", "list_stores"),
        "obygaze_features.store.read.reader": (
            "Matrix",
            "Status",
            "Store",
            "open_store",
        ),
        "obygaze_features.store.read.segments": ("Segments",),
        "obygaze_features.store.read.uses": ("store_uses",),
        "obygaze_features.store.read.verify": ("verify",),
        "obygaze_features.store.remote.fetch": ("pull", "unpack"),
        "obygaze_features.store.remote.send": ("pack", "push"),
        "obygaze_features.store.write.create": ("create_store",),
        "obygaze_features.store.write.edit": ("merge", "subset"),
        "obygaze_features.store.write.levels": ("derive",),
        "obygaze_features.store.write.licence": ("state_licence", "store_licence"),
        "obygaze_features.store.write.purge": ("purge",),
        "obygaze_features.store.write.upgrade": ("upgrade",),
        "obygaze_features.store.write.version": ("NewVersion",),
        "obygaze_features.store.write.withdraw": ("withdraw",),
        "obygaze_features.store.write.writer": ("StoreWriter",),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

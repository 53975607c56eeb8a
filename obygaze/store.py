"""Look at, check, cut and share stores of features."""

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.contents import list_stores as ls
    from obygaze_features.store.changing import merge, subset
    from obygaze_features.store.copying import pull, push
    from obygaze_features.store.describing import describe_store as info
    from obygaze_features.store.exporting import export_features as export
    from obygaze_features.store.importing import import_features as import_
    from obygaze_features.store.importing import write_features as write
    from obygaze_features.store.verifying import verify
else:
    __getattr__, __dir__, _ = lazy_exports(__name__)

__all__ = [
    "export",
    "import_",
    "info",
    "ls",
    "merge",
    "pull",
    "push",
    "subset",
    "verify",
    "write",
]

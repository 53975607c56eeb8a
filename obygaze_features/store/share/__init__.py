"""Publications of stores: the packed store, its card and its metadata, on the hub or for Zenodo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.store.share.card import describe_store as describe_store
    from obygaze_features.store.share.publication import croissant as croissant
    from obygaze_features.store.share.publication import (
        publication_of as publication_of,
    )
    from obygaze_features.store.share.publication import publish as publish

if not TYPE_CHECKING:
    _EXPORTS = {
        "obygaze_features.store.share.card": ("describe_store",),
        "obygaze_features.store.share.publication": (
            "croissant",
            "publication_of",
            "publish",
        ),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

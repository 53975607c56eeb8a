"""Experiments as data: tasks, splits, grid, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.protocols.reading import load_protocol as load_protocol
    from obygaze_models.protocols.schema import Protocol as Protocol
else:
    _EXPORTS = {
        "obygaze_models.protocols.reading": ("load_protocol",),
        "obygaze_models.protocols.schema": ("Protocol",),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

"""Reports of runs: a page with tables and figures, and a comparison of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.report.comparison import compare as compare
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

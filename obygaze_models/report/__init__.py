"""What is shown of runs: one page, tables, figures, and runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.report.commands import compare as compare
    from obygaze_models.report.commands import report as report
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

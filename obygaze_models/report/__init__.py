"""Tables, figures and one self-contained page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.report.comparing import compare as compare
    from obygaze_models.report.runs import report as report
else:
    _EXPORTS = {
        "obygaze_models.report.comparing": ("compare",),
        "obygaze_models.report.runs": ("report",),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

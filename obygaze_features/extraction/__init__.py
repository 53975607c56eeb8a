"""From a plan to committed blocks: decode, batch, forward, write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.extraction.plan import ExtractPlan as ExtractPlan
    from obygaze_features.extraction.plan import Target as Target
    from obygaze_features.extraction.plan import make_plan as make_plan
    from obygaze_features.extraction.plan import read_plan_file as read_plan_file
    from obygaze_features.extraction.plan import write_plan as write_plan
    from obygaze_features.extraction.run import Resources as Resources
    from obygaze_features.extraction.run import RowProgress as RowProgress
    from obygaze_features.extraction.run import extract as extract
    from obygaze_features.extraction.shared_machine import StopFlag as StopFlag
    from obygaze_features.extraction.shared_machine import (
        stop_on_signals as stop_on_signals,
    )
    from obygaze_features.extraction.status import StoreStatus as StoreStatus
    from obygaze_features.extraction.status import store_status as store_status
    from obygaze_features.extraction.windows import make_windows as make_windows
else:
    _EXPORTS = {
        "obygaze_features.extraction.plan": (
            "ExtractPlan",
            "Target",
            "make_plan",
            "read_plan_file",
            "write_plan",
        ),
        "obygaze_features.extraction.run": ("Resources", "RowProgress", "extract"),
        "obygaze_features.extraction.shared_machine": ("StopFlag", "stop_on_signals"),
        "obygaze_features.extraction.status": ("StoreStatus", "store_status"),
        "obygaze_features.extraction.windows": ("make_windows",),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

"""From a plan to committed blocks: decode, batch, forward, write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.extraction.cut_films import write_windows as write_windows
    from obygaze_features.extraction.extracting import Extraction as Extraction
    from obygaze_features.extraction.extracting import extract as extract
    from obygaze_features.extraction.extracting import (
        extraction_status as extraction_status,
    )
    from obygaze_features.extraction.plan import ExtractPlan as ExtractPlan
    from obygaze_features.extraction.plan import Target as Target
    from obygaze_features.extraction.plan import make_plan as make_plan
    from obygaze_features.extraction.plan import read_plan_file as read_plan_file
    from obygaze_features.extraction.plan import write_plan as write_plan
    from obygaze_features.extraction.planning import plan_extraction as plan_extraction
    from obygaze_features.extraction.run import Resources as Resources
    from obygaze_features.extraction.run import RowProgress as RowProgress
    from obygaze_features.extraction.run import extract_plan as extract_plan
    from obygaze_features.extraction.shared_machine import StopFlag as StopFlag
    from obygaze_features.extraction.shared_machine import (
        stop_on_signals as stop_on_signals,
    )
    from obygaze_features.extraction.slurm import SlurmScript as SlurmScript
    from obygaze_features.extraction.slurm import (
        write_slurm_script as write_slurm_script,
    )
    from obygaze_features.extraction.status import StoreStatus as StoreStatus
    from obygaze_features.extraction.status import store_status as store_status
    from obygaze_features.extraction.windows import make_windows as make_windows
else:
    _EXPORTS = {
        "obygaze_features.extraction.cut_films": ("write_windows",),
        "obygaze_features.extraction.extracting": (
            "Extraction",
            "extract",
            "extraction_status",
        ),
        "obygaze_features.extraction.plan": (
            "ExtractPlan",
            "Target",
            "make_plan",
            "read_plan_file",
            "write_plan",
        ),
        "obygaze_features.extraction.planning": ("plan_extraction",),
        "obygaze_features.extraction.run": ("Resources", "RowProgress", "extract_plan"),
        "obygaze_features.extraction.shared_machine": ("StopFlag", "stop_on_signals"),
        "obygaze_features.extraction.slurm": ("SlurmScript", "write_slurm_script"),
        "obygaze_features.extraction.status": ("StoreStatus", "store_status"),
        "obygaze_features.extraction.windows": ("make_windows",),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

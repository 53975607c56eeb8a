"""From films to features: compare, plan, decode, compute, write blocks, seal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.extraction.costs import plan_extraction as plan_extraction
    from obygaze_features.extraction.cut_films import write_windows as write_windows
    from obygaze_features.extraction.extracting import extract as extract
    from obygaze_features.extraction.planning import Target as Target
    from obygaze_features.extraction.results import Extraction as Extraction
    from obygaze_features.extraction.slurm import SlurmScript as SlurmScript
    from obygaze_features.extraction.slurm import (
        write_slurm_script as write_slurm_script,
    )
    from obygaze_features.extraction.status import StoreStatus as StoreStatus
    from obygaze_features.extraction.status import (
        extraction_status as extraction_status,
    )
    from obygaze_features.extraction.text import embed_texts as embed_texts
    from obygaze_features.extraction.text import score_captions as score_captions
else:
    _EXPORTS = {
        "obygaze_features.extraction.cut_films": ("write_windows",),
        "obygaze_features.extraction.costs": ("plan_extraction",),
        "obygaze_features.extraction.extracting": ("extract",),
        "obygaze_features.extraction.results": ("Extraction",),
        "obygaze_features.extraction.slurm": ("SlurmScript", "write_slurm_script"),
        "obygaze_features.extraction.status": ("StoreStatus", "extraction_status"),
        "obygaze_features.extraction.planning": ("Target",),
        "obygaze_features.extraction.text": ("embed_texts", "score_captions"),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

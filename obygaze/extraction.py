"""Compute the features of clips."""

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.extraction.costs import plan_extraction as plan
    from obygaze_features.extraction.extracting import extract as run
    from obygaze_features.extraction.slurm import write_slurm_script as slurm
    from obygaze_features.extraction.stored import extraction_status as status
    from obygaze_features.extraction.text import embed_texts as text
    from obygaze_features.extraction.words import extract_words as words
else:
    __getattr__, __dir__, _ = lazy_exports(__name__)

__all__ = [
    "plan",
    "run",
    "slurm",
    "status",
    "text",
    "words",
]

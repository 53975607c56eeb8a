"""Texts: search by a text, prompts in the space of clips, captions scored by language models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.extraction.text.actions import embed_texts as embed_texts
    from obygaze_features.extraction.text.actions import (
        score_captions as score_captions,
    )
    from obygaze_features.extraction.text.texts import add_texts as add_texts
    from obygaze_features.extraction.text.texts import write_texts as write_texts

if not TYPE_CHECKING:
    _EXPORTS = {
        "obygaze_features.extraction.text.actions": ("embed_texts", "score_captions"),
        "obygaze_features.extraction.text.texts": ("add_texts", "write_texts"),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

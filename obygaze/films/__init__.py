"""Marks of annotators: the film page, labels of clips, agreement, exchange with other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.films.agreement import (
        measure_agreement as measure_agreement,
    )
    from obygaze.films.exchange import export_segments as export_segments
    from obygaze.films.labels import project_segments as project_segments
    from obygaze.films.projection import ClipSpan as ClipSpan
    from obygaze.films.projection import Projection as Projection
    from obygaze.films.projection import Segment as Segment
    from obygaze.films.projection import project as project
    from obygaze.films.projection import read_inputs as read_inputs

if not TYPE_CHECKING:
    _EXPORTS = {
        "obygaze.films.agreement": ("measure_agreement",),
        "obygaze.films.exchange": ("export_segments",),
        "obygaze.films.labels": ("project_segments",),
        "obygaze.films.projection": (
            "ClipSpan",
            "Projection",
            "Segment",
            "project",
            "read_inputs",
        ),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

"""Marks of annotators: the film page, labels of clips, agreement, exchange with other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.films.agreement import (
        measure_agreement as measure_agreement,
    )
    from obygaze.films.clip_spans import read_clip_spans as read_clip_spans
    from obygaze.films.formats import export_manifest as export_manifest
    from obygaze.films.formats import import_manifest as import_manifest
    from obygaze.films.labels import project_segments as project_segments
    from obygaze.films.mark_tables import Marks as Marks
    from obygaze.films.mark_tables import Segment as Segment
    from obygaze.films.mark_tables import read_marks as read_marks
    from obygaze.films.projection import ClipSpan as ClipSpan
    from obygaze.films.projection import Projection as Projection
    from obygaze.films.projection import project as project
    from obygaze.films.sampling import sample_clips as sample_clips

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

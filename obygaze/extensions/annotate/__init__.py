"""Marks of annotators: the film page, labels of clips, agreement, exchange with other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.extensions.annotate.agreement import (
        measure_agreement as measure_agreement,
    )
    from obygaze.extensions.annotate.exchange import export_segments as export_segments
    from obygaze.extensions.annotate.labels import project_segments as project_segments
    from obygaze.extensions.annotate.projection import ClipSpan as ClipSpan
    from obygaze.extensions.annotate.projection import Projection as Projection
    from obygaze.extensions.annotate.projection import Segment as Segment
    from obygaze.extensions.annotate.projection import project as project
    from obygaze.extensions.annotate.projection import read_inputs as read_inputs

_HERE = "obygaze.extensions.annotate"
COMMANDS = {
    "manifest project": (
        f"{_HERE}.labels:project_segments",
        "Turn experts' segments into clip labels.",
    ),
    "manifest agree": (
        f"{_HERE}.agreement:measure_agreement",
        "Measure the agreement of the annotators.",
    ),
    "manifest export": (
        f"{_HERE}.exchange:export_segments",
        "Write segments for other programs.",
    ),
    "manifest import segments": (
        f"{_HERE}.exchange:import_segments",
        "Read segments from ELAN, WebVTT, PySceneDetect, or a table.",
    ),
    "view": (
        f"{_HERE}.view:view",
        "Watch films, look at clips and scores, and mark segments, in the browser.",
        "Look",
    ),
}

if not TYPE_CHECKING:
    _EXPORTS = {
        "obygaze.extensions.annotate.agreement": ("measure_agreement",),
        "obygaze.extensions.annotate.exchange": ("export_segments",),
        "obygaze.extensions.annotate.labels": ("project_segments",),
        "obygaze.extensions.annotate.projection": (
            "ClipSpan",
            "Projection",
            "Segment",
            "project",
            "read_inputs",
        ),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

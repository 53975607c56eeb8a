"""Manifests: tables of clips with their labels, concepts and splits, keyed by clip id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.manifest.folds import assign_folds as assign_folds
    from obygaze_features.manifest.folds import grouped as grouped
    from obygaze_features.manifest.grouping import (
        ConceptVocabulary as ConceptVocabulary,
    )
    from obygaze_features.manifest.grouping import (
        group_concepts as group_concepts,
    )
    from obygaze_features.manifest.io import manifest_sha256 as manifest_sha256
    from obygaze_features.manifest.io import read_manifest as read_manifest
    from obygaze_features.manifest.io import write_manifest as write_manifest
    from obygaze_features.manifest.model import Annotation as Annotation
    from obygaze_features.manifest.model import Clip as Clip
    from obygaze_features.manifest.model import Header as Header
    from obygaze_features.manifest.model import Manifest as Manifest
    from obygaze_features.manifest.overview import show_manifest as show_manifest
    from obygaze_features.manifest.stats import Stats as Stats
    from obygaze_features.manifest.stats import compute_stats as compute_stats
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

"""Read, look at and change tables of clips."""

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.contents import list_manifests as ls
    from obygaze.films.formats import export_manifest as export
    from obygaze.films.formats import import_manifest as import_
    from obygaze.films.sampling import sample_clips as sample
    from obygaze_features.extraction.cut_films import write_windows as windows
    from obygaze_features.extraction.linking import link_manifest as link
    from obygaze_features.manifest.adapters.join_table import join_columns as join
    from obygaze_features.manifest.folds import assign_folds as folds
    from obygaze_features.manifest.grouping import group
    from obygaze_features.manifest.merging import make_labels as labels
    from obygaze_features.manifest.merging import merge_manifests as merge
    from obygaze_features.manifest.overview import show_manifest as show
    from obygaze_features.manifest.stats import compute_stats as stats
else:
    __getattr__, __dir__, _ = lazy_exports(__name__)

__all__ = [
    "export",
    "folds",
    "group",
    "import_",
    "join",
    "labels",
    "link",
    "ls",
    "merge",
    "sample",
    "show",
    "stats",
    "windows",
]

"""Marks of annotators: tables, ELAN files, labels of clips, and the pages of films."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.films.elan_files import export_marks as export_marks
    from obygaze.films.elan_files import write_blank_files as write_blank_files
    from obygaze.films.elan_files import write_scores as write_scores
    from obygaze.films.formats import export_manifest as export_manifest
    from obygaze.films.formats import import_manifest as import_manifest
    from obygaze.films.importing import import_files_of_marks as import_files_of_marks
    from obygaze.films.labels import project_marks as project_marks
    from obygaze.films.marks import Mark as Mark
    from obygaze.films.marks import Marks as Marks
    from obygaze.films.marks import read_marks as read_marks
    from obygaze.films.projection import ClipSpan as ClipSpan
    from obygaze.films.projection import Projection as Projection
    from obygaze.films.projection import project as project
    from obygaze.films.sampling import sample_clips as sample_clips

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

"""Read and write marks in films, and ELAN files."""

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.films.elan_files import export_marks as export
    from obygaze.films.elan_files import write_blank_files as blank
    from obygaze.films.elan_files import write_scores as scores
    from obygaze.films.importing import import_files_of_marks as import_
    from obygaze.films.labels import project_marks as clips
else:
    __getattr__, __dir__, _ = lazy_exports(__name__)

__all__ = ["blank", "clips", "export", "import_", "scores"]

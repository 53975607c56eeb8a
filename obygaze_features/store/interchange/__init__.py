"""Import features of other formats into stores, and export stores to other formats."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from obygaze_features.core.errors import FixUsage
from obygaze_features.store.interchange.source import FeatureSource, joined_source

_HERE = "obygaze_features.store.interchange"
# For each format that can be imported: the function that opens one path, and its own options.
FORMATS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "pth": (f"{_HERE}.array_files:open_pth", ()),
    "hdf5": (f"{_HERE}.hdf5:open_one", ("id_key", "movie_key")),
    "npz": (f"{_HERE}.array_files:open_npz", ("id_key", "movie_key")),
    "npy": (f"{_HERE}.array_files:open_npy", ()),
    "csv": (f"{_HERE}.array_files:open_csv", ("id_key", "movie_key")),
}


def open_features(
    format: str,
    paths: Sequence[Path | str],
    levels: Mapping[str, str] | None = None,
    *,
    id_key: str | None = None,
    movie_key: str | None = None,
) -> FeatureSource:
    """Open features that another program wrote, for `import_store`; close them afterwards.

    Args:
        format: pth, hdf5, npz, npy or csv.
        paths: files or folders; several become one source.
        levels: for each level its array, dataset path or folder; by default what is found.
        id_key: for hdf5, npz and csv, the array of clip ids.
        movie_key: for hdf5, npz and csv, the array of movie ids.
    """
    if format not in FORMATS:
        raise FixUsage(f"unknown format {format!r}", hint=f"one of {', '.join(FORMATS)}")
    function, own = FORMATS[format]
    options: dict[str, Any] = {"id_key": id_key, "movie_key": movie_key}
    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() - own:
        raise FixUsage(f"--{name.replace('_', '-')} does not apply to {format}")
    open_one = resolve_name(function)
    sources = [open_one(Path(path), dict(levels or {}), **given) for path in paths]
    return sources[0] if len(sources) == 1 else joined_source(sources)

"""Import features of other formats into stores, and export stores to other formats."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Literal

from obygaze_features.core.errors import FixUsage
from obygaze_features.store.interchange.source import FeatureSource, joined_source

_HERE = "obygaze_features.store.interchange"
Format = Literal["pth", "hdf5", "npz", "npy", "parquet"]
# The function that opens one path, for each format that can be imported.
FORMATS: Mapping[Format, str] = {
    "pth": f"{_HERE}.array_files:open_pth",
    "hdf5": f"{_HERE}.hdf5:open_one",
    "npz": f"{_HERE}.array_files:open_npz",
    "npy": f"{_HERE}.array_files:open_npy",
    "parquet": f"{_HERE}.parquet_files:open_parquet",
}
WITH_ID_KEY = ("hdf5", "npz", "parquet")


def open_features(
    format: Format,
    paths: Path | str | Sequence[Path | str],
    arrays: Mapping[str, str] | None = None,
    *,
    id_key: str | None = None,
) -> FeatureSource:
    """Open features that another program wrote, for `import_store`; close them afterwards.

    The parameters are those of `import_features`.
    """
    if format not in FORMATS:
        raise FixUsage(
            f"unknown format {format!r}", hint=f"one of {', '.join(FORMATS)}"
        )
    if id_key is not None and format not in WITH_ID_KEY:
        raise FixUsage(f"--id-key does not apply to {format}")
    every = [paths] if isinstance(paths, str | Path) else paths
    if not every:
        raise FixUsage("expected at least one file or folder of features, got none")
    open_one = resolve_name(FORMATS[format])
    options: dict[str, str] = {}
    if id_key is not None:
        options["id_key"] = id_key
    sources = [open_one(Path(path), dict(arrays or {}), **options) for path in every]
    return sources[0] if len(sources) == 1 else joined_source(sources)

"""Open features that another program wrote, in any of the formats."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.errors import FixUsage
from obygaze_features.store.functions import ImportFormat
from obygaze_features.store.importing.npz import open_npz
from obygaze_features.store.importing.parquet import open_parquet
from obygaze_features.store.importing.reader import Reader
from obygaze_features.store.importing.tables import open_table
from obygaze_features.store.importing.trees import open_npy, open_pth


def _open_hdf5(path: Path, arrays: Mapping[str, str], **options: str) -> Reader:
    # The other formats do without h5py, whose import takes as long as that of many features.
    from obygaze_features.store.importing.hdf5 import open_hdf5

    return open_hdf5(path, arrays, **options)


class Format(NamedTuple):
    """How a format is opened; whether arrays in it have names, and ids an array of their own."""

    open: Callable[..., Reader]
    has_names: bool


FORMATS: Mapping[ImportFormat, Format] = {
    "npz": Format(open_npz, has_names=True),
    "hdf5": Format(_open_hdf5, has_names=True),
    "npy": Format(open_npy, has_names=False),
    "pth": Format(open_pth, has_names=False),
    "parquet": Format(open_parquet, has_names=True),
    "csv": Format(open_table, has_names=True),
    "xlsx": Format(open_table, has_names=True),
}


def open_features(
    format: ImportFormat,
    source: str | Path,
    arrays: Mapping[str, str] | None = None,
    *,
    id_key: str | None = None,
) -> Reader:
    """Open features that another program wrote; close them afterwards.

    The parameters are those of `import_features`.
    """
    if format not in FORMATS:
        raise FixUsage(
            f"unknown format {format!r}", hint=f"one of {', '.join(FORMATS)}"
        )
    kind = FORMATS[format]
    if kind.has_names:
        options = {} if id_key is None else {"id_key": id_key}
        return kind.open(Path(source), dict(arrays or {}), **options)
    if arrays or id_key is not None:
        raise FixUsage(f"--array and --id-key do not apply to {format}")
    return kind.open(Path(source))

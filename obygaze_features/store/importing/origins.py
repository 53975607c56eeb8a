"""Of which store an export is: every export says it, and how its features were made."""

import json
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import InstallExtra
from obygaze_features.core.lazy import need
from obygaze_features.store.card import MOST_CARD_BYTES
from obygaze_features.store.importing.reader import DAMAGE, ORIGIN_KEY
from obygaze_features.store.layout import CARD

HDF5_ENDINGS = (".h5", ".hdf5")
EXTRA = "parquet"


def read_origin(path: Path) -> dict[str, Any] | None:
    """Return of which store an export is, with its `seal`; None for other files and folders."""
    text = ""
    with suppress(*DAMAGE, InstallExtra):
        if path.is_dir():
            text = _origin_of_card(path / CARD)
        elif path.suffix == ".npz":
            text = _origin_of_npz(path)
        elif path.suffix in HDF5_ENDINGS:
            text = _origin_of_hdf5(path)
        elif path.suffix == ".parquet":
            text = _origin_of_parquet(path)
    with suppress(ValueError, RecursionError):
        origin = json.loads(text)
        if isinstance(origin, dict) and isinstance(origin.get("seal"), str):
            return origin
    return None


def _origin_of_card(path: Path) -> str:
    if path.stat().st_size > MOST_CARD_BYTES:
        return ""
    for line in path.read_text("utf-8").splitlines():
        key, _, value = line.partition(": ")
        if key == ORIGIN_KEY:
            return value
    return ""


def _origin_of_npz(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo(f"{ORIGIN_KEY}.npy").file_size > MOST_CARD_BYTES:
            return ""
        with np.load(path, allow_pickle=False) as arrays:
            return str(arrays[ORIGIN_KEY])


def _origin_of_hdf5(path: Path) -> str:
    import h5py

    from obygaze_features.store.importing.hdf5 import check_texts

    with h5py.File(path, "r") as file:
        check_texts(file)
        return str(file.attrs[ORIGIN_KEY])


def _origin_of_parquet(path: Path) -> str:
    parquet = need("pyarrow.parquet", EXTRA, "reading Parquet")
    metadata: dict[bytes, bytes] = parquet.read_schema(path).metadata or {}
    return metadata[ORIGIN_KEY.encode()].decode()

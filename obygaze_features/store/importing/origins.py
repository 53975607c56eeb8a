"""Of which store an export is: every export says it, and how its features were made."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import InstallExtra
from obygaze_features.store.card import MOST_CARD_BYTES
from obygaze_features.store.importing import npz, parquet
from obygaze_features.store.importing.reader import FOREIGN_DAMAGE, ORIGIN_KEY
from obygaze_features.store.layout import CARD

HDF5_ENDINGS = (".h5", ".hdf5")


def read_origin(path: Path) -> dict[str, Any] | None:
    """Return of which store an export is, with its `seal`; None for other files and folders."""
    text = ""
    with suppress(*FOREIGN_DAMAGE, InstallExtra):
        if path.is_dir():
            text = _origin_of_card(path / CARD)
        elif path.suffix == ".npz":
            text = npz.origin_text(path)
        elif path.suffix in HDF5_ENDINGS:
            # h5py is imported only where there is such a file.
            from obygaze_features.store.importing.hdf5 import origin_text

            text = origin_text(path)
        elif path.suffix == ".parquet":
            text = parquet.origin_text(path)
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

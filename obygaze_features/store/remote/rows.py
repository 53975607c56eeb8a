"""Fetch the rows of some movies of a large remote store, by way of its index, into a new store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress
from obygaze_features.core.files import sha256_file
from obygaze_features.store.format.records import STORE_FILE
from obygaze_features.store.format.schema import ArraySpec
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote import open_files
from obygaze_features.store.remote.files import CountedFiles, Files
from obygaze_features.store.remote.object_store import stop_when_unreachable
from obygaze_features.store.remote.selection import Transferred
from obygaze_features.store.write.edit import copy_rows


@dataclass(frozen=True)
class RowSelection:
    """The selected rows and arrays of a large remote store, found by its index."""

    store: Store
    source: CountedFiles
    rows: npt.NDArray[np.int64]
    arrays: Sequence[ArraySpec]


def select_rows(
    location: str | Path | Files,
    target: Path | str,
    levels: Sequence[str] | None,
    movies: Iterable[str],
) -> RowSelection | None:
    """Return the rows of some movies; None if there is no index, or a partial copy to add to."""
    source = CountedFiles(open_files(location) if isinstance(location, str | Path) else location)
    store, there = open_store(source), Path(target, STORE_FILE)
    if there.is_file() and sha256_file(there) == store.plan.sha256:
        return None
    if store.commits.find_index() is None:
        return None
    names = [spec.name for spec in store.plan.arrays] if levels is None else levels
    arrays = [store.plan.array(name) for name in names]
    return RowSelection(store, source, store.select(movies=movies).rows, arrays)


def fetch_rows(
    selection: RowSelection, target: Path | str, progress: Progress | None = None
) -> Transferred:
    """Make a store of the selected rows; the same call again continues. `progress` counts clips."""
    started, source, rows = time.monotonic(), selection.source, selection.rows
    with stop_when_unreachable():
        made = copy_rows(selection.store, target, rows, selection.arrays, progress)
    return Transferred(
        source=source.location,
        target=str(target),
        n_files=len(open_store(made.path).commits.listed_files()),
        n_files_kept=0,
        n_bytes_rows=len(rows) * sum(spec.row_bytes for spec in selection.arrays),
        n_bytes_needed=source.n_bytes,
        n_bytes_transferred=source.n_bytes,
        n_requests=source.n_requests,
        seconds=time.monotonic() - started,
        partial=False,
    )

"""Gives rows of a committed block that failed or changed another result, and keeps the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.store.format.records import Marker, Plan
from obygaze_features.store.format.schema import OK, RowSource, RowStatus


def merged_block(
    path: Path,
    plan: Plan,
    old: Marker,
    rows: Sequence[int],
    arrays: Mapping[str, npt.NDArray[Any]],
    statuses: Sequence[RowStatus],
    sources: Sequence[RowSource | None],
) -> tuple[dict[str, npt.NDArray[Any]], list[RowStatus]]:
    """The whole block with new results in rows that were not ok, or had another source."""
    from obygaze_features.store.read.reader import open_store

    first, after = old.rows
    if len(statuses) != len(rows) or len(set(rows)) != len(rows):
        raise FixInput(f"{len(rows)} rows and {len(statuses)} statuses do not go together")
    for row, source in zip(rows, sources, strict=True):
        if not first <= row < after:
            raise FixInput(f"row {row} is outside block {old.block}, rows {first}-{after - 1}")
        before = old.sources.get(row)
        is_changed = None not in (source, before) and source != before
        if old.noted.get(row, OK).is_ok and not is_changed:
            raise FixInput(
                f"row {row} is ok, and nothing says that it was made from other pictures"
            )
    _check(plan, len(rows), arrays)
    told = [old.noted.get(row, OK) for row in range(first, after)]
    for row, status in zip(rows, statuses, strict=True):
        told[row - first] = status
    store = open_store(path)
    whole = {}
    for spec in plan.arrays:
        block = store.arrays.read(spec, np.arange(first, after))
        block[np.asarray(rows) - first] = arrays[spec.name]
        whole[spec.name] = block
    return whole, told


def _check(plan: Plan, n_rows: int, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    names = {spec.name for spec in plan.arrays}
    if names != set(arrays):
        raise FixInput(f"each array of the store is needed: {', '.join(sorted(names))}")
    for spec in plan.arrays:
        given = np.asarray(arrays[spec.name])
        if given.shape != (n_rows, *spec.tail_shape) or not np.can_cast(
            given.dtype, spec.dtype, "same_kind"
        ):
            raise FixInput(
                f"{given.dtype} of shape {given.shape} where {spec.dtype} of shape "
                f"{(n_rows, *spec.tail_shape)} is stored",
                where=spec.name,
            )

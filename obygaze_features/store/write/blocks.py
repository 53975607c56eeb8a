"""Check blocks, encode them with zarr, and make the marker that lists their files."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore

from obygaze_features.core.errors import FixInput
from obygaze_features.store.format.chunks import ChunkLayout
from obygaze_features.store.format.records import Marker, Plan
from obygaze_features.store.format.schema import OK, ArraySpec, FileMark, RowSource, RowStatus
from obygaze_features.store.read.reader import Store

Values = Mapping[str, npt.NDArray[Any]]


class BlockEncoder:
    """Encodes blocks in memory with zarr, so that the hashed bytes are the written ones."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.memory: dict[str, Any] = {
            key: cpu.Buffer.from_bytes(json.dumps(value).encode())
            for key, value in plan.zarr.items()
        }
        documents = {spec.name: plan.zarr[f"{spec.name}/zarr.json"] for spec in plan.arrays}
        self.layouts = {
            name: ChunkLayout.of(plan, name, document, "store.json")
            for name, document in documents.items()
        }
        store = MemoryStore(self.memory)
        self.lock = threading.Lock()
        # Without this zarr would leave out the files of blocks in which every row failed.
        self.arrays = {
            spec.name: zarr.open_array(store, path=spec.name, mode="r+", zarr_format=3).with_config(
                {"write_empty_chunks": True}
            )
            for spec in plan.arrays
        }

    def encode(
        self,
        block: int,
        arrays: Values,
        statuses: Sequence[RowStatus] | None,
        sources: Mapping[int, RowSource],
        seconds: Mapping[str, float] | None,
        versions: Mapping[str, str] | None,
    ) -> tuple[Marker, Mapping[str, memoryview]]:
        """Check a block; return its marker and the bytes of its files. `sources` are by row."""
        first, after = self.plan.block_range(block)
        every = list(statuses) if statuses is not None else [OK] * (after - first)
        if len(every) != after - first:
            raise FixInput(f"{len(every)} statuses for the {after - first} rows of block {block}")
        data = self._files(block, _checked(self.plan, block, arrays, every))
        marker = Marker(
            block=block,
            rows=(first, after),
            recipe=self.plan.recipe,
            noted={first + i: status for i, status in enumerate(every) if status != OK},
            sources=sources,
            files={
                name: FileMark(view.nbytes, hashlib.sha256(view).hexdigest())
                for name, view in data.items()
            },
            plan=self.plan.sha256,
            crc32c={
                name: layout.crc32c(np.asarray(data[self.plan.block_key(name, block)]))
                for name, layout in self.layouts.items()
            },
            versions=dict(versions or {}),
            seconds={key: round(float(value), 3) for key, value in (seconds or {}).items()},
            host=socket.gethostname(),
        )
        return marker, data

    def _files(self, block: int, values: Values) -> dict[str, memoryview]:
        """Return the bytes of each file of the block, by its name relative to the store."""
        first, after = self.plan.block_range(block)
        encoded = {}
        with self.lock:
            for name, array in self.arrays.items():
                array[first:after] = values[name]
                key = self.plan.block_key(name, block)
                buffer = self.memory.pop(key.removeprefix("data.zarr/"))
                encoded[key] = memoryview(buffer.as_numpy_array()).cast("B")
        return encoded


def sources_by_row(
    rows: Sequence[int], sources: Sequence[RowSource | None] | None
) -> dict[int, RowSource]:
    """Return the sources that are recorded, by row."""
    pairs = zip(rows, sources or [None] * len(rows), strict=True)
    return {row: source for row, source in pairs if source is not None}


def with_rows_replaced(
    store: Store,
    old: Marker,
    rows: Sequence[int],
    arrays: Values,
    statuses: Sequence[RowStatus],
    sources: Sequence[RowSource | None],
) -> tuple[dict[str, npt.NDArray[Any]], list[RowStatus], dict[int, RowSource]]:
    """Return a whole block with new results in rows that were not ok, or had another source."""
    first, after = old.rows
    if len(statuses) != len(rows) or len(set(rows)) != len(rows):
        raise FixInput(f"{len(statuses)} statuses for {len(set(rows))} different rows")
    for row, source in zip(rows, sources, strict=True):
        if not first <= row < after:
            raise FixInput(f"row {row} is outside block {old.block}, rows {first}-{after - 1}")
        before = old.sources.get(row)
        is_changed = None not in (source, before) and source != before
        if old.noted.get(row, OK).is_ok and not is_changed:
            raise FixInput(f"row {row} is ok and its source did not change: not replaced")
    new = _checked_shapes(store.plan, arrays, len(rows), f"block {old.block}")
    merged = [old.noted.get(row, OK) for row in range(first, after)]
    for row, status in zip(rows, statuses, strict=True):
        merged[row - first] = status
    whole = {}
    for spec in store.plan.arrays:
        whole[spec.name] = store.arrays.read(spec, np.arange(first, after))
        whole[spec.name][np.asarray(rows) - first] = new[spec.name]
    kept = {row: source for row, source in old.sources.items() if row not in rows}
    return whole, merged, {**kept, **sources_by_row(rows, sources)}


def _checked(
    plan: Plan, block: int, arrays: Values, statuses: Sequence[RowStatus]
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays as they will be stored: right types, nothing in rows that failed."""
    where, first = f"block {block}", plan.block_range(block)[0]
    given = _checked_shapes(plan, arrays, len(statuses), where)
    ok = np.array([status.is_ok for status in statuses], dtype=bool)
    return {
        spec.name: _stored(spec, given[spec.name], ok, f"{spec.name}, {where}", first)
        for spec in plan.arrays
    }


def _checked_shapes(
    plan: Plan, arrays: Values, n_rows: int, where: str
) -> dict[str, npt.NDArray[Any]]:
    names = {spec.name for spec in plan.arrays}
    if names != set(arrays):
        raise FixInput(
            f"expected the arrays {', '.join(sorted(names))}, got {', '.join(sorted(arrays))}",
            where=where,
        )
    given = {name: np.asarray(values) for name, values in arrays.items()}
    for spec in plan.arrays:
        values, shape = given[spec.name], (n_rows, *spec.tail_shape)
        if values.shape != shape:
            raise FixInput(
                f"the shape is {values.shape}, the store has {shape}",
                where=f"{spec.name}, {where}",
            )
        if not np.can_cast(values.dtype, spec.dtype, "same_kind"):
            raise FixInput(
                f"{values.dtype} cannot be stored as {spec.dtype}", where=f"{spec.name}, {where}"
            )
    return given


def _stored(
    spec: ArraySpec,
    values: npt.NDArray[Any],
    ok: npt.NDArray[np.bool_],
    where: str,
    first: int,
) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):  # overflow is found and named below
        stored = values.astype(spec.dtype)
    if spec.is_level:
        finite = np.isfinite(stored).reshape(len(ok), -1).all(axis=1)
        wrong = np.flatnonzero(ok & ~finite)
        if len(wrong):
            raise FixInput(
                f"row {first + int(wrong[0])} and {len(wrong) - 1} more are ok but not finite",
                where=where,
                hint="give them the status failed, or use a wider dtype",
            )
    stored[~ok] = np.nan if spec.is_float else 0
    return stored

"""Check blocks, encode them, and make the marker that lists their files."""

import hashlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.store.format.chunks import ChunkLayout
from obygaze_features.store.format.records import Marker, Plan
from obygaze_features.store.format.schema import OK, FileMark, RowSource, RowStatus
from obygaze_features.store.read.reader import Store

Values = Mapping[str, npt.NDArray[Any]]
# The bytes of a file, one after another.
Pieces = Sequence[Any]


def encode_block(
    plan: Plan,
    layouts: Mapping[str, ChunkLayout],
    block: int,
    arrays: Values,
    statuses: Sequence[RowStatus] | None,
    sources: Sequence[RowSource | None] | None,
    seconds: Mapping[str, float] | None,
    versions: Mapping[str, str] | None,
) -> tuple[Marker, dict[str, Pieces]]:
    """Check a block; return its marker and the bytes of its files."""
    rows = range(*plan.block_range(block))
    every = [OK] * len(rows) if statuses is None else statuses
    recorded = [None] * len(rows) if sources is None else sources
    for what, given in (("statuses", every), ("sources", recorded)):
        if len(given) != len(rows):
            raise FixInput(f"{len(given)} {what} for the {len(rows)} rows of block {block}")
    data: dict[str, Pieces] = {}
    crc32c, files = {}, {}
    for spec, values in zip(plan.arrays, _checked(plan, block, arrays, every), strict=True):
        layout, name = layouts[spec.name], plan.block_key(spec.name, block)
        fill_value = np.nan if spec.is_float else 0
        data[name], crc32c[spec.name] = layout.encode(values, fill_value)
        digest = hashlib.sha256()
        for piece in data[name]:
            digest.update(piece)
        files[name] = FileMark(sum(map(len, data[name])), digest.hexdigest())
    marker = Marker(
        block=block,
        rows=(rows.start, rows.stop),
        recipe=plan.recipe,
        noted={row: one for row, one in zip(rows, every, strict=True) if one != OK},
        sources={row: one for row, one in zip(rows, recorded, strict=True) if one is not None},
        files=files,
        plan=plan.sha256,
        crc32c=crc32c,
        versions=dict(versions or {}),
        seconds={key: round(float(value), 3) for key, value in (seconds or {}).items()},
        host=socket.gethostname(),
    )
    return marker, data


def with_rows_replaced(
    store: Store,
    old: Marker,
    rows: Sequence[int],
    arrays: Values,
    statuses: Sequence[RowStatus],
    sources: Sequence[RowSource | None] | None,
) -> tuple[Values, list[RowStatus], list[RowSource | None]]:
    """Return a whole block with new results in rows that were not ok, or had another source."""
    every = range(*old.rows)
    if len(statuses) != len(rows) or len(set(rows)) != len(rows):
        raise FixInput(f"{len(statuses)} statuses for {len(set(rows))} different rows")
    new = _checked_shapes(store.plan, arrays, len(rows), f"block {old.block}")
    merged = [old.noted.get(row, OK) for row in every]
    recorded = [old.sources.get(row) for row in every]
    given = [None] * len(rows) if sources is None else sources
    for row, status, source in zip(rows, statuses, given, strict=True):
        if row not in every:
            raise FixInput(f"row {row} is outside block {old.block}, rows {every[0]}-{every[-1]}")
        place = row - every.start
        is_changed = None not in (source, recorded[place]) and source != recorded[place]
        if merged[place].is_ok and not is_changed:
            raise FixInput(f"row {row} is ok and its source did not change: not replaced")
        merged[place], recorded[place] = status, source
    places = np.asarray(rows) - every.start
    whole = {}
    for spec in store.plan.arrays:
        whole[spec.name] = store.arrays.read(spec, np.array(every))
        whole[spec.name][places] = new[spec.name]
    return whole, merged, recorded


def _checked(
    plan: Plan, block: int, arrays: Values, statuses: Sequence[RowStatus]
) -> Iterator[npt.NDArray[Any]]:
    """Yield the arrays as they will be stored: of their types, nothing in rows that failed."""
    where, first = f"block {block}", plan.block_range(block)[0]
    given = _checked_shapes(plan, arrays, len(statuses), where)
    ok = np.array([status.is_ok for status in statuses], dtype=bool)
    for spec in plan.arrays:
        with np.errstate(over="ignore"):  # overflow is found and named below
            values = given[spec.name].astype(spec.dtype, copy=not ok.all())
        if spec.is_level:
            is_half = values.dtype == np.float16  # of these NumPy tests the bits ten times faster
            finite = (values.view("u2") & 0x7C00) != 0x7C00 if is_half else np.isfinite(values)
            wrong = np.flatnonzero(ok & ~finite.reshape(len(ok), -1).all(axis=1))
            if len(wrong):
                raise FixInput(
                    f"row {first + int(wrong[0])} and {len(wrong) - 1} more are ok but not finite",
                    where=f"{spec.name}, {where}",
                    hint="give them the status failed, or use a wider dtype",
                )
        if not ok.all():
            values[~ok] = np.nan if spec.is_float else 0
        yield values


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
                f"the shape is {values.shape}, the store has {shape}", where=f"{spec.name}, {where}"
            )
        if not np.can_cast(values.dtype, spec.dtype, "same_kind"):
            raise FixInput(
                f"{values.dtype} cannot be stored as {spec.dtype}", where=f"{spec.name}, {where}"
            )
    return given

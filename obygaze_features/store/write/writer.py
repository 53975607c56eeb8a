"""Writes whole blocks into a store, from any number of processes; the commit decides."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore

from obygaze_features.core.errors import AlreadyThere, FixInput, Mismatch, NotFound
from obygaze_features.store.format.limits import disk_errors
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.records import (
    SEAL_FILE,
    STORE_FILE,
    Marker,
    Plan,
    Seal,
    marker_key,
)
from obygaze_features.store.format.schema import OK, ArraySpec, FileMark, RowSource, RowStatus
from obygaze_features.store.write import commit
from obygaze_features.store.write.create import read_plan

if TYPE_CHECKING:
    from obygaze_features.store.read.text import TextTable

ATTEMPTS = 5
Values = Mapping[str, npt.NDArray[Any]]


class Encoded(NamedTuple):
    """A block as zarr spells it: the marker that promises it, and the bytes of its files."""

    marker: Marker
    data: Mapping[str, memoryview]


class StoreWriter:
    """One process's hand on a store it fills. Cheap to make; safe to use from several threads."""

    def __init__(self, path: Path | str, *, recipe: Recipe | None = None) -> None:
        self.path = Path(path)
        if not (self.path / STORE_FILE).is_file():
            raise NotFound("there is no store here", where=str(path), hint="plan it first")
        self.plan: Plan = read_plan(self.path)
        if recipe is not None:
            self.plan.recipe.require(
                recipe,
                where=str(path),
                what="this store has another recipe",
                places=("in the store", "asked for"),
            )
        self._encoder = _Encoder(self.plan)

    def commit_block(
        self,
        block: int,
        arrays: Values,
        statuses: Sequence[RowStatus] | None = None,
        *,
        sources: Sequence[RowSource | None] | None = None,
        seconds: Mapping[str, float] | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> bool:
        """Put a block into the store for good, synced to disk.

        True where this call committed it; False where the same content was there already. Other
        content than what was committed is an error that names the block. `sources` say what each
        row was made from.
        """
        first, after = self.plan.block_range(block)
        if sources is not None and len(sources) != after - first:
            raise FixInput(f"{len(sources)} sources for the {after - first} rows of block {block}")
        made_from = _recorded(range(first, after), sources)
        encoded = self._encode(block, arrays, statuses, made_from, seconds, versions)
        return self._put(encoded, expected=None)

    def redo_rows(
        self,
        block: int,
        rows: Sequence[int],
        arrays: Values,
        statuses: Sequence[RowStatus],
        *,
        sources: Sequence[RowSource | None] | None = None,
        seconds: Mapping[str, float] | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> bool:
        """Give rows of a committed block another result: rows that are not ok, or that changed.

        `rows` are rows of the store, and `arrays` hold one row for each of them. A row that is ok
        is only replaced where its entry in `sources` is another than the recorded one.
        """
        from obygaze_features.store.write.retry import merged_block

        found = commit.read_marker(self.path, block)
        if found is None or self.sealed:
            raise AlreadyThere(
                f"block {block} is sealed" if self.sealed else f"block {block} is not committed",
                where=str(self.path),
                hint="obygaze store merge, into a store that is not sealed",
            )
        old, stamp = found
        new = list(sources) if sources is not None else [None] * len(rows)
        whole, all_statuses = merged_block(self.path, self.plan, old, rows, arrays, statuses, new)
        kept = {row: source for row, source in old.sources.items() if row not in rows}
        made_from = {**kept, **_recorded(rows, new)}
        encoded = self._encode(block, whole, all_statuses, made_from, seconds, versions)
        marker = encoded.marker.as_revision(old.revision + 1, stamp)
        return self._put(Encoded(marker, encoded.data), expected=stamp)

    @property
    def sealed(self) -> bool:
        """Whether the store is complete and closed."""
        return (self.path / SEAL_FILE).exists()

    def pending_blocks(self) -> list[int]:
        """The blocks nobody has committed, in order; claims of killed processes do not count."""
        there = {path.name for path in (self.path / "commits").glob("block-*.json")}
        if self.sealed:  # asked last: a store that is sealed meanwhile loses its markers
            return []
        names = ((block, Path(marker_key(block)).name) for block in range(self.plan.n_blocks))
        return [block for block, name in names if name not in there]

    def rows_to_redo(self) -> dict[int, list[int]]:
        """For each committed block, its rows that failed or had no video."""
        found = ((block, self.marker(block)) for block in range(self.plan.n_blocks))
        rows = {
            block: sorted(row for row, status in marker.noted.items() if not status.is_ok)
            for block, marker in found
            if marker is not None
        }
        return {block: those for block, those in rows.items() if those}

    def marker(self, block: int) -> Marker | None:
        """What was committed of a block; None where nothing was, or where the seal replaced it."""
        found = commit.read_marker(self.path, block)
        if found is None:
            return None
        self.plan.recipe.require(
            found[0].recipe,
            where=str(self.path / marker_key(block)),
            what=f"block {block} was committed with another recipe",
        )
        return found[0]

    def clean_litter(self) -> int:
        """Finish what killed processes had decided, remove what they had not; how many of both."""
        claimed = commit.claims(self.path)
        folders = list(commit.litter(self.path))
        with disk_errors(self.path):
            if not self.sealed:
                commit.make_room(self.path)
            for block in claimed:
                commit.finish_claim(self.path, block)
            for folder in folders:
                commit.discard(folder)
        return len(claimed) + len(folders)

    def add_text(self, table: TextTable) -> bool:
        """Add the texts that go with the features; False where the same were there already."""
        from obygaze_features.store.read.text import add_text

        return add_text(self, table)

    def seal(self) -> Seal:
        """Close a complete store: after this it never changes. Again is a no-op."""
        from obygaze_features.store.write.seal import seal_store

        with disk_errors(self.path):
            return seal_store(self)

    def _encode(
        self,
        block: int,
        arrays: Values,
        statuses: Sequence[RowStatus] | None,
        sources: Mapping[int, RowSource],
        seconds: Mapping[str, float] | None,
        versions: Mapping[str, str] | None,
    ) -> Encoded:
        first, after = self.plan.block_range(block)
        told = list(statuses) if statuses is not None else [OK] * (after - first)
        checked = _checked(self.plan, block, arrays, told)
        data = self._encoder.encode(block, checked)
        marker = Marker(
            block=block,
            rows=(first, after),
            recipe=self.plan.recipe,
            noted={first + i: status for i, status in enumerate(told) if status != OK},
            files={
                name: FileMark(view.nbytes, hashlib.sha256(view).hexdigest())
                for name, view in data.items()
            },
            versions=dict(versions or {}),
            seconds={key: round(float(value), 3) for key, value in (seconds or {}).items()},
            host=socket.gethostname(),
            sources=sources,
        )
        return Encoded(marker, data)

    def _put(self, encoded: Encoded, expected: str | None) -> bool:
        block = encoded.marker.block
        for _ in range(ATTEMPTS):
            if self._is_there(encoded.marker, expected):
                return False
            with disk_errors(self.path):
                ours = self._try(encoded)
            found = commit.read_marker(self.path, block)
            if ours and found and found[0] == encoded.marker:
                return True
        if self._is_there(encoded.marker, expected):
            return False
        raise AlreadyThere(
            f"block {block} could not be committed: this store is being sealed or cleaned",
            where=str(self.path),
            hint="the same command again",
        )

    def _try(self, encoded: Encoded) -> bool:
        """One attempt to commit; whether its content was the one that was claimed."""
        try:
            attempt = commit.prepare(self.path, encoded.marker, encoded.data)
            ours = commit.claim(attempt)
        except commit.AttemptGone:
            return False
        commit.finish_claim(self.path, encoded.marker.block)
        if not ours:
            commit.discard(attempt.folder)
        return ours

    def _is_there(self, marker: Marker, expected: str | None) -> bool:
        """Whether the same content is committed; an error where other content is."""
        found = commit.read_marker(self.path, marker.block)
        if found is None:
            return self.sealed and self._in_seal(marker)
        # Redone, a row may have the same features and another source.
        is_to_replace = found[1] == expected and found[0].sources != marker.sources
        if found[0].same_content(marker) and not is_to_replace:
            return True
        if found[1] == expected:
            return False
        self.marker(marker.block)  # a marker of another recipe says so itself
        raise _other_content(self.path, marker.block)

    def _in_seal(self, marker: Marker) -> bool:
        path = self.path / SEAL_FILE
        seal = Seal.from_bytes(path.read_bytes(), str(path))
        noted = {row: status for row, status in seal.noted.items() if row in range(*marker.rows)}
        if noted != marker.noted or any(
            seal.files.get(name) != mark for name, mark in marker.files.items()
        ):
            raise _other_content(self.path, marker.block)
        return True


def _recorded(
    rows: Sequence[int], sources: Sequence[RowSource | None] | None
) -> dict[int, RowSource]:
    pairs = zip(rows, sources or [None] * len(rows), strict=True)
    return {row: source for row, source in pairs if source is not None}


def _other_content(path: Path, block: int) -> Mismatch:
    return Mismatch(
        f"block {block} was committed before, with other content",
        where=str(path),
        hint="the same versions and the same device on all machines, or another store",
    )


def _checked(
    plan: Plan, block: int, arrays: Values, statuses: Sequence[RowStatus]
) -> dict[str, npt.NDArray[Any]]:
    """The arrays as they will be stored: right shapes and types, nothing in rows that failed."""
    first, after = plan.block_range(block)
    if len(statuses) != after - first:
        raise FixInput(f"{len(statuses)} statuses for the {after - first} rows of block {block}")
    names = {spec.name for spec in plan.arrays}
    if names != set(arrays):
        odd = ", ".join(sorted(names ^ set(arrays)))
        raise FixInput(f"block {block} must hold each array of the store; not so: {odd}")
    ok = np.array([status.is_ok for status in statuses], dtype=bool)
    return {
        spec.name: _checked_array(spec, np.asarray(arrays[spec.name]), ok, block, first)
        for spec in plan.arrays
    }


def _checked_array(
    spec: ArraySpec, values: npt.NDArray[Any], ok: npt.NDArray[np.bool_], block: int, first: int
) -> npt.NDArray[Any]:
    where = f"{spec.name}, block {block}"
    if values.shape != (len(ok), *spec.tail_shape):
        raise FixInput(
            f"the shape is {values.shape}, the store has {(len(ok), *spec.tail_shape)}",
            where=where,
        )
    if not np.can_cast(values.dtype, spec.dtype, "same_kind"):
        raise FixInput(f"{values.dtype} cannot be stored as {spec.dtype}", where=where)
    with np.errstate(over="ignore"):  # what overflows is found and named below
        stored = values.astype(spec.dtype)
    if spec.is_level:
        finite = np.isfinite(stored).reshape(len(ok), -1).all(axis=1)
        odd = np.flatnonzero(ok & ~finite)
        if len(odd):
            raise FixInput(
                f"row {first + int(odd[0])} and {len(odd) - 1} more are ok but not finite",
                where=where,
                hint="a status of failed for them, or a wider dtype",
            )
    stored[~ok] = np.nan if spec.is_float else 0
    return stored


class _Encoder:
    """Lets zarr spell blocks in memory, so that what is hashed is what is written."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.memory: dict[str, Any] = {
            key: cpu.Buffer.from_bytes(json.dumps(value).encode())
            for key, value in plan.zarr.items()
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

    def encode(self, block: int, values: Values) -> dict[str, memoryview]:
        """The bytes of each file of the block, by its name relative to the store."""
        first, after = self.plan.block_range(block)
        encoded = {}
        with self.lock:
            for name, array in self.arrays.items():
                array[first:after] = values[name]
                key = self.plan.block_key(name, block)
                buffer = self.memory.pop(key.removeprefix("data.zarr/"))
                encoded[key] = memoryview(buffer.as_numpy_array()).cast("B")
        return encoded

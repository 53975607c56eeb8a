"""Finished rows of a block that is not complete, kept beside it until the block is committed.

They are files in staging/, each with some rows: a SHA-256 of the rest in hex, then what is known of
the rows as one line of JSON, then their values as bytes, one array after another. A process that
is killed loses the rows of the file that it writes. Whoever computes the block next takes the
others. Readers never see them, and the files disappear with the commit of their block.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from obygaze_features.core import system
from obygaze_features.store.format.makers import Maker
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import RowSource, RowStatus
from obygaze_features.store.write.commit import STAGING

# The number of the block, and the revision that its marker will have.
_NAME = re.compile(r"block-(?P<block>\d{5,})\.(?P<revision>\d+)\.rows\.[0-9a-f]{32}")


@dataclass(frozen=True)
class FinishedRows:
    """Rows of one block that were computed, and all that its marker will say of them.

    Args:
        rows: the rows of the store, in order.
        arrays: for each array of the store, one entry for each row, as it is stored.
        statuses: the status of each row: ok, or that its numbers are not finite.
        sources: what each row was made from.
        maker: what made them.
        batch: how many clips were computed at once.
        seconds: time spent on them, by stage.
    """

    rows: Sequence[int]
    arrays: Mapping[str, npt.NDArray[Any]]
    statuses: Sequence[RowStatus]
    sources: Sequence[RowSource | None]
    maker: Maker
    batch: int
    seconds: Mapping[str, float]

    def part(self, indices: Sequence[int]) -> Self:
        """Return some of the rows."""
        return replace(
            self,
            rows=[self.rows[index] for index in indices],
            arrays={name: values[indices] for name, values in self.arrays.items()},
            statuses=[self.statuses[index] for index in indices],
            sources=[self.sources[index] for index in indices],
        )


def write_finished_rows(
    root: Path, plan: Plan, block: int, revision: int, finished: FinishedRows
) -> None:
    """Write rows to a new file, which is not synced: a power cut may lose it."""
    record = {
        "plan": plan.sha256,
        "rows": list(finished.rows),
        "statuses": [status.to_json() for status in finished.statuses],
        "sources": [source and source.to_json() for source in finished.sources],
        "maker": finished.maker.to_json(),
        "batch": finished.batch,
        "seconds": dict(finished.seconds),
    }
    pieces = [json.dumps(record).encode("ascii"), b"\n"]
    for spec in plan.arrays:
        values = np.asarray(finished.arrays[spec.name], dtype=spec.dtype)
        pieces.append(values.tobytes())
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    name = f"block-{block:05d}.{revision}.rows.{uuid.uuid4().hex}"
    path = root / STAGING / name
    try:
        with path.open("xb") as stream:
            stream.write(digest.hexdigest().encode("ascii") + b"\n")
            stream.writelines(pieces)
    except OSError:
        path.unlink(
            missing_ok=True
        )  # where the disk is full, half a file is in the way
        raise


def read_finished_rows(path: Path, plan: Plan) -> FinishedRows | None:
    """Return the rows of a file; None if it is gone, not whole, or of another store."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None  # another process has committed the block
    checksum, _, content = data.partition(b"\n")
    if hashlib.sha256(content).hexdigest().encode("ascii") != checksum:
        return None
    line, _, values = content.partition(b"\n")
    record = json.loads(line)
    if record["plan"] != plan.sha256:
        return None
    return _finished_of(record, plan, values)


def finished_numbers(path: Path) -> list[int]:
    """Return the rows that a file has by its own account; its checksum is not compared."""
    try:
        with path.open("rb") as stream:
            stream.readline()
            record = json.loads(stream.readline())
    except (FileNotFoundError, ValueError):
        return []
    numbers: list[int] = record["rows"]
    return numbers


def finished_files(root: Path) -> dict[tuple[int, int], list[Path]]:
    """Return the files of each block and of the revision that its marker will have."""
    files: dict[tuple[int, int], list[Path]] = {}
    try:
        paths = sorted((root / STAGING).iterdir())
    except FileNotFoundError:
        return files  # the store is sealed
    for path in paths:
        match = _NAME.fullmatch(path.name)
        if match is not None:
            key = (int(match["block"]), int(match["revision"]))
            files.setdefault(key, []).append(path)
    return files


def remove_finished_rows(root: Path, block: int, revision: int) -> int:
    """Remove the files of a block that was committed with this revision; return how many."""
    n_removed = 0
    for (file_block, file_revision), paths in finished_files(root).items():
        if file_block != block or file_revision > revision:
            continue
        for path in paths:
            # Where another process reads it, Windows refuses; the next run removes it.
            with suppress(PermissionError):
                system.remove_file(path)
            n_removed += 1
    return n_removed


def remove_all_finished_rows(root: Path) -> int:
    """Remove what is kept of all blocks, to make room; return how many files there were."""
    n_removed = 0
    for paths in finished_files(root).values():
        for path in paths:
            with suppress(PermissionError):
                system.remove_file(path)
            n_removed += 1
    return n_removed


def _finished_of(record: Mapping[str, Any], plan: Plan, values: bytes) -> FinishedRows:
    """Return what a file has, whose bytes are those that were written."""
    rows = record["rows"]
    arrays = {}
    first = 0
    for spec in plan.arrays:
        n_values = len(rows) * prod(spec.tail_shape)
        array = np.frombuffer(values, spec.dtype, n_values, first)
        arrays[spec.name] = array.reshape(len(rows), *spec.tail_shape)
        first += array.nbytes
    return FinishedRows(
        rows=rows,
        arrays=arrays,
        statuses=[RowStatus.from_json(status) for status in record["statuses"]],
        sources=[
            source and RowSource.from_json(source) for source in record["sources"]
        ],
        maker=Maker.from_json(record["maker"]),
        batch=record["batch"],
        seconds=record["seconds"],
    )

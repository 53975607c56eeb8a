"""Fill a store: check blocks, encode and commit them, replace failed rows, add texts, seal."""

import hashlib
import shlex
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count
from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    Mismatch,
    NotFound,
)
from obygaze_features.core.files import is_listed
from obygaze_features.core.outside import safe_text
from obygaze_features.store.format.chunks import ChunkLayout
from obygaze_features.store.format.limits import disk_errors, is_disk_full
from obygaze_features.store.format.makers import Kind, Maker, Makers
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.records import Marker, Plan, Seal, marker_key
from obygaze_features.store.format.schema import (
    OK,
    ArraySpec,
    FileMark,
    RowSource,
    RowStatus,
    TextTable,
)
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.write import commit
from obygaze_features.store.write.create import read_plan
from obygaze_features.store.write.finished_rows import (
    FinishedRows,
    finished_files,
    read_finished_rows,
    remove_all_finished_rows,
    remove_finished_rows,
    write_finished_rows,
)
from obygaze_features.store.write.seal import add_text, seal_store

ATTEMPTS = 5
Values = Mapping[str, npt.NDArray[Any]]
# The bytes of a file, one after another.
Pieces = Sequence[Any]


class StoreWriter:
    """Fills a store that `create_store` made. Cheap to make; several threads may share one.

    Args:
        path: the folder of the store.
        recipe: the recipe that the store must have, if given.
        mixed: allow clips of several versions of this program, kinds of device or precisions.
    """

    def __init__(
        self, path: Path | str, *, recipe: Recipe | None = None, mixed: bool = False
    ) -> None:
        self.path = Path(path)
        self.mixed = mixed
        # The kind of all clips of the store, once this writer has compared it.
        self._agreed: Kind | None = None
        if not (self.path / Plan.FILE).is_file():
            raise NotFound(
                "no store here", where=str(path), hint="create_store makes one"
            )
        self.plan: Plan = read_plan(self.path, recipe)
        arrays = open_store(self.path).arrays
        self._layouts = {
            spec.name: arrays.layout(spec.name) for spec in self.plan.arrays
        }

    def commit_block(
        self,
        block: int,
        arrays: Values,
        statuses: Sequence[RowStatus] | None = None,
        *,
        sources: Sequence[RowSource | None] | None = None,
        makers: Sequence[Maker | None] | None = None,
        seconds: Mapping[str, float] | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> bool:
        """Commit a block to the store, synced to disk.

        Return True where this call committed it, False where the same content was there already.
        Content other than the committed one is an error that names the block.

        Args:
            block: the number of the block.
            arrays: for each array of the store, one row for each row of the block.
            statuses: the status of each row, by default all ok.
            sources: what each row was made from, where it is known.
            makers: what made each row, where it is known.
            seconds: time spent, by stage.
            versions: versions of the software.
        """
        rows = range(*self.plan.block_range(block))
        if statuses is None:
            statuses = [OK] * len(rows)
        marker, data = self._encoded(
            block, arrays, statuses, sources, makers, seconds, versions
        )
        self._agree_on_kind(marker)
        is_new = self._put(marker, data)
        remove_finished_rows(self.path, block, marker.revision)
        return is_new

    def replace_rows(
        self,
        block: int,
        rows: Sequence[int],
        arrays: Values,
        statuses: Sequence[RowStatus],
        *,
        sources: Sequence[RowSource | None] | None = None,
        makers: Sequence[Maker | None] | None = None,
        seconds: Mapping[str, float] | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> bool:
        """Replace rows of a committed block that are not ok, or whose source changed.

        A row that is ok is only replaced where its entry in `sources` differs from the recorded
        one. Return whether this call committed it.

        Args:
            block: the number of the block.
            rows: rows of the store; arrays, statuses and sources have one entry for each.
            arrays: for each array of the store, the new rows.
            statuses: the new status of each row.
            sources: what each row was made from, where it is known.
            makers: what made each row, where it is known.
            seconds: time spent, by stage.
            versions: versions of the software.
        """
        old = commit.read_marker(self.path, block)
        if old is None or self.sealed:
            state = "sealed" if self.sealed else "not committed"
            raise _not_open(self.path, f"block {block} is {state}")
        whole = self._with_rows_replaced(old, rows, arrays, statuses, sources, makers)
        marker, data = self._encoded(block, *whole, seconds, versions)
        self._agree_on_kind(marker)
        new = replace(marker, revision=old.revision + 1, replaces=old.checksum)
        is_new = self._put(new, data)
        remove_finished_rows(self.path, block, new.revision)
        return is_new

    def next_revision(self, block: int) -> int:
        """Return the revision that the next marker of a block will have."""
        marker = commit.read_marker(self.path, block)
        return 0 if marker is None else marker.revision + 1

    def keep_rows(self, block: int, revision: int, finished: FinishedRows) -> None:
        """Keep finished rows of a block until it is committed, however this process ends.

        Args:
            block: the number of the block.
            revision: its next revision when its rows were begun; after another process committed
                that, nothing is kept.
            finished: rows as they will be committed.
        """
        with disk_errors(self.path):
            commit.make_room(self.path)
            if self.sealed or self.next_revision(block) != revision:
                return
            try:
                write_finished_rows(self.path, self.plan, block, revision, finished)
            except FileNotFoundError:
                return  # another process has sealed the store at this moment
            except OSError as error:
                # The block may still have room: that these rows are kept is not needed for it.
                if not is_disk_full(error):
                    raise

    def finished_rows(self, blocks: Collection[int]) -> Iterator[FinishedRows]:
        """Yield the rows that were kept of blocks, for their next revision."""
        for (block, revision), paths in finished_files(self.path).items():
            if block not in blocks or revision != self.next_revision(block):
                continue
            for path in paths:
                finished = read_finished_rows(path, self.plan)
                if finished is not None:
                    yield finished

    @property
    def sealed(self) -> bool:
        """Whether the store is complete and closed."""
        return is_listed(self.path / Seal.FILE)

    def pending_blocks(self) -> list[int]:
        """Return the blocks that are not committed, in order; claims do not count."""
        return commit.pending_blocks(self.path, self.plan)

    def rows_to_retry(self) -> dict[int, list[int]]:
        """Return, for each committed block, its rows that failed or had no video."""
        rows_of_block = {}
        for block in range(self.plan.n_blocks):
            marker = self.marker(block)
            if marker is None:
                continue
            rows = [
                row
                for row, status in marker.status_of_row.items()
                if not (status.is_ok or status.is_withdrawn)
            ]
            if rows:
                rows_of_block[block] = sorted(rows)
        return rows_of_block

    def marker(self, block: int) -> Marker | None:
        """Return the marker of a block; None where it is not committed, or the store is sealed."""
        marker = commit.read_marker(self.path, block)
        if marker is not None:
            self.plan.require_own(marker, block, str(self.path / marker_key(block)))
        return marker

    def clean_litter(self) -> int:
        """Finish claims of killed processes, remove what they left otherwise; return how many."""
        claimed = commit.claims(self.path)
        folders = list(commit.litter(self.path))
        with disk_errors(self.path):
            if not self.sealed:
                commit.make_room(self.path)
            for block in claimed:
                commit.finish_claim(self.path, block)
            for folder in folders:
                commit.discard(folder)
            n_of_committed_blocks = 0
            for block, revision in finished_files(self.path):
                marker = commit.read_marker(self.path, block)
                if marker is not None and revision <= marker.revision:
                    n_of_committed_blocks += remove_finished_rows(
                        self.path, block, revision
                    )
        return len(claimed) + len(folders) + n_of_committed_blocks

    def add_text(self, table: TextTable) -> bool:
        """Add the texts that go with the features; return False where the same were there."""
        with disk_errors(self.path):
            commit.make_room(self.path)
            return add_text(self.path, table)

    def seal(self) -> Seal:
        """Close a complete store: after this it never changes. Sealing it again does nothing."""
        with disk_errors(self.path):
            return seal_store(self.path, self.plan)

    def _encoded(
        self,
        block: int,
        arrays: Values,
        statuses: Sequence[RowStatus],
        sources: Sequence[RowSource | None] | None,
        makers: Sequence[Maker | None] | None,
        seconds: Mapping[str, float] | None,
        versions: Mapping[str, str] | None,
    ) -> tuple[Marker, dict[str, Pieces]]:
        """Check a block; return its marker and the bytes of its files."""
        plan = self.plan
        rows = range(*self.plan.block_range(block))
        recorded = [None] * len(rows) if sources is None else sources
        known_makers = [None] * len(rows) if makers is None else makers
        of_rows = {"statuses": statuses, "sources": recorded, "makers": known_makers}
        _check_lengths(of_rows, len(rows), f"the {len(rows)} rows of block {block}")
        _check_statuses(rows, statuses, f"block {block}")
        data, crc32c = encode_block(plan, self._layouts, block, arrays, statuses)
        files = {name: mark_of_pieces(pieces) for name, pieces in data.items()}
        by_row = list(zip(rows, statuses, recorded, strict=True))
        marker = Marker(
            block=block,
            rows=(rows.start, rows.stop),
            recipe=plan.recipe,
            status_of_row={row: status for row, status, _ in by_row if status != OK},
            sources={row: source for row, _, source in by_row if source is not None},
            makers=Makers.of_rows(rows.start, known_makers),
            files=files,
            plan=plan.sha256,
            crc32c=crc32c,
            versions={
                str(name): str(version) for name, version in (versions or {}).items()
            },
            seconds={
                stage: round(float(value), 3)
                for stage, value in (seconds or {}).items()
            },
            host=socket.gethostname(),
        )
        _check_readable(marker)
        return marker, data

    def _with_rows_replaced(
        self,
        old: Marker,
        rows: Sequence[int],
        arrays: Values,
        statuses: Sequence[RowStatus],
        sources: Sequence[RowSource | None] | None,
        makers: Sequence[Maker | None] | None,
    ) -> tuple[Values, list[RowStatus], list[RowSource | None], list[Maker | None]]:
        """Return a whole block with new results in rows that were not ok, or had another source."""
        all_rows = range(*old.rows)
        where = f"block {old.block}"
        new_sources = [None] * len(rows) if sources is None else sources
        new_makers = [None] * len(rows) if makers is None else makers
        if len(set(rows)) != len(rows):
            raise FixInput(
                f"{len(rows)} rows, but only {len(set(rows))} different ones",
                where=where,
            )
        of_rows = {"statuses": statuses, "sources": new_sources, "makers": new_makers}
        _check_lengths(of_rows, len(rows), f"{len(rows)} different rows", where)
        _check_statuses(rows, statuses, where)
        new_values = _checked_shapes(self.plan, arrays, len(rows), where)
        merged = [old.status_of_row.get(row, OK) for row in all_rows]
        recorded = [old.sources.get(row) for row in all_rows]
        made_by = [old.makers.of_row(row) for row in all_rows]
        for row, status, source, maker in zip(
            rows, statuses, new_sources, new_makers, strict=True
        ):
            _check_replaceable(old, row, source)
            index = row - all_rows.start
            merged[index] = status
            recorded[index] = source
            made_by[index] = maker
        indices = np.array(rows, dtype=np.int64) - all_rows.start
        whole = {}
        stored = open_store(self.path).arrays
        is_ok = np.array([status.is_ok for status in statuses], dtype=bool)
        for spec in self.plan.arrays:
            converted = _converted(spec, new_values[spec.name], rows, is_ok, where)
            whole[spec.name] = stored.read(spec, np.array(all_rows))
            whole[spec.name][indices] = converted
        return whole, merged, recorded, made_by

    def refuse_other_kinds(self, kind: Kind) -> None:
        """Raise an error if clips of the store were made in another way, unless that is allowed."""
        if self.mixed or self._agreed == kind:
            return
        kinds_of_store = {
            maker.kind for maker in open_store(self.path).commits.made_by().clips
        }
        first = commit.first_kind(self.path, self.plan)
        if first is not None:
            kinds_of_store.add(first)
        refuse_mixture(kinds_of_store | {kind}, where=str(self.path), new=kind)

    def _agree_on_kind(self, marker: Marker) -> None:
        """Raise an error if a block has clips of another kind than the store.

        The first one that commits clips decides, by a name that only one process can make: those
        that begin at the same time see no clip of each other.
        """
        not_ok = [
            row for row, status in marker.status_of_row.items() if not status.is_ok
        ]
        kinds = {maker.kind for maker in marker.makers.clips(not_ok)}
        if self.mixed or kinds <= {self._agreed} or self.sealed:
            return
        where = str(self.path)
        for kind in sorted(kinds):
            refuse_mixture(kinds, where=where, new=kind)
            self.refuse_other_kinds(kind)
            with disk_errors(self.path):
                commit.make_room(self.path)
                decided = commit.decide_kind(self.path, self.plan, kind)
            refuse_mixture({decided, kind}, where=where, new=kind)
            self._agreed = kind

    def _put(self, marker: Marker, data: Mapping[str, Pieces]) -> bool:
        """Commit a block; return False where its content was committed before.

        Raise an error where other content is there.
        """
        with disk_errors(self.path):
            commit.make_room(self.path)
        committed = commit.read_marker(self.path, marker.block)
        for _ in range(ATTEMPTS):
            if self._is_there(marker, committed):
                return False
            with disk_errors(self.path):
                was_claimed = self._try_with_room(marker, data)
            committed = self._marker_after(marker)
            if was_claimed and committed == marker:
                return True
        if self._is_there(marker, committed):
            return False
        raise AlreadyThere(
            f"block {marker.block} could not be committed: this store is being sealed or cleaned",
            where=str(self.path),
            hint="run the same command again",
        )

    def _marker_after(self, marker: Marker) -> Marker | None:
        """Return the marker of a block after an attempt to commit `marker`."""
        committed = commit.read_marker(self.path, marker.block)
        if committed == marker:
            return committed
        # Another process was first, and a cache may still hide its marker.
        decided = commit.decided_marker(self.path, marker.block, marker.revision)
        return decided or committed

    def _try_with_room(self, marker: Marker, data: Mapping[str, Pieces]) -> bool:
        """Try once to commit; on a full disk once more, without the rows that were kept."""
        try:
            return self._try(marker, data)
        except OSError as error:
            if not is_disk_full(error) or not remove_all_finished_rows(self.path):
                raise
        return self._try(marker, data)

    def _try(self, marker: Marker, data: Mapping[str, Pieces]) -> bool:
        """Try once to commit; return whether this content was the one that was claimed."""
        ours = False
        try:
            with commit.prepared(self.path, marker, data) as attempt:
                ours = commit.claim(attempt)
                commit.finish_claim(self.path, marker.block)
        except commit.AttemptGone:
            commit.finish_claim(self.path, marker.block)
        return ours

    def _is_there(self, marker: Marker, committed: Marker | None) -> bool:
        """Return whether the same content is committed; raise an error where other content is."""
        if committed is None:
            if not self.sealed:
                return False
            self._require_in_seal(marker)
            return True
        is_same = (
            committed.files == marker.files
            and committed.status_of_row == marker.status_of_row
        )
        if committed.checksum == marker.replaces:
            # A row that is extracted again may have the same features and another source.
            return is_same and committed.sources == marker.sources
        if is_same:
            return True
        self.marker(marker.block)  # raises an error for a marker of another recipe
        raise _other_content(self.path, marker.block)

    def _require_in_seal(self, marker: Marker) -> None:
        """Raise an error unless the seal has the content of a marker."""
        seal = Seal.load(self.path)
        status_of_row = {
            row: seal.status_of_row[row]
            for row in range(*marker.rows)
            if row in seal.status_of_row
        }
        marks = {name: seal.files.get(name) for name in marker.files}
        if status_of_row == marker.status_of_row and marks == marker.files:
            return
        if marker.replaces:
            raise _not_open(self.path, f"block {marker.block} is sealed")
        raise _other_content(self.path, marker.block)


def encode_block(
    plan: Plan,
    layouts: Mapping[str, ChunkLayout],
    block: int,
    arrays: Values,
    statuses: Sequence[RowStatus],
) -> tuple[dict[str, Pieces], dict[str, str]]:
    """Check a block; return the bytes of its files by name, and their CRC32C values by array."""
    data: dict[str, Pieces] = {}
    crc32c = {}
    checked = _checked(plan, block, arrays, statuses)
    for spec, values in zip(plan.arrays, checked, strict=True):
        fill_value = np.nan if spec.is_float else 0
        name = plan.block_key(spec.name, block)
        data[name], crc32c[spec.name] = layouts[spec.name].encode(values, fill_value)
    return data, crc32c


def refuse_mixture(
    kinds: Collection[Kind], *, where: str, new: Kind | None = None
) -> None:
    """Raise an error for clips that were made in several ways; `new` is that of this process."""
    if len(kinds) < 2:
        return
    problem = "these clips were made in different ways"
    if new is not None:
        problem = f"other clips of this store were made in another way than now, {new}"
    others = sorted(kind for kind in kinds if kind != new)
    raise Mismatch(
        f"{problem}: {'; '.join(map(str, others))}",
        where=where,
        hint="use the same version, kind of device and precision, another store, or --mixed",
    )


def _not_open(path: Path, problem: str) -> AlreadyThere:
    hint = "obygaze store merge, into a store that is not sealed"
    return AlreadyThere(problem, where=str(path), hint=hint)


def _other_content(path: Path, block: int) -> Mismatch:
    return Mismatch(
        f"block {block} was committed before, with other content",
        where=str(path),
        hint="use the same versions and device on all machines, or another store",
    )


def _checked(
    plan: Plan, block: int, arrays: Values, statuses: Sequence[RowStatus]
) -> Iterator[npt.NDArray[Any]]:
    """Yield the arrays as they will be stored: of their types, nothing in rows that failed."""
    where = f"block {block}"
    rows = range(*plan.block_range(block))
    checked_arrays = _checked_shapes(plan, arrays, len(statuses), where)
    ok = np.array([status.is_ok for status in statuses], dtype=bool)
    for spec in plan.arrays:
        values = _converted(spec, checked_arrays[spec.name], rows, ok, where)
        if spec.is_feature_array:
            is_finite = _is_finite(values).reshape(len(ok), -1).all(axis=1)
            wrong = np.flatnonzero(ok & ~is_finite)
            if len(wrong):
                raise FixInput(
                    f"row {rows[wrong[0]]} and {len(wrong) - 1} more are ok but not finite",
                    where=f"{spec.name}, {where}",
                    hint="give them the status failed, or use a wider dtype",
                )
        if not ok.all():
            values[~ok] = np.nan if spec.is_float else 0
        yield values


def _is_finite(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which numbers are finite."""
    if values.dtype == np.float16:
        # The bits are tested ten times faster than NumPy tests the numbers.
        is_finite: npt.NDArray[np.bool_] = (values.view("u2") & 0x7C00) != 0x7C00
    else:
        is_finite = np.isfinite(values)
    return is_finite


def _converted(
    spec: ArraySpec,
    given_values: npt.NDArray[Any],
    rows: Sequence[int],
    is_ok: npt.NDArray[np.bool_],
    where: str,
) -> npt.NDArray[Any]:
    """Return numbers in the type of their array; a copy if there are rows that are not ok.

    A number that the type cannot hold is an error in a row that is ok. In arrays of features, what
    becomes an infinity is found with those that were given.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        values = given_values.astype(spec.dtype, copy=not is_ok.all())
    if given_values.dtype == values.dtype or (spec.is_float and spec.is_feature_array):
        return values
    if spec.is_float:
        is_lost = np.isinf(values) & np.isfinite(given_values)
    elif spec.dtype == "bool":
        return values
    else:
        limits = np.iinfo(spec.dtype)
        is_lost = (given_values < limits.min) | (given_values > limits.max)
    is_lost[~is_ok] = False
    if is_lost.any():
        index = tuple(np.argwhere(is_lost)[0].tolist())
        raise FixInput(
            f"row {rows[index[0]]} has {given_values[index]}, which {spec.dtype} cannot hold",
            where=f"{spec.name}, {where}",
            hint="create the store with a wider dtype for this array",
        )
    return values


def _check_statuses(
    rows: Sequence[int], statuses: Sequence[RowStatus], where: str
) -> None:
    """Raise an error for a status that no reader accepts: nobody could commit or seal any more."""
    for row, status in zip(rows, statuses, strict=True):
        if not isinstance(status, RowStatus):
            raise FixInput(
                f"row {row} has the status {status!r}, expected a RowStatus",
                where=where,
            )
        if status.why_not_stored:
            raise FixInput(
                f"row {row} {status.why_not_stored}",
                where=where,
                hint="RowStatus(), RowStatus.failed(...) or RowStatus.no_video(...)",
            )


def _check_lengths(
    of_rows: Mapping[str, Sequence[Any]],
    n_rows: int,
    rows: str,
    where: str | None = None,
) -> None:
    """Raise an error unless each list has an entry for each row; `rows` names them."""
    for name, values in of_rows.items():
        if len(values) != n_rows:
            raise FixInput(f"{len(values)} {name} for {rows}", where=where)


def _check_replaceable(old: Marker, row: int, source: RowSource | None) -> None:
    """Raise an error for a row outside a block, or one that is ok with the same source."""
    rows = range(*old.rows)
    if row not in rows:
        raise FixInput(
            f"row {row} is outside block {old.block}, rows {rows[0]}-{rows[-1]}"
        )
    recorded = old.sources.get(row)
    is_changed = None not in (source, recorded) and source != recorded
    if old.status_of_row.get(row, OK).is_ok and not is_changed:
        raise FixInput(f"row {row} is ok and its source did not change: not replaced")


def mark_of_pieces(pieces: Pieces) -> FileMark:
    """Return the mark of a file that is written in pieces."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return FileMark(sum(map(len, pieces)), digest.hexdigest())


def _check_readable(marker: Marker) -> None:
    """Raise an error for a marker that cannot be read back as it is: it would block its block."""
    where = f"the marker of block {marker.block}"
    try:
        read = Marker.from_bytes(marker.to_bytes(), where)
    except (ValueError, TypeError, Corrupt) as error:
        raise FixInput(
            f"{where} cannot be written: {error}",
            hint="check sources, seconds and versions: finite numbers, and text that UTF-8 has",
        ) from error
    if read != marker:
        raise FixInput(
            f"{where} would be read as another one", hint="check its sources"
        )


def _checked_shapes(
    plan: Plan, arrays: Values, n_rows: int, where: str
) -> dict[str, npt.NDArray[Any]]:
    names = {spec.name for spec in plan.arrays}
    if names != set(arrays):
        raise FixInput(
            f"expected the arrays {', '.join(sorted(names))}, got {', '.join(sorted(arrays))}",
            where=where,
        )
    given_arrays = {name: np.asarray(values) for name, values in arrays.items()}
    for spec in plan.arrays:
        values = given_arrays[spec.name]
        shape = (n_rows, *spec.tail_shape)
        if values.shape != shape:
            raise FixInput(
                f"the shape is {values.shape}, the store has {shape}",
                where=f"{spec.name}, {where}",
            )
        if not np.can_cast(values.dtype, spec.dtype, "same_kind"):
            raise FixInput(
                f"{values.dtype} cannot be stored as {spec.dtype}",
                where=f"{spec.name}, {where}",
            )
    return given_arrays


def kept_rows(store: Store, blocks: Iterable[int]) -> set[int]:
    """Return the rows that are kept beside those of the blocks that are not committed."""
    if store.sealed or not Path(store.location).is_dir():
        return set()
    writer = StoreWriter(store.location)
    unfinished = set(blocks).intersection(writer.pending_blocks())
    rows: set[int] = set()
    for finished in writer.finished_rows(unfinished):
        rows.update(finished.rows)
    return rows


def unfinished_extraction(store: Store) -> str:
    """Return what an extraction has still to do, and how to go on; empty if nothing is left."""
    n_missing = store.status().counts.get("missing", 0)
    recipe = store.recipe.to_json()
    if store.sealed or not n_missing or store.recipe.is_unknown:
        return ""
    n_kept = len(kept_rows(store, range(store.plan.n_blocks)))
    kept = f", of which {n_kept} are computed and kept" if n_kept else ""
    backbone = str(recipe["backbone"].get("name", "?"))
    if store.plan.holds_pictures and not backbone.startswith("frames:"):
        backbone = f"frames:{backbone}"
    manifest = store.plan.manifest_name
    command = f"obygaze extract run {manifest} -b {backbone}"
    folder = Path(store.location)
    if folder.name != f"{manifest}.{backbone}".replace(":", "-"):
        command += f" --store {shlex.quote(f'{backbone}={store.location}')}"
    return safe_text(
        f"the extraction is not finished: {count(n_missing, 'clip')} missing{kept};"
        f" {command}, with the options that it began with, continues it",
        "terminal",
    )

"""Fill a store by blocks, with any number of processes: plan, begin a block, commit the block.

`NAME.next` contains the plan and the finished blocks (docs/store.md, section 7). If several
processes compute the same block, the first one that gives its folder the name of the block
succeeds, and the store gets its features. There is no lock and no clock. Each process that begins
a block makes a hidden folder, which only changes the order in which blocks are begun.
"""

import bisect
import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    Mismatch,
    NotFound,
    ObygazeError,
    Stopped,
)
from obygaze_features.core.files import is_listed, sha256_file, sync_dir
from obygaze_features.core.shell import shell_word
from obygaze_features.core.temporary_names import (
    find_hidden,
    hidden_name,
    remove_leftovers,
)
from obygaze_features.store.atomic_files import (
    filling_path,
    make_folder,
    make_hidden,
    read_finished,
    read_seal,
    remove_tree,
    replaced_store_path,
    sync_tree,
    take_name,
    write_file,
)
from obygaze_features.store.encoding import (
    Values,
    encode_file,
    fill_rows,
)
from obygaze_features.store.layout import (
    BLOCKS,
    CLIPS_JSON,
    CRC_BYTES,
    PLAN_JSON,
    ROWS_JSON,
    STORE_JSON,
    TIMES,
    Array,
    check_arrays,
    check_store_name,
    choose_block_rows,
    with_file_rows,
)
from obygaze_features.store.making import OTHER_NAME, not_finite_error, rows_not_finite
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import (
    BlockFile,
    BlockRecord,
    ComputeSetup,
    Maker,
    ManifestMark,
    PlanRecord,
    StoreRecord,
    decode,
    decode_clips,
    encode,
    encode_clips,
)
from obygaze_features.store.rows import Row, RowColumns
from obygaze_features.store.table import check_rows

_BEGUN = re.compile(r"\.([0-9]{5,})\..+")
_FINISHED = re.compile(r"[0-9]{5,}")


# --- The plan ---


def plan_filling(
    target: Path,
    rows: Sequence[Row],
    *,
    arrays: Sequence[Array],
    recipe: Recipe,
    manifest: ManifestMark,
    kind: ComputeSetup,
    computed: Sequence[bool] | None = None,
    replaces: str = "",
    licence: str = "",
) -> "Filling":
    """Make NAME.next, or open it if another process made it with the same plan.

    Args:
        target: The folder of the finished store; its parent must exist.
        rows: All rows of the new store: clips, films and times. The rows of a changed store come
            first, in their order.
        arrays: The arrays of the new store; a changed store keeps its arrays.
        recipe: The recipe of the features.
        manifest: The manifest from which the rows come.
        kind: The device, precision and version with which all rows must be computed.
        computed: For each row, whether this filling computes it; by default all rows.
        replaces: The seal of the store at the target, if the filling changes this store; "" if the
            store is new.
        licence: The licence of the features that the first command states.
    """
    check_store_name(target.name, str(target))
    check_rows(RowColumns.of(rows), str(target))
    remove_leftovers(target)
    remove_leftover(target)
    wanted = [True] * len(rows) if computed is None else list(computed)
    if replaces:
        there = open_store_before(target, replaces).record
        recipe.require(Recipe.from_json(there.recipe), where=str(target))
        if [array.name for array in arrays] != [array.name for array in there.arrays]:
            raise Mismatch(
                "the arrays differ from those of the store", where=str(target)
            )
        if len(rows) < there.rows.total or not all(wanted[there.rows.total :]):
            raise Mismatch(
                "expected all rows of the store first, and then new rows to compute",
                where=str(target),
            )
        _check_rows_of_change(target, replaces, rows, wanted)
        arrays = there.arrays
    elif is_listed(target):
        raise _already_exists_error(target)
    else:
        row_bytes = sum(array.row_bytes for array in arrays)
        block_rows = choose_block_rows(len(rows), row_bytes)
        arrays = with_file_rows(arrays, block_rows)
    check_arrays(arrays, str(target))
    plan = PlanRecord(
        manifest=manifest,
        recipe=recipe.to_json(),
        fingerprint=recipe.fingerprint,
        arrays=tuple(arrays),
        rows=len(rows),
        kind=kind,
        replaces=replaces,
        licence=licence,
    )
    _write_plan(target, encode(plan), encode_clips(rows, wanted))
    try:
        filling = Filling.open(target)
    except NotFound as error:
        raise _just_finished_error(target) from error
    if not replaces and is_listed(target):
        # Another process planned, filled and sealed the store meanwhile.
        remove_leftover(target)
        raise _already_exists_error(target)
    if replaces and is_sealed(filling):
        # Other processes changed the store meanwhile: the store of this plan was moved.
        remove_filling(filling)
        raise _just_finished_error(target)
    return filling


def _check_rows_of_change(
    target: Path, seal: str, rows: Sequence[Row], computed: Sequence[bool]
) -> None:
    """Raise an error unless these rows are allowed for a change of the store with this seal.

    The rows must begin with the clips of the store, in the same order. A clip that has features in
    the store must not be computed again.
    """
    while True:
        store = open_store_before(target, seal)
        try:
            clip_ids = store.clip_ids.tolist()
            has_features = store.table.is_ok.tolist()
            break
        except (NotFound, Corrupt, Stopped):
            # The store may have been moved while it was read.
            if open_store_before(target, seal).location == store.location:
                raise
    n_before = len(clip_ids)
    if [row.clip_id for row in rows[:n_before]] != clip_ids:
        raise Mismatch(
            "expected the clips of the store first, in the same order",
            where=str(target),
        )
    for row, is_computed, is_ok in zip(rows, computed, has_features, strict=False):
        if is_computed and is_ok:
            raise Mismatch(
                f"the clip {row.clip_id!r} already has features", where=str(target)
            )


def _already_exists_error(target: Path) -> AlreadyThere:
    return AlreadyThere(
        "this store exists, and a finished store is never changed",
        where=str(target),
        hint=OTHER_NAME,
    )


def _just_finished_error(target: Path) -> AlreadyThere:
    return AlreadyThere(
        "another process has just finished this store", where=str(target)
    )


def _write_plan(target: Path, plan_json: bytes, clips_json: bytes) -> None:
    """Make NAME.next; if it exists, it must have the same plan."""
    folder = filling_path(target)
    hidden = make_hidden(target, _make_tag(_digest(plan_json, clips_json)))
    try:
        write_file(hidden / PLAN_JSON, plan_json)
        write_file(hidden / CLIPS_JSON, clips_json)
        make_folder(hidden / BLOCKS)
        sync_tree(hidden)
        is_first = take_name(hidden, folder)
        if is_first:
            return
        other_plan = read_finished(folder / PLAN_JSON)
        other_clips = read_finished(folder / CLIPS_JSON)
    except FileNotFoundError as error:
        # The process that finished the store removes folders of the same plan.
        raise _just_finished_error(target) from error
    finally:
        remove_tree(hidden)
    if (other_plan, other_clips) != (plan_json, clips_json):
        raise Mismatch(
            "this store is being filled with different settings: recipe, clips, times, arrays,"
            " version or device",
            where=str(folder),
            hint="finish the store with the same options as before, or discard it: rm -r"
            f" {shell_word(folder)}",
        )


def _digest(plan_json: bytes, clips_json: bytes) -> str:
    """Return the digest of a plan: the SHA-256 of plan.json followed by clips.json."""
    return hashlib.sha256(plan_json + clips_json).hexdigest()


def _make_tag(digest: str) -> str:
    return f"{digest[:8]}-"


# --- A filling ---


@dataclass(frozen=True, eq=False)
class Filling:
    """A store that is being filled.

    Args:
        target: The folder of the finished store.
        plan: The plan.
        rows: All rows of the new store. Facts that are known only after computation are missing.
        computed: For each row, whether this filling computes it.
        digest: The SHA-256 of plan.json followed by clips.json. Each block records it, so that a
            late process cannot add a block to a different plan.
    """

    target: Path
    plan: PlanRecord
    rows: Sequence[Row]
    computed: npt.NDArray[np.bool_]
    digest: str

    @classmethod
    def open(cls, target: Path) -> Self:
        """Open the filling of a store; raise an error if the store is not being filled."""
        folder = filling_path(target)
        try:
            plan_json = read_finished(folder / PLAN_JSON)
            clips_json = read_finished(folder / CLIPS_JSON)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(
                "this store is not being filled", where=str(target)
            ) from error
        plan = decode(plan_json, PlanRecord, str(folder / PLAN_JSON))
        rows, computed = decode_clips(clips_json, plan, str(folder / CLIPS_JSON))
        digest = _digest(plan_json, clips_json)
        return cls(target, plan, rows, np.array(computed, bool), digest)

    @property
    def folder(self) -> Path:
        """The folder NAME.next, which has the plan and the finished blocks."""
        return filling_path(self.target)

    @property
    def tag(self) -> str:
        """The part of the names of hidden folders that identifies the plan."""
        return _make_tag(self.digest)

    def is_current(self) -> bool:
        """Return whether NAME.next still has this plan."""
        return _read_digest(self.folder) == self.digest

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays of the new store."""
        return self.plan.arrays

    @cached_property
    def needed(self) -> list[int]:
        """The numbers of the blocks with a row to compute."""
        numbers = np.unique(np.flatnonzero(self.computed) // self.plan.block_rows)
        needed: list[int] = numbers.tolist()
        return needed

    def block_range(self, block: int) -> tuple[int, int]:
        """Return the first row of a block, and the row after its last row."""
        first = block * self.plan.block_rows
        return first, min(first + self.plan.block_rows, self.plan.rows)

    def rows_of(self, block: int) -> list[int]:
        """Return the numbers of the rows of a block that this filling computes."""
        first, after = self.block_range(block)
        places = np.flatnonzero(self.computed[first:after]) + first
        rows: list[int] = places.tolist()
        return rows

    def block_folder(self, block: int) -> Path:
        """Return the folder of a finished block."""
        return self.folder / BLOCKS / f"{block:05d}"

    def missing(self) -> list[int]:
        """Return the numbers of the blocks that are not finished."""
        done, _ = self.list_blocks()
        return [block for block in self.needed if block not in done]

    def is_done(self, block: int) -> bool:
        """Return whether a block, or the whole store, is finished, by one or two calls of stat."""
        return self.block_folder(block).exists() or not self.folder.exists()

    def list_blocks(self) -> tuple[set[int], Counter[int]]:
        """Return the finished blocks, and how often each unfinished block was begun."""
        try:
            names = [path.name for path in (self.folder / BLOCKS).iterdir()]
        except FileNotFoundError:
            return set(), Counter()
        done = {int(name) for name in names if _FINISHED.fullmatch(name)}
        begun: Counter[int] = Counter()
        for name in names:
            match = _BEGUN.fullmatch(name)
            if match:
                begun[int(match[1])] += 1
        return done, begun

    def begin(self, block: int, maker: Maker) -> "BlockWriter | None":
        """Begin a block; return None if the block or the whole store is finished."""
        if maker.kind != self.plan.kind:
            raise Mismatch(
                f"this store is filled on {self.plan.kind}, got {maker.kind}",
                where=str(self.folder),
                hint="choose another store name",
            )
        if self.is_done(block):
            return None
        hidden = hidden_name(self.block_folder(block))
        try:
            kept = self._kept_rows(block)
            make_folder(hidden)
            return BlockWriter(self, block, maker, hidden, kept)
        except (OSError, ObygazeError) as error:
            # The store is finished. The parent folder is never made: that would bring it back.
            if isinstance(error, FileNotFoundError) or not self.is_current():
                return None
            if is_sealed(self):
                # The new store replaced the store that was read here.
                return None
            raise

    def _kept_rows(self, block: int) -> dict[str, Values]:
        """Return, by array, the values of all rows of a block before the block is computed.

        A block consists of whole files, which also have the rows that are not computed. The values
        of these rows are copied from the store that the filling changes.
        """
        first, after = self.block_range(block)
        before = None
        if self.plan.replaces and not self.computed[first:after].all():
            before = open_store_before(self.target, self.plan.replaces)
        return {
            array.name: read_rows_before(before, array, first, after)
            for array in self.arrays
        }

    def read_block(self, block: int, *, hashes: bool = False) -> BlockRecord | None:
        """Return rows.json of a finished block, or None if the block is damaged.

        A damaged block is renamed, so it counts as missing. With `hashes`, the SHA-256 of each file
        is compared with the record; without `hashes`, only its length.
        """
        folder = self.block_folder(block)
        try:
            path = folder / ROWS_JSON
            record = decode(read_finished(path), BlockRecord, str(path))
            if self._matches_block(block, record) and self._has_files(
                folder, record, hashes
            ):
                return record
        except (FileNotFoundError, Corrupt):
            # The block is damaged, or another process removed it.
            pass
        self.set_aside(block)
        return None

    def _matches_block(self, block: int, record: BlockRecord) -> bool:
        """Return whether a record belongs to this block of this plan."""
        first, after = self.block_range(block)
        ids = [self.rows[number].clip_id for number in self.rows_of(block)]
        n_chunks = {array.name: array.n_chunks(after - first) for array in self.arrays}
        return (
            record.plan == self.digest
            and [row.clip_id for row in record.rows] == ids
            and {name: len(file.crcs) for name, file in record.files.items()}
            == {name: CRC_BYTES * n for name, n in n_chunks.items()}
        )

    def _has_files(self, folder: Path, record: BlockRecord, hashes: bool) -> bool:
        """Return whether the files of a block have the recorded lengths.

        With `hashes`, they must have the recorded SHA-256 too.
        """
        for name, file in record.files.items():
            path = folder / name
            if path.stat().st_size != file.n_bytes:
                return False
            if hashes and sha256_file(path) != file.sha256:
                return False
        return True

    def set_aside(self, block: int) -> None:
        """Rename a damaged block, so that it counts as missing."""
        name = f".damaged-{block:05d}-{secrets.token_hex(4)}"
        # Another process may have renamed the block, or removed NAME.next after the seal.
        with suppress(FileNotFoundError):
            take_name(self.block_folder(block), self.folder / BLOCKS / name)


def choose_block(
    needed: Sequence[int], done: set[int], begun: Mapping[int, int], start: int
) -> int | None:
    """Return one of the unfinished blocks that were begun least often; None if there is none.

    Of these blocks, return the first one from `start` on; the first block follows the last block.

    Args:
        needed: The numbers of all blocks to compute, ascending.
        done: The numbers of the finished blocks.
        begun: How often each unfinished block was begun, also by processes that have ended.
        start: The number of the first block to try.
    """
    turn = bisect.bisect_left(needed, start)
    left = [block for block in (*needed[turn:], *needed[:turn]) if block not in done]
    if not left:
        return None
    return min(left, key=lambda block: begun.get(block, 0))


# --- A block ---


class BlockWriter:
    """Collects the rows of a block and writes the block. Without `commit`, nothing is kept.

    Example:
        >>> with filling.begin(block, maker) as writer:
        ...     for number in writer.rows:
        ...         writer.add(filling.rows[number], {"clip": vector})
        ...     writer.commit()
    """

    def __init__(
        self,
        filling: Filling,
        block: int,
        maker: Maker,
        folder: Path,
        values: Mapping[str, Values],
    ) -> None:
        self.filling = filling
        self.block = block
        self.rows = filling.rows_of(block)
        self._maker = maker
        self._folder = folder
        # All rows of each array; rows that are not computed have the values of the changed store.
        self._values = values
        self._added: list[Row] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        remove_tree(self._folder)

    def add(self, row: Row, values: Mapping[str, Values] | None = None) -> None:
        """Add the next computed row of the block.

        Args:
            row: The row, with its status, its reason and the facts of the video.
            values: The values by array, for a row whose status is ok.
        """
        number = self.rows[len(self._added)]
        expected = self.filling.rows[number].clip_id
        if row.clip_id != expected:
            raise ValueError(f"expected the clip {expected!r}, got {row.clip_id!r}")
        if row.is_ok != (values is not None):
            raise ValueError(
                "expected values for a row that is ok, and no values for other rows"
            )
        place = number - self.filling.block_range(self.block)[0]
        for array in self.filling.arrays:
            value = array.fill if values is None else values[array.name]
            self._values[array.name][place] = self._check_values(array, row, value)
        self._added.append(row)

    def _check_values(self, array: Array, row: Row, value: Any) -> Any:
        """Return the values of an ok row as an array, or `value` unchanged for any other row.

        Raise an error for a wrong data type or shape, and for a NaN or an infinite feature.
        """
        if not row.is_ok:
            return value
        one_row = np.asarray(value)
        if one_row.shape != array.shape or one_row.dtype != np.dtype(array.dtype):
            raise FixInput(
                f"{array.name} of clip {row.clip_id!r} is {one_row.dtype}"
                f" {one_row.shape}, expected {array.dtype} {array.shape}"
            )
        if array.name not in TIMES and rows_not_finite(one_row[np.newaxis]):
            raise not_finite_error(array, row.clip_id)
        return one_row

    def commit(self) -> bool:
        """Write the block.

        Return False if another process has written the block, or if the store is finished.
        """
        if len(self._added) != len(self.rows):
            raise ValueError(f"expected {len(self.rows)} rows, got {len(self._added)}")
        try:
            files = {}
            for array in self.filling.arrays:
                data, checks = encode_file(array, self._values[array.name])
                mark = write_file(self._folder / array.name, data.data)
                files[array.name] = BlockFile(mark.n_bytes, mark.sha256, checks.hex())
            record = BlockRecord(
                plan=self.filling.digest,
                maker=self._maker,
                rows=tuple(self._added),
                files=files,
            )
            write_file(self._folder / ROWS_JSON, encode(record))
            sync_dir(self._folder)
            return take_name(self._folder, self.filling.block_folder(self.block))
        except OSError as error:
            if is_listed(self._folder):
                # Errors of open files have no file name.
                error.filename = error.filename or str(self.filling.folder)
                raise
            # The store was sealed and NAME.next removed: the block is no longer needed.
            return False


# --- The store that is changed ---


def read_rows_before(
    before: Store | None, array: Array, first: int, after: int
) -> Values:
    """Return rows of `before`, the store that a filling changes.

    Rows that `before` does not have contain the fill value.
    """
    values = fill_rows(array, after - first)
    n_kept = 0 if before is None else max(0, min(after, len(before)) - first)
    if before is not None and n_kept:
        values[:n_kept] = before.read(array.name, np.arange(first, first + n_kept))
    return values


def find_store_before(target: Path, seal: str) -> Path | None:
    """Return the folder of the store that a filling changes, or None if it no longer exists."""
    place = target if read_seal(target) else replaced_store_path(target, seal)
    return place if read_seal(place) == seal else None


def open_store_before(target: Path, seal: str) -> Store:
    """Open the store that a filling changes.

    A process may have been killed between the two renames that replace this store. The store then
    has the name of a replaced store, and is opened under this name.
    """
    place = find_store_before(target, seal)
    while place is not None:
        try:
            store = open_store(place)
        except (NotFound, Corrupt, Stopped):
            if find_store_before(target, seal) == place:
                raise
        else:
            if store.seal == seal:
                return store
        # It was moved meanwhile.
        place = find_store_before(target, seal)
    raise Mismatch(
        "the store to change no longer exists",
        where=str(target),
    )


# --- After the seal ---


def is_sealed(filling: Filling) -> bool:
    """Return whether the store of a filling is sealed."""
    path = filling.target / STORE_JSON
    try:
        data = read_finished(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    store = decode(data, StoreRecord, str(path))
    plan = filling.plan
    if plan.replaces:
        # A different command may have changed the same store.
        return store.rows.total >= plan.rows and plan.replaces in store.replaces
    return (store.fingerprint, store.manifest, store.arrays) == (
        plan.fingerprint,
        plan.manifest,
        plan.arrays,
    )


def remove_leftover(target: Path) -> None:
    """Remove what killed processes left.

    If the store is sealed, remove NAME.next: the process that sealed the store was killed before it
    removed NAME.next. If the store is not sealed, remove the hidden folders of blocks that killed
    processes began.
    """
    try:
        filling = Filling.open(target)
    except NotFound:
        return
    if is_sealed(filling):
        remove_filling(filling)
        return
    # Remove the hidden folders of blocks that killed processes began.
    for block in filling.list_blocks()[1]:
        remove_leftovers(filling.block_folder(block))


def remove_filling(filling: Filling) -> None:
    """Remove NAME.next, and the hidden folders that all processes made for the same plan."""
    hidden = hidden_name(filling.target, filling.tag)
    if _read_digest(filling.folder) == filling.digest:
        try:
            take_name(filling.folder, hidden)
        except FileNotFoundError:
            return
        if _read_digest(hidden) != filling.digest:
            # Another process removed the filling meanwhile. The renamed folder has a different
            # plan, or a third process has removed it.
            with suppress(FileNotFoundError):
                take_name(hidden, filling.folder)
            return
    for other in find_hidden(filling.target):
        if other.word == filling.tag:
            remove_tree(other.path)


def _read_digest(folder: Path) -> str:
    """Return the digest of the plan in a folder, or "" without a plan."""
    try:
        plan_json = read_finished(folder / PLAN_JSON)
        return _digest(plan_json, read_finished(folder / CLIPS_JSON))
    except (FileNotFoundError, NotADirectoryError):
        return ""

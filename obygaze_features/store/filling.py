"""Filling a store by blocks, by any number of processes: plan, begin a block, commit it.

`NAME.next` holds the plan and the finished blocks (docs/store.md, section 7). The rename of a
block's folder decides who computed the block. There is no lock and no clock: a hidden folder says
that a block was begun, and only decides in which order the blocks are taken.
"""

import bisect
import hashlib
import os
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
from obygaze_features.core.files import is_listed, sync_dir
from obygaze_features.core.shell import shell_word
from obygaze_features.core.temporary_names import (
    hidden_name,
    hidden_of,
    remove_leftovers,
)
from obygaze_features.store.atomic_files import (
    filling_path,
    make_folder,
    make_hidden,
    new_file,
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
    fill_rows,
    stored_dtype,
    write_shard,
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
    windows: bool = False,
    computed: Sequence[bool] | None = None,
    replaces: str = "",
) -> "Filling":
    """Make NAME.next, or open the one that another process made with the same plan.

    Args:
        target: The folder that the finished store gets; its parent must exist.
        rows: All rows of the new store: clips, films and times. Where a store is changed, its rows
            come first, in their order.
        arrays: The arrays of the new store; those of a store that is changed stay as they are.
        recipe: How the numbers are made.
        manifest: The manifest whose clips the rows are.
        kind: What computes, the same for all rows.
        windows: Whether the rows are windows of films.
        computed: For each row, whether this filling computes it; by default all are computed.
        replaces: The seal of the store that is changed, which is at the target.
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
            raise Mismatch("the store has other arrays", where=str(target))
        if len(rows) < there.rows.total or not all(wanted[there.rows.total :]):
            raise Mismatch(
                "the rows of the store come first, and all new rows are computed",
                where=str(target),
            )
        _check_rows_of_change(target, replaces, rows, wanted)
        arrays = there.arrays
    elif is_listed(target):
        raise _already_exists_error(target)
    else:
        row_bytes = sum(array.row_bytes for array in arrays)
        block_rows = choose_block_rows(len(rows), row_bytes, windows=windows)
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
        # They changed it meanwhile, and what this plan is for has moved.
        remove_filling(filling)
        raise _just_finished_error(target)
    return filling


def _check_rows_of_change(
    target: Path, seal: str, rows: Sequence[Row], computed: Sequence[bool]
) -> None:
    """Raise an error unless the store's clips come first and none with features is computed."""
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
            "the clips of the store come first, in their order", where=str(target)
        )
    for row, is_computed, is_ok in zip(rows, computed, has_features, strict=False):
        if is_computed and is_ok:
            raise Mismatch(
                f"the clip {row.clip_id!r} has features already", where=str(target)
            )


def _already_exists_error(target: Path) -> AlreadyThere:
    return AlreadyThere(
        "this store exists already, and a store is never changed in place",
        where=str(target),
        hint=OTHER_NAME,
    )


def _just_finished_error(target: Path) -> AlreadyThere:
    return AlreadyThere(
        "another process has just finished this store", where=str(target)
    )


def _write_plan(target: Path, plan_json: bytes, clips_json: bytes) -> None:
    """Make NAME.next; if it is there, it must have the same plan."""
    folder = filling_path(target)
    hidden = make_hidden(target, _tag_of(_digest(plan_json, clips_json)))
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
        # Who has finished the store removes what has the same plan.
        raise _just_finished_error(target) from error
    finally:
        remove_tree(hidden)
    if (other_plan, other_clips) != (plan_json, clips_json):
        raise Mismatch(
            "this store is being filled in another way: another recipe, other clips, times or"
            " arrays, another version or device",
            where=str(folder),
            hint="finish it with its own options, or give it up: rm -r"
            f" {shell_word(folder)}",
        )


def _digest(plan_json: bytes, clips_json: bytes) -> str:
    """Return what identifies a plan: the SHA-256 of plan.json followed by clips.json."""
    return hashlib.sha256(plan_json + clips_json).hexdigest()


def _tag_of(digest: str) -> str:
    return f"{digest[:8]}-"


# --- A filling ---


@dataclass(frozen=True, eq=False)
class Filling:
    """A store that is being filled.

    Args:
        target: The folder that the finished store gets.
        plan: What is computed.
        rows: All rows of the new store, without what is not known before they are computed.
        computed: For each row, whether this filling computes it.
        digest: The SHA-256 of plan.json followed by clips.json. Each block records it, so that a
            late process cannot add a block to another plan.
    """

    target: Path
    plan: PlanRecord
    rows: Sequence[Row]
    computed: npt.NDArray[np.bool_]
    digest: str

    @classmethod
    def open(cls, target: Path) -> Self:
        """Open the filling of a store; an error if it is not being filled."""
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
        """NAME.next."""
        return filling_path(self.target)

    @property
    def tag(self) -> str:
        """What the names of hidden folders of this plan have in them."""
        return _tag_of(self.digest)

    def is_current(self) -> bool:
        """Return whether NAME.next still has this plan."""
        return _digest_at(self.folder) == self.digest

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays of the new store."""
        return self.plan.arrays

    @cached_property
    def is_of_windows(self) -> bool:
        """Whether the rows are windows, whose times are known when they are decoded."""
        return bool(Recipe.from_json(self.plan.recipe).windows)

    @cached_property
    def needed(self) -> list[int]:
        """The numbers of the blocks that have a computed row."""
        numbers = np.unique(np.flatnonzero(self.computed) // self.plan.block_rows)
        needed: list[int] = numbers.tolist()
        return needed

    def range_of(self, block: int) -> tuple[int, int]:
        """Return the first row of a block, and the row after its last."""
        first = block * self.plan.block_rows
        return first, min(first + self.plan.block_rows, self.plan.rows)

    def rows_of(self, block: int) -> list[int]:
        """Return the numbers of the rows of a block that this filling computes."""
        first, after = self.range_of(block)
        places = np.flatnonzero(self.computed[first:after]) + first
        rows: list[int] = places.tolist()
        return rows

    def folder_of(self, block: int) -> Path:
        """Return the folder of a finished block."""
        return self.folder / BLOCKS / f"{block:05d}"

    def missing(self) -> list[int]:
        """Return the numbers of the blocks that are not finished."""
        done, _ = self.listed()
        return [block for block in self.needed if block not in done]

    def is_done(self, block: int) -> bool:
        """Return whether a block need not be computed any more; costs one or two looks.

        True also if the store is finished.
        """
        return self.folder_of(block).exists() or not self.folder.exists()

    def listed(self) -> tuple[set[int], Counter[int]]:
        """Return the finished blocks, and how often each other block was begun."""
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
        """Begin to compute a block; None if that is not needed any more."""
        if maker.kind != self.plan.kind:
            raise Mismatch(
                f"the plan is for {self.plan.kind}, and this is {maker.kind}",
                where=str(self.folder),
                hint="choose another store name",
            )
        if self.is_done(block):
            return None
        hidden = hidden_name(self.folder_of(block))
        try:
            kept = self._kept_rows(block)
            make_folder(hidden)
            return BlockWriter(self, block, maker, hidden, kept)
        except (OSError, ObygazeError) as error:
            # The store is finished. Nobody makes the parent folder, which would bring it back.
            if isinstance(error, FileNotFoundError) or not self.is_current():
                return None
            if is_sealed(self):
                # It took the place of the store that was read here.
                return None
            raise

    def _kept_rows(self, block: int) -> dict[str, Values]:
        """Return all rows of a block as they are before it is computed, of each array.

        A block is whole files: rows that are not computed are those of the store before.
        """
        first, after = self.range_of(block)
        if self.computed[first:after].all():
            return {
                array.name: np.empty((after - first, *array.shape), stored_dtype(array))
                for array in self.arrays
            }
        before = None
        if self.plan.replaces:
            before = open_store_before(self.target, self.plan.replaces)
        return {
            array.name: read_rows_before(before, array, first, after)
            for array in self.arrays
        }

    def read_block(self, block: int, *, hashes: bool = False) -> BlockRecord | None:
        """Return rows.json of a finished block; None if the block is damaged.

        A damaged block is renamed away, and counts as not done. With `hashes`, every byte is read.
        """
        folder = self.folder_of(block)
        try:
            path = folder / ROWS_JSON
            record = decode(read_finished(path), BlockRecord, str(path))
            if self._is_of(block, record) and self._has_files(folder, record, hashes):
                return record
        except (FileNotFoundError, Corrupt):
            # It is damaged, or not there any more.
            pass
        self.set_aside(block)
        return None

    def _is_of(self, block: int, record: BlockRecord) -> bool:
        """Return whether a record is of a block of this plan."""
        first, after = self.range_of(block)
        ids = [self.rows[number].clip_id for number in self.rows_of(block)]
        n_chunks = {array.name: array.n_chunks(after - first) for array in self.arrays}
        return (
            record.plan == self.digest
            and [row.clip_id for row in record.rows] == ids
            and {name: len(file.crcs) for name, file in record.files.items()}
            == {name: CRC_BYTES * n for name, n in n_chunks.items()}
        )

    def _has_files(self, folder: Path, record: BlockRecord, hashes: bool) -> bool:
        """Return whether the files of a block have their lengths; with `hashes`, their bytes."""
        for name, file in record.files.items():
            with (folder / name).open("rb") as stream:
                if os.fstat(stream.fileno()).st_size != file.n_bytes:
                    return False
                if hashes:
                    digest = hashlib.file_digest(stream, "sha256")
                    if digest.hexdigest() != file.sha256:
                        return False
        return True

    def set_aside(self, block: int) -> None:
        """Rename a damaged block away, so that it counts as not done."""
        name = f".damaged-{block:05d}-{secrets.token_hex(4)}"
        # It may not be there, or be removed with NAME.next after the seal.
        with suppress(FileNotFoundError):
            take_name(self.folder_of(block), self.folder / BLOCKS / name)


def choose_block(
    needed: Sequence[int], done: set[int], begun: Mapping[int, int], start: int
) -> int | None:
    """Return the first block that is neither done nor begun; else the one begun the fewest times.

    Args:
        needed: All blocks, in order.
        done: The finished blocks.
        begun: How often each unfinished block was begun, by processes that may have ended.
        start: The block from which to look on; after the last block comes the first.
    """
    turn = bisect.bisect_left(needed, start)
    left = [block for block in (*needed[turn:], *needed[:turn]) if block not in done]
    if not left:
        return None
    return min(left, key=lambda block: begun.get(block, 0))


# --- A block ---


class BlockWriter:
    """Takes the rows of a block, and writes it. Leave it without `commit`, and nothing stays.

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
        # All rows of each array; those that are not computed are as they were.
        self._values = values
        self._added: list[Row] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        remove_tree(self._folder)

    def add(self, row: Row, values: Mapping[str, Values] | None = None) -> None:
        """Add the next computed row of the block.

        Args:
            row: The clip with its status, its reason and the video that was read. The maker is that
                of the block.
            values: For each array that is computed, the values of a row that is ok.
        """
        number = self.rows[len(self._added)]
        expected = self.filling.rows[number].clip_id
        if row.clip_id != expected:
            raise ValueError(f"expected the clip {expected!r}, got {row.clip_id!r}")
        if row.is_ok != (values is not None):
            raise ValueError("a row has values if it is ok, and only then")
        place = number - self.filling.range_of(self.block)[0]
        for array in self.filling.arrays:
            value = array.fill if values is None else values[array.name]
            self._values[array.name][place] = self._checked(array, row, value)
        self._added.append(row)

    def _checked(self, array: Array, row: Row, value: Any) -> Any:
        """Return the values of one row, or the fill value; an error for what does not fit."""
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
        """Write the block; False if another process did so first, or the store is finished."""
        if len(self._added) != len(self.rows):
            raise ValueError(f"{len(self._added)} of {len(self.rows)} rows were added")
        try:
            files = {}
            for array in self.filling.arrays:
                with new_file(self._folder / array.name) as stream:
                    mark, checks = write_shard(
                        stream, array, [self._values[array.name]]
                    )
                files[array.name] = BlockFile(mark.n_bytes, mark.sha256, checks.hex())
            record = BlockRecord(
                plan=self.filling.digest,
                maker=self._maker,
                rows=tuple(self._added),
                files=files,
            )
            write_file(self._folder / ROWS_JSON, encode(record))
            sync_dir(self._folder)
            return take_name(self._folder, self.filling.folder_of(self.block))
        except OSError as error:
            if is_listed(self._folder):
                # A file that is open has no name in the error.
                error.filename = error.filename or str(self.filling.folder)
                raise
            # Who seals the store removes NAME.next, and nobody needs the block any more.
            return False


# --- The store that is changed ---


def read_rows_before(
    before: Store | None, array: Array, first: int, after: int
) -> Values:
    """Return rows as the store before has them; those that it does not have hold the fill value."""
    values = fill_rows(array, after - first)
    n_kept = 0 if before is None else max(0, min(after, len(before)) - first)
    if before is not None and n_kept:
        values[:n_kept] = before.read(array.name, np.arange(first, first + n_kept))
    return values


def find_store_before(target: Path, seal: str) -> Path | None:
    """Return where the store that is changed lies; None if another one has taken its place."""
    place = target if read_seal(target) else replaced_store_path(target, seal)
    return place if read_seal(place) == seal else None


def open_store_before(target: Path, seal: str) -> Store:
    """Open the store that is changed, also where a process was killed between two renames."""
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
        "the store to change does not exist any more",
        where=str(target),
    )


# --- Where a filling ends ---


def is_sealed(filling: Filling) -> bool:
    """Return whether the store of a filling is there already."""
    path = filling.target / STORE_JSON
    try:
        data = read_finished(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    store = decode(data, StoreRecord, str(path))
    plan = filling.plan
    if plan.replaces:
        # Another command may have changed the same store in another way.
        return store.rows.total >= plan.rows and plan.replaces in store.replaces
    return (store.fingerprint, store.manifest, store.arrays) == (
        plan.fingerprint,
        plan.manifest,
        plan.arrays,
    )


def remove_leftover(target: Path) -> None:
    """Remove NAME.next, if the store was sealed from it by a process that was killed then."""
    try:
        filling = Filling.open(target)
    except NotFound:
        return
    if is_sealed(filling):
        remove_filling(filling)
        return
    # Blocks that killed processes had begun.
    for block in filling.listed()[1]:
        remove_leftovers(filling.folder_of(block))


def remove_filling(filling: Filling) -> None:
    """Remove NAME.next, and the hidden folders of other processes with the same plan."""
    hidden = hidden_name(filling.target, filling.tag)
    if _digest_at(filling.folder) == filling.digest:
        try:
            take_name(filling.folder, hidden)
        except FileNotFoundError:
            return
        if _digest_at(hidden) != filling.digest:
            # Meanwhile another process removed it. What is here is another plan; or it is not here,
            # because a third process removes it.
            with suppress(FileNotFoundError):
                take_name(hidden, filling.folder)
            return
    for other in hidden_of(filling.target):
        if other.word == filling.tag:
            remove_tree(other.path)


def _digest_at(folder: Path) -> str:
    """Return what identifies the plan in a folder; "" if there is none."""
    try:
        plan_json = read_finished(folder / PLAN_JSON)
        return _digest(plan_json, read_finished(folder / CLIPS_JSON))
    except (FileNotFoundError, NotADirectoryError):
        return ""

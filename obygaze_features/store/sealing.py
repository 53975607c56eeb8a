"""Sealing: the finished blocks of a filling, and the store that it changes, become the store."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput, Mismatch, NotFound, ObygazeError
from obygaze_features.store.card import Terms
from obygaze_features.store.decoding import OK_CODE
from obygaze_features.store.encoding import Values, fill_rows
from obygaze_features.store.files import FolderFiles
from obygaze_features.store.filling import (
    Filling,
    is_sealed,
    remove_filling,
    store_before,
)
from obygaze_features.store.layout import Array
from obygaze_features.store.making import (
    NO_TERMS,
    Contents,
    FinishedFile,
    Written,
    build_store,
)
from obygaze_features.store.placing import (
    make_hidden,
    remove_tree,
    replace_store,
    seal_at,
    take_name,
)
from obygaze_features.store.reading import Store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import (
    BlockRecord,
    FileMark,
    Maker,
    Origin,
    place_in,
)
from obygaze_features.store.rows import NOT_EXTRACTED, Row, RowColumns


def seal(
    target: Path,
    *,
    seal_now: bool = False,
    terms: Terms = NO_TERMS,
) -> Written:
    """Make the store of a filling whose blocks are finished, and remove NAME.next.

    Any number of processes may seal one store at once: the first one gives it its name, and the
    others return this store.

    Args:
        target: The folder of the store; NAME.next is beside it.
        seal_now: Seal what is there: other rows have the status `not-extracted`.
        terms: Licence and citation for the card; by default those of the store that is changed.
    """
    while True:
        try:
            filling = Filling.open(target)
        except NotFound:
            if seal_at(target):
                return Written(target, seal_at(target))
            raise
        if is_sealed(filling):
            remove_filling(filling)
            continue
        seal_then = seal_at(target)
        try:
            return _seal(filling, seal_now, terms)
        except (OSError, ObygazeError):
            # Another process may have sealed the store, and moved or removed what was read here.
            if filling.is_current() and seal_at(target) == seal_then:
                raise


def _seal(filling: Filling, seal_now: bool, terms: Terms) -> Written:
    target = filling.target
    before = None
    replaces: Sequence[str] = ()
    origins: Sequence[Origin] = ()
    if filling.plan.replaces:
        before = store_before(target, filling.plan.replaces)
        terms = terms.or_else(before.terms)
        replaces = (*before.record.replaces, before.seal)
        origins = before.record.origins
    source = _Blocks(filling, before, _finished_blocks(filling, seal_now))
    plan = filling.plan
    contents = Contents(
        arrays=plan.arrays,
        recipe=Recipe.from_json(plan.recipe),
        manifest=plan.manifest,
        makers=source.makers,
        replaces=replaces,
        origins=origins,
        terms=terms,
    )
    hidden = make_hidden(target, filling.tag)
    try:
        seal_of_store = build_store(hidden, source, contents)
        if before:
            is_first = replace_store(hidden, target, before.seal)
        else:
            is_first = take_name(hidden, target)
    finally:
        remove_tree(hidden)
    if not is_first and not is_sealed(filling):
        raise Mismatch("another store has this name now", where=str(target))
    remove_filling(filling)
    if not is_first:
        return Written(target, seal_at(target))
    return Written(target, seal_of_store)


def _finished_blocks(filling: Filling, seal_now: bool) -> dict[int, BlockRecord]:
    """Return the records of the finished blocks; an error if blocks are missing."""
    done, _ = filling.listed()
    blocks: dict[int, BlockRecord] = {}
    n_damaged = 0
    for block in filling.needed:
        if block in done:
            record = filling.read_block(block)
            if record is None:
                n_damaged += 1
            else:
                blocks[block] = record
    n_needed = len(filling.needed)
    n_missing = n_needed - len(blocks)
    if n_missing and not (seal_now and blocks):
        damaged = f", {n_damaged} of them damaged" if n_damaged else ""
        raise FixInput(
            f"{n_missing} of {n_needed} blocks are missing{damaged}",
            where=str(filling.folder),
            hint="the same extraction again, which continues it",
        )
    return blocks


class _Blocks:
    """The rows of finished blocks and of the store before, as a `LinkingSource`."""

    def __init__(
        self, filling: Filling, before: Store | None, blocks: dict[int, BlockRecord]
    ) -> None:
        self.filling = filling
        self.before = before
        self.blocks = blocks
        self.makers: list[Maker] = list(before.record.makers) if before else []
        self._rows_before: Sequence[Row] = before.rows if before else ()
        self.rows = self._new_rows()
        self._is_ok = np.array([row.is_ok for row in self.rows], dtype=bool)
        # The raw rows that were read last: a step of a file may be shorter than a block.
        self._last: tuple[str, int] = ("", -1)
        self._last_rows = np.empty(0)

    def _new_rows(self) -> Sequence[Row]:
        """Return all rows of the new store; `makers` gets what computed them."""
        rows = list(self._rows_before)
        for row in self.filling.rows[len(rows) :]:
            rows.append(row._replace(status=NOT_EXTRACTED))
        for record in self.blocks.values():
            maker = place_in(self.makers, record.maker)
            for computed in record.rows:
                row = computed.of(self.filling.rows[computed.row])
                rows[computed.row] = row._replace(maker=maker)
        return rows

    def columns(self) -> RowColumns:
        """Return all rows of the new store."""
        return RowColumns.of(self.rows)

    def read(self, array: Array, first: int, after: int) -> Values:
        """Return rows of an array: from the store before, and those that were computed."""
        values = fill_rows(array, after - first)
        before = self.before
        if before:
            n_kept = max(0, min(after, len(before)) - first)
            values[:n_kept] = before.read(array, np.arange(first, first + n_kept))
        block_rows = self.filling.plan.block_rows
        for block in range(first // block_rows, (after - 1) // block_rows + 1):
            if block in self.blocks:
                block_first, block_after = self.filling.range_of(block)
                start = max(first, block_first)
                stop = min(after, block_after)
                raw = self._raw_rows(array, block)[start - block_first :]
                computed = np.flatnonzero(self.filling.computed[start:stop])
                values[start - first + computed] = raw[computed]
        return values

    def _raw_rows(self, array: Array, block: int) -> Values:
        if self._last != (array.name, block):
            file = self.blocks[block].files[array.name]
            rows = self.filling.read_raw(array, block, file)
            if rows is None:
                raise FixInput(
                    f"block {block} is damaged and must be computed again",
                    where=str(self.filling.folder),
                    hint="the same extraction again, which continues it",
                )
            self._last = (array.name, block)
            self._last_rows = rows
        return self._last_rows

    def finished_file(self, array: Array, number: int) -> FinishedFile | None:
        """Return a file of a block or of the store before that has exactly these rows."""
        first = number * array.file_rows
        after = min(first + array.file_rows, len(self.filling.rows))
        if self.filling.computed[first:after].any():
            return self._file_of_block(array, number)
        return self._file_before(array, number, first, after)

    def _file_of_block(self, array: Array, number: int) -> FinishedFile | None:
        record = self.blocks.get(number)
        if record is None or not self.filling.is_shard(array, number):
            return None
        file = record.files[array.name]
        path = self.filling.folder_of(number) / array.name
        mark = FileMark(file.n_bytes, file.sha256)
        return FinishedFile(path, mark, bytes.fromhex(file.checks))

    def _file_before(
        self, array: Array, number: int, first: int, after: int
    ) -> FinishedFile | None:
        if self.before is None or after > len(self.before):
            return None
        return file_of_store(self.before, array, number, self._is_ok[first:after])


def file_of_store(
    store: Store, array: Array, number: int, is_ok: npt.NDArray[np.bool_]
) -> FinishedFile | None:
    """Return a file of a store in a folder, for a link; None if it has other rows with features."""
    if not isinstance(store.files, FolderFiles):
        return None
    if store.record.array(array.name) != array:
        return None
    rows = number * array.file_rows + np.arange(len(is_ok))
    if not np.array_equal(store.table.codes_of(rows) == OK_CODE, is_ok):
        # A row failed, or was computed: the file is written anew.
        return None
    name = array.file_name(number)
    # A link in a store, or a file of another length, is refused here.
    store.listed.check_length(name)
    first_chunk = number * array.chunks_of_a_file
    after = first_chunk + array.chunks_of_a_file
    own = store.arrays.checks[array.name][first_chunk:after]
    path = Path(store.files.address) / name
    return FinishedFile(path, store.record.files[name], own.astype("<u4").tobytes())

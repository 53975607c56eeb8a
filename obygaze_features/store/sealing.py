"""Seal a filling: make a store of the files of its blocks and of the store that it changes."""

from pathlib import Path

from obygaze_features.core.errors import FixInput, Mismatch, NotFound, ObygazeError
from obygaze_features.store.atomic_files import (
    make_hidden,
    read_seal,
    remove_tree,
    replace_store,
    take_name,
)
from obygaze_features.store.card import Terms, card_of_store
from obygaze_features.store.encoding import Values
from obygaze_features.store.filling import (
    Filling,
    is_sealed,
    open_store_before,
    read_rows_before,
    remove_filling,
)
from obygaze_features.store.layout import Array
from obygaze_features.store.making import (
    NO_TERMS,
    Contents,
    FinishedFile,
    Written,
    build_store,
)
from obygaze_features.store.reading import Store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import (
    BlockRecord,
    FileMark,
    Maker,
    ManifestMark,
    all_makers,
)
from obygaze_features.store.rows import NOT_EXTRACTED, Row, RowColumns


def seal(
    target: Path,
    *,
    seal_now: bool = False,
    terms: Terms = NO_TERMS,
) -> Written:
    """Make the store of a filling whose blocks are finished, and remove NAME.next.

    Several processes may seal a store at the same time. The first of them gives the store its name,
    and all of them return this store.

    Args:
        target: The folder of the store; NAME.next is beside it.
        seal_now: Whether to seal although blocks are missing. The new rows of the missing blocks
            get the status `not-extracted`.
        terms: The licence and the citation for the card. If the filling changes a store, the terms
            that this store states are kept.
    """
    while True:
        try:
            filling = Filling.open(target)
        except NotFound:
            if read_seal(target):
                return Written(target, read_seal(target))
            raise
        if is_sealed(filling):
            remove_filling(filling)
            continue
        seal_then = read_seal(target)
        try:
            return _seal(filling, seal_now, terms)
        except (OSError, ObygazeError):
            # Another process may have sealed the store, and moved or removed these files.
            if filling.is_current() and read_seal(target) == seal_then:
                raise


def _seal(filling: Filling, seal_now: bool, terms: Terms) -> Written:
    target = filling.target
    seal_before = filling.plan.replaces
    before = open_store_before(target, seal_before) if seal_before else None
    source = _Blocks(filling, before, _finished_blocks(filling, seal_now))
    hidden = make_hidden(target, filling.tag)
    try:
        seal_of_store = build_store(hidden, source, _contents(source, terms))
        if before:
            is_first = replace_store(hidden, target, before.seal)
        else:
            is_first = take_name(hidden, target)
    finally:
        remove_tree(hidden)
    if not is_first and not is_sealed(filling):
        raise Mismatch(
            "another process has written a different store under this name",
            where=str(target),
        )
    remove_filling(filling)
    return Written(target, seal_of_store if is_first else read_seal(target))


def _contents(source: "_Blocks", terms: Terms) -> Contents:
    """Return the facts of the new store.

    Makers, history and terms of the store that the filling changes are kept.
    """
    plan = source.filling.plan
    before = source.before
    return Contents(
        arrays=plan.arrays,
        recipe=Recipe.from_json(plan.recipe),
        manifest=plan.manifest,
        makers=source.makers,
        replaces=(*before.record.replaces, before.seal) if before else (),
        origins=before.record.origins if before else (),
        terms=before.terms.or_else(terms) if before else terms,
        earlier_manifests=_earlier_manifests(before, plan.manifest) if before else (),
        cards_before=_cards_before(before) if before else None,
    )


def _earlier_manifests(before: Store, manifest: ManifestMark) -> list[str]:
    """Return the names of the other manifests from which a changed store has clips."""
    record = before.record
    names = dict.fromkeys((*record.earlier_manifests, record.manifest.name))
    return [name for name in names if name not in ("", manifest.name)]


def _cards_before(before: Store) -> tuple[str, bytes] | None:
    """Return the card of a changed store as this program writes it, and as it is now.

    Return None if the card was removed.
    """
    now = before.card
    if not now:
        return None
    rows = RowColumns.of(before.rows)
    return card_of_store(before.record, rows, before.terms, before.seal), now


def _finished_blocks(filling: Filling, seal_now: bool) -> dict[int, BlockRecord]:
    """Return the records of the finished blocks, by number.

    Raise an error if blocks are missing. With `seal_now`, raise it only if no block is finished.
    """
    done, _ = filling.list_blocks()
    blocks: dict[int, BlockRecord] = {}
    for block in sorted(done.intersection(filling.needed)):
        record = filling.read_block(block, hashes=True)
        if record is not None:
            blocks[block] = record
    n_missing = len(filling.needed) - len(blocks)
    if n_missing and not (seal_now and blocks):
        raise FixInput(
            f"{n_missing} of {len(filling.needed)} blocks are missing or damaged",
            where=str(filling.folder),
            hint="run the same extraction again to continue",
        )
    return blocks


class _Blocks:
    """The rows of finished blocks and of the store that the filling changes.

    This is a `LinkingSource`: each file of the new store is linked from a block or from the changed
    store. Only the files of missing blocks are written.
    """

    def __init__(
        self, filling: Filling, before: Store | None, blocks: dict[int, BlockRecord]
    ) -> None:
        self.filling = filling
        self.before = before
        self.blocks = blocks

    @property
    def makers(self) -> tuple[Maker, ...]:
        """The makers of all rows."""
        makers = list(self.before.record.makers) if self.before else []
        return all_makers([*makers, *(one.maker for one in self.blocks.values())])

    def columns(self) -> RowColumns:
        """Return the facts of all rows of the new store, as columns."""
        rows: list[Row] = list(self.before.rows) if self.before else []
        for row in self.filling.rows[len(rows) :]:
            rows.append(row._replace(status=NOT_EXTRACTED))
        for block, record in self.blocks.items():
            for number, row in zip(
                self.filling.rows_of(block), record.rows, strict=True
            ):
                rows[number] = row
        return RowColumns.of(rows)

    def read(self, array: Array, first: int, after: int) -> Values:
        """Return rows of a missing block: from the changed store; new rows have the fill value."""
        return read_rows_before(self.before, array, first, after)

    def finished_file(self, array: Array, number: int) -> FinishedFile | None:
        """Return file `number` of an array, from a block or from the changed store.

        Return None if neither has a file with exactly these rows. The file must then be written.
        """
        record = self.blocks.get(number)
        if record is None:
            return self._file_before(array, number)
        file = record.files[array.name]
        path = self.filling.block_folder(number) / array.name
        mark = FileMark(file.n_bytes, file.sha256)
        return FinishedFile(path, mark, file.crcs)

    def _file_before(self, array: Array, number: int) -> FinishedFile | None:
        """Return file `number` of an array from the changed store.

        Return None if the changed store has no file with exactly the same rows.
        """
        before = self.before
        after = min((number + 1) * array.file_rows, len(self.filling.rows))
        if before is None or after > len(before) or array not in before.record.arrays:
            return None
        name = array.file_name(number)
        # A link in a store, or a file of another length, is refused here.
        before.listed.check_length(name)
        first_chunk = number * array.chunks_of_a_file
        after_chunk = first_chunk + array.chunks_of_a_file
        checks = before.arrays.checks[array.name][first_chunk:after_chunk]
        path = Path(before.files.address) / name
        mark = before.record.files[name]
        return FinishedFile(path, mark, checks.astype("<u4").tobytes())

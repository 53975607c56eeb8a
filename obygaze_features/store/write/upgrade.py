"""Give a sealed store what the seal of a new one has, as a new version that changes no row."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from obygaze_features.core.console import Progress, Quiet, count
from obygaze_features.core.errors import FixInput
from obygaze_features.core.options import Bar
from obygaze_features.store.format.names import gathered_key
from obygaze_features.store.format.records import Seal
from obygaze_features.store.format.schema import VERSION, FileMark
from obygaze_features.store.read.index import INDEX_ROWS, FilmIndex
from obygaze_features.store.read.index_pages import index_records
from obygaze_features.store.read.reader import Store
from obygaze_features.store.write.gathering import gathered_arrays
from obygaze_features.store.write.version import (
    NewVersion,
    folder_to_change,
    new_version,
    stated_author,
    stated_reason,
    store_to_change,
)


def upgrade(
    store: str | os.PathLike[str],
    *,
    reason: str = "",
    author: str = "",
    progress: Annotated[Progress | None, Bar("upgrade", "files")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> NewVersion:
    """Bring a store of an earlier obygaze to the newest format, as a new version of it.

    It gets what a store that is sealed today has beside its blocks: copies of its small arrays in
    one file each, an index by film if it has very many clips, and the checksums of single chunks.
    So it is read in fewer requests. No row changes, and no block is written again. Nothing is done
    where nothing is missing. Stores of all formats stay readable without it.

    Args:
        store: The store: a name or a folder.
        reason: Why the version is made. [default: what is added]
        author: Who makes it. [default: the variable OBYGAZE_AUTHOR]
        progress: Counts the files whose checksums are read.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store upgrade obygaze12-xclip
    """
    root = folder_to_change(store, workspace)
    by = stated_author(author)
    opened = store_to_change(root)
    seal = opened.commits.seal
    if seal is None:
        raise FixInput("this store is not sealed", where=str(root))
    addition = _addition_to(opened, seal, progress or Quiet())
    if not addition.words:
        text = _why_nothing(seal)
        return NewVersion.of(root, opened, "format", {}, reason, text, is_new=False)
    words = ", ".join(addition.words)
    if addition.gathered or addition.n_indexed:
        words = f"upgraded to format {VERSION}: {words}"
    stated = stated_reason(reason or words)
    numbers = addition.numbers
    with new_version(root, opened) as draft:
        draft.crc32c.update(addition.crc32c)
        made = draft.publish(change="format", reason=stated, author=by, numbers=numbers)
    return NewVersion.of(root, made, "format", numbers, stated, words)


@dataclass(frozen=True)
class _Addition:
    """What a store does not have, and would have if it were sealed today.

    Args:
        crc32c: By array, the checksums of each block.
        gathered: The arrays of which a file with copies of all blocks is to be written.
        n_indexed: The number of films, if the index by film is to be written.
    """

    crc32c: Mapping[str, list[str]]
    gathered: list[str]
    n_indexed: int

    @property
    def words(self) -> list[str]:
        """What is added, in words."""
        words = []
        if self.gathered:
            words.append(f"{count(len(self.gathered), 'array')} gathered")
        if self.n_indexed:
            words.append(f"the index of {count(self.n_indexed, 'film')} written")
        if self.crc32c:
            arrays = count(len(self.crc32c), "array")
            words.append(f"the checksums of the chunks of {arrays} recorded")
        return words

    @property
    def numbers(self) -> dict[str, int]:
        """How many arrays and films it concerns."""
        numbers = {}
        arrays = {*self.gathered, *self.crc32c}
        if arrays:
            numbers["arrays"] = len(arrays)
        if self.n_indexed:
            numbers["films"] = self.n_indexed
        return numbers


def _addition_to(store: Store, seal: Seal, progress: Progress) -> _Addition:
    """Return what a sealed store does not have, and would have if it were sealed today."""
    plan = store.plan
    crc32c = _unrecorded_checksums(store, seal, progress)
    texts = {array: " ".join(words) for array, words in crc32c.items()}
    complete = replace(seal, crc32c={**seal.crc32c, **texts})
    gathered = []
    for spec in gathered_arrays(plan, store.arrays.layout, complete, seal.files):
        if gathered_key(spec.name) not in seal.files:
            gathered.append(spec.name)
    n_indexed = 0
    if plan.n_clips >= INDEX_ROWS and not _has_index(store, complete):
        n_indexed = len(set(store.movie_ids.tolist()))
    return _Addition(crc32c, gathered, n_indexed)


def _unrecorded_checksums(
    store: Store, seal: Seal, progress: Progress
) -> dict[str, list[str]]:
    """Return, by array, the checksums of each block where the seal does not have them.

    An array of which a block has no chunk is left out, as in every seal.
    """
    plan = store.plan
    arrays = [spec.name for spec in plan.arrays if spec.name not in seal.crc32c]
    progress.expect(len(arrays) * plan.n_blocks, "files")
    crc32c = {}
    for array in arrays:
        words = []
        for block in range(plan.n_blocks):
            words.append(store.arrays.block_checksums(array, block))
            progress.advance()
        if all(words):
            crc32c[array] = words
    return crc32c


def _has_index(store: Store, seal: Seal) -> bool:
    """Return whether the index of a store has the bytes that it would have today."""
    for name, record in index_records(store, seal, store.plan).items():
        if seal.files.get(name) != FileMark.of(record.to_bytes()):
            return False
    return True


def _why_nothing(seal: Seal) -> str:
    """Return why a store is not upgraded, which has all that it would have today."""
    if seal.format_version == VERSION or FilmIndex.FILE in seal.files:
        return f"it is of format {VERSION}, the newest"
    return (
        f"it is of format {seal.format_version}, as it would be if it were sealed today"
    )

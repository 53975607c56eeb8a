"""Which files make a store, or a part of one, and what each of them must be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store.files.places import Files, read_or_none
from obygaze_features.store.format.records import (
    README_FILE,
    SEAL_FILE,
    STORE_FILE,
    TEXT_KEY,
    Partial,
    marker_key,
)
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.read.reader import Store

AT_ONCE = 16


@dataclass(frozen=True)
class Part:
    """The files of a store that are wanted.

    `files` are fetched and checked against their marks; `documents` (the seal or the markers, and
    store.json, the last) have been read and checked already.
    """

    files: Mapping[str, FileMark]
    documents: Mapping[str, bytes]
    partial: Partial | None = None
    n_bytes_rows: int = 0
    sealed: bool = True
    n_rows: int = 0

    @property
    def n_bytes_files(self) -> int:
        """The bytes that are still to be fetched once the documents have been read."""
        return sum(mark.n_bytes for mark in self.files.values())

    @property
    def n_bytes(self) -> int:
        """The bytes of all its files and documents."""
        return self.n_bytes_files + sum(len(data) for data in self.documents.values())


def part_of(
    store: Store, levels: Sequence[str] | None = None, movies: Iterable[str] | None = None
) -> Part:
    """The files that hold some arrays of some movies; all of them unless told otherwise.

    Blocks are fetched whole, so clips that share a block with a movie come along.
    """
    if store.sealed:
        return _sealed_part(store, levels, movies)
    if levels is not None or movies is not None:
        raise FixInput(
            "only a store that is sealed can be shared in part",
            where=store.location,
            hint="obygaze store subset makes a store of its own from the part",
        )
    return _growing_part(store)


def _sealed_part(store: Store, levels: Sequence[str] | None, movies: Iterable[str] | None) -> Part:
    seal, here = store.commits.seal, store.commits.partial
    if seal is None:
        raise FixInput("not sealed", where=store.location)
    chosen = levels if levels is not None else [spec.name for spec in store.plan.arrays]
    specs = [store.plan.array(name) for name in chosen]
    rows = store.select(movies=movies).rows
    blocks = frozenset((rows // store.plan.block_rows).tolist())
    wanted = Partial({spec.name: blocks for spec in specs})
    if here is not None and levels is None and movies is None:
        wanted = here
    elif here is not None:
        _check_here(store, wanted, here)
    files = {name: mark for name, mark in seal.files.items() if wanted.holds_file(name)}
    documents = {name: _document(store.files, name) for name in (SEAL_FILE, STORE_FILE)}
    _check_sizes(store, files)
    partial = None if len(files) == len(seal.files) else wanted
    if sha256_bytes(documents[STORE_FILE]) != files.pop(STORE_FILE).sha256:
        raise Corrupt("store.json is not the one that was sealed", where=store.location)
    n_bytes_rows = len(rows) * sum(spec.row_bytes for spec in specs)
    return Part(files, documents, partial, n_bytes_rows, True, len(rows))


def _check_here(store: Store, wanted: Partial, here: Partial) -> None:
    lacking = [
        name
        for name, blocks in wanted.blocks.items()
        if blocks - here.blocks.get(name, frozenset())
    ]
    if lacking:
        raise FixInput(
            f"this copy is partial and lacks some of {', '.join(lacking)}",
            where=store.location,
            hint="the levels and movies it holds: obygaze store info",
        )


def _growing_part(store: Store) -> Part:
    """What is committed so far of a store that is not sealed."""
    plan = store.plan
    with ThreadPoolExecutor(AT_ONCE) as pool:
        markers = list(pool.map(store.commits.marker, range(plan.n_blocks)))
    there = [marker for marker in markers if marker is not None]
    files = {**plan.files, **store.commits.text_files()}
    for marker in there:
        files.update(marker.files)
    documents = {marker_key(marker.block): marker.to_bytes() for marker in there}
    for name in (README_FILE, TEXT_KEY):
        data = read_or_none(store.files, name)
        if data is not None:
            documents[name] = data
    documents[STORE_FILE] = _document(store.files, STORE_FILE)
    _check_sizes(store, files)
    n_rows = sum(after - first for first, after in (marker.rows for marker in there))
    row_bytes = sum(spec.row_bytes for spec in plan.arrays)
    return Part(files, documents, None, n_rows * row_bytes, False, n_rows)


def _document(files: Files, name: str) -> bytes:
    data = read_or_none(files, name)
    if data is None:
        raise Corrupt(f"{name} is missing", where=files.location)
    return data


def _check_sizes(store: Store, files: Mapping[str, FileMark]) -> None:
    """Refuse promises of more bytes than the arrays of store.json can come to."""
    plan = store.plan
    most = {spec.name: plan.block_rows * spec.row_bytes for spec in plan.arrays}
    for name, mark in files.items():
        words = name.split("/")
        bound = most.get(words[1]) if len(words) == 3 and words[2].startswith("c.") else None
        # Codecs add a checksum and an index; compressors a little where nothing can be gained.
        if bound is not None and mark.n_bytes > bound * 1.1 + 100_000:
            raise FixInput(
                f"{name} is said to have {mark.n_bytes} bytes; its rows have {bound}",
                where=store.location,
            )


def merged(old: Partial | None, new: Partial | None) -> Partial | None:
    """What a copy holds that held `old` and fetched `new`; None stands for everything."""
    if old is None or new is None:
        return None
    names = {*old.blocks, *new.blocks}
    empty: frozenset[int] = frozenset()
    return Partial(
        {name: old.blocks.get(name, empty) | new.blocks.get(name, empty) for name in names}
    )


def is_all(partial: Partial, files: Mapping[str, FileMark]) -> bool:
    """Whether a copy that holds so much holds all files of a seal."""
    return all(partial.holds_file(name) for name in files)

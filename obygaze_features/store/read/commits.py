"""Find which blocks and files a store has: by its seal, else by its markers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple, TypeVar

from obygaze_features.core.errors import Corrupt, Mismatch
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store.format.index import (
    INDEX_FILE,
    INDEX_ROWS,
    IndexPage,
    MovieIndex,
    check_index,
    check_page,
    page_key,
)
from obygaze_features.store.format.records import (
    PARTIAL_FILE,
    SEAL_FILE,
    SOURCES_FILE,
    STORE_FILE,
    TEXT_KEY,
    Marker,
    Partial,
    Plan,
    Record,
    Seal,
    Sources,
    TextMarker,
    checksum_of,
    marker_key,
)
from obygaze_features.store.format.schema import (
    MISSING,
    NOT_FETCHED,
    FileMark,
    RowSource,
    RowStatus,
)
from obygaze_features.store.format.text import TEXT_FOLDER
from obygaze_features.store.remote.files import Files, read_or_none

R = TypeVar("R", bound=Record)
V = TypeVar("V")
# So few statuses are looked through at once, not block by block.
FEW_ROWS = 1000
# Where the files of a block are between its claim and its marker.
_CLAIMED = ("staging", "staging.sealing")


class Expected(NamedTuple):
    """What a file of data.zarr must be.

    `crc32c` has the checksums in a block's file, if they were recorded; other files have None.
    """

    mark: FileMark
    crc32c: str | None = None


def read_record(files: Files, kind: type[R], name: str) -> R | None:
    """Return one of a store's own JSON files, checked; None where it does not exist."""
    data = read_or_none(files, name)
    return None if data is None else kind.from_bytes(data, f"{files.location}/{name}")


class Commits:
    """The committed blocks, the status of their rows, and the length of each file.

    Nothing is read before it is needed, and of the markers only those of requested blocks.
    """

    def __init__(self, files: Files, plan: Plan) -> None:
        self.files, self.plan = files, plan
        self._lock = threading.RLock()
        self._seal: Seal | None = None
        self._looked = self._looked_for_index = False
        self._index: MovieIndex | None = None
        self._pages: dict[int, IndexPage] = {}
        self._partial: Partial | None = None
        self._markers: dict[int, Marker] = {}
        self._crc32c: dict[str, list[str]] = {}
        self._sources: Mapping[int, RowSource] | None = None

    @property
    def seal(self) -> Seal | None:
        """The seal, or None while the store is not sealed."""
        with self._lock:
            if not self._looked:
                self._load_seal()
                self._looked = True
            return self._seal

    @property
    def index(self) -> MovieIndex | None:
        """The index by movie, once `find_index` has read it."""
        return self._index

    def find_index(self) -> MovieIndex | None:
        """Read the index by movie, to be used in place of the seal.

        None for a store that has none, is small, is on this machine, or whose seal was read before.
        """
        with self._lock:
            if not (self._looked or self._looked_for_index) and self.files.is_remote:
                self._looked_for_index = True
                if self.plan.n_clips >= INDEX_ROWS:
                    self._index = self._load_index()
            return self._index

    def _load_index(self) -> MovieIndex | None:
        # A seal that was interrupted has left an index, but no seal.
        if self.files.read(SEAL_FILE, 0, 1) is None or read_or_none(self.files, PARTIAL_FILE):
            return None
        index = read_record(self.files, MovieIndex, INDEX_FILE)
        if index is not None:
            check_index(index, self.plan, f"{self.files.location}/{INDEX_FILE}")
        return index

    def page(self, block: int) -> IndexPage:
        """Return the page of the index with a block."""
        index = self._index
        if index is None:
            raise LookupError("no index was read")
        number = block // index.page_blocks
        with self._lock:
            if number not in self._pages:
                self._pages[number] = self._load_page(index, number)
            return self._pages[number]

    def _load_page(self, index: MovieIndex, number: int) -> IndexPage:
        name, where = page_key(number), f"{self.files.location}/{page_key(number)}"
        data, mark = read_or_none(self.files, name), index.files.get(name, FileMark(0, ""))
        if data is None or FileMark(len(data), sha256_bytes(data)) != mark:
            raise Corrupt(f"{name} is not the file that {INDEX_FILE} lists", where=where)
        page = IndexPage.from_bytes(data, where)
        check_page(page, index, number, self.plan, where)
        return page

    def clip_ids(self, rows: Iterable[int]) -> list[str]:
        """Return the clips of some rows, from the index."""
        step = self.plan.block_rows
        page_rows = self._index.page_blocks * step if self._index else 1
        return [self.page(row // step).clip_id[row % page_rows] for row in rows]

    def _part(self, block: int) -> Seal | IndexPage | None:
        """Return what lists a block of a sealed store: the seal, or a page of the index."""
        if self._seal is None and self._index is not None:
            return self.page(block)
        return self._seal

    @property
    def is_sealed(self) -> bool:
        """Whether the store is complete and closed."""
        return self._index is not None or self.seal is not None

    def _load_seal(self) -> None:
        seal = read_record(self.files, Seal, SEAL_FILE)
        if seal is None:
            return
        where = f"{self.files.location}/{SEAL_FILE}"
        if seal.fingerprint != self.plan.recipe.fingerprint:
            raise Mismatch("the seal is of another recipe than the store", where=where)
        if seal.files.get(STORE_FILE, FileMark(0, "")).sha256 != self.plan.sha256:
            raise Corrupt(f"{SEAL_FILE} and {STORE_FILE} are not of the same store", where=where)
        self._check_rows(seal.noted, (0, self.plan.n_clips), where)
        self._partial = read_record(self.files, Partial, PARTIAL_FILE)
        self._seal = seal

    @property
    def partial(self) -> Partial | None:
        """The part that a partial copy holds; None where every file of the seal is here."""
        if self._index is None:
            _ = self.seal  # it is read with the seal
        return self._partial

    def marker(self, block: int) -> Marker | None:
        """Return the marker of a block of an unsealed store; None where there is none."""
        with self._lock:
            if block not in self._markers:
                data = read_or_none(self.files, marker_key(block))
                if data is None:
                    return None
                self._markers[block] = self._marker_of(data, block, marker_key(block))
            return self._markers[block]

    def _marker_of(self, data: bytes, block: int, name: str) -> Marker:
        where = f"{self.files.location}/{name}"
        marker = Marker.from_bytes(data, where)
        self.plan.require_own(marker, block, where)
        self._check_rows([*marker.noted, *marker.sources], marker.rows, where)
        return marker

    def _check_rows(self, noted: Iterable[int], rows: tuple[int, int], where: str) -> None:
        beyond = [row for row in noted if row not in range(*rows)]
        if beyond:
            raise Corrupt(
                f"marker lists row {beyond[0]}, outside its rows {rows[0]}-{rows[1] - 1}",
                where=where,
            )

    def is_committed(self, block: int) -> bool:
        """Return whether a block is committed."""
        if self.is_sealed or self.marker(block) is not None:
            return True
        with self._lock:
            self._load_seal()  # sealed since we looked: the markers went
            return self._seal is not None

    def noted(self, block: int) -> Mapping[int, RowStatus]:
        """Return the rows of a block that are not simply ok; all of them if it is not committed."""
        if self.is_committed(block):
            part = self._part(block)
            if part is not None:
                return self._rows_of(block, part.noted)
            marker = self.marker(block)
            return marker.noted if marker else {}
        return dict.fromkeys(range(*self.plan.block_range(block)), MISSING)

    def sources(self, block: int) -> Mapping[int, RowSource]:
        """Return what the rows of a block were made from, where it was recorded."""
        if not self.is_committed(block):
            return {}
        part = self._part(block)
        if part is None:
            marker = self.marker(block)
            return marker.sources if marker else {}
        if isinstance(part, IndexPage):
            return self._rows_of(block, part.sources)
        with self._lock:
            if self._sources is None:
                self._sources = self._load_sources(part)
            return self._rows_of(block, self._sources)

    def _rows_of(self, block: int, values: Mapping[int, V]) -> Mapping[int, V]:
        """Return the entries of the rows of one block."""
        rows = range(*self.plan.block_range(block)) if values else ()
        return {row: values[row] for row in rows if row in values}

    def _load_sources(self, seal: Seal) -> Mapping[int, RowSource]:
        if SOURCES_FILE not in seal.files:
            return {}
        data, where = (
            read_or_none(self.files, SOURCES_FILE),
            f"{self.files.location}/{SOURCES_FILE}",
        )
        if data is None or sha256_bytes(data) != seal.files[SOURCES_FILE].sha256:
            what = "missing" if data is None else "not the file that the seal lists"
            raise Corrupt(f"{SOURCES_FILE} is {what}", where=where, hint="obygaze store verify")
        return Sources.from_bytes(data, where).of_rows

    def statuses(
        self, is_held: Callable[[int], bool], blocks: Iterable[int] | None = None
    ) -> dict[int, RowStatus]:
        """Return the rows of some blocks, by default all, that are not simply ok.

        In a block that is not held, the rows that would be ok are not fetched.
        """
        found: dict[int, RowStatus] = {}
        if blocks is None:
            _ = self.seal  # one request, in place of all pages of the index
        if self.is_sealed and self._seal and not self._partial and len(self._seal.noted) < FEW_ROWS:
            rows, step = self._seal.noted, self.plan.block_rows
            wanted = None if blocks is None else set(blocks)
            return {n: rows[n] for n in sorted(rows) if wanted is None or n // step in wanted}
        for block in range(self.plan.n_blocks) if blocks is None else blocks:
            noted = self.noted(block)
            if not is_held(block):
                found.update(dict.fromkeys(range(*self.plan.block_range(block)), NOT_FETCHED))
                noted = {row: status for row, status in noted.items() if not status.is_ok}
            found.update(noted)
        return found

    def not_ok(self, array: str, blocks: Iterable[int] | None = None) -> dict[int, RowStatus]:
        """Return the rows of some blocks, by default all, that have no features in an array."""
        found = self.statuses(lambda block: self.holds(array, block), blocks)
        return {row: status for row, status in found.items() if not status.is_ok}

    def holds(self, array: str, block: int) -> bool:
        """Return whether a committed block of an array is in this copy, which may be partial."""
        return self.partial is None or self.partial.holds(array, block)

    def marks(self, block: int) -> Mapping[str, FileMark]:
        """Return the files of a committed block (of the whole store, where it is sealed)."""
        if not self.is_committed(block):
            return {}
        part = self._part(block) or self.marker(block)
        return part.files if part else {}

    def text_files(self) -> Mapping[str, FileMark]:
        """Return the files of the texts that go with the store; none if it has no texts."""
        listed = self._index if self._seal is None and self._index is not None else self.seal
        if listed is not None:
            files = listed.files
            return {name: files[name] for name in files if name.startswith(f"{TEXT_FOLDER}/")}
        found = read_record(self.files, TextMarker, TEXT_KEY)
        return found.files if found is not None else {}

    def listed_files(
        self, collecting: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
    ) -> dict[str, FileMark]:
        """Return each file that the seal, or store.json and the markers, list, by its name.

        Each marker is read within `collecting(its name)`, which may handle errors.
        """
        if self.seal is not None:
            files, partial = self.seal.files, self.partial
            return {n: files[n] for n in files if partial is None or partial.holds_file(n)}
        listed = dict(self.plan.files)
        with collecting(TEXT_KEY):
            listed.update(self.text_files())
        for block in range(self.plan.n_blocks):
            with collecting(marker_key(block)):
                listed.update(self.marks(block))
        return listed

    def expected(self, name: str) -> Expected:
        """Return what a file of data.zarr must be; raise an error if none is listed."""
        words = name.split("/")
        mark = self.plan.files.get(name)
        if words[1] == "text":
            mark = self.text_files().get(name)
        elif mark is None:
            block = int(words[2].split(".")[1])
            mark = (self._seal.files if self._seal else self.marks(block)).get(name)
            if mark is not None:
                return Expected(mark, self._crc32c_of(words[1], block))
        if mark is None:
            where = f"{self.files.location}/{name}"
            raise Corrupt("no marker and no seal lists this file", where=where)
        return Expected(mark)

    def _crc32c_of(self, array: str, block: int) -> str:
        if self._seal is None and self._index is not None:
            words = self.page(block).crc32c.get(array, "").split()
            place = block % self._index.page_blocks
            return words[place] if place < len(words) else ""
        if self._seal is None:
            marker = self.marker(block)
            return marker.crc32c.get(array, "") if marker else ""
        if array not in self._crc32c:
            self._crc32c[array] = self._seal.crc32c.get(array, "").split()
        words = self._crc32c[array]
        return words[block] if block < len(words) == self.plan.n_blocks else ""

    def expected_now(self, name: str) -> list[Expected]:
        """Return what a file of a block may be at this time; nothing if it cannot have changed.

        While rows of a block are replaced, a file is that of the marker or that of the claim.
        """
        words = name.split("/")
        if self.is_sealed or name in self.plan.files or words[1] == "text":
            return []
        block = int(words[2].split(".")[1])
        with self._lock:
            self._markers.pop(block, None)
        found = [self.expected(name)]
        claim = self._claim(block)
        if claim is not None and name in claim.files:
            found.append(Expected(claim.files[name], claim.crc32c.get(words[1], "")))
        return found

    def _claim(self, block: int) -> Marker | None:
        """Return the marker of the claim that replaces the current marker of a block."""
        current, marker = read_or_none(self.files, marker_key(block)), self.marker(block)
        if current is None or marker is None:
            return None
        for name in self._claims(Path(marker_key(block)).stem, marker.revision + 1):
            data = read_or_none(self.files, name)
            claim = None if data is None else self._marker_of(data, block, name)
            if claim is not None and claim.replaces == checksum_of(current):
                return claim
        return None

    def _claims(self, stem: str, revision: int) -> Iterator[str]:
        yield f"commits/{stem}.{revision}.taken"
        # A power cut may have removed it, and a web server cannot list.
        for folder in (f"{staging}/{stem}" for staging in _CLAIMED):
            names = self.files.names(folder) or ()
            yield from (f"{folder}/{name}" for name in names if name.startswith("marker."))

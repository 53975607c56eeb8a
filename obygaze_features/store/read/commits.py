"""Find which blocks and files a store has: by its seal, else by its markers."""

import threading
from collections import Counter
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.errors import Corrupt, Mismatch
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store.format.chunks import CRC_DIGITS
from obygaze_features.store.format.makers import MadeBy, Maker, Makers
from obygaze_features.store.format.names import block_of, gathered_key
from obygaze_features.store.format.records import (
    Marker,
    Partial,
    Plan,
    Seal,
    Sources,
    TextMarker,
    marker_key,
)
from obygaze_features.store.format.schema import (
    MISSING,
    NOT_FETCHED,
    TEXT_FOLDER,
    FileMark,
    RowSource,
    RowStatus,
)
from obygaze_features.store.read.index import INDEX_ROWS, Index, IndexPage
from obygaze_features.store.remote.files import (
    Files,
    read_listed,
    read_or_none,
    read_record,
)
from obygaze_features.store.remote.versions import earlier_versions, seal_of_plan

# So few statuses are looked through at once, not block by block.
FEW_ROWS = 1000
# Where the files of a block are between its claim and its marker.
_CLAIMED = ("staging", "staging.sealing")


def _store_of(seal: Seal) -> str:
    """Return the sha256 of the store.json that a seal lists."""
    return seal.files.get(Plan.FILE, FileMark(0, "")).sha256


def made_by_of(seal: Seal, n_clips: int) -> MadeBy:
    """Return how the clips with features of a sealed store were made."""
    not_ok = [row for row, status in seal.status_of_row.items() if not status.is_ok]
    clips = seal.makers.clips(not_ok)
    n_ok = n_clips - len(not_ok)
    return MadeBy(clips, n_ok - sum(clips.values()), seal.versions)


class Expected(NamedTuple):
    """What a file of data.zarr must be.

    `crc32c` has the checksums in a block's file, if they were recorded; other files have None.
    """

    mark: FileMark
    crc32c: str | None = None


class GatheredSpan(NamedTuple):
    """Where consecutive blocks of an array are in the file with copies of all its blocks.

    Args:
        name: The file.
        n_bytes: Its length.
        starts: The first byte of each block, and the byte after the last.
        crc32c: The checksum of each block.
    """

    name: str
    n_bytes: int
    starts: Sequence[int]
    crc32c: Sequence[str]


class Commits:
    """The committed blocks, the status of their rows, and the length of each file.

    Nothing is read before it is needed, and of the markers only those of requested blocks.
    """

    def __init__(self, files: Files, plan: Plan, expect: str = "") -> None:
        self.files = files
        self.plan = plan
        # The sha256 that seal.json must have, "" for any; and the one that it has.
        self.expect = expect
        self._seal_sha256 = ""
        self._lock = threading.RLock()
        self._seal: Seal | None = None
        self._looked = self._looked_for_index = False
        # The index by film, once `find_index` has read it.
        self.index: Index | None = None
        self._partial: Partial | None = None
        # Whether seal.json is that of another version of this store.
        self._is_of_chain = False
        self._markers: dict[int, Marker] = {}
        # The blocks that `looked_at_once` found absent, while it is in use.
        self._absent: frozenset[int] = frozenset()
        # By array and page of the index; None is the seal. For each of its blocks, in order.
        self._crc32c: dict[tuple[str, int | None], list[str]] = {}
        self._gathered: dict[str, GatheredSpan | None] = {}

    @property
    def seal(self) -> Seal | None:
        """The seal, or None while the store is not sealed."""
        with self._lock:
            if not self._looked:
                self._load_seal()
                self._looked = True
            return self._seal

    def find_index(self) -> Index | None:
        """Read the index by film, to be used in place of the seal.

        None for a store that has none, is small, or whose seal was read before.
        """
        with self._lock:
            if self.expect:
                return None  # the seal is compared, not the index
            if not (self._looked or self._looked_for_index):
                self._looked_for_index = True
                if self.plan.n_clips >= INDEX_ROWS:
                    self._find_index()
            return self.index

    def _find_index(self) -> None:
        try:
            self.index = Index.find(self.files, self.plan)
        except Mismatch:
            # A later version was published since store.json was read; its index is of that one.
            if self.seal is None or not self._is_of_chain:
                raise

    @property
    def is_sealed(self) -> bool:
        """Whether the store is complete and closed."""
        return self.index is not None or self.seal is not None

    def _load_seal(self) -> None:
        data = read_or_none(self.files, Seal.FILE)
        if data is None:
            return
        where = f"{self.files.location}/{Seal.FILE}"
        seal = self._seal_of_plan(data, where)
        sha256 = self._seal_sha256
        if self.expect and sha256 != self.expect:
            raise self._not_expected(seal)
        if seal.fingerprint != self.plan.recipe.fingerprint:
            raise Mismatch("the seal is of another recipe than the store", where=where)
        self.plan.names.require(seal.files, where)
        self._check_rows(seal.status_of_row, (0, self.plan.n_clips), where)
        self._check_makers(seal.makers, (0, self.plan.n_clips), where)
        self._partial = read_record(self.files, Partial)
        self._seal = seal

    def _seal_of_plan(self, data: bytes, where: str) -> Seal:
        """Return the seal of the version with this store.json, which is mostly seal.json."""
        seal = Seal.from_bytes(data, where)
        if _store_of(seal) != self.plan.sha256:
            of_plan = seal_of_plan(self.files, data, self.plan)
            if of_plan is not None:
                self._is_of_chain = True
                data = of_plan
                seal = Seal.from_bytes(data, where)
        if _store_of(seal) != self.plan.sha256:
            raise Corrupt(
                f"{Seal.FILE} and {Plan.FILE} are not of the same store", where=where
            )
        self._seal_sha256 = sha256_bytes(data)
        return seal

    def _not_expected(self, seal: Seal) -> Mismatch:
        """Return the error for another store, or another version, than the expected one."""
        location = self.files.location
        for entry in earlier_versions(self.files, seal):
            if entry.seal.sha256 == self.expect:
                number = entry.store_version.number
                return Mismatch(
                    f"this is version {seal.version_number} of the expected store",
                    where=location,
                    hint=f"{location}@{number}, the version whose seal has {self.expect}",
                )
        return Mismatch(
            f"this is not the expected store: its seal has the sha256 {self._seal_sha256}",
            where=location,
            hint=f"a copy of the store whose seal has {self.expect}",
        )

    @property
    def version_number(self) -> int:
        """The number of this version of the store, by the index or the seal; 1 without them."""
        if self.index is not None:
            return max(self.index.listed.store_version, 1)
        return 1 if self.seal is None else self.seal.version_number

    @property
    def seal_sha256(self) -> str:
        """The sha256 of seal.json; "" while the store is not sealed."""
        return "" if self.seal is None else self._seal_sha256

    def require_expected(self) -> None:
        """Raise an error unless the seal has the expected sha256, if one is expected."""
        if self.expect and self.seal is None:
            raise Mismatch(
                "this store is not sealed, so it is not the expected one",
                where=self.files.location,
                hint=f"a copy of the store whose seal has {self.expect}",
            )

    @cached_property
    def may_be_partial(self) -> bool:
        """Whether there is a partial.json, which counts only beside a seal."""
        if self._looked:
            return self._partial is not None
        # Read whole: some servers answer any absent address with a page, and no part of it.
        return self.index is None and read_or_none(self.files, Partial.FILE) is not None

    @property
    def partial(self) -> Partial | None:
        """The part that a partial copy holds; None where every file of the seal is here."""
        if self.index is None:
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
        self._check_rows([*marker.status_of_row, *marker.sources], marker.rows, where)
        self._check_makers(marker.makers, marker.rows, where)
        return marker

    def _check_rows(
        self, noted_rows: Iterable[int], rows: tuple[int, int], where: str
    ) -> None:
        beyond = [row for row in noted_rows if row not in range(*rows)]
        if beyond:
            raise Corrupt(
                f"marker lists row {beyond[0]}, outside its rows {rows[0]}-{rows[1] - 1}",
                where=where,
            )

    def _check_makers(self, makers: Makers, rows: tuple[int, int], where: str) -> None:
        if makers.between(*rows) != makers:
            raise Corrupt(
                f"what made rows is listed outside the rows {rows[0]}-{rows[1] - 1}",
                where=where,
            )

    def listing(self, block: int) -> Seal | IndexPage | Marker | None:
        """Return what lists a committed block: the seal, a page of the index, or its marker."""
        if self._seal is None and self.index is not None:
            return self.index.page(block)
        if block in self._absent:
            return None
        seal = self.seal
        if seal is not None:
            return seal
        marker = self.marker(block)
        if marker is not None:
            return marker
        with self._lock:
            self._load_seal()  # sealed since we looked: the markers went
        return self._seal

    @contextmanager
    def looked_at_once(self) -> Iterator[None]:
        """Look for every block before the `with` block, and for absent ones not again within it.

        Otherwise each question about an absent block asks for its marker and for a seal again.
        """
        if self._absent:  # within another such block
            yield
            return
        absent: list[int] = []
        if not self.is_sealed:
            absent = [n for n in range(self.plan.n_blocks) if self.marker(n) is None]
        if absent:
            with self._lock:
                self._load_seal()  # sealed since we looked: the markers went
        if self._seal is not None:
            absent = []
        self._absent = frozenset(absent)
        try:
            yield
        finally:
            self._absent = frozenset()

    def block_statuses(self, block: int) -> Mapping[int, RowStatus]:
        """Return the rows of a block that are not simply ok; all of them if it is not committed."""
        rows = range(*self.plan.block_range(block))
        listing = self.listing(block)
        if listing is None:
            return dict.fromkeys(rows, MISSING)
        statuses = listing.status_of_row
        if len(statuses) < len(rows):
            return {row: statuses[row] for row in sorted(statuses) if row in rows}
        return {row: statuses[row] for row in rows if row in statuses}

    def sources(self, block: int) -> Mapping[int, RowSource]:
        """Return what the rows of a block were made from, where it was recorded."""
        rows = range(*self.plan.block_range(block))
        listing = self.listing(block)
        if listing is None:
            return {}
        of_rows = self._sources if isinstance(listing, Seal) else listing.sources
        return {row: of_rows[row] for row in rows if row in of_rows}

    def source(self, row: int) -> RowSource | None:
        """Return what a row was made from, if it was recorded."""
        return self.sources(row // self.plan.block_rows).get(row)

    def maker(self, row: int) -> Maker | None:
        """Return what made a row, if it was recorded."""
        listing = self.listing(row // self.plan.block_rows)
        return None if listing is None else listing.makers.of_row(row)

    def made_by(self) -> MadeBy:
        """Return how the clips with features were made, of those that are committed."""
        if self.seal is not None:
            return made_by_of(self.seal, self.plan.n_clips)
        counts: Counter[Maker] = Counter()
        versions: dict[str, set[str]] = {}
        unrecorded = 0
        for block in range(self.plan.n_blocks):
            marker = self.listing(block)
            if marker is None:
                continue
            if not isinstance(marker, Marker):
                return self.made_by()  # sealed meanwhile
            not_ok = [
                row for row, status in marker.status_of_row.items() if not status.is_ok
            ]
            clips = marker.makers.clips(not_ok)
            counts.update(clips)
            n_rows = marker.rows[1] - marker.rows[0]
            n_ok = n_rows - len(not_ok)
            unrecorded += n_ok - sum(clips.values())
            for name, version in marker.versions.items():
                versions.setdefault(name, set()).add(version)
        known = {name: sorted(versions[name]) for name in sorted(versions)}
        return MadeBy(dict(counts), unrecorded, known)

    @cached_property
    def _sources(self) -> Mapping[int, RowSource]:
        """The sources of all rows of a sealed store."""
        mark = self._seal.files.get(Sources.FILE) if self._seal is not None else None
        if mark is None:
            return {}
        data = read_listed(self.files, Sources.FILE, mark)
        return Sources.from_bytes(data, f"{self.files.location}/{Sources.FILE}").of_rows

    def statuses(
        self, arrays: Sequence[str], blocks: Iterable[int] | None = None
    ) -> dict[int, RowStatus]:
        """Return the rows of some blocks, by default all, that are not simply ok in some arrays.

        In a block that a partial copy holds of none of them, the rows that would be ok are missing.
        """
        if blocks is None:
            _ = self.seal  # one request, in place of all pages of the index
            blocks = range(self.plan.n_blocks)
        partial = self.partial
        seal = self._seal if self.is_sealed else None
        if seal is not None and partial is None and len(seal.status_of_row) < FEW_ROWS:
            wanted = blocks if isinstance(blocks, range) else frozenset(blocks)
            return self._few_statuses(seal, wanted)
        statuses: dict[int, RowStatus] = {}
        for block in blocks:
            if partial is None or any(partial.holds(name, block) for name in arrays):
                statuses.update(self.block_statuses(block))
            else:
                statuses.update(self._not_fetched(block))
        return statuses

    def _not_fetched(self, block: int) -> dict[int, RowStatus]:
        """Return the rows of a block of which nothing is here: what failed, all others missing."""
        statuses = dict.fromkeys(range(*self.plan.block_range(block)), NOT_FETCHED)
        for row, status in self.block_statuses(block).items():
            if not status.is_ok:
                statuses[row] = status
        return statuses

    def _few_statuses(self, seal: Seal, blocks: Container[int]) -> dict[int, RowStatus]:
        """Return the rows of some blocks that a seal notes, by row, without reading each block."""
        statuses = {}
        for row in sorted(seal.status_of_row):
            if row // self.plan.block_rows in blocks:
                statuses[row] = seal.status_of_row[row]
        return statuses

    def not_ok(
        self, array: str, blocks: Iterable[int] | None = None
    ) -> dict[int, RowStatus]:
        """Return the rows of some blocks, by default all, that have no features in an array."""
        statuses = self.statuses((array,), blocks)
        return {row: status for row, status in statuses.items() if not status.is_ok}

    def text_files(self) -> Mapping[str, FileMark]:
        """Return the files of the texts that go with the store; none if it has no texts."""
        files = self._files_with_texts()
        return {
            name: files[name] for name in files if name.startswith(f"{TEXT_FOLDER}/")
        }

    def _files_with_texts(self) -> Mapping[str, FileMark]:
        """Return the files of what lists the texts: the index, the seal or the texts' marker."""
        if self._seal is None and self.index is not None:
            return self.index.listed.files
        if self.seal is not None:
            return self.seal.files
        marker = read_record(self.files, TextMarker)
        if marker is None:
            return {}
        where = f"{self.files.location}/{TextMarker.FILE}"
        self.plan.names.require(marker.files, where)
        return marker.files

    def listed_files(
        self,
        collecting: Callable[[str], AbstractContextManager[None]] = lambda _: (
            nullcontext()
        ),
    ) -> dict[str, FileMark]:
        """Return each file that the seal, or store.json and the markers, list, by its name.

        Each marker is read within `collecting(its name)`, which may handle errors.
        """
        if self.seal is not None:
            files = self.seal.files
            partial = self.partial
            if partial is None:
                return dict(files)
            return {name: files[name] for name in files if partial.holds_file(name)}
        listed = dict(self.plan.files)
        with collecting(TextMarker.FILE):
            listed.update(self.text_files())
        for block in range(self.plan.n_blocks):
            with collecting(marker_key(block)):
                listing = self.listing(block)
                if listing is not None:
                    listed.update(listing.files)
        return listed

    def possible(self, name: str) -> Iterator[Expected]:
        """Yield what a file of data.zarr must be, then what else it may be at this time.

        While rows of a block are replaced, a file is that of the marker or that of the claim.
        """
        yield self.expected(name)
        array_and_block = block_of(name)
        never_changes = self.is_sealed or name in self.plan.files
        if never_changes or array_and_block is None:
            return
        array, block = array_and_block
        # The marker may have been replaced since it was read: forget it, and read it again.
        with self._lock:
            self._markers.pop(block, None)
        yield self.expected(name)
        claim = self._claim(block)
        if claim is not None and name in claim.files:
            yield Expected(claim.files[name], claim.crc32c.get(array, ""))

    def mark(self, name: str) -> FileMark:
        """Return the mark of a committed file of data.zarr; raise an error if none is listed."""
        return self.expected(name).mark

    def expected(self, name: str) -> Expected:
        """Return what a file of data.zarr must be; raise an error if none is listed."""
        mark = self.plan.files.get(name)
        crc32c = None
        array_and_block = block_of(name)
        if name.startswith(f"{TEXT_FOLDER}/"):
            mark = self.text_files().get(name)
        elif mark is None and array_and_block is not None:
            array, block = array_and_block
            listing = self.listing(block)
            if listing is not None:
                mark = listing.files.get(name)
                crc32c = self._crc32c_of(listing, array, block)
        if mark is None:
            where = f"{self.files.location}/{name}"
            raise Corrupt("no marker and no seal lists this file", where=where)
        return Expected(mark, crc32c)

    def gathered_span(self, array: str, first: int, last: int) -> GatheredSpan | None:
        """Return where some blocks of an array are in the file with copies of all its blocks.

        None where the seal lists no such file, or one that cannot have these copies.

        Args:
            array: The array.
            first: The first block.
            last: The last block.
        """
        seal = self._seal
        name = gathered_key(array)
        if seal is None or name not in seal.files:
            return None
        if array not in self._gathered:
            self._gathered[array] = self._all_gathered(seal, array)
        whole = self._gathered[array]
        if whole is None:
            return None
        starts = whole.starts[first : last + 2]
        return whole._replace(starts=starts, crc32c=whole.crc32c[first : last + 1])

    def _all_gathered(self, seal: Seal, array: str) -> GatheredSpan | None:
        """Return where all blocks of an array are; None unless each has one checksum."""
        name = gathered_key(array)
        crc32c = seal.crc32c.get(array, "").split()
        starts = [0]
        for block in range(self.plan.n_blocks):
            mark = seal.files.get(self.plan.block_key(array, block))
            if mark is None:
                return None
            starts.append(starts[-1] + mark.n_bytes)
        n_bytes = seal.files[name].n_bytes
        has_one_each = all(len(words) == CRC_DIGITS for words in crc32c)
        if (
            len(crc32c) != self.plan.n_blocks
            or not has_one_each
            or n_bytes != starts[-1]
        ):
            return None
        return GatheredSpan(name, n_bytes, starts, crc32c)

    def _crc32c_of(
        self, listing: Seal | IndexPage | Marker, array: str, block: int
    ) -> str:
        """Return the checksums in the file of a block; "" if they were not recorded."""
        if isinstance(listing, Marker):
            return listing.crc32c.get(array, "")
        page = None
        number = block
        if self.index is not None and isinstance(listing, IndexPage):
            page, number = divmod(block, self.index.listed.page_blocks)
        if (array, page) not in self._crc32c:
            self._crc32c[array, page] = listing.crc32c.get(array, "").split()
        of_blocks = self._crc32c[array, page]
        return of_blocks[number] if number < len(of_blocks) else ""

    def _claim(self, block: int) -> Marker | None:
        """Return the marker of the claim that replaces the current marker of a block."""
        marker = self.marker(block)
        if marker is None:
            return None
        stem = Path(marker_key(block)).stem
        names = [f"commits/{stem}.{marker.revision + 1}.taken"]
        # A power cut may have removed it, and a web server cannot list.
        for staging in _CLAIMED:
            folder = f"{staging}/{stem}"
            for name in self.files.names(folder) or ():
                if name.startswith("marker."):
                    names.append(f"{folder}/{name}")
        for name in names:
            data = read_or_none(self.files, name)
            if data is None:
                continue
            claim = self._marker_of(data, block, name)
            if claim.replaces == marker.checksum:
                return claim
        return None

"""Make a new version of a sealed store: its blocks, its rows, its arrays, its seal."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import human
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage, NotFound
from obygaze_features.core.files import is_printable_name, sha256_bytes
from obygaze_features.core.workspace import Workspace, is_url, split_version
from obygaze_features.store.format.chunks import ChunkLayout
from obygaze_features.store.format.limits import DOCUMENT_BYTES, disk_errors
from obygaze_features.store.format.makers import Maker
from obygaze_features.store.format.records import (
    README_FILE,
    Plan,
    Seal,
    Sources,
    StoreVersion,
    VersionEntry,
    runs_of_rows,
)
from obygaze_features.store.format.schema import (
    ArraySpec,
    FileMark,
    RowSource,
    RowStatus,
)
from obygaze_features.store.read.commits import made_by_of
from obygaze_features.store.read.describe import card_text
from obygaze_features.store.read.index import INDEX_ROWS, FilmIndex
from obygaze_features.store.read.index_pages import index_records
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote.files import (
    FolderFiles,
    Piece,
    read_listed,
    read_or_none,
)
from obygaze_features.store.remote.versions import piece_of, version_of
from obygaze_features.store.write.gathering import gathered_files
from obygaze_features.store.write.publication import (
    PreparedFiles,
    clean_versions,
    keep_bytes,
    keep_file,
    prepared_version,
    sync_kept,
)
from obygaze_features.store.write.writer import (
    Pieces,
    Values,
    encode_block,
    mark_of_pieces,
)

# Who makes a version, where no --author is given.
AUTHOR_VARIABLE = "OBYGAZE_AUTHOR"
# The reason is in the row of each withdrawn clip.
MAX_TEXT_CHARACTERS = 1000


@dataclass(frozen=True)
class NewVersion:
    """The newest version of a store, and what it changed; `is_new` if it was made just now."""

    path: Path
    number: int
    change: str
    numbers: dict[str, int]
    reason: str
    seal_sha256: str
    is_new: bool = True
    text: str = ""

    @classmethod
    def of(
        cls,
        path: Path,
        newest: Store,
        change: str,
        numbers: dict[str, int],
        reason: str,
        text: str,
        *,
        is_new: bool = True,
    ) -> Self:
        """Return what was changed in the newest version of a store, in numbers and in words."""
        return cls(
            path=path,
            number=newest.version,
            change=change,
            numbers=numbers,
            reason=reason,
            seal_sha256=newest.seal_sha256,
            is_new=is_new,
            text=text,
        )

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the version."""
        facts = {**asdict(self), "path": str(self.path)}
        del facts["text"]
        return facts

    def __str__(self) -> str:
        if not self.is_new:
            return f"{self.path}@{self.number}: {self.text}; no new version"
        lines = [
            f"{self.path}@{self.number}: {self.text}",
            f"seal_sha256: {self.seal_sha256}",
        ]
        return "\n".join(lines)

    @property
    def notes(self) -> list[str]:
        """Where the features still are."""
        notes = []
        if self.change == "withdrawn" and self.is_new:
            notes.append(
                f"the versions before {self.number} still have these features on this disk; "
                "obygaze store purge makes a store without them, obygaze store uses lists what "
                "was made with them"
            )
        return notes


@dataclass
class VersionDraft:
    """A new version of a store while it is prepared: its rows, and the files that are new.

    It begins as the newest version. What is not changed here stays as it is.
    """

    root: Path
    base: Store
    base_seal: Seal
    base_data: bytes
    prepared: PreparedFiles
    plan: Plan
    status_of_row: dict[int, RowStatus]
    sources: dict[int, RowSource]
    # What made rows that are changed or added.
    makers: dict[int, Maker | None] = field(default_factory=dict)
    # By array, the checksums of each block; arrays of which they are not known are left out.
    crc32c: dict[str, list[str]] = field(default_factory=dict)
    # Of rows that are changed or added.
    versions: dict[str, set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    rows: set[int] = field(default_factory=set)
    _layout_of: dict[str, ChunkLayout] = field(default_factory=dict)

    def put(self, name: str, pieces: Pieces) -> FileMark:
        """Write a file of the new version, unless it is the same as in the version before."""
        mark = mark_of_pieces(pieces)
        if self.base_seal.files.get(name) != mark:
            self.prepared.put(name, mark, pieces)
        return mark

    def put_block(
        self, block: int, arrays: Values, statuses: Sequence[RowStatus]
    ) -> None:
        """Write the files of a block, and note the status of its rows."""
        first, after = self.plan.block_range(block)
        layouts = self._layouts()
        data, crc32c = encode_block(self.plan, layouts, block, arrays, statuses)
        for name, pieces in data.items():
            self.put(name, pieces)
        for array, words in self.crc32c.items():
            words += [""] * (block + 1 - len(words))
            words[block] = crc32c[array]
        for row, status in zip(range(first, after), statuses, strict=True):
            self.status_of_row.pop(row, None)
            if status != RowStatus():
                self.status_of_row[row] = status

    def put_array(self, spec: ArraySpec, block: int, values: npt.NDArray[Any]) -> None:
        """Write the file of a block of one array, which is new in this version."""
        layout = self._layouts()[spec.name]
        fill_value = np.nan if spec.is_float else 0
        pieces, crc32c = layout.encode(values, fill_value)
        self.put(self.plan.block_key(spec.name, block), pieces)
        self.crc32c[spec.name].append(crc32c)

    def _layouts(self) -> Mapping[str, ChunkLayout]:
        """Return how the arrays of the new version are stored."""
        if not self._layout_of:
            arrays = Store(self.base.files, self.plan).arrays
            for spec in self.plan.arrays:
                self._layout_of[spec.name] = arrays.layout(spec.name)
        return self._layout_of

    def add_work_of(self, source: Store) -> None:
        """Add the packages and the seconds with which the rows of another store were made."""
        for name, versions in source.commits.made_by().versions.items():
            self.versions.setdefault(name, set()).update(versions)
        seal = source.commits.seal
        if seal is not None:
            self._add_seconds(seal.seconds)
            return
        for block in range(source.plan.n_blocks):
            marker = source.commits.marker(block)
            if marker is not None:
                self._add_seconds(marker.seconds)

    def _add_seconds(self, seconds: Mapping[str, float]) -> None:
        for stage, value in seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + value

    def replace_plan(self, plan: Plan) -> None:
        """Write another store.json: of more rows, or more arrays."""
        data = plan.to_bytes()
        self.put(Plan.FILE, [data])
        self.plan = Plan.from_bytes(data, Plan.FILE)
        self._layout_of = {}

    def publish(
        self,
        *,
        change: str,
        reason: str,
        author: str,
        numbers: Mapping[str, int],
        made_by: str = "",
    ) -> Store:
        """Make this the newest version of the store, and return it."""
        previous = self._keep()
        version = StoreVersion(
            number=self.base_seal.version_number + 1,
            change=change,
            reason=reason,
            author=author,
            date=now(),
            numbers=dict(numbers),
            rows=runs_of_rows(self.rows),
            previous=previous,
            made_by=made_by,
        )
        seal_data = self._seal(version).to_bytes()
        if len(seal_data) > DOCUMENT_BYTES:
            size = human(len(seal_data))
            raise FixInput(
                f"no version is made: the list of its files and rows would have {size}, and no "
                f"reader takes more than {human(DOCUMENT_BYTES)}",
                where=str(self.root),
                hint="a shorter --reason: the row of each withdrawn clip has it",
            )
        self._keep_replaced()
        sync_kept(self.root)
        self.prepared.publish(self.base_data, seal_data)
        return open_store(self.root)

    def _keep(self) -> FileMark:
        """Keep the seal of the version before; return the mark of its entry."""
        entry = VersionEntry(
            seal=keep_bytes(self.root, self.base_data, self.prepared.attempt),
            store=FileMark.of(self.base.plan.data),
            store_version=version_of(self.base_seal, self.base.plan),
        )
        return keep_bytes(self.root, entry.to_bytes(), self.prepared.attempt)

    def _keep_replaced(self) -> None:
        for name in self.prepared.marks:
            mark = self.base_seal.files.get(name)
            if mark is not None:
                keep_file(self.root, name, mark, self.prepared.attempt)

    def _seal(self, version: StoreVersion) -> Seal:
        """Return the seal of the new version; write the files that go with it."""
        plan = self.plan
        counts: Counter[str] = Counter(
            status.state for status in self.status_of_row.values() if not status.is_ok
        )
        counts["ok"] = plan.n_clips - counts.total()
        seal = replace(
            self.base_seal,
            fingerprint=plan.recipe.fingerprint,
            counts=dict(sorted(counts.items())),
            status_of_row=self.status_of_row,
            makers=self.base_seal.makers.with_rows(self.makers),
            versions=self._all_versions(),
            seconds=self._all_seconds(),
            crc32c={array: " ".join(words) for array, words in self.crc32c.items()},
            store_version=version,
        )
        card = card_text(
            plan,
            seal.counts,
            terms=self.base.terms,
            made_by=made_by_of(seal, plan.n_clips),
            version=version.number,
        )
        self.put(README_FILE, [card.encode("utf-8")])
        if self.sources or Sources.FILE in self.base_seal.files:
            self.put(Sources.FILE, [Sources(self.sources).to_bytes()])
        seal = replace(seal, files=self._files())
        draft = Store(_DraftFiles(self, seal.to_bytes()), plan)
        gathered = gathered_files(
            plan,
            draft.arrays.layout,
            seal,
            partial(read_listed, draft.files),
            self.base_seal.files,
        )
        for name, data in gathered:
            self.put(name, [data])
        seal = replace(seal, files=self._files())
        # An index that is listed must be that of this version, whatever the size of the store.
        if plan.n_clips >= INDEX_ROWS or FilmIndex.FILE in seal.files:
            draft = Store(_DraftFiles(self, seal.to_bytes()), plan)
            for name, record in index_records(draft, seal, plan).items():
                self.put(name, [record.to_bytes()])
            seal = replace(seal, files=self._files())
        return seal

    def _files(self) -> dict[str, FileMark]:
        """Return the marks of all files of the new version."""
        return {**self.base_seal.files, **self.prepared.marks}

    def _all_versions(self) -> dict[str, list[str]]:
        """Return the versions of packages of the version before, and those of changed rows."""
        merged = {name: set(known) for name, known in self.base_seal.versions.items()}
        for name, known in self.versions.items():
            merged.setdefault(name, set()).update(known)
        return {name: sorted(merged[name]) for name in sorted(merged)}

    def _all_seconds(self) -> dict[str, float]:
        merged = dict(self.base_seal.seconds)
        for stage, seconds in self.seconds.items():
            merged[stage] = round(merged.get(stage, 0.0) + seconds, 3)
        return merged


class _DraftFiles:
    """The files of a version that is not published yet."""

    is_remote = False

    def __init__(self, draft: VersionDraft, seal: bytes) -> None:
        self.inner = FolderFiles(draft.root)
        self.attempt = FolderFiles(draft.prepared.attempt)
        self.prepared = draft.prepared
        self.seal = seal
        self.location = str(draft.root)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        path = self.prepared.path(name)
        if path is not None:
            return self.attempt.read(path.name, start, stop)
        if name == Seal.FILE:
            return piece_of(self.seal, start, stop)
        return self.inner.read(name, start, stop)

    def names(self, folder: str) -> list[str] | None:
        return self.inner.names(folder)


@contextmanager
def new_version(root: Path, before: Store) -> Iterator[VersionDraft]:
    """Yield a draft of the next version of a store on this machine; `publish` makes it.

    Args:
        root: Its folder.
        before: The store as `store_to_change` opened it: rows are chosen by what it has. Another
            version that was made since is an error.
    """
    with disk_errors(root), prepared_version(root) as prepared:
        store = open_store(root)
        seal = store.commits.seal
        data = read_or_none(store.files, Seal.FILE)
        newest = "" if data is None else sha256_bytes(data)
        if seal is None or data is None or newest != before.seal_sha256:
            raise AlreadyThere(
                "another version of this store was made at the same time",
                where=str(root),
                hint="run the same command again",
            )
        sources: dict[int, RowSource] = {}
        for block in range(store.plan.n_blocks):
            sources.update(store.commits.sources(block))
        yield VersionDraft(
            root=root,
            base=store,
            base_seal=seal,
            base_data=data,
            prepared=prepared,
            plan=store.plan,
            status_of_row=dict(seal.status_of_row),
            sources=sources,
            crc32c={array: text.split() for array, text in seal.crc32c.items()},
        )


def store_to_change(root: Path) -> Store:
    """Open a store of which a version is made; an error unless it is sealed and whole.

    A version that a killed process has begun to publish is published first.
    """
    clean_versions(root)
    store = open_store(root)
    if not store.sealed:
        raise FixInput(
            "this store is not sealed, so it has no versions yet",
            where=str(root),
            hint="obygaze extract run --seal; rows of it can still be changed",
        )
    if store.commits.partial is not None:
        raise FixInput(
            "this copy is partial, so no version of it is made",
            where=str(root),
            hint="obygaze store subset makes a store of its own of what it holds",
        )
    return store


def folder_to_change(
    store: str | os.PathLike[str], workspace: str | os.PathLike[str] | None = None
) -> Path:
    """Return the folder of a store on this machine, of which a version is to be made."""
    if isinstance(store, str) and is_url(store):
        raise FixUsage(
            "a version is made of a store on this machine, got a URL",
            where=store,
            hint="obygaze store pull, make the version, then push",
        )
    location = os.fspath(store)
    if isinstance(store, str):
        location = Workspace.of(workspace).existing_store(store)
    without_version, version = split_version(location)
    if version is not None:
        raise FixUsage(
            f"a version is made of the newest one, got version {version}",
            where=location,
            hint=without_version,
        )
    folder = Path(location)
    if folder.is_file():
        raise FixUsage(
            "a version is made of the folder of a store, got a packed store",
            where=str(folder),
            hint="obygaze store unpack, make the version, then pack",
        )
    if not (folder / Plan.FILE).is_file():
        raise NotFound(
            "no store here: no store.json", where=str(folder), hint="obygaze store ls"
        )
    return folder


def stated_reason(reason: str) -> str:
    """Return the reason of a version; an error unless it is one line of printable text."""
    text = reason.strip()
    if not text or not is_printable_name(text):
        raise FixUsage(
            f"the reason must be one line of printable text, got {reason!r}",
            hint='--reason "why the version is made"',
        )
    _check_length("the reason", text)
    return text


def stated_author(author: str) -> str:
    """Return who makes a version: the given name, else that of OBYGAZE_AUTHOR, else ""."""
    text = (author or os.environ.get(AUTHOR_VARIABLE, "")).strip()
    if not is_printable_name(text):
        raise FixUsage(f"the author must be one line of printable text, got {text!r}")
    _check_length("the author", text)
    return text


def _check_length(what: str, text: str) -> None:
    """Raise an error for a text that is too long for each row of a store and a line of its log."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise FixUsage(
            f"{what} must have at most {MAX_TEXT_CHARACTERS:,} characters, got {len(text):,}",
            hint="a shorter one, which may name a document",
        )


def now() -> str:
    """Return the time as versions have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

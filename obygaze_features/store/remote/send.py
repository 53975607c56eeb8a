"""Send stores: push to a folder, a bucket or the hub, or pack into one zip file.

The same store always packs to the same bytes, and a packed store can be read without unpacking.
"""

import os
import shlex
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from obygaze_features import __version__
from obygaze_features.core import system
from obygaze_features.core.console import Progress, Quiet, human
from obygaze_features.core.drafts import draft_beside, new_file, short_name
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    without_secrets,
)
from obygaze_features.core.files import (
    parse_json,
    pretty_json,
    sha256_bytes,
    sha256_file,
)
from obygaze_features.core.options import Bar, Option
from obygaze_features.core.own_results import OwnFolder
from obygaze_features.core.workspace import is_url, last_part, split_version
from obygaze_features.store.format.limits import check_disk, disk_errors
from obygaze_features.store.format.records import (
    README_FILE,
    LicenceHistory,
    Partial,
    Plan,
    Seal,
)
from obygaze_features.store.format.schema import KEPT_FOLDER, FileMark
from obygaze_features.store.read.describe import card_text
from obygaze_features.store.read.index import FilmIndex
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote import open_target
from obygaze_features.store.remote.fetch import fetch
from obygaze_features.store.remote.files import (
    Files,
    FolderFiles,
    Target,
    ZipFiles,
    read_or_none,
    read_record,
)
from obygaze_features.store.remote.hub import HubTarget
from obygaze_features.store.remote.object_store import stop_when_unreachable
from obygaze_features.store.remote.selection import (
    FileSelection,
    Transfer,
    Transferred,
    existing_copy,
    is_earlier_copy,
    licence_to_add,
    select_files,
)
from obygaze_features.store.remote.versions import (
    first_to_send,
    is_kept_name,
    next_seal_name,
)
from obygaze_features.store.write.writer import unfinished_extraction

# The hub is slow with more files: each hundred is a commit.
UNPACKED_FILES = 1_000
# At most this many files are in memory at once.
SENDING_THREADS = 4
# A packed store starts with the header of a zip entry, and its name.
FIRST = rb"(?s)\APK\x03\x04.{26}store\.json"
PACKED = OwnFolder.marked("packed store", "the first entry", FIRST)
# The first date a zip can have.
DATE = (1980, 1, 1, 0, 0, 0)
MODE = (stat.S_IFREG | 0o644) << 16
UNIX = 3
# At the target until all is sent: which store comes.
CLAIM = "push.json"
OTHER_ADDRESS = "another address"
UNSEALED = "this store is not sealed: the zip holds what is committed so far"
# The endings of other archives, from the end of a name on.
OTHER_ARCHIVES = (".gz", ".bz2", ".xz", ".zst", ".tgz", ".7z", ".rar", ".tar")
SEAL_FAILED = "extract run --seal seals a store with failed clips"


def push(
    store: str | os.PathLike[str] | Store,
    target: str | Path | Target,
    *,
    arrays: Annotated[
        Sequence[str] | None, Option("--array", shown_default="all")
    ] = None,
    films: Annotated[Iterable[str] | None, Option("--film")] = None,
    no_licence: bool = False,
    progress: Annotated[Progress | None, Bar("push")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Transferred:
    """Send a store to a bucket, the hub or a folder.

    Or a part of it, which becomes a store of its own there, as with `obygaze store pull`. Files
    that are there already are not sent again. A bucket's keys come from the AWS_* variables, the
    hub's token from `hf auth login`; a new repository on the hub is private. A store without a
    licence is refused: `obygaze store licence` states it.

    More than 1,000 files are sent to the hub as one packed file, which can be read there, and so is
    a store whose licence was stated after it was sealed: the card beside it has that licence.

    Args:
        store: The store.
        target: A folder, or an address such as s3://BUCKET/NAME or hf://OWNER/NAME.
        arrays: Only this array.
        films: Only the clips of this film, an id.
        no_licence: Also if the store states no licence.
        progress: Counts bytes.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store push obygaze12-xclip s3://films/xclip
        obygaze store push obygaze12-xclip hf://lab/obygaze12-xclip --array pooled --array clip
        obygaze store push obygaze12-xclip /mnt/lab/xclip
    """
    store = open_store(store, workspace=workspace)
    if not no_licence:
        require_licence(store)
    selection = select_files(store.files, arrays, films)
    if isinstance(target, str | Path):
        if not is_url(str(target)):
            return fetch(selection, target, progress)
        if split_version(str(target))[1] is not None:
            raise FixUsage(
                "the end of this address stands for a version of a store to read",
                where=without_secrets(str(target)),
                hint=OTHER_ADDRESS,
            )
        target = open_target(str(target))
    if selection.cut is not None:
        return _push_cut(selection, target, progress)
    if isinstance(target, HubTarget) and _is_sent_packed(selection, target):
        # The hub shows the card beside the zip.
        card = card_text(
            store.plan,
            store.status().counts,
            terms=store.terms,
            made_by=store.commits.made_by(),
            zip_name=target.repo.zip_name,
            version=store.version,
        )
        documents = {README_FILE: card.encode()}
        return send_packed(
            selection, target, lambda packed: documents, progress=progress
        )
    return _Upload(selection, target, progress).run()


def _push_cut(
    selection: FileSelection, target: Target, progress: Progress | None
) -> Transferred:
    """Make the store of some films on this machine, then send it."""
    name = f"{short_name(Path(last_part(target.location)))}.part"
    with draft_beside(
        Path(tempfile.gettempdir(), f"obygaze-{system.user_id()}-{name}")
    ) as folder:
        folder.mkdir(mode=system.PRIVATE_MODE)
        fetch(selection, folder / name)
        made = open_store(folder / name)
        sent = push(made, target, no_licence=True, progress=progress)
    return replace(
        sent,
        source=selection.source.location,
        n_bytes_rows=selection.n_bytes_rows,
        part=True,
    )


def require_licence(store: Store) -> None:
    """Raise an error for a store that states no licence: nobody knows what they may do with it."""
    if not store.licence:
        raise FixInput(
            "this store states no licence; without one nobody knows what they may do with it",
            where=store.location,
            hint=f"obygaze store licence {shlex.quote(store.location)} --licence CC-BY-4.0, "
            "or --no-licence",
        )


def _is_sent_packed(selection: FileSelection, target: HubTarget) -> bool:
    """Return whether a store becomes one file on the hub."""
    if len(selection.marks) > UNPACKED_FILES:
        return True
    # The card in the store was final when it was sealed, and the hub shows that one.
    is_stated_later = LicenceHistory.FILE in selection.documents
    return is_stated_later and target.repo.path(Plan.FILE) not in target.hub.listing("")


def send_packed(
    selection: FileSelection,
    target: HubTarget,
    documents: Callable[[Path], Mapping[str, bytes | Path]],
    *,
    progress: Progress | None = None,
) -> Transferred:
    """Send the selected files as one zip file, with documents beside it, in one commit.

    Args:
        selection: The files.
        target: Where to send them.
        documents: Returns the documents, by their names, for the zip file. Large ones are files,
            which may be made beside it.
        progress: Counts bytes.
    """
    transfer = Transfer(selection, progress)
    name = target.repo.zip_name
    # A draft has a name by which the next call removes what a killed one left.
    with draft_beside(
        Path(tempfile.gettempdir(), f"obygaze-{system.user_id()}-{name}")
    ) as folder:
        folder.mkdir(mode=system.PRIVATE_MODE)
        packed = _pack_files(selection, folder / name, False, progress)
        mark = FileMark(packed.n_bytes, packed.sha256)
        target.prepare({name: mark})
        is_there = target.has(name, mark)
        if not is_there:
            is_other = target.files.read(name, 0, 1) is not None
            if is_other and not is_earlier_copy(
                ZipFiles(target.files, name), selection
            ):
                raise AlreadyThere(
                    f"another {name} is there",
                    where=target.location,
                    hint="another address",
                )
            target.put(name, packed.path, mark)
        for document, data in documents(packed.path).items():
            if isinstance(data, Path):
                mark = FileMark(data.stat().st_size, sha256_file(data))
                is_same = target.has(document, mark)
            else:
                mark = FileMark.of(data)
                is_same = read_or_none(target.files, document) == data
            if not is_same:
                target.put(document, data, mark)
        target.settle(f"Features, packed: {name}")
    return transfer.done(
        f"{target.location}/{name}",
        n_files=1,
        n_files_kept=int(is_there),
        n_bytes_needed=packed.n_bytes,
        n_bytes_transferred=0 if is_there else packed.n_bytes,
        n_requests=1,
    )


class _Upload(Transfer):
    """Selected files on their way to a target."""

    def __init__(
        self, selection: FileSelection, target: Target, progress: Progress | None
    ) -> None:
        super().__init__(selection, progress)
        self.target = target
        self.n_bytes = 0
        self.n_requests = len(selection.marks)

    def run(self) -> Transferred:
        """Send the files, then the documents, store.json as the last."""
        selection = self.selection
        target = self.target
        self.progress.expect(selection.n_bytes, "B")
        target.prepare(selection.marks)
        is_new = self._claim()
        wanted = self.absent(lambda name: target.has(name, self.marks[name]))
        title = Plan.from_bytes(selection.documents[Plan.FILE], "").recipe.title
        is_earlier = not is_new and is_earlier_copy(target.files, selection)
        # What a version replaces is kept before it is replaced.
        first = [name for name in wanted if is_kept_name(name)]
        # The index by film lists its pages.
        index = [name for name in wanted if name == FilmIndex.FILE]
        then = [name for name in wanted if name not in {*first, *index}]
        groups = [first, then]
        if not is_earlier:
            groups.append(index)
        with stop_when_unreachable():
            for names in groups:
                self.move(
                    lambda name: self._put(name, selection.read(name)),
                    names,
                    SENDING_THREADS,
                )
            # The documents, store.json as the last.
            documents = dict(selection.documents)
            store = documents.pop(Plan.FILE)
            licence = licence_to_add(target.files, selection, "another address")
            documents.pop(LicenceHistory.FILE, None)
            last = {}
            if is_earlier:
                last_licence = _bound_licence(target.files, selection, licence)
                # It is of the new store.json.
                for name in index:
                    last[name] = selection.read(name)
                # Who reads the new store.json before the new seal looks for the seal here.
                last[Seal.FILE] = documents.pop(Seal.FILE)
                documents[next_seal_name(sha256_bytes(store))] = last[Seal.FILE]
                last.update(last_licence)
            elif licence is not None:
                documents[LicenceHistory.FILE] = licence
            for name, data in documents.items():
                self._put(name, data)
            if selection.sealed:  # of a partial copy that an earlier version sent
                target.remove(Partial.FILE)
            existing_document = target.create(Plan.FILE, store) if is_new else None
            if existing_document is None:
                self._put(Plan.FILE, store)
            elif existing_document == store:
                self._count(store)
            else:  # by a process that does not look for claims
                existing_copy(target.files, selection, OTHER_ADDRESS)
            for name, data in last.items():
                self._put(name, data)
            self._remove_withdrawn()
            target.remove(CLAIM)
            target.settle(f"Features: {title}")
        return self.done(
            target.location,
            n_bytes_transferred=self.n_bytes,
            n_requests=self.n_requests,
        )

    def _remove_withdrawn(self) -> None:
        """Remove what was kept here for versions that still have features withdrawn since."""
        data = self.selection.documents.get(Seal.FILE)
        if data is None:
            return
        seal = Seal.from_bytes(data, self.source.location)
        if first_to_send(self.source, seal) == 1:
            return
        for name in self.target.files.names(KEPT_FOLDER) or ():
            kept_name = f"{KEPT_FOLDER}/{name}"
            if is_kept_name(kept_name) and kept_name not in self.marks:
                self.target.remove(kept_name)

    def _claim(self) -> bool:
        """Raise an error if another store is here, or on its way here; return whether none is.

        Then no other store is sent here until this one is complete: a small file, written on
        condition that there is none, says which store comes.
        """
        files = self.target.files
        selection = self.selection
        if existing_copy(files, selection, OTHER_ADDRESS) is not None:
            return False
        claim = {
            "created_by": f"obygaze {__version__}",
            "store_sha256": sha256_bytes(selection.documents[Plan.FILE]),
            "seal_sha256": sha256_bytes(selection.documents.get(Seal.FILE, b"")),
        }
        there = self.target.create(CLAIM, pretty_json(claim))
        if there is not None and _is_of_another_store(there, claim):
            raise AlreadyThere(
                "the push of another store to this address is not finished",
                where=f"{self.target.location}/{CLAIM}",
                hint="another address; if that push was given up, remove this file",
            )
        try:
            return existing_copy(files, selection, OTHER_ADDRESS) is None
        except (AlreadyThere, Mismatch):  # it was completed just before
            self.target.remove(CLAIM)
            raise

    def _put(self, name: str, data: bytes) -> None:
        self.target.put(name, data, FileMark.of(data))
        self._count(data)

    def _count(self, data: bytes) -> None:
        self.advance(len(data))
        with self.lock:
            self.n_requests += 1
            self.n_bytes += len(data)


def _bound_licence(
    files: Files, selection: FileSelection, licence: bytes | None
) -> dict[str, bytes]:
    """Return licence.json of a copy for the store.json of another version of its store."""
    if licence is not None:
        return {LicenceHistory.FILE: licence}
    existing_history = read_record(files, LicenceHistory)
    if existing_history is None:
        return {}
    plan_sha256 = sha256_bytes(selection.documents[Plan.FILE])
    data = replace(existing_history, plan=plan_sha256).to_bytes()
    return {LicenceHistory.FILE: data}


def _is_of_another_store(existing_document: bytes, claim: Mapping[str, str]) -> bool:
    """Return whether a file at the target says that another store comes than `claim` says.

    A store that was sent before it was sealed, and not completely, is the same store.
    """
    try:
        other = parse_json(existing_document)
        seals = {other["seal_sha256"], claim["seal_sha256"]} - {sha256_bytes(b"")}
        return bool(other["store_sha256"] != claim["store_sha256"] or len(seals) > 1)
    except (ValueError, KeyError, TypeError):
        return True


@dataclass(frozen=True)
class Packed:
    """A packed store."""

    path: Path
    n_files: int
    n_bytes: int
    sha256: str
    sealed: bool
    unfinished: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the zip file."""
        return {**asdict(self), "path": str(self.path)}

    def __str__(self) -> str:
        size = f"{self.n_files} files, {human(self.n_bytes)}"
        return f"{self.path}: {size}, sha256 {self.sha256}"

    @property
    def warnings(self) -> list[str]:
        """What is missing in a store that is not sealed."""
        if self.sealed:
            return []
        return [f"{UNSEALED}; {self.unfinished or SEAL_FAILED}"]


def pack(
    store: str | os.PathLike[str] | Store,
    path: Annotated[str | os.PathLike[str] | None, Option("-o --output")] = None,
    *,
    force: bool = False,
    progress: Annotated[Progress | None, Bar("pack")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Packed:
    """Put a store into one zip file.

    Every byte is checked on the way. The same store always gives the same bytes, and the zip can
    be read without unpacking it.

    Args:
        store: The store.
        path: The zip file, which ends in .zip. [default: NAME.zip in the current folder]
        force: Replace the output if it exists.
        progress: Counts bytes.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store pack obygaze12-xclip
        obygaze store pack obygaze12-xclip -o /media/stick/xclip.zip
    """
    opened = open_store(store, workspace=workspace)
    target = Path(f"{_name_of(opened)}.zip" if path is None else path)
    if path is not None and target.suffix.lower() not in ("", ".zip"):
        raise FixUsage(
            f"a packed store is a zip file, got the ending {target.suffix}",
            where=str(target),
            hint=f"-o {shlex.quote(_as_zip(target))}",
        )
    packed = _pack_files(select_files(opened.files), target, force, progress)
    return replace(packed, unfinished=unfinished_extraction(opened))


def _as_zip(path: Path) -> str:
    """Return the path of a zip file in place of another archive."""
    name = path.name
    for suffix in OTHER_ARCHIVES:
        name = name.removesuffix(suffix)
    return str(path.with_name(f"{name}.zip"))


def _name_of(store: Store) -> str:
    """Return the last part of where a store is, also if that is `.` or `..`."""
    location = store.location
    if not is_url(location):
        location = str(Path(location).resolve())
    return last_part(location).removesuffix(".zip")


def _pack_files(
    selection: FileSelection, path: Path, force: bool, progress: Progress | None
) -> Packed:
    """Write the selected files of a store into one zip file."""
    progress = progress or Quiet()
    folder = selection.source.inner
    if isinstance(folder, FolderFiles) and path.resolve().is_relative_to(folder.root):
        raise FixUsage(
            "the zip file would be in the store itself",
            where=str(path),
            hint=f"-o ../{path.name}, or another folder",
        )
    progress.expect(selection.n_bytes, "B")
    documents = dict(selection.documents)
    n_files = len(selection.marks) + len(documents)
    with disk_errors(path), new_file(path, PACKED, force=force) as draft:
        check_disk(selection.n_bytes, path.parent)
        with zipfile.ZipFile(
            draft, "x", zipfile.ZIP_STORED, strict_timestamps=True
        ) as out:
            # store.json is first, so that a truncated zip can still be recognised.
            files = chain(
                [(Plan.FILE, documents.pop(Plan.FILE)), *sorted(documents.items())],
                ((name, selection.read(name)) for name in sorted(selection.marks)),
            )
            for name, data in files:
                entry = zipfile.ZipInfo(name, DATE)
                entry.create_system = UNIX
                entry.external_attr = MODE
                entry.file_size = len(data)
                with out.open(entry, "w") as stream:
                    stream.write(data)
                progress.advance(len(data))
    return Packed(
        path=path,
        n_files=n_files,
        n_bytes=path.stat().st_size,
        sha256=sha256_file(path),
        sealed=selection.sealed,
    )

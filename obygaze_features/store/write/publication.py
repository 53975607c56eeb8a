"""Publish a version of a sealed store: replace some of its files, and add some, in one decision.

The new files and the new seal are prepared in a folder of their own below versions/. Each file that
they replace is linked to `versions/files/SHA256` first. Then the folder is *claimed*, as a block is
(`commit`): it is renamed to versions/next, which only one process can do. From then on any process
can finish: rename the files to their places, store.json after all others, seal.json as the last.

Until then the old seal.json says what the store is, and a reader that meets a new file reads the
old one from versions/files/. A process that is killed leaves an attempt (litter) or a claim, which
the next process that makes a version finishes.
"""

import errno
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from obygaze_features.core import system
from obygaze_features.core.errors import AlreadyThere, Corrupt, FixInput
from obygaze_features.core.files import (
    confined,
    is_listed,
    locked,
    sha256_bytes,
    sync_dir,
    write_atomic,
    write_exclusive,
    write_synced,
)
from obygaze_features.core.holds import TAG, hold_new
from obygaze_features.store.format.limits import DOCUMENT_BYTES
from obygaze_features.store.format.records import (
    LicenceHistory,
    Plan,
    Record,
    Seal,
)
from obygaze_features.store.format.schema import (
    KEPT_FOLDER,
    VERSIONS_FOLDER,
    FileMark,
)
from obygaze_features.store.read.index import FilmIndex
from obygaze_features.store.remote.files import (
    COPY_AGAIN,
    LINK_REFUSED,
    NOT_REGULAR,
    FolderFiles,
)
from obygaze_features.store.remote.versions import (
    NEXT_VERSION,
    SEALS_FOLDER,
    next_seal_name,
    seals_before,
    stores_of_versions,
)
from obygaze_features.store.write import commit

NEXT = f"{VERSIONS_FOLDER}/{NEXT_VERSION}"
ATTEMPTS = 5
_ATTEMPT = re.compile(rf"new\.{TAG}")
_START = "publication."
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Publication(Record):
    """versions/next/publication.TAG: the files of a version that is to be published.

    Args:
        base: The sha256 of the seal of the version before it.
        seal: The mark of its own seal.
        names: The files in the order in which they were prepared: the first is 0.TAG.
        files: Their marks.
    """

    base: str
    seal: FileMark
    names: Sequence[str]
    files: Mapping[str, FileMark]


class PreparedFiles:
    """The files of a new version, in a folder of their own until they are published."""

    def __init__(self, root: Path, attempt: Path) -> None:
        self.root = root
        self.attempt = attempt
        self.tag = attempt.name.partition(".")[2]
        self.marks: dict[str, FileMark] = {}
        self._numbers: dict[str, int] = {}

    def put(self, name: str, mark: FileMark, pieces: Sequence[Any]) -> None:
        """Write a file of the version, synced; `name` is where it will be."""
        number = self._numbers.setdefault(name, len(self._numbers))
        path = self.attempt / f"{number}.{self.tag}"
        path.unlink(missing_ok=True)
        with path.open("xb") as stream:
            stream.writelines(pieces)
            stream.flush()
            system.sync_file(stream.fileno())
        self.marks[name] = mark

    def put_file(self, name: str, mark: FileMark, source: Path) -> None:
        """Move a file that is whole and synced here; `name` is where it will be."""
        number = self._numbers.setdefault(name, len(self._numbers))
        system.replace_file(source, self.attempt / f"{number}.{self.tag}")
        self.marks[name] = mark

    def path(self, name: str) -> Path | None:
        """Return where a file is now; None for a file that is not prepared."""
        if name not in self._numbers:
            return None
        return self.attempt / f"{self._numbers[name]}.{self.tag}"

    def publish(self, base: bytes, seal: bytes) -> None:
        """Make this the newest version; an error if another one was made meanwhile.

        What it replaces must have been kept.

        Args:
            base: The seal of the version before it.
            seal: The seal of this version.
        """
        publication = Publication(
            base=sha256_bytes(base),
            seal=FileMark.of(seal),
            names=list(self._numbers),
            files=self.marks,
        )
        write_synced(self.attempt / f"seal.{self.tag}", seal)
        write_synced(self.attempt / f"{_START}{self.tag}", publication.to_bytes())
        sync_dir(self.attempt)
        for _ in range(ATTEMPTS):
            if commit.rename_new(self.attempt, self.root / NEXT):
                break
            finish_publication(self.root)
        else:
            raise AlreadyThere(
                f"{NEXT} is not empty, and what is in it is no version",
                where=str(self.root),
                hint="look at what is in it, and remove it",
            )
        sync_dir(self.root / VERSIONS_FOLDER)
        finish_publication(self.root)
        newest = _fresh_seal(self.root)
        if newest != seal and not self._is_before(seal, newest):
            raise AlreadyThere(
                "another version of this store was made at the same time",
                where=str(self.root),
                hint="run the same command again",
            )

    def _is_before(self, seal: bytes, newest: bytes) -> bool:
        """Return whether another process has made the newest version after this one."""
        newest_seal = Seal.from_bytes(newest, str(self.root / Seal.FILE))
        return sha256_bytes(seal) in seals_before(FolderFiles(self.root), newest_seal)


@contextmanager
def prepared_version(root: Path) -> Iterator[PreparedFiles]:
    """Yield an empty folder for the files of a version; it is removed unless it is published.

    What a killed process left is finished or removed first.
    """
    clean_versions(root)
    folder = root / VERSIONS_FOLDER
    held = _in_folder(folder, partial(hold_new, folder, "new."))
    try:
        yield PreparedFiles(root, held.path)
    finally:
        if os.path.lexists(held.path):
            commit.discard(held.path)
        held.release()
        _remove_empty(root)


def clean_versions(root: Path) -> None:
    """Finish the publication of a killed process, and remove what others left."""
    refuse_links(root)
    finish_publication(root)
    folder = root / VERSIONS_FOLDER
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        match = _ATTEMPT.fullmatch(path.name)
        is_dead = match is not None and commit.is_abandoned(path, match)
        if path.name.startswith("trash.") or is_dead:
            commit.discard(path)
    _remove_empty(root)


def refuse_links(root: Path) -> None:
    """Raise an error if a folder of the versions of a store is a link."""
    for name in (VERSIONS_FOLDER, KEPT_FOLDER, SEALS_FOLDER, NEXT):
        if (root / name).is_symlink():
            raise FixInput(LINK_REFUSED, where=str(root / name))


def _in_folder(folder: Path, work: Callable[[], T]) -> T:
    """Do what needs a folder, which is made first: others remove it as long as it is empty."""
    for _ in range(ATTEMPTS):
        with suppress(FileNotFoundError):
            folder.mkdir(parents=True, exist_ok=True)
            return work()
    return work()


def _remove_empty(root: Path) -> None:
    for name in (KEPT_FOLDER, VERSIONS_FOLDER):
        with suppress(OSError):
            (root / name).rmdir()


def keep_file(root: Path, name: str, mark: FileMark, attempt: Path) -> None:
    """Link a file of the newest version to its sha256 below versions/, before it is replaced.

    It is linked to a name in `attempt`, compared there, then renamed: a process that makes another
    version may replace it at any time, and has kept it then.
    """
    kept = root / mark.kept_name
    if _has(kept, mark):
        return
    source = confined(root, name)
    linked = attempt / "kept"
    system.remove_file(linked)
    try:
        os.link(source, linked)
    except FileNotFoundError:
        pass  # the store lacks a file: the error below says so
    except OSError as error:
        if error.errno not in system.NO_LINKS:
            raise
        _copy_synced(source, linked)
    if _has(linked, mark):
        _in_folder(kept.parent, partial(system.replace_file, linked, kept))
        # Two names of one file are not exchanged by a rename.
        system.remove_file(linked)
        return
    system.remove_file(linked)
    if not _has(kept, mark):
        raise Corrupt(
            f"{name} does not have the bytes that the seal lists, so no version is made",
            where=str(root),
            hint="obygaze store verify --hash",
        )


def _copy_synced(source: Path, target: Path) -> None:
    shutil.copyfile(source, target, follow_symlinks=False)
    with target.open("rb+") as stream:
        system.sync_file(stream.fileno())


def keep_bytes(root: Path, data: bytes, attempt: Path) -> FileMark:
    """Write a small file to its sha256 below versions/; return its mark."""
    mark = FileMark.of(data)
    kept = root / mark.kept_name
    if not _has(kept, mark):
        written = attempt / "kept"
        system.remove_file(written)
        write_synced(written, data)
        _in_folder(kept.parent, partial(system.replace_file, written, kept))
    return mark


def sync_kept(root: Path) -> None:
    """Sync the folders of what was kept."""
    for name in (KEPT_FOLDER, VERSIONS_FOLDER, ""):
        sync_dir(root / name)


def finish_publication(root: Path) -> None:
    """Complete the publication of a version, if there is one; any process may, and two at once."""
    folder = root / NEXT
    claim = _claimed(folder)
    if claim is not None and is_listed(root / Seal.FILE):
        publication, tag = claim
        is_next = sha256_bytes(_fresh_seal(root)) == publication.base
        if is_next and _is_whole(root, folder, publication, tag):
            _place(root, folder, publication, tag)
        if sha256_bytes(_fresh_seal(root)) == publication.seal.sha256:
            rebind_licence(root)
        _drop(folder, publication, tag)
    with suppress(OSError):  # another attempt was claimed meanwhile
        folder.rmdir()


def is_publication_open(root: Path) -> bool:
    """Return whether the publication of a version was begun and is not finished."""
    return is_listed(root / NEXT)


def _claimed(folder: Path) -> tuple[Publication, str] | None:
    try:
        names = sorted(path.name for path in folder.iterdir())
        name = next((name for name in names if name.startswith(_START)), None)
        if name is None:
            return None
        path = folder / name
        data = _read_document(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Publication.from_bytes(data, str(path)), name.removeprefix(_START)


def _read_document(path: Path) -> bytes:
    """Return the bytes of a small file, which must be a regular one and not a link."""
    try:
        with open(path, "rb", opener=system.open_without_links) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > DOCUMENT_BYTES:
                raise FixInput(NOT_REGULAR, where=str(path), hint=COPY_AGAIN)
            return stream.read()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FixInput(LINK_REFUSED, where=str(path)) from error
        raise


def _fresh_seal(root: Path) -> bytes:
    """Return the bytes of seal.json, even if a cache of this machine has an earlier one."""
    # With O_CREAT the file server looks for the file, not the cache.
    flags = os.O_RDONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
    descriptor = os.open(root / Seal.FILE, flags, 0o644)
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read()


def _is_whole(root: Path, folder: Path, publication: Publication, tag: str) -> bool:
    """Return whether a claim can be finished; False where another process has finished it.

    A claim that is damaged, or of a stranger, is an error: it may name any file.
    """
    where = str(folder)
    problem = ""
    seal_path = folder / f"seal.{tag}"
    try:
        seal_data = _read_document(seal_path)
    except FileNotFoundError:
        return False
    if FileMark.of(seal_data) != publication.seal:
        problem = "its seal is not the one that it lists"
    else:
        seal = Seal.from_bytes(seal_data, where)
        problem = _problem_of_seal(root, folder, publication, tag, seal)
    for number, name in enumerate(publication.names):
        if problem:
            break
        mark = publication.files.get(name)
        if mark is None or seal.files.get(name) != mark:
            problem = f"its seal does not list {name}"
            break
        is_there = _has(folder / f"{number}.{tag}", mark)
        if not is_there and not _has(confined(root, name), mark):
            problem = f"{name} is not whole"
    if not problem:
        return True
    if not is_listed(folder / f"{_START}{tag}"):
        return False
    raise Corrupt(
        f"the publication of a version cannot be finished: {problem}",
        where=where,
        hint=f"remove the folder {NEXT} of the store; its newest version stays as it is",
    )


def _problem_of_seal(
    root: Path, folder: Path, publication: Publication, tag: str, seal: Seal
) -> str:
    """Return why a seal cannot be that of the next version; "" if it can."""
    plan_path = root / Plan.FILE
    names = list(publication.names)
    if Plan.FILE in names:
        prepared = folder / f"{names.index(Plan.FILE)}.{tag}"
        if prepared.exists():
            plan_path = prepared
    plan = Plan.from_bytes(_read_document(plan_path), str(plan_path))
    if seal.files.get(Plan.FILE, FileMark(0, "")).sha256 != plan.sha256:
        return "its seal is of another store.json"
    plan.names.require([*names, *seal.files], str(folder))
    if publication.base not in seals_before(FolderFiles(root), seal):
        return "it does not follow the newest version"
    return ""


def _place(root: Path, folder: Path, publication: Publication, tag: str) -> None:
    """Move the files of a claim to their places; each step may have been done by another."""
    names = list(publication.names)
    # Readers of the index by film need what it lists in place, and its store.json.
    last = (Plan.FILE, FilmIndex.FILE)
    for number, name in enumerate(names):
        if name not in last:
            _move(folder / f"{number}.{tag}", root, name)
    # New arrays have new folders.
    folders: set[PurePosixPath] = set()
    for name in names:
        folders.update(PurePosixPath(name).parents)
    for inner in sorted(folders, reverse=True):
        sync_dir(root / inner)
    seal_path = folder / f"seal.{tag}"
    if Plan.FILE in names:
        # Who reads the new store.json before the new seal.json looks for the seal here.
        pointer = root / next_seal_name(publication.files[Plan.FILE].sha256)
        pointer.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError, FileExistsError):
            _link(seal_path, pointer)
        sync_dir(pointer.parent)
        _move(folder / f"{names.index(Plan.FILE)}.{tag}", root, Plan.FILE)
        sync_dir(root)
    if FilmIndex.FILE in names:
        _move(folder / f"{names.index(FilmIndex.FILE)}.{tag}", root, FilmIndex.FILE)
        sync_dir((root / FilmIndex.FILE).parent)
    _move(seal_path, root, Seal.FILE)
    sync_dir(root)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in system.NO_LINKS:
            raise
        write_exclusive(target, source.read_bytes())


def _move(source: Path, root: Path, name: str) -> None:
    target = confined(root, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):  # in its place already
        system.replace_file(source, target)


def _drop(folder: Path, publication: Publication, tag: str) -> None:
    """Remove what is left of a claim, the list of its files as the last."""
    for number in range(len(publication.names)):
        system.remove_file(folder / f"{number}.{tag}")
    system.remove_file(folder / f"seal.{tag}")
    system.remove_file(folder / f"{_START}{tag}")


def rebind_licence(root: Path) -> None:
    """Bind licence.json to the store.json of the newest version, where it was of an earlier one."""
    path = root / LicenceHistory.FILE
    if not path.is_file():
        return
    with locked(root):
        plan = Plan.load(root)
        history = LicenceHistory.load(root)
        if history.plan == plan.sha256:
            return
        if history.plan in stores_of_versions(FolderFiles(root)):
            write_atomic(path, replace(history, plan=plan.sha256).to_bytes())


def _has(path: Path, mark: FileMark) -> bool:
    """Return whether a file, which must not be a link, has the bytes of a mark."""
    try:
        with open(path, "rb", opener=system.open_without_links) as stream:
            if os.fstat(stream.fileno()).st_size != mark.n_bytes:
                return False
            return hashlib.file_digest(stream, "sha256").hexdigest() == mark.sha256
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FixInput(LINK_REFUSED, where=str(path)) from error
        raise

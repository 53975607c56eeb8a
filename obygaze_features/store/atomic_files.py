"""Write files once, and give a finished folder its name atomically.

Several processes may build the same folder under hidden names. A rename decides which process
finishes the folder: it fails if the name is taken, so only the first process changes
something. No lock and no clock is needed. If a rename reports an error, the parent folder is listed
to see whether the name is taken: a network disk may repeat a request, and report that the
repetition failed.

A store is replaced by two renames, not by one exchange of two names. An exchange would never fail:
a process that is suspended just before its exchange, and continues after another process has
replaced the store, would undo that replacement.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from obygaze_features.core import system
from obygaze_features.core.errors import AlreadyThere, Corrupt
from obygaze_features.core.files import (
    is_listed,
    name_in_errors,
    sha256_file,
    sync_dir,
)
from obygaze_features.core.temporary_names import (
    final_path,
    hidden_name,
    remove_hidden,
)
from obygaze_features.store.layout import (
    CLAIM,
    GROUP_JSON,
    NEXT,
    STORE_JSON,
    replaced_store_name,
)
from obygaze_features.store.records import FileMark, seal_of

_COPY_BYTES = 2**22
# A large buffer: pages that are written together are read faster from the cache of the system.
_WRITTEN_BYTES = 2**21
_NAME_IS_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
# Network file systems cache missing names, by default for 30 s.
_MOST_WAIT_S = 90.0
_PAUSE_S = 0.1
# Errors of disks without hard links, and of files on different disks.
_NO_LINKS = (*system.NO_LINKS, errno.EXDEV)


# --- Files ---


class HashedStream:
    """A stream for writing, with the length and SHA-256 of the bytes written so far."""

    def __init__(self, stream: BinaryIO) -> None:
        self.n_bytes = 0
        self._stream = stream
        self._sha256 = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes."""
        self._stream.write(data)
        self._sha256.update(data)
        self.n_bytes += len(data)

    def mark(self) -> FileMark:
        """Return the length and the hash of the written bytes."""
        return FileMark(self.n_bytes, self._sha256.hexdigest())


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing. When the `with` block ends, sync it and make it read-only."""
    with path.open("xb", buffering=_WRITTEN_BYTES) as stream:
        yield stream
        stream.flush()
        system.sync_file(stream.fileno())
    readable = stat.S_IMODE(path.stat().st_mode) & 0o444
    path.chmod(readable)


def write_file(path: Path, data: bytes | memoryview) -> FileMark:
    """Write a new file; return its length and hash."""
    with name_in_errors(path), new_file(path) as stream:
        hashed = HashedStream(stream)
        hashed.write(data)
    return hashed.mark()


def has_file(path: Path, mark: FileMark) -> bool:
    """Return whether a local file, not a link, has this length and SHA-256."""
    try:
        if path.is_symlink() or path.stat().st_size != mark.n_bytes:
            return False
        return sha256_file(path) == mark.sha256
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False


def write_pieces(
    pieces: Iterator[Any], target: Path, mark: FileMark, where: str, beside: Path
) -> None:
    """Write the pieces of a file, and rename it to `target` if its length and SHA-256 are right.

    Before this rename, the file has a hidden name next to `beside`. A file with a wrong length or
    SHA-256 is removed and raises an error.
    """
    part = hidden_name(beside)
    try:
        with name_in_errors(target), new_file(part) as stream:
            hashed = HashedStream(stream)
            for piece in pieces:
                hashed.write(piece)
        if hashed.mark() != mark:
            raise Corrupt(
                f"{target.name}: length or SHA-256 differs from the list of files",
                where=where,
            )
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    sync_dir(target.parent)


def copy_file(source: Path, path: Path, mark: FileMark) -> None:
    """Copy a file; raise an error unless it has this length and SHA-256."""
    with source.open("rb") as stream:
        pieces = iter(lambda: stream.read(_COPY_BYTES), b"")
        write_pieces(pieces, path, mark, str(source), path)


def link_file(source: Path, path: Path, mark: FileMark) -> None:
    """Link a finished file, or copy it if the disk has no links."""
    try:
        os.link(source, path)
    except FileExistsError:
        if not path.samefile(source):
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        copy_file(source, path, mark)


# --- Folders ---


def make_hidden(target: Path, tag: str = "") -> Path:
    """Make a hidden folder next to a target, in which the target is built."""
    hidden = hidden_name(target, tag)
    make_folder(hidden)
    return hidden


def make_folder(folder: Path) -> None:
    """Make a folder whose name no other process uses.

    A network disk may repeat the request, and then report that the folder exists.
    """
    try:
        folder.mkdir()
    except FileExistsError:
        wait_until_visible(folder)


def sync_tree(folder: Path) -> None:
    """Sync a folder and all folders below it."""
    for path, _, _ in os.walk(folder):
        sync_dir(Path(path))


def take_name(finished: Path, target: Path) -> bool:
    """Give a finished folder the name of `target`; return whether it got this name.

    If the name is taken, return False and change nothing.
    """
    try:
        system.rename_folder(finished, target)
    except OSError as error:
        # The name may be free again by now, and the other process may have removed our folder.
        if error.errno in _NAME_IS_TAKEN:
            return False
        is_there = is_listed(target)
        if is_there and is_listed(finished):
            return False
        if not is_there:
            raise
    sync_dir(target.parent)
    return True


def remove_tree(folder: Path) -> None:
    """Remove a hidden folder if it exists: rename the folder first, then delete its files.

    Another process may be about to give the folder its final name. It must not find a folder with
    only some of its files: after the rename it finds no folder.
    """
    hidden = hidden_name(final_path(folder))
    try:
        take_name(folder, hidden)
    except FileNotFoundError:
        return
    except OSError:
        # Windows does not rename a folder that has an open file.
        hidden = folder
    remove_hidden(hidden)


def remove_empty_group(folder: Path) -> None:
    """Remove a folder that has an empty group of Zarr and nothing else.

    This is what is left of a store after `zarr.open_group(folder, mode="w")`. The folder is renamed
    before the second look: another process may have put a store there meanwhile.
    """
    if not _is_empty_group(folder):
        return
    hidden = hidden_name(folder)
    if not take_name(folder, hidden):
        return
    if _is_empty_group(hidden):
        remove_hidden(hidden)
    else:
        take_name(hidden, folder)


def _is_empty_group(folder: Path) -> bool:
    """Return whether a folder has only the document of a group without attributes."""
    try:
        names = [path.name for path in folder.iterdir()]
        if names != [GROUP_JSON]:
            return False
        group = msgspec.json.decode((folder / GROUP_JSON).read_bytes(), type=_Group)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return group.node_type == "group" and not group.attributes


class _Group(msgspec.Struct):
    """What the document of a group of Zarr says of its contents."""

    node_type: str
    attributes: dict[str, Any] = {}


def store_above(path: Path) -> Path | None:
    """Return the nearest folder above a path that has a store or an unfinished push, or None."""
    for folder in Path(os.path.realpath(path)).parents:
        for name in (STORE_JSON, CLAIM):
            with suppress(OSError):
                if (folder / name).is_file():
                    return folder
    return None


# --- Replaced stores ---


def wait_until_visible(path: Path) -> None:
    """Wait while a network disk reports that a path is missing, although its folder lists the name.

    Network disks remember for some time that a name was missing.
    """
    give_up = time.monotonic() + _MOST_WAIT_S
    while not os.path.lexists(path) and is_listed(path):
        if time.monotonic() > give_up:
            return
        time.sleep(_PAUSE_S)


def read_finished(path: Path) -> bytes:
    """Return the bytes of a file in a folder that was finished before it got its name.

    First wait, if a network disk still reports that the folder or the file is missing.
    """
    wait_until_visible(path.parent)
    wait_until_visible(path)
    return path.read_bytes()


def read_seal(folder: Path) -> str:
    """Return the seal of the store in a folder, or "" without a store."""
    try:
        return seal_of(read_finished(folder / STORE_JSON))
    except (FileNotFoundError, NotADirectoryError):
        return ""


def filling_path(target: Path) -> Path:
    """Return the folder in which the next store of this name is filled."""
    return target.with_name(target.name + NEXT)


def replaced_store_path(target: Path, seal: str) -> Path:
    """Return the folder in which a replaced store is kept."""
    return target.with_name(replaced_store_name(target.name, seal))


def replace_store(finished: Path, target: Path, seal: str) -> bool:
    """Replace the store that has this seal by a finished store; return whether it was replaced.

    Return False, and change nothing, if another process has replaced the store already.
    """
    before = replaced_store_path(target, seal)
    seal_now = read_seal(target)
    if seal_now == seal:
        was_moved = take_name(target, before)
        if not was_moved and read_seal(target) == seal:
            raise AlreadyThere(
                "cannot keep the replaced store under this name, which is taken",
                where=str(before),
            )
        if was_moved and read_seal(before) != seal:
            # Another process was first, and the store that it kept was removed.
            take_name(before, target)
            return False
    elif seal_now or read_seal(before) != seal:
        return False
    return take_name(finished, target)

"""Files that are written once, and how a finished folder gets its name.

A rename decides: it fails where the name is taken, so the process that comes second changes
nothing. No lock and no clock is needed. After any error of a rename, the folder is listed: a
network disk may repeat a request and report that the second one failed.

Two renames let a store take the place of another one, and not an exchange of two names in one step.
An exchange cannot fail where another process was first, so a process that was suspended before it
would undo the change of the other.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from obygaze_features.core import system
from obygaze_features.core.errors import AlreadyThere, Corrupt
from obygaze_features.core.files import (
    is_listed,
    name_in_errors,
    sha256_file,
    sync_dir,
)
from obygaze_features.core.temporary_names import (
    hidden_name,
    named_beside,
    remove_hidden,
)
from obygaze_features.store.encoding import HashedStream
from obygaze_features.store.layout import CLAIM, NEXT, STORE_JSON, replaced_store_name
from obygaze_features.store.records import FileMark, seal_of

_COPY_BYTES = 2**22
# What is written at once lies together in the memory of the system, and is read faster from there.
_WRITTEN_BYTES = 2**21
_NAME_IS_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
# Network disks remember absent names for 30 s, unless they are told another time.
_MOST_WAIT_S = 90.0
_PAUSE_S = 0.1
# The disk has no links, or the two files are on two disks.
_NO_LINKS = (*system.NO_LINKS, errno.EXDEV)


# --- Files ---


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that is not there yet; when it is closed, it is on the disk and read-only."""
    with path.open("xb", buffering=_WRITTEN_BYTES) as stream:
        yield stream
        stream.flush()
        system.sync_file(stream.fileno())
    readable = stat.S_IMODE(path.stat().st_mode) & 0o444
    path.chmod(readable)


def write_file(path: Path, data: bytes) -> FileMark:
    """Write a file that is not there yet; return its length and hash."""
    with name_in_errors(path), new_file(path) as stream:
        hashed = HashedStream(stream)
        hashed.write(data)
    return hashed.mark()


def has_file(path: Path, mark: FileMark) -> bool:
    """Return whether a file of this machine, and no link, has a length and a SHA-256."""
    try:
        if path.is_symlink() or path.stat().st_size != mark.n_bytes:
            return False
        return sha256_file(path) == mark.sha256
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False


def write_pieces(
    pieces: Iterator[Any], target: Path, mark: FileMark, where: str, beside: Path
) -> None:
    """Write a file of pieces; it gets its name if it has the length and the SHA-256.

    Until then it has a hidden name beside a path.
    """
    part = hidden_name(beside)
    try:
        with name_in_errors(target), new_file(part) as stream:
            hashed = HashedStream(stream)
            for piece in pieces:
                hashed.write(piece)
        if hashed.mark() != mark:
            raise Corrupt(f"{target.name} is not the file that is listed", where=where)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    sync_dir(target.parent)


def copy_file(source: Path, path: Path, mark: FileMark) -> None:
    """Copy a file that has a length and a SHA-256."""
    with source.open("rb") as stream:
        pieces = iter(lambda: stream.read(_COPY_BYTES), b"")
        write_pieces(pieces, path, mark, str(source), path)


def link_file(source: Path, path: Path, mark: FileMark) -> None:
    """Give a finished file a second name, or copy it where the disk has no links."""
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
    """Make a hidden folder beside a target, in which the target is built."""
    hidden = hidden_name(target, tag)
    make_folder(hidden)
    return hidden


def make_folder(folder: Path) -> None:
    """Make a folder of a name that nobody else uses.

    A network disk may repeat the request, and then say that the folder exists.
    """
    try:
        folder.mkdir()
    except FileExistsError:
        wait_until_visible(folder)


def sync_tree(folder: Path) -> None:
    """Write the names in a folder and in the folders below it to the disk."""
    for path, _, _ in os.walk(folder):
        sync_dir(Path(path))


def take_name(finished: Path, target: Path) -> bool:
    """Rename a finished folder; return False, and change nothing, if the name is taken."""
    try:
        system.rename_folder(finished, target)
    except OSError as error:
        # The name may have been taken, and be free again; who took it may have removed ours.
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
    """Remove a hidden folder if it is there: rename first, then delete, so that no half is left.

    The process that made it may be about to rename it.
    """
    hidden = hidden_name(named_beside(folder))
    try:
        take_name(folder, hidden)
    except FileNotFoundError:
        return
    except OSError:
        # Windows does not rename a folder while a program has a file of it open.
        hidden = folder
    remove_hidden(hidden)


def store_above(path: Path) -> Path | None:
    """Return the folder above a path that is a store, or becomes one; None if there is none."""
    for folder in Path(os.path.realpath(path)).parents:
        for name in (STORE_JSON, CLAIM):
            with suppress(OSError):
                if (folder / name).is_file():
                    return folder
    return None


# --- A store in the place of another one ---


def wait_until_visible(path: Path) -> None:
    """Wait while a network disk says that a name is not there, although its folder lists it.

    Such a disk remembers for some time that a name was not there.
    """
    give_up = time.monotonic() + _MOST_WAIT_S
    while not os.path.lexists(path) and is_listed(path):
        if time.monotonic() > give_up:
            return
        time.sleep(_PAUSE_S)


def read_finished(path: Path) -> bytes:
    """Return a file of a folder that was finished before it got its name.

    A network disk may remember of the folder, and of the file, that it was not there.
    """
    wait_until_visible(path.parent)
    wait_until_visible(path)
    return path.read_bytes()


def read_seal(folder: Path) -> str:
    """Return the seal of the store in a folder; "" if no store is there."""
    try:
        return seal_of(read_finished(folder / STORE_JSON))
    except (FileNotFoundError, NotADirectoryError):
        return ""


def filling_path(target: Path) -> Path:
    """Return where the store is filled that gets the name of the target."""
    return target.with_name(target.name + NEXT)


def replaced_store_path(target: Path, seal: str) -> Path:
    """Return where the store of this seal is after another one took its place."""
    return target.with_name(replaced_store_name(target.name, seal))


def replace_store(finished: Path, target: Path, seal: str) -> bool:
    """Let a finished store take the place of the store that has a seal.

    Returns False, and changes nothing, if another store has taken its place.
    """
    before = replaced_store_path(target, seal)
    seal_now = read_seal(target)
    if seal_now == seal:
        was_moved = take_name(target, before)
        if not was_moved and read_seal(target) == seal:
            raise AlreadyThere(
                "the store cannot be kept under this name, which is taken",
                where=str(before),
            )
        if was_moved and read_seal(before) != seal:
            # Another process was first, and somebody removed what it kept.
            take_name(before, target)
            return False
    elif seal_now or read_seal(before) != seal:
        return False
    return take_name(finished, target)

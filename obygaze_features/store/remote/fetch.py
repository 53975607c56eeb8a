"""Fetch stores, whole or in part, from another place or out of a zip.

Files arrive in a hidden draft folder, several at once. Each gets its name only when its bytes are
the ones that the seal or marker lists. An interrupted file is resumed; its name in the draft is
made from its name and sha256, so that it is never mixed with a file of another store.

Each process has its own draft, readable by its user only. To resume, a process renames the draft
of an ended one to its own name, which only one can do: no locks, which network file systems may
not have.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import socket
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Lock

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.drafts import (
    TAG,
    check_name,
    draft_beside,
    is_abandoned,
    own_tag,
    short_name,
)
from obygaze_features.core.errors import AlreadyThere, Corrupt, Stopped
from obygaze_features.core.files import confined, locked, sha256_file, sync_dir, write_atomic
from obygaze_features.store.format.limits import check_disk, disk_errors
from obygaze_features.store.format.records import PARTIAL_FILE, STORE_FILE
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.remote.files import Files, FolderFiles, Piece
from obygaze_features.store.remote.object_store import (
    AGAIN,
    NoRanges,
    Unreachable,
    stop_when_unreachable,
)
from obygaze_features.store.remote.rows import fetch_rows, select_rows
from obygaze_features.store.remote.selection import (
    THREADS,
    ExistingCopy,
    FileSelection,
    Transferred,
    existing_copy,
    select_files,
)
from obygaze_features.store.remote.zip import UntrustedZip

PIECE_BYTES = 4_000_000
# Reading a folder or a zip on this machine is not interrupted: fewer, larger pieces.
LOCAL_PIECE_BYTES = 16_000_000
MIN_PIECE_BYTES = 64_000
HASHING_THREADS = 4
# The folders of a draft.
STORE, PARTS = "store", "parts"
_TAG = re.compile(TAG + r"\.pull")
TRIES = 5
# A running transfer writes a piece every few seconds, or gives up after a minute.
STILL_AFTER_S = 3600.0
PAUSE_S = 0.2


def pull(
    location: str | Path | Files,
    target: Path | str,
    *,
    levels: Sequence[str] | None = None,
    movies: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Transferred:
    """Fetch a store into a folder; the same call again resumes.

    With `levels` or `movies` the copy is partial; a later pull into the same folder adds to it.
    Of a large remote store, `movies` makes a new store of only their clips, by way of its index.

    Args:
        location: a folder, a packed zip or a URL.
        target: the new folder.
        levels: arrays to fetch, by default all.
        movies: ids of movies whose blocks are fetched, by default all.
        progress: counts the bytes of files.
    """
    rows = select_rows(location, target, levels, movies) if movies is not None else None
    if rows is not None:
        return fetch_rows(rows, target, progress)
    return fetch(select_files(location, levels, movies), target, progress)


def unpack(
    packed: Path | str, target: Path | str, *, progress: Progress | None = None
) -> Transferred:
    """Unpack a store into a folder: only the files that the store lists, each checked.

    Zips of other programs, compressed or with the store in a folder, are accepted too.

    Args:
        packed: the zip file.
        target: the new folder.
        progress: counts the bytes of files.
    """
    return _fetch(select_packed(packed), Path(target), progress, draft_beside)


def select_packed(packed: Path | str) -> FileSelection:
    """Return the files of a packed store, checked before any of it is written anywhere."""
    files = UntrustedZip(Path(packed))
    selection = select_files(files)
    files.expected = {name: mark.n_bytes for name, mark in selection.marks.items()}
    for name, entry in files.entries.items():
        n_bytes = files.expected.get(name, entry.file_size)
        if entry.file_size != n_bytes:
            raise Corrupt(
                f"{name} has {entry.file_size} bytes, expected {n_bytes}", where=files.location
            )
    return selection


def fetch(
    selection: FileSelection, target: Path | str, progress: Progress | None = None
) -> Transferred:
    """Fetch the selected files into a folder."""
    return _fetch(selection, Path(target), progress, _kept_draft)


def _fetch(
    selection: FileSelection,
    target: Path,
    progress: Progress | None,
    new_draft: Callable[[Path], AbstractContextManager[Path]],
) -> Transferred:
    started, given, target = time.monotonic(), target, check_name(target)
    source = selection.source
    existing = _existing(target, selection)
    with disk_errors(target), new_draft(target) as draft:
        draft.mkdir(mode=0o700, exist_ok=True)
        (draft / STORE).mkdir(exist_ok=True)
        download = _Download(selection, target, draft, progress or Quiet())
        download.run()
        _remove_strays(draft / STORE, selection)
        if existing is None:
            _write_documents(draft / STORE, selection)
        if existing is not None or not _publish(draft / STORE, target):
            _extend(draft / STORE, target, selection)
        draft.rmdir()
    return Transferred(
        source=source.location,
        target=str(given),
        n_files=len(selection.marks) + len(selection.documents),
        n_files_kept=download.n_kept,
        n_bytes_rows=selection.n_bytes_rows,
        n_bytes_needed=selection.n_bytes,
        n_bytes_transferred=source.n_bytes,
        n_requests=source.n_requests,
        seconds=time.monotonic() - started,
        partial=(target / PARTIAL_FILE).exists(),
        remote=source.is_remote,
    )


def _existing(target: Path, selection: FileSelection) -> ExistingCopy | None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return None
    if not (target / STORE_FILE).is_file():
        raise AlreadyThere(
            "this exists and is not a store",
            where=str(target),
            hint="another name with -o",
        )
    hint = "another name, then obygaze store merge"
    found = existing_copy(FolderFiles(target), selection, hint)
    if found is not None and not found.sealed:
        raise AlreadyThere(
            "this copy is not sealed, so no file can be added", where=str(target), hint=hint
        )
    return found


class _Download:
    """The selected files on their way into a draft."""

    def __init__(
        self, selection: FileSelection, target: Path, draft: Path, progress: Progress
    ) -> None:
        self.source, self.marks = selection.source, selection.marks
        self.target, self.draft, self.progress = target, draft / STORE, progress
        self.parts = draft / PARTS
        self.piece_bytes = PIECE_BYTES if self.source.is_remote else LOCAL_PIECE_BYTES
        self.n_kept = 0
        self.stopped = False
        self._lock = Lock()

    def run(self) -> None:
        """Fetch the missing files, several at a time."""
        names = sorted(self.marks)
        with ThreadPoolExecutor(HASHING_THREADS) as pool:
            there = list(pool.map(self._has, names))
        wanted = [name for name, has in zip(names, there, strict=True) if not has]
        check_disk(sum(self.marks[name].n_bytes for name in wanted), self.draft)
        self.parts.mkdir(exist_ok=True)
        with stop_when_unreachable(), ThreadPoolExecutor(THREADS) as pool:
            try:
                run_all(pool, self._fetch, wanted)
            except BaseException:
                self.stopped = True
                raise
        shutil.rmtree(self.parts)

    def _has(self, name: str) -> bool:
        mark = self.marks[name]
        path = confined(self.draft, name)
        here = path if path.is_file() else self.target / name
        if not _is_whole(here, mark):
            path.unlink(missing_ok=True)
            return False
        with self._lock:
            self.n_kept += 1
        self._advance(mark.n_bytes)
        return True

    def _advance(self, n_bytes: int) -> None:
        with self._lock:
            self.progress.advance(n_bytes)

    def _fetch(self, name: str) -> None:
        mark = self.marks[name]
        key = hashlib.sha256(f"{name} {mark.sha256}".encode()).hexdigest()
        part = self.parts / key
        for _ in range(2):  # the wrong bytes may be those that an earlier pull left
            self._append(name, mark, part)
            if _is_whole(part, mark):
                break
            part.unlink()
        else:
            raise self._corrupt(
                f"{name} does not have the checksum that the seal or marker lists", "verify --hash"
            )
        path = confined(self.draft, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        part.rename(path)

    def _append(self, name: str, mark: FileMark, part: Path) -> None:
        with part.open("ab") as stream:
            start = stream.tell()
            if start > mark.n_bytes:
                stream.truncate(start := 0)
            self._advance(start)
            while start < mark.n_bytes:
                if self.stopped:
                    raise Stopped("the transfer was stopped", hint=AGAIN)
                piece = self._read(name, mark, start)
                stream.write(piece.data.data)
                self._advance(len(piece.data))
                start += len(piece.data)
            stream.flush()
            os.fsync(stream.fileno())

    def _read(self, name: str, mark: FileMark, start: int) -> Piece:
        n_bytes = self.piece_bytes
        for attempt in range(TRIES):
            stop = min(start + n_bytes, mark.n_bytes)
            try:
                # A plain request without a range, if the piece is the whole file.
                whole = stop - start == mark.n_bytes
                piece = self.source.read(name, start, None if whole else stop)
                return self._checked(piece, name, mark, stop - start)
            except NoRanges:
                whole_file = self._checked(self.source.read(name), name, mark, mark.n_bytes)
                return Piece(whole_file.data[start:], whole_file.total)
            except Unreachable:
                if attempt == TRIES - 1 or self.stopped:
                    raise
                # Smaller pieces get through where a connection breaks again and again.
                n_bytes = max(n_bytes // 8, MIN_PIECE_BYTES)
                time.sleep(PAUSE_S)
        raise Stopped("the transfer was stopped", where=name, hint=AGAIN)

    def _checked(self, piece: Piece | None, name: str, mark: FileMark, n_bytes: int) -> Piece:
        if piece is None:
            raise self._corrupt(f"{name} is missing")
        if piece.total != mark.n_bytes or len(piece.data) != n_bytes:
            raise self._corrupt(f"{name} has {piece.total} bytes, expected {mark.n_bytes}")
        return piece

    def _corrupt(self, what: str, command: str = "verify") -> Corrupt:
        hint = f"obygaze store {command}, of the store it is fetched from"
        return Corrupt(what, where=self.source.location, hint=hint)


def run_all(pool: ThreadPoolExecutor, work: Callable[[str], None], names: Sequence[str]) -> None:
    """Do the work for each name; after the first error, or Ctrl-C, start no further name."""
    running = [pool.submit(work, name) for name in names]
    try:
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        for future in running:
            future.cancel()


def _is_whole(path: Path, mark: FileMark) -> bool:
    try:
        found = path.lstat()  # a link is replaced, never followed
        is_same_size = stat.S_ISREG(found.st_mode) and found.st_size == mark.n_bytes
        return is_same_size and sha256_file(path) == mark.sha256
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def _kept_draft(target: Path) -> Iterator[Path]:
    """Yield the hidden folder of one transfer; it is kept if the transfer is interrupted."""
    start = f".{short_name(target)}~"
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f"{start}{own_tag()}.pull")
    for left in sorted(target.parent.iterdir()):
        match = _TAG.fullmatch(left.name.removeprefix(start))
        if match is None or not left.name.startswith(start) or not _is_own(left):
            continue
        if is_abandoned(left, match) or _is_still(left, match):
            with suppress(FileNotFoundError):  # another process resumes it
                left.rename(draft)
                break
        elif match["host"] == socket.gethostname():
            raise AlreadyThere(
                "another process is fetching this store",
                where=str(target),
                hint="wait until it has finished",
            )
    try:
        yield draft
    except BaseException:
        with suppress(OSError):
            free = draft.rename(target.with_name(f"{start}-.0.{uuid.uuid4().hex[:12]}.pull"))
            os.utime(free, (0, 0))  # abandoned, for every process and machine
        raise


def _is_still(draft: Path, tag: re.Match[str]) -> bool:
    """Return whether no byte has arrived in the draft of another machine for an hour."""
    if tag["host"] == socket.gethostname():
        return False
    with suppress(OSError):
        parts = draft / PARTS
        newest = max(path.lstat().st_mtime for path in (draft, parts, *parts.iterdir()))
        return time.time() - newest > STILL_AFTER_S
    return False


def _is_own(draft: Path) -> bool:
    """Return whether a folder is a draft that nobody but this user can have written to."""
    try:
        found = draft.lstat()
        is_private = found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o700
        if not (stat.S_ISDIR(found.st_mode) and is_private):
            return False
        return {path.name for path in draft.iterdir()} <= {STORE, PARTS}
    except OSError:
        return False


def _remove_strays(draft: Path, selection: FileSelection) -> None:
    """Remove what a killed transfer left: temporary files, and files of another store."""
    for path in draft.rglob("*"):
        if not path.is_dir() and path.relative_to(draft).as_posix() not in selection.marks:
            path.unlink()


def _write_documents(draft: Path, selection: FileSelection) -> None:
    if selection.partial is not None:
        write_atomic(draft / PARTIAL_FILE, selection.partial.to_bytes())
    if not selection.sealed:  # so that the extraction can be resumed
        (draft / "staging").mkdir(exist_ok=True)
        (draft / "commits").mkdir(exist_ok=True)
    for name, data in selection.documents.items():
        write_atomic(confined(draft, name), data)


def _publish(draft: Path, target: Path) -> bool:
    """Rename the whole folder; return False where another process was first."""
    for folder, _, _ in os.walk(draft):
        sync_dir(Path(folder))
    try:
        draft.rename(target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    sync_dir(target.parent)
    return True


def _extend(draft: Path, target: Path, selection: FileSelection) -> None:
    """Add files to a copy, then record them if it is partial."""
    (draft / PARTIAL_FILE).unlink(missing_ok=True)
    with locked(target):
        existing = _existing(target, selection)
        if existing is None:
            raise Stopped("this copy was removed meanwhile", where=str(target), hint=AGAIN)
        for path in sorted(path for path in draft.rglob("*") if path.is_file()):
            parent = path.parent.relative_to(draft)
            place = (confined(target, str(parent)) if parent.parts else target) / path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            path.rename(place)
            sync_dir(place.parent)
        for left in target.glob(f".{PARTIAL_FILE}.*.tmp"):  # of a killed transfer
            left.unlink(missing_ok=True)
        now = existing.extended(selection)
        if now is None:
            (target / PARTIAL_FILE).unlink(missing_ok=True)
            sync_dir(target)
        else:
            write_atomic(target / PARTIAL_FILE, now.to_bytes())
    shutil.rmtree(draft)

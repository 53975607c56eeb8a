"""Brings a store, or a part of one, from anywhere to a folder: resumable, checked on arrival.

What has arrived lies in a hidden folder beside the target until all of it is there and is what
the seal promised. Files that are half there go on where they stopped; their names are made from
what they must become, so nothing of another store can slip in.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from obygaze_features.core.console import Progress, Quiet, human
from obygaze_features.core.errors import AlreadyThere, Corrupt, Mismatch, Stopped
from obygaze_features.core.files import confined, sha256_file, sync_dir, write_atomic
from obygaze_features.store.counted import CountedFiles
from obygaze_features.store.create import read_plan
from obygaze_features.store.disk import disk_errors
from obygaze_features.store.files import Files, Piece, open_files
from obygaze_features.store.limits import check_disk
from obygaze_features.store.network import AGAIN
from obygaze_features.store.part import AT_ONCE, Part, is_all, merged, part_of
from obygaze_features.store.reader import Store, open_store
from obygaze_features.store.records import PARTIAL_FILE, SEAL_FILE, STORE_FILE, Partial, Seal
from obygaze_features.store.schema import FileMark

PIECE_BYTES = 4_000_000
# A folder or a zip on this machine does not break off: fewer, larger pieces.
LOCAL_PIECE_BYTES = 16_000_000
LEAST_PIECE_BYTES = 64_000
HASHING = 4
TRIES = 5
PAUSE_S = 0.2


@dataclass(frozen=True)
class Transferred:
    """What a transfer needed, and what it came to."""

    source: str
    target: str
    n_files: int
    n_files_kept: int
    n_bytes_rows: int
    n_bytes_needed: int
    n_bytes_transferred: int
    n_requests: int
    seconds: float
    partial: bool
    remote: bool = True

    @property
    def line(self) -> str:
        """One line for people."""
        requests = f" in {self.n_requests} requests" if self.remote else ""
        return (
            f"{self.n_files} files, {human(self.n_bytes_needed)} "
            f"({human(self.n_bytes_rows)} of them the rows that were asked for); "
            f"{human(self.n_bytes_transferred)} transferred{requests}, {self.seconds:.1f} s"
        )


def pull(
    location: str | Path | Files,
    target: Path | str,
    *,
    levels: Sequence[str] | None = None,
    movies: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Transferred:
    """Fetch a store into a folder; the same call again goes on where it was interrupted.

    With `levels` or `movies` the copy is partial and says so; a later pull into the same folder
    adds to it. `progress` counts the bytes of files (`prepare(...).part.n_bytes_files`).
    """
    return fetch(prepare(location, levels, movies), target, progress)


@dataclass(frozen=True)
class Order:
    """What is to be fetched, and from where."""

    files: CountedFiles
    part: Part


def prepare(
    location: str | Path | Files,
    levels: Sequence[str] | None = None,
    movies: Iterable[str] | None = None,
) -> Order:
    """Find out which files a pull needs."""
    files = CountedFiles(open_files(location) if isinstance(location, str | Path) else location)
    return Order(files, part_of(open_store(files), levels, movies))


def fetch(order: Order, target: Path | str, progress: Progress | None = None) -> Transferred:
    """Fetch what was ordered into a folder."""
    started, target = time.monotonic(), Path(target)
    old = _standing(target, order.part)
    with disk_errors(target), _draft(target) as draft:
        load = _Load(order, target, draft, progress or Quiet())
        load.run()
        if old is None:
            _write_documents(draft, order.part)
            _publish(draft, target)
        else:
            _extend(draft, target, order.part, old.partial)
    return Transferred(
        source=order.files.location,
        target=str(target),
        n_files=len(order.part.files) + len(order.part.documents),
        n_files_kept=load.n_kept,
        n_bytes_rows=order.part.n_bytes_rows,
        n_bytes_needed=order.part.n_bytes,
        n_bytes_transferred=order.files.n_bytes,
        n_requests=order.files.n_requests,
        seconds=time.monotonic() - started,
        partial=(target / PARTIAL_FILE).exists(),
        remote=order.files.is_remote,
    )


@dataclass(frozen=True)
class _Standing:
    """A copy of the same store that is there already."""

    partial: Partial | None


def _standing(target: Path, part: Part) -> _Standing | None:
    if not target.exists():
        return None
    if not (target / STORE_FILE).is_file():
        if target.is_dir() and not any(target.iterdir()):
            return None
        raise AlreadyThere(
            "this name is taken by something that is not a store",
            where=str(target),
            hint="another name with -o",
        )
    if (target / STORE_FILE).read_bytes() != part.documents[STORE_FILE]:
        _refuse_other(target, part)
    seal = target / SEAL_FILE
    if not part.sealed or not seal.is_file() or seal.read_bytes() != part.documents[SEAL_FILE]:
        raise AlreadyThere(
            "a copy in another state of work is here", where=str(target), hint="another name"
        )
    return _Standing(Store(open_files(target), read_plan(target)).commits.partial)


def _refuse_other(target: Path, part: Part) -> None:
    plan = read_plan(target)
    there = type(plan).from_bytes(part.documents[STORE_FILE], STORE_FILE)
    plan.recipe.require(there.recipe, where=str(target), what="a store of another recipe is here")
    raise Mismatch(
        "another store of this recipe is here",
        where=str(target),
        hint="another name, then obygaze store merge",
    )


def draft_of(target: Path) -> Path:
    """The hidden folder in which a transfer collects what has arrived."""
    return target.with_name(f".{target.name}.pull")


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """The draft of one transfer, locked; kept when the transfer is interrupted."""
    draft = draft_of(target)
    draft.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not draft.exists() or not os.path.samestat(os.fstat(descriptor), draft.stat()):
            raise BlockingIOError  # just now it became the target of the other process
        yield draft
    except BlockingIOError as error:
        raise AlreadyThere(
            "another process is fetching this store", where=str(target), hint="wait for it"
        ) from error
    finally:
        os.close(descriptor)


class _Load:
    """Fetches the files of one part into a draft."""

    def __init__(self, order: Order, target: Path, draft: Path, progress: Progress) -> None:
        self.files, self.part = order.files, order.part
        self.target, self.draft, self.progress = target, draft, progress
        self.piece_bytes = PIECE_BYTES if order.files.is_remote else LOCAL_PIECE_BYTES
        self.n_kept = 0
        self.stopped = False
        self._lock = Lock()

    def run(self) -> None:
        """Fetch what is not there yet, several files at a time."""
        names = sorted(self.part.files)
        with ThreadPoolExecutor(HASHING) as pool:
            there = list(pool.map(self._has, names))
        wanted = [name for name, has in zip(names, there, strict=True) if not has]
        check_disk(sum(self.part.files[name].n_bytes for name in wanted), self.draft)
        (self.draft / "parts").mkdir(exist_ok=True)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                run_all(pool, self._fetch, wanted)
            except BaseException:
                self.stopped = True
                raise
        shutil.rmtree(self.draft / "parts")

    def _has(self, name: str) -> bool:
        mark = self.part.files[name]
        path = confined(self.draft, name)
        here = path if path.is_file() else self.target / name
        if not _is(here, mark):
            path.unlink(missing_ok=True)
            return False
        with self._lock:
            self.n_kept += 1
            self.progress.advance(mark.n_bytes)
        return True

    def _fetch(self, name: str) -> None:
        mark = self.part.files[name]
        key = hashlib.sha256(f"{name} {mark.sha256}".encode()).hexdigest()
        part = self.draft / "parts" / key
        for _ in range(2):  # what an earlier pull left may be what is wrong
            self._append(name, mark, part)
            if _is(part, mark):
                break
            part.unlink()
        else:
            raise Corrupt(
                f"{name} arrived with other bytes than the seal or marker promises",
                where=self.files.location,
                hint="obygaze store verify --hash where it comes from",
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

    def _advance(self, n_bytes: int) -> None:
        with self._lock:
            self.progress.advance(n_bytes)

    def _read(self, name: str, mark: FileMark, start: int) -> Piece:
        n_bytes = self.piece_bytes
        for attempt in range(TRIES):
            stop = min(start + n_bytes, mark.n_bytes)
            try:
                # The whole file in one plain request, where that is what is wanted.
                whole = stop - start == mark.n_bytes
                piece = self.files.read(name, start, None if whole else stop)
                return self._checked(piece, name, mark, stop - start)
            except Stopped:
                if attempt == TRIES - 1 or self.stopped:
                    raise
                # Smaller pieces come through where a link breaks off again and again.
                n_bytes = max(n_bytes // 8, LEAST_PIECE_BYTES)
                time.sleep(PAUSE_S)
        raise Stopped("the transfer was stopped", where=name, hint=AGAIN)

    def _checked(self, piece: Piece | None, name: str, mark: FileMark, n_bytes: int) -> Piece:
        if piece is None:
            raise Corrupt(f"{name} is missing", where=self.files.location, hint=_VERIFY)
        if piece.total != mark.n_bytes or len(piece.data) != n_bytes:
            raise Corrupt(
                f"{name} has {piece.total} bytes, {mark.n_bytes} were promised",
                where=self.files.location,
                hint=_VERIFY,
            )
        return piece


_VERIFY = "obygaze store verify where it comes from"


def run_all(pool: ThreadPoolExecutor, work: Callable[[str], None], names: Sequence[str]) -> None:
    """Do the work for each name; after the first error, or Ctrl-C, nothing more is begun."""
    running = [pool.submit(work, name) for name in names]
    try:
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        for future in running:
            future.cancel()


def _is(path: Path, mark: FileMark) -> bool:
    try:
        return path.stat().st_size == mark.n_bytes and sha256_file(path) == mark.sha256
    except (FileNotFoundError, NotADirectoryError):
        return False


def _write_documents(draft: Path, part: Part) -> None:
    if part.partial is not None:
        write_atomic(draft / PARTIAL_FILE, part.partial.to_bytes())
    else:
        (draft / PARTIAL_FILE).unlink(missing_ok=True)
    if not part.sealed:  # so that work on it can go on
        (draft / "staging").mkdir(exist_ok=True)
        (draft / "commits").mkdir(exist_ok=True)
    for name, data in part.documents.items():
        write_atomic(confined(draft, name), data)


def _publish(draft: Path, target: Path) -> None:
    for folder, _, _ in os.walk(draft):
        sync_dir(Path(folder))
    if target.is_dir():  # an empty folder
        target.rmdir()
    draft.rename(target)
    sync_dir(target.parent)


def _extend(draft: Path, target: Path, part: Part, old: Partial | None) -> None:
    """Add to a partial copy: first the files, then the word that they are there."""
    for path in sorted(path for path in draft.rglob("*") if path.is_file()):
        place = target / path.relative_to(draft)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
        sync_dir(place.parent)
    shutil.rmtree(draft)
    seal = Seal.from_bytes(part.documents[SEAL_FILE], SEAL_FILE)
    now = merged(old, part.partial)
    if now is None or is_all(now, seal.files):
        (target / PARTIAL_FILE).unlink(missing_ok=True)
        sync_dir(target)
    else:
        write_atomic(target / PARTIAL_FILE, now.to_bytes())

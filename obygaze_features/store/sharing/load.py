"""Fetches files side by side, each checked on arrival; what is half there goes on."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock

from obygaze_features.core.console import Progress
from obygaze_features.core.errors import Corrupt, Stopped
from obygaze_features.core.files import confined, sha256_file
from obygaze_features.store.files.network import AGAIN, NoRanges, Unreachable, transfer
from obygaze_features.store.files.places import Piece
from obygaze_features.store.files.request_counter import CountedFiles
from obygaze_features.store.format.limits import check_disk
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.sharing.selection import AT_ONCE, Part

PIECE_BYTES = 4_000_000
# A folder or a zip on this machine does not break off: fewer, larger pieces.
LOCAL_PIECE_BYTES = 16_000_000
LEAST_PIECE_BYTES = 64_000
HASHING = 4
TRIES = 5
PAUSE_S = 0.2


class Load:
    """The files of one part on their way into a draft; `places` are the target and the draft."""

    def __init__(
        self, files: CountedFiles, part: Part, places: tuple[Path, Path], progress: Progress
    ) -> None:
        self.files, self.part = files, part
        self.target, self.draft = places
        self.progress = progress
        self.piece_bytes = PIECE_BYTES if files.is_remote else LOCAL_PIECE_BYTES
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
        with transfer(), ThreadPoolExecutor(AT_ONCE) as pool:
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
            except NoRanges:
                whole_file = self._checked(self.files.read(name), name, mark, mark.n_bytes)
                return Piece(whole_file.data[start:], whole_file.total)
            except Unreachable:
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

"""Brings a store, or a part of one, from anywhere to a folder: resumable, checked on arrival.

What has arrived lies in a hidden folder beside the target until all of it is there and is what
the seal promised. Files that are half there go on where they stopped; their names are made from
what they must become, so nothing of another store can slip in.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.console import Progress, Quiet, human
from obygaze_features.core.drafts import check_name
from obygaze_features.core.errors import AlreadyThere, Mismatch
from obygaze_features.core.files import confined, sync_dir, write_atomic
from obygaze_features.store.files.places import Files, open_files
from obygaze_features.store.files.request_counter import CountedFiles
from obygaze_features.store.format.disk import disk_errors
from obygaze_features.store.format.records import PARTIAL_FILE, SEAL_FILE, STORE_FILE, Partial, Seal
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.sharing.load import Load
from obygaze_features.store.sharing.selection import Part, is_all, merged, part_of
from obygaze_features.store.write.create import read_plan


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
        load = Load(order.files, order.part, (target, draft), progress or Quiet())
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
    check_name(target)
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

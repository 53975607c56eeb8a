"""Sends a store, or a part of one, to where others can read it; what is there is not sent again.

Nobody sees a half: store.json, without which there is no store, is the last file to be written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.workspace import is_url
from obygaze_features.store.files.network import transfer
from obygaze_features.store.files.places import read_or_none
from obygaze_features.store.files.remotes import Place, open_place
from obygaze_features.store.format.records import (
    PARTIAL_FILE,
    SEAL_FILE,
    STORE_FILE,
    Partial,
    Plan,
    Seal,
)
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.read.reader import Store
from obygaze_features.store.sharing.load import run_all
from obygaze_features.store.sharing.pack import read_checked
from obygaze_features.store.sharing.selection import AT_ONCE, is_all, merged
from obygaze_features.store.sharing.transfer import Order, Transferred, fetch, prepare

# So many files are in memory at once at most.
SENDERS = 4


def push(
    store: Store,
    target: str | Path | Place,
    *,
    levels: Sequence[str] | None = None,
    movies: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Transferred:
    """Send a store to a folder, a bucket or the hub; the same call again goes on.

    With `levels` or `movies` the copy there is partial and says so. `progress` counts bytes.
    """
    return send(prepare(store.files, levels, movies), target, progress)


def send(order: Order, target: str | Path | Place, progress: Progress | None = None) -> Transferred:
    """Send what was ordered."""
    if isinstance(target, str | Path) and not is_url(str(target)):
        return fetch(order, target, progress)
    place = open_place(str(target)) if isinstance(target, str | Path) else target
    return _Sender(order, place, progress or Quiet()).run()


@dataclass
class _There:
    """What is at the place already."""

    store: bytes | None
    seal: bytes | None
    partial: Partial | None


class _Sender:
    def __init__(self, order: Order, place: Place, progress: Progress) -> None:
        self.order, self.part, self.place, self.progress = order, order.part, place, progress
        self.n_bytes = self.n_requests = self.n_kept = 0
        self._lock = Lock()

    def run(self) -> Transferred:
        """Send the files, then the documents, store.json the last."""
        started = time.monotonic()
        self.place.prepare(self.part.files)
        there = self._look()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            kept = list(pool.map(self._has, sorted(self.part.files)))
        wanted = [name for name in kept if name is not None]
        title = Plan.from_bytes(self.part.documents[STORE_FILE], "").recipe.title
        with transfer():
            with ThreadPoolExecutor(SENDERS) as pool:
                run_all(pool, self._send, wanted)
            partial = self._send_documents(there)
            self.place.settle(f"Features: {title}")
        return Transferred(
            source=self.order.files.location,
            target=self.place.location,
            n_files=len(self.part.files) + len(self.part.documents),
            n_files_kept=self.n_kept,
            n_bytes_rows=self.part.n_bytes_rows,
            n_bytes_needed=self.part.n_bytes,
            n_bytes_transferred=self.n_bytes,
            n_requests=self.n_requests,
            seconds=time.monotonic() - started,
            partial=partial,
        )

    def _look(self) -> _There:
        files, documents = self.place.files, self.part.documents
        store = read_or_none(files, STORE_FILE)
        if store is None:
            return _There(None, None, None)
        if store != documents[STORE_FILE]:
            self._refuse_other(store)
        seal, partial = read_or_none(files, SEAL_FILE), read_or_none(files, PARTIAL_FILE)
        if seal is not None and seal != documents.get(SEAL_FILE):
            raise AlreadyThere(
                "a copy in another state of work is there", where=self.place.location, hint=_OTHER
            )
        where = f"{self.place.location}/{PARTIAL_FILE}"
        return _There(store, seal, None if partial is None else Partial.from_bytes(partial, where))

    def _refuse_other(self, there: bytes) -> None:
        ours = Plan.from_bytes(self.part.documents[STORE_FILE], self.order.files.location)
        theirs = Plan.from_bytes(there, self.place.location)
        theirs.recipe.require(
            ours.recipe, where=self.place.location, what="a store of another recipe is there"
        )
        raise AlreadyThere(
            "another store of this recipe is there", where=self.place.location, hint=_OTHER
        )

    def _has(self, name: str) -> str | None:
        mark = self.part.files[name]
        found = self.place.has(name, mark)
        with self._lock:
            self.n_requests += 1
            if found:
                self.n_kept += 1
                self.progress.advance(mark.n_bytes)
        return None if found else name

    def _send(self, name: str) -> None:
        self._put(name, read_checked(self.order.files, self.part, name))

    def _put(self, name: str, data: bytes) -> None:
        self.place.put(name, data, FileMark(len(data), sha256_bytes(data)))
        with self._lock:
            self.n_requests += 1
            self.n_bytes += len(data)
            self.progress.advance(len(data))

    def _send_documents(self, there: _There) -> bool:
        documents = dict(self.part.documents)
        store = documents.pop(STORE_FILE)
        grows = there.store is not None and there.seal is not None
        partial = merged(there.partial, self.part.partial) if grows else self.part.partial
        if partial is not None and self._covers(partial, documents):
            partial = None
        if partial is not None:
            self._put(PARTIAL_FILE, partial.to_bytes())
        for name, data in documents.items():
            self._put(name, data)
        if partial is None and (there.partial is not None or there.store is None):
            self.place.remove(PARTIAL_FILE)
        self._put(STORE_FILE, store)
        return partial is not None

    def _covers(self, partial: Partial, documents: Mapping[str, bytes]) -> bool:
        return is_all(partial, Seal.from_bytes(documents[SEAL_FILE], SEAL_FILE).files)


_OTHER = "another address"

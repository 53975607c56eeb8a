"""Keep the index of a film in a folder: it is made once for all its clips, processes and runs."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np

from obygaze_features.core.files import locked, quick_sha256, write_atomic
from obygaze_features.video.container import av, open_video
from obygaze_features.video.index import FrameIndex
from obygaze_features.video.packet_decoder import PacketDecoder
from obygaze_features.video.probe import describe
from obygaze_features.video.source import (
    CACHED_FILMS,
    DecodedOrder,
    Progress,
    VideoSource,
    open_source,
)

SCHEMA = "obygaze-film-index/1"
_ARRAYS = ("pts", "size", "key", "order", "broken", "clock_s")
_FACTS = tuple(one.name for one in fields(FrameIndex) if one.name not in _ARRAYS)

_FILMS: dict[tuple[str, int, int, Path], _Film] = {}


def no_progress() -> None:
    """Do nothing: the default of `progress`."""


@contextmanager
def open_film(path: Path, indexes: Path, progress: Progress = no_progress) -> Iterator[VideoSource]:
    """Open a film with its index from the folder `indexes`; the index is made if it is missing.

    A process keeps the index of a few films in memory.

    Args:
        path: the video file.
        indexes: the folder of all indexes.
        progress: called again and again while the index is made, also by another process.
    """
    with open_video(path) as (container, stream):
        facts = path.stat()
        identity = str(path.absolute()), facts.st_size, facts.st_mtime_ns, indexes
        if identity not in _FILMS:
            film = _Film(path, indexes / quick_sha256(path)[1])
            film.known = film.load_or_make(lambda known: known, film.make_index, progress)
            _FILMS[identity] = film
            while len(_FILMS) > CACHED_FILMS:
                del _FILMS[next(iter(_FILMS))]
        film = _FILMS[identity]
        once = partial(film.decode_once, progress)
        yield replace(film.index, path=path, container=container, stream=stream, decode_once=once)


def make_index(path: Path, indexes: Path, progress: Progress = no_progress) -> None:
    """Make the index of a film if it is missing; without times, decode the film for it."""
    with open_film(path, indexes, progress) as source:
        if not source.index.timed and source.decode_once is not None:
            source.decode_once()


def film_index(path: Path, indexes: Path) -> tuple[FrameIndex, tuple[int, int]]:
    """Return the exact index of a film, and the stored height and width of its pictures."""
    with open_film(path, indexes) as source:
        shape = source.stream.codec_context
        exact = source.index if source.index.timed else PacketDecoder(source).exact_index()
        return exact, (shape.height, shape.width)


def forbid_seeking(path: Path) -> None:
    """Read a film from its beginning from now on, in this process."""
    for film in _films_at(path):
        film.index.seekable = False


def forget_film(path: Path) -> None:
    """Remove the index of a film from its folder and from memory."""
    for film in _films_at(path):
        film.file.unlink(missing_ok=True)
        film.known = None
    for identity in [identity for identity, film in _FILMS.items() if film.known is None]:
        del _FILMS[identity]


def _films_at(path: Path) -> list[_Film]:
    return [film for film in _FILMS.values() if film.path == path]


@dataclass
class _Film:
    """The index of one film: in memory, and in a file that other processes may write."""

    path: Path
    folder: Path
    known: VideoSource | None = None

    @property
    def file(self) -> Path:
        return self.folder / "index.npz"

    @property
    def index(self) -> VideoSource:
        return cast(VideoSource, self.known)

    def decode_once(self, progress: Progress) -> DecodedOrder:
        """Return which pictures come out of the decoder; the whole film is decoded only once."""
        if self.index.decoded is None:
            self.known = self.load_or_make(
                lambda known: known if known and known.decoded else None, self.decode, progress
            )
        return cast(DecodedOrder, self.index.decoded)

    def load_or_make(
        self,
        complete: Callable[[VideoSource | None], VideoSource | None],
        make: Callable[[Progress], VideoSource],
        progress: Progress,
    ) -> VideoSource:
        """Return what the file contains if it is complete; else make it, in one process only."""
        if found := complete(self._read()):
            return found
        # A workspace that cannot be written to has no indexes.
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
        lock = locked(self.folder, progress) if self.folder.is_dir() else nullcontext()
        with lock:
            if found := complete(self._read()):
                return found
            made = make(progress)
            with suppress(OSError):
                write_atomic(self.file, _packed(made))
        return made

    def make_index(self, progress: Progress) -> VideoSource:
        """Read all packets of the film."""
        with open_source(self.path, progress) as source:
            describe(PacketDecoder(source))
            return replace(source, container=None, stream=None, kept=None, described=True)

    def decode(self, progress: Progress) -> VideoSource:
        """Decode the whole film."""
        with open_source(self.path, progress) as source:
            decoder, keys = PacketDecoder(source), list[bool]()
            describe(decoder)
            before, out = set(decoder.damage), list[int]()

            def take(position: int, frame: Any) -> None:
                out.append(position)
                keys.append(bool(frame.key_frame))
                progress()

            decoder.run(decoder.whole, take)
        damage = frozenset(decoder.damage - before)
        decoded = DecodedOrder(np.array(out, np.int64), np.array(keys, np.bool_), damage)
        return replace(self.index, decoded=decoded)

    def _read(self) -> VideoSource | None:
        """Return what the file contains; None if it is missing, damaged, or of another version."""
        try:
            with np.load(self.file, allow_pickle=False) as arrays:
                return _unpacked(self.path, {name: arrays[name] for name in arrays.files})
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
            return None


def _versions() -> dict[str, Any]:
    return {"schema": SCHEMA, "avformat": list(av().library_versions["libavformat"])}


def _packed(source: VideoSource) -> bytes:
    index, decoded = source.index, source.decoded
    arrays = {name: getattr(index, name) for name in _ARRAYS if getattr(index, name) is not None}
    facts = {name: getattr(index, name) for name in _FACTS}
    own: dict[str, Any] = {"is_broken": source.broken, "declared_s": source.declared_s}
    if decoded is not None:
        arrays |= {"decoded": decoded.positions, "decoded_key": decoded.key}
        own["damage"] = sorted(decoded.damage)
    text = json.dumps({**_versions(), "index": facts, **own})
    file = io.BytesIO()
    np.savez_compressed(file, facts=np.array(text), offset=source.offset, **arrays)
    return file.getvalue()


def _unpacked(path: Path, arrays: dict[str, Any]) -> VideoSource:
    facts = json.loads(str(arrays["facts"]))
    if {name: facts.get(name) for name in _versions()} != _versions():
        raise ValueError("the index of another version")
    columns: dict[str, Any] = {name: arrays.get(name) for name in _ARRAYS}
    index = FrameIndex(**columns, **facts["index"])
    decoded = None
    if "decoded" in arrays:
        damage = frozenset((int(at), bool(spreads)) for at, spreads in facts["damage"])
        decoded = DecodedOrder(arrays["decoded"], arrays["decoded_key"], damage)
    return VideoSource(
        path=path,
        container=None,
        stream=None,
        index=index,
        broken=facts["is_broken"],
        declared_s=facts["declared_s"],
        offset=arrays["offset"],
        described=True,
        decoded=decoded,
    )

"""Keep the index of a film in a folder: it is made once for all its clips, processes and runs."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
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

SCHEMA = "obygaze-film-index/2"
_INDEX = tuple(one.name for one in fields(FrameIndex))

# The arrays, numbers and texts of a file.
Values = dict[str, Any]
T = TypeVar("T")

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
            folder = indexes / quick_sha256(path)[1]
            make, unpack = partial(_read_film, path, progress), partial(_source, path)
            _FILMS[identity] = _Film(folder, _kept(folder / "index.npz", make, unpack, progress))
            while len(_FILMS) > CACHED_FILMS:
                del _FILMS[next(iter(_FILMS))]
        film = _FILMS[identity]
        once = partial(film.decode_once, progress)
        yield replace(film.source, path=path, container=container, stream=stream, decode_once=once)


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
    for film in _FILMS.values():
        if film.source.path == path:
            film.source.seekable = False


def forget_film(path: Path) -> None:
    """Remove the index of a film from its folder and from memory."""
    for identity, film in list(_FILMS.items()):
        if film.source.path == path:
            for file in film.folder.glob("*.npz"):
                file.unlink(missing_ok=True)
            del _FILMS[identity]


@dataclass
class _Film:
    """The index of a film, and the folder of its files, which other processes may write."""

    folder: Path
    source: VideoSource

    def decode_once(self, progress: Progress) -> DecodedOrder:
        """Return which pictures come out of the decoder; the whole film is decoded only once."""
        if self.source.decoded is None:
            make = partial(_decode_film, self.source.path, progress)
            self.source.decoded = _kept(self.folder / "decoded.npz", make, _decoded, progress)
        return self.source.decoded


def _kept(
    file: Path, make: Callable[[], Values], unpack: Callable[[Values], T], progress: Progress
) -> T:
    """Return the content of a file; make it if it is missing or invalid, in one process only."""

    def read() -> T | None:
        with suppress(OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
            return unpack(_read(file))
        return None

    if found := read():
        return found
    # A workspace that cannot be written to has no indexes.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file.parent, progress) if file.parent.is_dir() else nullcontext():
        if found := read():
            return found
        values = make()
        with suppress(OSError):
            write_atomic(file, _packed(values))
    return unpack(values)


def _version() -> str:
    return f"{SCHEMA} avformat {av().library_versions['libavformat']}"


def _packed(values: Values) -> bytes:
    known = {name: value for name, value in values.items() if value is not None}
    file = io.BytesIO()
    np.savez_compressed(file, version=np.array(_version()), **known)
    return file.getvalue()


def _read(file: Path) -> Values:
    with np.load(file, allow_pickle=False) as arrays:
        values = {name: arrays[name] for name in arrays.files}
    if values.pop("version") != _version():
        raise ValueError("the index of another version")
    return {name: value if value.ndim else value.item() for name, value in values.items()}


def _read_film(path: Path, progress: Progress) -> Values:
    """Read all packets of a film; return its index and its facts."""
    with open_source(path, progress) as source:
        describe(PacketDecoder(source))
        facts = {"is_broken": source.broken, "declared_s": source.declared_s}
        index = {name: getattr(source.index, name) for name in _INDEX}
        return {**index, **facts, "offset": source.offset}


def _source(path: Path, values: Values) -> VideoSource:
    index = FrameIndex(**{name: value for name, value in values.items() if name in _INDEX})
    broken, declared_s, offset = (values[name] for name in ("is_broken", "declared_s", "offset"))
    return VideoSource(path, None, None, index, broken, declared_s, offset, described=True)


def _decode_film(path: Path, progress: Progress) -> Values:
    """Decode a whole film; return the pictures that come out."""
    with open_source(path, progress) as source:
        decoder, out, keys = PacketDecoder(source), list[int](), list[bool]()
        describe(decoder)
        before = set(decoder.damage)

        def take(position: int, frame: Any) -> None:
            out.append(position)
            keys.append(bool(frame.key_frame))
            progress()

        decoder.run(decoder.whole, take)
    damage = np.array(sorted(decoder.damage - before), np.int64).reshape(-1, 2)
    return {"positions": np.array(out, np.int64), "key": np.array(keys, bool), "damage": damage}


def _decoded(values: Values) -> DecodedOrder:
    damage = frozenset((at, bool(spreads)) for at, spreads in values["damage"].tolist())
    return DecodedOrder(values["positions"], values["key"], damage)

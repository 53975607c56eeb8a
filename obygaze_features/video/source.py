"""Read the packets of a video once, without decoding, into an index; then read any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.video.container import (
    TIMED_CONTAINERS,
    BadVideo,
    av,
    demux,
    logged_errors,
    open_video,
)
from obygaze_features.video.index import (
    NO_PTS,
    Bools,
    FrameIndex,
    Ints,
    clock_of,
    presentation_order,
)
from obygaze_features.video.losses import lost_before, skipped_in_avi

# Packets of files up to this size stay in memory after the one pass over them.
KEEP_BYTES = 256 * 1024 * 1024
DEFAULT_RATE = 25.0
# The number of large films whose index a process keeps.
CACHED_FILMS = 4

# Called again and again during a long task.
Progress = Callable[[], None]

# Containers in which seeking to a byte does not work; they have a table of pictures.
_WITHOUT_BYTES = ("mov", "matroska", "webm", "avi")
# How many packets before the wanted one are read where a container cannot begin in between.
BEFORE = (4, 32)
# Codecs with packets that show no picture.
_WITH_HIDDEN_PACKETS = frozenset({"vp8", "vp9"})
# Codecs whose decoders do not report most damage.
_UNREPORTED_DAMAGE = frozenset({"vp8", "vp9", "hevc", "av1"})
_TS_SYNC_BYTE = 0x47
_PACKET = np.dtype(
    [(name, np.int64) for name in ("pts", "dts", "size", "offset", "duration")]
    + [(name, np.bool_) for name in ("key", "shown")]
)


class FilmChanged(Exception):
    """The packets of a film are not those of its index."""


@dataclass(frozen=True, eq=False)
class DecodedOrder:
    """The pictures that come out if a whole film is decoded: their positions, in that order.

    `key` tells which are key frames according to the decoder, `damage` where decoding failed, each
    with whether the error spreads to later pictures.
    """

    positions: Ints
    key: Bools
    damage: frozenset[tuple[int, bool]]


@dataclass
class VideoSource:
    """An open video: its stream, its index, and its packets.

    A packet is given its position in the file as its time, so that the picture decoded from it
    names its packet, whatever the times in the file were.

    `broken` is true if the packets are damaged or the file is cut short, `declared_s` the duration
    in the file's header (0 if it has none). `offset` is where each packet begins in the file. An
    index that is `described` needs no correction by `describe`. A film whose index is kept has
    `decode_once`, which returns `decoded` and decodes the film for it if it is still unknown. If it
    is not `seekable`, it is read from its beginning.
    """

    path: Path
    container: Any
    stream: Any
    index: FrameIndex
    broken: bool
    declared_s: float
    offset: Ints
    kept: list[Any] | None = field(default=None, repr=False)
    described: bool = False
    decoded: DecodedOrder | None = None
    decode_once: Callable[[], DecodedOrder] | None = None
    seekable: bool = True

    @property
    def codec(self) -> str:
        """Return the name of the codec."""
        return str(self.stream.codec_context.codec.canonical_name)

    def packets(self, start: int, stop: int) -> Iterator[tuple[int, Any]]:
        """Yield the packets at positions start to stop, both included, in the order of the file."""
        if self.kept is not None:
            yield from enumerate(self.kept[start : stop + 1], start)
            return
        for position, packet in self._read_again(start):
            if packet.size != self.index.size[position]:
                raise FilmChanged
            if position > stop:
                return
            if position >= start:
                packet.pts = packet.dts = position
                yield position, packet

    def mark_losses(self) -> None:
        """Mark the pictures that may depend on a lost one, as the coded pictures show.

        A file too large to keep is read a second time for it, and only if a time is missing.
        """
        if self.kept is None and not self.index.holes.any():
            return
        everything = self.packets(0, len(self.index.pts) - 1)
        coded = ((position, bytes(packet)) for position, packet in everything)
        lost = lost_before(self.index, self.codec, self.stream.codec_context.extradata, coded)
        self.index.broken[lost] = True
        self.broken |= bool(lost)

    def _read_again(self, start: int) -> Iterator[tuple[int, Any]]:
        """Yield the packets of a file that is not kept, from near `start` if seeking is safe."""
        for packets in self._seeks(start) if self.seekable else ():
            # The first packets after seeking may be parts of pictures.
            for packet in islice(packets, 2 * BEFORE[-1]):
                position = self._position_of(packet)
                if position is not None and position > start:
                    break
                if position is not None:
                    yield position, packet
                    yield from enumerate(packets, position + 1)
                    return
        with open_video(self.path) as (container, stream):
            yield from enumerate(demux(container, stream))

    def _seeks(self, start: int) -> Iterator[Iterator[Any]]:
        """Yield the packets after seeking to where a packet is in the file, and to its time."""
        formats, pts = self.container.format.name.split(","), int(self.index.pts[start])
        for at in (start, *(max(0, start - n) for n in BEFORE)):
            offset = int(self.offset[at])
            if offset >= 0 and not any(name in _WITHOUT_BYTES for name in formats):
                yield _packets_from(self.container, self.stream, offset, in_bytes=True)
        if pts != NO_PTS:
            yield _packets_from(self.container, self.stream, pts)

    def _position_of(self, packet: Any) -> int | None:
        """Return the position of a packet after seeking; None if it is not certain."""
        # After seeking to a byte, the times of some containers begin again.
        if packet.pos is not None and packet.pos >= 0:
            same = self.offset == packet.pos
        else:
            same = self.index.pts == (NO_PTS if packet.pts is None else packet.pts)
        found = np.flatnonzero(same & (self.index.size == packet.size))
        return int(found[0]) if len(found) == 1 else None


_CACHE: dict[tuple[str, int, int], VideoSource] = {}


@contextmanager
def open_source(path: Path, progress: Progress | None = None) -> Iterator[VideoSource]:
    """Open a video and read the packets of its stream once, without decoding.

    A process keeps the index of a few large files, so that many clips of one film need one pass.
    `progress` is called for each packet of that pass.
    """
    with open_video(path) as (container, stream):
        facts = path.stat()
        if facts.st_size <= KEEP_BYTES:
            yield _read_source(path, container, stream, progress, kept=[])
            return
        identity = str(path.absolute()), facts.st_size, facts.st_mtime_ns
        if identity not in _CACHE:
            source = _read_source(path, container, stream, progress, kept=None)
            _CACHE[identity] = replace(source, container=None, stream=None)
            while len(_CACHE) > CACHED_FILMS:
                del _CACHE[next(iter(_CACHE))]
        yield replace(_CACHE[identity], container=container, stream=stream)


def _packets_from(
    container: Any, stream: Any, offset: int, *, in_bytes: bool = False
) -> Iterator[Any]:
    """Yield the packets from the key frame before a time, or from a byte; none if seeking fails."""
    try:
        container.seek(offset, stream=stream, backward=True, unsupported_byte_offset=in_bytes)
    except av().FFmpegError:
        return
    yield from demux(container, stream)


def _read_source(
    path: Path,
    container: Any,
    stream: Any,
    progress: Progress | None,
    *,
    kept: list[Any] | None,
) -> VideoSource:
    """Read all packets into an index, and into `kept` if it is a list."""
    declared_s = _declared_s(container, stream)
    table, damaged, broken = _read_packets(container, stream, kept, progress)
    if not len(table):
        raise BadVideo("no picture in the file", path=path, stage="open", reason="no-frames")
    if container.format.name == "avi":
        entries = ((entry.pos, entry.size) for entry in stream.index_entries)
        for position in skipped_in_avi(entries, table["offset"]):
            damaged[position] |= not table["key"][position]
    if container.format.name == "mpegts" and _ends_inside_a_packet(path):
        damaged[-1] = True
    index = _index_of(table, damaged, container, stream)
    broken = broken or bool(index.broken.any())
    offset = table["offset"].copy()
    source = VideoSource(path, container, stream, index, broken, declared_s, offset, kept)
    source.mark_losses()
    return source


def _read_packets(
    container: Any, stream: Any, kept: list[Any] | None, progress: Progress | None
) -> tuple[NDArray[np.void], list[bool], bool]:
    """Read every packet of a stream.

    Returned are the table of packets, which of them are damaged, and whether the container is
    damaged or cut short.
    """
    codec = stream.codec_context.codec.canonical_name
    rows: list[tuple[int, ...]] = []
    damaged: list[bool] = []
    cut, reported = False, 0
    with logged_errors(container) as count_errors:
        try:
            for packet in demux(container, stream):
                if progress is not None:
                    progress()
                rows.append(_row(packet, codec in _WITH_HIDDEN_PACKETS and _is_hidden(packet)))
                damaged.append(packet.is_corrupt)
                if kept is not None:
                    packet.pts = packet.dts = len(kept)
                    kept.append(packet)
                if codec in _UNREPORTED_DAMAGE and reported < (reported := count_errors()):
                    # The damage is in this packet, in the one before, or between them; a key
                    # frame after it is whole.
                    damaged[-2:] = [True, not packet.is_keyframe][: len(damaged)]
            if codec in _UNREPORTED_DAMAGE and reported < count_errors() and rows:
                damaged[-1] = True
        except av().FFmpegError:
            cut = True
        cut = cut or count_errors() > 0
    return np.array(rows, dtype=_PACKET), damaged, cut


def _row(packet: Any, hidden: bool) -> tuple[int, ...]:
    pts = NO_PTS if packet.pts is None else packet.pts
    dts = NO_PTS if packet.dts is None else packet.dts
    offset = -1 if packet.pos is None else packet.pos
    shown = not hidden and not packet.is_discard
    return pts, dts, packet.size, offset, packet.duration or 0, packet.is_keyframe, shown


def _index_of(
    table: NDArray[np.void], damaged: list[bool], container: Any, stream: Any
) -> FrameIndex:
    """Make the index from the table of packets, with times where format and times allow."""
    pts, shown = table["pts"].copy(), table["shown"]
    codec = stream.codec_context
    tick = float(stream.time_base)
    rate = float(stream.guessed_rate or stream.average_rate or DEFAULT_RATE)
    origin_s = (container.start_time or 0) / float(av().time_base)
    order = clock_s = None
    if any(name in TIMED_CONTAINERS for name in container.format.name.split(",")):
        reorder = codec.reorder_depth if codec.codec.reorder else 0
        order = presentation_order(pts, shown, reorder)
        if order is None:
            clock_s = clock_of(pts[shown], tick, origin_s)
    else:
        # The times of showing in AVI are guessed, but the length of each slot is known.
        clock_s = clock_of(table["dts"][shown], tick, None)
    last_s = 1 / rate if clock_s is None else float(np.median(np.diff(clock_s)))
    if order is not None:
        last_s = int(table["duration"][table["duration"] != 0][-1:].sum()) * tick
    return FrameIndex(
        pts=pts,
        size=table["size"].copy(),
        key=table["key"].copy(),
        order=np.flatnonzero(shown) if order is None else order,
        timed=order is not None,
        counted=False,
        seconds_per_tick=tick,
        origin_s=origin_s,
        rate=rate,
        last_s=last_s,
        broken=np.array(damaged, dtype=np.bool_),
        clock_s=clock_s,
    )


def _ends_inside_a_packet(path: Path) -> bool:
    """Return whether a transport stream was cut, which can truncate its last picture unnoticed.

    Packets begin with a sync byte every 188 bytes, or 204, or after 4 more bytes every 192.
    """
    for size, late in ((188, 0), (204, 0), (192, 4)):
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 8 * size))
            tail = stream.read()
        synced = [at for at in range(size) if set(tail[at::size]) == {_TS_SYNC_BYTE}]
        if synced and len(tail) == 8 * size:
            return late not in synced
    return False


def _declared_s(container: Any, stream: Any) -> float:
    """Return the duration of the pictures by the header of the file; 0 if it has none."""
    if stream.frames and stream.average_rate:
        return float(stream.frames / stream.average_rate)
    if stream.duration:
        return float(stream.duration * stream.time_base)
    return (container.duration or 0) / float(av().time_base)


def _is_hidden(packet: Any) -> bool:
    """Return whether a packet of VP8 or VP9 only prepares later pictures and shows none."""
    data = memoryview(packet)
    if packet.stream.codec_context.codec.canonical_name == "vp8":
        return not data[0] >> 4 & 1
    if data[-1] >> 5 == 0b110:
        # Several coded pictures in one packet end with an index; the last of them is shown.
        return False
    # Frame marker (2 bits), profile (2, and one more for the fourth), then: show an existing
    # frame, frame type, show this frame.
    at = 5 if data[0] >> 4 & 0b11 == 0b11 else 4
    bits = data[0] << 8 | (data[1] if len(data) > 1 else 0)
    return not bits >> (15 - at) & 1 and not bits >> (13 - at) & 1

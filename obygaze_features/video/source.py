"""Open a video file and read its packets: the right stream, nothing but files, failures named."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.extras import need
from obygaze_features.video.continuity import losses, skipped_in_avi
from obygaze_features.video.errors import BadVideo
from obygaze_features.video.index import NO_PTS, FrameIndex, clock_of, presentation_order

# Their packets carry times that can be trusted where they are complete and unique.
TIMED_CONTAINERS = ("mov", "matroska", "webm", "mpegts", "mpeg", "flv")
# What a file may be. Play lists and text art are "video" to FFmpeg too: the first would make it
# open other files and addresses, the second turns any text into pictures.
CONTAINERS = (
    *TIMED_CONTAINERS,
    *("avi", "h264", "hevc", "vvc", "m4v", "mpegvideo", "h263", "h261", "mjpeg", "obu", "av1"),
    *("ivf", "ogg", "asf", "gif", "apng", "nut", "mxf", "rm", "dv", "wtv", "gxf", "vc1"),
    *("yuv4mpegpipe", "swf", "dirac", "cavsvideo"),
)
# Packets of files up to this size stay in memory after the one pass over them.
KEEP_BYTES = 256 * 1024 * 1024
DEFAULT_RATE = 25.0
# Films whose index is remembered by one process.
MOST_KNOWN = 4

# Codecs whose packets may hold nothing to show.
_HIDING = frozenset({"vp8", "vp9"})
# Codecs whose decoders say nothing of most damage.
_SILENT = frozenset({"vp8", "vp9", "hevc", "av1"})
_TS_MARK = 0x47
_LOG_LOCK = threading.Lock()
_LOGGING: list[int | None] = []


def av() -> Any:
    """PyAV, or what to install to get it."""
    return need("av", "extract", "reading videos")


@dataclass
class Source:
    """An open video: its stream, its index, and its packets, each marked with its position.

    `broken` says that reading the packets met damage or a missing end, `declared_s` how long the
    file says it is.

    A packet is given its position as its time, so that the picture it becomes says where it
    came from, whatever the times in the file were.
    """

    path: Path
    container: Any
    stream: Any
    index: FrameIndex
    broken: bool
    declared_s: float
    kept: list[Any] | None = field(default=None, repr=False)

    def packets(self, start: int, stop: int) -> Iterator[tuple[int, Any]]:
        """The packets at positions start .. stop, in the order of the file."""
        if self.kept is not None:
            yield from enumerate(self.kept[start : stop + 1], start)
            return
        for position, packet in self._read_again(start):
            if position > stop:
                return
            if position >= start:
                packet.pts = packet.dts = position
                yield position, packet

    @property
    def codec(self) -> tuple[str, bytes | None]:
        """The name of the codec, and what it needs to know beforehand."""
        context = self.stream.codec_context
        return context.codec.canonical_name, context.extradata

    def note_losses(self) -> None:
        """Mark the pictures before which the coded pictures themselves say one is lost.

        A file too large to keep is read a second time for it only where a time is missing.
        """
        if self.kept is None and not self.index.holes.any():
            return
        everything = self.packets(0, len(self.index.pts) - 1)
        coded = ((position, bytes(packet)) for position, packet in everything)
        lost = losses(self.index, *self.codec, coded)
        self.index.broken[lost] = True
        self.broken |= bool(lost)

    def _read_again(self, start: int) -> Iterator[tuple[int, Any]]:
        """Packets of a file too large to keep, from near `start` where seeking can be trusted."""
        with _opened(self.path) as (container, stream):
            first = None
            if self.index.timed and _seek(container, stream, int(self.index.pts[start])):
                packets = _demux(container, stream)
                first = next(packets, None)
                position = self._recognise(first, start)
                if position is not None:
                    yield position, first
                    yield from enumerate(packets, position + 1)
                    return
        with _opened(self.path) as (container, stream):
            yield from enumerate(_demux(container, stream))

    def _recognise(self, packet: Any, start: int) -> int | None:
        """The position of the first packet after seeking; None where it is not surely known."""
        if packet is None or packet.pts is None:
            return None
        same = (self.index.pts == packet.pts) & (self.index.size == packet.size)
        found = np.flatnonzero(same)
        return int(found[0]) if len(found) == 1 and found[0] <= start else None


_KNOWN: OrderedDict[tuple[str, int, int], Source] = OrderedDict()


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a video and read the packets of its stream once, without decoding.

    The index of a large file is remembered while the process lives, so that many clips of one
    film pay for that pass once.
    """
    with _opened(path) as (container, stream):
        small = path.stat().st_size <= KEEP_BYTES
        known = None if small else _KNOWN.get(_identity(path))
        if known is not None:
            yield replace(known, container=container, stream=stream)
            return
        table = _Table(keep=small)
        declared_s = _declared_s(container, stream)
        broken = _read_all(container, stream, table)
        if not table.pts:
            raise BadVideo("no picture in it", path=path, stage="open", reason="no-frames")
        if container.format.name == "avi":
            table.note_skipped((entry.pos, entry.size) for entry in stream.index_entries)
        if container.format.name == "mpegts" and _ends_inside_a_packet(path):
            table.broken[-1] = True
        index = table.index(container, stream)
        broken = broken or bool(index.broken.any())
        kept = table.packets if small else None
        source = Source(path, container, stream, index, broken, declared_s, kept)
        source.note_losses()
        if not small:
            _KNOWN[_identity(path)] = replace(source, container=None, stream=None)
            while len(_KNOWN) > MOST_KNOWN:
                _KNOWN.popitem(last=False)
        yield source


def _identity(path: Path) -> tuple[str, int, int]:
    facts = path.stat()
    return str(path.absolute()), facts.st_size, facts.st_mtime_ns


def _read_all(container: Any, stream: Any, table: _Table) -> bool:
    """Note every packet of the stream; True where the container is damaged or cut short."""
    codec = stream.codec_context.codec.canonical_name
    known = 0
    with _complaints(container.format.name) as complaints:
        try:
            for packet in _demux(container, stream):
                table.add(packet, codec in _HIDING and _hidden(packet))
                if codec in _SILENT and known < (known := len(complaints())):
                    table.doubt(2)
        except av().FFmpegError:
            return True
        if codec in _SILENT and known < len(complaints()) and table.pts:
            table.doubt(1)
        return bool(complaints())


def _ends_inside_a_packet(path: Path) -> bool:
    """Whether a transport stream was cut: its last picture may lack bytes, and no decoder sees it.

    Packets begin with a mark every 188 bytes, or 204, or 4 bytes late every 192.
    """
    for size, late in ((188, 0), (204, 0), (192, 4)):
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 8 * size))
            tail = stream.read()
        marked = [at for at in range(size) if set(tail[at::size]) == {_TS_MARK}]
        if marked and len(tail) == 8 * size:
            return late not in marked
    return False


def _declared_s(container: Any, stream: Any) -> float:
    """How long the pictures last by the file's own word; 0 where it does not say."""
    if stream.frames and stream.average_rate:
        return float(stream.frames / stream.average_rate)
    if stream.duration:
        return float(stream.duration * stream.time_base)
    return (container.duration or 0) / float(av().time_base)


@contextmanager
def _complaints(container: str) -> Iterator[Callable[[], list[Any]]]:
    """The errors a reader of containers has logged so far: some damage it tells in no other way."""
    logging = av().logging
    with _LOG_LOCK:
        _LOGGING.append(logging.get_level())
        logging.set_level(logging.ERROR)
        logging.set_skip_repeated(False)
    try:
        with logging.Capture() as lines:
            yield lambda: [
                line for line in lines if line[0] <= logging.ERROR and line[1] == container
            ]
    finally:
        with _LOG_LOCK:
            before = _LOGGING.pop()
            if not _LOGGING:
                logging.set_level(before)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """The container and its stream of pictures, or an error that says what the file is not."""
    library = av()
    if not path.exists():
        raise BadVideo("no such file", path=path, stage="open", reason="missing")
    if not path.is_file():
        raise BadVideo("not a file", path=path, stage="open", reason="unreadable")
    options = {"protocol_whitelist": "file", "format_whitelist": ",".join(CONTAINERS)}
    try:
        # The prefix keeps a colon in a name from being read as an address.
        container = library.open(
            f"file:{path}", container_options=options, metadata_errors="replace"
        )
    except PermissionError as error:
        raise BadVideo(
            "no permission to read it", path=path, stage="open", reason="unreadable"
        ) from error
    except (library.FFmpegError, ValueError) as error:
        raise BadVideo(_why(path), path=path, stage="open", reason="unreadable") from error
    with container:
        yield container, _choose_stream(container, path)


def _why(path: Path) -> str:
    size = path.stat().st_size
    if not size:
        return "the file is empty"
    with path.open("rb") as stream:
        head = stream.read(4096)
    if b"ftyp" in head[:16]:
        return "the file ends before its table of contents (a download cut short)"
    return "the file is not a video, or its beginning is damaged"


def _choose_stream(container: Any, path: Path) -> Any:
    """The stream of moving pictures: no cover, no thumbnails; the default one, then the largest."""
    kinds = av().stream.Disposition
    not_moving = kinds.attached_pic | kinds.timed_thumbnails | kinds.still_image
    streams = [
        stream
        for stream in container.streams.video
        if not stream.disposition & not_moving and stream.codec_context is not None
    ]
    if not streams:
        raise BadVideo("no video stream", path=path, stage="open", reason="no-video")
    return max(
        streams,
        key=lambda stream: (
            bool(stream.disposition & kinds.default),
            stream.codec_context.width * stream.codec_context.height,
            -stream.index,
        ),
    )


def _demux(container: Any, stream: Any) -> Iterator[Any]:
    while True:
        try:
            yield from (packet for packet in container.demux(stream) if packet.size)
        except IndexError:
            # PyAV trips over a packet of a stream that was not there when it began; reading goes
            # on behind it.
            continue
        return


def _seek(container: Any, stream: Any, pts: int) -> bool:
    try:
        container.seek(pts, stream=stream, backward=True)
    except av().FFmpegError:
        return False
    return True


class _Table:
    """What one pass over the packets collects; `keep` keeps the packets, marked."""

    def __init__(self, *, keep: bool) -> None:
        self.keep = keep
        self.pts: list[int] = []
        self.dts: list[int] = []
        self.size: list[int] = []
        self.key: list[bool] = []
        self.shown: list[bool] = []
        self.broken: list[bool] = []
        self.place: list[int] = []
        self.packets: list[Any] = []
        self.last_ticks = 0

    def add(self, packet: Any, hidden: bool) -> None:
        """Note one packet."""
        self.pts.append(NO_PTS if packet.pts is None else packet.pts)
        self.dts.append(NO_PTS if packet.dts is None else packet.dts)
        self.size.append(packet.size)
        self.key.append(packet.is_keyframe)
        self.shown.append(not hidden and not packet.is_discard)
        self.broken.append(packet.is_corrupt)
        self.place.append(-1 if packet.pos is None else packet.pos)
        self.last_ticks = packet.duration or self.last_ticks
        if self.keep:
            packet.pts = packet.dts = len(self.packets)
            self.packets.append(packet)

    def doubt(self, count: int) -> None:
        """Say that damage in the container lies within the last packets, or between them."""
        first = max(0, len(self.broken) - count)
        # A key frame after the damage is whole.
        self.broken[first:] = [
            at == first or not self.key[at] for at in range(first, len(self.key))
        ]

    def note_skipped(self, entries: Iterable[tuple[int, int]]) -> None:
        """Mark the pictures before which the table of an AVI names others."""
        for position in skipped_in_avi(entries, self.place):
            self.broken[position] |= not self.key[position]

    def index(self, container: Any, stream: Any) -> FrameIndex:
        """The index of the pictures, timed where container and times allow."""
        pts = np.array(self.pts, dtype=np.int64)
        shown = np.array(self.shown, dtype=np.bool_)
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
            # AVI guesses when pictures are shown, but knows how long each slot is.
            clock_s = clock_of(np.array(self.dts, dtype=np.int64)[shown], tick, None)
        even_s = 1 / rate if clock_s is None else float(np.median(np.diff(clock_s)))
        return FrameIndex(
            pts=pts,
            size=np.array(self.size, dtype=np.int64),
            key=np.array(self.key, dtype=np.bool_),
            order=np.flatnonzero(shown) if order is None else order,
            timed=order is not None,
            counted=False,
            seconds_per_tick=tick,
            origin_s=origin_s,
            rate=rate,
            last_s=even_s if order is None else self.last_ticks * tick,
            broken=np.array(self.broken, dtype=np.bool_),
            clock_s=clock_s,
        )


def _hidden(packet: Any) -> bool:
    """Whether a packet of VP8 or VP9 only prepares later pictures and shows none."""
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

"""Read the packets of a video once, without decoding, into what is known of the film."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from obygaze_features.video.container import (
    TIMED_CONTAINERS,
    BadVideo,
    Progress,
    av,
    demux,
    logged_errors,
)
from obygaze_features.video.index import (
    NO_PTS,
    Bools,
    Damage,
    FrameIndex,
    Ints,
    clock_of,
    presentation_order,
)
from obygaze_features.video.losses import (
    is_refreshed_gradually,
    length_size_of,
    skipped_in_avi,
)

DEFAULT_RATE = 25.0

# Codecs with packets that show no picture.
_WITH_HIDDEN_PACKETS = frozenset({"vp8", "vp9"})
# Codecs whose decoders do not report most damage.
_UNREPORTED_DAMAGE = frozenset({"vp8", "vp9", "hevc", "av1"})
_TS_SYNC_BYTE = 0x47
_GIF_PICTURE = b","
_GIF_EXTENSION = b"!"
_GIF_END = b";"
_PACKET = np.dtype(
    [(name, np.int64) for name in ("pts", "dts", "size", "offset", "duration")]
    + [(name, np.bool_) for name in ("key", "shown", "gradual")]
)


@dataclass(frozen=True, eq=False)
class DecodedOrder:
    """The pictures that come out if a whole film is decoded: their positions, in that order.

    `key` tells which are key frames according to the decoder, `damage` where decoding failed, each
    with whether the error spreads to later pictures.
    """

    positions: Ints
    key: Bools
    damage: Damage


@dataclass
class Film:
    """What is known of a video file without opening it.

    `broken` is true if the packets are damaged or the file is cut short, `declared_s` the duration
    in the file's header (0 if it has none). `offset` is where each packet begins in the file. The
    index of a film that has a `folder` is kept there; `decoded` is known once such a film has been
    decoded. A film that is not `seekable` is read from its beginning.
    """

    index: FrameIndex
    broken: bool
    declared_s: float
    offset: Ints
    folder: Path | None = None
    decoded: DecodedOrder | None = None
    seekable: bool = True

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints]:
        return np.argsort(self.offset), np.argsort(self.index.pts)

    def position_of(self, packet: Any) -> int | None:
        """Return the position of a packet that was read after seeking; None if it is not certain.

        It is the one packet at this place in the file, or at this time, of this size.
        """
        by_offset, by_pts = self._sorted
        values = self.offset
        order = by_offset
        value = packet.pos
        # After seeking to a byte, the times of some containers begin again.
        if value is None or value < 0:
            values = self.index.pts
            order = by_pts
            value = packet.pts
            value = NO_PTS if value is None else value
        sides = (
            np.searchsorted(values, value, side, order) for side in ("left", "right")
        )
        candidates = order[slice(*sides)]
        candidates = candidates[self.index.size[candidates] == packet.size]
        return int(candidates[0]) if len(candidates) == 1 else None

    def end_s(self, index: FrameIndex) -> float:
        """Return when the film ends: after its last picture, or as its header says, if later."""
        last_picture_s = float(index.times_s[-1]) + index.last_s
        return max(last_picture_s, self.declared_s)

    def missing_share(
        self, index: FrameIndex, span: tuple[int, int], end_s: float | None
    ) -> float:
        """Return the share of a span's pictures that is missing from the file, if it is broken."""
        if not self.broken:
            return 0.0
        until_s = self.declared_s if end_s is None else min(self.declared_s, end_s)
        missing = index.count_missing(span, until_s)
        return missing / (missing + span[1] - span[0])


def read_packets(
    path: Path,
    container: Any,
    stream: Any,
    packets: list[Any] | None,
    progress: Progress,
) -> Film:
    """Read all packets of an open video into an index, and into `packets` if it is a list.

    `progress` is called for each packet.
    """
    declared_s = _declared_s(container, stream)
    table, damaged, broken = _read_packets(container, stream, packets, progress)
    if not len(table):
        raise BadVideo(
            "no picture in the file", path=path, stage="open", reason="no-frames"
        )
    if container.format.name == "avi":
        entries = ((entry.pos, entry.size) for entry in stream.index_entries)
        reorders = reorder_depth(stream.codec_context) > 0
        for position in skipped_in_avi(entries, table["offset"]):
            if not table["key"][position]:
                damaged[position] = True
            elif reorders and position + 1 < len(table):
                # A key frame is whole; pictures stored after it may be shown before it.
                damaged[position + 1] |= not table["key"][position + 1]
    if container.format.name == "mpegts" and _ends_inside_a_packet(path):
        damaged[-1] = True
    last_at = int(table["offset"][-1])
    if container.format.name == "gif" and not _has_end_of_gif(path, last_at):
        damaged[-1] = True
    index = _index_of(table, damaged, container, stream)
    broken = broken or bool(index.broken.any())
    return Film(index, broken, declared_s, table["offset"].copy())


def _declared_s(container: Any, stream: Any) -> float:
    """Return the duration in the header of a file; 0 if it is not there."""
    if stream.frames and stream.average_rate:
        return float(stream.frames / stream.average_rate)
    if stream.duration:
        return float(stream.duration * stream.time_base)
    return (container.duration or 0) / float(av().time_base)


def _read_packets(
    container: Any, stream: Any, packets: list[Any] | None, progress: Progress
) -> tuple[NDArray[np.void], list[bool], bool]:
    """Read every packet of a stream.

    Returned are the table of packets, which of them are damaged, and whether the container is
    damaged or cut short.
    """
    codec = stream.codec_context.codec.canonical_name
    length_size = length_size_of(codec, stream.codec_context.extradata)
    rows: list[tuple[int, ...]] = []
    damaged: list[bool] = []
    cut = False
    n_reported = 0
    with logged_errors(container) as count_errors:
        try:
            for packet in demux(container, stream):
                progress()
                rows.append(_row_of(packet, codec, length_size))
                damaged.append(packet.is_corrupt)
                if packets is not None:
                    packet.pts = packet.dts = len(packets)
                    packets.append(packet)
                if codec not in _UNREPORTED_DAMAGE:
                    continue
                n_before = n_reported
                n_reported = count_errors()
                if n_reported > n_before:
                    # The damage is in this packet, in the one before, or between them; a key
                    # frame after it is whole.
                    damaged[-2:] = [True, not packet.is_keyframe][: len(damaged)]
            if codec in _UNREPORTED_DAMAGE and n_reported < count_errors() and rows:
                damaged[-1] = True
        except av().FFmpegError:
            cut = True
        cut = cut or count_errors() > 0
    return np.array(rows, dtype=_PACKET), damaged, cut


def _row_of(packet: Any, codec: str, length_size: int) -> tuple[int, ...]:
    """Return the row of a packet in the table of packets."""
    gradual = False
    if codec == "h264" and packet.is_keyframe:
        gradual = is_refreshed_gradually(bytes(packet), length_size)
    hidden = codec in _WITH_HIDDEN_PACKETS and _is_hidden(packet)
    pts = NO_PTS if packet.pts is None else packet.pts
    dts = NO_PTS if packet.dts is None else packet.dts
    offset = -1 if packet.pos is None else packet.pos
    return (
        pts,
        dts,
        packet.size,
        offset,
        packet.duration or 0,
        packet.is_keyframe,
        not hidden and not packet.is_discard,
        gradual,
    )


def _index_of(
    table: NDArray[np.void], damaged: list[bool], container: Any, stream: Any
) -> FrameIndex:
    """Make the index from the table of packets, with times where format and times allow."""
    pts = table["pts"].copy()
    shown = table["shown"]
    codec = stream.codec_context
    tick = float(stream.time_base)
    rate = float(stream.guessed_rate or stream.average_rate or DEFAULT_RATE)
    origin_s = (container.start_time or 0) / float(av().time_base)
    order = clock_s = None
    pts_are_times = any(
        name in TIMED_CONTAINERS for name in container.format.name.split(",")
    )
    jump = -1
    broken = np.array(damaged, dtype=np.bool_)
    if pts_are_times:
        order = presentation_order(pts, shown, reorder_depth(codec))
        if order is None:
            jump = _jump_back(table["dts"], reorder_depth(codec))
            if jump >= 0:
                broken[_up_to_key_after_jumps(table)] = True
            # Times that begin again say nothing of when pictures are shown.
            if jump < 0:
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
        broken=broken,
        clock_s=clock_s,
        pts_are_times=pts_are_times,
        jump=jump,
        gradual=table["gradual"].copy(),
    )


def _jump_back(dts: Ints, reorder: int) -> int:
    """Return the position of the first packet before which the clock was set back; -1 if none.

    The times of decoding increase in an intact film. Small steps back are disorder: a clock that
    was set back is behind by more pictures than a codec reorders.
    """
    (with_time,) = np.nonzero(dts != NO_PTS)
    times = dts[with_time]
    steps = np.diff(times)
    if not (steps > 0).any():
        return -1
    back = np.maximum.accumulate(times) - times
    allowed = (reorder + 2) * np.median(steps[steps > 0])
    (behind,) = np.nonzero(back > allowed)
    return int(with_time[behind[0]]) if len(behind) else -1


def _up_to_key_after_jumps(table: NDArray[np.void]) -> Ints:
    """Return the positions between places where a clock is set back and their next key frames.

    Pictures there build on those of another recording.
    """
    (with_time,) = np.nonzero(table["dts"] != NO_PTS)
    times = table["dts"][with_time]
    jumps = with_time[1:][np.diff(times) < 0]
    keys = np.append(np.flatnonzero(table["key"]), len(table))
    next_keys = keys[np.searchsorted(keys, jumps)]
    spans = [np.arange(jump, key) for jump, key in zip(jumps, next_keys, strict=True)]
    return np.concatenate([np.zeros(0, np.int64), *spans])


def reorder_depth(codec: Any) -> int:
    """Return how many pictures of a codec may be stored before one that is shown earlier."""
    return codec.reorder_depth if codec.codec.reorder else 0


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


def _has_end_of_gif(path: Path, offset: int) -> bool:
    """Return whether the last picture of a GIF, at an offset, is whole and the end follows."""
    with path.open("rb") as stream:
        stream.seek(offset)
        head = stream.read(6)
        if head.startswith(b"GIF"):
            _skip_colours_of_gif(stream, stream.read(7)[4:5])
        else:
            stream.seek(offset)
        while True:
            block = stream.read(1)
            if block == _GIF_PICTURE:
                _skip_colours_of_gif(stream, stream.read(9)[8:])
            elif block != _GIF_EXTENSION:
                return block == _GIF_END
            # The size of codes of a picture, or the kind of an extension; then pieces of data.
            stream.read(1)
            length = stream.read(1)
            while length not in (b"", b"\0"):
                stream.seek(length[0], 1)
                length = stream.read(1)


def _skip_colours_of_gif(stream: BinaryIO, flags: bytes) -> None:
    """Skip a table of colours, if the flags before it say that there is one."""
    if flags and flags[0] & 0x80:
        stream.seek(3 << (flags[0] & 7) + 1, 1)


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

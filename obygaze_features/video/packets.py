"""Read the packets of a video once, without decoding, into the index of the film."""

import math
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.video.container import (
    SETTINGS_CHANGE,
    TIMED_CONTAINERS,
    BadVideo,
    OnProgress,
    OpenVideo,
    av,
    clock_zero,
    count_logged_errors,
    demux,
    errors_at_opening,
    open_video,
)
from obygaze_features.video.damage import (
    GAP,
    ends_inside_a_packet,
    first_doubtful_byte,
    gaps,
    in_doubtful_clusters,
    lost_in_time,
)
from obygaze_features.video.h264 import CodedPictures, H264Reader, HevcReader
from obygaze_features.video.index import (
    NO_PTS,
    Bools,
    FrameIndex,
    Ints,
    find_clock,
    presentation_order,
)

DEFAULT_RATE = 25.0

# Codecs with packets that show no picture.
_WITH_HIDDEN_PACKETS = frozenset({"vp8", "vp9"})
# Codecs whose packets state which pictures are references.
_WITH_REFERENCES: dict[str, type[H264Reader] | type[HevcReader]] = {
    "h264": H264Reader,
    "hevc": HevcReader,
}
_PACKET = np.dtype(
    [(name, np.int64) for name in ("pts", "dts", "size", "offset", "duration")]
    + [(name, np.bool_) for name in ("key", "shown")]
)


@dataclass(frozen=True, eq=False)
class DecodedOrder:
    """The positions of all pictures of a film, in the order in which the decoder outputs them.

    `key` marks the pictures that the decoder calls key frames; `damage` lists the positions at
    which the decoder found errors.
    """

    positions: Ints
    key: Bools
    damage: Ints


@dataclass(eq=False)
class PacketTable:
    """The time, the mark and the byte offset of each packet of a stream.

    The mark of a packet is its size or a checksum, as returned by `mark_of`. By its mark, a packet
    that is read later is recognized as the expected one. If `seekable` is false, packets are read
    from the beginning of the file.
    """

    pts: Ints
    marks: Ints
    offset: Ints
    mark_of: Callable[[Any], int]
    seekable: bool = True

    @cached_property
    def _orders(self) -> tuple[Ints | None, Ints | None]:
        """Return the indices that sort packets by offset and by time; None if they are sorted."""
        return _sort_order(self.offset), _sort_order(self.pts)

    def find_position(self, packet: Any) -> int | None:
        """Return the position of a packet that was read after seeking, or None if it is ambiguous.

        The position is known if exactly one packet of the table has the same mark and the same
        offset. If a packet has no offset, its time is compared instead.
        """
        by_offset, by_pts = self._orders
        values = self.offset
        order = by_offset
        value = packet.pos
        # Offsets come first: after seeking to a byte, the times of some containers begin again.
        if value is None or value < 0:
            values = self.pts
            order = by_pts
            value = packet.pts
            value = NO_PTS if value is None else value
        sides = (
            np.searchsorted(values, value, side, order) for side in ("left", "right")
        )
        candidates: Ints = np.arange(*sides)
        if order is not None:
            candidates = order[candidates]
        candidates = candidates[self.marks[candidates] == self.mark_of(packet)]
        return int(candidates[0]) if len(candidates) == 1 else None


def _sort_order(values: Ints) -> Ints | None:
    """Return the indices that sort numbers. Return None if they are sorted, as in most films."""
    return None if (values[1:] >= values[:-1]).all() else np.argsort(values)


@dataclass
class IndexedFilm:
    """The index of a video file, and other facts that are known without opening the file.

    Args:
        index: The index of the pictures.
        broken: Whether the container is damaged, or the file is cut short.
        declared_s: The end of the film that its header states, in seconds; 0 if it states none.
        offset: The byte at which each packet begins.
        folder: The folder in which the index is stored; None: it is not stored.
        decoded: The pictures of the whole film as the decoder outputs them; None: not decoded yet.
        takes_key_twice: Whether the decoder outputs pictures that are stored after a key frame but
            shown before it, if it gets the key frame twice.
    """

    index: FrameIndex
    broken: bool
    declared_s: float
    offset: Ints
    folder: Path | None = None
    decoded: DecodedOrder | None = None
    takes_key_twice: bool = False

    @property
    def damaged(self) -> bool:
        """Return whether packets are known to be damaged or missing."""
        decoded = self.decoded is not None and len(self.decoded.damage) > 0
        return self.broken or self.index.has_damage or decoded

    @cached_property
    def table(self) -> PacketTable:
        """Return the table by which packets are found again in the file."""
        return PacketTable(
            self.index.pts, self.index.size, self.offset, attrgetter("size")
        )

    def end_s(self, index: FrameIndex) -> float:
        """Return the end of the last picture, or the end in the header if that is later."""
        last_picture_s = float(index.times_s[-1]) + index.last_s
        return max(last_picture_s, self.declared_s)

    def cut_s(self, index: FrameIndex) -> float:
        """Return the end of the last picture if pictures after it were cut off, else infinity."""
        if not self.broken or not index.frames:
            return math.inf
        ranks = np.arange(index.frames)
        if not ends_early(index, ranks, self.declared_s):
            return math.inf
        return float(index.times_s[-1]) + index.last_s

    def is_incomplete(
        self,
        index: FrameIndex,
        span: tuple[int, int],
        start_s: float | None,
        end_s: float | None,
    ) -> bool:
        """Return whether the file is broken and lacks pictures of a part.

        Args:
            index: The pictures of the film.
            span: The ranks of the part.
            start_s: Start of the part; None for the beginning of the film.
            end_s: End of the part; None for the end of the film.
        """
        if not self.broken:
            return False
        first, stop = span
        times_s = index.times_s
        before_gaps = gaps(times_s)
        if ((first <= before_gaps) & (before_gaps < stop - 1)).any():
            return True
        ranks = np.arange(first, stop)
        if start_s is not None and first - 1 in before_gaps:
            missing_s = float(times_s[first]) - start_s
            if missing_s > _median_step(index, ranks) / 2:
                return True
        until_s = self.declared_s if end_s is None else min(self.declared_s, end_s)
        return ends_early(index, ranks, until_s)


def _median_step(index: FrameIndex, ranks: Ints) -> float:
    """Return the median time between successive pictures of a part, in seconds."""
    steps = np.diff(index.times_s[ranks])
    return float(np.median(steps)) if len(steps) else 1 / index.rate


def ends_early(index: FrameIndex, ranks: Ints, until_s: float) -> bool:
    """Return whether the last picture of a part is so early that others may be missing after it."""
    last_s = float(index.times_s[ranks[-1]])
    return until_s - last_s >= GAP * _median_step(index, ranks)


def read_packets(
    path: Path, video: OpenVideo, packets: list[Any] | None, progress: OnProgress
) -> IndexedFilm:
    """Read all packets of an open video into an index, and into `packets` if it is a list.

    `progress` is called for each packet.
    """
    container, stream, _ = video
    declared_s = declared_end(container, stream)
    seen = _read_packets(container, stream, packets, progress)
    if errors_at_opening(path, video):
        seen = _with_errors_at_opening(path, seen, progress)
    table = seen.table
    if not len(table):
        raise BadVideo("no picture in the file", path=path, reason="no-frames")
    pictures = seen.pictures
    if pictures is not None and pictures.sets_change:
        # A decoder keeps the parameter sets that it got last, so it begins where they are stated.
        if not pictures.states_sets[np.argmax(table["key"])]:
            raise BadVideo(SETTINGS_CHANGE, path=path, reason="order")
        table["key"] &= pictures.states_sets
    if container.format.name == "avi":
        # AVI has no times, it counts pictures: a missing picture would shift all pictures behind
        # it. FFmpeg only guesses the duration of the last picture.
        n_absent = stream.frames - int(table["dts"][-1]) - 1
        first = first_doubtful_byte(path, n_absent, len(container.streams))
        if first < path.stat().st_size:
            # A chunk whose head is cut off is not read as a packet. The last packet is doubtful
            # too: only the next packet would confirm its time.
            first = min(first, int(table["offset"][-1]))
        seen.broken |= table["offset"] >= first
    if "matroska" in container.format.name and seen.is_broken:
        seen.broken |= in_doubtful_clusters(path, table["offset"])
    if container.format.name == "mpegts" and ends_inside_a_packet(path):
        seen.broken[-1] = True
    index = _make_index(seen, container, stream)
    broken = seen.is_broken or bool(index.broken.any())
    slots = table["dts"][table["shown"]]
    index.lost[lost_in_time(index, slots, table["duration"])] = True
    return IndexedFilm(index, broken, declared_s, table["offset"].copy())


def declared_end(container: Any, stream: Any) -> float:
    """Return the end of a film that its header states, in seconds, or 0 if it states none."""
    name = container.format.name
    zero_s = clock_zero(container)
    begins_s = 0.0
    if stream.start_time is not None:
        # The file may begin with its sound, earlier than the pictures.
        begins_s = float(stream.start_time * stream.time_base) - zero_s
    # The header of MP4 also counts pictures that an edit list excludes.
    if stream.frames and stream.average_rate and "mov" not in name:
        return begins_s + float(stream.frames / stream.average_rate)
    if stream.duration:
        return begins_s + float(stream.duration * stream.time_base)
    end_s = (container.duration or 0) / float(av().time_base)
    # Here, Matroska states the time of the end, and other formats state a length.
    has_time = end_s > 0 and "matroska" in name
    return end_s - zero_s if has_time else end_s


@dataclass
class _StreamPackets:
    """The packets of a stream, and the damage that the container reports.

    `broken` marks damaged packets. `lost` marks packets before which packets are missing.
    `is_broken` is true if the container is damaged or cut short. `pictures` holds facts about coded
    pictures, such as which ones are references; None if the codec is not H.264 or HEVC.
    """

    table: NDArray[np.void]
    broken: Bools
    lost: Bools
    is_broken: bool
    pictures: CodedPictures | None


def _with_errors_at_opening(
    path: Path, seen: _StreamPackets, progress: OnProgress
) -> _StreamPackets:
    """Mark damaged packets in a film for which FFmpeg reported errors when it was opened.

    While it opens a film, FFmpeg reads the first packets and reports their damage. To learn which
    packets are damaged, these packets are read again, from the first key frame on. If the second
    reading shows no damage, or reads different packets, every packet counts as damaged.
    """
    with suppress(av().FFmpegError), open_video(path) as (container, stream, _):
        container.seek(0)
        again = _read_packets(container, stream, None, progress)
        first = max(len(seen.table) - len(again.table), 0)
        is_same = np.array_equal(again.table["size"], seen.table["size"][first:])
        if again.is_broken and is_same:
            seen.broken[first:] |= again.broken
            seen.lost[first:] |= again.lost
            seen.is_broken = True
            return seen
    seen.broken[:] = True
    return seen


def _read_packets(
    container: Any, stream: Any, packets: list[Any] | None, progress: OnProgress
) -> _StreamPackets:
    """Read every packet of a stream."""
    codec = stream.codec_context.codec.canonical_name
    rows: list[tuple[int, ...]] = []
    broken = set[int]()
    after_gap = list[int]()
    reader_of = _WITH_REFERENCES.get(codec)
    pictures = None
    if reader_of is not None:
        pictures = CodedPictures(reader_of(stream.codec_context.extradata))
    # The number of packets that had been read at each reported error.
    reported = set[int]()
    is_cut = False
    reader = container.format.name
    with count_logged_errors() as count_errors:
        n_errors = 0
        try:
            for packet in demux(container, stream):
                progress()
                if packet.is_corrupt:
                    # Some readers report damage one or two packets early, some one packet late.
                    broken.update(range(len(rows) - 1, len(rows) + 3))
                if pictures is not None and pictures.is_after_gap(memoryview(packet)):
                    after_gap.append(len(rows))
                if count_errors(reader) > n_errors:
                    n_errors = count_errors(reader)
                    reported.add(len(rows))
                rows.append(_packet_row(packet, codec))
                if packets is not None:
                    packet.pts = packet.dts = len(packets)
                    packets.append(packet)
        except av().FFmpegError:
            is_cut = True
        if count_errors(reader) > n_errors or is_cut:
            reported.add(len(rows))
    table = np.array(rows, dtype=_PACKET)
    seen = _StreamPackets(
        table,
        np.zeros(len(table), dtype=np.bool_),
        np.zeros(len(table), dtype=np.bool_),
        len(reported) > 0,
        pictures,
    )
    seen.broken[list(broken.intersection(range(len(table))))] = True
    seen.lost[after_gap] = True
    for position in reported:
        # The damage is in this packet, in the packet before, or between them. A key frame after it
        # is intact, except in FLV, where the reader checks the size written behind each packet.
        if position > 0:
            seen.broken[position - 1] = True
        if position < len(table):
            seen.lost[position] = True
            seen.broken[position] |= reader == "flv" or not table["key"][position]
    return seen


def _packet_row(packet: Any, codec: str) -> tuple[int, ...]:
    """Return the row of a packet in the table of packets."""
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
    )


def _make_index(seen: _StreamPackets, container: Any, stream: Any) -> FrameIndex:
    """Make the index from the table of packets; times are used if they are stated and reliable."""
    table = seen.table
    pts = table["pts"].copy()
    shown = table["shown"].copy()
    key = table["key"].copy()
    codec = stream.codec_context
    tick = float(stream.time_base)
    rate = float(stream.guessed_rate or stream.average_rate or DEFAULT_RATE)
    origin_s = clock_zero(container)
    order = clock_s = None
    pts_are_times = any(
        name in TIMED_CONTAINERS for name in container.format.name.split(",")
    )
    jump = -1
    lost = seen.lost
    if pts_are_times:
        # A damaged packet that lost its time is excluded, so that other packets keep their times.
        shown[seen.broken & (pts == NO_PTS)] = False
        order = presentation_order(pts, shown, key, reorder_depth(codec))
        near = seen.broken.copy()
        near[1:] |= seen.broken[:-1] & ~table["key"][1:]
        is_far = shown & ~near
        if order is None and is_far.any():
            # A damaged packet may have a wrong time; some readers give it to the next packet too.
            order = presentation_order(pts, is_far, key, reorder_depth(codec))
            if order is not None:
                pts[near] = NO_PTS
                shown = is_far
        if order is None:
            # In an intact film, the times of decoding increase. A large step back shows that the
            # clock was set back.
            set_back = _set_back(table["dts"], reorder_depth(codec))
            if len(set_back):
                jump = int(set_back[0])
                # Pictures after the jump may refer to pictures of another recording.
                lost[set_back] = True
                lost[_set_back(pts, reorder_depth(codec))] = True
            else:
                clock_s = find_clock(pts[shown], tick, origin_s)
    else:
        # FFmpeg guesses the times of showing in AVI, but the length of each slot is known.
        clock_s = find_clock(table["dts"][shown], tick, origin_s)
    unused = np.zeros(len(pts), dtype=np.bool_)
    contradicted = unused
    if seen.pictures is not None and order is not None:
        unused = seen.pictures.find_unused(order, reorder_depth(codec))
        contradicted = seen.pictures.find_contradicted(order, reorder_depth(codec))
    last_s = 1 / rate if clock_s is None else float(np.median(np.diff(clock_s)))
    if order is not None:
        last_s = int(table["duration"][table["duration"] != 0][-1:].sum()) * tick
    return FrameIndex(
        pts=pts,
        size=table["size"].copy(),
        key=key,
        order=np.flatnonzero(shown) if order is None else order,
        timed=order is not None,
        counted=False,
        seconds_per_tick=tick,
        origin_s=origin_s,
        rate=rate,
        last_s=last_s,
        broken=seen.broken,
        lost=lost,
        unused=unused,
        contradicted=contradicted,
        clock_s=clock_s,
        pts_are_times=pts_are_times,
        jump=jump,
    )


def _set_back(times: Ints, reorder: int) -> Ints:
    """Return the positions of the packets before which the clock is set back.

    The clock is set back where the time falls by more pictures than a codec can reorder. A smaller
    step back is only disorder. The first packet after the clock was set back may have no time.
    """
    (with_time,) = np.nonzero(times != NO_PTS)
    steps = np.diff(times[with_time])
    ahead = steps[steps > 0]
    if not len(ahead):
        return with_time[:0]
    is_back = steps < -(reorder + 2) * np.median(ahead)
    after: Ints = with_time[:-1][is_back] + 1
    return after


def reorder_depth(codec: Any) -> int:
    """Return how many pictures a codec may store before a picture that is shown before them."""
    return codec.reorder_depth if codec.codec.reorder else 0


def _is_hidden(packet: Any) -> bool:
    """Return whether a packet of VP8 or VP9 only prepares later pictures and shows none."""
    data = memoryview(packet)
    if packet.stream.codec_context.codec.canonical_name == "vp8":
        return not data[0] >> 4 & 1
    if data[-1] >> 5 == 0b110:
        # A packet of several coded pictures ends with an index; its last picture is shown.
        return False
    # The header: frame marker (2 bits), profile (2 bits, 3 for the fourth profile), and one bit for
    # each of: show an existing frame, frame type, show this frame.
    at = 5 if data[0] >> 4 & 0b11 == 0b11 else 4
    bits = data[0] << 8 | (data[1] if len(data) > 1 else 0)
    return not bits >> (15 - at) & 1 and not bits >> (13 - at) & 1


def length_of(path: Path) -> float:
    """Return the end of a video that its header states, in seconds, or 0 if it states none."""
    with open_video(path) as video:
        return declared_end(video.container, video.stream)


def present_length_of(path: Path) -> float:
    """Return the end of the pictures that are in a file, in seconds, or 0 if it is unknown.

    The header of MP4 states where each picture is: in a copy that was cut short, the last ones are
    missing. The header of other formats states only the end.
    """
    with open_video(path) as video:
        n_bytes = path.stat().st_size
        entries = video.stream.index_entries
        n_present = bisect_right(
            entries, n_bytes, key=lambda entry: entry.pos + entry.size
        )
        if "mov" in video.container.format.name and n_present < len(entries):
            missing_s = float(entries[n_present].timestamp * video.stream.time_base)
            return missing_s - clock_zero(video.container)
        return declared_end(video.container, video.stream)

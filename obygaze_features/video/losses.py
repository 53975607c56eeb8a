"""Find lost pictures that no decoder reports, from what the coded pictures contain.

Only damage breaks these rules, so that no picture of a clean file is marked.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from obygaze_features.video.index import FrameIndex, Ints

Coded = Iterable[tuple[int, bytes]]
"""Positions and the bytes of their packets, in the order of the file."""

_START_CODE = b"\0\0\1"
# How many pictures may be shown between a lost key frame and the next picture in the file.
_NEAR = 16
# The H.264 profile whose slices may be partitioned; only the first partition has the number.
_EXTENDED = 88
# H.264 profiles whose parameters contain more about colour.
_HIGH = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})

# The unit of H.264 with information that decoding does not need, and its recovery points.
_EXTRA_INFORMATION = 6
_RECOVERY_POINT = 6

_PICTURE = b"\0\0\1\0"
_GROUP = b"\0\0\1\xb8"
_SLICE = re.compile(rb"\x00\x00\x01[\x01-\xaf]")
_B_PICTURE = 3


def lost_before(
    index: FrameIndex, codec: str, extradata: bytes | None, coded: Coded
) -> list[int]:
    """Return the positions of pictures that may depend on a lost picture before them."""
    if codec == "h264" and (not index.timed or index.holes.any()):
        length_size = length_size_of(codec, extradata)
        with suppress(EOFError, _NotCountable):
            return list(
                h264_gaps(index, h264_numbers(length_size, extradata or b"", coded))
            )
    if codec in ("mpeg1video", "mpeg2video"):
        return mpeg_losses(index, coded)
    return []


def leading_after_losses(index: FrameIndex) -> list[int]:
    """Return positions of pictures that build on the group before, of which the end is missing.

    They are shown before a key frame but stored after it. Where time is missing before them in a
    damaged file, other pictures may be lost that they build on.
    """
    if not index.timed:
        return []
    holes = index.holes
    lost = list[int]()
    for key, next_key in zip(
        index.keys, [*index.keys[1:], len(index.pts)], strict=True
    ):
        after_key = np.arange(key + 1, next_key)
        ranks = index.ranks[after_key]
        is_leading = (ranks >= 0) & (ranks < index.ranks[key])
        if is_leading.any():
            earliest = int(ranks[is_leading].min())
            if earliest > 0 and holes[earliest - 1]:
                lost.append(int(after_key[is_leading][0]))
    return lost


def skipped_in_avi(
    entries: Iterable[tuple[int, int]], offsets: Ints | Sequence[int]
) -> list[int]:
    """Return the positions of pictures before which the table of an AVI lists one not found.

    `entries` are the offsets and sizes of chunks, `offsets` those of packets, which begin after
    the 8 bytes of a chunk's header.
    """
    listed = np.array([offset + 8 for offset, size in entries if size], dtype=np.int64)
    packet_offsets = np.array(offsets, dtype=np.int64)
    lost = listed[~np.isin(listed, packet_offsets)]
    # A table with other offsets, or of another file, is not used.
    if (
        not len(lost)
        or len(lost) > len(listed) / 8
        or (np.diff(packet_offsets) <= 0).any()
    ):
        return []
    after = np.unique(np.searchsorted(packet_offsets, lost))
    return [position for position in after.tolist() if position < len(packet_offsets)]


def length_size_of(codec: str, extradata: bytes | None) -> int:
    """Return the size of the length before a unit of H.264; 0 with start codes."""
    if codec != "h264" or extradata is None or len(extradata) < 5:
        return 0
    return (extradata[4] & 3) + 1 if extradata[0] == 1 else 0


def units_of(data: bytes, length_size: int) -> Iterator[bytes]:
    """Yield the units of H.264 in a packet, without their lengths or start codes."""
    if not length_size:
        yield from (unit for unit in data.split(_START_CODE)[1:] if unit)
        return
    at = 0
    while at + length_size < len(data):
        start = at + length_size
        at = start + int.from_bytes(data[at:start], "big")
        unit = data[start:at]
        if unit:
            yield unit


def is_refreshed_gradually(data: bytes, length_size: int) -> bool:
    """Return whether pictures of H.264 can be decoded only some time after this packet.

    It is a recovery point: each picture after it renews a part, and containers flag it as a key
    frame.
    """
    for unit in units_of(data, length_size):
        if unit[0] & 31 != _EXTRA_INFORMATION:
            continue
        with suppress(EOFError, IndexError):
            message = unit[1:].replace(b"\0\0\3", b"\0\0")
            while len(message) > 2:
                kind, message = _extended_byte(message)
                n_bytes, message = _extended_byte(message)
                if kind == _RECOVERY_POINT:
                    return _Bits(message[:n_bytes]).code() > 0
                message = message[n_bytes:]
    return False


def _extended_byte(data: bytes) -> tuple[int, bytes]:
    """Return a number of H.264's extra information, and what follows it: 255 means more."""
    n_full = len(data) - len(data.lstrip(b"\xff"))
    return 255 * n_full + data[n_full], data[n_full + 1 :]


class NumberedPicture(NamedTuple):
    """The number of a picture (frame_num, temporal_reference), and whether others need it.

    There are `n_numbers` numbers. B pictures of MPEG-1 and -2 have none built on them.
    """

    position: int
    number: int
    n_numbers: int
    is_reference: bool


class _Bits:
    """Reads the codes of H.264 headers."""

    def __init__(self, data: bytes) -> None:
        data = data.replace(b"\0\0\3", b"\0\0")
        self.value = int.from_bytes(data, "big")
        self.left = 8 * len(data)

    def take(self, count: int) -> int:
        self.left -= count
        if self.left < 0:
            raise EOFError
        return self.value >> self.left & ((1 << count) - 1)

    def code(self) -> int:
        """Read an unsigned Exp-Golomb code."""
        zeros = 0
        while not self.take(1):
            zeros += 1
        return (1 << zeros) - 1 + self.take(zeros)


class H264Numbering(NamedTuple):
    """How a stream of H.264 numbers its reference pictures (frame_num)."""

    bits: int
    may_skip: bool
    separate_planes: bool


def h264_numbering(parameters: bytes) -> H264Numbering:
    """Read a sequence parameter set as far as the numbering."""
    bits = _Bits(parameters[1:])
    profile = bits.take(8)
    bits.take(16)
    bits.code()
    separate = False
    if profile in _HIGH:
        planes = bits.code()
        separate = planes == 3 and bool(bits.take(1))
        bits.code()
        bits.code()
        bits.take(1)
        if bits.take(1):
            n_lists = 12 if planes == 3 else 8
            for number in range(n_lists):
                size = 16 if number < 6 else 64
                _skip_scaling(bits, size)
    count_bits = bits.code() + 4
    order = bits.code()
    if order == 0:
        bits.code()
    elif order == 1:
        bits.take(1)
        bits.code()
        bits.code()
        for _ in range(bits.code()):
            bits.code()
    bits.code()
    may_skip = bool(bits.take(1)) or profile == _EXTENDED
    return H264Numbering(count_bits, may_skip, separate)


def _skip_scaling(bits: _Bits, size: int) -> None:
    if not bits.take(1):
        return
    last = following = 8
    for _ in range(size):
        if following:
            code = bits.code()
            # Signed numbers have the codes 1, -1, 2, -2 ...
            following = (last + ((code + 1) // 2 if code % 2 else -code // 2)) % 256
        last = following or last


class _NotCountable(Exception):
    """The stream may leave numbers out, or numbers its pictures in more than one way."""


def h264_numbers(
    length_size: int, extradata: bytes, coded: Coded
) -> Iterator[NumberedPicture]:
    """Yield the numbers of all pictures, in the order of the file."""
    # The parameter sets that are stored outside of packets come first.
    outside = list(units_of(extradata, 0))
    if length_size:
        count = extradata[5] & 31 if len(extradata) > 5 else 0
        outside = list(units_of(extradata[6:], 2))[:count]
    packets = (
        (position, list(units_of(data, length_size))) for position, data in coded
    )
    numbering: H264Numbering | None = None
    for position, units in itertools.chain([(-1, outside)], packets):
        numbering = _numbering_after(units, numbering)
        slices = [unit for unit in units if unit[0] & 31 in (1, 5)]
        if slices and position >= 0 and numbering is not None:
            with suppress(EOFError):
                yield _numbered_picture(position, slices[0], numbering)


def _numbering_after(
    units: Iterable[bytes], numbering: H264Numbering | None
) -> H264Numbering | None:
    """Return the numbering after the parameter sets in some units; all must agree with it."""
    for parameters in (unit for unit in units if unit[0] & 31 == 7):
        stated = h264_numbering(parameters)
        if stated.may_skip or stated != (numbering or stated):
            raise _NotCountable
        numbering = stated
    return numbering


def _numbered_picture(
    position: int, first_slice: bytes, numbering: H264Numbering
) -> NumberedPicture:
    """Return a picture with the number in the header of its first slice."""
    bits = _Bits(first_slice[1:24])
    is_reference = bool(first_slice[0] >> 5 & 3)
    for _ in range(3):
        bits.code()
    bits.take(2 if numbering.separate_planes else 0)
    number = bits.take(numbering.bits)
    return NumberedPicture(position, number, 1 << numbering.bits, is_reference)


def h264_gaps(index: FrameIndex, pictures: Iterable[NumberedPicture]) -> Iterator[int]:
    """Yield the positions before which numbers are missing."""
    holes = index.holes
    before: int | None = None
    for picture in pictures:
        key = bool(index.key[picture.position])
        if (
            not key
            and before is not None
            and (picture.number - before) % picture.n_numbers > 1
        ):
            # Numbering restarts at a key frame. An encoder may do so elsewhere too without
            # marking it; then no time is missing.
            rank = int(index.ranks[picture.position])
            if picture.number > 1 or (
                rank > 0 and holes[max(0, rank - _NEAR) : rank].any()
            ):
                yield picture.position
        if picture.is_reference or key:
            before = picture.number


def mpeg_losses(index: FrameIndex, coded: Coded) -> list[int]:
    """Return the positions where numbers are missing in a group, or where one is repeated.

    With times, a number is missing only if a time is.
    """
    groups, headless, losses = mpeg_groups(index, coded)
    if index.timed:
        losses += headless
    holes = index.holes
    most_between = max((_most_between_anchors(group) for group in groups), default=0)
    for group in groups:
        seen: dict[int, int] = {}
        for picture in group:
            # The two fields of a picture share their number.
            if picture.position - seen.setdefault(picture.number, picture.position) > 1:
                losses.append(picture.position)
                break
        ranks = index.ranks[[picture.position for picture in group]]
        if not index.timed or holes[ranks[ranks >= 0]].any():
            losses += _lost_in(group, most_between)
    return losses


def mpeg_groups(
    index: FrameIndex, coded: Coded
) -> tuple[list[list[NumberedPicture]], list[int], list[int]]:
    """Return the pictures by group, and the positions of slices without a picture's header.

    There are no groups if a key frame does not begin one. The third value has the positions of B
    pictures that build on the group before theirs, but on one of another recording: the clock in
    the headers of groups is set back between the two.
    """
    groups: list[list[NumberedPicture]] = []
    headless = list[int]()
    joined = list[int]()
    clock = 0
    is_joined = False
    all_keys_begin_groups = True
    for position, data in coded:
        at = data.find(_PICTURE)
        if at < 0 and _SLICE.search(data):
            headless.append(position)
        if at < 0 or at + 6 > len(data):
            continue
        if _GROUP in data[:at]:
            groups.append([])
            before = clock
            clock, is_closed = _clock_of_group(data[data.find(_GROUP) :])
            is_joined = clock < before and not is_closed
        elif index.key[position]:
            all_keys_begin_groups = False
        head = int.from_bytes(data[at + 4 : at + 6], "big")
        if groups:
            is_b = head >> 3 & 7 == _B_PICTURE
            group = groups[-1]
            group.append(NumberedPicture(position, head >> 6, 1024, not is_b))
            if is_joined and is_b and group[-1].number < group[0].number:
                joined.append(position)
    return groups if all_keys_begin_groups else [], headless, joined


def _clock_of_group(header: bytes) -> tuple[int, bool]:
    """Return the clock in the header of a group, and whether its pictures need no other group."""
    bits = int.from_bytes(header[4:8], "big")
    # A flag, hours, minutes, a marker, seconds and pictures; then the flag of a closed group.
    return bits >> 7 & 0xFFFFFF, bool(bits >> 6 & 1)


def _most_between_anchors(group: list[NumberedPicture]) -> int:
    """Return how many B pictures lie at most between two others, where none is missing."""
    numbers = {picture.number for picture in group}
    anchors = [picture.number for picture in group if picture.is_reference]
    return max(
        (
            after - before - 1
            for before, after in itertools.pairwise(anchors)
            if numbers.issuperset(range(before + 1, after))
        ),
        default=0,
    )


def _lost_in(group: list[NumberedPicture], most_between: int) -> list[int]:
    """Return the first picture of a group that may depend on a lost one, if any.

    Between two pictures that others need there are at most `most_between` B pictures.
    """
    numbers = {picture.number for picture in group}
    anchors = [picture for picture in group if picture.is_reference]
    for before, after in zip(anchors, [*anchors[1:], None], strict=True):
        end = after.number if after else max(numbers)
        if numbers.issuperset(range(before.number + 1, end)):
            continue
        later = [picture for picture in group if picture.position > before.position]
        between = [picture for picture in later if before.number < picture.number < end]
        # The lost one was a B picture too, and no other is built on it.
        only_b_fit = end - before.number - 1 <= most_between
        are_after = (
            all(b.position > after.position for b in between) if after else False
        )
        if between and are_after and only_b_fit:
            continue
        shown_later = [item.position for item in later if item.number > before.number]
        return shown_later[:1]
    return []

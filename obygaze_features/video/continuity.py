"""What the coded pictures themselves say about losses that no decoder reports.

Nothing here guesses: each rule is broken by damage alone, so that a clean file is never accused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from obygaze_features.video.index import Bools, FrameIndex

Coded = Iterable[tuple[int, bytes]]
"""Positions and what their packets hold, in the order of the file."""

# A coder of this kind never writes so many zeros: each byte of them would be 8 bits of news.
ZEROS = bytes(256)
_CODED_TIGHTLY = frozenset({"h264", "hevc", "vp8", "vp9"})
_NOT_IN_A_NAL = re.compile(rb"\x00\x00\x00[^\x00]")
_NOT_IN_A_STREAM_OF_NALS = re.compile(rb"\x00\x00\x00[^\x00\x01]")
_START = b"\0\0\1"
_PICTURE = b"\0\0\1\0"
_SLICE = re.compile(rb"\x00\x00\x01[\x01-\xaf]")
_GROUP = b"\0\0\1\xb8"
_B_PICTURE = 3
# How many pictures may be shown between a lost key frame and the next picture in the file.
NEAR = 16


def is_holed(codec: str, packet: Any, length_size: int) -> bool:
    """Whether zeros stand in a packet where its codec never writes them: a part was not stored.

    `length_size` is that of the length before each unit of H.264 and HEVC; 0 with start codes.
    """
    if codec not in _CODED_TIGHTLY:
        return False
    data = bytes(packet)
    if codec in ("vp8", "vp9"):
        at = data.find(ZEROS)
        return at >= 0 and bool(data[at:].strip(b"\0"))
    if b"\0\0\0" not in data:
        return False
    if not length_size:
        return _NOT_IN_A_STREAM_OF_NALS.search(data) is not None
    units = _units(data, length_size)
    return any(_is_picture(codec, unit[0]) and _NOT_IN_A_NAL.search(unit) for unit in units)


def hole_crosses(codec: str, before: Any, packet: Any) -> bool:
    """Whether zeros reach from the end of one packet into the next, which cannot begin so."""
    if codec not in (*_CODED_TIGHTLY, "av1") or before is None:
        return False
    return bytes(memoryview(packet)[:8]) == bytes(8) and memoryview(before)[-1] == 0


def _is_picture(codec: str, head: int) -> bool:
    return (head >> 1 & 63) < 32 if codec == "hevc" else (head & 31) < 6


def length_size_of(codec: str, extradata: bytes | None) -> int:
    """How many bytes say the length of a unit of H.264 or HEVC; 0 with start codes."""
    at = {"h264": 4, "hevc": 21}.get(codec)
    if at is None or extradata is None or len(extradata) <= at or extradata[0] != 1:
        return 0
    return (extradata[at] & 3) + 1


def losses(index: FrameIndex, codec: str, extradata: bytes | None, coded: Coded) -> list[int]:
    """The positions of pictures before which one is lost on which they may be built."""
    if codec == "h264" and (not index.timed or _holes(index).any()):
        return _h264_losses(index, length_size_of(codec, extradata), extradata or b"", coded)
    if codec in ("mpeg1video", "mpeg2video") and index.timed:
        return _mpeg_losses(index, coded)
    return []


def skipped_in_avi(entries: Iterable[tuple[int, int]], places: Sequence[int]) -> list[int]:
    """Positions of pictures before which the table of an AVI names one that was not found.

    `entries` are where chunks begin and how large they are, `places` where packets do, which is
    behind the head of a chunk.
    """
    named = np.array([place + 8 for place, size in entries if size], dtype=np.int64)
    there = np.array(places, dtype=np.int64)
    lost = named[~np.isin(named, there)]
    # A table that counts otherwise, or of another file, says nothing.
    if not len(lost) or len(lost) > len(named) / 8 or (np.diff(there) <= 0).any():
        return []
    after = np.unique(np.searchsorted(there, lost))
    return [position for position in after.tolist() if position < len(there)]


def _holes(index: FrameIndex) -> Bools:
    """For each picture in the order of showing, whether it is followed by a gap in time."""
    steps = np.diff(index.pts[index.order])
    return np.append(steps > 1.5 * np.median(steps) if len(steps) else steps > 0, False)


def _units(data: bytes, length_size: int) -> Iterator[bytes]:
    """The units of H.264 or HEVC in a packet, without their lengths or start codes."""
    if not length_size:
        yield from (unit for unit in data.split(_START)[1:] if unit)
        return
    at = 0
    while at + length_size < len(data):
        size = int.from_bytes(data[at : at + length_size], "big")
        unit = data[at + length_size : at + length_size + size]
        if unit:
            yield unit
        at += length_size + size


class _Bits:
    """Reads the codes of H.264 headers."""

    def __init__(self, data: bytes) -> None:
        data = data.replace(b"\0\0\3", b"\0\0")
        self.value, self.left = int.from_bytes(data, "big"), 8 * len(data)

    def take(self, count: int) -> int:
        self.left -= count
        if self.left < 0:
            raise EOFError
        return self.value >> self.left & ((1 << count) - 1)

    def code(self) -> int:
        """An Exp-Golomb code without a sign."""
        zeros = 0
        while not self.take(1):
            zeros += 1
        return (1 << zeros) - 1 + self.take(zeros)

    def signed(self) -> int:
        """An Exp-Golomb code with a sign."""
        code = self.code()
        return (code + 1) // 2 if code % 2 else -code // 2


@dataclass(frozen=True)
class _Counting:
    """How a stream of H.264 counts its reference pictures."""

    bits: int
    may_skip: bool
    separate_planes: bool


# Profiles whose parameters say more about colour.
_HIGH = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})


def _counting(parameters: bytes) -> _Counting:
    """Read a sequence parameter set up to the way of counting."""
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
            for number in range(12 if planes == 3 else 8):
                _skip_scaling(bits, 16 if number < 6 else 64)
    count_bits = bits.code() + 4
    order = bits.code()
    if order == 0:
        bits.code()
    elif order == 1:
        bits.take(1)
        bits.signed()
        bits.signed()
        for _ in range(bits.code()):
            bits.signed()
    bits.code()
    return _Counting(count_bits, bool(bits.take(1)), separate)


def _skip_scaling(bits: _Bits, size: int) -> None:
    if not bits.take(1):
        return
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.signed()) % 256
        last = following or last


def _h264_losses(index: FrameIndex, length_size: int, extradata: bytes, coded: Coded) -> list[int]:
    """Where the count of reference pictures leaps between key frames."""
    try:
        return list(_leaps(index, _numbers(length_size, extradata, coded)))
    except (EOFError, _Unsure):
        return []


@dataclass(frozen=True)
class _Counted:
    """A picture of H.264, its number, after how many numbers they repeat, whether it is used."""

    position: int
    number: int
    numbers: int
    is_built_on: bool


class _Unsure(Exception):
    """The stream may leave numbers out, or counts in more than one way."""


def _numbers(length_size: int, extradata: bytes, coded: Coded) -> Iterator[_Counted]:
    """The numbers of all pictures, in the order of the file."""
    counting = _one_counting(None, _parameter_sets(extradata, length_size))
    for position, data in coded:
        units = list(_units(data, length_size))
        counting = _one_counting(counting, units)
        head = next((unit for unit in units if unit[0] & 31 in (1, 5)), None)
        if head is not None and counting is not None:
            number = _picture_number(head, counting)
            yield _Counted(position, number, 1 << counting.bits, bool(head[0] >> 5 & 3))


def _one_counting(known: _Counting | None, units: Iterable[bytes]) -> _Counting | None:
    for unit in units:
        if unit[0] & 31 == 7:
            new = _counting(unit)
            if new.may_skip or (known and known != new):
                raise _Unsure
            known = new
    return known


def _parameter_sets(extradata: bytes, length_size: int) -> list[bytes]:
    """The sequence parameter sets that lie outside of packets."""
    if not length_size:
        return list(_units(extradata, 0))
    found, at = [], 6
    for _ in range(extradata[5] & 31 if len(extradata) > 5 else 0):
        size = int.from_bytes(extradata[at : at + 2], "big")
        found.append(extradata[at + 2 : at + 2 + size])
        at += 2 + size
    return [unit for unit in found if unit]


def _leaps(index: FrameIndex, pictures: Iterable[_Counted]) -> Iterator[int]:
    holes = _holes(index) if index.timed else np.zeros(index.frames, dtype=np.bool_)
    before: int | None = None
    for one in pictures:
        key = bool(index.key[one.position])
        if not key and before is not None and (one.number - before) % one.numbers > 1:
            # Counting begins anew at a key frame. An encoder may do so elsewhere too, without a
            # word where it would be seen; then no time is missing.
            rank = int(index.ranks[one.position])
            if one.number > 1 or (rank > 0 and holes[max(0, rank - NEAR) : rank].any()):
                yield one.position
        if one.is_built_on or key:
            before = one.number


def _picture_number(unit: bytes, counting: _Counting) -> int:
    bits = _Bits(unit[1:24])
    for _ in range(3):
        bits.code()
    if counting.separate_planes:
        bits.take(2)
    return bits.take(counting.bits)


@dataclass(frozen=True)
class _MpegPicture:
    position: int
    number: int
    is_b: bool


def _mpeg_losses(index: FrameIndex, coded: Coded) -> list[int]:
    """Where numbers are missing in a group of pictures, or begin anew before it is over."""
    kept = list(_headed(coded, found := []))
    holes = _holes(index)
    for group in _groups(index, kept):
        seen: dict[int, int] = {}
        for one in group:
            # The two fields of a picture share their number.
            if one.position - seen.setdefault(one.number, one.position) > 1:
                found.append(one.position)
                break
        ranks = index.ranks[[one.position for one in group]]
        if holes[ranks[ranks >= 0]].any():
            found += _lost_in(group)
    return found


def _headed(coded: Coded, found: list[int]) -> Iterator[tuple[int, bytes]]:
    """The beginnings of packets with a picture; slices without one go to `found`."""
    for position, data in coded:
        if _PICTURE in data:
            yield position, data[: data.find(_PICTURE) + 6]
        elif _SLICE.search(data):
            found.append(position)


def _groups(index: FrameIndex, coded: Coded) -> Iterator[list[_MpegPicture]]:
    """The groups of a stream; none where not every key frame begins one."""
    groups: list[list[_MpegPicture]] = []
    for position, data in coded:
        at = data.find(_PICTURE)
        if at < 0 or at + 6 > len(data):
            continue
        if _GROUP in data[:at]:
            groups.append([])
        elif index.key[position]:
            return
        head = int.from_bytes(data[at + 4 : at + 6], "big")
        if groups:
            groups[-1].append(_MpegPicture(position, head >> 6, head >> 3 & 7 == _B_PICTURE))
    yield from groups


def _lost_in(group: list[_MpegPicture]) -> list[int]:
    """The first picture of a group, in the order of the file, that may lack one it is built on."""
    numbers = {one.number for one in group}
    anchors = [one for one in group if not one.is_b]
    for before, after in zip(anchors, [*anchors[1:], None], strict=True):
        end = after.number if after else max(numbers)
        if all(number in numbers for number in range(before.number + 1, end)):
            continue
        later = [one for one in group if one.position > before.position]
        between = [one for one in later if before.number < one.number < end]
        if after and between and all(one.position > after.position for one in between):
            continue  # the one that is missing was a B picture too, and nothing is built on it
        return [one.position for one in later if one.number > before.number][:1]
    return []

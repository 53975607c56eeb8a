"""How H.264 counts its reference pictures: a number that is left out is a picture that is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from obygaze_features.video.index import Coded, FrameIndex

_START = b"\0\0\1"
# How many pictures may be shown between a lost key frame and the next picture in the file.
NEAR = 16


def units_of(data: bytes, length_size: int) -> Iterator[bytes]:
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


# The profile whose slices may come in parts, of which only the first has the number.
_EXTENDED = 88
# Profiles whose parameters say more about colour.
_HIGH = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})


def counting_of(parameters: bytes) -> _Counting:
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
    may_skip = bool(bits.take(1)) or profile == _EXTENDED
    return _Counting(count_bits, may_skip, separate)


def _skip_scaling(bits: _Bits, size: int) -> None:
    if not bits.take(1):
        return
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.signed()) % 256
        last = following or last


def h264_losses(index: FrameIndex, length_size: int, extradata: bytes, coded: Coded) -> list[int]:
    """Where the count of reference pictures leaps between key frames."""
    try:
        return list(leaps(index, numbers_of(length_size, extradata, coded)))
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


def numbers_of(length_size: int, extradata: bytes, coded: Coded) -> Iterator[_Counted]:
    """The numbers of all pictures, in the order of the file."""
    counting = _same_counting(None, _parameter_sets(extradata, length_size))
    for position, data in coded:
        units = list(units_of(data, length_size))
        counting = _same_counting(counting, units)
        head = next((unit for unit in units if unit[0] & 31 in (1, 5)), None)
        if head is not None and counting is not None:
            with suppress(EOFError):
                number = _picture_number(head, counting)
                yield _Counted(position, number, 1 << counting.bits, bool(head[0] >> 5 & 3))


def _same_counting(known: _Counting | None, units: Iterable[bytes]) -> _Counting | None:
    for unit in units:
        if unit[0] & 31 == 7:
            new = counting_of(unit)
            if new.may_skip or (known and known != new):
                raise _Unsure
            known = new
    return known


def _parameter_sets(extradata: bytes, length_size: int) -> list[bytes]:
    """The sequence parameter sets that lie outside of packets."""
    if not length_size:
        return list(units_of(extradata, 0))
    found, at = [], 6
    for _ in range(extradata[5] & 31 if len(extradata) > 5 else 0):
        size = int.from_bytes(extradata[at : at + 2], "big")
        found.append(extradata[at + 2 : at + 2 + size])
        at += 2 + size
    return [unit for unit in found if unit]


def leaps(index: FrameIndex, pictures: Iterable[_Counted]) -> Iterator[int]:
    """The positions before which numbers are left out."""
    holes = index.holes
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

"""How MPEG-1 and -2 number the pictures of a group: what is missing, or begins anew too soon."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from obygaze_features.video.index import Coded, FrameIndex

_PICTURE = b"\0\0\1\0"
_SLICE = re.compile(rb"\x00\x00\x01[\x01-\xaf]")
_GROUP = b"\0\0\1\xb8"
_B_PICTURE = 3


@dataclass(frozen=True)
class _MpegPicture:
    position: int
    number: int
    is_b: bool


def mpeg_losses(index: FrameIndex, coded: Coded) -> list[int]:
    """Where numbers are missing in a group of pictures, or begin anew before it is over."""
    kept = list(headed(coded, found := []))
    holes = index.holes
    for group in groups_of(index, kept):
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


def headed(coded: Coded, found: list[int]) -> Iterator[tuple[int, bytes]]:
    """The beginnings of packets with a picture; slices without one go to `found`."""
    for position, data in coded:
        if _PICTURE in data:
            yield position, data[: data.find(_PICTURE) + 6]
        elif _SLICE.search(data):
            found.append(position)


def groups_of(index: FrameIndex, coded: Coded) -> Iterator[list[_MpegPicture]]:
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

"""What the coded pictures themselves say about losses that no decoder reports.

Nothing here guesses: each rule is broken by damage alone, so that a clean file is never accused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from obygaze_features.video.h264_numbers import h264_losses
from obygaze_features.video.index import Coded, FrameIndex
from obygaze_features.video.mpeg_numbers import mpeg_losses

# A coder of this kind never writes so many zeros: each byte of them would be 8 bits of news.
ZEROS = bytes(256)
# Codecs that never write certain zeros, and whose pictures never begin with some.
TIGHT = frozenset({"h264", "hevc", "vp8", "vp9", "av1"})
_NOT_IN_A_STREAM_OF_UNITS = re.compile(rb"\x00\x00\x00[^\x00\x01]")


def is_holed(codec: str, data: bytes, length_size: int) -> bool:
    """Whether zeros stand in a packet where its codec never writes them: a part was not stored.

    `length_size` is that of the length before each unit of H.264 and HEVC; 0 with start codes.
    """
    if codec in ("vp8", "vp9"):
        at = data.find(ZEROS)
        return at >= 0 and bool(data[at:].strip(b"\0"))
    if codec not in ("h264", "hevc"):
        return False
    if not length_size:
        begins = data.lstrip(b"\0")[:1] == b"\1"
        return begins and _NOT_IN_A_STREAM_OF_UNITS.search(data) is not None
    at = 0
    while at + length_size < len(data):
        start = at + length_size
        at = start + int.from_bytes(data[at:start], "big")
        zeros = data.find(b"\0\0\0", start, at) if _is_picture(codec, data[start]) else -1
        if zeros >= 0 and data[zeros:at].strip(b"\0"):
            return True
    return False


def _is_picture(codec: str, head: int) -> bool:
    return (head >> 1 & 63) < 32 if codec == "hevc" else (head & 31) < 6


def length_size_of(codec: str, extradata: bytes | None) -> int:
    """How many bytes say the length of a unit of H.264 or HEVC; 0 with start codes."""
    at = {"h264": 4, "hevc": 21}.get(codec)
    if at is None or extradata is None or len(extradata) <= at:
        return 0
    # A record of HEVC may still carry the version of the draft, which is 0.
    with_lengths = extradata[0] == 1 or (codec == "hevc" and extradata[:3] > b"\0\0\1")
    return (extradata[at] & 3) + 1 if with_lengths else 0


def losses(index: FrameIndex, codec: str, extradata: bytes | None, coded: Coded) -> list[int]:
    """The positions of pictures before which one is lost on which they may be built."""
    if codec == "h264" and (not index.timed or index.holes.any()):
        return h264_losses(index, length_size_of(codec, extradata), extradata or b"", coded)
    if codec in ("mpeg1video", "mpeg2video") and index.timed:
        return mpeg_losses(index, coded)
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

"""Find packets that are missing or cut, from what a container says of them, without decoding."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from obygaze_features.video.index import NO_PTS, Floats, FrameIndex, Ints

_TS_SYNC_BYTE = 0x47
# A gap longer than this many steps is one in which a picture is missing.
GAP = 1.5
# A film has a regular rate if so many of its steps are equal to within this share of a step.
_REGULAR_SHARE = 0.9
_JITTER = 0.25
_FEWEST_STEPS = 8
# The table of a container is that of the file if it lists so many of the packets that are found.
_SHARE_IN_TABLE = 7 / 8
# Containers interpolate the times of some packets, so that a gap may be seen some pictures late.
_LATE = 16


def lost_in_time(index: FrameIndex, slots: Ints, durations: Ints) -> list[int]:
    """Return the positions before which a packet is missing, in a film with a regular rate.

    A picture is missing where the next one comes later than the rate says. Most decoders go on
    from the last picture that they have and report nothing. `slots` are the times of decoding,
    which tell it where pictures have no times of their own, `durations` how long the container says
    that each picture is shown: if they fill the film, no time is missing.
    """
    if not index.timed:
        # Times of decoding that do not increase say nothing.
        if (slots == NO_PTS).any() or (np.diff(slots) <= 0).any():
            return []
        after = gaps(slots) + 1
        # Some writers leave slots empty behind the first picture, for those stored late.
        return [int(position) for position in index.order[after[after > 1]]]
    shown_for = durations[index.order[:-1]].sum()
    if shown_for >= np.ptp(index.pts[index.order]):
        return []
    pictures = np.sort(index.order)
    places = np.empty(index.frames, dtype=np.int64)
    places[index.ranks[pictures]] = np.arange(index.frames)
    # How many pictures are stored, at most, before one that is shown earlier.
    early = int((np.arange(index.frames) - places).max(initial=0))
    keys = index.keys[index.ranks[index.keys] >= 0]
    lost = []
    # Packets that show no picture have times too.
    times = np.sort(index.pts[index.pts != NO_PTS])
    ends = times[gaps(times)]
    ranks = np.searchsorted(index.pts[index.order], ends, side="right") - 1
    for rank in ranks.tolist():
        if index.frames - 1 - rank <= early:
            # The film was cut after a picture that is shown later than one behind the cut.
            continue
        # The picture that is missing was stored after the last key frame shown before it.
        key = int(keys[index.ranks[keys] <= rank].max(initial=-1))
        if key >= 0:
            earliest = max(0, rank + 1 - max(early, _LATE))
            lost.append(max(int(pictures[earliest]), key + 1))
    return lost


def gaps(times: Ints | Floats) -> Ints:
    """Return the places after which time is missing, if the other times are regular."""
    steps = np.diff(times)
    if len(steps) < _FEWEST_STEPS:
        return np.zeros(0, dtype=np.int64)
    step = float(np.median(steps))
    is_regular = np.mean(np.abs(steps - step) < _JITTER * step) >= _REGULAR_SHARE
    return np.flatnonzero(is_regular & (steps > GAP * step))


def skipped_in_table(
    entries: Iterable[tuple[int, int]], offsets: Ints | Sequence[int]
) -> list[int]:
    """Return the positions before which the table of a container lists a packet not found.

    `entries` are the offsets and sizes of chunks, `offsets` those of packets, which begin after
    the 8 bytes of a chunk's header.
    """
    listed = np.array([offset + 8 for offset, size in entries if size], dtype=np.int64)
    packet_offsets = np.array(offsets, dtype=np.int64)
    lost = listed[~np.isin(listed, packet_offsets)]
    if not len(lost) or (np.diff(packet_offsets) <= 0).any():
        return []
    # A table with other offsets, or of another file, is not used.
    if np.mean(np.isin(packet_offsets, listed)) < _SHARE_IN_TABLE:
        return []
    after = np.unique(np.searchsorted(packet_offsets, lost))
    return [position for position in after.tolist() if position < len(packet_offsets)]


def ends_inside_a_packet(path: Path) -> bool:
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

"""Find missing or cut packets from the data of the container, without decoding."""

import mmap
import os
from pathlib import Path

import numpy as np

from obygaze_features.video.index import NO_PTS, Bools, Floats, FrameIndex, Ints

_TS_SYNC_BYTE = 0x47
# In a gap of more than this many steps, a picture is missing.
GAP = 1.5
# A film has a regular rate if this share of its steps is equal, within this share of a step.
_REGULAR_SHARE = 0.9
_JITTER = 0.25
_FEWEST_STEPS = 8
# In AVI: the chunks that contain other chunks, the table at the end of the file, and how the names
# of chunks with pictures or sound end.
_AVI_LISTS = (b"RIFF", b"LIST")
_AVI_TABLE = b"idx1"
_AVI_PICTURES = (b"dc", b"db")
_AVI_SOUND = b"wb"
# The name of a chunk is the number of its stream and one of these endings; other chunks may lie
# between the chunks of streams.
_AVI_KINDS = (*_AVI_PICTURES, _AVI_SOUND, b"tx", b"pc", b"sb")
_AVI_BETWEEN = (*_AVI_LISTS, b"JUNK", _AVI_TABLE)
# In Matroska: the name of a cluster, and the names of its elements: time and place, silent tracks,
# blocks, padding, and a checksum.
_CLUSTER = b"\x1f\x43\xb6\x75"
_IN_CLUSTER = (
    b"\xe7",
    b"\xa7",
    b"\xab",
    b"\x58\x54",
    b"\xa0",
    b"\xa3",
    b"\xaf",
    b"\xec",
    b"\xbf",
)
# Containers interpolate the times of some packets, so a gap may appear this many pictures late.
_LATE = 16


def lost_in_time(index: FrameIndex, slots: Ints, durations: Ints) -> list[int]:
    """Return the positions before which a packet is missing, in a film with a regular rate.

    A picture is missing where the next picture comes later than the rate predicts. At such a gap,
    most decoders continue from the last picture that they have, and report nothing. `slots` holds
    the time of decoding of each packet, and is used if pictures have no reliable times of their
    own. `durations` holds how long the container shows each picture. If durations near a gap are
    longer by the length of the gap, the gap is a pause, and no picture is missing.
    """
    if not index.timed:
        # Times of decoding that do not increase show no gaps.
        if (slots == NO_PTS).any() or (np.diff(slots) <= 0).any():
            return []
        after = gaps(slots) + 1
        # Some writers leave slots empty behind the first picture, for pictures stored late.
        after = after[after > 1]
        # If FFmpeg computes times of decoding from times of showing, a gap appears a picture late.
        return [int(position) for position in index.order[np.union1d(after - 1, after)]]
    pictures = np.sort(index.order)
    places = np.empty(index.frames, dtype=np.int64)
    places[index.ranks[pictures]] = np.arange(index.frames)
    # The largest number of pictures that are stored before a picture shown earlier.
    early = int((np.arange(index.frames) - places).max(initial=0))
    near = max(early, _LATE)
    keys = index.keys[index.ranks[index.keys] >= 0]
    lost = []
    # Packets that show no picture have times too.
    times = np.sort(index.pts[index.pts != NO_PTS])
    places_of_gaps = gaps(times)
    ranks = np.searchsorted(index.pts[index.order], times[places_of_gaps], "right") - 1
    steps = np.diff(times)
    step = float(np.median(steps)) if len(steps) else 0.0
    missing = steps[places_of_gaps] - step
    # Gaps near the end do not count: a film may be cut off before a picture that is shown earlier
    # than its last one.
    is_inside = index.frames - 1 - ranks > early
    ranks = ranks[is_inside]
    missing = missing[is_inside]
    declared = durations[index.order] - step
    declared[declared < _JITTER * step] = 0
    # In MP4, durations belong to the times of decoding, so a pause may be declared at a nearby
    # picture. Gaps that may share a pause are counted together.
    are_apart = np.flatnonzero(np.diff(ranks) > 2 * near) + 1
    for group in np.split(np.arange(len(ranks)), are_apart):
        ranks_here = ranks[group].tolist()
        if not ranks_here:
            continue
        first = max(ranks_here[0] - near, 0)
        declared_here = declared[first : ranks_here[-1] + near + 1].sum()
        if declared_here > missing[group].sum() - step / 2:
            continue
        for rank in ranks_here:
            # The missing picture was stored after the last key frame shown before it.
            key = int(keys[index.ranks[keys] <= rank].max(initial=-1))
            if key >= 0:
                earliest = max(0, rank + 1 - near)
                lost.append(max(int(pictures[earliest]), key + 1))
    return lost


def gaps(times: Ints | Floats) -> Ints:
    """Return the index of the last time before each gap; no index if the times are irregular."""
    steps = np.diff(times)
    if len(steps) < _FEWEST_STEPS:
        return np.zeros(0, dtype=np.int64)
    step = float(np.median(steps))
    is_regular = np.mean(np.abs(steps - step) < _JITTER * step) >= _REGULAR_SHARE
    return np.flatnonzero(is_regular & (steps > GAP * step))


def first_doubtful_byte(path: Path, n_absent: int, n_streams: int) -> int:
    """Return the byte of an AVI file after which pictures may be missing.

    Return the size of the file if no pictures are missing. Each chunk of the file states where the
    next chunk begins. `n_absent` is the number of pictures that the header counts beyond the last
    picture in the file. An empty chunk repeats the picture before it; the header counts it as a
    picture.
    """
    in_streams: set[bytes] = set()
    for number in range(n_streams):
        in_streams.update(b"%02d%s" % (number, kind) for kind in _AVI_KINDS)
    name = b""
    n_repeats = 0
    last = 0
    # The value of `last` at the first unknown chunk behind a picture. That chunk may belong to a
    # stream and have a damaged name. Some programs add chunks of their own, so it proves no damage.
    before_other = 0
    has_picture = False
    at = 0
    end = 0
    with path.open("rb") as stream:
        n_bytes = os.fstat(stream.fileno()).st_size
        n_declared = int.from_bytes(stream.read(8)[4:], "little")
        while at < n_bytes:
            stream.seek(at)
            head = stream.read(8)
            name = head[:4]
            # Names such as "ID3 " and "_PMX" are in use too.
            if not name.translate(None, b" _").isalnum():
                return before_other or last
            is_known = name in in_streams or name in _AVI_BETWEEN or name[:2] == b"ix"
            if has_picture and not is_known:
                before_other = before_other or last
            size = int.from_bytes(head[4:], "little")
            # If pictures are missing behind empty chunks or sound, those before these chunks may be
            # missing too.
            if size and name[2:] != _AVI_SOUND:
                last = at
            if name[2:] in _AVI_PICTURES:
                has_picture = True
                n_repeats = 0 if size else n_repeats + 1
            end = at + (12 if name in _AVI_LISTS else 8 + size)
            at = end + end % 2
    has_table = name == _AVI_TABLE
    # Some programs do not pad the last chunk to an even size.
    if end > n_bytes and not has_table:
        return before_other or last
    if n_absent <= n_repeats:
        return n_bytes
    is_cut = n_bytes < n_declared and not has_table
    # Otherwise whole chunks are missing, at an unknown place.
    return before_other or (last if is_cut else 0)


def in_doubtful_clusters(path: Path, offsets: Ints) -> Bools:
    """Return which offsets in a Matroska file lie in a cluster whose elements do not fill it.

    After damage, FFmpeg continues at the next bytes that look like the name of an element, perhaps
    inside another packet. It reports an error only at the end of the cluster or of the file.
    """
    is_doubtful = np.zeros(len(offsets), dtype=np.bool_)
    with (
        path.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        at = data.find(_CLUSTER)
        while at >= 0:
            following = data.find(_CLUSTER, at + len(_CLUSTER))
            stop = following if following >= 0 else len(data)
            if not _fills_its_cluster(data, at + len(_CLUSTER), stop):
                is_doubtful |= (offsets >= at) & (offsets < stop)
            at = following
    return is_doubtful


def _fills_its_cluster(data: mmap.mmap, at: int, stop: int) -> bool:
    """Return whether the elements of a cluster fill it exactly.

    If the file ends inside the cluster, only the elements up to the end of the file are checked.
    """
    at, end = _element(data, at)
    # In a film that is broadcast, the size of a cluster is not known.
    end = stop if end < 0 else end
    while at < min(end, len(data)):
        names = [name for name in _IN_CLUSTER if data[at : at + len(name)] == name]
        if not names:
            return False
        _, at = _element(data, at + len(names[0]))
        if at < 0:
            return False
    return at == end or end > len(data)


def _element(data: mmap.mmap, at: int) -> tuple[int, int]:
    """Return where the content of an element starts and ends, from its size, stored at `at`.

    The end is -1 if the size is marked as unknown.
    """
    n_bytes = 9 - data[at].bit_length() if at < len(data) else 1
    unknown = (1 << 7 * n_bytes) - 1
    size = int.from_bytes(data[at : at + n_bytes]) & unknown
    start = at + n_bytes
    return start, -1 if size == unknown else start + size


def ends_inside_a_packet(path: Path) -> bool:
    """Return whether a transport stream ends inside a packet.

    Such a file was cut, so that its last picture may be incomplete without an error of the decoder.
    A packet has 188, 192 or 204 bytes. A packet of 188 or 204 bytes begins with a sync byte. In a
    packet of 192 bytes, the sync byte follows 4 other bytes.
    """
    for size, late in ((188, 0), (204, 0), (192, 4)):
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 8 * size))
            tail = stream.read()
        synced = [at for at in range(size) if set(tail[at::size]) == {_TS_SYNC_BYTE}]
        if synced and len(tail) == 8 * size:
            return late not in synced
    return False

"""Decode runs of packets, and record which pictures damage has affected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from obygaze_features.video.container import av
from obygaze_features.video.index import FrameIndex, PacketRun
from obygaze_features.video.losses import NO_ZEROS, has_unwritten_zeros, length_size_of
from obygaze_features.video.source import VideoSource

# Called with the position of a picture and the picture; True ends the run.
Sink = Callable[[int, Any], bool | None]

# Codecs in which no picture is built on a B picture: an error in one affects no other.
_LEAF_B_CODECS = frozenset({"mpeg1video", "mpeg2video", "mpeg4", "msmpeg4v3", "h263"})
_B_PICTURE = 3
_NO_BEGINNING = bytes(8)
# Without these options the decoders do not report the errors they conceal. The checksums of
# pictures in a stream of HEVC are compared if there are any.
_ERR_DETECT = {"hevc": "explode+crccheck", "mjpeg": "explode"}


Damage = set[tuple[int, bool]]
"""The positions where decoding failed, each with whether the error spreads to later pictures."""


def is_affected(index: FrameIndex, damage: Damage, position: int) -> bool:
    """Return whether a picture has an error, or one spreads to it since its last key frame."""
    start = index.start_of(position)
    return any(at == position or (spreads and start <= at <= position) for at, spreads in damage)


class PacketDecoder:
    """The decoder of one source. Each picture has the position of its packet."""

    def __init__(self, source: VideoSource, *, threads: int = 1) -> None:
        self.source = source
        self.codec = source.stream.codec_context
        self.codec.thread_count = threads
        self.codec.thread_type = "AUTO"
        self.name = source.codec
        if self.name in _ERR_DETECT:
            self.codec.options = {"err_detect": _ERR_DETECT[self.name]}
        self.length_size = length_size_of(self.name, self.codec.extradata)
        self.ended_in_zeros = False
        # The picture that was decoded to read the geometry, with its position.
        self.first: tuple[int, Any] | None = None
        self.damage: Damage = {(at, True) for at in np.flatnonzero(source.index.broken).tolist()}

    @property
    def whole(self) -> PacketRun:
        """Return the run of all packets."""
        return PacketRun(0, len(self.source.index.pts) - 1, frozenset())

    def run(self, run: PacketRun, sink: Sink, *, skip: bool = False, record: bool = True) -> bool:
        """Decode a run and pass each picture to `sink`; return whether there was no new damage.

        With `skip`, pictures on which no other is built are left out unless they are wanted.
        Without `record`, new damage is not kept.
        """
        known = set(self.damage)
        try:
            self._run(run, sink, skip)
        finally:
            self.codec.skip_frame = "DEFAULT"
            self.codec.flush_buffers()
        fine = self.damage == known
        if not record:
            self.damage = known
        return fine

    def _run(self, run: PacketRun, sink: Sink, skip: bool) -> None:
        self.ended_in_zeros = False
        for position, packet in self.source.packets(run.start, run.stop):
            unwanted = skip and position not in run.wanted
            self.codec.skip_frame = "NONREF" if unwanted else "DEFAULT"
            if self.name in NO_ZEROS:
                self._check_zeros(bytes(packet), position)
            if self._decode(packet, position, sink):
                return
        self.codec.skip_frame = "DEFAULT"
        before = len(self.damage)
        self._decode(None, run.stop, sink)
        if len(self.damage) > before:
            # The pictures after the one that failed are still in the decoder.
            while not self._decode(None, run.stop, sink):
                continue

    def _decode(self, packet: Any, position: int, sink: Sink) -> bool:
        """Decode one packet, or with None the rest; return whether the run is finished."""
        try:
            frames = self.codec.decode(packet)
        except EOFError:
            return True
        except av().FFmpegError:
            self.damage.add((position, True))
            return False
        enough = [self._pass_on(frame, position, sink) for frame in frames]
        return any(enough)

    def _check_zeros(self, data: bytes, position: int) -> None:
        if has_unwritten_zeros(self.name, data, self.length_size):
            self.damage.add((position, True))
        if self.ended_in_zeros and data.startswith(_NO_BEGINNING):
            # The part that was not stored begins in the packet before.
            self.damage.add((position - 1, True))
        self.ended_in_zeros = data.endswith(b"\0")

    def _pass_on(self, frame: Any, position: int, sink: Sink) -> bool:
        at = position if frame.pts is None else int(frame.pts)
        if frame.is_corrupt:
            leaf = frame.pict_type == _B_PICTURE and self.codec.name in _LEAF_B_CODECS
            self.damage.add((at, not leaf))
        return bool(sink(at, frame))

    def positions(self, stop: int | None = None, *, record: bool = True) -> list[int]:
        """Return the positions of the pictures, up to packet `stop`, as they come out."""
        out: list[int] = []
        run = self.whole if stop is None else PacketRun(0, stop, frozenset())
        self.run(run, lambda position, _: out.append(position), record=record)
        return out

    def exact_index(self) -> FrameIndex:
        """Return the exact index, which decoding everything gives: which packets show a picture."""
        if self.source.decode_once is None:
            return corrected(self.source.index, self.positions(), self.damage)
        decoded = self.source.decode_once()
        self.damage |= decoded.damage
        return corrected(self.source.index, decoded.positions.tolist(), self.damage)


def corrected(index: FrameIndex, out: Sequence[int], damage: Damage) -> FrameIndex:
    """Return the index with the pictures that came out of the decoder, in that order.

    Pictures that damage has destroyed keep their place; packets that showed none although nothing
    was wrong lose it.
    """
    seen = set(out)
    absent = np.setdiff1d(index.order, out).tolist()
    lost = [position for position in absent if is_affected(index, damage, position)]
    # Damage can disturb the order in which pictures come out, but not their times.
    if index.timed and (len(damage) or index.agrees_with(out)):
        positions = np.array(sorted(seen.union(lost)), dtype=np.int64)
        return index.with_order(positions[np.argsort(index.pts[positions], kind="stable")])
    # Each lost picture takes its place before the first that has a later position.
    order = np.array(out, dtype=np.int64)
    places = np.searchsorted(np.maximum.accumulate(order), lost)
    return index.without_times().with_order(np.insert(order, places, lost))

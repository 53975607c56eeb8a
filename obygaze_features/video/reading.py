"""Decode runs of packets with one thread, and keep account of what damage has touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from obygaze_features.video.continuity import TIGHT, is_holed, length_size_of
from obygaze_features.video.index import FrameIndex, Ints, Run
from obygaze_features.video.source import Source, av

# Called with the position of a picture and the picture; True says that no more is needed.
Sink = Callable[[int, Any], bool | None]

# Where a B picture is never built upon: an error in it stays in it.
_LEAF_B_CODECS = frozenset({"mpeg1video", "mpeg2video", "mpeg4", "msmpeg4v3", "h263"})
_B_PICTURE = 3
_NO_BEGINNING = bytes(8)
# Without these the decoders hide their errors in the picture and say nothing. Where a stream of
# HEVC carries sums of its pictures, they are compared.
_ERR_DETECT = {"hevc": "explode+crccheck", "mjpeg": "explode"}


@dataclass
class Damage:
    """The positions where decoding failed; `alone` are those that spoil only themselves."""

    spreading: set[int] = field(default_factory=set)
    alone: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.spreading) + len(self.alone)

    def copy(self) -> Damage:
        """The account as it is now."""
        return Damage(set(self.spreading), set(self.alone))

    def taints(self, index: FrameIndex, position: int) -> bool:
        """Whether a picture is spoilt: its own error, or one since the last clean key frame."""
        start = index.start_of(position)
        return position in self.alone or any(start <= e <= position for e in self.spreading)


class Reader:
    """The decoder of one source. Each picture names the position of its packet."""

    def __init__(self, source: Source, *, threads: int = 1) -> None:
        self.source = source
        self.codec = source.stream.codec_context
        self.codec.thread_count = threads
        self.codec.thread_type = "AUTO"
        self.name, extradata = source.codec
        if self.name in _ERR_DETECT:
            self.codec.options = {"err_detect": _ERR_DETECT[self.name]}
        self.length_size = length_size_of(self.name, extradata)
        self.ended_in_zeros = False
        # The picture that was decoded to learn the geometry, with its position.
        self.first: tuple[int, Any] | None = None
        self.damage = Damage(set(np.flatnonzero(source.index.broken).tolist()))

    def run(self, run: Run, sink: Sink, *, skip: bool = False) -> bool:
        """Decode a run, handing each picture that comes out to `sink`; True where all is well.

        With `skip`, pictures on which no other is built are left out on the way to those wanted.
        """
        before = len(self.damage)
        try:
            self._run(run, sink, skip)
        finally:
            self.codec.skip_frame = "DEFAULT"
            self.codec.flush_buffers()
        return len(self.damage) == before

    def _run(self, run: Run, sink: Sink, skip: bool) -> None:
        self.ended_in_zeros = False
        for position, packet in self.source.packets(run.start, run.stop):
            on_the_way = skip and position not in run.wanted
            self.codec.skip_frame = "NONREF" if on_the_way else "DEFAULT"
            if self._feed(packet, position, sink):
                return
        self.codec.skip_frame = "DEFAULT"
        self._drain(run.stop, sink)

    def _feed(self, packet: Any, position: int, sink: Sink) -> bool:
        if packet is not None and self.name in TIGHT:
            self._look_into(bytes(packet), position)
        try:
            frames = self.codec.decode(packet)
        except EOFError:
            return True
        except av().FFmpegError:
            self.damage.spreading.add(position)
            return False
        enough = [self._hand_on(frame, position, sink) for frame in frames]
        return any(enough)

    def _look_into(self, data: bytes, position: int) -> None:
        if is_holed(self.name, data, self.length_size):
            self.damage.spreading.add(position)
        if self.ended_in_zeros and data.startswith(_NO_BEGINNING):
            # What was not stored begins in the packet before.
            self.damage.spreading.add(position - 1)
        self.ended_in_zeros = data.endswith(b"\0")

    def _drain(self, position: int, sink: Sink) -> None:
        before = len(self.damage)
        self._feed(None, position, sink)
        if len(self.damage) > before:
            # The pictures behind the one that failed are still inside.
            while not self._feed(None, position, sink):
                continue

    def _hand_on(self, frame: Any, position: int, sink: Sink) -> bool:
        at = position if frame.pts is None else int(frame.pts)
        if frame.is_corrupt:
            leaf = frame.pict_type == _B_PICTURE and self.codec.name in _LEAF_B_CODECS
            (self.damage.alone if leaf else self.damage.spreading).add(at)
        return bool(sink(at, frame))


def census(reader: Reader) -> FrameIndex:
    """The exact index of a source: which packets show a picture, learnt by decoding all.

    Pictures that damage has destroyed keep their place; packets that showed nothing although
    nothing was wrong lose it.
    """
    out: list[int] = []
    reader.run(whole(reader.source.index), lambda position, _: out.append(position))
    return recount(reader.source.index, out, reader.damage)


def whole(index: FrameIndex) -> Run:
    """Everything, from the first packet to the last."""
    return Run(0, len(index.pts) - 1, frozenset())


def recount(index: FrameIndex, out: Sequence[int], damage: Damage) -> FrameIndex:
    """The index corrected by the positions of the pictures that came out, in that order."""
    seen = set(out)
    lost = [p for p in np.sort(index.order).tolist() if p not in seen and damage.taints(index, p)]
    # Damage can disturb the order in which pictures come out; it says nothing about the times.
    if index.timed and (len(damage) or index.agrees_with(out)):
        positions = np.array(sorted(seen.union(lost)), dtype=np.int64)
        return index.with_order(positions[np.argsort(index.pts[positions], kind="stable")])
    return index.without_times().with_order(_insert(out, lost))


def _insert(out: Sequence[int], lost: Sequence[int]) -> Ints:
    """The lost pictures put back among the others, each before the first that lies behind it."""
    order: list[int] = []
    waiting = list(reversed(lost))
    for position in out:
        while waiting and waiting[-1] < position:
            order.append(waiting.pop())
        order.append(position)
    return np.array([*order, *reversed(waiting)], dtype=np.int64)

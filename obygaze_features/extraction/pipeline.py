"""The one loop of an extraction: rows are decoded ahead, offered to every store, committed.

It knows only callables and iterators, so that every engine runs the same loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from obygaze_features.extraction.blocks import BatchTooLarge, BlockMaker
from obygaze_features.extraction.signals import StopFlag
from obygaze_features.store.format.schema import RowSource, RowStatus
from obygaze_features.video.decode import DecodedClip, View


@dataclass(frozen=True)
class Decoded:
    """What became of one row: a clip for each view, or why there is none."""

    row: int
    clips: Mapping[View, DecodedClip | RowStatus]
    seconds: float = 0.0
    source: RowSource | None = None


Decode = Callable[[Sequence[tuple[int, tuple[View, ...]]]], Iterator[Decoded]]


def run_rows(
    makers: Sequence[BlockMaker],
    decode: Decode,
    stop: StopFlag,
    tell: Callable[[Decoded], None],
) -> None:
    """Make every row the makers want; returns early, blocks kept, when asked to stop.

    A row is told once it is decoded, and again where the model failed on it or a block had to be
    begun again.
    """
    try:
        while not stop:
            try:
                _pass(makers, decode, stop, tell)
                break
            except BatchTooLarge:
                # The blocks in hand start again; those handed over are not wanted any more.
                for maker in makers:
                    maker.restart_block()
    finally:
        for maker in makers:
            maker.close()


def _pass(
    makers: Sequence[BlockMaker],
    decode: Decode,
    stop: StopFlag,
    tell: Callable[[Decoded], None],
) -> None:
    results = iter(decode(_jobs(makers)))
    while True:
        started = time.monotonic()
        decoded = next(results, None)
        waited = time.monotonic() - started
        if decoded is None:
            return
        for maker in makers:
            if decoded.row in maker.rows:
                maker.clock.add("wait", waited)
                maker.clock.add("decode", decoded.seconds)
                maker.offer(decoded.row, decoded.clips[maker.view], decoded.source)
        tell(decoded)
        for maker in makers:
            for row, status in maker.take_odd():
                tell(Decoded(row, {maker.view: status}))
        if stop:
            return


def _jobs(makers: Sequence[BlockMaker]) -> list[tuple[int, tuple[View, ...]]]:
    """The rows that are left, in order, each with the views its stores want of it."""
    rows = sorted(set().union(*(maker.rows for maker in makers)))
    return [
        (row, tuple(dict.fromkeys(maker.view for maker in makers if row in maker.rows)))
        for row in rows
    ]

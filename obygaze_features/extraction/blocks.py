"""Compute the features of one backbone: decoded clips in, whole blocks of its store out."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.machine import package_version
from obygaze_features.extraction.compute import Clock, Computed, Computer
from obygaze_features.store.format.schema import OK, SPAN_ARRAYS, ArraySpec, RowSource, RowStatus
from obygaze_features.store.write.writer import StoreWriter
from obygaze_features.video.decoded_clip import DecodedClip, View

# What errors for too little memory contain.
OUT_OF_MEMORY = (
    *("out of memory", "can't allocate memory", "not enough memory"),
    *("cublas_status_alloc_failed", "cudnn_status_alloc_failed"),
)
# The packages whose versions each block records.
PACKAGES = ("av", "numpy", "torch", "transformers", "zarr")


class BatchTooLarge(Exception):
    """What is computed at once does not fit into memory: it must be halved."""


@dataclass
class _Block:
    """An unfinished block, with a slot for each row to make."""

    number: int
    rows: Sequence[int]
    arrays: dict[str, npt.NDArray[Any]]
    statuses: list[RowStatus] = field(default_factory=list)
    sources: list[RowSource | None] = field(default_factory=list)
    n_awaited: int = 0
    clock: Clock = field(default_factory=Clock)

    @property
    def is_complete(self) -> bool:
        """Whether every row was added and computed."""
        return len(self.statuses) == len(self.rows) and not self.n_awaited


class BlockMaker:
    """Turn clips into blocks of one store. Rows must come in order, each exactly once.

    A batch ends with its block, so that a block's numbers do not depend on the blocks before it.

    Args:
        computer: The model, and how it is computed.
        writer: The writer of its store.
        view: The frames that the model uses.
        wanted: The rows to make, by the number of their block.
        batch: Clips computed at once.
        retry: Replace single rows of committed blocks.
    """

    def __init__(
        self,
        computer: Computer,
        writer: StoreWriter,
        view: View,
        wanted: Mapping[int, Sequence[int]],
        *,
        batch: int,
        retry: bool = False,
    ) -> None:
        self.computer, self.writer, self.view = computer, writer, view
        self.wanted, self.batch, self.retry = dict(wanted), batch, retry
        self.rows = {row for rows in self.wanted.values() for row in rows}
        self.versions = {name: text for name in PACKAGES if (text := package_version(name))}
        # Called with each row that was decoded but fails in the model.
        self.on_failed: Callable[[int, RowStatus], None] = lambda row, status: None
        self._block: _Block | None = None
        self._waiting: list[tuple[int, DecodedClip]] = []
        self._running: deque[tuple[_Block, list[int], Callable[[], Computed]]] = deque()
        # One thread: a block is written and synced while the next one is computed.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._commit: Future[None] | None = None

    def add(
        self,
        row: int,
        clip: DecodedClip | RowStatus,
        source: RowSource | None = None,
        seconds: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Add the next row, its source, and the seconds by stage that it took until now."""
        block = self._open(row)
        block.clock.add(seconds)
        if source is not None and isinstance(clip, DecodedClip):
            source = replace(source, pictures=clip.total)
        block.sources.append(source)
        if isinstance(clip, RowStatus):
            block.statuses.append(clip)
        else:
            self._take(block, clip)
        is_last = row == block.rows[-1]
        if is_last or len(self._waiting) == self.computer.split(self.batch)[0]:
            self._start(block)
        if is_last:
            self._block = None
            self._commit_if_complete(block)

    def finish(self) -> None:
        """Wait for the blocks whose rows were all added, and commit them."""
        while self._running and self._running[0][0] is not self._block:
            self._collect()

    def restart(self) -> None:
        """Halve what is computed at once; the rows of unfinished blocks must be added again."""
        self._block, self._waiting, self.batch = None, [], max(1, self.batch // 2)
        self._running.clear()

    def close(self) -> None:
        """Wait until finished blocks are on disk; drop the unfinished one."""
        try:
            self._settle()
        finally:
            self._pool.shutdown()

    def _open(self, row: int) -> _Block:
        if self._block is None:
            number = row // self.writer.plan.block_rows
            rows = self.wanted[number]
            arrays = {spec.name: _empty(spec, len(rows)) for spec in self.writer.plan.arrays}
            self._block = _Block(number, rows, arrays)
        return self._block

    def _take(self, block: _Block, clip: DecodedClip) -> None:
        slot = len(block.statuses)
        self._waiting.append((slot, clip))
        block.n_awaited += 1
        block.arrays["time_s"][slot] = clip.time_s
        block.arrays["asked_s"][slot] = clip.asked_s
        if clip.span_s is not None:
            for name, seconds in zip(SPAN_ARRAYS, clip.span_s, strict=True):
                block.arrays[name][slot] = seconds
        if "mask" in block.arrays:
            block.arrays["mask"][slot] = clip.mask
        if "clean" in block.arrays:
            block.arrays["clean"][slot] = not (clip.damaged or clip.missing)
        block.statuses.append(_status(clip))

    def _start(self, block: _Block) -> None:
        """Start to compute the clips that wait, as soon as not too many others are computed."""
        if not self._waiting:
            return
        while len(self._running) >= self.computer.split(self.batch)[1]:
            self._collect()
        slots, clips = zip(*self._waiting, strict=True)
        self._waiting = []
        with self._too_large_if_out_of_memory():
            result = self.computer.start(clips)
        self._running.append((block, list(slots), result))

    def _collect(self) -> None:
        """Wait for the first of the running clips; commit their block if it is complete."""
        block, slots, result = self._running.popleft()
        with self._too_large_if_out_of_memory():
            computed = result()
        block.clock.add(computed.seconds)
        for name, values in computed.levels.items():
            block.arrays[name][slots] = values
        for i, slot in enumerate(slots):
            infinite = [name for name, finite in computed.finite.items() if not finite[i]]
            if infinite:
                message = f"{', '.join(infinite)} not finite as stored"
                block.statuses[slot] = RowStatus.failed("forward", "NotFinite", message)
                self.on_failed(block.rows[slot], block.statuses[slot])
        block.n_awaited -= len(slots)
        self._commit_if_complete(block)

    def _commit_if_complete(self, block: _Block) -> None:
        """Write a complete block beside the next one; two are never written at once."""
        if not block.is_complete:
            return
        self.rows.difference_update(block.rows)
        with block.clock.of("write"):
            self._settle()
        self._commit = self._pool.submit(self._write, block, block.clock.seconds)

    @contextmanager
    def _too_large_if_out_of_memory(self) -> Iterator[None]:
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not _ran_out_of_memory(error):
                raise
            torch = sys.modules.get("torch")
            if torch is not None and torch.cuda.is_available():
                torch.cuda.empty_cache()
            raise BatchTooLarge(self.computer.backbone.card.label) from error

    def _write(self, block: _Block, seconds: Mapping[str, float]) -> None:
        commit = partial(self.writer.commit_block, block.number)
        if self.retry:
            commit = partial(self.writer.replace_rows, block.number, block.rows)
            marker = self.writer.marker(block.number)
            earlier = marker.seconds if marker else {}
            stages = earlier.keys() | seconds.keys()
            seconds = {name: earlier.get(name, 0.0) + seconds.get(name, 0.0) for name in stages}
        commit(
            block.arrays,
            block.statuses,
            sources=block.sources,
            seconds=seconds,
            versions=self.versions,
        )

    def _settle(self) -> None:
        if self._commit is not None:
            commit, self._commit = self._commit, None
            commit.result()


def _empty(spec: ArraySpec, n_rows: int) -> npt.NDArray[Any]:
    fill = np.nan if spec.is_float else 0
    return np.full((n_rows, *spec.tail_shape), fill, dtype=spec.dtype)


def _status(clip: DecodedClip) -> RowStatus:
    """Return "ok", with a message if some frames are not those that were asked for."""
    messages = []
    if clip.substituted.any():
        n_real = int(clip.mask.sum())
        messages.append(f"{int(clip.substituted.sum())} of {n_real} frames substituted")
    if clip.total < len(clip.index) and clip.mask.all():
        messages.append(f"{clip.total} frames repeated to {len(clip.index)}")
    return RowStatus("ok", message="; ".join(messages)) if messages else OK


def _ran_out_of_memory(error: BaseException) -> bool:
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(text in words for text in OUT_OF_MEMORY)

"""The loop of an extraction: decoded rows in, whole blocks of each store out."""

from __future__ import annotations

import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import obygaze_features
from obygaze_features.backbones.base import Backbone
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import STILL_SUFFIXES
from obygaze_features.core.machine import cpu_name, is_out_of_memory, package_version
from obygaze_features.extraction.compute import Clock, Computed, Computer
from obygaze_features.extraction.decoding import DecodedRow, Jobs
from obygaze_features.extraction.shared_machine import StopFlag, gpu_name
from obygaze_features.store.format.makers import Maker
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.schema import (
    MASK,
    OK,
    SPAN_ARRAYS,
    RowSource,
    RowStatus,
)
from obygaze_features.store.write.writer import StoreWriter
from obygaze_features.video.decoded_clip import DecodedClip, View

# The packages whose versions each block records.
PACKAGES = ("av", "numpy", "torch", "transformers", "zarr")

Decode = Callable[[Jobs], Iterator[DecodedRow]]
# Gets the number of a row, and whether it failed.
Watch = Callable[[int, bool], None]


def run_rows(
    makers: Sequence[BlockMaker], decode: Decode, stop: StopFlag, watch: Watch
) -> None:
    """Extract the rows of all makers; after a stop, only committed blocks are kept.

    `decode` yields the rows of jobs in order. `watch` is called when a row is decoded, and again if
    the model fails on the row or its block is restarted.
    """
    for maker in makers:
        maker.watch = watch
    try:
        while not stop:
            try:
                _pass(makers, decode, stop, watch)
                break
            except BatchTooLarge as error:
                # The backbones share the memory: the one that failed may not be the large one.
                if all(maker.batch == 1 for maker in makers):
                    raise ObygazeError(
                        f"one clip of {error} does not fit into memory",
                        hint="use a smaller backbone, --dtype bfloat16, or another --device",
                    ) from error
                for maker in makers:
                    maker.restart()
    finally:
        for maker in makers:
            maker.close()


def _pass(
    makers: Sequence[BlockMaker], decode: Decode, stop: StopFlag, watch: Watch
) -> None:
    jobs = []
    for row in sorted(set().union(*(maker.rows for maker in makers))):
        views = [maker.view for maker in makers if row in maker.rows]
        jobs.append((row, tuple(dict.fromkeys(views))))
    results = iter(decode(jobs))
    while not stop:
        started = time.monotonic()
        decoded = next(results, None)
        waited = time.monotonic() - started
        if decoded is None:
            break
        seconds = {"wait": waited, "decode": decoded.seconds}
        for maker in makers:
            if decoded.row in maker.rows:
                maker.add(
                    decoded.row, decoded.clips[maker.view], decoded.source, seconds
                )
        statuses = [
            clip for clip in decoded.clips.values() if isinstance(clip, RowStatus)
        ]
        watch(decoded.row, any(status.state == "failed" for status in statuses))
    for maker in makers:
        maker.finish()


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


class BlockMaker:
    """Turn clips into blocks of one store. Rows must come in order, each exactly once.

    A batch ends with its block, so that a block's numbers do not depend on the blocks before it.
    `wanted` are the rows to make, by the number of their block, and `batch` the clips computed at
    once. With `retry`, single rows of committed blocks are replaced.
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
        self.computer = computer
        self.writer = writer
        self.view = view
        self.wanted = dict(wanted)
        self.batch = batch
        self.retry = retry
        self.rows = set[int]().union(*self.wanted.values())
        self.maker = maker_of(computer.backbone, writer.plan.recipe)
        self.watch: Watch = lambda row, failed: None
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
        source: RowSource | None,
        seconds: Mapping[str, float],
    ) -> None:
        """Add the next row, its source, and the seconds by stage that it took until now."""
        if self._block is None:
            number = row // self.writer.plan.block_rows
            rows = self.wanted[number]
            arrays = {
                spec.name: np.full(
                    (len(rows), *spec.tail_shape),
                    np.nan if spec.is_float else 0,
                    spec.dtype,
                )
                for spec in self.writer.plan.arrays
            }
            self._block = _Block(number, rows, arrays)
        block = self._block
        block.clock.add(seconds)
        if source is not None and isinstance(clip, DecodedClip):
            source = replace(source, n_frames=clip.total)
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
        self._block = None
        self._waiting = []
        self.batch = max(1, self.batch // 2)
        self._running.clear()

    def close(self) -> None:
        """Wait until finished blocks are on disk; drop the unfinished one."""
        try:
            self._settle()
        finally:
            self._pool.shutdown()

    def _take(self, block: _Block, clip: DecodedClip) -> None:
        slot = len(block.statuses)
        self._waiting.append((slot, clip))
        block.n_awaited += 1
        block.arrays["time_s"][slot] = clip.time_s
        block.arrays["asked_s"][slot] = clip.asked_s
        if clip.span_s is not None:
            for name, seconds in zip(SPAN_ARRAYS, clip.span_s, strict=True):
                block.arrays[name][slot] = seconds
        if MASK in block.arrays:
            block.arrays[MASK][slot] = clip.mask
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
        for name, values in computed.arrays.items():
            block.arrays[name][slots] = values
        for i, slot in enumerate(slots):
            infinite = [
                name for name, finite in computed.finite.items() if not finite[i]
            ]
            if infinite:
                message = f"{', '.join(infinite)} not finite as stored"
                status = RowStatus.failed("forward", "NotFinite", message)
                block.statuses[slot] = status
                self.watch(block.rows[slot], True)
        block.n_awaited -= len(slots)
        self._commit_if_complete(block)

    def _commit_if_complete(self, block: _Block) -> None:
        """Write a complete block beside the next one; two are never written at once."""
        if len(block.statuses) < len(block.rows) or block.n_awaited:
            return
        self.rows.difference_update(block.rows)
        with block.clock.of("write"):
            self._settle()
        self._commit = self._pool.submit(self._write, block)

    @contextmanager
    def _too_large_if_out_of_memory(self) -> Iterator[None]:
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            torch = sys.modules.get("torch")
            if torch is not None and torch.cuda.is_available():
                torch.cuda.empty_cache()
            raise BatchTooLarge(self.computer.backbone.card.label) from error

    def _write(self, block: _Block) -> None:
        commit = partial(self.writer.commit_block, block.number)
        if self.retry:
            commit = partial(self.writer.replace_rows, block.number, block.rows)
            marker = self.writer.marker(block.number)
            block.clock.add(marker.seconds if marker else {})
        facts: dict[str, Any] = {
            "sources": block.sources,
            "makers": [self.maker] * len(block.rows),
            "seconds": block.clock,
            "versions": dict(self.maker.versions),
        }
        commit(block.arrays, block.statuses, **facts)

    def _settle(self) -> None:
        if self._commit is not None:
            commit = self._commit
            self._commit = None
            commit.result()


def maker_of(backbone: Backbone, recipe: Recipe) -> Maker:
    """Return what makes the clips of a backbone: this program, on its device, in its precision."""
    placement = backbone.placement
    # What does not need torch, and is not the user's own, computes on the CPU in any case.
    may_use_gpu = backbone.card.family.needs_torch or bool(backbone.card.code)
    on_gpu = may_use_gpu and placement.device.startswith("cuda")
    precision = str(recipe.to_json()["compute"].get("dtype", placement.dtype))
    if on_gpu and placement.tf32:
        precision = f"{precision} with TF32"
    versions = [(name, package_version(name)) for name in PACKAGES]
    return Maker(
        program=f"obygaze {obygaze_features.__version__}",
        device="cuda" if on_gpu else "cpu",
        device_name=gpu_name(placement.device) if on_gpu else cpu_name(),
        precision=precision,
        host=socket.gethostname(),
        versions=tuple((name, version) for name, version in versions if version),
    )


def _status(clip: DecodedClip) -> RowStatus:
    """Return "ok", with a message if some frames are not those that were asked for."""
    messages = []
    if clip.substituted.any():
        n_real = int(clip.mask.sum())
        messages.append(f"{int(clip.substituted.sum())} of {n_real} frames substituted")
    is_still = clip.path.suffix.lower() in STILL_SUFFIXES
    if clip.total < len(clip.index) and clip.mask.all() and not is_still:
        messages.append(f"{clip.total} frames repeated to {len(clip.index)}")
    return RowStatus("ok", message="; ".join(messages)) if messages else OK

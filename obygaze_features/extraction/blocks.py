"""The loop of an extraction: decoded rows in, whole blocks of each store out."""

from __future__ import annotations

import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import obygaze_features
from obygaze_features.backbones.base import Backbone
from obygaze_features.core.errors import Mismatch, ObygazeError
from obygaze_features.core.files import STILL_SUFFIXES
from obygaze_features.core.machine import (
    cpu_name,
    is_device_error,
    is_out_of_memory,
    package_version,
)
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
from obygaze_features.store.write.finished_rows import FinishedRows
from obygaze_features.store.write.writer import StoreWriter
from obygaze_features.video.decoded_clip import DecodedClip, View

# The packages whose versions each block records.
PACKAGES = ("av", "numpy", "torch", "transformers", "zarr")

Decode = Callable[[Jobs], Iterator[DecodedRow]]
# Gets the number of a row, and whether it failed.
Watch = Callable[[int, bool], None]
# Gets the number of a row and the source from which it was made.
IsCurrent = Callable[[int, RowSource | None], bool]

# Finished rows are kept so often until their block is committed: a kill loses no more than this.
KEEP_EVERY_S = 1.0


def run_rows(
    makers: Sequence[BlockMaker], decode: Decode, stop: StopFlag, watch: Watch
) -> None:
    """Extract the rows of all makers; after a stop, the clips that are computed are finished.

    `decode` yields the rows of jobs in order. `watch` is called when a row is decoded, and again if
    the model fails on the row or its block is restarted. Finished rows are kept, however it ends.
    """
    for maker in makers:
        maker.watch = watch
    try:
        while not stop:
            too_large = _too_large_in_pass(makers, decode, stop, watch)
            if not too_large:
                break
            # The backbones share the memory: the one that failed may not be the large one.
            if all(maker.batch == 1 for maker in makers):
                raise ObygazeError(
                    f"one clip of {too_large} does not fit into memory",
                    hint="use a smaller backbone, --dtype bfloat16, or another --device",
                )
            for maker in makers:
                maker.restart()
            release_gpu_memory()
    finally:
        with stop.ending(), ExitStack() as stack:
            for maker in reversed(makers):
                stack.callback(maker.close)


def _too_large_in_pass(
    makers: Sequence[BlockMaker], decode: Decode, stop: StopFlag, watch: Watch
) -> str:
    """Extract the rows; return the backbone whose clips do not fit into memory, "" if all do.

    Outside, no traceback holds the tensors of what did not fit.
    """
    try:
        _pass(makers, decode, stop, watch)
    except BatchTooLarge as error:
        return str(error)
    except RuntimeError as error:
        if not is_device_error(error):
            raise
        raise ObygazeError(
            f"the GPU failed: {str(error).strip().splitlines()[0]}",
            hint="the same command goes on from the finished clips; if it fails again, look at "
            "nvidia-smi, or use another --device",
        ) from error
    return ""


def _pass(
    makers: Sequence[BlockMaker], decode: Decode, stop: StopFlag, watch: Watch
) -> None:
    for maker in makers:
        maker.commit_finished_blocks()
    jobs = []
    for row in sorted(set().union(*(maker.rows for maker in makers))):
        views = [maker.view for maker in makers if row in maker.rows]
        jobs.append((row, tuple(dict.fromkeys(views))))
    results = iter(decode(jobs))
    # Other workers may have made the last of the rows meanwhile.
    while not stop and any(maker.rows for maker in makers):
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


class _Block:
    """An unfinished block, with a slot for each row to make.

    `revision` is that of the marker that it will get. `unkept` are the slots that are computed and
    not kept yet, and `unkept_clock` the seconds since then.
    """

    def __init__(self, number: int, rows: Sequence[int], writer: StoreWriter) -> None:
        self.number = number
        self.rows = rows
        self.revision = writer.next_revision(number)
        self.slot_of_row = {row: slot for slot, row in enumerate(rows)}
        self.arrays = {
            spec.name: np.full(
                (len(rows), *spec.tail_shape),
                np.nan if spec.is_float else 0,
                spec.dtype,
            )
            for spec in writer.plan.arrays
        }
        self.statuses: dict[int, RowStatus] = {}
        self.sources: dict[int, RowSource | None] = {}
        self.makers: dict[int, Maker] = {}
        self.n_awaited = 0
        self.clock = Clock()
        self.unkept: list[int] = []
        self.unkept_clock = Clock()
        self.copies: list[Future[None]] = []

    def wait_for_copies(self) -> None:
        """Wait until the arrays have what was computed for them."""
        for copy in self.copies:
            copy.result()
        # Not before: after an error, or Ctrl-C, the arrays do not have all of it.
        self.copies = []

    @property
    def has_all_rows(self) -> bool:
        """Return whether all rows were added."""
        return len(self.statuses) == len(self.rows)

    def spend(self, seconds: Mapping[str, float]) -> None:
        """Add seconds by stage."""
        self.clock.add(seconds)
        self.unkept_clock.add(seconds)

    def take(self, finished: FinishedRows) -> None:
        """Take rows that were finished before a stop."""
        self.clock.add(finished.seconds)
        for index, row in enumerate(finished.rows):
            slot = self.slot_of_row[row]
            for name, values in finished.arrays.items():
                self.arrays[name][slot] = values[index]
            self.statuses[slot] = finished.statuses[index]
            self.sources[slot] = finished.sources[index]
            self.makers[slot] = finished.maker


def _copy(block: _Block, slots: Sequence[int], arrays: Mapping[str, Any]) -> None:
    """Copy the arrays of some clips to their block."""
    for name, values in arrays.items():
        block.arrays[name][slots] = values


class BlockMaker:
    """Turn clips into blocks of one store. Rows must come in order, each exactly once.

    A batch ends with its block, so that a block's numbers do not depend on the blocks before it.
    `wanted` are the rows to make, by the number of their block, and `batch` the clips computed at
    once. With `retry`, single rows of committed blocks are replaced. With `shared`, blocks that
    other workers commit meanwhile are dropped.

    Rows that were finished before a stop are taken, if `is_current` of the row and its source.
    `rows` are the others. Batches are kept in order, so that a block has the same batches as
    without the stop.
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
        shared: bool = False,
        is_current: IsCurrent = lambda row, source: True,
    ) -> None:
        self.computer = computer
        self.writer = writer
        self.view = view
        self.wanted = dict(wanted)
        self.batch = batch
        self.retry = retry
        self.shared = shared
        self.is_current = is_current
        self.maker = maker_of(computer.backbone, writer.plan.recipe)
        self.watch: Watch = lambda row, failed: None
        self.rows: set[int] = set()
        # The blocks with rows from before a stop, and the one to which rows are added.
        self._begun: dict[int, _Block] = {}
        # The block to which the last row was added, and its clips that are not computed yet.
        self._last: _Block | None = None
        self._waiting: list[tuple[int, DecodedClip]] = []
        self._running: deque[tuple[_Block, list[int], Callable[[], Computed]]] = deque()
        # One thread: a block is written and synced while the next one is computed.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._commit: Future[None] | None = None
        # A batch of tokens has 150 MB: the thread that feeds the GPU does not copy them.
        self._copies = ThreadPoolExecutor(1, thread_name_prefix="copy")
        self._copied: list[Future[None]] = []
        self._kept_at = time.monotonic()
        self._take_finished_rows()

    def add(
        self,
        row: int,
        clip: DecodedClip | RowStatus,
        source: RowSource | None,
        seconds: Mapping[str, float],
    ) -> None:
        """Add the next row, its source, and the seconds by stage that it took until now."""
        number = row // self.writer.plan.block_rows
        if self.shared and number not in self._begun:
            self._drop_blocks_of_others(self.wanted)
        if number not in self.wanted:
            return
        block = self._last = self._block(number)
        slot = block.slot_of_row[row]
        block.spend(seconds)
        if source is not None and isinstance(clip, DecodedClip):
            source = replace(source, n_frames=clip.total)
        block.sources[slot] = source
        block.makers[slot] = self.maker
        if isinstance(clip, RowStatus):
            block.statuses[slot] = clip
        else:
            self._take(block, slot, clip)
        if block.has_all_rows or len(self._waiting) == self._clips_at_once:
            self._start(block)
        self._commit_if_complete(block)

    def commit_finished_blocks(self) -> None:
        """Commit the blocks whose rows were all finished before a stop."""
        for block in list(self._begun.values()):
            self._commit_if_complete(block)

    def finish(self) -> None:
        """Wait for all that is computed; commit the blocks that are complete."""
        while self._running:
            self._collect()

    def restart(self) -> None:
        """Halve what is computed at once; the rows that are not finished must be added again."""
        self._keep_finished_rows()
        self._waiting = []
        self.batch = max(1, self.batch // 2)
        self._running.clear()
        self._take_finished_rows()

    def close(self) -> None:
        """Wait until finished blocks are on disk; keep the finished rows of others."""
        try:
            self._keep_finished_rows()
            self._settle()
        finally:
            self._copies.shutdown()
            self._pool.shutdown()

    @property
    def _clips_at_once(self) -> int:
        """Return how many clips are computed together, which the last bits may depend on."""
        return self.computer.split(self.batch)[0]

    def _block(self, number: int) -> _Block:
        """Return an unfinished block, which is new with its first row."""
        if number not in self._begun:
            self._begun[number] = _Block(number, self.wanted[number], self.writer)
        return self._begun[number]

    def _take_finished_rows(self) -> None:
        """Take the rows that were finished before a stop; `rows` are those that are left."""
        self._begun = {}
        self.rows = set[int]().union(*self.wanted.values())
        for finished in self.writer.finished_rows(self.wanted):
            is_of_this_kind = finished.maker.kind == self.maker.kind
            if not is_of_this_kind or finished.batch != self._clips_at_once:
                continue
            number = finished.rows[0] // self.writer.plan.block_rows
            chosen = [
                index
                for index, row in enumerate(finished.rows)
                if row in self.rows and self.is_current(row, finished.sources[index])
            ]
            if chosen:
                self._block(number).take(finished.part(chosen))
                self.rows.difference_update(finished.rows[index] for index in chosen)

    def _keep_finished_rows(self) -> None:
        """Keep the rows of unfinished blocks that were finished since the last time."""
        for block in self._begun.values():
            slots = block.unkept
            if not slots:
                continue
            block.wait_for_copies()
            finished = FinishedRows(
                rows=[block.rows[slot] for slot in slots],
                arrays={name: values[slots] for name, values in block.arrays.items()},
                statuses=[block.statuses[slot] for slot in slots],
                sources=[block.sources[slot] for slot in slots],
                maker=self.maker,
                batch=self._clips_at_once,
                seconds=block.unkept_clock,
            )
            self.writer.keep_rows(block.number, block.revision, finished)
            block.unkept = []
            block.unkept_clock = Clock()
        self._kept_at = time.monotonic()

    def _drop_blocks_of_others(self, numbers: Iterable[int]) -> None:
        """Drop those of these blocks that another worker has committed."""
        pending = set(self.writer.pending_blocks())
        for number in [number for number in numbers if number not in pending]:
            for row in self.wanted.pop(number):
                self.rows.discard(row)
                self.watch(row, False)
            block = self._begun.pop(number, None)
            if block is not None and block is self._last:
                self._waiting = []

    def _take(self, block: _Block, slot: int, clip: DecodedClip) -> None:
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
        block.statuses[slot] = _status(clip)

    def _start(self, block: _Block) -> None:
        """Start to compute the clips that wait, as soon as not too many others are computed."""
        if not self._waiting:
            return
        while len(self._running) >= self.computer.split(self.batch)[1]:
            self._collect()
        if not self._waiting:  # another worker has committed their block
            return
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
        block.spend(computed.seconds)
        # Two batches are under way and one is copied: no more pinned memory is needed.
        wait(self._copied)
        copy = self._copies.submit(_copy, block, slots, computed.arrays)
        self._copied = [copy]
        block.copies.append(copy)
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
        block.unkept += slots
        if time.monotonic() - self._kept_at >= KEEP_EVERY_S:
            self._keep_finished_rows()
            if self.shared:
                self._drop_blocks_of_others(self._begun)
        self._commit_if_complete(block)

    def _commit_if_complete(self, block: _Block) -> None:
        """Write a complete block beside the next one; two are never written at once."""
        is_dropped = self._begun.get(block.number) is not block
        if is_dropped or block.n_awaited or not block.has_all_rows:
            return
        with block.clock.of("write"):
            self._settle()
        self._commit = self._pool.submit(self._write, block)
        del self.wanted[block.number]
        del self._begun[block.number]
        self.rows.difference_update(block.rows)

    @contextmanager
    def _too_large_if_out_of_memory(self) -> Iterator[None]:
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise BatchTooLarge(self.computer.backbone.card.label) from error

    def _write(self, block: _Block) -> None:
        block.wait_for_copies()
        commit = partial(self.writer.commit_block, block.number)
        if self.retry:
            commit = partial(self.writer.replace_rows, block.number, block.rows)
            marker = self.writer.marker(block.number)
            block.clock.add(marker.seconds if marker else {})
        slots = range(len(block.rows))
        statuses = [block.statuses[slot] for slot in slots]
        facts: dict[str, Any] = {
            "sources": [block.sources[slot] for slot in slots],
            "makers": [block.makers[slot] for slot in slots],
            "seconds": block.clock,
            "versions": dict(self.maker.versions),
        }
        try:
            commit(block.arrays, statuses, **facts)
        except Mismatch:
            # Another worker may have committed it, with other last bits: that one counts.
            if not self.shared or block.number in self.writer.pending_blocks():
                raise
            self.writer.refuse_other_kinds(self.maker.kind)

    def _settle(self) -> None:
        if self._commit is not None:
            commit = self._commit
            self._commit = None
            commit.result()


def release_gpu_memory() -> None:
    """Give back the memory of a GPU that torch keeps for later."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def maker_of(backbone: Backbone, recipe: Recipe) -> Maker:
    """Return what makes the clips of a backbone: this program, on its device, in its precision."""
    placement = backbone.placement
    # What does not need torch, and is not the user's own, computes on the CPU in any case.
    may_use_gpu = backbone.card.family.needs_torch or bool(backbone.card.code)
    on_gpu = may_use_gpu and placement.device.startswith("cuda")
    precision = str(recipe.to_json()["compute"].get("dtype", placement.dtype))
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

"""The loop of an extraction: rows still to compute, decoded, computed, written in blocks.

`fill` reads like the list that it is. A block is begun when its first row is to be decoded. A batch
ends with its block, so that the numbers of a block do not depend on the blocks before it.
"""

import secrets
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.machine import is_device_error, is_out_of_memory
from obygaze_features.extraction.clips import PlannedClip
from obygaze_features.extraction.compute import Computed, Computer
from obygaze_features.extraction.decoded import (
    Clip,
    Decoded,
    Failure,
    RowJob,
    Source,
)
from obygaze_features.extraction.decoding import decode_ahead
from obygaze_features.extraction.kept import KeptViews
from obygaze_features.extraction.recipes import CLEAN
from obygaze_features.extraction.stopping import StopFlag
from obygaze_features.manifest.windows import Grid
from obygaze_features.store.filling import BlockWriter, Filling, choose_block
from obygaze_features.store.layout import MASK
from obygaze_features.store.records import Maker
from obygaze_features.store.rows import FAILED, Row
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.pool import DecodePool

# A device that gives no numbers for so many clips in a row is broken.
BROKEN_AFTER = 8
# Steps of writing that may wait: what is computed waits for a slow disk, and not in memory.
_MOST_WRITES = 64

# Gets the number of a row, and whether it failed.
Watch = Callable[[int, bool], None]


@dataclass(frozen=True)
class Ahead:
    """What may be decoded before it is computed."""

    most_clips: int
    most_bytes: int
    indexes: str
    accept_damaged: bool = False
    grid: Grid | None = None
    kept: KeptViews = field(default_factory=dict)


def fill(
    stores: Sequence["StoreFiller"],
    clips: Sequence[PlannedClip],
    pool: DecodePool,
    ahead: Ahead,
    stop: StopFlag,
    watch: Watch = lambda row, failed: None,
) -> None:
    """Compute the blocks of stores that are missing, until none is left, or until a stop.

    Args:
        stores: The stores, all with the same rows.
        clips: The clip of each row.
        pool: The processes that decode, for all stores together.
        ahead: How much is decoded ahead.
        stop: The flag that stops the loop.
        watch: Is called for each decoded row, and again if a backbone fails on it.
    """
    for store in stores:
        store.watch = watch
    while not stop and any(store.is_missing() for store in stores):
        too_large = _fill_once(stores, clips, pool, ahead, stop, watch)
        if too_large:
            halve_batches(stores, too_large)


def _fill_once(
    stores: Sequence["StoreFiller"],
    clips: Sequence[PlannedClip],
    pool: DecodePool,
    ahead: Ahead,
    stop: StopFlag,
    watch: Watch,
) -> str:
    """Compute missing blocks; return the backbone whose batch does not fit into memory, or ""."""
    jobs = rows_to_compute(stores)
    decoded_rows = decode_ahead(jobs, clips, pool, **vars(ahead))
    try:
        with _one_sentence_for_a_broken_device():
            for decoded in decoded_rows:
                for store in stores:
                    store.add(decoded)
                failed = any(isinstance(one, Failure) for one in decoded.views.values())
                watch(decoded.row, failed)
                if stop:
                    break
            for store in stores:
                store.finish()
    except BatchTooLarge as error:
        return str(error)
    finally:
        decoded_rows.close()
        for store in stores:
            store.let_go_of_all()
    return ""


def rows_to_compute(stores: Sequence["StoreFiller"]) -> Iterator[RowJob]:
    """Yield the rows of missing blocks, span by span, each with the views that stores need.

    A span is the largest block among the stores: the blocks of the others divide it.
    """
    span_rows = max(store.block_rows for store in stores)
    n_rows = stores[0].filling.plan.rows
    taken: set[int] = set()
    # Each process begins at another place, so that two seldom compute the same block.
    start = secrets.randbelow(-(-n_rows // span_rows))
    while True:
        span = _next_span(stores, span_rows, taken, start)
        if span is None:
            return
        taken.add(span)
        start = span + 1
        for row in range(span * span_rows, min((span + 1) * span_rows, n_rows)):
            views = [store.view for store in stores if store.needs(row)]
            if views:
                yield RowJob(row, tuple(dict.fromkeys(views)))


def _next_span(
    stores: Sequence["StoreFiller"], span_rows: int, taken: set[int], start: int
) -> int | None:
    """Return a span with a missing block that nobody has begun, else one that others began."""
    begun_of_span: dict[int, int] = {}
    missing: set[int] = set()
    for store in stores:
        blocks_of_span = span_rows // store.block_rows
        done, begun = store.filling.listed()
        for block in store.filling.needed:
            if block not in done:
                missing.add(block // blocks_of_span)
        for block, n_times in begun.items():
            span = block // blocks_of_span
            begun_of_span[span] = max(begun_of_span.get(span, 0), n_times)
    return choose_block(sorted(missing), taken, begun_of_span, start)


class BatchTooLarge(Exception):
    """What is computed at once does not fit into memory: it must be halved."""


def halve_batches(stores: Sequence["StoreFiller"], too_large: str) -> None:
    """Halve the batches of all stores: the one that failed may not be the large one."""
    if all(store.batch == 1 for store in stores):
        raise ObygazeError(
            f"one clip of {too_large} does not fit into memory",
            hint="use a smaller backbone, --dtype bfloat16, or another --device",
        )
    for store in stores:
        store.batch = max(1, store.batch // 2)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def _one_sentence_for_a_broken_device() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not is_device_error(error):
            raise
        raise ObygazeError(
            f"the GPU failed: {str(error).strip().splitlines()[0]}",
            hint="the same command goes on from the finished blocks; if it fails again, look at"
            " nvidia-smi, or use another --device",
        ) from error


# --- One store ---


class Written(NamedTuple):
    """A row of a block as it is written: without values unless it is ok."""

    row: Row
    values: Mapping[str, Any] | None


@dataclass
class _Block:
    """A block at work. `finished` has the rows that wait for a row before them."""

    number: int
    writer: BlockWriter
    rows: Sequence[int]
    finished: dict[int, Written] = field(default_factory=dict)
    n_written: int = 0


class _Batch(NamedTuple):
    """Clips of one block that are computed together; `result` waits for their features."""

    block: _Block
    rows: Sequence[int]
    clips: Sequence[Clip]
    sources: Sequence[Source]
    result: Callable[[], Computed]


class StoreFiller:
    """One store: takes decoded rows in order, computes them in batches, writes its blocks.

    Args:
        filling: The plan of the store and its finished blocks.
        view: What the backbone sees of a clip.
        computer: What computes the features.
        maker: What is recorded of it.
        batch: How many clips are computed at once.
        writing: The thread that writes, one for all stores.
        mixed: Allow another version or device than the plan's.
    """

    def __init__(
        self,
        filling: Filling,
        view: View,
        computer: Computer,
        maker: Maker,
        *,
        batch: int,
        writing: ThreadPoolExecutor,
        mixed: bool = False,
    ) -> None:
        self.filling = filling
        self.view = view
        self.computer = computer
        self.maker = maker
        self.batch = batch
        self.mixed = mixed
        self.block_rows = filling.plan.block_rows
        self.watch: Watch = lambda row, failed: None
        self._writing = writing
        self._writes: deque[Future[object]] = deque()
        self._blocks: dict[int, _Block] = {}
        # Blocks that another process finished, or that this one has written.
        self._over: set[int] = set()
        self._block_of_waiting: _Block | None = None
        self._waiting: list[tuple[int, Clip, Source]] = []
        self._running: deque[_Batch] = deque()
        # Clips in a row without finite numbers; meanwhile, complete blocks are not committed.
        self._n_broken = 0
        self._doubtful: list[BlockWriter] = []

    def is_missing(self) -> bool:
        """Return whether blocks are missing, and the store is still being filled as planned."""
        return self.filling.is_current() and bool(self.filling.missing())

    def needs(self, row: int) -> bool:
        """Return whether a row is to be decoded for this store; begin its block with its first."""
        number = row // self.block_rows
        if not self.filling.computed[row] or number in self._over:
            return False
        if number not in self._blocks:
            writer = self.filling.begin(number, self.maker, mixed=self.mixed)
            if writer is None:
                self._over.add(number)
                return False
            self._blocks[number] = _Block(number, writer, writer.rows)
        elif self.filling.is_done(number):
            self._let_go(self._blocks[number])
            return False
        return True

    def add(self, decoded: Decoded) -> None:
        """Add the next decoded row."""
        block = self._blocks.get(decoded.row // self.block_rows)
        if block is None or self.view not in decoded.views:
            return
        if self.filling.is_done(block.number):
            self._let_go(block)
            return
        if self._waiting and self._block_of_waiting is not block:
            # The other rows of that block were not decoded: another process has finished it.
            self._waiting = []
        clip = self._checked(decoded.views[self.view])
        if isinstance(clip, Failure):
            self._finish_row(block, decoded.row, decoded.source, clip)
        else:
            self._block_of_waiting = block
            self._waiting.append((decoded.row, clip, decoded.source))
        is_last = decoded.row == block.rows[-1]
        if is_last or len(self._waiting) == self.computer.split(self.batch)[0]:
            self._start()
        self._write(block)

    def _checked(self, clip: Clip | Failure) -> Clip | Failure:
        """Return a clip, or why a backbone without a mask cannot take it."""
        if isinstance(clip, Failure) or clip.mask.all():
            return clip
        backbone = self.computer.backbone
        if backbone.takes_mask:
            return clip
        n_real = int(clip.mask.sum())
        return Failure(
            FAILED,
            f"too-short: {n_real} of {len(clip.mask)} frames exist, and"
            f" {backbone.card.label} needs all of them",
        )

    def _start(self) -> None:
        """Start to compute the clips that wait, as soon as not too many others are computed."""
        while len(self._running) >= self.computer.split(self.batch)[1]:
            self._collect()
        # Meanwhile their block may have been let go.
        block = self._block_of_waiting
        if not self._waiting or block is None:
            return
        rows, clips, sources = zip(*self._waiting, strict=True)
        self._waiting = []
        with self._too_large_if_out_of_memory():
            result = self.computer.start(clips)
        self._running.append(_Batch(block, rows, clips, sources, result))

    def _collect(self) -> None:
        """Wait for the first of the running batches."""
        batch = self._running.popleft()
        with self._too_large_if_out_of_memory():
            computed = batch.result()
        if self._blocks.get(batch.block.number) is not batch.block:
            return
        triples = zip(batch.rows, batch.clips, batch.sources, strict=True)
        for place, (row, clip, source) in enumerate(triples):
            not_finite = [
                name for name, flags in computed.finite.items() if not flags[place]
            ]
            if not_finite:
                reason = f"NotFinite: {', '.join(not_finite)} not finite as stored"
                self._count_broken(reason)
                failure = Failure(FAILED, reason)
                self._finish_row(batch.block, row, source, failure)
                self.watch(row, True)
            else:
                self._n_broken = 0
                self._commit_doubtful()
                features = {name: x[place] for name, x in computed.arrays.items()}
                self._finish_row(batch.block, row, source, clip, features)
        self._write(batch.block)

    def _count_broken(self, reason: str) -> None:
        self._n_broken += 1
        if self._n_broken >= BROKEN_AFTER:
            backbone = self.computer.backbone
            raise ObygazeError(
                f"{self._n_broken} clips in a row failed: {reason}",
                where=f"{backbone.card.label} on {backbone.placement.device}",
                hint="another --device, if this one is broken; --dtype float32, if numbers are"
                " too large",
            )

    def _finish_row(
        self,
        block: _Block,
        number: int,
        source: Source,
        clip: Clip | Failure,
        features: Mapping[str, Any] | None = None,
    ) -> None:
        row = self.filling.rows[number]._replace(
            video_bytes=source.n_bytes, video_hash=source.quick_hash
        )
        if isinstance(clip, Failure):
            row = row._replace(status=clip.status, reason=clip.reason)
            block.finished[number] = Written(row, None)
            return
        row = row._replace(reason=clip.remark, pictures=clip.total)
        facts = {"time_s": clip.time_s, "asked_s": clip.asked_s, MASK: clip.mask}
        facts[CLEAN] = _scalar(clip.is_clean, "bool")
        if clip.span_s is not None:
            facts["start_s"] = _scalar(clip.span_s[0], "float64")
            facts["end_s"] = _scalar(clip.span_s[1], "float64")
        block.finished[number] = Written(row, {**facts, **(features or {})})

    def _write(self, block: _Block) -> None:
        """Write the finished rows of a block that no earlier row holds back, and commit it."""
        while block.n_written < len(block.rows):
            written = block.finished.pop(block.rows[block.n_written], None)
            if written is None:
                return
            block.n_written += 1
            self._later(block.writer.add, written.row, written.values)
        self._forget(block)
        self._doubtful.append(block.writer)
        if not self._n_broken:
            self._commit_doubtful()

    def _commit_doubtful(self) -> None:
        """Commit the blocks that are complete: their clips failed, and not their device."""
        for writer in self._doubtful:
            self._later(_commit, writer)
        self._doubtful = []

    def _later(self, step: Callable[..., object], *arguments: object) -> None:
        """Let the thread that writes do a step; wait where too many steps wait."""
        while len(self._writes) >= _MOST_WRITES:
            self._writes.popleft().result()
        self._writes.append(self._writing.submit(step, *arguments))

    def _forget(self, block: _Block) -> None:
        self._over.add(block.number)
        self._blocks.pop(block.number, None)

    def _let_go(self, block: _Block) -> None:
        """Leave a block that another process has finished."""
        if self._block_of_waiting is block:
            self._waiting = []
        self._forget(block)
        self._later(_drop, block.writer)

    def finish(self) -> None:
        """Wait for what is computed; write it, and commit the blocks that are complete."""
        while self._running:
            self._collect()
        self._commit_doubtful()
        while self._writes:
            self._writes.popleft().result()

    def let_go_of_all(self) -> None:
        """Drop all blocks that are not complete; what is complete stays."""
        self._running.clear()
        self._waiting = []
        self._n_broken = 0
        writers = [block.writer for block in self._blocks.values()]
        for writer in [*writers, *self._doubtful]:
            self._writes.append(self._writing.submit(_drop, writer))
        self._blocks.clear()
        self._doubtful = []
        self._over.clear()
        for write in self._writes:
            # After an error, other steps of the same block fail too: the first error counts.
            write.exception()
        self._writes.clear()

    @contextmanager
    def _too_large_if_out_of_memory(self) -> Iterator[None]:
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise BatchTooLarge(self.computer.backbone.card.label) from error


def _scalar(value: float, dtype: str) -> npt.NDArray[Any]:
    return np.array(value, dtype=dtype)


def _commit(writer: BlockWriter) -> None:
    with writer:
        writer.commit()


def _drop(writer: BlockWriter) -> None:
    with writer:
        pass

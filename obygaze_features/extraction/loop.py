"""The loop of an extraction: decode missing rows, compute them in batches, write them in blocks.

`fill` has the loop, and each step is a function below. A block is begun when its first row is about
to be decoded. No batch has clips of two blocks, so the features of a block do not depend on the
blocks that were computed before it.
"""

from __future__ import annotations

import secrets
import sys
from collections import deque
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from obygaze_features.core.errors import ObygazeError, first_line
from obygaze_features.core.machine import is_device_error, is_out_of_memory
from obygaze_features.extraction.clips import (
    Decoded,
    DecodedView,
    Failure,
    HeardClip,
    RowJob,
    Source,
)
from obygaze_features.extraction.compute import Computed, Computer
from obygaze_features.extraction.stopping import StopFlag
from obygaze_features.store.filling import BlockWriter, Filling, choose_block
from obygaze_features.store.records import Maker
from obygaze_features.store.rows import FAILED, Row

# A device counts as broken if the features of this many clips in a row are not finite.
BROKEN_AFTER = 8
# The number of steps of writing that may wait; beyond it, computing waits for a slow disk.
_MOST_STEPS = 64

# Decodes rows ahead and yields them in order.
Decode: TypeAlias = Callable[[Iterable[RowJob]], Generator[Decoded, None, None]]


def fill(
    stores: Sequence[StoreFiller], decode: Decode, stop: StopFlag
) -> Generator[tuple[int, bool], None, None]:
    """Compute the missing blocks of stores, until no block is missing or a stop is requested.

    Yield each decoded row, and whether it failed. If the features of a row are not finite, the row
    is yielded once more, as failed.

    Args:
        stores: The stores, all with the same rows.
        decode: Decodes the clip of each row, for all stores together.
        stop: The flag that stops the loop.
    """
    while not stop and any(store.misses_blocks() for store in stores):
        too_large = ""
        try:
            with closing(decode(rows_to_compute(stores))) as clips:
                for decoded in clips:
                    for store in stores:
                        store.add(decoded)
                        yield from store.rows_without_numbers()
                    yield decoded.row, bool(decoded.reasons)
                    if stop:
                        break
                for store in stores:
                    store.finish()
                    yield from store.rows_without_numbers()
        except BatchTooLarge as error:
            too_large = str(error)
        except RuntimeError as error:
            if not is_device_error(error):
                raise
            raise ObygazeError(
                f"the GPU failed: {first_line(error)}",
                where=stores[0].computer.backbone.placement.device,
                hint="run the same command again to continue after the finished blocks; if it fails"
                " again, check the GPU with nvidia-smi, or use a different --device",
            ) from error
        finally:
            for store in stores:
                store.drop_all()
        if too_large:
            halve_batches(stores, too_large)


# --- Rows still to compute ---


def rows_to_compute(stores: Sequence[StoreFiller]) -> Iterator[RowJob]:
    """Yield the rows of missing blocks, each with the views that the stores need.

    Rows are yielded span by span. A span has as many rows as the largest block of the stores, so
    it consists of whole blocks of each store.
    """
    span_rows = max(store.filling.plan.block_rows for store in stores)
    n_rows = stores[0].filling.plan.rows
    taken: set[int] = set()
    # Each process begins at another place, so that two processes seldom compute the same block.
    start = secrets.randbelow(-(-n_rows // span_rows))
    while True:
        span = _next_span(stores, span_rows, taken, start)
        if span is None:
            return
        taken.add(span)
        start = span + 1
        for row in range(span * span_rows, min((span + 1) * span_rows, n_rows)):
            views = [
                store.computer.backbone.view for store in stores if store.needs(row)
            ]
            if views:
                yield RowJob(row, tuple(dict.fromkeys(views)))


def _next_span(
    stores: Sequence[StoreFiller], span_rows: int, taken: set[int], start: int
) -> int | None:
    """Return the number of a span with a missing block that is not in `taken`; None without one.

    Of these spans, return the one that was begun least often. If there are several, return the
    first one from `start` on.
    """
    begun_of_span: dict[int, int] = {}
    missing: set[int] = set()
    for store in stores:
        blocks_of_span = span_rows // store.filling.plan.block_rows
        done, begun = store.filling.list_blocks()
        for block in store.filling.needed:
            if block not in done:
                missing.add(block // blocks_of_span)
        for block, n_times in begun.items():
            span = block // blocks_of_span
            begun_of_span[span] = max(begun_of_span.get(span, 0), n_times)
    return choose_block(sorted(missing), taken, begun_of_span, start)


# --- In batches, computed, in blocks ---


class _Waiting(NamedTuple):
    """A clip that waits for the other clips of its batch."""

    row: int
    clip: DecodedView
    source: Source


class _Running(NamedTuple):
    """A batch of clips of one block that is being computed; `result` waits for its features."""

    block: _Block
    clips: Sequence[_Waiting]
    result: Callable[[], Computed]


class _WrittenRow(NamedTuple):
    """A row of a block as it is written; it has values only if its status is ok."""

    row: Row
    values: Mapping[str, Any] | None


@dataclass(eq=False)
class _Block:
    """A block; `finished` has the finished rows that can be written only after an earlier row."""

    writer: BlockWriter
    finished: dict[int, _WrittenRow] = field(default_factory=dict)
    n_written: int = 0
    is_at_work: bool = True


class StoreFiller:
    """One store: decoded rows are collected in batches, and computed features in blocks.

    Rows may be finished in any order; they are written in the order that they have in their block.

    Args:
        filling: The plan of the store and its finished blocks.
        maker: The program and device that compute.
        computer: Computes the features.
        batch: The number of clips that are computed at once.
        writing: The thread that writes, one for all stores.
    """

    def __init__(
        self,
        filling: Filling,
        maker: Maker,
        computer: Computer,
        batch: int,
        writing: ThreadPoolExecutor,
    ) -> None:
        self.filling = filling
        self.maker = maker
        self.computer = computer
        self.batch = batch
        # The block of the row that was decoded last, and its clips that wait.
        self._block: _Block | None = None
        self._waiting: list[_Waiting] = []
        self._running: deque[_Running] = deque()
        # Rows whose features are not finite, and the number of such clips in a row.
        self._without_numbers: list[int] = []
        self._n_in_a_row = 0
        self._at_work: dict[int, _Block] = {}
        # Blocks that another process finished, or that this one has written.
        self._over: set[int] = set()
        # Blocks that are written, and not committed yet.
        self._complete: list[BlockWriter] = []
        self._writing = writing
        self._steps: deque[Future[object]] = deque()

    # Blocks are begun with their first row.

    def misses_blocks(self) -> bool:
        """Return whether blocks are missing, and the store is still being filled as planned."""
        return self.filling.is_current() and bool(self.filling.missing())

    def needs(self, row: int) -> bool:
        """Return whether a row must be decoded for this store.

        With the first such row of a block, begin the block.
        """
        number = row // self.filling.plan.block_rows
        if not self.filling.computed[row] or number in self._over:
            return False
        if number in self._at_work:
            return self._block_of(row) is not None
        writer = self.filling.begin(number, self.maker)
        if writer is None:
            self._over.add(number)
            return False
        self._at_work[number] = _Block(writer)
        return True

    def _block_of(self, row: int) -> _Block | None:
        """Return the block of a row, or None if this process does not compute the block.

        If another process has finished the block, drop it and return None.
        """
        number = row // self.filling.plan.block_rows
        block = self._at_work.get(number)
        if block is not None and self.filling.is_done(number):
            self._end(block)
            self._later(_drop, block.writer)
            return None
        return block

    def _end(self, block: _Block) -> None:
        block.is_at_work = False
        self._over.add(block.writer.block)
        self._at_work.pop(block.writer.block, None)

    # Clips of a block become batches.

    def add(self, decoded: Decoded) -> None:
        """Add the next decoded row to its batch; a row that failed is finished.

        A batch is started when it has all its clips, or at the last row of its block. If too many
        batches are running, first wait for the oldest of them.
        """
        block = self._block_of(decoded.row)
        if self._block is not block:
            # The other rows of that block were not decoded: another process has finished it.
            self._waiting = []
        self._block = block
        if block is None:
            return
        # A row may be decoded only for another store, even with the same view.
        if self.filling.computed[decoded.row]:
            clip = self._check_padding(decoded.views[self.computer.backbone.view])
            if isinstance(clip, Failure):
                source = decoded.source if clip.is_decoded else Source()
                self._finish_row(block, decoded.row, source, clip)
            else:
                self._waiting.append(_Waiting(decoded.row, clip, decoded.source))
        n_clips, most_running = self.computer.split(self.batch)
        is_last = decoded.row == block.writer.rows[-1]
        if not self._waiting or not (is_last or len(self._waiting) == n_clips):
            return
        while len(self._running) >= most_running:
            self._collect()
        waiting = self._waiting
        self._waiting = []
        if block.is_at_work:
            with self._too_large_if_out_of_memory():
                result = self.computer.start([one.clip for one in waiting])
            self._running.append(_Running(block, waiting, result))

    def _check_padding(self, clip: DecodedView | Failure) -> DecodedView | Failure:
        """Return a clip, or a failure if it has padding and the backbone takes no mask."""
        backbone = self.computer.backbone
        if isinstance(clip, Failure | HeardClip):
            return clip
        if clip.mask.all() or backbone.takes_mask:
            return clip
        n_real = int(clip.mask.sum())
        return Failure(
            FAILED,
            f"too-short: {n_real} of {len(clip.mask)} frames exist, and"
            f" {backbone.card.label} needs all of them",
        )

    # Batches become features.

    def _collect(self) -> None:
        """Wait for the batch that was started first, and finish its rows."""
        batch = self._running.popleft()
        with self._too_large_if_out_of_memory():
            computed = batch.result()
        if not batch.block.is_at_work:
            return
        for place, (row, clip, source) in enumerate(batch.clips):
            features = {}
            broken = []
            for name, values in computed.arrays.items():
                features[name] = values[place]
                if not computed.finite[name][place]:
                    broken.append(name)
            if broken:
                reason = f"NotFinite: {', '.join(broken)} not finite as stored"
                self._count_without_numbers(row, reason)
                failure = Failure(FAILED, reason)
                self._finish_row(batch.block, row, source, failure)
            else:
                self._n_in_a_row = 0
                self._commit_complete()
                self._finish_row(batch.block, row, source, clip, features)

    def _count_without_numbers(self, row: int, reason: str) -> None:
        self._without_numbers.append(row)
        self._n_in_a_row += 1
        if self._n_in_a_row >= BROKEN_AFTER:
            backbone = self.computer.backbone
            placement = backbone.placement
            hint = "use a different --device, because this device may be broken"
            if placement.dtype != "float32":
                hint = (
                    f"use --dtype float32, because numbers may be too large; or {hint}"
                )
            raise ObygazeError(
                f"{self._n_in_a_row} clips in a row failed: {reason}",
                where=f"{backbone.card.label} on {placement.device}",
                hint=hint,
            )

    def rows_without_numbers(self) -> Iterator[tuple[int, bool]]:
        """Yield each row whose features were found not to be finite since the last call, and True.

        `fill` yields the same pairs: a row, and whether it failed.
        """
        rows = self._without_numbers
        self._without_numbers = []
        for row in rows:
            yield row, True

    @contextmanager
    def _too_large_if_out_of_memory(self) -> Iterator[None]:
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise BatchTooLarge(self.computer.backbone.card.label) from error

    # Features become blocks.

    def _finish_row(
        self,
        block: _Block,
        number: int,
        source: Source,
        clip: DecodedView | Failure,
        features: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a finished row to its block: its features, or why it has none.

        A block whose rows are all finished is committed.
        """
        row = self.filling.rows[number]._replace(
            video_bytes=source.n_bytes, video_hash=source.quick_hash
        )
        if isinstance(clip, Failure):
            row = row._replace(status=clip.status, reason=clip.reason)
            block.finished[number] = _WrittenRow(row, None)
        else:
            row = row._replace(reason=clip.remark, pictures=clip.total)
            # A store keeps the values that it has arrays for.
            values = {**clip.arrays, **(features or {})}
            block.finished[number] = _WrittenRow(row, values)
        # Rows are written in their order: this one may hold back others, or be held back.
        rows = block.writer.rows
        while block.n_written < len(rows):
            written = block.finished.pop(rows[block.n_written], None)
            if written is None:
                return
            block.n_written += 1
            self._later(block.writer.add, written.row, written.values)
        self._end(block)
        self._complete.append(block.writer)
        if not self._n_in_a_row:
            # Otherwise its clips may have failed because their device is broken.
            self._commit_complete()

    def _commit_complete(self) -> None:
        for writer in self._complete:
            self._later(_commit, writer)
        self._complete = []

    def _later(self, step: Callable[..., object], *arguments: object) -> None:
        """Pass a step to the thread that writes.

        If too many steps wait already, first wait for the oldest of them.
        """
        while len(self._steps) >= _MOST_STEPS:
            self._steps.popleft().result()
        self._steps.append(self._writing.submit(step, *arguments))

    def finish(self) -> None:
        """Wait until the running batches are computed and the complete blocks are written."""
        while self._running:
            self._collect()
        self._commit_complete()
        while self._steps:
            self._steps.popleft().result()

    def drop_all(self) -> None:
        """Drop waiting clips, running batches, and all blocks that are not committed."""
        self._running.clear()
        self._waiting = []
        self._block = None
        self._n_in_a_row = 0
        writers = [block.writer for block in self._at_work.values()]
        for writer in [*writers, *self._complete]:
            self._steps.append(self._writing.submit(_drop, writer))
        self._at_work.clear()
        self._over.clear()
        self._complete = []
        for step in self._steps:
            # After an error, other steps of the same block fail too: the first error counts.
            step.exception()
        self._steps.clear()


def _commit(writer: BlockWriter) -> None:
    with writer:
        writer.commit()


def _drop(writer: BlockWriter) -> None:
    with writer:
        pass


# --- Too little memory ---


class BatchTooLarge(Exception):
    """Raised if a batch does not fit into memory and must be halved."""


def halve_batches(stores: Sequence[StoreFiller], too_large: str) -> None:
    """Halve the batches of all stores, because the failed batch may not be the largest one."""
    if all(store.batch == 1 for store in stores):
        raise ObygazeError(
            f"one clip of {too_large} does not fit into memory",
            hint="use a smaller backbone, --dtype bfloat16, or a different --device",
        )
    for store in stores:
        store.batch = max(1, store.batch // 2)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()

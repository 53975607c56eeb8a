"""The loop of an extraction: rows still to compute, decoded, in batches, computed, in blocks.

`_fill_once` reads like the list that it is; what each step does stands below it. A block is begun
when its first row is to be decoded. A batch ends with its block, so that the numbers of a block do
not depend on the blocks before it.
"""

import secrets
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.machine import is_device_error, is_out_of_memory
from obygaze_features.extraction.blocks import Block, Blocks
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
from obygaze_features.extraction.stopping import StopFlag
from obygaze_features.manifest.windows import Grid
from obygaze_features.store.filling import choose_block
from obygaze_features.store.rows import FAILED
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.pool import DecodePool

# A device that gives no numbers for so many clips in a row is broken.
BROKEN_AFTER = 8


def fill(
    stores: Sequence["StoreFiller"], decoder: "Decoder", stop: StopFlag
) -> Generator[tuple[int, bool], None, None]:
    """Compute the blocks of stores that are missing, until none is left, or until a stop.

    Yields each row that was decoded, and whether it failed; a row whose features are not finite is
    yielded once more.

    Args:
        stores: The stores, all with the same rows.
        decoder: What decodes the clip of each row, for all stores together.
        stop: The flag that stops the loop.
    """
    while not stop and any(store.blocks.are_missing() for store in stores):
        too_large = yield from _fill_once(stores, decoder, stop)
        if too_large:
            halve_batches(stores, too_large)


def _fill_once(
    stores: Sequence["StoreFiller"], decoder: "Decoder", stop: StopFlag
) -> Generator[tuple[int, bool], None, str]:
    """Compute missing blocks; return the backbone whose batch does not fit into memory, or ""."""
    rows = rows_to_compute(stores)
    try:
        with (
            _one_sentence_for_a_broken_device(),
            closing(decoder.decode(rows)) as clips,
        ):
            for decoded in clips:
                for store in stores:
                    store.add_to_batch(decoded)
                    if store.batch_is_complete(decoded.row):
                        store.start_batch()
                    yield from store.rows_without_numbers()
                yield decoded.row, decoded.has_failed
                if stop:
                    break
            for store in stores:
                store.finish()
                yield from store.rows_without_numbers()
    except BatchTooLarge as error:
        return str(error)
    finally:
        for store in stores:
            store.drop_all()
    return ""


# --- Rows still to compute ---


def rows_to_compute(stores: Sequence["StoreFiller"]) -> Iterator[RowJob]:
    """Yield the rows of missing blocks, span by span, each with the views that stores need.

    A span is the largest block among the stores: the blocks of the others divide it.
    """
    span_rows = max(store.blocks.rows_of_a_block for store in stores)
    n_rows = stores[0].blocks.filling.plan.rows
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
            views = [store.view for store in stores if store.blocks.needs(row)]
            if views:
                yield RowJob(row, tuple(dict.fromkeys(views)))


def _next_span(
    stores: Sequence["StoreFiller"], span_rows: int, taken: set[int], start: int
) -> int | None:
    """Return a span with a missing block that nobody has begun, else one that others began."""
    begun_of_span: dict[int, int] = {}
    missing: set[int] = set()
    for store in stores:
        blocks_of_span = span_rows // store.blocks.rows_of_a_block
        done, begun = store.blocks.filling.listed()
        for block in store.blocks.filling.needed:
            if block not in done:
                missing.add(block // blocks_of_span)
        for block, n_times in begun.items():
            span = block // blocks_of_span
            begun_of_span[span] = max(begun_of_span.get(span, 0), n_times)
    return choose_block(sorted(missing), taken, begun_of_span, start)


# --- Decoded ---


@dataclass(frozen=True)
class Decoder:
    """The clip of each row, and how many are decoded before they are computed."""

    clips: Sequence[PlannedClip]
    pool: DecodePool
    most_clips: int
    most_bytes: int
    indexes: str
    accept_damaged: bool = False
    grid: Grid | None = None
    kept: KeptViews = field(default_factory=dict)

    def decode(self, rows: Iterable[RowJob]) -> Generator[Decoded, None, None]:
        """Decode rows and yield them in order."""
        return decode_ahead(
            rows,
            self.clips,
            self.pool,
            most_clips=self.most_clips,
            most_bytes=self.most_bytes,
            indexes=self.indexes,
            accept_damaged=self.accept_damaged,
            grid=self.grid,
            kept=self.kept,
        )


# --- In batches, computed ---


class _Waiting(NamedTuple):
    """A clip that waits for the other clips of its batch."""

    row: int
    clip: Clip
    source: Source


class _Running(NamedTuple):
    """A batch of clips of one block that is computed; `result` waits for its features."""

    block: Block
    clips: Sequence[_Waiting]
    result: Callable[[], Computed]


class StoreFiller:
    """One store: decoded rows become batches, batches features, and features blocks.

    Args:
        blocks: The blocks of the store.
        view: What the backbone sees of a clip.
        computer: What computes the features.
        batch: How many clips are computed at once.
    """

    def __init__(
        self, blocks: Blocks, view: View, computer: Computer, batch: int
    ) -> None:
        self.blocks = blocks
        self.view = view
        self.computer = computer
        self.batch = batch
        self._block: Block | None = None
        self._waiting: list[_Waiting] = []
        self._running: deque[_Running] = deque()
        # Rows whose features are not finite, and how many clips in a row were such.
        self._without_numbers: list[int] = []
        self._n_in_a_row = 0

    def add_to_batch(self, decoded: Decoded) -> None:
        """Add the next decoded row to its batch; one that failed is finished."""
        block = self.blocks.block_of(decoded.row)
        if self._block is not block:
            # The other rows of that block were not decoded: another process has finished it.
            self._waiting = []
        self._block = block
        if block is None or self.view not in decoded.views:
            return
        clip = self._checked(decoded.views[self.view])
        if isinstance(clip, Failure):
            self.blocks.add(block, decoded.row, decoded.source, clip)
        else:
            self._waiting.append(_Waiting(decoded.row, clip, decoded.source))

    def _checked(self, clip: Clip | Failure) -> Clip | Failure:
        """Return a clip, or why a backbone without a mask cannot take it."""
        backbone = self.computer.backbone
        if isinstance(clip, Failure) or clip.mask.all() or backbone.takes_mask:
            return clip
        n_real = int(clip.mask.sum())
        return Failure(
            FAILED,
            f"too-short: {n_real} of {len(clip.mask)} frames exist, and"
            f" {backbone.card.label} needs all of them",
        )

    def batch_is_complete(self, row: int) -> bool:
        """Return whether the batch has all its clips: as many as fit, or the last of its block."""
        if self._block is None or not self._waiting:
            return False
        n_clips, _ = self.computer.split(self.batch)
        return row == self._block.rows[-1] or len(self._waiting) == n_clips

    def start_batch(self) -> None:
        """Start to compute the clips that wait, as soon as not too many others are computed."""
        _, most_running = self.computer.split(self.batch)
        while len(self._running) >= most_running:
            self._collect()
        block = self._block
        waiting = self._waiting
        self._waiting = []
        if block is None or not self.blocks.is_at_work(block):
            return
        with self._too_large_if_out_of_memory():
            result = self.computer.start([one.clip for one in waiting])
        self._running.append(_Running(block, waiting, result))

    def _collect(self) -> None:
        """Wait for the first of the running batches, and finish its rows."""
        batch = self._running.popleft()
        with self._too_large_if_out_of_memory():
            computed = batch.result()
        if not self.blocks.is_at_work(batch.block):
            return
        for place, (row, clip, source) in enumerate(batch.clips):
            broken = [
                name for name, flags in computed.finite.items() if not flags[place]
            ]
            if broken:
                reason = f"NotFinite: {', '.join(broken)} not finite as stored"
                self._count_without_numbers(row, reason)
                self.blocks.add(batch.block, row, source, Failure(FAILED, reason))
            else:
                self._n_in_a_row = 0
                self.blocks.commit()
                features = {name: x[place] for name, x in computed.arrays.items()}
                self.blocks.add(batch.block, row, source, clip, features)

    def _count_without_numbers(self, row: int, reason: str) -> None:
        self._without_numbers.append(row)
        self.blocks.hold_back()
        self._n_in_a_row += 1
        if self._n_in_a_row >= BROKEN_AFTER:
            backbone = self.computer.backbone
            raise ObygazeError(
                f"{self._n_in_a_row} clips in a row failed: {reason}",
                where=f"{backbone.card.label} on {backbone.placement.device}",
                hint="another --device, if this one is broken; --dtype float32, if numbers are"
                " too large",
            )

    def rows_without_numbers(self) -> Iterator[tuple[int, bool]]:
        """Yield the rows that failed here since the last call, as `fill` does."""
        rows = self._without_numbers
        self._without_numbers = []
        for row in rows:
            yield row, True

    def finish(self) -> None:
        """Wait for what is computed, and for the blocks that are complete."""
        while self._running:
            self._collect()
        self.blocks.finish()

    def drop_all(self) -> None:
        """Drop what waits and what is computed, and all blocks that are not complete."""
        self._running.clear()
        self._waiting = []
        self._block = None
        self._n_in_a_row = 0
        self.blocks.drop_all()

    @contextmanager
    def _too_large_if_out_of_memory(self) -> Iterator[None]:
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise BatchTooLarge(self.computer.backbone.card.label) from error


# --- Too little memory, and a device that is broken ---


class BatchTooLarge(Exception):
    """What is computed at once does not fit into memory: it must be halved."""


def halve_batches(stores: Sequence[StoreFiller], too_large: str) -> None:
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

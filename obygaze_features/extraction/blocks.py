"""The blocks of a store that are at work here: begun with their first row, committed when complete.

Rows are finished in any order and written in theirs. One thread writes the blocks of all stores.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.extraction.decoded import Clip, Failure, Source
from obygaze_features.extraction.recipes import CLEAN
from obygaze_features.store.filling import BlockWriter, Filling
from obygaze_features.store.layout import MASK
from obygaze_features.store.records import Maker
from obygaze_features.store.rows import Row

# Steps of writing that may wait: what is computed waits for a slow disk, and not in memory.
_MOST_STEPS = 64


class Written(NamedTuple):
    """A row of a block as it is written: without values unless it is ok."""

    row: Row
    values: Mapping[str, Any] | None


@dataclass
class Block:
    """A block at work. `finished` has the rows that wait for a row before them."""

    number: int
    writer: BlockWriter
    rows: Sequence[int]
    finished: dict[int, Written] = field(default_factory=dict)
    n_written: int = 0


class Blocks:
    """The blocks of one store that this process fills.

    Args:
        filling: The plan of the store and its finished blocks.
        maker: What computes.
        writing: The thread that writes, one for all stores.
        mixed: Allow another version or device than the plan's.
    """

    def __init__(
        self,
        filling: Filling,
        maker: Maker,
        writing: ThreadPoolExecutor,
        *,
        mixed: bool = False,
    ) -> None:
        self.filling = filling
        self.maker = maker
        self.mixed = mixed
        self.rows_of_a_block = filling.plan.block_rows
        self._writing = writing
        self._steps: deque[Future[object]] = deque()
        self._at_work: dict[int, Block] = {}
        # Blocks that another process finished, or that this one has written.
        self._over: set[int] = set()
        # While blocks are held back, those that are complete are not committed.
        self._are_held_back = False
        self._complete: list[BlockWriter] = []

    def are_missing(self) -> bool:
        """Return whether blocks are missing, and the store is still being filled as planned."""
        return self.filling.is_current() and bool(self.filling.missing())

    def needs(self, row: int) -> bool:
        """Return whether a row is to be decoded for this store; begin its block with its first."""
        number = row // self.rows_of_a_block
        if not self.filling.computed[row] or number in self._over:
            return False
        if number in self._at_work:
            return self.block_of(row) is not None
        writer = self.filling.begin(number, self.maker, mixed=self.mixed)
        if writer is None:
            self._over.add(number)
            return False
        self._at_work[number] = Block(number, writer, writer.rows)
        return True

    def block_of(self, row: int) -> Block | None:
        """Return the block of a row if it is at work; let go of it if another process was first."""
        block = self._at_work.get(row // self.rows_of_a_block)
        if block is not None and self.filling.is_done(block.number):
            self._forget(block)
            self._later(_drop, block.writer)
            return None
        return block

    def is_at_work(self, block: Block) -> bool:
        """Return whether a block has not been let go meanwhile."""
        return self._at_work.get(block.number) is block

    def add(
        self,
        block: Block,
        number: int,
        source: Source,
        clip: Clip | Failure,
        features: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a finished row: its features, or why it has none."""
        row = self.filling.rows[number]._replace(
            video_bytes=source.n_bytes, video_hash=source.quick_hash
        )
        if isinstance(clip, Failure):
            self._refuse_a_loss(row, clip)
            row = row._replace(status=clip.status, reason=clip.reason)
            block.finished[number] = Written(row, None)
        else:
            row = row._replace(reason=clip.remark, pictures=clip.total)
            values = {**_facts_of(clip), **(features or {})}
            block.finished[number] = Written(row, values)
        self._write(block)

    def _refuse_a_loss(self, row: Row, failure: Failure) -> None:
        """Raise an error if a clip with features fails: it would lose what it has."""
        if len(self.filling.arrays) < len(self.filling.plan.arrays):
            raise FixInput(
                f"the clip {row.clip_id!r} has features and cannot get the further arrays:"
                f" {failure.reason}",
                where=str(self.filling.target),
                hint="the store stays as it is; correct this, then the same command, or give the"
                f" further arrays up: rm -r {self.filling.folder}",
            )

    def _write(self, block: Block) -> None:
        """Write the finished rows of a block that no earlier row holds back, and commit it."""
        while block.n_written < len(block.rows):
            written = block.finished.pop(block.rows[block.n_written], None)
            if written is None:
                return
            block.n_written += 1
            self._later(block.writer.add, written.row, written.values)
        self._forget(block)
        self._complete.append(block.writer)
        if not self._are_held_back:
            self.commit()

    def hold_back(self) -> None:
        """Commit no block for now: its clips may have failed because their device is broken."""
        self._are_held_back = True

    def commit(self) -> None:
        """Commit the blocks that are complete, and those that will be."""
        self._are_held_back = False
        for writer in self._complete:
            self._later(_commit, writer)
        self._complete = []

    def finish(self) -> None:
        """Commit the blocks that are complete, and wait until they are written."""
        self.commit()
        while self._steps:
            self._steps.popleft().result()

    def drop_all(self) -> None:
        """Drop all blocks that are not complete; what is complete stays."""
        writers = [block.writer for block in self._at_work.values()]
        for writer in [*writers, *self._complete]:
            self._steps.append(self._writing.submit(_drop, writer))
        self._at_work.clear()
        self._over.clear()
        self._complete = []
        self._are_held_back = False
        for step in self._steps:
            # After an error, other steps of the same block fail too: the first error counts.
            step.exception()
        self._steps.clear()

    def _later(self, step: Callable[..., object], *arguments: object) -> None:
        """Let the thread that writes do a step; wait where too many steps wait."""
        while len(self._steps) >= _MOST_STEPS:
            self._steps.popleft().result()
        self._steps.append(self._writing.submit(step, *arguments))

    def _forget(self, block: Block) -> None:
        self._over.add(block.number)
        self._at_work.pop(block.number, None)


def _facts_of(clip: Clip) -> dict[str, npt.NDArray[Any]]:
    """Return what a store has of a clip beside its features."""
    facts: dict[str, npt.NDArray[Any]] = {
        "time_s": clip.time_s,
        "asked_s": clip.asked_s,
        MASK: clip.mask,
        CLEAN: np.array(clip.is_clean, dtype="bool"),
    }
    if clip.span_s is not None:
        facts["start_s"] = np.array(clip.span_s[0], dtype="float64")
        facts["end_s"] = np.array(clip.span_s[1], dtype="float64")
    return facts


def _commit(writer: BlockWriter) -> None:
    with writer:
        writer.commit()


def _drop(writer: BlockWriter) -> None:
    with writer:
        pass

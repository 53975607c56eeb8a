"""One backbone at work: decoded clips come in row by row, whole blocks go to its store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Backbone
from obygaze_features.backbones.load import blank_padding
from obygaze_features.core.errors import ObygazeError
from obygaze_features.extraction.backends import (
    free_device_memory,
    ran_out_of_memory,
    stack,
    to_numpy,
)
from obygaze_features.extraction.clock import Clock
from obygaze_features.store.format.schema import OK, ArraySpec, RowSource, RowStatus
from obygaze_features.store.write.writer import StoreWriter
from obygaze_features.video.decode import DecodedClip, View


class BatchTooLarge(Exception):
    """A batch did not fit into memory; half as many clips may."""


@dataclass
class _Block:
    """A block that is being filled: one slot for each row that is to be made."""

    number: int
    rows: Sequence[int]
    arrays: dict[str, npt.NDArray[Any]]
    statuses: list[RowStatus] = field(default_factory=list)
    sources: list[RowSource | None] = field(default_factory=list)


class BlockMaker:
    """Turns clips into blocks for one store. Rows must come in order, each exactly once.

    Batches never reach over the end of a block, so that a block's numbers do not depend on what
    was made before it.
    """

    def __init__(
        self,
        backbone: Backbone,
        writer: StoreWriter,
        view: View,
        wanted: Mapping[int, Sequence[int]],
        *,
        batch: int,
        redo: bool = False,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        self.backbone, self.writer, self.view = backbone, writer, view
        self.wanted, self.batch, self.redo = dict(wanted), batch, redo
        self.rows = {row for rows in self.wanted.values() for row in rows}
        self.versions = dict(versions or {})
        self.clock = Clock()
        self._levels = [spec for spec in writer.plan.arrays if spec.is_level]
        # Rows the model could not make, since somebody last asked.
        self._odd: list[tuple[int, RowStatus]] = []
        self._block: _Block | None = None
        self._waiting: list[tuple[int, Any, npt.NDArray[np.bool_]]] = []
        self._computing: tuple[list[int], Mapping[str, Any]] | None = None
        # One thread: a block is written and synced while the next one is computed.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._commit: Future[None] | None = None

    def offer(
        self, row: int, clip: DecodedClip | RowStatus, source: RowSource | None = None
    ) -> bool:
        """Take the next row, and what it was made from; True where it completed a block."""
        block = self._open(row)
        slot = len(block.statuses)
        if source is not None and isinstance(clip, DecodedClip):
            source = replace(source, pictures=clip.total)
        block.sources.append(source)
        if isinstance(clip, RowStatus):
            block.statuses.append(clip)
        else:
            self._take(block, slot, clip)
        if len(self._waiting) == self.batch:
            self._flush(block)
        if row != block.rows[-1]:
            return False
        self._flush(block)
        self._collect(block)
        self._hand_over(block)
        return True

    def take_odd(self) -> list[tuple[int, RowStatus]]:
        """The rows that failed in the model since the last call: decoding could not tell."""
        odd, self._odd = self._odd, []
        return odd

    def restart_block(self) -> None:
        """Forget the block that is being filled; its rows will be offered again."""
        self._block, self._waiting, self._computing = None, [], None

    def close(self) -> None:
        """Wait until everything handed over is on disk; drop what is not a whole block."""
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

    def _take(self, block: _Block, slot: int, clip: DecodedClip) -> None:
        with self.clock.of("preprocess"):
            pixels = self.backbone.preprocess(clip.frames)
            if self.backbone.takes_mask:
                pixels = blank_padding(pixels, clip.mask)
        self._waiting.append((slot, pixels, clip.mask))
        block.arrays["time_s"][slot] = clip.time_s
        block.arrays["asked_s"][slot] = clip.asked_s
        if "mask" in block.arrays:
            block.arrays["mask"][slot] = clip.mask
        block.statuses.append(_remark(clip))

    def _flush(self, block: _Block) -> None:
        """Start a batch, then fetch the one before it: a device computes while the next is made."""
        if not self._waiting:
            return
        slots = [slot for slot, _, _ in self._waiting]
        pixels = [pixels for _, pixels, _ in self._waiting]
        mask = np.stack([mask for _, _, mask in self._waiting])
        self._waiting = []
        with self.clock.of("forward"), self._smaller_if_too_large(len(slots)):
            levels = self._forward(pixels, mask)
        self._collect(block)
        self._computing = slots, levels

    def _collect(self, block: _Block) -> None:
        if self._computing is None:
            return
        (slots, levels), self._computing = self._computing, None
        with self.clock.of("forward"), self._smaller_if_too_large(len(slots)):
            arrays = {name: to_numpy(level) for name, level in levels.items()}
        for spec in self._levels:
            with np.errstate(over="ignore"):  # what overflows is found below
                block.arrays[spec.name][slots] = arrays[spec.name]
        for slot in slots:
            self._judge(block, slot)

    def _judge(self, block: _Block, slot: int) -> None:
        """A number that is not finite, or not in half precision, makes its clip a failed one."""
        arrays = ((spec.name, block.arrays[spec.name][slot]) for spec in self._levels)
        odd = [name for name, values in arrays if not np.isfinite(values).all()]
        if odd:
            message = f"{', '.join(odd)} not finite as stored"
            block.statuses[slot] = RowStatus.failed("forward", "NotFinite", message)
            self._odd.append((block.rows[slot], block.statuses[slot]))

    def _forward(self, pixels: Sequence[Any], mask: npt.NDArray[np.bool_]) -> Mapping[str, Any]:
        names = {spec.name for spec in self._levels}
        given = mask if self.backbone.takes_mask else None
        return self.backbone.forward(stack(pixels), given, only=names)

    @contextmanager
    def _smaller_if_too_large(self, n_clips: int) -> Iterator[None]:
        """Where a batch does not fit into memory, remember to make smaller ones from now on."""
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not ran_out_of_memory(error):
                raise
            if n_clips == 1:
                label = self.backbone.card.label
                raise ObygazeError(
                    f"one clip of {label} does not fit into memory",
                    hint="a smaller backbone, --dtype bfloat16, or another device",
                ) from error
            self.batch = n_clips // 2
            free_device_memory()
            raise BatchTooLarge from error

    def _hand_over(self, block: _Block) -> None:
        self._block = None
        self.rows.difference_update(block.rows)
        with self.clock.of("write"):
            self._settle()
        self._commit = self._pool.submit(self._write, block, self.clock.take())

    def _write(self, block: _Block, seconds: Mapping[str, float]) -> None:
        number, arrays, statuses = block.number, block.arrays, block.statuses
        if self.redo:
            put = partial(self.writer.replace_rows, number, block.rows)
            seconds = self._with_earlier(number, seconds)
        else:
            put = partial(self.writer.commit_block, number)
        put(arrays, statuses, sources=block.sources, seconds=seconds, versions=self.versions)

    def _with_earlier(self, number: int, seconds: Mapping[str, float]) -> dict[str, float]:
        marker = self.writer.marker(number)
        earlier = marker.seconds if marker else {}
        stages = earlier.keys() | seconds.keys()
        return {stage: earlier.get(stage, 0.0) + seconds.get(stage, 0.0) for stage in stages}

    def _settle(self) -> None:
        if self._commit is not None:
            commit, self._commit = self._commit, None
            commit.result()


def _empty(spec: ArraySpec, n_rows: int) -> npt.NDArray[Any]:
    fill = np.nan if spec.is_float else 0
    return np.full((n_rows, *spec.tail_shape), fill, dtype=spec.dtype)


def _remark(clip: DecodedClip) -> RowStatus:
    """Ok, with a word where the pictures are not quite those asked for."""
    real = int(clip.mask.sum())
    words = []
    if clip.substituted.any():
        words.append(f"{int(clip.substituted.sum())} of {real} frames substituted")
    if clip.total < len(clip.index) and clip.mask.all():
        words.append(f"{clip.total} frames repeated to {len(clip.index)}")
    return RowStatus("ok", message="; ".join(words)) if words else OK

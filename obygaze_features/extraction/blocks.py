"""Compute the features of one backbone: decoded clips in, whole blocks of its store out."""

from __future__ import annotations

import sys
import time
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
from obygaze_features.core.machine import package_version
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
    """A batch does not fit into memory; the next batches are half as large."""


class Clock:
    """Seconds by stage: `take` returns them and resets the clock."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def add(self, stage: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere."""
        self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Add the seconds of a block of code."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.add(stage, time.monotonic() - started)

    def take(self) -> dict[str, float]:
        """Return the seconds since the last call."""
        taken, self._seconds = self._seconds, {}
        return taken


@dataclass
class _Block:
    """An unfinished block, with a slot for each row to make."""

    number: int
    rows: Sequence[int]
    arrays: dict[str, npt.NDArray[Any]]
    statuses: list[RowStatus] = field(default_factory=list)
    sources: list[RowSource | None] = field(default_factory=list)


class BlockMaker:
    """Turn clips into blocks of one store. Rows must come in order, each exactly once.

    A batch ends with its block, so that a block's numbers do not depend on the blocks before it.

    Args:
        backbone: The model.
        writer: The writer of its store.
        view: The frames that the model uses.
        wanted: The rows to make, by the number of their block.
        batch: Clips in a batch.
        retry: Replace single rows of committed blocks.
    """

    def __init__(
        self,
        backbone: Backbone,
        writer: StoreWriter,
        view: View,
        wanted: Mapping[int, Sequence[int]],
        *,
        batch: int,
        retry: bool = False,
    ) -> None:
        self.backbone, self.writer, self.view = backbone, writer, view
        self.wanted, self.batch, self.retry = dict(wanted), batch, retry
        self.rows = {row for rows in self.wanted.values() for row in rows}
        self.versions = {name: text for name in PACKAGES if (text := package_version(name))}
        self.clock = Clock()
        self._levels = [spec for spec in writer.plan.arrays if spec.is_level]
        self._failed: list[tuple[int, RowStatus]] = []
        self._block: _Block | None = None
        self._waiting: list[tuple[int, Any, npt.NDArray[np.bool_]]] = []
        self._computing: tuple[list[int], Mapping[str, Any]] | None = None
        # One thread: a block is written and synced while the next one is computed.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._commit: Future[None] | None = None

    def add(self, row: int, clip: DecodedClip | RowStatus, source: RowSource | None = None) -> None:
        """Add the next row and its source; the last row of a block completes the block."""
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
        if row == block.rows[-1]:
            self._flush(block)
            self._collect(block)
            self._commit_block(block)

    def take_failed(self) -> list[tuple[int, RowStatus]]:
        """Return the rows that were decoded but failed in the model since the last call."""
        failed, self._failed = self._failed, []
        return failed

    def restart_block(self) -> None:
        """Drop the unfinished block; its rows must be added again."""
        self._block, self._waiting, self._computing = None, [], None

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

    def _take(self, block: _Block, slot: int, clip: DecodedClip) -> None:
        # The frames of other clips and the batch before occupy memory too: the whole batch counts.
        with self.clock.of("preprocess"), self._smaller_if_too_large(self.batch):
            pixels = self.backbone.normalise(clip.frames)
            if self.backbone.takes_mask:
                pixels = blank_padding(pixels, clip.mask)
        self._waiting.append((slot, pixels, clip.mask))
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

    def _flush(self, block: _Block) -> None:
        """Start a batch, then fetch the previous one, so that a device always has work."""
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
            self._check(block, slot)

    def _check(self, block: _Block, slot: int) -> None:
        """Mark a clip as failed if a number is not finite in the precision of the store."""
        arrays = ((spec.name, block.arrays[spec.name][slot]) for spec in self._levels)
        infinite = [name for name, values in arrays if not np.isfinite(values).all()]
        if infinite:
            message = f"{', '.join(infinite)} not finite as stored"
            block.statuses[slot] = RowStatus.failed("forward", "NotFinite", message)
            self._failed.append((block.rows[slot], block.statuses[slot]))

    def _forward(self, pixels: Sequence[Any], mask: npt.NDArray[np.bool_]) -> Mapping[str, Any]:
        names = {spec.name for spec in self._levels}
        return self.backbone.forward(
            stack(pixels), mask if self.backbone.takes_mask else None, only=names
        )

    @contextmanager
    def _smaller_if_too_large(self, n_clips: int) -> Iterator[None]:
        """Halve the batch size from now on if a batch does not fit into memory."""
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not _ran_out_of_memory(error):
                raise
            if n_clips == 1:
                label = self.backbone.card.label
                raise ObygazeError(
                    f"one clip of {label} does not fit into memory",
                    hint="use a smaller backbone, --dtype bfloat16, or another --device",
                ) from error
            self.batch = n_clips // 2
            torch = sys.modules.get("torch")
            if torch is not None and torch.cuda.is_available():
                torch.cuda.empty_cache()
            raise BatchTooLarge from error

    def _commit_block(self, block: _Block) -> None:
        """Write a complete block beside the next one; two are never written at once."""
        self._block = None
        self.rows.difference_update(block.rows)
        with self.clock.of("write"):
            self._settle()
        self._commit = self._pool.submit(self._write, block, self.clock.take())

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


def stack(pixels: Sequence[Any]) -> Any:
    """Return one batch of several clips' pixels, on the device they are on."""
    if isinstance(pixels[0], np.ndarray):
        return np.stack(pixels)
    import torch

    return torch.stack(list(pixels))


def to_numpy(level: Any) -> npt.NDArray[np.float32]:
    """Return a level in main memory, in single precision; waits for the device."""
    if isinstance(level, np.ndarray):
        return level if level.dtype == np.uint8 else level.astype(np.float32, copy=False)
    array: npt.NDArray[np.float32] = level.float().cpu().numpy()
    return array


def _ran_out_of_memory(error: BaseException) -> bool:
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(text in words for text in OUT_OF_MEMORY)

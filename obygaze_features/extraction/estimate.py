"""Estimate what a plan needs, and find what is missing, before anything runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.backbones.base import Card
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.hub import find_weights, is_cached
from obygaze_features.core.console import few, human, table
from obygaze_features.core.errors import FixUsage, InstallExtra, NotFound, ObygazeError
from obygaze_features.core.machine import duration, usable_cores
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.bench import forward_runs
from obygaze_features.extraction.pipeline import decode_rows
from obygaze_features.extraction.plan import ExtractPlan, Target
from obygaze_features.extraction.recipes import level_bytes, load_target, view_of
from obygaze_features.extraction.shared_machine import idle_gpus
from obygaze_features.store.format.limits import memory_bytes
from obygaze_features.store.format.records import SEAL_FILE
from obygaze_features.store.format.schema import RowStatus
from obygaze_features.store.write.create import BLOCK_ROWS
from obygaze_features.video.decoded_clip import DecodedClip, View
from obygaze_features.video.pool import DecodePool

N_PROBED = 3
# The size of the frames that time a model of any size.
SIZE_OF_ANY = 224
# The pictures of a clip if none could be decoded: 32 of 224 x 224.
TYPICAL_CLIP_BYTES = 32 * 224 * 224 * 3
# A process that decodes 1920 x 1080.
DECODER_BYTES = 150_000_000
# The weights of a typical model, in single precision.
TYPICAL_WEIGHT_BYTES = 4 * 200_000_000
# Larger batches are not faster.
MAX_BATCH = 16
# The memory of Python and its libraries.
FLOOR_BYTES = 150_000_000
FLOOR_WITH_TORCH_BYTES = 700_000_000


@dataclass(frozen=True)
class StoreEstimate:
    """The size and progress of one store of a plan, and the status of its backbone's weights.

    `forward_s` is the time to prepare and compute one clip; None if it was not measured.
    """

    store: str
    backbone: str
    levels: Mapping[str, int]
    blocks: int
    blocks_done: int
    files: int
    n_bytes: int
    gflop_a_clip: float
    weights: str
    why: str = ""
    forward_s: float | None = None

    @property
    def share_left(self) -> float:
        """Return the share of blocks that are not committed yet."""
        return 1 - self.blocks_done / self.blocks


@dataclass(frozen=True)
class CostEstimate:
    """What a plan needs; `decode_s` is the time of a few clips, None if none could be decoded."""

    clips: int
    with_video: int
    not_found: Sequence[str]
    stores: Sequence[StoreEstimate]
    decode_s: float | None
    unreadable: Mapping[str, str]
    peak_bytes: int
    free_bytes: int
    workers: int
    device: str = "cpu"
    idle_gpus: Sequence[str] = ()

    @property
    def forward_hours(self) -> float | None:
        """Return the hours to compute the remaining clips; None if a backbone was not timed."""
        left = [store for store in self.stores if store.share_left]
        seconds = [store.forward_s for store in left]
        if None in seconds:
            return None
        a_clip = sum((store.forward_s or 0) * store.share_left for store in left)
        return a_clip * self.with_video / 3600

    @property
    def hours(self) -> float | None:
        """Return the hours of the run; None if they are not known.

        A GPU computes while the cores decode; without one, both use the same cores.
        """
        if self.decode_hours is None or self.forward_hours is None:
            return None
        together = sum if self.device == "cpu" else max
        return together((self.decode_hours, self.forward_hours))

    @property
    def decode_hours(self) -> float | None:
        """Return the hours to decode the remaining clips once, with the workers of the plan."""
        left = max((store.share_left for store in self.stores), default=0.0)
        if self.decode_s is None:
            return None
        return self.decode_s * self.with_video * left / self.workers / 3600

    @property
    def obstacles(self) -> list[str]:
        """Return a message for each thing that would fail or stay missing."""
        found = []
        if self.not_found:
            names = few(self.not_found)
            found.append(f"{len(self.not_found)} videos of the manifest are missing: {names}")
        found += [f"{name} cannot be decoded: {why}" for name, why in self.unreadable.items()]
        if self.with_video < self.clips:
            without = self.clips - self.with_video
            found.append(f"{without} clips have no video: their rows stay missing")
        needed = sum(store.n_bytes * store.share_left for store in self.stores)
        if needed > self.free_bytes:
            found.append(f"{human(needed)} of disk needed, {human(self.free_bytes)} free")
        found += [
            f"{s.backbone}: weights {s.weights}"
            + (f": {s.why}" if s.why else "; obygaze backbones fetch" * (s.weights == "not cached"))
            for s in self.stores
            if s.weights in ("not cached", "not found", "unusable") or s.why
        ]
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as one JSON document."""
        hours = {name: getattr(self, name) for name in ("decode_hours", "forward_hours", "hours")}
        return {**asdict(self), **hours, "obstacles": self.obstacles}

    def to_text(self) -> str:
        """Return the estimate as text."""
        names = "store backbone levels blocks done files size"
        rows = [
            (
                Path(s.store).name,
                s.backbone,
                " ".join(s.levels),
                s.blocks,
                s.blocks_done,
                s.files,
                human(s.n_bytes),
                _gflop_text(s.gflop_a_clip),
                None if s.forward_s is None else duration(s.forward_s),
                s.weights,
            )
            for s in self.stores
        ]
        pace = "no clip could be decoded to measure the time"
        if self.decode_s is not None:
            pace = (
                f"decoding takes about {self.decode_s:.2f} s a clip,"
                f" {self.decode_hours:.2f} hours with {self.workers} workers"
            )
        if self.hours is not None:
            pace += f"; about {self.hours:.2f} hours in all on {self.device}"
        memory = f"peak memory about {human(self.peak_bytes)}, {human(self.free_bytes)} disk free"
        return "\n".join(
            [
                f"{self.clips} clips, {self.with_video} with video; {pace}",
                memory,
                "",
                table((*names.split(), "GFLOP a clip", "forward a clip", "weights"), rows),
                *(f"  ! {text}" for text in self.obstacles),
                *(f"  {device} is idle: use --device {device}" for device in self.idle_gpus),
            ]
        )


@dataclass(frozen=True)
class _Model:
    """A target with its card, whose sizes are those of the weights if these are available."""

    target: Target
    card: Card
    weights: str
    weight_bytes: int = TYPICAL_WEIGHT_BYTES
    why: str = ""

    @property
    def levels(self) -> dict[str, int]:
        """Return the bytes of a row of each level that is stored."""
        return level_bytes(self.card, self.target.levels)


def gpu_batch(activation_bytes: int, free_bytes: int) -> int:
    """Return the clips of a batch: a power of two that fits into half of the free memory.

    The estimate of the memory of a clip is rough, and the last bits depend on the batch: a machine
    with a little less memory should give the same.
    """
    fits = free_bytes // 2 // max(activation_bytes, 1)
    return min(1 << max(fits, 1).bit_length() - 1, MAX_BATCH)


def cpu_batch(activation_bytes: int, n_threads: int) -> int:
    """Return the clips computed at once: one a thread, in a quarter of the machine's memory."""
    fits = memory_bytes() // 4 // max(activation_bytes, 1)
    return max(1, min(fits, n_threads))


def clips_ahead(workers: int, batches: Iterable[int]) -> int:
    """Return how many decoded clips may wait: those of the decoders, and the next batch.

    With fewer, the decoders would be idle while a batch is computed.
    """
    return 2 * workers + max(batches)


def estimate(
    plan: ExtractPlan,
    *,
    workers: int,
    n_probed: int = N_PROBED,
    device: str = "cpu",
    timed: bool = True,
) -> CostEstimate:
    """Estimate what a plan needs; decodes a few clips, writes nothing.

    Args:
        plan: The plan.
        workers: Processes that decode.
        n_probed: Clips to decode, to measure the time.
        device: The device of the run.
        timed: Also measure a forward pass of each backbone whose weights are on this machine.
    """
    workspace = Workspace(Path(plan.workspace))
    models = [_model(target, find_card(target.backbone, workspace)) for target in plan.targets]
    with_video = [row for row, clip in enumerate(plan.rows) if clip.video]
    # Each file is checked once: a million checks take long on a network disk.
    existing = dict.fromkeys(row for row in with_video if Path(plan.rows[row].video).is_file())
    probed = list(existing)[:: max(1, len(existing) // max(n_probed, 1))][:n_probed]
    views = dict.fromkeys(view_of(m.card, m.target) for m in models)
    seconds, unreadable, clip_bytes = _probe(plan, probed, tuple(views))
    stores = [_store(plan, model) for model in models]
    if timed:
        stores = [
            _timed(store, model.target, workspace, device) if store.share_left else store
            for store, model in zip(stores, models, strict=True)
        ]
    on_cpu = device == "cpu" and any(model.weight_bytes for model in models)
    folder = Path(plan.targets[0].store)
    while not folder.exists():
        folder = folder.parent
    return CostEstimate(
        clips=len(plan.rows),
        with_video=len(with_video),
        not_found=[plan.rows[row].clip_id for row in with_video if row not in existing],
        stores=stores,
        decode_s=seconds,
        unreadable=unreadable,
        peak_bytes=_peak_bytes(models, clip_bytes, workers, device),
        free_bytes=shutil.disk_usage(folder).free,
        workers=workers,
        device=device,
        idle_gpus=idle_gpus() if on_cpu else (),
    )


def _timed(
    store: StoreEstimate, target: Target, workspace: Workspace, device: str
) -> StoreEstimate:
    """Return the estimate of a store with the time of a clip, or the reason why there is none."""
    if store.weights in ("not cached", "not found", "unusable"):
        return store
    try:
        model = load_target(target, workspace, device)
        size = model.geometry.size or SIZE_OF_ANY
        frames = np.zeros((model.geometry.frames, size, size, 3), np.uint8)
        batch = _batch(model.activation_bytes, device)
        forward = forward_runs(model, frames, [batch], rounds=1)[-1]
    except FixUsage:
        raise
    except ObygazeError as error:
        why = "; ".join([error.what, *map(str.strip, error.details)])
        return replace(store, why=store.why or why)
    return replace(store, forward_s=forward.runs.median_s / batch)


def _batch(activation_bytes: int, device: str) -> int:
    """Return the clips computed at once; a GPU, which may be of another machine, has the memory."""
    on_cpu = device == "cpu"
    return cpu_batch(activation_bytes, usable_cores()) if on_cpu else MAX_BATCH


def _model(target: Target, card: Card) -> _Model:
    if not card.family.needs_weights:
        n_bytes = TYPICAL_WEIGHT_BYTES if card.family.needs_torch else 0
        return _Model(target, card, "none needed", n_bytes)
    try:
        if target.weights is None and not is_cached(card):
            return _Model(target, card, "not cached")
        files = find_weights(card, target.weights)
    except NotFound:
        return _Model(target, card, "not cached" if target.weights is None else "not found")
    if target.weights is None:
        return _Model(target, card, "cached", files.n_bytes)
    try:
        return _Model(target, card.family.inspect(card, files), "local", files.n_bytes)
    except InstallExtra:
        # Without the library the checkpoint cannot be read: use the sizes of the card.
        return _Model(target, card, "local", files.n_bytes)
    except ObygazeError as error:
        why = "; ".join([f"{error.what} ({error.where})", *error.details])
        return _Model(target, card, "unusable", files.n_bytes, why)


def _store(plan: ExtractPlan, model: _Model) -> StoreEstimate:
    target, card, levels = model.target, model.card, model.levels
    block_rows = min(target.block_rows or BLOCK_ROWS, len(plan.rows))
    blocks = -(-len(plan.rows) // block_rows)
    folder = Path(target.store)
    committed = sum(1 for _ in (folder / "commits").glob("block-*.json"))
    has_mask = card.family.takes_mask
    # The two times of each frame, and whether it is real.
    times = (2 * 8 + has_mask) * card.geometry.frames
    return StoreEstimate(
        store=target.store,
        backbone=card.label,
        levels=levels,
        blocks=blocks,
        blocks_done=blocks if (folder / SEAL_FILE).exists() else committed,
        # Each block has a file for each level, two for the times, and a marker.
        files=blocks * (len(levels) + has_mask + 3) + len(levels) + has_mask + 10,
        # The last block takes the space of a full one.
        n_bytes=blocks * block_rows * (sum(levels.values()) + times),
        gflop_a_clip=card.family.flops(card.geometry) / 1e9 or card.gflop,
        weights=model.weights,
        why=model.why,
    )


def _probe(
    plan: ExtractPlan, rows: Sequence[int], views: tuple[View, ...]
) -> tuple[float | None, dict[str, str], int]:
    """Decode a few clips; return seconds a clip, reasons of failures, and bytes of frames."""
    with DecodePool(1, timeout_s=plan.timeout_s) as pool:
        decoded = list(decode_rows(plan, [(row, views) for row in rows], pool, ahead=1))
    seconds: list[float] = []
    sizes: list[int] = []
    unreadable: dict[str, str] = {}
    for one in decoded:
        if failed := [clip for clip in one.clips.values() if isinstance(clip, RowStatus)]:
            unreadable[plan.rows[one.row].clip_id] = failed[0].message
            continue
        clips = [clip for clip in one.clips.values() if isinstance(clip, DecodedClip)]
        seconds.append(one.seconds)
        shared = {id(clip.pictures): clip.pictures.nbytes for clip in clips}
        sizes.append(sum(shared.values()))
    mean = sum(seconds) / len(seconds) if seconds else None
    return mean, unreadable, max(sizes, default=TYPICAL_CLIP_BYTES)


def _peak_bytes(models: Sequence[_Model], clip_bytes: int, workers: int, device: str) -> int:
    """Return the peak memory: decoders, pictures, clips on the CPU, two blocks a store, weights.

    The backbones of a run on the CPU share its threads.
    """
    activations = []
    for model in models:
        target, card = model.target, model.card
        attention = target.attention or card.input.attention
        activations.append(card.family.activation_bytes(card.geometry, target.dtype, attention))
    batches = [_batch(each, device) for each in activations]
    # Each backbone holds the frames of a batch that waits, and of two on their way to a GPU.
    waiting = clips_ahead(workers, batches) + 1 + 3 * sum(batches)
    computing = max(n * each for n, each in zip(batches, activations, strict=True))
    blocks = sum((m.target.block_rows or BLOCK_ROWS) * sum(m.levels.values()) for m in models)
    weights = sum(model.weight_bytes for model in models)
    floor = FLOOR_WITH_TORCH_BYTES if weights else FLOOR_BYTES
    on_host = computing if device == "cpu" else 0
    pictures = waiting * clip_bytes
    return floor + workers * DECODER_BYTES + pictures + on_host + 2 * blocks + weights


def _gflop_text(gflop: float) -> str | None:
    if not gflop:
        return None
    return f"{gflop:.0f}" if gflop >= 10 else f"{gflop:.2g}"

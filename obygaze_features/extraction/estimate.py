"""What a plan would cost and what stands in its way, before anything runs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.backbones.base import Card
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.hub import find_weights, is_cached
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import InstallExtra, NotFound, ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import ExtractPlan, Row, Target
from obygaze_features.extraction.recipes import HEAVY, rule_of
from obygaze_features.extraction.sizing import batch_for, peak_bytes
from obygaze_features.store.format.records import SEAL_FILE
from obygaze_features.store.write.create import BLOCK_ROWS, BLOCK_ROWS_LARGE, LARGE_ROW_BYTES
from obygaze_features.video.decode import View
from obygaze_features.video.pool import DecodeJob, DecodePool

N_PROBED = 3
# Pixels of a clip in main memory, where it is not known from a probe: 32 frames of 1280 x 544.
TYPICAL_CLIP_BYTES = 32 * 1280 * 544 * 3
# Weights of a model of the usual base size, in single precision while they are loaded.
PARAMETERS = 200_000_000


@dataclass(frozen=True)
class StoreEstimate:
    """What one store of a plan would hold, and whether its backbone could be loaded."""

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


@dataclass(frozen=True)
class _Model:
    """A target with its card, whose sizes are those of the weights where these are known."""

    target: Target
    card: Card
    weights: str
    weight_bytes: int = 4 * PARAMETERS
    why: str = ""


@dataclass(frozen=True)
class Estimate:
    """A plan in numbers; `decode_s` is what a few real clips took, if any could be read."""

    clips: int
    with_video: int
    not_found: Sequence[str]
    stores: Sequence[StoreEstimate]
    decode_s: float | None
    unreadable: Mapping[str, str]
    peak_bytes: int
    free_bytes: int
    workers: int

    @property
    def decode_hours(self) -> float | None:
        """Decoding every clip once, with the workers of the plan."""
        left = max((1 - s.blocks_done / s.blocks for s in self.stores), default=0.0)
        if self.decode_s is None:
            return None
        return self.decode_s * self.with_video * left / self.workers / 3600

    @property
    def obstacles(self) -> list[str]:
        """What would go wrong, in words."""
        found = []
        if len(self.not_found):
            found.append(f"{len(self.not_found)} videos are named but not there")
        if self.with_video < self.clips:
            found.append(
                f"{self.clips - self.with_video} clips have no video: their rows stay missing"
            )
        needed = sum(s.n_bytes * (1 - s.blocks_done / s.blocks) for s in self.stores)
        if needed > self.free_bytes:
            found.append(f"{human(needed)} are needed, {human(self.free_bytes)} are free")
        found += [
            f"{s.backbone}: weights {s.weights}{f': {s.why}' if s.why else ''}"
            for s in self.stores
            if s.weights in ("not cached", "not found", "unusable")
        ]
        return found

    def to_json(self) -> dict[str, Any]:
        """The estimate as one JSON document."""
        values = {**vars(self), "stores": [dict(vars(store)) for store in self.stores]}
        more = {"decode_hours": self.decode_hours, "obstacles": self.obstacles}
        return {**values, "not_found": list(self.not_found), **more}

    def as_text(self) -> str:
        """The estimate for a person."""
        headers = (
            "store",
            "backbone",
            "levels",
            "blocks",
            "done",
            "files",
            "size",
            "GFLOP a clip",
            "weights",
        )
        rows = [
            (
                Path(s.store).name,
                s.backbone,
                " ".join(s.levels),
                s.blocks,
                s.blocks_done,
                s.files,
                human(s.n_bytes),
                _told_gflop(s.gflop_a_clip),
                s.weights,
            )
            for s in self.stores
        ]
        hours = self.decode_hours
        pace = "no clip could be probed"
        if hours is not None and self.decode_s is not None:
            pace = (
                f"decoding takes about {self.decode_s:.2f} s a clip,"
                f" {hours:.2f} hours with {self.workers} workers"
            )
        return "\n".join(
            [
                f"{self.clips} clips, {self.with_video} with video; {pace}",
                f"peak memory about {human(self.peak_bytes)},"
                f" {human(self.free_bytes)} of disk free",
                "",
                table(headers, rows),
                *(f"  ! {text}" for text in self.obstacles),
            ]
        )


def block_rows_of(card: Card, levels: Sequence[str]) -> int:
    """How many rows a block of this backbone's store holds."""
    sizes = [level.n_bytes for name, level in card.levels.items() if name in levels]
    return BLOCK_ROWS_LARGE if max(sizes, default=0) > LARGE_ROW_BYTES else BLOCK_ROWS


def estimate(plan: ExtractPlan, *, workers: int, n_probed: int = N_PROBED) -> Estimate:
    """Look at everything a run would need; decodes a few clips, writes nothing."""
    workspace = Workspace(Path(plan.workspace))
    models = [_model(target, find_card(target.backbone, workspace)) for target in plan.targets]
    pairs = [(model.target, model.card) for model in models]
    with_video = [row for row in plan.rows if row.video]
    # Asked once for each clip: a million questions take long on a network disk.
    there = [row for row in with_video if Path(row.video).is_file()]
    found = {row.clip_id for row in there}
    step = max(1, len(there) // max(n_probed, 1))
    views = tuple({View(c.geometry.frames, rule_of(c, target)): None for target, c in pairs})
    seconds, unreadable, clip_bytes = _probe(there[::step][:n_probed], views, plan.timeout_s)
    folder = _existing(Path(plan.targets[0].store))
    return Estimate(
        clips=len(plan.rows),
        with_video=len(with_video),
        not_found=[row.clip_id for row in with_video if row.clip_id not in found],
        stores=[_store(plan, model) for model in models],
        decode_s=seconds,
        unreadable=unreadable,
        peak_bytes=_peak(models, clip_bytes, workers),
        free_bytes=shutil.disk_usage(folder).free,
        workers=workers,
    )


def _model(target: Target, card: Card) -> _Model:
    """What a target would load, as far as its weights are here and can tell."""
    if not card.family.needs_weights:
        return _Model(target, card, "none needed", 0)
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
        # Without the library a checkpoint's own size is not known: the card's will have to do.
        return _Model(target, card, "local", files.n_bytes)
    except ObygazeError as error:
        why = "; ".join([f"{error.what} ({error.where})", *error.details])
        return _Model(target, card, "unusable", files.n_bytes, why)


def _store(plan: ExtractPlan, model: _Model) -> StoreEstimate:
    target, card = model.target, model.card
    levels = _kept(target, card)
    block_rows = min(target.block_rows or BLOCK_ROWS, len(plan.rows))
    blocks = -(-len(plan.rows) // block_rows)
    has_mask = card.family.takes_mask
    # The two times of each frame, and whether it is real.
    times = (2 * 8 + has_mask) * card.geometry.frames
    return StoreEstimate(
        store=target.store,
        backbone=card.label,
        levels=levels,
        blocks=blocks,
        blocks_done=_committed(Path(target.store), blocks),
        # Each block is a file for each level and each of the two time arrays, and a marker.
        files=blocks * (len(levels) + has_mask + 3) + len(levels) + has_mask + 8,
        # The last block takes the room of a full one.
        n_bytes=blocks * block_rows * (sum(levels.values()) + times),
        gflop_a_clip=card.family.flops(card.geometry) / 1e9 or card.gflop,
        weights=model.weights,
        why=model.why,
    )


def _committed(store: Path, blocks: int) -> int:
    markers = sum(1 for _ in (store / "commits").glob("block-*.json"))
    return blocks if (store / SEAL_FILE).exists() else markers


def _probe(
    rows: Sequence[Row], views: tuple[View, ...], timeout_s: float
) -> tuple[float | None, dict[str, str], int]:
    """Decode a few clips as a run would: seconds a clip, what failed, bytes of frames."""
    seconds: list[float] = []
    sizes: list[int] = []
    unreadable: dict[str, str] = {}
    jobs = [DecodeJob(row.video, views, row.start_s, row.end_s, row.clip_id) for row in rows]
    with DecodePool(1, timeout_s=timeout_s) as pool:
        for found in pool.map(jobs):
            if found.clips is None:
                unreadable[found.job.tag] = found.error.what if found.error else "unknown"
                continue
            seconds.append(found.seconds)
            sizes.append(sum(clip.frames.nbytes for clip in found.clips.values()))
    mean = sum(seconds) / len(seconds) if seconds else None
    return mean, unreadable, max(sizes, default=TYPICAL_CLIP_BYTES)


def _peak(models: Sequence[_Model], clip_bytes: int, workers: int) -> int:
    pairs = [(model.target, model.card) for model in models]
    activation = [
        card.family.activation_bytes(
            card.geometry, target.dtype, target.attention or card.input.attention
        )
        for target, card in pairs
    ]
    blocks = sum(
        (target.block_rows or BLOCK_ROWS) * sum(_kept(target, card).values())
        for target, card in pairs
    )
    weights = sum(model.weight_bytes for model in models)
    batches = [batch_for(each) for each in activation]
    return peak_bytes(clip_bytes, workers, batches, activation, blocks, weights)


def _kept(target: Target, card: Card) -> dict[str, int]:
    """Bytes of each level that is kept."""
    names = target.levels or tuple(name for name in card.levels if name not in HEAVY)
    return {name: card.levels[name].n_bytes for name in names if name in card.levels}


def _told_gflop(gflop: float) -> str | None:
    if not gflop:
        return None
    return f"{gflop:.0f}" if gflop >= 10 else f"{gflop:.2g}"


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path

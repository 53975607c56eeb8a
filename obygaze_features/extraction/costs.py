"""Estimate the time of a run from a few clips: `obygaze extract plan`.

While a GPU computes a clip, the cores decode the next clips. The slower one of the GPU and the
cores determines the time of the run. If the cores are slower, the GPU waits for them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from obygaze_features.backbones.backbone import Backbone
from obygaze_features.core.console import count, human, table
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.machine import usable_cores
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.clips import (
    Decoded,
    DecodedView,
    Failure,
    HeardClip,
    RowJob,
)
from obygaze_features.extraction.compute import (
    BatchComputer,
    Resources,
    clip_threads,
    make_computer,
)
from obygaze_features.extraction.decoding import RowDecoder, choose_sweep_rows
from obygaze_features.extraction.kept import is_kept
from obygaze_features.extraction.planning import (
    ExtractionPlan,
    StorePlan,
    choose_backbones,
    choose_device_of_targets,
    plan_stores,
)
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest, clock
from obygaze_features.store.layout import CLIPS_OF_A_BLOCK
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.pool import DecodePool

# The number of clips that `plan` tries to decode until one can be read.
_MOST_TRIED = 5
_TIMEOUT_S = 30.0


class KnownDevice(NamedTuple):
    """The speed of a GPU that need not be in this machine, in billions of operations a second.

    `float32` and `half` are the rates that large networks reach, not the rates of the data sheet.
    """

    float32: float
    half: float


# Three video networks took .074 s (float32) and .009 s (half) a clip on an H100
# (docs/performance.md). The A100 is slower by the ratio of the two data sheets.
KNOWN_DEVICES = {
    "h100": KnownDevice(33_000, 273_000),
    "a100": KnownDevice(9_700, 85_000),
}


@dataclass(frozen=True)
class StoreCost:
    """The clips to compute for one store, its new bytes, and the seconds to compute one clip.

    Clips without a video are not in `to_extract`, but their rows are in `n_bytes`. For a GPU of a
    different machine, the seconds are estimated from the operations that the card of the backbone
    states. They are None if no clip was computed.
    """

    store: str
    clips: int
    to_extract: int
    n_bytes: int
    forward_s: float | None
    is_on_gpu: bool
    takes_pictures: bool
    sentences: Sequence[str]

    @property
    def seconds(self) -> float:
        """The seconds to compute the missing clips."""
        return self.to_extract * (self.forward_s or 0.0)


@dataclass(frozen=True)
class Cost:
    """The counts and bytes of a plan, and the seconds to decode one clip.

    If no clip could be decoded, `decode_s` is None, and `decode_failure` is the reason of the first
    clip.
    """

    manifest: str
    clips: int
    with_video: int
    decode_s: float | None
    stores: Sequence[StoreCost]
    device: str
    workers: int
    warnings: Sequence[str] = ()
    decode_failure: str = ""

    @property
    def core_s(self) -> float:
        """The seconds of a run on a single core, without the work of the GPU."""
        n_clips = max((one.to_extract for one in self.stores), default=0)
        on_cores = [one.seconds for one in self.stores if not one.is_on_gpu]
        return n_clips * (self.decode_s or 0.0) + sum(on_cores)

    @property
    def gpu_s(self) -> float:
        """The seconds for which the GPU computes in a run."""
        return sum(one.seconds for one in self.stores if one.is_on_gpu)

    @property
    def seconds(self) -> float:
        """The seconds of a run; the slower one of the cores and the GPU determines them."""
        return max(self.core_s / self.workers, self.gpu_s)

    @property
    def cores_needed(self) -> int | None:
        """The number of cores that would keep the GPU busy; None without a GPU."""
        return math.ceil(self.core_s / self.gpu_s) if self.gpu_s else None

    @property
    def waits(self) -> float | None:
        """The share of the time of a run in which the GPU waits for cores; None without a GPU."""
        if not self.gpu_s:
            return None
        return max(0.0, 1 - self.gpu_s * self.workers / self.core_s)

    @property
    def decode_first_s(self) -> tuple[float, float] | None:
        """The seconds of the cores, and then of the GPU, if pictures are kept first.

        They are None if clips of sound are missing, because sound is never kept.
        """
        if not all(one.takes_pictures for one in self.stores if one.to_extract):
            return None
        return self.core_s / self.workers, self.gpu_s

    def to_json(self) -> dict[str, Any]:
        """Return the counts, bytes and seconds."""
        return {
            **asdict(self),
            "seconds": self.seconds,
            "waits": self.waits,
            "decode_first_s": self.decode_first_s,
            "cores_needed": self.cores_needed,
        }

    def __str__(self) -> str:
        decoding = "no clip could be decoded"
        if self.decode_failure:
            decoding += f" ({self.decode_failure})"
        if self.decode_s is not None:
            decoding = f"decoding takes about {self.decode_s:.3f} s per clip"
        lines = [
            f"{count(self.clips, 'clip')}, {self.with_video} with video; {decoding}"
        ]
        rows = []
        for store in self.stores:
            counts = (store.store, store.clips, store.to_extract)
            per_clip = "-" if store.forward_s is None else f"{store.forward_s:.3f}"
            rows.append((*counts, human(store.n_bytes), per_clip))
        headers = ("store", "clips", "to extract", "size", "s per clip")
        lines.append(table(headers, rows))
        for store in self.stores:
            lines += [f"{store.store}: {sentence}" for sentence in store.sentences]
        if self.decode_s is None or not self.seconds:
            return "\n".join(lines)
        line = f"{count(self.workers, 'core')}: about {clock(self.seconds)}"
        if self.waits is not None:
            line += (
                f"; {self.device} computes for {1 - self.waits:.0%}, and waits for decoded clips"
                f" for {self.waits:.0%} of this time"
            )
        lines.append(line)
        if self.waits:
            line = f"{self.cores_needed} cores would keep it busy"
            if self.decode_first_s is not None:
                cores_s, gpu_s = self.decode_first_s
                line += (
                    "; or decode first (-b frames:NAME, or extract slurm --decode-first): the"
                    f" cores for {clock(cores_s)}, then the {self.device} for {clock(gpu_s)}"
                )
            lines.append(line)
        return "\n".join(lines)


def plan_extraction(
    manifest: PathLike | Manifest,
    backbones: str | Sequence[str] = (),
    *,
    arrays: Sequence[str] = (),
    weights: Sequence[str] | Mapping[str, PathLike] = (),
    stores: Mapping[str, PathLike] | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    device: str = "auto",
    workers: int | None = None,
    workspace: PathLike | None = None,
) -> Cost:
    """Count missing clips, measure a few clips, and estimate the time of a run.

    Clips that a run decodes together are decoded, and one of them is computed with each backbone.
    The devices h100 and a100 need not be in this machine: their time is estimated from the
    operations that the card states. If a GPU would wait for decoded clips, the plan states how many
    cores would keep it busy. No store is created or changed, and no weights are downloaded:
    `og.backbones.fetch` downloads missing weights.

    Args:
        manifest: The clips, linked to their videos (`og.manifest.link`).
        backbones: Name of a backbone, or your own code (FILE.py:NAME).
        arrays: Arrays to store, of the backbones that have them; by default all but tokens, or the
            arrays of the store.
        weights: File or folder of weights.
        stores: The store of a backbone; by default MANIFEST.NAME.
        dtype: Precision of the computation.
        device: Device of the run: auto (an idle GPU, else the CPU), cpu, cuda or cuda:1; h100 or
            a100 of a different machine.
        workers: Number of processes that decode, on the machine of the run.
        workspace: The workspace, if it is not the current one.
    """
    here = Workspace.of(workspace)
    clips = read_manifest(manifest, workspace=here)
    chosen = choose_backbones(
        backbones, arrays=arrays, weights=weights, stores=stores, dtype=dtype
    )
    known = KNOWN_DEVICES.get(device)
    if known is None:
        device = choose_device_of_targets(device, chosen, here)
    plan = plan_stores(
        clips,
        chosen,
        here,
        device="cpu" if known else device,
        is_elsewhere=known is not None,
    )
    plan.refuse_changes()
    for store in plan.stores:
        card = store.backbone.card
        is_estimated = known is not None and card.family.needs_torch
        if is_estimated and store.n_computed and not card.gflop:
            raise FixUsage(
                f"the card {card.label} states no operations (gflop), so its time on {device}"
                " cannot be estimated",
                hint="use a --device of this machine, or state gflop in the card",
            )
    videos = {clip.video for clip in plan.clips}
    files = {video for video in videos if video and Path(video).is_file()}
    # A different machine may have videos that this machine does not have.
    readable = files if known is None else videos - {""}
    with_video = {clip.clip_id for clip in plan.clips if clip.video in readable}
    workers = workers or usable_cores()
    decoded, decode_s, decode_failure = _time_clips(plan, files, workers, here)
    costs = []
    for store in plan.stores:
        is_on_gpu = device != "cpu" and store.backbone.card.family.needs_torch
        clip = decoded.views.get(store.view) if decoded else None
        sentences = list(store.work.sentences)
        forward_s = None
        if isinstance(clip, Failure):
            sentences.append(f"its time is not counted: {clip}")
        elif clip is not None:
            if known is None or not is_on_gpu:
                forward_s = _seconds_to_compute(store, clip)
            elif store.backbone.card.gflop:
                speed = known.float32 if dtype == "float32" else known.half
                forward_s = gflop_of_clip(store.backbone, clip) / speed
        to_extract = 0
        for row, is_computed in zip(store.work.rows, store.work.computed, strict=True):
            has_pictures = row.clip_id in with_video or row.clip_id in store.kept
            to_extract += is_computed and has_pictures
        cost = StoreCost(
            store=store.path.name,
            clips=len(store.work.rows),
            to_extract=to_extract,
            n_bytes=store.n_computed * store.row_bytes,
            forward_s=forward_s,
            is_on_gpu=is_on_gpu,
            takes_pictures=isinstance(store.view, PictureView),
            sentences=sentences,
        )
        costs.append(cost)
    return Cost(
        manifest=plan.manifest,
        clips=len(plan.clips),
        with_video=sum(clip.video in files for clip in plan.clips),
        decode_s=decode_s,
        stores=costs,
        device=device,
        workers=workers,
        warnings=plan.notes,
        decode_failure=decode_failure,
    )


def _time_clips(
    plan: ExtractionPlan, files: Collection[str], workers: int, workspace: Workspace
) -> tuple[Decoded | None, float | None, str]:
    """Decode clips for all backbones with missing clips, in the same way as a run.

    Return one clip, the seconds to decode a clip, and "". The clip is from the middle of its film,
    since films begin with black pictures. Of the clips that are tried, it is the one that fails for
    the fewest backbones: a film may be silent. The clips that a run would decode together with it
    are decoded once more, and their time is divided by their number. If no clip can be decoded,
    return None, None, and the reason of the first clip.
    """
    needed = [store.view for store in plan.stores if store.n_computed]
    views = tuple(dict.fromkeys(needed or [store.view for store in plan.stores]))
    rows_of_video: dict[str, list[int]] = {}
    for row, clip in enumerate(plan.clips):
        is_read = all(is_kept(clip, view, plan.kept) for view in views)
        if is_read or clip.video in files:
            rows_of_video.setdefault(clip.video, []).append(row)
    jobs = [RowJob(rows[len(rows) // 2], views) for rows in rows_of_video.values()]
    sweep_rows = choose_sweep_rows(CLIPS_OF_A_BLOCK, len(plan.clips), workers)
    failure = ""
    best: Decoded | None = None
    with DecodePool(1, timeout_s=_TIMEOUT_S) as pool:
        decoder = RowDecoder(
            plan.clips,
            pool,
            sweep_rows,
            Resources().bytes_of_clips_ahead,
            str(workspace.folder("indexes")),
            kept=plan.kept,
            sweep_rows=sweep_rows,
        )
        for job in jobs[:_MOST_TRIED]:
            # The first decoding is not timed: it also starts the worker, and makes the index.
            (decoded,) = decoder.rows([job])
            if best is None or len(decoded.reasons) < len(best.reasons):
                best = decoded
            if not best.reasons:
                break
            failure = failure or decoded.reasons[0]
        if best is None or len(best.reasons) == len(views):
            return None, None, failure
        together = [
            row
            for row in rows_of_video[plan.clips[best.row].video]
            if row // sweep_rows == best.row // sweep_rows
        ]
        started = time.monotonic()
        for _ in decoder.rows(RowJob(row, views) for row in together):
            continue
        return best, (time.monotonic() - started) / len(together), ""


def gflop_of_clip(backbone: Backbone, clip: DecodedView) -> float:
    """Return the billions of operations for a clip, as the card of the backbone states them.

    For sound, the card states the operations for one piece of the sound. For a spectrogram, the
    last piece counts as a whole piece, even if the sound fills only a part of it.
    """
    card = backbone.card
    if not isinstance(clip, HeardClip) or card.sound is None or not card.sound.seconds:
        return card.gflop
    samples = clip.heard.of_clip
    pieces = len(samples) / card.sound.rate / card.sound.seconds
    return card.gflop * (math.ceil(pieces) if card.sound.mel else pieces)


def _seconds_to_compute(store: StorePlan, clip: DecodedView) -> float:
    """Return the seconds that a backbone needs for a clip on this machine.

    On a GPU, a whole batch is timed, and its time is divided by the number of its clips: one clip
    alone would take much longer.
    """
    with clip_threads(1) as threads:
        computer = make_computer(store.backbone, store.arrays, threads)
        clips = [clip]
        if isinstance(computer, BatchComputer):
            resources = Resources(store.backbone.placement.device)
            batch = resources.batch_size(computer)
            clips = [clip] * batch
        # The first computation is not timed: it also loads and compiles.
        computer.compute_all(clips)
        started = time.monotonic()
        computer.compute_all(clips)
    return (time.monotonic() - started) / len(clips)

"""How long a run takes, from one clip decoded here: `obygaze extract plan`.

While a GPU computes a clip, the cores decode others, so that the slower of the two decides, and the
GPU waits for the rest of the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from obygaze_features.backbones.backbone import Backbone, TorchModel
from obygaze_features.backbones.cards import FRAMES_OF
from obygaze_features.core.console import count, human, table
from obygaze_features.core.machine import usable_cores
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.clips import (
    Decoded,
    DecodedView,
    Failure,
    HeardClip,
    RowJob,
)
from obygaze_features.extraction.compute import (
    MAX_BATCH,
    BatchComputer,
    Resources,
    blank_clip,
    clip_threads,
    computer_for,
)
from obygaze_features.extraction.decoding import RowDecoder, bytes_of_job
from obygaze_features.extraction.kept import is_kept
from obygaze_features.extraction.planning import (
    ExtractionPlan,
    StorePlan,
    chosen_backbones,
    device_of,
    plan_stores,
)
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest, clock
from obygaze_features.manifest.times import long_clips
from obygaze_features.store.placing import has_links
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.pool import DecodePool
from obygaze_features.video.worker import ClipView

# One clip is decoded for `plan`; so many are tried, in case some cannot be read.
_MOST_TRIED = 5
_TIMEOUT_S = 30.0
# What a process that decodes takes, and the one that computes, without clips and weights.
_DECODER_BYTES = 80_000_000
_PROGRAM_BYTES = 600_000_000


class KnownDevice(NamedTuple):
    """A GPU that need not be there: billions of operations a second.

    `float32` and `half` are what large networks reach, and not what its maker says.
    """

    float32: float
    half: float


# Three video networks took .074 and .009 s a clip on an H100 (docs/performance.md). An A100 takes
# longer by what its maker says of both.
KNOWN_DEVICES = {
    "h100": KnownDevice(33_000, 273_000),
    "a100": KnownDevice(9_700, 85_000),
}


@dataclass(frozen=True)
class StoreCost:
    """What is to compute for one store, its bytes, and the seconds of one clip.

    `disk_bytes` is what the disk must have: twice the bytes where it has no hard links, since the
    seal copies the blocks there. The seconds of a GPU that is not there are those of the card.
    """

    store: str
    clips: int
    to_extract: int
    n_bytes: int
    disk_bytes: int
    forward_s: float
    is_on_gpu: bool
    sentences: Sequence[str]


@dataclass(frozen=True)
class Cost:
    """The counts and bytes of a plan, and the seconds to decode one clip; None if none could be.

    `frames_of` are backbones whose pictures could be kept first. `warnings` are about the clips;
    `decode_failure` is why the first of them could not be decoded.
    """

    manifest: str
    clips: int
    with_video: int
    decode_s: float | None
    stores: Sequence[StoreCost]
    device: str
    workers: int
    host_bytes: int
    frames_of: Sequence[str] = ()
    frames_bytes: int = 0
    warnings: Sequence[str] = ()
    decode_failure: str = ""

    @property
    def core_s(self) -> float:
        """The seconds of one core for a clip."""
        on_cores = [one.forward_s for one in self.stores if not one.is_on_gpu]
        return (self.decode_s or 0.0) + sum(on_cores)

    @property
    def gpu_s(self) -> float:
        """The seconds of the GPU for a clip."""
        return sum(one.forward_s for one in self.stores if one.is_on_gpu)

    @property
    def clip_s(self) -> float:
        """The seconds of a clip in a run: those of the slower of cores and GPU."""
        return max(self.core_s / self.workers, self.gpu_s)

    @property
    def waits(self) -> float | None:
        """The share of time in which the GPU waits for the cores; None without one."""
        return 1 - self.gpu_s / self.clip_s if self.gpu_s else None

    @property
    def to_extract(self) -> int:
        """How many clips are decoded."""
        return max((one.to_extract for one in self.stores), default=0)

    def to_json(self) -> dict[str, Any]:
        """Return the counts, bytes and seconds."""
        return {
            **asdict(self),
            "seconds": self.clip_s * self.to_extract,
            "waits": self.waits,
            "cores_needed": self._cores_needed,
        }

    @property
    def _cores_needed(self) -> int | None:
        return math.ceil(self.core_s / self.gpu_s) if self.gpu_s else None

    def __str__(self) -> str:
        decoding = "no clip could be decoded"
        if self.decode_failure:
            decoding += f" ({self.decode_failure})"
        if self.decode_s is not None:
            decoding = f"decoding takes about {self.decode_s:.3f} s a clip"
        lines = [
            f"{count(self.clips, 'clip')}, {self.with_video} with video; {decoding}"
        ]
        rows = []
        for store in self.stores:
            counts = (store.store, store.clips, store.to_extract)
            rows.append((*counts, human(store.n_bytes), f"{store.forward_s:.3f}"))
        headers = ("store", "clips", "to extract", "size", "s a clip")
        lines.append(table(headers, rows))
        for store in self.stores:
            if store.disk_bytes > store.n_bytes:
                lines.append(
                    f"{store.store}: {human(store.disk_bytes)} must be free, twice the size: this"
                    " disk has no hard links, and the seal copies the blocks"
                )
            lines += [f"{store.store}: {sentence}" for sentence in store.sentences]
        if self.decode_s is not None and self.to_extract:
            lines += self._times()
        return "\n".join(lines)

    def _times(self) -> list[str]:
        """Return how long a run takes, how long the GPU waits in it, and what memory it needs."""
        n_clips = self.to_extract
        cores = count(self.workers, "core")
        memory = f"main memory: about {human(self.host_bytes)}"
        line = f"{cores}: about {clock(self.clip_s * n_clips)}"
        if self.waits is None:
            return [line, memory]
        line += (
            f"; {self.device} is at work for {1 - self.waits:.0%} of it, and waits for the cores"
            f" for {self.waits:.0%}"
        )
        if self.waits:
            line += f"; {self._cores_needed} cores would feed it"
        lines = [line]
        if self.waits and self.frames_of:
            words = [f"-b {shell_word(FRAMES_OF + name)}" for name in self.frames_of]
            decoded = clock(self.core_s * n_clips / self.workers)
            lines.append(
                f"or decode first, without {self.device}: obygaze extract run"
                f" {shell_word(self.manifest)} {' '.join(words)} (about {decoded},"
                f" {human(self.frames_bytes)}); then {clock(self.gpu_s * n_clips)} on {self.device}"
            )
        # What a clip takes there is measured when a run begins.
        return [
            *lines,
            f"{memory}; batches take at most half of what is free on {self.device}",
        ]


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
    """Count what is missing, measure one clip, and say how long a run takes.

    One clip is decoded, and one is computed with each backbone. Of h100 and a100, which need not be
    there, the time is by the operations that the card states. Where a GPU waits for the cores, the
    plan says how many would feed it. No store is changed or made. On a disk without hard links, a
    run needs twice the size. The weights must be there (`obygaze backbones fetch`); none are
    downloaded. The exit code is 5 where `extract run` would refuse to add to a store.

    Args:
        manifest: The clips, linked to their videos (`obygaze manifest link`).
        backbones: A backbone, or your own code (FILE.py:NAME).
        arrays: The arrays to store, of the backbones that have one of them. [default: all but
            tokens, or those of the store]
        weights: File or folder of weights.
        stores: Store of a backbone. [default: MANIFEST.NAME]
        dtype: Compute in this precision.
        device: The device of the run: auto (an idle GPU, else the CPU), cpu, cuda, cuda:1, or h100,
            a100 elsewhere.
        workers: Processes that decode, on the machine of the run.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze extract plan obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400
        obygaze extract plan obygaze12 -b clip-b16 --device h100 --workers 16
        obygaze extract plan obygaze12 -b clip-b16 --arrays clip,pooled,tokens --json
    """
    here = Workspace.of(workspace)
    clips = read_manifest(manifest, workspace=here)
    chosen = chosen_backbones(
        backbones, arrays=arrays, weights=weights, stores=stores, dtype=dtype
    )
    known = KNOWN_DEVICES.get(device)
    if known is None:
        device = device_of(device, chosen, here)
    plan = plan_stores(
        clips,
        chosen,
        here,
        device="cpu" if known else device,
        is_elsewhere=known is not None,
    )
    plan.refuse_changes()
    videos = {clip.video for clip in plan.clips}
    files = {video for video in videos if video and Path(video).is_file()}
    decoded, decode_s, decode_failure = _timed_clip(plan, files, here)
    costs = []
    for store in plan.stores:
        n_bytes = store.n_computed * store.row_bytes
        is_on_gpu = device != "cpu" and store.backbone.card.family.needs_torch
        clip = _clip_of(store, decoded)
        stated_s = 0.0
        if known is not None and is_on_gpu:
            speed = known.float32 if dtype == "float32" else known.half
            stated_s = gflop_of_clip(store.backbone, clip) / speed
        cost = StoreCost(
            store=store.path.name,
            clips=len(store.work.rows),
            to_extract=store.n_computed,
            n_bytes=n_bytes,
            disk_bytes=n_bytes if has_links(store.path.parent) else 2 * n_bytes,
            # Own code states nothing.
            forward_s=stated_s or _seconds_to_compute(store, clip),
            is_on_gpu=is_on_gpu,
            sentences=store.work.sentences,
        )
        costs.append(cost)
    warnings = list(plan.notes)
    long = long_clips(clips)
    if long:
        warnings.append(long)
    n_workers = workers or usable_cores()
    frames = _frames_to_keep(plan)
    return Cost(
        manifest=plan.manifest,
        clips=len(plan.clips),
        with_video=sum(clip.video in files for clip in plan.clips),
        decode_s=decode_s,
        stores=costs,
        device=device,
        workers=n_workers,
        host_bytes=_host_bytes(plan, device, n_workers),
        frames_of=list(frames.values()),
        frames_bytes=_bytes_of_clips(plan, frames) * len(plan.clips),
        warnings=warnings,
        decode_failure=decode_failure,
    )


def _timed_clip(
    plan: ExtractionPlan, files: Collection[str], workspace: Workspace
) -> tuple[Decoded | None, float | None, str]:
    """Decode a clip as a run does, for all backbones, and return the seconds that it takes.

    It is one of the middle of its film, since films begin with black pictures. If none can be
    decoded, return the reason of the first.
    """
    views = tuple(dict.fromkeys(store.view for store in plan.stores))
    rows_of_video: dict[str, list[int]] = {}
    for row, clip in enumerate(plan.clips):
        is_read = all(is_kept(clip, view, plan.kept) for view in views)
        if is_read or clip.video in files:
            rows_of_video.setdefault(clip.video, []).append(row)
    jobs = [RowJob(rows[len(rows) // 2], views) for rows in rows_of_video.values()]
    failure = ""
    with DecodePool(1, timeout_s=_TIMEOUT_S) as pool:
        indexes = str(workspace.folder("indexes"))
        decoder = RowDecoder(
            plan.clips, pool, 1, 0, indexes, grid=plan.grid, kept=plan.kept
        )
        for job in jobs[:_MOST_TRIED]:
            # The first time, the worker starts, and the index of the film is made.
            (decoded,) = decoder.rows([job])
            if len(decoded.reasons) < len(views):
                started = time.monotonic()
                (decoded,) = decoder.rows([job])
                return decoded, time.monotonic() - started, ""
            failure = failure or decoded.reasons[0]
    return None, None, failure


def _clip_of(store: StorePlan, decoded: Decoded | None) -> DecodedView:
    """Return the clip that was decoded, as a backbone takes it; without one, a blank one."""
    clip = decoded.views[store.view] if decoded else None
    if clip is None or isinstance(clip, Failure):
        return blank_clip(store.backbone)
    return clip


def gflop_of_clip(backbone: Backbone, clip: DecodedView) -> float:
    """Return the operations of a clip by the card, which has those of a piece of a sound.

    A spectrogram is always that of a whole piece.
    """
    card = backbone.card
    if not isinstance(clip, HeardClip) or card.sound is None or not card.sound.seconds:
        return card.gflop
    samples = clip.heard.of_clip
    pieces = len(samples) / card.sound.rate / card.sound.seconds
    return card.gflop * (math.ceil(pieces) if card.sound.mel else pieces)


def _seconds_to_compute(store: StorePlan, clip: DecodedView) -> float:
    """Return the seconds that a backbone needs for a clip on this machine.

    A GPU computes a whole batch in much less time than its clips one by one.
    """
    with clip_threads(1) as threads:
        computer = computer_for(store.backbone, store.arrays, threads)
        clips = [clip]
        if isinstance(computer, BatchComputer):
            resources = Resources(store.backbone.placement.device)
            batch = resources.batch_of(computer)
            clips = [clip] * batch
        # What is loaded or compiled once does not count.
        computer.compute_all(clips)
        started = time.monotonic()
        computer.compute_all(clips)
    return (time.monotonic() - started) / len(clips)


def _frames_to_keep(plan: ExtractionPlan) -> dict[ClipView, str]:
    """Return the backbones whose pictures would serve the run, by what they see."""
    frames: dict[ClipView, str] = {}
    for store in plan.stores:
        if isinstance(store.view, PictureView) and store.view not in plan.kept:
            frames.setdefault(store.view, store.target.backbone)
    for store in plan.stores:
        if store.target.backbone.startswith(FRAMES_OF):
            frames.pop(store.view, None)
    return frames


def _bytes_of_clips(plan: ExtractionPlan, views: Collection[ClipView]) -> int:
    """Return the bytes of a clip of the middle as decoded for some views."""
    clip = plan.clips[len(plan.clips) // 2]
    return bytes_of_job(RowJob(0, tuple(views)), clip)


def _host_bytes(plan: ExtractionPlan, device: str, n_workers: int) -> int:
    """Return about how many bytes of the memory of the host a run takes."""
    n_at_once = usable_cores()
    n_bytes = _PROGRAM_BYTES + n_workers * _DECODER_BYTES
    for store in plan.stores:
        if device == "cpu" or not store.backbone.card.family.needs_torch:
            n_bytes += n_at_once * store.backbone.activation_bytes
        # The weights are read into the memory of the host in any case.
        n_bytes += _weights_of(store.backbone)
    views = {store.view for store in plan.stores}
    n_ahead = 2 * n_workers + max(n_at_once, MAX_BATCH)
    ahead_bytes = n_ahead * _bytes_of_clips(plan, views)
    return n_bytes + min(ahead_bytes, Resources().bytes_of_clips_ahead)


def _weights_of(backbone: Backbone) -> int:
    """Return the bytes of the weights in the precision in which they are used."""
    if not isinstance(backbone, TorchModel):
        return 0
    return sum(tensor.nbytes for tensor in backbone.module.state_dict().values())

"""Count what a run would compute, and measure one clip: `obygaze extract plan`."""

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.console import count, human, table
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.clips import Decoded, Failure, RowJob
from obygaze_features.extraction.compute import (
    BatchComputer,
    Resources,
    blank_clip,
    clip_threads,
    computer_for,
)
from obygaze_features.extraction.decoding import RowDecoder
from obygaze_features.extraction.functions import (
    ArrayNames,
    Backbones,
    Device,
    Precision,
    Stores,
    Weights,
)
from obygaze_features.extraction.kept import is_kept
from obygaze_features.extraction.planning import (
    ExtractionPlan,
    StorePlan,
    chosen_backbones,
    plan_stores,
)
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.times import long_clips
from obygaze_features.store.placing import has_links
from obygaze_features.video.pool import DecodePool

# One clip is decoded for `plan`; so many are tried, in case some cannot be read.
_MOST_TRIED = 5
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class StoreCost:
    """What is to compute for one store, its bytes, and the seconds of one clip as measured.

    `disk_bytes` is what the disk must have: twice the bytes where it has no hard links, since the
    seal copies the blocks there.
    """

    store: str
    clips: int
    to_extract: int
    n_bytes: int
    disk_bytes: int
    forward_s: float
    sentences: Sequence[str]


@dataclass(frozen=True)
class Cost:
    """The counts and bytes of a plan, and the seconds to decode one clip; None if none could be.

    `warnings` are about the clips; `decode_failure` is the commonest reason of those that failed.
    """

    clips: int
    with_video: int
    decode_s: float | None
    stores: Sequence[StoreCost]
    warnings: Sequence[str] = ()
    decode_failure: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the counts, bytes and seconds."""
        return asdict(self)

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
        if not self.with_video and self.decode_s is None:
            lines.append("no clip has a video file: obygaze manifest link")
        for store in self.stores:
            if store.disk_bytes > store.n_bytes:
                lines.append(
                    f"{store.store}: {human(store.disk_bytes)} must be free, twice the size: this"
                    " disk has no hard links, and the seal copies the blocks"
                )
            lines += [f"{store.store}: {sentence}" for sentence in store.sentences]
        return "\n".join(lines)


def plan_extraction(
    manifest: PathLike | Manifest,
    backbones: Backbones = (),
    *,
    arrays: ArrayNames = (),
    weights: Weights = (),
    stores: Stores = None,
    dtype: Precision = "float32",
    device: Device = "cpu",
    workspace: PathLike | None = None,
) -> Cost:
    """Count what is missing, and measure one clip."""
    here = Workspace.of(workspace)
    clips = read_manifest(manifest, workspace=here)
    chosen = chosen_backbones(
        backbones, arrays=arrays, weights=weights, stores=stores, dtype=dtype
    )
    plan = plan_stores(clips, chosen, here, device=device)
    plan.refuse_changes()
    videos = {clip.video for clip in plan.clips}
    files = {video for video in videos if video and Path(video).is_file()}
    decoded, decode_s, decode_failure = _timed_clip(plan, files, here)
    costs = []
    for store in plan.stores:
        n_bytes = store.n_computed * store.row_bytes
        cost = StoreCost(
            store=store.path.name,
            clips=len(store.work.rows),
            to_extract=store.n_computed,
            n_bytes=n_bytes,
            disk_bytes=n_bytes if has_links(store.path.parent) else 2 * n_bytes,
            forward_s=_seconds_to_compute(store, decoded),
            sentences=store.work.sentences,
        )
        costs.append(cost)
    warnings = list(plan.notes)
    long = long_clips(clips)
    if long:
        warnings.append(long)
    return Cost(
        clips=len(plan.clips),
        with_video=sum(clip.video in files for clip in plan.clips),
        decode_s=decode_s,
        stores=costs,
        warnings=warnings,
        decode_failure=decode_failure,
    )


def _timed_clip(
    plan: ExtractionPlan, files: Collection[str], workspace: Workspace
) -> tuple[Decoded | None, float | None, str]:
    """Decode a clip as a run does, for all backbones, and return the seconds that it takes.

    It is one of the middle of its film, since films begin with black pictures. If none can be
    decoded, return the commonest reason.
    """
    views = tuple(dict.fromkeys(store.view for store in plan.stores))
    rows_of_video: dict[str, list[int]] = {}
    for row, clip in enumerate(plan.clips):
        is_read = all(is_kept(clip, view, plan.kept) for view in views)
        if is_read or clip.video in files:
            rows_of_video.setdefault(clip.video, []).append(row)
    jobs = [RowJob(rows[len(rows) // 2], views) for rows in rows_of_video.values()]
    reasons: Counter[str] = Counter()
    with DecodePool(1, timeout_s=_TIMEOUT_S) as pool:
        indexes = str(workspace.folder("indexes"))
        decoder = RowDecoder(
            plan.clips, pool, 1, 0, indexes, grid=plan.grid, kept=plan.kept
        )
        chosen: RowJob | None = None
        for job in jobs[:_MOST_TRIED]:
            # The first time, the worker starts, and the index of the film is made.
            (decoded,) = decoder.rows([job])
            if not decoded.reasons:
                chosen = job
                break
            if len(decoded.reasons) < len(views):
                # Some views can be timed: a film without sound has pictures.
                chosen = chosen or job
            reasons.update(decoded.reasons)
        if chosen is not None:
            started = time.monotonic()
            (decoded,) = decoder.rows([chosen])
            return decoded, time.monotonic() - started, ""
    commonest = [reason for reason, _ in reasons.most_common(1)]
    return None, None, "".join(commonest)


def _seconds_to_compute(store: StorePlan, decoded: Decoded | None) -> float:
    """Return the seconds that a backbone needs for a clip; without one, for a blank one.

    A GPU computes a whole batch in much less time than its clips one by one.
    """
    clip = decoded.views[store.view] if decoded else None
    if clip is None or isinstance(clip, Failure):
        clip = blank_clip(store.backbone)
    names = store.work.computes
    computes = [array for array in store.arrays if array.name in names]
    with clip_threads(1) as threads:
        computer = computer_for(store.backbone, computes, threads)
        clips = [clip]
        if isinstance(computer, BatchComputer):
            resources = Resources(store.backbone.placement.device)
            (batch,) = resources.batches_of([computer])
            clips = [clip] * batch
        # What is loaded or compiled once does not count.
        computer.compute_all(clips)
        started = time.monotonic()
        computer.compute_all(clips)
    return (time.monotonic() - started) / len(clips)

"""Count what a run would compute, and measure one clip: `obygaze extract plan`."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from obygaze_features.core.console import count, human, table
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.clips import Decoded, RowJob
from obygaze_features.extraction.compute import (
    BatchComputer,
    Resources,
    black_clip,
    clip_threads,
    computer_for,
)
from obygaze_features.extraction.decoding import decode_ahead
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
from obygaze_features.extraction.results import OF_MAPPING, WRONG_TIMES
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
        if self.decode_failure.startswith(WRONG_TIMES):
            lines.append(
                f"correct the times of the table ({OF_MAPPING}), import and link it again"
            )
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
    targets = chosen_backbones(
        backbones, arrays=arrays, weights=weights, stores=stores, dtype=dtype
    )
    plan = plan_stores(clips, targets, here, device=device)
    plan.refuse_changes()
    cost = cost_of(plan, here)
    long = long_clips(clips)
    warnings = (*plan.notes, long) if long else plan.notes
    return replace(cost, warnings=tuple(warnings))


def cost_of(plan: ExtractionPlan, workspace: Workspace) -> Cost:
    """Decode one clip, compute it with each backbone, and count."""
    stores = []
    for store in plan.stores:
        n_bytes = store.n_computed * store.row_bytes
        cost = StoreCost(
            store=store.path.name,
            clips=len(store.work.rows),
            to_extract=store.n_computed,
            n_bytes=n_bytes,
            disk_bytes=n_bytes if has_links(store.path.parent) else 2 * n_bytes,
            forward_s=seconds_of_a_clip(store),
            sentences=store.work.sentences,
        )
        stores.append(cost)
    is_file = _are_files(clip.video for clip in plan.clips)
    decode_s, decode_failure = _decode_seconds(plan, is_file, workspace)
    return Cost(
        clips=len(plan.clips),
        with_video=sum(is_file[clip.video] for clip in plan.clips),
        decode_s=decode_s,
        stores=stores,
        decode_failure=decode_failure,
    )


def _are_files(videos: Iterable[str]) -> dict[str, bool]:
    """Return which of these videos are there."""
    return {video: bool(video) and Path(video).is_file() for video in set(videos)}


def seconds_of_a_clip(store: StorePlan) -> float:
    """Return the seconds that a backbone needs for one clip of made-up pictures.

    A GPU computes a whole batch in much less time than its clips one by one.
    """
    names = store.work.computes
    computes = [array for array in store.arrays if array.name in names]
    clip = black_clip(store.backbone)
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


def _decode_seconds(
    plan: ExtractionPlan, is_file: Mapping[str, bool], workspace: Workspace
) -> tuple[float | None, str]:
    """Return the seconds to decode one clip for all backbones: the first that can be decoded.

    It is one of the middle of its film, since films begin with black pictures. If none can be
    decoded, return None and the commonest reason.
    """
    views = tuple(dict.fromkeys(store.view for store in plan.stores))
    rows_of_video: dict[str, list[int]] = {}
    for row, clip in enumerate(plan.clips):
        if is_file[clip.video] or is_kept(RowJob(row, views), clip, plan.kept):
            rows_of_video.setdefault(clip.video, []).append(row)
    jobs = [RowJob(rows[len(rows) // 2], views) for rows in rows_of_video.values()]
    reasons: Counter[str] = Counter()
    with DecodePool(1, timeout_s=_TIMEOUT_S) as pool:
        for job in jobs[:_MOST_TRIED]:
            # The first time, the worker starts, and the index of the film is made.
            decoded = _decoded(job, plan, pool, workspace)
            if not decoded.has_failed:
                return _decoded(job, plan, pool, workspace).seconds, ""
            reasons.update(decoded.reasons)
    commonest = [reason for reason, _ in reasons.most_common(1)]
    return None, "".join(commonest)


def _decoded(
    job: RowJob, plan: ExtractionPlan, pool: DecodePool, workspace: Workspace
) -> Decoded:
    """Decode one row as a run does."""
    (decoded,) = decode_ahead(
        [job],
        plan.clips,
        pool,
        most_clips=1,
        most_bytes=0,
        indexes=str(workspace.folder("indexes")),
        grid=plan.grid,
        kept=plan.kept,
    )
    return decoded

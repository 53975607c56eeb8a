"""The loop of an extraction: decode rows ahead, add them to the block maker of each store.

It depends on callables and iterators only, so that every engine runs the same loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.blocks import BatchTooLarge, BlockMaker
from obygaze_features.extraction.kept_frames import KeptFrames
from obygaze_features.extraction.plan import ExtractPlan, PlannedClip
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.extraction.sources import source_of
from obygaze_features.extraction.windows import decode_windows
from obygaze_features.store.format.schema import RowSource, RowStatus
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decoded_clip import DecodedClip, View
from obygaze_features.video.pool import DecodeJob, DecodePool, in_order

# Threads that read kept pictures.
READERS = 2
NO_VIDEO = RowStatus.no_video("the manifest names no video")


@dataclass(frozen=True)
class DecodedRow:
    """A decoded clip for each view of a row, or the reason why there is none."""

    row: int
    clips: Mapping[View, DecodedClip | RowStatus]
    seconds: float = 0.0
    source: RowSource | None = None


# Row numbers, each with the views that its stores need.
Jobs = Sequence[tuple[int, tuple[View, ...]]]
Decode = Callable[[Jobs], Iterator[DecodedRow]]
Watch = Callable[[DecodedRow], None]


def run_rows(makers: Sequence[BlockMaker], decode: Decode, stop: StopFlag, watch: Watch) -> None:
    """Extract the rows of all makers; after a stop, only committed blocks are kept.

    `watch` is called when a row is decoded, and again if the model fails on the row or its block is
    restarted.
    """
    for maker in makers:
        maker.on_failed = partial(_report_failed, watch, maker.view)
    try:
        while not stop:
            try:
                _pass(makers, decode, stop, watch)
                break
            except BatchTooLarge as error:
                _restart(makers, error)
    finally:
        for maker in makers:
            maker.close()


def _restart(makers: Sequence[BlockMaker], error: BatchTooLarge) -> None:
    """Halve the batches of all makers, since they share the memory, and drop unfinished blocks."""
    if all(maker.batch == 1 for maker in makers):
        raise ObygazeError(
            f"one clip of {error} does not fit into memory",
            hint="use a smaller backbone, --dtype bfloat16, or another --device",
        ) from error
    for maker in makers:
        maker.restart()


def _pass(makers: Sequence[BlockMaker], decode: Decode, stop: StopFlag, watch: Watch) -> None:
    results = iter(decode(_jobs(makers)))
    while not stop:
        started = time.monotonic()
        decoded = next(results, None)
        waited = time.monotonic() - started
        if decoded is None:
            break
        seconds = {"wait": waited, "decode": decoded.seconds}
        for maker in makers:
            if decoded.row in maker.rows:
                maker.add(decoded.row, decoded.clips[maker.view], decoded.source, seconds)
        watch(decoded)
    for maker in makers:
        maker.finish()


def _report_failed(watch: Watch, view: View, row: int, status: RowStatus) -> None:
    watch(DecodedRow(row, {view: status}))


def _jobs(makers: Sequence[BlockMaker]) -> list[tuple[int, tuple[View, ...]]]:
    rows = sorted(set().union(*(maker.rows for maker in makers)))
    return [
        (row, tuple(dict.fromkeys(maker.view for maker in makers if row in maker.rows)))
        for row in rows
    ]


def decode_rows(
    plan: ExtractPlan,
    jobs: Jobs,
    pool: DecodePool,
    *,
    ahead: int,
    kept: Mapping[View, KeptFrames] = MappingProxyType({}),
) -> Iterator[DecodedRow]:
    """Decode rows in order, up to `ahead` rows in advance; a row that fails has the reason.

    Rows whose pictures are `kept` for all their views are read from there.
    """
    read = {row for row, views in jobs if all(v in kept and row in kept[v].rows for v in views)}
    planned = [(row, plan.rows[row], views) for row, views in jobs]
    to_decode = [one for one in planned if one[0] not in read]
    if plan.grid is None:
        results = pool.map(_decode_jobs(plan, to_decode, pool), ahead=ahead)
    else:
        results = decode_windows(plan.grid, to_decode, pool, _indexes(plan))
    from_store = _read_kept(plan, [job for job in jobs if job[0] in read], kept, ahead)
    for row, clip, views in planned:
        if row in read:
            yield next(from_store)
            continue
        if not clip.video:
            yield DecodedRow(row, dict.fromkeys(views, NO_VIDEO))
            continue
        result = next(results)
        if result.clips is None:
            status = _failed(result.error)
            # The file is not read again: that may be what failed or blocked.
            source = RowSource(clip.start_s, clip.end_s)
            yield DecodedRow(row, dict.fromkeys(views, status), result.seconds, source)
            continue
        limit = plan.max_substituted
        clips = {view: _checked(decoded, limit) for view, decoded in result.clips.items()}
        yield DecodedRow(row, clips, result.seconds, source_of(clip))


def _read_kept(
    plan: ExtractPlan,
    jobs: Jobs,
    kept: Mapping[View, KeptFrames],
    ahead: int,
) -> Iterator[DecodedRow]:
    """Read rows whose pictures are kept, in threads, up to `ahead` in advance."""

    def read(job: tuple[int, tuple[View, ...]]) -> DecodedRow:
        row, views = job
        clips = {view: kept[view].clip(row, view, plan.rows[row]) for view in views}
        return DecodedRow(row, clips, source=kept[views[0]].source(row))

    with ThreadPoolExecutor(READERS) as readers:
        yield from in_order(lambda job: readers.submit(read, job), jobs, ahead)


def _decode_jobs(
    plan: ExtractPlan,
    planned: Sequence[tuple[int, PlannedClip, tuple[View, ...]]],
    pool: DecodePool,
) -> Iterator[DecodeJob]:
    """Yield the job of each clip with a video; start the index of the next film beside them."""
    shared = plan.shared_films
    films = list(dict.fromkeys(c.video for _, c, _ in planned if c.video in shared))
    folder = _indexes(plan)
    for _, clip, views in planned:
        if clip.video in films:
            del films[: films.index(clip.video) + 1]
            if films:
                pool.submit(DecodeJob(films[0], (), indexes=folder))
        if clip.video:
            indexes = folder if clip.video in shared else None
            yield DecodeJob(clip.video, views, clip.start_s, clip.end_s, indexes=indexes)


def _indexes(plan: ExtractPlan) -> str:
    return str(Workspace(Path(plan.workspace)).folder("indexes"))


def _checked(clip: DecodedClip, max_substituted: float) -> DecodedClip | RowStatus:
    try:
        return clip.check(max_substituted)
    except BadVideo as error:
        return _failed(error)


def _failed(error: BadVideo | None) -> RowStatus:
    if error is None:
        return RowStatus.failed(
            "decode", "unknown", "the decoder returned neither a clip nor an error"
        )
    return RowStatus.failed(error.stage, error.reason, error.what)

"""Decode the rows of a store ahead, in their order; a row that fails has its reason."""

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import groupby, pairwise
from math import prod
from types import MappingProxyType
from typing import Any

from obygaze_features.core.files import STILL_SUFFIXES
from obygaze_features.extraction.clips import (
    NO_VIDEO_NAMED,
    Decoded,
    Failure,
    PlannedClip,
    RowJob,
    Source,
    ViewedClip,
    films_of_parts,
    repeated,
)
from obygaze_features.extraction.kept import KeptViews, is_kept, read_kept, with_kept
from obygaze_features.extraction.windows import WantedWindow, decode_windows
from obygaze_features.manifest.windows import Grid
from obygaze_features.store.layout import WINDOWS_OF_A_BLOCK
from obygaze_features.store.rows import FAILED
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decoded_clip import DecodedClip, PictureView
from obygaze_features.video.pool import DecodeJob, DecodePool, DecodeResult, in_order

# The numbers of one film must not come from two.
REPLACED = Failure(
    FAILED, "replaced: the video was changed while its clips were extracted"
)
# Threads that read kept frames.
READERS = 2
NOTHING_KEPT: KeptViews = MappingProxyType({})
# The pictures of a clip whose size is not known before it is decoded.
_SIZE_OF_ANY = (1080, 1920)


def decode_ahead(
    jobs: Iterable[RowJob],
    clips: Sequence[PlannedClip],
    pool: DecodePool,
    *,
    most_clips: int,
    most_bytes: int,
    indexes: str,
    accept_damaged: bool = False,
    grid: Grid | None = None,
    kept: KeptViews = NOTHING_KEPT,
) -> Generator[Decoded, None, None]:
    """Decode rows and yield them in order.

    Args:
        jobs: The rows; each is asked for shortly before it is decoded.
        clips: All clips, by their rows.
        pool: The processes that decode.
        most_clips: How many clips may be decoded or wait to be taken.
        most_bytes: How many bytes of pictures they may have; one clip may have more.
        indexes: The folder that keeps the indexes of films with several clips.
        accept_damaged: Take what the decoder gives of a damaged film.
        grid: How the films are cut, if the rows are windows.
        kept: Frames that were kept: rows that have all their frames there are not decoded.
    """
    if grid is not None:
        decoded = _decode_windows(
            jobs, clips, grid, pool, most_bytes, indexes, accept_damaged, kept
        )
    else:
        decoded = _decode_clips(
            jobs,
            clips,
            pool,
            most_clips,
            most_bytes,
            indexes,
            accept_damaged,
            kept,
        )
    read_before: dict[str, Source] = {}
    with closing(decoded):
        for row in decoded:
            video = clips[row.row].video
            first = row.source
            # Clips whose frames were kept may have no video any more.
            if video and row.source.n_bytes is not None:
                first = read_before.setdefault(video, row.source)
            if first != row.source:
                row = replace(row, views=dict.fromkeys(row.views, REPLACED))
            yield row


def _decode_clips(
    jobs: Iterable[RowJob],
    clips: Sequence[PlannedClip],
    pool: DecodePool,
    most_clips: int,
    most_bytes: int,
    indexes: str,
    accept_damaged: bool,
    kept: KeptViews,
) -> Generator[Decoded, None, None]:
    """Decode rows that are clips, each by itself."""
    films = films_of_parts(clips)
    # For each of these films the one that comes after it.
    in_order_of_clips = dict.fromkeys(clip.video for clip in clips)
    next_film = dict(pairwise(video for video in in_order_of_clips if video in films))

    def submit(job: RowJob) -> Future[Any]:
        clip = clips[job.row]
        if is_kept(job, clip, kept):
            return readers.submit(read_kept, job, clip, kept)
        if not clip.video:
            failed: Future[Decoded] = Future()
            failed.set_result(_without_video(job))
            return failed
        if clip.video in next_film:
            # The index of the next film is made while this one is decoded.
            following = next_film.pop(clip.video)
            pool.submit(DecodeJob(following, (), indexes=indexes))
        folder = indexes if clip.video in films else None
        times = (clip.start_s, clip.end_s)
        return pool.submit(DecodeJob(clip.video, job.views, *times, indexes=folder))

    with ThreadPoolExecutor(READERS, thread_name_prefix="kept") as readers:
        under_way = in_order(
            submit, jobs, most_clips, bytes_of=bytes_of_job, most_bytes=most_bytes
        )
        with closing(under_way):
            for job, result in under_way:
                if not isinstance(result, Decoded):
                    result = decoded_row(job, result, accept_damaged)
                yield with_kept(result, clips[job.row], kept)


def _decode_windows(
    jobs: Iterable[RowJob],
    clips: Sequence[PlannedClip],
    grid: Grid,
    pool: DecodePool,
    most_bytes: int,
    indexes: str,
    accept_damaged: bool,
    kept: KeptViews,
) -> Generator[Decoded, None, None]:
    """Decode rows that are windows, those of one film and one block in one sweep."""

    def sweep_of(job: RowJob) -> tuple[str, str, int, bool]:
        clip = clips[job.row]
        block = job.row // WINDOWS_OF_A_BLOCK
        return clip.movie_id, clip.video, block, is_kept(job, clip, kept)

    for (_, video, _, are_kept), group in groupby(jobs, sweep_of):
        if are_kept:
            for job in group:
                yield read_kept(job, clips[job.row], kept)
            continue
        rows = list(group)
        if not video:
            for job in rows:
                yield with_kept(_without_video(job), clips[job.row], kept)
            continue
        windows = [WantedWindow(clips[job.row].window or 0, job.views) for job in rows]
        results = decode_windows(
            video,
            grid,
            windows,
            pool,
            indexes,
            most_bytes,
            film=clips[rows[0].row].film,
        )
        for job, result in zip(rows, results, strict=True):
            row = decoded_row(job, result, accept_damaged)
            yield with_kept(row, clips[job.row], kept)


def bytes_of_job(job: RowJob) -> int:
    """Return the bytes of the pictures of a row."""
    n_bytes = 0
    for view in job.views:
        size = view.resize.shape(*_SIZE_OF_ANY) if view.resize else _SIZE_OF_ANY
        n_bytes += view.count * 3 * prod(size)
    return n_bytes


def _without_video(job: RowJob) -> Decoded:
    failures = dict.fromkeys(job.views, NO_VIDEO_NAMED)
    return Decoded(job.row, Source(), 0.0, failures)


def decoded_row(job: RowJob, result: DecodeResult, accept_damaged: bool) -> Decoded:
    """Return a row as the pool decoded it."""
    views: dict[PictureView, ViewedClip | Failure] = {}
    if result.error is not None or result.clips is None:
        failure = _failed(result.error)
        # The file is not read again: that may be what failed or blocked.
        views.update(dict.fromkeys(job.views, failure))
        return Decoded(job.row, Source(), result.seconds, views)
    source = Source()
    if result.file_facts is not None:
        n_bytes, quick_hash = result.file_facts
        source = Source(n_bytes, quick_hash[:16])
    for view, decoded in result.clips.items():
        try:
            checked = decoded.check(accept_damaged)
        except BadVideo as error:
            views[view] = _failed(error)
        else:
            views[view] = _clip_of(checked)
    return Decoded(job.row, source, result.seconds, views)


def _failed(error: BadVideo | None) -> Failure:
    if error is None:
        return Failure(FAILED, "the decoder gave no pictures")
    return Failure(FAILED, f"{error.reason}: {error.message}")


def _clip_of(decoded: DecodedClip) -> ViewedClip:
    """Return a clip, with a remark on frames that are not those that were asked for."""
    n_frames = len(decoded.mask)
    n_real = int(decoded.mask.sum())
    n_damaged = int(decoded.substituted.sum())
    remarks = []
    if n_damaged:
        remarks.append(f"{n_damaged} of {n_real} frames damaged")
    if decoded.is_incomplete:
        remarks.append("frames are missing from the file")
    is_still = decoded.path.suffix.lower() in STILL_SUFFIXES
    if decoded.total < n_frames == n_real and not is_still:
        remarks.append(repeated(decoded.total, n_frames))
    return ViewedClip(
        pictures=decoded.shared_pictures,
        rows=decoded.rows,
        mask=decoded.mask,
        time_s=decoded.time_s,
        asked_s=decoded.asked_s,
        total=decoded.total,
        remark="; ".join(remarks),
        is_clean=not (n_damaged or decoded.is_incomplete),
        span_s=decoded.span_s,
    )

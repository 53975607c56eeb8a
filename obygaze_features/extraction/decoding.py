"""Decode the rows of a store in advance and in order; a row that fails has its reason."""

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from math import prod
from typing import Any

import numpy as np

from obygaze_features.backbones.card import PARTS
from obygaze_features.backbones.sound import ClipSound
from obygaze_features.core.files import STILL_SUFFIXES
from obygaze_features.extraction.clips import (
    NO_VIDEO_NAMED,
    Decoded,
    DecodedView,
    Failure,
    HeardClip,
    PlannedClip,
    RowJob,
    Source,
    ViewedClip,
    films_of_parts,
    repetition_remark,
)
from obygaze_features.extraction.kept import KeptViews, is_kept, read_kept
from obygaze_features.store.layout import CLEAN, CLIPS_OF_A_BLOCK, MASK
from obygaze_features.store.rows import FAILED
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decoded_clip import DecodedClip
from obygaze_features.video.pool import DecodePool, in_order
from obygaze_features.video.sound import SAMPLE_BYTES, DecodedSound, SoundView
from obygaze_features.video.worker import ClipView, DecodeJob, DecodeResult

# The features of a video must not come from two files.
REPLACED = Failure(
    FAILED, "replaced: the video was changed while its clips were extracted"
)
# Threads that read kept frames.
READERS = 2
# The assumed size of pictures before they are decoded.
_SIZE_OF_ANY = (1080, 1920)
# The assumed seconds of a clip that ends with its film.
_SECONDS_OF_ANY = 600.0
# Clips of a film that are so near to each other share a sweep: they often need one key frame.
GAP_S = 10.0
# The clips of a sweep may have this share (1/16) of the memory for decoded clips.
_SHARE_OF_A_SWEEP = 16


def choose_sweep_rows(block_rows: int, n_rows: int, n_workers: int) -> int:
    """Return the number of neighbouring rows whose clips may share a sweep.

    They are in one block. A run with few rows has short sweeps, so that each worker has one.

    Args:
        block_rows: The number of rows of the smallest block, a power of two.
        n_rows: The number of rows to compute.
        n_workers: The number of processes that decode.
    """
    rows = min(block_rows, CLIPS_OF_A_BLOCK)
    while rows > 1 and n_rows < rows * n_workers:
        rows //= 2
    return rows


@dataclass(eq=False)
class _Sweep:
    """Rows whose clips are decoded together, in the order of their times.

    `future` is their result. It is None until the first row is submitted.
    """

    jobs: Sequence[RowJob]
    future: Future[Any] | None = None

    def result_of(self, job: RowJob, result: Any) -> DecodeResult | Decoded:
        """Return the result of one row from the result of the sweep."""
        if len(self.jobs) == 1:
            alone: DecodeResult | Decoded = result
            return alone
        part: DecodeResult = result.parts[self.jobs.index(job)]
        return part


@dataclass
class RowDecoder:
    """Decodes rows of a store in advance; kept frames are read instead of films.

    Clips of a film that overlap, or nearly do, are decoded in one sweep: each picture once.

    Args:
        clips: The clip of each row.
        pool: The processes that decode.
        most_clips: The number of clips that may be decoded ahead.
        most_bytes: The largest number of bytes of these clips; a single clip may have more.
        indexes: The folder of stored indexes, for films with several clips.
        accept_damaged: Use damaged pictures and sound as the decoder returns them.
        kept: The kept frames. If it is empty, all clips are decoded.
        first_read: The facts of each video at the time when its first clip was read.
        sweep_rows: Each so many rows may share a sweep; 1: each clip is decoded by itself.
    """

    clips: Sequence[PlannedClip]
    pool: DecodePool
    most_clips: int
    most_bytes: int
    indexes: str
    accept_damaged: bool = False
    kept: KeptViews = field(default_factory=dict)
    first_read: dict[str, Source] = field(default_factory=dict)
    sweep_rows: int = 1

    def rows(self, jobs: Iterable[RowJob]) -> Generator[Decoded, None, None]:
        """Yield decoded rows in the order of `jobs`; take each job shortly before its decoding."""
        films = films_of_parts(self.clips)
        # For each film with several clips, the next such film.
        videos = dict.fromkeys(clip.video for clip in self.clips)
        next_film = dict(pairwise(video for video in videos if video in films))

        def submit(item: tuple[RowJob, _Sweep]) -> Future[Any]:
            job, sweep = item
            if sweep.future is None:
                sweep.future = submit_sweep(job, sweep.jobs)
            return sweep.future

        def submit_sweep(job: RowJob, swept: Sequence[RowJob]) -> Future[Any]:
            clip = self.clips[job.row]
            to_decode = self._not_kept(job)
            if not to_decode.views:
                return readers.submit(read_kept, job, clip, self.kept)
            if not clip.video:
                failed: Future[Decoded] = Future()
                failed.set_result(_without_video(to_decode))
                return failed
            folder = self.indexes if clip.video in films else None
            times = (clip.start_s, clip.end_s)
            decode_job = DecodeJob(clip.video, to_decode.views, *times, indexes=folder)
            if len(swept) > 1:
                in_sweep = [self.clips[one.row] for one in swept]
                parts_s = [(one.start_s, one.end_s) for one in in_sweep]
                decode_job = replace(decode_job, parts_s=parts_s)
            future = self.pool.submit(decode_job)
            if clip.video in next_film:
                # The index of the next film is made while this one is decoded.
                following = next_film.pop(clip.video)
                is_heard = any(isinstance(view, SoundView) for view in to_decode.views)
                self.pool.submit(
                    DecodeJob(following, (), indexes=self.indexes, with_sound=is_heard)
                )
            return future

        with ThreadPoolExecutor(READERS, thread_name_prefix="kept") as readers:
            under_way = in_order(
                submit,
                self._with_sweeps(jobs),
                self.most_clips,
                bytes_of=lambda item: self._bytes_of(item[0]),
                most_bytes=self.most_bytes,
                # One more than the workers, so that none waits while clips of a sweep are computed.
                least=self.pool.workers + 1,
            )
            with closing(under_way):
                for (job, sweep), result in under_way:
                    yield self._row(job, sweep.result_of(job, result))

    def _bytes_of(self, job: RowJob) -> int:
        return bytes_of_job(job, self.clips[job.row])

    def _with_sweeps(self, jobs: Iterable[RowJob]) -> Iterator[tuple[RowJob, _Sweep]]:
        """Yield each row with its sweep, in the order of `jobs`.

        The rows of a sweep are neighbours, in any order of their times. They are taken from `jobs`
        together. A clip that exceeds the memory of a sweep is decoded by itself.
        """
        most_bytes = self.most_bytes // _SHARE_OF_A_SWEEP

        def place_of(job: RowJob) -> tuple[int, str, tuple[ClipView, ...]]:
            clip = self.clips[job.row]
            return job.row // self.sweep_rows, clip.video, self._not_kept(job).views

        for (_, video, views), group in groupby(jobs, place_of):
            neighbours = list(group)
            n_together = 1
            if video and views:
                n_bytes = max(1, *map(self._bytes_of, neighbours))
                n_together = max(1, most_bytes // n_bytes)
            for first in range(0, len(neighbours), n_together):
                part = neighbours[first : first + n_together]
                sweep_of: dict[RowJob, _Sweep] = {}
                for swept in self._near_each_other(part):
                    sweep_of |= dict.fromkeys(swept, _Sweep(swept))
                for job in part:
                    yield job, sweep_of.get(job) or _Sweep([job])

    def _near_each_other(self, jobs: Iterable[RowJob]) -> list[list[RowJob]]:
        """Group clips of a film with start and end so that each is near others of its group."""
        spans = []
        for job in jobs:
            clip = self.clips[job.row]
            if clip.start_s is not None and clip.end_s is not None:
                spans.append((clip.start_s, clip.end_s, job))
        groups: list[list[RowJob]] = []
        last_end_s = -math.inf
        for start_s, end_s, job in sorted(spans, key=lambda span: span[:2]):
            if start_s >= last_end_s + GAP_S:
                groups.append([])
            groups[-1].append(job)
            last_end_s = max(last_end_s, end_s)
        return groups

    def _not_kept(self, job: RowJob) -> RowJob:
        """Return the job of a row with only the views that have no kept frames."""
        clip = self.clips[job.row]
        views = [view for view in job.views if not is_kept(clip, view, self.kept)]
        return RowJob(job.row, tuple(views))

    def _row(self, job: RowJob, result: DecodeResult | Decoded) -> Decoded:
        """Return a row with all its views, decoded or kept."""
        clip = self.clips[job.row]
        if isinstance(result, Decoded):
            row = result
        else:
            row = make_decoded_row(self._not_kept(job), result, self.accept_damaged)
        sources = [row.source]
        kept_views = tuple(view for view in job.views if view not in row.views)
        if kept_views:
            of_kept = read_kept(RowJob(job.row, kept_views), clip, self.kept)
            source = row.source if row.source.is_known else of_kept.source
            row = replace(row, source=source, views={**row.views, **of_kept.views})
            sources.append(of_kept.source)
        for source in sources:
            # Clips with kept frames may have no video any more.
            if clip.video and source.is_known:
                first = self.first_read.setdefault(clip.video, source)
                if first != source:
                    row = replace(row, views=dict.fromkeys(row.views, REPLACED))
        return row


def bytes_of_job(job: RowJob, clip: PlannedClip) -> int:
    """Return the bytes of the pictures and of the sound of a row; unknown sizes are assumed."""
    n_bytes = 0
    for view in job.views:
        if isinstance(view, SoundView):
            seconds = _SECONDS_OF_ANY
            if clip.end_s is not None:
                seconds = clip.end_s - (clip.start_s or 0.0)
            n_bytes += (view.n_before + round(seconds * view.rate)) * SAMPLE_BYTES
            continue
        size = view.resize.shape(*_SIZE_OF_ANY) if view.resize else _SIZE_OF_ANY
        n_bytes += view.count * 3 * prod(size)
    return n_bytes


def _without_video(job: RowJob) -> Decoded:
    failures = dict.fromkeys(job.views, NO_VIDEO_NAMED)
    return Decoded(job.row, Source(), failures)


def make_decoded_row(
    job: RowJob, result: DecodeResult, accept_damaged: bool
) -> Decoded:
    """Return a decoded row, from the result of a process of the pool."""
    # After an error the file is not read again: reading may have failed or blocked.
    source = Source.of(result.file_facts if result.error is None else None)
    views: dict[ClipView, DecodedView | Failure] = {}
    for view in job.views:
        try:
            if isinstance(view, SoundView):
                views[view] = _make_heard_clip(result.sound(view).check(accept_damaged))
            else:
                views[view] = _make_viewed_clip(result.clip(view).check(accept_damaged))
        except BadVideo as error:
            is_decoded = result.error is None and view not in result.failures
            views[view] = Failure.of(error, is_decoded=is_decoded)
    return Decoded(job.row, source, views)


def _make_heard_clip(sound: DecodedSound) -> HeardClip:
    """Return the sound of a clip, with the time of the centre of each of its parts."""
    seconds = sound.end_s - sound.start_s
    centres = (np.arange(PARTS) + 0.5) / PARTS
    arrays = {
        "time_s": sound.start_s + centres * seconds,
    }
    heard = ClipSound(sound.samples, sound.n_before)
    return HeardClip(heard, arrays, "; ".join(sound.remarks))


def _make_viewed_clip(decoded: DecodedClip) -> ViewedClip:
    """Return a clip, with a remark on damaged or repeated frames."""
    n_frames = len(decoded.mask)
    n_real = int(decoded.mask.sum())
    remarks = decoded.remarks
    is_still = decoded.path.suffix.lower() in STILL_SUFFIXES
    if decoded.total < n_frames == n_real and not is_still:
        remarks.append(repetition_remark(decoded.total, n_frames))
    # Damage elsewhere in the film does not count.
    is_clean = not (decoded.substituted.any() or decoded.is_incomplete)
    arrays = {
        "time_s": decoded.time_s,
        "asked_s": decoded.asked_s,
        MASK: decoded.mask,
        CLEAN: np.array(is_clean),
    }
    return ViewedClip(
        decoded.shared_pictures,
        decoded.rows,
        decoded.mask,
        arrays,
        decoded.total,
        "; ".join(remarks),
    )

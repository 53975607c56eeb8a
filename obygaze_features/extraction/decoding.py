"""Decode the rows of a store in advance and in order; a row that fails has its reason."""

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
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
from obygaze_features.store.layout import CLEAN, MASK
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


@dataclass
class RowDecoder:
    """Decodes rows of a store in advance; kept frames are read instead of films.

    Args:
        clips: The clip of each row.
        pool: The processes that decode.
        most_clips: The number of clips that may be decoded ahead.
        most_bytes: The largest number of bytes of these clips; a single clip may have more.
        indexes: The folder of stored indexes, for films with several clips.
        accept_damaged: Use damaged pictures and sound as the decoder returns them.
        kept: The kept frames. If it is empty, all clips are decoded.
        first_read: The facts of each video at the time when its first clip was read.
    """

    clips: Sequence[PlannedClip]
    pool: DecodePool
    most_clips: int
    most_bytes: int
    indexes: str
    accept_damaged: bool = False
    kept: KeptViews = field(default_factory=dict)
    first_read: dict[str, Source] = field(default_factory=dict)

    def rows(self, jobs: Iterable[RowJob]) -> Generator[Decoded, None, None]:
        """Yield decoded rows in the order of `jobs`; take each job shortly before its decoding."""
        films = films_of_parts(self.clips)
        # For each film with several clips, the next such film.
        videos = dict.fromkeys(clip.video for clip in self.clips)
        next_film = dict(pairwise(video for video in videos if video in films))

        def submit(job: RowJob) -> Future[Any]:
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
                jobs,
                self.most_clips,
                bytes_of=lambda job: bytes_of_job(job, self.clips[job.row]),
                most_bytes=self.most_bytes,
            )
            with closing(under_way):
                for job, result in under_way:
                    yield self._row(job, result)

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

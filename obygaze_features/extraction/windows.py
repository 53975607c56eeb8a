"""Decode the windows of films in one sweep.

A sweep decodes each picture of a film once, and all windows share the decoded pictures. The
pictures are decoded in parts that begin at key frames. A window with a damaged picture is decoded
by itself, in the same way as a clip.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from obygaze_features.manifest.windows import CutFilm, Grid
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decoded_clip import DecodedClip, PictureView
from obygaze_features.video.film import film_index
from obygaze_features.video.index import (
    FrameIndex,
    Ints,
    SampledRanks,
    find_span,
    remark_on_pictures,
    sample,
)
from obygaze_features.video.packets import ends_early
from obygaze_features.video.pool import DecodePool, in_order
from obygaze_features.video.sound import SAMPLE_BYTES, SoundView
from obygaze_features.video.worker import ClipView, DecodeJob, DecodeResult

# A part has at least this many bytes, and goes on to the next key frame unless it would then exceed
# a share (1/4) of the memory for parts. Half of this memory is for parts that are decoded ahead,
# and a window needs up to two parts at once.
PART_BYTES = 128_000_000
_SHARE_OF_A_PART = 4
MOST_BYTES = 4_000_000_000
# The number of bytes of sound that are decoded at once, unless a window has more.
SOUND_BYTES = 32_000_000
# The largest deviation of a picture from a constant rate, in intervals of pictures and in seconds.
JITTER = 0.25
JITTER_S = 0.02


class WantedWindow(NamedTuple):
    """The number of a window in its film, and its views."""

    number: int
    views: tuple[ClipView, ...]


def decode_windows(
    video: str,
    grid: Grid,
    windows: Sequence[WantedWindow],
    pool: DecodePool,
    indexes: str,
    most_bytes: int = MOST_BYTES,
    *,
    film: CutFilm | None = None,
) -> Iterator[DecodeResult]:
    """Decode windows of one film in order, each picture once; yield the result of each window.

    Args:
        video: The film.
        grid: How the film is cut.
        windows: The windows, by their numbers.
        pool: The processes that decode.
        indexes: The folder of stored indexes.
        most_bytes: The number of bytes of pictures that may wait; a single part may have more.
        film: The facts of the film when it was cut into windows. If the video has different facts
            now, all windows fail, because they would have different pictures. None: the facts are
            not compared.
    """
    sound_views = _sound_views(windows)
    job = DecodeJob(video, (), indexes=indexes, with_sound=bool(sound_views))
    indexed = pool.submit(job).result()
    error = indexed.error
    if error is None:
        try:
            index, size = film_index(Path(video), Path(indexes))
            error = _replaced_error(video, index, film)
        except BadVideo as reason:  # a folder may be unmounted in between
            error = reason
    if error is not None:
        for _ in windows:
            yield DecodeResult(job, {}, error)
        return
    sweep = _Sweep(
        grid, film or make_cut_film("", "", index), index, pool, job, most_bytes
    )
    sounds = sweep.sounds(windows, sound_views)
    results = sweep.results(windows, size)
    for wanted, sound, result in zip(windows, sounds, results, strict=True):
        if sound is not None:
            result = sweep.with_sound(result, wanted, sound)
        # The index decides where windows begin: if the film is replaced meanwhile, all windows
        # count as windows of the old film.
        yield replace(result, file_facts=indexed.file_facts)


def _sound_views(windows: Iterable[WantedWindow]) -> tuple[SoundView, ...]:
    """Return the views of sound that any window has."""
    views: dict[SoundView, None] = {}
    for window in windows:
        for view in window.views:
            if isinstance(view, SoundView):
                views[view] = None
    return tuple(views)


def _replaced_error(
    video: str, index: FrameIndex, film: CutFilm | None
) -> BadVideo | None:
    """Return an error if a video does not have the pictures and times of the film that was cut."""
    if film is None:
        return None
    now = make_cut_film(film.movie_id, film.video, index)
    picture_s = now.duration_s / now.n_frames
    begins_there = abs(now.begins_s - film.begins_s) < picture_s
    is_as_long = abs(now.duration_s - film.duration_s) < picture_s
    if now.n_frames == film.n_frames and begins_there and is_as_long:
        return None
    return BadVideo(
        f"the film changed since it was cut: expected {film.n_frames} pictures from"
        f" {film.begins_s:g} s to {film.end_s:g} s, got {now.n_frames} from {now.begins_s:g} s to"
        f" {now.end_s:g} s",
        path=video,
        reason="replaced",
    )


@dataclass(frozen=True)
class _Window:
    """A window of a film.

    Args:
        ranks: The numbers of its pictures in presentation order. There are none if the film was
            rewritten so that it begins a little later.
        samples: The sampled pictures of each view.
        needed: The ranks of the pictures that any view needs, ascending.
        span_s: The start and the end of the window, in seconds.
    """

    ranks: Ints
    samples: Mapping[PictureView, SampledRanks]
    needed: Ints
    span_s: tuple[float, float]


@dataclass(frozen=True)
class _DecodedPart:
    """Pictures that were decoded together: their ranks, and the result."""

    ranks: Ints
    result: DecodeResult

    @property
    def last(self) -> int:
        return int(self.ranks[-1])


class _Sweep:
    """One pass over the pictures of a film."""

    def __init__(
        self,
        grid: Grid,
        film: CutFilm,
        index: FrameIndex,
        pool: DecodePool,
        job: DecodeJob,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.grid = grid
        self.film = film
        self.index = index
        self.pool = pool
        self.job = job
        self.most_bytes = most_bytes
        # The decoded parts that windows still need.
        self.parts: deque[_DecodedPart] = deque()

    def results(
        self, wanted: Sequence[WantedWindow], size: tuple[int, int]
    ) -> Iterator[DecodeResult]:
        """Yield the result of each wanted window, by its number and its views."""
        windows = [self._window(number, views) for number, views in wanted]
        decoded = self._decoded_parts(windows, size)
        for window in windows:
            if not window.samples:
                # It has no picture, or only its sound is wanted.
                yield DecodeResult(self.job, {}, self._without_picture(window))
                continue
            first = int(window.needed[0])
            last = int(window.needed[-1])
            while not self.parts or self.parts[-1].last < last:
                self.parts.append(next(decoded))
            while self.parts[0].last < first:
                self.parts.popleft()
            yield self._result(window)

    def sounds(
        self, windows: Sequence[WantedWindow], views: tuple[SoundView, ...]
    ) -> Iterator[DecodeResult | None]:
        """Yield for each window the result of the piece of sound that contains its sound.

        If no view has sound, yield None for each window.
        """
        if not views:
            yield from [None] * len(windows)
            return
        bytes_of_second = sum(view.rate for view in views) * SAMPLE_BYTES
        most_bytes = min(SOUND_BYTES, self.most_bytes // _SHARE_OF_A_PART)
        spans_s = [self._span_s(window.number) for window in windows]
        pieces = cut_spans(spans_s, most_bytes / bytes_of_second)

        def submit(piece: Sequence[tuple[float, float]]) -> Future[DecodeResult]:
            start_s = min(start_s for start_s, _ in piece)
            end_s = max(end_s for _, end_s in piece)
            job = replace(self.job, views=views, start_s=start_s, end_s=end_s)
            return self.pool.submit(job)

        for piece, result in in_order(submit, pieces, 2):
            yield from [result] * len(piece)

    def with_sound(
        self, result: DecodeResult, window: WantedWindow, sound: DecodeResult
    ) -> DecodeResult:
        """Return the result of a window with its part of the sound."""
        sounds = {}
        failures = dict(result.failures)
        for view in window.views:
            if not isinstance(view, SoundView):
                if result.error is not None:
                    failures[view] = result.error
                continue
            try:
                sounds[view] = sound.sound(view).part(*self._span_s(window.number))
            except BadVideo as error:
                failures[view] = error
        return replace(result, error=None, sounds=sounds, failures=failures)

    def _span_s(self, number: int) -> tuple[float, float]:
        return self.grid.span_s(number, self.film)

    def _without_picture(self, window: _Window) -> BadVideo | None:
        """Return the error of a window without pictures, or None if it has pictures."""
        if len(window.ranks):
            return None
        start_s, end_s = window.span_s
        return BadVideo(
            f"no picture is shown from {start_s:g} s to {end_s:g} s",
            path=self.job.path,
            reason="outside",
        )

    def _decoded_parts(
        self, windows: Sequence[_Window], size: tuple[int, int]
    ) -> Iterator[_DecodedPart]:
        """Decode each picture that a window needs once, in parts of about `PART_BYTES` bytes."""
        # Views that differ only in their sampling share their pictures.
        kinds: dict[PictureView, None] = {}
        for window in windows:
            for view in window.samples:
                kinds.setdefault(_listed_view(view, 1))
        n_bytes = 0
        for kind in kinds:
            height, width = kind.resize.shape(*size) if kind.resize else size
            n_bytes += 3 * height * width
        n_bytes = max(1, n_bytes)
        needed = [window.needed for window in windows]
        ranks = np.unique(np.concatenate([np.zeros(0, np.int64), *needed]))
        keys = np.sort(self.index.ranks[self.index.keys])
        most = max(1, self.most_bytes // _SHARE_OF_A_PART // n_bytes)
        least = min(most, max(1, PART_BYTES // n_bytes))

        def submit(part: Ints) -> Future[DecodeResult]:
            views = tuple(_listed_view(kind, len(part)) for kind in kinds)
            return self.pool.submit(replace(self.job, ranks=part.tolist(), views=views))

        parts = in_order(
            submit,
            cut_at_keys(ranks, keys, least, most),
            self.pool.ahead,
            bytes_of=lambda part: len(part) * n_bytes,
            most_bytes=self.most_bytes / 2,
        )
        for part, result in parts:
            yield _DecodedPart(part, result)

    def _window(self, number: int, views: tuple[ClipView, ...]) -> _Window:
        ranks = ranks_of_window(self.grid, self.film, self.index, number)
        samples = {}
        if len(ranks):
            span = int(ranks[0]), int(ranks[-1]) + 1
            samples = {
                view: sample(self.index, span, view.count, view.sampling, ranks)
                for view in views
                if isinstance(view, PictureView)
            }
        needed = [np.zeros(0, np.int64)]
        needed += [sampled.index for sampled in samples.values()]
        span_s = self._span_s(number)
        return _Window(ranks, samples, np.unique(np.concatenate(needed)), span_s)

    def _result(self, window: _Window) -> DecodeResult:
        """Return the result of a window from the decoded parts.

        If a picture of the window is missing or damaged, decode the window by itself.
        """
        clips = dict[PictureView, DecodedClip]()
        for view in window.samples:
            clip = self._clip(window, view)
            if clip is None:
                return self._decoded_alone(window)
            clips[view] = clip
        return DecodeResult(self.job, clips)

    def _decoded_alone(self, window: _Window) -> DecodeResult:
        start_s, end_s = window.span_s
        views = tuple(window.samples)
        job = replace(self.job, views=views, start_s=start_s, end_s=end_s)
        if self.grid.window:
            job = replace(job, ranks=window.ranks.tolist())
        alone = self.pool.submit(job).result()
        clips = {
            view: replace(clip, span_s=window.span_s)
            for view, clip in alone.clips.items()
        }
        return replace(alone, clips=clips)

    def _clip(self, window: _Window, view: PictureView) -> DecodedClip | None:
        """Return a window in a view, or None if a picture is missing or damaged."""
        sampled = window.samples[view]
        wanted, inverse = np.unique(sampled.index, return_inverse=True)
        pieces = []
        for part in self.parts:
            inside = wanted[np.isin(wanted, part.ranks)]
            if not len(inside):
                continue
            rows = np.searchsorted(part.ranks, inside)
            clip = part.result.clips.get(_listed_view(view, len(part.ranks)))
            if clip is None or clip.is_incomplete or clip.substituted[rows].any():
                return None
            if clip.damaged and ends_early(self.index, window.ranks, window.span_s[1]):
                return None
            pieces.append((clip.shared_pictures, rows))
        if len(pieces) == 1:
            pictures, rows = pieces[0]
        else:  # a window across parts needs memory of its own
            pictures = np.empty((len(wanted), *pieces[0][0].shape[1:]), np.uint8)
            start = 0
            for of_part, part_rows in pieces:
                target = pictures[start : start + len(part_rows)]
                # Other modes of `take` copy them twice.
                of_part.take(part_rows, 0, target, "clip")
                start += len(part_rows)
            rows = np.arange(len(pictures))
        times_s = self.index.times_s
        mask = sampled.mask
        return DecodedClip(
            path=Path(self.job.path),
            shared_pictures=pictures,
            rows=rows[inverse],
            index=np.where(mask, sampled.index, -1),
            time_s=np.where(mask, times_s[sampled.index], np.nan),
            asked_s=np.where(mask, times_s[sampled.index], np.nan),
            substituted=np.zeros(len(mask), dtype=np.bool_),
            mask=mask,
            total=len(window.ranks),
            damaged=False,
            is_incomplete=False,
            span_s=window.span_s,
            remark=remark_on_pictures(self.index, *window.span_s),
        )


def cut_spans(
    spans_s: Sequence[tuple[float, float]], most_s: float
) -> list[list[tuple[float, float]]]:
    """Group consecutive spans into pieces of at most `most_s` seconds.

    A span that is longer than `most_s` is a piece of its own.
    """
    pieces: list[list[tuple[float, float]]] = []
    for span_s in spans_s:
        if not pieces or span_s[1] - pieces[-1][0][0] > most_s:
            pieces.append([])
        pieces[-1].append(span_s)
    return pieces


def cut_at_keys(ranks: Ints, keys: Ints, least: int, most: int) -> list[Ints]:
    """Cut sorted ranks into parts of at least `least` ranks that begin at key frames.

    If key frames are rare, such a part may have more than `most` ranks. It is then cut into equal
    parts, which do not begin at key frames.
    """
    cuts = [0]
    for start in np.unique(np.searchsorted(ranks, keys)).tolist():
        if start - cuts[-1] >= least:
            cuts.append(start)
    pieces: list[Ints] = []
    for part in np.split(ranks, cuts[1:]):
        if len(part):
            n_pieces = -(-len(part) // most)
            pieces += np.array_split(part, n_pieces)
    return pieces


def _listed_view(view: PictureView, count: int) -> PictureView:
    """Return a view that takes all `count` listed pictures, and resizes them as `view` does."""
    return replace(view, count=count, sampling="even")


def ranks_of_window(grid: Grid, film: CutFilm, index: FrameIndex, window: int) -> Ints:
    """Return the ranks of the pictures of a window: their numbers in presentation order.

    Return no ranks if the film has no pictures in the window. A window in seconds has the same
    pictures as a clip with these times.
    """
    if grid.seconds:
        span_s = grid.span_s(window, film)
        return np.arange(*find_span(index.times_s, *span_s, index.last_s))
    first = window * grid.stride
    return np.arange(first, first + grid.window)


def make_cut_film(movie_id: str, video: str, index: FrameIndex) -> CutFilm:
    """Return the row of a film in the table of films; the rate is 0 if it is not constant."""
    # Pictures in a damaged beginning may have times before the beginning of the file.
    begins_s = max(float(index.times_s[0]), 0.0)
    times_s = index.times_s - index.times_s[0]
    length_s = float(times_s[-1])
    mean_rate = (index.frames - 1) / length_s if length_s > 0 else index.rate
    # The rate in the header is exact if it fits; the mean rate is rounded as the last time is.
    for rate in (index.rate, mean_rate):
        furthest = np.abs(times_s * rate - np.arange(index.frames)).max()
        if furthest < min(JITTER, JITTER_S * rate):
            duration_s = index.frames / rate
            return CutFilm(movie_id, video, index.frames, rate, duration_s, begins_s)
    return CutFilm(movie_id, video, index.frames, 0.0, index.duration_s, begins_s)

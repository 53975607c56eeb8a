"""Decode exactly the pictures of a clip that models see, resize them, and mark damage."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from obygaze_features.core.errors import FixUsage
from obygaze_features.video.container import (
    PICTURES_CUT_OFF,
    BadVideo,
    OnProgress,
    no_progress,
)
from obygaze_features.video.decoded_clip import (
    Allocate,
    Canvas,
    DecodedClip,
    PictureView,
    new_arrays,
)
from obygaze_features.video.film import distrust, exact_index, keep_film_open
from obygaze_features.video.index import (
    CLOCK_SET_BACK,
    FrameIndex,
    Ints,
    PacketRun,
    find_span,
    overshoot,
    remark_on_pictures,
)
from obygaze_features.video.source import DecodedRun, FilmChanged, VideoSource

# The start and the end of a part of a video, in seconds.
Part: TypeAlias = tuple[float | None, float | None]
Decoded = TypeVar("Decoded")


class Doubtful(Exception):
    """Raised if parts of a film must be decoded one by one, because something is doubtful."""


def decode_clip(
    path: Path | str,
    view: PictureView,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    ranks: Sequence[int] | None = None,
    accept_damaged: bool = False,
    indexes: Path | str | None = None,
) -> DecodedClip:
    """Decode the pictures of one view of a video, or of a part of it.

    Args:
        path: the video file.
        view: number of pictures, sampling rule, and size.
        start_s: start of the part, in seconds.
        end_s: end of the part; a picture shown at this time is not in it.
        ranks: frame numbers of the pictures to decode, instead of `start_s` and `end_s`.
        accept_damaged: return damaged pictures and mark them, instead of raising an error.
        indexes: folder of stored indexes, for films with many clips. Without it, each process
            reads a large film once, and each call reads a small film again.
    """
    clips = decode_views(
        path,
        [view],
        start_s=start_s,
        end_s=end_s,
        ranks=ranks,
        indexes=indexes,
    )
    (clip,) = clips.values()
    return clip.check(accept_damaged)


def decode_views(
    path: Path | str,
    views: Iterable[PictureView],
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    ranks: Sequence[int] | None = None,
    allocate: Allocate = new_arrays,
    indexes: Path | str | None = None,
    progress: OnProgress = no_progress,
) -> dict[PictureView, DecodedClip]:
    """Decode several views of a video, or of a part of it, in one pass over its pictures.

    Damage is marked but raises no error: call `check` on each clip.

    Args:
        path: the video file.
        views: the views, one for each model.
        start_s: start of the part, in seconds.
        end_s: end of the part; a picture shown at this time is not in it.
        ranks: frame numbers of the pictures to decode. Then `end_s` is not used, and `start_s` only
            tells whether pictures are missing before the first one.
        allocate: returns an array for each shape that it gets. Views with the same resize share an
            array.
        indexes: folder of stored indexes, for films with many clips. Without it, each process
            reads a large film once, and each call reads a small film again.
        progress: called regularly while the index is made.
    """
    wanted = tuple(dict.fromkeys(views))
    if not wanted:
        raise FixUsage("views must contain at least one view")

    def decode(source: VideoSource) -> dict[PictureView, DecodedClip]:
        spans_s = [(start_s, end_s)]
        (clips,) = _ClipDecoder(source, wanted, spans_s, picked, allocate).clips()
        if isinstance(clips, BadVideo):
            raise clips
        return clips

    picked = None if ranks is None else np.array(ranks, dtype=np.int64)
    if picked is not None and (not len(picked) or picked.min() < 0):
        message = "ranks must be frame numbers, at least 0"
        raise FixUsage(
            f"{message}, got {'none' if not len(picked) else int(picked.min())}"
        )
    return _with_source(decode, path, indexes, progress)


def decode_parts(
    path: Path | str,
    views: Sequence[PictureView],
    parts_s: Sequence[Part],
    *,
    allocate: Allocate = new_arrays,
    indexes: Path | str | None = None,
    progress: OnProgress = no_progress,
) -> list[dict[PictureView, DecodedClip] | BadVideo]:
    """Decode several parts of a video in one pass: the pictures of each part, or its error.

    The pictures are those that `decode_views` returns for each part by itself.

    Raises:
        Doubtful: if anything in the film is doubtful, so that each part must be decoded by itself.
    """

    def decode(
        source: VideoSource,
    ) -> list[dict[PictureView, DecodedClip] | BadVideo]:
        return _ClipDecoder(source, views, parts_s, None, allocate, True).clips()

    return _with_source(decode, path, indexes, progress)


def _with_source(
    decode: Callable[[VideoSource], Decoded],
    path: Path | str,
    indexes: Path | str | None,
    progress: OnProgress,
) -> Decoded:
    """Decode from an open film; if its packets differ from its index, try without the index."""
    folder = None if indexes is None else Path(indexes)
    for index_folder in (folder, folder, None):
        try:
            with keep_film_open(Path(path), index_folder, progress) as source:
                return decode(source)
        except FilmChanged as error:
            distrust(error.film)
            changed = error
    raise changed


@dataclass
class _ClipDecoder:
    """Decodes the views of parts of a video: the pictures between two times, or of `ranks`.

    With `is_light`, packets that no wanted picture needs are not decoded. If a result is doubtful,
    `is_light` is set to False, and these packets are decoded. With `is_strict`, a doubtful result
    is an error instead: what is doubtful in one part must not change another one.
    """

    source: VideoSource
    views: Sequence[PictureView]
    parts_s: Sequence[Part]
    ranks: Ints | None
    allocate: Allocate
    is_strict: bool = False
    is_light: bool = False

    def clips(self) -> list[dict[PictureView, DecodedClip] | BadVideo]:
        """Return the clip of each view for each part, or its error, decoded from key frames.

        Each picture is identified by the position of its packet in the file. All clips of a film
        use the same index. It sorts the pictures by the times of their packets if these times are
        reliable, or else by the order in which the decoder outputs the pictures.
        """
        source = self.source
        index = source.film.index
        self.is_light = index.timed and not source.film.damaged
        if self.is_strict and not (index.is_certain and self.is_light):
            raise Doubtful
        if self.is_strict and index.has_open_groups:
            # A part by itself is often decoded a second time, with all its packets, because the
            # decoder reports that pictures before its key frame are missing.
            self.is_light = False
        index = index if index.is_certain else exact_index(source)
        found = [self._span(index, *part_s) for part_s in self.parts_s]
        spans = [span for span in found if not isinstance(span, BadVideo)]
        if not spans:
            return [error for error in found if isinstance(error, BadVideo)]
        canvas = Canvas(source, index, spans, self.views, self.allocate, self.ranks)
        self._decode(canvas)
        canvas.blank_missing()
        clips: list[dict[PictureView, DecodedClip] | BadVideo] = []
        for span, part_s in zip(found, self.parts_s, strict=True):
            if isinstance(span, BadVideo):
                clips.append(span)
            else:
                clips.append(self._finish(canvas, spans.index(span), part_s))
        return clips

    def _decode(self, canvas: Canvas) -> None:
        """Decode the runs of packets that hold the wanted pictures."""
        index = canvas.index
        if self.source.film.decoded is not None:
            canvas.damage |= set(self.source.film.decoded.damage.tolist())
        is_in_order = True
        positions = index.order[list(canvas.wanted)].tolist()
        for run in index.runs(positions, self.source.late):
            outcome = self._decode_run(canvas, run)
            first = min(canvas.index.decoding_starts(run.wanted))
            canvas.damage |= {at for at in outcome.damage if at >= first}
            # A picture that is stored after the last one that is wanted may be shown before it.
            out = [at for at in outcome.out if at >= first]
            is_in_order &= self._is_in_order(canvas, out)
        index = canvas.index
        missing = index.order[canvas.missing()].tolist()
        if self.is_strict and (missing or canvas.damage or not is_in_order):
            raise Doubtful
        if not is_in_order or not index.find_affected(canvas.damage, missing).all():
            message = "the decoder returns its pictures in a different order"
            raise BadVideo(message, path=self.source.path, reason="order")

    def _decode_run(self, canvas: Canvas, run: PacketRun) -> DecodedRun:
        """Decode a run of packets from a key frame, and from an earlier one if in doubt.

        A decoder may report an error only because it did not get the packets before the key frame.
        Therefore a run with an error is decoded again from an earlier key frame: an error that lies
        in the file is reported again. If the container marks a packet as a key frame and the
        decoder does not, the packet loses its mark in the index.
        """
        film = self.source.film
        to_decode = canvas.index.without_unused(run) if self.is_light else run
        sink = self._offer_with_progress(canvas) if self.is_strict else canvas.offer
        outcome = self.source.run_with_early(to_decode, sink)
        is_whole = set(outcome.out) >= canvas.index.expected_pictures(to_decode)
        starts = canvas.index.decoding_starts(run.wanted)
        is_doubtful = outcome.has_reports or not is_whole
        if to_decode.left_out and not canvas.index.agrees_with(outcome.out):
            is_doubtful = True
        if not is_doubtful and not outcome.denied_keys(starts):
            return outcome
        if to_decode.left_out and not self.is_strict:
            # The error may come from a packet that was not decoded.
            self.is_light = False
            canvas.forget(run.wanted)
            return self._decode_run(canvas, run)
        back = 2
        while True:
            start = canvas.index.decoding_start(min(starts), back)
            canvas.forget(run.wanted)
            outcome = self.source.run(replace(run, start=start), sink)
            keys = canvas.index.keys
            keys_of_run = keys[(keys >= start) & (keys <= run.stop)]
            denied = outcome.denied_keys(keys_of_run)
            is_certain = start == 0 or start in outcome.keys or not outcome.has_reports
            if self.is_strict and (denied or not is_certain):
                raise Doubtful
            canvas.index = canvas.index.without_keys(denied)
            film.index = film.index.without_keys(denied)
            if is_certain and starts.isdisjoint(denied):
                return outcome
            starts = canvas.index.decoding_starts(run.wanted)
            back *= 2

    def _offer_with_progress(self, canvas: Canvas) -> Callable[[int, Any], None]:
        """Return a sink that reports progress with the last picture of each part.

        The time limit of a clip then holds for each part, and not for the sweep.
        """
        ends = canvas.last_of_spans()

        def offer(position: int, frame: Any) -> None:
            canvas.offer(position, frame)
            if int(canvas.index.ranks[position]) in ends:
                self.source.progress()

        return offer

    def _is_in_order(self, canvas: Canvas, out: Sequence[int]) -> bool:
        """Return whether the decoder output the pictures in the order of their times.

        If they are out of order, they are compared again without the pictures that damage may
        affect, since damage can move pictures.
        """
        index = canvas.index
        if index.agrees_with(out):
            return True
        intact = np.array(out)[~index.find_affected(canvas.damage, out)]
        return index.agrees_with(intact.tolist())

    def _span(
        self, index: FrameIndex, start_s: float | None, end_s: float | None
    ) -> tuple[int, int] | BadVideo:
        """Return the span of the pictures of a part, or the error of the part."""
        is_part = end_s is not None or (start_s or 0) > 0
        if self.ranks is None and is_part and not index.has_clock:
            return BadVideo(CLOCK_SET_BACK, path=self.source.path, reason="clock")
        message = f"the part begins at {start_s or 0:g} s, after the last picture"
        if self.ranks is None:
            span = find_span(index.times_s, start_s, end_s, index.last_s)
            if end_s is not None and span[1] == 0:
                message = f"the part ends at {end_s:g} s, before the first picture"
        else:
            first = int(self.ranks.min())
            last = int(self.ranks.max())
            span = (first, last + 1) if last < index.frames else (0, 0)
            message = f"picture {last} is missing; the film has {index.frames}"
        if not index.frames:
            return self.source.no_picture_error()
        film = self.source.film
        film_end_s = film.end_s(index)
        if span[0] >= span[1]:
            cut_s = film.cut_s(index)
            begins_s = start_s or 0.0
            is_cut_off = cut_s <= begins_s < film_end_s
            if self.ranks is not None:
                is_cut_off = cut_s < math.inf
            reason = "truncated" if is_cut_off else "outside"
            message = PICTURES_CUT_OFF if is_cut_off else message
            return BadVideo(message, path=self.source.path, reason=reason)
        too_long = overshoot(film_end_s, start_s, end_s)
        if self.ranks is None and too_long is not None:
            return BadVideo(too_long, path=self.source.path, reason="too-long")
        return span

    def _finish(
        self, canvas: Canvas, part: int, part_s: Part
    ) -> dict[PictureView, DecodedClip]:
        index = canvas.index
        begins_s, end_s = part_s
        start_s = begins_s
        span = canvas.spans[part]
        first, stop = span
        if self.ranks is not None:
            if start_s is None and first > 0:
                start_s = float(index.times_s[first - 1])
            end_s = float(index.times_s[stop]) if stop < index.frames else None
        film = self.source.film
        is_incomplete = film.is_incomplete(index, span, start_s, end_s)
        remark = remark_on_pictures(index, begins_s, end_s)
        return {
            view: replace(canvas.clip(number, part, is_incomplete), remark=remark)
            for number, view in enumerate(self.views)
        }

"""Decode exactly the pictures of a clip that models see, resize them, and mark damage."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
from obygaze_features.video.film import distrust, exact_index, open_film
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
    picked = None if ranks is None else np.array(ranks, dtype=np.int64)
    if picked is not None and (not len(picked) or picked.min() < 0):
        message = "ranks must be frame numbers, at least 0"
        raise FixUsage(
            f"{message}, got {'none' if not len(picked) else int(picked.min())}"
        )
    folder = None if indexes is None else Path(indexes)
    for index_folder in (folder, folder, None):
        try:
            with open_film(Path(path), index_folder, progress) as source:
                clip_decoder = _ClipDecoder(
                    source, wanted, start_s, end_s, picked, allocate
                )
                return clip_decoder.clips()
        except FilmChanged as error:
            distrust(error.film)
            changed = error
    raise changed


@dataclass
class _ClipDecoder:
    """Decodes the views of a part of a video: the pictures between two times, or of `ranks`.

    With `is_light`, packets that no wanted picture needs are not decoded. If a result is doubtful,
    `is_light` is set to False, and these packets are decoded.
    """

    source: VideoSource
    views: Sequence[PictureView]
    start_s: float | None
    end_s: float | None
    ranks: Ints | None
    allocate: Allocate
    is_light: bool = False

    def clips(self) -> dict[PictureView, DecodedClip]:
        """Return the clip of each view, decoded from key frames.

        Each picture is identified by the position of its packet in the file. All clips of a film
        use the same index. It sorts the pictures by the times of their packets if these times are
        reliable, or else by the order in which the decoder outputs the pictures.
        """
        source = self.source
        index = source.film.index
        self.is_light = index.timed and not source.film.damaged
        canvas = self._canvas(index if index.is_certain else exact_index(source))
        self._decode(canvas)
        return self._finish(canvas)

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
        outcome = self.source.run_with_early(to_decode, canvas.offer)
        is_whole = set(outcome.out) >= canvas.index.expected_pictures(to_decode)
        starts = canvas.index.decoding_starts(run.wanted)
        is_doubtful = outcome.has_reports or not is_whole
        if to_decode.left_out and not canvas.index.agrees_with(outcome.out):
            is_doubtful = True
        if not is_doubtful and not outcome.denied_keys(starts):
            return outcome
        if to_decode.left_out:
            # The error may come from a packet that was not decoded.
            self.is_light = False
            canvas.forget(run.wanted)
            return self._decode_run(canvas, run)
        back = 2
        while True:
            start = canvas.index.decoding_start(min(starts), back)
            canvas.forget(run.wanted)
            outcome = self.source.run(replace(run, start=start), canvas.offer)
            keys = canvas.index.keys
            keys_of_run = keys[(keys >= start) & (keys <= run.stop)]
            denied = outcome.denied_keys(keys_of_run)
            canvas.index = canvas.index.without_keys(denied)
            film.index = film.index.without_keys(denied)
            is_certain = start == 0 or start in outcome.keys or not outcome.has_reports
            if is_certain and starts.isdisjoint(denied):
                return outcome
            starts = canvas.index.decoding_starts(run.wanted)
            back *= 2

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

    def _canvas(self, index: FrameIndex) -> Canvas:
        is_part = self.end_s is not None or (self.start_s or 0) > 0
        if self.ranks is None and is_part and not index.has_clock:
            raise BadVideo(CLOCK_SET_BACK, path=self.source.path, reason="clock")
        message = f"the part begins at {self.start_s or 0:g} s, after the last picture"
        if self.ranks is None:
            span = find_span(index.times_s, self.start_s, self.end_s, index.last_s)
            if self.end_s is not None and span[1] == 0:
                message = f"the part ends at {self.end_s:g} s, before the first picture"
        else:
            first = int(self.ranks.min())
            last = int(self.ranks.max())
            span = (first, last + 1) if last < index.frames else (0, 0)
            message = f"picture {last} is missing; the film has {index.frames}"
        if not index.frames:
            raise self.source.no_picture_error()
        film = self.source.film
        film_end_s = film.end_s(index)
        if span[0] >= span[1]:
            cut_s = film.cut_s(index)
            begins_s = self.start_s or 0.0
            is_cut_off = cut_s <= begins_s < film_end_s
            if self.ranks is not None:
                is_cut_off = cut_s < math.inf
            reason = "truncated" if is_cut_off else "outside"
            message = PICTURES_CUT_OFF if is_cut_off else message
            raise BadVideo(message, path=self.source.path, reason=reason)
        too_long = overshoot(film_end_s, self.start_s, self.end_s)
        if self.ranks is None and too_long is not None:
            raise BadVideo(too_long, path=self.source.path, reason="too-long")
        return Canvas(self.source, index, span, self.views, self.allocate, self.ranks)

    def _finish(self, canvas: Canvas) -> dict[PictureView, DecodedClip]:
        index = canvas.index
        start_s = self.start_s
        end_s = self.end_s
        first, stop = canvas.span
        if self.ranks is not None:
            if start_s is None and first > 0:
                start_s = float(index.times_s[first - 1])
            end_s = float(index.times_s[stop]) if stop < index.frames else None
        film = self.source.film
        is_incomplete = film.is_incomplete(index, canvas.span, start_s, end_s)
        canvas.blank_missing()
        remark = remark_on_pictures(index, self.start_s, end_s)
        return {
            view: replace(canvas.clip(number, is_incomplete), remark=remark)
            for number, view in enumerate(self.views)
        }

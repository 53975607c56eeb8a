"""Decode the pictures of a clip that a model sees: exact, scaled, with damage marked."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import FixUsage
from obygaze_features.video.container import BadVideo, Progress, no_progress
from obygaze_features.video.decoded_clip import (
    Allocate,
    Canvas,
    DecodedClip,
    View,
    new_arrays,
)
from obygaze_features.video.film import decoded_order, distrust, exact_index, open_film
from obygaze_features.video.index import FrameIndex, Ints, overshoot, span_of
from obygaze_features.video.packets import DecodedOrder
from obygaze_features.video.source import CHECKED, FilmChanged, VideoSource


def decode_clip(
    path: Path | str,
    view: View,
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
        view: how many pictures, by which rule, how large.
        start_s: where the part begins, in seconds.
        end_s: where the part ends; a picture shown at this time is not in it.
        ranks: the numbers of the pictures of the part, in place of its times.
        accept_damaged: return what the decoder gives of damaged pictures, which are marked.
        indexes: as for `decode_views`.
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
    views: Iterable[View],
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    ranks: Sequence[int] | None = None,
    allocate: Allocate = new_arrays,
    indexes: Path | str | None = None,
    progress: Progress = no_progress,
) -> dict[View, DecodedClip]:
    """Decode several views of a video, or of a part of it, in one pass over its pictures.

    Damage is marked but raises no error: call `check` on each clip.

    Args:
        path: the video file.
        views: what each model sees.
        start_s: where the part begins, in seconds.
        end_s: where the part ends; a picture shown at this time is not in it.
        ranks: the numbers of the pictures of the part, in place of its times.
        allocate: returns arrays of the shapes it is given, one for all views that resize alike.
        indexes: a folder that keeps the index of the film, for files with many clips. Without it,
            every call reads the film.
        progress: called again and again while that index is made.
    """
    wanted = tuple(dict.fromkeys(views))
    if not wanted:
        raise FixUsage("views must contain at least one view")
    picked = None if ranks is None else np.array(ranks, dtype=np.int64)
    if picked is not None and (not len(picked) or picked.min() < 0):
        message = "ranks must be numbers of pictures from 0"
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


class _IndexIsWrong(Exception):
    """Pictures that should be there did not come out, or came in another order."""


@dataclass
class _ClipDecoder:
    """Decodes the views of a part of a video by an index, or by a corrected one if it is wrong.

    The part is the pictures between two times, or those of `ranks`.
    """

    source: VideoSource
    views: Sequence[View]
    start_s: float | None
    end_s: float | None
    ranks: Ints | None
    allocate: Allocate

    def clips(self) -> dict[View, DecodedClip]:
        """Decode by times where they are reliable, else by counting, which is slower."""
        index = self.source.film.index
        if not index.timed:
            return self._by_counting(index)
        with suppress(_IndexIsWrong):
            return self._by_times(index)
        exact = exact_index(self.source)
        if exact.timed:
            with suppress(_IndexIsWrong):
                return self._by_times(exact)
        return self._by_counting(exact.without_times())

    def _by_times(self, index: FrameIndex) -> dict[View, DecodedClip]:
        """Decode from key frames; the position of its packet identifies each picture."""
        canvas = self._canvas(index)
        source = self.source
        is_drawn = set[int]()
        if source.first is not None:
            canvas.offer_at(*source.first)
            is_drawn.add(source.first[0])
        for run in index.runs(index.order[canvas.missing()].tolist()):
            out: list[int] = []

            def take(position: int, frame: Any, out: list[int] = out) -> None:
                out.append(position)
                if position not in is_drawn:
                    canvas.offer_at(position, frame)

            if not source.run(run, take, skip=True, record=False):
                # An error counts only if it occurs when no picture is left out.
                source.run(run, canvas.offer_at)
            elif not index.agrees_with(out):
                raise _IndexIsWrong
        missing = canvas.missing()
        if missing:
            for run in index.runs(index.order[missing].tolist(), back=2):
                source.run(run, canvas.offer_at)
            for position in index.order[canvas.missing()].tolist():
                if not index.is_affected(source.damage, position):
                    raise _IndexIsWrong
        return self._finish(canvas)

    def _by_counting(self, index: FrameIndex) -> dict[View, DecodedClip]:
        """Decode everything in order, and a second time if another number of pictures comes out."""
        decoded = decoded_order(self.source)
        if decoded is not None:
            clips = self._by_decoded_order(index, decoded)
            if clips is not None:
                return clips
        canvas = self._canvas(index)
        source = self.source
        out = list[int]()
        last = max(canvas.wanted)
        ends_early = canvas.span[1] < index.frames

        def take(position: int, frame: Any) -> bool:
            canvas.offer(len(out), frame)
            out.append(position)
            return ends_early and len(out) > last

        fine = source.run(source.whole, take)
        if fine and (len(out) == index.frames or (ends_early and len(out) > last)):
            not_decoded = index.order[len(out) :]
            canvas.index = index.with_order(
                np.array([*out, *not_decoded], dtype=np.int64)
            )
            return self._finish(canvas)
        if ends_early:
            out = source.positions()
        # A second time, now that it is known which pictures come out.
        exact = index.corrected(out, source.damage)
        again = self._canvas(exact)
        ranks = iter(np.flatnonzero(np.isin(exact.order, out)).tolist())
        source.run(source.whole, lambda _, frame: again.offer(next(ranks, -1), frame))
        return self._finish(again)

    def _by_decoded_order(
        self, index: FrameIndex, decoded: DecodedOrder
    ) -> dict[View, DecodedClip] | None:
        """Decode from key frames, with the order that one decoding of the whole film has shown.

        The result is that of counting. None, if the pictures of the clip cannot be told by their
        packets, do not come out, or are affected by damage.
        """
        out = decoded.positions.tolist()
        damage = decoded.damage
        canvas = self._canvas(index)
        last = max(canvas.wanted)
        # Counting stops after the clip, so that it sees no damage that comes later.
        stop = max(out[: last + 1], default=0) + CHECKED
        if len(set(out)) < len(out):
            return None
        ends_early = canvas.span[1] < index.frames
        comes_out = len(out) > last if ends_early else len(out) == index.frames
        if comes_out and not any(at <= stop for at, _ in damage):
            order = np.array([*out, *index.order[len(out) :]], dtype=np.int64)
            canvas.index = index.with_order(order)
        else:
            canvas = self._canvas(index.corrected(out, damage | self.source.damage))
        key = np.zeros_like(index.key)
        key[decoded.positions] = decoded.key
        canvas.index = replace(canvas.index, key=index.key & key)
        wanted = canvas.index.order[canvas.missing()].tolist()
        if any(canvas.index.is_affected(damage, position) for position in wanted):
            return None
        if not self._decode_runs(canvas, wanted):
            return None
        self.source.damage |= {(at, spreads) for at, spreads in damage if at <= stop}
        return self._finish(canvas)

    def _decode_runs(self, canvas: Canvas, positions: list[int]) -> bool:
        """Decode the pictures at some positions; return whether all come out, without damage."""
        for run in canvas.index.runs(positions):
            if not self.source.run(run, canvas.offer_at, record=False):
                return False
        return not canvas.missing()

    def _canvas(self, index: FrameIndex) -> Canvas:
        is_part = self.end_s is not None or (self.start_s or 0) > 0
        if self.ranks is None and is_part and not index.has_clock:
            raise BadVideo(
                "the clock of the file is set back in it, so that the times of a part mean"
                " nothing",
                path=self.source.path,
                stage="decode",
                reason="clock",
            )
        message = f"the part begins at {self.start_s or 0:g} s, after the last picture"
        if self.ranks is None:
            span = span_of(index.times_s, self.start_s, self.end_s, index.last_s)
            if self.end_s is not None and (self.start_s is None or self.end_s <= 0):
                message = f"the part ends at {self.end_s:g} s, before the video begins"
        else:
            first = int(self.ranks.min())
            last = int(self.ranks.max())
            span = (first, last + 1) if last < index.frames else (0, 0)
            message = f"picture {last} is missing; the film has {index.frames}"
        if not index.frames:
            raise self.source.without_pictures()
        if span[0] >= span[1]:
            raise BadVideo(
                message, path=self.source.path, stage="decode", reason="outside"
            )
        film_end_s = self.source.film.end_s(index)
        too_long = overshoot(film_end_s, self.start_s, self.end_s)
        if self.ranks is None and too_long is not None:
            raise BadVideo(
                too_long, path=self.source.path, stage="decode", reason="too-long"
            )
        return Canvas(self.source, index, span, self.views, self.allocate, self.ranks)

    def _finish(self, canvas: Canvas) -> dict[View, DecodedClip]:
        index = canvas.index
        end_s = self.end_s
        stop = canvas.span[1]
        if self.ranks is not None:
            end_s = float(index.times_s[stop]) if stop < index.frames else None
        missing = self.source.film.missing_share(index, canvas.span, end_s)
        canvas.blank_missing()
        return {
            view: canvas.clip(number, missing) for number, view in enumerate(self.views)
        }

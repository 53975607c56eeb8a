"""The pictures a model would see of a clip: exact, scaled, and honest about damage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import FixUsage
from obygaze_features.video.errors import BadVideo
from obygaze_features.video.index import Bools, Floats, FrameIndex, Ints
from obygaze_features.video.picture import Filter, Fit, Geometry, Painter, Pixels
from obygaze_features.video.probe import VideoInfo, examine
from obygaze_features.video.reading import Damage, Reader, census, recount, whole
from obygaze_features.video.sampling import Choice, Sampling, choose, part_of
from obygaze_features.video.source import open_source

MAX_SUBSTITUTED = 1 / 8
# A clip larger than this is refused before its memory is taken.
MAX_BYTES = 8 * 1024**3

Allocate = Callable[[Sequence[tuple[int, ...]]], Sequence[Pixels]]


@dataclass(frozen=True)
class View:
    """What one model wants of a clip: how many pictures, by which rule, how large.

    `size` is the shorter edge with the proportions kept ("shortest"), or both edges ("squash");
    None is the full size.
    """

    count: int = 32
    sampling: Sampling = "even"
    size: int | None = None
    fit: Fit = "shortest"
    filter: Filter = "bicubic"


@dataclass(frozen=True, eq=False)
class Clip:
    """The pictures of a view and what is known of each.

    `index` is the number in the whole file of the picture that is there, `time_s` when it is
    shown, `asked_s` when the one asked for is shown (key frames and substitutes differ).
    `substituted` marks pictures that damage has touched or replaced by a neighbour, `mask` the
    real ones: where a rule found too few, the rest is black with index -1.
    """

    path: Path
    frames: Pixels
    index: Ints
    time_s: Floats
    asked_s: Floats
    substituted: Bools
    mask: Bools
    total: int
    damaged: bool
    missing: float

    def as_json(self) -> dict[str, Any]:
        """The facts for programs, without the pictures."""
        return {
            "shape": list(self.frames.shape),
            "index": self.index.tolist(),
            "time_s": self.time_s.tolist(),
            "substituted": int(self.substituted.sum()),
            "total": self.total,
            "damaged": self.damaged,
        }

    def as_line(self) -> str:
        """The facts in one line."""
        height, width = self.frames.shape[1:3]
        line = f"{int(self.mask.sum())} of {self.total} pictures, {width} x {height}"
        return f"{line}, {int(self.substituted.sum())} damaged" if self.damaged else line

    def check(self, max_substituted: float = MAX_SUBSTITUTED) -> Clip:
        """This clip, or an error where damage took more of it than the share allowed."""
        if self.missing > max_substituted:
            what = f"{self.missing:.0%} of the pictures are missing"
            raise BadVideo(what, path=self.path, stage="decode", reason="truncated")
        bad, real = int(self.substituted.sum()), int(self.mask.sum())
        if bad > max_substituted * real:
            what = f"{bad} of {real} pictures are damaged"
            raise BadVideo(what, path=self.path, stage="decode", reason="damaged")
        return self


def decode_clip(
    path: Path | str,
    view: View,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    max_substituted: float = MAX_SUBSTITUTED,
) -> Clip:
    """The pictures of a video, or of the part shown from start_s to before end_s."""
    (clip,) = decode_views(path, [view], start_s=start_s, end_s=end_s).values()
    return clip.check(max_substituted)


def decode_views(
    path: Path | str,
    views: Iterable[View],
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    allocate: Allocate | None = None,
) -> dict[View, Clip]:
    """Several views of the same part for the price of decoding their union once.

    Nothing is judged here: call `check` on each clip. `allocate` may put the pictures where the
    caller wants them (shared memory), all views at once.
    """
    wanted = tuple(dict.fromkeys(views))
    if not wanted:
        raise FixUsage("no view was asked for")
    with open_source(Path(path)) as source:
        reader = Reader(source)
        info = examine(reader)
        job = _Job(reader, info, wanted, (start_s, end_s), allocate or _allocate)
        return job.clips()


def _allocate(shapes: Sequence[tuple[int, ...]]) -> Sequence[Pixels]:
    return [np.zeros(shape, dtype=np.uint8) for shape in shapes]


class _IndexIsWrong(Exception):
    """Pictures that should be there did not come out, or came in another order."""


class _Job:
    """One clip on its way: from an index to pictures, and back to a better index if need be."""

    def __init__(
        self,
        reader: Reader,
        info: VideoInfo,
        views: Sequence[View],
        part_s: tuple[float | None, float | None],
        allocate: Allocate,
    ) -> None:
        self.reader, self.info, self.views = reader, info, views
        self.part_s, self.allocate = part_s, allocate

    def clips(self) -> dict[View, Clip]:
        """The quick way where times allow, and the slow one where they do not or prove wrong."""
        index = self.info.index
        if not index.timed:
            return self._by_counting(index)
        with suppress(_IndexIsWrong):
            return self._by_times(index)
        exact = census(self.reader)
        if exact.timed:
            with suppress(_IndexIsWrong):
                return self._by_times(exact)
        return self._by_counting(exact.without_times())

    def _by_times(self, index: FrameIndex) -> dict[View, Clip]:
        """From key frame to picture, each matched by the position of its packet."""
        canvas, reader = self._canvas(index), self.reader
        if reader.first is not None:
            canvas.offer_at(*reader.first)
        for run in index.runs(index.order[canvas.missing()].tolist()):
            damage, sink = reader.damage.copy(), _OrderedSink(canvas)
            if not reader.run(run, sink, skip=True):
                # An error counts only if it is there when nothing is left out.
                reader.damage = damage
                reader.run(run, canvas.offer_at)
            elif sink.in_disorder:
                raise _IndexIsWrong
        if missing := canvas.missing():
            for run in index.runs(index.order[missing].tolist(), back=2):
                reader.run(run, canvas.offer_at)
            for rank in canvas.missing():
                if not reader.damage.taints(index, int(index.order[rank])):
                    raise _IndexIsWrong
            canvas.substitute()
        return self._finish(canvas)

    def _by_counting(self, index: FrameIndex) -> dict[View, Clip]:
        """Everything in order; once, where the number of pictures is what the packets promised."""
        canvas, reader, out = self._canvas(index), self.reader, list[int]()
        last = canvas.wanted()[-1]
        in_the_middle = canvas.part[1] < index.frames

        def count(position: int, frame: Any) -> bool:
            canvas.offer(len(out), frame)
            out.append(position)
            return in_the_middle and len(out) > last

        fine = reader.run(whole(index), count)
        if fine and (len(out) == index.frames or (in_the_middle and len(out) > last)):
            rest = index.order[len(out) :]
            canvas.index = index.with_order(np.array([*out, *rest], dtype=np.int64))
            return self._finish(canvas)
        if in_the_middle:
            out.clear()
            reader.run(whole(index), lambda position, _: out.append(position))
        return self._count_again(recount(index, out, reader.damage), set(out))

    def _count_again(self, exact: FrameIndex, came_out: set[int]) -> dict[View, Clip]:
        """A second time in order, now that it is known which pictures come out and which not."""
        canvas = self._canvas(exact)
        ranks = iter([r for r, p in enumerate(exact.order.tolist()) if p in came_out])
        self.reader.run(
            whole(exact), lambda _, frame: canvas.offer(next(ranks, -1), frame, nearest=True)
        )
        canvas.substitute()
        return self._finish(canvas)

    def _canvas(self, index: FrameIndex) -> _Canvas:
        part = part_of(index.times_s, *self.part_s, index.last_s)
        if part[0] >= part[1]:
            start_s, end_s = self.part_s
            what = f"the part begins at {start_s:g} s, after the last picture"
            if end_s is not None and end_s <= 0:
                what = f"the part ends at {end_s:g} s, before the video begins"
            if not index.frames:
                what = "no picture can be decoded"
            reason = "outside" if index.frames else "no-frames"
            raise BadVideo(what, path=self.info.path, stage="decode", reason=reason)
        choices = [choose(index, part, view.count, view.sampling) for view in self.views]
        return _Canvas(index, self.info.geometry, part, self.views, choices, self._frames())

    def _frames(self) -> Sequence[Pixels]:
        geometry = self.info.geometry
        shapes = [(v.count, *geometry.target(v.size, v.fit), 3) for v in self.views]
        n_bytes = sum(math.prod(shape) for shape in shapes)
        if n_bytes > MAX_BYTES:
            what = f"its pictures would take {n_bytes / 1e9:.1f} GB of memory"
            raise BadVideo(what, path=self.info.path, stage="decode", reason="too-large")
        return self.allocate(shapes)

    def _finish(self, canvas: _Canvas) -> dict[View, Clip]:
        damage = self.reader.damage
        return {
            view: canvas.clip(
                number,
                path=self.info.path,
                damage=damage,
                damaged=bool(len(damage)) or self.info.damaged,
                missing=self.info.missing(canvas.index, canvas.part, self.part_s[1]),
            )
            for number, view in enumerate(self.views)
        }


class _OrderedSink:
    """Hands the pictures of a run on, and notices when their times are not in the order of them."""

    def __init__(self, canvas: _Canvas) -> None:
        self.canvas = canvas
        self.last = -1
        self.in_disorder = False

    def __call__(self, position: int, frame: Any) -> None:
        rank = int(self.canvas.index.ranks[position])
        self.in_disorder |= 0 <= rank <= self.last
        self.last = max(self.last, rank)
        self.canvas.offer(rank, frame)


class _Canvas:
    """Where pictures are put as they come out of the decoder, for all views of a clip."""

    def __init__(
        self,
        index: FrameIndex,
        geometry: Geometry,
        part: tuple[int, int],
        views: Sequence[View],
        choices: Sequence[Choice],
        frames: Sequence[Pixels],
    ) -> None:
        self.index, self.part = index, part
        self.views, self.choices, self.frames = views, choices, frames
        self.painter = Painter(geometry)
        self.rows: dict[int, list[tuple[int, int]]] = {}
        for number, choice in enumerate(choices):
            for row in np.flatnonzero(choice.mask).tolist():
                self.rows.setdefault(int(choice.index[row]), []).append((number, row))
        # For each rank wanted: the rank of the picture that is there, and the nearest so far.
        self.there: dict[int, int] = {}
        self.near: dict[int, tuple[int, Any]] = {}

    def wanted(self) -> list[int]:
        """The ranks wanted by any view, in order."""
        return sorted(self.rows)

    def missing(self) -> list[int]:
        """The ranks for which nothing has come out."""
        return [rank for rank in self.wanted() if rank not in self.there]

    def offer_at(self, position: int, frame: Any) -> None:
        """Like `offer`, by position, and keeping pictures that may have to stand in."""
        self.offer(int(self.index.ranks[position]), frame, nearest=True)

    def offer(self, rank: int, frame: Any, *, nearest: bool = False) -> None:
        """Take a picture if it is wanted; with `nearest`, keep it where it may have to stand in."""
        if rank in self.rows:
            self._paint(rank, frame)
            self.there[rank] = rank
        if nearest and self.part[0] <= rank < self.part[1]:
            for other in self.missing():
                best = self.near.get(other)
                if best is None or abs(rank - other) < abs(best[0] - other):
                    self.near[other] = (rank, frame)

    def substitute(self) -> None:
        """Put the nearest picture of the part where the one wanted did not come out."""
        present = dict(self.there)
        for rank in self.missing():
            if rank in self.near:
                self.there[rank], frame = self.near[rank]
                self._paint(rank, frame)
            elif present:
                other = min(present, key=lambda there: abs(there - rank))
                self._copy(other, rank)
                self.there[rank] = present[other]

    def _paint(self, rank: int, frame: Any) -> None:
        done: dict[tuple[int, int, Filter], Pixels] = {}
        for number, row in self.rows[rank]:
            height, width = self.frames[number].shape[1:3]
            kind = (height, width, self.views[number].filter)
            if kind not in done:
                done[kind] = self.painter.paint(frame, *kind)
            self.frames[number][row] = done[kind]

    def _copy(self, source: int, target: int) -> None:
        for number, row in self.rows[target]:
            shape = self.frames[number].shape[1:]
            kind = self.views[number].filter
            for other, other_row in self.rows[source]:
                same = self.frames[other].shape[1:] == shape and self.views[other].filter == kind
                if same:
                    self.frames[number][row] = self.frames[other][other_row]

    def clip(
        self, number: int, *, path: Path, damage: Damage, damaged: bool, missing: float
    ) -> Clip:
        """The finished clip of one view."""
        choice, index = self.choices[number], self.index
        there = np.array([self.there.get(int(rank), -1) for rank in choice.index], dtype=np.int64)
        there[~choice.mask] = -1
        if (there[choice.mask] < 0).any():
            raise BadVideo("no picture can be decoded", path=path, stage="decode", reason="damaged")
        bad = {rank for rank in self.rows if damage.taints(index, int(index.order[rank]))}
        tainted = np.array([int(rank) in bad for rank in choice.index], dtype=np.bool_)
        return Clip(
            path=path,
            frames=self.frames[number],
            index=there,
            time_s=np.where(choice.mask, index.times_s[there], np.nan),
            asked_s=np.where(choice.mask, index.times_s[choice.asked], np.nan),
            substituted=choice.mask & (tainted | (there != choice.index)),
            mask=choice.mask,
            total=self.part[1] - self.part[0],
            damaged=damaged,
            missing=missing,
        )

"""The pictures of a clip: what a model sees, how they are collected, and the finished clip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.video.container import BadVideo
from obygaze_features.video.index import Bools, Floats, FrameIndex, Ints
from obygaze_features.video.packet_decoder import PacketDecoder, is_affected
from obygaze_features.video.picture import Filter, PictureConverter, Pixels, ResizeMode
from obygaze_features.video.probe import VideoInfo
from obygaze_features.video.sampling import SampledRanks, Sampling

MAX_SUBSTITUTED = 1 / 8


@dataclass(frozen=True)
class View:
    """What one model sees of a clip: how many pictures, by which rule, how large.

    `size` is the shorter edge with the proportions kept ("shortest"), or both edges ("squash");
    None is the full size.
    """

    count: int = 32
    sampling: Sampling = "even"
    size: int | None = None
    fit: ResizeMode = "shortest"
    filter: Filter = "bicubic"


@dataclass(frozen=True, eq=False)
class DecodedClip:
    """The pictures of one view of a clip, and where each comes from.

    `index` is the number in the whole file of the picture in a row, `time_s` when it is shown,
    `asked_s` when the one asked for is shown (key frames and substitutes differ). `substituted`
    marks pictures that damage has affected or that a neighbour replaces, `mask` the real ones: if
    a rule found too few, the other rows are black with index -1. `missing` is the share of
    pictures that is missing from a broken file.
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
        """Return the facts for programs, without the pictures."""
        return {
            "shape": list(self.frames.shape),
            "index": self.index.tolist(),
            "time_s": self.time_s.tolist(),
            "substituted": int(self.substituted.sum()),
            "total": self.total,
            "damaged": self.damaged,
        }

    def as_line(self) -> str:
        """Return the facts in one line."""
        height, width = self.frames.shape[1:3]
        line = f"{int(self.mask.sum())} of {self.total} pictures, {width} x {height}"
        return f"{line}, {int(self.substituted.sum())} damaged" if self.damaged else line

    def check(self, max_substituted: float = MAX_SUBSTITUTED) -> DecodedClip:
        """Return this clip, or raise BadVideo if a larger share of it is damaged or missing."""
        if self.missing > max_substituted:
            what = f"{self.missing:.0%} of the pictures are missing"
            raise BadVideo(what, path=self.path, stage="decode", reason="truncated")
        bad, real = int(self.substituted.sum()), int(self.mask.sum())
        if bad > max_substituted * real:
            what = f"{bad} of {real} pictures are damaged"
            raise BadVideo(what, path=self.path, stage="decode", reason="damaged")
        return self


class Canvas:
    """Collects the wanted pictures as they come out of the decoder, for all views of a clip."""

    def __init__(
        self,
        index: FrameIndex,
        info: VideoInfo,
        span: tuple[int, int],
        views: Sequence[View],
        samples: Sequence[SampledRanks],
        frames: Sequence[Pixels],
    ) -> None:
        self.index, self.info, self.span = index, info, span
        self.views, self.samples, self.frames = views, samples, frames
        self.converter = PictureConverter(info.geometry)
        # For each wanted rank: the views and rows it goes to.
        self.rows: dict[int, list[tuple[int, int]]] = {}
        for number, sampled in enumerate(self.samples):
            for row in np.flatnonzero(sampled.mask).tolist():
                self.rows.setdefault(int(sampled.index[row]), []).append((number, row))
        # For each wanted rank: the rank of the picture that is there, and the nearest so far.
        self.there: dict[int, int] = {}
        self.near: dict[int, tuple[int, Any]] = {}

    def missing(self) -> list[int]:
        """Return the wanted ranks for which no picture has come out."""
        return [rank for rank in sorted(self.rows) if rank not in self.there]

    def offer_at(self, position: int, frame: Any) -> None:
        """Offer the picture of a packet; keep it if it may have to replace another."""
        self.offer(int(self.index.ranks[position]), frame, nearest=True)

    def offer_exactly(self, position: int, frame: Any) -> None:
        """Offer the picture of a packet, which replaces no other."""
        self.offer(int(self.index.ranks[position]), frame)

    def offer(self, rank: int, frame: Any, *, nearest: bool = False) -> None:
        """Take a picture if it is wanted; with `nearest`, keep it if it may replace another."""
        if rank in self.rows:
            self._draw(rank, frame)
            self.there[rank] = rank
        if nearest and self.span[0] <= rank < self.span[1]:
            for other in self.missing():
                best = self.near.get(other)
                if best is None or abs(rank - other) < abs(best[0] - other):
                    self.near[other] = (rank, frame)

    def substitute(self) -> None:
        """Put the nearest picture of the span where the wanted one did not come out."""
        present = dict(self.there)
        for rank in self.missing():
            if rank in self.near:
                self.there[rank], frame = self.near[rank]
                self._draw(rank, frame)
            elif present:
                other = min(present, key=lambda there: abs(there - rank))
                self._copy(other, rank)
                self.there[rank] = present[other]

    def _draw(self, rank: int, frame: Any) -> None:
        done: dict[tuple[int, int, Filter], Pixels] = {}
        for number, row in self.rows[rank]:
            height, width = self.frames[number].shape[1:3]
            kind = (height, width, self.views[number].filter)
            if kind not in done:
                done[kind] = self.converter.convert(frame, *kind)
            self.frames[number][row] = done[kind]

    def _copy(self, source: int, target: int) -> None:
        for number, row in self.rows[target]:
            shape, kind = self.frames[number].shape[1:], self.views[number].filter
            for other, other_row in self.rows[source]:
                if self.frames[other].shape[1:] == shape and self.views[other].filter == kind:
                    self.frames[number][row] = self.frames[other][other_row]

    def clip(self, number: int, decoder: PacketDecoder, missing: float) -> DecodedClip:
        """Return the finished clip of one view."""
        sampled, index, damage = self.samples[number], self.index, decoder.damage
        there = np.array([self.there.get(int(rank), -1) for rank in sampled.index], dtype=np.int64)
        there[~sampled.mask] = -1
        if (there[sampled.mask] < 0).any():
            what, path = "no picture can be decoded", self.info.path
            raise BadVideo(what, path=path, stage="decode", reason="damaged")
        bad = {rank for rank in self.rows if is_affected(index, damage, int(index.order[rank]))}
        affected = np.array([int(rank) in bad for rank in sampled.index], dtype=np.bool_)
        return DecodedClip(
            path=self.info.path,
            frames=self.frames[number],
            index=there,
            time_s=np.where(sampled.mask, index.times_s[there], np.nan),
            asked_s=np.where(sampled.mask, index.times_s[sampled.asked], np.nan),
            substituted=sampled.mask & (affected | (there != sampled.index)),
            mask=sampled.mask,
            total=self.span[1] - self.span[0],
            damaged=len(damage) > 0 or self.info.damaged,
            missing=missing,
        )

"""The pictures of a clip: views, the decoded pictures of a view, and contact sheets."""

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np

from obygaze_features.core.errors import FixUsage
from obygaze_features.video.container import PICTURES_CUT_OFF, BadVideo
from obygaze_features.video.index import (
    Bools,
    Floats,
    FrameIndex,
    Ints,
    Sampling,
    sample,
)
from obygaze_features.video.picture import PictureConverter
from obygaze_features.video.resize import Pixels, Resize
from obygaze_features.video.source import VideoSource

# A larger clip is refused before its memory is allocated.
MAX_CLIP_BYTES = 8 * 1024**3
# The measures of a contact sheet, in pixels.
CELL_EDGE = 320
GAP = 8
LINE = 18
# The colours of the paper, of the text, and of what is damaged.
PAPER = (250, 250, 248)
INK = (40, 40, 40)
WARNING = (178, 34, 34)

# Returns arrays of the given shapes.
Allocate = Callable[[Sequence[tuple[int, ...]]], Sequence[Pixels]]


def new_arrays(shapes: Sequence[tuple[int, ...]]) -> Sequence[Pixels]:
    """Return new arrays of these shapes."""
    return [np.empty(shape, dtype=np.uint8) for shape in shapes]


@dataclass(frozen=True)
class PictureView:
    """The pictures of a clip for one model: their number, sampling rule, and size.

    Without `resize`, the pictures have their full size.
    """

    count: int = 32
    sampling: Sampling = "even"
    resize: Resize | None = None

    def __post_init__(self) -> None:
        """Check the number of pictures and the rule."""
        if self.count < 1:
            raise FixUsage(f"count must be at least 1, got {self.count}")
        rules = get_args(Sampling)
        if self.sampling not in rules:
            names = ", ".join(rules)
            raise FixUsage(
                f"unknown sampling {self.sampling!r}", hint=f"use one of {names}"
            )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a view from plain values, as `dataclasses.asdict` returns them."""
        resize = value["resize"]
        return cls(
            value["count"],
            value["sampling"],
            Resize(**resize) if resize else None,
        )


@dataclass(frozen=True, eq=False)
class DecodedClip:
    """The pictures of one view of a clip, and from where in the film each picture comes.

    Args:
        path: The video file.
        shared_pictures: The pictures of all views with the same resize.
        rows: For each picture of this view, its place in `shared_pictures`.
        index: The frame number of each picture in the film; -1 for a black picture.
        time_s: The time of each picture in the film, in seconds; NaN for a black picture.
        asked_s: The time of each sampled picture, in seconds, even if it cannot be decoded; NaN for
            a row without a picture.
        substituted: Whether each picture is affected by damage. A picture that cannot be decoded is
            black.
        mask: Whether each row is a real picture. If the sampling rule found fewer pictures than
            there are rows, the remaining rows are black.
        total: The number of pictures of the clip in the film.
        damaged: Whether any damage was found in the film.
        is_incomplete: Whether pictures of the clip are missing because the file is broken.
        span_s: Start and end in seconds, if the clip is a window that a manifest cut from a film;
            None for other clips.
        remark: A remark if the pictures begin after the start of the clip or end before its end;
            "" if they do not.
    """

    path: Path
    shared_pictures: Pixels
    rows: Ints
    index: Ints
    time_s: Floats
    asked_s: Floats
    substituted: Bools
    mask: Bools
    total: int
    damaged: bool
    is_incomplete: bool
    remark: str = ""

    @property
    def pictures(self) -> Pixels:
        """The pictures of this view, in the shared array if it equals them, or else in a copy."""
        return pictures_of_view(self.shared_pictures, self.rows, self.mask)

    def to_json(self) -> dict[str, Any]:
        """Return the facts about this clip as JSON values, without the pictures."""
        return {
            "shape": [len(self.rows), *self.shared_pictures.shape[1:]],
            "index": self.index.tolist(),
            "time_s": self.time_s.tolist(),
            "substituted": int(self.substituted.sum()),
            "total": self.total,
            "damaged": self.damaged,
            "remarks": self.remarks,
        }

    def as_line(self) -> str:
        """Return the facts about this clip in one line of text."""
        height, width = self.shared_pictures.shape[1:3]
        n_frames = int(self.mask.sum())
        n_pictures = min(n_frames, self.total)
        line = f"{n_pictures} of {self.total} pictures, {width} x {height}"
        if n_frames > self.total:
            line += f", repeated to {n_frames} frames"
        return "; ".join([line, *self.remarks])

    @property
    def remarks(self) -> list[str]:
        """Return the remarks on pictures that are outside the film, damaged, or missing."""
        remarks = [self.remark] if self.remark else []
        n_damaged = int(self.substituted.sum())
        if n_damaged:
            remarks.append(f"{n_damaged} of {int(self.mask.sum())} frames damaged")
        if self.is_incomplete:
            remarks.append("frames are missing from the file")
        return remarks

    def check(self, accept_damaged: bool = False) -> Self:
        """Return this clip, or raise BadVideo if a picture is damaged or missing.

        With `accept_damaged`, only a picture that cannot be decoded at all is an error.
        """
        real = int(self.mask.sum())
        n_lost = int((self.mask & (self.index < 0)).sum())
        if n_lost:
            message = f"{n_lost} of {real} pictures cannot be decoded"
            raise BadVideo(message, path=self.path, reason="damaged")
        if accept_damaged:
            return self
        if self.is_incomplete:
            raise BadVideo(PICTURES_CUT_OFF, path=self.path, reason="truncated")
        n_damaged = int(self.substituted.sum())
        if n_damaged:
            message = f"{n_damaged} of {real} pictures are damaged"
            raise BadVideo(message, path=self.path, reason="damaged")
        return self


def pictures_of_view(shared: Pixels, rows: Ints, mask: Bools) -> Pixels:
    """Return `rows` of the shared pictures, black where `mask` is False.

    If `rows` are all shared pictures in their order and none is black, return `shared` itself
    instead of a copy.
    """
    if mask.all() and np.array_equal(rows, np.arange(len(shared))):
        return shared
    pictures = shared[rows]
    pictures[~mask] = 0
    return pictures


class Canvas:
    """Collects the wanted pictures as they come out of the decoder, for all views of some clips.

    Clips and views that take the same picture in the same size share it.
    """

    def __init__(
        self,
        source: VideoSource,
        index: FrameIndex,
        spans: Sequence[tuple[int, int]],
        views: Sequence[PictureView],
        allocate: Allocate,
        listed: Ints | None = None,
    ) -> None:
        self.source = source
        self.index = index
        self.spans = spans
        self.views = views
        # Of each view, for each span.
        self.samples = [
            [sample(index, span, view.count, view.sampling, listed) for span in spans]
            for view in views
        ]
        self.converter = PictureConverter(source.geometry, source.path)
        # For each resize: the row of each wanted rank in its shared pictures.
        self.rows: dict[Resize | None, dict[int, int]] = {}
        for view, of_spans in zip(views, self.samples, strict=True):
            rows = self.rows.setdefault(view.resize, {})
            for sampled in of_spans:
                rows |= dict.fromkeys(sampled.index[sampled.mask].tolist(), 0)
        for resize, rows in self.rows.items():
            self.rows[resize] = {rank: row for row, rank in enumerate(sorted(rows))}
        self.pictures = dict(zip(self.rows, allocate(self._shapes()), strict=True))
        # The ranks of the wanted pictures, and of the pictures that are stored already.
        self.wanted = dict.fromkeys(sorted(set[int]().union(*self.rows.values())))
        self.drawn: set[int] = set()
        # The positions at which the decoder found errors.
        self.damage: set[int] = set()

    def _shapes(self) -> list[tuple[int, ...]]:
        size = self.source.geometry.upright
        shape_of: dict[Resize | None, tuple[int, int, int]] = {}
        for resize in self.rows:
            height, width = resize.shape(*size) if resize else size
            shape_of[resize] = (height, width, 3)
        n_bytes = len(self.spans) * sum(
            view.count * math.prod(shape_of[view.resize]) for view in self.views
        )
        if n_bytes > MAX_CLIP_BYTES:
            message = f"the pictures would take {n_bytes / 1e9:.1f} GB of memory"
            raise BadVideo(message, path=self.source.path, reason="too-large")
        return [(len(rows), *shape_of[resize]) for resize, rows in self.rows.items()]

    def last_of_spans(self) -> set[int]:
        """Return the last wanted rank of each span, over all views."""
        last = [0] * len(self.spans)
        for of_spans in self.samples:
            for number, sampled in enumerate(of_spans):
                last[number] = max(last[number], int(sampled.index.max()))
        return set(last)

    def missing(self) -> list[int]:
        """Return the wanted ranks (frame numbers) whose picture is not stored yet."""
        return [rank for rank in self.wanted if rank not in self.drawn]

    def offer(self, position: int, frame: Any) -> None:
        """Convert, resize and store the picture of the packet at `position` if it is wanted."""
        rank = int(self.index.ranks[position])
        if rank not in self.wanted:
            return
        self.source.check_shape(frame)
        self.drawn.add(rank)
        picture = self.converter.convert(frame)
        for resize, rows in self.rows.items():
            if rank in rows:
                resized = picture if resize is None else resize(picture[None])[0]
                self.pictures[resize][rows[rank]] = resized

    def forget(self, positions: Iterable[int]) -> None:
        """Count the pictures at `positions` as missing until they are stored again."""
        self.drawn.difference_update(int(self.index.ranks[at]) for at in positions)

    def blank_missing(self) -> None:
        """Make missing pictures black: the array may still hold pictures of other clips there."""
        if not self.drawn:
            raise BadVideo(
                "no picture can be decoded", path=self.source.path, reason="damaged"
            )
        for rank in self.missing():
            for resize, rows in self.rows.items():
                if rank in rows:
                    self.pictures[resize][rows[rank]] = 0

    def clip(self, number: int, part: int, is_incomplete: bool) -> DecodedClip:
        """Return the decoded clip of the view with this number, for the span with this number."""
        sampled = self.samples[number][part]
        first, stop = self.spans[part]
        index = self.index
        source = self.source
        resize = self.views[number].resize
        ranks = sampled.index.tolist()
        is_drawn = sampled.mask & np.array([rank in self.drawn for rank in ranks])
        affected = index.find_affected(self.damage, index.order[ranks].tolist())
        return DecodedClip(
            path=source.path,
            shared_pictures=self.pictures[resize],
            rows=np.array([self.rows[resize].get(rank, 0) for rank in ranks], np.int64),
            index=np.where(is_drawn, sampled.index, -1),
            time_s=np.where(is_drawn, index.times_s[sampled.index], np.nan),
            asked_s=np.where(sampled.mask, index.times_s[sampled.index], np.nan),
            substituted=sampled.mask & (affected | ~is_drawn),
            mask=sampled.mask,
            total=stop - first,
            damaged=source.film.damaged or len(self.damage) > 0,
            is_incomplete=is_incomplete,
        )


def contact_sheet(clip: DecodedClip) -> bytes:
    """Return a PNG of all pictures with their times; damaged pictures are framed and marked."""
    from PIL import Image, ImageDraw, ImageFont

    pictures = clip.pictures
    count, height, width = pictures.shape[:3]
    scale = min(1.0, CELL_EDGE / max(height, width))
    cell_w = max(1, round(width * scale))
    cell_h = max(1, round(height * scale))
    across = max(1, math.ceil(math.sqrt(count * cell_h / cell_w)))
    down = math.ceil(count / across)
    size = (across * (cell_w + GAP) + GAP, down * (cell_h + LINE + GAP) + GAP)
    sheet = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(12)
    for number, picture in enumerate(pictures):
        x = GAP + number % across * (cell_w + GAP)
        y = GAP + number // across * (cell_h + LINE + GAP)
        sheet.paste(Image.fromarray(picture).resize((cell_w, cell_h)), (x, y))
        bad = bool(clip.substituted[number])
        if bad:
            draw.rectangle(
                (x - 2, y - 2, x + cell_w + 1, y + cell_h + 1), outline=WARNING, width=2
            )
        labels = _labels(clip, number)
        text = next(
            (text for text in labels if draw.textlength(text, font) <= cell_w), ""
        )
        draw.text((x, y + cell_h + 2), text, fill=WARNING if bad else INK, font=font)
    data = io.BytesIO()
    sheet.save(data, "PNG")
    return data.getvalue()


def _labels(clip: DecodedClip, number: int) -> list[str]:
    """Return the possible labels of a picture, from the longest to the shortest.

    The first label that fits below the picture is drawn.
    """
    if not clip.mask[number]:
        return ["empty"]
    seconds, milliseconds = divmod(round(float(clip.time_s[number]) * 1000), 1000)
    minutes = f"{seconds // 60 % 60}"
    hours = seconds // 3600
    clock = f"{hours}:{minutes:0>2}" if hours else minutes
    time = f"{clock}:{seconds % 60:02d}.{milliseconds:03d}"
    mark = " damaged" if clip.substituted[number] else ""
    return [f"{time}  #{clip.index[number]}{mark}", f"{time}{mark}", time]

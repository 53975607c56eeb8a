"""Draw the levels of a film over time, as Figure 4 of the paper: segments, clips, merged clips."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import Any

from obygaze_features.core.errors import FixUsage, NotFound
from obygaze_features.core.figures import LEVEL_COLORS, LEVEL_NAMES, MUTED, canvas, save
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.projection import (
    ClipLevel,
    Projection,
    frames_needed,
    overlap_frames,
)
from obygaze_features.manifest.segments import ClipSpan, Segment

WIDTH_IN = 11.0
PANEL_IN = 0.86
KEY_IN = 0.75
LETTER_PT = 6.5
# The share of the page's width that the panels have; letters that do not fit are left out.
_PANEL_SHARE = 0.94
_HEIGHTS = {level: (rank + 1) / len(LEVELS) for rank, level in enumerate(LEVELS)}
_DARK = {"S"}
_STYLES: dict[str, dict[str, Any]] = {
    "solid": {"edgecolor": "white", "lw": 0.4},
    "faint": {"lw": 0.8},
    "unlabelled": {"facecolor": "white", "edgecolor": MUTED, "lw": 0.8, "hatch": "xxxx"},
    "hollow": {"facecolor": "white", "edgecolor": "#b4b3ae", "lw": 0.6},
}
_MEANINGS = {
    "faint": ("S", "too short to count in any clip"),
    "hollow": ("EN", "EN: nothing reaches the threshold"),
    "unlabelled": ("EN", "without a label"),
}


@dataclass(frozen=True)
class TimelineBar:
    """One bar of a panel, in frames; both ends are part of it."""

    start_frame: int
    end_frame: int
    level: str
    concepts: tuple[str, ...] = ()
    look: str = "solid"

    def style(self) -> dict[str, Any]:
        """Return how matplotlib draws the bar."""
        color = LEVEL_COLORS[self.level]
        faint = {"facecolor": (color, 0.25), "edgecolor": color}
        return (faint if self.look == "faint" else {"facecolor": color}) | _STYLES[self.look]


@dataclass(frozen=True)
class Timeline:
    """The content of the figure: title and bars of each panel, from top to bottom."""

    movie_id: str
    panels: tuple[tuple[str, tuple[TimelineBar, ...]], ...]
    spans: tuple[ClipSpan, ...]
    start_frame: int
    end_frame: int

    def points(self, n_frames: int) -> float:
        """Return the width of `n_frames` frames on the page, in points."""
        share = n_frames / (self.end_frame - self.start_frame + 1)
        return share * 72 * WIDTH_IN * _PANEL_SHARE

    @cached_property
    def initials(self) -> dict[str, str]:
        """The letters that stand for each concept in the figure."""
        bars = (bar for _, bars in self.panels for bar in bars)
        return initials({concept for bar in bars for concept in bar.concepts})


def timeline(
    segments: Iterable[Segment],
    spans: Iterable[ClipSpan],
    projection: Projection,
    movie_id: str,
    between: tuple[int, int] | None = None,
) -> Timeline:
    """Return the timeline of one film, or of the frames `between` two of it."""
    clips = tuple(span for span in spans if span.movie_id == movie_id)
    marked = [segment for segment in segments if segment.movie_id == movie_id]
    if not clips or not marked:
        what = "segments" if clips else "clips"
        raise NotFound(f"the film {movie_id!r} has no {what}; nothing to draw")
    ends = [clip.end_frame for clip in clips] + [segment.end_frame for segment in marked]
    first, last = between or (0, max(ends))
    if last <= first:
        raise FixUsage(f"--between: the last frame must be after the first, got {first} and {last}")
    panels: list[tuple[str, tuple[TimelineBar, ...]]] = []
    for name in sorted({segment.annotator for segment in marked}):
        own = [segment for segment in marked if segment.annotator == name]
        panels.append((f"{name}: segments", _segment_bars(own, clips, projection)))
        panels.append((f"{name}: clips", _clip_bars(projection.by_annotator[name], clips)))
    panels.append(("merged: clips", _clip_bars(projection.merged, clips)))
    seen = tuple((title, _within(bars, first, last)) for title, bars in panels)
    return Timeline(movie_id, seen, clips, first, last)


def draw_timeline(
    segments: Iterable[Segment],
    spans: Iterable[ClipSpan],
    projection: Projection,
    movie_id: str,
    stem: Path,
    *,
    between: tuple[int, int] | None = None,
    fps: float | None = None,
    force: bool = True,
) -> tuple[Path, Path]:
    """Draw one film as SVG and PNG: the segments and clips of each annotator, and the merge.

    Args:
        segments: What the annotators marked.
        spans: The clips.
        projection: The levels of the clips.
        movie_id: The film.
        stem: The path of both files without their extension.
        between: Draw only these frames.
        fps: Label the axis with hours, minutes and seconds instead of frames.
        force: Replace files that exist.
    """
    film = timeline(segments, spans, projection, movie_id, between)
    n_panels = len(film.panels)
    ratios = [*[PANEL_IN] * n_panels, KEY_IN]
    height = sum(ratios) + 0.8
    with canvas(WIDTH_IN, height, nrows=n_panels + 1, height_ratios=ratios) as (figure, axes):
        share = f"a threshold of {100 * float(projection.threshold):.4g} % of the clip"
        title = f"{movie_id}, levels at {share}"
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
        for panel, (title, bars) in zip(axes[:-1], film.panels, strict=True):
            _draw_panel(panel, title, bars, film)
        for panel in axes[: n_panels - 1]:
            panel.tick_params(axis="x", bottom=False, labelbottom=False)
        _label_clips(axes[n_panels - 1], film)
        _label_time(axes[n_panels - 1], fps)
        _draw_key(axes[-1], film)
        return save(figure, stem, force=force)


def initials(concepts: Iterable[str]) -> dict[str, str]:
    """Return the shortest start of each concept that is unique and not a level."""
    names = sorted(set(concepts))
    short = {}
    for name in names:
        taken = [other for other in names if other != name]
        starts = [name[:n] for n in range(1, len(name)) if name[n - 1] != " "]
        unique = (start for start in starts if not any(o.startswith(start) for o in taken))
        short[name] = next((start for start in unique if start not in LEVELS), name)
    return short


def _segment_bars(
    segments: Sequence[Segment], clips: Sequence[ClipSpan], projection: Projection
) -> tuple[TimelineBar, ...]:
    needed = {clip: frames_needed(clip.n_frames, projection.threshold) for clip in clips}

    def look(segment: Segment) -> str:
        counts = any(overlap_frames(segment, clip) >= least for clip, least in needed.items())
        return "solid" if counts else "faint"

    return tuple(
        TimelineBar(one.start_frame, one.end_frame, one.level, one.concepts, look(one))
        for one in segments
    )


def _clip_bars(rows: Iterable[ClipLevel], clips: Iterable[ClipSpan]) -> tuple[TimelineBar, ...]:
    span_of = {clip.clip_id: clip for clip in clips}
    return tuple(
        TimelineBar(span.start_frame, span.end_frame, row.level, row.concepts, _look(row))
        for row in rows
        if (span := span_of.get(row.clip_id)) is not None
    )


def _look(row: ClipLevel) -> str:
    if not row.labelled:
        return "unlabelled"
    return "solid" if row.ratio is not None else "hollow"


def _within(bars: Iterable[TimelineBar], first: int, last: int) -> tuple[TimelineBar, ...]:
    return tuple(bar for bar in bars if bar.end_frame >= first and bar.start_frame <= last)


def _draw_panel(axes: Any, title: str, bars: Sequence[TimelineBar], film: Timeline) -> None:
    # Where segments overlap, the lower level is drawn in front of the higher one.
    for bar in sorted(bars, key=lambda bar: -LEVELS.index(bar.level)):
        axes.bar(
            bar.start_frame,
            _HEIGHTS[bar.level],
            width=bar.end_frame - bar.start_frame + 1,
            align="edge",
            **bar.style(),
        )
        _write_initials(axes, bar, film)
    for span in film.spans:
        axes.axvline(span.start_frame, color="#e4e3df", lw=0.4, zorder=0)
    axes.set_title(title, fontsize=8, pad=3)
    axes.set_xlim(film.start_frame, film.end_frame + 1)
    axes.set_ylim(0, 1.04)
    axes.set_yticks(list(_HEIGHTS.values()), list(_HEIGHTS), fontsize=6)
    axes.tick_params(axis="y", length=0, pad=2)
    axes.spines["left"].set_visible(False)


def _write_initials(axes: Any, bar: TimelineBar, film: Timeline) -> None:
    first, last = max(bar.start_frame, film.start_frame), min(bar.end_frame, film.end_frame)
    height = _HEIGHTS[bar.level]
    letters = [film.initials[concept] for concept in bar.concepts]
    text = fitted(letters, film.points(last - first + 1) - 2, 72 * PANEL_IN * 0.7 * height)
    if not text:
        return
    axes.text(
        (first + last + 1) / 2,
        height / 2,
        text,
        fontsize=LETTER_PT,
        color="white" if bar.level in _DARK and bar.look == "solid" else "black",
        ha="center",
        va="center",
        linespacing=1.05,
    )


def fitted(words: Sequence[str], width_pt: float, height_pt: float) -> str:
    """Return words on as few lines as fit a box; nothing where they do not fit."""
    for n_lines in range(1, int(height_pt / (LETTER_PT * 1.2)) + 1):
        a_line = -(-len(words) // n_lines)
        lines = [" ".join(words[i : i + a_line]) for i in range(0, len(words), a_line or 1)]
        if lines and max(map(len, lines)) * LETTER_PT * 0.62 <= width_pt:
            return "\n".join(lines)
    return ""


def _label_clips(axes: Any, film: Timeline) -> None:
    """Write the ids of the clips above the merged panel, if all of them fit."""
    seen = [s for s in film.spans if film.start_frame <= s.start_frame <= film.end_frame]
    names = [span.clip_id.removeprefix(f"{film.movie_id}-") for span in seen]
    rooms = [fitted([n], film.points(s.n_frames), 10) for n, s in zip(names, seen, strict=True)]
    if not all(rooms):
        return
    axes.set_ylim(0, 1.24)
    for name, span in zip(names, seen, strict=True):
        middle = (span.start_frame + span.end_frame + 1) / 2
        look = {"fontsize": LETTER_PT, "color": MUTED, "ha": "center", "clip_on": True}
        axes.text(middle, 1.06, name, **look)


def _label_time(axes: Any, fps: float | None) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    axes.tick_params(axis="x", labelsize=7.5)
    if fps is None:
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda frame, _: f"{frame:,.0f}"))
        axes.set_xlabel("frame", color=MUTED)
        return
    low, high = axes.get_xlim()
    steps_s = (1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600)
    step_s = next((step for step in steps_s if (high - low) / fps / step <= 14), 7200)
    axes.xaxis.set_major_locator(MultipleLocator(step_s * fps))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda frame, _: _clock(frame / fps)))
    axes.set_xlabel("time in the film, h:mm:ss", color=MUTED)


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _draw_key(axes: Any, film: Timeline) -> None:
    from matplotlib.patches import Patch

    axes.axis("off")
    looks = {bar.look for _, bars in film.panels for bar in bars}
    patches = [
        Patch(color=LEVEL_COLORS[level], label=f"{level} {LEVEL_NAMES[level]}") for level in LEVELS
    ]
    patches += [
        Patch(**TimelineBar(0, 0, level, look=look).style(), label=text)
        for look, (level, text) in _MEANINGS.items()
        if look in looks
    ]
    levels = axes.legend(handles=patches, loc="upper left", ncols=len(patches), fontsize=7.5)
    axes.add_artist(levels)
    # Lines break between concepts only: the blanks inside an entry do not break.
    entries = [f"{short} {name}".replace(" ", "\xa0") for name, short in film.initials.items()]
    text = fill("\xa0\xa0 ".join(entries), width=170, break_long_words=False)
    look = {"fontsize": 7.5, "color": MUTED, "va": "top"}
    axes.text(0.004, 0.42, text, transform=axes.transAxes, **look)

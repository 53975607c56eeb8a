"""Draw levels and concepts (Figure 2 of the paper), and a film over time (Figure 4)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixUsage, NotFound
from obygaze_features.core.figures import (
    LEVEL_COLORS,
    LEVEL_NAMES,
    MUTED,
    canvas,
    draw_grid,
    label_rows,
    save,
    spread_dots,
)
from obygaze_features.manifest.model import LEVELS, clock
from obygaze_features.manifest.projection import ClipLevel, ClipSpan, Projection, Segment
from obygaze_features.manifest.stats import Stats

DOT, STEP = 0.018, 0.24  # the size of a dot across (of all shares), and along the rows
WIDTH_IN = 11.0
PANEL_IN = 0.86
KEY_IN = 0.3
_HEIGHTS = {level: (rank + 1) / len(LEVELS) for rank, level in enumerate(LEVELS)}
_TICKS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)


def draw_stats(stats: Stats, stem: Path, title: str, *, force: bool = True) -> tuple[Path, Path]:
    """Draw the shares of the levels, and the concepts of each level, as Figure 2 of the paper."""
    size, layout = stats_layout(stats)
    with canvas(*size, **layout) as (figure, axes):
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
        draw_panels(axes, stats)
        return save(figure, stem, force=force)


def stats_layout(stats: Stats) -> tuple[tuple[float, float], dict[str, Any]]:
    """Return the size of the figure in inches, and its layout for `Figure.subplots`."""
    n_rows = max(len(_concepts(stats)), 3)
    return (7.2, 2.1 + 0.42 * n_rows), {"nrows": 2, "height_ratios": [1.4, n_rows]}


def draw_panels(axes: Any, stats: Stats) -> None:
    """Draw the levels on the first axes and the concepts on the second."""
    _draw_levels(axes[0], stats)
    _draw_concepts(axes[1], stats, _concepts(stats))


def _concepts(stats: Stats) -> list[str]:
    """Return the concepts of the clips, the most frequent last."""
    total: Counter[str] = Counter()
    for counts in stats.concepts.values():
        total.update(counts)
    return sorted(total, key=total.__getitem__)


def _draw_levels(axes: Any, stats: Stats) -> None:
    left = 0
    for level in LEVELS:
        count = stats.levels[level]
        axes.barh(0, count, left=left, color=LEVEL_COLORS[level], height=0.7)
        if count > 0.04 * stats.clips:
            color = "white" if level == "S" else "black"
            text = f"{level}\n{count}\n{100 * count / stats.clips:.0f} %"
            axes.text(left + count / 2, 0, text, ha="center", va="center", color=color, fontsize=7)
        left += count
    axes.set_title(f"{stats.clips} {stats.unit}s of {stats.movies} films")
    axes.set_xlim(0, max(left, 1))
    axes.axis("off")


def _draw_concepts(axes: Any, stats: Stats, names: list[str]) -> None:
    """Draw one row a concept with a dot a level: the share of its clips with the concept."""
    levels = [level for level in LEVELS if stats.concepts[level]]
    found = [
        [100 * stats.concepts[one].get(name, 0) / max(stats.levels[one], 1) for one in levels]
        for name in names
    ]
    widest = max((share for shares in found for share in shares), default=1.0)
    for row, shares in enumerate(found):
        axes.plot([min(shares), max(shares)], [row, row], color="#e4e3df", lw=3, zorder=1)
        moved = spread_dots(shares, DOT * widest)
        for level, share, step in zip(levels, shares, moved, strict=True):
            dot = axes.scatter(share, row + STEP * step, s=46, color=LEVEL_COLORS[level])
            dot.set(edgecolor="white", zorder=2, clip_on=False)
    for level in levels:
        mean = stats.concepts_per_clip.get(level)
        note = "" if mean is None else f", {mean:.2f} concepts a {stats.unit}"
        label = f"{level} {LEVEL_NAMES[level]}{note}"
        axes.scatter([], [], s=46, color=LEVEL_COLORS[level], label=label)
    label_rows(axes, names, upwards=True)
    axes.set_xlim(left=0)
    draw_grid(axes)
    axes.set_xlabel(f"% of {stats.unit}s with the concept", color=MUTED)
    axes.set_title("Concepts over levels")
    if levels:
        axes.figure.legend(loc="outside lower left", fontsize=7.5)
    else:
        axes.text(0.5, 0, "no clip has a concept", ha="center", color=MUTED)


class TimelineBar(NamedTuple):
    """One bar of a panel, in frames; both ends are part of it."""

    start_frame: int
    end_frame: int
    level: str


def timeline(
    segments: Iterable[Segment], spans: Iterable[ClipSpan], projection: Projection, movie_id: str
) -> dict[str, list[TimelineBar]]:
    """Return the bars of each panel of a film, by title: segments and clips, the merge last.

    A clip without a label has no bar.
    """
    clips = {span.clip_id: span for span in spans if span.movie_id == movie_id}
    marked = [segment for segment in segments if segment.movie_id == movie_id]
    if not clips or not marked:
        what = "segments" if clips else "clips"
        raise NotFound(f"the film {movie_id!r} has no {what}; nothing to draw", hint="--movie FILM")

    def clip_bars(rows: Iterable[ClipLevel]) -> list[TimelineBar]:
        found = [(clips.get(row.clip_id), row.level) for row in rows if row.labelled]
        return [TimelineBar(at.start_frame, at.end_frame, level) for at, level in found if at]

    panels = {}
    for name in sorted({segment.annotator for segment in marked}):
        own = [one for one in marked if one.annotator == name]
        bars = [TimelineBar(one.start_frame, one.end_frame, one.level) for one in own]
        panels[f"{name}: segments"] = bars
        panels[f"{name}: clips"] = clip_bars(projection.by_annotator[name])
    return {**panels, "merged: clips": clip_bars(projection.merged)}


def draw_timeline(
    segments: Sequence[Segment],
    spans: Sequence[ClipSpan],
    projection: Projection,
    movie_id: str | None,
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
        movie_id: The film; None for the only one with clips and segments.
        stem: The path of both files without their extension.
        between: Draw only these frames.
        fps: Label the axis with hours, minutes and seconds instead of frames.
        force: Replace files that exist.
    """
    from matplotlib.patches import Patch

    films = sorted({span.movie_id for span in spans} & {one.movie_id for one in segments})
    if movie_id is None and len(films) != 1:
        what = f"expected one film with clips and segments, got {len(films)}"
        raise FixUsage(what, hint=f"--movie {few(films)}")
    film = timeline(segments, spans, projection, movie_id or films[0])
    first, last = between or (0, max(bar.end_frame for bars in film.values() for bar in bars))
    if last <= first:
        raise FixUsage(f"--between: the last frame must be after the first, got {first} and {last}")
    ratios = [*[PANEL_IN] * len(film), KEY_IN]
    layout = {"nrows": len(ratios), "height_ratios": ratios}
    with canvas(WIDTH_IN, sum(ratios) + 0.8, **layout) as (figure, (*panels, key)):
        share = f"a threshold of {100 * float(projection.threshold):.4g} % of the clip"
        title = f"{movie_id or films[0]}, levels at {share}"
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
        for panel, (title, bars) in zip(panels, film.items(), strict=True):
            shown = [bar for bar in bars if bar.end_frame >= first and bar.start_frame <= last]
            _draw_panel(panel, title, shown)
            panel.set_xlim(first, last + 1)
            panel.tick_params(axis="x", bottom=panel is panels[-1], labelbottom=panel is panels[-1])
        _label_time(panels[-1], fps)
        key.axis("off")
        names = {level: f"{level} {LEVEL_NAMES[level]}" for level in LEVELS}
        patches = [Patch(color=LEVEL_COLORS[level], label=names[level]) for level in LEVELS]
        key.legend(handles=patches, loc="upper left", ncols=len(patches), fontsize=7.5)
        return save(figure, stem, force=force)


def _draw_panel(axes: Any, title: str, bars: Sequence[TimelineBar]) -> None:
    # Where segments overlap, the lower level is drawn in front of the higher one.
    for bar in sorted(bars, key=lambda bar: -LEVELS.index(bar.level)):
        place = {"x": bar.start_frame, "width": bar.end_frame - bar.start_frame + 1}
        style = {"align": "edge", "color": LEVEL_COLORS[bar.level], "edgecolor": "white", "lw": 0.4}
        axes.bar(height=_HEIGHTS[bar.level], **place, **style)
    axes.set_title(title, fontsize=8, pad=3)
    axes.set_ylim(0, 1.04)
    axes.set_yticks(list(_HEIGHTS.values()), list(_HEIGHTS), fontsize=6)
    axes.tick_params(axis="y", length=0, pad=2)
    axes.spines["left"].set_visible(False)


def _label_time(axes: Any, fps: float | None) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    axes.tick_params(axis="x", labelsize=7.5)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda frame, _: f"{frame:,.0f}"))
    axes.set_xlabel("frame", color=MUTED)
    if fps is not None:
        low, high = axes.get_xlim()
        step_s = next((step for step in _TICKS_S if (high - low) / fps / step <= 14), _TICKS_S[-1])
        axes.xaxis.set_major_locator(MultipleLocator(step_s * fps))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda frame, _: clock(frame / fps)))
        axes.set_xlabel("time in the film, h:mm:ss", color=MUTED)

"""Draw the levels and the concepts of a manifest, as Figure 2 of the paper."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from obygaze_features.core.figures import (
    COLORS,
    LEVEL_COLORS,
    LEVEL_NAMES,
    WIDTH,
    canvas,
    draw_grid,
    label_rows,
    save,
    spread_dots,
)
from obygaze_features.core.function_commands import command_of
from obygaze_features.core.options import Option
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.stats import Stats, compute_stats

DOT = 0.018  # the size of a dot across, as a share of the widest row
STEP = 0.24  # the distance of two dots along the rows


def draw_stats(
    stats: Stats,
    *,
    figure: Annotated[str | Path | None, Option(metavar="PATH")] = None,
    force: bool = False,
) -> tuple[Path, ...]:
    """Draw the shares of the levels, and the concepts of each level, as Figure 2 of the paper.

    Args:
        stats: The counts.
        figure: Draw the counts as PATH.svg and PATH.png; a PATH with .svg, .png or .pdf is one
            file.
        force: Replace the output if it exists.
    """
    if figure is None:
        return ()
    concepts = _concepts(stats)
    n_rows = max(len(concepts), 3)
    rows = {"nrows": 2, "height_ratios": [1.4, n_rows]}
    with canvas(WIDTH, 150 + 30 * n_rows, **rows) as (page, axes):
        page.suptitle(stats.title, x=0.01, ha="left", weight="bold")
        _draw_levels(axes[0], stats)
        _draw_concepts(axes[1], stats, concepts)
        return save(page, Path(figure), force=force)


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
            axes.text(
                left + count / 2,
                0,
                text,
                ha="center",
                va="center",
                color=color,
                fontsize=7,
            )
        left += count
    title = f"{stats.clips} {stats.unit}s of {stats.n_films} films"
    if stats.without_level:
        title += f", {stats.without_level} without a level"
    axes.set_title(title)
    axes.set_xlim(0, max(left, 1))
    axes.axis("off")


def _draw_concepts(axes: Any, stats: Stats, names: list[str]) -> None:
    """Draw one row a concept with a dot a level: the share of its clips with the concept."""
    levels = [level for level in LEVELS if stats.concepts[level]]
    shares_of_concept: list[list[float]] = []
    for name in names:
        shares = []
        for level in levels:
            n_clips = stats.concepts[level].get(name, 0)
            shares.append(100 * n_clips / max(stats.levels[level], 1))
        shares_of_concept.append(shares)
    largest_share = max(map(max, shares_of_concept), default=1.0)
    for row, shares in enumerate(shares_of_concept):
        axes.plot(
            [min(shares), max(shares)], [row, row], color=COLORS["line"], lw=3, zorder=1
        )
        moved = spread_dots(shares, DOT * largest_share)
        for level, share, step in zip(levels, shares, moved, strict=True):
            dot = axes.scatter(
                share, row + STEP * step, s=46, color=LEVEL_COLORS[level]
            )
            dot.set(edgecolor="white", zorder=2, clip_on=False)
    for level in levels:
        mean = stats.concepts_per_clip.get(level)
        note = "" if mean is None else f", {mean:.2f} concepts a {stats.unit}"
        label = f"{level} {LEVEL_NAMES[level]}{note}"
        axes.scatter([], [], s=46, color=LEVEL_COLORS[level], label=label)
    label_rows(axes, names, upwards=True)
    axes.set_xlim(left=0)
    draw_grid(axes)
    axes.set_xlabel(f"% of {stats.unit}s with the concept", color=COLORS["muted"])
    axes.set_title("Concepts over levels")
    if levels:
        axes.figure.legend(loc="outside lower left", fontsize=7.5)
    else:
        axes.text(
            0.5,
            0,
            "no clip with a level has a concept",
            ha="center",
            color=COLORS["muted"],
        )


stats_command = command_of(
    compute_stats, "stats", then=draw_stats, then_group="Options"
)

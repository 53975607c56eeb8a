"""The distribution of levels and of concepts over levels, as in the paper's Figure 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from obygaze_features.core.figures import LEVEL_COLORS, LEVEL_NAMES, MUTED, apart, canvas, save
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.stats import Stats

DOT, STEP = 0.018, 0.24  # the size of a dot across (of all shares), and along the rows


def draw_stats(stats: Stats, stem: Path, title: str, *, force: bool = True) -> tuple[Path, Path]:
    """Draw how clips share out over levels, and which concepts come with which level."""
    names = _concepts(stats)
    height = 1.9 + 0.42 * max(len(names), 3)
    with canvas(7.2, height, nrows=2, height_ratios=[1, max(len(names), 3)]) as (figure, axes):
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
        _draw_levels(axes[0], stats)
        _draw_concepts(axes[1], stats, names)
        return save(figure, stem, force=force)


def _concepts(stats: Stats) -> list[str]:
    seen = {name: None for level in LEVELS for name in stats.concepts[level]}
    total = {name: sum(stats.concepts[level].get(name, 0) for level in LEVELS) for name in seen}
    return sorted(seen, key=lambda name: total[name])


def _draw_levels(axes: Any, stats: Stats) -> None:
    left = 0
    for level in LEVELS:
        count = stats.levels[level]
        axes.barh(0, count, left=left, color=LEVEL_COLORS[level], height=0.7)
        if count > 0.04 * stats.clips:
            color = "white" if level == "S" else "black"
            text = f"{level}\n{count} ({100 * count / stats.clips:.1f} %)"
            axes.text(left + count / 2, 0, text, ha="center", va="center", color=color, fontsize=8)
        left += count
    axes.set_title(f"{stats.clips} {stats.unit}s of {stats.movies} films")
    axes.set_xlim(0, max(left, 1))
    axes.axis("off")


def _draw_concepts(axes: Any, stats: Stats, names: list[str]) -> None:
    """One row a concept: the share of a level's clips that carry it, a dot a level."""
    levels = [level for level in LEVELS if stats.concepts[level]]
    found = [[_share(stats, level, name) for level in levels] for name in names]
    widest = max((share for shares in found for share in shares), default=1.0)
    for row, shares in enumerate(found):
        axes.plot([min(shares), max(shares)], [row, row], color="#e4e3df", lw=3, zorder=1)
        moved = apart(shares, DOT * widest)
        for level, share, step in zip(levels, shares, moved, strict=True):
            dot = axes.scatter(share, row + STEP * step, s=46, color=LEVEL_COLORS[level])
            dot.set(edgecolor="white", zorder=2, clip_on=False)
    for level in levels:
        mean = stats.concepts_per_clip.get(level)
        note = "" if mean is None else f", {mean:.2f} concepts a {stats.unit}"
        label = f"{level} {LEVEL_NAMES[level]}{note}"
        axes.scatter([], [], s=46, color=LEVEL_COLORS[level], label=label)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.6, max(len(names), 1) - 0.4)
    axes.set_xlim(left=0)
    axes.xaxis.grid(visible=True, color="#ecebe7", lw=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"% of the level's {stats.unit}s that carry the concept", color=MUTED)
    axes.set_title("Concepts over levels")
    if levels:
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.4, -0.13),
            ncols=3,
            fontsize=7.5,
            handletextpad=0.2,
        )
    else:
        axes.text(0.5, 0, "no clip carries a concept", ha="center", color=MUTED)


def _share(stats: Stats, level: str, name: str) -> float:
    return 100 * stats.concepts[level].get(name, 0) / max(stats.levels[level], 1)

"""Concepts drawn: how well and how stably they are found, how alike they are, what they weigh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.figures import INK, MUTED, canvas, save
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.anatomy import effects, parts
from obygaze_models.report.figure import BLIND, MODEL, ORDER_COLORS, PALE, Figure, bare
from obygaze_models.report.tables import slug

QUALITY = (
    "Left: average precision on unseen films with 95 % intervals; tick: share of clips that have "
    "the concept, which is what chance reaches; open dots: p above .05 after Holm. Right: cosine "
    "of the vector found without a film to that found with it, mean and least."
)
ALIKE = (
    "Left: cosine of each pair of concept vectors. Middle: AUC of a row's margin for a column's "
    "concept, on unseen films; a pure bank is dark on the diagonal only. Right: the same for the "
    "true concepts, which is the impurity that the clips themselves have."
)
WEIGHTS = "What one standard deviation of a concept's margin adds to the log odds of a positive."
CURVES = (
    "A person corrects concepts of every clip, one after the other: the most helpful first "
    "(greedy, chosen on other films), the most uncertain first, or at random. Means over films "
    "left out together."
)


def draw_concepts(run: Run, folder: Path) -> Iterable[Figure]:
    """Quality, likeness, weights, corrections: what a run's anatomy holds."""
    for number, bank in enumerate(parts(run, "concepts")):
        if bank["concepts"]:
            end = f"{slug(bank['feature'])}" + (f"-{number}" if number else "")
            yield _quality(bank, folder / f"concepts-{end}")
            yield _alike(bank, folder / f"cosines-{end}")
    heads = parts(run, "head")
    for model, feature in dict.fromkeys((h["model"], h["feature"]) for h in heads):
        own = [h for h in heads if (h["model"], h["feature"]) == (model, feature)]
        end = slug(f"{model}-{feature}")
        if own[0]["weights"]:
            yield _weights(own, folder / f"weights-{end}")
        curved = [head for head in own if head["interventions"]]
        if curved:
            yield _corrections(curved, folder / f"interventions-{end}")


def _quality(bank: Record, stem: Path) -> Figure:
    concepts = sorted(bank["concepts"], key=lambda one: one["ap"]["value"] or 0.0)
    names = [f"{one['name']} ({one['n_positive']})" for one in concepts]
    layout = {"ncols": 2, "sharey": True, "width_ratios": [3, 1.4]}
    with canvas(7.2, 0.9 + 0.27 * len(concepts), **layout) as (figure, (left, right)):
        for row, one in enumerate(concepts):
            _concept(left, right, row, one)
        left.set_yticks(range(len(names)), names)
        left.set_ylim(-0.6, len(names) - 0.4)
        left.set_xlim(-0.01, 1.01)
        right.set_xlim(-0.05, 1.05)
        left.set_xlabel("AP, 95 % interval over films", color=MUTED)
        right.set_xlabel("cosine without a film", color=MUTED)
        for axes in (left, right):
            axes.xaxis.grid(visible=True, color=PALE, lw=0.7)
            axes.set_axisbelow(True)
            bare(axes, "left")
        left.set_title(f"Concept vectors of {bank['feature']}")
        svg, png = save(figure, stem)
    title = f"How well concepts are found, {bank['feature']}"
    return Figure(stem.name, title, QUALITY, svg, png, "concepts")


def _concept(left: Any, right: Any, row: int, one: Record) -> None:
    ends = one["ap"]["ci"]
    if None not in ends:
        left.plot(ends, [row, row], color=MODEL, lw=1.7, alpha=0.75)
    sure = one["p_holm"] is not None and one["p_holm"] < 0.05
    face = MODEL if sure else "white"
    left.scatter(one["ap"]["value"], row, s=28, color=face, edgecolor=MODEL, zorder=3)
    left.plot([one["prevalence"]] * 2, [row - 0.3, row + 0.3], color=INK, lw=1.1)
    held = one["stability"]
    right.plot([held["least"], held["mean"]], [row, row], color=BLIND, lw=1.4)
    right.scatter(held["least"], row, s=14, color=BLIND)
    right.scatter(held["mean"], row, s=28, color=MODEL, zorder=3)


def _alike(bank: Record, stem: Path) -> Figure:
    names = [one["name"] for one in bank["concepts"]]
    panels = (
        ("cosine of vectors", bank["cosines"], "RdBu_r", (-1.0, 1.0)),
        ("AUC, margins", bank["purity"], "PuOr", (1.0, 0.0)),
        ("AUC, true concepts", bank["co_occurrence"], "PuOr", (1.0, 0.0)),
    )
    side = 0.9 + 0.2 * len(names)
    with canvas(1.2 + 3 * side, 1.9 + side, ncols=3, sharey=True) as (figure, grid):
        for axes, (title, values, colors, ends) in zip(grid, panels, strict=True):
            _heat(axes, values, colors, ends)
            axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7, color=INK)
            axes.set_title(title, fontsize=8.5)
            bare(axes)
        grid[0].set_yticks(range(len(names)), names, fontsize=7)
        svg, png = save(figure, stem)
    title = f"How alike concepts are, {bank['feature']}"
    return Figure(stem.name, title, ALIKE, svg, png, "concepts")


def _heat(
    axes: Any, values: Sequence[Sequence[Any]], colors: str, ends: tuple[float, float]
) -> None:
    import matplotlib

    table = np.array(values, dtype=np.float64)
    shades = matplotlib.colormaps[colors]
    scaled = (table - ends[0]) / (ends[1] - ends[0])
    image = shades(np.nan_to_num(scaled, nan=0.5))
    image[np.isnan(table)] = (1, 1, 1, 1)
    axes.imshow(image, aspect="equal")
    for y, row in enumerate(table):
        for x, value in enumerate(row):
            if not np.isnan(value):
                dark = abs(scaled[y, x] - 0.5) > 0.33
                text = f"{value:.1f}".replace("0.", ".").replace("-.0", ".0")
                color = "white" if dark else INK
                axes.text(x, y, text, ha="center", va="center", fontsize=5.5, color=color)


def _weights(heads: Sequence[Record], stem: Path) -> Figure:
    names = heads[0]["concepts"]
    layout = {"ncols": len(heads), "sharey": True, "sharex": True, "squeeze": False}
    with canvas(7.2, 0.9 + 0.22 * len(names), **layout) as (figure, grid):
        for axes, head in zip(grid[0], heads, strict=True):
            values = effects(head)
            colors = [MODEL if value >= 0 else ORDER_COLORS["uncertainty"] for value in values]
            axes.barh(range(len(values)), values, color=colors, height=0.66)
            axes.axvline(0, color=MUTED, lw=0.7)
            axes.set_title(head["task"], fontsize=9)
            bare(axes, "left")
        grid[0, 0].set_yticks(range(len(names)), names)
        grid[0, 0].set_ylim(len(names) - 0.4, -0.6)
        figure.supxlabel("log odds per standard deviation", fontsize=8.5, color=MUTED)
        svg, png = save(figure, stem)
    title = f"What {heads[0]['model']} ({heads[0]['feature']}) weighs"
    return Figure(stem.name, title, f"{title}. {WEIGHTS}", svg, png, "concepts")


def _corrections(heads: Sequence[Record], stem: Path) -> Figure:
    layout = {"nrows": 2, "ncols": len(heads), "sharex": True, "sharey": "row", "squeeze": False}
    with canvas(max(3.6, min(2.3 * len(heads), 7.4)) + 0.4, 3.7, **layout) as (figure, grid):
        for column, head in enumerate(heads):
            for row, metric in enumerate(("f1", "ap")):
                _curves(grid[row, column], head, metric)
            grid[0, column].set_title(head["task"], fontsize=9)
            grid[1, column].set_xlabel("corrected concepts", color=MUTED)
        grid[0, 0].set_ylabel("F1 binary")
        grid[1, 0].set_ylabel("AP")
        shown = grid[0, -1].get_legend_handles_labels()
        figure.legend(*shown, fontsize=7.5, loc="outside upper right", ncols=3)
        svg, png = save(figure, stem)
    title = f"Corrections of {heads[0]['model']} ({heads[0]['feature']})"
    return Figure(stem.name, title, f"{title}. {CURVES}", svg, png, "concepts")


def _curves(axes: Any, head: Record, metric: str) -> None:
    for curve in head["interventions"]:
        values = curve[metric]
        color = ORDER_COLORS.get(curve["order"], INK)
        axes.plot(range(len(values)), values, color=color, lw=1.7, label=curve["order"])
        axes.scatter(range(len(values)), values, s=8, color=color)
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.grid(visible=True, color=PALE, lw=0.7)
    axes.set_axisbelow(True)

"""Concepts and bottlenecks: the quality of concept vectors, and the heads on their margins."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import count
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from obygaze_features.core.figures import INK, MUTED, draw_grid, label_rows
from obygaze_models.protocols.runner.records import Record
from obygaze_models.report.figure import (
    BASELINE,
    MODEL,
    WRONG,
    FigureSet,
    draw_reference,
    hide_ticks,
)
from obygaze_models.report.lookup import ReportRun, grouped, number_of
from obygaze_models.report.tables import (
    Heading,
    Number,
    Part,
    Row,
    make_table,
    sentence,
    slug,
)

MAX_TREE_DEPTH = 4
ORDER_COLORS = {"greedy": MODEL, "uncertainty": WRONG, "random": BASELINE}


def head_name(head: Record) -> str:
    """Return the name of a head: model, store, and the task it was trained for."""
    return f"{head['model']} ({head['feature']}), {head['task']}"


def concepts(run: ReportRun) -> Part:
    """Yield how concepts are evaluated, the tables of concept vectors, then those of the heads."""
    if run.of("anatomy"):
        yield sentence("concepts")
    for bank in run.banks:
        feature = bank["feature"]
        if leak := bank.get("film_leak"):
            yield sentence("film_leak", feature=feature, **leak)
        if bank.get("note"):
            yield sentence("bank_note", feature=feature, note=bank["note"])
        if bank.get("left_out"):
            names = "; ".join(f"{name} ({why})" for name, why in bank["left_out"].items())
            yield sentence("left_out", feature=feature, concepts=names)
    for number, bank in enumerate(run.banks):
        if bank["concepts"]:
            feature, models = bank["feature"], ", ".join(bank["models"])
            rows: list[Row | Heading] = [_concept_row(concept) for concept in bank["concepts"]]
            rows += _reference_rows(bank["concepts"])
            key = f"concepts-{slug(feature)}-{number}"
            yield make_table("concepts", key, rows, feature=feature, models=models)
    if gains := [head for head in run.heads if head["task_gain"]]:
        yield make_table("task_gain", "task-gain", [_gain_row(head) for head in gains])
    linear = [head for head in run.heads if head["weights"]]
    for columns, heads in grouped(linear, lambda head: tuple(head["concepts"])).items():
        weights = [(head_name(head), *map(Number, effects(head))) for head in heads]
        yield make_table("weights", f"weights-{slug(heads[0]['feature'])}", weights, columns)


def _concept_row(concept: Record) -> Row:
    return (
        concept["name"],
        concept["n_positive"],
        Number(concept["prevalence"]),
        *(number_of(concept, metric) for metric in ("ap", "auc", "f1_binary")),
        Number(concept["auc_against_EN"]),
        Number(concept["auc_against_without"]),
        Number(concept["p_holm"], digits=3, is_p=True),
        Number(concept["stability"]["mean"]),
        Number(concept["stability"]["least"]),
    )


def _reference_rows(concepts: Sequence[Record]) -> list[Row | Heading]:
    """Return what noise and random directions reach, as means over the concepts."""
    noise = [own for concept in concepts if (own := concept.get("noise"))]
    random = [own for concept in concepts if (own := concept.get("random_directions"))]
    rows: list[Row | Heading] = []
    if noise:
        ap, auc = (Number(fmean(own[metric] for own in noise)) for metric in ("ap", "auc"))
        mean, least = (
            Number(fmean(own["stability"][end] for own in noise)) for end in ("mean", "least")
        )
        row = ("vectors of random features", None, None, ap, auc, *[None] * 4, mean, least)
        rows.append(row)
    for name, end in (("random directions", "mean"), ("95th percentile of these", "high")):
        if random:
            ap, auc = (Number(fmean(r[metric][end] for r in random)) for metric in ("ap", "auc"))
            rows.append((name, None, None, ap, auc, *[None] * 6))
    return [Heading("references, means over the concepts", quiet=True), *rows] if rows else []


def _gain_row(head: Record) -> Row:
    parts = ("from_margins", "from_truth", "gain", "prevalence")
    return head_name(head), *(Number(head["task_gain"][part]) for part in parts)


def effects(head: Record) -> list[float]:
    """Return the change in the log odds for one standard deviation of each margin."""
    weights = head["weights"]
    return [c * sd for c, sd in zip(weights["coef"], weights["sd"], strict=True)]


def draw_concepts(run: ReportRun, figures: FigureSet) -> None:
    """Draw quality and similarity of concept vectors, then weights and corrections of heads."""
    for number, bank in enumerate(run.banks):
        if bank["concepts"]:
            end = f"{slug(bank['feature'])}" + (f"-{number}" if number else "")
            _draw_quality(bank, f"concepts-{end}", figures)
            _draw_similarity(bank, f"cosines-{end}", figures)
    for (model, feature), heads in grouped(run.heads, lambda h: (h["model"], h["feature"])).items():
        end = slug(f"{model}-{feature}")
        if heads[0]["weights"]:
            _draw_weights(heads, f"weights-{end}", figures)
        if corrected := [head for head in heads if head["interventions"]]:
            _draw_corrections(corrected, f"interventions-{end}", figures)


def _draw_quality(bank: Record, key: str, figures: FigureSet) -> None:
    concepts = sorted(bank["concepts"], key=lambda one: one["ap"]["value"] or 0.0)
    layout = {"ncols": 2, "sharey": True, "width_ratios": [3, 1.4]}
    size, feature = (7.2, 0.9 + 0.27 * len(concepts)), bank["feature"]
    with figures.draw("concepts", key, size, layout, feature=feature) as (_, (left, right)):
        for row, concept in enumerate(concepts):
            _draw_concept(left, right, row, concept)
        names = [f"{one['name']} ({one['n_positive']})" for one in concepts]
        label_rows(left, names, upwards=True)
        left.set_xlim(-0.01, 1.01)
        right.set_xlim(-0.05, 1.05)
        left.set_xlabel("AP, 95 % interval over films", color=MUTED)
        right.set_xlabel("cosine without a film", color=MUTED)
        if noise := [own["stability"]["mean"] for c in concepts if (own := c.get("noise"))]:
            draw_reference(right, fmean(noise))
        for axes in (left, right):
            draw_grid(axes)
            hide_ticks(axes, "left")


def _draw_concept(left: Any, right: Any, row: int, concept: Record) -> None:
    ap, p, stability = concept["ap"], concept["p_holm"], concept["stability"]
    if None not in ap["ci"]:
        left.plot(ap["ci"], [row, row], color=MODEL, lw=1.7, alpha=0.75)
    face = MODEL if p is not None and p < 0.05 else "white"
    left.scatter(ap["value"], row, s=28, color=face, edgecolor=MODEL, zorder=3)
    left.plot([concept["prevalence"]] * 2, [row - 0.3, row + 0.3], color=INK, lw=1.1)
    right.plot([stability["least"], stability["mean"]], [row, row], color=BASELINE, lw=1.4)
    right.scatter(stability["least"], row, s=14, color=BASELINE)
    right.scatter(stability["mean"], row, s=28, color=MODEL, zorder=3)


def _draw_similarity(bank: Record, key: str, figures: FigureSet) -> None:
    names = [one["name"] for one in bank["concepts"]]
    panels = (
        ("cosine of vectors", bank["cosines"], "RdBu_r", (-1.0, 1.0)),
        ("AUC, margins", bank["purity"], "PuOr", (1.0, 0.0)),
        ("AUC, true concepts", bank["co_occurrence"], "PuOr", (1.0, 0.0)),
    )
    side = 0.9 + 0.25 * len(names)
    size, layout = (1.2 + 3 * side, 1.9 + side), {"ncols": 3, "sharey": True}
    with figures.draw("cosines", key, size, layout, feature=bank["feature"]) as (_, grid):
        for axes, (panel, values, colors, ends) in zip(grid, panels, strict=True):
            _draw_heat(axes, np.array(values, dtype=np.float64), colors, ends)
            axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7, color=INK)
            axes.set_title(panel, fontsize=8.5)
            hide_ticks(axes)
        grid[0].set_yticks(range(len(names)), names, fontsize=7)


def _draw_heat(axes: Any, table: Any, colors: str, ends: tuple[float, float]) -> None:
    import matplotlib

    scaled = (table - ends[0]) / (ends[1] - ends[0])
    image = matplotlib.colormaps[colors](np.nan_to_num(scaled, nan=0.5))
    image[np.isnan(table)] = (1, 1, 1, 1)
    axes.imshow(image, aspect="equal")
    for (y, x), value in np.ndenumerate(table):
        if not np.isnan(value):
            text = f"{value:.1f}".replace("0.", ".").replace("-.0", ".0")
            color = "white" if abs(scaled[y, x] - 0.5) > 0.33 else INK
            axes.text(x, y, text, ha="center", va="center", fontsize=6.5, color=color)


def _draw_weights(heads: Sequence[Record], key: str, figures: FigureSet) -> None:
    names = heads[0]["concepts"]
    layout = {"ncols": len(heads), "sharey": True, "sharex": True, "squeeze": False}
    size, name = (7.2, 0.9 + 0.22 * len(names)), f"{heads[0]['model']} ({heads[0]['feature']})"
    with figures.draw("weights", key, size, layout, name=name) as (figure, grid):
        for axes, head in zip(grid[0], heads, strict=True):
            values = effects(head)
            colors = [MODEL if value >= 0 else WRONG for value in values]
            axes.barh(range(len(values)), values, color=colors, height=0.66)
            axes.axvline(0, color=MUTED, lw=0.7)
            axes.set_title(head["task"], fontsize=9)
            hide_ticks(axes, "left")
        label_rows(grid[0, 0], names)
        figure.supxlabel("log odds per standard deviation", fontsize=8.5, color=MUTED)


def _draw_corrections(heads: Sequence[Record], key: str, figures: FigureSet) -> None:
    layout = {"nrows": 2, "ncols": len(heads), "sharex": True, "sharey": "row", "squeeze": False}
    name = f"{heads[0]['model']} ({heads[0]['feature']})"
    size = max(3.6, min(2.3 * len(heads), 7.4)) + 0.4, 3.7
    with figures.draw("interventions", key, size, layout, name=name) as (figure, grid):
        for (top, bottom), head in zip(grid.T, heads, strict=True):
            _draw_curves(top, head, "f1")
            _draw_curves(bottom, head, "ap")
            top.set_title(head["task"], fontsize=9)
            bottom.set_xlabel("corrected concepts", color=MUTED)
        grid[0, 0].set_ylabel("F1 binary")
        grid[1, 0].set_ylabel("AP")
        entries = grid[0, -1].get_legend_handles_labels()
        figure.legend(*entries, fontsize=7.5, loc="outside upper right", ncols=3)


def _draw_curves(axes: Any, head: Record, metric: str) -> None:
    for curve in head["interventions"]:
        values = curve[metric]
        color = ORDER_COLORS.get(curve["order"], INK)
        axes.plot(range(len(values)), values, color=color, lw=1.7, label=curve["order"])
        axes.scatter(range(len(values)), values, s=8, color=color)
    axes.set_ylim(-0.02, 1.02)
    draw_grid(axes, "y")


class TreeNode(NamedTuple):
    """A node of a decision tree and its place in the drawing."""

    node: int
    depth: int
    row: float


def draw_trees(run: ReportRun, figures: FigureSet) -> None:
    """Draw each decision tree on concept margins (Figure 5 of the paper)."""
    for head in run.heads:
        if head["tree"]:
            _draw_tree(head, figures)


def _draw_tree(head: Record, figures: FigureSet) -> None:
    """Draw a tree from left to right, which fits narrow screens too; "no" is above "yes"."""
    tree, name = head["tree"], head_name(head)
    placed = {one.node: one for one in place_nodes(tree, 0, 0, count())}
    depth = max(one.depth for one in placed.values())
    n_rows = 1 + max(one.row for one in placed.values())
    names = {"name": name, "n": head["n"], "n_positive": head["n_positive"]}
    size = 1.2 + 1.2 * depth, 0.3 + 0.32 * n_rows
    with figures.draw("tree", f"tree-{slug(name)}", size, **names) as (_, axes):
        for one in placed.values():
            for side in ("left", "right"):
                if child := placed.get(tree[side][one.node]):
                    ends = [one.depth, child.depth], [one.row, child.row]
                    axes.plot(*ends, color=MUTED, lw=0.8, zorder=0)
            _draw_node(axes, head, one, tree["left"][one.node] in placed)
        axes.set(xlim=(-0.45, depth + 0.45), ylim=(n_rows - 0.4, -0.6), xticks=[], yticks=[])
        hide_ticks(axes)


def place_nodes(tree: Any, node: int, depth: int, rows: Iterator[int]) -> list[TreeNode]:
    """Place leaves in rows, and each other node in the middle of its branches."""
    if tree["left"][node] < 0 or depth == MAX_TREE_DEPTH:
        return [TreeNode(node, depth, next(rows))]
    left = place_nodes(tree, tree["left"][node], depth + 1, rows)
    right = place_nodes(tree, tree["right"][node], depth + 1, rows)
    return [TreeNode(node, depth, (left[0].row + right[0].row) / 2), *left, *right]


def _draw_node(axes: Any, head: Record, one: TreeNode, is_inner: bool) -> None:
    import matplotlib

    tree, node = head["tree"], one.node
    share = tree["share"][node]
    text = f"{100 * share:.0f} % of {tree['n'][node]}"
    if is_inner:
        name = textwrap.fill(head["concepts"][tree["concept"][node]], 12)
        text = f"{name}\n> {tree['threshold'][node]:.3g} ?\n{text}"
    elif tree["left"][node] >= 0:
        text += " …"
    face = matplotlib.colormaps["Blues"](0.08 + 0.75 * share)
    box = {"boxstyle": "round,pad=0.35", "facecolor": face, "edgecolor": MUTED, "linewidth": 0.6}
    style = {"ha": "center", "va": "center", "fontsize": 6.5, "bbox": box}
    axes.text(one.depth, one.row, text, color="white" if share > 0.62 else INK, **style)

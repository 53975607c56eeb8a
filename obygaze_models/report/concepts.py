"""Concepts and bottlenecks: the quality of concept vectors, and the heads on their margins."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import count
from statistics import fmean
from typing import Any

import numpy as np

from obygaze_features.core.figures import INK, MUTED, draw_grid, label_rows
from obygaze_models.protocols.runner.records import Record
from obygaze_models.report.figure import (
    BASELINE,
    MODEL,
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
Place = tuple[int, float]
ORDER_COLORS = {"greedy": MODEL, "random": BASELINE}


def head_name(head: Record) -> str:
    """Return the name of a head: model, store, and the task it was trained for."""
    return f"{head['model']} ({head['feature']}), {head['task']}"


def bank_name(bank: Record) -> str:
    """Return the name of some concept vectors: the store, and the models that use them."""
    return f"{bank['feature']} ({', '.join(bank['models'])})"


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
            names = "; ".join(
                f"{name} ({why})" for name, why in bank["left_out"].items()
            )
            yield sentence("left_out", feature=feature, concepts=names)
    for number, bank in enumerate(run.banks):
        if bank["concepts"]:
            concepts = [_concept_row(concept) for concept in bank["concepts"]]
            references = _reference_rows(bank["concepts"])
            key = f"concepts-{slug(bank['feature'])}"
            yield make_table(
                "concepts",
                f"{key}-{number}",
                [*concepts, *references],
                bank=bank_name(bank),
            )
    scores = ("ctl", "ctl_chance", "icl", "icl_chance")
    leaks = [
        (f"{bank_name(bank)}, {task}", *(Number(leak[score]) for score in scores))
        for bank in run.banks
        for task, leak in (bank.get("leakage") or {}).items()
    ]
    if leaks:
        yield make_table("leakage", "leakage", leaks)
    linear = [head for head in run.heads if head["weights"]]
    for columns, heads in grouped(linear, lambda head: tuple(head["concepts"])).items():
        weights = [(head_name(head), *map(Number, effects(head))) for head in heads]
        yield make_table(
            "weights", f"weights-{slug(heads[0]['feature'])}", weights, columns
        )
        if rules := [
            (head_name(head), *own) for head in heads if (own := head.get("rules"))
        ]:
            yield make_table(
                "rules", f"rules-{slug(heads[0]['feature'])}", rules, columns
            )


def _concept_row(concept: Record) -> Row:
    return (
        concept["name"],
        concept["n_positive"],
        Number(concept["prevalence"]),
        *(number_of(concept, metric) for metric in ("ap", "auc", "f1_binary")),
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
        ap, auc = (
            Number(fmean(own[metric] for own in noise)) for metric in ("ap", "auc")
        )
        mean, least = (
            Number(fmean(own["stability"][end] for own in noise))
            for end in ("mean", "least")
        )
        rows.append(
            ("vectors of random features", None, None, ap, auc, None, None, mean, least)
        )
    for name, end in (
        ("random directions", "mean"),
        ("95th percentile of these", "high"),
    ):
        if random:
            ap, auc = (
                Number(fmean(r[metric][end] for r in random))
                for metric in ("ap", "auc")
            )
            rows.append((name, None, None, ap, auc, *[None] * 4))
    return (
        [Heading("references, means over the concepts", quiet=True), *rows]
        if rows
        else []
    )


def effects(head: Record) -> list[float]:
    """Return the change in the log odds for one standard deviation of each margin."""
    weights = head["weights"]
    return [c * sd for c, sd in zip(weights["coef"], weights["sd"], strict=True)]


def draw_concepts(run: ReportRun, figures: FigureSet) -> None:
    """Draw quality and similarity of concept vectors, then corrections and trees."""
    for number, bank in enumerate(run.banks):
        if bank["concepts"]:
            end = f"{slug(bank['feature'])}" + (f"-{number}" if number else "")
            _draw_quality(bank, f"concepts-{end}", figures)
            side = 1.1 + 0.22 * len(bank["concepts"])
            with figures.draw(
                "cosines", f"cosines-{end}", side, bank=bank_name(bank)
            ) as (_, axes):
                _draw_cosines(axes, bank)
    for kind, draw in (("interventions", _draw_corrections), ("tree", _draw_tree)):
        for head in run.heads:
            if head[kind]:
                name = head_name(head)
                draw(head, name, f"{kind}-{slug(name)}", figures)


def _draw_quality(bank: Record, key: str, figures: FigureSet) -> None:
    concepts = sorted(bank["concepts"], key=lambda one: one["ap"]["value"] or 0.0)
    layout = {"ncols": 2, "sharey": True, "width_ratios": [2, 1]}
    height = 0.6 + 0.27 * len(concepts)
    name = bank_name(bank)
    with figures.draw("concepts", key, height, layout, bank=name) as (_, (left, right)):
        for row, concept in enumerate(concepts):
            _draw_concept(left, right, row, concept)
        names = [f"{one['name']} ({one['n_positive']})" for one in concepts]
        names = [textwrap.fill(name, 22) for name in names]
        label_rows(left, names, upwards=True, fontsize=7.5)
        if noise := [
            own["stability"]["mean"] for c in concepts if (own := c.get("noise"))
        ]:
            draw_reference(right, fmean(noise))
        for axes, label in ((left, "AP"), (right, "cosine")):
            axes.set(xlim=(-0.05, 1.05), xticks=[0, 0.5, 1])
            axes.set_xlabel(label, color=MUTED)
            draw_grid(axes)
            hide_ticks(axes, "left")


def _draw_concept(left: Any, right: Any, row: int, concept: Record) -> None:
    ap = concept["ap"]
    p = concept["p_holm"]
    stability = concept["stability"]
    if None not in ap["ci"]:
        left.plot(ap["ci"], [row, row], color=MODEL, lw=1.7, alpha=0.75)
    face = MODEL if p is not None and p < 0.05 else "white"
    left.scatter(ap["value"], row, s=24, color=face, edgecolor=MODEL, zorder=3)
    left.plot([concept["prevalence"]] * 2, [row - 0.3, row + 0.3], color=INK, lw=1.1)
    right.plot(
        [stability["least"], stability["mean"]], [row, row], color=BASELINE, lw=1.4
    )
    right.scatter(stability["least"], row, s=14, color=BASELINE)
    right.scatter(stability["mean"], row, s=24, color=MODEL, zorder=3)


def _draw_cosines(axes: Any, bank: Record) -> None:
    names = [one["name"] for one in bank["concepts"]]
    table = np.array(bank["cosines"])
    axes.imshow(table, "RdBu_r", vmin=-1.0, vmax=1.0)
    for (y, x), value in np.ndenumerate(table):
        text = f"{value:.1f}".replace("0.", ".").replace("-.0", ".0")
        color = "white" if abs(value) > 0.66 else INK
        axes.text(x, y, text, ha="center", va="center", fontsize=6.5, color=color)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7, color=INK)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    hide_ticks(axes)


def _draw_corrections(head: Record, name: str, key: str, figures: FigureSet) -> None:
    layout = {"nrows": 2, "sharex": True}
    with figures.draw("interventions", key, 3.2, layout, name=name) as (figure, panels):
        for axes, metric, label in zip(
            panels, ("f1", "ap"), ("F1 binary", "AP"), strict=True
        ):
            for curve in head["interventions"]:
                style = {
                    "color": ORDER_COLORS.get(curve["order"], INK),
                    "label": curve["order"],
                }
                axes.plot(curve[metric], lw=1.7, marker="o", ms=2.5, **style)
            axes.set_ylabel(label)
            axes.set_ylim(-0.02, 1.02)
            draw_grid(axes, "y")
        panels[1].set_xlabel("corrected concepts", color=MUTED)
        entries = panels[0].get_legend_handles_labels()
        figure.legend(*entries, fontsize=7.5, loc="outside upper right", ncols=3)


def _draw_tree(head: Record, name: str, key: str, figures: FigureSet) -> None:
    """Draw a tree from left to right; "no" is above "yes" (Figure 5 of the paper)."""
    tree = head["tree"]
    placed = place_nodes(tree, 0, 0, count())
    depth, n_rows = (max(ends) for ends in zip(*placed.values(), strict=True))
    n_rows += 1
    names = {"name": name, "n": head["n"], "n_positive": head["n_positive"]}
    with figures.draw("tree", key, 0.3 + 0.32 * n_rows, **names) as (_, axes):
        for node, place in placed.items():
            for side in ("left", "right"):
                if child := placed.get(tree[side][node]):
                    axes.plot(
                        *zip(place, child, strict=True), color=MUTED, lw=0.8, zorder=0
                    )
            _draw_node(axes, head, node, place, tree["left"][node] in placed)
        axes.set(
            xlim=(-0.45, max(depth, 2) + 0.45),
            ylim=(n_rows - 0.4, -0.6),
            xticks=[],
            yticks=[],
        )
        hide_ticks(axes)


def place_nodes(
    tree: Any, node: int, depth: int, rows: Iterator[int]
) -> dict[int, Place]:
    """Return depth and row by node: leaves in rows, other nodes in the middle of their branches."""
    left = tree["left"][node]
    right = tree["right"][node]
    if left < 0 or depth == MAX_TREE_DEPTH:
        return {node: (depth, next(rows))}
    below = place_nodes(tree, left, depth + 1, rows)
    below |= place_nodes(tree, right, depth + 1, rows)
    return {node: (depth, (below[left][1] + below[right][1]) / 2), **below}


def _draw_node(
    axes: Any, head: Record, node: int, place: Place, is_inner: bool
) -> None:
    import matplotlib

    tree = head["tree"]
    share = head["tree"]["share"][node]
    text = f"{100 * share:.0f} % of {tree['n'][node]}"
    if is_inner:
        name = textwrap.fill(head["concepts"][tree["concept"][node]], 12)
        text = f"{name}\n> {tree['threshold'][node]:.3g} ?\n{text}"
    elif tree["left"][node] >= 0:
        text += " …"
    face = matplotlib.colormaps["Blues"](0.08 + 0.75 * share)
    box = {
        "boxstyle": "round,pad=0.35",
        "facecolor": face,
        "edgecolor": MUTED,
        "linewidth": 0.6,
    }
    style = {"ha": "center", "va": "center", "fontsize": 6.5, "bbox": box}
    axes.text(*place, text, color="white" if share > 0.62 else INK, **style)

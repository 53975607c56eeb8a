"""Concepts and bottlenecks: the quality of concept vectors, and the heads on their margins."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from obygaze_features.core.figures import INK, MUTED, draw_grid, label_rows
from obygaze_models.protocols.results.concepts import (
    Concept,
    ConceptVectors,
    Head,
    Tree,
)
from obygaze_models.report.figure import (
    BASELINE,
    MODEL,
    FigureSet,
    hide_ticks,
)
from obygaze_models.report.lookup import ReportRun, grouped, number_of
from obygaze_models.report.tables import (
    Number,
    Part,
    Row,
    make_table,
    sentence,
    slug,
)

MAX_TREE_DEPTH = 4
Position = tuple[int, float]
ORDER_COLORS = {"greedy": MODEL, "random": BASELINE}


def head_name(head: Head) -> str:
    """Return the name of a head: model, store, and the task it was trained for."""
    return f"{head.model} ({head.feature}), {head.task}"


def bank_name(bank: ConceptVectors) -> str:
    """Return the name of some concept vectors: the store, and the models that use them."""
    return f"{bank.feature} ({', '.join(bank.models)})"


def concepts(run: ReportRun) -> Part:
    """Yield how concepts are evaluated, the tables of concept vectors, then those of the heads."""
    if run.of("concept-model"):
        yield sentence("concepts")
    for bank in run.banks:
        yield from _bank_sentences(bank)
    for number, bank in enumerate(run.banks):
        if bank.concepts:
            rows = [_concept_row(concept) for concept in bank.concepts]
            yield make_table(
                "concepts",
                f"concepts-{slug(bank.feature)}-{number}",
                rows,
                bank=bank_name(bank),
            )
    leaks = _leakage_rows(run.banks)
    if leaks:
        yield make_table("leakage", "leakage", leaks)
    linear = [head for head in run.heads if head.weights]
    for columns, heads in grouped(linear, lambda head: tuple(head.concepts)).items():
        store = slug(heads[0].feature)
        weights = [(head_name(head), *map(Number, effects(head))) for head in heads]
        yield make_table("weights", f"weights-{store}", weights, columns)


def _bank_sentences(bank: ConceptVectors) -> Iterator[str]:
    """Yield what a reader must know of some concept vectors before their table."""
    feature = bank.feature
    leak = bank.film_leak
    if leak:
        yield sentence("film_leak", feature=feature, **leak)
    if bank.note:
        yield sentence("bank_note", feature=feature, note=bank.note)
    if bank.left_out:
        reasons = bank.left_out.items()
        names = "; ".join(f"{name} ({reason})" for name, reason in reasons)
        yield sentence("left_out", feature=feature, concepts=names)


def _leakage_rows(banks: Sequence[ConceptVectors]) -> list[Row]:
    """Return the leakage of concept vectors for each task, with what chance gives."""
    rows: list[Row] = []
    for bank in banks:
        for task, leak in (bank.leakage or {}).items():
            scores = (leak.ctl, leak.ctl_chance, leak.icl, leak.icl_chance)
            rows.append((f"{bank_name(bank)}, {task}", *map(Number, scores)))
    return rows


def _concept_row(concept: Concept) -> Row:
    return (
        concept.name,
        concept.n_positive,
        Number(concept.prevalence),
        number_of(concept.ap),
        number_of(concept.auc),
        number_of(concept.f1_binary),
        Number(concept.p_holm, digits=3, is_p=True),
    )


def effects(head: Head) -> list[float]:
    """Return the change in the log odds for one standard deviation of each margin."""
    weights = head.weights
    if weights is None:
        return []
    return [c * sd for c, sd in zip(weights.coef, weights.sd, strict=True)]


def draw_concepts(run: ReportRun, figures: FigureSet) -> None:
    """Draw the quality of concept vectors, then corrections and trees."""
    for number, bank in enumerate(run.banks):
        if not bank.concepts:
            continue
        end = slug(bank.feature)
        if number:
            end += f"-{number}"
        _draw_quality(bank, f"concepts-{end}", figures)
    for head in run.heads:
        if head.interventions:
            name = head_name(head)
            _draw_corrections(head, name, f"interventions-{slug(name)}", figures)
    for head in run.heads:
        if head.tree:
            name = head_name(head)
            _draw_tree(head, head.tree, name, f"tree-{slug(name)}", figures)


def _draw_quality(bank: ConceptVectors, key: str, figures: FigureSet) -> None:
    concepts = sorted(bank.concepts, key=lambda c: c.ap.value or 0.0)
    height = 0.6 + 0.27 * len(concepts)
    name = bank_name(bank)
    with figures.draw("concepts", key, height, bank=name) as (_, axes):
        for row, concept in enumerate(concepts):
            _draw_concept(axes, row, concept)
        names = [f"{concept.name} ({concept.n_positive})" for concept in concepts]
        wrapped = [textwrap.fill(name, 22) for name in names]
        label_rows(axes, wrapped, upwards=True, fontsize=7.5)
        axes.set(xlim=(-0.05, 1.05), xticks=[0, 0.5, 1])
        axes.set_xlabel("AP", color=MUTED)
        draw_grid(axes)
        hide_ticks(axes, "left")


def _draw_concept(axes: Any, row: int, concept: Concept) -> None:
    ap = concept.ap
    p = concept.p_holm
    if None not in ap.ends:
        axes.plot(ap.ends, [row, row], color=MODEL, lw=1.7, alpha=0.75)
    face = MODEL if p is not None and p < 0.05 else "white"
    axes.scatter(ap.value, row, s=24, color=face, edgecolor=MODEL, zorder=3)
    axes.plot([concept.prevalence] * 2, [row - 0.3, row + 0.3], color=INK, lw=1.1)


def _draw_corrections(head: Head, name: str, key: str, figures: FigureSet) -> None:
    layout = {"nrows": 2, "sharex": True}
    with figures.draw("interventions", key, 3.2, layout, name=name) as (figure, panels):
        labels = {"f1": "F1 binary", "ap": "AP"}
        for axes, metric in zip(panels, labels, strict=True):
            for curve in head.interventions:
                color = ORDER_COLORS.get(curve.order, INK)
                style = {"lw": 1.7, "marker": "o", "ms": 2.5, "color": color}
                values = curve.f1 if metric == "f1" else curve.ap
                axes.plot(values, label=curve.order, **style)
            axes.set_ylabel(labels[metric])
            axes.set_ylim(-0.02, 1.02)
            draw_grid(axes, "y")
        panels[1].set_xlabel("corrected concepts", color=MUTED)
        entries = panels[0].get_legend_handles_labels()
        figure.legend(*entries, fontsize=7.5, loc="outside upper right", ncols=3)


def _draw_tree(head: Head, tree: Tree, name: str, key: str, figures: FigureSet) -> None:
    """Draw a tree from left to right; "no" is above "yes" (Figure 5 of the paper)."""
    position_of = node_positions(tree, 0, 0, count())
    depth = max(x for x, _ in position_of.values())
    n_rows = max(y for _, y in position_of.values()) + 1
    names: dict[str, Any] = {
        "name": name,
        "n": head.n,
        "n_positive": head.n_positive,
    }
    with figures.draw("tree", key, 0.3 + 0.32 * n_rows, **names) as (_, axes):
        for node, position in position_of.items():
            for child_node in (tree.left[node], tree.right[node]):
                child = position_of.get(child_node)
                if child:
                    x, y = zip(position, child, strict=True)
                    axes.plot(x, y, color=MUTED, lw=0.8, zorder=0)
            is_inner = tree.left[node] in position_of
            _draw_node(axes, head, tree, node, position, is_inner)
        axes.set(
            xlim=(-0.45, max(depth, 2) + 0.45),
            ylim=(n_rows - 0.4, -0.6),
            xticks=[],
            yticks=[],
        )
        hide_ticks(axes)


def node_positions(
    tree: Tree, node: int, depth: int, rows: Iterator[int]
) -> dict[int, Position]:
    """Return depth and row by node: leaves in rows, other nodes in the middle of their branches."""
    left = tree.left[node]
    right = tree.right[node]
    if left < 0 or depth == MAX_TREE_DEPTH:
        return {node: (depth, next(rows))}
    below = node_positions(tree, left, depth + 1, rows)
    below |= node_positions(tree, right, depth + 1, rows)
    return {node: (depth, (below[left][1] + below[right][1]) / 2), **below}


def _draw_node(
    axes: Any, head: Head, tree: Tree, node: int, position: Position, is_inner: bool
) -> None:
    import matplotlib

    share = tree.share[node]
    text = f"{100 * share:.0f} % of {tree.n[node]}"
    if is_inner:
        name = textwrap.fill(head.concepts[tree.concept[node]], 12)
        text = f"{name}\n> {tree.threshold[node]:.3g} ?\n{text}"
    elif tree.left[node] >= 0:
        text += " …"
    face = matplotlib.colormaps["Blues"](0.08 + 0.75 * share)
    box = {
        "boxstyle": "round,pad=0.35",
        "facecolor": face,
        "edgecolor": MUTED,
        "linewidth": 0.6,
    }
    color = "white" if share > 0.62 else INK
    style = {"ha": "center", "va": "center", "fontsize": 6.5, "bbox": box}
    axes.text(*position, text, color=color, **style)

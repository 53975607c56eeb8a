"""A decision tree on concept margins, drawn: its questions, thresholds and shares (Figure 5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.figures import INK, MUTED, canvas, save
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.anatomy import TREE_LEVELS, about, parts
from obygaze_models.report.figure import Figure, bare
from obygaze_models.report.tables import slug

CAPTION = (
    "Each box asks whether a concept's margin is above a threshold, in units of the margin: no to "
    "the left, yes to the right. Shade: share of positive clips (pale: few, dark: most). "
    "At most four levels are drawn; dots mean that the tree goes on."
)


@dataclass(frozen=True)
class Placed:
    """A node where it is drawn."""

    node: int
    x: float
    depth: int


def draw_trees(run: Run, folder: Path) -> Iterable[Figure]:
    """One figure a tree."""
    told = CAPTION
    for head in parts(run, "head"):
        if head["tree"]:
            stem = folder / f"tree-{slug(about(head))}"
            svg, png = _draw(head, stem)
            title = f"The tree of {about(head)}"
            yield Figure(stem.name, title, f"{title}. {told}".strip(), svg, png, "concepts")
            told = ""  # once is enough


def _draw(head: Record, stem: Path) -> tuple[Path, Path]:
    tree = head["tree"]
    placed = {one.node: one for one in _place(tree, 0, 0, [0.0])}
    depth = max(one.depth for one in placed.values())
    width = max(one.x for one in placed.values()) + 1
    with canvas(max(4.0, min(1.15 * width, 11.0)), 0.7 + 0.85 * (depth + 1)) as (figure, axes):
        for one in placed.values():
            for side, word in (("left", "no"), ("right", "yes")):
                child = placed.get(tree[side][one.node])
                if child is not None and tree["left"][one.node] >= 0:
                    _line(axes, one, child, word)
        for one in placed.values():
            _box(axes, head, one, tree["left"][one.node] in placed)
        axes.set_xlim(-0.6, width - 0.4)
        axes.set_ylim(-depth - 0.45, 0.45)
        axes.set_xticks([])
        axes.set_yticks([])
        bare(axes)
        axes.set_title(f"{about(head)}: {head['n']} clips, {head['n_positive']} positive")
        return save(figure, stem)


def _place(tree: Any, node: int, depth: int, free: list[float]) -> list[Placed]:
    """Leaves side by side, each question over the middle of its answers."""
    if tree["left"][node] < 0 or depth == TREE_LEVELS:
        free[0] += 1
        return [Placed(node, free[0] - 1, depth)]
    left = _place(tree, tree["left"][node], depth + 1, free)
    right = _place(tree, tree["right"][node], depth + 1, free)
    return [Placed(node, (left[0].x + right[0].x) / 2, depth), *left, *right]


def _line(axes: Any, one: Placed, child: Placed, word: str) -> None:
    axes.plot([one.x, child.x], [-one.depth, -child.depth], color=MUTED, lw=0.8, zorder=0)
    x, y = (one.x + child.x) / 2, -(one.depth + child.depth) / 2
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    axes.text(x, y, word, fontsize=6, color=MUTED, ha="center", va="center", bbox=ground)


def _box(axes: Any, head: Record, one: Placed, asked: bool) -> None:
    import matplotlib

    tree, node = head["tree"], one.node
    share, n = tree["share"][node], tree["n"][node]
    counted = f"{100 * share:.0f} % of {n}"
    if asked:
        name = head["concepts"][tree["concept"][node]]
        text = f"{_wrapped(name)}\n> {tree['threshold'][node]:.3g} ?\n{counted}"
    else:
        text = counted + ("\n…" if tree["left"][node] >= 0 else "")
    face = matplotlib.colormaps["Blues"](0.08 + 0.75 * share)
    color = "white" if share > 0.62 else INK
    style = {"boxstyle": "round,pad=0.35", "facecolor": face, "edgecolor": MUTED, "linewidth": 0.6}
    axes.text(
        *(one.x, -one.depth, text), ha="center", va="center", fontsize=7, color=color, bbox=style
    )


def _wrapped(name: str) -> str:
    """A long concept name on two lines."""
    import textwrap

    return "\n".join(textwrap.wrap(name, 14))

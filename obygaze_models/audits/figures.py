"""Parts of figures that several audits draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BLUE, RED = "#4f7ea3", "#a8324a"


def label_rows(axes: Any, labels: Sequence[str], top: float = 0.4) -> None:
    """Label rows 0, 1, ... from the bottom up, without tick marks; `top` is the space above."""
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.6, max(len(labels), 1) - top)


def note_beside(axes: Any, row: int, text: str, *, offset: float, size: float, color: str) -> None:
    """Write a note to the right of the axes, at the height of a row."""
    axes.annotate(
        text,
        (1.0, row),
        xycoords=("axes fraction", "data"),
        xytext=(offset, 0),
        textcoords="offset points",
        va="center",
        fontsize=size,
        color=color,
    )


def draw_grid(axes: Any) -> None:
    """Draw light vertical lines behind the data."""
    axes.xaxis.grid(visible=True, color="#ecebe7", lw=0.7)
    axes.set_axisbelow(True)

"""The figure of a co-occurrence audit: each thing between the two genders."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.core.figures import INK, MUTED, canvas, save

if TYPE_CHECKING:
    from obygaze_models.audits.cooc_audit import CoocAudit
    from obygaze_models.audits.cooccurrence import CoOccurrence

FIRST, SECOND, RANGE = "#4f7ea3", "#a8324a", "#d4d4d0"
MAX_ROWS = 40


def draw_cooc(audit: CoocAudit, stem: Path) -> tuple[Path, Path]:
    """A dot a thing, its interval behind it; a ring where the predictions are."""
    things = [thing for thing in audit.things if thing.share is not None]
    things = sorted(things, key=lambda thing: -sum(thing.counts.values()))[:MAX_ROWS]
    things.sort(key=lambda thing: thing.share or 0.0)
    moved = audit.amplification.shares if audit.amplification else {}
    with canvas(7.2, 1.3 + 0.24 * len(things)) as (figure, axes):
        for row, thing in enumerate(things):
            _draw(axes, row, thing, moved.get(thing.thing))
        if not things:
            axes.text(0.5, 0, "no text has a gendered word", ha="center", color=MUTED)
        names = [textwrap.shorten(thing.thing, 48, placeholder=" …") for thing in things]
        axes.set_yticks(range(len(things)), names)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.6, max(len(things), 1) - 0.4)
        axes.axvline(0.5, color=MUTED, lw=0.8, zorder=0)
        axes.set_xlim(-0.02, 1.02)
        first, second = audit.genders
        axes.set_xlabel(f"{second}  ←  share of gendered texts  →  {first}", color=MUTED)
        axes.set_title("Which gender things keep company with")
        _legend(figure, axes, audit)
        return save(figure, stem)


def _draw(axes: Any, row: int, thing: CoOccurrence, moved: float | None) -> None:
    share = thing.share or 0.0
    color = MUTED if share == 0.5 else FIRST if share > 0.5 else SECOND
    ci = thing.to_json()["ci"]
    if ci and ci[0] is not None and ci[1] is not None:
        axes.plot(ci, [row, row], color=RANGE, lw=4, solid_capstyle="butt", zorder=1)
    if moved is not None:
        axes.annotate(
            "",
            (moved, row),
            (share, row),
            arrowprops={"arrowstyle": "->", "color": INK, "lw": 0.9, "shrinkA": 0, "shrinkB": 0},
        )
    axes.scatter(share, row, s=34, color=color, zorder=3)
    n = sum(thing.counts.values())
    axes.annotate(
        f"n = {n}",
        (1.0, row),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=7,
        color=MUTED,
    )


def _legend(figure: Any, axes: Any, audit: CoocAudit) -> None:
    if any(thing.interval for thing in audit.things):
        axes.plot([], [], color=RANGE, lw=4, label="95 % over clusters")
    if audit.amplification is not None:
        axes.plot([], [], color=INK, lw=0.9, label=f"arrow: to {audit.compared}")
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=2, fontsize=8)

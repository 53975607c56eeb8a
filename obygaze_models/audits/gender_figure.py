"""The figure of a gender-score audit: how far each caption leans, and to whom."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from obygaze_features.core.figures import INK, MUTED, canvas, save

if TYPE_CHECKING:
    from obygaze_models.audits.gender_audit import GenderAudit

MAN, WOMAN = "#4f7ea3", "#a8324a"
MAX_BARS = 30


def draw_gender(audit: GenderAudit, stem: Path) -> tuple[Path, Path]:
    """A bar a caption where there are few, a histogram where there are many."""
    leans = [
        (row.to_json()["caption"], row.ratio_to_man)
        for row in audit.estimates
        if row.ratio_to_man is not None
    ]
    if leans and len(leans) <= MAX_BARS:
        return _bars(leans, stem)
    if leans:
        values = np.array([ratio for _, ratio in leans])
        return _histogram(values, stem, "Share of the man's wording in each caption's scores", True)
    scores = np.array([row.to_json()["score"] for row in audit.rows])
    return _histogram(scores, stem, "Gender scores", False)


def _bars(leans: list[tuple[str, float]], stem: Path) -> tuple[Path, Path]:
    leans = sorted(leans, key=lambda lean: lean[1])
    texts = [textwrap.shorten(text, 56, placeholder=" …") for text, _ in leans]
    reach = max(10.0, *(abs(ratio - 50) for _, ratio in leans)) * 1.3
    with canvas(7.2, 1.2 + 0.27 * len(leans)) as (figure, axes):
        for row, (_, ratio) in enumerate(leans):
            color = MAN if ratio >= 50 else WOMAN
            axes.barh(row, ratio - 50, left=50, height=0.62, color=color)
            side = 1 if ratio >= 50 else -1
            axes.annotate(
                f"{max(ratio, 100 - ratio):.1f} %",
                (ratio, row),
                xytext=(4 * side, 0),
                textcoords="offset points",
                ha="left" if side > 0 else "right",
                va="center",
                fontsize=7,
                color=INK,
            )
        axes.set_yticks(range(len(leans)), texts, fontsize=7.5)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(50 - reach, 50 + reach)
        _sides(axes)
        axes.set_title("Which wording each caption leans to")
        return save(figure, stem)


def _histogram(values: Any, stem: Path, title: str, ratios: bool) -> tuple[Path, Path]:
    low, high = (0.0, 100.0) if ratios else (0.0, 1.0)
    bins = np.linspace(low, high, 41)
    with canvas(7.2, 3.0) as (figure, axes):
        counts, edges = np.histogram(values, bins)
        colors = [MAN if not ratios or edge >= 50 else WOMAN for edge in edges[:-1]]
        axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=colors, edgecolor="white")
        mean = float(values.mean())
        axes.axvline(mean, color=INK, lw=1)
        axes.annotate(
            f"mean {mean:.3g}",
            (mean, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -8),
            textcoords="offset points",
            fontsize=8,
        )
        axes.set_ylabel("captions", color=MUTED)
        axes.yaxis.get_major_locator().set_params(integer=True)
        if ratios:
            _sides(axes)
        else:
            axes.set_xlabel("score", color=MUTED)
        axes.set_title(title)
        return save(figure, stem)


def _sides(axes: Any) -> None:
    axes.axvline(50, color=MUTED, lw=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{max(value, 100 - value):.0f} %")
    axes.set_xlabel("woman  ←  share of the two scores  →  man", color=MUTED)

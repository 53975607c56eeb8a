"""The figure of a caption audit: how often each list's words come, group by group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.core.figures import MUTED, canvas, save
from obygaze_models.audits.captions import rates_by_group

if TYPE_CHECKING:
    from obygaze_models.audits.caption_audit import CaptionAudit

COLORS = ("#4f7ea3", "#a8324a", "#e3a857", "#5f8f6b", "#8a6fa8", "#77756f")


MAX_GROUPS = 60


def draw_captions(audit: CaptionAudit, stem: Path) -> tuple[Path, Path]:
    """One panel a list, one row a group; a bar for the rate, a line for its interval."""
    nested = rates_by_group(audit.rates)
    groups = sorted({rate.group for rate in audit.rates})[:MAX_GROUPS]
    panels = len(nested)
    with canvas(7.2, 1.0 + 0.26 * len(groups), ncols=panels, sharey=True, squeeze=False) as (
        figure,
        all_axes,
    ):
        most = max(_reach(rate) for rate in audit.rates) or 1.0
        for axes, (words, by_group) in zip(all_axes[0], nested.items(), strict=True):
            for row, group in enumerate(reversed(groups)):
                color = COLORS[groups.index(group)] if len(groups) <= len(COLORS) else COLORS[0]
                _bar(axes, row, by_group[group], color)
            axes.set_title(words)
            axes.set_xlim(0, 1.05 * most)
            axes.set_ylim(-0.6, len(groups) - 0.4)
            axes.xaxis.grid(visible=True, color="#ecebe7", lw=0.7)
            axes.set_axisbelow(True)
            axes.tick_params(axis="y", length=0)
        all_axes[0][0].set_yticks(range(len(groups)), list(reversed(groups)))
        figure.supxlabel("words per thousand captions, 95 % over clusters", fontsize=8, color=MUTED)
        return save(figure, stem)


def _bar(axes: Any, row: int, rate: Any, color: str) -> None:
    value = rate.occurrences_per_1000
    axes.barh(row, value, height=0.66, color=color)
    low, high = rate.to_json()["ci"]
    if low is not None and high is not None:
        axes.plot([low, high], [row, row], color="#2b2b2b", lw=1.1)


def _reach(rate: Any) -> float:
    high = rate.to_json()["ci"][1]
    return max(float(rate.occurrences_per_1000), float(high or 0.0))

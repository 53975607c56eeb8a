"""The figure of a MediaEval audit: each run's score, what ties could do to it, and chance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.core.figures import INK, MUTED, canvas, save

if TYPE_CHECKING:
    from obygaze_models.audits.mediaeval_audit import MediaEvalAudit

DOT, RANGE, CHANCE = "#a8324a", "#dfb3bb", "#7fa8c9"


@dataclass(frozen=True)
class _Dot:
    label: str
    value: float
    low: float
    high: float
    chance: float
    majority: float | None = None


def draw_mediaeval(audit: MediaEvalAudit, stem: Path) -> tuple[Path, Path]:
    """One panel for average precision, one for accuracy; only those that there are runs of."""
    panels = [panel for panel in (_violence(audit), _affect(audit)) if panel[1]]
    heights = [len(dots) + 0.6 for _, dots in panels]
    size = 0.9 + 0.36 * sum(heights) + 0.45 * len(panels)
    with canvas(7.2, size, nrows=len(panels), height_ratios=heights, squeeze=False) as (
        figure,
        all_axes,
    ):
        for axes, (title, dots) in zip(all_axes[:, 0], panels, strict=True):
            _panel(axes, title, dots)
        _legend(figure, [dot for _, dots in panels for dot in dots])
        return save(figure, stem)


def _violence(audit: MediaEvalAudit) -> tuple[str, list[_Dot]]:
    dots = [
        _Dot(
            run.path.name,
            run.violence.ap_trec,
            run.violence.ap_ties_worst,
            run.violence.ap_ties_best,
            run.violence.ap_random,
        )
        for run in audit.runs
        if run.violence is not None
    ]
    return "Violence: average precision (trec_eval)", dots


def _affect(audit: MediaEvalAudit) -> tuple[str, list[_Dot]]:
    dots = []
    for run in audit.runs:
        for name in ("valence", "arousal"):
            score = getattr(run, name)
            if score is not None:
                # What the run could still reach by guessing the clips it did not return.
                high = score.accuracy + (score.n - score.n_returned) / score.n
                label = f"{run.path.name}, {name}"
                told = (score.accuracy, score.accuracy, high, score.random, score.majority)
                dots.append(_Dot(label, *told))
    return "Valence and arousal: accuracy over all clips", dots


def _panel(axes: Any, title: str, dots: list[_Dot]) -> None:
    for row, dot in enumerate(reversed(dots)):
        axes.plot([dot.low, dot.high], [row, row], color=RANGE, lw=6, solid_capstyle="butt")
        axes.plot([dot.chance] * 2, [row - 0.3, row + 0.3], color=CHANCE, lw=2)
        if dot.majority is not None:
            axes.plot([dot.majority] * 2, [row - 0.3, row + 0.3], color=MUTED, lw=2)
        axes.scatter(dot.value, row, s=44, color=DOT, zorder=3)
        axes.annotate(
            f"{dot.value:.3f}",
            (dot.value, row),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color=INK,
        )
    axes.set_yticks(range(len(dots)), [dot.label for dot in reversed(dots)])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.6, len(dots) - 0.2)
    most = max(max(dot.high, dot.chance, dot.majority or 0.0) for dot in dots)
    axes.set_xlim(0, min(1.02, 1.15 * most))
    axes.xaxis.grid(visible=True, color="#ecebe7", lw=0.7)
    axes.set_axisbelow(True)
    axes.set_title(title)


def _legend(figure: Any, dots: list[_Dot]) -> None:
    axes = figure.axes[-1]
    axes.scatter([], [], s=44, color=DOT, label="score")
    if any(dot.high > dot.low for dot in dots):
        label = "other orders of ties, or clips not returned"
        axes.plot([], [], color=RANGE, lw=6, label=label)
    axes.plot([], [], color=CHANCE, lw=2, label="chance")
    if any(dot.majority is not None for dot in dots):
        axes.plot([], [], color=MUTED, lw=2, label="majority class")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)

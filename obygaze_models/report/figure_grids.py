"""A small picture a cell: what is taken for what, and whether probabilities mean what they say."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from obygaze_features.core.figures import INK, MUTED, canvas, save
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.figure import MODEL, PALE, Figure, bare
from obygaze_models.report.tables import slug
from obygaze_models.report.words import pair_name, stores_of

MOST_ROWS, MOST_COLUMNS = 12, 6
CONFUSION = (
    "Rows of each square: annotators say no, yes; columns: the model says no, yes. "
    "Shade: share of the row, so that a dark diagonal is a good model."
)
CALIBRATION = (
    "Across: the model's probability in ten bins. Up: share of positives among those clips. On the "
    "line, probabilities mean what they say. Size: number of clips."
)
Draw = Callable[[Any, Record], None]


def draw_confusion(run: Run, folder: Path) -> Iterable[Figure]:
    """Counts of the four outcomes, a row a pair of tasks, a column a model."""
    for store in stores_of(run):
        cells = [c for c in run.cells if c["feature"] == store and c.get("confusion")]
        if cells:
            stem = folder / f"confusion-{slug(store)}"
            svg, png = _grid(cells, _confusion, stem, size=0.86, shared=False)
            title = f"What is taken for what, {store}"
            yield Figure(stem.name, title, CONFUSION + _left_out(cells), svg, png, "decisions")


def draw_calibration(run: Run, folder: Path) -> Iterable[Figure]:
    """How often a clip is positive where a model says how probable that is."""
    for store in stores_of(run):
        cells = [c for c in run.cells if c["feature"] == store and c.get("calibration")]
        if cells:
            stem = folder / f"calibration-{slug(store)}"
            svg, png = _grid(cells, _calibration, stem, size=1.05, shared=True)
            title = f"Calibration, {store}"
            yield Figure(stem.name, title, CALIBRATION + _left_out(cells), svg, png, "decisions")


def _left_out(cells: Sequence[Record]) -> str:
    """What a grid has no room for is said, not dropped without a word."""
    n_pairs, n_models = (len(set(found)) for found in (map(_pair, cells), map(_model, cells)))
    told = []
    if n_models > MOST_COLUMNS:
        told.append(f"the first {MOST_COLUMNS} of {n_models} models")
    if n_pairs > MOST_ROWS:
        told.append(f"the first {MOST_ROWS} of {n_pairs} pairs of tasks")
    return f" Shown are {' and '.join(told)}." if told else ""


def _pair(cell: Record) -> tuple[str, str]:
    return cell["train"], cell["test"]


def _model(cell: Record) -> str:
    return str(cell["model"])


def _folded(name: str, width: int) -> str:
    """A name in lines that fit above a small picture."""
    return textwrap.fill(name, width)


def _grid(
    cells: Sequence[Record], draw: Draw, stem: Path, *, size: float, shared: bool
) -> tuple[Path, Path]:
    pairs = list(dict.fromkeys(map(_pair, cells)))[:MOST_ROWS]
    models = list(dict.fromkeys(map(_model, cells)))[:MOST_COLUMNS]
    found = {(_pair(cell), _model(cell)): cell for cell in cells}
    titles = [_folded(model, round(17 * size)) for model in models]
    lines = max(title.count("\n") for title in titles)
    layout = {"nrows": len(pairs), "ncols": len(models), "squeeze": False}
    layout |= {"sharex": shared, "sharey": shared}
    width = 1.5 + (size + 0.35) * len(models)
    with canvas(width, 0.5 + 0.13 * lines + (size + 0.14) * len(pairs), **layout) as (figure, grid):
        for row, pair in enumerate(pairs):
            for column, model in enumerate(models):
                axes = grid[row, column]
                if row == 0:
                    axes.set_title(titles[column], fontsize=8, loc="center")
                if column == 0:
                    label = pair_name(*pair).replace(" → ", "\n→ ")
                    axes.set_ylabel(label, fontsize=8, rotation=0, ha="right", va="center")
                if (pair, model) in found:
                    draw(axes, found[pair, model])
                else:
                    axes.axis("off")
        return save(figure, stem)


def _confusion(axes: Any, cell: Record) -> None:
    counts = cell["confusion"]
    table = [[counts["tn"], counts["fp"]], [counts["fn"], counts["tp"]]]
    shares = [[n / max(sum(row), 1e-9) for n in row] for row in table]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.25, aspect="equal")
    for y, row in enumerate(table):
        for x, count in enumerate(row):
            color = "white" if shares[y][x] > 0.7 else INK
            axes.text(x, y, f"{count:.0f}", ha="center", va="center", fontsize=8, color=color)
    axes.set_xticks([])
    axes.set_yticks([0, 1], ["no", "yes"], fontsize=6, color=MUTED)
    bare(axes)


def _calibration(axes: Any, cell: Record) -> None:
    bins = [found for found in cell["calibration"] if found["n"]]
    axes.plot([0, 1], [0, 1], color=MUTED, lw=0.7, ls=(0, (3, 3)))
    total = max(sum(found["n"] for found in bins), 1)
    axes.plot([b["score"] for b in bins], [b["share"] for b in bins], color=PALE, lw=1.2, zorder=1)
    axes.scatter(
        [b["score"] for b in bins],
        [b["share"] for b in bins],
        s=[6 + 70 * found["n"] / total for found in bins],
        color=MODEL,
        alpha=0.85,
        lw=0,
        zorder=2,
    )
    axes.set_xlim(-0.06, 1.06)
    axes.set_ylim(-0.06, 1.06)
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"], fontsize=6.5)
    axes.set_yticks([0, 0.5, 1], ["0", ".5", "1"], fontsize=6.5)

"""Figures of results: models beside baselines, values film by film, what makes a clip hard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.figures import INK, MUTED, canvas, save, spread_dots
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.figure import BLIND, MODEL, PALE, WRONG, Figure, bare, rule
from obygaze_models.report.tables import slug
from obygaze_models.report.words import (
    are_own_tests,
    chance_of,
    is_one_film,
    level_of,
    merged_baselines,
    metric_name,
    number_of,
    pair_name,
    primary,
    stores_of,
    value_of,
    with_store,
)

Row = tuple[str, Record | None]
INTERVALS = (
    "Dots: all clips of unseen folds. Lines: where other films could have put them. "
    "Grey: baselines that see no feature; open: the ceiling. Orange: some test clips were seen in "
    "training. Dashed, for AP and AUC: what a random order scores."
)
FILMS = "Each dot is a model; a film's models share a line."


def draw_intervals(run: Run, folder: Path) -> Iterable[Figure]:
    """The primary metric with its interval over films; baselines, each once, below."""
    metric = primary(run)
    if are_own_tests(run):
        yield from _by_task(run, metric, folder)
        return
    for test in _tests(run):
        rows = _rows(run, test)
        with canvas(7.2, 0.95 + 0.19 * len(rows)) as (figure, axes):
            _draw_rows(axes, rows, metric, level_of(run))
            axes.set_title(f"Tested on {test}")
            svg, png = save(figure, folder / f"intervals-{slug(test)}")
        yield Figure(svg.stem, f"Intervals, tested on {test}", INTERVALS, svg, png, "results")


def _by_task(run: Run, metric: str, folder: Path) -> Iterable[Figure]:
    """Many tasks, each tested on itself: a row a task (concepts, as in Figure 3)."""
    stores = stores_of(run)
    rows: list[Row] = []
    for name in dict.fromkeys(with_store(cell, stores) for cell in run.cells):
        own = [cell for cell in run.cells if with_store(cell, stores) == name]
        own.sort(key=lambda cell: -(value_of(cell, metric) or -1.0))
        rows += [(name, None), *((f"{cell['test']}  ", cell) for cell in own)]
    with canvas(7.2, 0.95 + 0.22 * len(rows)) as (figure, axes):
        _draw_rows(axes, rows, metric, level_of(run), ticks=True)
        svg, png = save(figure, folder / "intervals")
    caption = INTERVALS.split(" Grey:")[0] + " Tick: what a random order scores."
    yield Figure("intervals", "Intervals by task", caption, svg, png, "results")


def _rows(run: Run, test: str) -> list[Row]:
    stores = stores_of(run)
    rows: list[Row] = []
    for train in _trains(run, test):
        own = [c for c in run.cells if (c["train"], c["test"]) == (train, test)]
        rows += [(f"trained on {train}", None), *((with_store(c, stores), c) for c in own)]
    blind = merged_baselines([r for r in run.baselines if r["test"] == test])
    if blind:
        rows.append(("no feature seen", None))
    for names, trains, record in blind:
        rows.append((_short(names, trains), record))
    return rows


def _short(names: str, trains: str) -> str:
    listed = names.split(", ")
    told = names if len(listed) < 3 else f"{listed[0]} and {len(listed) - 1} more"
    return told if trains == "any task" else f"{told} · {trains}"


def _draw_rows(
    axes: Any, rows: Sequence[Row], metric: str, level: str, *, ticks: bool = False
) -> None:
    records = [record for _, record in rows if record]
    for place, (_, record) in enumerate(rows):
        if record is None:
            continue
        _interval(axes, place, record, metric)
        if ticks:
            axes.plot(
                [chance_of(record, metric)] * 2, [place - 0.32, place + 0.32], color=INK, lw=1
            )
    if not ticks and records and metric in ("ap", "auc"):
        rule(axes, chance_of(records[0], metric))
    labels = [name if record else f"{name}" for name, record in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=7.5)
    for label, (_, record) in zip(axes.get_yticklabels(), rows, strict=True):
        if record is None:
            label.set(fontweight="bold", color=MUTED)
    axes.set_ylim(len(rows) - 0.4, -0.7)
    axes.set_xlim(-0.01, 1.01)
    axes.xaxis.grid(visible=True, color=PALE, lw=0.7)
    axes.set_axisbelow(True)
    bare(axes, "left")
    axes.set_xlabel(f"{metric_name(metric)}, {level} interval over films", color=MUTED)


def _interval(axes: Any, place: int, record: Record, metric: str) -> None:
    number = number_of(record, metric)
    if number is None or number.value is None:
        return
    color = WRONG if record["leaked"] else MODEL if record["kind"] == "cell" else BLIND
    if number.interval:
        axes.plot([number.low, number.high], [place, place], color=color, lw=1.7, alpha=0.75)
    face = "white" if record.get("ceiling") else color
    axes.scatter(number.value, place, s=24, color=face, edgecolor=color, zorder=3)


def _tests(run: Run) -> list[str]:
    return list(dict.fromkeys(cell["test"] for cell in run.cells))


def _trains(run: Run, test: str) -> list[str]:
    return list(dict.fromkeys(cell["train"] for cell in run.cells if cell["test"] == test))


def draw_films(run: Run, folder: Path) -> Iterable[Figure]:
    """The primary metric film by film, a panel a test: how much one film differs from the next."""
    metric, tests = primary(run), _tests(run)[:4]
    films = sorted({film for cell in run.cells for film in cell["by_movie"]})
    if len(films) < 2:
        return
    layout = {"ncols": len(tests), "sharey": True, "sharex": True, "squeeze": False}
    with canvas(7.2, 1.0 + 0.2 * len(films), **layout) as (figure, grid):
        for axes, test in zip(grid[0], tests, strict=True):
            for row, film in enumerate(films):
                cells = [cell for cell in run.cells if cell["test"] == test]
                _film_row(axes, row, [c["by_movie"].get(film, {}).get(metric) for c in cells])
            axes.set_title(test, fontsize=9)
            axes.set_xlabel(metric_name(metric), color=MUTED)
            bare(axes, "left")
        grid[0, 0].set_yticks(range(len(films)), films)
        grid[0, 0].set_ylim(len(films) - 0.4, -0.6)
        grid[0, 0].set_xlim(-0.03, 1.03)
        svg, png = save(figure, folder / "films")
    yield Figure("films", "Film by film", FILMS, svg, png, "films")


def _film_row(axes: Any, row: int, values: Sequence[float | None]) -> None:
    known = [value for value in values if value is not None]
    if known:
        axes.plot([min(known), max(known)], [row, row], color=PALE, lw=4, zorder=0)
        moved = spread_dots(known, 0.02)
        step = min(0.2, 0.35 / max(map(abs, moved), default=1) if any(moved) else 0.2)
        places = [row + step * one for one in moved]
        axes.scatter(known, places, s=16, color=MODEL, alpha=0.6, lw=0)


def draw_factors(run: Run, folder: Path) -> Iterable[Figure]:
    """What makes success likelier: log odds of each factor, all films and each (Figure 6)."""
    cells: dict[tuple[str, ...], list[Record]] = {}
    for record in run.of("analysis"):
        key = (record["model"], record["feature"], record["train"], record["test"])
        cells.setdefault(key, []).append(record)
    for (model, feature, train, test), own in cells.items():
        stem = folder / f"factors-{slug(f'{model}-{feature}-{train}-{test}')}"
        names = list(dict.fromkeys(f["name"] for record in own for f in record["factors"]))
        if not names:
            continue
        with canvas(7.2, 1.0 + 0.26 * len(names)) as (figure, axes):
            for record in own:
                _factors(axes, record, names)
            axes.axvline(0, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.4, -0.6)
            axes.set_xlim(*_limits(own))
            bare(axes, "left")
            axes.set_xlabel("log odds of success", color=MUTED)
            axes.set_title(f"{model} ({feature}), {pair_name(train, test)}")
            svg, png = save(figure, stem)
        caption = (
            "Blue: all films, with 95 % intervals. Grey dots: one film each. "
            "Right of the dashed line the model is right more often."
        )
        yield Figure(stem.name, f"Factors of success, {model}", caption, svg, png, "analysis")


def _factors(axes: Any, record: Record, names: Sequence[str]) -> None:
    for factor in record["factors"]:
        place = names.index(factor["name"])
        if is_one_film(record):
            axes.scatter(factor["log_odds"], place, s=14, color=BLIND, alpha=0.7, lw=0, zorder=1)
        elif None not in (factor["low"], factor["high"]):
            ends = [factor["low"], factor["high"]]
            axes.plot(ends, [place, place], color=MODEL, lw=1.8, zorder=2)
            axes.scatter(factor["log_odds"], place, s=28, color=MODEL, zorder=3)


def _limits(records: Sequence[Record]) -> tuple[float, float]:
    """Wide enough for the whole; a film where a factor decides alone may fall off the edge."""
    whole = [r for r in records if not is_one_film(r)] or records
    ends = [
        abs(f[k]) for r in whole for f in r["factors"] for k in ("low", "high") if f[k] is not None
    ]
    widest = float(np.clip(1.15 * max(ends, default=2.0), 1.0, 12.0))
    return -widest, widest

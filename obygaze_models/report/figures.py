"""The figures of a page. Each is drawn from rows of tables, and is a file of its own, too."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

from obygaze_features.core.console import count as count_text
from obygaze_features.core.figures import (
    COLORS,
    LABEL_WIDTH,
    RIGHT_OF_ROWS,
    WIDTH,
    Look,
    canvas,
    draw_dots,
    draw_label,
    draw_legend,
    drawn,
    page_markup,
    row_canvas,
    spread_dots,
    wrapped,
)
from obygaze_features.core.outside import safe_text
from obygaze_features.core.parts import label_of
from obygaze_models.evaluation.bootstrap import (
    CONFIDENCE,
    FEW_GROUPS,
    NEARLY_PERFECT,
)
from obygaze_models.evaluation.metrics import RANKING_METRICS, goodness, metric_name
from obygaze_models.protocols.schedule import Pair
from obygaze_models.report.lookup import (
    ReportRun,
    grouped_by,
    leaked_of,
    pair_name,
    pair_of_cell,
)
from obygaze_models.report.tables import Heading, slug
from obygaze_models.evaluation.basis import LEAKED
from obygaze_models.runner.rows import NodeRow, SuccessRow
from obygaze_models.runner.summary import (
    CellRows,
    Gain,
    difference_text,
    film_values,
    short,
)

ROW_HEIGHT = 29  # in points, as all sizes here
HEADING_HEIGHT = 22
SUCCESS_HEIGHT = 23
LEGEND_HEIGHT = 24
DOT = 9
FILM_DOT = 5.2
POINT = 1.6
DOT_APART = 5.3  # two dots that are nearer cover each other
MOST_DOTS = 200  # of films in a row; more are points without names
DEPTH_OF_TREE = 4
BOX_WIDTH = 96
BOX_HEIGHT = 48
LETTERS_OF_BOX = 17
FILM: dict[str, Any] = {"alpha": 0.65}
OPEN: dict[str, Any] = {"is_open": True}

# A row of a figure: its label and a cell, or a heading above rows.
CellRow = tuple[str, CellRows] | Heading


@dataclass(frozen=True)
class Figure:
    """A matplotlib figure with its file name, its title, and what it shows."""

    key: str
    title: str
    caption: str
    drawing: Any

    @cached_property
    def svg(self) -> bytes:
        """The figure as a file."""
        return drawn(self.drawing, ".svg", self.title)

    def markup(self, chapter: int) -> str:
        """Return the figure as an element of a chapter of a page."""
        return page_markup(self.svg, f"{self.key}-{chapter}")

    def file(self, suffix: str) -> bytes:
        """Return the figure as a file of its own: .svg, .png or .pdf."""
        return self.svg if suffix == ".svg" else drawn(self.drawing, suffix)


# ---- values over films ----


def figure_of_pair(run: ReportRun, pair: Pair) -> Figure:
    """Return the models of a pair of tasks and the best guess, each film as a dot."""
    cells = [cell for cell in run.cells if pair_of_cell(cell) == pair]
    rows = _rows_of(run, cells)
    title = f"{_of_each_film(run)}, {pair_name(*pair)}"
    return _figure_of_cells(
        run, f"films-{slug(*dict.fromkeys(pair))}", title, rows, run.ranking
    )


def figure_of_senses(run: ReportRun, gain: Gain) -> Figure:
    """Return each store alone, the one that training films choose, the gain, and joined."""
    rows: list[CellRow] = [(cell.store, cell) for cell in gain.parts]
    rows.append((f"chosen on training {run.units}", gain.chosen))
    rows.append(
        Heading(f"gain, {gain.joined.store} minus chosen: {difference_text(gain.row)}")
    )
    rows.append((gain.joined.store, gain.joined))
    model = label_of(gain.joined.model)
    pair = pair_of_cell(gain.joined)
    title = f"{metric_name(run.ranking)} of {model} by store, {pair_name(*pair)}"
    return _figure_of_cells(run, "senses", title, rows, run.ranking)


def figures_of_tasks(run: ReportRun) -> Iterator[Figure]:
    """Yield a figure for each test task; where tasks have rows, such as concepts, one for a model.

    The pair of tasks on the first screen has its figure there.
    """
    in_rows = {
        name: task for name, task in run.protocol["tasks"].items() if task["row"]
    }
    together = [cell for cell in run.cells if cell.test in in_rows]
    for label, cells in grouped_by(together, run.label).items():
        rows: list[CellRow] = []
        for row, of_row in grouped_by(cells, lambda c: in_rows[c.test]["row"]).items():
            rows.append(Heading(row))
            for cell in of_row:
                series = in_rows[cell.test]["series"] or cell.test
                if len({other.train for other in cells}) > 1:
                    series = f"{series}, trained on {cell.train}"
                rows.append((series, cell))
        for metric in dict.fromkeys((run.primary, run.ranking)):
            title = f"{metric_name(metric)} side by side, {label}"
            key = f"side-by-side-{slug(metric, label)}"
            yield _figure_of_cells(run, key, title, rows, metric)
    alone = [cell for cell in run.cells if cell.test not in in_rows]
    for test, cells in grouped_by(alone, lambda cell: cell.test).items():
        pairs = {pair_of_cell(cell) for cell in cells}
        if run.main is not None and pairs == {pair_of_cell(run.main)}:
            continue
        title = f"{_of_each_film(run)}, tested on {test}"
        rows = _rows_of(run, cells)
        yield _figure_of_cells(run, f"tested-on-{slug(test)}", title, rows, run.ranking)


def _of_each_film(run: ReportRun) -> str:
    metric = metric_name(run.ranking)
    return f"{metric} of each {run.unit}" if run.has_groups else metric


def _rows_of(run: ReportRun, cells: Sequence[CellRows]) -> list[CellRow]:
    """Return the rows of a test task: models below their training task, then the best guess."""
    rows: list[CellRow] = []
    by_train = grouped_by(cells, lambda cell: cell.train)
    for train, of_train in by_train.items():
        if len(by_train) > 1:
            rows.append(Heading(f"trained on {train}"))
        rows += [(run.label(cell), cell) for cell in of_train]
    guess = run.guess_of(cells[0], run.ranking)
    if guess is not None:
        if len(by_train) > 1:
            rows.append(Heading(f"without video, trained on {guess.train}"))
        rows.append((f"best guess ({run.label(guess)})", guess))
    return rows


def _figure_of_cells(
    run: ReportRun, key: str, title: str, rows: Sequence[CellRow], metric: str
) -> Figure:
    cells = [row[1] for row in rows if not isinstance(row, Heading)]
    entries: dict[str, Look] = {f"model, all {run.units}": ("model", DOT, {})}
    if run.has_groups:
        better = f"{run.unit}: better than the best guess"
        entries[better] = ("model", FILM_DOT, FILM)
        entries["not better"] = ("model", FILM_DOT, OPEN)
    if run.has_groups and any(cell.basis == LEAKED for cell in cells):
        entries["not better, or leaked"] = entries.pop("not better")
    if any(not cell.is_model for cell in cells):
        entries["guess"] = ("guess", DOT, {})
    if any(leaked_of(cell) for cell in cells):
        entries["with leaked clips"] = ("wrong", DOT, {})
    values = [0.0, 1.0]
    for cell in cells:
        values += (cell.value(metric), *cell.ends(metric))
        values += film_values(cell, metric).values()
    known = [value for value in values if math.isfinite(value)]
    margin = 0.02 * (max(known) - min(known))
    limits = (min(known) - margin, max(known) + margin)
    n_headings = len(rows) - len(cells)
    height = ROW_HEIGHT * len(cells) + HEADING_HEIGHT * n_headings
    name = metric_name(metric)
    with row_canvas(height, LEGEND_HEIGHT, limits, name) as (figure, axes):
        draw_legend(figure, entries)
        top = 0
        for row in rows:
            if isinstance(row, Heading):
                _draw_heading(axes, top + HEADING_HEIGHT - 4, row.title)
                top += HEADING_HEIGHT
                continue
            label, cell = row
            tested = {other.tested for other in cells if other.test == cell.test}
            if len(tested) > 1:
                label = f"{label}, {count_text(cell.n_clips, 'clip')}"
            y = top + ROW_HEIGHT / 2
            draw_label(axes, y, label)
            _draw_films(run, axes, cell, metric, y)
            color = "model" if cell.is_model else "guess"
            if leaked_of(cell):
                color = "wrong"
            value = cell.value(metric)
            _draw_value(axes, value, cell.ends(metric), y, color, short(value))
            if metric in RANKING_METRICS:
                chance = run.chance(cell)
                axes.vlines(chance, y - 11, y + 11, color=COLORS["ink"], lw=1.2)
            top += ROW_HEIGHT
    caption = f"A large dot is the value over all {run.units}"
    if any(cell.has_interval(metric) for cell in cells):
        caption += f", with its {100 * CONFIDENCE:g} % interval over {run.units}"
    if run.has_groups:
        caption += f"; each small dot is a {run.unit}"
    caption += "."
    if metric in RANKING_METRICS:
        caption += " The short line is a guess: clips in random order."
    caption += about_intervals(run, cells, metric)
    return Figure(key, title, caption, figure)


def about_intervals(run: ReportRun, cells: Sequence[CellRows], metric: str) -> str:
    """Return sentences on intervals that draws of films alone do not explain."""
    with_interval = [cell for cell in cells if cell.has_interval(metric)]
    text = ""
    if any(cell.value(metric) > NEARLY_PERFECT for cell in with_interval):
        text += (
            f" Where a value is above {short(NEARLY_PERFECT, 1)}, draws of {run.units} say too"
            " little: its interval is at least as wide as its number of clips asks for, and may"
            " begin below all of them."
        )
    if any(cell.film_counts(metric)[0] < FEW_GROUPS for cell in with_interval):
        text += (
            f" Of fewer than {FEW_GROUPS} {run.units}, the interval is Student's, on a scale on"
            " which it stays between 0 and 1."
        )
    if 0 < len(with_interval) < len(cells):
        text += (
            " A large dot without a line has no interval: nothing says how sure it is."
        )
    return text


def _draw_heading(axes: Any, y: float, title: str) -> None:
    """Write a line above rows, at the left edge of the figure."""
    axes.annotate(
        safe_text(title, "terminal"),
        (0, y),
        xytext=(10 - LABEL_WIDTH, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        weight="bold",
    )


def _draw_films(
    run: ReportRun, axes: Any, cell: CellRows, metric: str, y: float
) -> None:
    """Draw each film of a cell as a dot: filled where it is better than the guess in this film.

    Where test clips leaked, nothing is better.
    """
    values = {
        film: value
        for film, value in film_values(cell, metric).items()
        if math.isfinite(value)
    }
    guess = run.guess_of(cell, metric) if cell.is_model else None
    guessed = {} if guess is None else film_values(guess, metric)
    low, high = axes.get_xlim()
    points_of_one = (WIDTH - LABEL_WIDTH - RIGHT_OF_ROWS) / (high - low)
    steps = spread_dots([value * points_of_one for value in values.values()], DOT_APART)
    farthest = max(map(abs, steps), default=1) or 1
    step = min(DOT_APART, (ROW_HEIGHT / 2 - 3) / farthest)
    better: list[tuple[float, float, str]] = []
    others: list[tuple[float, float, str]] = []
    for (film, value), moved in zip(values.items(), steps, strict=True):
        about = f"{run.unit_name(film)}: {short(value)}"
        if film in guessed:
            about += f", guess {short(guessed[film])}"
        is_better = film not in guessed or (
            goodness(metric, value) > goodness(metric, guessed[film])
        )
        is_better = is_better and cell.basis != LEAKED
        dots = better if is_better else others
        dots.append((value, y + step * moved, about))
    color = "model" if cell.is_model else "guess"
    for dots, style in ((better, FILM), (others, OPEN)):
        if not dots:
            continue
        x, rows, texts = zip(*dots, strict=True)
        if len(values) <= MOST_DOTS:
            draw_dots(axes, x, rows, color, FILM_DOT, about=texts, **style)
        else:
            draw_dots(axes, x, rows, color, POINT, **style)


def _draw_value(
    axes: Any,
    value: float,
    ends: tuple[float, float],
    y: float,
    color: str,
    about: str,
) -> None:
    """Draw a dot on its interval; nothing where a number is missing."""
    if math.isfinite(sum(ends)):
        axes.hlines(y, *ends, color=COLORS[color], lw=2, zorder=3)
    if math.isfinite(value):
        draw_dots(axes, [value], [y], color, DOT, about=[about], zorder=4)


# ---- concepts ----


def figure_of_tree(name: str, nodes: Sequence[NodeRow]) -> Figure:
    """Return a decision tree from left to right; "no" is above "yes" (Figure 5 of the paper).

    Args:
        name: The model, its store and its training task.
        nodes: Its rows of trees.csv; the first is the root.
    """
    by_number = {row["node"]: row for row in nodes}
    places = dict(_places(by_number, 0, 0, count()))
    corners: dict[int, tuple[float, float]] = {}
    depth = max(x for x, _ in places.values())
    step = (WIDTH - BOX_WIDTH - 16) / max(depth, 1)
    n_rows = max(y for _, y in places.values()) + 1
    for node, (column, place) in places.items():
        corners[node] = (8 + step * column, 8 + (BOX_HEIGHT + 10) * place)
    height = 16 + (BOX_HEIGHT + 10) * n_rows - 10
    whole = {"left": 0, "right": 1, "bottom": 0, "top": 1}
    with canvas(WIDTH, height, gridspec_kw=whole) as (figure, axes):
        axes.set(xlim=(0, WIDTH), ylim=(height, 0))
        axes.axis("off")
        for node, (x, y) in corners.items():
            row = by_number[node]
            for child in (row["left"], row["right"]):
                if child in corners:
                    to_x, to_y = corners[child]
                    middles = (y + BOX_HEIGHT / 2, to_y + BOX_HEIGHT / 2)
                    axes.plot(
                        (x, to_x), middles, color=COLORS["muted"], lw=0.8, zorder=1
                    )
            is_open = row["left"] in corners
            _draw_node(axes, row, x, y, is_open=is_open)
    root = by_number[0]
    n_positive = round(root["share"] * root["clips"])
    n_clips = count_text(root["clips"], "clip")
    title = f"Decision tree of {name}, {n_clips}, {n_positive} positive"
    caption = (
        "Each box asks whether the margin of a concept is above a threshold: no is above, yes "
        "below. The shade is the share of positive clips. It is fitted on all clips, to be looked"
        " at; what is scored are other trees, fitted without the tested clips."
    )
    return Figure(f"tree-{slug(name)}", title, caption, figure)


def _places(
    nodes: Mapping[int, NodeRow], node: int, depth: int, rows: Iterator[int]
) -> Iterator[tuple[int, tuple[int, float]]]:
    """Yield depth and row of each node: leaves in rows, others in the middle of their branches."""
    left = nodes[node]["left"]
    right = nodes[node]["right"]
    if left is None or right is None or depth == DEPTH_OF_TREE:
        yield node, (depth, next(rows))
        return
    below = dict(_places(nodes, left, depth + 1, rows))
    below |= dict(_places(nodes, right, depth + 1, rows))
    _, highest = below[left]
    _, lowest = below[right]
    middle = (highest + lowest) / 2
    yield node, (depth, middle)
    yield from below.items()


def _draw_node(axes: Any, row: NodeRow, x: float, y: float, *, is_open: bool) -> None:
    """Draw a node: the question that it asks, and the share of positive clips."""
    from matplotlib.patches import FancyBboxPatch

    for color, shade in (("paper", 1), ("model", 0.06 + 0.5 * row["share"])):
        box = FancyBboxPatch(
            (x, y),
            BOX_WIDTH,
            BOX_HEIGHT,
            boxstyle="round,pad=0,rounding_size=3",
            facecolor=(COLORS[color], shade),
            edgecolor=COLORS["muted"],
            linewidth=0.7,
            clip_on=False,
        )
        axes.add_patch(box)
    text = f"{100 * row['share']:.0f} % of {row['clips']}"
    if is_open:
        name = wrapped(row["concept"], LETTERS_OF_BOX)
        text = f"{name}\n> {row['threshold']:.2f}?\n{text}"
    elif row["left"] is not None:
        text += " …"
    middle = (x + BOX_WIDTH / 2, y + BOX_HEIGHT / 2)
    axes.text(*middle, text, ha="center", va="center", fontsize=8)


# ---- success ----


def figure_of_success(
    run: ReportRun, name: str, rows: Sequence[SuccessRow], all_films: str
) -> Figure | None:
    """Return the log odds of success by the properties of a clip (Figure 6 of the paper).

    Args:
        run: The run.
        name: The model, its store and its tasks.
        rows: Its rows of success.csv.
        all_films: What these call all films together.
    """
    known = [row for row in rows if row["factor"] and math.isfinite(row["log_odds"])]
    of_all = [row for row in known if row["film"] == all_films]
    if not of_all:
        return None
    farthest = max(abs(row["log_odds"]) for row in of_all)
    half = max(2.0, 1.5 * farthest)
    height = SUCCESS_HEIGHT * len(of_all)
    name_of_axis = "log odds of a correct decision"
    limits = (-half, half)
    with row_canvas(height, LEGEND_HEIGHT, limits, name_of_axis) as (figure, axes):
        entries: dict[str, Look] = {f"all {run.units}": ("model", DOT, {})}
        if run.has_groups:
            entries[f"a {run.unit}"] = ("guess", FILM_DOT, FILM)
        draw_legend(figure, entries)
        axes.axvline(0, color=COLORS["muted"], lw=0.9, linestyle=(0, (4, 3)))
        for number, row in enumerate(of_all):
            y = SUCCESS_HEIGHT * (number + 0.5)
            draw_label(axes, y, row["factor"])
            odds = {}
            for other in known:
                if other["factor"] == row["factor"] and other["film"] != all_films:
                    odds[other["film"]] = other["log_odds"]
            shown = {film: value for film, value in odds.items() if abs(value) <= half}
            about = [f"{film}: {value:.2f}" for film, value in shown.items()]
            films = list(shown.values())
            rows_of_films = [y] * len(films)
            draw_dots(
                axes, films, rows_of_films, "guess", FILM_DOT, about=about, **FILM
            )
            value = row["log_odds"]
            ends = (row["low"], row["high"])
            _draw_value(axes, value, ends, y, "model", f"{value:.2f}")
    caption = (
        "To the right of the dashed line, the model is correct more often on clips that have the "
        "property. Lines end at the edge of the figure if they are longer."
    )
    title = f"What makes a clip easy, {name}"
    return Figure(f"success-{slug(name)}", title, caption, figure)

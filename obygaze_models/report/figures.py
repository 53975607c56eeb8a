"""The figures of a page, drawn from cells or rows of tables. Each figure is also a file."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from obygaze_features.core.console import count as count_text
from obygaze_features.core.figures import (
    COLORS,
    LABEL_WIDTH,
    LETTER_WIDTH,
    LETTERS_OF_LABEL,
    ROW_WIDTH,
    WIDTH,
    Look,
    canvas,
    draw_dots,
    draw_label,
    draw_legend,
    letters_of_labels,
    page_markup,
    render_figure,
    row_canvas,
    spread_dots,
    tick_text,
)
from obygaze_features.core.untrusted_text import safe_text
from obygaze_models.evaluation.basis import LEAKED
from obygaze_models.evaluation.bootstrap import (
    CONFIDENCE,
)
from obygaze_models.evaluation.error_analysis import ALL_FILMS
from obygaze_models.evaluation.metrics import AP, RANKING_METRICS, metric_name
from obygaze_models.evaluation.results import BETTER, NOT_SHOWN, WORSE
from obygaze_models.evaluation.tables import Pair, RunRow, group_by
from obygaze_models.report.lookup import (
    find_task,
    label,
    n_leaked,
    task_name,
)
from obygaze_models.report.tables import slug
from obygaze_models.runner.answer import (
    asked_differences,
    asked_results,
    best_baseline,
    compared_metric,
    short,
    side_names,
    stated_p,
    with_ends,
)
from obygaze_models.runner.files import ResultRows, Run

ROW_HEIGHT = 29  # in points, as all sizes here
HEADING_HEIGHT = 22
LEGEND_HEIGHT = 24
DOT = 9
FILM_DOT = 5.2
POINT = 1.6
DOT_APART = 5.3  # two dots with a smaller distance cover each other
MOST_ROWS_OF_DIFFERENCES = 12  # the table has all
MOST_DOTS = 200  # films in a row with names; more films are points without names
LINE_HEIGHT = 15  # for a line of a tree
INDENT = 24  # of a branch of a tree, in points
FILM: dict[str, Any] = {"alpha": 0.65}
OPEN: dict[str, Any] = {"is_open": True}
ACROSS: dict[str, Any] = {"is_open": True, "marker": "_"}
UPRIGHT: dict[str, Any] = {"is_open": True, "marker": "|"}
BESIDE_ROWS = 170  # space for values and verdicts to the right of rows, in points

# A row of a figure: its label and a cell, or a heading above rows.
CellRow = tuple[str, ResultRows] | str
Titles = Mapping[str, str]


@dataclass(frozen=True)
class Figure:
    """A matplotlib figure with its file name, title and caption."""

    key: str
    title: str
    caption: str
    drawing: Any

    @cached_property
    def svg(self) -> bytes:
        """The figure as the bytes of an SVG file."""
        return render_figure(self.drawing, ".svg", self.title)

    def markup(self, chapter: int) -> str:
        """Return the figure as an SVG element for a chapter of a page."""
        return page_markup(self.svg, f"{self.key}-{chapter}")

    def file(self, suffix: str) -> bytes:
        """Return the figure as the bytes of a file: .svg, .png or .pdf."""
        return self.svg if suffix == ".svg" else render_figure(self.drawing, suffix)


class Dot(NamedTuple):
    """A small dot of a row, such as a film: its value, its tooltip, and whether it is filled."""

    value: float
    about: str
    is_filled: bool = True


class FigureRow(NamedTuple):
    """A row of a figure: a value with its interval, small dots, and a line at `chance`.

    `chance` is the value for clips in random order. `beside` is the text to the right of the row.
    A NaN is not drawn.
    """

    label: str
    value: float
    ends: tuple[float, float]
    dots: Sequence[Dot] = ()
    color: str = "model"
    color_of_dots: str = "baseline"
    chance: float = math.nan
    beside: str = ""


def _draw_rows(
    rows: Sequence[FigureRow | str],
    limits: tuple[float, float],
    axis: str,
    legend: Mapping[str, Look],
) -> Any:
    """Return a figure with a row for each value. A text becomes a heading above rows."""
    heights = [HEADING_HEIGHT if isinstance(row, str) else ROW_HEIGHT for row in rows]
    letters = letters_of_labels(row.label for row in rows if not isinstance(row, str))
    left = LABEL_WIDTH + (letters - LETTERS_OF_LABEL) * LETTER_WIDTH
    with row_canvas(
        sum(heights), LEGEND_HEIGHT, limits, axis, left=left, right=BESIDE_ROWS
    ) as (figure, axes):
        draw_legend(figure, legend)
        axes.xaxis.set_major_formatter(tick_text)
        bottom = 0
        for row, height in zip(rows, heights, strict=True):
            bottom += height
            if isinstance(row, str):
                axes.annotate(
                    safe_text(row, "terminal"),
                    (0, bottom - 4),
                    xytext=(10 - left, 0),
                    xycoords=("axes fraction", "data"),
                    textcoords="offset points",
                    weight="bold",
                )
            else:
                _draw_row(axes, row, bottom - ROW_HEIGHT / 2, letters)
    return figure


def _draw_row(axes: Any, row: FigureRow, y: float, letters: int) -> None:
    """Draw a row, whose label has lines of `letters` letters. Missing numbers are not drawn."""
    draw_label(axes, y, row.label, letters)
    axes.annotate(
        row.beside,
        (1, y),
        xytext=(14, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
    )
    low, high = axes.get_xlim()
    points_of_one = ROW_WIDTH / (high - low)
    steps = spread_dots([dot.value * points_of_one for dot in row.dots], DOT_APART)
    farthest = max(map(abs, steps), default=1) or 1
    step = min(DOT_APART, (ROW_HEIGHT / 2 - 3) / farthest)
    has_names = len(row.dots) <= MOST_DOTS
    size = FILM_DOT if has_names else POINT
    for is_filled, style in ((True, FILM), (False, OPEN)):
        shown = []
        for dot, moved in zip(row.dots, steps, strict=True):
            if dot.is_filled == is_filled:
                shown.append((dot.value, y + step * moved, dot.about))
        if shown:
            x, places, texts = zip(*shown, strict=True)
            about = texts if has_names else ()
            draw_dots(axes, x, places, row.color_of_dots, size, about=about, **style)
    if math.isfinite(sum(row.ends)):
        axes.hlines(y, *row.ends, color=COLORS[row.color], lw=2, zorder=3)
    if math.isfinite(row.value):
        about = (short(row.value),)
        draw_dots(axes, [row.value], [y], row.color, DOT, about=about, zorder=4)
    if math.isfinite(row.chance):
        axes.vlines(row.chance, y - 11, y + 11, color=COLORS["ink"], lw=1.2)


# ---- values over films ----


def figure_of_pair(run: Run, pair: Pair, titles: Titles) -> Figure:
    """Return a figure of the models and the best baseline of a pair of tasks, by film."""
    cells = [cell for cell in run.models if cell.pair == pair]
    title = f"{_of_each_film(run)}, {task_name(run, pair)}"
    key = f"films-{slug(*dict.fromkeys(pair))}"
    metric = compared_metric(run)
    return _figure_of_cells(run, key, title, _figure_rows(run, cells), metric, titles)


def figures_of_tasks(run: Run, titles: Titles) -> Iterator[Figure]:
    """Yield a figure for each test task, without the figure of the first screen.

    A test task with a `row` in the protocol, such as a concept, has no figure of its own. All such
    tasks are rows of one figure for each model and metric.
    """
    metric = compared_metric(run)
    models = run.models
    together = [cell for cell in models if find_task(run, cell.test).row]
    for name, cells in group_by(together, lambda cell: label(run, cell)).items():
        rows = _rows_side_by_side(run, cells)
        for shown in dict.fromkeys((run.settings.primary, metric)):
            title = f"{metric_name(shown)} side by side, {name}"
            key = f"side-by-side-{slug(shown, name)}"
            yield _figure_of_cells(run, key, title, rows, shown, titles)
    asked = {cell.pair for cell in asked_results(run)[:1]}
    for test, cells in group_by(models, lambda cell: cell.test).items():
        pairs = {cell.pair for cell in cells}
        is_on_first_screen = pairs == asked
        if not find_task(run, test).row and not is_on_first_screen:
            title = f"{_of_each_film(run)}, tested on {test}"
            key = f"tested-on-{slug(test)}"
            rows = _figure_rows(run, cells)
            yield _figure_of_cells(run, key, title, rows, metric, titles)


def _of_each_film(run: Run) -> str:
    metric = metric_name(compared_metric(run))
    return f"{metric} of each {run.unit}" if run.has_groups else metric


def _rows_side_by_side(run: Run, cells: Sequence[ResultRows]) -> list[CellRow]:
    """Return the rows of cells, with a heading above tasks that have the same `row`."""
    rows: list[CellRow] = []
    trained_on = _trained_on(cells, ", trained on {}")
    by_row = group_by(cells, lambda cell: find_task(run, cell.test).row)
    for row, of_row in by_row.items():
        rows.append(row)
        for cell in of_row:
            series = find_task(run, cell.test).series or cell.test
            rows.append((series + trained_on.format(cell.train), cell))
    return rows


def _figure_rows(run: Run, cells: Sequence[ResultRows]) -> list[CellRow]:
    """Return the rows of a test task: the models, then the best baseline.

    If the models have several training tasks, each training task is a heading above its models.
    """
    baseline = best_baseline(run, cells[0], compared_metric(run))
    trained_on = _trained_on(cells, "trained on {}")
    rows: list[CellRow] = []
    for train, of_train in group_by(cells, lambda cell: cell.train).items():
        rows.append(trained_on.format(train))
        rows += [(label(run, cell), cell) for cell in of_train]
    if baseline is not None:
        rows.append(
            trained_on and f"without video, {trained_on.format(baseline.train)}"
        )
        rows.append((f"best baseline ({label(run, baseline)})", baseline))
    return [row for row in rows if row]


def _trained_on(cells: Sequence[ResultRows], text: str) -> str:
    """Return `text`, or "" if all cells have the same training task, which rows need not name."""
    return text if len({cell.train for cell in cells}) > 1 else ""


def _figure_of_cells(
    run: Run,
    key: str,
    title: str,
    rows: Sequence[CellRow],
    metric: str,
    titles: Titles,
) -> Figure:
    cells = [row[1] for row in rows if not isinstance(row, str)]
    shown: list[FigureRow | str] = []
    values = [0.0, 1.0]
    for row in rows:
        if isinstance(row, str):
            shown.append(row)
            continue
        name, cell = row
        sets = {other.test_set for other in cells if other.test == cell.test}
        if len(sets) > 1:
            name = f"{name}, {count_text(cell.clips, 'clip')}"
        of_cell = _figure_row(run, name, cell, metric, titles)
        values += (of_cell.value, *of_cell.ends, *(dot.value for dot in of_cell.dots))
        shown.append(of_cell)
    known = [value for value in values if math.isfinite(value)]
    margin = 0.02 * (max(known) - min(known))
    limits = (min(known) - margin, max(known) + margin)
    legend = _legend(run, cells, metric)
    drawing = _draw_rows(shown, limits, metric_name(metric), legend)
    caption = ""
    if not all(cell.has_interval(metric) for cell in cells if cell.is_model):
        caption = "A large dot without a line has no interval."
    return Figure(key, title, caption, drawing)


def _legend(run: Run, cells: Sequence[ResultRows], metric: str) -> dict[str, Look]:
    legend: dict[str, Look] = {_name_of_whole(run, metric): ("model", DOT, {})}
    if any(cell.has_interval(metric) for cell in cells):
        legend[f"{100 * CONFIDENCE:g} % interval"] = ("model", DOT, ACROSS)
    if run.has_groups:
        legend[f"a {run.unit}: better"] = ("model", FILM_DOT, FILM)
        has_leaked = any(cell.basis == LEAKED for cell in cells)
        not_better = "not better, or leaked" if has_leaked else "not better"
        legend[not_better] = ("model", FILM_DOT, OPEN)
    if any(not cell.is_model for cell in cells):
        legend["baseline"] = ("baseline", DOT, {})
    if metric in RANKING_METRICS:
        legend["random order"] = ("ink", DOT, UPRIGHT)
    if any(n_leaked(cell) for cell in cells):
        legend["with leaked clips"] = ("wrong", DOT, {})
    return legend


def _name_of_whole(run: Run, metric: str) -> str:
    """Return what the value over all films is, such as `mean of films`."""
    by_fold = run.predictions.groupby(["test", "fold"])["group"]
    has_folds = len(by_fold) > run.predictions["test"].nunique()
    if metric != AP.name or not run.has_groups or any(c.is_averaged for c in run.cells):
        return f"all {run.units}"
    if not has_folds:
        return "all clips in one ranking"
    return "mean of folds" if by_fold.nunique().max() > 1 else f"mean of {run.units}"


def figure_of_differences(run: Run) -> Figure | None:
    """Return the figure of the differences that the run asks for, or None without differences."""
    rows = []
    values = [0.0]
    for row in asked_differences(run)[:MOST_ROWS_OF_DIFFERENCES]:
        if not math.isfinite(row["value"]):
            continue
        first, second = side_names(run, row)
        ends = (row["low"], row["high"])
        values += (row["value"], *ends)
        is_shown = row["verdict"] in (BETTER, WORSE)
        color = "model" if is_shown else "baseline"
        found = stated_p(row) if math.isfinite(row["p"]) else "no p"
        if not is_shown and math.isfinite(row["p"]):
            found += ", not shown"
        beside = f"{with_ends(row['value'], *ends)}\n{found}"
        name = f"{first} − {second}"
        rows.append(FigureRow(name, row["value"], ends, color=color, beside=beside))
    if not rows:
        return None
    known = [value for value in values if math.isfinite(value)]
    margin = 0.1 * (max(known) - min(known)) or 0.1
    limits = (min(known) - margin, max(known) + margin)
    rows = [row._replace(chance=0.0) for row in rows]
    legend: dict[str, Look] = {}
    colors = {row.color for row in rows}
    has_p = any(math.isfinite(row["p"]) for row in asked_differences(run))
    not_shown = "not shown" if has_p else "not tested"
    for color, name in (("model", "difference"), ("baseline", not_shown)):
        if color in colors:
            legend[name] = (color, DOT, {})
    color_of_interval = "model" if "model" in colors else "baseline"
    legend[f"{100 * CONFIDENCE:g} % interval"] = (color_of_interval, DOT, ACROSS)
    legend["no difference"] = ("ink", DOT, UPRIGHT)
    metric = metric_name(compared_metric(run))
    drawing = _draw_rows(rows, limits, f"difference of {metric}", legend)
    return Figure("differences", f"Differences of {metric}", "", drawing)


def _figure_row(
    run: Run, name: str, cell: ResultRows, metric: str, titles: Titles
) -> FigureRow:
    """Return the figure row of a cell, with a dot for each film.

    The dot of a film is open if the best baseline is at least as good in this film. If test clips
    leaked, all dots are open.
    """
    dots = []
    for row in cell.of_films(metric):
        film = row["film"]
        about = f"{titles.get(film, film)}: {short(row['value'])}"
        if math.isfinite(row["baseline_value"]):
            about += f", baseline {short(row['baseline_value'])}"
        is_better = cell.basis != LEAKED and row["films_better"] == 1
        dots.append(Dot(row["value"], about, is_better))
    color = "model" if cell.is_model else "baseline"
    color_of_value = "wrong" if n_leaked(cell) else color
    at_random = cell.row(metric)["random"]
    value = cell.value(metric)
    ends = cell.ends(metric)
    beside = "\n".join(
        filter(None, (with_ends(value, *ends), _verdict_text(cell, metric)))
    )
    return FigureRow(name, value, ends, dots, color_of_value, color, at_random, beside)


def _verdict_text(cell: ResultRows, metric: str) -> str:
    """Return the verdict on a model beside its row, such as `better than random, p <.001`."""
    row = cell.row(metric)
    if row["verdict"] == BETTER:
        return f"better than {row['baseline']}, {stated_p(row)}"
    if row["verdict"] == NOT_SHOWN:
        return f"not shown to be better, {stated_p(row)}"
    return "leaked" if row["verdict"] == LEAKED else ""


# ---- concepts ----


def figure_of_tree(name: str, nodes: Sequence[RunRow]) -> Figure:
    """Return a decision tree as a figure of indented lines (Figure 5 of the paper on ObyGaze12).

    The branch "no" is above the branch "yes".

    Args:
        name: The text for the model, its store and its training task.
        nodes: The rows of the tree in trees.csv. Node 0 is the root.
    """
    by_number = {row["node"]: row for row in nodes}
    lines = [*_lines_of_tree(by_number, by_number[0], "")]
    whole = {"left": 0.01, "right": 1, "bottom": 0, "top": 1}
    with canvas(WIDTH, LINE_HEIGHT * len(lines), gridspec_kw=whole) as (figure, axes):
        axes.axis("off")
        # Browsers ignore the blanks at the beginning of a text.
        for number, (depth, line) in enumerate(lines):
            place = (INDENT * depth, -LINE_HEIGHT * number)
            style = {"va": "top", "family": "monospace"}
            axes.annotate(line, (0, 1), place, textcoords="offset points", **style)
    root = by_number[0]
    n_positive = round(root["share"] * root["clips"])
    n_clips = count_text(root["clips"], "clip")
    title = f"Decision tree of {name}, {n_clips}, {n_positive} positive"
    caption = (
        "A line compares the margin of a concept with a threshold, or shows the share of positive"
        " clips. This tree is fitted on all clips, for inspection only. The results are from other"
        " trees, which are fitted without the test clips."
    )
    return Figure(f"tree-{slug(name)}", title, caption, figure)


def _lines_of_tree(
    nodes: Mapping[int, RunRow], row: RunRow, answer: str, depth: int = 0
) -> Iterator[tuple[int, str]]:
    """Yield the depth and the line of a node, then the depth and the line of each node below it."""
    is_leaf = math.isnan(row["left"])
    concept = safe_text(row["concept"], "terminal")
    asks = "" if is_leaf else f"{concept} > {row['threshold']:.2f}? "
    share = f"{100 * row['share']:.0f} % of {row['clips']}"
    yield depth, f"{answer}{asks}{share}"
    if not is_leaf:
        for word, side in (("no: ", "left"), ("yes: ", "right")):
            yield from _lines_of_tree(nodes, nodes[row[side]], word, depth + 1)


# ---- success ----


def figure_of_success(run: Run, name: str, rows: Sequence[RunRow]) -> Figure | None:
    """Return the figure of what makes decisions correct (Figure 6 of the paper on ObyGaze12).

    Each row is about a property of clips. It shows how much the log odds of a correct decision
    change with this property. Return None if no property has log odds over all films.

    Args:
        run: The run.
        name: The text for the model, its store and its tasks.
        rows: The rows of the model in success.csv.
    """
    known = [row for row in rows if row["factor"] and math.isfinite(row["log_odds"])]
    of_all = [row for row in known if row["film"] == ALL_FILMS]
    if not of_all:
        return None
    half = max(2.0, *(1.5 * abs(row["log_odds"]) for row in of_all))
    shown = []
    for row in of_all:
        dots = []
        for other in known:
            is_of_film = other["film"] != ALL_FILMS and other["factor"] == row["factor"]
            if is_of_film and abs(other["log_odds"]) <= half:
                about = f"{other['film']}: {short(other['log_odds'])}"
                dots.append(Dot(other["log_odds"], about))
        ends = (row["low"], row["high"])
        shown.append(FigureRow(row["factor"], row["log_odds"], ends, dots))
    legend: dict[str, Look] = {f"all {run.units}": ("model", DOT, {})}
    if run.has_groups:
        legend[f"a {run.unit}"] = ("baseline", FILM_DOT, FILM)
    axis = "difference in the log odds of a correct decision"
    drawing = _draw_rows(shown, (-half, half), axis, legend)
    line = {"color": COLORS["muted"], "lw": 0.9, "linestyle": (0, (4, 3))}
    drawing.axes[0].axvline(0, **line)
    caption = (
        "Right of the dashed line, the model is correct more often on clips with the concept than"
        " on clips without it, or on clips of the first of two levels than on clips of the second,"
        " if all other properties are equal. Long lines end at the edge of the figure, and"
        " small dots beyond it are left out."
    )
    title = f"What makes a clip easy, {name}"
    return Figure(f"success-{slug(name)}", title, caption, drawing)

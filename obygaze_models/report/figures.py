"""The figures of a page. Each is drawn from rows of tables, and is a file of its own, too."""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from obygaze_features.core.console import count as count_text
from obygaze_features.core.figures import spread_dots
from obygaze_models.evaluation.bootstrap import CONFIDENCE
from obygaze_models.evaluation.metrics import RANKING_METRICS, goodness, metric_name
from obygaze_models.report.lookup import (
    Pair,
    ReportRun,
    grouped,
    leaked_of,
    pair_name,
    pair_of,
)
from obygaze_models.report.svg import WIDTH, Axis, Box, Drawing
from obygaze_models.report.tables import Heading, slug
from obygaze_models.runner.rows import NodeRow, SuccessRow
from obygaze_models.runner.summary import (
    CellRows,
    film_values,
    short,
)

ROW_HEIGHT = 36
HEADING_HEIGHT = 26
DOT_APART = 6.5  # two dots that are nearer cover each other
MOST_DOTS = 200  # of films in a row; more are points without names
DEPTH_OF_TREE = 4
BOX_WIDTH = 118
BOX_HEIGHT = 62
LETTERS_OF_BOX = 17

# A row of a figure: its label and a cell, or a heading above rows.
CellRow = tuple[str, CellRows] | Heading


@dataclass(frozen=True)
class Figure:
    """A drawing with its file name, its title, and what it shows."""

    key: str
    title: str
    caption: str
    drawing: Drawing

    @property
    def markup(self) -> str:
        """The drawing as an element of a page."""
        return self.drawing.markup(self.title)

    @property
    def file(self) -> str:
        """The drawing as a file of its own."""
        return self.drawing.file(self.title)


# ---- values over films ----


def figure_of_pair(run: ReportRun, pair: Pair) -> Figure:
    """Return the models of a pair of tasks and the best guess, each film as a dot."""
    cells = [cell for cell in run.cells if pair_of(cell) == pair]
    rows = _rows_of(run, cells)
    metric = metric_name(run.ranking)
    title = f"{metric} of each film, {pair_name(*pair)}"
    return _figure_of_cells(
        run, f"films-{slug(*dict.fromkeys(pair))}", title, rows, run.ranking
    )


def figures_of_tasks(run: ReportRun) -> Iterator[Figure]:
    """Yield a figure for each test task; where tasks have rows, such as concepts, one for a model.

    The pair of tasks on the first screen has its figure there.
    """
    in_rows = {
        name: task for name, task in run.protocol["tasks"].items() if task["row"]
    }
    together = [cell for cell in run.cells if cell.test in in_rows]
    for label, cells in grouped(together, run.label).items():
        rows: list[CellRow] = []
        for row, of_row in grouped(cells, lambda c: in_rows[c.test]["row"]).items():
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
    for test, cells in grouped(alone, lambda cell: cell.test).items():
        pairs = {pair_of(cell) for cell in cells}
        if run.main is not None and pairs == {pair_of(run.main)}:
            continue
        title = f"{metric_name(run.ranking)} of each film, tested on {test}"
        rows = _rows_of(run, cells)
        yield _figure_of_cells(run, f"tested-on-{slug(test)}", title, rows, run.ranking)


def _rows_of(run: ReportRun, cells: Sequence[CellRows]) -> list[CellRow]:
    """Return the rows of a test task: models below their training task, then the best guess."""
    rows: list[CellRow] = []
    by_train = grouped(cells, lambda cell: cell.train)
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
    drawing = Drawing()
    cells = [row[1] for row in rows if not isinstance(row, Heading)]
    some_leaked = any(leaked_of(cell) for cell in cells)
    entries = {
        "model, all films": "model",
        "better than the best guess in this film": "film model",
    }
    entries |= {"not better": "open"}
    if any(not cell.is_model for cell in cells):
        entries["guess"] = "guess"
    if some_leaked:
        entries["with leaked clips"] = "wrong"
    drawing.legend(entries, x=12)
    values: list[float] = []
    for cell in cells:
        values.append(cell.value(metric))
        values += cell.ends(metric)
        values += film_values(cell, metric).values()
    axis = Axis.around(values)
    top = drawing.height
    for row in rows:
        if isinstance(row, Heading):
            drawing.height += HEADING_HEIGHT
            drawing.text(12, drawing.height - 7, row.title, "bold")
            continue
        label, cell = row
        tested = {other.tested for other in cells if other.test == cell.test}
        if len(tested) > 1:
            label = f"{label}, {count_text(cell.n_clips, 'clip')}"
        y = drawing.height + ROW_HEIGHT / 2
        drawing.label(y, label)
        _draw_films(run, drawing, axis, cell, metric, y)
        _draw_value(drawing, axis, cell, metric, y)
        if metric in RANKING_METRICS:
            x = axis.x(run.chance(cell))
            drawing.line(x, y - 14, x, y + 14, "tick")
        drawing.height += ROW_HEIGHT
    axis.draw(drawing, top, drawing.height, metric_name(metric))
    caption = (
        "A large dot is the value over all films, with its "
        f"{100 * CONFIDENCE:g} % interval over films; each small dot is a film."
    )
    if metric in RANKING_METRICS:
        caption += " The short line is a guess: clips in random order."
    return Figure(key, title, caption, drawing)


def _draw_films(
    run: ReportRun, drawing: Drawing, axis: Axis, cell: CellRows, metric: str, y: float
) -> None:
    """Draw each film of a cell as a dot: filled where it is better than the guess in this film."""
    values = film_values(cell, metric)
    guess = run.guess_of(cell, metric) if cell.is_model else None
    guessed = {} if guess is None else film_values(guess, metric)
    places = [axis.x(value) for value in values.values()]
    steps = spread_dots(places, DOT_APART)
    farthest = max(map(abs, steps), default=1) or 1
    step = min(DOT_APART, (ROW_HEIGHT / 2 - 3) / farthest)
    boxes: dict[str, list[Box]] = {}
    for (film, value), x, moved in zip(values.items(), places, steps, strict=True):
        kind = "film guess"
        about = f"{run.film_name(film)}: {short(value)}"
        if cell.is_model:
            is_better = film not in guessed or (
                goodness(metric, value) > goodness(metric, guessed[film])
            )
            kind = "film model" if is_better else "open"
        if film in guessed:
            about += f", guess {short(guessed[film])}"
        if len(values) <= MOST_DOTS:
            drawing.dot(x, y + step * moved, 3.2, kind, about)
        else:
            box = (x - 1, y + step * moved - 1, 2, 2)
            boxes.setdefault(kind, []).append(box)
    for kind, of_kind in boxes.items():
        drawing.bars(of_kind, kind)


def _draw_value(
    drawing: Drawing, axis: Axis, cell: CellRows, metric: str, y: float
) -> None:
    """Draw the value of a cell over all films, with its interval."""
    kind = "model" if cell.is_model else "guess"
    if leaked_of(cell):
        kind = "wrong"
    low, high = cell.ends(metric)
    drawing.interval(axis, low, high, y, f"{kind}-line")
    value = cell.value(metric)
    if math.isfinite(value):
        drawing.dot(axis.x(value), y, 6, kind, short(value))


# ---- concepts ----


def figure_of_tree(name: str, nodes: Sequence[NodeRow]) -> Figure:
    """Return a decision tree from left to right; "no" is above "yes" (Figure 5 of the paper).

    Args:
        name: The model, its store and its training task.
        nodes: Its rows of trees.csv; the first is the root.
    """
    by_number = {row["node"]: row for row in nodes}
    places = dict(_places(by_number, 0, 0, count()))
    drawing = Drawing()
    corners: dict[int, tuple[float, float]] = {}
    depth = max(x for x, _ in places.values())
    step = (WIDTH - BOX_WIDTH - 20) / max(depth, 1)
    n_rows = max(y for _, y in places.values()) + 1
    for node, (column, place) in places.items():
        corners[node] = (10 + step * column, 10 + (BOX_HEIGHT + 12) * place)
    for node, (x, y) in corners.items():
        row = by_number[node]
        for child in (row["left"], row["right"]):
            if child in corners:
                to_x, to_y = corners[child]
                middle = y + BOX_HEIGHT / 2
                drawing.line(x, middle, to_x, to_y + BOX_HEIGHT / 2, "grid")
    for node, (x, y) in corners.items():
        _draw_node(
            drawing, by_number[node], x, y, is_open=by_number[node]["left"] in corners
        )
    drawing.height = 20 + (BOX_HEIGHT + 12) * n_rows
    root = by_number[0]
    n_positive = round(root["share"] * root["clips"])
    title = f"Decision tree of {name}, {root['clips']} clips, {n_positive} positive"
    caption = (
        "Each box asks whether the margin of a concept is above a threshold: no is above, yes "
        "below. The shade is the share of positive clips. Fitted on all clips, to be looked at."
    )
    return Figure(f"tree-{slug(name)}", title, caption, drawing)


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


def _draw_node(
    drawing: Drawing, row: NodeRow, x: float, y: float, *, is_open: bool
) -> None:
    """Draw a node: the question that it asks, and the share of positive clips."""
    drawing.box(x, y, BOX_WIDTH, BOX_HEIGHT, 0.06 + 0.5 * row["share"])
    lines = [f"{100 * row['share']:.0f} % of {row['clips']}"]
    if is_open:
        name = textwrap.wrap(row["concept"], LETTERS_OF_BOX, max_lines=2)
        lines = [*name, f"> {row['threshold']:.2f}?", *lines]
    elif row["left"] is not None:
        lines[0] += " …"
    first = y + BOX_HEIGHT / 2 + 4 - 7 * (len(lines) - 1)
    for number, line in enumerate(lines):
        drawing.text(x + BOX_WIDTH / 2, first + 14 * number, line, "small", "middle")


# ---- success ----


def figure_of_success(
    name: str, rows: Sequence[SuccessRow], all_films: str
) -> Figure | None:
    """Return the log odds of success by the properties of a clip (Figure 6 of the paper).

    Args:
        name: The model, its store and its tasks.
        rows: Its rows of success.csv.
        all_films: What these call all films together.
    """
    known = [row for row in rows if row["factor"] and math.isfinite(row["log_odds"])]
    of_all = [row for row in known if row["film"] == all_films]
    if not of_all:
        return None
    drawing = Drawing()
    drawing.legend({"all films": "model", "a film": "film guess"}, x=12)
    farthest = max(abs(row["log_odds"]) for row in of_all)
    half = max(2.0, 1.5 * farthest)
    axis = Axis(-half, half)
    top = drawing.height
    for row in of_all:
        y = drawing.height + 14
        drawing.label(y, row["factor"])
        for other in known:
            is_film = other["film"] != all_films and other["factor"] == row["factor"]
            if is_film and abs(other["log_odds"]) <= half:
                about = f"{other['film']}: {other['log_odds']:.2f}"
                drawing.dot(axis.x(other["log_odds"]), y, 3.2, "film guess", about)
        drawing.interval(axis, row["low"], row["high"], y, "model-line")
        drawing.dot(axis.x(row["log_odds"]), y, 5.5, "model", f"{row['log_odds']:.2f}")
        drawing.height += 28
    drawing.line(axis.x(0), top, axis.x(0), drawing.height, "rule")
    axis.draw(drawing, top, drawing.height, "log odds of a correct decision")
    caption = (
        "To the right of the dashed line, the model is correct more often on clips that have the "
        "property. Lines end at the edge of the figure if they are longer."
    )
    return Figure(
        f"success-{slug(name)}", f"What makes a clip easy, {name}", caption, drawing
    )

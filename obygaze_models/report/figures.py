"""The figures of a run: intervals, films, confusion, calibration, and each film's timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.figures import INK, LEVEL_COLORS, MUTED, canvas, save
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.content import NAMES, model_name, number_of, primary

MODEL = "#2f5d8a"
BLIND = "#b9b6ae"
WRONG = "#d98c3f"
PALE = "#ecebe7"
MOST_CELLS = 12


@dataclass(frozen=True)
class Figure:
    """A figure on disk, and what to say about it."""

    key: str
    title: str
    caption: str
    svg: Path
    png: Path


def draw_all(run: Run, folder: Path) -> list[Figure]:
    """Every figure that the run has the records for."""
    makers: list[Callable[[Run, Path], Iterable[Figure]]] = [
        draw_intervals,
        draw_films,
        draw_confusion,
        draw_calibration,
        draw_timelines,
    ]
    return [figure for make in makers for figure in make(run, folder)]


def draw_intervals(run: Run, folder: Path) -> Iterable[Figure]:
    """Each model's primary metric with its interval over films, baselines among them."""
    metric = primary(run)
    records = [*run.cells, *run.baselines]
    for test in dict.fromkeys(record["test"] for record in run.cells):
        own = [r for r in records if r["test"] == test and number_of(r, metric)]
        own.sort(key=lambda r: _sortable(r, metric))
        height = 1.0 + 0.2 * len(own)
        with canvas(7.2, height) as (figure, axes):
            for place, record in enumerate(own):
                _interval(axes, place, record, metric)
            chance = own[0]["prevalence"] if metric == "ap" else 0.5
            axes.axvline(chance, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)
            axes.set_yticks(range(len(own)), [_label(record) for record in own], fontsize=7.5)
            axes.set_ylim(-0.7, len(own) - 0.3)
            axes.set_xlim(0, 1)
            axes.tick_params(axis="y", length=0)
            axes.set_xlabel(f"{NAMES.get(metric, metric)}, 95 % interval over films", color=MUTED)
            axes.set_title(f"Tested on {test}")
            svg, png = save(figure, folder / f"intervals-{test}")
        caption = (
            "Dots: all clips of unseen folds. Lines: where other films could have put them."
            " Grey: baselines. Dashed: chance."
        )
        yield Figure(f"intervals-{test}", f"Intervals, tested on {test}", caption, svg, png)


def draw_films(run: Run, folder: Path) -> Iterable[Figure]:
    """The primary metric film by film: how much one film differs from the next."""
    metric = primary(run)
    cells = [cell for cell in run.cells if cell["by_movie"]][:MOST_CELLS]
    if not cells:
        return
    films = sorted({film for cell in cells for film in cell["by_movie"]})
    with canvas(7.2, 1.2 + 0.26 * len(films)) as (figure, axes):
        for row, film in enumerate(films):
            values = [cell["by_movie"].get(film, {}).get(metric) for cell in cells]
            known = [value for value in values if value is not None]
            if known:
                axes.plot([min(known), max(known)], [row, row], color=PALE, lw=4, zorder=0)
                axes.scatter(known, [row] * len(known), s=18, color=MODEL, alpha=0.75, lw=0)
        axes.set_yticks(range(len(films)), films)
        axes.set_ylim(len(films) - 0.4, -0.6)
        axes.set_xlim(-0.02, 1.02)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(NAMES.get(metric, metric), color=MUTED)
        axes.set_title("Film by film")
        svg, png = save(figure, folder / "films")
    caption = (
        f"A dot a model ({len(cells)} of {len(run.cells)} cells). Films differ more than models."
    )
    yield Figure("films", "Film by film", _if_true(caption, cells, metric), svg, png)


def draw_confusion(run: Run, folder: Path) -> Iterable[Figure]:
    """What was said of which clips, a small table a cell."""
    cells = run.cells[:MOST_CELLS]
    if not cells:
        return
    columns = min(4, len(cells))
    n_rows = -(-len(cells) // columns)
    layout = {"nrows": n_rows, "ncols": columns, "squeeze": False}
    with canvas(1.9 * columns, 1.9 * n_rows + 0.2, **layout) as (figure, grid):
        for axes in grid.ravel():
            axes.axis("off")
        for axes, cell in zip(grid.ravel(), cells, strict=False):
            _confusion(axes, cell)
        svg, png = save(figure, folder / "confusion")
    caption = "Rows: the truth. Columns: the model. Shade: share of the row."
    yield Figure("confusion", "What is taken for what", caption, svg, png)


def draw_calibration(run: Run, folder: Path) -> Iterable[Figure]:
    """How often a clip is positive where a model says how probable that is."""
    cells = [cell for cell in run.cells if cell.get("calibration")][:MOST_CELLS]
    if not cells:
        return
    columns = min(4, len(cells))
    n_rows = -(-len(cells) // columns)
    layout = {"nrows": n_rows, "ncols": columns, "squeeze": False, "sharex": True, "sharey": True}
    with canvas(1.9 * columns, 1.95 * n_rows + 0.3, **layout) as (figure, grid):
        for axes in grid.ravel()[len(cells) :]:
            axes.axis("off")
        for axes, cell in zip(grid.ravel(), cells, strict=False):
            _calibration(axes, cell)
        svg, png = save(figure, folder / "calibration")
    caption = "Dots on the line: the probability can be taken at its word. Size: number of clips."
    yield Figure("calibration", "Calibration", caption, svg, png)


def draw_timelines(run: Run, folder: Path) -> Iterable[Figure]:
    """Each film in the order of its clips: what annotators said above, what models say below."""
    rows = run.predictions
    if not rows:
        return
    key = (rows[0]["train"], rows[0]["test"])
    chosen = _best_per_store(run, key)
    films = sorted({row["movie_id"] for row in rows})
    for film in films:
        tracks = _tracks(rows, film, key, chosen)
        if tracks:
            yield _timeline(film, key, tracks, folder)


def _timeline(film: str, key: tuple[str, str], tracks: Any, folder: Path) -> Figure:
    clips, truth, said = tracks
    with canvas(7.2, 0.75 + 0.34 * (1 + len(said))) as (figure, axes):
        for place, positive in enumerate(truth):
            color = LEVEL_COLORS["S"] if positive else LEVEL_COLORS["EN"]
            axes.bar(place, 0.8, bottom=-0.4, width=0.92, color=color)
        for row, (_, scores, right) in enumerate(said, start=1):
            for place, score in enumerate(scores):
                if score is None:
                    continue
                axes.bar(place, 0.8, bottom=row - 0.4, width=0.92, color=PALE)
                color = MODEL if right[place] else WRONG
                axes.bar(place, 0.8 * score, bottom=row - 0.4, width=0.92, color=color)
        axes.set_yticks(range(1 + len(said)), ["annotators", *(name for name, _, _ in said)])
        axes.set_ylim(len(said) + 0.6, -0.6)
        axes.set_xlim(-0.6, len(clips) - 0.4)
        axes.tick_params(axis="both", length=0)
        axes.set_xticks([])
        axes.set_title(f"{film}: {len(clips)} clips in order, {key[0]} → {key[1]}")
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        svg, png = save(figure, folder / f"timeline-{film}")
    caption = (
        "Red: annotated S. Height: the model's score. Blue where it decides rightly, orange not."
    )
    return Figure(f"timeline-{film}", f"Timeline of {film}", caption, svg, png)


def _best_per_store(run: Run, key: tuple[str, str]) -> list[tuple[str, str]]:
    """The model with the best primary metric on each store."""
    metric = primary(run)
    best: dict[str, Record] = {}
    for cell in run.cells:
        if (cell["train"], cell["test"]) != key:
            continue
        found = best.get(cell["feature"])
        if found is None or _sortable(cell, metric) > _sortable(found, metric):
            best[cell["feature"]] = cell
    return [(cell["model"], feature) for feature, cell in best.items()]


def _tracks(
    rows: Sequence[dict[str, str]],
    film: str,
    key: tuple[str, str],
    chosen: Sequence[tuple[str, str]],
) -> tuple[list[str], list[bool], list[tuple[str, list[float | None], list[bool]]]] | None:
    own = [r for r in rows if r["movie_id"] == film and (r["train"], r["test"]) == key]
    clips = sorted({row["clip_id"] for row in own})
    if not clips or not chosen:
        return None
    truth = {row["clip_id"]: row["y"] == "1" for row in own}
    said = []
    for model, feature in chosen:
        found = {
            r["clip_id"]: (float(r["score"]), r["decision"] == r["y"])
            for r in own
            if (r["model"], r["feature"]) == (model, feature)
        }
        if not found:
            continue
        scaled = _unit([score for score, _ in found.values()])
        scores = dict(zip(found, scaled, strict=True))
        right = [found.get(clip, (0.0, False))[1] for clip in clips]
        said.append((f"{model}\n{feature}", [scores.get(clip) for clip in clips], right))
    return clips, [truth[clip] for clip in clips], said


def _unit(scores: list[float]) -> list[float]:
    """Margins on the same scale as probabilities, for drawing only."""
    if all(0 <= score <= 1 for score in scores):
        return scores
    low, high = min(scores), max(scores)
    return [(score - low) / (high - low or 1) for score in scores]


def _interval(axes: Any, place: int, record: Record, metric: str) -> None:
    number = number_of(record, metric)
    if number is None or number.value is None:
        return
    color = MODEL if record["kind"] == "cell" else BLIND
    if record["leaked"]:
        color = WRONG
    if number.interval:
        axes.plot([number.low, number.high], [place, place], color=color, lw=1.6, alpha=0.7)
    axes.scatter(number.value, place, s=22, color=color, zorder=3)


def _confusion(axes: Any, cell: Record) -> None:
    counts = cell["confusion"]
    table = [[counts["tn"], counts["fp"]], [counts["fn"], counts["tp"]]]
    shares = [[n / max(sum(row), 1e-9) for n in row] for row in table]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.3)
    for y, row in enumerate(table):
        for x, count in enumerate(row):
            axes.text(x, y, f"{count:.0f}", ha="center", va="center", fontsize=9, color=INK)
    axes.axis("on")
    axes.set_xticks([0, 1], ["said no", "said S"], fontsize=6.5)
    axes.set_yticks([0, 1], ["no", "S"], fontsize=6.5)
    axes.tick_params(length=0)
    axes.set_title(
        f"{cell['model']} ({cell['feature']})\n{cell['train']} → {cell['test']}", fontsize=7
    )
    for spine in axes.spines.values():
        spine.set_visible(False)


def _calibration(axes: Any, cell: Record) -> None:
    bins = [found for found in cell["calibration"] if found["n"]]
    axes.plot([0, 1], [0, 1], color=MUTED, lw=0.7, ls=(0, (3, 3)))
    sizes = [8 + 120 * found["n"] / max(cell["n_test"] * cell["n_runs"], 1) for found in bins]
    axes.scatter(
        [b["score"] for b in bins],
        [b["share"] for b in bins],
        s=sizes,
        color=MODEL,
        alpha=0.8,
        lw=0,
    )
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_title(
        f"{cell['model']} ({cell['feature']})\n{cell['train']} → {cell['test']}", fontsize=7
    )


def _cell_title(cell: Record) -> str:
    return f"{cell['model']} ({cell['feature']})\n{cell['train']} → {cell['test']}"


def _label(record: Record) -> str:
    store = f" ({record['feature']})" if record["feature"] else ""
    return f"{record['train']} · {model_name(record)}{store}"


def _sortable(record: Record, metric: str) -> float:
    number = number_of(record, metric)
    return -1.0 if number is None or number.value is None else number.value


def _if_true(caption: str, cells: Sequence[Record], metric: str) -> str:
    """Say that films differ more than models only where they do."""
    films: dict[str, list[float]] = {}
    for cell in cells:
        for film, found in cell["by_movie"].items():
            if found.get(metric) is not None:
                films.setdefault(film, []).append(found[metric])
    if len(films) < 2:
        return caption.split(". ")[0] + "."
    means = [sum(values) / len(values) for values in films.values()]
    within = [max(values) - min(values) for values in films.values()]
    differ = max(means) - min(means) > sum(within) / len(within)
    return caption if differ else caption.split(". Films")[0] + "."

"""Story 13: I compare two runs on the same clips, and want a table and a figure for a paper."""

import csv
import math
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score
from support.once import made_once

from stories.films import labelled_clips
from stories.made import begin_with_planted_and_noise
from stories.workspace import Workspace

ONE_CELL = (
    """--jobs 1 --set 'grid.models=["ridge"]' --set 'grid.baselines=["random"]'"""
    """ --set 'grid.train=["EN_S"]' --set 'grid.test=["EN_S"]'"""
)
SVG = "{http://www.w3.org/2000/svg}"

Rows = list[dict[str, str]]


def begin_with_two_runs(ws: Workspace) -> None:
    """Begin with a run on the store `planted` and one on `noise`, of the same names."""

    def make(folder: Path) -> None:
        made = Workspace(folder)
        begin_with_planted_and_noise(made)
        for store in ("planted", "noise"):
            made(f"run honest --store x={store} {ONE_CELL} -o {store}")

    ws.copy_of(made_once("stories", make, "two runs to compare"))


def predictions(ws: Workspace, run: str, model: str) -> Rows:
    rows = ws.read_table(f"runs/{run}/predictions.csv")
    return [row for row in rows if row["model"] == model]


def ap_of_films(rows: Rows, only: Iterable[str]) -> npt.NDArray[np.float64]:
    """Return scikit-learn's average precision of each film, of the clips that are named."""
    clips = set(only)
    kept = [row for row in rows if row["clip_id"] in clips]
    values = []
    for film in sorted({row["movie_id"] for row in kept}):
        of_film = [row for row in kept if row["movie_id"] == film]
        y = [int(row["y"]) for row in of_film]
        scores = [float(row["score"]) for row in of_film]
        values.append(average_precision_score(y, scores))
    return np.array(values)


def clips_of(rows: Rows) -> set[str]:
    return {row["clip_id"] for row in rows}


def compared(ws: Workspace, *runs: str) -> dict[str, dict[str, str]]:
    """Return the row of the model `ridge` for each run in the table of a comparison."""
    name = "-".join(runs)
    ws(f"compare {' '.join(runs)} -o {name}.csv")
    rows = ws.read_table(f"{name}.csv")
    return {row["run"]: row for row in rows if row["model"] == "ridge"}


def test_the_difference_of_two_runs_is_that_of_their_films(ws: Workspace) -> None:
    begin_with_two_runs(ws)
    planted = predictions(ws, "planted", "ridge")
    noise = predictions(ws, "noise", "ridge")
    both = clips_of(planted)
    assert both == clips_of(noise)
    n_of_task = sum(row["level"] in ("EN", "S") for row in labelled_clips())
    assert len(both) == n_of_task

    rows = compared(ws, "planted", "noise")
    first = ap_of_films(planted, both)
    second = ap_of_films(noise, both)
    differences = second - first
    assert math.isclose(float(rows["planted"]["value"]), first.mean())
    assert math.isclose(float(rows["noise"]["value"]), second.mean())
    assert rows["planted"]["difference"] == ""
    assert math.isclose(float(rows["noise"]["difference"]), differences.mean())
    assert int(rows["noise"]["difference_n_clips"]) == n_of_task
    assert int(rows["noise"]["difference_n_films"]) == 12

    assert float(rows["noise"]["difference_high"]) < 0
    assert float(rows["noise"]["difference_p"]) < 0.05


def test_a_paper_gets_a_table_and_a_figure(ws: Workspace) -> None:
    begin_with_two_runs(ws)
    answer = ws("report planted noise -o page.html")
    assert "page.html" in answer.text
    planted = predictions(ws, "planted", "ridge")
    noise = predictions(ws, "noise", "ridge")
    ap = ap_of_films(planted, clips_of(planted)).mean()
    difference = ap_of_films(noise, clips_of(noise)).mean() - ap

    page = re.sub("<[^>]*>", " ", ws.read("page.html"))
    assert f"{difference:.2f}".replace("0.", ".") in page
    folder = ws.path("runs/planted")
    assert any(has_value(path, ap) for path in folder.rglob("*.csv"))
    shown = f"{ap:.2f}".replace("0.", ".")
    assert any(has_latex_row(path, shown) for path in folder.rglob("*.tex"))
    # The figure is measured: its axis has numbers, and a point stands where the value is.
    figures = [path for path in folder.rglob("*.svg") if "ridge" in texts_of(path)]
    assert any(has_point(path, ap) for path in figures)
    other = ap_of_films(noise, clips_of(noise)).mean()
    assert not any(has_point(path, other) for path in figures)


def has_value(path: Path, value: float) -> bool:
    """Return whether a CSV table has a row of the model `ridge` with this value."""
    if path.name == "predictions.csv":
        return False
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.reader(stream) if "ridge" in row]
    for row in rows:
        for cell in row:
            if re.fullmatch(r"-?\d+\.\d+", cell) and math.isclose(float(cell), value):
                return True
    return False


def has_latex_row(path: Path, value: str) -> bool:
    """Return whether a LaTeX table, all of whose rows are whole, has a row of `ridge` with it."""
    text = path.read_text(encoding="utf-8")
    spec = re.search(r"\\begin\{tabular\}\{([lrc]+)\}", text)
    assert spec is not None, path
    assert text.count(r"\begin{") == text.count(r"\end{"), path
    found = False
    for line in text.splitlines():
        if not line.endswith(r"\\") or r"\multicolumn" in line:
            continue
        cells = re.split(r"(?<!\\)&", line.removesuffix(r"\\"))
        assert len(cells) == len(spec[1]), f"{path}: {line}"
        if cells[0].strip() == "ridge" and value in cells[1]:
            found = True
    return found


def texts_of(path: Path) -> list[str]:
    root = ElementTree.parse(path).getroot()
    return ["".join(text.itertext()).strip() for text in root.iter(f"{SVG}text")]


def has_point(path: Path, value: float) -> bool:
    root = ElementTree.parse(path).getroot()
    numbers = []
    places = []
    for text in root.iter(f"{SVG}text"):
        word = "".join(text.itertext()).strip()
        if re.fullmatch(r"[01]?\.\d+|[01]", word):
            numbers.append(float(word))
            places.append(float(text.attrib["x"]))
    if len(numbers) < 2:
        return False
    slope, start = np.polyfit(numbers, places, 1)
    expected = start + slope * value
    points = [float(dot.attrib["x"]) for dot in root.iter(f"{SVG}use")]
    return any(abs(x - expected) < 0.01 for x in points)

"""Story 13: I compare two runs on the same clips, and want a table and a figure for a paper."""

import csv
import math
import re
from collections.abc import Iterable
from pathlib import Path

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


def compared(ws: Workspace, *runs: str) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rows of the model `ridge`: of each run, and of each difference of two runs."""
    name = "-".join(runs)
    ws(f"compare {' '.join(runs)} -o {name}.csv")
    rows = ws.read_table(f"{name}.csv")
    found = {}
    for row in rows:
        if row["model"] == "ridge":
            found[row["store"], row["against_store"]] = row
    return found


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
    assert math.isclose(float(rows["planted", ""]["value"]), first.mean())
    assert math.isclose(float(rows["noise", ""]["value"]), second.mean())
    assert {*rows} == {("planted", ""), ("noise", ""), ("noise", "planted")}
    apart = rows["noise", "planted"]
    assert math.isclose(float(apart["value"]), differences.mean())
    assert math.isclose(float(apart["first"]), second.mean())
    assert math.isclose(float(apart["second"]), first.mean())
    assert int(apart["clips"]) == n_of_task
    assert int(apart["films"]) == 12

    assert float(apart["high"]) < 0
    assert float(apart["p"]) < 0.05


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
    assert any(has_value(path, ap) for path in folder.rglob("tables/*.csv"))
    shown = f"{ap:.2f}".replace("0.", ".")
    of_ridge = rf"(?m)^ridge +& [^&]*{re.escape(shown)}.* \\\\$"
    latex = [path.read_text("utf-8") for path in folder.rglob("*.tex")]
    assert any(re.search(of_ridge, text) for text in latex)
    assert any("ridge" in path.read_text("utf-8") for path in folder.rglob("*.svg"))


def has_value(path: Path, value: float) -> bool:
    """Return whether a CSV table has a row of the model `ridge` with this value."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.reader(stream) if "ridge" in row]
    numbers = re.findall(r"(?<=,)-?\d+\.\d+(?=,)", "\n".join(map(",".join, rows)))
    return any(math.isclose(float(number), value) for number in numbers)

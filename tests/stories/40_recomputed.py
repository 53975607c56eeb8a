"""Story 40: Anybody computes the values of a run again, from predictions.csv alone."""

import json
import subprocess
import sys
from typing import Any

import pandas as pd
import pytest
from golden import worlds
from support.cli import ROOT
from support.pages import blocks

from stories.films import features_of, import_features, labelled_clips
from stories.workspace import Workspace

CELL = ["store", "model", "train", "test"]
GUIDE = ROOT / "docs" / "guide" / "experiments.md"
RECOMPUTE = ROOT / "tests" / "support" / "recompute.py"
TWO_TASKS = """--set 'grid.train=["EN_S", "HN_S"]' --set 'grid.test=["EN_S"]'"""
QUICK = "--set report.concepts=false --set report.replicates=20 --jobs 1"
# To choose the tolerance of concept vectors takes most of the time.
TOLERANCES = " ".join(
    f"--set models.{kind}.tolerance=0.1" for kind in ("pcbm-lr", "pcbm-dt")
)
RUN = f"run honest-negatives {QUICK} {TOLERANCES} {TWO_TASKS}"


def recomputed(ws: Workspace, run: str) -> dict[str, Any]:
    """What the script says of a run; it finds no package that is installed."""
    words = [sys.executable, "-I", "-S", str(RECOMPUTE), str(ws.path(f"runs/{run}"))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (1 if found["wrong"] else 0), done.stderr
    return found


def test_plain_loops_give_every_value_of_a_run(ws: Workspace) -> None:
    rows = worlds.labelled_clips(per_film=14)
    # Many clips have equal scores.
    import_features(ws, rows, worlds.coarse_features(rows), "coarse")
    ws(f"{RUN} --manifest films --store coarse -o first")
    found = recomputed(ws, "first")
    assert found["wrong"] == []
    assert found["numbers"] > 4 * 300
    assert found["largest_difference"] < 1e-9


def test_the_script_finds_a_value_that_is_not_that_of_the_tests(ws: Workspace) -> None:
    rows = labelled_clips(n_films=6, per_film=8)
    import_features(ws, rows, features_of(rows, level=1.0), "useful")
    ws(
        f"run honest {QUICK} --set 'grid.models=[\"ridge\"]'"
        " --manifest films --store useful -o first"
    )
    place = ws.path("runs/first/predictions.csv")
    tests = pd.read_csv(place, dtype=str, keep_default_na=False)
    at = tests.index[(tests["model"] == "ridge") & (tests["y"] == "1")][0]
    tests.loc[at, "y"] = "0"
    tests.to_csv(place, index=False)
    assert len(recomputed(ws, "first")["wrong"]) > 3


FAST_MLP = (
    """--set 'grid.models=["mlp", "ridge"]' --set models.mlp.max_epochs=4"""
    " --set models.mlp.min_epochs=1"
)
# A tree gives many clips one score.
WITHOUT_TIES = (
    """--set 'grid.models=["ridge", "pcbm-lr"]' --set models.pcbm-lr.tolerance=0.1"""
)
OF_CLIPS = "--set splits.kind=kfold --set splits.folds=4"
RUNS = {
    "words for nothing as names": (
        f"honest-negatives {TWO_TASKS} {WITHOUT_TIES}",
        "NA=useful",
    ),
    "seeds": (f"honest-negatives {TWO_TASKS} {FAST_MLP} --set fit.seeds=2", "useful"),
    "no films": (f"honest-negatives {TWO_TASKS} {WITHOUT_TIES} {OF_CLIPS}", "useful"),
    "published folds": (
        "paper-table2 --set models.mlp.max_epochs=4 --set models.mlp.min_epochs=1",
        "useful",
    ),
}
# What pandas takes for a missing value, for one number, and for a truth value.
ODD_NAMES = ("NA", "None", "nan", "007", "7", "True")


@pytest.mark.parametrize("run", RUNS)
def test_the_lines_of_the_guide_give_the_values_of_the_report(ws, monkeypatch, run):
    (lines,) = [
        block.text for block in blocks(GUIDE) if "average_precision_score" in block.text
    ]
    rows = worlds.labelled_clips(per_film=14)
    X = worlds.seen_features(rows)
    for row in rows:
        if run == "no films":
            del row["movie_id"]
        if run == "words for nothing as names":
            row["movie_id"] = ODD_NAMES[worlds.FILMS.index(row["movie_id"])]
    ws.write_table("films.csv", rows)
    films = "--films none" if run == "no films" else ""
    if run == "words for nothing as names":
        films = "--word NA=NA --word nan=nan"
    ws(f"manifest import films.csv -o films {films}")
    import_features(ws, rows, X, "useful")
    line, store = RUNS[run]
    ws(f"run {line} {QUICK} --manifest films --store {store} -o first")
    monkeypatch.chdir(ws.folder)
    names: dict[str, Any] = {}
    exec(lines, names)
    values, ap_of_films = names["values"], names["ap_of_films"]

    models = {model for _, model, *_ in values.index}
    n_values = 0
    n_films = 0
    for row in ws.read_table("runs/first/results.csv"):
        if row["against_model"] or row["model"] not in models:
            continue
        cell = tuple(row[column] for column in CELL)
        expected = float(row["value"] or "nan")
        if row["film"] and row["metric"] == "ap":
            found = ap_of_films[(*cell, row["film"])]
            assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)
            n_films += 1
        if row["film"] or row["metric"] not in ("ap", "auc", "f1_binary"):
            continue
        assert values.loc[cell, row["metric"]] == pytest.approx(expected, abs=1e-12)
        assert values.loc[cell, "clips"] == int(row["clips"])
        assert values.loc[cell, "films"] == int(row["films"])
        n_values += 1
    assert n_values == 3 * len(values) > 0
    assert n_films == len(ap_of_films)
    assert n_films == 0 if run == "no films" else n_films > 0
    assert recomputed(ws, "first")["wrong"] == []

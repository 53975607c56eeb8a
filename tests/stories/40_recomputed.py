"""Story 40: Anybody computes the values of a run again, from predictions.csv alone."""

from __future__ import annotations

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
ONE_TASK = """--set 'grid.train=["EN_S"]' --set 'grid.test=["EN_S"]'"""
TWO_TASKS = """--set 'grid.train=["EN_S", "HN_S"]' --set 'grid.test=["EN_S"]'"""
QUICK = "--set report.concepts=false --set report.replicates=20 --jobs 1"
# To choose the tolerance of concept vectors takes most of the time.
TOLERANCES = " ".join(
    f"--set models.{kind}.tolerance=0.1" for kind in ("pcbm-lr", "pcbm-dt")
)
FEW_FILMS = "--set 'report.learning_films=[2, 4]'"
RUN = f"run honest {QUICK} {TOLERANCES} {TWO_TASKS} {FEW_FILMS}"


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
        f"run honest {QUICK} {ONE_TASK} --set 'grid.models=[\"ridge\"]'"
        " --manifest films --store useful -o first"
    )
    place = ws.path("runs/first/predictions.csv")
    tests = pd.read_csv(place)
    at = tests.index[(tests["model"] == "ridge") & (tests["y"] == 1)][0]
    tests.loc[at, "y"] = 0
    tests.to_csv(place, index=False)
    assert len(recomputed(ws, "first")["wrong"]) > 3


def test_the_lines_of_the_guide_give_the_values_of_the_report(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lines,) = [
        block.text for block in blocks(GUIDE) if "average_precision_score" in block.text
    ]
    rows = labelled_clips(n_films=8, per_film=12)
    import_features(ws, rows, features_of(rows, level=1.0, concepts=1.0), "useful")
    # A tree gives many clips one score.
    without_ties = """--set 'grid.models=["ridge", "mlp", "pcbm-lr"]'"""
    ws(
        f"run honest {QUICK} {TWO_TASKS} {without_ties}"
        " --manifest films --store useful -o first"
    )
    monkeypatch.chdir(ws.folder)
    names: dict[str, Any] = {}
    exec(lines, names)
    values, ap_of_films = names["values"], names["ap_of_films"]

    results = pd.read_csv("runs/first/results.csv", keep_default_na=False)
    results = results[(results["against_model"] == "") & (results["model"] != "random")]
    number_of = {}
    for row in results.to_dict("records"):
        name = (*(row[column] for column in CELL), row["film"], row["metric"])
        number_of[name] = row
    assert len(values) == 6
    for name, found in values.iterrows():
        for metric in ("ap", "auc", "f1_binary"):
            row = number_of[(*name, "", metric)]
            assert found[metric] == pytest.approx(float(row["value"]), abs=1e-9)
        assert found["clips"] == float(row["clips"])
        assert found["films"] == float(row["films"])
    assert len(ap_of_films) == 8 * len(values)
    for (*name, film), found in ap_of_films.items():
        value = number_of[(*name, film, "ap")]["value"]
        expected = float("nan") if value == "" else float(value)
        assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)

"""Story 11: I ask whether features tell apart what was annotated, and the answer is honest."""

import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from stories.films import Row, features_of, import_features, labelled_clips
from stories.results import results_of, the_result
from stories.workspace import Workspace

# The share of S among the EN and S clips of the twelve films of the paper: films differ much.
SHARES = (0.0, 0.22, 0.27, 0.34, 0.36, 0.37, 0.46, 0.54, 0.69, 0.72, 0.73, 0.83)
QUICK = "--jobs 1 --set report.concepts=false --set report.replicates=100"
BLIND = ("random", "all_positive", "prevalence", "film_prior", "neighbour")
PUBLISHED_SPLITS = """
schema = "obygaze-protocol/1"
leakage = "error"

[tasks.EN_S]
classes = { EN = 0, S = 1 }
folds = "easy"

[tasks.HN_S]
classes = { HN = 0, S = 1 }
folds = "hard"

[splits]
kind = "published"

[models.ridge]
kind = "ridge"

[report]
compare = false
replicates = 100
"""


def in_the_task(rows: list[Row]) -> list[int]:
    return [number for number, row in enumerate(rows) if row["level"] in ("EN", "S")]


def test_a_planted_effect_is_shown(ws: Workspace) -> None:
    rows = labelled_clips(n_films=20)
    import_features(ws, rows, features_of(rows, level=1.0), "planted")
    run = ws(
        "run honest --manifest films --store planted -o honest"
        """ --set 'grid.models=["ridge", "logistic"]' --set models.logistic.kind=logistic"""
        f" --set models.logistic.C=0.5 {QUICK}"
    )
    assert "clips of 20 films, manifest films (400 clips)" in run.text

    # Ridge is better than the best baseline that sees no video, and its interval says so.
    ridge = the_result(ws, "honest", model="ridge")
    blind = [the_result(ws, "honest", model=name)["ap"] for name in BLIND]
    assert ridge["ap_low"] > max(blind)
    assert ridge["leaked"] == 0
    # Two normal distributions one standard deviation apart have this AUC.
    assert ridge["auc_low"] < norm.cdf(1 / np.sqrt(2)) < ridge["auc_high"]

    ws("report honest --format html --format csv")
    assert "ridge ranks clips better than" in ws.read("runs/honest/report.html")
    table = ws.read_table("runs/honest/tables/results.csv")
    beside_guess = [row for row in table if row["best baseline"]]
    assert [row["better?"] for row in beside_guess] == ["yes", "yes"]
    assert all(float(row["p"]) < 0.05 for row in beside_guess)

    # A task that these clips do not have is no score of zero clips.
    without_hn = """--set 'data.where="level != HN"'"""
    refused = ws(
        f"run honest-negatives --store planted -o no {without_hn}", code=1
    ).text
    assert "the task HN_S has no clip of class 0 (HN)" in refused
    # Without HN clips, ENHN_S would be EN_S under a second name.
    assert "use --task EN_S to run only the tasks" in refused


@pytest.mark.check("forty stores of noise")
def test_noise_is_seldom_an_effect(ws: Workspace) -> None:
    """95 % intervals are wrong once in 20 times, on one side once in 40: more than 4 is a fault."""
    rows = clips_of_unequal_films()
    names = [f"noise{seed:02d}" for seed in range(40)]
    arrays: dict[str, Any] = {}
    for seed, name in enumerate(names):
        arrays[name] = features_of(rows, width=8, seed=seed)
    np.savez(ws.path("noise.npz"), clip_id=[row["clip_id"] for row in rows], **arrays)
    ws.import_table(rows, "films")
    options = " ".join(f"--array {name}={name}" for name in names)
    ws(f"store import noise.npz {options} --manifest films -o noise")
    stores = " ".join(
        f"--store {name}=noise --set features.{name}.array={name}" for name in names
    )
    run = ws(
        f"run honest --manifest films {stores} -o noise {QUICK} --set data.view=raw"
        """ --set 'grid.models=["ridge"]' --set report.compare=false"""
    )

    results = [row for row in results_of(ws, "noise") if row["model"] == "ridge"]
    assert sorted(row["store"] for row in results) == names
    claims = [row["store"] for row in results if row["auc_low"] > 0.5]
    assert len(claims) <= 4
    # The intervals are no wider than 12 films make them: most do not hold all values.
    assert np.median([row["auc_high"] - row["auc_low"] for row in results]) < 0.4
    assert "of 40 results" in run.text
    assert "further rows in results.csv: 28" in run.text


def clips_of_unequal_films() -> list[Row]:
    """Return 20 clips of each of twelve films, which differ much in their share of S."""
    draws = np.random.default_rng(0)
    rows = []
    for film, share in enumerate(SHARES, start=1):
        for scene in range(1, 21):
            row = {
                "clip_id": f"film{film:02d}-{scene:03d}",
                "movie_id": f"film{film:02d}",
                "level": "S" if draws.random() < share else "EN",
                "concepts": "",
            }
            rows.append(row)
    return rows


def test_clips_that_trained_are_counted(ws: Workspace) -> None:
    """Two tasks share their S clips, and each has folds of its own, as published."""
    rows = labelled_clips(n_films=6, per_film=12)
    draws = np.random.default_rng(5)
    for row in rows:
        row["fold:easy"] = int(draws.integers(4))
        row["fold:hard"] = int(draws.integers(4))
    import_features(ws, rows, features_of(rows, level=1.0), "planted")
    ws.write("published.toml", PUBLISHED_SPLITS)
    line = "run published.toml --manifest films --store planted -o published --jobs 1"

    # An S clip of fold 2 of the one table and fold 3 of the other trained the model that tests it.
    leaked = 0
    for row in rows:
        leaked += row["level"] == "S" and row["fold:easy"] != row["fold:hard"]
    assert leaked > 0
    refused = ws(line, code=1).text
    of_folds = re.findall(
        r"HN_S -> EN_S, fold \d: (\d+) of \d+ test clips leaked", refused
    )
    assert sum(int(number) for number in of_folds) == leaked

    run = ws(f"{line} --set leakage=warn")
    n_tested = sum(row["level"] in ("EN", "S") for row in rows)
    assert f"{leaked} of the {n_tested} test clips of HN_S -> EN_S" in run.text
    counts = {}
    for row in results_of(ws, "published"):
        if row["model"] == "ridge":
            counts[row["train"], row["test"]] = row["leaked"]
    assert counts == {
        ("EN_S", "EN_S"): 0,
        ("EN_S", "HN_S"): leaked,
        ("HN_S", "EN_S"): leaked,
        ("HN_S", "HN_S"): 0,
    }


def test_copies_of_clips_that_trained_are_counted(ws: Workspace) -> None:
    """A clip under the name of another film has the same features."""
    rows = labelled_clips(n_films=6, per_film=12)
    for row in rows:
        row["part"] = "tested" if row["movie_id"] == "film06" else "seen"
    used = in_the_task(rows)
    trained = [number for number in used if rows[number]["part"] == "seen"]
    tested = [number for number in used if rows[number]["part"] == "tested"]
    X = features_of(rows)
    copied = tested[:3]
    X[copied] = X[trained[:3]]
    import_features(ws, rows, X, "copies")
    ws(
        "run honest --manifest films --store copies -o copies --set leakage=warn"
        f""" {QUICK} --set 'grid.models=["ridge"]' --set splits.kind=fixed"""
        """ --set splits.column=part --set 'splits.test=["tested"]'"""
    )
    result = the_result(ws, "copies", model="ridge")
    assert result["clips"] == len(tested)
    assert result["leaked"] == len(copied)

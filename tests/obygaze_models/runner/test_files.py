"""The files of a run: their columns, what is in them, and that they are read as they were."""

from __future__ import annotations

import csv
import io
import math
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score
from support.experiments import TOLERANCES, films, planted, quick, store_of
from support.tables import RunRow, rows_of

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.parts import trust
from obygaze_features.manifest.model import Manifest
from obygaze_models.evaluation.tables import RUN_TABLES
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.files import Run, read_folder
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.limits import limits_of
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.text import read_run, result_text

ONE_PAIR = (
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    "report.contrast=[]",
    "report.concepts=false",
    *TOLERANCES,
    "models.mlp.max_epochs=3",
    "models.mlp.min_epochs=1",
)


def run_on(
    folder: Path,
    *changes: str,
    name: str = "honest",
    manifest: Manifest | None = None,
    stores: tuple[float, ...] = (0.6,),
) -> Run:
    """A run on made-up films; of each store, how strongly the level is in its features."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = manifest or films(7, 24, seed=3)
    opened = {}
    for number, strength in enumerate(stores):
        X = planted(manifest, strength=strength, seed=number)
        opened[f"s{number}"] = store_of(folder / f"store-{number}", manifest, X)
    protocol = quick(name, *changes, replicates=40)
    inputs = gather(protocol, manifest, "made-up", opened)
    return run_protocol(inputs, folder / "run", n_jobs=1)


def values_of(run: Run, **wanted: Any) -> list[RunRow]:
    """The rows of results.csv with these values; by default of cells over all films."""
    rows = rows_of(run.results, **{"film": "", "against_model": "", **wanted})
    if "train_films" in wanted:
        return rows
    return [row for row in rows if math.isnan(row["train_films"])]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_on(tmp_path_factory.mktemp("tables"), *ONE_PAIR)


def test_the_files_are_two_tables_and_run_json(run: Run) -> None:
    names = sorted(path.name for path in run.folder.iterdir())
    assert names == ["predictions.csv", "results.csv", "run.json"]
    for name in ("predictions.csv", "results.csv"):
        columns = RUN_TABLES[name]
        with (run.folder / name).open(encoding="utf-8") as stream:
            assert next(csv.reader(stream)) == list(columns)
    assert tuple(RUN_TABLES["results.csv"])[:8] == (
        *("task", "train", "test", "store", "model"),
        *("film", "metric", "value"),
    )


def test_the_next_command_finds_a_run_outside_of_the_workspace(run: Run) -> None:
    """It had the name alone, which is looked for in the workspace."""
    (note,) = run.notes
    again = read_run(shlex.split(note)[-1])
    assert again.folder == run.folder
    # Printed, a run says what the terminal says.
    assert str(again) == str(run) == result_text(run)


def test_a_value_is_that_of_the_predictions(run: Run) -> None:
    """The average precision of each film, by scikit-learn."""
    by_film: dict[str, list[RunRow]] = {}
    for row in rows_of(run.predictions, model="ridge"):
        by_film.setdefault(row["movie_id"], []).append(row)
    assert len(by_film) == 7
    values = {
        row["film"]: row["value"]
        for film in by_film
        for row in values_of(run, model="ridge", metric="ap", film=film)
    }
    precisions = []
    for film, rows in by_film.items():
        y = [row["y"] for row in rows]
        expected = average_precision_score(y, [row["score"] for row in rows])
        assert values[film] == pytest.approx(expected)
        precisions.append(expected)
    (over_all,) = values_of(run, model="ridge", metric="ap")
    # Each film is a fold: AP is averaged over folds.
    assert over_all["value"] == pytest.approx(np.mean(precisions))
    assert over_all["sd"] == pytest.approx(np.std(precisions, ddof=1))
    assert over_all["low"] < over_all["value"] < over_all["high"]
    assert (over_all["fits"], over_all["films"], over_all["leaked"]) == (7, 7, 0)


def test_a_decision_metric_of_a_model_has_no_interval(run: Run) -> None:
    (trained,) = values_of(run, model="ridge", metric="f1_binary")
    (untrained,) = values_of(run, model="all_positive", metric="f1_binary")
    assert math.isnan(trained["low"]) and untrained["low"] < untrained["high"]


def test_differences_name_the_second_side(run: Run) -> None:
    differences = run.differences
    pairs = {(row["model"], row["against_model"]) for row in differences}
    assert ("ridge", "mlp") in pairs and ("ridge", "random") in pairs
    assert not {model for model, _ in pairs}.intersection({"random", "oracle"})
    value = {row["model"]: row["value"] for row in values_of(run, metric="ap")}
    for row in differences:
        assert row["metric"] == "ap" and row["against_train"] == row["train"]
        expected = value[row["model"]] - value[row["against_model"]]
        assert row["value"] == pytest.approx(expected)
        # Each film also trained the models of others: no p of its own, but one among all.
        assert math.isnan(row["p"])
        assert 0 < row["p_all"] <= 1


def test_baselines_are_not_compared_with_each_other(tmp_path: Path) -> None:
    """Where stores lack other clips, each has baselines, whose differences are no question."""
    manifest = films(7, 24, seed=3)
    X = planted(manifest)
    lacking = [clip.clip_id for clip in manifest if clip.level == "S"][:1]
    stores = {
        "whole": store_of(tmp_path / "whole", manifest, X),
        "part": store_of(tmp_path / "part", manifest, X, without=lacking),
    }
    changes = (*ONE_PAIR, 'grid.models=["ridge"]', "report.replicates=20")
    inputs = gather(load_protocol("honest", changes), manifest, "made-up", stores)
    run = run_protocol(inputs, tmp_path / "run", n_jobs=1)
    differences = run.differences
    assert {row["store"] for row in differences} == {"whole", "part"}
    assert {row["model"] for row in differences} == {"ridge"}
    # The line of the task says what both stores test.
    (line,) = [
        line for line in result_text(run).splitlines() if line.split()[:1] == ["EN_S"]
    ]
    # The code of a task has its words before it stands in the table.
    text = result_text(run)
    assert text.index("EN_S: easy negatives against sure") == text.index("EN_S")
    assert "AP is computed in each fold, and averaged; in brackets: 95 %" in text
    assert "F1" not in text and "AUC" not in text
    n_clips = [row["clips"] for row in values_of(run, model="ridge", metric="ap")]
    assert n_clips[1] == n_clips[0] - 1
    assert line.split()[1:4] == [str(n_clips[1]), "to", str(n_clips[0])]


def test_a_run_is_read_back(run: Run) -> None:
    again = read_folder(run.folder)
    assert again.known == {}
    for name in ("predictions.csv", "results.csv"):
        pd.testing.assert_frame_equal(
            again.table(name), run.table(name), check_exact=True
        )
    assert not len(again.table("trees.csv")) and again.protocol["name"] == "honest"
    for cell, of_run in zip(again.cells, run.cells, strict=True):
        assert (cell.name, cell.values) == (of_run.name, of_run.values)
        assert cell.intervals == of_run.intervals
    chosen = again.folds_of(again.cells[0])[0]["chosen"]
    assert {"epochs", "alpha"}.intersection(chosen)


def test_a_learning_curve_has_a_row_for_each_number_of_films(tmp_path: Path) -> None:
    run = run_on(
        tmp_path,
        *ONE_PAIR,
        'grid.models=["ridge", "pcbm-lr"]',
        "models.pcbm-lr.tolerance=1.0",
        "report.learning_films=[2, 6]",
    )
    for model in ("ridge", "pcbm-lr"):
        (whole,) = values_of(run, model=model, metric="ap")
        (all_films,) = values_of(run, model=model, train_films=6)
        # Six films train in each fold, of which the validation film is one.
        assert all_films["value"] == pytest.approx(whole["value"])
        assert len(values_of(run, model=model, train_films=2)) == 1
    with pytest.raises(FixUsage, match=r"counts films here: .* more than 6, got 7"):
        run_on(tmp_path / "more", *ONE_PAIR, "report.learning_films=[7]")


def test_concepts_and_trees_are_tables(tmp_path: Path) -> None:
    manifest = films(6, 40, seed=1, runs_on=0.2)
    changes = (*ONE_PAIR[:3], 'grid.models=["pcbm-lr", "pcbm-dt"]')
    vectors = ("models.pcbm-lr.tolerance=1.0", "models.pcbm-dt.tolerance=1.0")
    run = run_on(tmp_path, *changes, *vectors, manifest=manifest, stores=(2.0,))
    concepts = rows_of(run.table("concepts.csv"))
    linear = [row for row in concepts if row["model"] == "pcbm-lr"]
    assert len(linear) == 8 == len({row["concept"] for row in linear})
    for row in linear:
        assert row["ap"] > row["positive"] / row["clips"]
        assert row["weight"] != 0 and row["p_holm"] >= row["p"]
    assert all(math.isnan(row["weight"]) for row in concepts if row not in linear)
    nodes = rows_of(run.table("trees.csv"))
    assert {row["model"] for row in nodes} == {"pcbm-dt"}
    root = nodes[0]
    n_clips = sum(clip.level in ("EN", "S") for clip in manifest)
    assert root["node"] == 0 and root["clips"] == n_clips
    inner = [node for node in nodes if node["concept"]]
    by_number = {node["node"]: node for node in nodes}
    for node in inner:
        below = [by_number[node["left"]], by_number[node["right"]]]
        assert sum(child["clips"] for child in below) == node["clips"]
    leaves = [node for node in nodes if not node["concept"]]
    assert len(leaves) == len(inner) + 1


def test_concepts_are_tabled_beside_any_other_model(tmp_path: Path) -> None:
    """A model of scikit-learn beside a bottleneck ended in a bug, after all fits."""
    run = run_on(
        tmp_path,
        *ONE_PAIR[:3],
        "models.nb.kind=sklearn.naive_bayes.GaussianNB",
        'grid.models=["nb", "pcbm-lr"]',
        "models.pcbm-lr.tolerance={by_task={EN_S=1.0, other=0.1}}",
    )
    concepts = rows_of(run.table("concepts.csv"))
    assert {row["model"] for row in concepts} == {"pcbm-lr"}
    # The tolerance of the training task.
    assert {row["tolerance"] for row in concepts} == {1.0}


def test_success_is_a_table(tmp_path: Path) -> None:
    run = run_on(
        tmp_path, *ONE_PAIR, 'grid.models=["ridge"]', "report.error_analysis=true"
    )
    whole = rows_of(run.table("success.csv"), film="all films")
    assert {"level EN", "level S"} <= {row["factor"] for row in whole}
    (ridge,) = {row["successes"] for row in whole}
    tests = rows_of(run.predictions, model="ridge")
    correct = [row["y"] == row["decision"] for row in tests]
    assert ridge == sum(correct) and whole[0]["all_clips"] == len(correct)


def test_a_class_without_scores_is_refused_before_it_trains(tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text(
        "from sklearn.base import BaseEstimator, ClassifierMixin\n"
        "class Plain(ClassifierMixin, BaseEstimator):\n"
        "    def fit(self, X, y):\n"
        "        raise AssertionError('it trained')\n"
        "    def predict(self, X):\n"
        "        return [0] * len(X)\n",
        encoding="utf-8",
    )
    trust([f"{code}:Plain"])
    with pytest.raises(FixInput, match="neither predict_proba"):
        run_on(
            tmp_path / "r",
            *ONE_PAIR,
            f"models.mine.kind={code}:Plain",
            'grid.models=["mine"]',
        )


def test_an_empty_cell_of_a_table_is_no_number(run: Run) -> None:
    data = (run.folder / "results.csv").read_text(encoding="utf-8")
    assert "nan" not in data.casefold().replace("prevalence", "")
    rows = list(csv.DictReader(io.StringIO(data)))
    assert any(row["low"] == "" for row in rows)


def test_a_run_says_which_concepts_bottlenecks_do_without(tmp_path: Path) -> None:
    """Two clips of the only film with enough of a concept: no other fold can find it."""
    manifest = films(4, 30, seed=5)
    rare = "Look"
    clips = []
    n_marked = {"tt0000001": 0, "tt0000002": 0}
    for clip in manifest:
        concepts = tuple(name for name in clip.concepts if name != rare)
        most = {"tt0000001": 4, "tt0000002": 2}.get(clip.movie_id, 0)
        if clip.level == "S" and n_marked.get(clip.movie_id, 0) < most:
            n_marked[clip.movie_id] += 1
            concepts = (*concepts, rare)
        clips.append(replace(clip, concepts=concepts))
    assert n_marked == {"tt0000001": 4, "tt0000002": 2}
    made = replace(manifest, clips=tuple(clips))
    changes = (*ONE_PAIR, 'grid.models=["pcbm-lr"]', "report.compare=false")
    run = run_on(tmp_path, *changes, manifest=made)
    # Without the first film two clips have it, without another one four or more.
    expected = {"folds": 1, "of": 4, "least": 2}
    assert run.about["rare_concepts"]["s0"][rare] == expected
    (warning,) = [w for w in limits_of(run) if w.name == "rare concepts"]
    assert "Look (down to 2 clips, in 1 of 4 folds)" in warning.text

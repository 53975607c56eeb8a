"""What honest splits say of noise, and what random folds say of a baseline that sees no video."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.experiments import (
    cell_of,
    films,
    planted,
    quick,
    run_on,
    store_of,
    without_models,
)

from obygaze_models.runner.tables import Run
from obygaze_models.runner.text import result_text

MODELS = 'grid.models=["ridge", "mlp", "pcbm-lr"]'
FAST = ("models.pcbm-lr.tolerance=0.01", "models.pcbm-lr.cross_fit=3")


@pytest.fixture(scope="module")
def on_noise(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("noise")
    manifest = films(10, 40, seed=3, runs_on=0.7)
    store = store_of(folder / "store", manifest, planted(manifest, strength=0.0))
    return run_on(
        folder, quick("honest", MODELS, *FAST, replicates=400), manifest, {"x": store}
    )


@pytest.fixture(scope="module")
def on_signal(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("signal")
    manifest = films(8, 40, seed=3)
    store = store_of(folder / "store", manifest, planted(manifest, strength=1.2))
    return run_on(
        folder, quick("honest", MODELS, *FAST, replicates=400), manifest, {"x": store}
    )


@pytest.mark.check("many runs on noise")
def test_on_noise_every_honest_interval_covers_chance(on_noise: Run) -> None:
    assert len(on_noise.cells) == 3 * 6
    for cell in on_noise.cells:
        low, high = cell["auc"]["ci"]
        assert low <= 0.5 <= high, (
            cell["model"],
            cell["train"],
            cell["test"],
            low,
            high,
        )
        assert cell["leaked"] == 0
    assert any("reaches one half" in r["text"] for r in on_noise.of("remark"))


@pytest.mark.check("several runs")
def test_where_there_is_a_signal_it_is_found(on_signal: Run) -> None:
    for cell in on_signal.cells:
        if cell["train"] == "ENHN_S":
            assert cell["auc"]["ci"][0] > 0.6, cell["model"]
            assert cell["ap"]["value"] > cell["prevalence"] + 0.2
    assert not [r for r in on_signal.of("remark") if r["about"] == "chance"]


def test_random_folds_let_a_blind_neighbour_look_good_and_films_do_not(
    tmp_path: Path,
) -> None:
    manifest = films(10, 40, seed=3, runs_on=0.7)
    found = {}
    for name, changes in {
        "random": ("splits.kind=kfold", "splits.folds=10"),
        "film": (),
    }.items():
        protocol = without_models(
            quick("honest", *changes, replicates=400), "neighbour"
        )
        run = run_on(tmp_path, protocol, manifest, {})
        found[name] = cell_of(run.baselines, train="ENHN_S", test="ENHN_S")
    assert found["random"]["auc"]["value"] > 0.6
    # No clip of the film votes: all score the same.
    assert found["film"]["auc"]["value"] == 0.5
    assert found["random"]["neighbours"] > 0.9 * found["random"]["n_test"]
    assert found["film"]["same_film"] == 0


def test_the_remark_says_why(tmp_path: Path) -> None:
    manifest = films(8, 30, seed=3, runs_on=0.8)
    store = store_of(tmp_path / "s", manifest, planted(manifest, strength=0.0))
    protocol = quick(
        "honest", "splits.kind=kfold", "splits.folds=5", 'grid.models=["ridge"]'
    )
    run = run_on(tmp_path, protocol, manifest, {"x": store})
    (text,) = [r["text"] for r in run.of("remark") if r["about"] == "blind baseline"]
    assert "neighbour has ap" in text
    assert "only splits by film measure what is seen in the video" in text


def test_the_value_of_decisions_is_that_of_the_pooled_predictions(
    on_signal: Run,
) -> None:
    """From predictions.csv with scikit-learn: nothing of the runner's arithmetic."""
    from sklearn.metrics import f1_score, roc_auc_score

    rows = [
        r
        for r in on_signal.predictions
        if (r["model"], r["train"], r["test"]) == ("mlp", "EN_S", "ENHN_S")
    ]
    cell = cell_of(on_signal.cells, model="mlp", train="EN_S", test="ENHN_S")
    y, said = ([int(r[key]) for r in rows] for key in ("y", "decision"))
    assert len({r["clip_id"] for r in rows}) == len(rows) == cell["n_test"]
    assert cell["f1_binary"]["value"] == pytest.approx(f1_score(y, said))
    assert cell["f1_weighted"]["value"] == pytest.approx(
        f1_score(y, said, average="weighted")
    )
    for fold in cell["folds"]:
        own = [r for r in rows if r["fold"] == fold["fold"]]
        expected = roc_auc_score(
            [int(r["y"]) for r in own], [float(r["score"]) for r in own]
        )
        assert fold["auc"] == pytest.approx(expected)
        assert fold["n_test"] == len(own)
    mean = np.mean([fold["f1_binary"] for fold in cell["folds"]])
    assert cell["f1_binary"]["mean"] == pytest.approx(mean)


def test_each_film_has_its_own_values(on_signal: Run) -> None:
    cell = cell_of(on_signal.cells, model="ridge", train="EN_S", test="EN_S")
    assert len(cell["by_film"]) == cell["n_films"] == 8
    assert sum(film["n"] for film in cell["by_film"].values()) == cell["n_test"]
    # One fold a film: what a fold says is what its film says.
    of_film = sorted(film["auc"] for film in cell["by_film"].values())
    assert of_film == pytest.approx(sorted(fold["auc"] for fold in cell["folds"]))


def test_models_are_compared_on_the_same_clips(on_signal: Run) -> None:
    pairs = {
        (c["first"]["model"], c["second"]["model"])
        for c in on_signal.of("comparison")
        if (c["train"], c["test"]) == ("EN_S", "EN_S")
    }
    assert ("ridge", "mlp") in pairs
    assert ("mlp", "neighbour") in pairs
    for record in on_signal.of("comparison"):
        assert 0 < record["p_corrected_t"] <= 1
        assert record["p_sign_flip"] is None  # the films train each other's models
        assert record["ci"][0] <= record["difference"] <= record["ci"][1]
        first, second = (
            cell_of(
                [*on_signal.cells, *on_signal.baselines],
                model=record[side]["model"],
                train=record["train"],
                test=record["test"],
            )
            for side in ("first", "second")
        )
        gap = first["ap"]["value"] - second["ap"]["value"]
        assert record["difference"] == pytest.approx(gap)


def test_seeds_are_a_spread_of_their_own(tmp_path: Path) -> None:
    manifest = films(4, 30)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    protocol = quick(
        "honest", 'grid.models=["mlp"]', "fit.seeds=3", "grid.baselines=[]"
    )
    run = run_on(tmp_path, protocol, manifest, {"x": store})
    cell = cell_of(run.cells, train="EN_S", test="EN_S")
    assert (cell["seeds"]["n"], cell["n_runs"]) == (3, 12)
    assert cell["seeds"]["auc"]["sd"] > 0
    assert cell["seeds"]["auc"]["mean"] == pytest.approx(cell["auc"]["value"])


def test_a_choice_is_made_without_the_test_and_remembered(tmp_path: Path) -> None:
    manifest = films(5, 40)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    protocol = quick(
        "honest",
        "models.ridge.kind=logistic",
        "models.ridge.C=[1e-9, 0.05]",
        'grid.models=["ridge"]',
        'grid.train=["EN_S"]',
        'grid.test=["EN_S"]',
    )
    run = run_on(tmp_path, protocol, manifest, {"x": store})
    cell = cell_of(run.cells, model="ridge", train="EN_S", test="EN_S")
    assert {fold["chosen"]["C"] for fold in cell["folds"]} <= {1e-9, 0.05}
    assert cell["auc"]["value"] > 0.7


def test_probabilities_are_recalibrated_by_the_other_films(on_signal: Run) -> None:
    from scipy.special import expit
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import brier_score_loss

    cell = cell_of(on_signal.cells, model="mlp", train="EN_S", test="ENHN_S")
    rows = [
        r
        for r in on_signal.predictions
        if (r["model"], r["train"], r["test"]) == ("mlp", "EN_S", "ENHN_S")
    ]
    y, score = np.array([r["y"] for r in rows]), np.array([r["score"] for r in rows])
    films_of = np.array([r["movie_id"] for r in rows])
    odds = np.log(score / (1 - score))
    again = np.empty(len(rows))
    for film in np.unique(films_of):
        out = films_of == film
        other = LogisticRegression(C=np.inf, tol=1e-10, max_iter=2000)
        other.fit(odds[~out, None], y[~out])
        again[out] = expit(other.intercept_[0] + other.coef_[0, 0] * odds[out])
    found = cell["recalibrated"]
    assert found["brier"] == pytest.approx(brier_score_loss(y, again), abs=1e-5)
    assert sum(one["n"] for one in found["calibration"]) == len(rows)
    ridge = cell_of(on_signal.cells, model="ridge", train="EN_S", test="ENHN_S")
    assert ridge["recalibrated"] is None and ridge["calibration"] is None


def test_a_model_that_calls_no_clip_positive_has_an_interval_of_ranks_only(
    tmp_path: Path,
) -> None:
    manifest = films(5, 30, seed=1)
    store = store_of(
        tmp_path / "s", manifest, np.zeros((len(manifest), 3), dtype=np.float32)
    )
    changes = ('grid.models=["mlp"]', 'grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]')
    changes += ('models.mlp.class_weight="none"',)
    run = run_on(tmp_path, quick("honest", *changes), manifest, {"x": store})
    (found,) = run.cells
    assert found["confusion"]["tp"] == found["confusion"]["fp"] == 0
    assert found["f1_binary"] == {**found["f1_binary"], "value": 0, "ci": [None, None]}
    assert found["accuracy"]["ci"] == [None, None]
    assert None not in found["ap"]["ci"]
    assert ".00-.00" not in result_text(run)
    # All positive is what this baseline does: its values have intervals.
    assert None not in cell_of(run.baselines, model="all_positive")["f1_binary"]["ci"]


def test_trained_models_have_intervals_of_ranks_only(on_signal: Run) -> None:
    """At a threshold, other training films could change the decisions on many clips."""
    for cell in on_signal.cells:
        assert intervals_of(cell) == {"ap", "auc"}, cell["model"]
    film_prior = cell_of(
        on_signal.baselines, model="film_prior", train="EN_S", test="ENHN_S"
    )
    # It says the same of all clips of films that it has not seen: its AUC is .5 whatever the films
    # are, and a width of zero is no interval.
    assert intervals_of(film_prior) == {"ap"}
    untrained = cell_of(
        on_signal.baselines, model="all_positive", train="EN_S", test="ENHN_S"
    )
    assert {"ap", "f1_binary", "accuracy"} <= intervals_of(untrained)
    assert "auc" not in intervals_of(untrained)


def intervals_of(cell: Mapping[str, Any]) -> set[str]:
    return {
        name for name, value in cell.items() if name != "seeds" and has_interval(value)
    }


def has_interval(value: object) -> bool:
    return isinstance(value, dict) and value.get("ci", [None])[0] is not None

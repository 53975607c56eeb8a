"""Settings are drawn from grids and ranges by the seed of the protocol, and chosen as in a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, loguniform, uniform
from support.cells import by_cell
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import models

from obygaze_features.core.errors import FixInput
from obygaze_features.store import Store
from obygaze_models.protocols.kinds import candidates, draw_candidates
from obygaze_models.protocols.schema import Model, Protocol
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.tables import Run
from obygaze_models.runner.training import fit_final, training_protocol
from obygaze_models.zoo import load_model

MANIFEST = films(4, 40, seed=3)
FOREST = "sklearn.ensemble.RandomForestClassifier"
SHORT = ("models.mlp.max_epochs=3", "models.mlp.min_epochs=1")


def one_pair(*changes: str, model: str) -> Protocol:
    """One model, trained and tested on EN_S."""
    tasks = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]', "report.contrast=[]")
    off = ("report.concepts=false", "report.compare=false", "grid.baselines=[]")
    grid = f'grid.models=["{model}"]'
    return quick("honest", grid, *tasks, *off, *SHORT, *changes, replicates=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("draws")
    return store_of(folder / "s", MANIFEST, planted(MANIFEST, width=14))


def drawn(kind: str, settings: dict[str, Any], n: int, seed: int = 0) -> dict[str, Any]:
    """The drawn values of each setting."""
    combinations = draw_candidates(Model(kind, settings, n), seed)
    return {name: [own[name] for own in combinations] for name in settings}


def test_values_have_the_distribution_of_their_range() -> None:
    ranges = {"C": {"log": [1e-4, 100.0]}, "dropout": {"uniform": [0.25, 0.75]}}
    logarithmic = drawn("logistic", {"C": ranges["C"]}, 3000)["C"]
    assert kstest(logarithmic, loguniform(1e-4, 100.0).cdf).pvalue > 0.01
    flat = drawn("mlp", {"dropout": ranges["dropout"]}, 3000)["dropout"]
    assert kstest(flat, uniform(0.25, 0.5).cdf).pvalue > 0.01
    for values, low, high in ((logarithmic, 1e-4, 100.0), (flat, 0.25, 0.75)):
        assert low <= min(values) <= max(values) <= high
        assert all(float(f"{value:.4g}") == value for value in values)


def test_whole_numbers_are_drawn_where_the_default_is_one() -> None:
    """Every number of a flat range has the same chance, and log 1 to 3 those of log 2, 3/2, 4/3."""
    other = {
        "min_samples_leaf": {"uniform": [1, 10**9]}
    }  # so that no two combinations are equal
    n = 6000
    flat = drawn("pcbm-dt", {"max_depth": {"uniform": [2, 5]}, **other}, n)["max_depth"]
    values, counts = np.unique(flat, return_counts=True)
    assert values.tolist() == [2, 3, 4, 5]
    np.testing.assert_allclose(counts / len(flat), 0.25, atol=0.03)
    assert all(isinstance(value, int) for value in flat)
    low = drawn("pcbm-dt", {"max_depth": {"log": [1, 3]}, **other}, n)["max_depth"]
    values, counts = np.unique(low, return_counts=True)
    assert values.tolist() == [1, 2, 3]
    chances = np.log([2, 3 / 2, 4 / 3]) / np.log(4)
    np.testing.assert_allclose(counts / len(low), chances, atol=0.03)
    decimal = drawn("logistic", {"C": {"log": [1, 3]}}, 50)["C"]
    assert any(value != int(value) for value in decimal)
    forest = {
        "max_depth": {"uniform": [2, 4]},  # the default is none
        "max_features": {"uniform": [0.2, 0.9]},  # the default is text
        "n_estimators": {"log": [2, 9]},
        "min_impurity_decrease": {"uniform": [0, 1]},  # the default is 0.0
    }
    types = {
        name: {type(value) for value in values}
        for name, values in drawn(FOREST, forest, 20).items()
    }
    assert types == {
        "max_depth": {int},
        "max_features": {float},
        "n_estimators": {int},
        "min_impurity_decrease": {float},
    }


def test_a_range_may_be_as_wide_as_numbers_are() -> None:
    values = drawn("logistic", {"C": {"log": [1e-300, 1e300]}}, 1000)["C"]
    assert kstest(np.log10(values), uniform(-300, 600).cdf).pvalue > 0.01


def test_draws_are_those_of_the_seed_and_of_the_setting_alone() -> None:
    C = {"log": [0.01, 10.0]}
    alone = drawn("logistic", {"C": C}, 8)["C"]
    beside = drawn(
        "logistic", {"class_weight": {"grid": ["none", "balanced"]}, "C": C}, 8
    )
    assert beside["C"] == alone
    assert set(beside["class_weight"]) == {"none", "balanced"}
    assert drawn("logistic", {"C": C}, 8, seed=1)["C"] != alone
    assert drawn("logistic", {"C": C}, 3)["C"] == alone[:3]

    changes = ("models.log.kind=logistic", "models.log.C.log=[0.01, 10.0]")
    read = one_pair(*changes, "models.log.draws=8", model="log").models["log"]
    assert [own["C"] for own in candidates(read)] == alone
    other = one_pair(*changes, "models.log.draws=8", "fit.seed=1", model="log")
    assert [own["C"] for own in candidates(other.models["log"])] != alone


def test_equal_draws_count_once() -> None:
    settings = {"class_weight": {"grid": ["none", "balanced"]}, "C": 1.0}
    assert len(draw_candidates(Model("logistic", settings, 50), 0)) == 2


@pytest.mark.parametrize(
    ("kind", "setting", "ends"),
    [
        ("logistic", "C", "[0.001, 10.0]"),
        ("mlp", "learning_rate", "[0.0001, 0.1]"),
        ("pcbm-dt", "max_depth", "[1, 50]"),
    ],
)
def test_a_run_is_that_of_a_grid_of_the_same_values(
    store: Store, tmp_path: Path, kind: str, setting: str, ends: str
) -> None:
    shared = [f"models.m.kind={kind}"]
    if kind == "mlp":
        shared += ["models.m.max_epochs=3", "models.m.min_epochs=1"]
    if kind == "pcbm-dt":
        shared += ["models.m.tolerance=0.1"]
    ranges = [f"models.m.{setting}.log={ends}", "models.m.draws=4"]
    protocol = one_pair(*shared, *ranges, model="m")
    run = run_on(tmp_path, protocol, MANIFEST, {"x": store})
    listed = [own[setting] for own in run.protocol["models"]["m"]["drawn"]]
    assert 2 <= len(listed) <= 4
    chosen = [fold["chosen"][setting] for fold in models(run)[0].facts["folds"]]
    assert set(chosen) <= set(listed)
    grid = one_pair(*shared, f"models.m.{setting}.grid={listed}", model="m")
    same = run_on(tmp_path, grid, MANIFEST, {"x": store})
    assert by_cell(same) == by_cell(run)


def all_kinds(*changes: str) -> Protocol:
    """Three models with draws."""
    return one_pair(
        "models.log.kind=logistic",
        "models.log.draws=3",
        "models.log.C.log=[0.001, 10.0]",
        "models.log.class_weight.grid=['none', 'balanced']",
        "models.mlp.draws=2",
        "models.mlp.learning_rate.log=[0.001, 0.1]",
        "models.mlp.hidden.grid=[[4], [8, 8]]",
        "models.pcbm-lr.draws=2",
        "models.pcbm-lr.tolerance.log=[0.01, 1.0]",
        *changes,
        model="log",
    )


@pytest.mark.check("several processes")
def test_draws_give_the_same_bytes_alone_and_in_two_processes(
    store: Store, tmp_path: Path
) -> None:
    every = 'grid.models=["log", "mlp", "pcbm-lr"]'
    whole = run_on(tmp_path, all_kinds(every), MANIFEST, {"x": store})
    inputs = gather(all_kinds(every), MANIFEST, "made-up", {"x": store})
    parallel = run_protocol(inputs, tmp_path / "parallel", n_jobs=2)
    for file in ("results.csv", "predictions.csv"):
        ours = (whole.folder / file).read_bytes()
        assert ours == (parallel.folder / file).read_bytes()
    cells = by_cell(whole)
    for model in ("log", "mlp", "pcbm-lr"):
        alone = all_kinds(f'grid.models=["{model}"]')
        (item,) = by_cell(run_on(tmp_path, alone, MANIFEST, {"x": store})).items()
        assert item in cells.items()


def test_an_estimator_of_scikit_learn_has_draws(store: Store, tmp_path: Path) -> None:
    changes = (
        f"models.forest.kind={FOREST}",
        "models.forest.draws=3",
        "models.forest.n_estimators.log=[2, 8]",
        "models.forest.max_features.uniform=[0.2, 0.9]",
        "models.forest.random_state=0",
    )
    run = run_on(tmp_path, one_pair(*changes, model="forest"), MANIFEST, {"x": store})
    for fold in models(run)[0].facts["folds"]:
        assert fold["chosen"].keys() == {"n_estimators", "max_features"}


def train(folder: Path, store: Store, *changes: str) -> tuple[Run, Any]:
    """Train a logistic regression with draws; return its run and the model that is kept."""
    off = ("report.replicates=20", "report.compare=false", "model.draws=6")
    protocol = training_protocol("logistic", "EN_S", MANIFEST, [*off, *changes])
    inputs = gather(protocol, MANIFEST, "made-up", {"s": store})
    run = run_protocol(inputs, folder / "run", n_jobs=1)
    return run, load_model(fit_final(inputs, run, folder / "kept")).estimator


def test_the_combination_that_most_folds_chose_is_kept(
    store: Store, tmp_path: Path
) -> None:
    run, kept = train(
        tmp_path,
        store,
        "model.C.log=[0.0001, 100.0]",
        "model.class_weight.grid=['none', 'balanced']",
    )
    folds = models(run)[0].facts["folds"]
    chosen = [(f["chosen"]["C"], f["chosen"]["class_weight"]) for f in folds]
    order = [
        (own["C"], own["class_weight"])
        for own in run.protocol["models"]["logistic"]["drawn"]
    ]
    most = max(chosen.count(pair) for pair in order)
    expected = next(pair for pair in order if chosen.count(pair) == most)
    assert (kept.C, kept.class_weight or "none") == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("C.log=[0.1, 1.0]", "a range needs the number of draws: models.x.draws = 20"),
        ("draws=3", "the settings offer 1 combinations; without draws, all are tried"),
        ("draws=0", "must be a whole number, at least 1, at most 10000, got 0"),
        ("C.log=[0.0, 1.0]", "as a range must be above 0 for log"),
        ("C.uniform=[0.0, 1.0]", "as a range: 0.0 must be a number, above 0"),
        (
            "C.uniform=[2.0, 1.0]",
            "as a range must be two numbers, the smaller one first",
        ),
        ("C.uniform=[1.0]", "as a range must be two numbers, the smaller one first"),
        (
            "C.uniform=['a', 'b']",
            "as a range must be two numbers, the smaller one first",
        ),
        ("C.log=[1.0, inf]", "as a range: inf must be a number, above 0"),
        ("class_weight.uniform=[1, 2]", "as a range: 1 must be one of balanced, none"),
    ],
)
def test_invalid_ranges_and_draws_are_named(change: str, message: str) -> None:
    with pytest.raises(FixInput) as error:
        one_pair("models.x.kind=logistic", f"models.x.{change}", model="x")
    assert message in error.value.details[0]


def test_all_invalid_ranges_are_named_at_once() -> None:
    changes = (
        "models.pcbm-dt.max_depth.log=[1.5, 4.0]",
        f"models.x.kind={FOREST}",
        "models.x.n_estimators.log=[2.5, 9.5]",
        "models.mlp.hidden.log=[8, 64]",
    )
    with pytest.raises(FixInput) as error:
        one_pair(*changes, model="x")
    text = "\n".join(error.value.details)
    assert text.count("as a range must be two whole numbers") == 2
    assert "as a range: 8 must be a list" in text

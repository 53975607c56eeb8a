"""What honest splits say of noise, and what random folds say of a baseline that sees no video."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.experiments import films, planted, quick, run_on, store_of, without_models
from support.tables import (
    models,
    predictions_of,
    the_cell,
)

from obygaze_models.evaluation.cells import Cell
from obygaze_models.runner.files import Run
from obygaze_models.runner.limits import limits_of
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
    protocol = quick("honest", MODELS, *FAST, replicates=100)
    return run_on(folder, protocol, manifest, {"x": store})


@pytest.mark.check("many runs on noise")
def test_on_noise_every_honest_interval_covers_chance(on_noise: Run) -> None:
    assert len(models(on_noise)) == 3 * 6
    for cell in models(on_noise):
        low, high = cell.ends("auc")
        assert low <= 0.5 <= high, (cell.model, cell.tasks, low, high)
        assert cell.leaked == 0
    assert "chance" in abouts(on_noise)


def abouts(run: Run) -> list[str]:
    """What the warnings of a run are about."""
    return [limit.name for limit in limits_of(run)]


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
        found[name] = the_cell(run, train="ENHN_S", test="ENHN_S")
    assert found["random"].value("auc") > 0.6
    # No clip of the film votes: all score the same.
    assert found["film"].value("auc") == 0.5
    assert found["random"].same_film == found["random"].n_clips
    assert found["film"].same_film == 0


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
    (found,) = models(run)
    assert not any(row["decision"] for row in predictions_of(run, found))
    assert found.value("f1_binary") == 0
    assert not found.has_interval("f1_binary") and not found.has_interval("accuracy")
    assert found.has_interval("ap")
    assert ".00-.00" not in result_text(run)
    # All positive is what this baseline does: its values have intervals.
    assert the_cell(run, model="all_positive").has_interval("f1_binary")


@pytest.mark.check("several runs")
def test_trained_models_have_intervals_of_ranks_only(on_signal: Run) -> None:
    """At a threshold, other training films could change the decisions on many clips."""
    for cell in models(on_signal):
        assert intervals_of(cell) == {"ap", "auc"}, cell.model
    names = {"train": "EN_S", "test": "ENHN_S"}
    # It says the same of all clips of films that it has not seen: its AUC is .5 whatever the films
    # are, and a width of zero is no interval.
    assert intervals_of(the_cell(on_signal, model="film_prior", **names)) == {"ap"}
    untrained = intervals_of(the_cell(on_signal, model="all_positive", **names))
    assert {"ap", "f1_binary", "accuracy"} <= untrained
    assert "auc" not in untrained


def intervals_of(cell: Cell) -> set[str]:
    metrics = set(cell.values) - {"prevalence"}  # the share is not of a model
    return {name for name in metrics if cell.has_interval(name)}

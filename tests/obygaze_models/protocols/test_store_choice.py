"""The store of each fold is chosen on training films, and never on the films that test it."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from support.experiments import films, planted, quick, run_on, store_of, write_workspace
from support.tables import models, predictions_of, the_cell
from support.ties import ap_by_places

import obygaze as og
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.evaluation.cells import Cell
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.store_run import InnerScores, store_runs
from obygaze_models.runner.training import training_protocol

MANIFEST = films(5, 30, seed=3)
FEW_CHANGES = (
    *("fit.choose_store=true", "models.pcbm-lr.tolerance=0.01"),
    *("models.pcbm-lr.cross_fit=2", "models.mlp.max_epochs=4"),
    *("models.mlp.min_epochs=1", "report.concepts=false", "report.contrast=[]"),
)
MODELS = ("ridge", "mlp", "pcbm-lr")


def choosing(*changes: str, models: tuple[str, ...] = MODELS) -> Protocol:
    """The honest protocol with a choice of the store, and few fits."""
    listed = ", ".join(f'"{name}"' for name in models)
    grid = (f"grid.models=[{listed}]", 'grid.train=["EN_S"]', 'grid.test=["EN_S"]')
    changes = (*FEW_CHANGES, *grid, *changes)
    return quick("honest", *changes, replicates=20)


def two_stores(folder: Path, manifest: Manifest = MANIFEST) -> dict[str, Store]:
    """Two stores of which none is better: each stands out in other films."""
    folder.mkdir(exist_ok=True)
    stores = {}
    for seed, name in enumerate(("a", "b")):
        X = planted(manifest, width=14, strength=0.6, seed=seed)
        stores[name] = store_of(folder / name, manifest, X)
    return stores


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("choice")
    protocol = choosing()
    return run_on(folder, protocol, MANIFEST, two_stores(folder / "stores"))


def chosen_cells(run: Run) -> list[Cell]:
    return models(run, store="chosen")


def scored_clips(run: Run, cell: Cell) -> dict[Any, list[Any]]:
    """The tests of each clip of a cell: clip, score and decision by fold and seed."""
    tests: dict[Any, list[Any]] = {}
    for row in predictions_of(run, cell):
        tested = (row["clip_id"], row["score"], row["decision"])
        tests.setdefault((row["fold"], row["seed"]), []).append(tested)
    return tests


def test_each_fold_has_the_test_of_the_store_that_is_best_on_training_films(run):
    assert len(chosen_cells(run)) == len(MODELS)
    both: Counter[str] = Counter()
    for cell in chosen_cells(run):
        ours = scored_clips(run, cell)
        folds = run.folds_of(cell)
        assert len(folds) == 5 == len(ours)
        for fold in folds:
            store = fold["chosen"]["store"]
            inner = fold["chosen"]["inner_ap"]
            assert list(inner) == ["a", "b"]
            assert inner[store] == max(inner.values())
            both[store] += 1
            names = {"model": cell.model, "train": cell.train, "test": cell.test}
            theirs = scored_clips(run, the_cell(run, store=store, **names))
            key = (fold["fold"], fold["seed"])
            assert ours[key] == theirs[key]
    assert min(both["a"], both["b"]) > 3  # so that there was something to choose


@pytest.mark.parametrize("case", ["equal clips", "sure in two films"])
def test_the_inner_score_is_that_of_fits_without_each_film(tmp_path, case) -> None:
    """Of ridge: scikit-learn's, fitted without each training film at the strength of the fold.

    Clips with one score are in any order: those with the same features, and all of a film without
    which no training clip is sure. Rounding put them into an order, and so chose the store.
    """
    manifest = MANIFEST
    if case == "sure in two films":
        clips = []
        for clip in manifest:
            is_rated = clip.movie_id in manifest.films[:2] or clip.level != "S"
            clips.append(clip if is_rated else replace(clip, level="EN", concepts=()))
        manifest = manifest.with_clips(clips)
    protocol = choosing(models=("ridge",))
    (tmp_path / "stores").mkdir()
    stores = {}
    for seed, name in enumerate(("a", "b")):
        planted_values = planted(manifest, width=14, strength=0.6, seed=seed)
        if case == "equal clips":
            planted_values = np.sign(planted_values) * (np.arange(14) < 2)
        stores[name] = store_of(tmp_path / "stores" / name, manifest, planted_values)
    inputs = gather(protocol, manifest, "", stores)
    run = run_protocol(inputs, tmp_path / "run", n_jobs=1)
    store = store_runs(inputs)[0]
    features = inputs.stores[0]
    rows = store.folds["EN_S", "EN_S"][0].merge_validation().train
    X = features.of(rows).astype(np.float64)
    y = inputs.labels["EN_S"][rows]
    film_of_row = inputs.table.films[rows]
    of_a = the_cell(run, model="ridge", store="a")
    alpha = run.folds_of(of_a)[0]["chosen"]["alpha"]
    precisions = []
    for film in np.unique(film_of_row):
        inside = film_of_row == film
        if not 0 < y[inside].mean() < 1:
            continue
        ridge = Ridge(alpha=alpha).fit(X[~inside], 2.0 * y[~inside] - 1)
        scores = np.round(ridge.predict(X[inside]), 8)
        precisions.append(ap_by_places(y[inside], scores))
        assert len(np.unique(scores)) < len(scores)
    (chosen,) = chosen_cells(run)
    inner = run.folds_of(chosen)[0]["chosen"]["inner_ap"]["a"]
    assert inner == pytest.approx(float(np.mean(precisions)), abs=1e-12)


def test_scores_of_different_fits_are_not_ranked_against_each_other() -> None:
    y = np.array([1, 0, 1, 0, 0, 0])
    # Perfect within both folds; pooled, a negative clip of the second is above a positive one.
    scores = np.array([0.2, 0.1, 0.9, 0.8, 0.3, 0.7])
    folds = np.array([0, 0, 1, 1, 2, 2])
    assert InnerScores(y, scores, folds).precision == 1.0
    assert InnerScores(y, scores, 0 * folds).precision == pytest.approx((1 + 2 / 5) / 2)
    assert InnerScores(y[4:], scores[4:], folds[4:]).precision is None


def test_stores_are_compared_on_the_clips_that_all_have(tmp_path: Path) -> None:
    X = planted(MANIFEST, width=14)
    ids = MANIFEST.clip_ids
    stores = {
        "a": store_of(tmp_path / "a", MANIFEST, X, without=ids[:4]),
        "b": store_of(tmp_path / "b", MANIFEST, X[:, ::-1], failed=ids[2:9]),
    }
    run = run_on(tmp_path, choosing(models=("ridge",)), MANIFEST, stores)
    assert len({cell.n_clips for cell in models(run, train="EN_S")}) == 1
    # Each store has its own clips: what another lacks is nothing that this one lacks.
    lacking = {"a": ids[:4], "b": ids[2:9]}
    for name, facts in run.about["stores"].items():
        assert list(facts["missing"]) == list(lacking[name])
    inputs = gather(choosing(), MANIFEST, "", stores)
    for own, values in zip(inputs.stores, (X, X[:, ::-1]), strict=True):
        clips = np.flatnonzero(own.present)
        assert clips.tolist() == list(range(9, len(MANIFEST)))
        np.testing.assert_array_equal(own.of(clips), values[clips])


def test_a_perceptron_without_validation_clips_chooses_no_store(tmp_path: Path) -> None:
    """With two films, each fold trains on one film and validates on none."""
    manifest = films(2, 40, seed=3)
    stores = two_stores(tmp_path / "stores", manifest)
    with pytest.raises(
        FixInput, match="no store can be chosen for mlp in any fold"
    ) as error:
        run_on(tmp_path, choosing(models=("ridge", "mlp")), manifest, stores)
    assert "fit.choose_store=false" in (error.value.hint or "")
    run = run_on(tmp_path, choosing(models=("ridge",)), manifest, stores)
    assert len(chosen_cells(run)) == 1


def test_what_cannot_be_chosen_is_refused(tmp_path: Path) -> None:
    stores = two_stores(tmp_path / "stores")
    with pytest.raises(FixUsage, match="needs two or more stores, got 1"):
        gather(choosing(), MANIFEST, "", {"a": stores["a"]})
    with pytest.raises(FixUsage, match="a store cannot have the name 'chosen'"):
        gather(quick(), MANIFEST, "", {"chosen": stores["b"]})
    ids = MANIFEST.clip_ids
    X = planted(MANIFEST)
    apart = {
        "first": store_of(tmp_path / "f", MANIFEST, X, without=ids[100:]),
        "second": store_of(tmp_path / "s", MANIFEST, X, without=ids[:100]),
    }
    with pytest.raises(
        FixInput, match=r"no clip has features in all stores \(first, s"
    ):
        gather(choosing(), MANIFEST, "", apart)


def test_a_bottleneck_whose_own_clips_found_its_vectors_has_no_inner_score() -> None:
    """Without cross-fitting, margins of training clips are too good, most of all in wide stores."""
    with pytest.raises(FixInput) as error:
        choosing("models.pcbm-lr.cross_fit=0", "models.pcbm-dt.cross_fit.grid=[5, 1]")
    assert list(error.value.details) == [
        "--set models.pcbm-lr.cross_fit: must be at least 2 with fit.choose_store",
        "--set models.pcbm-dt.cross_fit.grid: must be at least 2 with fit.choose_store",
    ]
    choosing("models.pcbm-lr.cross_fit=0", "fit.choose_store=false")
    with pytest.raises(FixUsage, match="reads the unscaled features of one store"):
        training_protocol("ridge", "EN_S", MANIFEST, ["fit.choose_store=true"])


def test_a_model_is_trained_on_one_store(tmp_path: Path) -> None:
    write_workspace(tmp_path, MANIFEST, planted(MANIFEST, width=14))
    with pytest.raises(
        FixUsage, match="reads the unscaled features of one store, got a, b"
    ):
        og.train("ridge", {"a": "sig", "b": "sig"}, "made-up", workspace=tmp_path)
    assert not (tmp_path / "models").exists()

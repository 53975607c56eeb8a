"""The store of each fold is chosen on training films, and never on the films that test it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.runner.cells import Cell, TestedFold
from obygaze_models.protocols.runner.models import InnerScores
from obygaze_models.protocols.runner.store_choice import chosen_cells
from obygaze_models.report.page import write_report
from sklearn.linear_model import Ridge
from sklearn.metrics import average_precision_score
from support.experiments import (
    films,
    planted,
    quick,
    run_on,
    store_of,
    write_workspace,
)

import obygaze as og
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import total_variance
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.tables import Run
from obygaze_models.runner.text import result_text
from obygaze_models.runner.training import training_protocol

MANIFEST = films(5, 40, seed=3)
FEW_CHANGES = (
    "fit.choose_store=true",
    "models.logistic.kind=logistic",
    "models.logistic.C.grid=[0.01, 1.0]",
    "models.pcbm-lr.tolerance=0.1",
    "models.pcbm-lr.cross_fit=2",
    "models.mlp.max_epochs=4",
    "models.mlp.min_epochs=1",
    "report.concepts=false",
    "report.contrast=[]",
)
MODELS = ("ridge", "mlp", "logistic", "pcbm-lr")


def choosing(*changes: str, models: tuple[str, ...] = MODELS) -> Protocol:
    """The honest protocol with a choice of the store, and few fits."""
    listed = ", ".join(f'"{name}"' for name in models)
    grid = (f"grid.models=[{listed}]", 'grid.train=["EN_S", "ENHN_S"]')
    changes = (*FEW_CHANGES, *grid, 'grid.test=["EN_S"]', *changes)
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
    protocol = choosing("fit.seeds=2")
    return run_on(folder, protocol, MANIFEST, two_stores(folder / "stores"))


def chosen_records(run: Run) -> list[CellRecord]:
    return [cell for cell in run.cells if cell.feature == "chosen"]


def predictions_of(run: Run, cell: CellRecord, feature: str) -> dict[Any, list[Any]]:
    """The tests of each clip by one store: clip, score and decision by fold and seed."""
    tests: dict[Any, list[Any]] = {}
    for row in run.predictions:
        cell_of_row = (row["train"], row["test"], row["model"], row["feature"])
        if cell_of_row == (cell.train, cell.test, cell.model, feature):
            tested = (row["clip_id"], row["score"], row["decision"])
            tests.setdefault((row["fold"], row["seed"]), []).append(tested)
    return tests


def test_each_fold_has_the_test_of_the_store_that_is_best_on_training_films(
    run: Run,
) -> None:
    assert len(chosen_records(run)) == 2 * len(MODELS)
    both: Counter[str] = Counter()
    for cell in chosen_records(run):
        ours = predictions_of(run, cell, "chosen")
        n_seeds = 2 if cell.model == "mlp" else 1
        assert len(cell.folds) == 5 * n_seeds == len(ours)
        for fold in cell.folds:
            store = fold.chosen["store"]
            inner = fold.chosen["inner_ap"]
            assert list(inner) == ["a", "b"]
            assert inner[store] == max(inner.values())
            both[store] += 1
            theirs = predictions_of(run, cell, store)
            assert ours[fold.fold, fold.seed] == theirs[fold.fold, fold.seed]
    assert min(both["a"], both["b"]) > 3  # so that there was something to choose


def test_the_inner_score_is_that_of_fits_without_each_film(tmp_path: Path) -> None:
    """Of ridge: scikit-learn's, fitted without each training film at the strength of the fold."""
    protocol = choosing(models=("ridge",))
    stores = two_stores(tmp_path / "stores")
    inputs = gather(protocol, MANIFEST, "", stores)
    run = run_protocol(inputs, tmp_path / "run", n_jobs=1)
    context = inputs.context(inputs.features[0])
    features = inputs.features[0]
    pair = ("EN_S", "EN_S")
    split = context.schedule.pairs[pair][0]
    rows = np.union1d(split.train, split.validation)
    X = features.of(rows).astype(np.float64)
    y = inputs.labels["EN_S"][rows]
    film_of_row = inputs.table.films[rows]
    record = next(c for c in run.cells if (c.train, c.test, c.feature) == (*pair, "a"))
    alpha = record.folds[0].chosen["alpha"]
    assert 1e-3 < alpha / total_variance(X) < 1e3
    precisions = []
    for film in np.unique(film_of_row):
        inside = film_of_row == film
        ridge = Ridge(alpha=alpha).fit(X[~inside], 2.0 * y[~inside] - 1)
        precisions.append(average_precision_score(y[inside], ridge.predict(X[inside])))
    chosen = next(c for c in chosen_records(run) if (c.train, c.test) == pair)
    inner = chosen.folds[0].chosen["inner_ap"]["a"]
    assert inner == pytest.approx(float(np.mean(precisions)), abs=1e-12)


def test_scores_of_different_fits_are_not_ranked_against_each_other() -> None:
    y = np.array([1, 0, 1, 0, 0, 0])
    # Perfect within both folds; pooled, a negative clip of the second is above a positive one.
    scores = np.array([0.2, 0.1, 0.9, 0.8, 0.3, 0.7])
    folds = np.array([0, 0, 1, 1, 2, 2])
    assert InnerScores(y, scores, folds).precision == 1.0
    assert InnerScores(y, scores, 0 * folds).precision == pytest.approx((1 + 2 / 5) / 2)
    assert InnerScores(y[4:], scores[4:], folds[4:]).precision is None


def with_parts(manifest: Manifest) -> tuple[Manifest, NDArray[np.bool_]]:
    """The films in two parts of one split, and whether each clip is tested."""
    tested_films = manifest.films[-2:]
    part_of = {}
    for clip in manifest:
        part_of[clip.clip_id] = "test" if clip.movie_id in tested_films else "train"
    is_tested = np.array([clip.movie_id in tested_films for clip in manifest])
    return manifest.with_column("part", part_of), is_tested


FIXED = ("splits.kind=fixed", "splits.column=part", 'splits.test=["test"]')


def test_a_store_that_is_better_is_chosen(tmp_path: Path) -> None:
    X = planted(MANIFEST, width=14, strength=0.0)
    stores = {
        "noise": store_of(tmp_path / "n", MANIFEST, X),
        "real": store_of(tmp_path / "r", MANIFEST, planted(MANIFEST, strength=1.5)),
    }
    run = run_on(tmp_path, choosing(), MANIFEST, stores)
    for cell in chosen_records(run):
        assert {fold.chosen["store"] for fold in cell.folds} == {"real"}
    line = "ridge: the stores that training films chose in 10 tests: real 10"
    assert line in result_text(run).splitlines()


def test_test_films_change_no_choice(tmp_path: Path) -> None:
    """Other features, labels and concepts of the tested clips; the inner scores are the same."""
    manifest, is_tested = with_parts(films(8, 40, seed=5))
    is_tested &= np.array([clip.level in ("EN", "S") for clip in manifest])
    clips = []
    for clip, tested in zip(manifest, is_tested, strict=True):
        level = {"EN": "S", "S": "EN"}.get(clip.level, clip.level) if tested else ""
        # Clips of S have concepts, clips of EN have none.
        names = ("Look", "Posture", "Body") if level == "S" else ()
        clips.append(replace(clip, level=level, concepts=names) if level else clip)
    turned = replace(manifest, clips=tuple(clips))
    inner = []
    for number, data in enumerate((manifest, turned)):
        folder = tmp_path / str(number)
        folder.mkdir()
        stores = {}
        for seed, name in enumerate(("a", "b")):
            X = planted(manifest, width=14, strength=0.6, seed=seed)
            X[is_tested] *= 1.0 if number == 0 else -3.0
            stores[name] = store_of(folder / name, data, X)
        run = run_on(folder, choosing(*FIXED), data, stores)
        inner.append([cell.folds[0].chosen for cell in chosen_records(run)])
    assert inner[0] == inner[1]
    assert all(chosen["inner_ap"]["a"] is not None for chosen in inner[0])


@pytest.mark.check("several processes")
def test_one_cell_alone_and_two_processes_give_the_same_bytes(
    run: Run, tmp_path: Path
) -> None:
    stores = two_stores(tmp_path / "stores")
    protocol = choosing("fit.seeds=2")
    inputs = gather(protocol, MANIFEST, "made-up", stores)
    parallel = run_protocol(inputs, tmp_path / "parallel", n_jobs=2)
    for file in ("results.json", "predictions.csv"):
        assert (parallel.folder / file).read_bytes() == (run.folder / file).read_bytes()
    for model in MODELS:
        grid = replace(protocol.grid, models=(model,), train=("ENHN_S",))
        alone = run_on(tmp_path, replace(protocol, grid=grid), MANIFEST, stores)
        (ours,) = chosen_records(alone)
        (theirs,) = (
            cell
            for cell in chosen_records(run)
            if (cell.model, cell.train) == (model, "ENHN_S")
        )
        assert ours.to_json() == theirs.to_json()


@pytest.mark.check("several runs")
def test_the_rows_of_single_stores_are_those_of_a_run_without_a_choice(
    run: Run, tmp_path: Path
) -> None:
    stores = two_stores(tmp_path / "stores")
    plain = run_on(
        tmp_path, choosing("fit.seeds=2", "fit.choose_store=false"), MANIFEST, stores
    )
    singles = [cell.to_json() for cell in run.cells if cell.feature != "chosen"]
    assert [cell.to_json() for cell in plain.cells] == singles
    assert "--set fit.choose_store=true adds rows" in result_text(plain)
    assert "--set fit.choose_store=true" not in result_text(run)


def test_stores_are_compared_on_the_clips_that_all_have(tmp_path: Path) -> None:
    X = planted(MANIFEST, width=14)
    ids = MANIFEST.clip_ids
    stores = {
        "a": store_of(tmp_path / "a", MANIFEST, X, without=ids[:4]),
        "b": store_of(tmp_path / "b", MANIFEST, X[:, ::-1], failed=ids[2:9]),
    }
    run = run_on(tmp_path, choosing(models=("ridge",)), MANIFEST, stores)
    assert len({cell.n_test for cell in run.cells if cell.train == "EN_S"}) == 1
    for record in run.of("coverage"):
        missing = {clip["clip_id"]: clip["reason"] for clip in record["missing"]}
        assert list(missing) == list(ids[:9])
        is_left_out = [
            "another store has no features" in why for why in missing.values()
        ]
        assert sum(is_left_out) == (5 if record["feature"] == "a" else 2)
    features = gather(choosing(), MANIFEST, "", stores)
    for own, given in zip(features.features, (X, X[:, ::-1]), strict=True):
        clips = np.flatnonzero(own.present)
        assert clips.tolist() == list(range(9, len(MANIFEST)))
        np.testing.assert_array_equal(own.of(clips), given[clips])


@pytest.mark.check("several runs")
def test_a_continued_run_knows_the_inner_scores(run: Run, tmp_path: Path) -> None:
    @contextmanager
    def stopped(label: str, total: int) -> Iterator[Progress]:
        class Bar(Quiet):
            def advance(self, amount: int = 1) -> None:
                if label == "tests on b":
                    raise KeyboardInterrupt

        yield Bar()

    protocol = choosing("fit.seeds=2")
    inputs = gather(protocol, MANIFEST, "made-up", two_stores(tmp_path / "stores"))
    with pytest.raises(KeyboardInterrupt):
        run_protocol(inputs, tmp_path / "run", n_jobs=1, watch=stopped)
    again = run_protocol(inputs, tmp_path / "run", n_jobs=1)
    results = (again.folder / "results.json").read_bytes()
    assert results == (run.folder / "results.json").read_bytes()


def a_test(fold: str, inner_ap: float | None, score: float) -> TestedFold:
    leak = Leak("", 2, 0, 0, 0, 0, None, None, ())
    return TestedFold(
        fold=fold,
        seed=0,
        rows=np.array([0, 1]),
        predictions=Predictions.of([0, 1], [score, 0.5]),
        n_train=4,
        n_validation=2,
        leak=leak,
        inner_ap=inner_ap,
    )


def test_folds_without_an_inner_score_take_the_first_store_that_tested_them() -> None:
    of_a = [a_test("0", None, 0.1), a_test("1", None, 0.2), a_test("2", 0.4, 0.3)]
    of_b = [a_test("0", None, 0.6), a_test("1", 0.0, 0.7), a_test("2", 0.4, 0.8)]
    of_b.append(a_test("3", None, 0.9))
    cells = [Cell("t", "t", "m", "a", of_a), Cell("t", "t", "m", "b", of_b)]
    (cell,) = chosen_cells(cells)
    assert [t.chosen["store"] for t in cell.tested] == ["a", "b", "a", "b"]
    assert [t.predictions.score[0] for t in cell.tested] == [0.1, 0.7, 0.3, 0.9]
    assert cell.tested[3].chosen["inner_ap"] == {"b": None}


def test_what_cannot_be_chosen_is_refused(tmp_path: Path) -> None:
    stores = two_stores(tmp_path / "stores")
    with pytest.raises(FixUsage, match="needs two stores or more, got 1"):
        gather(choosing(), MANIFEST, "", {"a": stores["a"]})
    with pytest.raises(FixUsage, match="no store can be called 'chosen'"):
        gather(choosing(), MANIFEST, "", {"a": stores["a"], "chosen": stores["b"]})
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
        choosing("models.pcbm-lr.cross_fit=0", "models.pcbm-dt.cross_fit=[5, 1]")
    assert list(error.value.details) == [
        "--set models.pcbm-lr.cross_fit: fit.choose_store needs 2 or more",
        "--set models.pcbm-dt.cross_fit: fit.choose_store needs 2 or more",
    ]
    choosing("models.pcbm-lr.cross_fit=0", "fit.choose_store=false")
    by_task = "{ by_task = { EN_S = 3, other = 0 } }"
    with pytest.raises(FixInput, match="1 violation"):
        choosing(f"models.pcbm-lr.cross_fit={by_task}")
    choosing(f"models.pcbm-lr.cross_fit=[{by_task}, 5]", 'grid.train=["EN_S"]')


def test_a_saved_model_chooses_no_store() -> None:
    with pytest.raises(FixUsage, match="a saved model reads one store"):
        training_protocol("ridge", "EN_S", MANIFEST, ["fit.choose_store=true"])


def test_a_model_is_trained_on_one_store(tmp_path: Path) -> None:
    """Of two stores, the model read the first one, and its card had the metrics of the second."""
    write_workspace(tmp_path, MANIFEST, planted(MANIFEST, width=14))
    with pytest.raises(FixUsage, match="a saved model reads one store, got a, b"):
        og.train("ridge", {"a": "sig", "b": "sig"}, "made-up", workspace=tmp_path)
    assert not (tmp_path / "models").exists()


def test_the_report_shows_what_was_chosen_and_warns_of_the_best_row(
    run: Run, tmp_path: Path
) -> None:
    page, *_ = write_report([run.folder], out=tmp_path / "report.html")
    text = " ".join(page.read_text().split())
    assert "ridge (store chosen on training films)" in text
    assert "its own test films picked it" in text
    lines = (run.folder / "tables" / "store-choice.csv").read_text().splitlines()
    assert lines[0].endswith('model,folds that chose,"inner AP, a","inner AP, b"')
    (ridge,) = (line for line in lines if "EN_S,ridge" in line and "ENHN" not in line)
    (cell,) = (
        cell
        for cell in chosen_records(run)
        if (cell.train, cell.model) == ("EN_S", "ridge")
    )
    counts = Counter(fold.chosen["store"] for fold in cell.folds)
    for store, n in counts.items():
        assert f"{store} {n}" in ridge
    mean = np.mean([fold.chosen["inner_ap"]["b"] for fold in cell.folds])
    assert float(ridge.rpartition(",")[2]) == pytest.approx(mean, abs=1e-12)


def test_the_report_of_several_stores_without_a_choice_warns(tmp_path: Path) -> None:
    protocol = choosing("fit.choose_store=false", models=("ridge",))
    run = run_on(tmp_path, protocol, MANIFEST, two_stores(tmp_path / "stores"))
    page, *_ = write_report([run.folder], out=tmp_path / "report.html")
    assert "picked from these rows, is too good" in page.read_text()
    assert not (run.folder / "tables" / "store-choice.csv").exists()

"""How scores of probes change along concept vectors."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.experiments import VISUAL, cell_of, films, planted, quick, run_on, store_of

from obygaze_models.models.concept_report import scores_and_slopes, sensitivity
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.models.mlp import MLPProbe


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 5)).astype(np.float32)
    return X, (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)


def test_slopes_of_a_perceptron_are_those_of_small_steps() -> None:
    X, y = data()
    probe = MLPProbe(hidden=(7, 6), max_epochs=30).fit(X, y)
    rows = X.astype(np.float64)
    scores, slopes = scores_and_slopes(probe, rows)
    p = probe.predict_proba(X)
    np.testing.assert_allclose(scores, np.log(p[:, 1] / p[:, 0]), rtol=1e-6, atol=1e-6)
    for feature in range(5):
        step = np.zeros(5)
        step[feature] = 1e-6
        higher, lower = (scores_and_slopes(probe, rows + s)[0] for s in (step, -step))
        np.testing.assert_allclose(
            slopes[:, feature], (higher - lower) / 2e-6, atol=1e-6
        )


def test_the_slope_of_a_linear_probe_is_its_vector() -> None:
    X, y = data()
    probe = LogisticProbe().fit(X, y)
    scores, slopes = scores_and_slopes(probe, X.astype(np.float64))
    np.testing.assert_allclose(scores, probe.decision_function(X))
    np.testing.assert_array_equal(slopes, probe.coef_)


def records_of(folder: Path, train: str, test: str) -> list[dict[str, Any]]:
    """Sure clips and clips with concepts stand out; the concepts follow from the level."""
    manifest = films(6, 40, seed=3)
    store = store_of(folder / "s", manifest, planted(manifest, width=200, strength=2.0))
    changes = (
        'grid.models=["ridge", "mlp", "pcbm-lr"]',
        f'grid.train=["{train}"]',
        f'grid.test=["{test}"]',
        "models.pcbm-lr.tolerance=0.05",
        "report.compare=false",
        "report.contrast=[]",
    )
    run = run_on(
        folder, quick("honest", *changes, replicates=20), manifest, {"x": store}
    )
    return [r for r in run.of("concept-model") if r["part"] == "sensitivity"]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return records_of(tmp_path_factory.mktemp("run"), "ENHN_S", "ENHN_S")


def test_a_task_that_is_trained_on_need_not_be_tested(tmp_path: Path) -> None:
    found = records_of(tmp_path, "HN_S", "EN_S")
    assert [(r["model"], r["task"]) for r in found] == [
        ("ridge", "HN_S"),
        ("mlp", "HN_S"),
    ]


def test_each_probe_has_a_record_for_each_task_that_trains(records) -> None:
    assert [(r["model"], r["task"]) for r in records] == [
        ("ridge", "ENHN_S"),
        ("mlp", "ENHN_S"),
    ]
    n_sure = sum(clip.level == "S" for clip in films(6, 40, seed=3))
    for record in records:
        assert record["n"] == n_sure
        assert [one["name"] for one in record["concepts"]] == list(VISUAL)


def test_shares_are_all_or_none_for_a_linear_probe(records) -> None:
    linear = cell_of(records, model="ridge")["concepts"]
    assert {one["share"] for one in linear} <= {0.0, 1.0}
    assert all((one["share"] == 1) == (one["slope"] > 0) for one in linear)


def test_the_share_of_a_perceptron_by_hand() -> None:
    """Its log odds are |x|: along +1 the scores of positive x rise, two of three positive clips."""
    first, second = [[1.0, -1.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]]
    probe = SimpleNamespace(layers_=[np.array(first), np.array(second)])
    X = np.array([[1.0], [2.0], [-3.0], [-4.0]])
    positive = np.array([True, True, True, False])
    # A concept, and two others for chance.
    directions = np.array([[1.0], [-1.0], [-1.0]])
    (found,) = sensitivity(probe, X, positive, directions, ["Look"])
    assert found["share"] == pytest.approx(2 / 3)
    # The mean slope is 1/3; x has a deviation of 2.55 and |x| one of 1.12.
    assert found["slope"] == pytest.approx(
        1 / 3 * np.std([1, 2, -3, -4]) / np.std([1, 2, 3, 4])
    )
    assert found["p"] == 1 and found["random"]["share"] == pytest.approx([1 / 3, 1 / 3])


def test_sure_clips_have_three_concepts_so_scores_rise_along_each(records) -> None:
    for record in records:
        for one in record["concepts"]:
            assert one["slope"] > 0
            assert one["random"]["n"] == 200
        p = [one["p"] for one in record["concepts"]]
        assert min(p) == pytest.approx(1 / 201) and max(p) < 0.5
        steepest = max(record["concepts"], key=lambda one: one["slope"])
        assert steepest["slope"] > steepest["random"]["slope"]
        assert all(one["p_holm"] >= one["p"] for one in record["concepts"])

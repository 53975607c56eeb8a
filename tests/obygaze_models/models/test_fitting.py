"""A fit is one call for every kind: what it learns from, and how the best of options is found."""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.fold_data import fold_data_of, taught

from obygaze_models.models.baselines import film_and_scene, neighbour
from obygaze_models.models.common import FixTraining
from obygaze_models.models.fitting import facts_of, fit, fit_best, score_features
from obygaze_models.models.fold_data import FeatureRows, FoldData, Memo
from obygaze_models.models.preprocessing import last_step, with_preprocessing
from obygaze_models.models.registry import KINDS, build
from obygaze_models.models.scaling import FeaturePart
from obygaze_models.text_vectors import Sentences

N_ROWS = 120
WIDTH = 6
FILMS = np.repeat([f"film {number}" for number in range(6)], 20)
IN_TRAINING = np.flatnonzero(np.isin(FILMS, FILMS[:80]))
IN_VALIDATION = np.flatnonzero(FILMS == "film 4")
# Values of settings that have no default.
REQUIRED = {"texts": "texts", "positive": "sure", "negative": "easy"}
DIRECTIONS = dict(zip(("sure", "easy"), np.eye(WIDTH), strict=False))


def fold_data_for(kind: str, seed: int = 0) -> FoldData:
    """Four films train, one validates, and nothing may learn from the last."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, N_ROWS)
    has = rng.integers(0, 2, (N_ROWS, 2))
    X = rng.normal(size=(N_ROWS, WIDTH)).astype(np.float32)
    X[:, 0] += y
    X[:, 1:3] += has
    if KINDS[kind].reads == "frames":
        X = np.stack([X, X[:, ::-1], 2 * X], axis=1)
    every_row = fold_data_of(X, y, ["Look", "Body"], has, FILMS)
    return replace(
        every_row,
        train=IN_TRAINING,
        validation=IN_VALIDATION,
        may_learn=np.isin(np.arange(N_ROWS), IN_TRAINING),
        sentences={"texts": Sentences(DIRECTIONS)},
    )


def unfitted(kind: str, **settings: Any) -> Any:
    """The estimator of a kind, with its defaults."""
    for name in KINDS[kind].types.keys() - KINDS[kind].defaults.keys():
        settings[name] = REQUIRED[name]
    return build(kind, settings, seed=3)


def plain_fit(kind: str, data: FoldData) -> Any:
    """The fit of scikit-learn on the rows that train."""
    rows = data.train
    X = data.rows.X[rows]
    estimator = unfitted(kind)
    if KINDS[kind].head:
        targets = data.concepts.targets["absent"][rows]
        return taught(estimator, X, data.y[rows], targets, data.films[rows])
    return estimator.fit(X, data.y[rows], data.films[rows])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_what_its_fit_on_the_training_rows_learns(kind: str) -> None:
    data = fold_data_for(kind)
    scores = score_features(fit(unfitted(kind), data), data.rows.X)
    assert np.isfinite(scores).all()
    if not KINDS[kind].is_trained:
        # By hand: the cosine with the one direction less that with the other.
        X = data.rows.X.astype(np.float64)
        expected = (X[:, 0] - X[:, 1]) / np.linalg.norm(X, axis=1)
    elif KINDS[kind].has_epochs:
        # Rows that neither train nor choose change nothing.
        X = data.rows.X.copy()
        X[np.setdiff1d(np.arange(len(X)), [*data.train, *data.validation])] = 9
        others = replace(data, rows=FeatureRows(X))
        expected = score_features(fit(unfitted(kind), others), data.rows.X)
    else:
        expected = score_features(plain_fit(kind, data), data.rows.X)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
    assert len(np.unique(scores.round(6))) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_of_one_class_no_kind_learns(kind: str) -> None:
    data = fold_data_for(kind)
    with pytest.raises(FixTraining, match="have one label: 1"):
        fit(unfitted(kind), replace(data, y=np.ones_like(data.y)))
    with pytest.raises(FixTraining, match="no clip is left to train on"):
        fit(unfitted(kind), replace(data, train=np.empty(0, dtype=np.intp)))


class Ranked:
    """Scores the rows by one number each; it cannot be fitted on some rows.

    The second feature of a row is its number.
    """

    def __init__(self, weight: float, fails_with: int | None = None) -> None:
        self.weight = weight
        self.fails_with = fails_with

    def fit(self, X: Any, y: Any) -> Any:
        if self.fails_with in X[:, 1]:
            raise FixTraining("no concept has 3 training clips with it and 3 without")
        return self

    def decision_function(self, X: Any) -> Any:
        return self.weight * X[:, 0]


def ranked_data() -> FoldData:
    """Rows whose feature is their class, or the other class in the first film."""
    films = np.repeat(["a", "b", "c"], 4)
    y = np.tile([0, 1], 6)
    X = np.column_stack([y + 0.0, np.arange(12)])
    X[films == "a", 0] *= -9
    return fold_data_of(X, y, [], np.zeros((12, 0), dtype=np.int64), films)


def test_validation_rows_choose_the_best_option_that_can_be_fitted() -> None:
    data = ranked_data()
    data = replace(data, train=np.arange(8), validation=np.arange(8, 12))
    options = [Ranked(-1.0), Ranked(2.0, fails_with=0), Ranked(1.0), Ranked(3.0)]
    ((number, fitted),) = fit_best(options, [data])
    # Of equal ones the first.
    assert (number, fitted.weight) == (2, 1.0)
    with pytest.raises(FixTraining, match="no concept has 3"):
        fit_best([Ranked(1.0, fails_with=0), Ranked(2.0, fails_with=1)], [data])


def test_without_validation_rows_inner_folds_choose() -> None:
    data = ranked_data()
    # In the film a the first option is perfect, in the two others the second.
    options = [Ranked(-1.0), Ranked(1.0)]
    ((number, _),) = fit_best(options, [data])
    assert number == 1

    # An inner fold that one option cannot be fitted in counts for none. The fit of the option that
    # is chosen needs every row.
    class Few(Ranked):
        def fit(self, X: Any, y: Any) -> Any:
            return super().fit(X, y) if len(X) < 12 else self

    only_a = [Few(-1.0), Few(1.0, fails_with=0)]
    ((number, _),) = fit_best(only_a, [data])
    assert number == 0
    ((number, _),) = fit_best([*reversed(only_a)], [data])
    assert number == 1


def test_nothing_is_called_chosen_that_two_films_cannot_choose() -> None:
    """The first value of a grid would depend on the order in which it was typed."""
    data = ranked_data()
    data = replace(data, train=np.arange(8))
    with pytest.raises(FixTraining, match="too few training films"):
        fit_best([Ranked(-1.0), Ranked(1.0)], [data])
    ((number, _),) = fit_best([Ranked(-1.0)], [data])
    assert number == 0


def test_far_scenes_still_vote() -> None:
    """Their weights are smaller than any number."""
    X = film_and_scene(["a", "a", "a"], [1, 2, 100_000])
    score = neighbour(X[:2], np.array([True, False]))
    assert score(X[2:])[0] == pytest.approx(1 / (1 + np.exp(0.5)))


def test_one_thread_limits_a_library_that_nothing_has_loaded_yet() -> None:
    code = """
from threadpoolctl import threadpool_info
from obygaze_models.models.common import one_thread

with one_thread():
    import obygaze_models.models.mlp_network
    for pool in threadpool_info():
        print(pool["filepath"], pool["num_threads"])
"""
    two_threads = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=two_threads,
        capture_output=True,
        text=True,
        check=True,
    )
    threads = [line.rsplit(" ", 1)[1] for line in ran.stdout.splitlines()]
    assert set(threads) == {"1"}


def test_parts_are_scaled_once_for_all_tasks() -> None:
    """Concept vectors are fitted on the same rows for each task; other models on training rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, WIDTH))
    y = (X[:, 0] > 0).astype(np.int64)
    data = fold_data_of(X, y, ["Body"], (X[:, 1:2] > 0).astype(np.int64), FILMS)
    fewer = replace(data, train=data.train[:90])
    parts = [FeaturePart("a", 3), FeaturePart("b", 3)]
    bottleneck = build("pcbm-lr").set_params(bank__memory=Memo())
    model = with_preprocessing(bottleneck, parts=parts)
    found = [last_step(fit(model, each)).bank_ for each in (data, fewer)]
    assert found[0] is found[1]
    probe = with_preprocessing(build("ridge"), parts=parts)
    factors = [facts_of(fit(probe, each))["part_factors"] for each in (data, fewer)]
    assert factors[0] != factors[1]

"""The perceptron as a scikit-learn classifier."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from obygaze_models.models.mlp import MLPProbe, PerceptronJob, fit_many, hold_out


def clips(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 3 == 0, "S", "HN")
    X = rng.normal(size=(n, 12))
    X[y == "S", 0] += 2
    return X, y


def test_a_probe_is_the_job_of_the_same_rows_and_seed() -> None:
    X, y = clips()
    probe = MLPProbe((8,), random_state=5, max_epochs=20).fit(X, y)
    codes = (y == "S").astype(int)
    held = hold_out(codes, seed=5)
    job = PerceptronJob(np.flatnonzero(~held), codes, np.flatnonzero(held), seed=5)
    (fit,) = fit_many(X, [job], MLPProbe(hidden=(8,), max_epochs=20))
    np.testing.assert_array_equal(probe.predict_proba(X), fit.predict_proba(X))
    assert list(probe.classes_) == ["HN", "S"]
    assert list(fit.classes_) == [0, 1]
    np.testing.assert_array_equal(fit.predict(X), probe.predict(X) == "S")


def test_the_paper_network_has_one_hidden_layer_of_128() -> None:
    X, y = clips()
    probe = MLPProbe(max_epochs=5).fit(X, y)
    assert [layer.shape for layer in probe.layers_] == [(13, 128), (129, 2)]


def test_it_learns_what_was_planted() -> None:
    X, y = clips(600)
    probe = MLPProbe().fit(X[:300], y[:300])
    # Two classes two deviations apart, one in three: the best rule is right 85.5 % of the time.
    assert 0.80 < probe.score(X[300:], y[300:]) < 0.92


def test_rows_held_out_are_the_same_share_of_each_class() -> None:
    codes = np.repeat([0, 1], [80, 20])
    held = hold_out(codes, seed=0)
    assert np.bincount(codes[held]).tolist() == [8, 2]
    # The only row of a class stays.
    assert not hold_out(np.array([0, 1]), seed=0).any()


def test_a_whole_number_is_its_own_seed_and_a_generator_draws_one() -> None:
    X, y = clips()
    same = [MLPProbe((4,), max_epochs=5, random_state=3).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(same[0].layers_[0], same[1].layers_[0])
    drawn = MLPProbe((4,), max_epochs=5, random_state=np.random.RandomState(3)).fit(
        X, y
    )
    assert not np.array_equal(same[0].layers_[0], drawn.layers_[0])


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

"""The perceptron as a scikit-learn classifier."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from obygaze_models.models.mlp import hold_out


def test_rows_held_out_are_the_same_share_of_each_class() -> None:
    codes = np.repeat([0, 1], [80, 20])
    held = hold_out(codes, seed=0)
    assert np.bincount(codes[held]).tolist() == [8, 2]
    # The only row of a class stays.
    assert not hold_out(np.array([0, 1]), seed=0).any()


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

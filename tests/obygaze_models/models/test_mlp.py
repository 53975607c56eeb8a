"""Linear algebra of fits uses one thread."""

from __future__ import annotations

import os
import subprocess
import sys


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

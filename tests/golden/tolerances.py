"""How far a number may be from the recorded one.

The tables are recorded with the settings of `SETTINGS`, which choose one code of the linear algebra
libraries for all processors with AVX2. There, every number is compared to 1e-12, a perceptron's
too. Other processors have other code: on these, what is found by many small steps differs more,
and bits of features by a model of torch differ. `ELSEWHERE` states by how much.
"""

from __future__ import annotations

import fnmatch
import os
import platform
from pathlib import Path

EXACT = 1e-12
# The environment of the process that records; NumPy and torch read it when they are imported.
SETTINGS = {
    "OPENBLAS_CORETYPE": "Haswell",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    **dict.fromkeys(
        (
            "OMP_NUM_THREADS",
            "MKL_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "SLURM_CPUS_PER_TASK",
        ),
        "1",
    ),
    "HF_HUB_OFFLINE": "1",
    "NO_COLOR": "1",
    "PYTHONUTF8": "1",
}
# On other processors: of the patterns that a table fits, the first. Where the code of AVX-512 was
# chosen instead, perceptrons were up to 3e-6 apart, probes of frames 5e-4; everything else
# 2e-12.
ELSEWHERE = (
    ("refused/*", EXACT),
    ("labels/*", EXACT),
    ("files/extraction.tiny", 1e-4),
    ("files/*", 1e-9),
    ("honest/honest-frames.*", 0.05),
    # Perceptrons are in these, and the values that come of their scores.
    ("honest/*", 1e-4),
    ("papers/*", 1e-4),
    ("other-data/*", 1e-4),
    ("abilities/seeds.*", 1e-4),
    ("models/mlp.*", 1e-4),
    ("*", 1e-9),
)
AS_ELSEWHERE = "GOLDEN_AS_ELSEWHERE"


def has_the_recorded_code() -> bool:
    """Return whether the processor of this machine can run the code of the recording."""
    if os.environ.get(AS_ELSEWHERE):
        return False
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    flags = Path("/proc/cpuinfo")
    return flags.exists() and " avx2 " in flags.read_text(encoding="utf-8")


def tolerance_of(table: str) -> float:
    """Return how far the numbers of a table may be from the recorded ones on this machine."""
    if has_the_recorded_code():
        return EXACT
    for pattern, tolerance in ELSEWHERE:
        if fnmatch.fnmatch(table, pattern):
            return tolerance
    raise AssertionError(table)

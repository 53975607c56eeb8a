"""How far a number may be from the recorded one.

The tables are recorded with the settings of `SETTINGS`, which choose one code of the linear algebra
libraries for all processors with AVX2. There, every number is compared to 1e-12, a perceptron's
too. On other processors, sums are added in another order, so that perceptrons, probes of frames and
features by a model of torch differ: there, only larger changes are seen.
"""

import os
import platform
from pathlib import Path

EXACT = 1e-12
ELSEWHERE = 0.05
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
AS_ELSEWHERE = "GOLDEN_AS_ELSEWHERE"


def has_the_recorded_code() -> bool:
    if os.environ.get(AS_ELSEWHERE) or platform.machine() not in ("x86_64", "AMD64"):
        return False
    flags = Path("/proc/cpuinfo")
    return flags.exists() and " avx2 " in flags.read_text(encoding="utf-8")

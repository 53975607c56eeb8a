"""Concept vectors of `pcbm-lr` by the number of clips: libsvm beside the solver without products.

Each is found in a process of its own: one concept, its tolerance chosen over inner folds of whole
films, as `obygaze train pcbm-lr` chooses them. A logistic head on the margins gives probabilities.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import duration, run_command
from obygaze_features.core.console import human, table
from obygaze_features.core.machine import this_machine
from obygaze_models.models import linear_solvers
from obygaze_models.models.common import one_thread
from obygaze_models.models.concepts import CAV
from obygaze_models.models.heads import LogisticHead
from obygaze_models.models.registry import LIBSVM, PRIMAL, PRIMAL_CLIPS

WIDTH = 512
N_FILMS = 20
CONCEPTS = ("Body",)
# libsvm with this tolerance is taken as exact.
EXACT = "exact"
EXACT_TOLERANCE = 1e-5
N_CLIPS = {
    LIBSVM: (2_000, 4_000, 8_000, 10_000),
    PRIMAL: (2_000, 4_000, 8_000, 10_000, 20_000, 100_000),
    EXACT: (4_000, 8_000),
}
QUICK = {LIBSVM: (300, 600), PRIMAL: (300, 600), EXACT: (600,)}


def rows_of(
    n_clips: int,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return features, targets of the concepts, films, and the classes of a task."""
    rng = np.random.default_rng(n_clips)
    films = np.sort(rng.integers(0, N_FILMS, n_clips))
    looks = 0.3 * rng.normal(size=(N_FILMS, WIDTH))
    X = rng.normal(size=(n_clips, WIDTH)) + looks[films]
    directions = 0.08 * rng.normal(size=(WIDTH, len(CONCEPTS)))
    noise = rng.logistic(size=(n_clips, len(CONCEPTS)))
    targets = (X @ directions + noise > 1.2).astype(np.int64)
    y = (targets[:, 0] + rng.normal(size=n_clips) > 1).astype(np.int64)
    return X.astype(np.float32), targets, films, y


def find(solver: str, n_clips: int, path: Path) -> None:
    """Find the vectors, and write the time and the probabilities into a file."""
    X, targets, films, y = rows_of(n_clips)
    if solver == EXACT:
        linear_solvers.TOLERANCE = EXACT_TOLERANCE
        solver = LIBSVM
    started = time.process_time()
    machines = linear_solvers.machines_on(X, solver)
    bank = CAV(CONCEPTS)
    bank.fit_rows(machines, targets, np.arange(n_clips), films)
    seconds = time.process_time() - started
    with one_thread():
        margins = machines.X @ bank.coef_.T + bank.intercept_
        head = LogisticHead(scaled=False).fit(margins, y)
    found = {"cpu_s": seconds, "p": head.predict_proba(margins)[:, 1].tolist()}
    path.write_text(json.dumps(found), encoding="utf-8")


def measure(quick: bool) -> str:
    """Return the times and the peak memory by the number of clips, and how far results differ."""
    sizes = QUICK if quick else N_CLIPS
    found: dict[tuple[str, int], dict[str, Any]] = {}
    rows = []
    with TemporaryDirectory(prefix="obygaze-bench-") as name:
        path = Path(name, "found.json")
        for solver, numbers in sizes.items():
            for n_clips in numbers:
                words = (sys.executable, "-m", "benchmarks.concepts")
                argv = (*words, solver, str(n_clips), str(path))
                _, _, peak = run_command(f"{solver} on {n_clips} clips", argv)
                result = json.loads(path.read_text("utf-8"))
                found[solver, n_clips] = result
                cpu = duration(result["cpu_s"])
                rows.append((f"{n_clips:,}", solver, cpu, human(peak or 0)))
    lines = [
        table(("clips", "solver", "CPU time", "peak memory"), rows),
        *_sentences(found, sizes),
        f"{WIDTH} numbers a clip, {N_FILMS} films; '{EXACT}' is libsvm with a tolerance of"
        f" {EXACT_TOLERANCE}; a run takes {PRIMAL} from {PRIMAL_CLIPS:,} clips on",
        this_machine(("numpy", "scipy", "scikit-learn")).line(),
    ]
    return "\n".join(lines)


def _sentences(
    found: Mapping[tuple[str, int], Mapping[str, Any]],
    sizes: Mapping[str, tuple[int, ...]],
) -> list[str]:
    """Return how time grows with clips, and how far probabilities are from the exact ones."""
    lines = []
    for solver in (LIBSVM, PRIMAL):
        few = sizes[solver][0]
        if solver == PRIMAL and PRIMAL_CLIPS in sizes[solver]:
            few = PRIMAL_CLIPS
        many = sizes[solver][-1]
        growth = found[solver, many]["cpu_s"] / found[solver, few]["cpu_s"]
        exponent = math.log(growth) / math.log(many / few)
        lines.append(
            f"{solver}: CPU time grows as the power {exponent:.2f} of the clips,"
            f" from {few:,} to {many:,}"
        )
    for n_clips in sizes[EXACT]:
        exact = np.array(found[EXACT, n_clips]["p"])
        for solver in (LIBSVM, PRIMAL):
            difference = np.abs(np.array(found[solver, n_clips]["p"]) - exact).max()
            lines.append(
                f"{solver} on {n_clips:,} clips: probabilities are within {difference:.1e}"
            )
    return lines


if __name__ == "__main__":
    find(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))

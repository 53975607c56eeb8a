"""The benchmark of concept vectors: it finds the same concepts with both solvers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import concepts

pytestmark = pytest.mark.check("benchmarks")


def test_both_solvers_give_the_probabilities_of_an_exact_one(tmp_path: Path) -> None:
    probabilities = {}
    for solver in (concepts.LIBSVM, concepts.PRIMAL):
        path = tmp_path / f"{solver}.json"
        concepts.find(solver, 300, path)
        probabilities[solver] = json.loads(path.read_text("utf-8"))["p"]
    first, second = map(np.array, probabilities.values())
    assert len(first) == 300
    np.testing.assert_allclose(first, second, atol=1e-3)

"""Permutation tests: contestants that answer the same question."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import permutation
from benchmarks.timing import Settings
from obygaze_models.evaluation.permutation import permutation_p

pytestmark = pytest.mark.check("benchmarks")


def test_the_plain_loop_and_the_drawn_value_agree_with_the_count() -> None:
    values = np.random.default_rng(1).normal(size=12)
    first = np.arange(12) < 6
    counted = permutation_p(values, first)
    assert counted.n == 924
    # Three standard errors of 4,000 and of 100,000 draws.
    spread = 3 * np.sqrt(counted.greater * (1 - counted.greater))
    loop = permutation.plain_loop(values.tolist(), 6, 4_000)
    assert loop == pytest.approx(counted.greater, abs=spread / np.sqrt(4_000))
    drawn = permutation_p(values, first, permutations=100_000, exact=False)
    assert drawn.greater == pytest.approx(
        counted.greater, abs=spread / np.sqrt(100_000)
    )
    assert drawn.method == "sampled, 100000 permutations, seed 0"


def test_the_result_has_ratios_to_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permutation, "N_SAMPLED", 10_000)
    found = permutation.measure(Settings(rounds=1)).to_json()
    assert found["reference"] == permutation.LOOP
    names = [contestant["name"] for contestant in found["contestants"]]
    assert names == [permutation.LOOP, permutation.EXACT, permutation.SAMPLED]
    assert "137,846,528,820" in names[1]
    assert float(found["facts"]["p, counted"]) == pytest.approx(
        float(found["facts"]["p, 10,000 drawn"]), abs=0.02
    )

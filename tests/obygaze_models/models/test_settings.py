"""An estimator in Python refuses a setting that it does not know, as a protocol does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from obygaze_models.models.common import FixTraining
from obygaze_models.models.concepts import ConceptBank
from obygaze_models.models.frames import FrameProbe
from obygaze_models.models.heads import LogisticHead

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 2


def test_what_concepts_do_not_know_is_refused() -> None:
    with pytest.raises(FixTraining, match="unknown balance 'even'"):
        ConceptBank(balance="even").fit(X, Y[:, None])  # type: ignore[arg-type]
    with pytest.raises(FixTraining, match=r"concepts must have 1 names.*got 2"):
        ConceptBank(concepts=("Look", "Body")).fit(X, Y[:, None])


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (LogisticHead(penalty="L1"), "penalty must be l1 or l2, got 'L1'"),
        (FrameProbe("sum"), "unknown pooling 'sum'"),
    ],
)
def test_a_setting_that_is_unknown_is_refused(estimator: Any, words: str) -> None:
    with pytest.raises(FixTraining, match=words):
        estimator.fit(X, Y)

"""States that an earlier version saved load to estimators with the same arrays and outputs.

`tests/data/saved-estimators.npz` has, for each name, the arrays (`name|array`), the outputs on the
rows `X` (`name||method`) and the description in JSON, as the version of the first round wrote them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obygaze_features.core.errors import Corrupt
from obygaze_models.models.estimator import load_state, save_state

SAVED = np.load(Path(__file__).parents[2] / "data" / "saved-estimators.npz")
DESCRIPTIONS: dict[str, Any] = json.loads(SAVED["descriptions"].tobytes())


def without_added(description: Any) -> Any:
    """The description without parameters that later versions added, which have their defaults."""
    if not isinstance(description, dict):
        return description
    kept = {key: without_added(value) for key, value in description.items()}
    if description.get("kind") in ("RidgeProbe", "LogisticHead", "TreeHead"):
        assert kept["params"].pop("class_weight", None) is None
    return kept


REMOVED = {"scorecard-bottleneck": "ScorecardHead"}


@pytest.mark.parametrize(("name", "estimator"), REMOVED.items())
def test_a_state_of_a_removed_kind_is_refused(name: str, estimator: str) -> None:
    with pytest.raises(Corrupt, match=f"unknown estimator '{estimator}'"):
        load_state(DESCRIPTIONS[name], {})


@pytest.mark.parametrize("name", sorted(DESCRIPTIONS.keys() - REMOVED.keys()))
def test_a_state_of_the_first_version_has_the_same_outputs(name: str) -> None:
    start = f"{name}|"
    own = {
        key.removeprefix(start): SAVED[key]
        for key in SAVED.files
        if key.startswith(start)
    }
    (method,) = (key[1:] for key in own if key.startswith("|"))
    arrays = {key: value for key, value in own.items() if not key.startswith("|")}
    model: Any = load_state(DESCRIPTIONS[name], arrays)
    # The order of sums depends on the number of rows, so the last bit may differ.
    outputs = getattr(model, method)(SAVED["X"])
    np.testing.assert_allclose(outputs, own[f"|{method}"], rtol=1e-12)
    description, again = save_state(model)
    assert without_added(description) == without_added(DESCRIPTIONS[name])
    assert {key: value.tobytes() for key, value in again.items()} == {
        key: value.tobytes() for key, value in arrays.items()
    }

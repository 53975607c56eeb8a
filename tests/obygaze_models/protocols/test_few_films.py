"""Few films, few concepts: what can still be said is said, and no more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.experiments import films, quick, run_on, store_of

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_models.runner.training import training_protocol


def test_equal_features_have_no_concept_vectors_and_the_error_says_so(
    tmp_path: Path,
) -> None:
    manifest = films(4, 20, seed=5)
    store = store_of(tmp_path / "s", manifest, np.ones((len(manifest), 5)))
    changes = ('grid.models=["b"]', "report.contrast=[]", 'grid.train=["ENHN_S"]')
    protocol = quick("honest", *changes, "models.b.kind=pcbm-lr", replicates=20)
    with pytest.raises(FixInput, match="do not differ, so that no direction separates"):
        run_on(tmp_path, protocol, manifest, {"s": store})


def test_concept_vectors_take_no_settings() -> None:
    """The first was the unknown key 'model', "did you mean 'models'?", which failed next."""
    with pytest.raises(FixUsage, match="cav has no settings of its own") as raised:
        training_protocol("cav", "EN_S", films(4, 40, seed=5), ["models.cav.C=1"])
    assert "--set data.view=raw" in raised.value.hint
    changes = ["data.view=raw", "leakage=warn", "features.x.array=tokens"]
    changed = training_protocol("cav", "EN_S", films(4, 40, seed=5), changes)
    # Vectors were found in the usual array, and nothing said so.
    assert changed.features["x"].array == "tokens" and changed.leakage == "warn"
    assert changed.data.view == "raw"


def test_concept_vectors_take_no_task() -> None:
    """`train cav --task nonsense` ended with 0, and the task was ignored."""
    with pytest.raises(FixUsage, match="each concept vector has a task of its own"):
        training_protocol("cav", "HN_S", films())
    assert training_protocol("cav", "EN_S", films(4, 40, seed=5)).tasks

"""A clip or a film that a model may have seen under other capitals is refused, and not unseen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.stores import a_recipe, made_store

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.clip_facts import ClipFacts
from obygaze_features.store import Row, open_store
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.zoo.info import FeatureSpec, ModelInfo, TrainingClips, TrainingData
from obygaze_models.zoo.predicting import predict
from obygaze_models.zoo.saving import SavedModel, load_model, save_model

IDS = [f"alba-{number}" for number in range(8)]


@pytest.fixture
def model(tmp_path: Path) -> SavedModel:
    """A model of eight clips of the film Alba."""
    X = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    store = _store(tmp_path / "trained", IDS, "Alba")
    features = FeatureSpec(
        "toy", "clip", "float32", 3, open_store(store).fingerprint, "trained"
    )
    training = TrainingData("films", "0" * 64, "visual", 8, 1, ("Alba",), "")
    info = ModelInfo(
        name="toy",
        kind="logistic",
        task="HN_S",
        classes=("HN", "S"),
        features=features,
        training=training,
        metrics={},
    )
    probe = LogisticProbe().fit(X, np.arange(8) % 2)
    clips = TrainingClips(ClipFacts.of(IDS, ["Alba"] * len(IDS)))
    return load_model(save_model(probe, info, tmp_path / "toy", X, clips=clips))


def _store(path: Path, ids: list[str], film: str) -> Path:
    X = np.random.default_rng(1).standard_normal((len(ids), 3)).astype(np.float32)
    made_store(path, [Row(id_, film) for id_ in ids], {"clip": X}, recipe=a_recipe())
    return path


@pytest.mark.parametrize(
    ("ids", "film", "said"),
    [
        (["new-1"], "ALBA", "the film 'ALBA' differs by capitals alone from 'Alba'"),
        (
            ["ALBA-3"],
            "other",
            "the clip 'ALBA-3' differs by capitals alone from 'alba-3'",
        ),
    ],
)
def test_other_capitals_are_refused(
    model: SavedModel, tmp_path: Path, ids: list[str], film: str, said: str
) -> None:
    store = open_store(_store(tmp_path / "new", ids, film))
    with pytest.raises(FixInput, match=said) as refusal:
        predict(model, store)
    assert "--manifest" in refusal.value.hint

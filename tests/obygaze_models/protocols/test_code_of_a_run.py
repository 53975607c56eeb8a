"""The identity of a run has the version of user code."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from support.experiments import films, planted, quick, store_of
from support.joined_stores import joined_stores

from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.user_code import trust
from obygaze_models.runner.inputs import Inputs, gather
from obygaze_models.runner.run import run_protocol

MODEL = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

SIGN = {sign}

class Sided(ClassifierMixin, BaseEstimator):
    def __init__(self, column=0):
        self.column = column
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self
    def decision_function(self, X):
        return SIGN * X[:, self.column]
    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]
"""
KIND = "sided.py:Sided"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def inputs_of(tmp_path: Path, sign: int) -> Inputs:
    """The inputs of a run of the own class `Sided`, with the sign of its scores."""
    (tmp_path / "sided.py").write_text(MODEL.format(sign=sign))
    manifest = films(3, 16)
    folder = tmp_path / "store"
    if folder.exists():
        shutil.rmtree(folder)
    store = store_of(folder, manifest, planted(manifest))
    trust([KIND])
    changes = (
        *(f"models.sided.kind={KIND}", 'grid.models=["sided"]'),
        *("report.contrast=[]", 'grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]'),
        *("report.concepts=false", 'grid.baselines=["all_positive"]'),
    )
    return gather(
        quick("honest-negatives", *changes, replicates=20), manifest, "", {"x": store}
    )


def test_repaired_own_code_is_another_run(here: Path) -> None:
    broken = inputs_of(here, -1)
    run_protocol(broken, here / "a", n_jobs=1)
    repaired = inputs_of(here, +1)
    assert repaired.identity != broken.identity
    with pytest.raises(AlreadyThere):
        run_protocol(repaired, here / "a", n_jobs=1)


def test_stores_in_another_order_and_the_numbers_of_a_joined_one_are_another_run(
    tmp_path,
):
    """The answer is about the first store, and only a joined one is scaled part by part."""
    manifest = films(2, 10)
    X = planted(manifest)
    stores = joined_stores(tmp_path, manifest, {"seen": X, "heard": -X})
    joined = stores["joined"]
    values = joined.matrix("clip", clips=[clip.clip_id for clip in manifest]).values
    identities = set()
    for named in (
        {"x": stores["seen"], "y": stores["heard"]},
        {"y": stores["heard"], "x": stores["seen"]},
        {"x": joined},
        {"x": store_of(tmp_path / "alike", manifest, values)},
    ):
        identities.add(gather(quick("honest-negatives"), manifest, "", named).identity)
    assert len(identities) == 4


def test_another_modality_of_a_concept_is_another_run_also_in_the_raw_view(tmp_path):
    """Vectors are found of visual concepts alone, and the rows of the manifest are the same."""
    manifest = films(2, 10)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    heard = {**manifest.header.concepts, "Look": "audio"}
    header = structs.replace(manifest.header, concepts=heard)
    identities = []
    for clips in (manifest, replace(manifest, header=header)):
        protocol = quick("honest-negatives", "data.view=raw")
        identities.append(gather(protocol, clips, "", {"x": store}).identity)
    assert identities[0] != identities[1]

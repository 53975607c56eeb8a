"""A document with a field that this version does not know was made by a newer obygaze."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.filled_stores import plan
from support.plain_store import array_of, reseal, rows_of, write_plain_store
from support.run_tables import made_run, write_model_json, write_run_json

import obygaze as og
from obygaze_features import __version__
from obygaze_features.core.errors import Corrupt, Mismatch
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store.filling import Filling
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.runner.files import read_folder
from obygaze_models.zoo.info import FeatureSpec, ModelInfo, TrainingData
from obygaze_models.zoo.saving import save_model

Tree = dict[str, Any]
Change = Callable[[Tree], object]


def read_json(path: Path) -> Tree:
    document: Tree = json.loads(path.read_bytes())
    return document


def sealed(folder: Path, change: Change) -> object:
    numbers = np.ones((3, 4), np.float32)
    entries = [array_of("clip", numbers)]
    rows = rows_of(["a", "b", "c"], ["film"] * 3)
    write_plain_store(folder, {"clip": numbers}, rows, arrays=entries)
    reseal(folder, change)
    return og.open_store(folder)


def planned(folder: Path, change: Change) -> object:
    path = plan(folder).folder / "plan.json"
    document = read_json(path)
    change(document)
    path.chmod(0o644)
    path.write_text(json.dumps(document) + "\n")
    return Filling.open(folder)


def run_of(folder: Path, change: Change) -> object:
    document = dict(made_run(folder, []).about)
    change(document)
    write_run_json(folder, document)
    return read_folder(folder)


def model_of(folder: Path, change: Change) -> object:
    X = np.random.default_rng(0).normal(size=(20, 4))
    estimator = LogisticProbe().fit(X, np.array([0, 1] * 10))
    spec = FeatureSpec("toy", "clip", "float32", 4, "f" * 64)
    training = TrainingData("films", "0" * 64, "raw", 20, 4)
    classes = ("negative", "positive")
    info = ModelInfo("m", "logreg", "EN_S", classes, spec, training)
    save_model(estimator, info, folder, X)
    document = read_json(folder / "model.json")
    change(document)
    write_model_json(folder, document)
    return og.load_model(folder)


def manifest_of(folder: Path, change: Change) -> object:
    folder.mkdir()
    path = folder / "films.toml"
    write_manifest(Manifest("films", Header("Films", {}), (Clip("a", "film"),)), path)
    document: Tree = {}
    change(document)
    ends = path.read_text().partition("\n")
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in document.items()]
    path.write_text(f"{ends[0]}\n{''.join(lines)}{ends[2]}")
    return og.read_manifest(path)


DOCUMENTS = {
    "store.json": sealed,
    "plan.json": planned,
    "run.json": run_of,
    "model.json": model_of,
    "films.toml": manifest_of,
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_field_of_a_newer_version_is_named(name: str, tmp_path: Path) -> None:
    read = DOCUMENTS[name]
    assert read(tmp_path / "plain", lambda document: None)
    folder = tmp_path / "newer"
    with pytest.raises(Mismatch) as caught:
        read(folder, lambda document: document.update(colour="red"))
    assert caught.value.exit_code == 5
    assert caught.value.message == (
        f"unknown field colour: a version newer than obygaze {__version__} wrote this file"
    )
    assert str(caught.value.where).endswith(name)


@pytest.mark.parametrize("name", ["store.json", "plan.json"])
def test_a_field_that_took_the_place_of_another_is_damage(name, tmp_path) -> None:
    """A newer version adds fields; it does not leave out what this one needs."""

    def change(document: Tree) -> None:
        document["colour"] = document.pop("manifest")

    with pytest.raises(Corrupt, match="not a document of a store"):
        DOCUMENTS[name](tmp_path / "damaged", change)

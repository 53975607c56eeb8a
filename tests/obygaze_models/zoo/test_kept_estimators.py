"""Any classifier of scikit-learn is trained, saved without pickle, loaded elsewhere and used."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from safetensors.numpy import load, save
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import all_estimators
from support.cli import environment, without_torch
from support.experiments import films, planted, write_workspace
from support.saved_models import write_model_json
from support.seeds import amount

import obygaze as og
from obygaze_features.core import parts
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.models.own import pack, unpack
from obygaze_models.zoo import (
    FeatureSpec,
    ModelInfo,
    SavedModel,
    TrainingData,
    save_model,
)

pytest.importorskip("skops")

FILMS = replace(films(4, 30), name="films")
QUICK = ["report.replicates=20", "report.contrast=[]", "report.concepts=false"]
TREE = "sklearn.tree._tree.Tree"
BOOSTED = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
ESTIMATORS: dict[str, tuple[Any, list[str]]] = {
    "forest": (RandomForestClassifier(7, random_state=1), [TREE]),
    "boosted": (HistGradientBoostingClassifier(max_iter=5), [BOOSTED]),
}


def info_of(name: str) -> ModelInfo:
    return ModelInfo(
        name,
        "mine",
        "EN_S",
        ("negative", "positive"),
        FeatureSpec("toy", "clip", "float32", 24, "f" * 64),
        TrainingData("films", "0" * 64, "raw", 120, 4),
    )


def untrusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process trusts, as a new process does."""
    monkeypatch.setattr(parts, "_TRUSTED", {})


@pytest.fixture
def rows() -> tuple[Any, Any]:
    X = planted(FILMS).astype(np.float64)
    return X, np.array([int(clip.level == "S") for clip in FILMS])


def saved(tmp_path: Path, name: str, rows: tuple[Any, Any]) -> tuple[Path, Any]:
    estimator = ESTIMATORS[name][0].fit(*rows)
    return save_model(estimator, info_of(name), tmp_path / name, rows[0]), estimator


@pytest.mark.parametrize("name", ["forest", "boosted"])
def test_a_type_that_is_not_trusted_is_refused_by_name(
    tmp_path: Path,
    rows: tuple[Any, Any],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, estimator = saved(tmp_path, name, rows)
    (untrusted,) = ESTIMATORS[name][1]
    untrusting(monkeypatch)
    with pytest.raises(FixUsage, match=untrusted.replace(".", r"\.")) as refused:
        og.load_model(folder)
    assert f"--trust {untrusted}" in str(refused.value.hint)
    loaded: SavedModel = og.load_model(folder, trust=[untrusted])
    probabilities = loaded.estimator.predict_proba(rows[0])
    np.testing.assert_array_equal(probabilities, estimator.predict_proba(rows[0]))


def with_schema(packed: Any, schema: bytes, compression: int) -> Any:
    """A file of skops with another description of its types."""
    written = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(packed.tobytes())) as old,
        zipfile.ZipFile(written, "w", compression) as new,
    ):
        for name in old.namelist():
            new.writestr(name, schema if name == "schema.json" else old.read(name))
    return np.frombuffer(written.getvalue(), dtype=np.uint8)


HOSTILE = {
    "compressed padding": "it unpacks to 3,0",
    "padding": "schema.json has 9,0",
    "parts": "schema.json has 2,0",
}


def hostile_file(kind: str, rows: tuple[Any, Any]) -> Any:
    """A file of skops that takes much more memory than its bytes."""
    packed = pack(LogisticRegression().fit(*rows))
    with zipfile.ZipFile(io.BytesIO(packed.tobytes())) as archive:
        schema = archive.read("schema.json")
    compression = zipfile.ZIP_STORED
    if kind == "compressed padding":
        schema += b" " * 3_000_000
        compression = zipfile.ZIP_DEFLATED
    elif kind == "padding":
        schema += b" " * 9_000_000
    else:
        schema = schema[:-1] + b', "x": [' + b"[]," * 2_000_000 + b"[]]}"
    return with_schema(packed, schema, compression)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_of_skops_that_is_too_large_is_refused(
    rows: tuple[Any, Any], kind: str
) -> None:
    with pytest.raises(Corrupt, match=HOSTILE[kind]):
        unpack(hostile_file(kind, rows))


def test_a_function_that_runs_code_is_never_called(
    tmp_path: Path, rows: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline may hold any function; that of another module is a type like others."""
    import shutil

    harmful = FunctionTransformer(shutil.rmtree)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(*rows)
    pipeline.steps.insert(0, ("harm", harmful))
    (tmp_path / "precious").mkdir()
    packed = pack(pipeline)
    untrusting(monkeypatch)
    with pytest.raises(FixUsage, match="rmtree"):
        unpack(packed)
    assert (tmp_path / "precious").is_dir()


def test_what_is_no_fitted_classifier_is_named(
    tmp_path: Path, rows: tuple[Any, Any]
) -> None:
    with pytest.raises(
        FixInput, match=r"LogisticRegression cannot be saved .* classes_"
    ):
        save_model(LogisticRegression(), info_of("m"), tmp_path / "m", rows[0])
    with pytest.raises(FixInput, match=r"StandardScaler cannot be saved .* predict"):
        save_model(StandardScaler().fit(rows[0]), info_of("m"), tmp_path / "m", rows[0])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_workspace(tmp_path, FILMS, planted(FILMS), "sig")
    monkeypatch.chdir(tmp_path)
    untrusting(monkeypatch)
    return tmp_path


def in_words(y: Any) -> Any:
    return np.array(["EN", "S"])[y]


@pytest.mark.parametrize("kind", [LogisticRegression, LogisticProbe])
def test_words_in_another_order_are_refused(
    tmp_path: Path, rows: tuple[Any, Any], kind: Any
) -> None:
    """The model would say S where it said EN."""
    X, y = rows
    fitted = kind().fit(X, in_words(y))
    folder = tmp_path / "m"
    swapped = structs.replace(info_of("m"), classes=("S", "EN"))
    with pytest.raises(FixInput, match="the classes are S, EN, but EN, S in the"):
        save_model(fitted, swapped, folder, X)
    right = structs.replace(info_of("m"), classes=("EN", "S"))
    save_model(fitted, right, folder, X)
    document = json.loads((folder / "model.json").read_text("utf-8"))
    write_model_json(folder, {**document, "classes": ["S", "EN"]})
    with pytest.raises(Corrupt, match="the classes are S, EN, but EN, S in the"):
        og.load_model(folder)


class Forgetful(LogisticRegression):
    """A classifier that is another one when it is loaded again."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "coef_": -self.coef_}


def test_what_predicts_otherwise_when_loaded_is_not_saved(
    tmp_path: Path, rows: tuple[Any, Any]
) -> None:
    fitted = Forgetful().fit(*rows)
    with pytest.raises(FixInput, match="Forgetful cannot be saved: when it is loaded"):
        save_model(fitted, info_of("m"), tmp_path / "m", rows[0])
    assert list(tmp_path.iterdir()) == []


OWN = """
from dataclasses import dataclass
from os import system

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


@dataclass
class Border:
    column: int
    at: float


class Borders(ClassifierMixin, BaseEstimator):
    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        self.shift = 0.25
        self.borders_ = [Border(n, float(X[:, n].mean())) for n in range(2)]
        self.pair_ = (1, [2.0, "x"], {"a": (3,)})
        return self

    def decision_function(self, X):
        first, second = self.borders_
        of_first = X[:, first.column] - first.at
        return of_first + X[:, second.column] - second.at + self.shift

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]
"""


def test_a_trusted_file_is_no_way_to_what_it_imports(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes name `own.system`, which is the one of `os`: no class of the file."""
    (here / "own.py").write_text(OWN, encoding="utf-8")
    og.train("own.py:Borders", "sig", "films", changes=QUICK, output="own")
    folder = here / "models" / "own"
    arrays = load((folder / "model.safetensors").read_bytes())
    bytes_of_file = io.BytesIO(arrays["skops"].tobytes())
    with zipfile.ZipFile(bytes_of_file) as archive:
        schema = archive.read("schema.json")
        others = {
            name: archive.read(name)
            for name in archive.namelist()
            if name != "schema.json"
        }
    assert schema.count(b'"Border"') == 2
    harmful = io.BytesIO()
    with zipfile.ZipFile(harmful, "w") as archive:
        archive.writestr("schema.json", schema.replace(b'"Border"', b'"system"'))
        for name, data in others.items():
            archive.writestr(name, data)
    arrays["skops"] = np.frombuffer(harmful.getvalue(), dtype=np.uint8)
    data = save(arrays)
    (folder / "model.safetensors").write_bytes(data)
    document = json.loads((folder / "model.json").read_text("utf-8"))
    mark = [len(data), hashlib.sha256(data).hexdigest()]
    document["files"]["model.safetensors"] = mark
    write_model_json(folder, document)
    untrusting(monkeypatch)
    with pytest.raises(FixUsage, match=r"not trusted: own\.system"):
        og.load_model("own", trust=["own.py:Borders"])


# A process that loads many models and says what each predicts.
FRESH_OF_MANY = """
import json, sys
from pathlib import Path
import numpy as np
from obygaze_models.zoo import load_model
X = np.load(sys.argv[2])
for folder in sorted(Path(sys.argv[1]).iterdir()):
    trust = json.loads((folder / "model.json").read_text("utf-8")).get("trust", [])
    estimator = load_model(folder, trust=trust).estimator
    names = ("predict", "predict_proba", "decision_function")
    outputs = {n: getattr(estimator, n)(X) for n in names if hasattr(estimator, n)}
    np.savez(folder.parent.parent / f"{folder.name}.npz", **outputs)
"""


@pytest.mark.check("fits many classifiers of scikit-learn")
@pytest.mark.filterwarnings("ignore")
def test_every_classifier_that_fits_is_saved_or_refused_by_name(
    tmp_path: Path, rows: tuple[Any, Any]
) -> None:
    X, y = rows
    X = X - X.min()  # some classifiers take counts only
    np.save(tmp_path / "rows.npy", X)
    expected = {}
    refused = {}
    classifiers = all_estimators(type_filter="classifier")
    # `make torture` tries all of them.
    for name, kind in amount(classifiers[::6], classifiers):
        try:
            fitted = kind().fit(X, y)
            fitted.predict(X)
        except (AttributeError, TypeError, ValueError):
            continue  # it needs settings, or other rows
        folder = tmp_path / "models" / name
        try:
            save_model(fitted, info_of(name), folder, X)
            expected[name] = fitted
        except FixInput as error:
            refused[name] = error.message
    for name, message in refused.items():
        assert message.startswith(f"{name} cannot be saved")
    done = subprocess.run(
        [sys.executable, "-c", FRESH_OF_MANY, "models", "rows.npy"],
        cwd=tmp_path,
        # skops imports torch where it is installed, which takes seconds.
        env=environment(without_torch(tmp_path / "no-torch")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name, fitted in expected.items():
        found = np.load(tmp_path / f"{name}.npz")
        assert "predict" in found
        for method in found:
            np.testing.assert_allclose(
                found[method], getattr(fitted, method)(X), rtol=1e-9, atol=1e-12
            )
    assert len(expected) >= amount(4, 25)

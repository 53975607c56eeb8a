"""An unfinished run is continued by the same code only: that of obygaze, and own code."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.experiments import films, planted, quick, store_of

from obygaze_features import __version__
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.parts import trust
from obygaze_features.manifest.io import manifest_sha256
from obygaze_models.runner import code
from obygaze_models.runner.inputs import Inputs, gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.protocols.schema import Model

MODEL = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from {helper} import SIGN

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
FILES = {
    "one": ("sided.py", "sided_sign.py", "sided_sign", "sided.py:Sided"),
    "package": ("sided/__init__.py", "sided/sign.py", "sided.sign", "sided:Sided"),
}


def write_code(folder: Path, sign: int, form: str) -> None:
    """Write the own class `Sided`, of which a second file has the sign of its scores."""
    model, helper, name, _ = FILES[form]
    for path, text in (
        (model, MODEL.format(helper=name)),
        (helper, f"SIGN = {sign}\n"),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def inputs_of(tmp_path: Path, form: str = "one") -> Inputs:
    manifest = films(3, 16)
    folder = tmp_path / "store"
    if folder.exists():
        shutil.rmtree(folder)
    store = store_of(folder, manifest, planted(manifest))
    kind = FILES[form][-1]
    trust([kind])
    changes = (
        f"models.sided.kind={kind}",
        'grid.models=["sided"]',
        "report.contrast=[]",
        'grid.train=["ENHN_S"]',
        'grid.test=["ENHN_S"]',
        "report.concepts=false",
        'grid.baselines=["all_positive"]',
    )
    return gather(quick("honest", *changes, replicates=20), manifest, "", {"x": store})


@contextmanager
def stopping(label: str, total: int) -> Iterator[Progress]:
    class Bar(Quiet):
        def advance(self, amount: int = 1) -> None:
            if amount:
                raise KeyboardInterrupt

    yield Bar() if label.startswith("tests") else Quiet()


@pytest.mark.parametrize("form", FILES)
def test_repaired_own_code_starts_again(form: str, here: Path) -> None:
    write_code(here, -1, form)
    with pytest.raises(KeyboardInterrupt):
        run_protocol(inputs_of(here, form), here / "a", n_jobs=1, watch=stopping)
    broken = inputs_of(here, form).identity
    write_code(here, +1, form)
    repaired = inputs_of(here, form)
    assert repaired.identity != broken
    resumed = run_protocol(repaired, here / "a", n_jobs=1)
    alone = run_protocol(repaired, here / "b", n_jobs=1)
    for name in ("results.json", "predictions.csv"):
        assert (resumed.folder / name).read_bytes() == (
            alone.folder / name
        ).read_bytes()


def test_the_time_of_a_file_is_not_its_content(here: Path) -> None:
    write_code(here, 1, "one")
    before = inputs_of(here).identity_here
    os.utime(here / "sided_sign.py", (time.time() + 60, time.time() + 60))
    assert inputs_of(here).identity_here == before


@pytest.mark.parametrize("name", ["obygaze_models", "obygaze_features"])
def test_both_packages_are_in_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    (folder / "room").mkdir(parents=True)
    file = folder / "room" / "part.py"
    file.write_text("x = 1\n")
    roots = tuple(folder if root.name == name else root for root in code.ROOTS)
    assert sorted(root.name for root in roots) == ["obygaze_features", "obygaze_models"]
    monkeypatch.setattr(code, "ROOTS", roots)
    code.own_code.cache_clear()
    before = code.own_code()
    times = file.stat().st_mtime_ns
    file.write_text("x = 2\n")
    os.utime(file, ns=(times, times))
    code.own_code.cache_clear()
    assert code.own_code() != before
    monkeypatch.undo()
    code.own_code.cache_clear()


def test_other_runs_have_the_identity_that_they_had(tmp_path: Path) -> None:
    manifest = films(2, 10)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    inputs = gather(quick("honest"), manifest, "", {"x": store})
    models = {**inputs.protocol.models, "unused": Model("sided.py:Sided", {})}
    grid = replace(inputs.protocol.grid, models=tuple(inputs.protocol.models))
    protocol = replace(inputs.protocol, models=models, grid=grid)
    unused = replace(inputs, protocol=protocol)  # such code need not be there
    parts = {"protocol": protocol.sha256, "manifest": manifest_sha256(manifest)}
    parts |= {
        "stores": {"x": inputs.features[0].origin["sha256"]},
        "obygaze": __version__,
    }
    assert unused.identity == sha256_bytes(canonical_json(parts))

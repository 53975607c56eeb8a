"""An unfinished run is continued by the same code only: own files, features, plugins."""

from __future__ import annotations

import os
import shutil
import sys
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
from obygaze_features.manifest.io import manifest_sha256
from obygaze_models.protocols.runner import code
from obygaze_models.protocols.runner.run import Inputs, gather, run_protocol
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
    "one": ("sided.py", "sided_sign.py", "sided_sign"),
    "package": ("sided/__init__.py", "sided/sign.py", "sided.sign"),
}


def install(site: Path, sign: int, form: str) -> None:
    """Write the package `sided`, of which a second file has the sign of its scores."""
    model, helper, name = FILES[form]
    for path, text in (
        (model, MODEL.format(helper=name)),
        (helper, f"SIGN = {sign}\n"),
    ):
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    info = site / "sided-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sided\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[obygaze.models]\nsided = sided:Sided\n")


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("sided")]:
        del sys.modules[name]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield site
    forget()


def inputs_of(tmp_path: Path) -> Inputs:
    manifest = films(3, 16)
    folder = tmp_path / "store"
    if folder.exists():
        shutil.rmtree(folder)
    store = store_of(folder, manifest, planted(manifest))
    changes = ("models.sided.kind=sided", 'grid.models=["sided"]', "report.contrast=[]")
    changes += (
        'grid.train=["ENHN_S"]',
        'grid.test=["ENHN_S"]',
        "report.concepts=false",
    )
    changes += ('grid.baselines=["all_positive"]',)
    return gather(quick("honest", *changes, replicates=20), manifest, "", {"x": store})


@contextmanager
def stopping(label: str, total: int) -> Iterator[Progress]:
    class Bar(Quiet):
        def advance(self, amount: int = 1) -> None:
            if amount:
                raise KeyboardInterrupt

    yield Bar() if label.startswith("tests") else Quiet()


@pytest.mark.parametrize("form", FILES)
def test_a_repaired_plugin_starts_again(form: str, site: Path, tmp_path: Path) -> None:
    install(site, -1, form)
    with pytest.raises(KeyboardInterrupt):
        run_protocol(inputs_of(tmp_path), tmp_path / "a", n_jobs=1, watch=stopping)
    broken = inputs_of(tmp_path).identity
    install(site, +1, form)
    forget()
    repaired = inputs_of(tmp_path)
    assert repaired.identity != broken
    resumed = run_protocol(repaired, tmp_path / "a", n_jobs=1)
    alone = run_protocol(repaired, tmp_path / "b", n_jobs=1)
    for name in ("results.json", "predictions.csv"):
        assert (resumed.folder / name).read_bytes() == (
            alone.folder / name
        ).read_bytes()


def test_the_time_of_a_file_is_not_its_content(site: Path, tmp_path: Path) -> None:
    install(site, 1, "one")
    before = inputs_of(tmp_path).identity_here
    os.utime(site / "sided_sign.py", (time.time() + 60, time.time() + 60))
    forget()
    assert inputs_of(tmp_path).identity_here == before


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
    models = {**inputs.protocol.models, "unused": Model("sided", {})}
    grid = replace(inputs.protocol.grid, models=tuple(inputs.protocol.models))
    protocol = replace(inputs.protocol, models=models, grid=grid)
    unused = replace(inputs, protocol=protocol)  # such a plugin need not be installed
    parts = {"protocol": protocol.sha256, "manifest": manifest_sha256(manifest)}
    parts |= {
        "stores": {"x": inputs.features[0].origin["sha256"]},
        "obygaze": __version__,
    }
    assert unused.identity == sha256_bytes(canonical_json(parts))

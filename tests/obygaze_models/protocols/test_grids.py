"""A choice of values is said to be one; a list that a setting takes is a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.experiments import quick

from obygaze_features.core.errors import FixInput
from obygaze_features.core.user_code import trust
from obygaze_models.protocols.kinds import candidates

OWN_CLASS = """
from sklearn.base import BaseEstimator, ClassifierMixin

class Base: pass

class Layers(ClassifierMixin, BaseEstimator):
    def __init__(self, layers=(64, 32), names=[], empty=(), missing=float("nan"), base=Base,
                 kind="rbf", package="x", shrink=0.0, none=None, options={"a": 1}):
        self.layers, self.names, self.empty, self.missing = layers, names, empty, missing
        self.base, self.kind, self.package, self.shrink = base, kind, package, shrink
        self.none, self.options = none, options
    def fit(self, X, y):
        return self
    def decision_function(self, X):
        return X[:, 0]
    def predict(self, X):
        return X[:, 0] > 0
"""


@pytest.fixture
def layers(tmp_path: Path) -> str:
    """The name of an own class with a parameter of every form."""
    (tmp_path / "layers.py").write_text(OWN_CLASS)
    trust([f"{tmp_path / 'layers.py'}:Layers"])
    return "layers.py:Layers"


def test_a_list_is_a_value_where_the_default_is_one_and_else_refused(
    layers: str,
) -> None:
    def read(*changes: str) -> Any:
        own = quick("honest", f"models.l.kind={layers}", 'grid.models=["l"]', *changes)
        return candidates(own.models["l"])

    assert [c["layers"] for c in read("models.l.layers=[8, 4]")] == [(8, 4)]
    grid = read("models.l.layers={ grid = [[8, 4], [2]] }")
    assert [list(c["layers"]) for c in grid] == [[8, 4], [2]]
    assert [c["shrink"] for c in read("models.l.shrink.grid=[0.1, 0.9]")] == [0.1, 0.9]
    assert [list(c["none"]) for c in read("models.l.none={ grid = [[1, 2]] }")] == [
        [1, 2]
    ]
    assert [c["options"] for c in read("models.l.options={ grid = [{ b = 2 }] }")] == [
        {"b": 2}
    ]
    for ambiguous in ("shrink=[0.1, 0.9]", "none=[1, 2]"):
        with pytest.raises(FixInput) as error:
            read(f"models.l.{ambiguous}")
        assert "for a choice { grid = [...] }" in error.value.details[0]
    for not_plain in (
        "missing=nan",
        "shrink=inf",
        "layers={ grid = [nan] }",
        "shrink.grid=[]",
    ):
        with pytest.raises(FixInput):
            read(f"models.l.{not_plain}")


def test_a_grid_is_a_choice_and_a_list_alone_is_none() -> None:
    model = quick("honest", "models.pcbm-lr.C.grid=[0.1, 1.0]").models["pcbm-lr"]
    assert len(candidates(model)) == 2
    for change, said in (
        ("models.pcbm-lr.C=[0.1, 1.0]", "for a choice { grid = [...] }"),
        ("models.ridge.class_weight.grid=['none', 'all']", "must be one of"),
        ("leakage.grid=['error']", "must be"),  # no setting of a model
    ):
        with pytest.raises(FixInput) as error:
            quick("honest", change)
        assert said in error.value.details[0]

"""The registry: every kind builds its class, and unknown names and values are errors."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput
from obygaze_models.models import registry
from obygaze_models.models.registry import (
    BANK,
    CLASSES,
    KINDS,
    build,
    build_bank,
    default_settings,
    estimator_class,
    find_kind,
)

HEADS = {
    "pcbm-dt": "TreeHead",
    "pcbm-lr": "LogisticHead",
    "pcbm-h": "LogisticHead",
}
TRAINED = {name: kind for name, kind in KINDS.items() if kind.is_trained}


def test_every_kind_has_a_class_and_every_default_keeps_its_rule() -> None:
    assert {name: kind.head for name, kind in KINDS.items() if kind.head} == HEADS
    for name, kind in TRAINED.items():
        assert (kind.estimator == "Bottleneck") == (name in HEADS)
        for setting, value in default_settings(name).items():
            assert find_kind(name).settings[setting].problem(value) is None
        assert {kind.estimator, kind.head} - {""} <= set(CLASSES)


@pytest.mark.parametrize("kind", TRAINED)
def test_a_kind_is_built_from_its_settings_and_fits(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0, "S", "EN")
    model = build(kind, {"max_epochs": 6} if kind == "mlp" else None, seed=3)
    assert type(model).__name__ == KINDS[kind].estimator
    assert np.mean(model.fit(X, y).predict(X) == y) > 0.7


def test_settings_become_the_parameters_of_the_class() -> None:
    mlp = build(
        "mlp", {"hidden": [8, 4], "dropout": 0.5, "class_weight": "balanced"}, seed=7
    )
    assert (mlp.hidden, mlp.dropout, mlp.class_weight) == ((8, 4), 0.5, "balanced")
    assert (mlp.random_state, mlp.max_epochs) == (7, 100)
    assert build("logistic", {"class_weight": "none"}).class_weight is None
    assert build("frames", {"pooling": "last"}).get_params()["pooling"] == "last"
    hybrid = build(
        "pcbm-h", {"residual_C": 0.5, "tolerance": 0.1, "balance": "none"}, seed=2
    )
    bank = {
        "C": 0.1,
        "balance": None,
        "random_state": 2,
        "unit_norm": True,
    }
    assert bank.items() <= hybrid.bank.get_params().items()
    assert (hybrid.head.C, hybrid.head.scaled, hybrid.residual.C) == (0.1, True, 0.5)
    assert hybrid.cross_fit == 5


def test_concept_vectors_are_built_alone() -> None:
    assert build("pcbm-dt").residual is None
    settings = default_settings("pcbm-dt")
    bank = build_bank({**settings, "tolerance": {"Body": 0.3}}, seed=4)
    assert (bank.C, bank.against, bank.random_state) == ({"Body": 0.3}, "absent", 4)


def test_the_defaults_of_a_kind_are_those_of_its_class() -> None:
    params = build("mlp").get_params()
    defaults = {**default_settings("mlp"), "hidden": (128,), "class_weight": None}
    assert defaults.items() <= params.items()
    assert params == estimator_class("MLPProbe")().get_params()


@pytest.mark.parametrize("ask", [find_kind, default_settings, build])
def test_an_unknown_kind_is_an_error_that_lists_the_known_ones(ask: Any) -> None:
    with pytest.raises(
        FixInput, match=r"unknown model kind 'pcbm-ll' \(did you mean"
    ) as error:
        ask("pcbm-ll")
    assert error.value.hint == f"one of {', '.join(KINDS)}"


@pytest.mark.parametrize(
    ("kind", "name", "value", "problem"),
    [
        ("logistic", "C", 0, "a number, above 0"),
        ("mlp", "hidden", [], "a list of whole numbers, at least 1"),
        ("pcbm-lr", "C", "published", "a number, above 0"),
        ("frames", "pooling", "sum", "one of max, mean, last"),
    ],
)
def test_a_value_that_cannot_be_has_a_problem(
    kind: str, name: str, value: Any, problem: str
) -> None:
    assert f"must be {problem}" in str(find_kind(kind).settings[name].problem(value))


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (
            "logistic",
            {"c": 1},
            r"unknown setting of logistic 'c' \(did you mean 'C'\?\)",
        ),
        ("ridge", {"alpha": 1}, "unknown setting of ridge 'alpha'"),
        ("logistic", {"C": 0}, "C must be a number, above 0, got 0"),
        ("frames", {"pooling": "sum"}, "pooling must be one of max, mean, last"),
    ],
)
def test_a_setting_that_cannot_be_is_an_error(
    kind: str, settings: Any, message: str
) -> None:
    with pytest.raises(FixInput, match=message):
        build(kind, settings)


def test_no_concept_is_called_as_the_part_beside_the_concepts() -> None:
    """Its contribution to a decision was that of the part."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    concepts = (X[:, :2] > 0).astype(int)
    names = ["Look", "residual"]
    with pytest.raises(FixInput, match="no concept can be called 'residual'"):
        hybrid = build("pcbm-h")
        hybrid.set_params(bank__concepts=names).fit(X, X[:, 0] > 0, concepts)
    linear = build("pcbm-lr").set_params(bank__concepts=names)
    linear.fit(X, X[:, 0] > 0, concepts)
    assert linear.bank_.concepts_.tolist() == names


def test_a_repr_is_one_short_line() -> None:
    assert repr(build("pcbm-dt", {"max_depth": 3}).head) == "TreeHead(max_depth=3)"
    many = build(
        "mlp", {"hidden": [3] * 40, "max_epochs": 9, "patience": 3, "dropout": 0.25}
    )
    for model in (many, build("pcbm-h", {"residual_C": 3.0, "tolerance": 0.25})):
        assert len(repr(model)) <= 120
        assert "\n" not in repr(model)
        assert repr(model).startswith(f"{type(model).__name__}(")


def test_names_of_the_registry_are_those_of_the_modules() -> None:
    from obygaze_models.models.baselines import BY_NAME

    assert list(BY_NAME) == list(registry.BASELINES)
    assert all(set(BANK) <= set(KINDS[kind].settings) for kind in HEADS)


def test_reading_the_registry_imports_no_numpy() -> None:
    script = (
        "import sys; from obygaze_models.models.registry import default_settings;"
        "default_settings('mlp'); sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0

"""The registry: every kind builds its class, and unknown names and values are errors."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from support.fold_data import taught

from obygaze_features.core.errors import FixInput
from obygaze_models.models.estimator import Estimator
from obygaze_models.models.registry import KINDS, build


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("pcbm-ll", {}, r"unknown model kind 'pcbm-ll' \(did you mean"),
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
def test_a_setting_that_cannot_be_is_an_error(kind, settings, message) -> None:
    with pytest.raises(FixInput, match=message):
        build(kind, settings)


def named(kind: str, names: list[str]) -> Any:
    """Return an unfitted bottleneck of these concepts."""
    return build(kind).set_params(bank__concepts=names)


def test_no_concept_is_called_as_the_part_beside_the_concepts() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    concepts = (X[:, :2] > 0).astype(int)
    names = ["Look", "residual"]
    with pytest.raises(FixInput, match="a concept cannot have the name 'residual'"):
        taught(named("pcbm-h", names), X, X[:, 0] > 0, concepts)
    linear = taught(named("pcbm-lr", names), X, X[:, 0] > 0, concepts)
    assert linear.bank_.concepts_.tolist() == names


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator, and of its parts."""
    found: dict[str, Any] = {}
    for one in fields(estimator):
        if one.init:
            value = estimator.part(one.name)
            is_estimator = isinstance(value, Estimator)
            found[one.name] = plain_parameters(value) if is_estimator else value
    return found


# A tree or a residual is asked for by name: a bottleneck has neither.
@pytest.mark.parametrize(
    "kind", sorted(KINDS.keys() - {"pcbm-dt", "pcbm-h", "zero-shot"})
)
def test_a_class_and_its_kind_have_the_same_defaults(kind: str) -> None:
    built = build(kind)
    assert plain_parameters(built) == plain_parameters(type(built)())

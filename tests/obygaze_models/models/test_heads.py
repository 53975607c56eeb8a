"""Heads of a bottleneck against scikit-learn, statsmodels and hand-made cases."""

from typing import Any

import numpy as np
import pytest
import sklearn
from numpy.typing import NDArray
from packaging.version import Version
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from obygaze_models.models.bottleneck import ResidualHead
from obygaze_models.models.common import FixTraining
from obygaze_models.models.frames import FrameProbe
from obygaze_models.models.heads import LogisticHead, Penalty, TreeHead


def margins(n: int = 400) -> tuple[NDArray[Any], NDArray[Any]]:
    """Eight margins that lean on each other; the first three make the level."""
    rng = np.random.default_rng(2)
    M = rng.normal(size=(n, 8)) @ (np.eye(8) + 0.3 * rng.normal(size=(8, 8)))
    z = 1.5 * M[:, 0] - M[:, 1] + 0.8 * M[:, 2] - 0.5
    return M, np.where(rng.random(n) < expit(z), "S", "HN")


@pytest.mark.parametrize(("depth", "leaf"), [(8, 6), (4, 6), (10, 10)])
def test_the_tree_kept_as_arrays_is_the_tree_of_sklearn(depth: int, leaf: int) -> None:
    M, y = margins()
    ours = TreeHead(depth, min_samples_leaf=leaf, random_state=42).fit(M[:300], y[:300])
    theirs = DecisionTreeClassifier(
        max_depth=depth, min_samples_leaf=leaf, random_state=42
    )
    theirs.fit(M[:300], y[:300])
    np.testing.assert_allclose(
        ours.predict_proba(M), theirs.predict_proba(M), atol=1e-12
    )
    np.testing.assert_array_equal(ours._walk(M)[0], theirs.apply(M))


@pytest.mark.parametrize(("penalty", "C"), [("l2", 0.1), ("l1", 0.01)])
def test_the_logistic_head_is_liblinear(penalty: Penalty, C: float) -> None:
    M, y = margins()
    ours = LogisticHead(C, penalty=penalty, scaled=False).fit(M, y)
    settings: dict[str, Any] = {"l1_ratio": {"l1": 1.0, "l2": 0.0}[penalty]}
    if Version(sklearn.__version__) < Version("1.8"):
        settings = {"penalty": penalty}
    theirs = LogisticRegression(C=C, solver="liblinear", random_state=42, **settings)
    np.testing.assert_allclose(
        ours.predict_proba(M), theirs.fit(M, y).predict_proba(M), atol=1e-12
    )


@pytest.mark.parametrize("head", [LogisticHead(), TreeHead(8)])
def test_contributions_add_up_to_the_answer(head: Any) -> None:
    M, y = margins()
    head.fit(M, y)
    base, parts = head.contributions(M)
    p = head.predict_proba(M)[:, 1]
    answer = p if isinstance(head, TreeHead) else logit(p)
    np.testing.assert_allclose(base + parts.sum(axis=1), answer, atol=1e-9)
    if not isinstance(head, TreeHead):
        np.testing.assert_allclose(parts.mean(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize("head", [LogisticHead(), FrameProbe()])
def test_three_classes_are_refused(head: Any) -> None:
    with pytest.raises(FixTraining, match="Only binary classification"):
        head.fit(np.random.default_rng(0).normal(size=(9, 2)), [0, 1, 2] * 3)


def test_with_an_offset_it_is_that_of_statsmodels() -> None:
    api = pytest.importorskip("statsmodels.api")
    M, y = margins()
    offset = 0.7 * M[:, 0] - 0.2
    theirs = api.GLM(
        (y == "S").astype(float),
        api.add_constant(M),
        family=api.families.Binomial(),
        offset=offset,
    ).fit(tol=1e-12)
    ours = ResidualHead(C=1e9).fit(M, y, offset)
    np.testing.assert_allclose(ours.coef_, theirs.params[1:], atol=1e-4)
    assert ours.intercept_ == pytest.approx(theirs.params[0], abs=1e-4)
    rest = (M @ theirs.params[1:]).var()
    assert ours.share_ == pytest.approx(rest / (rest + offset.var()), abs=1e-4)


@pytest.mark.parametrize("length", [1e-3, 1.0, 50.0])
def test_scaled_heads_do_not_see_the_length_of_margins(length: float) -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 3)) * (0.1, 1.0, 5.0) + 1
    y = (X[:, 0] * 10 + X[:, 1] + rng.normal(size=200) > 11).astype(int)
    theirs = make_pipeline(
        StandardScaler(with_mean=False),
        LogisticRegression(C=0.3, solver="liblinear", tol=1e-4),
    ).fit(X, y)
    ours = LogisticHead(0.3, scaled=True).fit(X * length, y)
    np.testing.assert_allclose(
        ours.predict_proba(X * length), theirs.predict_proba(X), rtol=0, atol=1e-6
    )


def test_probabilities_are_those_of_scipy_and_do_not_overflow() -> None:
    M, y = margins()
    head = LogisticHead().fit(M, y)
    for scale in (1.0, 30.0, 1e6):
        logits = head.decision_function(M * scale)
        both = np.stack([expit(-logits), expit(logits)], axis=1)
        np.testing.assert_array_max_ulp(head.predict_proba(M * scale), both, maxulp=1)


def test_features_that_never_differ_add_nothing() -> None:
    y = np.array([0, 1, 1, 1])
    head = ResidualHead().fit(np.ones((4, 2)), y, np.array([0.5, -0.5, 0.5, -0.5]))
    assert (head.coef_.tolist(), head.share_, head.C) == ([0.0, 0.0], 0.0, 0.01)

"""The whole bottleneck: features to margins to the task."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.metrics import roc_auc_score
from support.fold_data import taught

from obygaze_models.models.bottleneck import PCBM, ResidualHead
from obygaze_models.models.common import FixTraining
from obygaze_models.models.concepts import CAV
from obygaze_models.models.heads import LogisticHead, TreeHead


def clips(n=300) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Three concepts on three axes, two of them count; something unnamed on the 4th counts too."""
    rng = np.random.default_rng(0)
    has = rng.random((n, 3)) < (0.4, 0.4, 0.2)
    unnamed = rng.random(n) < 0.4
    X = rng.normal(size=(n, 20))
    X[:, :3] += 2.5 * has
    X[:, 3] += 2.5 * unnamed
    sure = 2.0 * has[:, 0] + 1.5 * has[:, 1] + 2.0 * unnamed + rng.logistic(size=n) > 2
    return X, np.where(sure, "S", "HN"), has.astype(int), rng.integers(0, 9, n)


BANK = CAV(("Body", "Look", "Clothing"), C=0.05)


def test_the_head_learns_from_margins_that_saw_nothing() -> None:
    X, y, has, films = clips()
    ours = taught(PCBM(BANK, LogisticHead(), cross_fit=4), X, y, has, films)
    # Nine films in four parts: each film by vectors that were found without its part.
    M = np.empty((len(X), 3))
    for part in range(4):
        inside = films % 4 == part
        M[inside] = BANK.fit(X[~inside], has[~inside]).transform(X[inside])
    np.testing.assert_allclose(
        ours.head_.coef_, LogisticHead().fit(M, y).coef_, atol=1e-12
    )
    np.testing.assert_allclose(
        ours.margins(X), BANK.fit(X, has).transform(X), atol=1e-12
    )


def test_a_residual_finds_what_no_concept_names() -> None:
    X, y, has, _ = clips(1200)
    first = (X[:600], y[:600], has[:600])
    plain = taught(PCBM(BANK, LogisticHead(1.0)), *first)
    hybrid = PCBM(BANK, LogisticHead(1.0), residual=ResidualHead(0.05))
    taught(hybrid, *first)
    aucs = [
        roc_auc_score(y[600:], m.predict_proba(X[600:])[:, 1]) for m in (plain, hybrid)
    ]
    assert aucs[1] > aucs[0] + 0.05
    assert int(np.argmax(np.abs(hybrid.residual_.coef_))) == 3
    assert 0.1 < hybrid.residual_.share_ < 0.9
    base, parts = hybrid.contributions(X)
    assert parts.shape == (1200, 4)
    np.testing.assert_allclose(
        base + parts.sum(axis=1), logit(hybrid.predict_proba(X)[:, 1]), atol=1e-6
    )


def test_a_residual_needs_a_logit_to_add_to() -> None:
    X, y, has, _ = clips()
    with pytest.raises(FixTraining, match="got TreeHead"):
        taught(PCBM(BANK, TreeHead(), residual=ResidualHead()), X, y, has)

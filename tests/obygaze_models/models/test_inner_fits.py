"""Fits that choose among settings are made as the fit that they choose for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.fold_data import fold_data_of

from obygaze_models.models.fitting import fit, fit_best
from obygaze_models.models.fold_data import FoldData
from obygaze_models.models.joined import FeaturePart
from obygaze_models.models.mlp import MLPProbe
from obygaze_models.models.preprocessing import with_preprocessing
from obygaze_models.models.registry import build


def six_films() -> FoldData:
    """Rows of six films, of which the first feature is the class and the second a concept."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(np.int64)
    has_concept = (X[:, 1:2] > 0).astype(np.int64)
    return fold_data_of(X, y, ["Body"], has_concept, np.repeat([*"abcdef"], 20))


def test_without_validation_rows_fits_inside_run_through_all_epochs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows that a fit inside is scored on are not those that it stops on."""
    made: list[tuple[int, int, int]] = []

    def recorded(probe: MLPProbe, folds: Sequence[FoldData]) -> Any:
        fits = fit_folds(probe, folds)
        for data, fitted in zip(folds, fits, strict=True):
            n_rows = len(data.train), len(data.validation)
            made.append((*n_rows, fitted.n_epochs))
        return fits

    fit_folds = MLPProbe.fit_folds
    monkeypatch.setattr(MLPProbe, "fit_folds", recorded)
    options = [build("mlp", {"max_epochs": most}) for most in (6, 40)]
    ((number, _),) = fit_best(options, [six_films()])
    assert made == [(80, 0, 6), (80, 0, 40)] * 3 + [(120, 0, (6, 40)[number])]


def test_parts_are_scaled_once_for_all_tasks() -> None:
    """Vectors are found on the same rows, whatever the classes are of."""
    part = FeaturePart("a", 3)
    other = FeaturePart("b", 3)
    model = with_preprocessing(build("pcbm-lr"), parts=[part, other])
    data = six_films()
    first = fit(model, data)
    second = fit(model, replace(data, train=data.train[:90]))
    assert first.core.bank_ is second.core.bank_
    # Of a model without vectors the rows that train give the factors.
    probe = with_preprocessing(build("ridge"), parts=[part, other])
    fewer = replace(data, train=data.train[:90])
    factors = [fit(probe, each).facts["part_factors"] for each in (data, fewer)]
    assert factors[0] != factors[1]

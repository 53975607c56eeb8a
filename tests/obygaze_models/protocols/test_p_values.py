"""Which p-values and intervals a run has, and how often they reject where nothing differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cells import with_folds
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import by_film, differences, models

from obygaze_features.manifest.model import Manifest
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.files import Run
from obygaze_models.runner.text import result_text

ONE_CELL = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]', "grid.baselines=[]")


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return with_folds(films(6, 60, seed=2))


def protocol_of(*changes: str) -> Protocol:
    """One cell with a cheap model, in the splits of a shipped protocol."""
    return quick(
        "honest", 'grid.models=["ridge"]', *ONE_CELL, "report.concepts=false", *changes
    )


def compared(
    tmp_path: Path, manifest: Manifest, *changes: str
) -> tuple[Run, dict[str, Any]]:
    """Two stores of noise under one protocol, and the comparison of both."""
    stores = {
        name: store_of(
            tmp_path / name, manifest, planted(manifest, width=14, seed=seed)
        )
        for seed, name in enumerate("ab")
    }
    run = run_on(tmp_path, protocol_of(*changes), manifest, stores)
    (found,) = differences(run)
    return run, found


def test_folds_that_divide_films_have_what_folds_of_films_have(
    manifest: Manifest, tmp_path: Path
) -> None:
    """Their intervals are of the same experiment with other films on both sides.

    Each clip trained the models that tested the others, and so did other clips of its film.
    """
    changes = ("splits.kind=kfold", "splits.folds=5")
    run, found = compared(tmp_path, manifest, *changes)
    assert np.isnan(found["p"]) and found["low"] < found["value"] < found["high"]
    apart = np.subtract(*([*by_film(cell, "ap").values()] for cell in models(run)))
    apart = apart[np.isfinite(apart)]
    k = len(apart)
    signs = 1 - 2 * (np.arange(2**k)[:, None] >> np.arange(k) & 1)
    flipped = signs * apart
    t = np.abs(flipped.mean(axis=1)) / (flipped.std(axis=1, ddof=1) / k**0.5)
    factor = 1 + 2 * 5 / 4
    is_larger = t >= t[0] / factor**0.5 * (1 - 1e-9)
    assert found["p_all"] == pytest.approx(is_larger.mean())
    for cell in models(run):
        assert cell.basis == found["basis"] == "film-seen"
        assert cell.has_interval("ap") and cell.has_interval("auc")


def test_one_run_is_treated_as_several_runs_on_its_test_set(
    manifest: Manifest, tmp_path: Path
) -> None:
    """Several runs had intervals of other films, and one run on the same clips had none."""
    part = {clip.clip_id: str(n % 4) for n, clip in enumerate(manifest)}
    changes = ("splits.kind=fixed", "splits.column=part", 'splits.test=["0"]')
    run, found = compared(tmp_path, manifest.with_column("part", part), *changes)
    assert found["basis"] == "film-seen"
    assert 0 < found["p"] <= 1 and found["low"] < found["value"] < found["high"]
    (fold,) = run.folds_of(models(run)[0])
    n_fitted = fold["n_train"] + fold["n_validation"]
    cell = models(run)[0]
    assert cell.inflation == pytest.approx(1 + found["clips"] / n_fitted)
    assert "of the same experiment with other films on both sides" in result_text(run)
    whole, _ = compared(tmp_path / "films", manifest)
    assert "on both sides" not in result_text(whole)
    assert all(cell.has_interval("auc") for cell in models(whole))

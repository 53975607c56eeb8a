"""Which p and which interval a run has where films are on both sides of a split."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import differences, models

from obygaze_models.runner.text import result_text

ONE_CELL = (
    'grid.models=["ridge"]',
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    "grid.baselines=[]",
    "report.concepts=false",
)
ONE_SPLIT = ("splits.kind=fixed", "splits.column=part", 'splits.test=["0"]')
OTHER_FILMS = "hold for the same experiment on other films"


def test_one_run_is_treated_as_several_runs_on_its_test_set(tmp_path: Path) -> None:
    """Several runs had intervals of other films, and one run on the same clips had none."""
    manifest = films(6, 60, seed=2)
    part = {clip.clip_id: str(n % 4) for n, clip in enumerate(manifest)}
    manifest = manifest.with_column("part", part)
    stores = {}
    for seed, name in enumerate("ab"):
        X = planted(manifest, width=14, seed=seed)
        stores[name] = store_of(tmp_path / name, manifest, X)
    protocol = quick("honest", *ONE_CELL, *ONE_SPLIT)
    run = run_on(tmp_path, protocol, manifest, stores)
    (found,) = differences(run)
    assert found["basis"] == "film-seen"
    assert 0 < found["p"] <= 1 and found["low"] < found["value"] < found["high"]
    cell = models(run)[0]
    (fold,) = run.folds_of(cell)
    n_fitted = fold["n_train"] + fold["n_validation"]
    assert cell.inflation == pytest.approx(1 + found["clips"] / n_fitted)
    assert OTHER_FILMS in result_text(run)
    # Where each film is tested by models of the other films, it is not said.
    by_film = run_on(tmp_path, quick("honest", *ONE_CELL), manifest, stores)
    assert OTHER_FILMS not in result_text(by_film)
    assert all(cell.has_interval("auc") for cell in models(by_film))

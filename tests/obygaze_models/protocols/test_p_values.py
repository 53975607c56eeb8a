"""Which p-values and intervals a run has, and how often they reject where nothing differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cells import with_folds
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import by_film, differences, models, rows_of

from obygaze_features.manifest.model import Manifest
from obygaze_models.evaluation.bootstrap import (
    draw_weights,
    interval_of,
    not_narrower_than_clips,
)
from obygaze_models.evaluation.metrics import RANKING_METRICS, GroupCount, replicate
from obygaze_models.evaluation.predictions import Predictions
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


TABLE_2 = (
    "data.view=raw",
    "splits.kind=published",
    "splits.scheme=obygaze_models.protocols.paper_splits:code_splits",
    "balancing=rotated",
    "tasks.EN_S.folds=02_EN_S",
    "tasks.HN_S.folds=02_HN_S",
    "tasks.ENHN_S.folds=02_ENHN_S",
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


def test_runs_that_share_a_test_fold_allow_for_other_training_clips(
    manifest: Manifest, tmp_path: Path
) -> None:
    """Nadeau and Bengio: the variance of the test clips, times one plus n_test / n_train.

    Without it, intervals left out the truth in up to .09 of the worlds.
    """
    run, _ = compared(tmp_path, manifest, *TABLE_2)
    cell = models(run)[0]
    rows = [row for row in rows_of(run.predictions) if row["store"] == "a"]
    ids = sorted({row["clip_id"] for row in rows})
    films, codes = np.unique(
        [row["movie_id"] for row in rows[: len(ids)]], return_inverse=True
    )
    assert (len(ids), len(rows), len(films)) == (cell.n_clips, 8 * cell.n_clips, 6)
    folds = [rows[start : start + len(ids)] for start in range(0, len(rows), len(ids))]
    tests = [
        Predictions.of(*np.array([(r["y"], r["score"]) for r in own]).T)
        for own in folds
    ]
    (weights,) = draw_weights(np.arange(6), 60, (0, 0))
    draws = np.mean(
        [replicate(p, weights[:, codes], ["auc"])["auc"] for p in tests], axis=0
    )
    fold = run.folds_of(cell)[0]
    n_fitted = fold["n_train"] + fold["n_validation"]
    factor = 1 + len(ids) / n_fitted
    assert 1.1 < factor < 1.2
    # AUC has a few films less than six, because they are not of one size.
    sizes = np.bincount(codes)
    k = (6 * sizes.sum() ** 2 / (sizes**2).sum()) ** 0.5
    found = interval_of(
        draws,
        cell.value("auc"),
        GroupCount(6, k),
        within_unit=True,
        inflation=factor,
    )
    value = cell.value("auc")
    y = np.array([row["y"] for row in rows[: len(ids)]], dtype=np.bool_)
    expected = not_narrower_than_clips(found, value, RANKING_METRICS["auc"].n_behind(y))
    assert cell.ends("auc") == pytest.approx((expected.low, expected.high))


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

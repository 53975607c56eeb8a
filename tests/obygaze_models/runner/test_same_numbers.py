"""The two tables of a run against the records of the runner before it, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.data import real_data
from support.experiments import films, planted, quick, store_of

from obygaze_features.manifest.adapters.obygaze12 import read
from obygaze_features.manifest.model import Manifest
from obygaze_models.protocols.runner import run as runner_before
from obygaze_models.protocols.runner.execute import fit_every_clip as fit_before
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.testing import fit_every_clip, store_runs

TOLERANCE = 1e-9
# The baseline of neighbouring scenes gives many clips the same score up to the last bit, and last
# bits of a product depend on how many rows are multiplied: only test rows now.
TOLERANCE_OF_TIES = 0.01
COUNTS = ("prevalence", "share_positive")  # of all films: were no metrics before
# What is computed otherwise now, on purpose: recalibration is fitted inside the training clips, the
# bound of an AP above .9 counts positive clips, and p of all changes the signs of films.
Key = tuple[Any, ...]


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    folder = real_data("obygaze12")
    return read(folder / "ObyGaze12_thresh_02.csv", splits=folder).manifest


def number(value: Any) -> float:
    return math.nan if value is None else float(value)


def values_before(run: Any) -> dict[Key, float]:
    """Every number of a run of the runner before, by what it is."""
    found: dict[Key, float] = {}
    for cell in [*run.cells, *run.baselines]:
        key = (cell.train, cell.test, cell.model, cell.feature)
        for name, metric in cell.metrics.items():
            found[*key, name, "value"] = number(metric.value)
            found[*key, name, "sd"] = number(metric.sd)
            # At values above .9 another bound of AP holds.
            if name != "ap" or not number(metric.value) > 0.9:
                found[*key, name, "low"] = number(metric.ci[0])
                found[*key, name, "high"] = number(metric.ci[1])
        for name, metric in (cell.tuned or {}).items():
            found[*key, f"{name}_tuned", "value"] = number(metric.value)
        for film, of_film in cell.by_film.items():
            for name, value in of_film.metrics.items():
                found[*key, film, name, "value"] = number(value)
                found[*key, film, name, "sd"] = number((of_film.sd or {}).get(name))
            found[*key, film, "clips"] = of_film.n
        found[*key, "leaked"] = cell.leaked
        found[*key, "clips"] = cell.n_test
        found[*key, "films"] = cell.n_films
        found[*key, "fits"] = cell.n_runs
    for item in run.of("comparison"):
        sides = (item.first.model, item.first.feature)
        sides = (*sides, item.second.model, item.second.feature)
        key = (item.train, item.test, *sides, item.metric)
        found[*key, "value"] = number(item.difference)
        found[*key, "low"], found[*key, "high"] = map(number, item.ci)
        found[*key, "p"] = number(item.p_sign_flip)
    for item in run.of("contrast"):
        key = (item.first["train"], item.second["train"], item.test, item.model)
        key = (*key, item.metric, item.leaked > 0)
        found[*key, "value"] = number(item.difference)
        low, high = item.ci or (None, None)
        found[*key, "low"], found[*key, "high"] = number(low), number(high)
        found[*key, "p"] = number(item.p)
    for item in run.of("analysis"):
        key = (item.train, item.test, item.model, item.feature, item.film)
        for factor in item.factors:
            of_factor = (*key, factor.name)
            found[*of_factor, "log_odds"] = factor.log_odds
            for name in ("se", "low", "high", "p", "n"):
                found[*of_factor, name] = number(getattr(factor, name))
        found[*key, "successes"] = item.n_success
    for row in run.predictions:
        key = (row["train"], row["test"], row["model"], row["feature"])
        key = (*key, row["fold"], row["seed"], row["clip_id"])
        found[*key, "score"] = row["score"]
        found[*key, "y"] = row["y"]
        found[*key, "decision"] = row["decision"]
    return found


def values_now(run: Any) -> dict[Key, float]:
    """The same numbers from the two tables."""
    found: dict[Key, float] = {}
    for row in run.results:
        name = row["metric"]
        if name.endswith("_recalibrated") or (name in COUNTS and not row["film"]):
            continue
        key: Key = (row["train"], row["test"], row["model"], row["store"])
        if row["against_model"] and row["against_train"] == row["train"]:
            sides = (row["model"], row["store"])
            sides = (*sides, row["against_model"], row["against_store"])
            key = (row["train"], row["test"], *sides, name)
            names: tuple[str, ...] = ("value", "low", "high", "p")
        elif row["against_model"]:
            key = (row["train"], row["against_train"], row["test"], row["model"])
            key = (*key, name, row["leaked"] > 0)
            names = ("value", "low", "high", "p")
        elif row["film"]:
            found[*key, row["film"], "clips"] = row["clips"]
            key = (*key, row["film"], name)
            names = ("value", "sd")
        else:
            found[*key, "leaked"] = row["leaked"]
            found[*key, "clips"] = row["clips"]
            found[*key, "films"] = row["films"]
            found[*key, "fits"] = row["fits"]
            key = (*key, name)
            names = ("value", "sd", "low", "high")
            if name == "ap" and row["value"] > 0.9:
                names = ("value", "sd")
            if name.endswith("_tuned"):
                names = ("value",)
        for column in names:
            found[*key, column] = row[column]
    for row in run.table("success.csv"):
        key = (row["train"], row["test"], row["model"], row["store"], row["film"])
        found[*key, "successes"] = row["successes"]
        if row["factor"] == "intercept" or row["note"].startswith("left out"):
            continue
        for name in ("log_odds", "se", "low", "high", "p"):
            found[*key, row["factor"], name] = row[name]
        found[*key, row["factor"], "n"] = row["clips"]
    for row in run.predictions:
        key = (row["train"], row["test"], row["model"], row["store"])
        key = (*key, row["fold"], row["seed"], row["clip_id"])
        found[*key, "score"] = row["score"]
        found[*key, "y"] = row["y"]
        found[*key, "decision"] = row["decision"]
    return found


def both(
    folder: Path, manifest: Manifest, protocol: Protocol
) -> tuple[Mapping[Key, float], Mapping[Key, float]]:
    """The numbers of both runners on the same features."""
    stores = {"x": store_of(folder / "x", manifest, planted(manifest, strength=0.4))}
    if protocol.fit.choose_store:
        X = planted(manifest, strength=0.8, seed=5)
        without = [clip.clip_id for clip in manifest][::9]
        stores["y"] = store_of(folder / "y", manifest, X, without=without)
    old_inputs = runner_before.gather(protocol, manifest, "made-up", stores)
    old = runner_before.run_protocol(old_inputs, folder / "before", n_jobs=1)
    inputs = gather(protocol, manifest, "made-up", stores)
    new = run_protocol(inputs, folder / "now", n_jobs=1)
    return values_before(old), values_now(new)


def differences(
    before: Mapping[Key, float], now: Mapping[Key, float]
) -> list[tuple[Key, float | None, float | None]]:
    """The numbers that differ by more than rounding, and those that only one side has."""
    found = []
    for key in dict.fromkeys([*before, *now]):
        old = before.get(key)
        new = now.get(key)
        has_ties = "neighbour" in key and key[-1] != "score"
        tolerance = TOLERANCE_OF_TIES if has_ties else TOLERANCE
        is_equal = (
            old is not None
            and new is not None
            and bool(np.isclose(old, new, rtol=0, atol=tolerance, equal_nan=True))
        )
        if not is_equal:
            found.append((key, old, new))
    return found


FEW = ("report.concepts=false",)
HONEST = (
    *FEW,
    'grid.train=["EN_S", "HN_S"]',
    'grid.test=["ENHN_S"]',
    "report.contrast_seeds=2",
    "models.mlp.max_epochs=6",
)


@pytest.mark.check("two runs of 1,914 clips take minutes")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("honest", HONEST),
        ("paper-table2", ("models.mlp.max_epochs=6", "report.contrast_seeds=2")),
        ("paper-pcbm", FEW),
    ],
)
def test_every_number_is_that_of_the_runner_before(
    tmp_path: Path, manifest: Manifest, name: str, changes: tuple[str, ...]
) -> None:
    protocol = quick(name, *changes, replicates=50)
    before, now = both(tmp_path, manifest, protocol)
    assert len(before) > 5000
    assert differences(before, now) == []


SMALL = (*HONEST, "models.logistic.kind=logistic", "models.logistic.C=[0.1, 1.0]")
SMALL = (*SMALL, "models.svm.kind=svm", "models.pcbm-h.kind=pcbm-h")


@pytest.mark.check("two runs with eight models each take half a minute")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "splits",
    [
        (),
        ("data.scale=standard",),
        ('data.erase=["Body"]',),
        ("splits.kind=kfold", "splits.folds=3"),
        ("splits.kind=group_kfold", "splits.folds=3", "fit.seeds=2"),
        ("splits.kind=leave_one_group_out", "splits.validation=none"),
        ("splits.validation=each", 'splits.never=["tt0000001"]'),
        ("fit.choose_store=true", "report.error_analysis=true", "data.scale=unit"),
    ],
)
def test_every_number_of_few_clips_is_that_of_the_runner_before(
    tmp_path: Path, splits: tuple[str, ...]
) -> None:
    changes = (*SMALL, *splits, "models.mlp.max_epochs=3", "models.mlp.min_epochs=1")
    vectors = [f"models.{name}.tolerance=1.0" for name in ("pcbm-lr", "pcbm-dt")]
    protocol = quick("honest", *changes, *vectors, replicates=20)
    before, now = both(tmp_path, films(6, 30, seed=8, runs_on=0.3), protocol)
    assert len(before) > 2000
    assert differences(before, now) == []


@pytest.mark.parametrize("name", ["ridge", "mlp", "pcbm-lr", "pcbm-dt"])
def test_a_model_of_every_clip_is_that_of_the_runner_before(
    tmp_path: Path, name: str
) -> None:
    manifest = films(5, 30, seed=8, runs_on=0.3)
    X = planted(manifest, strength=0.4)
    stores = {"x": store_of(tmp_path / "x", manifest, X)}
    protocol = quick("honest", "models.mlp.max_epochs=4", "models.mlp.min_epochs=1")
    model = protocol.models[name]
    old_inputs = runner_before.gather(protocol, manifest, "made-up", stores)
    old_context = old_inputs.context(old_inputs.features[0])
    old_rows, old = fit_before(old_context, model, "EN_S")
    (run,) = store_runs(gather(protocol, manifest, "made-up", stores), 1)
    rows, fitted = fit_every_clip(run, model, "EN_S")
    assert np.array_equal(rows, old_rows)
    np.testing.assert_allclose(fitted.score(X[rows]), old.score(rows), atol=TOLERANCE)


def test_every_number_of_two_models_is_that_of_the_runner_before(
    tmp_path: Path,
) -> None:
    changes = (*HONEST, "models.mlp.max_epochs=2", "models.mlp.min_epochs=1")
    changes = (*changes, 'grid.models=["ridge", "mlp"]', "report.error_analysis=true")
    protocol = quick("honest", *changes, replicates=20)
    before, now = both(tmp_path, films(6, 30, seed=8, runs_on=0.3), protocol)
    assert len(before) > 2000
    assert differences(before, now) == []

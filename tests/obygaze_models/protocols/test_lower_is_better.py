"""Metrics of which a lower value is better: sorted, compared and warned of in that direction."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from support.experiments import cell_of, films, planted, quick, run_on, store_of
from support.runs import cell

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.metrics import goodness
from obygaze_models.protocols.results.cells import CellRecord, Metric
from obygaze_models.protocols.results.differences import Comparison, ModelOnStore
from obygaze_models.protocols.runner.remarks import remarks
from obygaze_models.report.lookup import rank_of


def record(model: str, kind: str = "cell", **values: float) -> CellRecord:
    metrics = {
        name: {"value": value, "ci": [None, None]} for name, value in values.items()
    }
    auc = {"value": 0.6, "ci": [None, None]}
    made = {**cell(model, kind=kind, feature=""), "auc": auc, **metrics}
    return CellRecord.from_json(made)


def warned(ours: float, theirs: float, metric: str) -> bool:
    cells, blind = (
        [record("ridge", **{metric: ours})],
        [record("neighbour", **{metric: theirs})],
    )
    found = remarks(cells, blind, metric, grouped=True)
    return any(remark.about == "blind baseline" for remark in found)


def test_a_worse_baseline_is_not_as_good() -> None:
    assert goodness("brier", 0.25) < goodness("brier", 0.1)
    assert goodness("auc", 0.25) > goodness("auc", 0.1)
    assert not warned(0.10, 0.25, "brier")
    assert warned(0.25, 0.10, "brier")
    assert warned(0.10, 0.11, "ece")  # within .02
    assert warned(0.5, 0.7, "ap") and not warned(0.7, 0.5, "ap")


def difference(
    model: str, low: float | None, high: float | None, p: float
) -> Comparison:
    names = [ModelOnStore(model=name, feature="") for name in (model, "neighbour")]
    first, second = names
    return Comparison(
        task="EN_S",
        train="EN_S",
        test="EN_S",
        metric="ap",
        first=first,
        second=second,
        difference=0.5,
        ci=[low, high],
        n_films=8,
        p_family=p,
    )


def test_the_warning_of_a_close_baseline_says_what_the_test_shows() -> None:
    """It said "is as good" of every model whose value was less than .02 above a baseline."""
    names = {"train": "EN_S", "test": "EN_S"}
    cells = []
    for model in ("better", "by-chance", "open", "worse", "untested"):
        cells.append(replace(record(model, ap=0.11), **names))
    noise = record("noise", ap=0.11)
    by_chance = Metric(value=0.51, ci=(0.49, 0.53))
    metrics = {**noise.metrics, "auc": by_chance}
    cells.append(replace(noise, metrics=metrics, **names))
    blind = [replace(record("neighbour", ap=0.095), **names)]
    comparisons = [
        difference("better", 0.01, 0.02, 0.04),
        difference("by-chance", -0.02, -0.01, 0.06),
        difference("open", -0.1, 0.12, 0.5),
        difference("noise", 0.01, 0.02, 0.04),
        difference("worse", -0.02, -0.01, 0.04),
        difference("untested", None, None, 0.5),
    ]
    found = remarks(cells, blind, "ap", grouped=True, comparisons=comparisons)
    (text,) = [remark.text for remark in found if remark.about == "blind baseline"]
    assert "as good" not in text
    assert text.startswith("In 6 of 6 cells the model has a worse ap than a baseline")
    assert "or one that is better by less than 0.02" in text
    assert "neighbour has ap 0.10, better 0.11 (EN_S -> EN_S)." in text
    assert (
        "the model is better, with an AUC above one half, in 1 of these cells, the baseline is "
        "better in 1, neither is shown to be better in 3, and 1 cannot be tested."
    ) in text
    found = remarks(cells, blind, "ap", grouped=True)
    (text,) = [remark.text for remark in found if remark.about == "blind baseline"]
    assert text.endswith("whether one of both is better was not tested.")


def test_the_best_model_is_the_one_with_the_lowest_error() -> None:
    good, bad = (record("ridge", brier=value) for value in (0.1, 0.3))
    assert rank_of(good, "brier") > rank_of(bad, "brier")
    assert rank_of(record("ridge", ap=0.0), "ap") == 0
    assert rank_of(record("ridge"), "brier") == -math.inf


def test_margins_have_no_such_metric_and_the_run_ends_well(tmp_path: Path) -> None:
    manifest = films(4, 20)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    changes = ("report.primary=brier", "models.logistic.kind=logistic")
    changes += ('grid.models=["ridge", "logistic"]', "report.concepts=false")
    run = run_on(
        tmp_path, quick("honest", *changes, replicates=20), manifest, {"s": store}
    )
    contrasts = {(r["model"], r["test"]): set() for r in run.of("contrast")}
    for r in run.of("contrast"):
        contrasts[r["model"], r["test"]].add(r["metric"])
    assert contrasts["ridge", "EN_S"] == {"ap"}
    assert contrasts["logistic", "EN_S"] == {"brier", "ap"}
    first = cell_of(run.cells, model="logistic", train="HN_S", test="EN_S")
    second = cell_of(run.cells, model="logistic", train="EN_S", test="EN_S")
    found = cell_of(run.of("contrast"), model="logistic", test="EN_S", metric="brier")
    assert found["difference"] == first["brier"]["value"] - second["brier"]["value"]


@pytest.mark.parametrize("count", ["prevalence", "share_positive"])
def test_a_count_of_clips_is_no_primary_metric(count: str) -> None:
    with pytest.raises(FixInput):
        quick("honest", f"report.primary={count}")

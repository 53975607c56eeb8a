"""Metrics of which a lower value is better: sorted, compared and warned of in that direction."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import contrasts, the_cell

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.metrics import goodness


def test_a_lower_error_is_better() -> None:
    assert goodness("brier", 0.25) < goodness("brier", 0.1)
    assert goodness("auc", 0.25) > goodness("auc", 0.1)


def test_margins_have_no_such_metric_and_the_run_ends_well(tmp_path: Path) -> None:
    manifest = films(4, 20)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    changes = ("report.primary=brier", "models.logistic.kind=logistic")
    changes += ('grid.models=["ridge", "logistic"]', "report.concepts=false")
    run = run_on(
        tmp_path, quick("honest", *changes, replicates=20), manifest, {"s": store}
    )
    metrics: dict[tuple[str, str], set[str]] = {}
    for row in contrasts(run):
        metrics.setdefault((row["model"], row["test"]), set()).add(row["metric"])
    assert metrics["ridge", "EN_S"] == {"ap"}
    assert metrics["logistic", "EN_S"] == {"brier", "ap"}
    first = the_cell(run, model="logistic", train="HN_S", test="EN_S")
    second = the_cell(run, model="logistic", train="EN_S", test="EN_S")
    (found,) = contrasts(run, model="logistic", test="EN_S", metric="brier")
    assert found["value"] == first.value("brier") - second.value("brier")


@pytest.mark.parametrize("count", ["prevalence", "share_positive"])
def test_a_count_of_clips_is_no_primary_metric(count: str) -> None:
    with pytest.raises(FixInput):
        quick("honest", f"report.primary={count}")

"""Metrics of plugins, beside those of obygaze."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import numpy as np
import pytest

from obygaze_features.core import plugins
from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_features.core.plugins import Plugin
from obygaze_models.evaluation import metrics
from obygaze_models.evaluation.metrics import Confusion, divide, evaluate, replicate
from obygaze_models.evaluation.predictions import FloatArray, Predictions
from obygaze_models.protocols.reading import load_protocol


def specificity(counts: Confusion) -> FloatArray:
    return divide(counts.tn, counts.tn + counts.fp, 0.0)


def one_number(counts: Confusion) -> float:
    return float(counts.tp.sum())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins: a good one, one that returns one number, and one that is called as ours."""
    named = []
    for name, function in (
        ("specificity", "specificity"),
        ("lonely", "one_number"),
        ("ap", "specificity"),
    ):
        point = EntryPoint(name, f"{__name__}:{function}", "obygaze.metrics")
        named.append(Plugin(point, name, "mine 1.0", f"{name} (mine 1.0)"))
    monkeypatch.setattr(metrics, "plugins", lambda group: named)


PREDICTIONS = Predictions.of([0, 0, 0, 1, 1], [0.1, 0.2, 0.9, 0.8, 0.3])


@pytest.mark.filterwarnings(f"ignore::{ObygazeWarning.__module__}.ObygazeWarning")
@pytest.mark.usefixtures("installed")
class TestInstalled:
    def test_its_value_is_that_of_the_counts(self) -> None:
        values = evaluate(PREDICTIONS, ["specificity", "recall", "ap"])
        assert values["specificity"] == pytest.approx(2 / 3)
        assert values["recall"] == pytest.approx(1 / 2)
        drawn = replicate(PREDICTIONS, np.array([[1, 1, 2, 1, 1]]), ["specificity"])
        assert drawn["specificity"].tolist() == [0.5]

    def test_a_metric_that_does_not_work_is_none(self) -> None:
        assert metrics.installed_metric_names() == ["specificity"]
        with pytest.raises(FixInput, match="unknown metric 'lonely'"):
            evaluate(PREDICTIONS, ["lonely"])

    def test_a_protocol_may_name_it(self) -> None:
        changes = ['report.metrics=["specificity"]']
        assert load_protocol("honest", changes).further_metrics == ("specificity",)
        primary = load_protocol("honest", ["report.primary=specificity"])
        assert primary.further_metrics == ("specificity",)
        assert load_protocol("honest").further_metrics == ()


def test_without_plugins_no_other_metric_is_known() -> None:
    with pytest.raises(FixInput) as caught:
        load_protocol("honest", ['report.metrics=["specificity"]'])
    assert "of a plugin, and none is installed" in caught.value.details[0]
    with pytest.raises(FixInput, match=r"unknown metric 'aps' \(did you mean 'ap'\?\)"):
        evaluate(PREDICTIONS, ["aps"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ap_low", "columns of intervals"),
        ("ap", "obygaze has a metric 'ap' of its own"),
    ],
)
def test_such_a_name_is_refused_with_its_package(
    name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint(name, f"{__name__}:specificity", "obygaze.metrics")
    plugin = Plugin(point, name, "mine 1.0", f"{name} (mine 1.0)")
    with pytest.raises(FixInput) as refused:
        metrics.load_metric(plugin)
    assert reason in refused.value.message
    assert refused.value.where == f"{name} (mine 1.0)"
    monkeypatch.setattr(metrics, "plugins", lambda group: [plugin])
    plugins.warn_once.cache_clear()
    with pytest.warns(ObygazeWarning, match=r"mine 1\.0"):
        assert metrics.installed_metric_names() == []

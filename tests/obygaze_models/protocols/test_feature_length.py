"""What is found must not depend on the unit of features: a thousandth as long tells as much."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import the_cell

MODELS = ("ridge", "pcbm-lr", "pcbm-dt")


@pytest.mark.check("two runs")
def test_the_honest_cells_are_the_same_on_short_and_on_long_features(
    tmp_path: Path,
) -> None:
    manifest = films(5, 30)
    X = planted(manifest, strength=1.5)
    protocol = quick(
        *("honest", 'grid.train=["HN_S"]', 'grid.test=["ENHN_S"]', "grid.baselines=[]"),
        f"grid.models={list(MODELS)}",
        *("report.concepts=false", "report.compare=false"),
        replicates=20,
    )
    stores = {
        name: store_of(tmp_path / name, manifest, X * length)
        for name, length in (("short", 1e-3), ("plain", 1.0), ("long", 1e3))
    }
    run = run_on(tmp_path, protocol, manifest, stores)
    for model in MODELS:
        plain = the_cell(run, model=model, store="plain")
        assert plain.value("auc") > 0.8
        for name in ("short", "long"):
            found = the_cell(run, model=model, store=name)
            for metric in ("auc", "ap", "f1_binary", "f1_weighted"):
                ours = found.value(metric)
                theirs = plain.value(metric)
                assert ours == pytest.approx(theirs, abs=0.02), (model, name, metric)

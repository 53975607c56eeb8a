"""A cell is the same bytes alone and in its grid, whatever stands beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cells import cells_that_differ
from support.experiments import (
    films,
    planted,
    quick,
    run_on,
    store_of,
)
from support.seeds import amount
from support.tables import models

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Manifest
from obygaze_models.models.fold_data import FoldData
from obygaze_models.models.registry import KINDS
from obygaze_models.protocols.schema import Protocol

KFOLD = ("splits.kind=kfold", "splits.folds=4")
SHORT = ("models.mlp.max_epochs=3", "models.mlp.min_epochs=1", "report.compare=false")
N_BASELINES = 6
FEW = ("mlp", "ridge", "choosy-pcbm")
ONE_VECTOR = [
    name for name, kind in KINDS.items() if kind.reads == "clip" and kind.is_trained
]
ALL = (*ONE_VECTOR, "choosy", "choosy-pcbm")


def every_kind(*changes: str, names: Sequence[str] = ALL) -> Protocol:
    """The honest tasks with a model of every kind, and two that choose a setting."""
    banks = [kind for kind in ONE_VECTOR if KINDS[kind].head] + ["choosy-pcbm"]
    listed = ", ".join(f'"{name}"' for name in names)
    return quick(
        "honest",
        *(f"models.{kind}.kind={kind}" for kind in ONE_VECTOR),
        "models.choosy.kind=logistic",
        "models.choosy.C.grid=[0.01, 1.0]",
        "models.choosy-pcbm.kind=pcbm-lr",
        "models.choosy-pcbm.C.grid=[0.01, 1.0]",
        *(f"models.{name}.tolerance=0.01" for name in banks),
        *(f"models.{name}.cross_fit=2" for name in banks),
        f"grid.models=[{listed}]",
        'grid.train=["EN_S", "HN_S"]',
        'grid.test=["EN_S", "ENHN_S"]',
        "report.concepts=false",
        *SHORT,
        *changes,
        replicates=2,
    )


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return films(4, 24, seed=2)


@pytest.mark.check("runs every cell alone and in its grid")
def test_every_kind_of_model(manifest: Manifest, tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", manifest, planted(manifest, width=14))
    names = amount(FEW, ALL)
    protocol = every_kind(names=names)
    n_cells, differ = cells_that_differ(tmp_path, protocol, manifest, {"x": store})
    assert n_cells == 4 * (len(names) + N_BASELINES)
    assert not differ


def test_vectors_that_were_found_on_test_clips_are_counted(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_row = property(lambda data: np.arange(len(data.y)))
    monkeypatch.setattr(FoldData, "concept_rows", every_row)
    store = store_of(tmp_path / "s", manifest, planted(manifest, width=14))
    protocol = every_kind(*KFOLD, names=("ridge", "pcbm-lr"))
    # Four folds, two tests, two models.
    with pytest.raises(FixInput, match="8 of 16") as error:
        run_on(
            tmp_path,
            replace(protocol, grid=replace(protocol.grid, train=("EN_S",))),
            manifest,
            {"x": store},
        )
    assert "used to find concept vectors" in error.value.details[0]
    run = run_on(tmp_path, replace(protocol, leakage="warn"), manifest, {"x": store})
    for cell in models(run):
        assert cell.leaked == (cell.n_clips if cell.model == "pcbm-lr" else 0)

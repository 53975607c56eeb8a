"""Runs record what made their clips, and do not add to clips of another kind unless allowed."""

from __future__ import annotations

import socket
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from support.extraction import a_plan, array_bytes, film_folder

import obygaze_features
from obygaze_features.core.errors import Mismatch
from obygaze_features.core.machine import cpu_name
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.run import Resources, extract_plan, seal_complete
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.store import open_store


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ExtractPlan:
    folder = tmp_path_factory.mktemp("films")
    return a_plan(film_folder(folder, 8), folder, "descriptors")


@pytest.fixture
def store(plan: ExtractPlan) -> Path:
    return Path(plan.targets[0].store)


def run(plan: ExtractPlan, rows: range, *, mixed: bool = False) -> None:
    seal_complete(extract_plan(plan, Resources(), StopFlag(), rows=rows, mixed=mixed))


def test_a_worker_of_another_version_is_refused_unless_allowed(
    plan: ExtractPlan, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(plan, range(4))
    (maker,) = open_store(store).commits.made_by().clips
    assert maker.program == f"obygaze {obygaze_features.__version__}"
    assert (maker.device, maker.device_name) == ("cpu", cpu_name())
    assert (maker.precision, maker.host) == ("float64", socket.gethostname())
    versions = dict(maker.versions)
    assert (versions["av"], versions["torch"]) == (av.__version__, torch.__version__)
    assert versions["numpy"] == np.__version__
    assert "transformers" in versions
    before = array_bytes(store)
    monkeypatch.setattr(obygaze_features, "__version__", "9.9.9")
    with pytest.raises(Mismatch, match=r"obygaze 9\.9\.9 on cpu, float64: obygaze 0\."):
        run(plan, range(4, 8))
    assert array_bytes(store) == before
    run(plan, range(4, 8), mixed=True)
    found = open_store(store)
    assert found.sealed
    assert [kind.program for kind in found.commits.made_by().kinds] == [
        maker.program,
        "obygaze 9.9.9",
    ]
    # Nothing is left to do, so nothing can become a mixture.
    monkeypatch.setattr(obygaze_features, "__version__", "9.9.10")
    run(plan, range(8))

"""A run finds its manifest and its stores from every current folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.experiments import ONE_PAIR, films, planted, store_of, write_workspace

from obygaze_models.report.page import chapter_of
from obygaze_models.runner.experiments import run
from obygaze_models.runner.labels import current_labels
from obygaze_models.runner.text import read_run

QUICK = (*ONE_PAIR, 'grid.models=["ridge"]', "report.replicates=2")


def found(place: Path) -> tuple[int, list[str]]:
    """How many clips the report of a run finds, and what it says of changed stores."""
    run = read_run(place)
    manifest = current_labels(run).manifest
    assert manifest is not None
    return len(manifest), [*chapter_of(run).changed]


def test_the_clips_of_a_run_are_found_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = films(3, 8)
    X = planted(manifest)
    write_workspace(tmp_path / "demo", manifest, X)
    monkeypatch.chdir(tmp_path)
    run(
        "honest",
        manifest="made-up",
        stores="sig",
        changes=QUICK,
        output="first",
        workspace="demo",
    )
    about = json.loads(Path("demo/runs/first/run.json").read_bytes())
    assert about["manifest"]["path"] == "manifests/made-up.toml"
    assert about["stores"]["sig"]["location"] == "stores/sig"
    assert found(Path("demo/runs/first")) == (24, [])
    monkeypatch.chdir("demo/runs")
    assert found(Path("first")) == (24, [])
    # The workspace is moved, and its store made again of other features.
    shutil.move(tmp_path / "demo", tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    shutil.rmtree("moved/stores/sig")
    store_of(Path("moved/stores/sig"), manifest, 2 * X)
    n_clips, (changed,) = found(Path("moved/runs/first"))
    assert n_clips == 24 and changed.startswith("The store sig was changed")

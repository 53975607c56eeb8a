"""Whether the labels of a run are those of its manifest today."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from support.experiments import (
    films,
    quick,
    run_on,
    without_models,
)

from obygaze_features.manifest.model import Manifest
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import labels_since


@pytest.fixture(scope="module")
def before() -> Manifest:
    made = films(3, 12)
    values = {clip.clip_id: str(i % 2) for i, clip in enumerate(made)}
    return made.with_column("bright", values)


def protocol_of_levels_and_a_column() -> Protocol:
    protocol = quick("honest", 'grid.train=["EN_S"]', 'grid.test=["EN_S"]')
    task = replace(
        protocol.tasks["EN_S"], classes={}, column="bright", values={"0": 0, "1": 1}
    )
    tasks = {**protocol.tasks, "bright": task}
    grid = replace(protocol.grid, train=("EN_S", "bright"), test=("EN_S", "bright"))
    return without_models(replace(protocol, tasks=tasks, grid=grid), "prevalence")


@pytest.fixture(scope="module")
def run(before: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("run")
    return run_on(path, protocol_of_levels_and_a_column(), before, {})


def test_a_manifest_that_is_gone_or_of_another_view_says_so(
    run: Run, before: Manifest, tmp_path: Path
) -> None:
    published = structs.replace(before.header, view="as_published")
    named = {**run.about["manifest"], "path": str(tmp_path / "gone.toml")}
    for now in (
        labels_since(replace(run, about={**run.about, "manifest": named})),
        labels_since(run, replace(before, header=published)),
    ):
        assert now.manifest is None and "moved or changed" in now.changed

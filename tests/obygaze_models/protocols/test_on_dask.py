"""A protocol inside `joblib.parallel_config(backend="dask")`: fits are tasks of that cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import pytest
from support.experiments import films, planted, quick, store_of

from obygaze_models.protocols.runner.processes import map_parts, workers_for
from obygaze_models.protocols.runner.run import gather, run_protocol

distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def pids_of(n_parts: int) -> list[int]:
    return list(map_parts(lambda part: os.getpid(), n_parts))


def test_parts_are_tasks_of_the_cluster(client: Any) -> None:
    theirs = set(client.run(os.getpid).values())
    with joblib.parallel_config(backend="dask"):
        assert workers_for(0) == 2
        assert set(pids_of(6)) <= theirs
    assert not set(pids_of(2)) & theirs


def test_the_bytes_are_those_of_one_process(client: Any, tmp_path: Path) -> None:
    manifest = films(4, 12)
    protocol = quick("honest", 'grid.models=["pcbm-lr", "mlp"]')
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    inputs = gather(protocol, manifest, "", {"x": store})
    run_protocol(inputs, tmp_path / "here", n_jobs=1)
    with joblib.parallel_config(backend="dask"):
        run_protocol(inputs, tmp_path / "there")
    for file in ("results.json", "predictions.csv"):
        assert (tmp_path / "here" / file).read_bytes() == (tmp_path / "there" / file).read_bytes()

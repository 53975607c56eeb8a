"""Dask clusters: which addresses are accepted, and the environment of a worker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.servers import free_port

from obygaze_features.core.errors import FixInput, FixUsage, InstallExtra, NotFound
from obygaze_features.extraction import dask_cluster
from obygaze_features.extraction.dask_cluster import join_cluster, start_cluster

pytestmark = pytest.mark.xdist_group("dask")


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("tcp://10.1.2.3:8786", True),
        ("tcp://cluster.example.org:8786", True),
        ("ws://10.1.2.3:8786", True),
        ("tcp://0.0.0.0:8786", True),
        ("tcp://127.0.0.1:8786", False),
        ("tcp://[::1]:8786", False),
        ("tcp://localhost:8786", False),
        ("tls://10.1.2.3:8786", False),
    ],
)
def test_only_encrypted_clusters_are_joined_over_a_network(address: str, refused: bool) -> None:
    if refused:
        with pytest.raises(FixUsage, match="is not encrypted"):
            join_cluster(address)
        join_cluster(address, insecure=True)
    else:
        join_cluster(address)


def test_the_address_of_a_scheduler_file_is_checked_too(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text('{"address": "tcp://10.1.2.3:8786"}', encoding="utf-8")
    with pytest.raises(FixUsage, match="is not encrypted"):
        join_cluster(str(file))
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(FixInput, match="not a scheduler file of Dask"):
        join_cluster(str(file))
    with pytest.raises(NotFound, match="no scheduler file"):
        join_cluster(str(tmp_path / "nothing"))


def test_no_scheduler_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 1)
    with (
        pytest.raises(NotFound, match="no Dask scheduler answers"),
        join_cluster(f"tcp://127.0.0.1:{free_port()}")(),
    ):
        pass


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InstallExtra) as caught:
        start_cluster(["cpu"])
    assert "obygaze[cluster]" in str(caught.value)


def test_the_gpu_of_a_worker_is_one_of_the_visible_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    environment_of = dask_cluster._environment
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert environment_of("1") == {"CUDA_VISIBLE_DEVICES": "1"}
    assert environment_of("cpu") == {}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-7f")
    assert environment_of("0") == {"CUDA_VISIBLE_DEVICES": "4"}
    assert environment_of("1") == {"CUDA_VISIBLE_DEVICES": "GPU-7f"}
    with pytest.raises(FixUsage, match="no GPU 2"):
        environment_of("2")


def test_a_worker_does_not_trim_its_memory() -> None:
    with start_cluster(["cpu"])() as client:
        (theirs,) = client.run(lambda: dict(os.environ)).values()
    assert not [name for name in theirs if name.startswith("MALLOC_") and name not in os.environ]
    assert theirs["OMP_NUM_THREADS"] == "1"

"""Dask clusters: which addresses are accepted, and what a worker has."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.servers import free_port

from obygaze_features.core.errors import FixInput, FixUsage, InstallExtra, NotFound
from obygaze_features.extraction import dask_cluster
from obygaze_features.extraction.dask_cluster import join_cluster, start_cluster
from obygaze_features.extraction.dask_engine import UnitMaker
from obygaze_features.extraction.run import Resources

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
def test_only_encrypted_clusters_are_joined_over_a_network(
    address: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    client = SimpleNamespace(close=lambda timeout: None)
    monkeypatch.setattr(distributed, "Client", lambda address, **more: client)
    if refused:
        with pytest.raises(FixUsage, match="is not encrypted"), join_cluster(address):
            pass
    with join_cluster(address, insecure=refused) as joined:
        assert joined is client


def test_the_address_of_a_scheduler_file_is_checked_too(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text('{"address": "tcp://10.1.2.3:8786"}', encoding="utf-8")
    with pytest.raises(FixUsage, match="is not encrypted"), join_cluster(str(file)):
        pass
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(FixInput, match="not a scheduler file of Dask"), join_cluster(str(file)):
        pass
    with pytest.raises(NotFound, match="no scheduler file"), join_cluster(str(tmp_path / "x")):
        pass


def test_no_scheduler_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 1)
    with (
        pytest.raises(NotFound, match="no Dask scheduler answers"),
        join_cluster(f"tcp://127.0.0.1:{free_port()}"),
    ):
        pass


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InstallExtra) as caught, start_cluster(1):
        pass
    assert "obygaze[cluster]" in str(caught.value)


def test_each_worker_has_its_own_device() -> None:
    maker = UnitMaker("x", b"", Resources(workers=4).shared_by(["cuda:0", "cuda:2"]), False)
    found = []
    # Workers of a cluster of our own are numbered, the others have the name of their address.
    for name in (0, 1, "tls://10.0.0.1:1"):
        maker.setup(SimpleNamespace(name=name))
        found.append((maker.resources.device, maker.resources.workers))
    assert found == [("cuda:0", 2), ("cuda:2", 2), ("cuda:0", 2)]


def test_a_worker_does_not_trim_its_memory() -> None:
    with start_cluster(1) as client:
        (theirs,) = client.run(lambda: dict(os.environ)).values()
    assert not [name for name in theirs if name.startswith("MALLOC_") and name not in os.environ]
    assert theirs["OMP_NUM_THREADS"] == "1"

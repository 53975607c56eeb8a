"""Pulls that break off: they go on, fetch nothing twice, and are never seen half."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.store_servers import WebServer, web_server
from support.stores import copy_of_sealed, sealed_store, tree

from obygaze_features.core.console import Progress
from obygaze_features.core.errors import Stopped
from obygaze_features.store import ArraySpec, open_store
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote import fetch as fetch_module
from obygaze_features.store.remote.fetch import pull


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "PAUSE_S", 0.0)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "from" / "s")


def break_off(server: WebServer, after: int) -> None:
    """Send so many bytes of file contents in all, then nothing."""
    left = [after]
    lock = threading.Lock()

    def fault(path: str, body: bytes) -> bytes:
        if not path.startswith("/data.zarr"):
            return body
        with lock:
            sent = body[: left[0]]
            left[0] -= len(sent)
        return sent

    server.fault = fault


@pytest.mark.parametrize("after", [0, 1, 90, 500, 3000])
def test_an_interrupted_pull_goes_on(tmp_path: Path, sealed: Path, after: int) -> None:
    with web_server(sealed) as server:
        break_off(server, after)
        with pytest.raises(Stopped, match="connection failed"):
            pull(server.url, tmp_path / "got")
        assert not (tmp_path / "got").exists()
        server.fault = None
        pull(server.url, tmp_path / "got")
    assert tree(tmp_path / "got") == tree(sealed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["from", "got"]


def test_half_a_large_file_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_module, "PIECE_BYTES", 50_000)
    monkeypatch.setattr(fetch_module, "MIN_PIECE_BYTES", 50_000)
    sealed_store(
        tmp_path / "s", 8, 8, arrays=[ArraySpec("frames", (100, 512), dtype="float16")]
    )
    with web_server(tmp_path / "s") as server:
        break_off(server, 600_000)
        with pytest.raises(Stopped):
            pull(server.url, tmp_path / "got")
        # Another file may have broken off too: several are fetched at a time.
        parts = tmp_path.glob(".got~*.pull/parts/*")
        arrived = max(part.stat().st_size for part in parts)
        assert arrived >= 400_000
        server.fault, server.n_bytes = None, 0
        pull(server.url, tmp_path / "got")
        assert server.n_bytes < 8 * 100 * 512 * 2 - arrived + 50_000
    assert tree(tmp_path / "got") == tree(tmp_path / "s")


def test_a_server_that_sends_files_whole_only(
    tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_module, "PIECE_BYTES", 60)
    with web_server(sealed) as server:
        server.ranges = False
        pull(server.url, tmp_path / "got")
        np.testing.assert_array_equal(
            open_store(server.url).matrix("frames").values,
            open_store(sealed).matrix("frames").values,
        )
    assert tree(tmp_path / "got") == tree(sealed)


def test_a_link_that_breaks_off_now_and_then_is_borne(
    tmp_path: Path, sealed: Path
) -> None:
    calls: Counter[str] = Counter()

    def fault(path: str, body: bytes) -> bytes:
        calls[path] += 1
        return (
            body[: len(body) // 2] if calls[path] < 3 and "data.zarr" in path else body
        )

    with web_server(sealed) as server:
        server.fault = fault
        pull(server.url, tmp_path / "got")
    assert tree(tmp_path / "got") == tree(sealed)


def test_ctrl_c_says_that_what_has_arrived_is_kept(
    tmp_path: Path, sealed: Path
) -> None:
    class Interrupting(Progress):
        n_bytes = 0

        def advance(self, amount: int = 1) -> None:
            self.n_bytes += amount
            if self.n_bytes > 3000:
                raise KeyboardInterrupt

    with web_server(sealed) as server:
        with pytest.raises(KeyboardInterrupt) as caught:
            pull(server.url, tmp_path / "got", progress=Interrupting())
        assert caught.value.__notes__ == [
            "what has arrived is kept",
            "the same command again; it resumes the transfer",
        ]
        arrived = [path for path in tmp_path.glob(".got~*.pull/**/*") if path.is_file()]
        assert arrived
        pull(server.url, tmp_path / "got")
    assert tree(tmp_path / "got") == tree(sealed)


@pytest.mark.check("kills three processes")
def test_a_killed_pull_goes_on_and_is_never_seen_half(
    tmp_path: Path, sealed: Path
) -> None:
    with web_server(sealed, latency_s=0.05) as server:
        code = f"from obygaze_features.store.remote.fetch import pull; pull({server.url!r}, 'got')"
        for delay in (0.15, 0.4, 0.7):
            before = len(server.requests)
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": "."},
            )
            while len(server.requests) == before and process.poll() is None:
                time.sleep(0.01)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if (tmp_path / "got").exists():
                verify(tmp_path / "got", hashes=True).require_whole()
        pull(server.url, tmp_path / "got")
    assert tree(tmp_path / "got") == tree(sealed)


def test_a_wrong_byte_of_an_earlier_try_is_fetched_again(
    tmp_path: Path, sealed: Path
) -> None:
    with web_server(sealed) as server:
        break_off(server, 3000)
        with pytest.raises(Stopped):
            pull(server.url, tmp_path / "got")
        arrived = [path for path in tmp_path.glob(".got~*.pull/**/*") if path.is_file()]
        assert arrived
        for path in arrived:
            path.write_bytes(b"?" * path.stat().st_size)
        server.fault = None
        pull(server.url, tmp_path / "got")
    assert tree(tmp_path / "got") == tree(sealed)

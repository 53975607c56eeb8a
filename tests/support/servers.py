"""Real servers for tests: found or skipped with a reason, and in CI never skipped."""

import http.server
import os
import shutil
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

# Debian keeps servers where a person's PATH does not look.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def need_program(name: str) -> str:
    """The path of a program that a test cannot do without."""
    found = shutil.which(name, path=SEARCH_PATH)
    if found is None:
        absent(f"{name} is not installed (scripts/install-debian-packages brings it)")
    return found


def absent(reason: str) -> NoReturn:
    """Skip this test for want of a server; in CI, where all are installed, fail it."""
    if os.environ.get("CI"):
        pytest.fail(f"must not be skipped in CI: {reason}", pytrace=False)
    pytest.skip(reason)


def free_port() -> int:
    """A port on the loopback that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(ready: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    """Wait for something that is about to happen, and say what where it does not."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(0.02)


def wait_for_port(port: int, timeout_s: float = 20.0) -> None:
    """Wait until a server on the loopback takes connections."""

    def listening() -> bool:
        with socket.socket() as probe:
            probe.settimeout(0.5)
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listening, f"a server on port {port}", timeout_s)


class Handler(http.server.BaseHTTPRequestHandler):
    """Keeps its connection, and says nothing of what it answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def send(
        self, body: bytes, headers: Mapping[str, str] | None = None, status: int = 200
    ) -> None:
        """Answer; HEAD has no body."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Threads(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def in_a_thread(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def served(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    with _Threads(("127.0.0.1", 0), handler) as server, in_a_thread(server):
        yield f"http://127.0.0.1:{server.server_port}"

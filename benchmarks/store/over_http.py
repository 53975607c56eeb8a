"""The cost of reading a store over http: requests, bytes and time, at a known latency."""

from __future__ import annotations

import functools
import http.server
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote import open_files
from obygaze_features.store.remote.files import CountedFiles

LATENCY_S = 0.03
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


@dataclass(frozen=True)
class LinkCost:
    """The cost of reading one part of a store."""

    part: str
    n_requests: int
    n_bytes: int
    seconds: float


def measure_link(store: Path, latency_s: float = LATENCY_S) -> list[LinkCost]:
    """Read parts of a store over http; the store is opened again for each of them."""
    local = open_store(store)
    middle = local.n_clips // 2
    clip = str(local.clip_ids[middle])
    film = str(local.movie_ids[middle])
    ways: dict[str, Callable[[Store], object]] = {
        "one clip, pooled": lambda opened: opened.matrix("pooled", clips=[clip]),
        "one film, pooled": lambda opened: opened.matrix("pooled", films=[film]),
        "all clips, pooled": lambda opened: opened.matrix("pooled"),
        "one film, frames": lambda opened: opened.matrix("frames", films=[film]),
    }
    costs = []
    with serve(store, latency_s) as url:
        for way, read in ways.items():
            files = CountedFiles(open_files(url))
            started = time.perf_counter()
            read(open_store(files))
            seconds = time.perf_counter() - started
            costs.append(LinkCost(way, files.n_requests, files.n_bytes, seconds))
    return costs


@contextmanager
def serve(root: Path, latency_s: float) -> Iterator[str]:
    """Serve a folder on the loopback, and wait before each answer."""
    handler = functools.partial(_Handler, root=root, latency_s=latency_s)
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(
            target=server.serve_forever, args=(0.05,), daemon=True
        )
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, *args: Any, root: Path, latency_s: float) -> None:
        self.root = root
        self.latency_s = latency_s
        super().__init__(*args)

    def do_GET(self) -> None:
        """Serve a file, or the range of it that was requested."""
        time.sleep(self.latency_s)
        path = self.root / self.path.lstrip("/")
        data = path.read_bytes() if ".." not in path.parts and path.is_file() else None
        requested = _RANGE.fullmatch(self.headers.get("Range", ""))
        status = 206 if requested else 200
        if data is None:
            status = 404
        self.send_response(status)
        body = data or b""
        if requested and data is not None:
            first = int(requested[1])
            last = min(int(requested[2]), len(data) - 1)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            body = data[first : last + 1]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

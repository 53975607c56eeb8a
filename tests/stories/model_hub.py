"""A web server on this machine that serves one checkpoint as the Hugging Face hub does."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

COMMIT = "c0ffee" * 6 + "c0ff"


def tree_entry(name: str, data: bytes) -> dict[str, object]:
    """Return what the hub lists of a large file."""
    sha256 = hashlib.sha256(data).hexdigest()
    pointer = {"oid": sha256, "size": len(data), "pointerSize": 130}
    return {"type": "file", "path": name, "size": len(data), "oid": "0", "lfs": pointer}


@contextlib.contextmanager
def model_hub(repository: str, folder: Path) -> Iterator[str]:
    """Serve the files of a folder as the repository, and give the address of the hub."""
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            path = urlparse(self.path).path
            resolved = f"/{repository}/resolve/"
            if path.startswith(f"/api/models/{repository}/tree/"):
                entries = [tree_entry(name, data) for name, data in files.items()]
                self.send(json.dumps(entries).encode(), {})
            elif path.startswith(f"/api/models/{repository}"):
                siblings = [{"rfilename": name} for name in files]
                about = {"id": repository, "sha": COMMIT, "siblings": siblings}
                self.send(json.dumps(about).encode(), {})
            elif path.startswith(resolved) and Path(path).name in files:
                data = files[Path(path).name]
                etag = hashlib.sha256(data).hexdigest()
                self.send(data, {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'})
            else:
                self.send(b"", {"X-Error-Code": "EntryNotFound"}, status=404)

        def send(
            self, data: bytes, headers: dict[str, str], *, status: int = 200
        ) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        do_GET = do_HEAD = answer

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()

"""Servers that stores are read from in tests: one that counts, nginx, an S3."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.servers import (
    Handler,
    absent,
    free_port,
    need_program,
    served,
    wait_for_port,
)

Fault = Callable[[str, bytes], bytes]


@dataclass
class WebServer:
    """A threaded server of one folder, with byte ranges; it counts, and breaks off.

    `fault` gets the path and the body of each answer and returns what is really sent; where that
    is shorter, the connection is closed in the middle. `absent` is the status and body of the
    answer for a file that is not there; the names of `denied` get a 403.
    """

    root: Path
    requests: list[str] = field(default_factory=list)
    n_bytes: int = 0
    fault: Fault | None = None
    ranges: bool = True
    absent: tuple[int, bytes] = (404, b"")
    denied: tuple[str, ...] = ()
    url: str = ""

    def answer(self, request: Handler) -> None:
        self.requests.append(request.path)
        path = self.root / request.path.partition("?")[0].lstrip("/")
        is_denied = path.name in self.denied
        if is_denied or not path.is_file():
            status, page = (403, b"") if is_denied else self.absent
            request.send(page, status=status)
            return
        data = path.read_bytes()
        part, spoken = _range(
            request.headers.get("Range") if self.ranges else None, len(data)
        )
        body = data[part]
        request.send_response(206 if spoken else 200)
        if spoken:
            request.send_header("Content-Range", f"bytes {spoken}/{len(data)}")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        sent = body if self.fault is None else self.fault(request.path, body)
        self.n_bytes += len(sent)
        # A client that asked for a part may not want the whole file.
        with contextlib.suppress(ConnectionError):
            request.wfile.write(sent)
        if len(sent) < len(body):
            request.wfile.flush()
            request.close_connection = True


def _range(header: str | None, total: int) -> tuple[slice, str]:
    if not header:
        return slice(None), ""
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not first:
        start, stop = max(0, total - int(last)), total
    else:
        start, stop = int(first), min(total, int(last) + 1) if last else total
    return slice(start, stop), f"{start}-{stop - 1}"


@contextlib.contextmanager
def web_server(root: Path) -> Iterator[WebServer]:
    server = WebServer(root)

    class OfFolder(Handler):
        def do_GET(self) -> None:
            server.answer(self)

    with served(OfFolder) as server.url:
        yield server


@dataclass(frozen=True)
class Nginx:
    url: str
    log: Path

    def requests(self) -> list[tuple[str, int, int]]:
        """Path, status and bytes sent, headers and all, of each request so far."""
        time.sleep(0.2)  # it writes its log after the answer
        lines = (
            line.split() for line in self.log.read_text(encoding="utf-8").splitlines()
        )
        return [(path, int(status), int(n_bytes)) for path, status, n_bytes in lines]


@contextlib.contextmanager
def nginx(root: Path, folder: Path) -> Iterator[Nginx]:
    """Start nginx from Debian on the loopback, with its files below `folder`."""
    program, port = need_program("nginx"), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "access.log"
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"""daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
        {f"user {_user()};" if os.geteuid() == 0 else ""}
        events {{ worker_connections 256; }}
        http {{ {temporary} log_format bytes '$uri $status $bytes_sent';
        access_log {log} bytes; keepalive_timeout 5;
        server {{ listen 127.0.0.1:{port}; root {root}; }} }}""",
        encoding="utf-8",
    )
    command = [program, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for_port(port)
        yield Nginx(f"http://127.0.0.1:{port}", log)
    finally:
        process.terminate()
        process.wait(timeout=20)


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """Start moto's S3 server; the environment that makes clients talk to it."""
    if shutil.which("moto_server", path=str(Path(sys.executable).parent)) is None:
        absent("moto's server is not installed (pip install 'moto[server]')")
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    program = Path(sys.executable).parent / "moto_server"
    with (folder / "moto.log").open("wb") as log:
        words = [program, "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        wait_for_port(port)
        keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "testing")
        keys |= dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), "us-east-1")
        yield {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", **keys}
    finally:
        process.terminate()
        process.wait(timeout=20)


@contextlib.contextmanager
def bucket_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the empty bucket `films`, with its keys in the variables of this process."""
    with s3_server(folder) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        url = f"{environment['AWS_ENDPOINT_URL']}/films"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT"))
        yield

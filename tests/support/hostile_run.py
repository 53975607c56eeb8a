"""Send the corpus of hostile stores through every way into the program; print the answers as JSON.

A program of its own, so that its memory can be limited, and what ends a process ends only this one.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import ObygazeError
from obygaze_features.store import open_store, pull, unpack
from obygaze_features.store.read.verify import verify
from support.hostile_stores import CASES, Case, Forged, ZipCase, make_base, packed
from support.store_servers import web_server
from support.stores import tree

LIMIT_BYTES = 100_000_000
Answer = tuple[str, str, float]


def answer(call: Callable[[], object]) -> Answer:
    """The class of the error, its message, and the seconds; "" for no error."""
    started = time.monotonic()
    try:
        call()
    except ObygazeError as error:
        kind, message = type(error).__name__, str(error)
    except BaseException as error:  # noqa: BLE001 - a bug, which the test shows
        kind, message = f"BUG {type(error).__name__}", str(error)[:500]
    else:
        kind, message = "", ""
    return kind, message, time.monotonic() - started


def read(place: Path | str) -> None:
    """Read all there is to read of a store."""
    store = open_store(place)
    store.status()
    assert len(store.clip_ids) == len(store.movie_ids)
    store.text()
    for spec in store.plan.arrays:
        store.matrix(spec.name, missing="drop")
        store.matrix(spec.name, clips=store.clip_ids[:1].tolist(), missing="drop")


def check(place: Path | str, hashes: bool) -> None:
    """Verify a store; a problem is an error."""
    verify(place, hashes=hashes).require_whole()


def ways(case: Case | ZipCase, place: Path, url: str, out: Path) -> dict[str, Answer]:
    """The answer of each way into the program."""
    archive = place.with_suffix(".zip")
    if isinstance(case, ZipCase):
        calls: dict[str, Callable[[], object]] = {
            "verify": lambda: check(archive, False),
            "verify-hash": lambda: check(archive, True),
            "read": lambda: read(archive),
            "pull": lambda: pull(archive, out / "pull"),
            "http": lambda: pull(f"{url}/{archive.name}", out / "http"),
            "zip": lambda: unpack(archive, out / "zip"),
        }
    else:
        calls = {
            "verify": lambda: check(place, False),
            "verify-hash": lambda: check(place, True),
            "read": lambda: read(place),
            "pull": lambda: pull(place, out / "pull"),
        }
        # The test's server reads files.
        if "pipe" not in case.name and "4 GB" not in case.name:
            calls["http"] = lambda: pull(f"{url}/{place.name}", out / "http")
        if archive.exists():
            calls["zip"] = lambda: unpack(archive, out / "zip")
    return {way: answer(call) for way, call in calls.items()}


def _is_plain(path: Path) -> bool:
    """Whether a file or folder can be an entry of a zip of these tests."""
    is_known = path.is_dir() or path.is_file()
    return is_known and not path.is_symlink() and path.stat().st_size < 10**9


def written(out: Path) -> list[str]:
    """Every file that was written, below the folder of its way."""
    files = (
        path.relative_to(out)
        for path in out.rglob("*")
        if path.is_symlink() or not path.is_dir()
    )
    return sorted({"/".join(path.parts[1:]) for path in files})


def run(root: Path) -> dict[str, Any]:
    """Run the corpus below a folder."""
    bases = {"plain": None, "zstd": "zstd", "blosc": "blosc"}
    for name, compressor in bases.items():
        make_base(root / name, compressor)
    forged = {name: Forged.of(root / name) for name in bases}
    www, found = root / "www", {}
    www.mkdir()
    with server_of(www) as url:
        warm = Case("warm", lambda _: None, "", "")
        n_before = 0
        for number, case in enumerate([warm, *CASES]):
            place, out = www / f"case{number}", root / f"out{number}"
            out.mkdir()
            if isinstance(case, ZipCase):
                case.make(tree(root / "plain"), place.with_suffix(".zip"))
            else:
                spoiled = forged[case.base].copy()
                case.spoil(spoiled)
                spoiled.write(place)
                if all(map(_is_plain, place.rglob("*"))):
                    packed(tree(place), place.with_suffix(".zip"))
            if number == 1:
                n_before = _limit()
            answers = ways(case, place, url, out)
            found[case.name] = {"answers": answers, "written": written(out)}
            for folder in (place, out):
                shutil.rmtree(folder, ignore_errors=True)
            place.with_suffix(".zip").unlink(missing_ok=True)
    outside = sorted(
        path.name for path in root.iterdir() if not path.name.startswith("out")
    )
    growth = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - n_before
    return {"cases": found, "growth": growth, "outside": outside}


@contextmanager
def server_of(folder: Path) -> Iterator[str]:
    """Serve a folder from another process, whose memory is not counted; yield its address."""
    command = [sys.executable, "-m", "support.hostile_run", str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()
        process.kill()


def serve(folder: Path) -> None:
    """Serve a folder until this process is killed."""
    with web_server(folder) as server:
        print(server.url, flush=True)
        sys.stdin.read()


def _limit() -> int:
    """Limit the memory of this process to 100 MB more than it has; return what it had at most."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    [data] = [
        int(line.split()[1])
        for line in status.splitlines()
        if line.startswith("VmData")
    ]
    n_bytes = 1024 * data + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__" and len(sys.argv) > 1:
    serve(Path(sys.argv[1]))
elif __name__ == "__main__":
    threading.stack_size(512 * 1024)  # the stacks of threads count as memory
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        json.dump(run(Path(folder)), sys.stdout)

"""Have commands read the corpus of hostile stores; print what they answered as JSON.

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.cli import call_obygaze
from support.hostile_stores import CASES, write_whole
from support.store_servers import web_server

LIMIT_BYTES = 100_000_000


def ways(store: Path, url: str) -> dict[str, tuple[str, ...]]:
    """The words of each command that gets a store of somebody else."""
    stated = ("--no-licence",)
    named = {
        "info": ("info", str(store)),
        "verify hash": ("verify", str(store), "--hash"),
        "pull": ("pull", str(store), "-o", "pull/s"),
        "push": ("push", str(store), "push/s", *stated),
        "subset": ("subset", str(store), "--film", "film-0", "-o", "subset/s"),
        "export": ("export", "npz", str(store), "export/s.npz"),
    }
    is_served = all(
        path.is_dir() or (path.is_file() and path.stat().st_size < 10**9)
        for path in store.rglob("*")
    )
    if is_served:
        named["http"] = ("pull", f"{url}/{store.name}", "-o", "http/s")
    return named


def answers_of(store: Path, url: str, out: Path) -> dict[str, Any]:
    """What each command answered, and the files that were written."""
    answers = {}
    for way, words in ways(store, url).items():
        (out / way.split()[0]).mkdir(exist_ok=True)
        done = call_obygaze("-C", out, "store", *words, cwd=out)
        answers[way] = (done.code, done.stderr)
    written = []
    for way in ("pull", "push", "http"):
        for path in (out / way).rglob("*"):
            if path.is_symlink() or not path.is_dir():
                written.append(path.relative_to(out / way).as_posix())
    return {"answers": answers, "written": sorted(written)}


def run(root: Path) -> dict[str, Any]:
    """Run the corpus below a folder."""
    good = root / "good"
    write_whole(good)
    listed = json.loads((good / "store.json").read_bytes())["files"]
    stores = root / "stores"
    found: dict[str, Any] = {}
    stores.mkdir()
    n_before = 0
    with server_of(stores) as url:
        # The right one twice: afterwards all modules are imported.
        for number, name in enumerate(["first", "right", *CASES]):
            store = stores / f"case{number}"
            out = root / "out"
            out.mkdir()
            shutil.copytree(good, store)
            if name in CASES:
                CASES[name][0](store)
            if name == "right":
                n_before = _limit()
            found[name] = answers_of(store, url, out)
            shutil.rmtree(store)
            shutil.rmtree(out)
    del found["first"]
    names = {path.name for path in root.iterdir()}
    growth = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - n_before
    return {
        "cases": found,
        "growth": growth,
        "listed": [*listed, "store.json"],
        "outside": sorted(names - {"good", "stores"}),
    }


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

"""The example of the guide on a real Dask, with keys, whose workers and scheduler are lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli import ROOT, environment
from support.extracted_stores import bytes_of, no_work_is_left, run
from support.extraction import film_folder, keep_manifest
from support.servers import free_port, need_program, wait_for_port, wait_until

pytestmark = [
    pytest.mark.check("starts Dask, and kills its processes"),
    pytest.mark.timeout(600),
]

N_CLIPS = 64
PAGE = ROOT / "docs" / "guide" / "cluster.md"
STORE = "films.descriptors"
PRELOAD = "from support.slow_obygaze import slow_down\nslow_down()\n"

Start = Callable[..., "subprocess.Popen[bytes]"]


def example() -> str:
    """The program of the guide."""
    text = PAGE.read_text("utf-8")
    (block,) = re.findall(r"```python\n(from pathlib.*?)```", text, re.DOTALL)
    return block


def words_of_guide(start: str) -> list[str]:
    """The words of a command of the guide, without its variables."""
    text = PAGE.read_text("utf-8").replace("\\\n", " ")
    (line,) = re.findall(rf"^\$ (?:\w+=\d+ )?({start} .*)$", text, re.MULTILINE)
    return line.split()


@pytest.fixture
def start(tmp_path: Path, request: pytest.FixtureRequest) -> Start:
    """Start a program in the workspace; it ends with the test."""
    pytest.importorskip("distributed", reason="Dask is not installed")
    (tmp_path / "slow.py").write_text(PRELOAD)
    paths = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    started: list[subprocess.Popen[bytes]] = []

    def start_program(
        name: str, *words: str, **changes: str
    ) -> subprocess.Popen[bytes]:
        variables = {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "5s",
            "OBYGAZE_TEST_SECONDS": "0.2",
            **changes,
        }
        with (tmp_path / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=tmp_path,
                env=environment(variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(process)
        return process

    def end_all() -> None:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    request.addfinalizer(end_all)
    return start_program


def test_the_example_of_the_guide(start: Start, tmp_path: Path) -> None:
    films = film_folder(tmp_path, N_CLIPS)
    keep_manifest(films, tmp_path)
    run(films, tmp_path / "other")
    expected = bytes_of(tmp_path / "other" / "stores" / STORE)
    store = tmp_path / "stores" / STORE
    openssl = words_of_guide("openssl")
    subprocess.run(
        [need_program("openssl"), *openssl[1:]],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    port = free_port()
    address = f"tls://127.0.0.1:{port}"
    (tmp_path / "example.py").write_text(
        example().replace("tls://node:8786", address), "utf-8"
    )

    def scheduler() -> subprocess.Popen[bytes]:
        words = words_of_guide("dask scheduler")
        given = ["--port", str(port), *words[words.index("8786") + 1 :]]
        program = "distributed.cli.dask_scheduler"
        process = start("scheduler", "-m", program, *given, "--no-dashboard")
        wait_for_port(port, 60)
        return process

    def worker(number: int, **changes: str) -> subprocess.Popen[bytes]:
        words = words_of_guide("dask worker")
        given = [address, *words[words.index("--nthreads") :]]
        more = ["--no-nanny", "--no-dashboard", "--preload", "slow.py"]
        log = {"OBYGAZE_TEST_LOG": str(tmp_path / f"clips-{number}")}
        program = "distributed.cli.dask_worker"
        return start(f"worker-{number}", "-m", program, *given, *more, **log, **changes)

    def has_begun(number: int) -> bool:
        return (tmp_path / f"clips-{number}").exists()

    def n_blocks() -> int:
        blocks = store.with_name(f"{store.name}.next") / "blocks"
        return len(list(blocks.glob("[0-9]*")))

    first_scheduler = scheduler()
    workers = [worker(number) for number in range(3)]
    script = start("script", "example.py")
    for number in range(3):
        wait_until(lambda n=number: has_begun(n), f"worker {number}", 120)
    os.killpg(workers[0].pid, signal.SIGKILL)
    os.killpg(workers[1].pid, signal.SIGSTOP)
    wait_until(lambda: n_blocks() >= 1 or store.exists(), "the last worker", 120)
    first_scheduler.kill()
    assert script.wait(timeout=120) != 0 or store.exists()
    # What the worker has begun goes on or ends with its scheduler; the next call does the rest.
    os.killpg(workers[2].pid, signal.SIGKILL)
    scheduler()
    worker(3, OBYGAZE_TEST_SECONDS="0")
    again = start("script", "example.py")
    try:
        assert again.wait(timeout=240) == 0, (tmp_path / "script.log").read_text()
        lines = (tmp_path / "script.log").read_text().splitlines()
        done = f"{STORE} (descriptors): sealed; {N_CLIPS} clips: {N_CLIPS} ok"
        assert lines[-3:] == [done] * 3
        assert bytes_of(store) == expected
    finally:
        os.killpg(workers[1].pid, signal.SIGCONT)
    assert no_work_is_left(store)

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli import ROOT, environment
from support.extraction import film_folder, keep_manifest, run
from support.servers import free_port, need_program, wait_for_port
from support.written_stores import lasting_bytes

pytestmark = [pytest.mark.check("starts Dask"), pytest.mark.timeout(600)]

N_CLIPS = 32
PAGE = ROOT / "docs" / "guide" / "cluster.md"
STORE = "films.descriptors"

Start = Callable[..., "subprocess.Popen[bytes]"]


def example() -> str:
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
    started: list[subprocess.Popen[bytes]] = []

    def start_program(name: str, *words: str) -> subprocess.Popen[bytes]:
        variables = {"PYTHONPATH": str(ROOT)}
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
    expected = lasting_bytes(tmp_path / "other" / "stores" / STORE)
    openssl = [need_program("openssl"), *words_of_guide("openssl")[1:]]
    subprocess.run(openssl, cwd=tmp_path, check=True, capture_output=True)
    port = free_port()
    address = f"tls://127.0.0.1:{port}"
    program = example().replace("tls://node:8786", address)
    (tmp_path / "example.py").write_text(program, "utf-8")
    words = words_of_guide("dask scheduler")
    given = ["--port", str(port), *words[words.index("8786") + 1 :]]
    scheduler = "distributed.cli.dask_scheduler"
    start("scheduler", "-m", scheduler, *given, "--no-dashboard")
    wait_for_port(port, 60)
    words = words_of_guide("dask worker")
    given = [address, *words[words.index("--nthreads") :]]
    more = ["--no-nanny", "--no-dashboard"]
    start("worker", "-m", "distributed.cli.dask_worker", *given, *more)
    script = start("script", "example.py")
    assert script.wait(timeout=240) == 0, (tmp_path / "script.log").read_text()
    lines = (tmp_path / "script.log").read_text().splitlines()
    done = f"{STORE} (descriptors): sealed; {N_CLIPS} clips: {N_CLIPS} ok"
    assert lines[-3:] == [done] * 3
    assert lasting_bytes(tmp_path / "stores" / STORE) == expected

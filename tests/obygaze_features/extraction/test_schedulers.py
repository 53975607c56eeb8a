"""The example of the guide on a real Dask, with keys, whose workers and scheduler are lost."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli import ROOT, environment
from support.extraction import a_plan, array_bytes, film_folder, plan_file
from support.servers import free_port, need_program, wait_for_port, wait_until

from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.run import Resources, extract_plan
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.store import StoreWriter, open_store

pytestmark = [
    pytest.mark.check("installs Dask, and kills its processes"),
    pytest.mark.timeout(600),
]

N_CLIPS = 36
PRELOAD = "from support.slow_obygaze import slow_down\nslow_down()\n"

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of Dask, "" if it is installed."""
    names = ("distributed",)
    if all(importlib.util.find_spec(name) for name in names):
        return ""
    folder = str(tmp_path_factory.mktemp("packages"))
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder]
    done = subprocess.run([*words, *names], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    return folder


@pytest.fixture
def plan(tmp_path: Path) -> ExtractPlan:
    made = a_plan(film_folder(tmp_path, N_CLIPS), tmp_path, "descriptors")
    plan_file(made, tmp_path / "plan.json")
    return made


def undisturbed(plan: ExtractPlan, folder: Path) -> dict[str, bytes]:
    """What one process makes of the clips of a plan."""
    other = folder / "other"
    films = film_folder(folder, N_CLIPS)
    alone = a_plan(films, other, "descriptors")
    extract_plan(alone, Resources(), StopFlag())
    return array_bytes(Path(alone.targets[0].store))


def example() -> str:
    """The program of the guide."""
    text = (ROOT / "docs/guide/cluster.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(from pathlib.*?)```", text, re.DOTALL)
    return block


def words_of_guide(start: str) -> list[str]:
    """The words of a command of the guide, without its variables."""
    text = (ROOT / "docs/guide/cluster.md").read_text("utf-8").replace("\\\n", " ")
    (line,) = re.findall(rf"^\$ (?:\w+=\d+ )?({start} .*)$", text, re.MULTILINE)
    return line.split()


@pytest.fixture
def start(tmp_path: Path, packages: str, request: pytest.FixtureRequest) -> Start:
    """Start a program beside the plan; it ends with the test."""
    (tmp_path / "slow.py").write_text(PRELOAD)
    paths = [packages, str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
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


def test_the_example_of_the_guide(
    plan: ExtractPlan, start: Start, tmp_path: Path
) -> None:
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

    def worker(number: int) -> subprocess.Popen[bytes]:
        words = words_of_guide("dask worker")
        given = [address, *words[words.index("--nthreads") :]]
        more = ["--no-nanny", "--no-dashboard", "--preload", "slow.py"]
        log = {"OBYGAZE_TEST_LOG": str(tmp_path / f"clips-{number}")}
        program = "distributed.cli.dask_worker"
        return start(f"worker-{number}", "-m", program, *given, *more, **log)

    def has_begun(number: int) -> bool:
        return (tmp_path / f"clips-{number}").exists()

    def n_blocks_left() -> int:
        return len(StoreWriter(plan.targets[0].store).pending_blocks())

    first_scheduler = scheduler()
    workers = [worker(number) for number in range(3)]
    script = start("script", "example.py")
    for number in range(3):
        wait_until(lambda n=number: has_begun(n), f"worker {number}", 120)
    os.killpg(workers[0].pid, signal.SIGKILL)
    os.killpg(workers[1].pid, signal.SIGSTOP)
    left = n_blocks_left()
    wait_until(lambda: n_blocks_left() < left, "the last worker", 120)
    first_scheduler.kill()
    assert script.wait(timeout=120) != 0 or not n_blocks_left()
    # What the worker has begun goes on or ends with its scheduler; the next call does the rest.
    os.killpg(workers[2].pid, signal.SIGKILL)
    scheduler()
    worker(3)
    again = start("script", "example.py")
    try:
        assert again.wait(timeout=240) == 0, (tmp_path / "script.log").read_text()
        lines = (tmp_path / "script.log").read_text().splitlines()
        assert lines[-3:] == [f"{i}/3: 12 of 12 clips" for i in range(3)]
        store = Path(plan.targets[0].store)
        assert open_store(store).sealed
        assert array_bytes(store) == undisturbed(plan, tmp_path)
    finally:
        os.killpg(workers[1].pid, signal.SIGCONT)


def test_dask_takes_the_word_workers_for_itself_and_keeps_errors(
    plan: ExtractPlan, start: Start, tmp_path: Path
) -> None:
    """What the guide warns of; if Dask no longer does it, the guide can be shorter."""
    program = """
import obygaze as og
from distributed import Client, LocalCluster

def part(worker, plan, workers=None):
    return f"{worker} {workers}"

if __name__ == "__main__":
    with LocalCluster(1, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            print(client.submit(part, "0/1", "plan.json", workers=[0]).result())
            for pure in (True, False):
                call = lambda: client.submit(og.extract, "here.json", worker="0/1", pure=pure)
                first = call()
                print(type(first.exception()).__name__)
                print(pure, call().key == first.key)
"""
    (tmp_path / "program.py").write_text(program)
    assert start("program", "program.py").wait(timeout=120) == 0
    lines = (tmp_path / "program.log").read_text().splitlines()
    shown = [line for line in lines if line in PRINTED]
    assert shown == ["0/1 None", "NotFound", "True True", "NotFound", "False False"]


PRINTED = ("0/1 None", "NotFound", "True True", "False False")

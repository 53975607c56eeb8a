"""A plan on real Dask clusters, whose workers are killed, or the whole cluster."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.checkpoints import save_tiny, write_tiny_card
from support.cli import Result, environment, obygaze_argv, run_obygaze
from support.dask_cluster import children_of, running_dask
from support.extraction import BLOCK_ROWS, a_plan, array_bytes, film_folder, plan_file
from support.servers import wait_until
from support.slow_obygaze import clips_begun, install

from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.run import Resources, extract
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.extraction.status import missing_units
from obygaze_features.manifest.model import Manifest

# 12 units of 4 clips; one clip cannot be read, so a whole run ends with 3.
N_CLIPS, N_UNITS = 47, 12
BAD = 5
TWO = ("--engine", "dask", "--devices", "cpu,cpu")

pytestmark = pytest.mark.xdist_group("dask")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return film_folder(tmp_path_factory.mktemp("films"), N_CLIPS, bad={BAD: b"not a video"})


@pytest.fixture(scope="module")
def undisturbed(films: Manifest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    path = plan_file(a_plan(films, folder, "descriptors"), folder / "plan.json")
    assert run_obygaze("extract", "run", path).code == 3
    return array_bytes(folder / "stores" / "descriptors")


@dataclass
class World:
    """A plan, its store, and a slow `obygaze` to run it with."""

    folder: Path
    plan: ExtractPlan
    runs: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.folder / "stores" / "descriptors"

    @property
    def log(self) -> Path:
        return self.folder / "clips.log"

    def variables(self, seconds: float, together: int = 1) -> dict[str, str]:
        return {
            "OBYGAZE_TEST_SECONDS": str(seconds),
            "OBYGAZE_TEST_LOG": str(self.log),
            "OBYGAZE_TEST_TOGETHER": str(together),
            # What is killed leaves its scratch folder behind.
            "TMPDIR": str(self.folder),
        }

    def start(self, *words: str, seconds: float = 0.0, together: int = 1) -> subprocess.Popen[str]:
        argv = [str(self.folder / "obygaze"), "extract", "run", str(self.folder / "plan.json")]
        run = subprocess.Popen(
            [*argv, *words],
            env=environment(self.variables(seconds, together)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.runs.append(run)
        return run

    def run(self, *words: str, together: int = 1) -> Result:
        return ended(self.start(*words, together=together))

    def n_blocks(self) -> int:
        return len(list((self.store / "commits").glob("block-*.json")))

    def wait_for_blocks(self, least: int, run: subprocess.Popen[str]) -> None:
        wait_until(lambda: self.n_blocks() >= least or run.poll() is not None, "blocks", 60)


def ended(run: subprocess.Popen[str]) -> Result:
    out, err = run.communicate(timeout=120)
    return Result(run.returncode, out, err)


def workers_of(run: subprocess.Popen[str]) -> list[int]:
    return children_of(run.pid, "spawn_main")


@pytest.fixture
def world(films: Manifest, tmp_path: Path) -> Iterator[World]:
    plan = a_plan(films, tmp_path, "descriptors")
    plan_file(plan, tmp_path / "plan.json")
    install(tmp_path)
    made = World(tmp_path, plan)
    yield made
    for run in made.runs:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# ---- a cluster of our own ----------------------------------------------------------------------


def test_the_same_bytes_from_two_workers(world: World, undisturbed: dict[str, bytes]) -> None:
    events = world.folder / "events.jsonl"
    done = world.run(*TWO, "--json", "--events", str(events), together=2)
    assert done.code == 3, done.stderr
    assert (done.json()["ok"], done.json()["failed"]) == (N_CLIPS - 1, 1)
    assert array_bytes(world.store) == undisturbed
    assert len(events.read_text("utf-8").splitlines()) == N_CLIPS
    pids = set(world.log.read_text("utf-8").split())
    assert len(pids) == 2, "both workers had something to do"


def test_the_same_bytes_from_workers_that_are_killed(
    world: World, undisturbed: dict[str, bytes]
) -> None:
    """Every two seconds one worker is killed, sometimes both."""
    run = world.start(*TWO, seconds=0.4)
    draw = random.Random(7)
    n_killed = 0
    world.wait_for_blocks(1, run)
    for round_ in range(4):
        victims = workers_of(run)
        for pid in victims if round_ == 2 else draw.sample(victims, min(1, len(victims))):
            os.kill(pid, signal.SIGKILL)
            n_killed += 1
        before = world.n_blocks()
        world.wait_for_blocks(before + 1, run)
        time.sleep(draw.uniform(0.5, 1.5))
    done = ended(run)
    assert done.code == 3, done.stderr
    assert n_killed >= 4
    assert array_bytes(world.store) == undisturbed
    assert clips_begun(world.log) <= N_CLIPS - 1 + n_killed * BLOCK_ROWS


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run(
    world: World, undisturbed: dict[str, bytes], number: signal.Signals, code: int
) -> None:
    run = world.start(*TWO, seconds=0.3)
    world.wait_for_blocks(2, run)
    workers = workers_of(run)
    # To all of them, as a terminal and most schedulers do it.
    os.killpg(run.pid, number)
    done = ended(run)
    assert done.code == code, done.stderr
    assert f"stopped by {number.name}" in done.stderr
    assert len(workers) == 2
    assert all(map(is_gone, workers))
    assert clips_begun(world.log) <= world.n_blocks() * BLOCK_ROWS + 2 * BLOCK_ROWS
    # Another engine goes on where this one was.
    assert world.run("--workers", "1").code == 3
    assert array_bytes(world.store) == undisturbed


def test_workers_end_with_their_driver(world: World) -> None:
    run = world.start(*TWO, seconds=0.3)
    world.wait_for_blocks(1, run)
    workers = workers_of(run)
    decoders = [pid for worker in workers for pid in children_of(worker, "video.worker")]
    assert (len(workers), len(decoders)) == (2, 2)
    run.kill()
    run.communicate()
    wait_until(lambda: all(map(is_gone, [*workers, *decoders])), "the workers to end", 30)


def test_an_error_of_a_worker_is_the_error_of_the_run(films: Manifest, world: World) -> None:
    other = a_plan(films, world.folder, "descriptors", sampling="keyframes")
    run_obygaze("extract", "run", plan_file(other, world.folder / "other.json"))
    before = array_bytes(world.store)
    # With two blocks to make, or nobody would look.
    for block in (3, 7):
        (world.store / "commits" / f"block-{block:05d}.json").unlink()
    done = world.run(*TWO)
    assert done.code == 5, done.stderr
    assert "sampling.rule" in done.stderr
    assert array_bytes(world.store) == before


def test_changed_weights_are_refused(films: Manifest, world: World) -> None:
    """The checkpoint is replaced during the run."""
    pytest.importorskip("transformers")
    weights = save_tiny("clip", world.folder / "weights")
    few = films.with_clips(films.clips[10:15])
    write_tiny_card("clip", world.folder / "backbones")
    plan = a_plan(few, world.folder, "tiny-clip", weights=str(weights))
    path = plan_file(plan, world.folder / "plan.json")
    extract(plan, Resources(), StopFlag(), rows=range(BLOCK_ROWS))
    store = Path(plan.targets[0].store)
    before = array_bytes(store)
    assert missing_units(plan) == [1]
    save_tiny("clip", weights, seed=1)
    done = run_obygaze("extract", "run", path, "--engine", "dask", "--devices", "cpu")
    assert (done.code, "weights" in done.stderr) == (5, True), done.stderr
    assert array_bytes(store) == before
    save_tiny("clip", weights)
    (state,) = extract(plan, Resources(), StopFlag())
    assert (state.ok, state.done) == (5, True)


def test_two_runs_given_the_same_blocks_at_once(
    world: World, undisturbed: dict[str, bytes]
) -> None:
    words = ("--worker", "0/1", "--workers", "1")
    runs = [world.start(*words, seconds=0.05, together=2) for _ in range(2)]
    assert [ended(run).code for run in runs] == [3, 3]
    assert array_bytes(world.store) == undisturbed
    assert clips_begun(world.log) > N_CLIPS, "they did work on the same blocks"


# ---- a cluster that is there already -----------------------------------------------------------


def test_a_running_cluster_that_is_killed(world: World, undisturbed: dict[str, bytes]) -> None:
    with running_dask(world.folder, 2, world.variables(0.3)) as cluster:
        run = world.start("--engine", "dask", "--scheduler", str(cluster.file))
        world.wait_for_blocks(2, run)
        cluster.kill()
        done = ended(run)
    assert done.code == 1, done.stderr
    assert "Dask cluster" in done.stderr
    assert "the same command again" in done.stderr
    assert 2 <= world.n_blocks() < N_UNITS
    (world.folder / "scheduler.json").unlink()
    with running_dask(world.folder, 2, world.variables(0)) as cluster:
        run = world.start("--engine", "dask", "--scheduler", str(cluster.file))
        done = ended(run)
        assert done.code == 3, done.stderr
        # The cluster was there before, and outlives the run.
        assert [worker.poll() for worker in cluster.workers] == [None, None]
    assert array_bytes(world.store) == undisturbed


# ---- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "dask"), "either --devices or --scheduler"),
        ((*TWO, "--scheduler", "tls://a:1"), "either --devices or --scheduler"),
        ((*TWO, "--worker", "0/2"), "--worker"),
        (("--engine", "dask", "--devices", "cpu,0"), "only GPUs or only cpu"),
        (("--devices", "0"), "--engine dask"),
        (("--engine", "dask", "--scheduler", "tcp://10.0.0.1:1"), "is not encrypted"),
    ],
)
def test_invalid_options(world: World, words: tuple[str, ...], message: str) -> None:
    done = run_obygaze("extract", "run", world.folder / "plan.json", *words)
    assert (done.code, message in done.stderr) == (2, True), done.stderr
    assert not world.store.exists()


def test_the_local_engine_imports_no_dask(world: World) -> None:
    code = (
        "import sys; from obygaze import cli; code = cli.run(sys.argv[1:]);"
        " assert 'distributed' not in sys.modules"
    )
    words = obygaze_argv("extract", "run", world.folder / "plan.json")[3:]
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment())
    assert done.returncode == 0

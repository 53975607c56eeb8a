"""A plan on real Dask clusters, whose workers are killed, or the whole cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import distributed
import pytest
from support.checkpoints import save_tiny, write_tiny_card
from support.cli import Result, environment, obygaze_argv, run_obygaze
from support.dask_cluster import DaskCluster, running_dask
from support.extraction import BLOCK_ROWS, a_plan, array_bytes, film_folder, plan_file
from support.servers import free_port, wait_until
from support.slow_obygaze import clips_begun, install

from obygaze_features.core.errors import FixInput, FixUsage, NotFound, ObygazeError
from obygaze_features.extraction import dask_engine
from obygaze_features.extraction.dask_engine import ClusterLost, extract_on, join_cluster
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.run import Event, Monitor, Resources, extract
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.extraction.status import missing_units
from obygaze_features.manifest.model import Manifest

# 12 units of 4 clips; one clip cannot be read, so a whole run ends with 3.
N_CLIPS, N_UNITS = 47, 12
BAD = 5

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

    def cluster(
        self, n_workers: int, seconds: float = 0.0, together: int = 1
    ) -> contextlib.AbstractContextManager[DaskCluster]:
        return running_dask(self.folder, n_workers, self.variables(seconds, together))

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

    def start_on(self, cluster: DaskCluster, *words: str) -> subprocess.Popen[str]:
        return self.start("--scheduler", str(cluster.file), "--workers", "1", *words)

    def n_blocks(self) -> int:
        return len(list((self.store / "commits").glob("block-*.json")))

    def wait_for_blocks(self, least: int, run: subprocess.Popen[str]) -> None:
        wait_until(lambda: self.n_blocks() >= least or run.poll() is not None, "blocks", 60)


def ended(run: subprocess.Popen[str]) -> Result:
    out, err = run.communicate(timeout=120)
    return Result(run.returncode, out, err)


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


# ---- whole runs --------------------------------------------------------------------------------


def test_the_same_bytes_from_two_workers(world: World, undisturbed: dict[str, bytes]) -> None:
    events = world.folder / "events.jsonl"
    with world.cluster(2, together=2) as cluster:
        done = ended(world.start_on(cluster, "--json", "--events", str(events)))
        # The cluster was there before, and outlives the run.
        assert [worker.poll() for worker in cluster.workers] == [None, None]
        with join_cluster(str(cluster.file)) as client:
            plugins = client.run(lambda dask_worker: list(dask_worker.plugins)).values()
    assert done.code == 3, done.stderr
    assert (done.json()["ok"], done.json()["failed"]) == (N_CLIPS - 1, 1)
    assert array_bytes(world.store) == undisturbed
    assert len(events.read_text("utf-8").splitlines()) == N_CLIPS
    pids = world.log.read_text("utf-8").split()
    assert len(pids) == N_CLIPS - 1
    assert len(set(pids)) == 2, "both workers had something to do"
    assert not [name for names in plugins for name in names if name.startswith("obygaze")]


def test_the_same_bytes_from_workers_that_are_killed(
    world: World, undisturbed: dict[str, bytes]
) -> None:
    """A worker is killed three times, and another one joins."""
    with world.cluster(2, seconds=0.2) as cluster:
        run = world.start_on(cluster)
        for least in (1, 4, 7):
            world.wait_for_blocks(least, run)
            cluster.kill_worker()
            cluster.add_worker()
        done = ended(run)
    assert done.code == 3, done.stderr
    assert array_bytes(world.store) == undisturbed
    assert clips_begun(world.log) <= N_CLIPS - 1 + 3 * BLOCK_ROWS


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run(
    world: World, undisturbed: dict[str, bytes], number: signal.Signals, code: int
) -> None:
    with world.cluster(2, seconds=0.3) as cluster:
        run = world.start_on(cluster)
        world.wait_for_blocks(2, run)
        run.send_signal(number)
        done = ended(run)
        assert done.code == code, done.stderr
        assert f"stopped by {number.name}" in done.stderr
        n_begun, n_blocks = clips_begun(world.log), world.n_blocks()
        assert n_begun <= n_blocks * BLOCK_ROWS + 2 * BLOCK_ROWS
        assert n_blocks < N_UNITS
        assert [worker.poll() for worker in cluster.workers] == [None, None]
    assert clips_begun(world.log) == n_begun, "the workers had stopped when the run ended"
    # Another engine goes on where this one was.
    assert ended(world.start("--workers", "1")).code == 3
    assert array_bytes(world.store) == undisturbed


def test_a_running_cluster_that_is_killed(world: World, undisturbed: dict[str, bytes]) -> None:
    with world.cluster(2, seconds=0.3) as cluster:
        run = world.start_on(cluster)
        world.wait_for_blocks(2, run)
        cluster.kill()
        done = ended(run)
    assert done.code == 1, done.stderr
    assert "Dask cluster" in done.stderr
    assert "the same command again" in done.stderr
    assert 2 <= world.n_blocks() < N_UNITS
    with world.cluster(2) as cluster:
        assert ended(world.start_on(cluster)).code == 3
    assert array_bytes(world.store) == undisturbed


def test_two_runs_given_the_same_blocks_at_once(
    world: World, undisturbed: dict[str, bytes]
) -> None:
    words = ("--worker", "0/1", "--workers", "1")
    runs = [world.start(*words, seconds=0.05, together=2) for _ in range(2)]
    assert [ended(run).code for run in runs] == [3, 3]
    assert array_bytes(world.store) == undisturbed
    assert clips_begun(world.log) > N_CLIPS, "they did work on the same blocks"


# ---- errors of workers -------------------------------------------------------------------------


def test_an_error_of_a_worker_is_the_error_of_the_run(films: Manifest, world: World) -> None:
    other = a_plan(films, world.folder, "descriptors", sampling="keyframes")
    run_obygaze("extract", "run", plan_file(other, world.folder / "other.json"))
    before = array_bytes(world.store)
    # With two blocks to make, or nobody would look.
    for block in (3, 7):
        (world.store / "commits" / f"block-{block:05d}.json").unlink()
    with world.cluster(2) as cluster:
        done = ended(world.start_on(cluster))
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
    plan_file(plan, world.folder / "plan.json")
    extract(plan, Resources(), StopFlag(), rows=range(BLOCK_ROWS))
    store = Path(plan.targets[0].store)
    before = array_bytes(store)
    assert missing_units(plan) == [1]
    save_tiny("clip", weights, seed=1)
    with world.cluster(1) as cluster:
        done = ended(world.start_on(cluster))
    assert (done.code, "weights" in done.stderr) == (5, True), done.stderr
    assert array_bytes(store) == before
    save_tiny("clip", weights)
    (state,) = extract(plan, Resources(), StopFlag())
    assert (state.ok, state.done) == (5, True)


def test_a_unit_that_ends_its_workers_ends_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_worker(name: str, unit: int) -> list[Event]:
        os._exit(1)

    monkeypatch.setattr(dask_engine, "make_unit", end_worker)
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    with (
        world.cluster(2) as cluster,
        join_cluster(str(cluster.file)) as client,
        pytest.raises(ObygazeError, match=r"(?s)KilledWorker.*the logs of the workers"),
    ):
        extract_on(client, world.plan, Resources(), StopFlag())


# ---- clusters that do not respond --------------------------------------------------------------


def test_a_scheduler_that_hangs_ends_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.cluster(1, seconds=0.3) as cluster, join_cluster(str(cluster.file)) as client:

        def hang(event: object) -> None:
            cluster.scheduler.send_signal(signal.SIGSTOP)
            monkeypatch.setattr(dask_engine, "ANSWER_S", 1.0)

        monitor = Monitor(on_event=hang)
        with pytest.raises(ClusterLost, match="does not respond"):
            extract_on(client, world.plan, Resources(), StopFlag(), monitor=monitor)
    assert 1 <= world.n_blocks() < N_UNITS


def test_a_cluster_without_workers_ends_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_engine, "PATIENCE_S", 3.0)
    with (
        world.cluster(0) as cluster,
        join_cluster(str(cluster.file)) as client,
        pytest.raises(ClusterLost, match="Dask cluster"),
    ):
        extract_on(client, world.plan, Resources(), StopFlag())
    assert not world.store.exists()


# ---- addresses and options ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("tcp://10.1.2.3:8786", True),
        ("tcp://cluster.example.org:8786", True),
        ("ws://10.1.2.3:8786", True),
        ("tcp://0.0.0.0:8786", True),
        ("tcp://127.0.0.1:8786", False),
        ("tcp://[::1]:8786", False),
        ("tcp://localhost:8786", False),
        ("tls://10.1.2.3:8786", False),
    ],
)
def test_only_encrypted_clusters_are_joined_over_a_network(
    address: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SimpleNamespace(close=lambda timeout: None)
    monkeypatch.setattr(distributed, "Client", lambda address, **more: client)
    if refused:
        with pytest.raises(FixUsage, match="is not encrypted"), join_cluster(address):
            pass
    with join_cluster(address, insecure=refused) as joined:
        assert joined is client


def test_the_address_of_a_scheduler_file_is_checked_too(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text('{"address": "tcp://10.1.2.3:8786"}', encoding="utf-8")
    with pytest.raises(FixUsage, match="is not encrypted"), join_cluster(str(file)):
        pass
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(FixInput, match="not a scheduler file of Dask"), join_cluster(str(file)):
        pass
    with pytest.raises(NotFound, match="no scheduler file"), join_cluster(str(tmp_path / "x")):
        pass


def test_no_scheduler_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_engine, "CONNECT_S", 1)
    with (
        pytest.raises(NotFound, match="no Dask scheduler answers"),
        join_cluster(f"tcp://127.0.0.1:{free_port()}"),
    ):
        pass


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--scheduler", "tls://a:1", "--worker", "0/2"), "--worker"),
        (("--scheduler", "tls://a:1", "--retry-failed"), "no --scheduler"),
        (("--scheduler", "tls://a:1", "--device", "cuda:0,cuda:1"), "one --device"),
        (("--scheduler", "tcp://10.0.0.1:1"), "is not encrypted"),
    ],
)
def test_invalid_options(world: World, words: tuple[str, ...], message: str) -> None:
    done = run_obygaze("extract", "run", world.folder / "plan.json", *words)
    assert (done.code, message in done.stderr) == (2, True), done.stderr
    assert not world.store.exists()


def test_a_missing_package_is_named(world: World) -> None:
    code = (
        "import sys; sys.modules['distributed'] = None;"
        " from obygaze import cli; sys.exit(cli.run(sys.argv[1:]))"
    )
    words = obygaze_argv("extract", "run", world.folder / "plan.json", "--scheduler", "tls://a:1")
    argv = [sys.executable, "-c", code, *words[3:]]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True)
    assert (done.returncode, "obygaze[cluster]" in done.stderr) == (2, True), done.stderr


def test_the_local_engine_imports_no_dask(world: World) -> None:
    code = (
        "import sys; from obygaze import cli; code = cli.run(sys.argv[1:]);"
        " assert 'distributed' not in sys.modules"
    )
    words = obygaze_argv("extract", "run", world.folder / "plan.json")[3:]
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment())
    assert done.returncode == 0

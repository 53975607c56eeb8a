"""Units on a failing Dask cluster: clients that hang, lost workers, errors of units."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support.extraction import a_plan, array_bytes, film_folder

from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.extraction import dask_engine
from obygaze_features.extraction.dask_engine import ClusterLost
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.run import Resources, extract
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.manifest.model import Manifest
from obygaze_features.video.pool import DecodePool

N_CLIPS, N_UNITS = 47, 12


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return film_folder(tmp_path_factory.mktemp("films"), N_CLIPS, bad={5: b"not a video"})


@pytest.fixture(scope="module")
def undisturbed(films: Manifest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    plan = a_plan(films, tmp_path_factory.mktemp("undisturbed"), "descriptors")
    extract(plan, Resources(), StopFlag())
    return array_bytes(Path(plan.targets[0].store))


@pytest.fixture
def plan(films: Manifest, tmp_path: Path) -> ExtractPlan:
    return a_plan(films, tmp_path, "descriptors")


@dataclass
class StubFuture:
    status: str
    value: Any = None

    def done(self) -> bool:
        return self.status != "pending"

    def result(self, timeout: float) -> Any:
        return self.value

    def exception(self, timeout: float) -> Any:
        return self.value

    def release(self) -> None: ...

    def __hash__(self) -> int:
        return id(self)


@dataclass
class StubClient:
    """Return what a cluster would; `ends` returns the result of each unit."""

    ends: Callable[[int], StubFuture]
    workers: dict[str, Any] = field(default_factory=lambda: {"tcp://a": ()})
    under_way: int = 0

    def register_plugin(self, plugin: Any, name: str) -> None: ...

    def unregister_worker_plugin(self, name: str) -> None: ...

    def run(self, *words: Any, **more: Any) -> None: ...

    def cancel(self, futures: Any) -> None: ...

    def processing(self) -> dict[str, Any]:
        return self.workers

    def submit(self, function: Any, name: str, unit: int, **more: Any) -> StubFuture:
        return self.ends(unit)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_engine, "LOOK_S", 0.05)
    monkeypatch.setattr(dask_engine, "STOP_S", 0.1)
    wait_for_answers(monkeypatch, 120.0)


def wait_for_answers(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set how long a run waits for its cluster."""
    for name in ("ANSWER_S", "PATIENCE_S", "FIRST_WORKER_S"):
        monkeypatch.setattr(dask_engine, name, seconds)


def connected(*clients: StubClient) -> Any:
    left = list(clients)

    @contextlib.contextmanager
    def connect() -> Iterator[StubClient]:
        yield left.pop(0) if len(left) > 1 else left[0]

    return connect


@pytest.fixture
def pool() -> Iterator[DecodePool]:
    with DecodePool(1) as running:
        yield running


def made_here(plan: ExtractPlan) -> Callable[[int], StubFuture]:
    def make(unit: int) -> StubFuture:
        extract(plan, Resources(), StopFlag(), rows=plan.unit_range(unit))
        return StubFuture("finished", [])

    return make


def test_a_client_that_hangs_is_replaced(
    plan: ExtractPlan,
    undisturbed: dict[str, bytes],
    pool: DecodePool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The workers are idle and the futures never end; this happens to Dask after rapid kills."""
    hung = StubClient(lambda unit: StubFuture("pending"))
    mute = StubClient(lambda unit: StubFuture("pending"))
    monkeypatch.setattr(mute, "processing", lambda: time.sleep(60))
    good = StubClient(made_here(plan))
    clients = [hung, mute, good]

    def connect() -> contextlib.AbstractContextManager[StubClient]:
        client = clients.pop(0)
        # This one does the work itself, for as long as it takes.
        wait_for_answers(monkeypatch, 120.0 if client is good else 2.0)
        return contextlib.nullcontext(client)

    (state,) = dask_engine.extract_on(connect, plan, [Resources()], StopFlag())
    assert state.done and not clients
    assert array_bytes(Path(plan.targets[0].store)) == undisturbed
    wait_for_answers(monkeypatch, 2.0)
    with pytest.raises(ClusterLost, match="no worker"):
        fresh = a_plan_beside(plan)
        dask_engine.extract_on(connected(hung), fresh, [Resources()], StopFlag(), rebuild=False)
    with pytest.raises(ClusterLost, match="the cluster failed 3 times"):
        dask_engine.extract_on(connected(hung), fresh, [Resources()], StopFlag())


def a_plan_beside(plan: ExtractPlan) -> ExtractPlan:
    targets = tuple(replace(t, store=f"{t.store}-beside") for t in plan.targets)
    return replace(plan, targets=targets)


class KilledWorker(Exception):
    """An error with the name of the one of Dask."""


def test_units_lost_with_their_workers_are_made_again(
    plan: ExtractPlan, undisturbed: dict[str, bytes], pool: DecodePool
) -> None:
    seen: list[int] = []
    make = made_here(plan)

    def ends(unit: int) -> StubFuture:
        seen.append(unit)
        if seen.count(unit) == 1 and unit % 3 == 0:
            return StubFuture("error", KilledWorker())
        return StubFuture("cancelled") if seen.count(unit) == 1 and unit % 3 == 1 else make(unit)

    dask_engine.extract_on(connected(StubClient(ends)), plan, [Resources()], StopFlag())
    assert array_bytes(Path(plan.targets[0].store)) == undisturbed
    assert sorted(seen) == sorted([*range(N_UNITS), *(u for u in range(N_UNITS) if u % 3 < 2)])


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KilledWorker(), "was lost with its worker 21 times"),
        (ModuleNotFoundError("No module named 'obygaze_features'"), "install the same obygaze"),
        (FixInput("bad", hint="as it was"), "as it was"),
    ],
)
def test_errors_that_end_a_run(plan: ExtractPlan, error: Exception, message: str) -> None:
    client = StubClient(lambda unit: StubFuture("error", error))
    with pytest.raises(ObygazeError) as caught:
        dask_engine.extract_on(connected(client), plan, [Resources()], StopFlag())
    assert message in str(caught.value)


def test_the_number_of_submitted_units_is_limited(
    plan: ExtractPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = StopFlag()
    submitted: list[int] = []

    def ends(unit: int) -> StubFuture:
        submitted.append(unit)
        return StubFuture("pending")

    client = StubClient(ends, workers={"tcp://a": ("k",), "tcp://b": ("k",)})
    looks: list[int] = []

    def processing() -> dict[str, Any]:
        looks.append(len(submitted))
        if len(looks) == 10:
            stop.signal_name = "SIGTERM"
        return client.workers

    monkeypatch.setattr(client, "processing", processing)
    assert dask_engine.extract_on(connected(client), plan, [Resources()], stop) == []
    assert submitted == [0, 1, 2, 3, 4, 5], "two for each worker, and two more"

"""Extract the units of a plan on a Dask cluster.

Only the commits of the stores decide what is done, since a cluster may die at any moment; the next
cluster gets what is missing.
"""

import asyncio
import contextlib
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.extras import need
from obygaze_features.extraction.plan import ExtractPlan, plan_from_bytes
from obygaze_features.extraction.run import (
    SILENT,
    Event,
    LoadedTarget,
    Monitor,
    Resources,
    Watch,
    extract_rows,
    load_targets,
    pending_work,
    refuse_unusable,
)
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.extraction.status import StoreStatus, missing_units, plan_status
from obygaze_features.video.pool import DecodePool

distributed = need("distributed", "cluster", "extraction on a Dask cluster")

POLL_S = 0.05
LOOK_S = 1.0
ANSWER_S = 5.0
# After so long without a working worker, the cluster is considered lost.
PATIENCE_S = 15.0
# The same for the first worker, which may import its packages from a slow shared disk.
FIRST_WORKER_S = 120.0
STOP_S = 10.0
MAX_FAILED_CLUSTERS = 3
MAX_KILLS = 20


class ClusterLost(ObygazeError):
    """The cluster has no working worker; run the command again, or start a new cluster."""


def extract_on(
    connect: Callable[[], AbstractContextManager[Any]],
    plan: ExtractPlan,
    shares: Sequence[Resources],
    stop: StopFlag,
    *,
    rebuild: bool = True,
    monitor: Monitor = SILENT,
) -> list[StoreStatus]:
    """Extract what is missing of a plan's stores on a Dask cluster and return their status.

    Args:
        connect: Connects to the cluster, as `partial(start_cluster, 2)` does.
        plan: The clips, backbones and stores.
        shares: What each worker may use, in turns; one for all workers is enough.
        stop: The flag that stops the run.
        rebuild: Connect again if the cluster is lost.
        monitor: What to report of each clip, and whether to stop at the first that fails.
    """
    refuse_unusable(plan)
    units = missing_units(plan)
    n_rows = sum(len(plan.unit_range(unit)) for unit in units)
    run = _ClusterRun(shares, Watch(monitor, n_rows, plan, stop))
    failed_clusters = 0
    while units and not stop:
        try:
            with connect() as client:
                run.extract(client, units)
        except ClusterLost:
            if not rebuild:
                raise
        left = missing_units(plan)
        failed_clusters = failed_clusters + 1 if len(left) == len(units) else 0
        if failed_clusters == MAX_FAILED_CLUSTERS and not stop:
            raise ClusterLost(
                f"the cluster failed {failed_clusters} times without finishing a unit",
                hint="use --engine local to see the error",
            )
        units = left
    return plan_status(plan)


class _ClusterRun:
    """An extraction on clusters, one after another; few units are submitted at a time."""

    def __init__(self, shares: Sequence[Resources], watch: Watch) -> None:
        self.shares, self.watch, self.stop = shares, watch, watch.stop
        self.kills: Counter[int] = Counter()

    def extract(self, client: Any, units: Sequence[int]) -> None:
        """Run until all units are done, a stop is requested, or the cluster is lost."""
        self.client, self.todo = client, deque(units)
        self.name = f"obygaze-{uuid.uuid4().hex}"
        self.futures: dict[Any, int] = {}
        self.n_workers = 0
        self.patience_s = FIRST_WORKER_S
        self.alive_at, self.looked_at = time.monotonic(), 0.0
        plan = self.watch.plan.to_bytes()
        maker = UnitMaker(self.name, plan, self.shares, self.watch.monitor.strict)
        self._ask(client.register_plugin, maker, self.name, within_s=FIRST_WORKER_S)
        try:
            while (self.todo or self.futures) and not self.stop:
                self._look()
                self._submit()
                done = [future for future in self.futures if future.done()]
                for future in done:
                    self._take(future, self.futures.pop(future))
                    future.release()
                if not done:
                    time.sleep(POLL_S)
        finally:
            self._end()

    def _submit(self) -> None:
        most = 2 * self.n_workers + 2 if self.n_workers else 0
        while self.todo and len(self.futures) < most:
            unit = self.todo.popleft()
            key = f"{self.name}-{unit}-{uuid.uuid4().hex[:8]}"
            submit = partial(self.client.submit, key=key, pure=False)
            self.futures[self._ask(submit, make_unit, self.name, unit)] = unit

    def _take(self, future: Any, unit: int) -> None:
        if future.status == "finished":
            self.alive_at, self.patience_s = time.monotonic(), PATIENCE_S
            # The events are lost if the worker has ended.
            with contextlib.suppress(ClusterLost):
                for event in self._ask(future.result, ANSWER_S):
                    self.watch.report(event)
        elif future.status == "error":
            self._handle_error(unit, self._ask(future.exception, ANSWER_S))
        else:
            # The scheduler lost the unit: submit nothing before it answers again.
            self.n_workers = 0
            self.todo.append(unit)

    def _handle_error(self, unit: int, error: BaseException) -> None:
        """Retry a unit that was lost with its worker; raise other errors."""
        if isinstance(error, ObygazeError):
            raise error
        if type(error).__name__ != "KilledWorker":
            raise ObygazeError(
                f"unit {unit}: {type(error).__name__}: {error}",
                hint="install the same obygaze on every worker",
            ) from error
        self.kills[unit] += 1
        if self.kills[unit] > MAX_KILLS:
            raise ObygazeError(
                f"unit {unit} was lost with its worker {self.kills[unit]} times",
                hint="use --engine local to see the error",
            ) from error
        self.todo.append(unit)

    def _look(self) -> None:
        """Count the workers; raise ClusterLost if none has worked for too long."""
        if time.monotonic() - self.looked_at < LOOK_S:
            return
        try:
            held = self._ask(self.client.processing)
        except ClusterLost:
            held = {}
        self.looked_at = time.monotonic()
        self.n_workers = len(held)
        if any(held.values()):
            self.alive_at, self.patience_s = time.monotonic(), PATIENCE_S
        elif self.looked_at - self.alive_at > self.patience_s:
            raise ClusterLost(
                f"no worker of the Dask cluster has been busy for {self.patience_s:.0f} s",
                hint="run the same command again, with a cluster that has workers",
            )

    def _end(self) -> None:
        """Remove everything from the cluster; its workers finish their current clip."""
        with contextlib.suppress(ClusterLost):
            if self.futures:
                # Cancel first, so that a worker that reconnects now starts nothing.
                self._ask(self.client.cancel, list(self.futures))
                reason = self.stop.signal_name or "the end of the run"
                run = partial(self.client.run, on_error="ignore")
                self._ask(run, stop_and_wait, self.name, reason, within_s=STOP_S)
            self._ask(self.client.unregister_worker_plugin, self.name)

    def _ask(self, function: Callable[..., Any], *words: Any, within_s: float | None = None) -> Any:
        """Call a function of Dask with a time limit, since it may wait forever."""
        answer: Future[Any] = Future()
        limit = ANSWER_S if within_s is None else within_s

        def call() -> None:
            try:
                answer.set_result(function(*words))
            except Exception as error:  # noqa: BLE001 - a broken client fails in many ways
                answer.set_exception(error)

        threading.Thread(target=call, daemon=True, name="ask-dask").start()
        try:
            return answer.result(limit)
        except Exception as error:
            why = str(error) or f"no response within {limit:.0f} s"
            raise ClusterLost(
                f"the Dask cluster does not respond: {type(error).__name__}: {why}",
                hint="run the same command again, with a cluster that responds",
            ) from error


class UnitMaker(distributed.WorkerPlugin):  # type: ignore[misc,name-defined]
    """A plan on a worker; Dask gives it to every worker, also to later ones.

    The worker keeps its backbones and decoders between units.
    """

    def __init__(self, name: str, plan: bytes, shares: Sequence[Resources], strict: bool) -> None:
        self.name, self.plan_bytes, self.shares, self.strict = name, plan, shares, strict

    def setup(self, worker: Any) -> None:
        """Prepare a worker; everything slow waits for the first unit."""
        self.lock, self.stop = threading.Lock(), StopFlag()
        # The workers of a cluster of our own are numbered; others have names.
        number = worker.name if isinstance(worker.name, int) else 0
        self.resources = self.shares[number % len(self.shares)]
        self.loaded: tuple[ExtractPlan, list[LoadedTarget], DecodePool] | None = None

    def teardown(self, worker: Any) -> None:
        """Release decoders and memory, since a worker may outlive the run."""
        loaded, self.loaded = self.loaded, None
        if loaded is not None:
            loaded[2].close()

    def make(self, unit: int) -> list[Event]:
        """Commit what is missing of a unit; return an event for each of its clips."""
        events: list[Event] = []
        with self.lock:
            if self.stop:
                return events
            if self.loaded is None:
                self.resources.apply_limits()
                plan = plan_from_bytes(self.plan_bytes, self.name)
                targets = load_targets(plan, self.resources.device)
                pool = DecodePool(self.resources.workers, timeout_s=plan.timeout_s)
                self.loaded = plan, targets, pool
            plan, targets, pool = self.loaded
            work = pending_work(targets, plan, plan.unit_range(unit))
            monitor = Monitor(self.strict, on_event=events.append)
            extract_rows(work, plan, self.resources, self.stop, monitor=monitor, pool=pool)
        return events


def make_unit(name: str, unit: int) -> list[Event]:
    """Run a unit on a worker: the task that the scheduler gets."""
    maker: UnitMaker = distributed.get_worker().plugins[name]
    return maker.make(unit)


async def stop_and_wait(name: str, reason: str, dask_worker: Any) -> None:
    """Stop the unit of a worker after its current clip, with committed blocks on disk."""
    maker = dask_worker.plugins.get(name)
    if maker is not None:
        maker.stop.signal_name = reason
        while maker.lock.locked():
            await asyncio.sleep(0.05)

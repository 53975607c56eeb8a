"""Units of a plan on a Dask cluster: a bounded window of futures, and a watch over the cluster.

What is done is decided by the commits of the stores, never by what a future says: a cluster may
die at any instant, and its successor is given what is missing.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import ObygazeError
from obygaze_features.extraction.dask_cluster import ClusterLost, Connect
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.run import Machine
from obygaze_features.extraction.signals import StopFlag
from obygaze_features.extraction.sources import refuse_changed
from obygaze_features.extraction.status import StoreStatus, missing_units, store_status

POLL_S = 0.05
LOOK_S = 1.0
ANSWER_S = 5.0
# Nothing at work for so long, and the cluster is taken for dead.
PATIENCE_S = 15.0
# Until the first worker is there; it imports what it needs, on a slow shared disk too.
FIRST_WORKER_S = 120.0
STOP_S = 10.0
MOST_REBUILDS = 3
MOST_KILLS = 20
Tell = Callable[[Mapping[str, Any]], None]


@dataclass
class Work:
    """A plan under way, whichever cluster it is on just now."""

    plan: ExtractPlan
    machine: Machine
    stop: StopFlag
    strict: bool = False
    progress: Progress = field(default_factory=Quiet)
    tell: Tell | None = None
    kills: Counter[int] = field(default_factory=Counter)


def extract_on(
    connect: Connect,
    plan: ExtractPlan,
    machine: Machine,
    stop: StopFlag,
    *,
    rebuild: bool = True,
    strict: bool = False,
    progress: Callable[[int], Progress] | None = None,
    tell: Tell | None = None,
) -> list[StoreStatus]:
    """Make what is missing on a cluster; one that dies is connected to anew, if `rebuild`."""
    units = missing_units(plan)
    refuse_changed(plan)
    n_rows = sum(len(plan.unit_range(unit)) for unit in units)
    shown = progress(n_rows) if progress and units else Quiet()
    work = Work(plan, machine, stop, strict, shown, tell)
    futile = 0
    while units and not stop:
        try:
            with connect() as client:
                _Window(client, work, units).run()
        except ClusterLost:
            if not rebuild:
                raise
        left = missing_units(plan)
        futile = futile + 1 if len(left) == len(units) else 0
        if futile == MOST_REBUILDS and not stop:
            raise ClusterLost(
                f"{futile} clusters came to nothing: their workers end before a unit is done",
                hint="--engine local, which shows why",
            )
        units = left
    # Stopped early, there may be no store yet.
    stores = (target.store for target in plan.targets)
    return [store_status(store) for store in stores if Path(store).exists()]


class _Window:
    """The units under way on one cluster: no more than keep every worker busy."""

    def __init__(self, client: Any, work: Work, units: Sequence[int]) -> None:
        self.client, self.work, self.todo = client, work, deque(units)
        self.name = f"obygaze-{uuid.uuid4().hex}"
        self.futures: dict[Any, int] = {}
        self.n_workers = 0
        self.patience_s = FIRST_WORKER_S
        self.alive_at, self.looked_at = time.monotonic(), 0.0

    def run(self) -> None:
        """Until all units are done, someone asks to stop, or the cluster is lost."""
        from obygaze_features.extraction.dask_worker import UnitMaker

        work = self.work
        maker = UnitMaker(self.name, work.plan.to_bytes(), work.machine, work.strict)
        self._ask(self.client.register_plugin, maker, self.name, within_s=FIRST_WORKER_S)
        try:
            while (self.todo or self.futures) and not work.stop:
                self._look()
                self._submit()
                if not self._take_done():
                    time.sleep(POLL_S)
        finally:
            self._end()

    def _submit(self) -> None:
        from obygaze_features.extraction.dask_worker import make_unit

        most = 2 * self.n_workers + 2 if self.n_workers else 0
        while self.todo and len(self.futures) < most:
            unit = self.todo.popleft()
            key = f"{self.name}-{unit}-{uuid.uuid4().hex[:8]}"
            submit = partial(self.client.submit, key=key, pure=False)
            self.futures[self._ask(submit, make_unit, self.name, unit)] = unit

    def _take_done(self) -> bool:
        done = [future for future in self.futures if future.done()]
        for future in done:
            self._take(future, self.futures.pop(future))
            future.release()
        return bool(done)

    def _take(self, future: Any, unit: int) -> None:
        if future.status == "finished":
            self._is_alive()
            self.work.progress.advance(len(self.work.plan.unit_range(unit)))
            if self.work.tell is not None:
                # Its worker may be gone by now, and with it what it would have told.
                with contextlib.suppress(Exception):
                    for event in self._ask(future.result, ANSWER_S):
                        self.work.tell(event)
        elif future.status == "error":
            self._judge(unit, self._ask(future.exception, ANSWER_S))
        else:
            # The scheduler let go of it: nothing more before it answers again.
            self.n_workers = 0
            self.todo.append(unit)

    def _judge(self, unit: int, error: BaseException) -> None:
        """A unit that was lost with its worker is tried again; other errors end the run."""
        if isinstance(error, ObygazeError):
            raise error
        if type(error).__name__ != "KilledWorker":
            raise ObygazeError(
                f"unit {unit}: {type(error).__name__}: {error}",
                hint="the same installation of obygaze on every worker",
            ) from error
        self.work.kills[unit] += 1
        if self.work.kills[unit] > MOST_KILLS:
            raise ObygazeError(
                f"unit {unit} was lost with its workers again and again",
                hint="--engine local, which shows why",
            ) from error
        self.todo.append(unit)

    def _look(self) -> None:
        """See how many workers there are, and give the cluster up where none is at work."""
        if time.monotonic() - self.looked_at < LOOK_S:
            return
        try:
            held = self._ask(self.client.processing)
        except ClusterLost:
            held = {}
        self.looked_at = time.monotonic()
        self.n_workers = len(held)
        if any(held.values()):
            self._is_alive()
        elif self.looked_at - self.alive_at > self.patience_s:
            raise ClusterLost(
                f"no worker of the Dask cluster has been at work for {self.patience_s:.0f} s",
                hint="the same command again, with a cluster that has workers",
            )

    def _is_alive(self) -> None:
        self.alive_at, self.patience_s = time.monotonic(), PATIENCE_S

    def _end(self) -> None:
        """Leave nothing of ours on the cluster; its workers finish the clip in hand."""
        from obygaze_features.extraction.dask_worker import stop_and_wait

        with contextlib.suppress(ClusterLost):
            if self.futures:
                # First, so that a worker that comes back now has nothing to begin with.
                self._ask(self.client.cancel, list(self.futures))
                reason = self.work.stop.signal_name or "the end of the run"
                run = partial(self.client.run, on_error="ignore")
                self._ask(run, stop_and_wait, self.name, reason, within_s=STOP_S)
            self._ask(self.client.unregister_worker_plugin, self.name)

    def _ask(self, function: Callable[..., Any], *words: Any, within_s: float | None = None) -> Any:
        """Call Dask with a limit of time of our own: a client may wait for ever for its cluster."""
        answers: queue.Queue[tuple[bool, Any]] = queue.Queue()
        limit = ANSWER_S if within_s is None else within_s

        def call() -> None:
            try:
                answers.put((True, function(*words)))
            except Exception as error:  # noqa: BLE001 - a broken client fails in many ways
                answers.put((False, error))

        threading.Thread(target=call, daemon=True, name="ask-dask").start()
        try:
            good, answer = answers.get(timeout=limit)
        except queue.Empty:
            good, answer = False, TimeoutError(f"no answer within {limit:.0f} s")
        if good:
            return answer
        raise ClusterLost(
            f"the Dask cluster does not answer: {type(answer).__name__}: {answer}",
            hint="the same command again, with a cluster that runs",
        ) from answer

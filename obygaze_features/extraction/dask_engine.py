"""Extract the units of a plan on the workers of a running Dask cluster.

Only the commits of the stores decide what is done, since a cluster may be lost at any moment; the
same call then extracts what is left.
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from obygaze_features.core.errors import FixInput, FixUsage, NotFound, ObygazeError
from obygaze_features.core.lazy import need
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

ENCRYPTED = ("tls", "wss")
CONNECT_S = 15
CLOSE_S = 5
POLL_S = 0.2
# After so long without an answer of the scheduler, the cluster is considered lost.
ANSWER_S = 60.0
# The same without a busy worker, since workers may import packages from a slow shared disk.
PATIENCE_S = 120.0
AGAIN = "run the same command again, with a cluster whose workers respond"


class ClusterLost(ObygazeError):
    """The cluster does not respond, or has no busy worker; run the command again."""


@contextlib.contextmanager
def join_cluster(address: str, *, insecure: bool = False) -> Iterator[Any]:
    """Connect to a running cluster and return the client.

    Args:
        address: The address of its scheduler, or its scheduler file.
        insecure: Connect without encryption too.
    """
    found = address if "://" in address else _from_file(Path(address))
    if not insecure and not _is_private(found):
        raise FixUsage(
            f"{found} is not encrypted; anyone who reaches it can run programs as you",
            hint="use a scheduler at tls://..., or --insecure on a private network",
        )
    # Lost connections are expected here, and handled.
    for name in ("distributed", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(found, set_as_default=False, timeout=CONNECT_S)
    except (OSError, TimeoutError, TypeError, ValueError, RuntimeError) as error:
        raise NotFound(
            f"no Dask scheduler answers: {' '.join(str(error).split())[:200]}",
            where=found,
            hint="check --scheduler, and for tls:// the certificates of distributed.comm.tls",
        ) from error
    try:
        yield client
    finally:
        # A client whose scheduler is lost may fail in any way.
        with contextlib.suppress(Exception):
            client.close(timeout=CLOSE_S)


def _from_file(path: Path) -> str:
    if not path.is_file():
        hint = "use --scheduler FILE or --scheduler tls://HOST:PORT"
        raise NotFound("no scheduler file", where=str(path), hint=hint)
    try:
        return str(json.loads(path.read_bytes())["address"])
    except (ValueError, KeyError, TypeError) as error:
        raise FixInput("not a scheduler file of Dask", where=str(path)) from error


def _is_private(address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme in ENCRYPTED or parts.hostname == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    return False


def extract_on(
    client: Any,
    plan: ExtractPlan,
    resources: Resources,
    stop: StopFlag,
    *,
    monitor: Monitor = SILENT,
) -> list[StoreStatus]:
    """Extract what is missing of a plan's stores on a Dask cluster and return their status.

    Args:
        client: The client of the cluster, such as that of `join_cluster`.
        plan: The clips, backbones and stores.
        resources: What each worker may use.
        stop: The flag that stops the run.
        monitor: What to report of each clip, and whether to stop at the first that fails.
    """
    refuse_unusable(plan)
    units = missing_units(plan)
    if units and not stop:
        n_rows = sum(len(plan.unit_range(unit)) for unit in units)
        run = _ClusterRun(client, resources, Watch(monitor, n_rows, plan, stop))
        client.sync(run.extract, units)
    return plan_status(plan)


class _ClusterRun:
    """An extraction on a cluster, as coroutines of the client's event loop."""

    def __init__(self, client: Any, resources: Resources, watch: Watch) -> None:
        self.client, self.resources, self.watch = client, resources, watch
        self.name = f"obygaze-{uuid.uuid4().hex}"
        self.futures: list[Any] = []

    async def extract(self, units: Sequence[int]) -> None:
        """Run until all units are done, a stop is requested, or the cluster is lost."""
        tasks = [asyncio.create_task(one) for one in (self._make(units), self._guard())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(ClusterLost):
                await self._end()

    async def _make(self, units: Sequence[int]) -> None:
        """Submit the units, and report the events of those that are done."""
        plan, strict = self.watch.plan.to_bytes(), self.watch.monitor.strict
        maker = UnitMaker(self.name, plan, self.resources, strict)
        register = partial(self.client.register_plugin, maker, self.name)
        await self._ask(register, within_s=PATIENCE_S)
        unit = partial(make_unit, self.name)
        self.futures = self.client.map(unit, units, key=self.name, pure=False)
        async for future in distributed.as_completed(self.futures, loop=self.client.loop):
            for event in await _events_of(future):
                self.watch.report(event)
            future.release()

    async def _guard(self) -> None:
        """Return when a stop is requested; raise ClusterLost if no worker is busy for too long."""
        busy_at = time.monotonic()
        while not self.watch.stop:
            held = await self._ask(self.client.processing)
            if any(held.values()):
                busy_at = time.monotonic()
            elif time.monotonic() - busy_at > PATIENCE_S:
                raise ClusterLost(
                    f"no worker of the Dask cluster has been busy for {PATIENCE_S:.0f} s",
                    hint=AGAIN,
                )
            await asyncio.sleep(POLL_S)

    async def _end(self) -> None:
        """Remove everything from the cluster; its workers finish their current clip."""
        # Cancel first, so that a worker that reconnects now starts nothing.
        await self._ask(partial(self.client.cancel, self.futures))
        reason = self.watch.stop.signal_name or "the end of the run"
        await self._ask(
            partial(self.client.run, stop_and_wait, self.name, reason, on_error="ignore")
        )
        await self._ask(partial(self.client.unregister_worker_plugin, self.name))

    async def _ask(
        self, function: Callable[[], Awaitable[Any]], within_s: float | None = None
    ) -> Any:
        """Call a function of Dask with a time limit, since it may wait forever."""
        limit = ANSWER_S if within_s is None else within_s
        try:
            return await asyncio.wait_for(function(), limit)
        except Exception as error:
            why = str(error) or f"no response within {limit:.0f} s"
            raise ClusterLost(
                f"the Dask cluster does not respond: {type(error).__name__}: {why}", hint=AGAIN
            ) from error


async def _events_of(future: Any) -> Sequence[Event]:
    """Return the events of a unit that has ended, or raise the error of its run."""
    try:
        events: Sequence[Event] = await future
        return events
    except ObygazeError:
        raise
    except Exception as error:
        if future.cancelled():
            raise ClusterLost("the connection to the Dask cluster was lost", hint=AGAIN) from error
        hint = "check the logs of the workers; they need the same version of obygaze"
        raise ObygazeError(f"{type(error).__name__}: {error}", hint=hint) from error


class UnitMaker(distributed.WorkerPlugin):  # type: ignore[misc,name-defined]
    """A plan on a worker; Dask gives it to every worker, also to later ones.

    The worker keeps its backbones and decoders between units.
    """

    def __init__(self, name: str, plan: bytes, resources: Resources, strict: bool) -> None:
        self.name, self.plan_bytes, self.resources, self.strict = name, plan, resources, strict

    def setup(self, worker: Any) -> None:
        """Prepare a worker; everything slow waits for the first unit."""
        self.lock, self.stop = threading.Lock(), StopFlag()
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

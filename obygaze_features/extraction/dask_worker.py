"""What runs inside a Dask worker: one unit at a time, backbones and decoders kept between them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from distributed import WorkerPlugin, get_worker

from obygaze_features.extraction.etiquette import be_nice, cap_gpu_memory
from obygaze_features.extraction.plan import ExtractPlan, plan_from_bytes
from obygaze_features.extraction.run import Loaded, Machine, load_targets, make_missing
from obygaze_features.extraction.signals import StopFlag
from obygaze_features.video.pool import DecodePool


class UnitMaker(WorkerPlugin):  # type: ignore[misc]
    """A plan on a worker. Dask gives it to every worker, to those that come later too."""

    def __init__(self, name: str, plan: bytes, machine: Machine, strict: bool) -> None:
        self.name, self.plan_bytes, self.machine, self.strict = name, plan, machine, strict

    def setup(self, worker: Any) -> None:
        """Be ready; what takes time waits for the first unit."""
        self.lock, self.stop = threading.Lock(), StopFlag()
        self.plan: ExtractPlan | None = None
        self.targets: list[Loaded] = []
        self.pool: DecodePool | None = None

    def teardown(self, worker: Any) -> None:
        """Give back decoders and memory: a worker may outlive the run."""
        pool, self.pool, self.targets = self.pool, None, []
        if pool is not None:
            pool.close()

    def make(self, unit: int) -> list[Mapping[str, Any]]:
        """Commit what is missing of a unit; an event for each of its clips."""
        events: list[Mapping[str, Any]] = []
        with self.lock:
            if self.stop:
                return events
            plan = self._ready()
            make_missing(
                self.targets,
                plan,
                self.machine,
                self.stop,
                rows=plan.unit_range(unit),
                strict=self.strict,
                tell=events.append,
                pool=self.pool,
            )
        return events

    def _ready(self) -> ExtractPlan:
        if self.plan is None:
            if self.machine.nice:
                be_nice()
            if self.machine.gpu_gb is not None:
                cap_gpu_memory(self.machine.device, self.machine.gpu_gb)
            plan = plan_from_bytes(self.plan_bytes, self.name)
            self.targets = load_targets(plan, self.machine.device)
            self.pool = DecodePool(self.machine.workers, timeout_s=plan.timeout_s)
            self.plan = plan
        return self.plan


def make_unit(name: str, unit: int) -> list[Mapping[str, Any]]:
    """The task: what the scheduler sees of a unit is its number."""
    maker: UnitMaker = get_worker().plugins[name]
    return maker.make(unit)


async def stop_and_wait(name: str, reason: str, dask_worker: Any) -> None:
    """End the unit in hand after its clip, with what is committed on disk."""
    maker = dask_worker.plugins.get(name)
    if maker is not None:
        maker.stop.signal_name = reason
        while maker.lock.locked():
            await asyncio.sleep(0.05)

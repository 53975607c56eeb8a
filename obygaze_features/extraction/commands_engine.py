"""The options of `obygaze extract run` that say who does the work, and with what manners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from obygaze_features.core.errors import FixUsage
from obygaze_features.extraction.etiquette import be_nice, cap_gpu_memory, refuse_busy_gpus

if TYPE_CHECKING:
    from obygaze_features.extraction.plan import ExtractPlan
    from obygaze_features.extraction.run import Machine
    from obygaze_features.extraction.signals import StopFlag
    from obygaze_features.extraction.status import StoreStatus

F = TypeVar("F", bound=Callable[..., Any])


def manners_options(function: F) -> F:
    """The options for a machine that others use too."""
    options = [
        click.option("--gpu-mem", type=float, metavar="GB", help="Take no more of a GPU."),
        click.option("--share", is_flag=True, help="Use a GPU that others compute on, too."),
        click.option("--nice", is_flag=True, help="Step back behind all other work, disk too."),
        click.option("--max-hours", type=float, metavar="H", help="Stop cleanly after so long."),
    ]
    return _with(options, function)


def engine_options(function: F) -> F:
    """The options that choose an engine."""
    options = [
        click.option(
            "--engine",
            type=click.Choice(["local", "dask"]),
            default="local",
            show_default=True,
            help="This process, or the workers of a Dask cluster.",
        ),
        click.option("--devices", metavar="0,1", help="dask: start a worker for each; cpu too."),
        click.option("--scheduler", metavar="tls://...|FILE", help="dask: join this cluster."),
        click.option("--insecure", is_flag=True, help="dask: join one that is not encrypted."),
        click.option("--dashboard", is_flag=True, help="dask: show one at 127.0.0.1:8787."),
    ]
    return _with(options, function)


def extract_by(
    options: Mapping[str, Any],
    plan: ExtractPlan,
    machine: Machine,
    stop: StopFlag,
    **how: Any,
) -> list[StoreStatus]:
    """Extract with the engine that was chosen; `how` goes to it."""
    if options.get("engine") == "dask":
        return _by_dask(options, plan, machine, stop, **how)
    odd = [name for name in ("devices", "scheduler") if options.get(name)]
    if odd:
        raise FixUsage(f"--{odd[0]} goes with --engine dask", hint="--device for this process")
    from obygaze_features.extraction.run import extract

    if not options["share"]:
        refuse_busy_gpus([machine.device])
    if machine.nice:
        be_nice()
    if machine.gpu_gb is not None:
        cap_gpu_memory(machine.device, machine.gpu_gb)
    return extract(plan, machine, stop, **how)


def _by_dask(
    options: Mapping[str, Any],
    plan: ExtractPlan,
    machine: Machine,
    stop: StopFlag,
    *,
    rows: Any = None,
    redo: bool = False,
    changed: bool = False,
    **how: Any,
) -> list[StoreStatus]:
    if rows is not None:
        raise FixUsage(
            "--worker is for several processes of --engine local; Dask shares out itself"
        )
    if bool(options["devices"]) == bool(options["scheduler"]):
        raise FixUsage("--engine dask takes either --devices or --scheduler")
    from obygaze_features.extraction.dask_cluster import embedded, joined

    if options["scheduler"]:
        connect = joined(options["scheduler"], insecure=options["insecure"])
    else:
        devices = [part.strip() for part in options["devices"].split(",") if part.strip()]
        machine = _part_of(machine, devices)
        if not options["share"]:
            refuse_busy_gpus([f"cuda:{device}" for device in devices if device.isdigit()])
        connect = embedded(devices, dashboard=options["dashboard"])
    from obygaze_features.extraction.dask_engine import extract_on

    return extract_on(connect, plan, machine, stop, rebuild=bool(options["devices"]), **how)


def _part_of(machine: Machine, devices: list[str]) -> Machine:
    """What one worker of several may use: its own device and its share of the cores."""
    n_cpu = devices.count("cpu")
    if n_cpu not in (0, len(devices)):
        raise FixUsage("--devices are GPUs, or cpu each: other devices give other numbers")
    workers = max(1, machine.workers // max(1, len(devices)))
    return replace(machine, device="cpu" if n_cpu else "cuda", workers=workers)


def _with(options: Sequence[Callable[[Any], Any]], function: F) -> F:
    for option in reversed(options):
        function = option(function)
    return function

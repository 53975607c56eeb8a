"""Dask clusters to extract on: one of our own on this machine, or one that is there already."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from obygaze_features.core.errors import FixInput, FixUsage, NotFound, ObygazeError
from obygaze_features.core.extras import need

ENCRYPTED = ("tls", "wss")
CONNECT_S = 15
CLOSE_S = 5
# A worker that says nothing for so long is taken for dead, and its unit given to another.
WORKER_TTL_S = 15
# A unit is not to blame for its workers: they are killed for other reasons on shared machines.
ALLOWED_FAILURES = 100

# Without a dashboard, no other pages either.
NO_PAGES: dict[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}

# Dask makes workers give memory back at once; pictures, which come and go by the megabyte, then
# cost half as much again in pages that are taken and cleared anew.
KEEP_PAGES = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}

# Opens a connection for the length of a `with`.
Connect = Callable[[], contextlib.AbstractContextManager[Any]]


def embedded(devices: Sequence[str], *, dashboard: bool = False) -> Connect:
    """A cluster of our own: a process for each device, ended with the connection."""
    if not devices:
        raise FixUsage("no device was named", hint="--devices 0,1 or --devices cpu,cpu")
    need("distributed", "cluster", "extraction on several devices")
    return lambda: _embedded(devices, dashboard)


def joined(address: str, *, insecure: bool = False) -> Connect:
    """A cluster that runs already, by its address or its scheduler file."""
    need("distributed", "cluster", "extraction on a Dask cluster")
    found = address if "://" in address else _from_file(Path(address))
    if not insecure and not _is_private(found):
        raise FixUsage(
            f"{found} is not encrypted, and whoever reaches it can run programs as you",
            hint="a scheduler at tls://..., or --insecure if the network is yours alone",
        )
    return lambda: _joined(found)


@contextlib.contextmanager
def _embedded(devices: Sequence[str], dashboard: bool) -> Iterator[Any]:
    import dask
    from distributed import Client, Nanny, Scheduler, SpecCluster
    from distributed.security import Security

    _quiet()
    with tempfile.TemporaryDirectory(prefix="obygaze-dask-") as scratch:
        # Other people of this machine reach the loopback too: only we have the certificate.
        common = {
            "host": "127.0.0.1",
            "protocol": "tls://",
            "security": Security.temporary(),
            "dashboard": False,
            "dashboard_address": None,
        }
        nanny = {**common, "nthreads": 1, "memory_limit": None, "local_directory": scratch}
        nanny["silence_logs"] = logging.CRITICAL
        scheduler = {
            **common,
            "allowed_failures": ALLOWED_FAILURES,
            "worker_ttl": WORKER_TTL_S,
            "dashboard": dashboard,
            # Without an address Dask would want 8787 too, and complain where others have it.
            "dashboard_address": "127.0.0.1:8787" if dashboard else "127.0.0.1:0",
        }
        workers = {
            i: {"cls": Nanny, "options": {**nanny, "env": _environment(device)}}
            for i, device in enumerate(devices)
        }
        try:
            with contextlib.ExitStack() as stack:
                settings = KEEP_PAGES if dashboard else {**KEEP_PAGES, **NO_PAGES}
                stack.enter_context(dask.config.set(settings))
                cluster = SpecCluster(
                    workers=workers,
                    scheduler={"cls": Scheduler, "options": scheduler},
                    security=common["security"],
                    silence_logs=logging.CRITICAL,
                )
                stack.callback(_close, cluster)
                client = Client(cluster, set_as_default=False, timeout=CONNECT_S)
                stack.callback(_close, client)
                yield client
        finally:
            _end_processes()


@contextlib.contextmanager
def _joined(address: str) -> Iterator[Any]:
    from distributed import Client

    _quiet()
    try:
        client = Client(address, set_as_default=False, timeout=CONNECT_S)
    except (OSError, TimeoutError, TypeError, ValueError, RuntimeError) as error:
        raise NotFound(
            f"no Dask scheduler answers: {' '.join(str(error).split())[:200]}",
            where=address,
            hint="its address, and for tls:// the certificates of distributed.comm.tls",
        ) from error
    try:
        yield client
    finally:
        _close(client)


def _environment(device: str) -> dict[str, str]:
    """What a worker sees of the GPUs: its own one; a number counts among those we see."""
    if device == "cpu":
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else []
    if visible is not None and device.isdigit():
        if int(device) >= len(names):
            raise FixUsage(f"there is no GPU {device} among CUDA_VISIBLE_DEVICES={visible}")
        device = names[int(device)]
    return {"CUDA_VISIBLE_DEVICES": device.strip()}


def _from_file(path: Path) -> str:
    if not path.is_file():
        raise NotFound("there is no scheduler file here", where=str(path), hint="tls://HOST:PORT")
    try:
        return str(json.loads(path.read_bytes())["address"])
    except (ValueError, KeyError, TypeError) as error:
        raise FixInput("this is not the file of a Dask scheduler", where=str(path)) from error


def _is_private(address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme in ENCRYPTED:
        return True
    host = parts.hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _close(thing: Any) -> None:
    """Close a client or a cluster that may be broken; what it leaves is ended below."""
    with contextlib.suppress(Exception):
        thing.close(timeout=CLOSE_S)


def _end_processes() -> None:
    for child in multiprocessing.active_children():
        if child.name.startswith("Dask Worker"):
            child.kill()
            child.join(CLOSE_S)


def _quiet() -> None:
    # Lost connections are what this engine is for: they are no news to the person.
    for name in ("distributed", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


class ClusterLost(ObygazeError):
    """No worker is at work and none comes back: the same command again, or a new cluster."""

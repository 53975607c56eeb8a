"""Dask clusters to extract on: a new one on this machine, or one that is running already."""

import contextlib
import ipaddress
import json
import logging
import multiprocessing
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.extras import need

ENCRYPTED = ("tls", "wss")
CONNECT_S = 15
CLOSE_S = 5
SCHEDULER: dict[str, Any] = {
    # Without an address, Dask takes port 8787, and warns if it is in use.
    "dashboard_address": "127.0.0.1:0",
    # After so long without a message, a worker is considered dead; its unit is given to another.
    "worker_ttl": 15,
    # Workers on shared machines are often killed for reasons other than their unit.
    "allowed_failures": 100,
}
SETTINGS: dict[str, Any] = {
    # No web pages.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # Returning memory to the system at once makes decoding take half as long again.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
}


@contextlib.contextmanager
def start_cluster(n_workers: int) -> Iterator[Any]:
    """Start a cluster on this machine and return its client; the cluster ends with the `with`."""
    distributed = need("distributed", "cluster", "extraction on several devices")
    import dask

    _quiet()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="obygaze-dask-"))
        stack.callback(_end_processes)
        stack.enter_context(dask.config.set(SETTINGS))
        cluster = distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit=None,
            local_directory=folder,
            # Other users of this machine reach the loopback too, but not with the certificate.
            security=True,
            dashboard_address=None,
            scheduler_kwargs=SCHEDULER,
            silence_logs=logging.CRITICAL,
        )
        stack.callback(_close, cluster)
        client = distributed.Client(cluster, set_as_default=False, timeout=CONNECT_S)
        stack.callback(_close, client)
        yield client


@contextlib.contextmanager
def join_cluster(address: str, *, insecure: bool = False) -> Iterator[Any]:
    """Connect to a running cluster and return the client.

    Args:
        address: The address of its scheduler, or its scheduler file.
        insecure: Connect without encryption too.
    """
    distributed = need("distributed", "cluster", "extraction on a Dask cluster")
    found = address if "://" in address else _from_file(Path(address))
    if not insecure and not _is_private(found):
        raise FixUsage(
            f"{found} is not encrypted; anyone who reaches it can run programs as you",
            hint="use a scheduler at tls://..., or --insecure on a private network",
        )
    _quiet()
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
        _close(client)


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


def _close(thing: Any) -> None:
    """Close a client or a cluster that may be broken."""
    with contextlib.suppress(Exception):
        thing.close(timeout=CLOSE_S)


def _end_processes() -> None:
    for child in multiprocessing.active_children():
        if child.name.startswith("Dask Worker"):
            child.kill()
            child.join(CLOSE_S)


def _quiet() -> None:
    # Lost connections are expected here, and handled.
    for name in ("distributed", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

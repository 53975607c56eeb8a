"""Servers of a film page that end with SIGKILL at a chosen place of a save."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from obygaze.films.page.routes import server_of
from obygaze.films.page.site import Site
from support.kills import changes_disk


@dataclass
class KilledServer:
    """A server in a process of its own."""

    pid: int
    port: int
    host: str
    cookie: str
    secret: str
    address: str
    orders: int
    is_over: bool = False

    def kill_at(self, place: int) -> None:
        """End the process at this place of the changes of the disk from now on, from 1."""
        os.write(self.orders, f"{place}\n".encode())

    def ended(self) -> bool:
        """Whether the process has ended by now."""
        if self.is_over:
            return True
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
            self.is_over = True
        return self.is_over

    def end(self) -> None:
        """End the process at once, wherever it is."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def start(page: Site, port: int = 0) -> KilledServer:
    """Return a running server of a page, in a fork of this process."""
    if page.marks:
        page.marks.read()  # as a program does that starts
    facts_in, facts_out = os.pipe()
    orders_in, orders_out = os.pipe()
    with warnings.catch_warnings():
        # Threads of BLAS are idle.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        os.close(facts_in)
        os.close(orders_out)
        _serve(page, port, facts_out, orders_in)
    os.close(facts_out)
    os.close(orders_in)
    with os.fdopen(facts_in) as stream:
        facts = json.loads(stream.readline())
    return KilledServer(pid, orders=orders_out, **facts)


@contextmanager
def running(page: Site, port: int = 0) -> Iterator[KilledServer]:
    """A server that is ended with SIGKILL if it has not ended before."""
    server = start(page, port)
    try:
        yield server
    finally:
        os.close(server.orders)
        if not server.ended():
            server.end()


def _serve(page: Site, port: int, facts_out: int, orders_in: int) -> None:
    """Serve a page until a place that was ordered; the process never returns."""
    places = _Places()
    try:
        sys.addaudithook(places.audit)
        os.replace = places.counted(os.replace)  # type: ignore[assignment]
        os.fsync = places.counted(os.fsync)  # type: ignore[assignment]
        with server_of(page, port) as server:
            facts = {
                "port": server.server_port,
                "host": server.host,
                "cookie": server.cookie,
                "secret": server.secret,
                "address": server.new_address(),
            }
            os.write(facts_out, f"{json.dumps(facts)}\n".encode())
            os.close(facts_out)
            threading.Thread(target=places.obey, args=(orders_in,), daemon=True).start()
            server.serve_forever()
    finally:
        os._exit(1)


class _Places:
    """Counts changes of the disk: before each, and after a file has its name or is synced."""

    def __init__(self) -> None:
        self.left = 0

    def obey(self, orders_in: int) -> None:
        with os.fdopen(orders_in) as stream:
            for line in stream:
                self.left = int(line)

    def reached(self) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if changes_disk(event, arguments):
            self.reached()

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            self.reached()
            return result

        return call

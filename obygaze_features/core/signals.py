"""Signals that stop a command."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from obygaze_features.core import system


@contextmanager
def on_signals(
    names: Sequence[str], handler: Callable[[int, object], object]
) -> Iterator[None]:
    """Call a handler for signals to the main thread while the block runs.

    Outside the main thread, such as in a Dask worker, no handler is set, because Python forbids it.
    If a command was started with `nohup`, closing its terminal still has no effect.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in names:
            number = getattr(signal, name)
            is_ignored = signal.getsignal(number) == signal.SIG_IGN
            if not (is_ignored and name in system.HANGUP_SIGNALS):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)

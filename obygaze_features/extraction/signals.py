"""A run that is asked to stop ends at the next clip, with everything committed kept."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from obygaze_features.core.errors import EXIT_INTERRUPTED, Stopped

# What clusters send before they take the machine away.
POLITE = ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT")


@dataclass
class StopFlag:
    """Whether somebody asked to stop, and by which signal; asking twice interrupts at once."""

    signal_name: str = ""

    def __bool__(self) -> bool:
        return bool(self.signal_name)

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """The signal handler."""
        name = signal.Signals(number).name
        if self.signal_name and name == "SIGINT":
            raise KeyboardInterrupt
        self.signal_name = self.signal_name or name

    def raise_if_asked(self, left: str) -> None:
        """End a run that was stopped: exit 75, or 130 for Ctrl-C."""
        if not self:
            return
        error = Stopped(
            f"stopped by {self.signal_name}, {left}", hint="the same command again, to go on"
        )
        if self.signal_name == "SIGINT":
            error.exit_code = EXIT_INTERRUPTED
        raise error


@contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """Catch the polite signals for the length of a run. Enter it before slow imports."""
    flag = StopFlag()
    before = {name: signal.signal(getattr(signal, name), flag.ask) for name in POLITE}
    try:
        yield flag
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)

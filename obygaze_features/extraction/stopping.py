"""Stop on signals, and keep finished blocks."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from obygaze_features.core import system
from obygaze_features.core.console import silent
from obygaze_features.core.errors import EXIT_INTERRUPTED, Stopped
from obygaze_features.core.signals import on_signals

STOPPING = (
    "stopping after the current batch; press Ctrl-C again to stop at once;"
    " in both cases, all finished blocks are kept"
)
RESUME = "run the same command again to resume"


@dataclass
class StopFlag:
    """Whether a stop was requested, and by which signal.

    A second Ctrl-C raises KeyboardInterrupt immediately.

    `note` is called with a sentence when the first signal arrives.
    """

    signal_name: str = ""
    note: Callable[[str], object] = field(default=silent, compare=False, repr=False)

    def __bool__(self) -> bool:
        return bool(self.signal_name)

    def handle(self, number: int, frame: object = None) -> None:
        """Handle a signal."""
        name = signal.Signals(number).name
        if self.signal_name and name == "SIGINT":
            raise KeyboardInterrupt
        is_first = not self.signal_name
        self.signal_name = self.signal_name or name
        if is_first:
            # Ctrl-C may have ended the program that reads the notes, and a handler cannot write
            # while the main program writes.
            with contextlib.suppress(OSError, RuntimeError):
                self.note(STOPPING)

    def raise_if_stopped(self, kept: str) -> None:
        """Raise the error of a run that was stopped: exit code 75, or 130 for Ctrl-C."""
        if not self:
            return
        error = Stopped(f"stopped by {self.signal_name}: {kept}", hint=RESUME)
        if self.signal_name == "SIGINT":
            error.exit_code = EXIT_INTERRUPTED
        raise error


@contextlib.contextmanager
def stop_on_signals(note: Callable[[str], object] = silent) -> Iterator[StopFlag]:
    """Return a flag that is set by a signal to the main thread.

    Begin the `with` block before slow imports, so a signal during the imports is not lost.

    Args:
        note: Callback for a sentence at the first signal.
    """
    flag = StopFlag(note=note)
    with on_signals(system.STOP_SIGNALS, flag.handle):
        yield flag

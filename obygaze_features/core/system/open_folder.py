"""The interface of a folder that was opened to be locked."""

import os
from pathlib import Path
from typing import Protocol


class OpenFolder(Protocol):
    """A folder that was opened, and stays the same one whatever its name becomes.

    A lock ends with `close`, and with its process, whatever ended that.
    """

    # The name under which it was opened; its holder changes it after a rename.
    path: Path

    def lock(self, *, wait: bool = False) -> bool:
        """Lock the folder; return False where its file system has no locks.

        Without `wait` it raises `BlockingIOError` where another process has the lock.
        """

    def status(self) -> os.stat_result:
        """Return the status of the folder."""

    def is_at(self, path: Path) -> bool:
        """Return whether this folder, and no other one, has a name now."""

    def touch(self, time_s: float | None = None) -> None:
        """Set the time at which the folder was changed last, by default to now."""

    def close(self) -> None:
        """Release the lock; it may be called twice."""

"""Says in words what disks say in numbers: full, or not to be written."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from obygaze_features.core.errors import FixInput

_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what goes wrong on the disk of a store into an error a person can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise FixInput(
                "the disk is full; what was committed before is safe",
                where=str(path),
                hint="make room, then the same command again",
            ) from error
        if error.errno in _CLOSED:
            raise FixInput(
                f"this folder cannot be written: {error.strerror}",
                where=str(path),
                hint="a store of your own: another name, or obygaze store subset",
            ) from error
        raise

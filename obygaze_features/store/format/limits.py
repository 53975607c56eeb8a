"""Check what is needed before it is used: memory, disk, the sizes of documents."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from obygaze_features.core import system
from obygaze_features.core.console import human
from obygaze_features.core.errors import Corrupt, FixInput

# A completely full disk harms other users of it.
SPARE_BYTES = 64_000_000
# A seal of a million clips has 20 MB; store.json and zarr.json do not grow with their number.
DOCUMENT_BYTES = 256_000_000
SMALL_DOCUMENT_BYTES = 4_000_000
LICENCE_BYTES = 1_000_000
# The card of a store or a model.
CARD_BYTES = 10_000_000
# By the end of a name; the first that fits. Models are read by the same code as stores.
_MOST_BYTES = {
    "README.md": CARD_BYTES,
    "store.json": SMALL_DOCUMENT_BYTES,
    "zarr.json": SMALL_DOCUMENT_BYTES,
    "licence.json": LICENCE_BYTES,
    ".json": DOCUMENT_BYTES,
    ".safetensors": 2_000_000_000,
}
_LEAST_BYTES = min(_MOST_BYTES.values())
_FULL = (errno.ENOSPC, errno.EDQUOT)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def check_memory(
    n_bytes: int, subject: str, where: str, hint: str | None = None
) -> None:
    """Raise an error if `n_bytes` are more than this machine's memory."""
    total = system.memory_bytes()
    if n_bytes > total:
        raise FixInput(
            f"{subject} needs {human(n_bytes)} of memory, this machine has {human(total)}",
            where=where,
            hint=hint,
        )


def check_document(name: str, n_bytes: int, where: str) -> None:
    """Raise an error for a file that is longer than any of its kind; ask before reading it."""
    if n_bytes <= _LEAST_BYTES:
        return
    most = next(
        (most for end, most in _MOST_BYTES.items() if name.endswith(end)), n_bytes
    )
    if n_bytes > most:
        raise Corrupt(
            f"{name} has {human(n_bytes)}, expected at most {human(most)}",
            where=where,
            hint="fetch it again from a source that you trust",
        )


def check_disk(n_bytes: int, folder: Path) -> None:
    """Raise an error if `n_bytes` do not fit on the disk of `folder`."""
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if n_bytes + SPARE_BYTES > free:
        raise FixInput(
            f"{human(n_bytes)} are needed and {human(free)} are free on this disk, of which"
            f" {human(SPARE_BYTES)} must stay free",
            where=str(folder),
            hint="choose another disk, or fewer arrays or films",
        )


def is_disk_full(error: OSError) -> bool:
    """Return whether there is no more room on the disk, or in the user's share of it."""
    return error.errno in _FULL


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Explain a full or read-only disk while a store is written."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise FixInput(
                "the disk is full; what was committed before is safe",
                where=str(path),
                hint="free some space, then run the same command again",
            ) from error
        if error.errno in _READ_ONLY:
            raise FixInput(
                f"this folder cannot be written: {error.strerror}",
                where=str(path),
                hint="choose another folder, or copy with obygaze store subset",
            ) from error
        raise

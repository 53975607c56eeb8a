"""Files as the rest of the house needs them: written whole or not at all, hashed, confined."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, BinaryIO

from obygaze_features.core.errors import AlreadyThere, FixInput


def canonical_json(value: Any) -> bytes:
    """The one spelling of a JSON value: what fingerprints are computed over."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8")


def pretty_json(value: Any) -> bytes:
    """JSON for people and for diffs: indented, keys in the order given, one final newline."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def sha256_bytes(data: bytes) -> str:
    """The sha256 of some bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """The sha256 of a file, in hex, read once and never held in memory."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync_dir(path: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _synced_temporary(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A temporary file beside `path`, synced when the block ends, gone if it fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), 0o666 & ~_umask())
            yield stream, temporary
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    # Reading the mask means setting it; stores are shared, so files must not stay 0600.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file in one step: readers see the old bytes or the new ones, never a part."""
    with _synced_temporary(path) as (stream, temporary):
        stream.write(data)
    temporary.replace(path)
    sync_dir(path.parent)


def write_exclusive(path: Path, data: bytes) -> bool:
    """Create a file in one step; False, and nothing changed, where one of that name exists."""
    with _synced_temporary(path) as (stream, temporary):
        stream.write(data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_dir(path.parent)
    return True


def write_new(path: Path, data: bytes, *, force: bool = False) -> None:
    """Write a result; the same bytes again are fine, other bytes only with `force`."""
    if path.exists() and not force:
        if path.is_file() and path.read_bytes() == data:
            return
        raise AlreadyThere(
            "this name is taken by something else",
            where=str(path),
            hint="another name with -o, or --force to replace it",
        )
    write_atomic(path, data)


def confined(root: Path, relative: str) -> Path:
    """The path of `relative` under `root`; an error where it could lead out of it."""
    pure, foreign = PurePosixPath(relative), PureWindowsPath(relative)
    leads_out = (
        not relative
        or "\x00" in relative
        or pure.is_absolute()
        or bool(foreign.drive or foreign.root)
        or ".." in pure.parts
        or ".." in foreign.parts
    )
    if leads_out:
        raise FixInput(f"the path {relative!r} leaves its folder", where=str(root))
    path = root / pure
    if not path.resolve().is_relative_to(root.resolve()):
        raise FixInput(f"the path {relative!r} leaves its folder by a link", where=str(root))
    return path

"""Write a file or folder under a hidden name, then rename it; replace only results of obygaze.

A draft is written in a hidden folder, which is held as long as its process runs (`core.holds`). A
draft that a killed process left is removed by the next call for the same name.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from obygaze_features.core import system
from obygaze_features.core.errors import Stopped
from obygaze_features.core.files import sync_dir, take_name
from obygaze_features.core.holds import (
    TAG,
    HeldFolder,
    hold_new,
    take_over,
)
from obygaze_features.core.own_results import (
    OwnFolder,
    check_file,
    check_folder,
    check_name,
)

# In the hidden folder: what is written, and what it replaces where names cannot be exchanged.
DRAFT = "draft"
OLD = "old"
_MAX_NAME_BYTES = 100


@contextmanager
def new_folder(
    folder: Path, expected: OwnFolder, *, force: bool = False
) -> Iterator[Path]:
    """Yield an empty folder to fill; when the block ends, it gets its name in one step.

    If the file system can exchange two names, the old folder or the new one has the name at every
    time. Otherwise a process that is killed between two renames leaves the old folder under a
    hidden name, and the next call renames it back.
    """
    target = check_folder(folder, expected, force=force)
    with draft_beside(target) as draft:
        draft.mkdir()
        if target.is_dir():
            shutil.copymode(target, draft)
        yield draft
        check_folder(folder, expected, force=force)
        _take_folder_name(draft, target)


@contextmanager
def new_file(
    path: Path, expected: OwnFolder | None = None, *, force: bool = False
) -> Iterator[Path]:
    """Yield a hidden name to write to; when the block ends, the file gets its name in one step.

    With `force` it may replace a file, but only one of its own kind if that is given.
    """
    check_file(path, force=force, expected=expected)
    with draft_beside(path) as draft:
        yield draft
        _sync(draft)
        if force:
            check_file(path, force=True, expected=expected)
            system.replace_file(draft, path)
        elif not take_name(draft, path):
            check_file(path, force=False)
    sync_dir(path.parent)


@contextmanager
def draft_beside(path: Path) -> Iterator[Path]:
    """Yield a hidden name beside `path`; a file or folder of this name is removed at the end."""
    check_name(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path)
    held = hold_new(
        path.parent, f".{short_name(path)}~", ".draft", mode=system.PRIVATE_MODE
    )
    try:
        with stop_when_lost(held, path):
            yield held.path / DRAFT
    finally:
        with suppress(OSError):
            _remove(held.path)
        held.release()


@contextmanager
def stop_when_lost(held: HeldFolder, path: Path) -> Iterator[None]:
    """Stop the command (exit code 75) if a file is missing as another machine took the draft over.

    Args:
        held: The hidden folder of the draft.
        path: What the draft is for.
    """
    try:
        yield
    except FileNotFoundError as error:
        if not held.is_lost():
            raise
        # What was made anew below the name that this process no longer has.
        shutil.rmtree(held.path, ignore_errors=True)
        raise Stopped(
            "another machine took this work over: for two minutes this one gave no sign of life",
            where=str(path),
            hint="the same command again",
        ) from error


def remove_abandoned(path: Path) -> None:
    """Remove the drafts of `path` that killed processes left."""
    start = f".{short_name(path)}~"
    form = re.compile(TAG + r"\.draft")
    for left in sorted(path.parent.iterdir()):
        match = form.fullmatch(left.name.removeprefix(start))
        if match is None or not left.name.startswith(start):
            continue
        with suppress(OSError):
            # In a shared folder anyone can make such a name.
            if system.is_own(left.lstat()):
                _remove_if_abandoned(left, match, path)


def _remove_if_abandoned(left: Path, match: re.Match[str], path: Path) -> None:
    """Remove a draft whose process ended; what it was to replace gets its name back."""
    opened = take_over(left, match)
    if opened is None:
        return
    try:
        replaced = left / OLD
        if os.path.lexists(replaced) and not os.path.lexists(path):
            system.rename_folder(replaced, path)
        if os.path.lexists(left):
            _remove(left)
    finally:
        opened.close()


def short_name(path: Path) -> str:
    """Return the name of a path, or a hash of it where a longer hidden name would be too long."""
    name = os.fsencode(path.name)
    return (
        path.name
        if len(name) <= _MAX_NAME_BYTES
        else hashlib.sha256(name).hexdigest()[:32]
    )


def _take_folder_name(draft: Path, target: Path) -> None:
    replaces = target.is_dir() and any(target.iterdir())
    for parent, _, names in os.walk(draft):
        # Files that replace others must be on the disk before the old ones are removed.
        if replaces:
            for name in names:
                _sync(Path(parent, name))
        sync_dir(Path(parent))
    if not replaces:
        system.rename_folder(draft, target)
    elif not system.exchange_names(draft, target):
        old = draft.with_name(OLD)
        system.rename_folder(target, old)
        try:
            system.rename_folder(draft, target)
        except OSError:
            system.rename_folder(old, target)
            raise
    sync_dir(target.parent)


def _sync(path: Path) -> None:
    if not path.is_symlink():
        system.sync_path(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

"""Commit whole blocks from several processes into one store, without a lock server.

A block is prepared in a folder of its own below staging/, then *claimed* by renaming that folder
to staging/block-XXXXX, which only one process can do. From then on what the block will be is
decided and on disk, and any process can finish it: link the marker to commits/block-XXXXX.0.taken,
a name that stays until the store is sealed, move the files to their places, sync, and link the
marker. A process that is killed leaves an attempt (litter) or a claim (finished by the next run);
nothing else ever writes a file that a marker lists.

NFS caches for up to 30 s that a file is absent. Looking for a marker is therefore only a short cut:
the exclusive link to the name that stays, which the server answers, prevents a second commit.
"""

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from obygaze_features.core import system
from obygaze_features.core.errors import Corrupt, Mismatch
from obygaze_features.core.files import (
    is_listed,
    sha256_file,
    sync_dir,
    take_name,
    write_atomic,
    write_exclusive,
    write_synced,
)
from obygaze_features.core.holds import STALE_AFTER_S, TAG, hold_new, take_over
from obygaze_features.store.format.makers import Kind
from obygaze_features.store.format.records import (
    FirstKind,
    Marker,
    Plan,
    Seal,
    marker_key,
)
from obygaze_features.store.format.schema import OK, FileMark

# There is a staging/ as long as blocks can change; sealing moves it away first.
STAGING = "staging"
SEALING = "staging.sealing"
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY)
_ATTEMPT = re.compile(rf"(?:block-(?P<block>\d{{5,}})|text)\.{TAG}")
_CLAIM = re.compile(r"block-(?P<block>\d{5,})")


class AttemptGone(Exception):
    """Another process removed this attempt as litter, or seals the store: check again."""


def read_marker(root: Path, block: int) -> Marker | None:
    """Return the marker of a block; None where the block was never committed."""
    path = root / marker_key(block)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return Marker.from_bytes(data, str(path))


def pending_blocks(root: Path, plan: Plan) -> list[int]:
    """Return the blocks that are not committed, in order; claims do not count."""
    marker_names = {path.name for path in _listed(root / "commits")}
    # Asked last: a store sealed meanwhile loses its markers.
    if is_listed(root / Seal.FILE):
        return []
    names = ((block, Path(marker_key(block)).name) for block in range(plan.n_blocks))
    return [block for block, name in names if name not in marker_names]


@contextmanager
def prepared(
    root: Path, marker: Marker, data: Mapping[str, Sequence[Any]]
) -> Iterator[Path]:
    """Yield a new folder below staging/: an attempt, with a block's files and marker, synced.

    It is removed at the end, unless it was claimed.
    """
    with attempt_folder(root, f"block-{marker.block:05d}") as attempt:
        tag = attempt.name.partition(".")[2]
        try:
            for index, name in enumerate(sorted(data)):
                with (attempt / f"{index}.{tag}").open("xb") as stream:
                    stream.writelines(data[name])
                    stream.flush()
                    system.sync_file(stream.fileno())
            write_synced(attempt / f"marker.{tag}", marker.to_bytes())
            sync_dir(attempt)
        except FileNotFoundError as error:
            raise AttemptGone from error
        yield attempt


@contextmanager
def attempt_folder(root: Path, name: str) -> Iterator[Path]:
    """Yield a new folder below staging/, held; it is removed at the end, if it has its name."""
    try:
        # Its lease is not renewed: it is short, and its process can try again.
        held = hold_new(root / STAGING, f"{name}.", renewed=False)
    except FileNotFoundError as error:
        raise AttemptGone from error
    try:
        yield held.path
    finally:
        if os.path.lexists(held.path):
            discard(held.path)
        held.release()


def claim(attempt: Path) -> bool:
    """Make this attempt the content of its block; return False where another one was earlier."""
    try:
        return rename_new(attempt, attempt.with_name(attempt.name.partition(".")[0]))
    except FileNotFoundError as error:
        raise AttemptGone from error


def rename_new(folder: Path, target: Path) -> bool:
    """Rename a folder; return False where another folder has the name."""
    try:
        system.rename_folder(folder, target)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        return False
    return True


def finish_claim(root: Path, block: int, staging: str = STAGING) -> None:
    """Complete the claim of a block, if there is one; any process may, and two may at once."""
    folder = root / staging / f"block-{block:05d}"
    claim = _claimed_marker(folder)
    if claim is not None:
        marker, tag = claim
        is_closed = (
            is_listed(root / Seal.FILE) if staging == SEALING else _is_closed(root)
        )
        is_open = not is_closed and _current_checksum(root, block) == marker.replaces
        try:
            if is_open and _decide(root, folder, marker, tag):
                _move_into_store(root, folder, marker, tag)
                _publish(root, folder, marker, tag)
        except FileNotFoundError:
            if not is_listed(root / Seal.FILE):
                raise
        _drop(folder, marker, tag)
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in _TAKEN:  # another attempt was claimed meanwhile
            raise


def _drop(folder: Path, marker: Marker, tag: str) -> None:
    """Remove what is left of a claim; a slower process finds nothing to move."""
    for index in range(len(marker.files)):
        system.remove_file(folder / f"{index}.{tag}")
    system.remove_file(folder / f"marker.{tag}")


def finish_claims(root: Path, staging: str = STAGING) -> None:
    """Complete all claims."""
    for block in claims(root, staging):
        finish_claim(root, block, staging)


def decided_marker(root: Path, block: int, revision: int) -> Marker | None:
    """Return the marker that was decided on for a block.

    It is published as soon as its claim is finished, even if a cache hides it from this machine.
    """
    path = _decision(root, block, revision)
    data = _read_hidden(path) if is_listed(path) else b""
    return Marker.from_bytes(data, str(path)) if data else None


def first_kind(root: Path, plan: Plan) -> Kind | None:
    """Return the kind of the first clips of a store; None if none was committed with a kind."""
    path = root / FirstKind.FILE
    data = _read_hidden(path) if is_listed(path) else b""
    if not data:
        return None
    record = FirstKind.from_bytes(data, str(path))
    if record.plan != plan.sha256:
        raise Mismatch(
            "this file is of another store", where=str(path), hint="remove this file"
        )
    return record.kind


def decide_kind(root: Path, plan: Plan, kind: Kind) -> Kind:
    """Make a kind that of the store's first clips; return the one that was decided on."""
    record = FirstKind(plan=plan.sha256, **kind._asdict())
    try:
        if write_exclusive(root / FirstKind.FILE, record.to_bytes()):
            return kind
    except FileNotFoundError:
        return kind  # sealed meanwhile, so that nothing can be committed
    return first_kind(root, plan) or kind


def _decision(root: Path, block: int, revision: int) -> Path:
    return root / f"commits/block-{block:05d}.{revision}.taken"


def _decide(root: Path, folder: Path, marker: Marker, tag: str) -> bool:
    """Make a claim the only one that is placed; return False where another one was before."""
    path = _decision(root, marker.block, marker.revision)
    try:
        os.link(folder / f"marker.{tag}", path)
        return True
    except FileExistsError:
        pass
    except FileNotFoundError:
        return False  # another process has finished this claim, or seals the store
    except OSError as error:
        if error.errno not in system.NO_LINKS:
            raise
        if write_exclusive(path, marker.to_bytes()):
            return True
    decided = _read_hidden(path)
    if decided == marker.to_bytes():
        return True
    # This process has the claim. If the other one was not published, a power cut removed its claim.
    if marker.replaces:
        try:
            is_lost = _is_lost_retry(root, marker, decided)
        except Corrupt:
            _drop(folder, marker, tag)
            raise
    else:
        is_lost = not is_listed(root / marker_key(marker.block))
    if is_lost:
        write_atomic(path, marker.to_bytes())
    return is_lost


def _is_lost_retry(root: Path, marker: Marker, decided: bytes) -> bool:
    """Return whether a retry can take the place of one that was decided on, and not finished.

    If all files of that one are in place, it is published, and this one is dropped.

    Args:
        root: The store.
        marker: The marker of the retry.
        decided: The bytes of the other one's marker.
    """
    current = read_marker(root, marker.block)
    if current is None or current.checksum != marker.replaces:
        return False
    path = _decision(root, marker.block, marker.revision)
    earlier = Marker.from_bytes(decided, str(path)) if decided else None
    if earlier is not None and earlier.replaces != current.checksum:
        return False
    marks_now = {name: _mark_of(root / name) for name in current.files}
    if earlier is not None and marks_now == earlier.files:
        write_atomic(root / marker_key(marker.block), decided)
        return False
    rows = _rows_of_two_retries(current, earlier, marker)
    if marks_now != current.files and rows:
        raise Corrupt(
            f"row {rows[0]} and {len(rows) - 1} more have files of two extractions: a power cut "
            "stopped a retry",
            where=str(root / marker_key(marker.block)),
            hint="extract these rows again too, with obygaze extract run --changed",
        )
    return True


def _mark_of(path: Path) -> FileMark | None:
    try:
        return FileMark(path.stat().st_size, sha256_file(path))
    except FileNotFoundError:
        return None


def _rows_of_two_retries(
    current: Marker, earlier: Marker | None, marker: Marker
) -> list[int]:
    """Return the rows that an earlier retry changed, and that this one takes over as they are."""
    rows = []
    for row in range(*current.rows):
        is_ok = marker.status_of_row.get(row, OK).is_ok
        is_taken_over = is_ok and marker.sources.get(row) == current.sources.get(row)
        was_ok = current.status_of_row.get(row, OK).is_ok
        is_changed = earlier is None or earlier.sources.get(row) != current.sources.get(
            row
        )
        if is_taken_over and was_ok and is_changed:
            rows.append(row)
    return rows


def _read_hidden(path: Path) -> bytes:
    """Return the bytes of a file that exists, even if a cache of this machine has it as absent."""
    # With O_CREAT the file server looks for the file, not the cache.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CREAT, 0o644), "rb") as stream:
        return stream.read()


def _current_checksum(root: Path, block: int) -> str:
    current = read_marker(root, block)
    return current.checksum if current else ""


def _claimed_marker(folder: Path) -> tuple[Marker, str] | None:
    try:
        path = next(
            (file for file in folder.iterdir() if file.name.startswith("marker.")), None
        )
        data = path.read_bytes() if path else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    if path is None or data is None:
        return None
    return Marker.from_bytes(data, str(path)), path.name.removeprefix("marker.")


def _move_into_store(root: Path, folder: Path, marker: Marker, tag: str) -> None:
    for index, name in enumerate(sorted(marker.files)):
        try:
            system.replace_file(folder / f"{index}.{tag}", root / name)
        except FileNotFoundError:
            continue  # in place already, by another process
    for parent in {(root / name).parent for name in marker.files}:
        sync_dir(parent)
    for name, mark in marker.files.items():
        path = root / name
        whole = path.is_file() and path.stat().st_size == mark.n_bytes
        # A cached look-up may not show a file that another process has just placed.
        whole = whole or (not path.exists() and is_listed(path))
        # Who seals the store may have moved the claim away, and finishes it.
        whole = whole or not is_listed(folder)
        if not whole and _current_checksum(root, marker.block) == marker.replaces:
            raise Corrupt("a file of a claimed block is not whole", where=str(path))


def _publish(root: Path, folder: Path, marker: Marker, tag: str) -> None:
    source = folder / f"marker.{tag}"
    target = root / marker_key(marker.block)
    try:
        if marker.replaces:
            system.replace_file(source, target)
        else:
            # Without links: only the claim's marker has this name.
            take_name(source, target)
    except FileNotFoundError:
        return  # published by another process
    sync_dir(target.parent)


def discard(folder: Path) -> None:
    """Remove an attempt: rename first, then delete, so that a half of it can never be claimed."""
    trash = folder.with_name(f"trash.{uuid.uuid4().hex}")
    try:
        system.rename_folder(folder, trash)
    except FileNotFoundError:
        return
    if trash.is_dir():
        shutil.rmtree(trash, ignore_errors=True)
    else:
        trash.unlink(missing_ok=True)


def litter(root: Path) -> Iterator[Path]:
    """Yield attempts whose block is committed, or whose process is gone, and half-removed ones."""
    for folder in _listed(root / STAGING):
        if "." not in folder.name:
            continue
        match = _ATTEMPT.fullmatch(folder.name)
        block = match["block"] if match else None
        is_committed = block is not None and (root / marker_key(int(block))).exists()
        is_dead = match is not None and (is_committed or is_abandoned(folder, match))
        if folder.name.startswith("trash.") or is_dead:
            yield folder


def is_abandoned(attempt: Path, tag: re.Match[str]) -> bool:
    """Return whether the process of an attempt has ended, or on another machine, probably has."""
    try:
        opened = take_over(attempt, tag, STALE_AFTER_S)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # it is running, or another user's
    if opened is None:
        return False
    opened.close()
    return True


def discard_attempts(root: Path, staging: str) -> None:
    """Remove all that was not claimed."""
    for folder in _listed(root / staging):
        if _CLAIM.fullmatch(folder.name) is None:
            discard(folder)


def make_room(root: Path) -> None:
    """Make the empty folders that archives and version control leave out."""
    folders = (root / STAGING, root / "commits")
    if _is_closed(root):
        return
    for folder in folders:
        # Not exist_ok: it looks again whether the folder is there, and a seal may have moved it.
        with suppress(FileExistsError):
            folder.mkdir()
    if _is_closed(root):  # by another process, at the same time
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()


def _is_closed(root: Path) -> bool:
    """Return whether a store is sealed, or being sealed: nothing can be claimed any more."""
    return is_listed(root / SEALING) or is_listed(root / Seal.FILE)


def claims(root: Path, staging: str = STAGING) -> list[int]:
    """Return the blocks that were claimed and not finished."""
    matches = (_CLAIM.fullmatch(folder.name) for folder in _listed(root / staging))
    return sorted(int(match["block"]) for match in matches if match)


def _listed(folder: Path) -> list[Path]:
    """Return what is in a folder, in order; nothing where another process has removed it."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []

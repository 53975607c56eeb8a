"""Add what a store has meanwhile to a copy of it that is not sealed: blocks, texts, the seal."""

import shutil
from contextlib import suppress
from pathlib import Path

from obygaze_features.core import system
from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.files import (
    confined,
    sync_dir,
    write_atomic,
    write_exclusive,
)
from obygaze_features.store.format.records import (
    Marker,
    Plan,
    Seal,
    TextMarker,
    marker_key,
)
from obygaze_features.store.format.schema import TEXT_FOLDER
from obygaze_features.store.remote.selection import FileSelection
from obygaze_features.store.write import commit

OTHER_NAME = "another name, then obygaze store merge"


def refuse_other_blocks(target: Path, selection: FileSelection) -> None:
    """Raise an error unless each block of an unsealed copy is, or becomes, that of the store."""
    if selection.derived is not None:
        raise AlreadyThere(
            "this copy is not sealed, so no part of a store can be added",
            where=str(target),
            hint=OTHER_NAME,
        )
    for block in range(Plan.load(target).n_blocks):
        _refuse_other_block(target, selection, block)


def _refuse_other_block(target: Path, selection: FileSelection, block: int) -> None:
    existing_marker = commit.read_marker(target, block)
    if existing_marker is None:
        return
    if selection.sealed:
        is_same = all(
            selection.marks.get(name) == existing_marker.files[name]
            for name in existing_marker.files
        )
    else:
        ours = _marker_of(selection, block)
        is_same = ours is None or existing_marker.checksum in (
            ours.checksum,
            ours.replaces,
        )
    if not is_same:
        raise AlreadyThere(
            f"block {block} of this copy has other contents than in the store",
            where=str(target),
            hint=OTHER_NAME,
        )


def add_blocks(draft: Path, target: Path, selection: FileSelection) -> None:
    """Commit the blocks of a draft to a copy, as any process that writes there does."""
    commit.make_room(target)
    for block in range(Plan.load(target).n_blocks):
        marker = _marker_of(selection, block)
        there = commit.read_marker(target, block)
        if marker is None or (there is not None and there.checksum == marker.checksum):
            continue
        _add_block(draft, target, marker)
        # Another process may have been first.
        _refuse_other_block(target, selection, block)
    texts = selection.documents.get(TextMarker.FILE)
    if texts is not None and not (target / TextMarker.FILE).exists():
        if (draft / TEXT_FOLDER).is_dir():
            commit.rename_new(draft / TEXT_FOLDER, target / TEXT_FOLDER)
            sync_dir(target / "data.zarr")
        write_exclusive(target / TextMarker.FILE, texts)


def _add_block(draft: Path, target: Path, marker: Marker) -> None:
    """Commit a block to a copy; files that are the same there were not fetched."""
    data = {}
    for name in marker.files:
        path = confined(draft, name)
        data[name] = [(path if path.is_file() else target / name).read_bytes()]
    try:
        with commit.prepared(target, marker, data) as attempt:
            commit.claim(attempt)
    except commit.AttemptGone as error:
        raise AlreadyThere(
            "another process seals or cleans this copy",
            where=str(target),
            hint="run the same command again",
        ) from error
    commit.finish_claim(target, marker.block)
    for name in marker.files:
        system.remove_file(confined(draft, name))


def seal_copy(draft: Path, target: Path, selection: FileSelection) -> None:
    """Add all files of a draft to a copy that is not sealed, then the seal of the store."""
    with suppress(FileNotFoundError):  # an earlier seal has moved it
        if not commit.rename_new(target / commit.STAGING, target / commit.SEALING):
            raise AlreadyThere(
                "another process seals this copy", where=str(target), hint=OTHER_NAME
            )
    if commit.claims(target, commit.SEALING):
        system.rename_folder(target / commit.SEALING, target / commit.STAGING)
        raise AlreadyThere(
            "another process commits blocks to this copy",
            where=str(target),
            hint=OTHER_NAME,
        )
    refuse_other_blocks(target, selection)
    move_files(draft, target)
    write_atomic(target / Seal.FILE, selection.documents[Seal.FILE])
    for name in (commit.SEALING, "commits"):
        shutil.rmtree(target / name, ignore_errors=True)
    sync_dir(target)


def move_files(draft: Path, target: Path) -> None:
    """Move the files of a draft to their places in a copy."""
    for path in sorted(path for path in draft.rglob("*") if path.is_file()):
        parent = path.parent.relative_to(draft)
        folder = confined(target, parent.as_posix()) if parent.parts else target
        folder.mkdir(parents=True, exist_ok=True)
        # A link that has this name is replaced, never followed.
        system.replace_file(path, folder / path.name)
        sync_dir(folder)


def _marker_of(selection: FileSelection, block: int) -> Marker | None:
    data = selection.documents.get(marker_key(block))
    return None if data is None else Marker.from_bytes(data, marker_key(block))

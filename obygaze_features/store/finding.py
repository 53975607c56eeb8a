"""Find what else has withdrawn clips: folders, exports, runs and models of a workspace."""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import csv_line
from obygaze_features.core.leftovers import hidden_of
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.decoding import OK_CODE
from obygaze_features.store.exporting import read_origin
from obygaze_features.store.layout import (
    BEFORE,
    BLOCKS,
    CARD,
    CLIPS_CSV,
    FILMS_CSV,
    NEXT,
    PLAN_JSON,
    ROWS_CSV,
    STORE_JSON,
    ZARR,
)
from obygaze_features.store.placing import next_of, seal_at
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.rows import WITHDRAWN

EXPORT_ENDINGS = (".npz", ".h5", ".hdf5", ".parquet")
# Tables of a store, or of one that is being made, in which the ids stand.
_TABLES = (FILMS_CSV, ROWS_CSV, CLIPS_CSV)
_OURS = (STORE_JSON, PLAN_JSON, ZARR, BLOCKS)
_SKIPPED = (".git", "__pycache__")
EARLIER = "store that was replaced"


class Copy(NamedTuple):
    """What still has features of withdrawn clips, or was made with them.

    Args:
        path: The file or folder.
        kind: What it is: a store, a store that was replaced, an export, a run or a model.
        withdrawal: The line that withdraws the clips from it, of a store that has others too.
    """

    path: Path
    kind: str
    withdrawal: str = ""

    @property
    def command(self) -> str:
        """The line that withdraws or removes it; of a link, also what it leads to."""
        if self.withdrawal:
            return self.withdrawal
        paths = [self.path]
        if self.path.is_symlink():
            paths.append(self.path.resolve())
        return f"rm -r {shlex.join(map(str, paths))}"

    def to_json(self) -> dict[str, str]:
        """Return what it is, and the line that removes it."""
        return {
            "kind": self.kind,
            "name": self.path.name,
            "path": str(self.path),
            "command": self.command,
        }

    def __str__(self) -> str:
        return f"{self.kind}: {self.command}"


def text_of_copies(copies: Sequence[Copy]) -> list[str]:
    """Return the lines that list where withdrawn features still are."""
    if not copies:
        return []
    return ["the withdrawn features are still in:", *(f"  {copy}" for copy in copies)]


def find_copies(
    store: Store, films: Sequence[str], clips: Sequence[str], workspace: Workspace
) -> list[Copy]:
    """Return what else of a workspace has withdrawn films or clips of a store.

    The stores that this one replaced come first. Exports, runs and models are found by the seals
    of all stores that are found. A store outside the workspace is looked for beside the store too.

    Args:
        store: The store from which they were withdrawn.
        films: The films.
        clips: The clips.
        workspace: The workspace.
    """
    seals = [entry.seal for entry in store.record.replaces]
    reasons = [entry.reason for entry in store.record.replaces if entry.reason]
    reason = reasons[-1] if reasons else "withdrawn"
    copies = []
    others = []
    home = Path(store.location)
    roots = {workspace.root.resolve(): workspace.root}
    roots.setdefault(home.parent.resolve(), home.parent)
    seen = {home.resolve()}
    for hidden in (*hidden_of(home), *hidden_of(next_of(home))):
        # Killed while it was built or removed: nobody knows any more what it has.
        if hidden.state != "running" and hidden.n_bytes:
            copies.append(Copy(hidden.path, "what an interrupted command has left"))
        seen.add(hidden.path.resolve())
    for root in roots.values():
        for path in _candidates(root):
            place = path.resolve()
            if place in seen:
                continue
            seen.add(place)
            if _is_store(path):
                if _has_any(path, films, clips):
                    kind = EARLIER if BEFORE in path.name else "store"
                    withdrawal = _withdrawal_from(path, films, clips, reason)
                    copies.append(Copy(path, kind, withdrawal))
                    seals.append(seal_at(path))
            else:
                others.append(path)
    seals = [seal for seal in seals if seal]
    copies += [Copy(path, "export") for path in others if _is_export_of(path, seals)]
    copies += _runs_and_models(workspace, seals)
    earlier = f"{home.name}{BEFORE}"
    return sorted(
        copies, key=lambda copy: (not copy.path.name.startswith(earlier), copy.kind)
    )


def _candidates(root: Path) -> Iterator[Path]:
    """Yield the stores, the folders with a card, and the files that may be exports."""
    for folder, folders, files in os.walk(root):
        path = Path(folder)
        folders[:] = [name for name in folders if name not in _SKIPPED]
        if _is_store(path):
            folders.clear()
            yield path
            continue
        for name in folders:
            # A store on another disk; `os.walk` does not follow links.
            if (path / name).is_symlink() and _is_store(path / name):
                yield path / name
        if CARD in files:
            yield path
        for name in files:
            if name.endswith(EXPORT_ENDINGS):
                yield path / name


def _is_store(folder: Path) -> bool:
    """Return whether a folder is a store, or one that is being made, or what is left of one.

    A folder of a user may have a table films.csv, too.
    """
    is_ours = any((folder / name).exists() for name in _OURS)
    return is_ours and any((folder / name).is_file() for name in _TABLES)


def _has_any(folder: Path, films: Sequence[str], clips: Sequence[str]) -> bool:
    """Return whether a store, or one that is being made, has features of films or clips."""
    if (folder / STORE_JSON).is_file():
        try:
            return _has_features(open_store(folder), films, clips)
        except (ObygazeError, OSError):
            pass
    # It is not finished, or damaged: what its tables name, it may have.
    for name in _TABLES:
        try:
            data = (folder / name).read_bytes()
        except OSError:
            continue
        cells = [csv_line([text]).rstrip("\n") for text in (*films, *clips)]
        if any(cell.encode("utf-8") in data for cell in cells):
            return True
    return False


def _has_features(store: Store, films: Sequence[str], clips: Sequence[str]) -> bool:
    return len(_rows_with_features(store, films, clips)) > 0


def _rows_with_features(
    store: Store, films: Sequence[str], clips: Sequence[str]
) -> set[int]:
    known_films = [film for film in films if film in store.table.films.runs_of_film]
    rows = [*store.table.find(list(clips)).tolist()]
    if known_films:
        rows += store.table.films.rows_of(known_films).tolist()
    codes = store.table.codes
    return {row for row in rows if row >= 0 and codes[row] == OK_CODE}


def _withdrawal_from(
    path: Path, films: Sequence[str], clips: Sequence[str], reason: str
) -> str:
    """Return the line that withdraws clips from a store; "" if it has no other features.

    Also "" for what no command changes: an earlier store, an unfinished or damaged one, a link.
    """
    is_unchanging = BEFORE in path.name or path.name.endswith(NEXT)
    if is_unchanging or path.is_symlink() or path.name.startswith("."):
        return ""
    try:
        store = open_store(path)
        n_withdrawn = len(_rows_with_features(store, films, clips))
    except (ObygazeError, OSError):
        return ""
    if n_withdrawn == store.record.rows.ok:
        return ""
    names = [film for film in films if film in store.table.films.runs_of_film]
    for clip, row in zip(clips, store.table.find(list(clips)).tolist(), strict=True):
        if row >= 0:
            names.append(clip)
    # A word without a slash would be the name of a store of the workspace.
    words = ["obygaze", "store", "subset", f"{path.parent}/{path.name}"]
    for name in names:
        words += ["--without", name]
    return shlex.join([*words, "--reason", reason])


def _is_export_of(path: Path, seals: Sequence[str]) -> bool:
    try:
        origin = read_origin(path)
    except OSError:
        return False
    return origin is not None and origin["seal"] in seals


def _names_a_seal(path: Path, seals: Sequence[str]) -> bool:
    text = path.read_bytes()
    return any(seal.encode() in text for seal in seals)


def _runs_and_models(workspace: Workspace, seals: Sequence[str]) -> list[Copy]:
    """Return the runs and models that record one of the seals in a JSON file."""
    copies = []
    for kind in ("run", "model"):
        folder = workspace.folder(f"{kind}s")
        for path in sorted(folder.glob("*")):
            if any(_names_a_seal(file, seals) for file in path.glob("*.json")):
                copies.append(Copy(path, kind))
    return copies


def withdrawn_elsewhere(
    backbone: str, clips: Sequence[str], workspace: Workspace
) -> str:
    """Return that clips of a new store were withdrawn from others of the backbone; "" if none was.

    Args:
        backbone: The title of the recipe of the new store.
        clips: The clips of the new store.
        workspace: The workspace with the other stores.
    """
    names_of_clip: dict[str, set[str]] = {}
    for name in workspace.names("stores"):
        if BEFORE in name:
            continue
        # A store that cannot be read is an error where it is used.
        with suppress(ObygazeError, OSError):
            store = open_store(workspace.folder("stores") / name)
            if store.recipe.title == backbone and store.record.rows.withdrawn:
                for row in store.rows:
                    if row.status == WITHDRAWN:
                        names_of_clip.setdefault(row.clip_id, set()).add(name)
    withdrawn = [clip for clip in clips if clip in names_of_clip]
    if not withdrawn:
        return ""
    names: set[str] = set()
    for clip in withdrawn:
        names |= names_of_clip[clip]
    return (
        f"{few(withdrawn)} ({count(len(withdrawn), 'clip')}) were withdrawn from"
        f" {few(sorted(names))}"
    )

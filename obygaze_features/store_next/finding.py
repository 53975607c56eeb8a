"""Find what else has withdrawn clips: folders, exports, runs and models of a workspace."""

import glob
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.store_next.decoding import OK_CODE
from obygaze_features.store_next.exporting import read_origin
from obygaze_features.store_next.layout import (
    BEFORE,
    CARD,
    CLIPS_CSV,
    FILMS_CSV,
    ROWS_CSV,
    STORE_JSON,
)
from obygaze_features.store_next.reading import Store, open_store

EXPORT_ENDINGS = (".npz", ".h5", ".hdf5", ".parquet")
# Tables of a store, or of one that is being made, in which the ids stand.
_TABLES = (FILMS_CSV, ROWS_CSV, CLIPS_CSV)
_SKIPPED = (".git", "__pycache__")


class Copy(NamedTuple):
    """What still has features of withdrawn clips, or was made with them.

    Args:
        path: The file or folder.
        kind: What it is: a store, an export, a run or a model.
    """

    path: Path
    kind: str

    @property
    def command(self) -> str:
        """The line that removes it."""
        return f"rm -r {shlex.quote(str(self.path))}"

    def __str__(self) -> str:
        return f"{self.kind}: {self.command}"


def find_copies(
    store: Store, films: Sequence[str], clips: Sequence[str], workspace: Workspace
) -> list[Copy]:
    """Return what else of a workspace has withdrawn films or clips of a store.

    The stores that this one replaced come first. Exports, runs and models are found by the seals
    of these stores. A store outside the workspace is looked for beside the store too.

    Args:
        store: The store from which they were withdrawn.
        films: The films.
        clips: The clips.
        workspace: The workspace.
    """
    seals = [entry.seal for entry in store.record.replaces]
    copies = _runs_and_models(workspace, seals)
    home = Path(store.location)
    roots = {workspace.root.resolve(): workspace.root}
    roots.setdefault(home.parent.resolve(), home.parent)
    seen = {home.resolve()}
    for path in sorted(home.parent.glob(f".{glob.escape(home.name)}.*")):
        # Killed while it was built or removed: nobody knows any more what it has.
        if any(file.is_file() for file in path.rglob("*")):
            copies.append(Copy(path, "what an interrupted command has left"))
        seen.add(path.resolve())
    for root in roots.values():
        for path in _candidates(root):
            place = path.resolve()
            if place in seen:
                continue
            seen.add(place)
            if path.is_dir() and _has_tables(path):
                if _has_any(path, films, clips):
                    copies.append(Copy(path, "store"))
            elif _is_export_of(path, seals):
                copies.append(Copy(path, "export"))
    is_before = f"{home.name}{BEFORE}"
    return sorted(
        copies,
        key=lambda copy: (not copy.path.name.startswith(is_before), copy.kind),
    )


def _candidates(root: Path) -> Iterator[Path]:
    """Yield the folders with tables or a card, and the files that may be exports."""
    for folder, folders, files in os.walk(root):
        path = Path(folder)
        folders[:] = [name for name in folders if name not in _SKIPPED]
        if _has_tables(path):
            folders.clear()
            yield path
            continue
        if CARD in files:
            yield path
        for name in files:
            if name.endswith(EXPORT_ENDINGS):
                yield path / name


def _has_tables(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _TABLES)


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
        if any(text.encode("utf-8") in data for text in (*films, *clips)):
            return True
    return False


def _has_features(store: Store, films: Sequence[str], clips: Sequence[str]) -> bool:
    known_films = [film for film in films if film in store.table.films.runs_of_film]
    rows = [*store.table.find(list(clips)).tolist()]
    if known_films:
        rows += store.table.films.rows_of(known_films).tolist()
    known_rows = [row for row in rows if row >= 0]
    codes = store.table.codes
    return any(codes[row] == OK_CODE for row in known_rows)


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

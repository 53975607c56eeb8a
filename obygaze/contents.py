"""`obygaze ls`: the manifests, stores, runs and models of a workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.core.console import count, human, table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import film_count_text, view_words
from obygaze_features.store.layout import BEFORE, NEXT

if TYPE_CHECKING:
    from obygaze_features.store.reading import Store

# The cells of an entry in a table of its kind, by the names of the columns.
Cells = Mapping[str, object]


@dataclass(frozen=True)
class Entry:
    """A manifest, store, run or model, with a short description of its content."""

    kind: str
    name: str
    has: str


@dataclass(frozen=True)
class WorkspaceList:
    """The entries of a workspace; `broken` has for each unreadable entry its path and problem."""

    folder: Path
    entries: tuple[Entry, ...]
    broken: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the entries, and the problem of each entry that cannot be read."""
        entries = [asdict(entry) for entry in self.entries]
        return {"entries": entries, "broken": dict(self.broken)}

    def __str__(self) -> str:
        rows = [(entry.kind, entry.name, entry.has) for entry in self.entries]
        return table(("kind", "name", "has"), rows) if rows else ""

    @property
    def warnings(self) -> list[str]:
        """One sentence for each entry that cannot be read."""
        return [f"{path}: {problem}" for path, problem in self.broken.items()]

    @property
    def notes(self) -> list[str]:
        """A note that names the folder of a workspace without entries, or no note with entries."""
        if self.entries or self.broken:
            return []
        return [
            f"the workspace {self.folder} is empty; to begin: obygaze manifest import --help"
        ]


@dataclass(frozen=True)
class EntryTable:
    """The entries of one kind, such as all stores; `broken` is as in `WorkspaceList`."""

    folder: str
    rows: Mapping[str, Cells]
    broken: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the cells of each entry, and the problem of each that cannot be read."""
        rows = [{"name": name, **cells} for name, cells in self.rows.items()]
        return {self.folder: rows, "broken": dict(self.broken)}

    def __str__(self) -> str:
        columns: tuple[str, ...] = ()
        rows = []
        for name, cells in self.rows.items():
            columns = (self.folder.removesuffix("s"), *cells)
            rows.append((name, *cells.values()))
        return table(columns, rows) if rows else ""

    @property
    def warnings(self) -> list[str]:
        """One sentence for each entry that cannot be read."""
        return [f"{path}: {problem}" for path, problem in self.broken.items()]

    @property
    def notes(self) -> list[str]:
        """A note if there is no entry."""
        return (
            [] if self.rows or self.broken else [f"no {self.folder} in the workspace"]
        )


def ls(
    *,
    workspace: PathLike | None = None,
) -> WorkspaceList:
    """List the manifests, stores, runs and models of the workspace.

    A store that is being filled has a separate row, after the finished store of the same name.

    Args:
        workspace: The workspace, if it is not the current one.
    """
    here = Workspace.of(workspace)
    entries = []
    broken: dict[str, str] = {}
    for folder, (kind, has) in KINDS.items():
        for name in _names_of_entries(here, folder):
            try:
                entries.append(Entry(kind, name, has(here, name)))
            except (ObygazeError, OSError) as error:
                broken[f"{folder}/{name}"] = _problem_of_entry(error)
    return WorkspaceList(here.root, tuple(entries), broken)


def list_manifests(*, workspace: PathLike | None = None) -> EntryTable:
    """Return the manifests of the workspace, with what each has.

    Args:
        workspace: The workspace, if it is not the current one.
    """
    return _list_entries(workspace, "manifests", _manifest_cells)


def list_stores(*, workspace: PathLike | None = None) -> EntryTable:
    """Return the stores of the workspace, with what each has.

    Args:
        workspace: The workspace, if it is not the current one.
    """
    return _list_entries(workspace, "stores", _store_cells)


def list_models(*, workspace: PathLike | None = None) -> EntryTable:
    """Return the saved models of the workspace, with what each has.

    Args:
        workspace: The workspace, if it is not the current one.
    """
    return _list_entries(workspace, "models", _model_cells)


def _list_entries(
    workspace: PathLike | None,
    folder: str,
    cells_of: Callable[[Workspace, str], Cells],
) -> EntryTable:
    here = Workspace.of(workspace)
    rows: dict[str, Cells] = {}
    broken: dict[str, str] = {}
    for name in _names_of_entries(here, folder):
        try:
            rows[name] = cells_of(here, name)
        except (ObygazeError, OSError) as error:
            broken[f"{folder}/{name}"] = _problem_of_entry(error)
    return EntryTable(folder, rows, broken)


def _names_of_entries(here: Workspace, folder: str) -> list[str]:
    """Return the names in a folder of the workspace, without stores that were replaced."""
    is_hidden = folder == "stores"
    return [name for name in here.names(folder) if not (is_hidden and BEFORE in name)]


def _problem_of_entry(error: ObygazeError | OSError) -> str:
    """Return in words why an entry cannot be read."""
    return error.message if isinstance(error, ObygazeError) else str(error.strerror)


def _manifest_cells(here: Workspace, name: str) -> Cells:
    manifest = read_manifest(here.manifest(name))
    return {
        "clips": len(manifest),
        "films": len(manifest.films) or None,
        "view": manifest.header.view,
    }


def _in_manifest(here: Workspace, name: str) -> str:
    manifest = read_manifest(here.manifest(name))
    n_clips = count(len(manifest), "clip")
    view = view_words(manifest.header.view)
    return f"{n_clips}{film_count_text(len(manifest.films))}, {view}"


def _progress_of_filling(here: Workspace, name: str) -> str:
    """Return how far a store is filled, or "" for a store that is not being filled."""
    # Imported late, so that the help of commands does not load NumPy.
    from obygaze_features.store.reading import find_filling

    # If the command was interrupted before it renamed a filled store, `open_store` renames it.
    path = here.folder("stores") / name
    filling = find_filling(path) if name.endswith(NEXT) else None
    return f"being filled, {filling.progress}" if filling is not None else ""


def _open_store(here: Workspace, name: str) -> Store:
    from obygaze_features.store.reading import open_store

    path = here.folder("stores") / name
    return open_store(path.with_name(name.removesuffix(NEXT)))


def _store_cells(here: Workspace, name: str) -> Cells:
    progress = _progress_of_filling(here, name)
    if progress:
        return {"made with": progress, "clips": None, "arrays": None, "size": None}
    store = _open_store(here, name)
    n_ok = store.record.rows.by_status["ok"]
    return {
        "made with": store.recipe.title,
        "clips": f"{n_ok}/{len(store)}",
        "arrays": ", ".join(store.feature_arrays),
        "size": human(store.record.n_bytes),
    }


def _in_store(here: Workspace, name: str) -> str:
    progress = _progress_of_filling(here, name)
    if progress:
        return progress
    store = _open_store(here, name)
    arrays = ", ".join(store.feature_arrays)
    n_ok = store.record.rows.by_status["ok"]
    n_clips = count(len(store), "clip")
    size = human(store.record.n_bytes)
    return f"{n_clips}, {n_ok} ok, {store.recipe.title}: {arrays} ({size})"


def _in_run(here: Workspace, name: str) -> str:
    from obygaze_models.runner.files import read_folder

    about = read_folder(here.folder("runs") / name).about
    stores = ", ".join(about["stores"])
    return f"{about['protocol']['name']} on {stores}"


def _model_cells(here: Workspace, name: str) -> Cells:
    from obygaze_models.zoo.saving import read_document

    info = read_document(here.folder("models") / name).info
    return {
        "kind": info.kind,
        "task": info.task,
        "features": info.features.backbone,
    }


def _in_model(here: Workspace, name: str) -> str:
    cells = _model_cells(here, name)
    return f"{cells['kind']} of {cells['task']} on {cells['features']}"


# The kind of the entries of a folder, and what the list of the whole workspace says of an entry.
KINDS: Mapping[str, tuple[str, Callable[[Workspace, str], str]]] = {
    "manifests": ("manifest", _in_manifest),
    "stores": ("store", _in_store),
    "runs": ("run", _in_run),
    "models": ("model", _in_model),
}

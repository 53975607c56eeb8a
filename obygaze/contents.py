"""`obygaze ls`: the manifests, stores, runs and models of a workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.console import count, human, table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import film_count_text, view_words
from obygaze_features.store.layout import BEFORE, NEXT


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
        for name in here.names(folder):
            if BEFORE in name and kind == "store":
                continue
            try:
                shown = has(here, name)
            except ObygazeError as error:
                broken[f"{folder}/{name}"] = error.message
            except OSError as error:
                broken[f"{folder}/{name}"] = str(error.strerror)
            else:
                entries.append(Entry(kind, name, shown))
    return WorkspaceList(here.root, tuple(entries), broken)


def _in_manifest(here: Workspace, name: str) -> str:
    manifest = read_manifest(here.manifest(name))
    n_clips = count(len(manifest), manifest.header.unit)
    view = view_words(manifest.header.view)
    return f"{n_clips}{film_count_text(len(manifest.films))}, {view}"


def _in_store(here: Workspace, name: str) -> str:
    # Imported late, so that the help of commands does not load NumPy.
    from obygaze_features.store.reading import find_filling, open_store

    path = here.folder("stores") / name
    # If the command was interrupted before it renamed a filled store, `open_store` renames it.
    filling = find_filling(path) if name.endswith(NEXT) else None
    if filling is not None:
        return f"being filled, {filling.progress}"
    store = open_store(path.with_name(name.removesuffix(NEXT)))
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


def _in_model(here: Workspace, name: str) -> str:
    from obygaze_models.zoo.saving import read_document

    info = read_document(here.folder("models") / name).info
    return f"{info.kind} of {info.task} on {info.features.backbone}"


KINDS: Mapping[str, tuple[str, Callable[[Workspace, str], str]]] = {
    "manifests": ("manifest", _in_manifest),
    "stores": ("store", _in_store),
    "runs": ("run", _in_run),
    "models": ("model", _in_model),
}

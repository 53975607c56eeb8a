"""List the stores of a workspace, and explain one."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from obygaze_features.core.console import human, table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.read.describe import describe, summary
from obygaze_features.store.read.reader import Store, open_store

# How the preset of a backbone differs from the processor on the hub. The package imports this one,
# so it is imported by name.
NOTE = "obygaze_features.backbones.check:recipe_note"


@dataclass(frozen=True)
class StoreList:
    """The facts of the stores of a workspace; `broken` has what is wrong with the others."""

    folder: Path
    stores: tuple[Mapping[str, Any], ...]
    broken: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the facts of the stores, and the names of the broken ones."""
        return {"stores": list(self.stores), "broken": list(self.broken)}

    def __str__(self) -> str:
        if not self.stores:
            return ""
        headers = ("name", "backbone", "clips", "ok", "arrays", "state", "size")
        rows = []
        for facts in self.stores:
            row = (
                facts["name"],
                facts["backbone"],
                facts["n_clips"],
                facts["counts"]["ok"],
                " ".join(facts["feature_arrays"]),
                facts["state"],
                human(facts["n_bytes"]),
            )
            rows.append(row)
        return table(headers, rows)

    @property
    def warnings(self) -> list[str]:
        """What is wrong with each broken store."""
        return [
            f"{name}: {problem} (obygaze store verify {name})"
            for name, problem in self.broken.items()
        ]

    @property
    def notes(self) -> list[str]:
        """Where stores were looked for, if there is none."""
        if self.stores or self.broken:
            return []
        return [f"no stores in {self.folder} yet; obygaze extract run --help"]


def list_stores(*, workspace: str | os.PathLike[str] | None = None) -> StoreList:
    """List the stores of the workspace.

    Args:
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store ls
        obygaze -C /data/films store ls --json
    """
    folder = Workspace.of(workspace).folder("stores")
    stores = []
    broken: dict[str, str] = {}
    for name in _store_names(folder):
        try:
            store = open_store(name, workspace=workspace)
            stores.append({"name": name, **summary(store)})
        except ObygazeError as error:
            broken[name] = error.message
        except OSError as error:
            broken[name] = str(error.strerror)
    return StoreList(folder, tuple(stores), broken)


def _store_names(folder: Path) -> list[str]:
    """Return the bare names of stores: folders with a store.json, packed zips."""
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    names = set()
    for path in entries:
        if path.name.startswith("."):
            continue
        if (path / "store.json").is_file():
            names.add(path.name)
        if path.suffix == ".zip" and path.is_file():
            names.add(path.stem)
    return sorted(names)


@dataclass(frozen=True)
class StorePage:
    """What a store holds and how it was made: `facts` for programs, `page` for people."""

    name: str
    facts: Mapping[str, Any]
    page: str

    def to_json(self) -> dict[str, Any]:
        """Return the facts."""
        return {"name": self.name, **self.facts}

    def __str__(self) -> str:
        return self.page


def describe_store(
    store: str | os.PathLike[str] | Store,
    *,
    workspace: str | os.PathLike[str] | None = None,
) -> StorePage:
    """Explain what a store holds and how it was made.

    STORE is a store of the workspace, a folder, a packed zip or a URL. Only small files are read.

    Args:
        store: The store.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store info obygaze12-xclip
        obygaze store info https://example.org/stores/obygaze12-xclip --json
    """
    opened = open_store(store, workspace=workspace)
    recipe = opened.recipe.to_json()
    note: str = resolve_name(NOTE)(recipe, Workspace.of(workspace))
    with opened.commits.looked_at_once():
        facts = {**summary(opened), "note": note, "recipe": opened.recipe.to_json()}
        page = describe(opened, note)
    name = opened.location if isinstance(store, Store) else os.fspath(store)
    return StorePage(name, facts, page)

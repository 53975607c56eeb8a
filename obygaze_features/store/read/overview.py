"""List the stores of a workspace, and explain one."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from obygaze_features.core.console import human, table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.function_commands import command_of
from obygaze_features.core.workspace import Workspace
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_features.manifest.listing import film_columns
from obygaze_features.store.format.schema import SPAN_ARRAYS, RowStatus
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


@dataclass(frozen=True, eq=False, repr=False)
class StorePage(Listing):
    """What a store holds and how it was made: `facts` for programs, `page` for people.

    `clips` are its clips as the columns of a table, if these were asked for.
    """

    name: str
    facts: Mapping[str, Any]
    page: str
    store: Store
    workspace: Workspace
    clips: Columns | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the facts, and the clips if these were asked for."""
        facts = {"name": self.name, **self.facts}
        if self.clips is not None:
            rows = zip(*self.clips.values(), strict=True)
            facts["clips"] = [dict(zip(self.clips, row, strict=True)) for row in rows]
        return facts

    def __str__(self) -> str:
        if self.clips is None:
            return self.page
        shown = {
            name: cells for name, cells in self.clips.items() if name not in SPAN_ARRAYS
        }
        return table(tuple(shown), zip(*shown.values(), strict=True))

    def table(self) -> Columns:
        """Return the clips of the store as columns, with the reasons of those without features."""
        return self.clips or clips_of_store(self.store, self.workspace)


def clips_of_store(store: Store, workspace: Workspace) -> Columns:
    """Return the clips of a store as columns: film, times, and whether each has features.

    Titles and times are those of the manifest that the store was made of, if the workspace has it.
    """
    clip_ids = store.clip_ids.tolist()
    manifest = store.find_manifest(workspace)
    status_of_row = store.status().status_of_row
    statuses = [status_of_row.get(row, RowStatus()) for row in range(len(clip_ids))]
    return {
        "clip_id": clip_ids,
        **film_columns(clip_ids, store.movie_ids.tolist(), manifest),
        "state": [status.state for status in statuses],
        "reason": [
            "" if str(status) == status.state else str(status) for status in statuses
        ],
    }


def describe_store(
    store: str | os.PathLike[str] | Store,
    *,
    clips: bool = False,
    workspace: str | os.PathLike[str] | None = None,
) -> StorePage:
    """Explain what a store holds and how it was made.

    STORE is a store of the workspace, a folder, a packed zip or a URL. Only small files are read.

    Args:
        store: The store.
        clips: List its clips, and why some have no features; -o writes this list to a file.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store info obygaze12-xclip
        obygaze store info https://example.org/stores/obygaze12-xclip --json
        obygaze store info obygaze12-xclip --clips -o clips.xlsx
    """
    opened = open_store(store, workspace=workspace)
    here = Workspace.of(workspace)
    recipe = opened.recipe.to_json()
    note: str = resolve_name(NOTE)(recipe, here)
    with opened.commits.looked_at_once():
        facts = {**summary(opened), "note": note, "recipe": opened.recipe.to_json()}
        page = describe(opened, note)
    name = opened.location if isinstance(store, Store) else os.fspath(store)
    listed = clips_of_store(opened, here) if clips else None
    return StorePage(name, facts, page, opened, here, listed)


info_command = command_of(
    describe_store, "info", then=StorePage.write, then_group="Options"
)

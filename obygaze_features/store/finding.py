"""Find what else of a workspace has withdrawn clips, or was made of a store that had them.

Stores are asked for their rows. Exports, runs and models are known by `made_of`: the seals of the
store of which they were made, and of all that it was made of. The list may have too much: a run
may have been made of other clips of a store. Whoever reads it decides. A withdrawal never takes
more than its clips.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import parse_json
from obygaze_features.core.leftovers import hidden_of
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.exporting import EXPORTED_TABLE
from obygaze_features.store.formats import EXPORT_ENDINGS, format_of_ending
from obygaze_features.store.importing.reader import (
    FOREIGN_DAMAGE,
    ExportOrigin,
    read_export_origin,
)
from obygaze_features.store.layout import BEFORE, PLAN_JSON, STORE_JSON
from obygaze_features.store.placing import next_of
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.records import StoreRecord, Tombstone
from obygaze_features.store.withdrawals import (
    WITHDRAWN_CODE,
    Withdrawals,
    earlier_seals,
)

# The file that marks an environment of Python, whose thousands of folders have no features.
_ENVIRONMENT = "pyvenv.cfg"
EARLIER = "store that was replaced"
STORE = "store"
# Features of another extraction or import, perhaps of other clips of the film.
OF_FILM = "store that was made otherwise"
EXPORT = "file of features"
RUN = "run"
MODEL = "model"
UNFINISHED = "what an interrupted command has left"
MODEL_JSON = "model.json"
# The file that says what a folder is, and of which stores it was made.
_KIND_OF_DOCUMENT = {STORE_JSON: STORE, "run.json": RUN, MODEL_JSON: MODEL}
UNREADABLE = "store that cannot be read"
NOT_SEARCHED = (
    "only finished stores and what says of which store it was made (exports to .npz, .h5 and"
    " .parquet, runs, models) were searched, in this workspace: look yourself at other files (.npy,"
    " .pth, .csv, reports, exported pages), unfinished extractions, and what was pushed or copied"
    " elsewhere"
)
TO_DO = (
    "withdraw the clips from these stores: obygaze store subset STORE --without NAME --reason TEXT;"
    " pull again what you pulled: obygaze store pull ADDRESS; make the others again without the"
    " clips, or remove them; ask who withdrew a film whether your own clips of it are meant, too"
)


class Copy(NamedTuple):
    """What still has features of withdrawn clips, or was made of a store that had them.

    Args:
        path: The file or folder.
        kind: What it is: a store, a store that was replaced, an export, a run or a model.
    """

    path: Path
    kind: str

    def to_json(self) -> dict[str, str]:
        """Return what it is, and where."""
        return {"kind": self.kind, "name": self.path.name, "path": str(self.path)}

    def __str__(self) -> str:
        target = f" -> {self.path.resolve()}" if self.path.is_symlink() else ""
        return f"{self.kind}: {self.path}{target}"


def text_of_copies(copies: Sequence[Copy]) -> list[str]:
    """Return the lines that list where withdrawn features still are."""
    if not copies:
        return []
    return [
        "still with features of what was withdrawn, or made of a store that had them:",
        *(f"  {copy}" for copy in copies),
        TO_DO,
        NOT_SEARCHED,
    ]


def find_copies(
    store: Store, tombstones: Sequence[Tombstone], workspace: Workspace
) -> list[Copy]:
    """Return what else of a workspace has clips that were withdrawn from a store.

    The stores that this one replaced come first. A store outside the workspace is looked for beside
    the store too.

    Args:
        store: The store from which they were withdrawn.
        tombstones: What was withdrawn.
        workspace: The workspace.
    """
    withdrawals = Withdrawals.of([store]).by(tombstones)
    home = Path(store.location)
    copies = _unfinished_of(home)
    seen = {home.resolve(), *(copy.path.resolve() for copy in copies)}
    results = []
    # What names one of them was made of a store that had the clips.
    seals = _seals_with_withdrawn(store.record)
    seals.update(origin.seal for origin in store.record.origins)
    seals_without = {store.seal}
    family = earlier_seals(store)
    roots = [workspace.root, *map(workspace.folder, ("stores", "runs", "models"))]
    for root in (*roots, home.parent):
        for path, kind in _documents(root):
            place = path.resolve()
            if place in seen:
                continue
            seen.add(place)
            if kind != STORE:
                results.append((path, kind))
                continue
            kind = EARLIER if BEFORE in path.name else STORE
            try:
                other = open_store(path)
                has_them = bool(withdrawals.rows_in(other))
                was_withdrawn = bool(withdrawals.rows_in(other, WITHDRAWN_CODE))
            except (ObygazeError, OSError):
                copies.append(Copy(path, UNREADABLE))
                continue
            if was_withdrawn:
                seals |= _seals_with_withdrawn(other.record)
            if has_them:
                if kind == STORE and earlier_seals(other).isdisjoint(family):
                    kind = OF_FILM
                seals |= {other.seal, *other.record.replaces}
                copies.append(Copy(path, kind))
            else:
                seals_without.add(other.seal)
    for path, kind in results:
        wanted = seals - seals_without
        # A store that was asked and has none of the rows answers for all that it was made of.
        if any(
            made[0] not in seals_without and not wanted.isdisjoint(made)
            for made in seals_of_result(path, kind)
        ):
            copies.append(Copy(path, kind))
    earlier = f"{home.name}{BEFORE}"
    return sorted(
        copies, key=lambda copy: (not copy.path.name.startswith(earlier), copy.kind)
    )


def _unfinished_of(home: Path) -> list[Copy]:
    """Return what killed commands have left of a store: nobody knows any more what it has."""
    copies = []
    for hidden in (*hidden_of(home), *hidden_of(next_of(home))):
        if hidden.state != "running" and hidden.n_bytes:
            copies.append(Copy(hidden.path, UNFINISHED))
    return copies


def _documents(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the stores, runs, models and exports in a folder, as the names of files tell them."""
    for folder, folders, files in os.walk(root):
        path = Path(folder)
        folders[:] = [name for name in folders if not name.startswith(".")]
        kinds = [kind for name, kind in _KIND_OF_DOCUMENT.items() if name in files]
        if kinds:
            yield path, kinds[0]
        if kinds or _ENVIRONMENT in files or PLAN_JSON in files:
            folders.clear()
            continue
        for name in folders:
            # A store on another disk; `os.walk` does not follow links.
            is_link = (path / name).is_symlink()
            if is_link and (path / name / STORE_JSON).is_file():
                yield path / name, STORE
        if (path / EXPORTED_TABLE).is_file():
            folders.remove(Path(EXPORTED_TABLE).parts[0])
            yield path, EXPORT
        for name in files:
            if name.endswith(EXPORT_ENDINGS):
                yield path / name, EXPORT


def _seals_with_withdrawn(record: StoreRecord) -> set[str]:
    """Return the seals of earlier stores that had something that was withdrawn since."""
    of_sources = {tombstone.seal for tombstone in record.tombstones}
    return {*record.replaces[: record.n_with_withdrawn], *of_sources}


# --- What was made of stores ---


def seals_of_result(path: Path, kind: str) -> list[list[str]]:
    """Return the lists `made_of` of an export, a run or a model, one for each of its stores."""
    if kind == EXPORT:
        origin = read_origin(path / EXPORTED_TABLE if path.is_dir() else path)
        return [list(origin.made_of)] if origin is not None and origin.made_of else []
    (name,) = [name for name, each in _KIND_OF_DOCUMENT.items() if each == kind]
    with suppress(OSError, ValueError):
        return list(_lists_of_seals(parse_json((path / name).read_bytes())))
    return []


def _lists_of_seals(value: Any) -> Iterator[list[str]]:
    """Yield all lists called `made_of` in a document."""
    if isinstance(value, list):
        for item in value:
            yield from _lists_of_seals(item)
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "made_of" and isinstance(item, list) and item:
                yield [str(seal) for seal in item]
            else:
                yield from _lists_of_seals(item)


def read_origin(path: Path) -> ExportOrigin | None:
    """Return of which store a file is an export; None for other files."""
    format = format_of_ending(path)
    text = ""
    if format is not None and format.writer:
        with suppress(*FOREIGN_DAMAGE, ObygazeError):
            text = format.function("origin_text")(path)
    return read_export_origin(text)

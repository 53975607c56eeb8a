"""Find what else of a workspace has withdrawn clips, or was made of a store that had them.

Stores are asked for their rows. Exports, runs and models are known by `made_of`: the seals of the
store of which they were made, and of all that it was made of. The list may have too much: a run
may have been made of other clips of a store. Whoever reads it decides. A withdrawal never takes
more than its clips.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from obygaze_features.core import own_results
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import parse_json
from obygaze_features.core.leftovers import hidden_of
from obygaze_features.core.own_results import added_to
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.exporting import EXPORTED_TABLE
from obygaze_features.store.formats import EXPORT_ENDINGS, format_of_ending
from obygaze_features.store.importing.reader import (
    FOREIGN_DAMAGE,
    ExportOrigin,
    read_export_origin,
)
from obygaze_features.store.layout import BEFORE, CARD, NEXT, PLAN_JSON, STORE_JSON
from obygaze_features.store.placing import next_of
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.records import StoreRecord, Tombstone
from obygaze_features.store.withdrawals import WITHDRAWN_CODE, Withdrawals

# The file that marks an environment of Python, whose thousands of folders have no features.
_ENVIRONMENT = "pyvenv.cfg"
EARLIER = "store that was replaced"
STORE = "store"
EXPORT = "file of features"
RUN = "run"
MODEL = "model"
UNFINISHED = "what an interrupted command has left"
MODEL_JSON = "model.json"
# The file that says what a folder is, and of which stores it was made.
_KIND_OF_DOCUMENT = {STORE_JSON: STORE, "run.json": RUN, MODEL_JSON: MODEL}
UNREADABLE = "it cannot be read: look at it"
NO_SEAL = "nothing says that obygaze wrote all of it: look at it"
NOT_SEARCHED = (
    "only finished stores and what says of which store it was made (exports to .npz, .h5 and"
    " .parquet, runs, models) were searched, in this workspace: look yourself at other files (.npy,"
    " .pth, .csv, reports, exported pages), unfinished extractions, and what was pushed or copied"
    " elsewhere"
)
OF_ANOTHER_PLACE = (
    "a store that you pulled from elsewhere is pulled again instead, where its owner has withdrawn"
    " them, too: obygaze store pull ADDRESS refuses a copy that was changed here"
)


class Copy(NamedTuple):
    """What still has features of withdrawn clips, or was made of a store that had them.

    Args:
        path: The file or folder.
        kind: What it is: a store, a store that was replaced, an export, a run or a model.
        withdrawal: The line that withdraws the clips from it, of a store that has others too.
        remark: Why a person looks first; "" for what obygaze wrote whole.
    """

    path: Path
    kind: str
    withdrawal: str = ""
    remark: str = ""

    @property
    def command(self) -> str:
        """The line that withdraws or removes it; of a link, also what it leads to.

        "" where a person looks first: only what obygaze wrote, and can write again, has a line.
        """
        if self.remark or self.withdrawal:
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
            "remark": self.remark,
        }

    def __str__(self) -> str:
        remark = f"  ({self.remark})" if self.remark else ""
        return f"{self.kind}: {self.command or self.path}{remark}"


def text_of_copies(copies: Sequence[Copy]) -> list[str]:
    """Return the lines that list where withdrawn features still are."""
    if not copies:
        return []
    lines = [f"  {copy}" for copy in copies]
    if any(copy.withdrawal for copy in copies):
        lines.append(OF_ANOTHER_PLACE)
    return [
        "still with the withdrawn features, or made of a store that had them:",
        *lines,
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
    authors = {tombstone.author for tombstone in tombstones}
    author = authors.pop() if len(authors) == 1 else ""
    home = Path(store.location)
    copies = _unfinished_of(home)
    seen = {home.resolve(), *(copy.path.resolve() for copy in copies)}
    results = []
    # What names one of them was made of a store that had the clips.
    seals = _seals_with_withdrawn(store.record)
    seals.update(origin.seal for origin in store.record.origins)
    seals_without = {store.seal}
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
                reasons = withdrawals.rows_in(other)
                was_withdrawn = bool(withdrawals.rows_in(other, WITHDRAWN_CODE))
            except (ObygazeError, OSError):
                copies.append(Copy(path, kind, remark=UNREADABLE))
                continue
            if was_withdrawn:
                seals |= _seals_with_withdrawn(other.record)
            if reasons:
                seals |= {other.seal, *other.record.replaces}
                copies.append(
                    _copy_of_store(other, path, kind, withdrawals, reasons, author)
                )
            else:
                seals_without.add(other.seal)
    for path, kind in results:
        wanted = seals - seals_without
        # A store that was asked and has none of the rows answers for all that it was made of.
        if any(
            made[0] not in seals_without and not wanted.isdisjoint(made)
            for made in seals_of_result(path, kind)
        ):
            remark = "" if _wrote_all_of(path, kind) else NO_SEAL
            copies.append(Copy(path, kind, remark=remark))
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


# --- Stores ---


def _copy_of_store(
    store: Store,
    path: Path,
    kind: str,
    withdrawals: Withdrawals,
    reasons: dict[int, str],
    author: str,
) -> Copy:
    """Return a store that has features of withdrawn clips, with the line that takes them out."""
    is_unchanging = kind == EARLIER or path.name.endswith(NEXT) or path.is_symlink()
    if is_unchanging or len(reasons) == store.record.rows.ok:
        names = {*store.record.files, STORE_JSON, CARD}
        return Copy(path, kind, remark=NO_SEAL if added_to(path, names) else "")
    names_of_reason: dict[str, dict[str, None]] = {}
    rows = np.array([*reasons], dtype=np.int64)
    clip_ids = store.table.clip_ids_of(rows).tolist()
    movie_ids = store.table.movie_ids_of(rows).tolist()
    for clip_id, film, of_row in zip(
        clip_ids, movie_ids, reasons.values(), strict=True
    ):
        of_film = withdrawals.reason("", film)
        _, _, reason = (of_film or of_row).partition(": ")
        name = film if of_film else clip_id
        names_of_reason.setdefault(reason, {})[name] = None
    lines = []
    for reason, named in names_of_reason.items():
        # A word without a slash would be the name of a store of the workspace.
        words = ["obygaze", "store", "subset", f"{path.parent}/{path.name}"]
        for name in named:
            words += ["--without", name]
        words += ["--reason", reason or "withdrawn"]
        words += ["--author", author] if author else []
        lines.append(shlex.join(words))
    return Copy(path, kind, " && ".join(lines))


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


def _wrote_all_of(path: Path, kind: str) -> bool:
    """Return whether obygaze wrote all of a file or folder that names a seal."""
    if kind == EXPORT:
        return not added_to(path, (EXPORTED_TABLE, CARD))
    if kind == RUN:
        return not own_results.RUN.refusal(path)
    return not own_results.MODEL.refusal(path)

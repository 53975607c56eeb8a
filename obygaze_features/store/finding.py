"""Find what else of a workspace has withdrawn clips, or was made of a store that had them.

Stores are asked for their rows. Exports, runs, models and reports name the stores of which they
were made by their seals. The list may have too much: a run may have been made of other clips of a
store. Whoever reads it decides. A withdrawal never takes more than its clips.
"""

import os
import shlex
import warnings
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from obygaze_features.core import own_results
from obygaze_features.core.errors import ObygazeError, ObygazeWarning
from obygaze_features.core.leftovers import hidden_of
from obygaze_features.core.own_results import REPORT_ENDINGS, added_to
from obygaze_features.core.tables import read_table
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.exporting import EXPORTED_TABLE
from obygaze_features.store.formats import EXPORT_ENDINGS, format_of_ending
from obygaze_features.store.importing.reader import (
    FILM_KEY,
    FOREIGN_DAMAGE,
    ID_KEY,
    ExportOrigin,
    read_export_origin,
)
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
from obygaze_features.store.records import Replaced
from obygaze_features.store.withdrawals import WITHDRAWN_CODE, Withdrawals

# Tables of a store, or of one that is being made, in which the ids stand.
_TABLES = (ROWS_CSV, CLIPS_CSV, FILMS_CSV)
_OURS = (STORE_JSON, PLAN_JSON, ZARR, BLOCKS)
_SKIPPED = (".git", "__pycache__")
# The file that marks an environment of Python, whose thousands of folders have no features.
_ENVIRONMENT = "pyvenv.cfg"
EARLIER = "store that was replaced"
STORE = "store"
EXPORT = "file of features"
REPORT = "report"
RUN = "run"
MODEL = "model"
MODEL_JSON = "model.json"
# The file that says what a folder is, and of which stores it was made.
_DOCUMENT_OF_FOLDER = {RUN: "run.json", MODEL: MODEL_JSON}
UNREADABLE = "it cannot be read: look at it"
NO_SEAL = "nothing says that obygaze wrote all of it: look at it"
NOT_SEARCHED = (
    "what does not name the seal of its store was not searched: exported pages, tables (of scores,"
    " of a search), files from which a store was imported, archives (.zip, .tar), and what was"
    " pushed or copied elsewhere; look at yours"
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
    store: Store, changes: Sequence[Replaced], workspace: Workspace
) -> list[Copy]:
    """Return what else of a workspace has clips that were withdrawn from a store.

    The stores that this one replaced come first. A store outside the workspace is looked for beside
    the store too.

    Args:
        store: The store from which they were withdrawn.
        changes: What was withdrawn: the films and clips that these changes name.
        workspace: The workspace.
    """
    withdrawals = Withdrawals.of([store]).by(changes)
    authors = {change.author for change in changes}
    author = authors.pop() if len(authors) == 1 else ""
    home = Path(store.location)
    copies = []
    seen = {home.resolve()}
    for hidden in (*hidden_of(home), *hidden_of(next_of(home))):
        # Killed while it was built or removed: nobody knows any more what it has.
        if hidden.state != "running" and hidden.n_bytes:
            copies.append(Copy(hidden.path, "what an interrupted command has left"))
        seen.add(hidden.path.resolve())
    roots = {workspace.root.resolve(): workspace.root}
    roots.setdefault(home.parent.resolve(), home.parent)
    results = []
    # A result that names one of them was made of a store that had the clips.
    seals = _seals_with_clips(store)
    seals.update(origin.seal for origin in store.record.origins)
    seals_without_clips = {store.seal}
    for root in roots.values():
        for path, kind in _candidates(root):
            place = path.resolve()
            if place in seen:
                continue
            seen.add(place)
            if kind != STORE:
                results.append((path, kind))
                continue
            copy = _copy_of_store(path, withdrawals, author)
            seals |= _seals_before(path, withdrawals)
            if copy is None:
                seals_without_clips.add(seal_at(path))
                continue
            if not copy.remark:
                seals.add(seal_at(path))
            if not (copy.remark or copy.withdrawal) and _holds_more(path):
                copy = copy._replace(remark=NO_SEAL)
            copies.append(copy)
    seals -= {"", *seals_without_clips}
    for path, kind in results:
        if _names_a_seal(path, kind, seals):
            remark = "" if _wrote_all_of(path, kind) else NO_SEAL
            copies.append(Copy(path, kind, remark=remark))
    earlier = f"{home.name}{BEFORE}"
    return sorted(
        copies, key=lambda copy: (not copy.path.name.startswith(earlier), copy.kind)
    )


def _candidates(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield what may have features of clips, or say of which store it was made, with its kind."""
    for folder, folders, files in os.walk(root):
        path = Path(folder)
        folders[:] = [name for name in folders if name not in _SKIPPED]
        if _ENVIRONMENT in files:
            folders.clear()
            continue
        if _is_store(path):
            folders.clear()
            yield path, STORE
            continue
        for name in folders:
            # A store on another disk; `os.walk` does not follow links.
            if (path / name).is_symlink() and _is_store(path / name):
                yield path / name, STORE
        if (path / EXPORTED_TABLE).is_file():
            folders.remove(Path(EXPORTED_TABLE).parts[0])
            yield path, EXPORT
        kinds = [kind for kind, name in _DOCUMENT_OF_FOLDER.items() if name in files]
        if kinds:
            yield path, kinds[0]
            continue
        for name in files:
            if name.endswith(EXPORT_ENDINGS):
                yield path / name, EXPORT
            elif name.lower().endswith(REPORT_ENDINGS):
                yield path / name, REPORT


def _is_store(folder: Path) -> bool:
    """Return whether a folder is a store, or one that is being made, or what is left of one.

    A folder of a user may have a table films.csv, too.
    """
    is_ours = any((folder / name).exists() for name in _OURS)
    return is_ours and any((folder / name).is_file() for name in _TABLES)


# --- Stores ---


def _copy_of_store(path: Path, withdrawals: Withdrawals, author: str) -> Copy | None:
    """Return a store, or one that is being made, if it has features of withdrawn clips.

    The author is who withdrew them; "" if it is not known.
    """
    kind = EARLIER if BEFORE in path.name else STORE
    if (path / STORE_JSON).is_file():
        with suppress(ObygazeError, OSError):
            return _copy_of_finished(open_store(path), path, kind, withdrawals, author)
    # It is not finished, or damaged: what its table names, it may have.
    try:
        is_named = _names_some(path, withdrawals)
    except (*FOREIGN_DAMAGE, ObygazeError):
        # Another process may move or remove it at this moment.
        return Copy(path, kind, remark=UNREADABLE)
    if not is_named:
        return None
    is_ours = (path / STORE_JSON).is_file() or (path / PLAN_JSON).is_file()
    return Copy(path, kind, remark="" if is_ours else NO_SEAL)


def _names_some(store: Path, withdrawals: Withdrawals) -> bool:
    """Return whether the first table in the folder of a store names withdrawn clips."""
    tables = [store / name for name in _TABLES if (store / name).is_file()]
    if not tables:
        raise FileNotFoundError(store)
    with warnings.catch_warnings():
        # How it was read is no part of the answer.
        warnings.simplefilter("ignore", ObygazeWarning)
        rows = read_table(tables[0], required=[ID_KEY]).rows
    films = [row.cells.get(FILM_KEY, "") for row in rows]
    return bool(withdrawals.reasons([row.cells[ID_KEY] for row in rows], films))


def _seals_with_clips(store: Store) -> set[str]:
    """Return the seals of the earlier stores that a store replaced, up to its last withdrawal."""
    seals: set[str] = set()
    of_earlier: list[str] = []
    for entry in store.record.replaces:
        of_earlier.append(entry.seal)
        if entry.withdrawn:
            seals.update(of_earlier)
    return seals


def _seals_before(path: Path, withdrawals: Withdrawals) -> set[str]:
    """Return the seals of what another store was before the same clips were withdrawn from it."""
    with suppress(ObygazeError, OSError):
        store = open_store(path)
        if store.record.rows.withdrawn and withdrawals.rows_in(store, WITHDRAWN_CODE):
            return _seals_with_clips(store)
    return set()


def _holds_more(path: Path) -> bool:
    """Return whether a finished store holds a file that obygaze did not write."""
    with suppress(ObygazeError, OSError):
        names = {*open_store(path).record.files, STORE_JSON, CARD}
        return bool(added_to(path, names))
    return False


def _copy_of_finished(
    store: Store, path: Path, kind: str, withdrawals: Withdrawals, author: str
) -> Copy | None:
    reasons = withdrawals.rows_in(store)
    if not reasons:
        return None
    is_unchanging = BEFORE in path.name or path.name.endswith(NEXT)
    if is_unchanging or path.is_symlink() or path.name.startswith("."):
        return Copy(path, kind)
    if len(reasons) == store.record.rows.ok:
        return Copy(path, kind)
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
    for reason, names in names_of_reason.items():
        # A word without a slash would be the name of a store of the workspace.
        words = ["obygaze", "store", "subset", f"{path.parent}/{path.name}"]
        for name in names:
            words += ["--without", name]
        words += ["--reason", reason or "withdrawn"]
        words += ["--author", author] if author else []
        lines.append(shlex.join(words))
    return Copy(path, kind, " && ".join(lines))


# --- What was made of stores ---


def _names_a_seal(path: Path, kind: str, seals: Set[str]) -> bool:
    """Return whether an export, a report, a run or a model says that it was made of some stores."""
    if kind == EXPORT:
        origin = read_origin(_table_of_export(path))
        return origin is not None and origin.seal in seals
    name = _DOCUMENT_OF_FOLDER.get(kind)
    document = b""
    with suppress(OSError):
        document = (path / name if name else path).read_bytes()
    return any(seal.encode() in document for seal in seals)


def read_origin(path: Path) -> ExportOrigin | None:
    """Return of which store a file is an export; None for other files."""
    format = format_of_ending(path)
    text = ""
    if format is not None and format.writer:
        with suppress(*FOREIGN_DAMAGE, ObygazeError):
            text = format.function("origin_text")(path)
    return read_export_origin(text)


def _table_of_export(path: Path) -> Path:
    return path / EXPORTED_TABLE if path.is_dir() else path


def _wrote_all_of(path: Path, kind: str) -> bool:
    """Return whether obygaze wrote all of a file or folder that names a seal."""
    if kind == EXPORT:
        return not added_to(path, (EXPORTED_TABLE, CARD))
    if kind == RUN:
        return not own_results.RUN.refusal(path)
    if kind == REPORT:
        return not own_results.REPORT.refusal(path)
    return not own_results.MODEL.refusal(path)

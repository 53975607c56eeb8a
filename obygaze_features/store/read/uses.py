"""List what was made with withdrawn clips: stores, runs, models, exports and tables."""

import csv
import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.clip_ids import COLUMN, SEPARATORS
from obygaze_features.core.console import count, human, table
from obygaze_features.core.errors import (
    FixInput,
    NotFound,
    ObygazeError,
    first_line,
)
from obygaze_features.core.files import parse_json
from obygaze_features.core.lazy import need
from obygaze_features.core.outside import safe_text
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.workbooks import read_sheet
from obygaze_features.store.format.records import CLIPS_FILE, Plan, Seal
from obygaze_features.store.format.schema import OK
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote.versions import earlier_versions, read_kept_seal

# What says which features were used.
_DOCUMENTS = {"runs": "run.json", "models": "model.json"}
SHOWN_CLIPS = 3
# Longer documents are no runs and models.
MAX_DOCUMENT_BYTES = 100_000_000
# Folders of the workspace that are looked at in another way, or that hold no features.
_OTHER_FOLDERS = {"runs", "models", "manifests", "indexes", "logs"}
# The file that `store export` writes into a folder, as in interchange/export.py.
_EXPORT_FILE = ".obygaze-export.json"
_PROVENANCE = "obygaze_provenance"
MAX_DEPTH = 6
# What reading a file of somebody else may raise.
UNREADABLE = (ObygazeError, OSError, ValueError)
# What zipfile and NumPy raise for damaged bytes, beside ValueError and OSError.
_NPZ_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, LookupError, RuntimeError)


@dataclass(frozen=True)
class Use:
    """A store, a run, a model or a table with withdrawn clips, and its table that lists them."""

    kind: str
    name: str
    table: str
    clips: tuple[str, ...]


@dataclass(frozen=True)
class Uses:
    """What the workspace has that was made with the features of a store, and its withdrawn clips.

    `made_with` are the runs, models and folders of exports with features of this recipe.
    """

    store: str
    n_withdrawn: int
    uses: tuple[Use, ...]
    not_read: tuple[str, ...] = ()
    made_with: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return each use with its clips."""
        return asdict(self)

    def __str__(self) -> str:
        made_with = ", ".join(self.made_with) or "none"
        first = f"made with features of this recipe: {safe_text(made_with, 'terminal')}"
        return f"{first}\n{self._about_withdrawn()}"

    def _about_withdrawn(self) -> str:
        if not self.n_withdrawn:
            return "no clip of this store is withdrawn"
        if not self.uses:
            clips = count(self.n_withdrawn, "withdrawn clip")
            return f"nothing in this workspace lists the {clips}"
        rows = []
        for use in self.uses:
            shown = ", ".join(use.clips[:SHOWN_CLIPS])
            if len(use.clips) > SHOWN_CLIPS:
                shown += ", ..."
            cells = (use.kind, use.name, use.table, len(use.clips), shown)
            rows.append(tuple(safe_text(str(cell), "terminal") for cell in cells))
        return table(("kind", "name", "table", "clips", "first"), rows)

    @property
    def notes(self) -> list[str]:
        """Where was looked."""
        return [
            "looked at: stores (folders and zips), runs, models and exports (.parquet, .npz, "
            ".npy and .pth in folders) with features of this recipe, and tables with a column "
            "clip_id (.csv, .tsv, .xlsx, .parquet, .json), in the folder of the workspace",
            "not looked into: HDF5 files, single .pth files, reports, pictures, ELAN files, other "
            "archives, what is deeper than "
            f"{MAX_DEPTH} folders, other places, and copies that others have",
            *self.not_read,
        ]


def store_uses(
    store: str | os.PathLike[str] | Store,
    *,
    workspace: str | os.PathLike[str] | None = None,
) -> Uses:
    """List what was made with a store and what has its withdrawn clips.

    First come all runs, models and folders of exports with features of this recipe.

    Another store of the workspace is listed if it has features of this recipe of a withdrawn clip:
    a copy, a part, a store that was merged, or one from which concepts were erased. A run or a
    model is listed if it was made with features of this recipe and one of its tables has a
    withdrawn clip. Stores, zips of stores and exports are found anywhere in the folder of the
    workspace, and tables with a column clip_id, of which only the clips are known.

    Args:
        store: The store.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store uses obygaze12-xclip
        obygaze store uses obygaze12-xclip --json
    """
    opened = open_store(store, workspace=workspace)
    here = Workspace.of(workspace)
    withdrawn_rows = [
        row
        for row, status in sorted(opened.status().status_of_row.items())
        if status.is_withdrawn
    ]
    clips = set(opened.clip_ids[withdrawn_rows].tolist())
    fingerprints = _fingerprints(opened)
    name_of_store = opened.location if isinstance(store, Store) else os.fspath(store)
    made_with = tuple(_made_with(here, fingerprints))
    if not clips:
        return Uses(name_of_store, 0, (), (), made_with)
    uses: list[Use] = []
    not_read: list[str] = []
    for kind, document in _DOCUMENTS.items():
        for name in here.names(kind):
            folder = here.folder(kind) / name
            if _names_one(folder / document, fingerprints):
                uses += _uses_in(folder, kind.removesuffix("s"), name, clips, not_read)
    for path in _entries_below(here.root):
        use = _use_of_entry(path, here, opened, clips, fingerprints, not_read)
        if use is not None:
            uses.append(use)
    return Uses(name_of_store, len(clips), tuple(uses), tuple(not_read), made_with)


def _made_with(workspace: Workspace, fingerprints: Collection[bytes]) -> Iterator[str]:
    """Yield the runs, the models and the folders of exports with features of these recipes."""
    for kind, document in _DOCUMENTS.items():
        for name in workspace.names(kind):
            if _names_one(workspace.folder(kind) / name / document, fingerprints):
                yield f"{kind.removesuffix('s')} {name}"
    for path in _entries_below(workspace.root):
        if path.is_dir() and _names_one(path / _EXPORT_FILE, fingerprints):
            yield f"export {path.relative_to(workspace.root).as_posix()}"


def _entries_below(root: Path) -> Iterator[Path]:
    """Yield the stores and exports (folders), and the files, of a workspace that may have clips."""
    for folder, subfolders, files in os.walk(root):
        path = Path(folder)
        depth = len(path.relative_to(root).parts)
        is_store = (path / Plan.FILE).is_file()
        is_export = (path / _EXPORT_FILE).is_file()
        if is_store or is_export:
            subfolders.clear()
            yield path
            continue
        shown = sorted(name for name in subfolders if not name.startswith("."))
        if depth == 0:
            shown = [name for name in shown if name not in _OTHER_FOLDERS]
        if depth >= MAX_DEPTH:
            shown = []
        subfolders[:] = shown
        for name in sorted(files):
            yield path / name


def _use_of_entry(
    path: Path,
    workspace: Workspace,
    withdrawn_from: Store,
    clips: Collection[str],
    fingerprints: Collection[bytes],
    not_read: list[str],
) -> Use | None:
    """Return what a folder or file of the workspace has of withdrawn clips."""
    name = path.relative_to(workspace.root).as_posix()
    name_of_store = name
    if path.parent == workspace.folder("stores"):
        name_of_store = path.name
    try:
        if path.is_dir() and (path / Plan.FILE).is_file():
            held = _held_in_store(
                str(path), workspace, withdrawn_from, clips, fingerprints
            )
            return Use("store", name_of_store, CLIPS_FILE, held) if held else None
        if path.is_dir():
            if not _names_one(path / _EXPORT_FILE, fingerprints):
                return None
            listed = _clips_of_export(path, name, clips, not_read)
            return Use("export", name, name, listed) if listed else None
        if path.suffix.lower() == ".zip":
            held = ()
            with suppress(NotFound):  # a zip of something else
                held = _held_in_store(
                    str(path), workspace, withdrawn_from, clips, fingerprints
                )
            return Use("store", name_of_store, CLIPS_FILE, held) if held else None
        facts = path.parent / f"{path.name}.json"
        if facts.is_file() and not _names_one(facts, fingerprints):
            return None  # the features of another recipe
        if path.suffix.lower() == ".npz":
            listed = _clips_of_npz(path, clips, fingerprints)
            return Use("export", name, name, listed) if listed else None
        reader = _READERS.get(path.suffix.lower())
        if reader is None:
            return None
        listed = reader(path, clips)
        return Use("table", name, name, listed) if listed else None
    except UNREADABLE as error:
        not_read.append(_text_of_not_read(name, error))
        return None


def _text_of_not_read(name: str, error: Exception) -> str:
    """Return which file or store was not read, and why."""
    problem = error.message if isinstance(error, ObygazeError) else first_line(error)
    return f"not read: {name}: {problem}"


def _clips_of_export(
    folder: Path, name: str, clips: Collection[str], not_read: list[str]
) -> tuple[str, ...]:
    """Return the withdrawn clips in a folder of an export: in its tables, or as names of files."""
    listed: dict[str, None] = {}
    for path in sorted(folder.rglob("*")):
        if path.stem in clips:
            listed[path.stem] = None
        reader = _READERS.get(path.suffix.lower())
        if reader is None or not path.is_file():
            continue
        try:
            listed.update(dict.fromkeys(reader(path, clips)))
        except UNREADABLE as error:
            place = f"{name}/{path.relative_to(folder).as_posix()}"
            not_read.append(_text_of_not_read(place, error))
    return tuple(listed)


def _clips_of_npz(
    path: Path, clips: Collection[str], fingerprints: Collection[bytes]
) -> tuple[str, ...]:
    """Return the withdrawn clips of an .npz file with features of one of the recipes."""
    if not zipfile.is_zipfile(path):
        raise FixInput("not a complete npz file")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if not {_PROVENANCE, "clip_id"} <= set(arrays.files):
                return ()
            stated = str(arrays[_PROVENANCE][()]).encode()
            if not any(fingerprint in stated for fingerprint in fingerprints):
                return ()
            return _only(arrays["clip_id"].tolist(), clips)
    except _NPZ_DAMAGE as error:
        raise FixInput(f"not a complete npz file: {first_line(error)}") from error


def _clips_of_parquet(path: Path, clips: Collection[str]) -> tuple[str, ...]:
    arrow = need("pyarrow", "parquet", "reading .parquet files")
    parquet = need("pyarrow.parquet", "parquet", "reading .parquet files")
    try:
        if "clip_id" not in parquet.read_schema(path).names:
            return ()
        return _only(
            parquet.read_table(path, columns=["clip_id"])["clip_id"].to_pylist(), clips
        )
    except arrow.ArrowException as error:
        raise FixInput("not a table of Parquet", where=str(path)) from error


def _clips_of_workbook(path: Path, clips: Collection[str]) -> tuple[str, ...]:
    """Return the withdrawn clips of a spreadsheet whose first sheet has a column clip_id."""
    sheet = read_sheet(path, "1")
    for number, cells in enumerate(sheet.rows):
        if "clip_id" in cells:
            column = cells.index("clip_id")
            later = sheet.rows[number + 1 :]
            return _only([row[column] for row in later if len(row) > column], clips)
    return ()


def _clips_of_json(path: Path, clips: Collection[str]) -> tuple[str, ...]:
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise FixInput(f"larger than {human(MAX_DOCUMENT_BYTES)}")
    records = parse_json(path.read_bytes())
    if not isinstance(records, list):
        return ()
    ids = [record.get("clip_id") for record in records if isinstance(record, dict)]
    return _only(ids, clips)


def _only(ids: Iterable[object], clips: Collection[str]) -> tuple[str, ...]:
    """Return those of some ids that are withdrawn, each once."""
    texts = map(str, ids)
    return tuple(dict.fromkeys(text for text in texts if text in clips))


def _held_in_store(
    name: str,
    workspace: Workspace,
    withdrawn_from: Store,
    clips: Collection[str],
    fingerprints: Collection[bytes],
) -> tuple[str, ...]:
    """Return the withdrawn clips of which another store still has features of the same recipe."""
    store = open_store(name, workspace=workspace.root)
    is_other = store.location != withdrawn_from.location
    if not is_other or store.fingerprint.encode() not in fingerprints:
        return ()
    status_of_row = store.status().status_of_row
    held = []
    for row, clip in enumerate(store.clip_ids.tolist()):
        if clip in clips and status_of_row.get(row, OK).is_ok:
            held.append(clip)
    return tuple(held)


def _fingerprints(store: Store) -> set[bytes]:
    """Return the fingerprints of the recipes of all versions of a store that are here."""
    fingerprints = {store.fingerprint.encode()}
    seal = store.commits.seal
    if seal is None:
        return fingerprints
    for entry in earlier_versions(store.files, seal):
        data = read_kept_seal(store.files, entry)
        if data is not None:
            earlier = Seal.from_bytes(data, store.location)
            fingerprints.add(earlier.fingerprint.encode())
    return fingerprints


def _names_one(document: Path, fingerprints: Collection[bytes]) -> bool:
    """Return whether a document names one of the fingerprints."""
    if not document.is_file() or document.stat().st_size > MAX_DOCUMENT_BYTES:
        return False
    data = document.read_bytes()
    return any(fingerprint in data for fingerprint in fingerprints)


def _uses_in(
    folder: Path, kind: str, name: str, clips: Collection[str], not_read: list[str]
) -> Iterator[Use]:
    for path in sorted(folder.glob("*.csv")):
        try:
            listed = _listed_clips(path, clips)
        except UNREADABLE as error:
            not_read.append(_text_of_not_read(f"{kind} {name}: {path.name}", error))
            continue
        if listed:
            yield Use(kind, name, path.name, listed)


def _listed_clips(path: Path, clips: Collection[str]) -> tuple[str, ...]:
    """Return the clips that a table with a column `clip_id` lists, of some clips."""
    listed: dict[str, None] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            header = stream.readline()
            separator = _separator_of(header)
            if separator is None:
                return ()
            (names,) = csv.reader([header], delimiter=separator)
            column = _stripped(names).index(COLUMN)
            for row in csv.reader(stream, delimiter=separator):
                clip = row[column].strip() if len(row) > column else ""
                if clip in clips:
                    listed[clip] = None
    except UnicodeDecodeError as error:
        raise FixInput("not UTF-8") from error
    except csv.Error as error:
        raise FixInput(f"not valid CSV: {error}") from error
    return tuple(listed)


def _separator_of(header: str) -> str | None:
    """Return what separates the columns of a table with a column `clip_id`; None without it."""
    for separator in SEPARATORS:
        for names in csv.reader([header], delimiter=separator):
            if COLUMN in _stripped(names):
                return separator
    return None


def _stripped(names: Iterable[str]) -> list[str]:
    return [name.strip() for name in names]


_READERS: Mapping[str, Callable[[Path, Collection[str]], tuple[str, ...]]] = {
    ".csv": _listed_clips,
    ".tsv": _listed_clips,
    ".parquet": _clips_of_parquet,
    ".xlsx": _clips_of_workbook,
    ".json": _clips_of_json,
}

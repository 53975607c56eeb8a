"""List what was made with withdrawn clips: runs, models and tables of predictions."""

import csv
import os
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.console import count, table
from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.core.files import SPREADSHEET_LINE, original_cell
from obygaze_features.core.outside import safe_text
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.format.records import CLIPS_FILE, Seal
from obygaze_features.store.format.schema import OK
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote.versions import earlier_versions, read_kept_seal

# What says which features were used.
_DOCUMENTS = {"runs": "run.json", "models": "model.json"}
SHOWN_CLIPS = 3
# Longer documents are no runs and models.
MAX_DOCUMENT_BYTES = 100_000_000


@dataclass(frozen=True)
class Use:
    """A store, a run, a model or a table with withdrawn clips, and its table that lists them."""

    kind: str
    name: str
    table: str
    clips: tuple[str, ...]


@dataclass(frozen=True)
class Uses:
    """What the workspace has that was made with the withdrawn clips of a store."""

    store: str
    n_withdrawn: int
    uses: tuple[Use, ...]

    def to_json(self) -> dict[str, Any]:
        """Return each use with its clips."""
        return asdict(self)

    def __str__(self) -> str:
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
            "looked at: stores/, runs/ and models/ with features of this recipe, and the CSV "
            "tables in the folder of the workspace"
        ]


def store_uses(
    store: str | os.PathLike[str] | Store,
    *,
    workspace: str | os.PathLike[str] | None = None,
) -> Uses:
    """List the stores, runs, models and predictions that have or used withdrawn clips.

    Another store of the workspace is listed if it has features of this recipe of a withdrawn clip:
    a copy, a part, or a store that was merged. A run or a model is listed if it was made with
    features of this recipe and one of its tables has a withdrawn clip. Of CSV tables in the folder
    of the workspace, only the clips are known.

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
    if not withdrawn_rows:
        raise FixInput(
            "no clip of this store is withdrawn",
            where=opened.location,
            hint='obygaze store withdraw STORE --film FILM --reason "..."',
        )
    clips = set(opened.clip_ids[withdrawn_rows].tolist())
    fingerprints = _fingerprints(opened)
    uses: list[Use] = []
    for name in here.names("stores"):
        held = _held_in_store(name, here, opened, clips, fingerprints)
        if held:
            uses.append(Use("store", name, CLIPS_FILE, held))
    for kind, document in _DOCUMENTS.items():
        for name in here.names(kind):
            folder = here.folder(kind) / name
            if _names_one(folder / document, fingerprints):
                uses += _uses_in(folder, kind.removesuffix("s"), name, clips)
    if here.root.is_dir():
        for path in sorted(here.root.glob("*.csv")):
            listed = _listed_clips(path, clips)
            if listed:
                uses.append(Use("table", path.name, path.name, listed))
    name = opened.location if isinstance(store, Store) else os.fspath(store)
    return Uses(name, len(clips), tuple(uses))


def _held_in_store(
    name: str,
    workspace: Workspace,
    withdrawn_from: Store,
    clips: Collection[str],
    fingerprints: Collection[bytes],
) -> tuple[str, ...]:
    """Return the withdrawn clips of which another store still has features of the same recipe."""
    try:
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
    except ObygazeError:
        return ()  # a store that cannot be read; obygaze store verify says why


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
    folder: Path, kind: str, name: str, clips: Collection[str]
) -> Iterator[Use]:
    for path in sorted(folder.glob("*.csv")):
        listed = _listed_clips(path, clips)
        if listed:
            yield Use(kind, name, path.name, listed)


def _listed_clips(path: Path, clips: Collection[str]) -> tuple[str, ...]:
    """Return the clips that a table with a column `clip_id` lists, of some clips."""
    listed: dict[str, None] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            first_line = stream.readline()
            if not first_line.startswith(SPREADSHEET_LINE):
                stream.seek(0)
            for row in csv.DictReader(stream):
                clip = original_cell(row.get("clip_id") or "")
                if clip in clips:
                    listed[clip] = None
    except (UnicodeDecodeError, csv.Error, OSError):
        return ()  # not a table of this program
    return tuple(listed)

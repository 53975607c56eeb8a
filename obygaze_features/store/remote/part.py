"""A part of a sealed store as a store of its own: its identity, and how it is made.

Some arrays are the same files with another store.json and seal, which are known before a file is
fetched. The clips of some films are cut from whole files that were fetched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import canonical_json, sha256_bytes, write_atomic
from obygaze_features.store.format.names import gathered_key
from obygaze_features.store.format.records import (
    README_FILE,
    Derivation,
    LicenceHistory,
    Origin,
    Plan,
    Seal,
)
from obygaze_features.store.format.schema import ArraySpec, FileMark
from obygaze_features.store.read.describe import card_text
from obygaze_features.store.read.index import FilmIndex
from obygaze_features.store.read.index_pages import index_records
from obygaze_features.store.read.reader import Store
from obygaze_features.store.remote.files import Files
from obygaze_features.store.write.edit import copy_rows

PLAN_ID_DIGITS = 32


@dataclass(frozen=True)
class Cut:
    """The clips of some films, to be made a store of their own from fetched files."""

    store: Store
    rows: npt.NDArray[np.int64]
    arrays: Sequence[ArraySpec]
    derived: Derivation

    def make(self, files: Files, path: Path) -> None:
        """Make the store; `files` has the files of the arrays, compared with the seal."""
        history = self.store.licence_history
        copied = copy_rows(
            self.store.with_array_files(files),
            path,
            self.rows,
            self.arrays,
            terms=self.store.plan.terms,
            derived=self.derived,
        )
        if history is not None:
            data = licence_for(history, Plan.load(copied.path))
            write_atomic(copied.path / LicenceHistory.FILE, data)


def arrays_of_part(store: Store, arrays: Sequence[str] | None) -> list[ArraySpec]:
    """Return the arrays of a part: those of these names, and the times and masks of all."""
    specs = store.chosen_arrays(arrays)
    if not any(spec.is_feature_array for spec in specs):
        raise FixInput(
            f"no array of features is selected, got {', '.join(arrays or ())}",
            where=store.location,
            hint="one of " + ", ".join(store.feature_arrays),
        )
    return specs


def derivation_of(
    store: Store,
    specs: Sequence[ArraySpec],
    arrays: Sequence[str] | None,
    films: Sequence[str] | None,
) -> Derivation:
    """Return the identity of a part of a store: the same for everybody who asks for it."""
    plan = store.plan
    asked_films = None if films is None else tuple(sorted(set(films)))
    asked_arrays = None if arrays is None else tuple(dict.fromkeys(arrays))
    seal_sha256 = ""
    # Of a large store only the index was read, and its seal is not known.
    if store.commits.index is None:
        seal_sha256 = store.seal_sha256
    origin = Origin(
        store_sha256=plan.sha256,
        seal_sha256=seal_sha256,
        levels=asked_arrays,
        films=asked_films,
    )
    names = [spec.name for spec in specs]
    facts: list[Any] = [plan.sha256, names, asked_films]
    number = store.commits.version_number
    if number > 1:
        # Several versions have one store.json, and of a large store the seal is not known.
        facts.append(number)
    part = canonical_json(facts)
    return Derivation(
        plan_id=sha256_bytes(part)[:PLAN_ID_DIGITS],
        created=plan.created,
        created_by=plan.created_by,
        origins=(*plan.origins, origin),
        replaced_versions=plan.replaced_versions,
    )


def documents_of_arrays(
    store: Store, seal: Seal, arrays: Sequence[ArraySpec], derived: Derivation
) -> tuple[dict[str, FileMark], dict[str, bytes]]:
    """Return the files of a store of some arrays of another, and its own documents.

    The files are those of the other store. store.json is the last document.
    """
    plan = _plan_of_arrays(store.plan, arrays, derived)
    card = card_text(plan, dict(seal.counts), made_by=store.commits.made_by())
    names = {spec.name for spec in arrays}
    dropped = [spec.name for spec in store.plan.arrays if spec.name not in names]
    marks = _marks_without(seal.files, dropped)
    has_index = FilmIndex.FILE in marks
    marks = {
        name: mark
        for name, mark in marks.items()
        if name not in (Plan.FILE, README_FILE) and not name.startswith("index/")
    }
    documents = {README_FILE: card.encode("utf-8")}
    crc32c = {name: text for name, text in seal.crc32c.items() if name in names}
    # A part is a store of its own, without earlier versions.
    new = replace(seal, files=marks, crc32c=crc32c, store_version=None)
    if has_index:
        for name, record in index_records(store, new, plan).items():
            documents[name] = record.to_bytes()
    listed = {**documents, Plan.FILE: plan.data}
    files = {
        **marks,
        **{name: FileMark.of(data) for name, data in listed.items()},
    }
    documents[Seal.FILE] = replace(new, files=files).to_bytes()
    if store.licence_history is not None:
        documents[LicenceHistory.FILE] = licence_for(store.licence_history, plan)
    documents[Plan.FILE] = plan.data
    return marks, documents


def licence_for(history: LicenceHistory, plan: Plan) -> bytes:
    """Return licence.json with the same statements for another store."""
    return replace(history, plan=plan.sha256).to_bytes()


def _plan_of_arrays(
    plan: Plan, arrays: Sequence[ArraySpec], derived: Derivation
) -> Plan:
    """Return store.json of a store of some arrays of another, with its bytes."""
    names = {spec.name for spec in arrays}
    dropped = [spec.name for spec in plan.arrays if spec.name not in names]
    zarr: dict[str, Any] = {
        key: document
        for key, document in plan.zarr.items()
        if key.partition("/")[0] not in dropped
    }
    new = replace(
        plan,
        arrays=tuple(arrays),
        files=_marks_without(plan.files, dropped),
        zarr=zarr,
        **derived._asdict(),
    )
    return Plan.from_bytes(new.to_bytes(), Plan.FILE)


def _marks_without(
    marks: Mapping[str, FileMark], dropped: Sequence[str]
) -> dict[str, FileMark]:
    """Return the marks of files that are not of some arrays."""
    folders = tuple(f"data.zarr/{name}/" for name in dropped)
    gathered = set(map(gathered_key, dropped))
    return {
        name: marks[name]
        for name in marks
        if not name.startswith(folders) and name not in gathered
    }

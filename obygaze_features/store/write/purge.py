"""Make a store in which the bytes of withdrawn clips are nowhere."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from obygaze_features.core.console import Progress, count
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.core.files import canonical_json, sha256_bytes, write_atomic
from obygaze_features.core.options import Bar, Option
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.format.records import (
    Derivation,
    LicenceHistory,
    Plan,
    Replaced,
)
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote.part import PLAN_ID_DIGITS, licence_for
from obygaze_features.store.remote.versions import FilesOfVersion, earlier_versions
from obygaze_features.store.write.edit import copy_rows


@dataclass(frozen=True)
class Purged:
    """A store without the features of withdrawn clips, and what it replaces."""

    path: Path
    n_clips: int
    n_withdrawn: int
    replaces: Replaced
    seal_sha256: str
    source: str

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the new store."""
        return {**asdict(self), "path": str(self.path)}

    def __str__(self) -> str:
        withdrawn = count(self.n_withdrawn, "withdrawn clip")
        return "\n".join(
            [
                f"{self.path}: {count(self.n_clips, 'clip')}, no features of {withdrawn}",
                f"seal_sha256: {self.seal_sha256}",
            ]
        )

    @property
    def notes(self) -> list[str]:
        """What is still to do."""
        return [
            f"{self.source} still has the features, in its earlier versions: remove that folder, "
            "and its copies, then publish this store"
        ]


def purge(
    store: str | os.PathLike[str] | Store,
    path: Annotated[str | os.PathLike[str], Option("-o --output", metavar="NAME")],
    *,
    progress: Annotated[Progress | None, Bar("copy")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Purged:
    """Make a store in which the features of withdrawn clips are nowhere.

    It has the newest version alone, without the earlier ones that still have these features. Its
    store.json says which version it replaces. It is the same store, with the same sha256 of its
    seal, whoever makes it of that version.

    Args:
        store: The store.
        path: The new store: a name or a folder.
        progress: Counts clips.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store purge obygaze12-xclip -o obygaze12-xclip-2027
    """
    source = open_store(store, workspace=workspace)
    target = Workspace.of(workspace).new_store(path)
    if isinstance(source.files, FilesOfVersion):
        raise FixUsage(
            f"the newest version of a store is purged, got version {source.version}",
            where=source.location,
            hint=source.files.inner.location,
        )
    status = source.status()
    withdrawn = [
        status_of_row
        for status_of_row in status.status_of_row.values()
        if status_of_row.is_withdrawn
    ]
    if not source.sealed or not withdrawn:
        raise FixInput(
            "no clip of this store is withdrawn",
            where=source.location,
            hint="obygaze store withdraw; obygaze store subset copies a store without its "
            "earlier versions",
        )
    replaced = Replaced(
        store_sha256=source.plan.sha256,
        seal_sha256=source.seal_sha256,
        version=source.version,
        reason="; ".join(sorted({status.message for status in withdrawn})),
    )
    derived = _derivation(source, _replaced_before(source), replaced)
    plan_file = target / Plan.FILE
    if plan_file.is_file() and Plan.load(target).plan_id != derived.plan_id:
        # The blocks of another store would be taken for those that were copied before a stop.
        raise AlreadyThere(
            "another store is here, which may have the withdrawn features",
            where=str(target),
            hint="another name",
        )
    copied = copy_rows(
        source,
        target,
        np.arange(source.n_clips),
        source.plan.arrays,
        progress,
        terms=source.plan.terms,
        derived=derived,
    )
    history = source.licence_history
    if history is not None:
        data = licence_for(history, Plan.load(copied.path))
        write_atomic(copied.path / LicenceHistory.FILE, data)
    return Purged(
        path=copied.path,
        n_clips=copied.n_clips,
        n_withdrawn=len(withdrawn),
        replaces=replaced,
        seal_sha256=open_store(copied.path).seal_sha256,
        source=source.location,
    )


def _replaced_before(source: Store) -> Iterator[Replaced]:
    """Yield the versions before the newest, the oldest first: their copies are replaced too."""
    seal = source.commits.seal
    if seal is None:
        return
    entries = list(earlier_versions(source.files, seal))
    for entry in reversed(entries):
        yield Replaced(
            store_sha256=entry.store.sha256,
            seal_sha256=entry.seal.sha256,
            version=entry.store_version.number,
            # Its own reason: with all reasons in each of them, store.json would grow with the
            # square of their number, and could not be read from 200 withdrawals on.
            reason=entry.store_version.reason,
        )


def _derivation(
    source: Store, before: Iterable[Replaced], replaced: Replaced
) -> Derivation:
    """Return the identity of the new store: the same for everybody who makes it."""
    plan = source.plan
    identity = canonical_json(
        [replaced.store_sha256, replaced.seal_sha256, "without withdrawn features"]
    )
    return Derivation(
        plan_id=sha256_bytes(identity)[:PLAN_ID_DIGITS],
        created=plan.created,
        created_by=plan.created_by,
        origins=plan.origins,
        replaced_versions=(*plan.replaced_versions, *before, replaced),
    )

"""Read the state of a store, finished or being filled, and report its progress."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.clip_ids import each_name
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import (
    NotFound,
    ObygazeError,
    ObygazeWarning,
    first_line,
)
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.shell import shell_word
from obygaze_features.core.temporary_names import remove_leftovers
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.store.atomic_files import read_seal
from obygaze_features.store.filling import Filling, remove_leftover
from obygaze_features.store.layout import BEFORE, NEXT, Array
from obygaze_features.store.reading import Reason, open_store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import ComputeSetup
from obygaze_features.store.rows import (
    FAILED,
    NOT_EXTRACTED,
    OK,
    STATUSES,
    Row,
    RowStatus,
)

# The number of lines, one for each reason of failed clips, that are listed without -v.
SHOWN_CLIPS = 20


@dataclass(frozen=True)
class StoreState:
    """The state of a finished store, or of a store that is being filled.

    Args:
        recipe: The recipe of the features.
        arrays: The arrays of the store.
        rows: All rows. Rows that a filling has not computed yet are `not-extracted`.
        kinds: The devices, precisions and versions that computed the rows, or will compute them.
        manifest: The manifest whose clips the rows are.
        seal: The seal of the finished store; "" if there is none.
        computed: For each row, whether this filling computes it; None for a finished store.
        filling: The filling of the store; None for a finished store.
    """

    recipe: Recipe
    arrays: Sequence[Array]
    rows: Sequence[Row]
    kinds: Sequence[ComputeSetup]
    manifest: str = ""
    seal: str = ""
    computed: Sequence[bool] | None = None
    filling: Filling | None = None

    @property
    def is_filling(self) -> bool:
        """Whether the store is being filled."""
        return self.computed is not None

    @property
    def array_names(self) -> list[str]:
        """The names of the arrays."""
        return [array.name for array in self.arrays]


def read_stored(path: Path) -> StoreState | None:
    """Return the state of a store that is being filled, or else of the finished store.

    If a finished store is being changed, return the state of its filling. Return None if there is
    neither a filling nor a store.
    """
    while True:
        remove_leftovers(path)
        remove_leftover(path)
        filling = None
        with suppress(NotFound):
            filling = Filling.open(path)
        seal = read_seal(path)
        try:
            if filling is not None:
                stored = _state_of_filling(filling, seal)
                if filling.is_current():
                    return stored
            elif seal:
                store = open_store(path)
                return StoreState(
                    recipe=store.recipe,
                    arrays=store.record.arrays,
                    rows=store.rows,
                    kinds=[maker.kind for maker in store.record.makers],
                    manifest=store.record.manifest.name,
                    seal=store.seal,
                )
            else:
                return None
        except (OSError, ObygazeError):
            # Another process may have sealed the store, and moved or removed these files.
            is_as_before = read_seal(path) == seal
            if is_as_before and (filling is None or filling.is_current()):
                raise


def _state_of_filling(filling: Filling, seal: str) -> StoreState:
    """Return the state of a store that is being filled."""
    plan = filling.plan
    rows = list(filling.rows)
    for number in np.flatnonzero(filling.computed).tolist():
        rows[number] = rows[number]._replace(status=NOT_EXTRACTED)
    finished, _ = filling.list_blocks()
    for block in sorted(finished & set(filling.needed)):
        record = filling.read_block(block)
        if record is not None:
            for number, row in zip(filling.rows_of(block), record.rows, strict=True):
                rows[number] = row
    return StoreState(
        recipe=Recipe.from_json(plan.recipe),
        arrays=plan.arrays,
        rows=rows,
        kinds=[plan.kind],
        manifest=plan.manifest.name,
        seal=seal,
        computed=filling.computed.tolist(),
        filling=filling,
    )


# --- Progress ---


@dataclass(frozen=True)
class StoreStatus:
    """The status of a store.

    Args:
        store: The folder of the store.
        backbone: The backbone that computed the features.
        manifest: The manifest whose clips the rows are.
        clips: The number of rows.
        counts: The number of rows with each status. While the store is filled, rows that are not
            extracted yet are `not-extracted`.
        blocks: The number of blocks to compute while the store is filled; 0 for a finished store.
        blocks_done: The number of finished blocks.
        seal: The seal of the store; "" while the store is filled.
        failures: Why clips have no features, by their ids.
    """

    store: str
    backbone: str
    manifest: str
    clips: int
    counts: Mapping[RowStatus, int]
    blocks: int
    blocks_done: int
    seal: str
    failures: Mapping[str, Reason]

    @property
    def ok(self) -> int:
        """The number of rows with features."""
        return self.counts[OK]

    @property
    def failed(self) -> int:
        """The number of failed clips."""
        return self.counts[FAILED]

    @property
    def exit_code(self) -> int:
        """The exit code. While the store is filled, rows that are not extracted do not count."""
        exit_codes = [0]
        for status, n_rows in self.counts.items():
            if n_rows and (self.seal or status != NOT_EXTRACTED):
                exit_codes.append(status.exit_code)
        return max(exit_codes)

    def to_json(self) -> dict[str, Any]:
        """Return the status as one JSON document."""
        facts = {**vars(self), "sealed": bool(self.seal)}
        facts["failures"] = {clip: str(why) for clip, why in self.failures.items()}
        for status, n_rows in facts.pop("counts").items():
            facts[status.key] = n_rows
        return facts

    def __str__(self) -> str:
        state = "sealed"
        if not self.seal:
            state = f"being filled, {self.blocks_done} of {self.blocks} blocks"
        counts = []
        for status, n_rows in self.counts.items():
            if n_rows or status == OK:
                counts.append(f"{n_rows} {status}")
        return (
            f"{Path(self.store).name} ({self.backbone}): {state};"
            f" {count(self.clips, 'clip')}: {', '.join(counts)}"
        )

    @property
    def notes(self) -> list[str]:
        """Return a line for each reason why clips have no features, at most `SHOWN_CLIPS` lines."""
        clips_of: dict[Reason, list[str]] = {}
        for clip, why in self.failures.items():
            clips_of.setdefault(why, []).append(clip)
        lines = [f"  {few(clips, 3)}: {why}" for why, clips in clips_of.items()]
        return lines[:SHOWN_CLIPS]

    @property
    def details(self) -> list[str]:
        """Return a line for each clip without features; none if the notes have all these lines."""
        lines = [f"  {clip}: {why}" for clip, why in self.failures.items()]
        return [] if lines == self.notes else lines

    @property
    def without_details(self) -> str:
        """Return the command that lists each clip without features."""
        return f"  to list all: obygaze -v extract status {shell_word(self.store)}"


def store_status(path: Path) -> StoreStatus:
    """Return the status of a store; raise an error if there is none."""
    status = status_at(path)
    if status is None:
        raise NotFound("no store here", where=str(path))
    return status


def status_at(path: Path) -> StoreStatus | None:
    """Return the status of a store, or None if there is none."""
    stored = read_stored(path)
    if stored is None:
        return None
    rows = stored.rows
    counts = dict.fromkeys(STATUSES, 0)
    failures = {}
    for row in rows:
        counts[row.status] += 1
        if row.status not in (OK, NOT_EXTRACTED):
            failures[row.clip_id] = Reason(row.status, row.reason)
    filling = stored.filling
    n_blocks = len(filling.needed) if filling else 0
    n_left = len(filling.missing()) if filling else 0
    return StoreStatus(
        store=str(path),
        backbone=stored.recipe.title,
        manifest=stored.manifest,
        clips=len(rows),
        counts=counts,
        blocks=n_blocks,
        blocks_done=n_blocks - n_left,
        seal="" if filling else stored.seal,
        failures=failures,
    )


class StatusOfStores(list[StoreStatus]):
    """The status of several stores."""

    @property
    def parts(self) -> Sequence[StoreStatus]:
        """The status of each store, which a command prints with its failed clips."""
        return self

    def __repr__(self) -> str:
        stores = [f"{state.backbone} {state.ok} of {state.clips}" for state in self]
        return short_repr(type(self).__name__, *stores)

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def to_json(self) -> dict[str, Any]:
        """Return the status of each store."""
        return {"stores": [state.to_json() for state in self]}


def extraction_status(
    stores: Sequence[str],
    *,
    workspace: PathLike | None = None,
) -> StatusOfStores:
    """Show how many clips of stores are extracted, and which clips failed.

    The command can be used during a run: it counts the finished blocks of a store that is being
    filled. The name of a manifest stands for all stores of its clips.

    Args:
        stores: Names or folders of stores, or names of manifests.
        workspace: The workspace, if it is not the current one.
    """
    here = Workspace.of(workspace)
    names = each_name(stores)
    manifests = here.names("manifests")
    states = []
    for name in names:
        path = Path(here.store(os.fspath(name))).resolve()
        status = status_at(path) if path.name else None
        if status is not None:
            states.append(status)
        elif name in manifests:
            states += _stores_of_manifest(name, here)
        else:
            here.existing_store(name)
            raise NotFound(
                "no store here, and none is being filled",
                where=name,
                hint="obygaze ls",
            )
    return StatusOfStores(states)


def _stores_of_manifest(name: str, workspace: Workspace) -> list[StoreStatus]:
    """Return the status of the stores of a manifest's clips in a workspace."""
    folder = workspace.folder("stores").resolve()
    names = [entry.removesuffix(NEXT) for entry in workspace.names("stores")]
    states = []
    for store in dict.fromkeys(names):
        if BEFORE in store:
            continue
        try:
            status = status_at(folder / store)
        except (ObygazeError, OSError) as error:
            # This is no error: the store may have the clips of a different manifest.
            warnings.warn(
                f"{store}: cannot be read and is not counted: {first_line(error)}",
                ObygazeWarning,
                stacklevel=4,
            )
            continue
        if status is not None and status.manifest == name:
            states.append(status)
    if not states:
        raise NotFound(
            f"no store has the clips of the manifest {name!r}",
            where=str(folder),
            hint="obygaze extract run --help",
        )
    return states

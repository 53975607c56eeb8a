"""What is there of a store: its finished rows, and those that are being filled."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.errors import NotFound, ObygazeError
from obygaze_features.store.filling import Filling, remove_leftover, store_before
from obygaze_features.store.layout import Array
from obygaze_features.store.placing import finish_waiting, seal_at
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import Kind, withdrawn_by
from obygaze_features.store.rows import FAILED, Row
from obygaze_features.store.sealing import NOT_EXTRACTED


@dataclass(frozen=True)
class Stored:
    """What is there: a finished store, or one that is being filled.

    Args:
        recipe: How the numbers were made.
        arrays: Its arrays.
        rows: All rows; those that are planned and not computed have the reason `not extracted`.
        kinds: What computed the rows, or is planned to.
        manifest: The manifest whose clips the rows are.
        withdrawn_clips: Clips that were withdrawn and never come back.
        withdrawn_films: Films that were withdrawn and never come back.
        seal: The seal of the finished store; "" if there is none.
        computed: While the store is filled: for each row, whether this filling computes it.
        filling: Its filling, if it is being filled.
    """

    recipe: Recipe
    arrays: Sequence[Array]
    rows: Sequence[Row]
    kinds: Sequence[Kind]
    manifest: str = ""
    withdrawn_clips: frozenset[str] = frozenset()
    withdrawn_films: frozenset[str] = frozenset()
    seal: str = ""
    computed: Sequence[bool] | None = None
    filling: Filling | None = None

    @property
    def is_filling(self) -> bool:
        """Whether the store is being filled."""
        return self.computed is not None

    @property
    def array_names(self) -> list[str]:
        """The names of its arrays."""
        return [array.name for array in self.arrays]

    @property
    def computes(self) -> Sequence[str]:
        """The names of the arrays that its rows get: while it is filled, those of its plan."""
        return self.filling.plan.computes if self.filling else self.array_names


def read_stored(path: Path) -> Stored | None:
    """Return what is there of a store: its filling, else the finished store; None if nothing is."""
    while True:
        finish_waiting(path)
        remove_leftover(path)
        filling = None
        with suppress(NotFound):
            filling = Filling.open(path)
        seal = seal_at(path)
        try:
            if filling is not None:
                stored = _being_filled(filling, seal)
                if filling.is_current():
                    return stored
            elif seal:
                return _finished(open_store(path))
            else:
                return None
        except (OSError, ObygazeError):
            # Another process may have sealed the store, and moved or removed what was read here.
            is_as_before = seal_at(path) == seal
            if is_as_before and (filling is None or filling.is_current()):
                raise


def _finished(store: Store) -> Stored:
    record = store.record
    withdrawn = withdrawn_by(record.replaces)
    return Stored(
        recipe=store.recipe,
        arrays=record.arrays,
        rows=store.rows,
        kinds=[maker.kind for maker in record.makers],
        manifest=record.manifest.name,
        withdrawn_clips=withdrawn.clips,
        withdrawn_films=withdrawn.films,
        seal=store.seal,
    )


def _being_filled(filling: Filling, seal: str) -> Stored:
    """Return the rows of a store that is being filled, as far as they are known."""
    plan = filling.plan
    rows = [row._replace(status=FAILED, reason=NOT_EXTRACTED) for row in filling.rows]
    withdrawn = withdrawn_by(())
    if plan.replaces:
        before = store_before(filling.target, plan.replaces)
        withdrawn = withdrawn_by(before.record.replaces)
        for number, row in enumerate(before.rows):
            if not filling.computed[number]:
                rows[number] = row
    for block in sorted(filling.done() & set(filling.needed)):
        record = filling.read_block(block)
        if record is None:
            continue
        for done in record.rows:
            rows[done.row] = filling.rows[done.row]._replace(
                status=done.status,
                reason=done.reason,
                video_bytes=done.video_bytes,
                video_hash=done.video_hash,
                pictures=done.pictures,
            )
    return Stored(
        recipe=Recipe.from_json(plan.recipe),
        arrays=plan.arrays,
        rows=rows,
        kinds=[plan.kind],
        manifest=plan.manifest.name,
        withdrawn_clips=withdrawn.clips,
        withdrawn_films=withdrawn.films,
        seal=seal,
        computed=filling.computed.tolist(),
        filling=filling,
    )

"""Whether a clip was withdrawn: one answer for everything that makes, brings or lists rows.

What is withdrawn is a film, or a clip by its film and its id. Extraction, import, merge, copies,
`info`, `verify` and the list of what is still to be removed ask `Withdrawals`. What was made of a
store is known by the seals of `made_of`.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Self

import numpy as np

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.decoding import OK_CODE
from obygaze_features.store.layout import BEFORE
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.records import Tombstone
from obygaze_features.store.rows import NO_REASON, STATUSES, WITHDRAWN

WITHDRAWN_CODE = STATUSES.index(WITHDRAWN)


class Withdrawals:
    """The films and the clips that stores list as withdrawn, with the reasons after their dates.

    Args:
        reason_of: Of each withdrawn clip, by its film and its id, why. The film is "" where it is
            not stated, and the id is "" for a film that was withdrawn as a whole.
    """

    def __init__(self, reason_of: Mapping[tuple[str, str], str]) -> None:
        self.reason_of = reason_of
        self.films = [film for film, clip_id in reason_of if not clip_id]
        self._films_of_id: dict[str, list[str]] = {}
        for film, clip_id in reason_of:
            if clip_id:
                self._films_of_id.setdefault(clip_id, []).append(film)

    @classmethod
    def of(cls, stores: Sequence[Store], *, has_rows: bool = True) -> Self:
        """Return what stores list as withdrawn.

        Args:
            stores: The stores.
            has_rows: Whether their rows can be read.
        """
        reason_of: dict[tuple[str, str], str] = {}
        for each in tombstones_of(stores):
            reason_of.setdefault((each.movie_id, each.clip_id), each.dated_reason)
        for store in stores:
            if not (store.record.rows.withdrawn and has_rows):
                continue
            # The clips of a film that was withdrawn as a whole are only here.
            is_withdrawn = store.table.codes == WITHDRAWN_CODE
            for row in store.table.some(np.flatnonzero(is_withdrawn)):
                names = (row.movie_id, row.clip_id)
                reason_of.setdefault(names, row.reason or NO_REASON)
        return cls(reason_of)

    def by(self, tombstones: Iterable[Tombstone]) -> Self:
        """Return only what some tombstones name."""
        named = {(each.movie_id, each.clip_id) for each in tombstones}
        reason_of = {}
        for (film, clip_id), reason in self.reason_of.items():
            if (film, "") in named or (film, clip_id) in named:
                reason_of[film, clip_id] = reason
        return type(self)(reason_of)

    def __bool__(self) -> bool:
        return bool(self.reason_of)

    def reason(self, clip_id: str, movie_id: str) -> str:
        """Return why a clip was withdrawn, after the date; "" if it was not.

        A clip of another film that has the id of a withdrawn one was not. Where one of the two
        films is not stated, nobody knows that they are two: then it was.

        Args:
            clip_id: The id; "" asks for the film alone.
            movie_id: The film; "" if it is not stated.
        """
        for film in self._films_of_id.get(clip_id, ()):
            if film == movie_id or not (film and movie_id):
                return self.reason_of[film, clip_id]
        return self.reason_of.get((movie_id, ""), "") if movie_id else ""

    def reasons(
        self, clip_ids: Iterable[str], movie_ids: Iterable[str]
    ) -> dict[int, str]:
        """Return why some clips were withdrawn, by their places among those that are asked for."""
        reasons: dict[int, str] = {}
        if not self:
            return reasons
        for place, names in enumerate(zip(clip_ids, movie_ids, strict=True)):
            reason = self.reason(*names)
            if reason:
                reasons[place] = reason
        return reasons

    def rows_in(self, store: Store, code: int = OK_CODE) -> dict[int, str]:
        """Return why clips of a store were withdrawn, by the numbers of their rows.

        Only rows that may be among them are read.

        Args:
            store: The store.
            code: The number of the status of the rows that are asked for.
        """
        table = store.table
        films = table.films.runs_of_film.keys() & set(self.films)
        with_ids = table.find(list(self._films_of_id))
        rows = np.union1d(with_ids[with_ids >= 0], table.films.rows_of(films))
        rows = rows[table.codes_of(rows) == code]
        clip_ids = table.clip_ids_of(rows).tolist()
        reasons = self.reasons(clip_ids, table.movie_ids_of(rows).tolist())
        return {int(rows[place]): reason for place, reason in reasons.items()}


def tombstones_of(stores: Iterable[Store]) -> list[Tombstone]:
    """Return what was withdrawn from stores, each once, the earliest first."""
    tombstones: dict[Tombstone, None] = {}
    for store in stores:
        tombstones.update(dict.fromkeys(store.record.tombstones))
    return sorted(tombstones, key=lambda tombstone: tombstone.date)


def made_of(store: Store) -> list[str]:
    """Return the seals of a store and of all that it was made of, for what is made of it.

    Earlier stores that had rows that were withdrawn since are not among them.
    """
    record = store.record
    seals = [store.seal, *record.replaces[record.n_with_withdrawn :]]
    seals += [origin.seal for origin in record.origins]
    return list(dict.fromkeys(seals))


def earlier_seals(store: Store) -> set[str]:
    """Return the seals of all that a store was made of, also of what had withdrawn clips."""
    of_withdrawn = [tombstone.seal for tombstone in store.record.tombstones]
    return {*made_of(store), *store.record.replaces, *of_withdrawn}


def stores_with_withdrawals(workspace: Workspace) -> dict[str, Store]:
    """Return the stores of a workspace from which something was withdrawn, by their names."""
    stores = {}
    for name in workspace.names("stores"):
        if BEFORE in name:
            continue
        # A store that cannot be read is an error where it is used.
        with suppress(ObygazeError, OSError):
            store = open_store(workspace.folder("stores") / name)
            if store.record.tombstones:
                stores[name] = store
    return stores


def _withdrawals_of_stores(workspace: Workspace) -> dict[str, Withdrawals]:
    """Return what each store of a workspace lists as withdrawn, by the names of the stores."""
    withdrawals = {}
    for name, store in stores_with_withdrawals(workspace).items():
        try:
            withdrawals[name] = Withdrawals.of([store])
        except ObygazeError:
            # Its rows are damaged; the films and the named clips are in its record too.
            withdrawals[name] = Withdrawals.of([store], has_rows=False)
    return withdrawals


def withdrawn_elsewhere(
    clips: Iterable[tuple[str, str]], workspace: Workspace, noun: str = "clip"
) -> str:
    """Return that clips were withdrawn from stores of a workspace; "" if none was.

    Args:
        clips: The id and the film of each clip; of a film of which no clip is known, "" and the
            film.
        workspace: The workspace.
        noun: What they are: clips, or films.
    """
    withdrawals_of_store = _withdrawals_of_stores(workspace)
    if not withdrawals_of_store:
        return ""
    known = list(clips)
    withdrawn_from = {}
    for name, withdrawals in withdrawals_of_store.items():
        withdrawn_from[name] = [
            clip_id or film
            for clip_id, film in known
            if withdrawals.reason(clip_id, film)
        ]
    return _withdrawn_from(withdrawn_from, noun)


def rows_withdrawn_elsewhere(
    store: Store, workspace: Workspace, here: str
) -> list[str]:
    """Return a sentence if clips with features in a store were withdrawn from others.

    Args:
        store: The store.
        workspace: The workspace, in which the others are.
        here: What the sentence calls the store, such as "in this copy".
    """
    withdrawn_from = {}
    for name, withdrawals in _withdrawals_of_stores(workspace).items():
        rows = np.array([*withdrawals.rows_in(store)], dtype=np.int64)
        withdrawn_from[name] = store.table.clip_ids_of(rows).tolist()
    withdrawn = _withdrawn_from(withdrawn_from, "clip")
    return [f"{withdrawn}, still with features {here}"] if withdrawn else []


def _withdrawn_from(names_of_store: Mapping[str, Sequence[str]], noun: str) -> str:
    """Return the sentence that clips or films were withdrawn from stores; "" if none was."""
    stores = [store for store, names in names_of_store.items() if names]
    withdrawn: dict[str, None] = {}
    for names in names_of_store.values():
        withdrawn.update(dict.fromkeys(names))
    if not withdrawn:
        return ""
    verb = "was" if len(withdrawn) == 1 else "were"
    return (
        f"{few([*withdrawn])} ({count(len(withdrawn), noun)}) {verb} withdrawn from"
        f" {few(stores)}"
    )

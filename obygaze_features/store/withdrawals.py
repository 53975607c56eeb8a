"""Whether a clip was withdrawn: one answer for everything that makes, brings or lists rows.

Extraction, import, merge, copies, `info`, `verify` and the list of what is still to be removed ask
`Withdrawals`. A film that was withdrawn as a whole counts for all of its clips. Another clip that
only has the id of a withdrawn one is not withdrawn; where nobody can know it, it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

import numpy as np

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.same_clip import (
    OTHER,
    SAME,
    UNKNOWN,
    Identity,
    Sameness,
    compare_clips,
    places_of,
)
from obygaze_features.store.identity import OfManifest, identity_of
from obygaze_features.store.layout import BEFORE
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.records import UNKNOWN_FILM, Replaced
from obygaze_features.store.rows import NO_REASON, STATUSES, WITHDRAWN, Row

_WITHDRAWN_CODE = STATUSES.index(WITHDRAWN)


class WithdrawnClip(NamedTuple):
    """A clip that was withdrawn: what is known of it, and why.

    The identity has no film where it is only guessed; `movie_id` has the guess.
    """

    identity: Identity
    movie_id: str
    reason: str


class Found(NamedTuple):
    """What is known of a row.

    Args:
        reason: Why its clip was withdrawn, after the date; "" if it was not.
        sameness: Whether it is a withdrawn clip; `OTHER` if it only has the id of one; None if it
            has not even that.
    """

    reason: str = ""
    sameness: Sameness | None = None


class Withdrawals:
    """The films and the clips that stores list as withdrawn, with the reasons."""

    def __init__(
        self, reason_of_film: dict[str, str], clips: Sequence[WithdrawnClip]
    ) -> None:
        self.reason_of_film = reason_of_film
        self.clips = clips
        self._films_of_clips = {clip.movie_id for clip in clips} - {"", UNKNOWN_FILM}
        self._clips_of_key: dict[tuple[str | int, ...], list[WithdrawnClip]] = {}
        for clip in clips:
            for key in _keys_of(clip.identity):
                self._clips_of_key.setdefault(key, []).append(clip)

    @classmethod
    def of(cls, stores: Sequence[Store], *, has_rows: bool = True) -> Self:
        """Return what stores list as withdrawn.

        Of a clip that a store names without having its row, as a part may do, only the id is known;
        another store of the same change may have the row.

        Args:
            stores: The stores.
            has_rows: Whether their rows can be read.
        """
        clips: list[WithdrawnClip] = []
        with_rows: set[tuple[Replaced, str]] = set()
        for store in stores:
            rows: list[Row] = []
            if store.record.rows.withdrawn and has_rows:
                is_withdrawn = store.table.codes == _WITHDRAWN_CODE
                rows = store.table.some(np.flatnonzero(is_withdrawn))
            ids = {row.clip_id for row in rows}
            for row in rows:
                identity = identity_of(row, store.record)
                reason = row.reason or NO_REASON
                clips.append(WithdrawnClip(identity, row.movie_id, reason))
            for change in store.record.replaces:
                with_rows.update(
                    (change, clip) for clip in ids.intersection(change.clips)
                )
        reason_of_film: dict[str, str] = {}
        for change in changes_that_withdrew(stores):
            reason = f"{change.date}: {change.reason}"
            for film in change.films:
                if film != UNKNOWN_FILM:
                    reason_of_film.setdefault(film, reason)
            for clip in change.clips:
                if (change, clip) not in with_rows:
                    clips.append(WithdrawnClip(Identity(clip), "", reason))
        return cls(reason_of_film, clips)

    def by(self, changes: Iterable[Replaced]) -> Self:
        """Return only what some changes have withdrawn."""
        films: set[str] = set()
        ids: set[str] = set()
        for change in changes:
            films.update(change.films)
            ids.update(change.clips)
        reason_of_film = {
            film: reason
            for film, reason in self.reason_of_film.items()
            if film in films
        }
        clips = []
        for clip in self.clips:
            if clip.identity.clip_id in ids or clip.movie_id in films:
                clips.append(clip)
        return type(self)(reason_of_film, clips)

    def __bool__(self) -> bool:
        return bool(self.reason_of_film or self.clips)

    def reason(self, row: Row, source: OfManifest | None = None) -> str:
        """Return why the clip of a row was withdrawn, after the date; "" if it was not.

        Args:
            row: The row.
            source: Of what it is a row; without it, its film is known.
        """
        return self.find(identity_of(row, source), row.movie_id).reason

    def find(self, identity: Identity, movie_id: str = "") -> Found:
        """Return whether a clip was withdrawn, how sure that is, and why.

        Args:
            identity: What is known of the clip.
            movie_id: Its film, also if that is only guessed.
        """
        by_id = Found()
        for clip in self._with_keys_of(identity):
            sameness = compare_clips(clip.identity, identity).sameness
            if sameness is UNKNOWN:
                by_id = Found(clip.reason, UNKNOWN)
            elif sameness.is_same:
                return Found(clip.reason, SAME)
            elif by_id.sameness is None and clip.identity.clip_id == identity.clip_id:
                by_id = Found("", OTHER)
        reason = self.reason_of_film.get(movie_id or identity.movie_id)
        if reason is not None and by_id.sameness is not UNKNOWN:
            return Found(reason, SAME)
        return by_id

    def may_show(self, identity: Identity, movie_id: str = "") -> bool:
        """Return whether a row is a window of the film of a withdrawn clip.

        It is another clip, though it may have pictures of this one.
        """
        film = movie_id or identity.movie_id
        return identity.is_window and film in self._films_of_clips

    def _with_keys_of(self, identity: Identity) -> list[WithdrawnClip]:
        clips: list[WithdrawnClip] = []
        for key in _keys_of(identity):
            clips += self._clips_of_key.get(key, ())
        return clips


def _keys_of(identity: Identity) -> list[tuple[str | int, ...]]:
    """Return by what a clip can be found: rows without one in common are never the same clip."""
    return [(identity.clip_id,), *places_of(identity)]


def with_other_ids(store: Store, numbers: Iterable[int]) -> list[int]:
    """Return rows of a store with those of the same clips under other ids.

    Videos and times tell them.
    """
    clips = []
    for row in store.rows:
        identity = identity_of(row, store.record)
        clips.append(WithdrawnClip(identity, row.movie_id, "named"))
    found = list(numbers)
    n_before = 0
    while len(found) > n_before:
        n_before = len(found)
        named = Withdrawals({}, [clips[number] for number in found])
        found = []
        for number, clip in enumerate(clips):
            if named.find(clip.identity).reason:
                found.append(number)
    return found


def changes_that_withdrew(stores: Sequence[Store]) -> list[Replaced]:
    """Return the changes by which clips were withdrawn, so that none comes back later."""
    changes: dict[Replaced, None] = {}
    for store in stores:
        for change in store.record.replaces:
            if change.withdrawn:
                changes[change] = None
    return sorted(changes, key=lambda change: change.date)


def stores_with_withdrawals(workspace: Workspace) -> dict[str, Store]:
    """Return the stores of a workspace from which something was withdrawn, by their names."""
    stores = {}
    for name in workspace.names("stores"):
        if BEFORE in name:
            continue
        # A store that cannot be read is an error where it is used.
        with suppress(ObygazeError, OSError):
            store = open_store(workspace.folder("stores") / name)
            if changes_that_withdrew([store]):
                stores[name] = store
    return stores


def withdrawn_elsewhere(
    clips: Iterable[tuple[Identity, str]], workspace: Workspace, noun: str = "clip"
) -> str:
    """Return that clips were withdrawn from stores of a workspace; "" if none was.

    Args:
        clips: What is known of each clip, and its film, also if that is only guessed. A film of
            which no clip is known has an identity without an id.
        workspace: The workspace.
        noun: What they are: clips, or films.
    """
    stores = stores_with_withdrawals(workspace)
    if not stores:
        return ""
    known = list(clips)
    withdrawn: dict[str, None] = {}
    names = []
    for name, store in stores.items():
        try:
            withdrawals = Withdrawals.of([store])
        except ObygazeError:
            # Its rows are damaged; the films and the ids of clips are in its record too.
            withdrawals = Withdrawals.of([store], has_rows=False)
        found = []
        for clip, film in known:
            if withdrawals.find(clip, film).reason:
                found.append(clip.clip_id or film)
        if found:
            withdrawn.update(dict.fromkeys(found))
            names.append(name)
    if not withdrawn:
        return ""
    clips_withdrawn = list(withdrawn)
    verb = "was" if len(clips_withdrawn) == 1 else "were"
    return (
        f"{few(clips_withdrawn)} ({count(len(clips_withdrawn), noun)}) {verb} withdrawn"
        f" from {few(names)}"
    )


def rows_withdrawn_elsewhere(
    store: Store, workspace: Workspace, here: str
) -> list[str]:
    """Return a sentence if clips with features in a store were withdrawn from others.

    Args:
        store: The store.
        workspace: The workspace, in which the others are.
        here: What the sentence calls the store, such as "in this copy".
    """
    clips = _clips_with_features(store)
    withdrawn = withdrawn_elsewhere(clips, workspace)
    return [f"{withdrawn}, still with features {here}"] if withdrawn else []


def _clips_with_features(store: Store) -> Iterator[tuple[Identity, str]]:
    """Yield what is known of each clip; a generator, which reads the rows where they are needed."""
    for row in store.rows:
        if row.is_ok:
            yield identity_of(row, store.record), row.movie_id

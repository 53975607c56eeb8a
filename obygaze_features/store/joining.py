"""Stores side by side at run time: the vectors of several stores are one row for each clip.

A join is never written. It is read as a store is: `seen+heard` names one where features are read.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixUsage, Mismatch, ObygazeWarning
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.workspace import PathLike, Workspace, is_url, last_part
from obygaze_features.manifest.clip_facts import require_same
from obygaze_features.manifest.model import Clip
from obygaze_features.store.card import Terms
from obygaze_features.store.decoding import Rows
from obygaze_features.store.files import Files
from obygaze_features.store.layout import Array
from obygaze_features.store.matching import (
    Matched,
    facts_of_rows,
    files_of_rows,
)
from obygaze_features.store.placing import next_of
from obygaze_features.store.reading import (
    Reason,
    Selection,
    Status,
    Store,
)
from obygaze_features.store.reading import open_store as open_one
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.rows import FAILED, OK, Row

# Between the names of stores that are read side by side.
PLUS = "+"
# The array of a join, and its number format: a float16 becomes a float32 without a change.
JOINED_ARRAY = "clip"
JOINED_DTYPE = "float32"
DTYPES_OF_PARTS = ("float16", JOINED_DTYPE)
MISSING = "missing"
# STORE:ARRAY. No URL ends so.
_WITH_ARRAY = re.compile(r"(.+):([a-z][a-z0-9_]*)")


@dataclass(frozen=True, eq=False)
class JoinedPart:
    """A store of a join, and the array that is read of it.

    Args:
        name: What results and errors call the store.
        store: The store.
        typed: The part as a person named it, which may end with `:ARRAY`.
        named_array: The array that was named; "" for the default array.
    """

    name: str
    store: Store
    typed: str
    named_array: str = ""

    @cached_property
    def array(self) -> Array:
        """The array; an error unless it has one vector of small floats for each clip."""
        array = self.store.array(self.named_array or self.store.default_array)
        is_vector = array.name in self.store.feature_arrays and len(array.shape) == 1
        if not is_vector or array.dtype not in DTYPES_OF_PARTS:
            shape = " x ".join(map(str, array.shape)) or "one number"
            raise FixUsage(
                f"a part of a join is a vector of {' or '.join(DTYPES_OF_PARTS)} for each clip,"
                f" got the array {array.name!r} with {shape} of {array.dtype}",
                where=self.store.location,
                hint="STORE:ARRAY for another array of the store",
            )
        return array

    @property
    def width(self) -> int:
        """How many numbers of a row are of this part."""
        return self.array.shape[0]

    @property
    def order(self) -> tuple[str, str, str]:
        """What decides the place of the part in a row, whoever joins it and in whatever order."""
        recipe = self.store.recipe
        return (recipe.title, recipe.of_clips.fingerprint, self.array.name)


@dataclass(frozen=True)
class JoinedRecipe(Recipe):
    """The recipes of the parts of a join, in the order of the parts, with their arrays."""

    of_parts: tuple[tuple[Recipe, str], ...] = ()

    @classmethod
    def of_all(cls, parts: Sequence[JoinedPart]) -> Self:
        """Return the recipe of a join."""
        of_parts = tuple((part.store.recipe, part.array.name) for part in parts)
        return cls._of(of_parts)

    @classmethod
    def _of(cls, of_parts: tuple[tuple[Recipe, str], ...]) -> Self:
        listed = [(recipe.fingerprint, array) for recipe, array in of_parts]
        return cls(canonical_json({"parts": listed}).decode(), of_parts)

    @property
    def is_unknown(self) -> bool:
        """Whether nobody knows how the features of some part were made."""
        return any(recipe.is_unknown for recipe, _ in self.of_parts)

    @property
    def facts(self) -> Mapping[str, Any]:
        """None: each part has those of its own import."""
        return {}

    @property
    def medium(self) -> str:
        """What of a clip the models of the parts took, such as "pictures and sound"."""
        media = {recipe.medium for recipe, _ in self.of_parts} - {""}
        return " and ".join(sorted(media))

    @property
    def grid(self) -> Mapping[str, float]:
        """How films were cut into windows; empty for clips."""
        return self.of_parts[0][0].grid

    @property
    def windows(self) -> Mapping[str, Any]:
        """What the recipes say of windows and not of clips; empty for clips."""
        return self.of_parts[0][0].windows

    @property
    def of_clips(self) -> Self:
        """This recipe for clips."""
        return self._of(
            tuple((recipe.of_clips, array) for recipe, array in self.of_parts)
        )

    @property
    def title(self) -> str:
        """The title of each part, with its array where two parts have one title."""
        titles = [recipe.title for recipe, _ in self.of_parts]
        names = []
        for title, (_, array) in zip(titles, self.of_parts, strict=True):
            names.append(f"{title}:{array}" if titles.count(title) > 1 else title)
        return f" {PLUS} ".join(names)


class JoinedStore(Store):
    """Several stores that are read as one, with their vectors of each clip side by side.

    It has the rows of its first part, whose numbers are its row numbers; a row has features where
    all parts have features of its clip. Parts are in the order of their recipes.

    Args:
        parts: The stores, in any order.
    """

    def __init__(self, parts: Sequence[JoinedPart]) -> None:
        self.parts = tuple(sorted(parts, key=lambda part: part.order))
        _check_parts(self.parts)
        first = self.parts[0].store
        array = Array.of(JOINED_ARRAY, JOINED_DTYPE, (self.width,))
        record = msgspec.structs.replace(first.record, arrays=(array,))
        seals = [(part.store.seal, part.array.name) for part in self.parts]
        super().__init__(first.files, record, sha256_bytes(canonical_json(seals)))
        self.table = first.table

    def __reduce__(self) -> tuple[Any, ...]:
        return JoinedStore, (self.parts,)

    def with_arrays(self, array_of: Mapping[str, str]) -> Self:
        """Return the join with these arrays, by the names of parts of which none was named."""
        parts = []
        for part in self.parts:
            array = part.named_array or array_of.get(part.name, "")
            parts.append(replace(part, named_array=array))
        return type(self)(parts)

    @property
    def stores(self) -> tuple[Store, ...]:
        """The stores of the parts."""
        return tuple(part.store for part in self.parts)

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return sum(part.width for part in self.parts)

    @property
    def location(self) -> str:
        """The parts as a person names them."""
        return PLUS.join(part.typed for part in self.parts)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipes of all parts."""
        return JoinedRecipe.of_all(self.parts)

    @property
    def fingerprint(self) -> str:
        """The sha256 of the recipes and arrays of the parts."""
        return self.recipe.fingerprint

    @property
    def made_of(self) -> list[str]:
        """The seal of the join: nothing is known of what parts were before."""
        return [self.seal]

    @property
    def card(self) -> bytes:
        """No card: nothing is written."""
        return b""

    @property
    def terms(self) -> Terms:
        """The licences of all parts, each with its parts where they differ, and all citations."""
        parts_of_licence: dict[str, list[str]] = {}
        citations: dict[str, None] = {}
        for part in self.parts:
            terms = part.store.terms
            licence = terms.licence or "not stated"
            parts_of_licence.setdefault(licence, []).append(part.name)
            if terms.citation:
                citations[terms.citation] = None
        if len(parts_of_licence) == 1:
            licence = self.parts[0].store.terms.licence
        else:
            named = []
            for one, names in parts_of_licence.items():
                named.append(f"{one} ({' and '.join(names)})")
            licence = ", ".join(named)
        return Terms(licence, " | ".join(citations))

    @cached_property
    def rows(self) -> Sequence[Row]:
        """The rows of the first part; those that another part lacks are failed."""
        reasons = self.status().reasons
        rows = []
        for number, row in enumerate(self.table.rows()):
            if number in reasons:
                sentence = reasons[number].sentence
                row = row._replace(status=FAILED, reason=sentence)
            rows.append(row)
        return rows

    def status(self) -> Status:
        """Return the status of every row: `ok`, or `missing` where a part has no features."""
        selection = Selection(np.arange(len(self)), self)
        is_ok, reason_of_clip = self._presence(selection)
        reasons = {}
        for number in np.flatnonzero(~is_ok).tolist():
            reasons[number] = reason_of_clip[str(selection.clip_ids[number])]
        counts = {OK: int(is_ok.sum()), MISSING: len(reasons)}
        return Status(counts, reasons, is_ok)

    def is_ok(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return whether all parts have features of the clips of some rows."""
        return self._presence(Selection(rows, self))[0]

    def match(self, clips: Sequence[Clip]) -> Matched:
        """Return the rows that clips of a manifest have; -1 where some part does not have them."""
        matched = [part.store.match(clips) for part in self.parts]
        is_everywhere = np.all([of_part.rows >= 0 for of_part in matched], axis=0)
        rows = np.where(is_everywhere, matched[0].rows, -1)
        return Matched(rows, max(of_part.n_by_ids for of_part in matched))

    def select(
        self,
        clips: Iterable[str | Clip] | None = None,
        films: Iterable[str] | None = None,
        mask: npt.ArrayLike | None = None,
    ) -> Selection:
        """Return the rows of clips, or of films or a mask; by default all clips of any part."""
        if clips is not None or mask is not None:
            return super().select(clips, films, mask)
        named = None if films is None else [*films]
        ids: dict[str, None] = {}
        for store in self.stores:
            of_store = store.select(films=named)
            ids |= dict.fromkeys(of_store.clip_ids.tolist())
        rows = self.table.find([*ids])
        return Selection(rows, self, np.array([*ids], dtype=np.str_))

    def has_words(self, array: str, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return in which rows something is said; all rows unless all parts are made of words."""
        if self.recipe.medium != "words":
            return np.ones(len(rows), np.bool_)
        ids = self.table.clip_ids_of(rows).tolist()
        of_parts = []
        for part in self.parts:
            numbers = part.store.table.find(ids)
            of_parts.append(part.store.has_words(part.array.name, numbers))
        has_words: npt.NDArray[np.bool_] = np.any(of_parts, axis=0)
        return has_words

    def _read(self, array: Array, rows: Rows) -> npt.NDArray[Any]:
        """Return the values of rows in their order; NaN where a part has no such clip."""
        values = self.arrays.reserve(array, len(rows))
        values[:] = np.nan
        ids = self.table.clip_ids_of(rows).tolist()
        first = 0
        for part in self.parts:
            numbers = part.store.table.find(ids)
            known = numbers >= 0
            columns = slice(first, first + part.width)
            values[known, columns] = part.store.read(part.array, numbers[known])
            first = columns.stop
        return values

    def _presence(
        self, selection: Selection
    ) -> tuple[npt.NDArray[np.bool_], dict[str, Reason]]:
        """Return which rows all parts have features of, and which store lacks each other one."""
        ids = selection.clip_ids.tolist()
        self._require_same_clips(ids)
        present = np.ones(len(ids), np.bool_)
        sentences: dict[str, list[str]] = {}
        for part in self.parts:
            of_part, reasons = part.store.presence(ids)
            present &= of_part
            for clip, reason in reasons.items():
                sentences.setdefault(clip, []).append(f"{part.name} {reason}")
        found = {}
        for clip in selection.clip_ids[~present].tolist():
            found[clip] = Reason(MISSING, "; ".join(sentences[clip]))
        return present, found

    def _require_same_clips(self, ids: Sequence[str]) -> None:
        """Raise an error where two stores state other films or times of the clip of one id.

        A warning says of which clips only the ids are known, or were two files of the video read.
        """
        part_of_seal = {part.store.seal: part for part in self.parts}
        for one, two in combinations(part_of_seal.values(), 2):
            ours = one.store.table.find(ids)
            theirs = two.store.table.find(ids)
            is_in_both = (ours >= 0) & (theirs >= 0)
            ours = ours[is_in_both]
            theirs = theirs[is_in_both]
            n_by_ids = require_same(
                facts_of_rows(ours, one.store),
                facts_of_rows(theirs, two.store),
                (one.store.location, two.store.location),
                hint="other ids for the clips of one store",
            )
            both = f"{one.store.location} and {two.store.location}"
            if n_by_ids:
                _warn(
                    f"{both}: {count(n_by_ids, 'clip')} matched by the ids alone; nothing else"
                    " says that they are the same clips"
                )
            of_other_files = []
            shared = np.array(ids)[is_in_both].tolist()
            files = files_of_rows(ours, one.store), files_of_rows(theirs, two.store)
            for clip, first, second in zip(shared, *files, strict=True):
                if first and second and first != second:
                    of_other_files.append(clip)
            if of_other_files:
                _warn(
                    f"{count(len(of_other_files), 'clip')} of which {both} were computed from"
                    f" different files of the video: {few(of_other_files, 3)}"
                )


def _warn(text: str) -> None:
    warnings.warn(text, ObygazeWarning, stacklevel=3)


def _check_parts(parts: Sequence[JoinedPart]) -> None:
    """Raise an error unless parts differ, and are of clips or of windows that were cut alike."""
    if len(parts) < 2:
        raise FixUsage("a join needs at least two stores", hint="seen+heard")
    first = parts[0].store
    part_of_key: dict[tuple[str, str], JoinedPart] = {}
    for part in parts:
        store = part.store
        if isinstance(store, JoinedStore):
            raise FixUsage(
                f"{part.name} is a join itself: {store.location}",
                hint="name each of its stores, with + between",
            )
        _, fingerprint, array = part.order
        other = part_of_key.setdefault((fingerprint, array), part)
        if other is not part:
            raise FixUsage(
                f"{part.typed} and {other.typed} have features of one recipe and array",
                where=store.location,
                hint="name each array of a recipe once; for the clips of two stores of one recipe:"
                " obygaze store merge --help",
            )
        if store.recipe.windows != first.recipe.windows:
            raise Mismatch(
                f"the recipes of this store and of {first.location} do not say that both have"
                " clips, or windows that were cut in the same way",
                where=store.location,
                hint="stores of one manifest: obygaze extract run MANIFEST -b BACKBONE -b BACKBONE",
            )


def split_array(text: str) -> tuple[str, str]:
    """Return a store as it was named, without `:ARRAY`, and the array; "" if none is named."""
    found = _WITH_ARRAY.fullmatch(text)
    return (found[1], found[2]) if found else (text, "")


def names_of_join(store: object, workspace: PathLike | None = None) -> list[str]:
    """Return the names of the stores of a text such as `seen+heard`; none of any other store."""
    if not isinstance(store, str) or PLUS not in store or is_url(store):
        return []
    place = Path(Workspace.of(workspace).store(store))
    # A folder may have a + in its name.
    if place.exists() or next_of(place).exists():
        return []
    names = [name.strip() for name in store.split(PLUS)]
    if not all(names):
        raise FixUsage(
            f"a store is missing in {store!r}",
            hint="names of stores with + between, such as seen+heard",
        )
    return names


def open_store(
    store: PathLike | Files | Store,
    *,
    workspace: PathLike | None = None,
    expect: str | None = None,
    named: Mapping[str, Store] | None = None,
) -> Store:
    """Open a feature store; only one small file is read, whatever the size of the store.

    `seen+heard` is a join: it is read as a store whose only array, `clip`, has the vectors of both
    side by side. `seen:pooled` in it names an array of a store.

    Args:
        store: A name in the workspace, a folder, an https://, s3:// or hf:// URL, names with +
            between, or an object with the methods of `Files`. `#sha256=...` at its end is the same
            as `expect`. A store that is open already is returned as it is.
        workspace: The workspace, if it is not the current one.
        expect: The seal that the store must have, from its publisher. Another store is an error.
        named: Open stores that have a name of their own in a join.

    Example:
        >>> store = og.open_store("mine")
        >>> len(store), store.feature_arrays
        (72, ('clip',))
    """
    if isinstance(store, JoinedStore):
        return store
    names = names_of_join(store, workspace)
    if not names:
        return open_one(store, workspace=workspace, expect=expect)
    if expect is not None:
        raise FixUsage("a join has no seal to expect: give each store its #sha256=")
    known = named or {}
    name_of_seal = {one.seal: name for name, one in known.items()}
    parts = []
    for typed in names:
        name, array = split_array(typed)
        opened = known.get(name) or open_one(name, workspace=workspace)
        if name not in known:
            name = name_of_seal.get(opened.seal, last_part(opened.location))
            if name in known and known[name].seal != opened.seal:
                name = typed
        parts.append(JoinedPart(name, opened, typed, array))
    if len({part.name for part in parts}) < len(parts):
        parts = [replace(part, name=part.typed) for part in parts]
    return JoinedStore(parts)

"""Join stores at run time: the row of a clip has the vectors of several stores side by side.

A join is never written. It is read like a store: `seen+heard` names a join.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
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
from obygaze_features.core.errors import (
    FixUsage,
    ObygazeWarning,
    remove_secrets,
)
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.workspace import PathLike, Workspace, is_url, last_part
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.same_clips import VIDEO, same_clips
from obygaze_features.store.atomic_files import filling_path
from obygaze_features.store.card import Terms
from obygaze_features.store.decoding import Rows
from obygaze_features.store.files import Files
from obygaze_features.store.layout import Array
from obygaze_features.store.reading import Reason, Selection, Status, Store
from obygaze_features.store.reading import open_store as open_one
from obygaze_features.store.recipe import SECTIONS, Recipe
from obygaze_features.store.rows import FAILED, OK, Row

# The sign between the names of the stores of a join.
PLUS = "+"
# The array of a join of which each part names its array, and the array that is read by default if
# the parts have different ones. The type of all arrays: each float16 is exactly a float32.
JOINED_ARRAY = "clip"
JOINED_DTYPE = "float32"
DTYPES_OF_PARTS = ("float16", JOINED_DTYPE)
MISSING = "missing"
# STORE:ARRAY; no URL has this form.
_WITH_ARRAY = re.compile(r"(.+):([a-z][a-z0-9_]*)")


@dataclass(frozen=True, eq=False)
class JoinedPart:
    """A store of a join, and the array that is read.

    Args:
        name: The name of the store in results and errors.
        store: The store.
        typed: The part as it was typed, without secrets, with `:ARRAY` if an array is named.
        named_array: The array in `typed`; "" if none is named.
        default_array: The array of the join that is read if none is named.
    """

    name: str
    store: Store
    typed: str
    named_array: str = ""
    default_array: str = ""

    @property
    def vectors(self) -> list[str]:
        """The arrays of the store with one vector of float16 or float32 per clip."""
        names = []
        for name in self.store.feature_arrays:
            array = self.store.array(name)
            if len(array.shape) == 1 and array.dtype in DTYPES_OF_PARTS:
                names.append(name)
        return names

    @property
    def array(self) -> Array:
        """The array that is read by default."""
        return self.array_of(self.default_array)

    def array_of(self, name: str) -> Array:
        """Return the array that is read as the array `name` of the join.

        Raise an error unless it has one vector of float16 or float32 per clip.
        """
        array = self.store.array(self.named_array or name)
        if array.name not in self.vectors:
            raise FixUsage(
                f"expected one vector of {' or '.join(DTYPES_OF_PARTS)} per clip in each part of a"
                f" join, got the array {array.name!r}: {list(array.shape)} of {array.dtype}",
                where=self.store.location,
                hint="pass another array of the store: STORE:ARRAY",
            )
        return array

    @property
    def width(self) -> int:
        """The width of the vectors that are read by default."""
        return self.array.shape[0]

    @property
    def key(self) -> tuple[str, str]:
        """The fingerprint of the store and the array, which differ between parts."""
        return self.store.fingerprint, self.array.name


def arrays_of_join(parts: Sequence[JoinedPart]) -> list[str]:
    """Return the names of the arrays of a join, the default array first.

    These are the arrays that all parts have which name none. If all parts name one, the join has
    only the array `clip`. Raise an error if the parts have no array of one name.
    """
    unnamed = [part for part in parts if not part.named_array]
    if not unnamed:
        return [JOINED_ARRAY]
    others = [set(part.vectors) for part in unnamed[1:]]
    common = [name for name in unnamed[0].vectors if all(name in one for one in others)]
    defaults = {part.store.default_array for part in unnamed}
    first = defaults.pop() if len(defaults) == 1 else JOINED_ARRAY
    if first in common:
        others_of_join = [name for name in common if name != first]
        return [first, *others_of_join]
    if len(common) == 1:
        return common
    arrays = [f"{part.name} has {few(part.vectors) or 'none'}" for part in unnamed]
    typed = []
    for part in parts:
        array = part.named_array or (part.vectors or [part.store.default_array])[0]
        typed.append(f"{part.typed.removesuffix(f':{array}')}:{array}")
    raise FixUsage(
        f"no array has one name in all parts of the join: {'; '.join(arrays)}",
        hint=f"name the array of each part, such as {PLUS.join(typed)}",
    )


def joined_recipe(parts: Sequence[JoinedPart]) -> Recipe:
    """Return the recipe of a join, which lists the recipe of each part."""
    titles = Counter(part.store.recipe.title for part in parts)
    names = []
    for part in parts:
        title = part.store.recipe.title
        names.append(f"{title}:{part.array.name}" if titles[title] > 1 else title)
    media = {part.store.recipe.medium for part in parts} - {""}
    recipe: dict[str, Any] = {key: {} for key in SECTIONS}
    recipe["backbone"] = {"name": f" {PLUS} ".join(names)}
    recipe["sampling"] = {"medium": " and ".join(sorted(media))}
    recipe["parts"] = [[part.store.fingerprint, part.array.name] for part in parts]
    return Recipe.from_json(recipe)


class JoinedStore(Store):
    """Several stores that are read as one, with the vectors of each clip side by side.

    The rows and their numbers come from the first part that states films, or else from the first
    part. A row has features if all parts have features of its clip.

    Args:
        parts: The stores, in the order of their columns.
    """

    def __init__(self, parts: Sequence[JoinedPart]) -> None:
        names = arrays_of_join(parts)
        self.parts = tuple(replace(part, default_array=names[0]) for part in parts)
        _check_parts(self.parts)
        # The films of a store are read only until a part states some.
        with_films = (store for store in self.stores if store.table.films)
        first = next(with_films, self.parts[0].store)
        self.width = sum(part.width for part in self.parts)
        recipe = joined_recipe(self.parts)
        seals = sorted((part.store.seal, part.array.name) for part in self.parts)
        arrays = []
        for name in names:
            width = sum(part.array_of(name).shape[0] for part in self.parts)
            arrays.append(Array.of(name, JOINED_DTYPE, (width,)))
        record = msgspec.structs.replace(
            first.record,
            arrays=tuple(arrays),
            recipe=recipe.to_json(),
            fingerprint=recipe.fingerprint,
            # A join has no history of its own.
            replaces=(),
            origins=(),
        )
        super().__init__(first.files, record, sha256_bytes(canonical_json(seals)))
        self.table = first.table

    def __reduce__(self) -> tuple[Any, ...]:
        return JoinedStore, (self.parts,)

    def with_arrays(self, array_of: Mapping[str, str]) -> Self:
        """Return a copy in which the parts that name no array get those of `array_of`.

        `array_of` has names of arrays, by names of parts.
        """
        parts = []
        for part in self.parts:
            array = part.named_array or array_of.get(part.name, "")
            parts.append(replace(part, named_array=array))
        return type(self)(parts)

    def in_order_of(self, wanted: Sequence[tuple[str, str]]) -> Self:
        """Return the join with its parts in another order.

        Args:
            wanted: The fingerprint and the array of each part. If a part of the join has none of
                these fingerprints, the order stays.
        """
        rest = list(self.parts)
        ordered = []
        for fingerprint, array in wanted:
            of_recipe = [part for part in rest if part.store.fingerprint == fingerprint]
            of_array = [part for part in of_recipe if part.named_array in ("", array)]
            if not of_recipe:
                return self
            ordered.append((of_array or of_recipe)[0])
            rest.remove(ordered[-1])
        return type(self)([*ordered, *rest])

    @property
    def stores(self) -> tuple[Store, ...]:
        """The stores of the parts."""
        return tuple(part.store for part in self.parts)

    @property
    def location(self) -> str:
        """The parts as they were typed, without secrets."""
        return PLUS.join(part.typed for part in self.parts)

    @property
    def terms(self) -> Terms:
        """The licences and the citations of all parts.

        If the licences differ, the licence of each part is stated with the name of the part.
        """
        terms = {part.name: part.store.terms for part in self.parts}
        licences = dict.fromkeys(of_part.licence for of_part in terms.values())
        if len(licences) > 1:
            licences = {
                f"{of_part.licence or 'not stated'} ({name})": None
                for name, of_part in terms.items()
            }
        citations = dict.fromkeys(of_part.citation for of_part in terms.values())
        return Terms(", ".join(licences), " | ".join(filter(None, citations)))

    @cached_property
    def rows(self) -> Sequence[Row]:
        """The rows of the part from which the rows come.

        If a part has no features of the clip of a row, the status of the row is failed.
        """
        rows = self.table.rows()
        for number, reason in self.status().reasons.items():
            row = rows[number]
            rows[number] = row._replace(status=FAILED, reason=reason.sentence)
        return rows

    def status(self) -> Status:
        """Return the status of every clip that any part has.

        `reasons` and `is_ok` are of the rows of the join. A clip that has no row in the join is
        counted as missing.
        """
        of_all = self.select()
        are_ok, reasons = self._presence(of_all)
        has_row = of_all.rows >= 0
        is_ok = np.zeros(len(self), np.bool_)
        is_ok[of_all.rows[has_row]] = are_ok[has_row]
        rows = dict(zip(of_all.clip_ids.tolist(), of_all.rows.tolist(), strict=True))
        reason_of_row = {
            rows[clip]: reason for clip, reason in reasons.items() if rows[clip] >= 0
        }
        counts = Counter(reason.status for reason in reasons.values())
        in_order = dict(sorted(reason_of_row.items()))
        return Status({OK: int(are_ok.sum()), **counts}, in_order, is_ok)

    def is_ok(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return for each row whether all parts have features of its clip."""
        return self._presence(Selection(rows, self))[0]

    def match(self, clips: Sequence[Clip]) -> Rows:
        """Return the row of each clip of a manifest; -1 if a part does not have the clip."""
        rows = np.array([store.match(clips) for store in self.stores])
        own = [store.table for store in self.stores].index(self.table)
        return np.where((rows >= 0).all(axis=0), rows[own], -1)

    def select(
        self,
        clips: Iterable[str | Clip] | None = None,
        films: Iterable[str] | None = None,
    ) -> Selection:
        """Return the rows of clips, or of films; by default, of all clips that any part has."""
        if clips is None:
            named = None if films is None else self._check_films(films)
            ids: dict[str, None] = {}
            for store in self.stores:
                table = store.table
                rows = table.all_rows() if named is None else table.rows_of(named)
                ids |= dict.fromkeys(table.clip_ids_of(rows).tolist())
            clips, films = [*ids], None
        return super().select(clips, films)

    def has_words(self, array: str, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return for each row whether a part has words of its clip.

        If not all parts are features of words, return True for each row.
        """
        if self.recipe.medium != "words":
            return np.ones(len(rows), np.bool_)
        of_parts = []
        for part, numbers in self._rows_of_parts(rows):
            name = part.array_of(array).name
            of_parts.append(part.store.has_words(name, numbers))
        return np.asarray(np.any(of_parts, axis=0))

    def _rows_of_parts(self, rows: Rows) -> list[tuple[JoinedPart, Rows]]:
        """Return each part, with the row that each clip of `rows` has in the store of the part.

        The row is -1 if this store does not have the clip.
        """
        ids = self.table.clip_ids_of(rows).tolist()
        return [(part, part.store.table.find(ids)) for part in self.parts]

    def _read(self, array: Array, rows: Rows) -> npt.NDArray[Any]:
        """Return the values of rows in the order of `rows`.

        If a part has no features of a clip, all values of its row are NaN.
        """
        values = self.arrays.reserve(array, len(rows))
        values[:] = np.nan
        first = 0
        firsts = []
        for part, numbers in self._rows_of_parts(rows):
            known = numbers >= 0
            of_part = part.array_of(array.name)
            columns = slice(first, first + of_part.shape[0])
            values[known, columns] = part.store.read(of_part, numbers[known])
            firsts.append(first)
            first = columns.stop
        values[np.isnan(values[:, firsts]).any(axis=1)] = np.nan
        return values

    def _presence(
        self, selection: Selection
    ) -> tuple[npt.NDArray[np.bool_], dict[str, Reason]]:
        """Return which rows have features in all parts, and the reasons of all other rows.

        The reasons are given by clip. Each names the parts that have no features of the clip.
        """
        ids = selection.clip_ids.tolist()
        self._require_same_clips(ids)
        present = np.ones(len(ids), np.bool_)
        sentences: dict[str, list[str]] = {}
        for part in self.parts:
            of_part, reasons = part.store.presence(ids)
            present &= of_part
            for clip, reason in reasons.items():
                sentences.setdefault(clip, []).append(
                    f"{part.name}: {reason.sentence or reason.status}"
                )
        found = {}
        for clip in selection.clip_ids[~present].tolist():
            found[clip] = Reason(MISSING, "; ".join(sentences[clip]))
        return present, found

    def _require_same_clips(self, ids: Sequence[str]) -> None:
        """Raise an error if two stores state different films or times of one clip.

        Warn of clips that are matched by their ids alone, and of clips whose features were computed
        from different video files.
        """
        stores = {store.seal: store for store in self.stores}
        for one, two in combinations(stores.values(), 2):
            ours = one.table.find(ids)
            theirs = two.table.find(ids)
            is_in_both = (ours >= 0) & (theirs >= 0)
            ours = ours[is_in_both]
            theirs = theirs[is_in_both]
            clips = one.facts_of(ours, videos=True)
            there = two.facts_of(theirs, videos=True)
            found = same_clips(clips, there, np.arange(len(clips)))
            found.require(
                (one.location, two.location),
                hint="give different clips different ids in the manifest, and extract again",
            )
            both = f"{one.location} and {two.location}"
            of_other_files = clips.clip_ids[(found.differs & VIDEO) > 0].tolist()
            if of_other_files:
                _warn(
                    f"{count(len(of_other_files), 'clip')} with features of different video files"
                    f" in {both}: {few(of_other_files, 3)}"
                )


def _warn(text: str) -> None:
    warnings.warn(text, ObygazeWarning, stacklevel=3)


def _check_parts(parts: Sequence[JoinedPart]) -> None:
    """Raise an error if these stores cannot be joined.

    A part must not be a join, and two parts must not have the same recipe and array.
    """
    part_of_key: dict[tuple[str, str], JoinedPart] = {}
    for part in parts:
        where = part.store.location
        if isinstance(part.store, JoinedStore):
            raise FixUsage(
                f"expected a store as part of a join, got the join {part.name}: {where}",
                hint="pass each store of the join, with + between",
            )
        other = part_of_key.setdefault(part.key, part)
        if other is not part:
            raise FixUsage(
                f"{part.typed} and {other.typed} have the same recipe and array",
                where=where,
            )


def split_array(text: str) -> tuple[str, str]:
    """Return the two parts of `NAME:ARRAY`; for a text without `:ARRAY`, the array is ""."""
    found = _WITH_ARRAY.fullmatch(text)
    return (found[1], found[2]) if found else (text, "")


def names_of_join(store: object, workspace: PathLike | None = None) -> list[str]:
    """Return the names in a text such as `seen+heard`; an empty list for a single store."""
    # A URL may have a + in it. The scheme of `seen+https://` is no scheme of a URL.
    if not isinstance(store, str) or PLUS not in store or is_url(store.split(PLUS)[0]):
        return []
    place = Path(Workspace.of(workspace).store(store))
    # A folder may have a + in its name.
    if place.exists() or filling_path(place).exists():
        return []
    names = [name.strip() for name in store.split(PLUS)]
    if not all(names):
        raise FixUsage(
            f"a store is missing in {store!r}",
            hint="write + between names of stores: seen+heard",
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

    `seen+heard` is a join: it is read as a store whose arrays have the vectors of both stores side
    by side, in this order. It has the arrays that both stores have. `seen:pooled+heard:clip` names
    the array of each; the array of the join is then called `clip`.

    Args:
        store: A name in the workspace, a folder, an https://, s3:// or hf:// URL, several of these
            with + between (not with a URL first), or an object with the methods of `Files`. A name,
            folder or URL may end with `#sha256=...`, which has the same effect as `expect`. An open
            store is returned as it is.
        workspace: The workspace, if it is not the current one.
        expect: The seal that the store must have, from its publisher. A store with a different
            seal raises an error.
        named: Open stores, by the names that stand for them in a join.

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
        raise FixUsage("--expect is not for a join: add #sha256= to each store")
    known = named or {}
    name_of_seal = {one.seal: name for name, one in known.items()}
    parts = []
    for typed in names:
        place, array = split_array(typed)
        opened = known.get(place) or open_one(place, workspace=workspace)
        name = place
        # Results and models record these words.
        shown = remove_secrets(typed)
        if place not in known:
            name = name_of_seal.get(opened.seal, last_part(opened.location))
            if name in known and known[name].seal != opened.seal:
                name = shown
        parts.append(JoinedPart(name, opened, shown, array))
    if len({part.name for part in parts}) < len(parts):
        parts = [replace(part, name=part.typed) for part in parts]
    return JoinedStore(parts)

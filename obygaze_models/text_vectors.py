"""The vectors of an association test: from an npz file or arrays, or from a store and texts."""

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.console import few
from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
    ObygazeWarning,
)
from obygaze_features.core.files import TABLE_ENDINGS
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import read_table
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.same_clips import same_clips
from obygaze_features.manifest.times import Span, spans_in_films
from obygaze_features.store import Store, TextTable, open_store, read_texts
from obygaze_features.store.importing.arrays import read_arrays
from obygaze_features.store.recipe import (
    same_space,
    space_of_array,
)
from obygaze_models.evaluation.permutation import Floats

GroupSelection = str | Path | Sequence[str]
ARRAY = "clip"


@dataclass(frozen=True)
class VectorGroup:
    """A group of items or an attribute: its vectors, and the film of each of them.

    `spans` has the start and the end of each clip in its film, or None if they are unknown.
    """

    name: str
    vectors: ArrayLike
    blocks: ArrayLike | None = None
    spans: Sequence[Span | None] = ()

    def __post_init__(self) -> None:
        n_rows = len(np.atleast_2d(np.asarray(self.vectors)))
        if self.blocks is not None and np.shape(self.blocks) != (n_rows,):
            got = f"blocks of shape {np.shape(self.blocks)} for {n_rows} rows"
            raise FixInput(f"expected one block per row of {self.name!r}, got {got}")


class ClipGroup(NamedTuple):
    """A group of clips, by their ids.

    Attributes:
        name: What selects them.
        clips: The ids.
        stated: What the table that lists them states of them; None without a table.
    """

    name: str
    clips: list[str]
    stated: ClipTable | None


Pairs = list[tuple[VectorGroup, VectorGroup]]
Groups = tuple[VectorGroup, VectorGroup, Pairs]


def read_vectors(source: str | Path | Mapping[str, ArrayLike]) -> Groups:
    """Return the groups X and Y and the attributes A and B of an npz file."""
    if isinstance(source, Mapping):
        where = "arrays"
        arrays = {name: np.asarray(array) for name, array in source.items()}
    else:
        where = str(source)
        arrays = dict(read_arrays(Path(source)))
    x, y, a, b = (_group(arrays, name, where) for name in "XYAB")
    return x, y, [(a, b)]


def _group(arrays: Mapping[str, NDArray[Any]], name: str, where: str) -> VectorGroup:
    if name not in arrays:
        found = ", ".join(arrays) or "no arrays"
        hint = (
            "X and Y are the vectors of two groups, A and B those of two sets of words"
        )
        raise FixInput(f"missing array {name!r}; found {found}", where=where, hint=hint)
    vectors = arrays[name]
    if vectors.dtype.kind not in "fiu":
        raise FixInput(
            f"array {name!r} must hold numbers, got {vectors.dtype}", where=where
        )
    rows = np.atleast_2d(np.asarray(vectors, dtype=np.float64))
    return VectorGroup(name, rows, arrays.get(f"{name.lower()}_block"))


def read_store_vectors(
    store: Store | str | Path,
    manifest: Manifest | None,
    x: GroupSelection,
    y: GroupSelection,
    attributes: Sequence[tuple[str, str]],
    *,
    text: str | Path,
) -> tuple[Groups, int]:
    """Return the vectors of two selections of clips and of pairs of attributes of the texts.

    The number beside them is that of clips that are left out: nothing is said in them, where the
    vectors are of words.
    """
    store = open_store(store)
    texts = read_texts(text)
    check_spaces(store, ARRAY, texts)
    groups: list[VectorGroup] = []
    n_silent = 0
    spans_of = {} if manifest is None else spans_in_films(manifest)
    for group in select_groups((x, y), manifest):
        known = {} if manifest is None else manifest.by_id
        # Of a clip of the manifest the store must not have another one of its id.
        clips = [known.get(clip_id, clip_id) for clip_id in group.clips]
        try:
            found = store.matrix(ARRAY, clips=clips)
        except NotFound as error:
            error.hint = "change --x or --y to clips of this store"
            raise
        values = np.asarray(found.values, dtype=np.float64)
        if group.stated is not None:
            same_clips(group.stated, store.facts_of(found.rows)).require(
                (f"the table {group.name}", "the store"),
                where=store.location,
            )
        films = store.movie_ids_of(found.rows).tolist()
        if manifest is not None:
            films = _find_films(group.clips, films, manifest)
        if "" in films:
            raise FixInput(
                f"the films of the group {group.name!r} are unknown, so clips of one film cannot be"
                " kept together",
                where=store.location,
                hint="use a manifest with the films of these clips",
            )
        has_words = store.has_words(ARRAY, found.rows)
        n_silent += int((~has_words).sum())
        if not has_words.any():
            raise FixInput(
                f"no clip of the group {group.name!r} has words",
                where=store.location,
                hint="change --x or --y",
            )
        spans = []
        for clip_id, has_word in zip(group.clips, has_words, strict=True):
            if has_word:
                spans.append(spans_of.get(clip_id))
        films_with_words = np.array(films)[has_words]
        groups.append(
            VectorGroup(group.name, values[has_words], films_with_words, spans)
        )
    pairs = text_pairs(texts, attributes)
    return (groups[0], groups[1], pairs), n_silent


def _find_films(
    clips: Sequence[str], stored: Sequence[str], manifest: Manifest
) -> list[str]:
    """Return the film of each clip: that of the manifest, or of the store where it says none."""
    films = []
    for clip_id, film_of_store in zip(clips, stored, strict=True):
        clip = manifest.by_id.get(clip_id)
        film = "" if clip is None else clip.movie_id
        films.append(film or film_of_store)
    return films


def in_view(
    manifest: Manifest | str | Path,
    view: str | None = None,
    workspace: str | Path | None = None,
) -> Manifest:
    """Return a manifest in a view, by default in the view of protocols.

    Warnings count the clips whose level the view makes EN.
    """
    stored = read_manifest(manifest, workspace=workspace)
    seen = stored.view(view)
    if seen.header.view != stored.header.view:
        in_view = stored.with_clips(clip for clip in stored if clip.clip_id in seen)
        for lost in filter(None, (in_view.levels_lost, in_view.levels_heard)):
            warnings.warn(f"{stored.name}: {lost}", ObygazeWarning, stacklevel=3)
    return seen


def select_groups(
    selections: tuple[GroupSelection, GroupSelection],
    manifest: Manifest | None,
) -> tuple[ClipGroup, ClipGroup]:
    """Return the clips of two selections; a clip that is in both is an error.

    A selection is an expression over the manifest, a table with a column clip_id, or ids.
    """
    groups = []
    for selection in selections:
        group, where = _selected(selection, manifest)
        if not group.clips:
            raise FixInput(f"the group {group.name!r} has no clips", where=where)
        groups.append(group)
    x, y = groups
    both = sorted({*x.clips} & {*y.clips})
    if both:
        raise FixInput(
            f"{len(both)} clips are in both groups, the first is {both[0]}",
            hint="change X or Y so that they have no clip in common",
        )
    return x, y


def _selected(
    selection: GroupSelection, manifest: Manifest | None
) -> tuple[ClipGroup, str | None]:
    """Return the clips of a selection, and where they are listed."""
    if not isinstance(selection, str | Path):
        return ClipGroup("clips", [*dict.fromkeys(selection)], None), None
    name = str(selection)
    if name.endswith(TABLE_ENDINGS):
        stated = _stated_in(Path(selection), manifest)
        ids = [*dict.fromkeys(stated.clip_ids.tolist())]
        return ClipGroup(Path(selection).stem, ids, stated), name
    if manifest is None:
        raise FixUsage(
            f"the expression {name!r} needs a manifest to select clips from",
            hint="obygaze audit eat --help",
        )
    ids = [clip.clip_id for clip in manifest.where(name)]
    return ClipGroup(name, ids, None), manifest.name


def _stated_in(path: Path, manifest: Manifest | None) -> ClipTable:
    """Return what a table states of its clips; an error where the manifest states otherwise."""
    violations = Violations(path)
    table = read_table(path, required=("clip_id",), violations=violations)
    violations.raise_if_any("this table is not a valid list of clips")
    rows = [{**row.cells, "clip_id": row["clip_id"].strip()} for row in table.rows]
    stated = ClipTable.of_cells(rows)
    if manifest is not None:
        names = (f"the table {path.name}", "the manifest")
        clips = ClipTable.of_clips(manifest.clips)
        same_clips(stated, clips).require(names, where=str(path))
    return stated


def check_spaces(store: Store, array: str, texts: TextTable) -> None:
    """Raise an error unless the texts are in the embedding space of an array."""
    shape = store.array(array).shape
    space = space_of_array(store.recipe, array)
    if space is not None and texts.space_id:
        if not same_space(space, texts.space_id):
            raise Mismatch(
                "the texts and the clips are in different embedding spaces and cannot be compared",
                where=store.location,
                hint="obygaze extract text --help",
                details=[f"clips: {space}", f"texts: {texts.space_id}"],
            )
    else:
        unnamed = "the store's recipe" if space is None else "the text file"
        raise Mismatch(
            f"{unnamed} does not name the embedding space of its vectors",
            where=store.location,
            hint="use vectors of one checkpoint in an npz file: obygaze audit eat --vectors",
        )
    if len(shape) != 1:
        what = f"array {array!r} must have one vector per clip, got {len(shape)}-dimensional arrays"
        raise FixInput(what, where=store.location)
    if texts.embeddings.shape[1] != shape[0]:
        raise Mismatch(
            f"expected texts with {shape[0]} dimensions, as the clips have, got"
            f" {texts.embeddings.shape[1]}",
            where=store.location,
        )


def text_pairs(texts: TextTable, names: Sequence[tuple[str, str]]) -> Pairs:
    """Return the vectors of each pair of attributes; without names, of the only two."""
    groups = attribute_vectors(texts)
    if not names and len(groups) != 2:
        what = f"expected texts with two attributes, got {len(groups)}: {few(list(groups), 12)}"
        raise FixUsage(what, hint="use --attributes A B, once for each pair")
    if not names:
        a, b = groups.values()
        return [(a, b)]
    for name in itertools.chain.from_iterable(names):
        if name not in groups:
            hint = f"use one of {few(list(groups), 12)}"
            raise NotFound(
                f"expected an attribute of the file of texts, got {name!r}", hint=hint
            )
    return [(groups[a], groups[b]) for a, b in names]


def attribute_vectors(texts: TextTable) -> dict[str, VectorGroup]:
    """Return the vectors of the texts by attribute."""
    words = np.array(texts.attribute, dtype=object)
    groups: dict[str, VectorGroup] = {}
    for name in dict.fromkeys(texts.attribute):
        groups[name] = VectorGroup(name, texts.embeddings[words == name])
    return groups


def unit_rows(vectors: ArrayLike, name: str) -> Floats:
    """Return the rows scaled to length one; a zero or non-finite row is an error."""
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise FixInput(
            f"{name} must be a non-empty 2-dimensional array, got shape {rows.shape}"
        )
    with np.errstate(over="ignore"):  # an overflow is reported below
        lengths = np.linalg.norm(rows, axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise FixInput(
            f"vector {int(bad[0])} of {name} is zero or not finite: remove it"
        )
    return np.asarray(rows / lengths[:, None])


@dataclass(frozen=True, eq=False)
class Sentences:
    """The direction of each attribute of a prompt file: the unit mean of its unit sentences."""

    directions: Mapping[str, Floats]

    @classmethod
    def of(cls, texts: TextTable) -> Self:
        """Return the directions of the texts that `obygaze extract text` wrote."""
        directions = {}
        for name, group in attribute_vectors(texts).items():
            mean = unit_rows(group.vectors, name).mean(axis=0)
            (directions[name],) = unit_rows(mean[None], name)
        return cls(directions)

"""The vectors of an association test: from an npz file or arrays, or from a store and its texts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.tables import read_table
from obygaze_features.manifest.workbooks import is_workbook
from obygaze_features.store import Store, TextTable, open_store
from obygaze_features.store.format.recipe import same_space, space_of_array
from obygaze_features.store.interchange.array_files import read_arrays
from obygaze_models.evaluation.permutation import Floats

Selection = str | Path | Sequence[str]
View = Literal["raw", "visual", "as_published"]
# The bound of the logit scale in the training of CLIP, which its checkpoints reach.
CLIP_SCALE = 100.0
_PAIR = re.compile(r"A(?P<tag>(_.+)?)")


@dataclass(frozen=True)
class VectorGroup:
    """A group of items or an attribute: its vectors, and the film and name of each of them."""

    name: str
    vectors: ArrayLike
    blocks: ArrayLike | None = None
    labels: Sequence[str] | None = None

    def __post_init__(self) -> None:
        n_rows = len(np.atleast_2d(np.asarray(self.vectors)))
        if self.blocks is not None and np.shape(self.blocks) != (n_rows,):
            got = f"blocks of shape {np.shape(self.blocks)} for {n_rows} rows"
            raise FixInput(f"expected one block per row of {self.name!r}, got {got}")


Pairs = list[tuple[VectorGroup, VectorGroup]]
Groups = tuple[VectorGroup, VectorGroup | None, Pairs]


def read_vectors(
    source: str | Path | Mapping[str, ArrayLike], *, single: bool = False
) -> Groups:
    """Return the groups X and Y and the attribute pairs (A, B), (A_name, B_name) of an npz file.

    With `single` the items are W (or X), and Y is ignored.
    """
    if isinstance(source, Mapping):
        where = "arrays"
        arrays = {name: np.asarray(array) for name, array in source.items()}
    else:
        where = str(source)
        arrays = dict(read_arrays(Path(source)))
    items = (
        next((name for name in ("W", "w") if name in arrays), "X") if single else "X"
    )
    x = _group(arrays, items, where)
    y = None if single else _group(arrays, "Y", where)
    tags = [found["tag"] for name in arrays if (found := _PAIR.fullmatch(name))] or [""]
    groups = [[_group(arrays, f"{name}{tag}", where) for name in "AB"] for tag in tags]
    return x, y, [(a, b) for a, b in groups]


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
    manifest: Manifest | str | Path | None,
    x: Selection,
    y: Selection | None,
    attributes: Sequence[tuple[str, str]],
    *,
    text: str | Path | None = None,
    array: str = "clip",
    view: str | None = None,
    drop_missing: bool = False,
    assume_space: bool = False,
) -> Groups:
    """Return the vectors of two selections of clips and of pairs of attributes of the texts."""
    store = open_store(store)
    found_in = None if manifest is None else read_manifest(manifest)
    if found_in is not None:
        found_in = found_in.view(view or found_in.usual_view)
    texts = read_text_table(store, text)
    check_spaces(store, array, texts, assume=assume_space)
    groups: list[VectorGroup] = []
    for name, ids in select_groups((x,) if y is None else (x, y), found_in):
        try:
            found = store.matrix(
                array, clips=ids, missing="drop" if drop_missing else "error"
            )
        except NotFound as error:
            error.hint = "--drop-missing to leave them out, or extract them again"
            raise
        if not len(found.rows):
            raise NotFound(
                f"the store has no clip of the group {name!r}", where=store.location
            )
        values = np.asarray(found.values, dtype=np.float64)
        films = store.movie_ids[found.rows]
        groups.append(VectorGroup(name, values, films, found.clip_ids.tolist()))
    return (
        groups[0],
        groups[1] if y is not None else None,
        text_pairs(texts, attributes),
    )


def select_groups(
    selections: Sequence[Selection], manifest: Manifest | None
) -> list[tuple[str, list[str]]]:
    """Return a name and the clip ids of each selection; no clip may be in two of them.

    A selection is an expression over the manifest, a table with a column clip_id, or ids.
    """
    groups: list[tuple[str, list[str]]] = []
    for selection in selections:
        where = None
        if not isinstance(selection, str | Path):
            name = "clips"
            ids = list(selection)
        elif str(selection).endswith(".csv") or is_workbook(Path(selection)):
            table = read_table(Path(selection), required=("clip_id",))
            name = Path(selection).stem
            where = str(selection)
            ids = [row["clip_id"] for row in table.rows]
        elif manifest is None:
            raise FixUsage(
                f"the expression {str(selection)!r} needs a manifest to select clips from",
                hint="obygaze audit eat STORE MANIFEST ..., or a list of clips: --x clips.csv",
            )
        else:
            name = str(selection)
            where = manifest.name
            ids = list(manifest.where(name).clip_ids)
        if not ids:
            raise FixInput(f"the group {name!r} has no clips", where=where)
        groups.append((name, list(dict.fromkeys(ids))))
    both = (
        sorted(set.intersection(*(set(ids) for _, ids in groups)))
        if len(groups) > 1
        else []
    )
    if both:
        raise FixInput(
            f"{len(both)} clips are in both groups, the first is {both[0]}",
            hint="change --x or --y so that they have no clip in common",
        )
    return groups


def read_text_table(store: Store, path: str | Path | None) -> TextTable:
    """Return the texts of an npz file; without one, the texts of the store."""
    if path is None:
        texts = store.text()
        if texts is None:
            hint = "obygaze extract text --help, or --text FILE.npz"
            raise NotFound("this store has no texts", where=store.location, hint=hint)
        return texts
    arrays = read_arrays(Path(path))
    missing = [name for name in ("embeddings", "attribute") if name not in arrays]
    if missing:
        hint = "a file that obygaze extract text wrote"
        raise FixInput(
            f"missing array {', '.join(missing)}", where=str(path), hint=hint
        )
    blank = np.full(len(arrays["embeddings"]), "")
    names = ("prompt", "template", "attribute")
    words = {
        name: [str(word) for word in arrays.get(name, blank).tolist()] for name in names
    }
    space_id = str(arrays["space_id"]) if "space_id" in arrays else ""
    return TextTable(embeddings=arrays["embeddings"], space_id=space_id, **words)


def check_spaces(
    store: Store, array: str, texts: TextTable, *, assume: bool = False
) -> None:
    """Raise an error unless the texts are in the embedding space of an array.

    With `assume`, a space that is not named is assumed to be the same.
    """
    shape = store.plan.array(array).tail_shape
    space = space_of_array(store.recipe, array)
    if space is not None and texts.space_id:
        if not same_space(space, texts.space_id):
            raise Mismatch(
                "the texts and the clips are in different embedding spaces and cannot be compared",
                where=store.location,
                hint="obygaze extract text with the backbone of the store",
                details=[f"clips: {space}", f"texts: {texts.space_id}"],
            )
    elif not assume:
        unnamed = "the store's recipe" if space is None else "the text file"
        raise Mismatch(
            f"{unnamed} does not name the embedding space of its vectors",
            where=store.location,
            hint="--assume-space, if clips and texts are from the same checkpoint",
        )
    if len(shape) != 1:
        what = f"array {array!r} must have one vector per clip, got {len(shape)}-dimensional arrays"
        raise FixInput(
            what, where=store.location, hint="another --array: obygaze store info"
        )
    if texts.embeddings.shape[1] != shape[0]:
        widths = f"{texts.embeddings.shape[1]} dimensions, the clips {shape[0]}"
        raise Mismatch(f"the texts have {widths}", where=store.location)


def text_pairs(texts: TextTable, names: Sequence[tuple[str, str]]) -> Pairs:
    """Return the vectors of each pair of attributes; without names, of the only two."""
    groups = attribute_vectors(texts)
    if not names and len(groups) != 2:
        what = f"the texts have {len(groups)} attributes: {few(list(groups), 12)}"
        raise FixUsage(what, hint="--attributes A B, once for each pair")
    for name in (name for pair in names for name in pair):
        if name not in groups:
            hint = f"one of {few(list(groups), 12)}"
            raise NotFound(f"the texts have no attribute {name!r}", hint=hint)
    known = list(groups)
    return [(groups[a], groups[b]) for a, b in names or [(known[0], known[1])]]


def attribute_vectors(texts: TextTable) -> dict[str, VectorGroup]:
    """Return the vectors of the texts by attribute."""
    return {
        name: VectorGroup(
            name, texts.embeddings[[word == name for word in texts.attribute]]
        )
        for name in dict.fromkeys(texts.attribute)
    }


def store_word_probabilities(
    store: Store | str | Path,
    clip_ids: Sequence[str],
    *,
    text: str | Path | None = None,
    array: str = "clip",
    logit_scale: float | None = None,
    assume_space: bool = False,
) -> tuple[list[dict[str, float]], float]:
    """Return the probability of each attribute of the texts for each clip, and the logit scale.

    Without a `logit_scale` it is 100, to which CLIP was trained; other models need theirs.
    """
    store = open_store(store)
    texts = read_text_table(store, text)
    check_spaces(store, array, texts, assume=assume_space)
    family = store.recipe.to_json().get("backbone", {}).get("family")
    scale = logit_scale or (CLIP_SCALE if family == "clip" else None)
    if scale is None:
        what = f"the logit scale of {family or 'this'} models is not known"
        raise FixUsage(
            what, hint="--logit-scale: exp of the checkpoint's tensor logit_scale"
        )
    words = attribute_vectors(texts)
    found = store.matrix(array, clips=list(dict.fromkeys(clip_ids)))
    chances = word_probabilities(
        found.values, [word.vectors for word in words.values()], scale
    )
    rows = dict(zip(found.clip_ids.tolist(), chances.tolist(), strict=True))
    return [dict(zip(words, rows[clip], strict=True)) for clip in clip_ids], scale


def word_probabilities(
    clips: ArrayLike, words: Sequence[ArrayLike], logit_scale: float
) -> Floats:
    """Return the probability of each word for each clip, as CLIP classifies without training.

    The softmax over the words of the logit scale times the cosine of clip and word. The vector of
    a word is the mean of the unit vectors of its texts.
    """
    means = [unit_rows(vectors, "the texts").mean(axis=0) for vectors in words]
    cosines = unit_rows(clips, "the clips") @ unit_rows(np.stack(means), "the words").T
    return np.asarray(softmax(logit_scale * cosines, axis=1))


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

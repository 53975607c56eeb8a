"""The vectors of an association test: from an npz file or arrays, or from a store and its texts."""

import itertools
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
    if single:
        x = _group(arrays, _name_of_items(arrays), where)
        y = None
    else:
        x = _group(arrays, "X", where)
        y = _group(arrays, "Y", where)
    pairs: Pairs = []
    for tag in _tags_of_pairs(arrays):
        a = _group(arrays, f"A{tag}", where)
        b = _group(arrays, f"B{tag}", where)
        pairs.append((a, b))
    return x, y, pairs


def _name_of_items(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the name of the array with the items of a test of one group."""
    for name in ("W", "w"):
        if name in arrays:
            return name
    return "X"


def _tags_of_pairs(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return what follows A and B in the names of the pairs; without any, the pair is A and B."""
    matches = [_PAIR.fullmatch(name) for name in arrays]
    tags = [match["tag"] for match in matches if match]
    return tags or [""]


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
    labels = None if manifest is None else read_manifest(manifest)
    if labels is not None:
        labels = labels.view(view or labels.usual_view)
    texts = read_text_table(store, text)
    check_spaces(store, array, texts, assume=assume_space)
    missing: Literal["drop", "error"] = "drop" if drop_missing else "error"
    selections = [x] if y is None else [x, y]
    groups: list[VectorGroup] = []
    for name, ids in select_groups(selections, labels):
        try:
            found = store.matrix(array, clips=ids, missing=missing)
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
    pairs = text_pairs(texts, attributes)
    if y is None:
        return groups[0], None, pairs
    return groups[0], groups[1], pairs


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
    if len(groups) == 1:
        return groups
    sets = [set(ids) for _, ids in groups]
    both = sorted(set.intersection(*sets))
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
    n_texts = len(arrays["embeddings"])
    words: dict[str, list[str]] = {}
    for name in ("prompt", "template", "attribute"):
        if name in arrays:
            words[name] = list(map(str, arrays[name].tolist()))
        else:
            words[name] = [""] * n_texts
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
    if not names:
        a, b = groups.values()
        return [(a, b)]
    for name in itertools.chain.from_iterable(names):
        if name not in groups:
            hint = f"one of {few(list(groups), 12)}"
            raise NotFound(f"the texts have no attribute {name!r}", hint=hint)
    return [(groups[a], groups[b]) for a, b in names]


def attribute_vectors(texts: TextTable) -> dict[str, VectorGroup]:
    """Return the vectors of the texts by attribute."""
    words = np.array(texts.attribute, dtype=object)
    groups: dict[str, VectorGroup] = {}
    for name in dict.fromkeys(texts.attribute):
        groups[name] = VectorGroup(name, texts.embeddings[words == name])
    return groups


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

"""Where the vectors of an association test come from: one npz file, or a store and its words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.tables import read_table
from obygaze_features.store import Store, TextTable
from obygaze_features.store.interchange.npz import read_arrays
from obygaze_features.store.space import same_space, space_of_level
from obygaze_models.audits.eat import Side
from obygaze_models.protocols.expression import parse

Pairs = list[tuple[Side, Side]]
_PAIR = re.compile(r"A(?P<tag>(_.+)?)")
_TEXT_ARRAYS = ("embeddings", "attribute")


@dataclass(frozen=True)
class Vectors:
    """The arrays of one file: two groups, or items alone, and pairs of attributes."""

    x: Side
    y: Side | None
    pairs: Pairs


def read_vectors(path: Path, *, single: bool = False) -> Vectors:
    """Arrays X, Y, A, B and blocks from an npz file; further pairs are A_name and B_name.

    With `single` the items are W (or X), and Y is not looked at.
    """
    arrays = read_arrays(path)
    items = next((name for name in ("W", "w") if name in arrays), "X") if single else "X"
    x = _side(arrays, items, "x_block", path)
    y = None if single else _side(arrays, "Y", "y_block", path)
    if y is not None and (x.blocks is None) != (y.blocks is None):
        raise FixInput("x_block and y_block go together", where=str(path))
    tags = [found["tag"] for name in arrays if (found := _PAIR.fullmatch(name))] or [""]
    pairs = [
        (_side(arrays, f"A{tag}", None, path), _side(arrays, f"B{tag}", None, path)) for tag in tags
    ]
    return Vectors(x, y, pairs)


def _side(arrays: Mapping[str, NDArray[Any]], name: str, block: str | None, path: Path) -> Side:
    if name not in arrays:
        there = ", ".join(arrays) or "nothing"
        raise FixInput(f"no array {name!r}; the file has {there}", where=str(path))
    vectors = arrays[name]
    if vectors.dtype.kind not in "fiu":
        raise FixInput(f"{name!r} holds {vectors.dtype}, not numbers", where=str(path))
    rows = np.atleast_2d(np.asarray(vectors, dtype=np.float64))
    blocks = arrays.get(block) if block else None
    if blocks is not None and blocks.shape != (len(rows),):
        what = f"{block!r} has shape {blocks.shape}, {name!r} has {len(rows)} rows"
        raise FixInput(what, where=str(path))
    return Side(name, rows, blocks)


@dataclass(frozen=True)
class Clips:
    """Clips by name, and the words they were asked for with."""

    name: str
    ids: tuple[str, ...]


def choose_clips(text: str, manifest: Manifest | None) -> Clips:
    """The clips of an expression over the manifest, or those a CSV file lists in `clip_id`."""
    if text.endswith(".csv"):
        table = read_table(Path(text), required=("clip_id",))
        ids = tuple(dict.fromkeys(row["clip_id"] for row in table.rows))
        return _some(Clips(Path(text).stem, ids), text)
    if manifest is None:
        raise FixUsage(
            "an expression chooses clips of a manifest, and none was named",
            hint="obygaze audit eat STORE MANIFEST ..., or a list of clips: --x clips.csv",
        )
    expression = parse(text, vocabulary=tuple(manifest.header.concepts))
    levels = [clip.level for clip in manifest]
    chosen = expression.evaluate(levels, [clip.concepts for clip in manifest])
    ids = tuple(clip.clip_id for clip, ok in zip(manifest, chosen.tolist(), strict=True) if ok)
    return _some(Clips(text, ids), manifest.name)


def _some(clips: Clips, where: str) -> Clips:
    if not clips.ids:
        raise FixInput(f"no clip is in the group {clips.name!r}", where=where)
    return clips


def apart(x: Clips, y: Clips) -> None:
    """Refuse groups that share clips: an item cannot be exchanged with itself."""
    both = sorted(set(x.ids) & set(y.ids))
    if both:
        raise FixInput(
            f"{len(both)} clips are in both groups, the first is {both[0]}",
            hint="--x and --y that no clip is in together",
        )


def clip_vectors(store: Store, clips: Clips, level: str, *, drop: bool = False) -> Side:
    """The vectors of some clips at one level, each with its film as its block."""
    try:
        found = store.matrix(level, clips=clips.ids, missing="drop" if drop else "error")
    except NotFound as error:
        hint = "--drop-missing to leave them out, or extract them again"
        raise NotFound(error.what, where=error.where, hint=hint, details=error.details) from error
    if not len(found.rows):
        raise NotFound(f"the store has none of the clips of {clips.name!r}", where=store.location)
    values = np.asarray(found.values, dtype=np.float64)
    return Side(clips.name, values, store.movie_ids[found.rows], found.clip_ids.tolist())


def read_texts(store: Store, path: Path | None) -> TextTable:
    """The texts of an npz file, or those that go with the store."""
    if path is None:
        texts = store.text()
        if texts is None:
            raise NotFound(
                "this store has no texts",
                where=store.location,
                hint="obygaze extract text --help, or --text FILE.npz",
            )
        return texts
    arrays = read_arrays(path)
    missing = [name for name in _TEXT_ARRAYS if name not in arrays]
    if missing:
        raise FixInput(f"no array {', '.join(missing)}; texts need both", where=str(path))
    blank = [""] * len(arrays["embeddings"])
    return TextTable(
        embeddings=arrays["embeddings"],
        prompt=_words(arrays, "prompt", blank),
        template=_words(arrays, "template", blank),
        attribute=_words(arrays, "attribute", blank),
        space_id=str(arrays["space_id"]) if "space_id" in arrays else "",
    )


def _words(arrays: Mapping[str, NDArray[Any]], name: str, blank: Sequence[str]) -> Sequence[str]:
    return [str(word) for word in arrays[name].tolist()] if name in arrays else blank


def check_spaces(store: Store, level: str, texts: TextTable, *, assume: bool = False) -> None:
    """Refuse texts of another space than a level's; with `assume`, not where one side is silent."""
    spec = store.plan.array(level)
    space = space_of_level(store.recipe, level)
    if space is not None and texts.space_id:
        if not same_space(space, texts.space_id):
            raise Mismatch(
                "the texts are of another space than the clips: their cosines mean nothing",
                where=store.location,
                hint="obygaze extract text with the backbone of the store",
                details=[f"clips: {space}", f"texts: {texts.space_id}"],
            )
    elif not assume:
        silent = "the store's recipe" if space is None else "the text file"
        raise Mismatch(
            f"{silent} does not say which space its vectors lie in",
            where=store.location,
            hint="--assume-space, if you know that both come from one checkpoint",
        )
    if len(spec.tail_shape) != 1:
        one = [name for name in store.levels if len(store.plan.array(name).tail_shape) == 1]
        raise FixInput(
            f"{level!r} holds {len(spec.tail_shape) + 1}-dimensional rows, not one vector a clip",
            where=store.location,
            hint=f"--level {one[0]}" if one else None,
        )
    width = spec.tail_shape[0]
    if texts.embeddings.shape[1] != width:
        what = f"texts of {texts.embeddings.shape[1]} dimensions, clips of {width}"
        raise Mismatch(what, where=store.location)


def text_pairs(texts: TextTable, names: Sequence[tuple[str, str]]) -> Pairs:
    """The vectors of each pair of attributes; without names, the two that there are."""
    known = list(dict.fromkeys(texts.attribute))
    if not names and len(known) != 2:
        raise FixUsage(
            f"there are {len(known)} attributes: {', '.join(known[:12])}",
            hint="--attributes A B, as often as there are pairs",
        )
    pairs = list(names) or [(known[0], known[1])]
    for name in (name for pair in pairs for name in pair):
        if name not in known:
            hint = f"one of {', '.join(known[:12])}"
            raise NotFound(f"no attribute {name!r} among the texts", hint=hint)
    return [(_attribute(texts, a), _attribute(texts, b)) for a, b in pairs]


def _attribute(texts: TextTable, name: str) -> Side:
    return Side(name, texts.embeddings[[word == name for word in texts.attribute]])

"""Search the clips of a store that are most like a text or a clip, by exact cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import table
from obygaze_features.core.errors import (
    LIKE_IDS,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
    near,
)
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import check_table_name, write_table
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.listing import film_columns
from obygaze_features.manifest.same_clips import same_clips
from obygaze_features.store.recipe import (
    TOKENIZER,
    same_space,
    space_of_array,
)

if TYPE_CHECKING:
    from obygaze_features.store.reading import Store


class Hit(NamedTuple):
    """A clip of a store, and the cosine between its features and the query."""

    clip_id: str
    movie_id: str
    cosine: float


class Hits(list[Hit]):
    """The clips most like a query, best first; `notes` has the file to which they were written."""

    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the clips."""
        return {"clips": [hit._asdict() for hit in self]}

    def __str__(self) -> str:
        return table(Hit._fields, self)


def search(
    store: Store | PathLike,
    *,
    text: str | None = None,
    like: str | None = None,
    array: str | None = None,
    top: int = 20,
    weights: str | None = None,
    out: PathLike | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> Hits:
    """Find the clips that are most like a text or a clip.

    A text needs a store of CLIP, SigLIP or X-CLIP, of CLAP for sound, or of words. Clips without
    words (in a store of words) and clips whose features are zeros are excluded. `og.marks.scores`
    makes tiers of ELAN files of the table `out`.

    If a clip has several vectors, such as one per frame, the vector that is most like the query
    counts; frames that pad a short clip do not count. The store is read in parts.

    Args:
        store: Name of a store in the workspace, its path or its URL.
        text: Text to search for.
        like: Id of a clip; find other clips like it.
        array: Array to compare; by default clip, or the first array.
        top: Number of clips.
        weights: Weights of the text model; by default the checkpoint of the backbone.
        out: New table of the clips: .csv or .xlsx.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> len(og.search("mine", like="alba-001", top=5))
        5
    """
    from obygaze_features.store.reading import open_store

    here = Workspace.of(workspace)
    if out is not None:
        check_table_name(out)
    store = open_store(store, workspace=here.root)
    array = _array_of_vectors(store, array)
    if (text is None) == (like is None):
        raise FixUsage(
            "expected a text or a clip", hint="use --text WORDS or --like CLIP"
        )
    if top < 1:
        raise FixUsage(f"top must be at least 1, got {top}")
    if text is not None:
        query = _vector_of_text(store, array, text, weights, here)
    else:
        query = _vector_of_clip(store, array, like or "")
    is_compared = store.has_words(array, np.arange(len(store)))
    if like is not None:
        is_compared = is_compared & (store.clip_ids != like)
    rows, cosines = _most_similar(store, array, query, is_compared, top)
    clip_ids = store.clip_ids[rows].tolist()
    movie_ids = store.movie_ids[rows].tolist()
    hits = Hits(map(Hit, clip_ids, movie_ids, cosines.tolist()))
    if out is not None:
        manifest = store.find_manifest(here)
        facts = store.facts_of(rows)
        if manifest is not None:
            same_clips(facts, ClipTable.of_clips(manifest.clips)).require(
                ("the store", f"the manifest {manifest.name}"),
                where=store.location,
                hint=f"restore the manifest of these clips, {manifest.name}, or rename it",
            )
        columns = {
            "clip_id": clip_ids,
            "movie_id": movie_ids,
            "cosine": cosines.tolist(),
            **film_columns(facts, manifest),
        }
        write_table(out, columns, force=force)
        hits.notes = (f"wrote {out}",)
    return hits


def _array_of_vectors(store: Store, name: str | None) -> str:
    """Return the array to compare with the query; raise an error if it has no vectors."""
    arrays = []
    for array in map(store.array, store.feature_arrays):
        if array.is_float and array.shape:
            arrays.append(array.name)
    if not name:
        others = [array.name for array in store.record.arrays]
        name = "clip" if "clip" in arrays else [*arrays, *others][0]
    if store.array(name).name not in arrays:
        hint = "search a different store: this one has no vectors"
        if arrays:
            hint = f"use --array {' or '.join(arrays)}"
        raise FixInput(
            f"the array {name!r} has no vectors of features to compare",
            where=store.location,
            hint=hint,
        )
    return name


def _vector_of_clip(store: Store, array: str, clip: str) -> NDArray[np.float64]:
    """Return the mean of the vectors of a clip."""
    if clip not in store:
        ids = store.clip_ids.tolist()
        raise NotFound(
            f"no clip {clip!r} in the store{near(clip, ids, LIKE_IDS)}",
            where=store.location,
            hint="obygaze store info STORE --clips lists the clips",
        )
    features = store.matrix(array, clips=[clip])
    if not store.has_words(array, features.rows).all():
        raise FixInput(
            f"the clip {clip!r} has no words, so it cannot be compared",
            where=store.location,
            hint="use a different clip, or --text WORDS",
        )
    values = features.values.astype(np.float64)
    real = store.real_frames(array, features.rows)
    if real is not None:
        values = values[real]
    mean: NDArray[np.float64] = values.reshape(-1, values.shape[-1]).mean(axis=0)
    if not mean.any():
        raise FixInput(
            f"the features of the clip {clip!r} are zeros, so it cannot be compared",
            where=store.location,
            hint="use a different clip",
        )
    return mean


def _vector_of_text(
    store: Store, array: str, text: str, weights: str | None, workspace: Workspace
) -> NDArray[np.float64]:
    """Return the vector of a text, which must be in the text space of the array."""
    from obygaze_features.backbones.cards import refuse_code_of_store
    from obygaze_features.backbones.text import load_text_tower

    name = store.recipe.to_json().get("backbone", {}).get("name", "")
    refuse_code_of_store(name)
    space = space_of_array(store.recipe, array)
    if space is None:
        raise FixInput(
            f"the array {array!r} cannot be compared with texts: the store states no backbone whose"
            " texts are in the same space",
            where=store.location,
            hint="use --like CLIP, or a store of CLIP, SigLIP, X-CLIP, CLAP or words",
        )
    tower = load_text_tower(name, weights, workspace=workspace)
    if not same_space(space, tower.space_id):
        raise Mismatch(
            f"the text is in a different embedding space: expected {space}, got {tower.space_id}",
            where=store.location,
            hint="use --weights with the weights of the store",
        )
    tokenizer = store.recipe.to_json()["weights"].get(TOKENIZER)
    if tokenizer and tokenizer != tower.hashes[TOKENIZER]:
        raise Mismatch(
            "expected the tokenizer of the store, got a different tokenizer next to these weights",
            where=store.location,
            hint="use --weights with the weights of the store",
        )
    vector: NDArray[np.float64] = tower.embed([text])[0].astype(np.float64)
    return vector


def _most_similar(
    store: Store,
    array: str,
    query: NDArray[np.float64],
    mask: NDArray[np.bool_],
    top: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows most like a vector, best first, and their cosines.

    The store is read part by part. Rows that are False in `mask` are left out.
    """
    rows = np.empty(0, np.int64)
    cosines = np.empty(0)
    for part in store.stream(array, missing="drop"):
        closest = _closest(part.values, store.real_frames(array, part.rows), query)
        closest[~mask[part.rows]] = -np.inf
        has_cosine = closest > -np.inf
        rows = np.append(rows, part.rows[has_cosine])
        cosines = np.append(cosines, closest[has_cosine])
        best = np.lexsort((rows, -cosines))[:top]
        rows = rows[best]
        cosines = cosines[best]
    return rows, cosines


def _closest(
    values: NDArray[Any], real: NDArray[np.bool_] | None, query: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return for each clip the largest cosine between one of its vectors and the query.

    Vectors of padding do not count. The cosine of a vector of zeros, which a model of speech gives
    for silence, is -inf.
    """
    vectors = values.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=-1) * np.linalg.norm(query)
    cosine = vectors @ query / np.maximum(lengths, 1e-300)
    cosine[lengths == 0] = -np.inf
    if real is not None:
        cosine[~real] = -np.inf
    closest: NDArray[np.float64] = cosine.max(axis=tuple(range(1, cosine.ndim)))
    return closest

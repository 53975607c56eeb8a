"""The vectors of texts and clips, and the rows of a store that are most like a vector."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.backbones.cards import refuse_code_of_store
from obygaze_features.backbones.text import TextModel
from obygaze_features.core.errors import Mismatch
from obygaze_features.store import Store
from obygaze_features.store.format.recipe import same_space, space_of_array


def most_similar(
    store: Store,
    array: str,
    query: NDArray[np.float64],
    mask: NDArray[np.bool_] | None,
    top: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows most like a vector, best first, and their cosines; by blocks of the store."""
    rows = np.empty(0, np.int64)
    cosines = np.empty(0)
    for block in store.stream(array, mask=mask, missing="drop"):
        closest = _closest(block.values, store.real_frames(array, block.rows), query)
        rows = np.append(rows, block.rows)
        cosines = np.append(cosines, closest)
        best = np.lexsort((rows, -cosines))[:top]
        rows = rows[best]
        cosines = cosines[best]
    return rows, cosines


def _closest(
    values: NDArray[Any], real: NDArray[np.bool_] | None, query: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the highest cosine of each clip's vectors with the query, -1 for vectors of zeros."""
    vectors = values.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=-1) * np.linalg.norm(query)
    cosine = np.where(lengths > 0, vectors @ query / np.maximum(lengths, 1e-300), -1)
    if real is not None:
        cosine[~real] = -np.inf
    closest: NDArray[np.float64] = cosine.max(axis=tuple(range(1, cosine.ndim)))
    return closest


def vector_of_clip(store: Store, array: str, clip: str) -> NDArray[np.float64]:
    """Return the mean of the vectors of a clip."""
    features = store.matrix(array, clips=[clip])
    values = features.values.astype(np.float64)
    real = store.real_frames(array, features.rows)
    if real is not None:
        values = values[real]
    mean: NDArray[np.float64] = values.reshape(-1, values.shape[-1]).mean(axis=0)
    return mean


def vector_of_text(
    store: Store, array: str, text: str, load: Callable[[str], TextModel]
) -> NDArray[np.float64]:
    """Return the vector of a text, which must be in the space of the array."""
    space = space_of_array(store.recipe, array)
    texts = store.text()
    if texts is not None and text in texts.prompt:
        vector = texts.embeddings[list(texts.prompt).index(text)]
        text_space = texts.space_id
    else:
        name = store.recipe.to_json().get("backbone", {}).get("name", "")
        refuse_code_of_store(name)
        tower = load(name)
        vector = tower.embed([text])[0]
        text_space = tower.space_id
    if space is None or not same_space(space, text_space):
        raise Mismatch(
            f"the text is in another embedding space than the clips: {text_space}, not {space}",
            where=store.location,
            hint="--weights of the store",
        )
    wide: NDArray[np.float64] = vector.astype(np.float64)
    return wide

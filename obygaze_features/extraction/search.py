"""Search: the clips of a store that are most like a text or a clip, by exact cosine."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.backbones.text import TextTower, load_text_tower
from obygaze_features.core.console import table
from obygaze_features.core.errors import FixUsage, Mismatch
from obygaze_features.core.files import csv_bytes, write_new
from obygaze_features.core.options import PYTHON_ONLY, Option
from obygaze_features.core.workspace import Workspace
from obygaze_features.store import Store, open_store
from obygaze_features.store.format.recipe import same_space, space_of_level


class Hit(NamedTuple):
    """A clip of a store, and the cosine between its features and the query."""

    clip_id: str
    movie_id: str
    cosine: float


class Hits(list[Hit]):
    """The clips most like a query, best first."""

    def to_json(self) -> dict[str, Any]:
        """Return the clips."""
        return {"clips": [hit._asdict() for hit in self]}

    def __str__(self) -> str:
        return table(Hit._fields, self)


def search(
    store: Store | str | Path,
    *,
    text: Annotated[str | None, Option(metavar="WORDS")] = None,
    like: Annotated[str | None, Option(metavar="CLIP")] = None,
    level: str | None = None,
    top: Annotated[int, Option(least=1)] = 20,
    weights: str | None = None,
    out: Annotated[str | Path | None, Option("-o", metavar="PATH")] = None,
    force: bool = False,
    load: Annotated[Callable[[str], TextTower] | None, PYTHON_ONLY] = None,
    workspace: str | Path | None = None,
) -> Hits:
    """Find clips by a text or a clip.

    A text needs a store of CLIP, SigLIP or X-CLIP. What -o writes becomes segments with
    `obygaze manifest export csv MANIFEST --predictions FILE`.

    Of a clip with several vectors, such as frames, the one most like the query counts; frames that
    pad a short clip do not count. The store is read block by block.

    Args:
        store: A store, its name in the workspace, or a path or URL.
        text: Find clips like this text.
        like: Find clips like this one.
        level: The features to compare. [default: clip, or the first level]
        top: How many clips.
        weights: Weights of the text tower. [default: the backbone's own]
        out: Write the clips as CSV.
        force: Replace the output if it exists.
        load: Returns the text tower of a card, instead of `load_text_tower`.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> len(og.search("mine", like="alba-001", top=5))
        5

    Commands:
        obygaze search obygaze12.clip-b16 --text "a woman on a bed"
        obygaze search films.descriptors --like lake-001 --top 5 -o like.csv --json
    """
    here = Workspace.of(workspace)
    if not isinstance(store, Store):
        store = open_store(here.existing_store(str(store)))
    if not level:
        level = "clip" if "clip" in store.levels else store.levels[0]
    if (text is None) == (like is None):
        raise FixUsage("expected a text or a clip", hint="--text WORDS or --like CLIP")
    if top < 1:
        raise FixUsage(f"top must be at least 1, got {top}")
    if text is not None:
        load = load or partial(load_text_tower, weights=weights, workspace=here)
        query = _of_text(store, level, text, load)
    else:
        query = _of_clip(store, level, like or "")
    is_other = None if like is None else store.clip_ids != like
    rows = np.empty(0, np.int64)
    cosines = np.empty(0)
    for block in store.stream(level, mask=is_other, missing="drop"):
        closest = _closest(block.values, store.real_frames(level, block.rows), query)
        rows = np.append(rows, block.rows)
        cosines = np.append(cosines, closest)
        best = np.lexsort((rows, -cosines))[:top]
        rows = rows[best]
        cosines = cosines[best]
    clip_ids = store.clip_ids_of(rows).tolist()
    movie_ids = store.movie_ids_of(rows).tolist()
    hits = Hits(map(Hit, clip_ids, movie_ids, cosines.tolist()))
    if out is not None:
        write_new(Path(out), csv_bytes(Hit._fields, hits), force=force)
    return hits


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


def _of_clip(store: Store, level: str, clip: str) -> NDArray[np.float64]:
    """Return the mean of the vectors of a clip."""
    features = store.matrix(level, clips=[clip])
    values = features.values.astype(np.float64)
    real = store.real_frames(level, features.rows)
    if real is not None:
        values = values[real]
    mean: NDArray[np.float64] = values.reshape(-1, values.shape[-1]).mean(axis=0)
    return mean


def _of_text(
    store: Store, level: str, text: str, load: Callable[[str], TextTower]
) -> NDArray[np.float64]:
    """Return the vector of a text, which must be in the space of the level."""
    space = space_of_level(store.recipe, level)
    texts = store.text()
    if texts is not None and text in texts.prompt:
        vector = texts.embeddings[list(texts.prompt).index(text)]
        text_space = texts.space_id
    else:
        tower = load(store.recipe.to_json().get("backbone", {}).get("name", ""))
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

"""Search: the clips of a store that are most like a text or a clip, by exact cosine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from obygaze_features.core.console import table
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.options import PYTHON_ONLY, Option
from obygaze_features.core.workspace import Workspace
from obygaze_features.core.written_tables import check_table_name, write_table
from obygaze_features.manifest.listing import film_columns

if TYPE_CHECKING:
    from obygaze_features.backbones.text import TextModel
    from obygaze_features.store import Store


class Hit(NamedTuple):
    """A clip of a store, and the cosine between its features and the query."""

    clip_id: str
    movie_id: str
    cosine: float


class Hits(list[Hit]):
    """The clips most like a query, best first; `notes` name the file that they were written to."""

    notes: Sequence[str] = ()

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
    array: str | None = None,
    top: Annotated[int, Option(least=1)] = 20,
    weights: str | None = None,
    out: Annotated[str | Path | None, Option("-o --output", metavar="PATH")] = None,
    force: bool = False,
    load: Annotated[Callable[[str], TextModel] | None, PYTHON_ONLY] = None,
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
        array: The features to compare. [default: clip, or the first array]
        top: How many clips.
        weights: Weights of the text tower. [default: the backbone's own]
        out: Write the clips to this file: .csv, .xlsx, .parquet or .json.
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
    from obygaze_features.backbones.text import load_text_tower
    from obygaze_features.extraction.similarity import (
        most_similar,
        vector_of_clip,
        vector_of_text,
    )
    from obygaze_features.store import Store, open_store

    here = Workspace.of(workspace)
    if out is not None:
        check_table_name(out)
    if not isinstance(store, Store):
        store = open_store(here.existing_store(str(store)))
    if not array:
        array = "clip" if "clip" in store.feature_arrays else store.feature_arrays[0]
    if (text is None) == (like is None):
        raise FixUsage("expected a text or a clip", hint="--text WORDS or --like CLIP")
    if top < 1:
        raise FixUsage(f"top must be at least 1, got {top}")
    if text is not None:
        load = load or partial(load_text_tower, weights=weights, workspace=here)
        query = vector_of_text(store, array, text, load)
    else:
        query = vector_of_clip(store, array, like or "")
    is_other = None if like is None else store.clip_ids != like
    rows, cosines = most_similar(store, array, query, is_other, top)
    clip_ids = store.clip_ids_of(rows).tolist()
    movie_ids = store.movie_ids_of(rows).tolist()
    hits = Hits(map(Hit, clip_ids, movie_ids, cosines.tolist()))
    if out is not None:
        manifest = store.find_manifest(here)
        columns = {
            "clip_id": clip_ids,
            "movie_id": movie_ids,
            "cosine": cosines.tolist(),
            **film_columns(clip_ids, movie_ids, manifest),
        }
        write_table(out, columns, force=force)
        hits.notes = (f"wrote {out}",)
    return hits

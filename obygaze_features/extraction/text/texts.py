"""Write embedded prompts to a store or a file; add prior and similarity to a captions table."""

import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.backbones.text import (
    LanguageModel,
    SentenceEncoder,
)
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    Mismatch,
    NotFound,
)
from obygaze_features.core.files import csv_bytes, write_new
from obygaze_features.manifest.tables import TableRow, read_table
from obygaze_features.store import StoreWriter, TextTable
from obygaze_features.store.format.recipe import same_space, space_of_array
from obygaze_features.store.format.records import Plan

MASK = "[MASK]"
MASK_WORDS = ("man", "woman")


def add_texts(store: Path, table: TextTable) -> Path:
    """Add texts to a store of the same embedding space, once, before the store is sealed."""
    if not (store / Plan.FILE).is_file():
        raise NotFound(
            "no store here", where=str(store), hint="obygaze store ls lists the stores"
        )
    writer = StoreWriter(store)
    recipe = writer.plan.recipe
    spaces = []
    for array in recipe.to_json().get("levels", []):
        with suppress(Mismatch):
            spaces.append(space_of_array(recipe, array))
    if not spaces:
        raise Mismatch(
            "no array of this store can be compared with texts",
            where=str(store),
            hint="use a store of a backbone with a text model, such as clip-b16",
        )
    named_spaces = [space for space in spaces if space is not None]
    if named_spaces and not any(
        same_space(space, table.space_id) for space in named_spaces
    ):
        raise Mismatch(
            "the texts are in another embedding space than the store's clips",
            where=str(store),
            hint="use the backbone and weights of the store",
            details=[f"clips: {named_spaces[0]}", f"texts: {table.space_id}"],
        )
    try:
        writer.add_text(table)
    except AlreadyThere as error:
        hint = "-o FILE.npz instead of --store, and --text FILE.npz with the audit"
        raise AlreadyThere(error.message, where=error.where, hint=hint) from error
    return store


def write_texts(path: Path, table: TextTable, *, force: bool = False) -> Path:
    """Write a table of texts as an npz file, with the names of a store's arrays."""
    stream = io.BytesIO()
    arrays: dict[str, Any] = {
        name: np.asarray(value) for name, value in vars(table).items()
    }
    np.savez(stream, **arrays)
    write_new(path, stream.getvalue(), force=force)
    return path


def score_table(
    table: Path, out: Path, lm: LanguageModel, encoder: SentenceEncoder, *, force: bool
) -> int:
    """Write a table of captions with columns for prior and similarity; return its rows.

    Captions with [MASK] get two columns of each, with "man" and "woman" in its place.

    Args:
        table: A CSV file with the columns caption and visual.
        out: The CSV file to write.
        lm: Gives the prior of each caption.
        encoder: Gives the similarity of each caption and its `visual` word.
        force: Replace a file.
    """
    captions = read_table(table, required=("caption", "visual"))
    if not captions.rows:
        raise FixInput(
            "the table has no captions (no row after the header)", where=str(table)
        )
    endings = [""]
    if any(MASK in row["caption"] for row in captions.rows):
        endings = [f"_{word}" for word in MASK_WORDS]
    new_columns = []
    for ending in endings:
        new_columns += [f"lm{ending}", f"sim{ending}"]
    _check_free(table, captions.columns, new_columns)
    scores = _scores(captions.rows, endings, lm, encoder)
    rows = []
    for number, row in enumerate(captions.rows):
        row_scores = [repr(scores[column][number]) for column in new_columns]
        rows.append([*row.cells.values(), *row_scores])
    write_new(out, csv_bytes([*captions.columns, *new_columns], rows), force=force)
    return len(captions.rows)


def _scores(
    rows: Sequence[TableRow],
    endings: Sequence[str],
    lm: LanguageModel,
    encoder: SentenceEncoder,
) -> dict[str, list[float]]:
    """Return the columns of priors and similarities, two for each ending."""
    visual = [row["visual"] for row in rows]
    scores: dict[str, list[float]] = {}
    for ending in endings:
        word = ending.lstrip("_")
        texts = [row["caption"].replace(MASK, word) for row in rows]
        priors = {text: lm.prior(text) for text in dict.fromkeys(texts)}
        scores[f"lm{ending}"] = [priors[text] for text in texts]
        scores[f"sim{ending}"] = encoder.similarity(texts, visual)
    return scores


def _check_free(
    table: str | Path, columns: Sequence[str], new_columns: Sequence[str]
) -> None:
    """Raise an error if a table has one of the columns that are to be added."""
    for column in new_columns:
        if column in columns:
            raise FixInput(
                f"the table already has a column {column!r}",
                where=str(table),
                hint="rename or remove the column",
            )

"""Where embedded prompts are kept: with the features they belong to, or in a file of their own."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from obygaze_features.core.errors import AlreadyThere, Mismatch, NotFound
from obygaze_features.core.files import write_new
from obygaze_features.store import StoreWriter, TextTable
from obygaze_features.store.format.records import STORE_FILE
from obygaze_features.store.format.text import same_space, space_of_level


def keep_texts(store: Path, table: TextTable) -> Path:
    """Add texts to a store whose clips lie in the same space; once, before it is sealed."""
    if not (store / STORE_FILE).is_file():
        raise NotFound("no store here", where=str(store), hint="obygaze store ls")
    writer = StoreWriter(store)
    _check_space(writer, table)
    try:
        writer.add_text(table)
    except AlreadyThere as error:
        hint = "-o FILE.npz instead of --store, and --text FILE.npz with the audit"
        raise AlreadyThere(error.what, where=error.where, hint=hint) from error
    return store


def write_texts(path: Path, table: TextTable, *, force: bool = False) -> Path:
    """The same table as an npz file: the arrays a store would have, under their names."""
    stream = io.BytesIO()
    np.savez(
        stream,
        embeddings=table.embeddings,
        prompt=np.array(table.prompt, dtype=str),
        template=np.array(table.template, dtype=str),
        attribute=np.array(table.attribute, dtype=str),
        space_id=np.array(table.space_id),
    )
    write_new(path, stream.getvalue(), force=force)
    return path


def _check_space(writer: StoreWriter, table: TextTable) -> None:
    recipe = writer.plan.recipe
    spaces = []
    for level in recipe.to_dict().get("levels", []):
        try:
            spaces.append(space_of_level(recipe, level))
        except Mismatch:
            continue
    known = [space for space in spaces if space is not None]
    if known and not any(same_space(space, table.space_id) for space in known):
        raise Mismatch(
            "these texts are of another space than the store's clips",
            where=str(writer.path),
            hint="the same backbone and weights as the store's",
            details=[f"clips: {known[0]}", f"texts: {table.space_id}"],
        )
    if spaces == []:
        raise Mismatch("no level of this store is ever compared with text", where=str(writer.path))

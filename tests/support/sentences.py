"""Files of made-up texts, and stores in the space of their vectors."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.store import Recipe
from obygaze_features.store.recipe import space_id_of
from obygaze_features.store.texts import TextTable, write_texts
from support.stores import a_recipe

TENSORS = "ab" * 32


def recipe_of_words(tensors: str = TENSORS) -> Recipe:
    backbone = {
        "name": "toy",
        "family": "bert",
        "checkpoint": "lab/toy",
        "revision": "main",
        "levels": {"clip": "text"},
    }
    return a_recipe(
        backbone=backbone,
        weights={"tensors": tensors},
        sampling={"medium": "words", "rule": "the text of the clip"},
    )


def write_sentences(path, vectors: Mapping[str, ArrayLike], tensors=TENSORS) -> Path:
    attributes = []
    rows = []
    for name, values in vectors.items():
        for row in np.atleast_2d(np.asarray(values, np.float32)):
            attributes.append(name)
            rows.append(row)
    space = space_id_of("lab/toy", "main", tensors)
    n_rows = len(rows)
    table = TextTable(
        np.array(rows), ["x"] * n_rows, ["{}"] * n_rows, attributes, space
    )
    return write_texts(path, table, force=True)

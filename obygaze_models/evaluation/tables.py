"""The tables of a run: their columns; make, write and read them.

A row of predictions.csv is one test of one clip. Everything that a run shows of its models is
computed from these rows: metrics, intervals, differences and p (`evaluation.results`). Tests of
baselines are rows of the same kind.
`docs/files.md` documents each column.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.predictions import BoolArray, FloatArray

if TYPE_CHECKING:
    import pandas as pd

# The columns of each table, in order, with the types of their values. A missing number is NaN, also
# in columns of whole numbers.
TESTS: dict[str, type] = {
    "task": str,
    "train": str,
    "test": str,
    "store": str,
    "model": str,
    "fold": str,
    "seed": int,
    "clip_id": str,
    "movie_id": str,
    "group": str,
    "y": int,
    "score": float,
    "decision": float,
    "seen": str,
    "n_seen": int,
    "leaked": bool,
    "is_model": bool,
    "is_trained": bool,
    "is_probability": bool,
}
RESULTS: dict[str, type] = {
    # what is measured: a model in a task, over all films or in one film
    "task": str,
    "train": str,
    "test": str,
    "store": str,
    "model": str,
    "against_train": str,
    "against_store": str,
    "against_model": str,
    "film": str,
    "metric": str,
    # the value, or the difference of two values
    "value": float,
    "sd": float,
    "fits": float,
    "low": float,
    "high": float,
    "first": float,
    "second": float,
    # what it is compared with
    "random": float,
    "baseline": str,
    "baseline_value": float,
    "tested": float,
    "p": float,
    "comparisons": float,
    "films_better": float,
    "films_equal": float,
    "films_compared": float,
    "verdict": str,
    "asked": float,
    # what was tested
    "kind": str,
    "clips": float,
    "positive": float,
    "test_set": float,
    "films": float,
    "films_with_value": float,
    "leaked": float,
    "copies": float,
    "same_film": float,
    "basis": str,
    "averaged": float,
    "paper": float,
    "paper_sd": float,
}
CONCEPT_COLUMNS: dict[str, type] = {
    "store": str,
    "model": str,
    "train": str,
    "concept": str,
    "clips": int,
    "films": int,
    "films_with_value": float,
    "positive": int,
    "ap": float,
    "low": float,
    "high": float,
    "auc": float,
    "p": float,
    "p_holm": float,
    "tolerance": float,
    "weight": float,
}
TREES: dict[str, type] = {
    "store": str,
    "model": str,
    "train": str,
    "node": int,
    "left": float,
    "right": float,
    "concept": str,
    "threshold": float,
    "clips": int,
    "share": float,
}
SUCCESS: dict[str, type] = {
    "task": str,
    "train": str,
    "test": str,
    "store": str,
    "model": str,
    "film": str,
    "factor": str,
    "log_odds": float,
    "se": float,
    "low": float,
    "high": float,
    "p": float,
    "clips": float,
    "all_clips": float,
    "successes": float,
    "method": str,
    "errors": str,
    "note": str,
}
RUN_TABLES = {
    "predictions.csv": TESTS,
    "results.csv": RESULTS,
    "concepts.csv": CONCEPT_COLUMNS,
    "trees.csv": TREES,
    "success.csv": SUCCESS,
}
# Columns of whole numbers or NaN; the decision of a random baseline is one half.
MOSTLY_WHOLE = (
    *("decision", "fits", "comparisons", "clips", "films", "leaked"),
    *("films_with_value", "left", "right", "all_clips", "successes"),
    *("films_better", "films_equal", "films_compared", "positive", "test_set"),
    *("copies", "same_film", "averaged", "asked"),
)
# The name of a cell: a model on a store, trained for one task and tested on one task.
CELL = ("train", "test", "store", "model")
# The values of the column `seen`: the overlap of a tested clip with the training of its scorer.
NOTHING_SEEN = "unseen"
FILM_WAS_SEEN = "film"
CLIP_WAS_SEEN = "clip"  # the clip itself, or one with exactly its features
NOT_KNOWN = "unknown"  # films are unknown

RunRow = dict[str, Any]
T = TypeVar("T")
K = TypeVar("K")
Pair = tuple[str, str]  # a training and a test task
ColumnArrays = Mapping[str, Sequence[Any] | NDArray[Any]]


class Test(NamedTuple):
    """The test of one fit: arrays with a value for each clip, and `facts`.

    `facts` contains the columns that have the same value for all clips.
    """

    facts: Mapping[str, Any]
    clip_id: NDArray[Any]
    movie_id: NDArray[Any]
    group: NDArray[Any]
    y: BoolArray
    score: FloatArray
    decision: BoolArray | FloatArray
    seen: NDArray[Any]
    leaked: BoolArray


def table_of_tests(tests: Sequence[Test]) -> pd.DataFrame:
    """Return a table of tests, with the rows of the tests one after the other."""
    if not tests:
        return table_of_columns([], TESTS)
    lengths = [len(test.y) for test in tests]
    columns: dict[str, Any] = {}
    for name, kind in TESTS.items():
        if name in Test._fields:
            columns[name] = np.concatenate([getattr(test, name) for test in tests])
        else:
            facts = [test.facts.get(name, _nothing(kind)) for test in tests]
            columns[name] = np.repeat(np.array(facts, dtype=_dtype(kind)), lengths)
    return table_of_columns([columns], TESTS)


def columns_of_rows(
    rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, type]
) -> dict[str, list[Any]]:
    """Return the columns of a table from its rows.

    If a row has no key for a column, its value there is missing: "" or NaN.
    """
    columns = {}
    for name, kind in kinds.items():
        columns[name] = [row.get(name, _nothing(kind)) for row in rows]
    return columns


def table_of_columns(
    blocks: Sequence[ColumnArrays], kinds: Mapping[str, type]
) -> pd.DataFrame:
    """Return a table of all blocks, one below the other; a block contains all columns."""
    import pandas as pd

    whole = {}
    for name, kind in kinds.items():
        dtype = _dtype(kind)
        parts: list[Any] = [np.asarray(block[name], dtype=dtype) for block in blocks]
        joined = np.concatenate(parts) if parts else np.array([], dtype=dtype)
        whole[name] = pd.Series(joined, dtype=dtype)
    return pd.DataFrame(whole)


def _dtype(kind: type) -> type:
    return object if kind is str else kind


def _nothing(kind: type) -> Any:
    return "" if kind is str else np.nan


def rows_as_dicts(table: pd.DataFrame) -> list[RunRow]:
    """Return the rows of a table as dictionaries.

    In columns of whole numbers, whole numbers are int and not float.
    """
    rows: Any = table.to_dict("records")
    for row in rows:
        for name in MOSTLY_WHOLE:
            value = row.get(name)
            if isinstance(value, float) and value.is_integer():
                row[name] = int(value)
    return [*rows]


def as_csv(table: pd.DataFrame) -> bytes:
    """Return a table as CSV: booleans are 0 and 1, missing values are empty."""
    shown = table.copy()
    for name in shown.columns:
        if shown[name].dtype == bool:
            shown[name] = shown[name].astype(np.int64)
        elif name in MOSTLY_WHOLE and shown[name].dtype == float:
            texts = {value: f"{value:.15g}" for value in shown[name].dropna().unique()}
            shown[name] = shown[name].map(texts)
    text = shown.to_csv(index=False, lineterminator="\n")
    if "\r" in text:
        # Other readers treat an unquoted carriage return as the end of a row.
        text = shown.to_csv(
            index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
        )
    return bytes(text.encode("utf-8"))


def read_csv(data: bytes, kinds: Mapping[str, type]) -> pd.DataFrame:
    """Return a table that `as_csv` has written; raise a ValueError for other tables."""
    import pandas as pd

    # Read text, because conversion by Python is exact in every version of pandas.
    table = pd.read_csv(
        io.BytesIO(data), dtype=object, keep_default_na=False, lineterminator="\n"
    )
    if [*table.columns] != [*kinds]:
        raise ValueError(f"its columns must be {', '.join(kinds)}")
    for name, kind in kinds.items():
        if kind is float:
            texts = table[name].to_numpy()
            table[name] = np.where(texts == "", "nan", texts).astype(np.float64)
        elif kind is not str:
            table[name] = table[name].astype(np.int64).astype(kind)
    return table


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items of each key; the keys are in the order in which they first appear."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def number_of_groups(groups: NDArray[np.str_]) -> int:
    """Return the number of distinct groups (films, or groups of films); "" is not counted."""
    return len(np.unique(groups[groups != ""]))

"""Drawn tables of tests: what a cell has of its rows is what plain loops over the rows have."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import recompute
from support.run_tables import table_of
from support.seeds import amount
from support.tables import RunRow, a_table, rows_of

from obygaze_models.evaluation.cells import cells_of
from obygaze_models.evaluation.results import (
    RunSettings,
    results,
)
from obygaze_models.evaluation.tables import (
    CELL,
    MOSTLY_WHOLE,
    RUN_TABLES,
    TESTS,
    as_csv,
    read_csv,
)

METRICS = ("ap", "auc", "f1_binary", "f1_weighted", "accuracy", "brier")


SETTINGS = RunSettings(replicates=3)


def drawn(seed: int) -> pd.DataFrame:
    """Clips of films, of groups, or of none; models that skip folds, leak and tie."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["films", "groups", "none"], p=[0.6, 0.2, 0.2])
    clips = []
    for film in range(rng.integers(2, 7)):
        for number in range(rng.integers(1, 8)):
            clip: RunRow = {"clip_id": f"{film}-{number}", "y": int(rng.integers(0, 2))}
            clip["movie_id"] = "" if kind == "none" else f"film{film}"
            clip["group"] = f"g{film // 2}" if kind == "groups" else clip["movie_id"]
            clips.append({**clip, "fold": film})
    if rng.random() < 0.4:
        for clip in clips:
            clip["fold"] = int(rng.integers(0, 3))
    is_averaged = bool(rng.random() < 0.3)
    rows = []
    for train, store, model in (
        *(("T", "x", "ridge"), ("U", "x", "ridge"), ("T", "y", "ridge")),
        *(("T", "x", "mlp"), ("T", "", "random"), ("T", "", "all_positive")),
    ):
        names = {"train": train, "store": store, "model": model}
        rows += cell_rows(rng, clips, names, is_averaged=is_averaged)
    return a_table(rows)


def cell_rows(
    rng: np.random.Generator, clips: list[RunRow], names: RunRow, *, is_averaged: bool
) -> list[RunRow]:
    """The rows of a cell. Decisions are drawn apart from scores."""
    is_random = names["model"] == "random"
    facts: RunRow = {
        **names,
        "is_model": names["store"] != "",
        "is_trained": names["store"] != "",
        "is_probability": not is_random and names["train"] == "T",
    }
    may_leak = rng.random() < 0.3
    word = str(rng.choice(["unseen", "film"]))
    folds = sorted({clip["fold"] for clip in clips})
    kept = [fold for fold in folds if rng.random() < 0.8] or folds
    rows = []
    for fold in kept:
        for seed in range(2 if names["model"] == "mlp" else 1):
            for clip in clips:
                if clip["fold"] != fold and not (is_averaged and rng.random() < 0.7):
                    continue
                row = {**clip, **facts, "fold": f"fold {fold}", "seed": seed}
                row["score"] = 0.0 if is_random else int(rng.integers(0, 5)) / 4
                row["decision"] = 0.5 if is_random else float(rng.integers(0, 2))
                row["seen"] = word if clip["movie_id"] else "unknown"
                if may_leak and rng.random() < 0.1:
                    row |= {"seen": "clip", "leaked": bool(rng.integers(0, 2))}
                rows.append(row)
    return rows


# ---- plainly ----


def plain_basis(rows: Sequence[RunRow]) -> str:
    if not rows[0]["is_trained"]:
        return "unseen"
    words = {row["seen"] for row in rows}
    if any(row.get("leaked") for row in rows):
        return "leaked"
    if any(row["group"] == "" for row in rows):
        return "film-unknown"
    return "film-seen" if "film" in words or words == {"clip"} else "unseen"


# ---- compared with it ----

# Worlds of films, of groups and of copies alone.
WORLDS = amount((0, 1, 20, 24), tuple(range(400)))


def rows_by_cell(tests: pd.DataFrame) -> dict[Any, list[RunRow]]:
    """The rows of each cell."""
    cells = defaultdict(list)
    for row in rows_of(tests):
        cells[tuple(row[key] for key in CELL)].append(row)
    return cells


@pytest.mark.parametrize("seed", WORLDS)
def test_values_of_all_clips_and_of_films(tmp_path: Path, seed: int) -> None:
    """Each value, difference and count of results.csv; a cell has a value in each film."""
    tests = drawn(seed)
    found = results(tests, SETTINGS)
    (tmp_path / "predictions.csv").write_bytes(as_csv(tests))
    (tmp_path / "results.csv").write_bytes(as_csv(found))
    assert recompute.compare(tmp_path)["wrong"] == []
    for name, rows in rows_by_cell(tests).items():
        names = {**dict(zip(CELL, name, strict=True)), "against_model": ""}
        of_cell = rows_of(found, **names)
        metrics = {row["metric"] for row in of_cell if not row["film"]}
        assert {*METRICS[:-1]} < metrics
        assert ("brier" in metrics) == bool(rows[0]["is_probability"])
        films = {row["film"] for row in of_cell} - {""}
        assert films == {row["group"] for row in rows} - {""}


@pytest.mark.parametrize("seed", WORLDS)
def test_what_models_had_seen(seed: int) -> None:
    tests = drawn(seed)
    rows_of_cells = rows_by_cell(tests)
    for cell in cells_of(tests):
        rows = rows_of_cells[cell.name]
        seen = {row["clip_id"] for row in rows if row["seen"] == "clip"}
        by_name = {row["clip_id"] for row in rows if row["leaked"]}
        of_films = {row["clip_id"] for row in rows if row["seen"] == "film"}
        assert cell.basis == plain_basis(rows)
        assert (cell.leaked, cell.copies) == (len(seen), len(seen - by_name))
        assert cell.same_film == len(of_films - seen)


# ---- the files ----


@pytest.mark.parametrize("seed", WORLDS)
def test_the_values_of_a_table_that_was_read_are_those_of_the_table(seed: int) -> None:
    """To the bit: whoever has predictions.csv has all values of the run."""
    tests = drawn(seed)
    again = read_csv(as_csv(tests), TESTS)
    pd.testing.assert_frame_equal(again, tests, check_exact=True)
    found, expected = (results(one, SETTINGS) for one in (again, tests))
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    assert as_csv(found) == as_csv(expected)


VALUES: dict[type, st.SearchStrategy[Any]] = {
    str: st.text("aż, \n\r\"'=", max_size=4) | st.sampled_from(["nan", "1e5", "NA"]),
    float: st.floats(),
    bool: st.booleans(),
    int: st.integers(-9, 10**12),
}
WHOLE = st.integers(-9, 10**12) | st.sampled_from([0.5, math.nan])


@given(st.data())
def test_every_table_is_read_as_it_was_written(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(RUN_TABLES)))
    kinds = RUN_TABLES[name]
    columns = {key: VALUES[kind] for key, kind in kinds.items()}
    for key in MOSTLY_WHOLE:
        if kinds.get(key) is float:
            columns[key] = WHOLE
    table = table_of(name, data.draw(st.lists(st.fixed_dictionaries(columns))))
    again = read_csv(as_csv(table), kinds)
    pd.testing.assert_frame_equal(again, table, check_exact=True)
    assert as_csv(again) == as_csv(table)

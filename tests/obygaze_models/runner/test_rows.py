"""The types of the rows of a run: a column is declared once, and values come back as they were."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from obygaze_models.runner.rows import RUN_TABLES, read_rows, table_bytes

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text("aż, \n\"'=", max_size=4),
    float: st.floats(allow_infinity=False),
    bool: st.booleans(),
    int: st.integers(-9, 10**12),
    int | None: st.none() | st.integers(-9, 10**12),
}
MISSING = {str: "", float: math.nan}


@given(st.data())
def test_every_table_is_read_as_it_was_written(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(RUN_TABLES)))
    columns = RUN_TABLES[name]
    rows = data.draw(
        st.lists(st.fixed_dictionaries({key: VALUES[columns[key]] for key in columns}))
    )
    read = read_rows(name, table_bytes(name, rows))
    assert len(read) == len(rows)
    for row, back in zip(rows, read, strict=True):
        assert list(back) == list(columns)
        for key, value in row.items():
            assert back[key] == value or (math.isnan(value) and math.isnan(back[key]))
            assert type(back[key]) is type(value)


def test_what_a_row_does_not_have_is_missing() -> None:
    (row,) = read_rows("results.csv", table_bytes("results.csv", [{"metric": "ap"}]))
    columns = RUN_TABLES["results.csv"]
    for key, kind in columns.items():
        if key != "metric" and kind is not float:
            assert row[key] == MISSING.get(kind)
    assert row["metric"] == "ap"
    assert math.isnan(row["value"])

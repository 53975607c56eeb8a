import re
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from python_calamine import CalamineWorkbook

from obygaze_features.core import written_tables
from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.file_names import single_line
from obygaze_features.core.files import refuse_spreadsheet_name
from obygaze_features.core.tables import read_table
from obygaze_features.core.written_tables import MAX_CELL_LETTERS, SUFFIXES, write_table

COLUMNS: dict[str, Any] = {
    "clip_id": ["=1+2", "-3kZ", "0012", "http://x"],
    "scene": [1, None, 3, 4],
    "start_s": [0.1, 12.5, None, float("nan")],
    "score": np.array([0.25, -1, 1e-9, 2], dtype=np.float32),
    "known": [True, False, None, True],
    "note": [None, None, None, None],
}
ROWS = [
    ("=1+2", 1, 0.1, 0.25, True, None),
    ("-3kZ", None, 12.5, -1, False, None),
    ("0012", 3, None, float(np.float32(1e-9)), None, None),
    ("http://x", 4, None, 2, True, None),
]


def test_a_spreadsheet_has_text_as_text_and_numbers_as_numbers(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.xlsx", COLUMNS)
    sheet = CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0)
    header, *rows = sheet.to_python()
    assert header[:5] == list(COLUMNS)[:5]
    # calamine reads an empty cell as "".
    expected = [["" if cell is None else cell for cell in row] for row in ROWS]
    assert [row[:5] for row in rows] == [row[:5] for row in expected]
    with ZipFile(path) as archive:
        xml = archive.read("xl/worksheets/sheet1.xml").decode("utf-8")
    assert "<f>" not in xml and "hyperlink" not in xml


@given(
    numbers=st.lists(
        st.integers(-(10**15), 10**15) | st.floats(-1e6, 1e6), min_size=1, max_size=6
    )
)
@settings(max_examples=30, deadline=None)
@example([0.5280661875704343, 2])
def test_a_column_of_numbers_as_text_has_numbers_and_comes_back_as_it_was(numbers):
    texts = [*map(str, numbers), ""]
    with tempfile.TemporaryDirectory() as folder:
        ids = [f"c{number}" for number, _ in enumerate(texts)]
        table = {"clip_id": ids, "score": texts}
        path = write_table(Path(folder, "t.xlsx"), table)
        back = read_table(path, required=("clip_id",))
        sheet = CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0)
    assert [row["score"] for row in back.rows] == texts
    kinds = {type(row[1]) for row in sheet.to_python()[1:-1]}
    # As text stays what is shown otherwise: 1.0 as 1, and 1e-07.
    is_shown_so = all(
        (isinstance(number, float) or abs(number) < 10**10)
        and not re.search(r"e|\.0$|^-0$", text)
        for number, text in zip(numbers, texts, strict=False)
    )
    assert kinds == ({float} if is_shown_so else {str})


# What Excel and this program take for something else where it is typed.
TYPED = ["1,2", "1-2", "01", "3/4", "1e5", "TRUE", "2024-05-01", "1.5.2024", "1:27"]
TYPED += ["1,234", "-7", "1.50", "25:01:02", "=1+2", " 5 "]
TYPED += ["0x1F", "1_2", "nan"]
# Characters that XML has; a line break in a sheet is that of XML, without \r.
LETTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"])
TEXTS = st.sampled_from(TYPED) | st.text(LETTERS, max_size=20)


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=5))
@example(["1,2", "3,4"])
@example(["1,234"])
@example(TYPED)
def test_text_of_a_spreadsheet_comes_back_as_it_was(texts: list[str]) -> None:
    for column in (texts, [*texts[:1], *TYPED[:1]]):
        with tempfile.TemporaryDirectory() as folder:
            ids = [f"c{number}" for number, _ in enumerate(column)]
            table = {"clip_id": ids, "said": column}
            path = write_table(Path(folder, "t.xlsx"), table)
            back = read_table(path, required=("clip_id",))
        assert [row["said"] for row in back.rows] == [*map(single_line, column)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_table_has_the_same_bytes_and_another_replaces_nothing(tmp_path, suffix):
    path = write_table(tmp_path / f"t{suffix}", COLUMNS)
    before = path.read_bytes()
    write_table(path, COLUMNS)
    other = {"clip_id": ["other"]}
    with pytest.raises(AlreadyThere):
        write_table(path, other)
    assert path.read_bytes() == before
    write_table(path, other, force=True)
    assert path.read_bytes() != before


def test_a_spreadsheet_does_not_have_the_time_of_the_clock(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.xlsx", COLUMNS)
    with ZipFile(path) as archive:
        dates = {entry.date_time for entry in archive.infolist()}
        properties = archive.read("docProps/core.xml").decode("utf-8")
    assert dates == {(1980, 1, 1, 0, 0, 0)}
    assert str(datetime.now().year) not in properties


def test_another_extension_is_refused_with_those_that_are_written(tmp_path) -> None:
    for name, got in (("t.txt", ".txt"), ("t", "no extension")):
        with pytest.raises(FixUsage, match=rf"expected \.csv or \.xlsx, got '{got}'"):
            write_table(tmp_path / name, COLUMNS)
    with pytest.raises(FixUsage, match=r"expected \.csv, got \.xlsx"):
        refuse_spreadsheet_name(tmp_path / "t.xlsx")
    assert not list(tmp_path.iterdir())


def test_what_a_spreadsheet_cannot_hold_is_refused(tmp_path, monkeypatch) -> None:
    many = {f"c{n}": [n] for n in range(16_385)}
    with pytest.raises(FixUsage, match="at most 16,384 columns, got 16,385"):
        write_table(tmp_path / "t.xlsx", many)
    long = {"a": ["x" * (MAX_CELL_LETTERS + 1)]}
    with pytest.raises(FixUsage, match="at most 32,767 letters in a cell") as caught:
        write_table(tmp_path / "t.xlsx", long)
    assert caught.value.hint == "use t.csv"
    assert written_tables.MAX_SHEET_ROWS == 1_048_576
    # With the row of the names.
    monkeypatch.setattr(written_tables, "MAX_SHEET_ROWS", 100)
    with pytest.raises(FixUsage, match="at most 100 rows, got 101"):
        write_table(tmp_path / "t.xlsx", {"a": range(100)})

import csv
import io
import re
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.workbooks import write_workbook

from obygaze_features.core.clip_ids import clip_ids
from obygaze_features.core.errors import Corrupt, FixInput, ObygazeError
from obygaze_features.core.files import csv_bytes
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.core.tables import read_own_table, read_table, whole_number
from obygaze_features.core.unknown_words import UnknownWords


def details_of(path: Path, **options: object) -> tuple[str, ...]:
    with pytest.raises(FixInput) as caught:
        read_table(path, required=("a", "b"), **options)  # type: ignore[arg-type]
    return caught.value.details


def write(folder: Path, data: bytes | str) -> Path:
    path = folder / "t.csv"
    path.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    return path


def test_rows_know_the_line_they_start_on_even_after_quoted_line_breaks(tmp_path):
    path = write(tmp_path, 'a,b,note\n1,2,"two\nlines"\n3,"4,x",\n')
    table = read_table(path, required=("a", "b"))
    assert table.columns == ("a", "b", "note")
    assert [(row.line, row["a"], row["b"], row["note"]) for row in table.rows] == [
        (2, "1", "2", "two lines"),
        (4, "3", "4,x", ""),
    ]


# What a person writes in a column of numbers, and what is read.
POINTS = {
    "1,5": "1.5",
    "?": "?",
    "": "",
    "NA": "NA",
    "-": "-",
    "3": "3",
    "k.A.": "k.A.",
}


@pytest.mark.parametrize("form", ["csv", "quoted", "tabs", "xlsx"])
def test_cells_without_an_answer_do_not_turn_off_decimal_commas(tmp_path, form) -> None:
    path = tmp_path / "t.csv"
    rows = [["id", "points"], *[[str(n), cell] for n, cell in enumerate(POINTS)]]
    if form == "xlsx":
        path = write_workbook(tmp_path / "t.xlsx", {"A": rows})
    else:
        delimiter = {"csv": ";", "quoted": ",", "tabs": "\t"}[form]
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=delimiter).writerows(rows)
    table = read_table(path, required=("id", "points"))
    assert [row["points"] for row in table.rows] == [*POINTS.values()]


def test_a_word_decides_that_a_column_has_no_decimal_commas(tmp_path: Path) -> None:
    path = write(tmp_path, "a;b\n1,5;1,5\nunclear;2\n")
    table = read_table(path, required=("a", "b"))
    assert [row["a"] for row in table.rows] == ["1,5", "unclear"]
    assert [row["b"] for row in table.rows] == ["1.5", "2"]
    stated = UnknownWords.of({"unclear": "?"})
    table = read_table(path, required=("a", "b"), words=stated)
    assert [row["a"] for row in table.rows] == ["1.5", "unclear"]


def test_between_commas_a_comma_may_separate_thousands(tmp_path: Path) -> None:
    path = write(tmp_path, 'a,b\n"1,234","1,234"\n856,"1,5"\n')
    table = read_table(path, required=("a", "b"))
    assert [row["a"] for row in table.rows] == ["1,234", "856"]
    assert [row["b"] for row in table.rows] == ["1.234", "1.5"]
    (remark,) = table.remarks
    assert remark == (
        "1,234 in the column a is read as text, because its comma may separate thousands or"
        " decimals; write 1234 or 1.234"
    )


@pytest.mark.parametrize(
    "error",
    ["#N/A", "#NV", "#DIV/0!", "#WERT!", "#¡VALOR!", "#NAME?", "Err:502", "###"],
)
def test_an_error_of_a_formula_is_a_problem_of_its_place(tmp_path, error) -> None:
    path = write(tmp_path, f"a;b;c\n1;2;\n1,5;{error};#tag\n")
    (problem,) = details_of(path)
    assert problem == (
        f"{path}:3: column 'b': expected a value, got the error {error}: correct the cell"
    )
    (problem,) = details_of(path, words=UnknownWords())
    assert problem.endswith(f"or pass --word '{error}=?' if these answers are unknown")
    stated = UnknownWords.of({error: "?"})
    table = read_table(path, required=("a", "b"), words=stated)
    assert [row["b"] for row in table.rows] == ["2", "?"]


def test_blank_rows_are_skipped_but_not_in_a_table_of_obygaze(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n,\n\n1,2\n")
    table = read_table(path, required=("a", "b"))
    assert [row.line for row in table.rows] == [4]
    expected = "expected 2 cells as in the header, got 0"
    with pytest.raises(FixInput) as refused:
        own_cells(path)
    assert refused.value.details == (f"{path}:3: {expected}",)


TWICE = "the header lists this column more than once"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "1: the file is empty"),
        (b"a,b,a\n1,2,3\n", f"1: column 'a': {TWICE}"),
        (b"a,B\n1,2\n", "1: column 'b': required column is missing"),
        (b"a,b\n1\n", "2: expected 2 cells as in the header, got 1"),
        (b"a,b\n1,2,3\n", "2: expected 2 cells as in the header, got 3"),
        (b'a,b\n1,"2\n', "2: not valid CSV"),
        (b'a,b\n1,"2"x\n', "2: not valid CSV"),
    ],
)
def test_what_can_be_wrong(tmp_path: Path, data: bytes, told: str) -> None:
    path = write(tmp_path, data)
    (line,) = details_of(path)
    assert line.startswith(f"{path}:{told}")


NO_UTF8 = "expected text in UTF-8, got the invalid byte 0x8E"


@pytest.mark.parametrize(
    ("data", "line", "problem"),
    [
        ("a,b\n1,2\n".encode("utf-16-le"), 1, "line 1 has a NUL character"),
        (b"a,b\n1,2\n1,\0\n", 3, "line 3 has a NUL character"),
        (b"caf\x8e,b\n1,2\n", 1, NO_UTF8),
        (b"a,b\n1,2\ncaf\x8e,2\n", 3, NO_UTF8),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(tmp_path, data, line, problem):
    path = write(tmp_path, data)
    with pytest.raises(Corrupt, match=problem) as caught:
        read_table(path, required=("a", "b"))
    assert caught.value.where == f"{path}:{line}"


def test_the_way_of_an_elan_file_is_to_import_marks(tmp_path: Path) -> None:
    path = tmp_path / "anna.eaf"
    path.write_text('<?xml version="1.0"?><ANNOTATION_DOCUMENT/>')
    with pytest.raises(FixInput, match="expected a table") as caught:
        read_table(path, required=())
    assert caught.value.hint == f"obygaze marks import {path} -o NAME"


def test_names_of_columns_that_stand_twice_are_no_title(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,b,b,b\nx,y,z,u,v\nc,d,e,f,g\n")
    with pytest.raises(FixInput) as caught:
        read_table(path, required=())
    assert caught.value.details == (f"{path}:1: column 'b': {TWICE}",)


def test_a_file_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.csv"
    with path.open("wb") as stream:
        stream.truncate(300_000_000)
    with pytest.raises(Corrupt, match=r"300\.0 MB"):
        read_table(path, required=("a",))


def test_violations_of_several_files_come_together_and_never_by_the_million() -> None:
    first, second, clean = Violations("x.csv"), Violations("y.csv"), Violations("z.csv")
    first.add(None, None, "bad")
    for line in range(1500):
        second.add(line, None, f"bad {line}")
    with pytest.raises(FixInput, match="1501 problems") as caught:
        raise_together("no", first, second, clean)
    assert caught.value.where == "x.csv, y.csv"
    assert caught.value.details[0] == "x.csv: bad"
    assert caught.value.details[-1] == "... and 501 more"
    raise_together("fine", clean)


@pytest.mark.parametrize("text", ["", " 1", "1.0", "１", "1_0", "+1"])
def test_what_is_not_a_whole_number(text: str) -> None:
    assert whole_number(text) is None


def own_cells(path: Path) -> list[tuple[str, str]]:
    """The cells of the columns a and b of a table that obygaze wrote; c has none."""
    violations = Violations(path)
    table = read_own_table(
        path, required=("a", "b"), optional=("b", "c"), violations=violations
    )
    rows = [*table.rows]
    violations.raise_if_any("the table is not valid")
    assert {row["c"] for row in rows} <= {""}
    return [(row["a"], row["b"]) for row in rows]


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=8)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELLS, CELLS), max_size=6))
def test_what_the_csv_module_writes_is_read_back(tmp_path, rows) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("a", "b"), *rows])
    path = write(tmp_path, text.getvalue())
    assert own_cells(path) == rows


AWKWARD = st.sampled_from(
    ["", "'", "''", "-", "=1+2", "'=x", "@a", "+49", "-3kZ", "'tis", "\r", ","]
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELLS | AWKWARD, CELLS | AWKWARD), max_size=6))
def test_a_table_that_was_written_here_is_read_back(tmp_path, rows) -> None:
    data = csv_bytes(("a", "b"), rows)
    assert own_cells(write(tmp_path, data)) == rows


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60))
@pytest.mark.filterwarnings("ignore:.*read as Windows-1252")
def test_no_bytes_end_in_anything_but_a_table_or_an_error_for_people(tmp_path, data):
    path = write(tmp_path, b"a,b\n" + data)
    try:
        table = read_table(path, required=("a", "b"))
    except ObygazeError as error:
        assert all(line.startswith(f"{path}:") for line in error.details)
    else:
        assert all(set(row.cells) == {"a", "b"} for row in table.rows)


def test_bytes_of_a_parquet_file_are_texts(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table({"a": ["café".encode()], "b": [b"2"]}), path)
    (row,) = read_table(path, required=("a", "b")).rows
    assert row.cells == {"a": "café", "b": "2"}
    parquet.write_table(arrow.table({"a": [b"caf\xe9"], "b": [b"2"]}), path)
    with pytest.raises(Corrupt, match="'utf-8' codec can't decode"):
        read_table(path, required=("a", "b"))


def test_a_duration_of_whole_minutes_in_parquet_is_no_short_time(tmp_path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    lengths = [timedelta(0), timedelta(seconds=60), timedelta(hours=1, seconds=1.5)]
    parquet.write_table(arrow.table({"a": lengths}), tmp_path / "t.parquet")
    rows = read_table(tmp_path / "t.parquet", required=("a",)).rows
    assert [row["a"] for row in rows] == ["0:00:00", "0:01:00", "1:00:01.500"]


@pytest.mark.parametrize("before", ["", "Coded on,12.5.2026,,\n", "Coder,3,,\n"])
@pytest.mark.parametrize("header", ["clip_id,movie_id,1,2", "clip_id,1,2,3"])
def test_a_column_may_be_called_by_a_number(tmp_path, before, header) -> None:
    """As a decade, or a coder: the row below is not the header, and no title above it."""
    path = tmp_path / "t.csv"
    path.write_text(f"{before}{header}\nx,lake,yes,no\n7,lake,no,no\n", "utf-8")
    table = read_table(path, required=())
    assert table.columns == (*header.split(","),)
    assert [row["clip_id"] for row in table.rows] == ["x", "7"]


IDS = ["-a-1", "b-2"]


def test_a_cell_may_have_several_lines_and_signs_that_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "clips.csv"
    rows = 'note,clip_id\n"one\n\ntwo",-a-1\nthree\u2028four,b-2\n'
    path.write_text(rows, encoding="utf-8", newline="")
    assert clip_ids(path) == IDS


def test_a_list_may_have_one_line_of_any_length(tmp_path: Path) -> None:
    path = tmp_path / "clips.txt"
    path.write_text("x" * 200_000, encoding="utf-8")
    assert clip_ids(path) == ["x" * 200_000]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("clips.csv", "note,clip_id\nn,a\nn\n", "clips.csv:3: expected 2 cells"),
        ("clips.csv", "clip_id;note\n ;n\n", "clips.csv:2: column 'clip_id': is empty"),
        ("clips.csv", f"clip_id\n{'x' * 200_000}\n", r"not valid CSV \(field larger"),
        ("clips.csv", "film,clip\nm,a\n", "'clip_id': required column is missing"),
        ("clips.txt", "", "this file has no clip ids"),
        ("clips.csv", "clip_id\n\n", "this file has no clip ids"),
    ],
)
def test_files_without_ids_are_refused(tmp_path, name, text, problem) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    for named in (path, str(path)):
        with pytest.raises(FixInput) as caught:
            clip_ids(named)
        told = "\n".join([*caught.value.details, caught.value.message])
        assert re.search(problem, told)

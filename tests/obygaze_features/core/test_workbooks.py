import zipfile
from datetime import date, timedelta
from pathlib import Path

import pytest
import xlsxwriter
from support.workbooks import write_workbook

from obygaze_features.core import workbooks
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, ObygazeError
from obygaze_features.core.tables import read_table
from obygaze_features.core.unknown_words import UnknownWords
from obygaze_features.core.workbooks import cell_text, read_sheet


def test_cells_of_each_type_have_the_texts_of_a_csv_file(tmp_path: Path) -> None:
    rows = [
        ["clip_id", "movie_id", "film  \n title", "value"],
        [12, 3.5, "Amélie", True],
        ["0012", -3, "7,5", False],
        ["a", timedelta(seconds=70), timedelta(hours=25, seconds=1), date(2024, 5, 1)],
        [None, None, None, None],
        ["=1+2", 1e16, 0, timedelta(0)],
    ]
    path = write_workbook(tmp_path / "t.xlsx", {"Clips": rows})
    table = read_table(path, required=("clip_id",))
    assert table.columns == ("clip_id", "movie_id", "film title", "value")
    assert table.delimiter == ""
    assert [(row.line, *row.cells.values()) for row in table.rows] == [
        (2, "12", "3.5", "Amélie", "TRUE"),
        (3, "0012", "-3", "7,5", "FALSE"),
        (4, "a", "0:01:10", "25:00:01", "2024-05-01"),
        (6, "=1+2", "10000000000000000", "0", "0:00:00"),
    ]


def test_durations_are_rounded_to_milliseconds() -> None:
    assert cell_text(timedelta(seconds=70.5)) == "0:01:10.500"
    assert cell_text(timedelta(seconds=59.9996)) == "0:01:00"
    assert cell_text(timedelta(seconds=-5)) == "-0:00:05"


def test_a_hidden_sheet_is_read_if_it_is_named(tmp_path: Path) -> None:
    sheets = {"Shown": [], "Hidden": [["a"], ["x"]]}
    path = write_workbook(tmp_path / "t.xlsx", sheets, hidden=["Hidden"])
    with pytest.raises(FixUsage, match="expected one visible sheet with data, got 0"):
        read_table(path, required=("a",), sheet="")
    table = read_table(path, required=("a",), sheet="Hidden")
    assert [row["a"] for row in table.rows] == ["x"]


@pytest.mark.parametrize(
    ("name", "problem"), [("t.ods", r"or CSV, got \.ods"), ("t.csv", "--sheet is for")]
)
def test_no_other_file_has_sheets(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / name).write_text("a\n1\n", encoding="utf-8")
    with pytest.raises(ObygazeError, match=problem):
        read_table(tmp_path / name, required=("a",), sheet="Clips")


def test_errors_of_formulas_are_problems_of_their_cells(tmp_path: Path) -> None:
    rows = [["clip_id", "level"], ["a-1", "#N/A"], ["a-2", "#DIV/0!"], ["a-3", "S"]]
    path = write_workbook(tmp_path / "t.xlsx", {"Clips": rows})
    with pytest.raises(FixInput) as caught:
        read_table(path, required=("clip_id",))
    assert [line.partition(": ")[0] for line in caught.value.details] == [
        f"{path}:2",
        f"{path}:3",
    ]
    words = UnknownWords.of({"#N/A": "?", "#DIV/0!": "?"})
    table = read_table(path, required=("clip_id",), words=words)
    assert [row["level"] for row in table.rows] == ["?", "?", "S"]


@pytest.mark.parametrize(("is_text", "read"), [(True, "1,2"), (False, "1.2")])
def test_a_column_formatted_as_text_has_no_decimal_commas(tmp_path, is_text, read):
    path = tmp_path / "t.xlsx"
    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet("A")
    as_text = book.add_format({"num_format": "@"})
    # The format of the names of columns says nothing of the cells below.
    sheet.write_row(0, 0, ["n", "codes"], as_text)
    sheet.write_row(1, 0, [1, "1,2"], as_text if is_text else None)
    sheet.write_row(2, 0, [2, 7])
    book.close()
    table = read_table(path, required=("n",))
    assert [row["codes"] for row in table.rows] == [read, "7"]


def times_of(folder: Path, cells: list[tuple[float, str | int]]) -> list[str]:
    """Write numbers of days in their formats, and return them as they are read."""
    path = folder / "times.xlsx"
    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet("A")
    sheet.write_row(0, 0, ["n", "t"])
    for row, (days, form) in enumerate(cells, start=1):
        sheet.write_number(row, 0, row)
        sheet.write_number(row, 1, days, book.add_format({"num_format": form}))
    book.close()
    return [row["t"] for row in read_table(path, required=("n",)).rows]


@pytest.mark.parametrize("form", ["h:mm", "[h]:mm:ss", "[$-409]h:mm", 20])
def test_a_time_of_more_than_a_day_is_no_date(tmp_path: Path, form: str | int) -> None:
    hours = 25.5
    assert times_of(tmp_path, [(hours / 24, form)]) == ["25:30"]
    assert times_of(tmp_path, [(31 + 1 / 48, form)]) == ["744:30"]
    # 24 minutes, typed as 24:00.
    assert times_of(tmp_path, [(1, form)]) == ["24:00"]
    # With seconds, it is no time of minutes.
    assert times_of(tmp_path, [((hours + 1 / 3600) / 24, form)]) == ["25:30:01"]


def test_a_date_of_1900_is_a_date(tmp_path: Path) -> None:
    cells = [
        (15, "d.m.yyyy"),
        (45413, "yyyy-mm-dd"),
        (15.5, "d.m.yyyy h:mm"),
        (1.5, 22),
    ]
    texts = ["1900-01-15", "2024-05-01", "1900-01-15 12:00:00", "1900-01-01 12:00:00"]
    assert times_of(tmp_path, cells) == texts


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        # 1:27, 2:05.5 and 25:10, typed into Excel: it makes hours of the first and the last.
        (
            [
                (87 / 1440, "h:mm"),
                (125.5 / 86400, "mm:ss.0"),
                (1510 / 1440, "[h]:mm:ss"),
            ],
            ["1:27", "0:02:05.500", "25:10"],
        ),
        # 1:27 beside 1:02:30 and 1:02:00, which are shown with seconds.
        (
            [(87 / 1440, "h:mm"), (3750 / 86400, "h:mm:ss"), (62 / 1440, "h:mm:ss")],
            ["1:27", "1:02:30", "1:02:00"],
        ),
        # Another program shows all of them with seconds.
        ([(87 / 1440, "h:mm:ss"), (3 / 1440, "h:mm:ss")], ["1:27", "0:03"]),
        # A format without hours shows what was meant.
        ([(2 / 1440, "mm:ss"), (27 / 1440, "[mm]:ss")], ["0:02:00", "0:27:00"]),
        # What a format writes as it is says nothing.
        ([(87 / 1440, 'h:mm" hours"'), (3.5 / 1440, "h:mm")], ["1:27", "0:03:30"]),
        ([(1.5, "[Red]h:mm"), (1, "[White][>1]h:mm;h:mm")], ["36:00", "24:00"]),
    ],
)
def test_a_time_of_two_numbers_is_what_its_sheet_shows(tmp_path, cells, texts) -> None:
    assert times_of(tmp_path, cells) == texts


def test_a_cell_that_is_merged_over_rows_has_its_value_in_each(tmp_path) -> None:
    """A label that is merged over three clips is not the label of the first one alone."""
    rows = [["Coding of 2026"], ["film", "n"], ["Amélie", 1], [None, 2], ["Juno", 1]]
    merged = ["A1:B1", "A3:A4", "B5:B9"]
    path = write_workbook(tmp_path / "t.xlsx", {"Clips": rows}, merged=merged)
    table = read_table(path, required=("film", "n"))
    assert [row["film"] for row in table.rows] == ["Amélie", "Amélie", "Juno"]
    assert [row["n"] for row in table.rows] == ["1", "2", "1"]


def test_of_several_sheets_with_data_one_is_asked_for(tmp_path: Path) -> None:
    sheets = {
        "Ada": [["a", "b"], [1, 2]],
        "Empty": [],
        "Ben": [["a", "b"], [3, 4], [5, 6]],
        "Lists": [["S", "EN"]],
    }
    path = write_workbook(tmp_path / "t.xlsx", sheets, hidden=["Lists"])
    expected = "expected one visible sheet with data, got 2"
    with pytest.raises(FixUsage, match=expected) as caught:
        read_table(path, required=("a", "b"), sheet="")
    assert "--sheet with one of Ada, Empty, Ben, Lists," in str(caught.value.hint)
    table = read_table(path, required=("a", "b"), sheet="Ben")
    assert [row["a"] for row in table.rows] == ["3", "5"]
    with pytest.raises(FixUsage, match=r"no sheet 'Bem' \(did you mean 'Ben'\?\)"):
        read_table(path, required=("a", "b"), sheet="Bem")


TITLED = [["Clips of 2024", None, None, None], [], ["film", "n", "from", "to"]]
TITLED += [["lake", 1, 0, 5]]


def test_the_row_with_names_is_below_the_title(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "t.xlsx", {"Clips": TITLED})
    table = read_table(path, required=("film",))
    assert [(row.line, row["film"]) for row in table.rows] == [(4, "lake")]


@pytest.mark.parametrize(
    "data", [b"", b"<html><table><tr><td>a</td></tr></table></html>"]
)
def test_what_only_has_the_name_of_a_spreadsheet_is_refused(tmp_path, data):
    path = tmp_path / "t.xlsx"
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="spreadsheet cannot be read, or has a password"):
        read_table(path, required=("a",))


def changed_sheet(path: Path, *changes: tuple[str, str]) -> Path:
    """Change texts of the members of an .xlsx file; each must be there."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    for before, after in changes:
        assert any(before in text for text in members.values())
        members = {name: text.replace(before, after) for name, text in members.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


OFFICE = "http://schemas.openxmlformats.org"
PURL = "http://purl.oclc.org/ooxml"
STRICT = (
    (f"{OFFICE}/spreadsheetml/2006/main", f"{PURL}/spreadsheetml/main"),
    (
        f"{OFFICE}/officeDocument/2006/relationships",
        f"{PURL}/officeDocument/relationships",
    ),
)
NO_NAMES = ((' r="A2"', ""), (' r="B2"', ""), ('<row r="2"', "<row"))
CAPITALS = (("worksheets/sheet1.xml", "worksheets/Sheet1.xml"),)


@pytest.mark.parametrize("changes", [STRICT, NO_NAMES, CAPITALS])
def test_a_cell_far_away_is_found_in_files_of_each_program(tmp_path, changes) -> None:
    """Excel saves strict files, some programs name no cells."""
    path = write_workbook(tmp_path / "t.xlsx", {"A": [["a", "b"], ["x", "y"], ["z"]]})
    changed_sheet(path, *changes, ('r="A3"', 'r="XFD1048576"'))
    with pytest.raises(Corrupt, match="has 1,048,576 rows and 16,384 columns"):
        read_table(path, required=("a",))


@pytest.mark.parametrize(
    ("limit", "row"),
    [
        ("MAX_ROWS", "<row><c><v>1</v></c></row>"),
        ("MAX_ROWS", "<row/>"),
        ("MAX_CELLS", "<row><c><v>1</v></c></row>"),
    ],
)
def test_a_long_sheet_is_refused_before_its_end(limit, row, tmp_path, monkeypatch):
    path = write_workbook(tmp_path / "long.xlsx", {"A": [["clip_id"], ["a"]]})
    # Rows without numbers, and behind them what is no XML: nobody reads so far.
    changed_sheet(path, ("</sheetData>", row * 100_000 + "</wrong>"))
    monkeypatch.setattr(workbooks, limit, 1000)
    with pytest.raises(Corrupt, match=r"limit of 1,000|at most 1,000 cells"):
        read_sheet(path)


def test_empty_rows_do_not_make_a_title_with_a_year_the_header() -> None:
    title, empty = ["Study", "1990", ""], ["", "", ""]
    rows = [["clip", "film", "mood"], ["a", "b", "c"], ["d", "e", "f"]]
    assert workbooks.header_place([title, *[empty] * 5, *rows]) == 6

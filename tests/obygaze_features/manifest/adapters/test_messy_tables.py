"""Tables as people have them: imported, or refused with each kind of problem and its cure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.workbooks import ERROR, write_workbook

from obygaze_features.manifest.io import read_manifest

TEXT = "clip_id,movie_id,level,concepts\nA1,Amélie,S,Look|Body\nA2,Amélie,EN,\n"
RESTARTED = "film,n,level\nlake,1,S\nlake,2,EN\nalba,1,S\nalba,12,HN\n"


def imported(tmp_path: Path, data: bytes, *options: str) -> list[str]:
    """What the import says on both streams, without the line of changed ids."""
    (tmp_path / "t.csv").write_bytes(data)
    words = ("manifest", "import", "csv", "t.csv", "-o", "t", *options)
    answer = call_obygaze(*words, cwd=tmp_path)
    lines = [*answer.stdout.splitlines(), *answer.stderr.splitlines()]
    return [line for line in lines if not line.startswith("Warning: movie_id")]


@pytest.mark.parametrize(
    ("encoding", "delimiter", "newline"),
    list(
        product(("utf-8", "utf-8-sig", "utf-16"), (",", ";", "\t", "|"), ("\n", "\r\n"))
    ),
)
def test_unicode_tables_are_read_whatever_separates_their_cells(
    tmp_path: Path, encoding: str, delimiter: str, newline: str
) -> None:
    text = TEXT.replace("|", "+").replace(",", delimiter).replace("\n", newline)
    lines = imported(tmp_path, text.encode(encoding), "--separator", "+")
    assert lines == ["manifests/t.toml: 2 clips of 1 film (EN 1, S 1)"]


@pytest.mark.parametrize("encoding", ["cp1252", "mac-roman", "latin-1", "cp850"])
def test_another_encoding_is_shown_as_it_reads_and_then_chosen(
    tmp_path: Path, encoding: str
) -> None:
    data = TEXT.encode(encoding)
    first, error, where, cure = imported(tmp_path, data)
    assert first.startswith("t.csv:2: the text is not UTF-8; it reads in cp1252 'A1,")
    assert error == "Error: the table cannot be imported: 1 violation"
    assert where == "  in: t.csv"
    assert cure == "  Try: --encoding with the one in which the words are right"
    if encoding in {"cp1252", "mac-roman"}:
        assert f"in {encoding} 'A1,Amélie,S,Look|Body'" in first
    assert imported(tmp_path, data, "--encoding", encoding) == [
        "manifests/t.toml: 2 clips of 1 film (EN 1, S 1)"
    ]
    rows = (tmp_path / "manifests" / "t.csv").read_text("utf-8").splitlines()
    assert all(row.endswith("Amélie") for row in rows[1:])


def test_bytes_that_are_no_text_and_unknown_encodings_are_refused(
    tmp_path: Path,
) -> None:
    assert "UTF-16 or not text" in imported(tmp_path, bytes(range(256)))[0]
    error, cure = imported(tmp_path, b"a\n", "--encoding", "cp9999")
    assert error == "Error: unknown encoding 'cp9999'"
    assert (
        "unknown encoding" in imported(tmp_path, b"a\n", "--encoding", "undefined")[0]
    )
    assert "unknown encoding" in imported(tmp_path, b"a\n", "--encoding", "hex")[0]
    assert cure.startswith("  Try: utf-8, utf-16, cp1252")
    lines = imported(tmp_path, TEXT.encode("cp1252"), "--encoding", "ascii")
    assert lines[0].startswith("t.csv:2: the text is not of the encoding 'ascii'")


def test_clip_numbers_that_begin_anew_in_each_film_become_ids(tmp_path: Path) -> None:
    form = ("--map", "movie_id=film", "--id", "{film}-{n:03d}")
    lines = imported(tmp_path, RESTARTED.encode(), *form)
    assert lines == ["manifests/t.toml: 4 clips of 2 films (EN 1, HN 1, S 2)"]
    shown = call_obygaze("manifest", "show", "t", "--json", cwd=tmp_path).json()
    ids = [clip["clip_id"] for clip in shown["clips"]]
    assert ids == ["lake-001", "lake-002", "alba-001", "alba-012"]


def test_repeated_clip_numbers_are_told_how_to_become_ids(tmp_path: Path) -> None:
    mapped = ("--map", "movie_id=film", "--map", "clip_id=n")
    lines = imported(tmp_path, RESTARTED.encode(), *mapped)
    assert "the clip '1' is in the film 'lake' too" in lines[0]
    assert lines[-1] == "  Try: --id '{film}-{n}'"


@pytest.mark.parametrize(
    ("form", "rows", "told"),
    [
        ("{film-{n}", "lake,1,S\n", "not a form of ids"),
        ("lake", "lake,1,S\n", "not a form of ids"),
        ("{film}-{n.real}", "lake,1,S\n", "required column is missing"),
        ("{film}-{m}", "lake,1,S\n", "required column is missing"),
        ("{film}-{n:03d}", "lake,one,S\n", "'one' is not a whole number"),
        ("{film}-{n}", "lake,,S\n", "is empty, and is a part of the id"),
    ],
)
def test_forms_and_cells_that_make_no_id_are_refused(
    tmp_path: Path, form: str, rows: str, told: str
) -> None:
    data = f"film,n,level\n{rows}".encode()
    lines = imported(tmp_path, data, "--map", "movie_id=film", "--id", form)
    assert told in lines[0]


@pytest.mark.parametrize(
    ("header", "row", "problem", "cure"),
    [
        ("level", "oui", "unknown level 'oui'", '[levels], oui = "?"'),
        ("concepts", "sun", "unknown concept 'sun'", '[concepts], sun = "?"'),
        ("concepts", '"Look, Body"', "'Look, Body'", "--separator ','"),
        ("concepts", "Look/Body", "'Look/Body'", "--separator '/'"),
        ("start_s,end_s", "1:10,1:20", "may be minutes or hours", "0:01:10"),
        ("start_s,end_s", "soon,later", "'soon' is not a time", "0:01:10.5"),
        ("level", "S,,", "expected 3 cells as in the header, got 5", "quote cells"),
    ],
)
def test_each_kind_of_problem_is_listed_once_and_has_its_cure(
    tmp_path: Path, header: str, row: str, problem: str, cure: str
) -> None:
    rows = "".join(f"c{number},m,{row}\n" for number in range(40))
    lines = imported(tmp_path, f"clip_id,movie_id,{header}\n{rows}".encode())
    assert problem in lines[0]
    assert any(line.endswith("more like this") for line in lines)
    assert len(lines) < 15
    assert cure in lines[-1]


def test_every_unknown_word_is_listed_with_its_cells_and_its_line_of_a_mapping(
    tmp_path: Path,
) -> None:
    words = ["ja"] * 4 + ["nein", "kaum", "deutlich", "sehr stark", "nein"]
    rows = "".join(f"c{n},m,{word}\n" for n, word in enumerate(words))
    data = f"clip_id,movie_id,level\n{rows}".encode()
    lines = imported(tmp_path, data)
    assert (
        "unknown levels: 'ja' (4 cells), 'nein' (2 cells), 'kaum' (1 cell),"
        " 'deutlich' (1 cell), 'sehr stark' (1 cell)"
    ) in lines
    assert lines[-1] == (
        "  Try: --mapping FILE with these lines, and EN, HN, NS or S for each ?: [levels],"
        ' ja = "?", nein = "?", kaum = "?", deutlich = "?", "sehr stark" = "?"'
        " (--write-mapping FILE writes them)"
    )


def test_a_mapping_to_fill_in_is_written_although_the_import_fails(
    tmp_path: Path,
) -> None:
    data = b"clip_id,film,gaze,why\nc1,m,ja,Look|Licht\nc2,m,nein,\nc3,m,HN,Body\n"
    columns = ("--map", "movie_id=film", "--map", "level=gaze", "--map", "concepts=why")
    lines = imported(tmp_path, data, *columns, "--write-mapping", "m.toml")
    assert lines[-1] == (
        '  Try: replace each "?" in m.toml, then the same command with --mapping m.toml,'
        " without --write-mapping"
    )
    text = (tmp_path / "m.toml").read_text("utf-8")
    assert '[levels]\nja = "?"\nnein = "?"\n' in text
    assert '[concepts]\nLicht = "?"\n' in text
    # As it is, it is refused: no word gets a meaning that nobody chose.
    refused = imported(tmp_path, data, "--mapping", "m.toml")
    assert any("levels.ja: must be one of EN, HN, NS, S, got '?'" in x for x in refused)
    filled = text.replace('ja = "?"', 'ja = "S"').replace('nein = "?"', 'nein = "EN"')
    filled = filled.replace('Licht = "?"', 'Licht = "Posture"')
    (tmp_path / "m.toml").write_text(filled, "utf-8")
    lines = imported(tmp_path, data, "--mapping", "m.toml")
    assert lines == ["manifests/t.toml: 3 clips of 1 film (EN 1, HN 1, S 1)"]


def test_a_file_that_is_there_is_not_replaced_by_a_mapping_to_fill_in(
    tmp_path: Path,
) -> None:
    (tmp_path / "m.toml").write_text("mine", "utf-8")
    data = b"clip_id,movie_id,level\nc1,m,ja\n"
    lines = imported(tmp_path, data, "--write-mapping", "m.toml")
    assert "unknown level 'ja'" in lines[0]
    assert (tmp_path / "m.toml").read_text("utf-8") == "mine"


def test_a_wrong_separator_is_no_word_to_translate(tmp_path: Path) -> None:
    data = b'clip_id,movie_id,concepts\nc1,m,"Look, Body"\nc2,m,Look||Body\n'
    lines = imported(tmp_path, data, "--write-mapping", "m.toml")
    assert lines[-1] == "  Try: --separator ','"
    assert not (tmp_path / "m.toml").exists()


def test_a_wrong_column_of_a_form_of_ids_is_named_first(tmp_path: Path) -> None:
    rows = [["Clips of 2024"], ["Nr", "Film", "Blick"], [1, "lake", "S"]]
    path = write_workbook(tmp_path / "t.xlsx", {"Clips": rows})
    form = ("--map", "movie_id=Film", "--id", "{Film}-{nr:03d}")
    lines = imported_workbook(tmp_path, path, *form)
    assert lines[0] == (
        "t.xlsx:2: column 'nr': required column is missing (did you mean 'Nr'?)"
    )
    assert lines[-1] == (
        "  Try: --id with columns of the table in place of nr;"
        " the columns of the table: Nr, Film, Blick"
    )
    both = imported_workbook(tmp_path, path, "--id", "{Film}-{nr:03d}")
    assert both[-1].startswith(
        "  Try: --id with columns of the table in place of nr and --map movie_id=COLUMN"
    )


def test_a_clip_that_is_listed_twice_is_told_about_annotators(tmp_path: Path) -> None:
    rows = "".join(f"c{number % 5},m\n" for number in range(40))
    lines = imported(tmp_path, f"clip_id,movie_id\n{rows}".encode())
    assert lines[0].endswith("'c0' is already on line 2")
    assert lines[3] == "  ... and 32 more like this"
    assert lines[-1].endswith("several annotators need --map annotator=COLUMN")


def test_names_of_clips_are_kept_beside_ids_that_were_made(tmp_path: Path) -> None:
    data = b"clip_id,film,n\nscA.mp4,lake,1\nscB.mp4,lake,2\n"
    form = ("--map", "movie_id=film", "--id", "{film}-{n:03d}")
    imported(tmp_path, data, *form)
    rows = (tmp_path / "manifests" / "t.csv").read_text("utf-8").splitlines()
    assert "given_clip_id" in rows[0]
    assert "scA.mp4" in rows[1]
    # Numbers that begin anew are no names.
    data = b"clip_id,film\n1,lake\n1,alba\n"
    imported(tmp_path, data, *form[:3], "{film}-{clip_id}", "--force")
    rows = (tmp_path / "manifests" / "t.csv").read_text("utf-8").splitlines()
    assert [row.partition(",")[0] for row in rows[1:]] == ["lake-1", "alba-1"]
    assert "given_clip_id" not in rows[0]


def test_many_kinds_of_problems_fill_no_screen(tmp_path: Path) -> None:
    words = [f"L'homme {chr(97 + n % 26)}{n} seul" for n in range(300)]
    rows = "".join(f"c{n},m,{word}\n" for n, word in enumerate(words))
    lines = imported(tmp_path, f"clip_id,movie_id,concepts\n{rows}".encode())
    assert len(lines) < 30


def imported_workbook(
    tmp_path: Path, path: Path, *options: str, name: str = "t"
) -> list[str]:
    """What the import of a spreadsheet says, without the lines of changed ids."""
    words = ("manifest", "import", "csv", path.name, "-o", name, *options)
    answer = call_obygaze(*words, cwd=tmp_path)
    lines = [*answer.stdout.splitlines(), *answer.stderr.splitlines()]
    return [line for line in lines if " is now " not in line]


def seconds(*values: float) -> list[timedelta]:
    return [timedelta(seconds=value) for value in values]


# As a person keeps them: a title, films in merged cells, numbers that restart, times, words.
PERSONAL = [
    ["Clips, spring 2024", None, None, None, None, None],
    [None, None, None, None, None, None],
    ["Film", "n", "Start", "End", "Level", "Concepts"],
    ["Amélie", 1, *seconds(0, 5), "Easy Neg", None],
    [None, 2, *seconds(65, 110), "S", "Look, Body"],
    ["Juno", 1, *seconds(3, 3723), "HN", "Body"],
]
MAPPED = (
    *("--map", "movie_id=Film", "--id", "{Film}-{n:03d}", "--separator", ","),
    *("--map", "start_s=Start", "--map", "end_s=End"),
    *("--map", "level=Level", "--map", "concepts=Concepts"),
)


@pytest.mark.parametrize("name", ["t.xlsx", "t.ods"])
def test_a_spreadsheet_as_a_person_keeps_it_becomes_a_manifest(
    tmp_path: Path, name: str
) -> None:
    path = write_workbook(tmp_path / name, {"Clips": PERSONAL}, merged=["A4:A5"])
    lines = imported_workbook(tmp_path, path, *MAPPED, "--write-mapping", "m.toml")
    assert lines == [
        "manifests/t.toml: 3 clips of 2 films (EN 1, HN 1, S 1)",
        f"Warning: {name}: the names of the columns are in row 3; rows before it are not read",
    ]
    rows = (tmp_path / "manifests" / "t.csv").read_text("utf-8").splitlines()
    assert [row.split(",")[:8] for row in rows[1:]] == [
        ["Amelie-001", "Amelie", "1", "", "0.0", "5.0", "EN", ""],
        ["Amelie-002", "Amelie", "2", "", "65.0", "110.0", "S", "Look|Body"],
        ["Juno-001", "Juno", "1", "", "3.0", "3723.0", "HN", "Body"],
    ]
    # The mapping that was written does the same.
    imported_workbook(tmp_path, path, "--mapping", "m.toml", name="u")
    again = (tmp_path / "manifests" / "u.csv").read_text("utf-8").splitlines()
    assert again == rows


@pytest.mark.parametrize("name", ["t.xlsx", "t.ods"])
def test_what_is_wrong_in_a_spreadsheet_is_one_screen_with_its_cures(
    tmp_path: Path, name: str
) -> None:
    rows = [
        ["clip_id", "movie_id", "level", "level"],
        *([f"c{number}", "m", "oui", ERROR] for number in range(40)),
        ["Part two", None, None, None],
    ]
    path = write_workbook(tmp_path / name, {"Clips": rows}, merged=["A42:D42"])
    lines = imported_workbook(tmp_path, path)
    assert lines[0] == f"{name}:42: the cells 'A42:D42' are merged across columns"
    assert lines[1] == f"{name}:2: the formula of the cell 'D2' has the error '{ERROR}'"
    assert lines[4] == "  ... and 37 more like this"
    assert lines[5].endswith(
        "column 'level': the header lists this column more than once"
    )
    assert len(lines) == 10
    assert lines[-1] == (
        "  Try: give each column a name of its own; split these cells (Merge Cells, again), or"
        " delete rows that are only headings; correct the formulas with errors, or replace them"
        " with values"
    )


@pytest.mark.parametrize("name", ["t.xlsx", "t.ods"])
def test_sheet_and_header_are_asked_for_and_then_chosen(
    tmp_path: Path, name: str
) -> None:
    titled = [["Ada's clips", None, None], ["id", "film", "level"], ["1", "lake", "S"]]
    sheets = {"Ada": titled, "Ben": titled}
    path = write_workbook(tmp_path / name, sheets)
    lines = imported_workbook(tmp_path, path)
    assert lines[-3:] == [
        "Error: 2 sheets have data; which one is meant is not certain",
        f"  in: {name}",
        "  Try: --sheet 'Ada', or another of them",
    ]
    lines = imported_workbook(tmp_path, path, "--sheet", "Ben")
    assert lines[:3] == [
        f"{name}:1: Ada's clips",
        f"{name}:2: id, film, level",
        f"{name}:3: 1, lake, S",
    ]
    assert lines[-1] == "  Try: --header-row 2, or another row"
    mapped = ("--map", "clip_id=id", "--map", "movie_id=film")
    chosen = ("--sheet", "Ben", "--header-row", "2")
    assert imported_workbook(tmp_path, path, *chosen, *mapped) == [
        "manifests/t.toml: 1 clip of 1 film (S 1)"
    ]
    moods = {"Moods": [["clip_id", "mood"], [1, "calm"]], "Notes": [["n"], ["x"]]}
    write_workbook(tmp_path / "moods.xlsx", moods)
    joined = call_obygaze(
        *("manifest", "join", "t", "moods.xlsx", "--sheet", "Moods", "--json"),
        cwd=tmp_path,
    )
    assert joined.ok().json()["columns"] == {"mood": 1}


def test_times_that_are_all_whole_minutes_are_told(tmp_path: Path) -> None:
    times = [seconds(60 * (65 * n), 60 * (65 * n + 50)) for n in range(3)]
    rows = [["clip_id", "movie_id", "start_s", "end_s"]]
    rows += [[f"c{n}", "m", *times[n]] for n in range(3)]
    path = write_workbook(tmp_path / "t.xlsx", {"Clips": rows})
    lines = imported_workbook(tmp_path, path)
    assert lines[1] == (
        "Warning: all times are whole minutes, such as 0:00:00, 0:50:00, 1:05:00 and 3 more; where"
        " 1:10 was typed for 1 minute 10 seconds, a spreadsheet made 1 hour 10 minutes of it:"
        " --times m:ss, or type 0:01:10"
    )


def ends_of(
    tmp_path: Path, times: Sequence[str], *words: str
) -> tuple[list[str], list[float | None]]:
    """Import a CSV file with these times; return what was said, and the times in seconds."""
    rows = "".join(f"c{n},m,0,{time}\n" for n, time in enumerate(times))
    data = f"clip_id,movie_id,start_s,end_s\n{rows}".encode()
    lines = imported(tmp_path, data, *words)
    if any(line.startswith("Error") for line in lines):
        return lines, []
    clips = read_manifest(tmp_path / "manifests" / "t.toml")
    return lines, [clip.end_s for clip in clips]


@pytest.mark.parametrize(
    ("form", "times", "expected"),
    [
        (
            "m:ss",
            ["0:05", "1:10", "75:30.5", "1:00:10", "90.5"],
            "5 70 4530.5 3610 90.5",
        ),
        ("h:mm", ["0:05", "1:10", "1:10:05"], "300 4200 4205"),
        # As a spreadsheet writes what was typed as 0:05, 1:10 and 75:30.
        ("m:ss", ["0:05:00", "1:10:00", "75:30:00"], "5 70 4530"),
        ("h:mm", ["0:05:00", "1:10:00", "75:30:00"], "300 4200 271800"),
        # With a time of another form, 1:10:00 was typed with its seconds.
        ("m:ss", ["0:05", "1:10:00"], "5 4200"),
    ],
)
def test_what_1_10_means_can_be_said(
    tmp_path: Path, form: str, times: list[str], expected: str
) -> None:
    _, ends = ends_of(tmp_path, times, "--times", form)
    assert ends == [float(seconds) for seconds in expected.split()]


def test_minutes_of_a_spreadsheet_are_told_and_are_never_mixed(tmp_path: Path) -> None:
    header = ["clip_id", "movie_id", "start_s", "end_s"]
    short, longer = timedelta(minutes=5), timedelta(hours=1, minutes=10)
    rows = [header, ["a", "m", 0, short], ["b", "m", short, longer]]
    path = write_workbook(tmp_path / "t.xlsx", {"Clips": rows})
    lines = imported_workbook(tmp_path, path, "--times", "m:ss")
    assert "with --times m:ss, 1:10:00 is 1 minute 10 seconds" in "\n".join(lines)
    clips = read_manifest(tmp_path / "manifests" / "t.toml")
    assert [clip.end_s for clip in clips] == [5, 70]
    rows.append(["c", "m", longer, timedelta(hours=1, minutes=12, seconds=3)])
    mixed = write_workbook(tmp_path / "mixed.xlsx", {"Clips": rows})
    lines = imported_workbook(tmp_path, mixed, "--times", "m:ss")
    text = "\n".join(lines)
    assert "'1:10:00' may have been typed as m:ss or as h:mm:ss" in text
    assert "Try: type hours too: 0:01:10" in text


def test_a_mapping_says_what_1_10_means(tmp_path: Path) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text('times = "m:ss"\n', encoding="utf-8")
    _, ends = ends_of(tmp_path, ["1:10"], "--mapping", str(mapping))
    assert ends == [70]
    assert "times" in ends_of(tmp_path, ["1:10"])[0][-1]
    mapping.write_text('times = "mm:ss"\n', encoding="utf-8")
    lines, _ = ends_of(tmp_path, ["1:10"], "--mapping", str(mapping))
    assert "m:ss, h:mm" in "\n".join(lines)


def test_a_concept_of_ones_own_is_kept_as_the_hint_says(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "clip_id,movie_id,level,concepts\nlake-1,lake,S,Look|glint\n"
    )
    words = ("manifest", "import", "csv", "t.csv", "-o", "t")
    refused = call_obygaze(*words, cwd=tmp_path)
    assert refused.code == 1
    assert '[modalities], glint = "visual"' in refused.stderr
    (tmp_path / "m.toml").write_text('[modalities]\nglint = "visual"\n')
    call_obygaze(*words, "--mapping", "m.toml", cwd=tmp_path).ok()

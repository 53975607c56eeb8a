"""Tables as people have them: imported, or refused with line and column."""

from __future__ import annotations

import shlex
from datetime import timedelta
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.workbooks import write_workbook

from obygaze_features.core.errors import FixInput
from obygaze_features.core.tables import SAVE_AS
from obygaze_features.manifest.adapters.csv_table import read
from obygaze_features.manifest.io import read_manifest

TEXT = "clip_id,movie_id,level,concepts\nA1,Amélie,S,Look|Body\nA2,Amélie,EN,\n"


def imported(tmp_path: Path, data: bytes, *options: str) -> list[str]:
    """What the import says on both streams, without changed ids, words of levels, next command."""
    (tmp_path / "t.csv").write_bytes(data)
    words = ("manifest", "import", "t.csv", "-o", "t", *options)
    answer = call_obygaze(*words, cwd=tmp_path)
    lines = [*answer.stdout.splitlines(), *answer.stderr.splitlines()]
    left_out = ("Warning: movie_id", "levels: ", "next: ")
    return [line for line in lines if not line.startswith(left_out)]


def retyped(tmp_path: Path, line: str) -> None:
    """Type the line of a refusal, which must work as it is."""
    program, *words = shlex.split(line.removeprefix("  Try: "))
    assert program == "obygaze"
    call_obygaze(*words, cwd=tmp_path).ok()


def mapping(tmp_path: Path, text: str) -> tuple[str, str]:
    """The options that read a table with a mapping of this text."""
    path = tmp_path / "chosen.toml"
    path.write_text(f"{text}\n", encoding="utf-8")
    return "--mapping", str(path)


@pytest.mark.parametrize(
    ("encoding", "delimiter", "newline"),
    [
        ("utf-8-sig", ";", "\r\n"),
        ("utf-8-sig", "|", "\n"),
        ("utf-16", "\t", "\r\n"),
    ],
)
def test_unicode_tables_are_read_whatever_separates_their_cells(
    tmp_path: Path, encoding: str, delimiter: str, newline: str
) -> None:
    text = TEXT.replace("|", "+").replace(",", delimiter).replace("\n", newline)
    lines = imported(
        tmp_path, text.encode(encoding), *mapping(tmp_path, 'separator = "+"')
    )
    assert lines == ["manifests/t.toml: 2 clips of 1 film (EN 1, S 1)"]


def test_what_only_windows_1252_can_mean_is_read_and_said(tmp_path: Path) -> None:
    lines = imported(tmp_path, TEXT.encode("cp1252"))
    assert lines[0] == "manifests/t.toml: 2 clips of 1 film (EN 1, S 1)"
    assert "t.csv: not UTF-8, read as Windows-1252: 'Amélie'; save" in lines[1]
    (title,) = {
        clip.extra["movie_title"] for clip in read_manifest("t", workspace=tmp_path)
    }
    assert title == "Amélie"


@pytest.mark.parametrize("encoding", ["mac-roman", "cp850"])
@pytest.mark.parametrize("word", ["Élise", "«mot»"])
def test_a_word_that_may_be_of_another_encoding_is_not_read(
    tmp_path: Path, encoding: str, word: str
) -> None:
    data = f"clip_id;film\na;{word}\n".encode(encoding, errors="replace")
    options = ("--map", "movie_id=film", "--write-mapping", "m.toml")
    assert imported(tmp_path, data, *options)[-1] == f"  Try: {SAVE_AS}"
    assert not (tmp_path / "m.toml").exists()


@pytest.mark.parametrize(
    ("form", "rows", "told"),
    [
        ("lake", "lake,1,S\n", "not a form of ids"),
        ("{film}-{n.real}", "lake,1,S\n", "required column is missing"),
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
    ("header", "row", "problem"),
    [
        ("level", "oui", "unknown level 'oui'"),
        ("concepts", '"Look, Body"', "'Look, Body'"),
        (
            "start_s,end_s",
            "1:10,1:20",
            "70 s with --map times=m:ss, 4200 s with",
        ),
        ("level", "S,,", "expected 3 cells as in the header, got 5"),
    ],
)
def test_a_problem_of_many_rows_is_one_line_with_its_first_row(
    tmp_path: Path, header: str, row: str, problem: str
) -> None:
    rows = "".join(f"c{number},m,{row}\n" for number in range(40))
    lines = imported(tmp_path, f"clip_id,movie_id,{header}\n{rows}".encode())
    assert lines[0].startswith("t.csv:2: ")
    assert problem in lines[0]
    likely = "" if "cells" in problem else "; likely --"
    assert lines[0].endswith("(40 times)")
    assert likely in lines[0]
    assert f"cannot be imported: {40 * header.count('_s') or 40} problems" in " ".join(
        lines
    )
    assert len(lines) < 7
    if "cells" not in problem:
        assert "--write-mapping t-mapping.toml writes them to a file" in lines[-4]
        retyped(tmp_path, lines[-1])


def test_only_a_draft_is_written_of_a_table_that_is_refused(tmp_path: Path) -> None:
    data = b"clip_id,movie_id,level\nc1,m,ja\n"
    lines = imported(tmp_path, data, "--write-mapping", "m.toml")
    assert lines[0] == "m.toml: a draft of a mapping; no manifest is made yet"
    assert "unknown level 'ja'" in lines[1]
    assert '[levels]\nja = "S"\n' in (tmp_path / "m.toml").read_text("utf-8")
    assert not (tmp_path / "manifests").exists()
    # It is read as it was written.
    (line,) = imported(tmp_path, data, "--mapping", "m.toml")
    assert line == "manifests/t.toml: 1 clip of 1 film (S 1)"
    # What a person wrote into it stays.
    (tmp_path / "m.toml").write_text("# mine\n")
    lines = imported(tmp_path, data, "--write-mapping", "m.toml")
    assert (
        lines[-1]
        == "  Try: m.toml is there: correct it, then obygaze manifest import t.csv -o t --mapping"
        " m.toml; or name another file"
    )
    assert (tmp_path / "m.toml").read_text("utf-8") == "# mine\n"


TOTALS = (
    "clip_id,movie_id,start_s,end_s,level\nl-1,lake,0,4,S\nl-2,lake,4,6,\nTotal,2,,,\n"
)


def test_a_row_of_totals_is_left_out_or_refused_by_its_line(tmp_path: Path) -> None:
    lines = imported(tmp_path, TOTALS.encode())
    assert lines == [
        "manifests/t.toml: 2 clips of 1 film (S 1, no level 1)",
        "Warning: t.csv:4: 'Total' begins a row of totals, which is left out",
    ]
    lines = imported(tmp_path, TOTALS.replace("Total", "l-3").encode())
    assert lines[0] == "t.csv:4: only ids; delete the row if it is a row of totals"
    # Without times, a clip may have ids alone: nobody has annotated it.
    rows = [",".join(row.split(",")[:2]) for row in TOTALS.splitlines()]
    without_times = "\n".join(rows).replace("Total", "l-3").encode()
    lines = imported(tmp_path, without_times, "--force")
    assert lines[0] == "manifests/t.toml: 3 clips of 2 films"


@pytest.mark.parametrize("line", ["SEP=;", '"sep=|"'])
def test_the_line_that_names_the_separator_is_no_header(
    tmp_path: Path, line: str
) -> None:
    separator = line.strip('"')[-1]
    text = "clip_id,movie_id,level\na,m,S\nb,m,oops\n".replace(",", separator)
    data = f"{line}\r\n{text}".encode()
    lines = imported(tmp_path, data)
    assert lines[0].startswith("t.csv:4: column 'level': unknown level 'oops'")


def imported_workbook(
    tmp_path: Path, path: Path, *options: str, name: str = "t"
) -> list[str]:
    """What the import of a spreadsheet says, without changed ids, levels and next command."""
    words = ("manifest", "import", path.name, "-o", name, *options)
    answer = call_obygaze(*words, cwd=tmp_path)
    lines = [*answer.stdout.splitlines(), *answer.stderr.splitlines()]
    lines = [line for line in lines if " is now " not in line]
    return [line for line in lines if not line.startswith(("levels: ", "next: "))]


def seconds(*values: float) -> list[timedelta]:
    return [timedelta(seconds=value) for value in values]


# As a person keeps them: a title, numbers that restart, times, words.
PERSONAL = [
    ["Clips, spring 2024", None, None, None, None, None],
    [None, None, None, None, None, None],
    ["Film", "n", "Start", "End", "Level", "Concepts"],
    ["Amélie", 1, *seconds(0, 5), "Easy Neg", None],
    ["Amélie", 2, *seconds(65, 110), "S", "Look, Body"],
    ["Juno", 1, *seconds(3, 3723), "HN", "Body"],
]
MAPPED = (
    *("--map", "movie_id=Film", "--id", "{Film}-{n:03d}"),
    *("--map", "start_s=Start", "--map", "end_s=End"),
    *("--map", "level=Level", "--map", "concepts=Concepts"),
)


def test_a_spreadsheet_as_a_person_keeps_it_becomes_a_manifest(
    tmp_path: Path,
) -> None:
    path = write_workbook(tmp_path / "t.xlsx", {"Clips": PERSONAL})
    chosen = mapping(tmp_path, "header_row = 3\nseparator = ','")
    words = (*MAPPED, *chosen, "--write-mapping", "m.toml")
    lines = imported_workbook(tmp_path, path, *words)
    assert lines[0] == "manifests/t.toml: 3 clips of 2 films (EN 1, HN 1, S 1)"
    assert len(lines) == 1
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


def test_the_row_that_a_mapping_names_is_the_header(tmp_path: Path) -> None:
    titled = [["Ada's clips", None, None], ["id", "film", "level"], ["1", "lake", "S"]]
    path = write_workbook(tmp_path / "t.xlsx", {"Ada": titled})
    mapped = ("--map", "clip_id=id", "--map", "movie_id=film")
    chosen = mapping(tmp_path, "header_row = 1")
    lines = imported_workbook(tmp_path, path, *chosen, *mapped)
    assert lines[0] == "t.xlsx:1: column 'id': required column is missing"


def test_a_concept_of_ones_own_needs_a_modality(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "clip_id,movie_id,level,concepts\nlake-1,lake,S,Look|glint\n"
    )
    words = ("manifest", "import", "t.csv", "-o", "t")
    refused = call_obygaze(*words, cwd=tmp_path)
    assert refused.code == 1
    assert "unknown concept 'glint'" in refused.stderr
    # A modality that is misspelt was kept, and the clip was EN in the visual view.
    (tmp_path / "m.toml").write_text('[concepts]\nglint = "visula"\n')
    refused = call_obygaze(*words, "--mapping", "m.toml", cwd=tmp_path)
    assert refused.code == 1
    assert "m.toml: concepts.glint" in refused.stderr
    (tmp_path / "m.toml").write_text('[concepts]\nglint = "visual"\n')
    call_obygaze(*words, "--mapping", "m.toml", cwd=tmp_path).ok()


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"<html><body>x</body></html>\n", "HTML or XML"),
        (b"PK\x03\x04\x14\x00", "a zip archive, or a spreadsheet named as text"),
    ],
)
def test_a_file_that_is_no_table_gets_one_sentence(
    tmp_path: Path, data: bytes, content: str
) -> None:
    path = tmp_path / "clips.csv"
    path.write_bytes(data)
    with pytest.raises(FixInput) as caught:
        read(path)
    assert caught.value.message == f"{path}:1: this is no table: the file is {content}"
    assert not caught.value.details


@pytest.mark.parametrize("target", ["lvel", "mood"])
def test_a_column_that_no_manifest_has_is_no_target(
    tmp_path: Path, target: str
) -> None:
    """The levels were kept in a column of this name, and no clip had a level."""
    data = b"clip_id,movie_id,verdict\na,lake,S\n"
    lines = imported(tmp_path, data, "--map", f"{target}=verdict")
    assert lines[0].startswith(f"Error: a manifest has no column {target!r}")
    assert "level, concepts, annotator" in lines[1]
    assert not (tmp_path / "manifests").exists()


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("a-1,lake,S\na-2,Lake,EN\n", "'movie_id': 'Lake' differs from 'lake'"),
        ("a-1,lake,S\nA-1,lake,EN\n", "'clip_id': 'A-1' differs from 'a-1'"),
    ],
)
def test_ids_that_differ_by_capitals_alone_are_refused(
    tmp_path: Path, rows: str, problem: str
) -> None:
    """One film was two films, of which one trained and the other tested."""
    data = f"clip_id,movie_id,level\n{rows}".encode()
    lines = imported(tmp_path, data)
    assert lines[0] == f"t.csv:3: column {problem} by capitals alone"


def test_a_last_row_that_is_called_total_is_refused_also_with_times_and_a_level(
    tmp_path: Path,
) -> None:
    """It became a clip of the film ALL."""
    rows = b"clip_id,movie_id,start_s,end_s,level\na1,lake,0,4,S\na2,sea,4,8,EN\n"
    lines = imported(tmp_path, rows + b"TOTAL,ALL,0,12,S\n")
    assert lines[0] == (
        "t.csv:4: column 'clip_id': 'TOTAL' names a row of totals; delete the row, or rename the"
        " clip"
    )
    # A film with other clips has one of this name, and a film may be called so.
    for last in (b"total,lake,4,8,S\n", b"a1-all,ALL,4,8,S\n"):
        lines = imported(tmp_path, rows + last, "--force")
        assert lines[0].startswith("manifests/t.toml: 3 clips")

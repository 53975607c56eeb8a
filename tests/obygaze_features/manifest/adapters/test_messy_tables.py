"""Tables as people have them: imported, or refused with line and column."""

from pathlib import Path

import pytest
from support.cli import call_obygaze

from obygaze_features.core.tables import SAVE_AS


def imported(tmp_path: Path, data: bytes, *options: str) -> list[str]:
    """What the import says on both streams, without changed ids, words of levels, next command."""
    (tmp_path / "t.csv").write_bytes(data)
    words = ("manifest", "import", "t.csv", "-o", "t", *options)
    answer = call_obygaze(*words, cwd=tmp_path)
    lines = [*answer.stdout.splitlines(), *answer.stderr.splitlines()]
    left_out = ("Warning: movie_id", "levels: ", "next: ")
    return [line for line in lines if not line.startswith(left_out)]


@pytest.mark.parametrize("encoding", ["mac-roman", "cp850"])
@pytest.mark.parametrize("word", ["Élise", "«mot»"])
def test_a_word_that_may_be_of_another_encoding_is_not_read(tmp_path, encoding, word):
    data = f"clip_id;film\na;{word}\n".encode(encoding, errors="replace")
    options = ("--map", "movie_id=film", "--write-mapping", "m.toml")
    assert imported(tmp_path, data, *options)[-1] == f"  Try: {SAVE_AS}"
    assert not (tmp_path / "m.toml").exists()


def test_a_problem_of_many_rows_is_one_line_with_its_first_row(tmp_path: Path) -> None:
    rows = "".join(f"c{number},m,oui\n" for number in range(40))
    lines = imported(tmp_path, f"clip_id,movie_id,level\n{rows}".encode())
    assert lines[0].startswith("t.csv:2: column 'level': unknown level 'oui'")
    assert lines[0].endswith("; likely answer: --word oui=S (40 times)")
    assert "cannot be imported: 40 problems" in " ".join(lines)
    rows = rows.replace("oui", "S,,")
    ragged = imported(tmp_path, f"clip_id,movie_id,level\n{rows}".encode())
    assert "expected 3 cells as in the header, got 5 (40 times)" in ragged[0]


def test_only_a_draft_is_written_of_a_table_that_is_refused(tmp_path: Path) -> None:
    data = b"clip_id,movie_id,level\nc1,m,ja\n"
    lines = imported(tmp_path, data, "--write-mapping", "m.toml")
    assert lines[0] == "m.toml: draft of the mapping; no manifest is written yet"
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
        == "  Try: edit the existing file m.toml, then run obygaze manifest import t.csv -o t"
        " --mapping m.toml; or pass a new name"
    )
    assert (tmp_path / "m.toml").read_text("utf-8") == "# mine\n"


TOTALS = (
    "clip_id,movie_id,start_s,end_s,level\nl-1,lake,0,4,S\nl-2,lake,4,6,\nTotal,2,,,\n"
)


def test_a_row_of_totals_is_left_out_or_refused_by_its_line(tmp_path: Path) -> None:
    lines = imported(tmp_path, TOTALS.encode())
    assert lines == [
        "manifests/t.toml: 2 clips of 1 film (S 1, no level 1)",
        "Warning: t.csv:4: the row of 'Total' is a row of totals and not imported",
    ]
    lines = imported(tmp_path, TOTALS.replace("Total", "l-3").encode())
    assert (
        lines[0]
        == "t.csv:4: all cells but the ids are empty; delete the row if it is a row of totals"
    )
    # Without times, a clip may have ids alone: nobody has annotated it.
    rows = [",".join(row.split(",")[:2]) for row in TOTALS.splitlines()]
    without_times = "\n".join(rows).replace("Total", "l-3").encode()
    lines = imported(tmp_path, without_times, "--force")
    assert lines[0] == "manifests/t.toml: 3 clips of 2 films"


def test_a_last_row_that_is_called_total_is_refused_also_with_times_and_a_level(
    tmp_path: Path,
) -> None:
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

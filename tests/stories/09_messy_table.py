"""Story 9: I have a messy table (Excel, semicolons, numbers that restart in each film).

I want a manifest of it, and the next table read in the same way by the command that it keeps.
Where a cell is wrong, I want to be told its line and column.
"""

from datetime import timedelta
from typing import Any

from support.workbooks import write_workbook

from stories.workspace import Workspace

COLUMNS = (
    "--map movie_id=Film --map start_s=Start --map end_s=End --map level=Verdict"
    " --map concepts=Tags --map annotator=Coder --map separator=,"
)
WORDS = (
    "--word oui=S --word non=EN --word peut-être=NS --word regard=Look --word corps=Body"
    " --word lumière=Light --word Light=visual"
)
IDS = "--id '{Film}-{n:03d}'"
HEADER = ["Film", "n", "Start", "End", "Verdict", "Tags", "Coder"]
# The times are in seconds; each program writes them in its own way.
ROWS = [
    ["Amélie", 1, 0.0, 12.5, "oui", "regard, corps", "ada"],
    ["Amélie", 2, 12.5, 30.0, "non", "", "ada"],
    ["Juno", 1, 3.123, 41.0, "peut-être", "lumière", "ben"],
    ["Juno", 2, 41.457, 4100.019, "Hard Neg", "corps", "ben"],
]
# What each row must become, by hand.
CLIPS = [
    ("Amelie-001", "Amelie", 0.0, 12.5, "S", "Look|Body", "ada", "1"),
    ("Amelie-002", "Amelie", 12.5, 30.0, "EN", "", "ada", "2"),
    ("Juno-001", "Juno", 3.123, 41.0, "NS", "Light", "ben", "1"),
    ("Juno-002", "Juno", 41.457, 4100.019, "HN", "Body", "ben", "2"),
]


def write_excel(ws: Workspace, name: str, rows: list[list[Any]]) -> None:
    """Write the table as Excel has it: a page of notes, a title, and times as durations."""
    cells: list[list[Any]] = [["Film club, spring"], [], HEADER]
    for film, number, start_s, end_s, *others in rows:
        times = [timedelta(seconds=start_s), timedelta(seconds=end_s)]
        cells.append([film, number, *times, *others])
    notes = [["The films of the club."], ["n is the number of the clip in its film."]]
    write_workbook(ws.path(name), {"Notes": notes, "Clips": cells})


def write_semicolons(ws: Workspace, name: str, rows: list[list[Any]]) -> None:
    """Write the table as Excel saves it as CSV where numbers have a decimal comma."""
    lines = ["Film club, spring;;;;;;", ";;;;;;", ";".join(HEADER)]
    for film, number, start_s, end_s, *others in rows:
        times = [time_of_day(start_s), time_of_day(end_s)]
        lines.append(";".join([film, str(number), *times, *others]))
    text = "".join(f"{line}\r\n" for line in lines)
    ws.path(name).write_bytes(text.encode("utf-8-sig"))


def time_of_day(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours}:{minutes:02d}:{whole:02d},{milliseconds:03d}"


def clips_of(ws: Workspace, manifest: str) -> list[tuple[Any, ...]]:
    ws(f"manifest export {manifest} {manifest}-export.csv")
    clips = []
    for row in ws.read_table(f"{manifest}-export.csv"):
        times = float(row["start_s"]), float(row["end_s"])
        others = ("level", "concepts", "annotator", "n")
        ids = row["clip_id"], row["movie_id"]
        clips.append((*ids, *times, *(row[name] for name in others)))
    return clips


def test_an_excel_table_becomes_a_manifest_and_its_command_reads_the_next_one(ws):
    write_excel(ws, "club.xlsx", ROWS)
    line = f"manifest import club.xlsx --sheet Clips {IDS} {COLUMNS} {WORDS} -o club"
    answer = ws(line)
    assert "4 clips of 2 films" in answer.text
    assert "Amélie" in answer.err, "an id that was changed is said"
    assert clips_of(ws, "club") == CLIPS

    (kept,) = ws("manifest show club --command").out.splitlines()
    write_semicolons(ws, "next.csv", ROWS)
    again = kept.replace("club.xlsx", "next.csv").replace("-o club", "-o next")
    ws(again.replace(" --sheet Clips", "").removeprefix("obygaze "))
    assert clips_of(ws, "next") == CLIPS


def test_numbers_that_restart_are_no_ids(ws: Workspace) -> None:
    write_semicolons(ws, "club.csv", ROWS)
    line = f"manifest import club.csv {COLUMNS} {WORDS}"
    of_levels = COLUMNS.partition(" --map concepts")[0] + " --map annotator=Coder"
    levels = WORDS.partition(" --word regard")[0]
    typed = f"manifest import club.csv {of_levels} {levels} --map clip_id=n -o club"
    answer = ws(typed, code=1)
    assert "club.csv:6: column 'n'" in answer.text
    assert "(2 times)" in answer.text
    assert "club.csv:5" not in answer.text
    assert "--id '{Film}-{n}'" in answer.text
    assert not ws.path("manifests/club.csv").exists()
    ws(f"{line} {IDS} -o club")
    assert clips_of(ws, "club") == CLIPS


def test_a_wrong_cell_is_named_by_line_and_column(ws: Workspace) -> None:
    name = "club.xlsx"
    wrong = [list(row) for row in ROWS]
    wrong[0][4] = "maybe"  # line 4
    wrong[1][2] = 40.0  # line 5 begins after its end
    wrong[2][5] = "ombre"  # line 6
    wrong[3][1] = 1  # line 7 is Juno's clip 1 again
    write_excel(ws, name, wrong)
    line = f"manifest import {name} --sheet Clips {IDS} {COLUMNS} {WORDS} -o club"
    answer = ws(line, code=1)
    assert f"{name}:4: column 'Verdict': unknown level 'maybe'" in answer.text
    assert f"{name}:5: column 'End'" in answer.text
    assert f"{name}:6: column 'Tags': unknown concept 'ombre'" in answer.text
    assert f"{name}:7:" in answer.text
    assert "4 problems" in answer.text
    assert not ws.path("manifests/club.csv").exists()

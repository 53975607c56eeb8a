"""Tables of marks are read strictly: everything that is wrong with one is said at once."""

from fractions import Fraction
from pathlib import Path

import pytest
from support.film import marks as film_marks
from support.film import write_marks

from obygaze.films import import_manifest
from obygaze.films.marks import Mark, read_marks, written
from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    NotFound,
    ObygazeError,
)
from obygaze_features.manifest.spans import FrameSpan

MARKS = "movie_id,start_s,end_s,column,value,annotator"


def table(folder: Path, *rows: str, header: str = MARKS) -> Path:
    path = folder / "segments.csv"
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def told(path: Path) -> list[str]:
    with pytest.raises(FixInput) as caught:
        read_marks([path])
    return [line.removeprefix(f"{path}:") for line in caught.value.details]


def test_frames_of_marks_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Beside one without frames, and of a film whose file begins late."""
    frames = FrameSpan(6, 8, Fraction(24000, 1001))
    late = Mark("tt1", 1.77, 1.895, "level", "S", "Anna", frames)
    marks = (late, Mark("tt2", 0.0, 1.0, "level", "HN", "Anna"))
    path = tmp_path / "marks.csv"
    path.write_bytes(written(marks))
    assert "start_frame,end_frame,framerate" in path.read_text(encoding="utf-8")
    assert read_marks([path], tmp_path).marks == marks


def test_frames_that_are_not_at_the_times_of_their_row_are_refused(tmp_path) -> None:
    header = f"{MARKS},start_frame,end_frame,framerate"
    rows = ("m,1,2,level,S,Eva,25,49,25", "m,7,8,level,S,Eva,50,99,25")
    lines = told(table(tmp_path, *rows, header=header))
    assert len(lines) == 1
    assert "the frames 50 to 99 are 2 s to 4 s" in lines[0]
    assert "the times are 7 s to 8 s" in lines[0]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "1: the file is empty"),
        (b"film,annotator,level\n", "1: column 'movie_id': required"),
        (b"\0\0", "has a NUL character"),
    ],
)
def test_files_that_are_not_such_tables(tmp_path, data, problem) -> None:
    path = tmp_path / "segments.csv"
    path.write_bytes(data)
    with pytest.raises(ObygazeError) as caught:
        read_marks([path])
    assert problem in f"{caught.value.message} {caught.value.details}"
    with pytest.raises(NotFound):
        read_marks([tmp_path / "no.csv"])


def test_who_or_what_differs_by_capitals_alone_is_one(tmp_path: Path) -> None:
    ada = write_marks(tmp_path / "ada.csv", film_marks("0-9 S", annotator="Ada"))
    again = write_marks(tmp_path / "again.csv", film_marks("0-9 EN", annotator="ada"))
    with pytest.raises(FixInput, match="two files have marks of"):
        read_marks([ada, again])
    both = [*film_marks("0-9 S", film="Lake"), *film_marks("20-29 S", film="lake")]
    with pytest.raises(FixInput, match="'Lake' and 'lake' both become the film"):
        read_marks([write_marks(tmp_path / "both.csv", both)])
    people = [
        *film_marks("0-9 S", annotator="Weiß"),
        *film_marks("0-9 S", annotator="Weiss"),
    ]
    read = read_marks([write_marks(tmp_path / "people.csv", people)])
    assert {mark.annotator for mark in read.marks} == {"Weiß", "Weiss"}
    # The word of the projection for nothing, which it writes in small letters.
    path = table(tmp_path, "m,0,1,mood,None,A", "m,1,2,mood,NONE,A", header=MARKS)
    assert {mark.value for mark in read_marks([path])} == {"none"}


def test_every_violation_at_once(tmp_path: Path) -> None:
    rows = (
        *("a,2,1,Gewalt,stark,Eva", "a,0,1,level,much,Eva", "a,0,1,,x,Eva"),
        *(",0,1,level,S,Eva", "a,0:05,0:10,level,S,Eva"),
        *("a,0,1,level,S,", "a,nan,1,level,S,Eva", "a,0,1,score,3,Eva"),
    )
    lines = told(table(tmp_path, *rows))
    numbers = [line.partition(":")[0] for line in lines]
    assert sorted(numbers, key=int) == [*map(str, range(2, 10))]
    assert "column 'score': this name is for scores of models" in lines[-1]
    frames = f"{MARKS},start_frame,end_frame,framerate"
    rows = (
        "m,0,1,level,S,A,0,24,fast",
        "m,1,2,level,S,A,25,49,25",
        "m,2,3,level,S,A,,,24",
    )
    lines = told(table(tmp_path, *rows, header=frames))
    assert [line.partition(":")[0] for line in lines] == ["2", "4"]
    rows = ("m,0,9,level,S,A", "m,0,9,concepts,Look|?,A")
    with pytest.raises(FixInput, match=r"expected concepts, got \? by 'A' at 0.000 s"):
        read_marks([table(tmp_path, *rows)])


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (f"{MARKS},comment", "m,0,1,level,S,A,x"),
        ("movie_id,start,end,column,value,annotator", "m,0,1,level,S,A"),
        ("movie_id,start_s,end_s,annotator,level", "m,0,1,A,S"),
    ],
)
def test_any_other_table_is_imported_first(header: str, row: str, tmp_path) -> None:
    with pytest.raises(FixInput) as caught:
        read_marks([table(tmp_path, row, header=header)])
    assert "obygaze manifest import TABLE -o NAME" in str(caught.value.hint)


# ---- manifests -----------------------------------------------------------------------------------


def manifest_of(
    folder: Path, *rows: str, columns: str = "start_s,end_s,annotator,mood"
):
    """Import a table of clips, and return the table of its manifest."""
    lines = [f"clip_id,movie_id,{columns}", *rows]
    (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    import_manifest(folder / "t.csv", "t", force=True, workspace=folder)
    return folder / "manifests" / "t.csv"


def test_every_cell_of_a_manifest_is_a_mark_and_an_empty_one_says_nothing(tmp_path):
    path = manifest_of(
        tmp_path,
        *("a-1,a,0,1,A,joy|Fear,S,Look|Exp of emotion,1", "a-2,a,1,2,A,?,,,2"),
        *("a-3,a,2,3,B,fear,EN,,3",),
        columns="start_s,end_s,annotator,mood,level,concepts,note",
    )
    read = read_marks([path], tmp_path, ["level", "concepts", "mood"]).marks
    found = [(m.annotator, m.start_s, m.end_s, m.column, m.value) for m in read]
    first = ("A", 0.0, 1.0)
    assert found == [
        (*first, "concepts", "Expression of emotion"),
        (*first, "concepts", "Look"),
        (*first, "level", "S"),
        (*first, "mood", "Fear"),
        (*first, "mood", "joy"),
        ("A", 1.0, 2.0, "level", ""),
        ("A", 1.0, 2.0, "mood", ""),
        ("B", 2.0, 3.0, "level", "EN"),
        ("B", 2.0, 3.0, "mood", "Fear"),
    ]


def test_marks_of_a_manifest_have_their_frames_and_times_in_the_film(tmp_path) -> None:
    path = manifest_of(
        tmp_path, "a-1,a,6,8,25,S", columns="start_frame,end_frame,framerate,level"
    )
    read = read_marks([path], tmp_path)
    assert read.rates == {"a": Fraction(25)}
    frames = FrameSpan(6, 8, Fraction(25))
    # Without a column of annotators, all rows are of one.
    assert read.marks == (Mark("a", 0.24, 0.36, "level", "S", "t", frames),)
    times = "video,start_s,end_s,film_start_s,film_end_s,annotator,level"
    rows = ("m-1,m,1.mp4,0,10,0,10,A,EN", "m-2,m,2.mp4,0,10,100,110,A,S")
    marks = read_marks([manifest_of(tmp_path, *rows, columns=times)], tmp_path).marks
    assert [mark[1:3] for mark in marks] == [(0, 10), (100, 110)]
    rows = ("m-1,m,1.mp4,0,10,,,A,EN", "m-2,m,2.mp4,0,10,,,A,S")
    with pytest.raises(FixInput, match="no times in the film for the clips: m-1, m-2"):
        read_marks([manifest_of(tmp_path, *rows, columns=times)], tmp_path)


def test_what_a_manifest_does_not_state_is_asked(tmp_path: Path) -> None:
    rows = [f"a-{n},a,{n},{n + 1},A,joy,{n},3" for n in range(14)]
    columns = "start_s,end_s,annotator,mood,number,score"
    path = manifest_of(tmp_path, *rows, columns=columns)
    with pytest.raises(
        FixUsage, match="which columns are marks: mood, number"
    ) as caught:
        read_marks([path], tmp_path)
    assert "pass --column mood" in str(caught.value.hint)
    assert "number" not in str(caught.value.hint)
    for name, problem in (
        ("moood", "no column 'moood'"),
        ("score", "scores of models"),
    ):
        with pytest.raises(ObygazeError, match=problem):
            read_marks([path], tmp_path, [name])
    rows[1] = rows[1].replace(",A,", ",,")
    path = manifest_of(tmp_path, *rows, columns=columns)
    with pytest.raises(FixInput, match="no annotator in the rows of the clips: a-1"):
        read_marks([path], tmp_path, ["mood"])

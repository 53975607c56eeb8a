"""Tables of marks are read strictly: everything that is wrong with one is said at once."""

from fractions import Fraction
from pathlib import Path

import pytest
from support.film import marks as film_marks
from support.film import write_marks

from obygaze.films.marks import Mark, read_marks, written
from obygaze_features.core.errors import FixInput, NotFound, ObygazeError
from obygaze_features.manifest.spans import FrameSpan

SEGMENTS = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate"
MARKS = "movie_id,start_s,end_s,column,value,annotator"


def table(folder: Path, *rows: str, header: str = SEGMENTS) -> Path:
    path = folder / "segments.csv"
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def told(path: Path) -> list[str]:
    with pytest.raises(FixInput) as caught:
        read_marks([path])
    return [line.removeprefix(f"{path}:") for line in caught.value.details]


def test_a_row_of_all_that_is_said_of_a_segment(tmp_path: Path) -> None:
    row = 'tt1,Anna,6,8,S,look| Exp of  emotion,25,"a, comment"'
    path = table(tmp_path, row, "", header=f"{SEGMENTS},comment")
    read = read_marks([path])
    assert read.rates == {"tt1": Fraction(25)}
    span = ("tt1", 0.24, 0.36)
    said = (
        ("comment", "a, comment"),
        ("concepts", "Expression of emotion"),
        ("concepts", "Look"),
        ("level", "S"),
    )
    frames = FrameSpan(6, 8, Fraction(25))
    assert read.marks == tuple(Mark(*span, *one, "Anna", frames) for one in said)


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


def test_every_cell_of_a_row_is_a_mark(tmp_path: Path) -> None:
    header = "movie_id,start_s,end_s,annotator,level,mood,note"
    path = table(tmp_path, "m,0,1,A,S,joy|Fear,1.0", "m,1,2,A,,fear,1", header=header)
    said = [(mark.column, mark.value) for mark in read_marks([path])]
    first = [("level", "S"), ("mood", "Fear"), ("mood", "joy"), ("note", "1")]
    assert said == [*first, ("mood", "Fear"), ("note", "1")]
    rows = ("m,0,1,mood,joy|fear,A,0.50,see 3", "m,1,2,mood,joy,A,,")
    path = table(tmp_path, *rows, header=f"{MARKS},confidence,comment")
    said = [(mark.column, mark.value) for mark in read_marks([path])]
    first = [("comment", "see 3"), ("confidence", "0.5"), ("mood", "fear")]
    assert said == [*first, ("mood", "joy"), ("mood", "joy")]


def test_every_violation_at_once(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        *("m,A,0,9,Sx,,25", "m,A,9,8,S,,25", ",A,0,8,S,,25", "m,A,1.5,8,S,,25"),
        *("m,A,0,9,S,,24", "m,A,0,9,,,25"),
    )
    assert sorted(line.partition(":")[0] for line in told(path)) == [*"234567"]
    rows = ("a,2,1,Gewalt,stark,Eva", "a,0,1,level,much,Eva", "a,0,1,,x,Eva")
    lines = told(table(tmp_path, *rows, header=MARKS))
    assert sorted(line.partition(":")[0] for line in lines) == [*"234"]


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


def test_times_in_a_video_are_not_times_in_the_film(tmp_path: Path) -> None:
    """As in a manifest of segments whose film has several files."""
    times = "film_start_s,film_end_s"
    header = f"movie_id,video,start_s,end_s,{times},annotator,level"
    rows = ("m,1.mp4,0,10,0,10,A,EN", "m,2.mp4,0,10,100,110,A,S")
    marks = read_marks([table(tmp_path, *rows, header=header)]).marks
    assert [mark[1:3] for mark in marks] == [(0, 10), (100, 110)]
    rows = ("m,1.mp4,0,10,,,A,EN", "m,2.mp4,0,10,,,A,S", "n,3.mp4,0,10,,,A,S")
    (line,) = told(table(tmp_path, *rows, header=header))
    assert line.startswith("3: column 'start_s': expected film_start_s and film_end_s")
    ada = table(tmp_path, "m,m.mp4,0,10,,,A,EN", header=header)
    ada = ada.rename(tmp_path / "ada.csv")
    ben = table(tmp_path, "m,D:/copy/m.mp4,0,10,,,B,S", header=header)
    assert {mark[1:3] for mark in read_marks([ada, ben]).marks} == {(0, 10)}
    rows = ("m,1.mp4,,,0,10,A,EN", "m,2.mp4,,,100,110,A,S")
    linked = read_marks([table(tmp_path, *rows, header=header)]).marks
    assert linked == marks


def test_names_and_words_that_would_be_lost_are_refused(tmp_path: Path) -> None:
    wide = "movie_id,start_s,end_s,annotator,level,score"
    (line,) = told(table(tmp_path, "m,0,9,A,S,3", header=wide))
    assert "column 'score': this name is for scores of models" in line
    (line,) = told(table(tmp_path, "m,0,9,score,3,A", header=MARKS))
    assert "column 'score': this name is for scores of models" in line
    rows = ("m,0,9,level,S,A", "m,0,9,concepts,Look|?,A")
    with pytest.raises(FixInput, match=r"expected concepts, got \? by 'A' at 0.000 s"):
        read_marks([table(tmp_path, *rows, header=MARKS)])

"""What a cell says that is no answer, at every door that reads cells.

An error of a formula is a problem with its place. `?` is unknown, and shows nothing about its
column. A word such as NA is asked about. In a column of numbers, equal numbers are one value.
"""

import csv
import datetime
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.cli import Result, call_obygaze
from support.workbooks import write_workbook

from obygaze_features.core.errors import FixInput
from obygaze_features.extraction.subtitles import words_of_clips
from obygaze_features.manifest.adapters.csv_table import read
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest

Rows = Sequence[Sequence[Any]]


def write(path: Path, rows: Rows, delimiter: str = ",") -> Path:
    if path.suffix == ".xlsx":
        return write_workbook(path, {"Clips": rows})
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def again(refused: Result, folder: Path) -> Result:
    """Type the line that a refusal prints."""
    assert refused.code == 1, refused.stderr
    line = refused.stderr.splitlines()[-1].removeprefix("  Try: ")
    program, *words = shlex.split(line)
    assert program == "obygaze"
    return call_obygaze(*words, cwd=folder).ok()


def cells(folder: Path, name: str, column: str) -> dict[str, str]:
    manifest = read_manifest(name, workspace=folder)
    return {clip.clip_id: clip.extra[column] for clip in manifest}


def alpha(folder: Path, *words: str) -> float:
    found = call_obygaze("agree", *words, "--json", cwd=folder).ok().json()
    value: float = found["rows"][0]["alpha"]
    return value


# Two people: 1,5 and 2,5 are 2; ? and 3 are 3; 4,5 and 5 are 4.75.
POINTS = (
    *(("k1", "pier", "ada", "1,5"), ("k1", "pier", "ben", "2,5")),
    *(("k2", "pier", "ada", "?"), ("k2", "pier", "ben", "3")),
    *(("k3", "quay", "ada", "4,5"), ("k3", "quay", "ben", "5")),
)
HEADER = ("clip_id", "movie_id", "annotator", "Punkte")
MEANS = {"k1": "2", "k2": "3", "k3": "4.75"}


@pytest.mark.parametrize("unknown", ["?", "NA", "k.A.", "-", "."])
@pytest.mark.parametrize("form", [";", ",", "xlsx"])
def test_one_unknown_cell_does_not_change_the_others(tmp_path, form, unknown) -> None:
    rows = [HEADER, *POINTS]
    rows = [[cell.replace("?", unknown) for cell in row] for row in rows]
    path = write(tmp_path / ("t.xlsx" if form == "xlsx" else "t.csv"), rows, form)
    words = ("manifest", "import", path.name, "-o", "t", "--rule", "mean")
    done = call_obygaze(*words, cwd=tmp_path)
    if unknown != "?":
        kept = f"--word {shlex.quote(f'{unknown}={unknown}')} keeps it as an answer"
        assert kept in done.stderr
        assert f"--word {shlex.quote(f'{unknown}=?')}" in done.stderr.splitlines()[-1]
        again(done, tmp_path)
    assert cells(tmp_path, "t", "Punkte") == MEANS


def test_numbers_of_a_joined_table_and_of_raters_have_decimal_commas(tmp_path) -> None:
    clips = [("clip_id", "movie_id"), ("k1", "pier"), ("k2", "pier"), ("k3", "quay")]
    write(tmp_path / "clips.csv", clips)
    call_obygaze("manifest", "import", "clips.csv", "-o", "t", cwd=tmp_path).ok()
    points = [("clip_id", "Punkte"), ("k1", "1,5"), ("k2", "NA"), ("k3", "?")]
    write(tmp_path / "points.csv", points, ";")
    refused = call_obygaze("manifest", "join", "t", "points.csv", cwd=tmp_path)
    again(refused, tmp_path)
    assert cells(tmp_path, "t", "Punkte") == {"k1": "1.5", "k2": "", "k3": ""}
    ratings = [("film", "ada", "ben")]
    ratings += [("pier", "1,5", "1,5"), ("pier", "NA", "3"), ("quay", "4,5", "4,5")]
    ratings += [("quay", "2,5", "?"), ("quay", "2", "2,00")]
    write(tmp_path / "ratings.csv", ratings, ";")
    words = ("ratings.csv", "--raters", "ada,ben", "--cluster", "film")
    refused = call_obygaze("agree", *words, cwd=tmp_path)
    assert "ratings.csv:3: column 'ada': 'NA' usually means" in refused.stderr
    again(refused, tmp_path)
    # Both people say the same wherever both say something.
    assert alpha(tmp_path, *words, "--word", "NA=?") == 1


def test_a_word_is_kept_as_an_answer_if_the_user_says_so(tmp_path: Path) -> None:
    rows = [
        ("clip_id", "movie_id", "mood"),
        ("k1", "pier", "NA"),
        ("k2", "pier", "na|x"),
    ]
    path = write(tmp_path / "t.csv", rows)
    with pytest.raises(FixInput) as caught:
        read(path)
    # One answer is for NA and na.
    assert len(caught.value.details) == 2
    kept = read(path, words={"NA": "NA"}).manifest
    assert [clip.extra["mood"] for clip in kept] == ["NA", "NA|x"]
    unknown = read(path, words={"NA": "?"}).manifest
    assert [clip.extra["mood"] for clip in unknown] == ["", "x"]
    # A level needs a meaning also where the word is an answer in another column.
    rows = [("clip_id", "movie_id", "level", "mood"), ("k1", "pier", "NA", "NA")]
    path = write(tmp_path / "u.csv", [*rows, ("k2", "pier", "S", "x")])
    refused = call_obygaze(
        "manifest", "import", "u.csv", "-o", "u", "--word", "NA=NA", cwd=tmp_path
    )
    again(refused, tmp_path)
    assert cells(tmp_path, "u", "mood") == {"k1": "NA", "k2": "x"}
    assert [clip.level for clip in read_manifest("u", workspace=tmp_path)] == ["", "S"]


def test_a_word_of_a_level_may_be_no_answer_elsewhere(tmp_path: Path) -> None:
    rows = [
        ("clip_id", "movie_id", "level", "mood", "note"),
        ("k1", "pier", "-", "-", "-"),
    ]
    write(tmp_path / "t.csv", [*rows, ("k2", "pier", "x", "sad", "")])
    words = ("manifest", "import", "t.csv", "-o", "t", "--word", "-=EN")
    refused = call_obygaze(*words, cwd=tmp_path)
    assert refused.stderr.splitlines()[-1].endswith("--word '-=EN|?' --word x=S")
    again(refused, tmp_path)
    first, second = read_manifest("t", workspace=tmp_path)
    assert (first.level, first.extra["mood"]) == ("EN", "")
    assert (second.level, second.extra["mood"]) == ("S", "sad")


def test_an_unknown_level_is_not_unknown_in_other_columns(tmp_path: Path) -> None:
    rows = [("clip_id", "movie_id", "level", "mood"), ("k1", "so-so", "so-so", "so-so")]
    path = write(tmp_path / "t.csv", [*rows, ("k2", "pier", "S", "dull")])
    imported = read(path, words={"so-so": "?", "dull": "?"})
    assert imported.warnings == (
        "'so-so' means not known in levels and concepts, but counts as an answer in the column mood"
        " (1 cell); if it means not known there too, write ? in these cells",
    )
    first, second = imported.manifest
    assert (first.movie_id, first.level, first.extra["mood"]) == ("so-so", "", "so-so")
    assert second.extra["mood"] == ""


def test_unknown_levels_are_not_asked_about_and_do_not_hide_columns(tmp_path) -> None:
    rows = [("clip_id", "movie_id", "Ada", "Ben"), ("k1", "pier", "S", "EN")]
    rows += [
        ("k2", "pier", "?", "S"),
        ("k3", "quay", "?", "S"),
        ("k4", "quay", "EN", "?"),
    ]
    write(tmp_path / "t.csv", [*rows, ("k5", "quay", "S", "S")])
    refused = call_obygaze("manifest", "import", "t.csv", "-o", "t", cwd=tmp_path)
    again(refused, tmp_path)
    manifest = read_manifest("t", workspace=tmp_path)
    assert manifest.annotators == ("Ada", "Ben")
    assert [clip.level for clip in manifest] == ["", "S", "S", "EN", "S"]


def test_an_error_is_a_problem_at_every_door(tmp_path: Path) -> None:
    answers = [
        ("clip_id", "movie_id", "annotator", "mood"),
        ("k1", "pier", "ada", "sad"),
    ]
    answers += [("k1", "pier", "ben", "sad"), ("k2", "pier", "ada", "#N/A")]
    answers += [("k2", "pier", "ben", "calm"), ("k3", "quay", "ada", "calm")]
    answers += [("k3", "quay", "ben", "calm")]
    write(tmp_path / "coded.xlsx", answers)
    write(tmp_path / "ada.csv", [(*row[:2], row[3]) for row in answers[0::2]])
    write(tmp_path / "ben.csv", [(*answers[0][:2], "mood"), ("k1", "pier", "#DIV/0!")])
    columns = [("clip_id", "mood"), ("k1", "#N/A")]
    write(tmp_path / "moods.csv", columns)
    write(tmp_path / "ratings.csv", [("a", "b"), ("1", "#DIV/0!"), ("2", "2")])
    write(tmp_path / "clips.csv", [("clip_id", "movie_id"), ("k1", "pier")])
    write(tmp_path / "ids.csv", [("clip_id", "movie_id"), ("#REF!", "pier")])
    write(tmp_path / "captions.csv", [("caption", "group"), ("a man", "#N/A")])
    call_obygaze("manifest", "import", "clips.csv", "-o", "clips", cwd=tmp_path).ok()
    marks = [("movie_id", "start_s", "end_s", "column", "value", "annotator")]
    write(tmp_path / "marks.csv", [*marks, ("pier", "0", "1", "mood", "#N/A", "ada")])
    doors = {
        "manifest import coded.xlsx --rule agreed -o m": "coded.xlsx:4: column 'mood'",
        "manifest import ada.csv ben.csv --rule agreed -o m": "ben.csv:2: column 'mood'",
        "manifest import ids.csv -o m": "ids.csv:2: column 'clip_id'",
        "manifest join clips moods.csv": "moods.csv:2: column 'mood'",
        "agree ratings.csv --raters a,b": "ratings.csv:2: column 'b'",
        "marks import marks.csv -o m": "marks.csv:2: column 'value'",
        "audit captions captions.csv": "captions.csv:2: column 'group'",
    }
    for line, place in doors.items():
        refused = call_obygaze(*shlex.split(line), cwd=tmp_path)
        assert refused.code == 1, line
        assert f"{place}: expected a value, got the error #" in refused.stderr, line
    line = "manifest import coded.xlsx --rule agreed -o m"
    call_obygaze(*shlex.split(line), "--word", "#N/A=?", cwd=tmp_path).ok()
    # They always agree.
    assert alpha(tmp_path, "m", "--column", "mood") == 1
    assert cells(tmp_path, "m", "mood") == {"k1": "sad", "k2": "calm", "k3": "calm"}


def test_words_of_marks_are_asked_about_and_equal_numbers_are_one(tmp_path) -> None:
    rows = [("movie_id", "start_s", "end_s", "column", "value", "annotator")]
    rows += [
        ("pier", "0", "1", "mood", "NA", "ada"),
        ("pier", "1", "2", "mood", "sad", "ada"),
    ]
    rows += [
        ("pier", "0", "1", "points", "1.50", "ada"),
        ("pier", "2", "3", "mood", "#N/A", "ada"),
    ]
    rows += [("pier", "1", "2", "points", "1.5", "ada")]
    write(tmp_path / "marks.csv", rows)
    line = "marks import marks.csv -o m --word '#N/A=?'"
    refused = call_obygaze(*shlex.split(line), cwd=tmp_path)
    assert refused.code == 1
    assert "--word 'NA=?' to obygaze marks import" in refused.stderr
    for meaning in ("?", "NA"):
        words = ["--word", f"NA={meaning}", "--force"]
        call_obygaze(*shlex.split(line), *words, cwd=tmp_path).ok()
        with (tmp_path / "segments" / "m.csv").open(newline="") as file:
            marks = [(row["column"], row["value"]) for row in csv.DictReader(file)]
        assert sorted(marks) == sorted(
            [
                ("mood", meaning),
                ("mood", "sad"),
                ("mood", "?"),
                *[("points", "1.5")] * 2,
            ]
        )
        # The table of the workspace is not asked about again.
        words = ["marks", "clips", "m", "--every", "1", "-o", "p", "--force"]
        call_obygaze(*words, cwd=tmp_path).ok()
    words = ["marks", "clips", "marks.csv", "--every", "1", "-o", "q"]
    assert call_obygaze(*words, cwd=tmp_path).code == 1


def test_a_text_that_is_no_text_is_asked_about(tmp_path: Path) -> None:
    clips = (Clip("k1", "pier"), Clip("k2", "pier"), Clip("k3", "pier"))
    manifest = Manifest("m", Header("m"), clips)
    texts = [("clip_id", "text"), ("k1", "Good day."), ("k2", "NA"), ("k3", "?")]
    path = write(tmp_path / "texts.csv", texts)
    with pytest.raises(FixInput) as caught:
        words_of_clips(manifest, str(path))
    (problem,) = caught.value.details
    assert problem.startswith(f"{path}:3: column 'text': 'NA' usually means")
    said = words_of_clips(manifest, str(path), {"NA": "?"}).texts
    assert said == {"k1": "Good day.", "k2": "", "k3": ""}
    assert words_of_clips(manifest, str(path), {"NA": "NA"}).texts["k2"] == "NA"


def test_an_error_is_never_the_name_of_a_clip(tmp_path: Path) -> None:
    rows = [("clip_id", "movie_id", "mood"), ("#N/A", "pier", "sad")]
    write(tmp_path / "t.csv", rows)
    words = ("manifest", "import", "t.csv", "-o", "t", "--word", "#N/A=?")
    refused = call_obygaze(*words, cwd=tmp_path)
    assert refused.code == 1
    assert "column 'clip_id': is empty, but required in each row" in refused.stderr


NUMBERS = [
    ("clip_id", "movie_id", "annotator", "points"),
    *(("k1", "pier", "ada", "1.5"), ("k1", "pier", "ben", "1.50")),
    *(("k1", "pier", "cleo", "2"), ("k2", "quay", "ada", "1e1")),
    *(("k2", "quay", "ben", "10.0"), ("k2", "quay", "cleo", ".5")),
]


def test_equal_numbers_are_one_value_for_rules_and_expressions(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", NUMBERS)
    words = ("manifest", "import", "t.csv", "--rule", "majority", "-o", "t")
    call_obygaze(*words, cwd=tmp_path).ok()
    assert cells(tmp_path, "t", "points") == {"k1": "1.5", "k2": "10"}
    manifest = read_manifest("t", workspace=tmp_path)
    for expression in ("points == 1.50", "points in {1.500}", "1.5 in points"):
        assert manifest.where(expression).clip_ids == ("k1",)
    with pytest.warns(UserWarning, match="no clip has '1.51'"):
        assert not len(manifest.where("points == 1.51"))


def test_a_kept_word_leaves_the_numbers_of_its_column_equal(tmp_path: Path) -> None:
    rows = [HEADER, ("k1", "pier", "ada", "1,5"), ("k1", "pier", "ben", "1,50")]
    path = write(tmp_path / "t.csv", [*rows, ("k2", "pier", "ada", "NA")], ";")
    manifest = read(path, words={"NA": "NA"}, rule="agreed").manifest
    assert [clip.extra["Punkte"] for clip in manifest] == ["1.5", "NA"]
    assert manifest.where("Punkte == 1.50").clip_ids == ("k1",)


def test_a_comma_of_ratings_that_may_separate_thousands_is_told(
    tmp_path,
) -> None:
    rows = [("film", "ada", "ben"), ("pier", "999", "1,001"), ("quay", "3", "4")]
    write(tmp_path / "ratings.csv", rows, ";")
    done = call_obygaze(
        "agree", "ratings.csv", "--raters", "ada,ben", cwd=tmp_path
    ).ok()
    assert (
        "ratings.csv: 1,001 in the column ben was read as 1.001; if the comma separates thousands,"
        " write numbers without this comma" in done.stderr
    )


def test_codes_beside_words_stay_as_they_are(tmp_path: Path) -> None:
    rows = [("clip_id", "movie_id", "scene_code"), ("k1", "pier", "1.1")]
    path = write(
        tmp_path / "t.csv", [*rows, ("k2", "pier", "1.10"), ("k3", "pier", "2a")]
    )
    manifest = read(path).manifest
    assert [clip.extra["scene_code"] for clip in manifest] == ["1.1", "1.10", "2a"]
    assert manifest.where("scene_code == 1.10").clip_ids == ("k2",)
    assert manifest.where("scene_code == 1.1").clip_ids == ("k1",)


def test_a_manifest_and_a_column_of_python_have_equal_numbers(tmp_path: Path) -> None:
    clips = (Clip("k1", "pier"), Clip("k2", "pier"), Clip("k3", "pier"))
    manifest = Manifest("m", Header("m"), clips)
    values = {"k1": "1.50", "k2": "1.5", "k3": "12345678901234567890"}
    joined = manifest.with_column("points", values)
    assert [clip.extra["points"] for clip in joined] == ["1.5", "1.5", values["k3"]]
    written = joined.with_column("word", {"k1": "1.50", "k2": "low"})
    assert [clip.extra["word"] for clip in written] == ["1.50", "low", ""]


def test_the_form_of_each_file_decides_for_itself(tmp_path: Path) -> None:
    header = ("clip_id", "movie_id", "start_s", "end_s", "points")
    ada = [header, ("k1", "pier", "0:00:00,0", "0:00:02,5", "1.5")]
    ada += [("k2", "pier", "0:00:02,5", "0:00:04,25", "?")]
    ben = [
        header,
        ("k1", "pier", "0", "2.5", "1.5"),
        ("k2", "pier", "2.5", "4.25", "3"),
    ]
    write(tmp_path / "ada.csv", ada, ";")
    write(tmp_path / "ben.csv", ben)
    words = ("manifest", "import", "ada.csv", "ben.csv", "-o", "t", "--rule", "agreed")
    call_obygaze(*words, cwd=tmp_path).ok()
    manifest = read_manifest("t", workspace=tmp_path)
    assert [(clip.start_s, clip.end_s) for clip in manifest] == [(0, 2.5), (2.5, 4.25)]
    assert cells(tmp_path, "t", "points") == {"k1": "1.5", "k2": "3"}


def test_the_sign_of_most_cells_separates_concepts(tmp_path: Path) -> None:
    header = ("clip_id", "movie_id", "level", "concepts")
    rows = [(f"k{n}", "pier", "sure", "close-up, music") for n in range(12)]
    rows += [("k12", "pier", "sure", "close-up; music"), ("k13", "pier", "shure", "")]
    write(tmp_path / "t.csv", [header, *rows], "\t")
    refused = call_obygaze("manifest", "import", "t.csv", "-o", "t", cwd=tmp_path)
    assert "unknown level 'shure', expected EN, HN, NS, S (did you mean 'sure'?)" in (
        refused.stderr
    )
    again(refused, tmp_path)
    manifest = read_manifest("t", workspace=tmp_path)
    assert {clip.concepts for clip in manifest} == {("close-up", "music"), ()}
    assert {clip.level for clip in manifest} == {"S"}


def test_easy_negatives_with_concepts_are_counted(tmp_path: Path) -> None:
    header = ("clip_id", "movie_id", "level", "concepts")
    rows = [("k1", "pier", "no", "Soundtrack"), ("k2", "pier", "no", "")]
    path = write(tmp_path / "t.csv", [header, *rows, ("k3", "quay", "yes", "Look")])
    imported = read(path, words={"no": "EN", "yes": "S"})
    assert imported.warnings == (
        "easy negatives (EN) with concepts: 1 of 2 clips (Soundtrack); an easy negative has none;"
        " if these are hard negatives, pass --word no=HN",
    )
    assert not read(path, words={"no": "HN", "yes": "S"}).warnings


def test_a_rule_is_applied_to_shown_labels_or_refused(tmp_path: Path) -> None:
    rows = [("clip_id", "movie_id", "annotator", "level", "tension")]
    rows += [("k1", "pier", "ada", "S", "low"), ("k1", "pier", "ben", "S", "low")]
    rows += [("k2", "pier", "ada", "HN", "low"), ("k2", "pier", "ben", "S", "high")]
    write(tmp_path / "coded.csv", rows)
    words = ("manifest", "import", "coded.csv", "--rule", "highest", "-o", "coded")
    call_obygaze(*words, cwd=tmp_path).ok()
    call_obygaze("manifest", "show", "coded", "-o", "t.csv", cwd=tmp_path).ok()
    words = ("manifest", "import", "t.csv", "-o", "t")
    refused = call_obygaze(*words, "--rule", "agreed", cwd=tmp_path)
    again(refused, tmp_path)
    agreed = read_manifest("t", workspace=tmp_path)
    assert [clip.level for clip in agreed] == ["S", ""]
    assert [clip.extra["tension"] for clip in agreed] == ["low", ""]
    write(tmp_path / "one.csv", [("clip_id", "movie_id", "level"), ("k1", "pier", "S")])
    words = ("manifest", "import", "one.csv", "-o", "one", "--rule", "agreed")
    refused = call_obygaze(*words, cwd=tmp_path)
    assert refused.code == 2
    assert "makes labels from those of several annotators" in refused.stderr


DATES = ("2026-05-01", "01.05.2026", "5/1/2026", "1-May", "01. Mai", "01-mai", "Mai 26")


@pytest.mark.parametrize("date", DATES)
def test_a_date_among_numbers_is_a_problem_with_its_place(tmp_path, date) -> None:
    """Excel turns 1.5 into 1 May."""
    rows = [("clip_id", "movie_id", "tension")]
    rows += [("a", "pier", "1"), ("b", "pier", date), ("c", "pier", "2.5")]
    table = write(tmp_path / "t.csv", rows, ";")
    with pytest.raises(FixInput) as caught:
        read(table)
    said = f"{table}:3: column 'tension': expected a number, got the date {date}, which"
    assert [line.startswith(said) for line in caught.value.details] == [True]
    kept = read(table, words={date: "?"}).manifest
    assert [clip.values("tension") for clip in kept] == [("1",), (), ("2.5",)]


def test_a_date_of_a_workbook_is_found_and_dates_of_other_columns_stay(tmp_path):
    rows: list[tuple[Any, ...]] = [("clip_id", "movie_id", "tension", "shot", "year")]
    dates = (datetime.date(2026, 5, 1), "2026-05-02", "2026-05-03")
    years = ("1954", "1955", datetime.date(1956, 3, 1))
    tension = (1, datetime.date(2026, 5, 1), 2.5)
    for number, of_row in enumerate(zip(tension, dates, years, strict=True)):
        rows.append((f"k{number}", "pier", *of_row))
    with pytest.raises(FixInput) as caught:
        read(write(tmp_path / "t.xlsx", rows))
    (problem,) = caught.value.details
    assert "t.xlsx:3: column 'tension': expected a number, got the date 2026" in problem


@pytest.mark.parametrize(
    ("cells", "unread"),
    [
        (("1234,5", "1'234,5"), "1'234,5"),
        (("2,5", "1 234,5"), "1 234,5"),
        (("2,5", "1.234,5"), "1.234,5"),
        (("1,5", "2.5"), "1,5"),
        (("1,5", "2,5", "?"), ""),
        (("1,5", "low"), ""),
        (("1.5", "+2"), ""),
    ],
)
def test_numbers_that_are_read_as_text_are_said(tmp_path, cells, unread) -> None:
    rows = [("clip_id", "movie_id", "points")]
    rows += [(f"k{number}", "pier", cell) for number, cell in enumerate(cells)]
    table = write(tmp_path / "t.csv", rows, ";")
    write(tmp_path / "m.csv", [row[:2] for row in rows], ";")
    warnings = [
        *read(table).warnings,
        *join(read(tmp_path / "m.csv").manifest, table).warnings,
    ]
    said = f"the column points has numbers in several forms, and is read as text: write {unread} as"
    assert [said in one for one in warnings].count(True) == 2 * bool(unread)

import shlex
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli import call_obygaze
from support.seeds import amount
from support.workbooks import write_workbook

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.adapters.csv_table import read
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Clip

Rows = list[tuple[Any, ...]]


def typed_again(folder: Path, words: Sequence[str], *edits: tuple[str, str]) -> str:
    """Import a table in two commands, the second of which is the line of the first.

    Returns what both say. `edits` are what a person changes in the line.
    """
    refused = call_obygaze("manifest", "import", *words, cwd=folder)
    assert refused.code == 1, refused.stderr
    assert not (folder / "manifests").exists()
    line = refused.stderr.splitlines()[-1].removeprefix("  Try: ")
    for before, after in edits:
        assert before in line
        line = line.replace(before, after)
    program, *again = shlex.split(line)
    assert program == "obygaze"
    done = call_obygaze(*again, cwd=folder).ok()
    return refused.stderr + done.stderr


def rows_of(folder: Path, *columns: str) -> Rows:
    """The ids, times and labels of the clips of the manifest, and further columns."""

    def row(clip: Clip) -> tuple[Any, ...]:
        own = [clip.extra.get(column, "") for column in columns]
        times = (clip.start_s, clip.end_s)
        return (clip.clip_id, *times, clip.level, "|".join(clip.concepts), *own)

    return [row(clip) for clip in read_manifest("t", workspace=folder)]


def test_a_workbook_of_two_sheets_and_two_people(tmp_path: Path) -> None:
    minutes = [timedelta(minutes=number) for number in range(9)]
    clips = [
        ["Sichtung, Frühjahr", "Ada und Ben"],
        [],
        ["Film", "Szene", "Von", "Bis", "Urteil Ada", "Urteil Ben"],
        ["Amélie", 1, minutes[0], minutes[4], "Sure", "Sure"],
        ["Amélie", 2, minutes[4], minutes[5], "Easy Neg", "Hard Neg"],
        ["Ame\u0301lie", 3, minutes[5], minutes[6], "Easy Neg", "Easy Neg"],
        ["Juno", 1, minutes[0], minutes[8], "Hard Neg", "Hard Neg"],
    ]
    legend = [["Wort", "Bedeutung"], ["Sure", "ganz sicher"]]
    write_workbook(tmp_path / "t.xlsx", {"Legende": legend, "Clips": clips})
    said = typed_again(tmp_path, ["t.xlsx", "-o", "t"])
    assert "'0:04' may be minutes or hours" in said
    assert "annotators differ in 1 of 4 clips: level 1" in said
    assert "--sheet Clips" in said
    assert rows_of(tmp_path, "differs") == [
        ("Amelie-1", 0.0, 4.0, "S", "", ""),
        ("Amelie-2", 4.0, 5.0, "", "", "level"),
        ("Amelie-3", 5.0, 6.0, "EN", "", ""),
        ("Juno-1", 0.0, 8.0, "HN", "", ""),
    ]
    people = read_manifest("t", workspace=tmp_path).annotators
    assert people == ("Ada", "Ben")


def test_semicolons_decimal_commas_own_words_and_totals(tmp_path: Path) -> None:
    text = (
        "Filmtitel;Nr.;Anfang (s);Ende (s);level;concepts\r\n"
        "Müller & Söhne;1;0;12,5;ja;Blick, Körper\r\n"
        "Müller & Söhne;2;12,5;30;nein;\r\n"
        "L'Été;1;0;7,25;jain;Postur\r\n"
        "L'Été;2;7,25;9;ja;Körper\r\n"
        "Summe;4;;;;\r\n"
    )
    (tmp_path / "t.csv").write_bytes(text.encode("cp1252"))
    edits = [("jain=?", "jain=NS"), ("Blick=visual", "Blick=Look")]
    edits.append(("Körper=visual", "Körper=Body"))
    said = typed_again(tmp_path, ["t.csv", "-o", "t"], *edits)
    assert "read as Windows-1252" in said
    assert "likely answer: --map separator=," in said
    assert "t.csv:6: the row of 'Summe' is a row of totals and not imported" in said
    assert rows_of(tmp_path, "movie_title") == [
        ("Muller_Sohne-1", 0.0, 12.5, "S", "Look|Body", "Müller & Söhne"),
        ("Muller_Sohne-2", 12.5, 30.0, "EN", "", "Müller & Söhne"),
        ("L_Ete-1", 0.0, 7.25, "NS", "Posture", "L'Été"),
        ("L_Ete-2", 7.25, 9.0, "S", "Body", "L'Été"),
    ]


def test_workbooks_of_two_people_have_sheets_of_different_names(tmp_path) -> None:
    """A copy of a workbook has the same likely sheet: nobody meant its rows twice."""
    rows = {"": [["clip_id", "movie_id", "shot", "Remarks", "mood"]]}
    for name in ("ada", "ben"):
        moods = ["calm", *["wild" if name == "ada" else "calm"] * 19]
        remark = f"said by {name}"
        clips = [[f"c{n:02d}", "Alba", n, remark, mood] for n, mood in enumerate(moods)]
        rows[name] = [*rows[""], *clips]
        about = {"About": [["a note"]], name: rows[name]}
        write_workbook(tmp_path / f"{name}.xlsx", about)
    said = typed_again(tmp_path, ["ada.xlsx", "ben.xlsx", "-o", "t"])
    assert "ben.xlsx: the sheet 'ben' was read" in said
    assert "equal cells" not in said
    assert "obygaze agree t --column mood" in said
    assert "labelled by one annotator only" not in said
    for name in ("copy", "copied"):
        both = {"ada": rows["ada"], "ben": rows["ben"]}
        write_workbook(tmp_path / f"{name}.xlsx", both)
    words = ("manifest", "import", "copy.xlsx", "copied.xlsx", "-o", "u")
    said = call_obygaze(*words, cwd=tmp_path).ok().stderr
    assert "copy.xlsx and copied.xlsx have equal cells" in said
    assert "import this file alone, with --sheet ada --sheet ben" in said
    write_workbook(tmp_path / "ben.xlsx", {"ben": [*rows["ben"][:5], *rows[""][1:]]})
    words = (
        "manifest",
        "import",
        "ada.xlsx",
        "ben.xlsx",
        "-o",
        "v",
        "--rule",
        "agreed",
    )
    said = call_obygaze(*words, cwd=tmp_path).ok().stderr
    assert "labelled by one annotator only: 16 clips" in said


# Ben's sheet has a column of remarks, and no decimal commas; the legend is not a coder.
SHEETS: dict[str, list[list[Any]]] = {
    "Legende": [["Wort", "Bedeutung"], ["ruhig", "es geschieht wenig"]],
    "Anna": [
        ["Nr", "Film", "Stimmung", "Punkte"],
        ["a1", "Alba", "ruhig", "1,5"],
        ["a2", "Alba", "wild", "2"],
        ["b1", "Brug", "NA", "3"],
    ],
    "Ben K.": [
        ["Nr", "Film", "Stimmung", "Punkte", "Bemerkung"],
        ["a1", "Alba", "ruhig", 1.5, "Schnee"],
        ["a2", "Alba", "ruhig", 4, None],
        ["b1", "Brug", "wild", 3, None],
    ],
}


def test_a_workbook_with_a_sheet_for_each_person_is_asked_about(tmp_path) -> None:
    write_workbook(tmp_path / "t.xlsx", SHEETS)
    said = typed_again(tmp_path, ["t.xlsx", "-o", "t"])
    assert "sheets 'Anna' and 'Ben K.' have the same columns; if each is of one" in said
    assert "likely answer: --sheet Anna --sheet 'Ben K.'" in said
    assert "t.xlsx (sheet Anna):4: column 'Stimmung': 'NA'" in said
    manifest = read_manifest("t", workspace=tmp_path)
    assert manifest.annotators == ("Anna", "Ben K.")
    told = {}
    for one in manifest.annotations:
        mood = one.own["Stimmung"]
        told[one.clip_id, one.annotator] = (mood, one.own["Punkte"])
    assert told == {
        ("a1", "Anna"): ("ruhig", "1.5"),
        ("a1", "Ben K."): ("ruhig", "1.5"),
        ("a2", "Anna"): ("wild", "2"),
        ("a2", "Ben K."): ("ruhig", "4"),
        ("b1", "Anna"): ("", "3"),
        ("b1", "Ben K."): ("wild", "3"),
    }
    (source,) = manifest.header.sources
    assert source.file == "t.xlsx"
    alone = ("manifest", "import", "t.xlsx", "--sheet", "Anna", "-o", "anna")
    columns = ("--map", "clip_id=Nr", "--map", "movie_id=Film", "--word", "NA=?")
    call_obygaze(*alone, *columns, cwd=tmp_path).ok()
    assert read_manifest("anna", workspace=tmp_path).annotators == ()


def test_several_sheets_are_of_one_workbook_and_have_names_of_their_own(
    tmp_path: Path,
) -> None:
    path = write_workbook(tmp_path / "t.xlsx", SHEETS)
    with pytest.raises(FixUsage, match="the same sheet name"):
        read(path, sheet=["Anna", "Anna"])
    with pytest.raises(FixUsage, match="expected one spreadsheet with several --sheet"):
        read([path, tmp_path / "u.xlsx"], sheet=["Anna", "Ben K."])
    with pytest.raises(FixUsage, match=r"no sheet 'Bem K.' \(did you mean 'Ben K.'"):
        read(path, sheet=["Anna", "Bem K."])


def test_nothing_matches_the_rows_of_two_people_without_ids_and_times(tmp_path) -> None:
    for name in ("ada", "ben"):
        (tmp_path / f"{name}.csv").write_text(
            "movie_id,mood\nA,calm\nA,wild\n", "utf-8"
        )
    words = ("manifest", "import", "ada.csv", "ben.csv", "-o", "t")
    said = call_obygaze(*words, cwd=tmp_path)
    assert said.code == 1
    assert "with the same id in the rows of each annotator" in said.stderr
    assert "{count" not in said.stderr
    assert "already has a row" not in said.stderr


def test_rows_of_two_people_whose_numbers_restart(tmp_path: Path) -> None:
    lines = ["Movie,Shot,Coder,mood"]
    for film in ("Alba", "Brug"):
        for number in (1, 2):
            ben = "calm" if number == 1 else "wild"
            lines += [f"{film},{number},ada,calm", f"{film},{number},ben,{ben}"]
    (tmp_path / "t.csv").write_text("\n".join(lines), "utf-8")
    typed_again(tmp_path, ["t.csv", "-o", "t"])
    assert rows_of(tmp_path, "mood", "differs") == [
        ("Alba-1", None, None, "", "", "calm", ""),
        ("Alba-2", None, None, "", "", "", "mood"),
        ("Brug-1", None, None, "", "", "calm", ""),
        ("Brug-2", None, None, "", "", "", "mood"),
    ]


def test_people_in_a_column_of_any_name_below_titles_with_commas(tmp_path) -> None:
    text = (
        "Coding sheet, group 2, spring\n\n"
        "Titel,scene,Wer sah es,Konzepte,Wort\n"
        'Lac,1,ana,"Look, Body",ja\nLac,1,bo,Look,ja\n'
        "Lac,2,ana,Body,nein\nLac,2,bo,,ja\n"
    )
    (tmp_path / "t.csv").write_text(text, "utf-8")
    said = typed_again(tmp_path, ["t.csv", "-o", "t"])
    assert "likely answer: --map 'annotator=Wer sah es'" in said
    assert "likely answer: --map concepts=Konzepte" in said
    # Nobody gave a level, so a clip may lack a concept because a person did not look for it.
    assert "likely answer: --rule highest" in said
    assert rows_of(tmp_path, "Wort", "differs") == [
        ("Lac-1", None, None, "", "Look|Body", "ja", ""),
        ("Lac-2", None, None, "", "Body", "", "Wort"),
    ]


def test_frames_are_no_seconds_and_titles_of_clips_no_films(tmp_path: Path) -> None:
    lines = ["Titel;Film;Start Frame;End Frame;FPS", "Kuss;Alba;0;24;25"]
    lines += ["Flucht;Alba;25;74;25", "Ende;Brug;0;49;25"]
    (tmp_path / "t.csv").write_text("\n".join(lines), "utf-8")
    said = typed_again(tmp_path, ["t.csv", "-o", "t"])
    assert "look like the frames of the clips" in said
    assert rows_of(tmp_path, "end_frame") == [
        ("Alba-001", 0.0, 1.0, "", "", "24"),
        ("Alba-002", 1.0, 3.0, "", "", "74"),
        ("Brug-001", 0.0, 2.0, "", "", "49"),
    ]


def test_two_people_with_a_file_each(tmp_path: Path) -> None:
    header = "film,from,to,verdict\n"
    ada = f"{header}lake,0:01,0:03,joy\nlake,0:03,0:05,fear\n"
    (tmp_path / "Ada.csv").write_text(ada)
    # A person may have fewer clips, and times of another program.
    ben = "film;from;to;verdict\nlake;0:00:01;0:00:03;fear\n"
    (tmp_path / "Ben.csv").write_text(ben)
    said = typed_again(tmp_path, ["Ada.csv", "Ben.csv", "-o", "t"])
    assert "annotators differ in 1 of 2 clips: verdict 1" in said
    assert rows_of(tmp_path, "verdict", "differs") == [
        ("lake-001", 1.0, 3.0, "", "", "", "verdict"),
        ("lake-002", 3.0, 5.0, "", "", "fear", ""),
    ]
    said_by = read_manifest("t", workspace=tmp_path).annotations
    assert [(one.clip_id, one.annotator, one.own["verdict"]) for one in said_by] == [
        ("lake-001", "Ada", "joy"),
        ("lake-001", "Ben", "fear"),
        ("lake-002", "Ada", "fear"),
    ]


IDS = "clip_id,movie_id"
TIMES = "start_s,end_s"
HEAD = f"{IDS},level,{TIMES}\n"
ADA = f"{HEAD}a,lake,S,1,2\n"


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (f"{HEAD}a,lake,S,1.5,2\n", "'a' is 1 s to 2 s, not 1.5 s to 2 s"),
        (f"{HEAD}a,pier,S,1,2\n", "'a' is of the film 'lake', not 'pier'"),
        (f"{HEAD}a,lake,S,1.0004,2\n", ""),
        (f"{IDS},level\na,lake,S\n", ""),
    ],
)
def test_files_of_people_are_about_the_same_clips(tmp_path, second, problem) -> None:
    paths = [tmp_path / "ada.csv", tmp_path / "ben.csv"]
    for path, text in zip(paths, (ADA, second), strict=True):
        path.write_text(text)
    if problem:
        with pytest.raises(FixInput) as caught:
            read(paths, name="t")
        assert caught.value.details[0].startswith(f"{paths[1]}: 1 clip of {paths[0]} ")
        assert problem in caught.value.details[0]
        return
    for order in (paths, paths[::-1]):
        (clip,) = read(order, name="t").manifest
        assert (clip.start_s, clip.end_s, clip.level) in [(1, 2, "S"), (1.0004, 2, "S")]


WORDS = st.sampled_from(
    [
        "ja",
        "nein",
        "?",
        "S",
        "Hard Neg",
        "a,b",
        "it's",
        "",
        "x=y",
        "1",
        "1.0",
        "0:07",
        "JA",
    ]
)
NAMES = ["Film", "Nr", "Von", "Bis", "Coder", "Urteil A", "level", "concepts", "id"]


@settings(max_examples=amount(40, 2000))
@given(
    columns=st.lists(st.sampled_from(NAMES), unique=True, min_size=1),
    cells=st.lists(st.lists(WORDS, min_size=9, max_size=9), min_size=2, max_size=6),
)
def test_no_question_comes_after_the_likely_answers(tmp_path, columns, cells) -> None:
    """Whatever a table has: what is refused again is a cell that is wrong."""
    path = tmp_path / "t.csv"
    lines = [";".join(row[: len(columns)]) for row in (columns, *cells)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    try:
        read(path)
        return
    except FixInput as error:
        line = str(error.hint)
        before, are_wrong, after = line.partition("that is listed, then: ")
        line = after or before
    if not line.startswith("obygaze"):
        return
    typed = shlex.split(line)
    given_columns: dict[str, str] = {}
    given_words: dict[str, str] = {}
    given_films: dict[str, str] = {}
    options: dict[str, Any] = {}
    for flag, value in zip(typed[6::2], typed[7::2], strict=True):
        if flag == "--map":
            name, _, column = value.partition("=")
            given_columns[name] = column
        elif flag == "--word":
            word, _, meaning = value.rpartition("=")
            given_words[word] = meaning
        elif flag == "--film":
            name, _, new = value.rpartition("=")
            given_films[name] = new
        else:
            options[{"--id": "form"}.get(flag, flag.removeprefix("--"))] = value
    try:
        read(path, given_columns, words=given_words, film_names=given_films, **options)
    except FixInput as error:
        assert are_wrong, (line, error.details)
        assert "likely" not in str(error.details), (line, error.details)


def asked_times(folder: Path, *lines: str) -> list[tuple[str, float, float]]:
    (folder / "t.csv").write_text("\n".join(lines), "utf-8")
    typed_again(folder, ["t.csv", "-o", "t"])
    return [row[:3] for row in rows_of(folder)]


def test_times_of_elan_in_three_formats_are_one_time(tmp_path: Path) -> None:
    """ELAN exports each time as a clock time, in seconds and in milliseconds."""
    header = "Film,Begin Time - msec,Begin Time - hh:mm:ss.ms,Begin Time - ss.msec"
    header += ",End Time - msec,End Time - hh:mm:ss.ms,End Time - ss.msec,mood"
    rows = ["Alba,1500,00:00:01.500,1.5,61250,00:01:01.250,61.25,calm"]
    rows += ["Alba,61250,00:01:01.250,61.25,70001,00:01:10.001,70.001,wild"]
    expected = [("Alba-001", 1.5, 61.25), ("Alba-002", 61.25, 70.001)]
    assert asked_times(tmp_path, header, *rows) == expected


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("Begin Time - msec", "End Time - msec"),
        ("Start (ms)", "Ende (ms)"),
        ("Onset_ms", "Offset_ms"),
    ],
)
def test_milliseconds_are_never_proposed_as_seconds(tmp_path, start, end) -> None:
    rows = ["Alba,1500,61250,calm", "Alba,61250,70001,wild"]
    expected = [("Alba-001", 1.5, 61.25), ("Alba-002", 61.25, 70.001)]
    assert asked_times(tmp_path, f"Film,{start},{end},mood", *rows) == expected


def test_a_typed_column_of_milliseconds_is_asked_about(tmp_path: Path) -> None:
    lines = ["clip_id,movie_id,video,Start (ms),End (ms),film_start_s,film_end_s"]
    lines += ["a,A,a.mp4,1500,61250,3,62.75"]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines), "utf-8")
    columns = {"start_s": "Start (ms)", "end_s": "End (ms)"}
    with pytest.raises(FixInput) as caught:
        read(path, columns)
    assert "'Start (ms)' has milliseconds by its name" in str(caught.value.details)
    assert "--map times=ms" in str(caught.value.hint)
    (clip,) = read(path, {**columns, "times": "ms"}).manifest.clips
    # The name of the column film_start_s says that it has seconds.
    assert (clip.start_s, clip.end_s, clip.extra["film_start_s"]) == (1.5, 61.25, "3")


@pytest.mark.parametrize(
    "header", ["First frame,Last frame,FPS", "Startbild,Endbild,Bildrate"]
)
def test_first_and_last_frame_and_rate_are_likely_answers(tmp_path, header) -> None:
    """A rating of 1 to 5 is no frame rate, whatever its header."""
    lines = [f"Film,Rate,First rating,Last rating,{header}"]
    lines += ["Alba,4,1,2,0,24,25", "Alba,2,2,2,25,74,25", "Brug,5,1,1,0,49,25"]
    expected = [("Alba-001", 0.0, 1.0), ("Alba-002", 1.0, 3.0), ("Brug-001", 0.0, 2.0)]
    assert asked_times(tmp_path, *lines) == expected


def test_the_rate_of_frames_that_are_named_already_is_a_likely_answer(tmp_path) -> None:
    lines = ["movie_id,clip_id,start_frame,end_frame,FPS", "Alba,a,0,24,25"]
    assert asked_times(tmp_path, *lines) == [("a", 0.0, 1.0)]


def test_films_in_several_spellings_are_one_film_if_the_answer_says_so(tmp_path):
    lines = ["Film,No,mood", "Night Train,a1,calm", "Night Train,a2,calm"]
    lines += ["night_train (1954),a3,wild", "Psycho,b1,calm", "Psycho (1998),b2,wild"]
    (tmp_path / "t.csv").write_text("\n".join(lines), "utf-8")
    edit = ("'Psycho (1998)=Psycho'", "'Psycho (1998)=Psycho (1998)'")
    said = typed_again(tmp_path, ["t.csv", "-o", "t"], edit)
    assert "'night_train (1954)' may be the film 'Night Train'; if not, pass" in said
    films = {
        clip.clip_id: clip.movie_id for clip in read_manifest("t", workspace=tmp_path)
    }
    night = dict.fromkeys(("a1", "a2", "a3"), "Night_Train")
    assert films == {**night, "b1": "Psycho", "b2": "Psycho_1998_"}


def test_a_film_gets_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Film,No,mood\nNight Train,a1,calm\nJuno,a2,wild\n", "utf-8")
    columns = {"movie_id": "Film"}
    names = {"Night Train": "night_train_1954"}
    imported = read(path, columns, form="{movie_id}-{No}", film_names=names)
    assert imported.manifest.clip_ids == ("night_train_1954-a1", "Juno-a2")
    assert imported.manifest.films == ("Juno", "night_train_1954")
    with pytest.raises(FixUsage, match=r"no film of the table 'Nite Train' \(did you"):
        read(path, columns, form="{No}", film_names={"Nite Train": "x"})


def test_films_that_are_named_by_their_files_have_no_extension(tmp_path: Path) -> None:
    """It is asked whether two files of one name are one film."""
    lines = ["Video file,Shot,First frame,Last frame,camera"]
    lines += [
        "C:\\films\\Rear Window.mkv,1,0,9,pan",
        "C:\\films\\Rear Window.mkv,2,10,19,pan",
    ]
    lines += ["psycho.mp4,1,0,24,zoom", "psycho.mp4,2,25,49,pan"]
    (tmp_path / "t.csv").write_text("\n".join(lines), "utf-8")
    typed_again(tmp_path, ["t.csv", "-o", "t"])
    assert rows_of(tmp_path, "film_file", "end_frame") == [
        ("Rear_Window-1", None, None, "", "", "C:\\films\\Rear Window.mkv", "9"),
        ("Rear_Window-2", None, None, "", "", "C:\\films\\Rear Window.mkv", "19"),
        ("psycho-1", None, None, "", "", "psycho.mp4", "24"),
        ("psycho-2", None, None, "", "", "psycho.mp4", "49"),
    ]
    text = "movie_id,clip_id,mood\na.mp4,a,calm\na.mkv,b,wild\nb.eaf,c,calm\n"
    (tmp_path / "u.csv").write_text(text, "utf-8")
    with pytest.raises(FixInput, match=r"a\.mkv=a\.mp4"):
        read(tmp_path / "u.csv")
    (tmp_path / "u.csv").write_text(text.replace("a.mkv", "A.Kes.mkv"), "utf-8")
    assert read(tmp_path / "u.csv").manifest.films == ("A.Kes", "a", "b")


def test_a_sheet_for_each_film_is_no_sheet_for_each_person(tmp_path: Path) -> None:
    sheets = {}
    for film in ("Alba", "La Haine"):
        sheets[film] = [
            ["shot", "start", "end", "gaze"],
            [1, 0, 5, film],
            [2, 5, 9, "-"],
        ]
    write_workbook(tmp_path / "t.xlsx", sheets)
    said = typed_again(tmp_path, ["t.xlsx", "-o", "t"])
    assert "likely answer: --map movie_id=sheet" in said
    assert rows_of(tmp_path, "movie_title", "gaze") == [
        ("Alba-1", 0.0, 5.0, "", "", "Alba", "Alba"),
        ("Alba-2", 5.0, 9.0, "", "", "Alba", ""),
        ("La_Haine-1", 0.0, 5.0, "", "", "La Haine", "La Haine"),
        ("La_Haine-2", 5.0, 9.0, "", "", "La Haine", ""),
    ]
    manifest = read_manifest("t", workspace=tmp_path)
    assert (manifest.annotators, "annotator" in manifest.columns) == ((), False)


def test_films_of_two_people_may_be_in_a_column_of_files(tmp_path: Path) -> None:
    rows: list[list[Any]] = [["Video", "Anfang_ms", "Ende_ms", "Blick"]]
    for n in range(4):
        rows.append([f"IMG_00{1 + n // 2}.MOV", n * 1500, n * 1500 + 1500, "ja"])
    write_workbook(tmp_path / "t.xlsx", {"K1": rows, "K2": rows})
    typed_again(tmp_path, ["t.xlsx", "-o", "t"])
    manifest = read_manifest("t", workspace=tmp_path)
    assert manifest.films == ("IMG_001", "IMG_002")
    assert manifest.annotators == ("K1", "K2")
    assert [(clip.start_s, clip.end_s) for clip in manifest][1] == (1.5, 3.0)


@pytest.mark.parametrize(
    "header", ["Inizio;Fine", "Begin;Finish", "Aufblende;Abblende"]
)
def test_clock_times_below_other_words_are_asked_about(tmp_path: Path, header) -> None:
    lines = [f"Film;Nr;{header}", "a;1;0:00:02;0:00:04,5", "a;2;0:01:05;0:01:09"]
    assert asked_times(tmp_path, *lines) == [("a-1", 2.0, 4.5), ("a-2", 65.0, 69.0)]


@pytest.mark.parametrize(
    "header",
    [
        *("Startzeit;Endzeit", "Inizio;Fine", "Desde;Hasta", "Début;Jusqu'à", "Ab;Bis"),
        *("startTime;endTime", "Comienzo;Final", "tcIn;tcOut [s]", "Entrée;Sortie"),
    ],
)
def test_seconds_below_the_words_of_five_languages_are_asked_about(tmp_path, header):
    lines = [f"Film;Nr;{header}", "a;1;2;4,5", "a;2;65;69"]
    assert asked_times(tmp_path, *lines) == [("a-1", 2.0, 4.5), ("a-2", 65.0, 69.0)]


def test_frames_below_italian_words_are_no_seconds(tmp_path: Path) -> None:
    lines = ["Film;Nr;Fotogramma inizio;Fotogramma fine;fps", "a;1;50;74;25"]
    assert asked_times(tmp_path, *lines) == [("a-1", 2.0, 3.0)]


@pytest.mark.parametrize(
    "columns", [{}, {"start_s": "Start (min)", "end_s": "End (min)"}]
)
def test_minutes_are_no_seconds(tmp_path: Path, columns) -> None:
    (tmp_path / "t.csv").write_text(
        "movie_id,clip_id,Start (min),End (min)\na,1,0.5,1.5\na,2,2,3\n", "utf-8"
    )
    with pytest.raises(FixInput, match="cannot be imported") as caught:
        read(tmp_path / "t.csv", columns)
    said = (
        "'Start (min)' has minutes or hours by its name: write seconds or clock times"
    )
    assert any(said in line for line in caught.value.details)


@pytest.mark.parametrize("header", ["Start;Dauer", "Dauer;Start", "Inizio;Durata (s)"])
@pytest.mark.parametrize("form", ["0:00:{:02d}", "{}"])
def test_a_start_with_a_duration_needs_an_end(tmp_path: Path, header, form) -> None:
    times = {"start": (12, 25), "duration": (4, 9)}
    start, duration = sorted(header.split(";"), key=lambda name: name.startswith("D"))
    times = {start: times["start"], duration: times["duration"]}
    rows = zip(*(times[name] for name in header.split(";")), strict=True)
    lines = [f"movie_id;clip_id;{header}"]
    lines += [
        f"a;{number};{';'.join(map(form.format, cells))}"
        for number, cells in enumerate(rows)
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines), "utf-8")
    with pytest.raises(FixInput) as caught:
        read(tmp_path / "t.csv")
    said = f"no column has their ends: add a column of {start!r} + {duration!r}"
    assert [said in line for line in caught.value.details] == [True]
    # No answer is likely, so that none is proposed.
    assert caught.value.hint == "correct the table in each place that is listed"
    imported = read(tmp_path / "t.csv", {start: start})
    assert [clip.start_s for clip in imported.manifest] == [None, None]
    said = f"clips have no times, but columns may: {start}, {duration}"
    assert any(one.startswith(said) for one in imported.warnings) == (":" in form)


def test_numbers_of_raters_are_asked_about_and_those_of_names_are_said(
    tmp_path,
) -> None:
    """Whether Anna and Ben, or valence and arousal, are people, only the user knows."""
    rows = ["a,1,1,2", "a,2,2,3", "a,3,3,1"]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["movie_id,clip_id,Rater 1,Rater 2", *rows]), "utf-8")
    with pytest.raises(FixInput) as caught:
        read(table)
    likely = "--map 'coder:1:Rater=Rater 1' --map 'coder:2:Rater=Rater 2'"
    assert likely in str(caught.value.hint)
    table.write_text("\n".join(["movie_id,clip_id,Anna,Ben", *rows]), "utf-8")
    said = "--map coder:Anna:rating=Anna --map coder:Ben:rating=Ben"
    assert [said in note for note in read(table).notes].count(True) == 1
    people = {"coder:Anna:rating": "Anna", "coder:Ben:rating": "Ben"}
    assert read(table, people, rule="mean").manifest.clips[1].values("rating") == (
        "2.5",
    )


@pytest.mark.parametrize(
    ("header", "rows", "problem"),
    [
        ("start_frame,end_frame,framerate", ("1,25,25", "26,50,25"), ""),
        ("start_frame,end_frame,framerate", ("0,24,25", "25,49,25"), None),
        (
            "start_frame,end_frame,framerate,start_s,end_s",
            ("1,25,25,0,1", "26,50,25,1,2"),
            "the frames count from 1, because each time is one frame earlier; subtract 1",
        ),
        (
            "start_frame,end_frame,framerate,start_s,end_s",
            ("1,25,25,.04,1.04", "26,50,25,1.04,2.04"),
            None,
        ),
    ],
)
def test_frames_that_count_from_1_are_said(tmp_path, header, rows, problem) -> None:
    lines = [f"movie_id,clip_id,{header}"]
    lines += [f"a,{n},{row}".replace(",.", ",0.") for n, row in enumerate(rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines), "utf-8")
    if problem:
        with pytest.raises(FixInput) as caught:
            read(tmp_path / "t.csv")
        assert [problem in line for line in caught.value.details] == [True]
        return
    said = "the smallest start_frame is 1; if the table counts from 1, subtract 1"
    warnings = read(tmp_path / "t.csv").warnings
    assert [one.startswith(said) for one in warnings] == [True] * (problem == "")


def test_what_one_person_said_is_not_proposed_as_the_concepts_of_clips(tmp_path):
    """`manifest show -o` leaves out the column of concepts where all of them are open."""
    lines = (
        "movie_id,clip_id,level,differs,concepts:ada,concepts:ben\na,1,S,Look,Look,\n"
    )
    (tmp_path / "t.csv").write_text(lines, "utf-8")
    (clip,) = read(tmp_path / "t.csv").manifest
    assert (clip.level, clip.concepts, clip.values("differs")) == ("S", (), ("Look",))


@pytest.mark.parametrize("times", [("00:01:05:12", "00:01:07:00"), ("1'05", "1'07")])
def test_times_of_another_form_are_said(tmp_path: Path, times) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"movie_id,clip_id,TC in,TC out\na,1,{','.join(times)}\n", "utf-8")
    (warning,) = read(path).warnings
    said = f"clips have no times, but columns may: TC in, TC out, such as {times[0]!r}"
    assert warning.startswith(said)
    lines = f"movie_id,clip_id,TC in,TC out,start_s,end_s\na,1,{','.join(times)},1,2\n"
    path.write_text(lines, "utf-8")
    assert read(path).warnings == ()


def test_ids_that_two_annotators_share_are_kept(tmp_path: Path) -> None:
    rows = "clip,film,coder,mood\na-1,alba,ada,sad\na-1,alba,ben,sad\n"
    rows += "b-1,brug,ada,glad\nb-1,brug,ben,glad\n"
    (tmp_path / "t.csv").write_text(rows, "utf-8")
    assert "likely answer: --map clip_id=clip" in typed_again(
        tmp_path, ["t.csv", "-o", "t"]
    )
    assert [row[0] for row in rows_of(tmp_path)] == ["a-1", "b-1"]


def test_milliseconds_with_signs_of_thousands_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "clip_id;movie_id;Von;Bis\na;A;1.500;2.500\nb;A;1500,5;2500\n", "utf-8"
    )
    columns = {"start_s": "Von", "end_s": "Bis", "times": "ms"}
    with pytest.raises(FixInput) as caught:
        read(path, columns)
    assert "t.csv:2: column 'Von': '1.500 ms' is not a time in seconds" in str(
        caught.value.details
    )
    assert "t.csv:3" not in str(caught.value.details)


def test_the_participants_of_an_elan_table_are_annotators(tmp_path: Path) -> None:
    """The columns are those of the default export of several files as text."""
    header = "Tier,Participant,Begin Time - msec,End Time - msec,Annotation,File\n"
    rows = "Gaze,ada,0,4000,male,a.eaf\nGaze,ada,4000,6000,male,a.eaf\n"
    rows += "Gaze,ben,0,4000,male,a.eaf\nGaze,ben,0,1000,none,b.eaf\n"
    (tmp_path / "t.csv").write_text(header + rows, "utf-8")
    said = typed_again(tmp_path, ["t.csv", "-o", "t"])
    assert "likely answer: --map movie_id=File" in said
    assert "likely answer: --map annotator=Participant" in said
    people = [
        one.annotator for one in read_manifest("t", workspace=tmp_path).annotations
    ]
    assert sorted(people) == ["ada", "ada", "ben", "ben"]


def test_the_agreement_on_what_was_watched_is_not_proposed(tmp_path: Path) -> None:
    rows = "Film,Start,End,Coder,Watched,Gaze\nalba,0,9,ada,Gaze,\nalba,0,9,ben,Gaze,\n"
    rows += "alba,1,3,ada,,weak\nalba,2,5,ben,,weak\n"
    (tmp_path / "t.csv").write_text(rows, "utf-8")
    assert "obygaze agree t --column Gaze" in typed_again(
        tmp_path, ["t.csv", "-o", "t"]
    )


@pytest.mark.parametrize(
    ("name", "first", "is_asked"),
    [("Coder", 3, True), ("Coder", 4, False), ("Person", 3, False)],
)
def test_people_whose_rows_overlap_may_be_annotators(tmp_path, name, first, is_asked):
    """Rows of two coders with different times became clips of one."""
    rows = f"alba,0,4,male,ada\nalba,4,7,female,ada\nbrug,0,4,male,ada\nbrug,{first},9,male,ben\n"
    (tmp_path / "t.csv").write_text(f"Film,Start,End,Gaze,{name}\n{rows}", "utf-8")
    said = typed_again(tmp_path, ["t.csv", "-o", "t"])
    assert (f"likely answer: --map annotator={name}" in said) == is_asked


def test_errors_of_formulas_are_in_the_line_that_is_offered(tmp_path: Path) -> None:
    rows = (
        "Film,Start,End,Gaze,Score\nalba,0,4,yes,#N/A\nalba,4,8,no,3\nalba,8,9,NA,2\n"
    )
    (tmp_path / "t.csv").write_text(rows, "utf-8")
    said = typed_again(tmp_path, ["t.csv", "-o", "t"])
    assert "or pass --word '#N/A=?' if these answers are unknown" in said
    assert [row[-2:] for row in rows_of(tmp_path, "Gaze", "Score")] == [
        ("yes", ""),
        ("no", "3"),
        ("", "2"),
    ]
    # An error in place of a time must be corrected.
    (tmp_path / "t.csv").write_text(rows.replace("alba,4", "alba,#N/A"), "utf-8")
    refused = call_obygaze("manifest", "import", "t.csv", "-o", "u", cwd=tmp_path)
    assert (
        "Try: correct the table in each place that is listed, then: " in refused.stderr
    )


def test_headers_of_two_people_may_differ_in_case(tmp_path: Path) -> None:
    sheets = {"Anna": [["Clip", "Film", "Stimmung"], ["a1", "Alba", "ruhig"]]}
    sheets["Ben"] = [["clip", "FILM ", "stimmung"], ["a1", "alba", "wild"]]
    write_workbook(tmp_path / "t.xlsx", sheets)
    said = typed_again(tmp_path, ["t.xlsx", "-o", "t"])
    assert "read as columns of the first table: 'clip', 'FILM', 'stimmung'" in said
    moods = [one.own for one in read_manifest("t", workspace=tmp_path).annotations]
    assert moods == [{"Stimmung": "ruhig"}, {"Stimmung": "wild"}]


@pytest.mark.parametrize(
    ("header", "word", "target"),
    [
        ("Watched", "Gewalt", "watched"),
        ("Gesehen", "watched", "watched"),
        ("seen", "yes", "seen"),
    ],
)
def test_a_column_that_may_state_what_was_watched(tmp_path, header, word, target):
    """Kept under its own name, it left out what was watched without a mark."""
    rows = (
        f"clip_id,movie_id,start_s,end_s,Gewalt,{header}\n1,a,0,9,,{word}\n2,a,0,4,x,\n"
    )
    (tmp_path / "t.csv").write_text(rows, "utf-8")
    said = typed_again(tmp_path, ["t.csv", "-o", "t"])
    assert f"{header!r} may state what was watched" in said
    assert f"likely answer: --map {target}={header}" in said
    assert [row[-1] for row in rows_of(tmp_path, target)] == [word, ""]


def test_whole_numbers_beside_a_frame_rate_are_frames(tmp_path: Path) -> None:
    """Taken as seconds, they were 24 times too long."""
    rows = "Film,In,Out,fps,File\nalba,0,23,24,alba.mp4\nalba,24,71,24,alba.mp4\n"
    (tmp_path / "t.csv").write_text(rows, "utf-8")
    said = typed_again(tmp_path, ["t.csv", "-o", "t"])
    assert "for seconds, pass --map start_s=In --map end_s=Out" in said
    assert [row[1:3] for row in rows_of(tmp_path)] == [(0.0, 1.0), (1.0, 3.0)]
    (tmp_path / "t.csv").write_text(rows.replace("In", "In (s)"), "utf-8")
    refused = call_obygaze("manifest", "import", "t.csv", "-o", "u", cwd=tmp_path)
    assert "--map 'start_s=In (s)' --map end_s=Out" in refused.stderr

import re
from pathlib import Path
from typing import Any

import pytest
from support.cli import call_obygaze

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.tables import SAVE_AS
from obygaze_features.manifest.adapters.csv_table import read
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.io import read_manifest, rows_to_csv
from obygaze_features.manifest.model import Manifest

COLUMNS = {
    **{"clip_id": "shot", "movie_id": "=tt99", "level": "verdict", "concepts": "tags"},
    **{"fold:club": "group", "separator": ","},
}
WORDS = {"oui": "S", "non": "EN", "regard": "Look", "lumiere": "Lighting"}
WORDS |= {"Lighting": "visual"}
TABLE = """shot;verdict;tags;group;start_s;end_s;remark
a1;oui;regard, Lighting ,Body;0;1;2.5;"x;y"
a2;non;;1;;;
a3;Hard Neg;lumiere;;;;z
a4;S;;;;;
"""


def write(folder: Path, table: str = TABLE) -> Path:
    path = folder / "table.csv"
    path.write_text(table, encoding="utf-8")
    return path


def test_columns_and_words_are_those_that_are_typed(tmp_path: Path) -> None:
    manifest = read(write(tmp_path), COLUMNS, words=WORDS).manifest
    found = [(clip.clip_id, clip.level, clip.concepts) for clip in manifest]
    # The table has a word that the program knows by itself.
    assert found == [
        ("a1", "S", ("Look", "Lighting", "Body")),
        ("a2", "EN", ()),
        ("a3", "HN", ("Lighting",)),
        ("a4", "S", ()),
    ]
    assert manifest.header.concepts["Lighting"] == "visual"
    assert [clip.fold("club") for clip in manifest] == [0, 1, None, None]


def test_violations_are_told_by_the_names_of_the_table(tmp_path: Path) -> None:
    rows = "shot;verdict;tags;group\na1;yes;regard,sun;x\na1;;Look,regard;\n  ;oui;;\n"
    table = write(tmp_path, rows)
    with pytest.raises(FixInput) as caught:
        read(table, COLUMNS, words=WORDS)
    problems = (
        f"{table}:2: column 'verdict': unknown level 'yes'",
        f"{table}:2: column 'tags': unknown concept 'sun'; likely answer: --word sun=visual",
        f"{table}:3: column 'shot': 'a1' is already on line 2",
        f"{table}:4: column 'shot': is empty, but required in each row",
        f"{table}:2: column 'group': 'x' is not a whole number",
        "the command below has the likely answers; check each",
    )
    for line, problem in zip(caught.value.details, problems, strict=True):
        assert line.startswith(problem)
    way = (
        "correct the table in each place that is listed, then: obygaze manifest import"
    )
    assert str(caught.value.hint).startswith(way)


def test_slips_and_several_concepts_in_a_cell_are_said(tmp_path: Path) -> None:
    """Separated by another sign than elsewhere, or with a letter missing."""
    words = ("Gaze", "Gaz", "Blick|Arm", "Blick, Arm", "Blicke", "None", "NONE")
    rows = [f"a-{n};alba;{word}" for n, word in enumerate(words)]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["clip_id;movie_id;concepts", *rows, ""]))
    with pytest.raises(FixInput) as caught:
        read(table)
    said = "\n".join(caught.value.details)
    assert "'Gaz' (did you mean 'Gaze'?); likely answer: --word Gaz=Look" in said
    assert (
        "'Blick' (did you mean 'Blicke'?); likely answer: --word Blick=visual" in said
    )
    assert (
        "'Blick, Arm'; if it is a list of concepts, separate them with |; likely"
        in said
    )
    assert "'Arm'; likely answer: --word Arm=visual" in said
    assert "'None'; likely answer: --word 'None=?'" in said


EXCEL = """Clip;Film;Start;Ende;Stufe;;\r
Amélie 1;Le fabuleux destin;0:01:10;00:01:20,5;S;;\r
;;;;;;\r
Amélie 2;Le fabuleux destin;1:00:00,25;3600,75;HN;;\r
"""
EXCEL_COLUMNS = {"clip_id": "Clip", "movie_id": "Film"} | {
    **{"start_s": "Start", "end_s": "Ende", "level": "Stufe"}
}


@pytest.mark.parametrize("annotators", [("",), ("ada", "Bén")])
def test_an_exported_table_is_read_as_the_same_manifest(tmp_path, annotators) -> None:
    """Apart from the rule of several annotators, which a mapping states."""
    lines = ["shot,film,annotator,start_s,end_s,level,mood,scene"]
    for film in ("Taxi noir", "lake", "tt0467406"):
        for n in (1, 2):
            cells = f"{2.5 * n},{2.5 * n + 2.5},HN,calm,{n}"
            lines += [f"{film}_{n},{film},{name},{cells}" for name in annotators]
    (tmp_path / "t.csv").write_text("\n".join(lines), "utf-8")
    typed = ["t.csv", "--map", "clip_id=shot", "--map", "movie_id=film"]
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "Taxi noir.mp4").touch()
    for line in (
        ["import", *typed, "-o", "first"],
        ["link", "first", "films"],
        ["export", "first", "sent.csv"],
        ["import", "sent.csv", "-o", "second"],
    ):
        done = call_obygaze("manifest", *line, cwd=tmp_path).ok()
        is_lost = line[0] == "export" and len(annotators) > 1
        assert ("not exported: rule" in done.stderr) == is_lost
    assert "Warning" not in done.stderr
    assert "is now" not in done.stderr
    first = read_manifest(tmp_path / "manifests" / "first.toml")
    second = read_manifest(tmp_path / "manifests" / "second.toml")
    assert first.clips == second.clips
    assert first.columns == second.columns
    assert first.clips[0].extra["movie_title"] == "Taxi noir"


PLACES = "clip_id,movie_id,start_s,end_s,film_start_s,film_end_s,video\n"


def test_times_in_a_file_are_not_taken_without_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{PLACES}a-1,a,2,5,102,105,\n")
    with pytest.raises(FixInput) as caught:
        read(path)
    (line,) = caught.value.details
    assert "column 'start_s': start_s without a file is a time in the film" in line
    path.write_text(f"{PLACES}a-1,a,2,5,102,105,one.mp4\na-2,a,7,9,7.0,9.00,\n")
    assert [clip.start_s for clip in read(path).manifest] == [2.0, 7.0]


WITHOUT_FILMS = "nr,level,Gewalt\n1,S,stark\n2,EN,?\n3,HN,n/a\n"


def test_a_table_without_films_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(WITHOUT_FILMS.replace("n/a", "mild"))
    words = ("manifest", "import", "t.csv", "-o", "t", "--map", "clip_id=nr")
    refused = call_obygaze(*words, cwd=tmp_path)
    assert refused.code == 1
    assert "pass --map movie_id=COLUMN for the column of the films" in refused.stderr
    assert "--films none if there is no such column" in refused.stderr
    done = call_obygaze(*words, "--films", "none", cwd=tmp_path).ok()
    assert "3 clips, films not stated (EN 1, HN 1, S 1)" in done.stdout
    manifest = read_manifest("t", workspace=tmp_path)
    assert not manifest.has_films and manifest.films == ()
    facts = [(clip.clip_id, clip.movie_id, clip.scene) for clip in manifest]
    assert facts == [("1", "", None), ("2", "", None), ("3", "", None)]
    # Its export is refused in the same words, and read with the option.
    (tmp_path / "t.csv").write_bytes(rows_to_csv(manifest))
    with pytest.raises(FixInput, match="no row of the table has a film") as caught:
        read(tmp_path / "t.csv")
    assert "--films none" in (caught.value.hint or "")
    again = read(tmp_path / "t.csv", films="none").manifest
    assert again.clips == manifest.clips


def test_rows_of_a_table_have_a_film_or_none(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("clip_id,movie_id\n1,lake\n2,\n3,\n")
    with pytest.raises(FixInput, match="2 problems") as caught:
        read(table)
    (line,) = caught.value.details
    empty = "column 'movie_id': is empty, but required in each row"
    assert line.startswith(f"{table}:3: {empty}") and line.endswith("(2 times)")
    with pytest.raises(FixInput) as caught:
        read(table, films="none")
    (line,) = caught.value.details
    stated = "column 'movie_id': 'lake' is a film, but films ="
    assert line.startswith(f"{table}:2: {stated}")


def test_ids_of_a_table_without_films_are_made_of_its_cells(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(WITHOUT_FILMS.replace("n/a", "mild"))
    read_table = read(tmp_path / "t.csv", films="none", form="x{nr:03d}")
    assert read_table.manifest.clip_ids == ("x001", "x002", "x003")
    (note,) = read_table.notes
    kept = "nr (numbers from 1 to 3), Gewalt (2 texts, empty: 1)"
    assert note == f"columns kept under their own name: {kept}"
    counted = read(tmp_path / "t.csv", films="none", form="c{count}").manifest
    assert counted.clip_ids == ("c1", "c2", "c3")
    for options in ({"form": "{movie_id}-{nr}"}, {"columns": {"movie_id": "Gewalt"}}):
        with pytest.raises(FixUsage, match="got a column for movie_id"):
            read(tmp_path / "t.csv", films="none", **options)  # type: ignore[arg-type]


def test_a_table_that_excel_wrote(tmp_path: Path) -> None:
    table = tmp_path / "excel.csv"
    table.write_bytes(b"\xef\xbb\xbf" + EXCEL.encode())
    imported = read(table, EXCEL_COLUMNS)
    first, second = imported.manifest
    assert (first.clip_id, first.movie_id) == ("Amelie_1", "Le_fabuleux_destin")
    assert (first.start_s, first.end_s, first.level) == (70.0, 80.5, "S")
    assert (second.start_s, second.end_s) == (3600.25, 3600.75)
    assert second.extra == {"movie_title": "Le fabuleux destin"}
    assert imported.manifest.columns == ("movie_title",)
    is_of_the_id = ["'Amélie 1' is now 'Amelie_1'" in one for one in imported.warnings]
    assert is_of_the_id == [True, False]


IN_A_FILE = "start_frame,end_frame,framerate,video\n0,9,25,lake.mp4\n"
IN_A_FILE += "a-2,lake,10,19,25,lake.mp4\na-3,lake,0,9,25,reel2.mp4"
# A table that must not be read, how it is read, and what the refusal says.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("film_start_s,film_end_s\nsoon,70", {}, "'soon' is not a time in seconds"),
    (
        "film_start_s,film_end_s\n70,",
        {},
        "both film_start_s and film_end_s, or neither",
    ),
    ("film_start_s,film_end_s\n70,60", {}, "expected an end after the start 70.0"),
    ("start_s,start\n10,0:00:11", {}, "differs from start_s, 10 s"),
    ("framerate\nfast", {}, "'fast' is not a frame rate"),
    ("framerate\n25\na-2,lake,24", {}, "as in other rows of the film lake, got"),
    ("start_s,end_s\n10.03.2024,9", {}, "'10.03.2024' is not a time in seconds"),
    ("start_s,end_s\n0:01:99,999", {}, "'0:01:99' is not a time in seconds"),
    (IN_A_FILE, {}, "frames give no times in the file lake.mp4"),
    ("concepts\nglint", {"words": {"glint": "visula"}}, "got 'visula'"),
    ("verdict\nS", {"columns": {"lvel": "verdict"}}, "unknown target 'lvel'"),
    ("n\none", {"form": "{movie_id}-{n:03d}"}, "'one' is not a whole number"),
    ("n\n", {"form": "{movie_id}-{n}"}, "is empty, but --id makes the id of it"),
    ("n\n1", {"form": "lake"}, "--id: expected columns in braces"),
    ("n\n1", {"form": "{movie_id}-{n.real}"}, "required column is missing"),
]


@pytest.mark.parametrize(("cells", "options", "problem"), REFUSED)
def test_a_table_that_must_not_be_read_is_refused(tmp_path, cells, options, problem):
    header, _, row = cells.partition("\n")
    table = tmp_path / "t.csv"
    table.write_text(f"clip_id,movie_id,{header}\na-1,lake,{row}\n", encoding="utf-8")
    with pytest.raises((FixInput, FixUsage)) as caught:
        read(table, **options)
    assert problem in f"{caught.value} {caught.value.details}"


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("a-1,lake,S\na-2,Lake,EN\n", "'Lake' may be the film 'lake'; if not"),
        ("a-1,lake,S\nA-1,lake,EN\n", "'A-1' differs from 'a-1'.*only in case"),
        ("Amélie 1,a,S\nAmelie 1,a,S\n", "both become 'Amelie_1'; rename one"),
    ],
)
def test_ids_that_a_person_may_confuse_are_refused(tmp_path, rows, problem) -> None:
    """One film was two films, of which one trained and the other tested."""
    (tmp_path / "t.csv").write_text(f"clip_id,movie_id,level\n{rows}", "utf-8")
    with pytest.raises(FixInput) as caught:
        read(tmp_path / "t.csv")
    assert re.search(problem, caught.value.details[0])


@pytest.mark.parametrize(
    ("column", "options"),
    [
        ("clip_id", {"form": "{movie_id}-{count:03d}"}),
        ("level", {"columns": {"level": "=S"}}),
        ("level", {"columns": {"coder:ada": "Ada", "coder:ben": "Ben"}}),
    ],
)
def test_a_column_whose_name_is_taken_is_said_to_be_left_out(tmp_path, column, options):
    table = tmp_path / "t.csv"
    table.write_text("clip_id,movie_id,level,Ada,Ben\na,lake,EN,S,S\n", "utf-8")
    (warning,) = read(table, **options).warnings
    sentence = f"the column {column!r} of the table is not imported, because an option"
    assert warning == f"{sentence} sets {column} in a different way"


def test_two_tables_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = []
    for folder, level in (("ada", "S"), ("ben", "EN")):
        paths.append(tmp_path / folder / "clips.csv")
        paths[-1].parent.mkdir()
        paths[-1].write_text(f"clip_id,movie_id,level\na,lake,{level}\n", "utf-8")
    with pytest.raises(FixUsage, match="two tables have the same file name"):
        read(paths, rule="agreed")


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
    options = ("--map", "movie_id=film")
    assert imported(tmp_path, data, *options)[-1] == f"  Try: {SAVE_AS}"


def test_a_problem_of_many_rows_is_one_line_with_its_first_row(tmp_path: Path) -> None:
    rows = "".join(f"c{number},m,oui\n" for number in range(40))
    lines = imported(tmp_path, f"clip_id,movie_id,level\n{rows}".encode())
    assert lines[0].startswith("t.csv:2: column 'level': unknown level 'oui'")
    assert lines[0].endswith("; likely answer: --word oui=S (40 times)")
    assert "cannot be imported: 40 problems" in " ".join(lines)
    rows = rows.replace("oui", "S,,")
    ragged = imported(tmp_path, f"clip_id,movie_id,level\n{rows}".encode())
    assert "expected 3 cells as in the header, got 5 (40 times)" in ragged[0]


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
    empty = "all cells but the ids are empty; delete the row if it is a row of totals"
    assert lines[0] == f"t.csv:4: {empty}"
    # Without times, a clip may have ids alone: nobody has annotated it.
    rows = [",".join(row.split(",")[:2]) for row in TOTALS.splitlines()]
    without_times = "\n".join(rows).replace("Total", "l-3").encode()
    lines = imported(tmp_path, without_times, "--force")
    assert lines[0] == "manifests/t.toml: 3 clips of 2 films"


def test_a_last_row_that_is_called_total_is_refused_also_with_a_level(tmp_path) -> None:
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


CLOCKS = "clip_id,movie_id,start_s,end_s\na-1,a,0:00,1:05\na-2,a,1:05,2:10.5\n"
LONG_CLOCKS = "clip_id,movie_id,start_s,end_s\na-1,a,0:00,0:01:05\n"
RATED = """film,from,to,who,rating
A B,0,5,ada,1
A B,0,5,ben,2
A B,5,9,ben,3
C,0,5,ada,0
"""


def table_of(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def spans(manifest: Manifest) -> list[tuple[float | None, float | None]]:
    return [(clip.start_s, clip.end_s) for clip in manifest]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ("m:ss", [(0.0, 65.0), (65.0, 130.5)]),
        ("h:mm", [(0.0, 3900.0), (3900.0, 7830.0)]),
    ],
)
def test_an_option_says_what_a_time_of_two_numbers_is(tmp_path, times, expected):
    path = table_of(tmp_path, CLOCKS)
    with pytest.raises(FixInput) as caught:
        read(path)
    # 0:00 is zero in both; the other start is 1:05, in line 3.
    starts, ends, _ = caught.value.details
    said = "'1:05' may be minutes or hours: 65 s with --map times=m:ss, 3900 s with"
    assert starts.startswith(f"{path}:3: column 'start_s': {said}")
    assert ends.startswith(f"{path}:2: column 'end_s': {said}")
    typed = f"obygaze manifest import {path} -o t --map times=m:ss"
    assert caught.value.hint == typed
    assert spans(read(path, {"times": times}).manifest) == expected
    # Three numbers are hours, whatever two are.
    long = table_of(tmp_path, LONG_CLOCKS)
    assert spans(read(long, {"times": times}).manifest) == [(0, 65)]


def test_the_clips_of_a_film_are_counted_once_for_all_annotators(tmp_path) -> None:
    columns = {"movie_id": "film", "start_s": "from", "end_s": "to", "annotator": "who"}
    path = table_of(tmp_path, RATED)
    form = "{movie_id}-{count:02d}"
    manifest = read(path, columns, form=form, rule="agreed").manifest
    assert manifest.clip_ids == ("A_B-01", "A_B-02", "C-01")
    who = [(one.clip_id, one.annotator) for one in manifest.annotations]
    names = ["ada", "ben", "ben", "ada"]
    ids = ["A_B-01", "A_B-01", "A_B-02", "C-01"]
    assert who == [*zip(ids, names, strict=True)]
    # 1 s is 1.0 s, whoever writes it.
    exact = "movie_id,start_s,end_s,annotator\na,1,2.50,ada\na,1.0,2.5,ben\n"
    again = read(table_of(tmp_path, exact, "exact.csv"), form="{movie_id}-{count}")
    assert again.manifest.clip_ids == ("a-1",)
    # A film is one, however its accents were typed.
    typed = "movie_id,start_s,end_s\nAm\u00e9lie,1,2\nAme\u0301lie,2,3\n"
    again = read(table_of(tmp_path, typed, "typed.csv"), form="{movie_id}-{count}")
    assert again.manifest.clip_ids == ("Amelie-1", "Amelie-2")
    # Without times nobody knows which rows are about one clip.
    columns |= {"start_s": "=", "end_s": "=", "from": "from", "to": "to"}
    with pytest.raises(FixInput) as caught:
        read(path, columns, form=form, rule="agreed")
    (line, *_) = caught.value.details
    assert "requires times if there are several annotators (4 times)" in line


def test_a_word_may_mean_several_concepts(tmp_path: Path) -> None:
    words = {"mise": "Look|Clothing", "robe": "Clothing"}
    path = table_of(tmp_path, "clip_id,movie_id,concepts\na-1,a,robe|mise\n")
    manifest = read(path, words=words).manifest
    assert manifest.clips[0].concepts == ("Clothing", "Look")
    with pytest.raises(FixUsage, match="unknown concept 'Cloth', ") as caught:
        read(path, words={"mise": "Look|Cloth"})
    assert "--word 'mise=Look|Cloth'" in caught.value.message


def test_unclear_times_of_a_joined_table_are_asked_about(tmp_path: Path) -> None:
    clips = table_of(tmp_path, "clip_id,movie_id,start_s,end_s\na-1,a,65,70\n")
    rows = "clip_id,start_s,end_s,mood\na-1,0:05,0:10,joy\n"
    moods = table_of(tmp_path, rows, "m.csv")
    with pytest.raises(FixInput) as caught:
        join(read(clips).manifest, moods)
    assert "'0:05' may be minutes or hours" in caught.value.details[0]


def test_words_in_other_capitals_mean_the_same_unless_both_are_listed(tmp_path) -> None:
    words = {"s": "EN", "ja": "S", "Oui": "S", "oui": "HN"}
    words |= {"Licht": "visual", "LICHT!": "Body", "licht!": "Look"}
    rows = "clip_id,movie_id,level,concepts\na,f,JA,LICHT\nb,f,oui,licht\n"
    path = table_of(tmp_path, f"{rows}c,f,Oui,Licht|licht!\nd,f,S,\ne,f,s,\n")
    made = read(path, words=words)
    clips = made.manifest.clips
    # A word of the vocabulary is what it is.
    assert [clip.level for clip in clips] == ["S", "HN", "S", "S", "EN"]
    assert not any("vocabulary" in warning for warning in made.warnings)
    levels = {"S": ["JA", "Oui", "S"], "HN": ["oui"], "EN": ["s"]}
    assert made.facts["level_words"] == levels
    licht = ("Licht",)
    assert [clip.concepts for clip in clips[:3]] == [licht, licht, (*licht, "Look")]
    unknown = table_of(tmp_path, "clip_id,movie_id,level\na,f,OUI\n", "u.csv")
    with pytest.raises(FixInput) as caught:
        read(unknown, words=words)
    assert "unknown level 'OUI'" in caught.value.details[0]


def test_a_word_that_is_not_known_is_no_level_and_no_concept(tmp_path: Path) -> None:
    rows = "clip_id,movie_id,level,concepts\na,f,gern,Look|Dings\nb,f,S,why?|Dings\n"
    path = table_of(tmp_path, rows)
    words = {"gern": "?", "Dings": "?", "why?": "visual"}
    clips = read(path, words=words).manifest.clips
    assert [clip.level for clip in clips] == ["", "S"]
    assert [clip.concepts for clip in clips] == [("Look",), ("why?",)]
    # A coder who cannot tell the concepts of a clip did not say that there are none.
    rows = (
        "clip_id,movie_id,level,concepts\na,f,S,?\nb,f,?,?\nc,f,,?|Look\nd,f,S,Look\n"
    )
    path = table_of(tmp_path, rows)
    with pytest.raises(FixInput) as caught:
        read(path, words={"?": "?"})
    (problem,) = caught.value.details
    assert problem.startswith(f"{path}:2: column 'concepts': expected concepts, got ?")
    assert problem.endswith("(2 times)")
    with pytest.raises(FixUsage, match="expected a level or a concept, got 'Bdy'"):
        read(path, words={"Dings": "Bdy"})

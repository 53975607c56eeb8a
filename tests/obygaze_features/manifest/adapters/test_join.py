from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.workbooks import write_workbook

from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
)
from obygaze_features.manifest.adapters.join_table import join, join_columns
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest

CLIPS = (
    Clip("tt1-001", "tt1", level="S", extra={"annotator": "A1"}),
    Clip("tt1-002", "tt1", level="EN", extra={"annotator": "A1"}),
    Clip("tt2-001", "tt2", level="HN", extra={"annotator": "A2"}),
)
MANIFEST = Manifest("films", Header("films"), CLIPS, ("annotator",))
GRAPHS = """clip_id,movie_id,emotions,relation
tt1-001,tt1,joy| fear ,friends
tt1-001,tt1,fear|anger,
tt2-001,tt2,,siblings
tt9-001,tt9,joy,
"""


def table(folder: Path, text: str = GRAPHS) -> Path:
    path = folder / "graphs.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_values_of_all_rows_of_a_clip_are_joined_once_each(tmp_path: Path) -> None:
    joining = join(MANIFEST, table(tmp_path))
    joined, warnings = joining.manifest, joining.warnings
    assert joined.columns == ("annotator", "emotions", "relation")
    emotions = [clip.values("emotions") for clip in joined]
    assert emotions == [("joy", "fear", "anger"), (), ()]
    assert [clip.extra["relation"] for clip in joined] == ["friends", "", "siblings"]
    assert [clip.level for clip in joined] == ["S", "EN", "HN"]
    assert joined.header.sources[-1].file == "graphs.csv"
    assert [warning.partition(": ")[2] for warning in warnings] == [
        "1 of 3 clips without a row",
        "ids of no clip of the manifest: tt9-001",
        "columns not joined, because each manifest has its own: movie_id",
    ]
    assert joined.where("fear in emotions and annotator == A1").clip_ids == ("tt1-001",)


def test_titles_and_times_of_a_table_of_this_program_are_no_own_columns(tmp_path):
    clip = Clip("a", "Ete", start_s=0, end_s=5, extra={"movie_title": "Été"})
    manifest = Manifest("films", Header("films"), (clip,), ("movie_title",))
    scores = "clip_id,movie_title,start_s,end_s,start,end,score\na,Été,0,5,0:00:00,0:00:05,.5\n"
    joined = join(manifest, table(tmp_path, scores)).manifest
    assert joined.columns == ("movie_title", "score")
    # Columns of these names of a table of another person are its own.
    moods = table(tmp_path, "clip_id,start_s,end_s,start,end\na,0,5,calm,wild\n")
    assert join(manifest, moods).manifest.columns == ("movie_title", "start", "end")
    named = join(manifest, table(tmp_path, scores), {"end": "end"}).manifest
    assert named.columns[1:] == ("end", "score")
    clocks = table(tmp_path, "clip_id,start,end\na,0:00:00,0:00:05\n")
    assert join(manifest, clocks).manifest.columns[1:] == ("start", "end")
    other = table(tmp_path, "clip_id,movie_title\na,Été 85\n")
    with pytest.raises(AlreadyThere):
        join(manifest, other)
    titled = table(tmp_path, "clip_id,name,score\na,Été 85,1\n")
    with pytest.raises(AlreadyThere):
        join(manifest, titled, {"movie_title": "name"})
    titles = table(tmp_path, "clip_id,movie_title\na,Été 85\n")
    (renamed,) = join(manifest, titles, force=True).manifest
    assert renamed.extra["movie_title"] == "Été 85"


def test_a_table_of_films_is_joined_by_film_and_only_its_columns_are_shown(tmp_path):
    path = tmp_path / "decades.csv"
    path.write_text("movie_id,decade\ntt1,1990s\ntt9,2000s\n", encoding="utf-8")
    joining = join(MANIFEST, path)
    joined, warnings = joining.manifest, joining.warnings
    assert [clip.extra["decade"] for clip in joined] == ["1990s", "1990s", ""]
    assert [warning.partition(": ")[2] for warning in warnings] == [
        "joined by movie_id: all clips of a film get its values",
        "1 of 3 clips without a row",
        "ids of no film of the manifest: tt9",
    ]
    path.write_text("film,decade\ntt2,2010s\n", encoding="utf-8")
    mapped = join(MANIFEST, path, {"movie_id": "film"}).manifest
    assert [clip.extra["decade"] for clip in mapped] == ["", "", "2010s"]
    path.write_text("movie_id,decade\ntt8,2010s\n", encoding="utf-8")
    with pytest.raises(NotFound, match="no film of the manifest has an id") as caught:
        join(MANIFEST, path)
    assert caught.value.hint == "the manifest has tt1, tt2"
    write_manifest(joined, tmp_path / "manifests" / "films.toml")
    path.write_text("movie_id,decade\ntt1,1980s\n", encoding="utf-8")
    shown = join_columns("films", path, force=True, workspace=tmp_path)
    assert shown.columns == {"decade": 2}


@pytest.mark.parametrize("blank", ["", " "])
def test_a_row_without_an_id_is_a_row_of_no_clip(tmp_path: Path, blank: str) -> None:
    rows = f"clip_id,mood\ntt1-001,joy\n{blank},TOTAL\n"
    joining = join(MANIFEST, table(tmp_path, rows))
    joined, warnings = joining.manifest, joining.warnings
    assert [clip.extra["mood"] for clip in joined] == ["joy", "", ""]
    assert warnings[-1].endswith("not joined, because clip_id is empty: 1 row")
    rows = f"movie_id,decade\ntt1,1990s\n{blank},none\n"
    joining = join(MANIFEST, table(tmp_path, rows))
    joined, warnings = joining.manifest, joining.warnings
    assert [clip.extra["decade"] for clip in joined] == ["1990s", "1990s", ""]
    assert warnings[-1].endswith("not joined, because movie_id is empty: 1 row")
    with pytest.raises(NotFound, match="no clip of the manifest has an id"):
        join(MANIFEST, table(tmp_path, f"clip_id,mood\n{blank},TOTAL\n"))


def test_rows_of_annotators_are_not_mixed(tmp_path: Path) -> None:
    path = table(tmp_path, "clip_id,annotator,mood\ntt1-001,A1,calm\ntt1-001,A2,wild\n")
    with pytest.raises(FixInput, match="several annotators for one clip: A1, A2"):
        join(MANIFEST, path, force=True)


def test_a_licence_of_the_manifest_is_not_that_of_the_table(tmp_path: Path) -> None:
    path = table(tmp_path, "clip_id,movie_id,mood\ntt1-001,tt1,calm\n")
    assert join(MANIFEST, path).notes == []
    stated = replace(MANIFEST, header=Header("films", licence="CC-BY-4.0"))
    assert "licence and citation of the manifest are unchanged" in str(
        join(stated, path).notes
    )


def test_the_annotator_of_joined_columns_is_not_that_of_the_levels(tmp_path) -> None:
    manifest = Manifest("films", Header("films"), (Clip("a", "lake", level="S"),))
    joining = join(manifest, table(tmp_path, "clip_id,annotator,mood\na,cleo,sad\n"))
    assert joining.manifest.columns == ("mood",)
    left_out = "columns not joined, because each manifest has its own: annotator"
    assert left_out in str(joining.warnings)


def test_a_sheet_of_a_workbook_is_joined_and_the_likely_one_is_said(tmp_path) -> None:
    moods = [["clip_id", "mood"], ["tt1-001", "joy"], ["tt1-002", "fear"]]
    sheets = {"Notes": [["about"], ["moods"]], "Moods": moods}
    path = write_workbook(tmp_path / "book.xlsx", sheets)
    joining = join(MANIFEST, path)
    assert [clip.extra["mood"] for clip in joining.manifest] == ["joy", "fear", ""]
    said = f"{path}: the sheet 'Moods' was read; --sheet selects a different sheet"
    assert joining.warnings[0].startswith(said)
    named = join(MANIFEST, path, sheet="Moods")
    assert "the sheet" not in str(named.warnings)
    with pytest.raises(FixInput, match="cannot be joined"):
        join(MANIFEST, path, sheet="Notes")
    write_manifest(MANIFEST, tmp_path / "manifests" / "films.toml")
    words = ("manifest", "join", "films", "book.xlsx", "--sheet", "Moods")
    call_obygaze(*words, cwd=tmp_path).ok()


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("clip_id", "both become the clip 'Amelie_1'"),
        ("movie_id", "may both be the film Amelie_1"),
    ],
)
def test_two_names_of_a_table_do_not_become_one_id(tmp_path, key, problem) -> None:
    manifest = Manifest("m", Header("m"), (Clip("Amelie_1", "Amelie_1"),))
    table = tmp_path / "moods.csv"
    table.write_text(f"{key},mood\nAmélie 1,joy\nAmelie 1,fear\n", "utf-8")
    with pytest.raises(FixInput, match=f"'Amélie 1' and 'Amelie 1' {problem}"):
        join(manifest, table)


def test_a_clip_that_both_count_in_frames_is_the_same_by_its_frames(tmp_path) -> None:
    """Its times are those of the copy of the film that the manifest is linked to."""
    frames = {"start_frame": "25", "end_frame": "49", "framerate": "25"}
    clip = Clip("a-1", "late", start_s=2.52, end_s=3.52, extra=frames)
    manifest = Manifest("films", Header("films"), (clip,), tuple(frames))
    header = "clip_id,movie_id,start_s,end_s,start_frame,end_frame,framerate,mood"
    rows = f"{header}\na-1,late,1,2,25.0,49.0,25,calm\n"
    (joined,) = join(manifest, table(tmp_path, rows)).manifest
    assert joined.extra["mood"] == "calm"
    assert (joined.start_s, joined.end_s) == (2.52, 3.52)
    other = rows.replace("25.0,49.0", "26,49").replace(",1,2,", ",2.52,3.52,")
    with pytest.raises(Mismatch, match="the frames 26 to 49 at 25 per second"):
        join(manifest, table(tmp_path, other))


DECIDED = Manifest(
    "coded",
    Header("coded", concepts={"Look": "visual", "Light": "visual"}),
    (
        Clip("a", "f", level="S", concepts=("Look",), extra={"mood": "calm"}),
        Clip("b", "f", extra={"mood": "", "differs": "mood|level|Look"}),
        Clip("c", "g", extra={"mood": "Dull", "differs": "level"}),
    ),
    ("mood", "differs"),
)


def test_a_join_never_empties_cells_that_nobody_calls_unknown(tmp_path: Path) -> None:
    path = table(tmp_path, "clip_id,mood\nb,sad\n")
    with pytest.raises(AlreadyThere) as refused:
        join(DECIDED, path)
    assert refused.value.message == (
        "the manifest has these columns already: mood; replacing them would empty 2 cells with a"
        " value (mood 2)"
    )
    with pytest.raises(FixInput, match=r"would empty 2 cells with a value \(mood 2\)"):
        join(DECIDED, path, force=True)
    # An update leaves the others, and only ? empties a cell.
    path.write_text("clip_id,mood\na,\nb,sad\n")
    with pytest.raises(FixInput, match=r"would empty 1 cell with a value \(mood 1\)"):
        join(DECIDED, path, update=True)
    path.write_text("clip_id,mood\na,?\nb,sad\nc,sad\n")
    for options in ({"update": True}, {"force": True}):
        joined = join(DECIDED, path, **options).manifest  # type: ignore[arg-type]
        assert [clip.extra["mood"] for clip in joined] == ["", "sad", "sad"]
    with pytest.raises(FixUsage, match="--update changes some cells"):
        join(DECIDED, path, update=True, force=True)


def test_an_update_changes_the_cells_of_its_rows_and_leaves_all_others(
    tmp_path,
) -> None:
    text = "clip_id,movie_id,mood,level,concepts,ada\nb,f,dull,hard negative,Light|Look,x\n"
    joining = join(DECIDED, table(tmp_path, text), update=True)
    first, second, third = joining.manifest
    assert (first, third) == (DECIDED.clips[0], DECIDED.clips[2])
    assert (second.level, second.concepts) == ("HN", ("Light", "Look"))
    # A word has the spelling of the other clips, and nothing is open any more.
    assert second.extra == {"mood": "Dull", "differs": ""}
    assert joining.changed == {"mood": 1, "level": 1, "concepts": 1}
    assert joining.manifest.columns == DECIDED.columns
    assert joining.warnings[-1].endswith("not in the manifest: movie_id, ada")
    text = "clip_id,level,concepts\nb,sicher,Licht\n"
    with pytest.raises(FixInput) as refused:
        join(DECIDED, table(tmp_path, text), update=True)
    level, concept = refused.value.details
    assert "column 'level': unknown level 'sicher', expected EN, HN, NS, S" in level
    assert (
        "column 'concepts': unknown concept 'Licht' (did you mean 'Light'?)" in concept
    )
    words = {"sicher": "S", "Licht": "Look"}
    updated = join(DECIDED, table(tmp_path, text), words=words, update=True).manifest[
        "b"
    ]
    assert (updated.level, updated.concepts) == ("S", ("Look",))
    with pytest.raises(FixInput, match="no column that the manifest has, too"):
        join(DECIDED, table(tmp_path, "clip_id,ada\nb,x\n"), update=True)


def test_two_levels_of_a_clip_are_a_problem_of_the_table(tmp_path: Path) -> None:
    path = table(tmp_path, "clip_id,level\nb,S\nb,HN\nb,S\n")
    with pytest.raises(FixInput) as refused:
        join(DECIDED, path, update=True)
    (problem,) = refused.value.details
    assert problem.endswith(
        ":2: column 'level': expected one level of the clip b, got S, HN"
    )
    path.write_text("clip_id,level\nb,S\nb,sure\nb,?\n")
    assert join(DECIDED, path, update=True).manifest["b"].level == "S"


def test_what_a_table_lists_as_open_stays_open(tmp_path: Path) -> None:
    text = "clip_id,mood,differs\nb,,Look|level\n"
    updated = join(DECIDED, table(tmp_path, text), update=True).manifest["b"]
    assert updated.extra["differs"] == "level|Look"


TRAINS = (Clip("a", "night_train_1954"), Clip("b", "Juno"), Clip("c", "Carrie_1976_"))


def joined_decades(folder: Path, rows: str, **names: str) -> tuple[list[str], str]:
    manifest = Manifest("m", Header("m"), TRAINS)
    path = table(folder, f"film,decade\n{rows}")
    joining = join(manifest, path, {"movie_id": "film"}, film_names=names)
    decades = [clip.extra["decade"] for clip in joining.manifest]
    return decades, " ".join(joining.warnings)


def test_a_film_in_another_spelling_is_found_and_said(tmp_path: Path) -> None:
    rows = "NIGHT.TRAIN 1954,50s\nJuno (2007),00s\nCarrie (2013),10s\n"
    decades, said = joined_decades(tmp_path, rows)
    # Carrie has another year in the manifest.
    assert decades == ["50s", "00s", ""]
    matched = "NIGHT.TRAIN 1954 (night_train_1954), Juno (2007) (Juno)"
    assert f"films matched in another spelling: {matched}" in said
    assert "ids of no film of the manifest: Carrie_2013_" in said
    # The exact name goes before, also if it comes later.
    decades, said = joined_decades(tmp_path, "Ju no,loose\nJuno,exact\n")
    assert decades == ["", "exact", ""]
    assert "ids of no film of the manifest: Ju_no" in said


def test_a_film_with_another_name_is_typed(tmp_path: Path) -> None:
    rows = "Night Train,50s\nJuno,00s\n"
    decades, said = joined_decades(tmp_path, rows)
    assert decades == ["", "00s", ""]
    assert "pass --film Night_Train=night_train_1954" in said
    names = {"Night Train": "night_train_1954"}
    decades, said = joined_decades(tmp_path, rows, **names)
    assert decades == ["50s", "00s", ""]
    assert "spelling" not in said and "--film" not in said
    with pytest.raises(FixUsage, match=r"no film of the manifest 'night' \(did you"):
        joined_decades(tmp_path, rows, **{"Night Train": "night"})
    with pytest.raises(FixUsage, match=r"no film of the table 'Nite Train' \(did you"):
        joined_decades(tmp_path, rows, **{"Nite Train": "night_train_1954"})


def test_two_spellings_of_one_film_are_asked_about(tmp_path: Path) -> None:
    with pytest.raises(FixInput) as caught:
        joined_decades(tmp_path, "J.uno,10s\nju no,20s\n")
    assert caught.value.message == "'J.uno' and 'ju no' may both be the film Juno"
    assert (
        caught.value.hint == "if they are, pass --film J.uno=Juno --film 'ju no=Juno'"
    )


def test_films_of_a_table_of_clips_may_be_spelled_another_way(tmp_path: Path) -> None:
    manifest = Manifest("m", Header("m"), TRAINS)
    path = table(tmp_path, "clip_id,movie_id,mood\na,Night Train 1954,calm\n")
    assert join(manifest, path).manifest["a"].extra["mood"] == "calm"
    path = table(tmp_path, "clip_id,movie_id,mood\na,Night Train,calm\n")
    with pytest.raises(Mismatch) as caught:
        join(manifest, path)
    assert "--film NAME=FILM" in str(caught.value.hint)
    names = {"Night Train": "night_train_1954"}
    joining = join(manifest, path, film_names=names)
    assert joining.manifest["a"].extra["mood"] == "calm"
    assert joining.n_by_id == 0

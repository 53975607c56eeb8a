"""ELAN files as their users make them: what each tier becomes, and that all else stays."""

import re
import unicodedata
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from support.cli import call_obygaze
from support.elan_rules import problems_of
from support.seeds import amount
from support.videos import write_video

from obygaze.audits import audit_share
from obygaze.films.elan import ElanFile, write_elan
from obygaze.films.elan_files import export_marks
from obygaze.films.importing import ImportedMarks, import_files_of_marks
from obygaze.films.marks import Mark, written
from obygaze.films.pictures import LinkedFilms
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, UnknownName

FOLDER = Path(__file__).parents[2] / "data" / "elan"
NAMES = ("see", "station", "ete", "tape", "noir")
# A file of two people with linked tiers, a controlled vocabulary, two media, and links between
# annotations, which pympi does not know.
FOREIGN = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="unspecified" DATE="2024-01-01T10:00:00+01:00" FORMAT="3.0"
  VERSION="3.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">
<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">
<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/F/ton.wav" MIME_TYPE="audio/x-wav"/>
<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/F/Nacht%20zug.mp4" MIME_TYPE="video/mp4"/>
<PROPERTY NAME="URN">urn:x</PROPERTY></HEADER>
<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="0"/><TIME_SLOT TIME_SLOT_ID="ts2"/>
<TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="2000"/><!-- kept -->
<TIME_SLOT TIME_SLOT_ID="ts4" TIME_VALUE="2500"/><TIME_SLOT TIME_SLOT_ID="ts5"
 TIME_VALUE="4000"/></TIME_ORDER>
<TIER TIER_ID="Gewalt@Anna" LINGUISTIC_TYPE_REF="t" PARTICIPANT="Maria (die Braut)">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts3"
 CVE_REF="cve1"><ANNOTATION_VALUE>stark</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a2" TIME_SLOT_REF1="ts4" TIME_SLOT_REF2="ts5">
<ANNOTATION_VALUE>schwach (?)</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER TIER_ID="Mittel" LINGUISTIC_TYPE_REF="sub" PARENT_REF="Gewalt@Anna">
<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a3" ANNOTATION_REF="a1">
<ANNOTATION_VALUE>Messer</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a4" ANNOTATION_REF="a1" PREVIOUS_ANNOTATION="a3">
<ANNOTATION_VALUE>Schnitt</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION></TIER>
<TIER TIER_ID="Teil" LINGUISTIC_TYPE_REF="ts" PARENT_REF="Gewalt@Anna">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a5" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
<ANNOTATION_VALUE>Anfang</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER TIER_ID="Notiz" LINGUISTIC_TYPE_REF="t" ANNOTATOR="Ben"><ANNOTATION>
<ALIGNABLE_ANNOTATION ANNOTATION_ID="a7" TIME_SLOT_REF1="ts4" TIME_SLOT_REF2="ts5">
<ANNOTATION_VALUE>vgl. Szene 3</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER TIER_ID="Musik" LINGUISTIC_TYPE_REF="t"/>
<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="t" TIME_ALIGNABLE="true" GRAPHIC_REFERENCES="false"
 CONTROLLED_VOCABULARY_REF="cv"/>
<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="sub" CONSTRAINTS="Symbolic_Subdivision"
 TIME_ALIGNABLE="false" GRAPHIC_REFERENCES="false"/>
<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="ts" CONSTRAINTS="Time_Subdivision" TIME_ALIGNABLE="true"
 GRAPHIC_REFERENCES="false"/>
<CONSTRAINT DESCRIPTION="x" STEREOTYPE="Symbolic_Subdivision"/>
<CONSTRAINT DESCRIPTION="x" STEREOTYPE="Time_Subdivision"/>
<CONTROLLED_VOCABULARY CV_ID="cv"><DESCRIPTION LANG_REF="und">d</DESCRIPTION>
<CV_ENTRY_ML CVE_ID="cve1"><CVE_VALUE LANG_REF="und">stark</CVE_VALUE></CV_ENTRY_ML>
</CONTROLLED_VOCABULARY>
<REF_LINK_SET LINK_SET_ID="r1"><CROSS_REF_LINK REF_LINK_ID="c1" REF1="a1" REF2="a2"/>
</REF_LINK_SET>
</ANNOTATION_DOCUMENT>
"""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = tmp_path / "tag 2.eaf"
    path.write_text(FOREIGN, "utf-8")
    return path


def imported(path: Path, **options: Any) -> ImportedMarks:
    made = import_files_of_marks(
        path, "m", force=True, workspace=path.parent, **options
    )
    assert isinstance(made, ImportedMarks)
    return made


def rows(made: ImportedMarks) -> list[tuple[Any, ...]]:
    return [(mark.start_s, *mark[3:6]) for mark in made.marks]


# ---- reading -------------------------------------------------------------------------------------


def test_a_tier_is_a_column_and_its_words_are_values(foreign: Path) -> None:
    made = imported(foreign)
    assert {mark.movie_id for mark in made.marks} == {"Nacht_zug"}
    assert rows(made) == [
        (0.0, "Gewalt", "stark", "Anna"),
        # A linked tier has the times of the one above, and is of the same person.
        (0.0, "Mittel", "Messer", "Anna"),
        (0.0, "Mittel", "Schnitt", "Anna"),
        (2.5, "Gewalt", "schwach (?)", "Anna"),
        (2.5, "Notiz", "vgl. Szene 3", "Ben"),
    ]
    assert made.left_out == ("annotations of Teil without times in the film: 1",)
    assert made.empty == ("Musik of tag 2 in tag 2.eaf",)
    assert made.to_json()["columns"]["Mittel"] == {"Messer": 1, "Schnitt": 1}
    assert "Gewalt  stark             1" in str(made)


def test_a_concept_that_may_be_several_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "m.eaf"
    words = ("Body, Look", "Look", "Farbe")
    marks = [
        Mark("m", n, n + 1.0, "concepts", word, "A") for n, word in enumerate(words)
    ]
    file.write_bytes(write_elan(marks))
    made = import_files_of_marks(file, "m", workspace=tmp_path)
    assert isinstance(made, ImportedMarks)
    (warned,) = made.warnings
    assert "read as one concept: 'Body, Look'; if it is a list" in warned
    meanings = {"Body, Look": "Body|Look"}
    made = import_files_of_marks(
        file, "m", words=meanings, force=True, workspace=tmp_path
    )
    assert isinstance(made, ImportedMarks)
    assert made.warnings == []


def test_tiers_and_words_are_called_as_is_asked(foreign: Path) -> None:
    tiers = {"Gewalt": "level", "Mittel": "", "Notiz": "watched", "Teil": ""}
    words = {"stark": "S", "schwach (?)": "?"}
    made = imported(foreign, tiers=tiers, words=words)
    assert rows(made) == [
        (0.0, "level", "S", "Anna"),
        (2.5, "level", "?", "Anna"),
        (2.5, "watched", "vgl. Szene 3", "Ben"),
    ]
    assert any("got 'vgl. Szene 3'" in warning for warning in made.warnings)
    with pytest.raises(
        FixInput, match=r"level: expected the words .* got 'stark' \(1\)"
    ):
        imported(foreign, tiers={"Gewalt@Anna": "level"})
    for options, name in (
        ({"tiers": {"gewalt": "level"}}, r"no tier 'gewalt' \(did you mean 'Gewalt'"),
        ({"words": {"starck": "S"}}, "no word 'starck'"),
        ({"coded": ["Ton"]}, "no column 'Ton'"),
    ):
        with pytest.raises(UnknownName, match=name):
            imported(foreign, **options)


def test_whose_a_tier_is_may_be_said_where_the_file_does_not(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FOREIGN.replace("Gewalt@Anna", "Gewalt_A").replace(' ANNOTATOR="Ben"', "")
    foreign.write_text(text, "utf-8")
    tiers = {"Gewalt_A": "Gewalt", "Notiz": "Gewalt", "Mittel": "", "Teil": ""}
    made = imported(foreign, tiers=tiers)
    assert {mark.annotator for mark in made.marks} == {"tag 2"}
    assert "Gewalt_A, Notiz without an annotator; assumed tag 2" in made.warnings[-1]
    people = {"Gewalt_A": "Gewalt@Anna", "Notiz": "Gewalt@Ben"}
    made = imported(foreign, tiers=tiers | people)
    assert [mark.annotator for mark in made.marks] == ["Anna", "Anna", "Ben"]
    assert not made.guessed
    # One person is typed, and the other is not: also of a tier in which nothing was found.
    made = imported(foreign, tiers={**tiers, "Gewalt_A": "Gewalt@Anna"})
    assert "Notiz without an annotator; assumed tag 2" in made.warnings[-1]
    empty = {**tiers, "Gewalt_A": "Gewalt@Anna", "Musik": "Gewalt", "Notiz": ""}
    with monkeypatch.context() as linked:
        linked.setattr(LinkedFilms, "boundaries", lambda films, film: [0.0, 4.0])
        made = imported(foreign, tiers=empty, coded=["Gewalt"])
        alone = imported(foreign, tiers={}, coded=["Musik"])
    assert "Musik without an annotator; assumed tag 2" in made.warnings[-1]
    unmarked = "got 'Musik'; a column without marks gets no labels"
    assert alone.warnings[-1].endswith(unmarked)
    # Tiers of overlapping marks are of one person.
    foreign.write_text(text.replace('"Notiz"', '"Gewalt_A #2"'), "utf-8")
    assert not imported(foreign, tiers={"Gewalt_A": "Gewalt"}).guessed
    # What a file says of its people stays, and half a name is none.
    foreign.write_text(FOREIGN, "utf-8")
    with pytest.raises(
        FixUsage, match="--tier Notiz: expected the annotator Ben, got Carl"
    ):
        imported(foreign, tiers={"Notiz": "comment@Carl"})
    for half in ("@Anna", "level@ "):
        with pytest.raises(FixUsage, match="--tier: expected TIER=COLUMN or"):
            imported(foreign, tiers={"Notiz": half})


def test_a_whole_film_is_not_coded_where_only_a_part_was_watched(
    tmp_path: Path,
) -> None:
    """Of 40 s, 20 s were watched, and 8.7 s of these have the word: .435 and not .217."""
    (tmp_path / "films").mkdir()
    write_video(tmp_path / "films/lake.mp4", numbers=range(400), tick=Fraction(1, 10))
    call_obygaze("manifest", "import", "films", cwd=tmp_path).ok()
    boundaries = LinkedFilms(tmp_path).boundaries("lake")
    assert boundaries is not None and 39.9 < boundaries[-1] < 40
    file = tmp_path / "lake.eaf"
    found = Mark("lake", 0.0, 8.7, "Gewalt", "stark", "Anna")
    half = Mark("lake", 0.0, 20.0, "watched", "Gewalt", "Anna")
    rest = half._replace(start_s=19.9, end_s=40.0)
    problem = (
        "--coded Gewalt of Anna: the marks of watched state that {} s of the film lake were"
        f" watched, not all {boundaries[-1]:.3f} s"
    )
    for watched, is_refused in (
        ([half], True),
        ([half._replace(value="watched")], True),
        # What was watched for another column, or by another person, is not narrower.
        ([half._replace(value="Musik")], False),
        ([half._replace(annotator="Ben")], False),
        # Together they are the whole film.
        ([half, rest], False),
        # A person who marks a whole film by hand stops a little before its end.
        ([half._replace(start_s=0.4, end_s=39.6)], False),
        ([half._replace(end_s=38.0)], True),
        ([], False),
    ):
        file.write_bytes(write_elan([found, *watched]))
        if is_refused:
            with pytest.raises(FixInput, match="--coded Gewalt of Anna") as caught:
                imported(file, coded=["Gewalt"])
            watched_s = f"{watched[0].end_s:.3f}"
            assert caught.value.message == problem.format(watched_s)
            assert (caught.value.hint or "").startswith("import without --coded Gewalt")
            continue
        made = imported(file, coded=["Gewalt"])
        spans = [mark[1:3] for mark in made.marks if mark[3:] == half[3:]]
        assert (0.0, boundaries[-1]) in spans


def test_capitals_of_a_video_make_no_film_of_their_own(tmp_path: Path) -> None:
    """On Windows, lake.mp4 and Lake.mp4 are one file."""
    mark = Mark("x", 0.0, 2.0, "mood", "calm", "Ada")
    for person, video in (("Ada", "lake.mp4"), ("Ben", "Lake.mp4")):
        media = {"MEDIA_URL": f"file:///C:/{video}", "MIME_TYPE": "video/mp4"}
        data = write_elan([mark._replace(annotator=person)], media)
        (tmp_path / f"{person}.eaf").write_bytes(data)
    files = [tmp_path / "Ada.eaf", tmp_path / "Ben.eaf"]
    with pytest.raises(FixInput, match="'lake' and 'Lake' both become the film 'Lake'"):
        import_files_of_marks(files, "m", workspace=tmp_path)
    (tmp_path / "f").mkdir()
    write_video(tmp_path / "f/lake.mp4", numbers=range(50), tick=Fraction(1, 10))
    call_obygaze("manifest", "import", "f", cwd=tmp_path).ok()
    made = import_files_of_marks(files, "m", workspace=tmp_path)
    assert [one.movie_id for one in made.marks] == ["lake", "lake"]
    assert made.warnings == [
        "Ben.eaf names Lake.mp4, and the linked file of lake is lake.mp4: check that the times of"
        " both are the same"
    ]


def write_with_offset(path: Path, offset_ms: int, *tiers: tuple[str, int, int, str]):
    """Write a file of the film lake whose times start at `offset_ms` in the film."""
    pympi = pytest.importorskip("pympi")
    file = pympi.Eaf(author="Ada")
    name = "file:///C:/lake.mp4"
    file.add_linked_file(name, mimetype="video/mp4", time_origin=offset_ms)
    for tier, start_ms, end_ms, word in tiers:
        if tier not in file.get_tier_names():
            file.add_tier(tier)
        file.add_annotation(tier, start_ms, end_ms, word)
    file.remove_tier("default")
    file.to_file(str(path))


def share_of(workspace: Path, of: str = "mood == sad") -> tuple[float, float]:
    """Return the seconds coded, and those with the word, of the marks `m`."""
    (row, *_) = audit_share("m", of=of, workspace=workspace).values["rows"]
    return row["coded_s"], row["with_s"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_linked", [False, True])
def test_what_a_file_does_not_have_of_its_film_is_not_coded(
    is_linked, tmp_path
) -> None:
    if is_linked:
        (tmp_path / "f").mkdir()
        write_video(tmp_path / "f/lake.mp4", numbers=range(160), tick=Fraction(1, 10))
        call_obygaze("manifest", "import", "f", cwd=tmp_path).ok()
    end_s = LinkedFilms(tmp_path).boundaries("lake")[-1] if is_linked else 12.0
    path = tmp_path / "m.eaf"
    sad = (("mood", 1000, 3000, "sad"), ("mood", 6000, 8000, "sad"))
    # Second 0 of the file is second 4 of the film.
    write_with_offset(path, 4000, *sad)
    made = imported(path)
    assert ("lake", 4.0, end_s, "watched", "mood", "Ada") in [m[:6] for m in made.marks]
    assert made.guessed == (
        "m.eaf starts at 4.000 s of the film lake: mood of Ada counts as watched from there on",
    )
    assert share_of(tmp_path) == pytest.approx((end_s - 4, 4))
    if is_linked:
        imported(path, coded=["mood"])
        assert share_of(tmp_path) == pytest.approx((end_s - 4, 4))
    # What marks state is not changed.
    write_with_offset(path, 4000, *sad, ("watched", 0, 8000, "mood"))
    assert not imported(path).guessed
    assert share_of(tmp_path) == pytest.approx((8, 4))
    # Second 0 of the film is second 4 of the file, in which 8 seconds were watched.
    write_with_offset(
        path, -4000, ("mood", 3000, 5000, "sad"), ("watched", 0, 8000, "mood")
    )
    assert imported(path).left_out == ()
    assert share_of(tmp_path) == pytest.approx((4, 1))


@pytest.mark.parametrize("name", ["Watched", "gesehen", "Vu"])
def test_a_tier_that_likely_states_what_was_watched_is_named(name, tmp_path) -> None:
    path = tmp_path / "m.eaf"
    write_with_offset(path, 0, ("mood", 1000, 2000, "sad"), (name, 0, 3000, "mood"))
    line = f"the tier {name} may state what was watched; if it does, pass --tier {name}=watched"
    assert line in imported(path).warnings
    made = imported(path, tiers={name: "watched"})
    assert made.marks[0][3:5] == ("watched", "mood") and not made.warnings


def test_what_was_watched_names_a_column_in_any_capitals(tmp_path: Path) -> None:
    path = tmp_path / "m.eaf"
    watched = ("watched", 0, 4000, "MOOD")
    rest = ("note", 9000, 10000, "x")
    write_with_offset(path, 0, ("mood", 1000, 2000, "sad"), watched, rest)
    assert not imported(path).warnings
    # A person has also seen what this person marked.
    assert share_of(tmp_path) == (5, 1)


def test_a_file_without_a_coded_tier_is_named(tmp_path: Path) -> None:
    write_with_offset(tmp_path / "m.eaf", 0, ("mood", 1000, 2000, "sad"))
    (tmp_path / "f").mkdir()
    write_video(tmp_path / "f/lake.mp4", numbers=range(50), tick=Fraction(1, 10))
    call_obygaze("manifest", "import", "f", cwd=tmp_path).ok()
    other = Mark("moor", 0.0, 2.0, "fear", "strong", "Ada")
    (tmp_path / "moor.eaf").write_bytes(write_elan([other]))
    files = [tmp_path / "m.eaf", tmp_path / "moor.eaf"]
    made = import_files_of_marks(files, "m", coded=["mood"], workspace=tmp_path)
    line = "moor.eaf has no tier for --coded mood: it does not count as coded"
    assert made.warnings == [line]


def test_an_import_says_how_far_it_moves_marks_to_pictures(tmp_path: Path) -> None:
    path = tmp_path / "m.eaf"
    spans = (("mood", 1220, 3240, "sad"), ("mood", 6001, 8000, "sad"))
    write_with_offset(path, 0, *spans)
    line = "moved to the nearest pictures of linked films: 1 mark, by up to 0.240 s"
    assert line not in imported(path).notes
    (tmp_path / "f").mkdir()
    write_video(tmp_path / "f/lake.mp4", numbers=range(20), rate=2, tick=Fraction(1, 2))
    words = ("f", "-o", "cut", "--seconds", "2")
    call_obygaze("manifest", "windows", *words, cwd=tmp_path).ok()
    made = imported(path)
    assert [mark[1:3] for mark in made.marks] == [(1.0, 3.0), (6.0, 8.0)]
    # A millisecond is the rounding of ELAN.
    assert line in made.notes


def test_an_import_names_the_clips_of_its_films(tmp_path: Path) -> None:
    path = tmp_path / "m.eaf"
    write_with_offset(path, 0, ("level", 1000, 3000, "S"))
    every = "next: obygaze marks clips m --every SECONDS -o CLIPS"
    assert imported(path).notes[-1] == every
    (tmp_path / "f").mkdir()
    write_video(tmp_path / "f/lake.mp4", numbers=range(20), rate=2, tick=Fraction(1, 2))
    call_obygaze("manifest", "import", "f", "-o", "a", cwd=tmp_path).ok()
    # Whole films are no clips.
    assert imported(path).notes[-1] == every
    words = ("f", "-o", "my-clips", "--seconds", "2")
    call_obygaze("manifest", "windows", *words, cwd=tmp_path).ok()
    line = "next: obygaze marks clips m --clips my-clips -o CLIPS"
    assert imported(path).notes[-1] == line
    words = ("marks", "clips", "m", "--clips", "my-clips", "-o", "labels")
    call_obygaze(*words, cwd=tmp_path).ok()
    # Clips that have labels are not proposed.
    assert imported(path).notes[-1] == line


def test_marks_that_follow_each_other_are_one_tier_at_any_rate() -> None:
    """Seconds such as 9 * 16 * 1001 / 24000 overlap by a rounding error of floating point."""
    step_s = 16 * 1001 / 24000
    starts_s = [number * step_s for number in range(40)]
    marks = [Mark("a", s, s + step_s, "level", "S", "Ada") for s in starts_s]
    assert any(one.end_s > after.start_s for one, after in pairwise(marks))
    assert write_elan(marks).count(b"<TIER ") == 1
    longer = [mark._replace(end_s=mark.end_s + 0.001) for mark in marks]
    assert write_elan(longer).count(b"<TIER ") == 2


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ('TIER_ID="Notiz"', 'TIER_ID="Teil"', "TIER_ID 'Teil'"),
        ('ANNOTATION_ID="a7"', 'ANNOTATION_ID="a1"', "ANNOTATION_ID 'a1'"),
        ('TIME_SLOT_ID="ts5"', 'TIME_SLOT_ID="ts4"', "TIME_SLOT_ID 'ts4'"),
    ],
)
def test_an_id_that_is_there_twice_is_refused(old, new, problem, foreign) -> None:
    """Of two equal tiers pympi reads the last; of two equal annotations, one time for both."""
    foreign.write_text(FOREIGN.replace(old, new), "utf-8")
    with pytest.raises(Corrupt, match=f"not an ELAN file: {problem} is there twice"):
        imported(foreign)


def test_an_export_names_the_marks_before_the_start_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.eaf"
    write_with_offset(path, 4000, ("mood", 1000, 3000, "sad"))
    spans = ((0, 2), (3, 5), (4, 6))
    marks = [Mark("lake", float(a), float(b), "x", "y", "Ben") for a, b in spans]
    (tmp_path / "x.csv").write_bytes(written(marks))
    table, out = tmp_path / "x.csv", tmp_path / "out.eaf"
    done = export_marks(table, out, into=path, workspace=tmp_path)
    assert done.left_out == (
        "2 marks, or the part, before m.eaf starts at 4.000 s of the film lake",
    )
    found = [tier for tier in ElanFile(out).tiers() if tier.column == "x"]
    spans = [span[:2] for tier in found for span in tier.annotations]
    assert spans == [(4.0, 5.0), (4.0, 6.0)]


@pytest.mark.parametrize("of_disk", ["NFC", "NFD"])
@pytest.mark.parametrize("of_elan", ["NFC", "NFD"])
def test_accents_are_one_name_in_either_form(of_disk, of_elan, tmp_path) -> None:
    """ELAN on a Mac writes the name of a film with decomposed accents."""
    disk, named = (
        unicodedata.normalize(form, "Café.mp4") for form in (of_disk, of_elan)
    )
    (tmp_path / "films").mkdir()
    write_video(tmp_path / "films" / disk, numbers=range(50), tick=Fraction(1, 10))
    (tmp_path / "clips.csv").write_text("clip_id,movie_id,video\na,tt01,Café.mp4\n")
    call_obygaze("manifest", "import", "clips.csv", cwd=tmp_path).ok()
    call_obygaze("manifest", "link", "clips", "films", cwd=tmp_path).ok()
    file = tmp_path / "b.eaf"
    mark = Mark("x", 0.0, 2.0, "mood", "calm", "Ada")
    media = {"MEDIA_URL": f"file:///C:/{quote(named)}", "MIME_TYPE": "video/mp4"}
    file.write_bytes(write_elan([mark], media))
    made = imported(file)
    assert [one[:3] for one in made.marks] == [("tt01", 0.0, 2.0)]
    # The same film gets the new tiers of an export.
    (tmp_path / "m.csv").write_bytes(written([mark._replace(movie_id="tt01")]))
    out = tmp_path / "out.eaf"
    export_marks(tmp_path / "m.csv", out, into=file, workspace=tmp_path)
    assert [tier.name for tier in ElanFile(out).tiers()] == ["mood", "mood #2"]


def test_a_numbered_tier_is_of_the_person_of_the_tier_without_the_number(
    tmp_path: Path,
) -> None:
    """An export writes `mood@Ada #2` for what overlaps, because tiers cannot overlap."""
    marks = [
        Mark("m", 0.0, 8.0, "mood", "calm", "Ada"),
        Mark("m", 4.0, 12.0, "mood", "tense", "Ada"),
        # Also a person may have a number.
        Mark("m", 4.0, 12.0, "mood", "sad", "Coder #2"),
    ]
    file = tmp_path / "m.eaf"
    eaf = write_elan(marks)
    assert b'TIER_ID="mood@Ada #2"' in eaf
    # Other programs write no ANNOTATOR.
    file.write_bytes(re.sub(rb' ANNOTATOR="[^"]*"', b"", eaf))
    assert imported(file).marks == tuple(sorted(marks))
    (tier,) = [one for one in ElanFile(file).tiers() if one.name == "mood@Ada #2"]
    assert (tier.column, tier.annotator) == ("mood", "Ada")


@pytest.mark.parametrize(
    ("path", "video", "annotator"),
    [
        ("anna/alba.eaf", "alba.mp4", "anna"),
        ("anna/Alba.eaf", "", "anna"),
        ("coded/alba_anna.eaf", "alba.mp4", "anna"),
        ("coded/ANNA - alba.eaf", "Alba.mov", "ANNA"),
        ("coded/e\u0301te\u0301_zoé.eaf", "été.mp4", "zoé"),
        # What is not beside the name of the film may be part of a longer name.
        ("coded/albatros.eaf", "alba.mp4", "albatros"),
        ("coded/tag 2.eaf", "alba.mp4", "tag 2"),
    ],
)
def test_a_file_that_names_nobody_is_of_its_own_name_or_of_its_folder(
    path, video, annotator, tmp_path
) -> None:
    """By default, ELAN names no author, and a file has the name of its video."""
    pympi = pytest.importorskip("pympi")
    document = pympi.Eaf(author="unspecified")
    document.remove_tier("default")
    if video:
        document.add_linked_file(f"file:///C:/{quote(video)}", mimetype="video/mp4")
    document.add_tier("mood")
    document.add_annotation("mood", 0, 1000, "sad")
    file = tmp_path / path
    file.parent.mkdir()
    document.to_file(str(file))
    made = import_files_of_marks(file.parent, "m", workspace=tmp_path)
    assert [mark.annotator for mark in made.marks] == [annotator]


def test_two_files_of_one_person_and_film_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        marks = [Mark("alba", 0.0, 2.0, "two words", "sad", "ada")]
        (tmp_path / f"{name}.eaf").write_bytes(
            write_elan(
                marks, {"MEDIA_URL": "file:///alba.mp4", "MIME_TYPE": "video/mp4"}
            )
        )
    files = [tmp_path / "a.eaf", tmp_path / "b.eaf"]
    with pytest.raises(FixInput, match="two files have marks of 'ada'") as refused:
        import_files_of_marks(files, "m", workspace=tmp_path)
    hint = str(refused.value.hint)
    assert "--tier 'two words=two words@NAME' -o NAME" in hint
    assert hint.endswith("if one is a copy, import only one of the files or folders")


def test_an_annotation_of_watched_without_a_text_is_for_all_columns(tmp_path) -> None:
    """Else a film that was coded to the half counts as coded to its end."""
    pympi = pytest.importorskip("pympi")
    document = pympi.Eaf(author="ada")
    document.remove_tier("default")
    for tier, end_ms, text in (("mood", 1000, "sad"), ("watched", 8000, "")):
        document.add_tier(tier)
        document.add_annotation(tier, 0, end_ms, text)
    document.to_file(str(tmp_path / "alba.eaf"))
    made = imported(tmp_path / "alba.eaf")
    watched = [mark[1:5] for mark in made.marks if mark.column == "watched"]
    assert watched == [(0.0, 8.0, "watched", "watched")]
    assert not made.left_out


def test_who_annotated(foreign: Path) -> None:
    """The participant of a tier is who is seen or heard."""
    nobody = {"Gewalt@Anna": "Gewalt", "Ben": ""}
    for changes, people in (
        ({'"Gewalt@Anna" L': '"Gewalt@Anna" ANNOTATOR="Eva" L'}, {"Eva", "Ben"}),
        # A linked tier alone takes the person of another one.
        ({"Gewalt@Anna": "Gewalt"}, {"tag 2", "Ben"}),
        ({**nobody, "unspecified": "Zoe"}, {"Zoe"}),
        (nobody, {"tag 2"}),
    ):
        text = FOREIGN
        for old, new in changes.items():
            text = text.replace(old, new)
        foreign.write_text(text, "utf-8")
        assert {mark.annotator for mark in imported(foreign).marks} == people


@pytest.mark.parametrize(
    ("text", "encoding", "problem"),
    [
        ('<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "utf-8", "a document type"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a/>', "utf-16", "a document type"),
        ("<a/>", "utf-8", "expected an ANNOTATION_DOCUMENT, got a"),
        ("<ANNOTATION_DOCUMENT/>", "utf-8", "noNamespaceSchemaLocation is missing"),
        (FOREIGN.replace('"2000"', f'"{"9" * 400}"'), "utf-8", "expected a number for"),
        (
            FOREIGN.replace("milliseconds", "PAL-frames"),
            "utf-8",
            "expected times in millis",
        ),
        (re.sub("(?s)<TIER .*</TIER>", "", FOREIGN), "utf-8", "have no marks"),
    ],
)
def test_elan_that_is_refused(foreign, text, encoding, problem) -> None:
    foreign.write_text(text, encoding)
    with pytest.raises((Corrupt, FixInput), match=problem):
        imported(foreign)


def test_a_circle_of_tiers_ends(foreign: Path) -> None:
    text = FOREIGN.replace('ANNOTATION_REF="a1"', 'ANNOTATION_REF="a3"')
    text = text.replace('TIER_ID="Gewalt@Anna"', 'TIER_ID="x" PARENT_REF="Mittel"')
    foreign.write_text(text.replace('"Gewalt@Anna"', '"x"'), "utf-8")
    made = imported(foreign)
    assert "annotations of Mittel without times in the film: 2" in made.left_out


# ---- writing -------------------------------------------------------------------------------------


SLOT = re.compile(rb'<TIME_SLOT TIME_SLOT_ID="(ts\d+)" TIME_VALUE="\d+"/>\n        ')
NEW_TIER = re.compile(
    rb'(?s)\n    <TIER[^>]* TIER_ID="(new|Gewalt@Anna #2)">.*?</TIER>'
)
NEW_TYPE = re.compile(rb'\n    <LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="obygaze"[^>]*/>')


def without_new_tiers(after: bytes, before: bytes, n_tiers: int) -> bytes:
    """Return a file without the tiers of one mark each, and their times, that were added to it."""
    assert len(NEW_TIER.findall(after)) == n_tiers
    rest = NEW_TYPE.sub(b"", NEW_TIER.sub(b"", after))
    new_slots = [one for one in SLOT.finditer(after) if b'"%b"' % one[1] not in before]
    assert len(new_slots) == 2 * n_tiers
    for slot in new_slots:
        rest = rest.replace(slot[0], b"", 1)
    return rest


@pytest.mark.parametrize("name", NAMES)
def test_all_else_in_a_file_of_others_stays_to_the_byte(name, tmp_path) -> None:
    before = (FOLDER / f"{name}.eaf").read_bytes()
    path = tmp_path / "before.eaf"
    path.write_bytes(before)
    mark = Mark("x", 0.5, 12.0, "new", 'é & "sé"', "ada")
    after = ElanFile(path).with_tiers([mark])
    assert without_new_tiers(after, before, 1) == before
    assert set(problems_of(after)) <= set(problems_of(before))
    # Read again, they are the marks of the file, and the one that was added.
    path.write_bytes(after)
    (new,) = [tier for tier in ElanFile(path).tiers() if tier.name == "new"]
    assert (new.annotator, new.annotations[0][2]) == ("ada", 'é & "sé"')
    again = ElanFile(path).with_tiers([mark])
    assert again.count(b'TIER_ID="new #2"') == 1
    ids = re.findall(rb'(?:ANNOTATION_ID|TIME_SLOT_ID)="([^"]*)"', again)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("seed", range(amount(6, 60)))
def test_drawn_files_keep_their_bytes(seed: int, foreign: Path) -> None:
    """As other programs write them: with other lines, quotes, comments, and texts of any kind."""
    draw = Random(seed)
    text = FOREIGN
    if draw.random() < 0.5:
        text = text.replace("\n", draw.choice(("\r\n", "\n\n", "\n\t")))
    for place in ("<TIER ", "<ANNOTATION>", "<TIME_SLOT ", "<LINGUISTIC_TYPE "):
        if draw.random() < 0.5:
            added = draw.choice(("<!-- <TIER> -->", "<?og note?>", "<!--é-->"))
            text = text.replace(place, f"{added}{place}", draw.randint(1, 3))
    texts = ("<![CDATA[a < b]]>", "&#x5C71;&amp;", "zwei\nZeilen", "")
    text = text.replace("vgl. Szene 3", draw.choice(texts))
    encoding = draw.choice(("utf-8", "utf-8-sig", "iso-8859-1"))
    if encoding == "iso-8859-1":
        text = text.replace('"UTF-8"', '"ISO-8859-1"')
    before = text.encode(encoding)
    foreign.write_bytes(before)
    start_s = draw.uniform(0, 4)
    end_s = start_s + draw.uniform(0.01, 9)
    marks = [
        Mark("x", start_s, end_s, "new", "é 山", "ada"),
        Mark("x", 1.5, 5.0, "Gewalt@Anna", "mehr", ""),
    ]
    after = ElanFile(foreign).with_tiers(marks)
    assert without_new_tiers(after, before, 2) == before
    assert set(problems_of(after)) <= set(problems_of(before))
    foreign.write_bytes(after)
    (new,) = [tier for tier in ElanFile(foreign).tiers() if tier.name == "new"]
    assert new.annotations[0][2] == "é 山"


def test_a_file_without_annotations_gets_a_tier(tmp_path: Path) -> None:
    path = tmp_path / "new.eaf"
    path.write_bytes(write_elan([]))
    assert b"<TIME_ORDER/>" in path.read_bytes()
    (tmp_path / "m.csv").write_bytes(written([Mark("new", 0.0, 1.0, "a", "b", "c")]))
    export_marks(tmp_path / "m.csv", tmp_path / "out.eaf", into=path)
    out = (tmp_path / "out.eaf").read_bytes()
    assert problems_of(out) == []
    assert out.count(b"<TIME_SLOT ") == 2
    (tmp_path / "m.csv").write_bytes(written([Mark("other", 0.0, 1.0, "a", "b", "c")]))
    with pytest.raises(
        FixInput, match=r"for the films other, got new.eaf of the film new"
    ):
        export_marks(tmp_path / "m.csv", tmp_path / "o2.eaf", into=path)
    with pytest.raises(FixUsage, match="for a table of clips: obygaze manifest export"):
        export_marks(tmp_path / "m.csv", tmp_path / "o2.csv", into=path)


def test_no_tier_is_added_to_a_file_in_utf_16(foreign: Path) -> None:
    foreign.write_text(FOREIGN.replace("UTF-8", "UTF-16"), "utf-16")
    with pytest.raises(FixInput, match="expected a file in UTF-8"):
        ElanFile(foreign).with_tiers([])


def test_a_replaced_word_leaves_comments_and_an_empty_concept_is_not_unknown(
    tmp_path: Path,
) -> None:
    marks = [Mark("m", 0.0, 9.0, "comment", "ja", "A")]
    marks += [
        Mark("m", 0.0, 9.0, "level", "S", "A"),
        Mark("m", 9, 12, "mood", "ja", "A"),
    ]
    file = tmp_path / "m.eaf"
    eaf = write_elan([*marks, Mark("m", 0, 9, "concepts", "ja", "A")])
    file.write_bytes(eaf)
    made = import_files_of_marks(file, "m", words={"ja": ""}, workspace=tmp_path)
    assert isinstance(made, ImportedMarks)
    assert [(one.column, one.value) for one in made.marks] == [
        ("comment", "ja"),
        ("level", "S"),
    ]
    blank = eaf.replace(b"<ANNOTATION_VALUE>ja<", b"<ANNOTATION_VALUE><")
    file.write_bytes(blank)
    made = import_files_of_marks(file, "m", force=True, workspace=tmp_path)
    assert isinstance(made, ImportedMarks)
    said = [(one.column, one.value) for one in made.marks]
    assert said == [("level", "S"), ("mood", "?")]
    assert "ignored: empty marks of concepts: 1" in made.warnings

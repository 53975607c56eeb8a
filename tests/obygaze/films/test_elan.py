"""ELAN files as their users make them: what each tier is."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.videos import write_video

from obygaze.films.exchange import (
    exported_files,
    import_segments,
)
from obygaze.films.mark_tables import FilmSegments, Segment
from obygaze.films.tiers import TierMapping
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest

LEVELS = [("S", 0, 1000), ("HN", 1000, 2000), ("EN", 3000, 4000)]


def timed(prefix: str, values: list[tuple[str, int, int]]) -> str:
    parts = []
    for n, (text, start, end) in enumerate(values):
        parts.append(
            f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="{prefix}{n}"'
            f' TIME_SLOT_REF1="t{start}" TIME_SLOT_REF2="t{end}">'
            f"<ANNOTATION_VALUE>{text}</ANNOTATION_VALUE>"
            "</ALIGNABLE_ANNOTATION></ANNOTATION>"
        )
    return "".join(parts)


def linked(prefix: str, values: list[tuple[str, str]]) -> str:
    parts = []
    for n, (to, text) in enumerate(values):
        parts.append(
            f'<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="{prefix}{n}" ANNOTATION_REF="{to}">'
            f"<ANNOTATION_VALUE>{text}</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>"
        )
    return "".join(parts)


def document(tiers: str, rest: str = "") -> str:
    slots = "".join(
        f'<TIME_SLOT TIME_SLOT_ID="t{ms}" TIME_VALUE="{ms}"/>'
        for ms in (0, 1000, 2000, 3000, 4000)
    )
    return (
        '<ANNOTATION_DOCUMENT xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        ' xsi:noNamespaceSchemaLocation="x" AUTHOR="me"'
        ' DATE="2024-01-01T00:00:00+00:00" FORMAT="3.0"'
        ' VERSION="3.0"><HEADER TIME_UNITS="milliseconds"><PROPERTY'
        ' NAME="lastUsedAnnotationId">70</PROPERTY></HEADER>'
        f"<TIME_ORDER>{slots}</TIME_ORDER>{tiers}"
        '<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="frei" TIME_ALIGNABLE="true"/>'
        '<LINGUISTIC_TYPE CONSTRAINTS="Symbolic_Association" LINGUISTIC_TYPE_ID="zu"'
        ' TIME_ALIGNABLE="false"/>'
        '<LINGUISTIC_TYPE CONSTRAINTS="Symbolic_Subdivision" LINGUISTIC_TYPE_ID="teile"'
        f' TIME_ALIGNABLE="false"/>{rest}</ANNOTATION_DOCUMENT>'
    )


ADA = f'<TIER TIER_ID="ada" LINGUISTIC_TYPE_REF="frei">{timed("a", LEVELS)}</TIER>'
MUSIC = f"""<TIER TIER_ID="Musik" LINGUISTIC_TYPE_REF="frei">{
    timed("m", [("leise", 0, 2000)])
}</TIER>"""


def below(name: str, type_name: str, content: str) -> str:
    return (
        f'<TIER TIER_ID="{name}" PARENT_REF="ada" LINGUISTIC_TYPE_REF="{type_name}">'
        f"{content}</TIER>"
    )


CONCEPTS = below("Konzepte", "zu", linked("k", [("a0", "Look; Body")]))
LINKED = document(ADA + CONCEPTS + MUSIC)


def test_a_mapping_says_what_each_tier_is(tmp_path: Path) -> None:
    path = tmp_path / "lake.eaf"
    path.write_text(LINKED, encoding="utf-8")
    tiers = {"ada": "levels", "Konzepte": "concepts", "Musik": "watched"}
    mapping = TierMapping(tiers=tiers, separator=";")
    imported = import_segments([path], "marks", 25, mapping=mapping)
    assert imported.notes == (
        "tier ada: levels of ada",
        "tier Konzepte: concepts of the tier ada",
        "tier Musik: what Musik has watched",
    )
    assert [clip.level for clip in imported.manifest] == ["S", "HN", "EN", ""]
    assert imported.manifest.clips[0].concepts == ("Look", "Body")
    path.write_text(LINKED.replace("Look; Body", "Blick; Kleid"), encoding="utf-8")
    words = {"Blick": "Look", "Kleid": "Look|Clothing"}
    two_in_one = replace(mapping, concepts=words)
    (first, *_) = import_segments([path], "marks", 25, mapping=two_in_one).manifest
    assert first.concepts == ("Look", "Clothing")
    with pytest.raises(FixInput, match="'Ton', which no file has"):
        import_segments([path], "m", 25, mapping=TierMapping(tiers={"Ton": "unused"}))


def written(name: str, media: str, annotator: str = "") -> str:
    """Write a file with three marks, which names a video; return its name."""
    start = '<HEADER TIME_UNITS="milliseconds">'
    named = f'<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/x.mp4" MIME_TYPE="video/mp4" {media}/>'
    text = document(ADA.replace("<TIER", f"<TIER {annotator}"))
    Path(name).write_text(text.replace(start, start + named), encoding="utf-8")
    return name


MARKED = TierMapping(tiers={"ada": "levels"})


def test_a_film_is_that_of_the_video_which_a_file_of_others_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files called after a person or a day had films that nobody knew."""
    monkeypatch.chdir(tmp_path)
    yeux = written("day 2.eaf", 'RELATIVE_MEDIA_URL="../Filme/Les%20Yeux.mp4"')
    with pytest.raises(FixUsage, match="of the film Les_Yeux is not") as caught:
        import_segments([yeux], "marks", mapping=MARKED)
    assert "--fps 25 if all films have it, --fps Les_Yeux=25" in caught.value.hint
    imported = import_segments([yeux], "marks", 25, mapping=MARKED)
    assert imported.manifest.films == ("Les_Yeux",)
    assert imported.warnings == ("day 2.eaf: the id of this film is Les_Yeux",)
    Path("films").mkdir()
    Path("manifests").mkdir()
    write_video(Path("films/My Lake.mp4"), numbers=range(120), rate=25)
    clip = Clip("a", "lake", video="My Lake.mp4", start_s=0.0, end_s=4.0)
    header = Header("shots", video_root=str(tmp_path / "films"))
    shots = Manifest("shots", header, (clip,), ())
    write_manifest(shots, tmp_path / "manifests/shots.toml")
    lake = written("day 1.eaf", 'RELATIVE_MEDIA_URL="films/My Lake.mp4"')
    # A film that is known gives a file its name, where its video is called otherwise now.
    gone = written("lake.eaf", 'RELATIVE_MEDIA_URL="gone.mp4"')
    for path in (lake, gone):
        imported = import_segments([path], "marks", mapping=MARKED)
        assert imported.manifest.films == ("lake",)


def test_two_people_may_have_a_file_each_about_a_film(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    media = 'RELATIVE_MEDIA_URL="lake.mp4"'
    paths = [
        written("1.eaf", media, 'ANNOTATOR="Zoe" PARTICIPANT="x"'),
        written("2.eaf", media, 'PARTICIPANT="Ben"'),
        written("3.eaf", media),
    ]
    manifest = import_segments(paths, "marks", 25, mapping=MARKED).manifest
    assert manifest.films == ("lake",)
    names = [clip.extra["annotator"] for clip in manifest]
    assert names == 3 * ["Zoe"] + 3 * ["Ben"] + 3 * ["ada"]


def test_a_tier_that_was_added_to_a_file_of_ours_is_asked_for(tmp_path: Path) -> None:
    """It was left out; what it is, only its author can say."""
    film = FilmSegments("lake", Fraction(25), None, [Segment("lake", "ada", 0, 9, "S")])
    ((path, data),) = exported_files([film], "elan", tmp_path).items()
    tier = '<TIER TIER_ID="mine" LINGUISTIC_TYPE_REF="own"><ANNOTATION>'
    tier += '<ALIGNABLE_ANNOTATION ANNOTATION_ID="a9" TIME_SLOT_REF1="ts1"'
    tier += ' TIME_SLOT_REF2="ts2"><ANNOTATION_VALUE>S</ANNOTATION_VALUE>'
    tier += "</ALIGNABLE_ANNOTATION></ANNOTATION></TIER><LINGUISTIC_TYPE"
    path.write_bytes(data.replace(b"<LINGUISTIC_TYPE", tier.encode(), 1))
    with pytest.raises(FixInput) as caught:
        import_segments([path], "marks", 25)
    assert caught.value.details == (f"{path}: tier mine: not known what it is",)
    mapping = TierMapping(tiers={"mine": "unused"})
    assert len(import_segments([path], "marks", 25, mapping=mapping).manifest) == 1


@pytest.mark.parametrize("role", ["concepts", "comments"])
def test_a_tier_that_belongs_to_no_marks_is_refused(role: str, tmp_path: Path) -> None:
    """Its annotations became rows without a level, which `manifest project` refused."""
    path = tmp_path / "lake.eaf"
    path.write_text(LINKED, encoding="utf-8")
    tiers = {"ada": "levels", "Musik": role, "Konzepte": "unused"}
    mapping = TierMapping(tiers=tiers, concepts={"leise": "Soundtrack"})
    with pytest.raises(FixInput) as caught:
        import_segments([path], "marks", 25, mapping=mapping)
    problem = f"tier Musik: {role}, but not linked to a tier of levels"
    to_do = 'write "unused" for it in [tiers], or link it in ELAN'
    assert caught.value.details == (f"{path}: {problem}: {to_do}",)
    cause = "tiers of concepts or comments are not linked to one of levels"
    assert caught.value.message == f"{cause}: 1 problem"
    # A draft would ask for nothing.
    assert "--write-mapping" not in str(caught.value.hint)


def test_an_annotation_without_a_text_is_no_mark_without_a_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It became a row that `manifest project` and `agree` refused."""
    monkeypatch.chdir(tmp_path)
    empty = timed("a", [("S", 0, 1000), ("", 1000, 2000)])
    tier = f'<TIER TIER_ID="ada" LINGUISTIC_TYPE_REF="frei">{empty}</TIER>'
    Path("lake.eaf").write_text(document(tier), encoding="utf-8")
    with pytest.raises(FixInput) as caught:
        import_segments(["lake.eaf"], "marks", 25, mapping=MARKED)
    (line,) = caught.value.details
    assert line.startswith(
        "lake.eaf at 0:00:01: tier ada: an annotation without a text"
    )
    said = replace(MARKED, levels={"": "HN"})
    imported = import_segments(["lake.eaf"], "marks", 25, mapping=said)
    assert [clip.level for clip in imported.manifest] == ["S", "HN"]


def test_a_mark_of_ours_without_a_level_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    segment = Segment("lake", "ada", 0, 9, "", ("Look",))
    film = FilmSegments("lake", Fraction(25), None, [segment])
    ((path, data),) = exported_files([film], "elan", tmp_path).items()
    path.write_bytes(data)
    (warning,) = import_segments([path], "marks", 25).warnings
    assert warning.startswith(
        "1 segment without a level, which manifest project, agree"
    )


def test_subtitles_are_no_marks_and_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lake.srt").write_text(
        "1\n00:00:01,000 --> 00:00:02,000\nHello\n", encoding="utf-8"
    )
    for command in (
        ("manifest", "import", "lake.srt", "-o", "s"),
        ("manifest", "import", "lake.srt", "--as", "table", "-o", "s"),
        ("store", "import", "lake.srt", "--as", "csv", "-o", "s"),
        ("manifest", "project", "lake.srt", "--every", "5"),
    ):
        done = call_obygaze(*command)
        assert done.code in (1, 2)
        assert "Try: obygaze extract words MANIFEST -b minilm" in done.stderr


def test_a_document_type_in_utf_16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lake.eaf"
    path.write_text('<!DOCTYPE a [<!ENTITY x "y">]><a/>', encoding="utf-16")
    with pytest.raises(FixInput, match="a document type is not allowed"):
        import_segments([path], "lake", 25)


@pytest.mark.parametrize("comment", ["S", "not sure", "easy negative"])
def test_a_comment_that_is_the_word_of_a_level_is_no_mark(
    tmp_path: Path, comment: str
) -> None:
    """The tier of comments was read as one of levels: each comment became a mark of its own."""
    segment = Segment("lake", "ada", 25, 49, "HN", ("Look",), comment)
    film = FilmSegments("lake", Fraction(25), None, [segment])
    ((path, data),) = exported_files([film], "elan", tmp_path).items()
    path.write_bytes(data)
    (clip,) = import_segments([path], "marks", 25).manifest
    assert (clip.level, clip.concepts) == ("HN", ("Look",))
    assert (clip.extra["annotator"], clip.extra["comment"]) == ("ada", comment)


def test_a_prefix_that_is_not_declared_is_no_file_of_elan(tmp_path: Path) -> None:
    path = tmp_path / "lake.eaf"
    path.write_text(document(ADA).replace("xmlns:xsi", "xmlns:xs"), "utf-8")
    with pytest.raises(FixInput, match="not a file of ELAN: unbound prefix"):
        import_segments([path], "lake", 25)


def test_words_of_levels_are_those_of_tiers_of_levels(tmp_path: Path) -> None:
    path = tmp_path / "lake.eaf"
    levels = timed("a", [("viel", 0, 1000), ("", 1000, 2000)])
    tier = f'<TIER TIER_ID="ada" LINGUISTIC_TYPE_REF="frei">{levels}</TIER>'
    path.write_text(document(tier + MUSIC), "utf-8")
    mapping = TierMapping(
        levels={"viel": "S", "leise": "S", "": "EN"},
        tiers={"ada": "levels", "Musik": "unused"},
    )
    imported = import_segments([path], "lake", 25, mapping=mapping)
    words = imported.facts["level_words"]
    assert words == {"EN": ["(no text)"], "S": ["viel"]}


def test_a_time_slot_without_a_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lake.eaf"
    text = document(ADA).replace('TIME_VALUE="2000"', 'TIME_VALUE=""')
    path.write_text(text, "utf-8")
    with pytest.raises(
        FixInput, match="the time slot 't2000' has the time '', no number"
    ):
        import_segments([path], "lake", 25)


@pytest.mark.parametrize("concept", ["Look, sideways", "Look; Body", "Mirror, big"])
def test_a_concept_with_a_comma_comes_back_as_one(tmp_path: Path, concept: str) -> None:
    pytest.importorskip("pympi")
    segment = Segment("lake", "ada", 0, 9, "S", (concept, "Body"))
    film = FilmSegments("lake", Fraction(10), segments=[segment])
    for path, data in exported_files([film], "elan", tmp_path).items():
        path.write_bytes(data)
    imported = import_segments([tmp_path / "lake.eaf"], "back", 10).manifest
    assert [clip.concepts for clip in imported] == [(concept, "Body")]


def test_a_film_that_is_linked_is_projected_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clips of --every ended at the last mark, though the length of the film is known."""
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "lake.mp4", numbers=range(250))
    clips = (Clip("lake-1", "lake", video="lake.mp4", start_s=0.0, end_s=2.0),)
    header = Header("films", video_root=str(tmp_path))
    write_manifest(Manifest("films", header, clips), Path("manifests/films.toml"))
    header_line = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    rows = "lake,ada,50,99,S,,25\npier,ada,50,99,S,,25\n"
    Path("s.csv").write_text(header_line + rows, encoding="utf-8")
    done = call_obygaze("manifest", "project", "s.csv", "--every", "2").ok()
    levels = [line.split()[:2] for line in done.stdout.splitlines()[1:]]
    assert levels == [
        ["lake_0.000-2.000", "EN"],
        ["lake_2.000-4.000", "S"],
        *(["lake_4.000-6.000", "EN"], ["lake_6.000-8.000", "EN"]),
        ["lake_8.000-10.000", "EN"],
        *(["pier_0.000-2.000", "EN"], ["pier_2.000-4.000", "S"]),
    ]
    assert "end at its last segment (pier at 0:00:04.0)" in done.stderr
    assert "clips without a mark as EN: ada in lake" in done.stderr

"""ELAN files as their users make them: what each tier is."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from obygaze.films.elan import TierMapping
from obygaze.films.exchange import (
    export,
    import_segments,
)
from obygaze.films.film_segments import FilmSegments
from obygaze.films.mark_tables import Segment
from obygaze_features.core.errors import FixInput

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
FILES = {
    "linked": document(ADA + CONCEPTS + MUSIC),
    "vocabulary": document(
        ADA + MUSIC,
        '<CONTROLLED_VOCABULARY CV_ID="eigen"><CV_ENTRY_ML CVE_ID="c1"><CVE_VALUE'
        ' LANG_REF="deu">nah</CVE_VALUE></CV_ENTRY_ML></CONTROLLED_VOCABULARY>',
    ),
    "languages": document(
        ADA + below("Notiz", "zu", linked("n", [("a1", "Küche")])),
        '<LOCALE LANGUAGE_CODE="de"/><LANGUAGE LANG_ID="deu"/><LANGUAGE LANG_ID="fra"/>',
    ),
    "no-rate": document(MUSIC + ADA),
    "subdivision": document(
        ADA + below("Teile", "teile", linked("s", [("a0", "Look"), ("a0", "Body")]))
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_the_tiers_of_files_are_found(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.eaf"
    path.write_text(FILES[name], encoding="utf-8")
    imported = import_segments([path], "marks", 25)
    assert {clip.extra["annotator"] for clip in imported.manifest} == {"ada"}
    assert [clip.level for clip in imported.manifest] == ["S", "HN", "EN"]


def test_what_each_tier_is(tmp_path: Path) -> None:
    path = tmp_path / "lake.eaf"
    path.write_text(FILES["linked"], encoding="utf-8")
    imported = import_segments([path], "marks", 25)
    assert imported.notes == (
        "tier ada: levels of ada",
        "tier Konzepte: concepts of the tier ada",
        "tier Musik: not used",
    )
    assert imported.manifest.clips[0].concepts == ("Look", "Body")
    tiers = tmp_path / "tiers.toml"
    tiers.write_text('[tiers]\nKonzepte = "unused"\nMusik = "watched"\n', "utf-8")
    mapped = import_segments([path], "marks", 25, mapping=tiers)
    assert mapped.notes == (
        "tier ada: levels of ada",
        "tier Konzepte: not used",
        "tier Musik: what Musik has watched",
    )
    with pytest.raises(FixInput, match="'Ton', which no file has"):
        import_segments([path], "m", 25, mapping=TierMapping(tiers={"Ton": "unused"}))


@pytest.mark.parametrize("role", ["concepts", "comments"])
def test_a_tier_that_belongs_to_no_marks_is_refused(role: str, tmp_path: Path) -> None:
    """Its annotations became rows without a level, which `manifest project` refused."""
    path = tmp_path / "lake.eaf"
    path.write_text(FILES["linked"], encoding="utf-8")
    mapping = TierMapping(tiers={"ada": "levels", "Musik": role})
    with pytest.raises(FixInput) as caught:
        import_segments([path], "marks", 25, mapping=mapping)
    assert caught.value.message == (
        f"the tier Musik has {role}, but is not linked to a tier of levels"
    )


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
    ((path, data),) = export([film], "elan", tmp_path).items()
    path.write_bytes(data)
    (clip,) = import_segments([path], "marks", 25).manifest
    assert (clip.level, clip.concepts) == ("HN", ("Look",))
    assert (clip.extra["annotator"], clip.extra["comment"]) == ("ada", comment)


def test_a_prefix_that_is_not_declared_is_no_file_of_elan(tmp_path: Path) -> None:
    path = tmp_path / "lake.eaf"
    path.write_text(document(ADA).replace("xmlns:xsi", "xmlns:xs"), "utf-8")
    with pytest.raises(FixInput, match="not a file of ELAN: unbound prefix"):
        import_segments([path], "lake", 25)


@pytest.mark.parametrize("concept", ["Look, sideways", "Look; Body", "Mirror, big"])
def test_a_concept_with_a_comma_comes_back_as_one(tmp_path: Path, concept: str) -> None:
    pytest.importorskip("pympi")
    segment = Segment("lake", "ada", 0, 9, "S", (concept, "Body"))
    film = FilmSegments("lake", Fraction(10), segments=[segment])
    for path, data in export([film], "elan", tmp_path).items():
        path.write_bytes(data)
    imported = import_segments([tmp_path / "lake.eaf"], "back", 10).manifest
    assert [clip.concepts for clip in imported] == [(concept, "Body")]

"""Five ELAN files as their users make them: what each tier is, changed, and put back.

The files are valid by the published schema (EAF 3.0; that of a 2.7 file by its older one), which is
not part of the project: `support.elan_rules` has its rules, and those of tiers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from support.elan_rules import problems_of

from obygaze.films.elan import (
    KEEP,
    ElanDocument,
    TierMapping,
    read_tier_mapping,
)
from obygaze.films.exchange import export_segments, import_segments
from obygaze_features.manifest.model import Clip, Manifest

FOLDER = Path(__file__).parents[2] / "data" / "elan"
NAMES = ("see", "station", "ete", "tape", "noir")
FPS = 25
LEVELS = ("EN", "HN", "NS", "S")
CONCEPTS = ("Look", "Body", "Clothing", "Posture")
# Annotator, first and last frame, level, concepts, comment.
Values = tuple[str, int, int, str, tuple[str, ...], str]


def mapping_of(name: str) -> TierMapping:
    path = FOLDER / f"{name}.toml"
    return read_tier_mapping(path) if path.exists() else TierMapping()


def imported(path: Path, folder: Path) -> Manifest:
    manifest = import_segments([path], "marks", FPS, mapping=mapping_of(path.stem))
    return manifest.save(folder).manifest


def values_of(clip: Clip) -> Values:
    frames = int(clip.extra["start_frame"]), int(clip.extra["end_frame"])
    concepts = tuple(sorted(clip.concepts))
    comment = clip.extra["comment"]
    return clip.extra["annotator"], *frames, clip.level, concepts, comment


def clip_with(clip: Clip, values: Values, clip_id: str) -> Clip:
    annotator, first, last, level, concepts, comment = values
    extra = {
        **clip.extra,
        "annotator": annotator,
        "start_frame": str(first),
        "end_frame": str(last),
        "comment": comment,
    }
    return replace(
        clip,
        clip_id=clip_id,
        start_s=first / FPS,
        end_s=(last + 1) / FPS,
        level=level,
        concepts=concepts,
        extra=extra,
    )


def put_back(
    path: Path, manifest: Manifest, segments: Sequence[Values], folder: Path
) -> tuple[Path, list[str]]:
    """Return the file with these segments, and the warnings."""
    clips = [
        clip_with(manifest.clips[0], values, f"c{number}")
        for number, values in enumerate(segments)
    ]
    done = export_segments(
        "elan",
        replace(manifest, clips=tuple(clips)),
        into=path,
        mapping=mapping_of(path.stem),
        folder=folder,
        force=True,
    )
    return done.files[0], done.changes[0].warnings


def described(element: Element) -> str:
    """Return an element and all in it as text, without the names of its times."""
    lines = []
    for one in element.iter():
        attributes = [
            f"{name}={value}"
            for name, value in sorted(one.attrib.items())
            if name not in ("TIME_SLOT_REF1", "TIME_SLOT_REF2")
        ]
        text = (one.text or "").strip()
        lines.append(f"{one.tag} {attributes} {text}")
    return "\n".join(lines)


def not_understood(path: Path) -> list[str]:
    """Return all of a file that no mark is: the tiers that are kept, types, vocabularies, links."""
    document = ElanDocument(path.read_bytes(), path, mapping_of(path.stem))
    kept_tiers = {tier.name for tier in document.tiers if tier.role == KEEP}
    texts = []
    for element in document.root:
        if element.tag == "HEADER":
            for one in element:
                if one.get("NAME") != "lastUsedAnnotationId":
                    texts.append(described(one))
        elif element.tag != "TIME_ORDER":
            is_used = element.tag == "TIER" and element.get("TIER_ID") not in kept_tiers
            if not is_used:
                texts.append(described(element))
    return texts


def edit_at_random(segments: list[Values], draw: random.Random) -> None:
    marks = [one for one in segments if one[3]]
    name = draw.choice(("level", "concepts", "comment", "edges", "remove", "add"))
    chosen = draw.choice(marks)
    annotator, first, last, level, concepts, comment = chosen
    if name == "remove" and len(marks) > 1:
        segments.remove(chosen)
        return
    if name == "add":
        first = draw.randrange(60, 1400)
        last = first + draw.randrange(1, 300)
        level, concepts, comment = draw.choice(LEVELS), (), draw.choice(("", "x < y"))
    else:
        segments.remove(chosen)
    if name == "edges":
        first = max(60, first + draw.randrange(-30, 31))
        last = max(first + 1, last + draw.randrange(-30, 31))
    elif name == "level":
        level = draw.choice(LEVELS)
    elif name == "concepts":
        concepts = tuple(sorted(draw.sample(CONCEPTS, draw.randrange(4))))
    elif name == "comment":
        comment = draw.choice(("", "again", "né"))
    segments.append((annotator, first, last, level, concepts, comment))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_follows_the_rules_comes_back_byte_by_byte(
    name: str, tmp_path: Path
) -> None:
    path = FOLDER / f"{name}.eaf"
    assert problems_of(path.read_bytes()) == []
    manifest = imported(path, tmp_path / "marks")
    segments = [values_of(clip) for clip in manifest.clips]
    written, warnings = put_back(path, manifest, segments, tmp_path / "out")
    assert written.read_bytes() == path.read_bytes()
    assert warnings == []


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", NAMES)
def test_random_changes_keep_the_rules_and_what_is_not_understood(
    name: str, seed: int, tmp_path: Path
) -> None:
    path = FOLDER / f"{name}.eaf"
    draw = random.Random(f"{name} {seed}")
    manifest = imported(path, tmp_path / "marks")
    segments = [values_of(clip) for clip in manifest.clips]
    for _ in range(draw.randrange(1, 7)):
        edit_at_random(segments, draw)
    written, warnings = put_back(path, manifest, segments, tmp_path / "out")
    data = written.read_bytes()
    assert problems_of(data) == []
    before = not_understood(path)
    after = not_understood(written)
    assert [text for text in before if text not in after] == []
    # What is read again is what was put in, and what had to stay.
    again = [values_of(clip) for clip in imported(written, tmp_path / "again").clips]
    missing = list(segments)
    more = []
    for values in again:
        if values in missing:
            missing.remove(values)
        else:
            more.append(values)
    assert missing == []
    assert len(more) == sum("is no segment any more; it stays" in w for w in warnings)
    assert len(more) == len(warnings)


def texts_of(path: Path) -> dict[str, str]:
    """Return the texts of all annotations by their ids."""
    texts = {}
    for element in ElementTree.parse(path).iterfind("TIER/ANNOTATION/*"):
        texts[element.get("ANNOTATION_ID", "")] = (
            element.findtext("ANNOTATION_VALUE") or ""
        )
    return texts


def changed(
    name: str, number: int, folder: Path, **values: object
) -> tuple[Path, list[str]]:
    """Return a file in which one segment has other values, and the warnings."""
    path = FOLDER / f"{name}.eaf"
    manifest = imported(path, folder / "marks")
    segments = [values_of(clip) for clip in manifest.clips]
    fields = ("annotator", "first", "last", "level", "concepts", "comment")
    of_segment = {**dict(zip(fields, segments[number], strict=True)), **values}
    segments[number] = tuple(of_segment[field] for field in fields)  # type: ignore[assignment]
    return put_back(path, manifest, segments, folder / "out")


def test_the_film_of_a_file_with_several_media_is_its_first_video(
    tmp_path: Path,
) -> None:
    # See.mp4 begins with the times; See.wav, which was made of a part, begins 1.48 s later.
    (first, *_) = imported(FOLDER / "see.eaf", tmp_path / "see").clips
    assert (first.extra["start_frame"], first.extra["end_frame"]) == ("0", "99")
    # The video is the second medium, and begins 0.4 s later: 0 ms are picture 10.
    (first, *_) = imported(FOLDER / "tape.eaf", tmp_path / "tape").clips
    assert (first.extra["start_frame"], first.extra["end_frame"]) == ("10", "84")


def test_a_word_means_what_its_entry_means_in_another_language(tmp_path: Path) -> None:
    # "sicher" is a word of the entry that has "Sure" in English.
    manifest = imported(FOLDER / "see.eaf", tmp_path / "marks")
    assert [clip.level for clip in manifest.clips] == ["EN", "S", "HN", "S"]
    assert {clip.extra["comment"] for clip in manifest.clips} == {""}
    written, _ = changed("see", 0, tmp_path, level="S")
    (level,) = ElementTree.parse(written).iterfind(".//*[@ANNOTATION_ID='a1']")
    assert (level.findtext("ANNOTATION_VALUE"), level.get("CVE_REF")) == (
        "sicher",
        "cveid_s",
    )


def test_words_of_a_tier_of_levels_that_are_not_levels_are_named(
    tmp_path: Path,
) -> None:
    text = (FOLDER / "noir.eaf").read_text("utf-8")
    path = tmp_path / "noir.eaf"
    path.write_text(text.replace(">HN<", ">vielleicht<"), "utf-8")
    notes = import_segments([path], "marks", FPS).notes
    assert "tier cleo: levels of cleo; not levels, so comments: vielleicht" in notes


def test_an_edge_that_is_moved_leaves_all_that_refers_to_the_annotation(
    tmp_path: Path,
) -> None:
    # "K-Words" divides the annotation: its first word begins where it begins.
    written, warnings = changed("tape", 0, tmp_path, first=15)
    assert warnings == []
    assert texts_of(written) == texts_of(FOLDER / "tape.eaf")
    root = ElementTree.parse(written).getroot()
    starts = {
        one.get("ANNOTATION_ID"): one.get("TIME_SLOT_REF1")
        for one in root.iter("ALIGNABLE_ANNOTATION")
    }
    assert starts["a7"] == starts["a21"]
    (slot,) = root.iterfind(f".//TIME_SLOT[@TIME_SLOT_ID='{starts['a7']}']")
    # Picture 15 at 25 a second is 600 ms, of which the video begins at 400.
    assert slot.get("TIME_VALUE") == "200"


def test_an_annotation_that_a_link_refers_to_stays(tmp_path: Path) -> None:
    path = FOLDER / "ete.eaf"
    manifest = imported(path, tmp_path / "marks")
    segments = [values_of(clip) for clip in manifest.clips]
    written, warnings = put_back(path, manifest, segments[1:], tmp_path / "out")
    assert len(warnings) == 1
    assert "it stays, as a link refers to it" in warnings[0]
    assert texts_of(written)["z1"] == "négatif facile"


def test_words_and_separators_stay_those_of_the_tier(tmp_path: Path) -> None:
    written, _ = changed("ete", 1, tmp_path / "ete", concepts=("Clothing", "Body"))
    assert texts_of(written)["z3"] == "corps | vêtement"
    # The entry of an external vocabulary is known from its other annotations.
    written, _ = changed("station", 0, tmp_path / "station", level="S")
    (level,) = ElementTree.parse(written).iterfind(".//*[@ANNOTATION_ID='a5']")
    assert (level.findtext("ANNOTATION_VALUE"), level.get("CVE_REF")) == ("Sure", "x_s")


def test_a_new_tier_of_levels_has_the_vocabulary_of_the_others(tmp_path: Path) -> None:
    path = FOLDER / "see.eaf"
    manifest = imported(path, tmp_path / "marks")
    segments = [values_of(clip) for clip in manifest.clips]
    segments.append(("Ben", 30, 40, "S", (), ""))
    written, warnings = put_back(path, manifest, segments, tmp_path / "out")
    assert warnings == []
    (tier,) = ElementTree.parse(written).iterfind("TIER[@TIER_ID='Ben']")
    assert tier.get("LINGUISTIC_TYPE_REF") == "Stufe"
    (annotation,) = tier.iter("ALIGNABLE_ANNOTATION")
    assert annotation.get("CVE_REF") == "cveid_s"


def test_what_stands_around_the_document_stays(tmp_path: Path) -> None:
    written, _ = changed("noir", 1, tmp_path, level="EN")
    text = (FOLDER / "noir.eaf").read_text("utf-8")
    before, _, after = text.partition("<ANNOTATION_VALUE>HN<")
    expected = f"{before}<ANNOTATION_VALUE>EN<{after}"
    shown = written.read_text("utf-8")
    assert ElementTree.canonicalize(shown, with_comments=True) == (
        ElementTree.canonicalize(expected, with_comments=True)
    )
    start, end = "<ANNOTATION_DOCUMENT", "</ANNOTATION_DOCUMENT>"
    assert shown.partition(start)[0] == expected.partition(start)[0]
    assert shown.partition(end)[2] == expected.partition(end)[2]


def test_a_carriage_return_in_a_text_stays(tmp_path: Path) -> None:
    text = (FOLDER / "noir.eaf").read_text("utf-8")
    path = tmp_path / "noir.eaf"
    path.write_text(text.replace(">Bahnhof<", ">Bahn&#13;\nhof<"), "utf-8")
    manifest = imported(path, tmp_path / "marks")
    segments = [values_of(clip) for clip in manifest.clips]
    segments.append(("dora", 1100, 1110, "S", (), ""))
    written, _ = put_back(path, manifest, segments, tmp_path / "out")
    assert texts_of(written)["a1"] == "Bahn\r\nhof"


def test_a_tier_that_would_be_read_as_something_else_is_named(tmp_path: Path) -> None:
    written, warnings = changed(
        "see", 2, tmp_path, concepts=("own a", "own b", "own c", "own d", "own e")
    )
    assert len(warnings) == 1
    assert (
        "the tier Blick-Konzepte is read as concepts only with a mapping" in warnings[0]
    )
    assert problems_of(written.read_bytes()) == []


@pytest.mark.parametrize("name", NAMES)
def test_pympi_reads_what_was_put_back(name: str, tmp_path: Path) -> None:
    pympi = pytest.importorskip("pympi")
    written, _ = changed(name, 1, tmp_path, level="HN", comment="né & <b>")
    document = pympi.Eaf(str(written))
    texts = {}
    for tier in document.get_tier_names():
        aligned, referring, _, _ = document.tiers[tier]
        for annotation_id, annotation in aligned.items():
            texts[annotation_id] = annotation[2] or ""
        for annotation_id, annotation in referring.items():
            texts[annotation_id] = annotation[1] or ""
    assert texts == texts_of(written)
    assert "né & <b>" in texts.values()


def test_what_was_watched_is_a_tier_of_its_own(tmp_path: Path) -> None:
    manifest = imported(FOLDER / "noir.eaf", tmp_path / "marks")
    (written,) = export_segments("elan", manifest, folder=tmp_path / "out").files
    data = written.read_bytes()
    assert problems_of(data) == []
    notes = import_segments([written], "again", FPS).notes
    assert "tier dora watched: what dora has watched" in notes
    assert not [note for note in notes if "#2" in note]
    before = sorted(values_of(clip) for clip in manifest.clips)
    again = imported(written, tmp_path / "again").clips
    assert sorted(values_of(clip) for clip in again) == before


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('ANNOTATION_REF="a2"', 'ANNOTATION_REF="a77"', "a77 is nothing"),
        ('ANNOTATION_ID="a11"', 'ANNOTATION_ID="a2"', "the id a2 is there 2 times"),
        ('PREVIOUS_ANNOTATION="a20"', "", "the parts of a9 are no chain"),
        ('TIME_SLOT_REF1="ts6"', 'TIME_SLOT_REF1="ts4"', "tier Blick-Takt"),
        ('TIME_VALUE="6500"', 'TIME_VALUE="9500"', "not in the order of time"),
        (
            '"ts4" TIME_SLOT_REF2="ts5"',
            '"ts4" TIME_SLOT_REF2="ts14"',
            "in no annotation",
        ),
        (
            '"ts1" TIME_SLOT_REF2="ts2"',
            '"ts1" TIME_SLOT_REF2="ts5"',
            "overlap at 4000 ms",
        ),
        ('LINGUISTIC_TYPE_REF="Teil" ', "", "has no LINGUISTIC_TYPE_REF"),
        ('STEREOTYPE="Included_In"', 'STEREOTYPE="Included"', "Included_In is nothing"),
        ('ANNOTATION_REF="a14"', 'ANNOTATION_REF="a12"', "2 annotations of a12"),
        ("<TIME_ORDER>", "<TIMES/><TIME_ORDER>", "has a TIMES"),
    ],
)
def test_the_rules_find_what_is_wrong(old: str, new: str, problem: str) -> None:
    text = (FOLDER / "see.eaf").read_text("utf-8")
    assert old in text
    problems = problems_of(text.replace(old, new, 1).encode())
    assert any(problem in one for one in problems), problems

"""Five ELAN files as their users make them: a mapping says what each tier is.

The files are valid by the published schema (EAF 3.0; that of a 2.7 file by its older one), which is
not part of the project: `support.elan_rules` has its rules, and those of tiers.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.elan_rules import problems_of

from obygaze.films.exchange import import_segments
from obygaze.films.formats import export_manifest
from obygaze.films.tiers import read_tier_mapping
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Clip, Manifest

FOLDER = Path(__file__).parents[2] / "data" / "elan"
NAMES = ("see", "station", "ete", "tape", "noir")
FPS = 25
LEVELS = ("EN", "HN", "NS", "S")
CONCEPTS = ("Look", "Body", "Clothing", "Posture")
# Annotator, first and last frame, level, concepts, comment.
Values = tuple[str, int, int, str, tuple[str, ...], str]


def imported(path: Path, folder: Path) -> Manifest:
    mapping = path.with_suffix(".toml")
    made = import_segments([path], "marks", FPS, mapping=mapping)
    return made.save(folder).manifest


def values_of(clip: Clip) -> Values:
    frames = int(clip.extra["start_frame"]), int(clip.extra["end_frame"])
    concepts = tuple(sorted(clip.concepts))
    comment = clip.extra["comment"]
    return clip.extra["annotator"], *frames, clip.level, concepts, comment


def test_the_film_of_a_file_with_several_media_is_its_first_video(
    tmp_path: Path,
) -> None:
    # See.mp4 begins with the times; See.wav, which was made of a part, begins 1.48 s later.
    (first, *_) = imported(FOLDER / "see.eaf", tmp_path / "see").clips
    assert (first.extra["start_frame"], first.extra["end_frame"]) == ("0", "99")
    # The video is the second medium, and begins 0.4 s later: 0 ms are picture 10.
    (first, *_) = imported(FOLDER / "tape.eaf", tmp_path / "tape").clips
    assert (first.extra["start_frame"], first.extra["end_frame"]) == ("10", "84")


def test_an_annotation_that_refers_to_a_reference_belongs_to_the_first(
    tmp_path: Path,
) -> None:
    manifest = imported(FOLDER / "see.eaf", tmp_path / "see")
    comments = [clip.extra["comment"] for clip in manifest.clips]
    assert comments == ["", "Totale, dann nah", "rotes Kleid?", ""]


@pytest.mark.parametrize("name", NAMES)
def test_a_draft_works_once_its_questions_are_answered(
    name: str, tmp_path: Path
) -> None:
    """Tiers were guessed from their words: a tier of notes with words of levels became marks."""
    path = FOLDER / f"{name}.eaf"
    answers = read_tier_mapping(FOLDER / f"{name}.toml")
    draft = tmp_path / "tiers.toml"
    with pytest.raises(FixInput, match="tiers of these files are not known") as caught:
        import_segments([path], "marks", FPS, write_mapping=draft)
    expected = [f"{path}: tier {tier}: not known what it is" for tier in answers.tiers]
    assert sorted(caught.value.details) == sorted(expected)
    text = draft.read_text("utf-8")
    # Commas of comments separate no concepts: "Totale, dann nah".
    assert ('separator = "?"' in text) is (name == "station")
    assert f"--mapping {draft} in place of --write-mapping" in str(caught.value.hint)
    # Without answers it is as good as no mapping.
    with pytest.raises(FixInput, match="are not known"):
        import_segments([path], "marks", FPS, mapping=draft)
    lines = []
    given: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("["):
            given = dict(getattr(answers, line.strip("[]")))
            if line == "[concepts]":
                given |= answers.modalities
        (key,) = re.findall(r'^(?:"(.*)"|(\S+)) = "\?"', line) or [("", "")]
        answer = given.get("".join(key))
        lines.append(line.replace('"?"', f'"{answer}"') if answer else line)
    draft.write_text("\n".join(lines), "utf-8")
    kept = tmp_path / "kept.toml"
    made = import_segments(
        [path], "marks", FPS, mapping=draft, write_mapping=kept
    ).manifest
    again = import_segments([path], "marks", FPS, mapping=kept).manifest
    assert again.clips == made.clips
    expected_clips = imported(path, tmp_path / "marks").clips
    assert list(map(values_of, made)) == list(map(values_of, expected_clips))


def test_the_time_of_a_film_that_is_no_number_of_a_clock(tmp_path: Path) -> None:
    path = tmp_path / "tape.eaf"
    text = (FOLDER / "tape.eaf").read_text("utf-8")
    digits = "9" * 5000
    path.write_text(text.replace('ORIGIN="400"', f'ORIGIN="{digits}"'), "utf-8")
    with pytest.raises(FixInput):
        import_segments([path], "marks", FPS, mapping=FOLDER / "tape.toml")


def test_a_tier_that_is_empty_in_one_file_keeps_its_role(tmp_path: Path) -> None:
    """The mapping that was written said that it is not used, and its marks were gone."""
    manifest = imported(FOLDER / "see.eaf", tmp_path / "see")
    (path,) = export_manifest(manifest, tmp_path / "out", format="elan").files
    empty = tmp_path / "pier.eaf"
    text = path.read_text("utf-8").replace('"comment"', '"note"')
    empty.write_text(re.sub("(?s)<ANNOTATION>.*?</ANNOTATION>", "", text), "utf-8")
    kept = tmp_path / "kept.toml"
    made = import_segments([path, empty], "marks", FPS, write_mapping=kept).manifest
    again = import_segments([path, empty], "marks", FPS, mapping=kept).manifest
    assert again.clips == made.clips


def test_the_same_problem_of_several_files_is_one_line(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.eaf" for name in ("a", "b")]
    for path in paths:
        path.write_bytes((FOLDER / "station.eaf").read_bytes())
    with pytest.raises(FixInput) as caught:
        import_segments(paths, "marks", FPS)
    assert list(caught.value.details) == [
        f"{paths[0]}: tier {name}: not known what it is (2 times)"
        for name in ("Shot", "Level@ben", "What@ben")
    ]


def test_words_without_a_meaning_are_one_error_with_a_draft(tmp_path: Path) -> None:
    text = (FOLDER / "noir.eaf").read_text("utf-8")
    path = tmp_path / "noir.eaf"
    path.write_text(text.replace(">HN<", ">vielleicht<"), "utf-8")
    known = read_tier_mapping(FOLDER / "noir.toml")
    with pytest.raises(FixInput) as caught:
        mapping = replace(known, modalities={})
        draft = tmp_path / "draft.toml"
        import_segments([path], "m", FPS, mapping=mapping, write_mapping=draft)
    assert list(caught.value.details) == [
        f"{path} at 0:00:08: tier cleo: 'vielleicht' is not one of EN, HN, NS, S",
        f"{path} at 0:00:22: tier cleo concepts: 'Exposed skin' is no concept",
    ]
    asked = [line for line in draft.read_text().splitlines() if '"?"' in line]
    assert asked == ['vielleicht = "?"', '"Exposed skin" = "?"']
    mapping = replace(known, levels={"vielleicht": "HN"})
    mapped = import_segments([path], "marks", FPS, mapping=mapping).manifest
    unchanged = import_segments([FOLDER / "noir.eaf"], "marks", FPS, mapping=known)
    assert mapped.clips == unchanged.manifest.clips
    assert mapped.header.concepts["Exposed skin"] == "visual"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_follows_the_rules_and_so_does_what_is_exported_of_it(
    name: str, tmp_path: Path
) -> None:
    path = FOLDER / f"{name}.eaf"
    assert problems_of(path.read_bytes()) == []
    manifest = imported(path, tmp_path / "marks")
    (written,) = export_manifest(manifest, tmp_path / "out", format="elan").files
    assert problems_of(written.read_bytes()) == []
    before = sorted(values_of(clip)[1:5] for clip in manifest.clips)
    again = import_segments([written], "again", FPS).manifest.clips
    assert sorted(values_of(clip)[1:5] for clip in again) == before


def test_a_file_has_the_date_at_which_it_was_written(tmp_path: Path) -> None:
    """Every file said that it was of 2000."""
    manifest = imported(FOLDER / "noir.eaf", tmp_path / "marks")
    (written,) = export_manifest(manifest, tmp_path / "out", format="elan").files
    (date,) = re.findall(r' DATE="([^"]*)"', written.read_text("utf-8"))
    assert datetime.fromisoformat(date) >= datetime(2026, 1, 1, tzinfo=UTC)


def test_what_was_watched_is_a_tier_of_its_own(tmp_path: Path) -> None:
    manifest = imported(FOLDER / "noir.eaf", tmp_path / "marks")
    (written,) = export_manifest(manifest, tmp_path / "out", format="elan").files
    data = written.read_bytes()
    assert problems_of(data) == []
    notes = import_segments([written], "again", FPS).notes
    assert "tier dora watched: what dora has watched" in notes
    assert not [note for note in notes if "#2" in note]
    before = sorted(values_of(clip) for clip in manifest.clips)
    again = import_segments([written], "again", FPS).manifest
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


def test_a_draft_of_several_files_counts_them_and_keeps_a_mapping_that_is_there(
    tmp_path: Path,
) -> None:
    for name in ("a.eaf", "b.eaf"):
        shutil.copy(FOLDER / "ete.eaf", tmp_path / name)
    command = ("manifest", "import", "a.eaf", "b.eaf", "-o", "own")
    call_obygaze(*command, "--write-mapping", "tiers.toml", cwd=tmp_path)
    draft = (tmp_path / "tiers.toml").read_text("utf-8")
    assert "# in 2 files, the first with " in draft
    (tmp_path / "tiers.toml").write_text("[tiers]\n", "utf-8")
    refused = call_obygaze(*command, "--mapping", "tiers.toml", cwd=tmp_path).stderr
    hint = "correct tiers.toml; or --write-mapping tiers-2.toml writes one to fill in"
    assert hint in refused

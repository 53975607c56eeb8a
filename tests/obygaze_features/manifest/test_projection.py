"""From segments to clip labels: cases by hand, a frame-by-frame oracle, and the command."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli import Result, call_obygaze
from support.data import golden, real_data
from support.film import clips, marks, write_segments, write_spans

from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.projection import (
    ClipLevel,
    as_threshold,
    frames_needed,
    merge,
    project,
    project_each,
    projection_to_csv,
    threshold_text,
)
from obygaze_features.manifest.segments import ClipSpan, Segment, read_inputs

FIFTH = Fraction(1, 5)


def given_by(annotator: str, segments: list[Segment], spans: list[ClipSpan], at: str) -> list[Any]:
    rows = project(segments, spans, as_threshold(at)).by_annotator[annotator]
    return [(row.level, row.concepts, row.ratio) for row in rows]


@pytest.mark.parametrize(
    ("at", "marked", "expected"),
    [
        # Twenty frames of a hundred are a fifth, nineteen are not.
        ("0.2", "0-19 S Body", ("S", ("Body",), (20, 100))),
        ("0.2", "0-18 S Body", ("EN", (), None)),
        # Two fragments of nineteen are not one of thirty-eight.
        ("0.2", "0-18 S Body, 40-58 S Body", ("EN", (), None)),
        # A fragment that is too short brings no concept to one that is not.
        ("0.2", "0-18 S Look, 40-59 S Body", ("S", ("Body",), (20, 100))),
        # The same segment twice, and one within another, are each tested alone.
        ("0.2", "0-29 S Body, 0-29 S Body", ("S", ("Body",), (30, 100))),
        ("0.2", "0-99 HN Look, 40-59 S Body", ("S", ("Body",), (20, 100))),
        # Only the part within the clip counts: the clip is frames 0 to 99.
        ("0.2", "80-900 NS Voice", ("NS", ("Voice",), (20, 100))),
        ("0.2", "81-900 NS Voice", ("EN", (), None)),
        ("0.2", "100-900 S Voice", ("EN", (), None)),
        # Explicit EN has a ratio, and keeps a concept if it was given one.
        ("0.2", "0-98 EN", ("EN", (), (99, 100))),
        ("0.2", "0-98 EN Body", ("EN", ("Body",), (99, 100))),
        # A third of a hundred frames is not whole: 34 reach it, 33 do not.
        ("1/3", "0-33 HN", ("HN", (), (34, 100))),
        ("1/3", "0-32 HN", ("EN", (), None)),
        ("0.25", "0-24 HN", ("HN", (), (25, 100))),
        # Zero still asks for a frame, one for every frame.
        ("0", "99-200 HN", ("HN", (), (1, 100))),
        ("0", "100-200 HN", ("EN", (), None)),
        ("1", "0-99 HN", ("HN", (), (100, 100))),
        ("1", "0-98 HN", ("EN", (), None)),
        # The ratio is that of the largest segment of the level that won.
        ("0.2", "0-29 S Body, 30-69 S Look, 70-99 HN", ("S", ("Body", "Look"), (40, 100))),
    ],
)
def test_a_clip_of_a_hundred_frames(at: str, marked: str, expected: tuple[Any, ...]) -> None:
    assert given_by("A", marks(marked), clips("0-99"), at) == [expected]


def test_concepts_are_sorted_and_spelled_as_given() -> None:
    marked = marks("0-49 S look|Body, 50-99 S Exp of  emotion|Body")
    ((_, concepts, _),) = given_by("A", marked, clips("0-99"), "0.2")
    assert concepts == ("Body", "Exp of  emotion", "look")


def test_clips_of_one_frame_and_a_boundary_frame_that_two_clips_share() -> None:
    spans = clips("0-4 4-4 4-8 9-9")
    assert given_by("A", marks("4-4 S Body"), spans, "0.2") == [
        ("S", ("Body",), (1, 5)),
        ("S", ("Body",), (1, 1)),
        ("S", ("Body",), (1, 5)),
        ("EN", (), None),
    ]


def test_the_exact_case_holds_at_every_length_where_seconds_fail() -> None:
    """At 23.976 fps a fifth of the clip, computed in seconds, falls short for many lengths."""
    fps, missed_in_seconds = 24000 / 1001, 0
    for fifth in range(1, 600):
        length = 5 * fifth
        row = given_by("A", marks(f"1000-{999 + fifth} S"), clips(f"1000-{999 + length}"), "0.2")
        assert row == [("S", (), (fifth, length))]
        start, end = 1000 / fps, (1000 + length) / fps
        missed_in_seconds += ((1000 + fifth) / fps - start) / (end - start) < 0.2
    assert missed_in_seconds > 100


def test_an_annotator_has_rows_for_the_films_he_or_she_marked() -> None:
    segments = [
        *marks("0-9 S Body", movie="m", annotator="B"),
        *marks("0-9 HN Look", movie="m", annotator="A"),
        *marks("0-9 NS", movie="n", annotator="A"),
        *marks("0-9 S", movie="elsewhere", annotator="C"),
    ]
    spans = [*clips("0-9", movie="n"), *clips("0-9", movie="m"), *clips("0-9", movie="o")]
    made = project(segments, spans)
    assert list(made.by_annotator) == ["A", "B", "C"]
    ids = {name: [row.clip_id for row in rows] for name, rows in made.by_annotator.items()}
    assert ids == {"A": ["n-001", "m-001"], "B": ["m-001"], "C": []}
    assert [(row.clip_id, row.level) for row in made.merged] == [("n-001", "NS"), ("m-001", "S")]
    assert made.unseen == ("o-001",)


def test_merging_takes_the_highest_level_its_concepts_and_the_largest_ratio() -> None:
    rows = [
        ClipLevel("c", "NS", ("Speech", "Body"), (40, 100)),
        ClipLevel("c", "HN", ("Clothing",), (90, 100)),
        ClipLevel("c", "NS", ("Body", "Voice"), (50, 100)),
    ]
    assert merge(rows) == ClipLevel("c", "NS", ("Body", "Speech", "Voice"), (50, 100))


def test_merging_en_keeps_the_ratio_of_the_one_who_marked_it() -> None:
    unmarked, marked = ClipLevel("c", "EN"), ClipLevel("c", "EN", (), (70, 100))
    assert merge([unmarked, marked]).ratio == (70, 100)
    assert merge([unmarked, unmarked]).ratio is None


def test_a_clip_tiled_by_short_segments_ends_without_a_label() -> None:
    tiled = "0-32 HN, 33-65 NS, 66-99 S"
    at = as_threshold("0.4")
    alone = project(marks(tiled), clips("0-99"), at)
    assert [(row.level, row.ratio) for row in alone.merged] == [("EN", None)]
    assert alone.unlabelled == ("m-001",)
    assert alone.counts() == {"EN": 0, "HN": 0, "NS": 0, "S": 0}
    # 40 unmarked frames are EN enough, 39 are not, in however many pieces they come.
    assert project(marks("0-29 HN, 50-79 S"), clips("0-99"), at).unlabelled == ()
    assert project(marks("0-29 HN, 50-80 S"), clips("0-99"), at).unlabelled == ("m-001",)
    # Frames marked twice are marked once.
    assert project(marks("0-29 HN, 15-44 HN, 20-30 S"), clips("0-99"), at).unlabelled == ()
    # Another annotator's label is enough, and so is what another left unmarked.
    for other in ("0-39 NS", "200-300 S"):
        both = [*marks(tiled), *marks(other, annotator="B")]
        assert project(both, clips("0-99"), at).unlabelled == ()


def test_the_sweep_counts_every_clip_once() -> None:
    segments = marks("0-9 S, 10-39 NS, 40-69 HN, 70-99 S")
    sweep = project_each(segments, clips("0-99"), [as_threshold(t) for t in ("0.1", "0.3", "0.4")])
    assert [(made.counts(), len(made.unlabelled)) for made in sweep] == [
        ({"EN": 0, "HN": 0, "NS": 0, "S": 1}, 0),
        ({"EN": 0, "HN": 0, "NS": 0, "S": 1}, 0),
        ({"EN": 0, "HN": 0, "NS": 0, "S": 0}, 1),
    ]


@pytest.mark.parametrize(
    ("text", "share"),
    [("0.2", FIFTH), (".2", FIFTH), (0.2, FIFTH), ("1/3", Fraction(1, 3)), ("0", 0), ("1.0", 1)],
)
def test_thresholds_are_exact(text: str | float, share: Fraction) -> None:
    assert as_threshold(text) == share


@pytest.mark.parametrize(
    "text", ["", "x", "20%", "1.1", "2/1", "-0.1", "1/0", "nan", "1e-99999999"]
)
def test_what_is_not_a_threshold(text: str) -> None:
    with pytest.raises(FixUsage, match="not a share"):
        as_threshold(text)


@pytest.mark.parametrize("text", ["0", "0.2", "0.125", "1/3", "1", "333333333/1000000000"])
def test_thresholds_are_written_as_people_write_them(text: str) -> None:
    share = Fraction(text)
    assert threshold_text(share) == ("0.333333333" if "000" in text else text)


@given(st.fractions(0, 1, max_denominator=10**9))
def test_a_written_threshold_is_the_same_threshold(share: Fraction) -> None:
    assert Fraction(threshold_text(share)) == share


@given(st.integers(1, 5000), st.fractions(0, 1, max_denominator=10**6))
def test_frames_needed_is_the_least_overlap_that_reaches_the_share(
    n_frames: int, share: Fraction
) -> None:
    needed = frames_needed(n_frames, share)
    assert 1 <= needed <= n_frames
    assert Fraction(needed, n_frames) >= share
    assert needed == 1 or Fraction(needed - 1, n_frames) < share


segment_lists = st.lists(
    st.builds(
        lambda annotator, start, length, level, concepts: Segment(
            "m", annotator, start, start + length, level, tuple(sorted(concepts))
        ),
        st.sampled_from("AB"),
        st.integers(0, 60),
        st.integers(0, 25),
        st.sampled_from(LEVELS),
        st.sets(st.sampled_from(["Body", "Look", "Voice"])),
    ),
    max_size=12,
)
span_lists = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=5
).map(lambda bounds: [ClipSpan(f"c{i}", "m", s, s + n) for i, (s, n) in enumerate(bounds)])
thresholds = st.fractions(0, 1, max_denominator=20)


def by_frames(
    segments: list[Segment], span: ClipSpan, share: Fraction
) -> tuple[str, tuple[str, ...], tuple[int, int] | None, bool]:
    """The rules in the slowest words: every frame of the clip is looked at by itself."""
    frames = range(span.start_frame, span.end_frame + 1)
    covers = [(sum(s.start_frame <= frame <= s.end_frame for frame in frames), s) for s in segments]
    enough = [(n, s) for n, s in covers if n > 0 and Fraction(n, len(frames)) >= share]
    unmarked = sum(
        not any(s.start_frame <= frame <= s.end_frame for s in segments) for frame in frames
    )
    for level in ("S", "NS", "HN", "EN"):
        winners = [(n, s) for n, s in enough if s.level == level]
        if winners:
            concepts = sorted({concept for _, s in winners for concept in s.concepts})
            return level, tuple(concepts), (max(n for n, _ in winners), len(frames)), True
    return "EN", (), None, unmarked > 0 and Fraction(unmarked, len(frames)) >= share


@settings(max_examples=150)
@given(segment_lists, span_lists, thresholds)
def test_the_frame_by_frame_oracle_agrees(
    segments: list[Segment], spans: list[ClipSpan], share: Fraction
) -> None:
    made = project(segments, spans, share)
    assert set(made.by_annotator) == {segment.annotator for segment in segments}
    for annotator, rows in made.by_annotator.items():
        own = [segment for segment in segments if segment.annotator == annotator]
        expected = [by_frames(own, span, share) for span in spans]
        assert [(r.level, r.concepts, r.ratio, r.labelled) for r in rows] == expected


@given(st.data(), segment_lists, span_lists, thresholds)
def test_the_order_of_segments_does_not_matter(
    data: st.DataObject, segments: list[Segment], spans: list[ClipSpan], share: Fraction
) -> None:
    shuffled = data.draw(st.permutations(segments))
    assert project(shuffled, spans, share) == project(segments, spans, share)


@given(segment_lists, span_lists, thresholds, thresholds)
def test_raising_the_threshold_never_raises_a_level(
    segments: list[Segment], spans: list[ClipSpan], one: Fraction, other: Fraction
) -> None:
    low, high = (project(segments, spans, share) for share in sorted((one, other)))
    for before, after in zip(low.merged, high.merged, strict=True):
        assert LEVELS.index(after.level) <= LEVELS.index(before.level)
        assert before.labelled or not after.labelled


def golden_cases() -> list[Path]:
    return [
        path
        for path in sorted(golden("projection").glob("*.json"))
        if "clips" in json.loads(path.read_text("utf-8"))
    ]


def bare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: row[key] for key in ("level", "concepts", "ratio")} for row in rows]


def test_the_golden_cases_through_the_command(tmp_path: Path) -> None:
    for path in golden_cases():
        case = json.loads(path.read_text("utf-8"))
        segments = [
            Segment("m", annotator, start, end, level, tuple(concepts))
            for annotator, marked in case["annotators"].items()
            for start, end, level, concepts in marked
        ]
        spans = clips(" ".join(f"{start}-{end}" for start, end in case["clips"]))
        document = run(tmp_path, segments, spans, "--threshold", case["threshold"]).json()
        for annotator, expected in case["expect"]["projection"].items():
            assert bare(document["projections"][annotator]) == expected, path.name
        if "merged" in case["expect"]:
            assert bare(document["merged"]) == case["expect"]["merged"], path.name


def run(folder: Path, segments: list[Segment], spans: list[ClipSpan], *options: str) -> Result:
    marked = write_segments(folder / "segments.csv", segments)
    cut = write_spans(folder / "clips.csv", spans)
    words = ("manifest", "project", marked, "--clips", cut, "--json", *options)
    return call_obygaze(*words, cwd=folder).ok()


def test_the_json_document_is_the_one_scripts_rely_on(tmp_path: Path) -> None:
    segments = [*marks("0-99 S Body"), *marks("0-49 S Look, 50-99 EN", annotator="B")]
    document = run(tmp_path, segments, clips("0-99 100-199"), "--sweep", "0.2,1/2,1").json()
    empty = {"clip_id": "m-002", "level": "EN", "concepts": [], "ratio": None}
    assert document == {
        "threshold": "0.2",
        "projections": {
            "A": [
                {"clip_id": "m-001", "level": "S", "concepts": ["Body"], "ratio": [100, 100]},
                empty,
            ],
            "B": [
                {"clip_id": "m-001", "level": "S", "concepts": ["Look"], "ratio": [50, 100]},
                empty,
            ],
        },
        "merged": [
            {"clip_id": "m-001", "level": "S", "concepts": ["Body", "Look"], "ratio": [100, 100]},
            empty,
        ],
        "unlabelled": 0,
        "unlabelled_clips": [],
        "sweep": [
            {"threshold": at, "levels": {"EN": 1, "HN": 0, "NS": 0, "S": 1}, "unlabelled": 0}
            for at in ("0.2", "0.5", "1")
        ],
    }


def test_the_table_for_people_goes_to_stdout_and_the_talk_to_stderr(tmp_path: Path) -> None:
    segments = [*marks("0-49 HN Voice, 50-99 NS Look"), *marks("0-24 S Body|Look", annotator="B")]
    marked = write_segments(tmp_path / "s.csv", segments)
    cut = write_spans(tmp_path / "c.csv", [*clips("0-99"), *clips("0-9", movie="unseen")])
    result = call_obygaze("manifest", "project", marked, "--clips", cut).ok()
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["clip", "A", "B", "level", "share", "concepts"],
        ["m-001", "NS", "S", "S", "25.0", "%", "Body,", "Look"],
    ]
    assert "1 clip in films that nobody marked, without a row" in result.stderr
    assert "unseen-001" in result.stderr
    assert "1 clip: EN 0, HN 0, NS 0, S 1, without a label 0" in result.stderr


def test_a_concept_outside_the_vocabulary_is_told_and_kept(tmp_path: Path) -> None:
    result = run(tmp_path, marks("0-99 S Body|Bdy"), clips("0-99"))
    assert result.json()["merged"][0]["concepts"] == ["Bdy", "Body"]
    assert "not in the vocabulary, kept as they are: Bdy" in result.stderr


def test_rows_as_csv_are_written_once_and_replaced_only_by_force(tmp_path: Path) -> None:
    spans = clips("0-99 100-199 200-299")
    segments = [*marks("0-99 S Look|Body, 200-240 HN, 241-270 HN, 271-299 HN")]
    output = tmp_path / "levels.csv"
    options = ("-o", str(output), "--threshold", "0.5")
    run(tmp_path, segments, spans, *options)
    assert output.read_text("utf-8") == (
        "clip_id,movie_id,level,concepts,overlap_frames,clip_frames\n"
        "m-001,m,S,Body|Look,100,100\n"
        "m-002,m,EN,,,\n"
        "m-003,m,,,,\n"
    )
    words = ("manifest", "project", "segments.csv", "--clips", "clips.csv", "-o", str(output))
    refused = call_obygaze(*words, "--threshold", "0.3", cwd=tmp_path)
    assert refused.code == 1 and "-o" in refused.stderr
    assert "m-003,m,,," in output.read_text("utf-8")
    call_obygaze(*words, "--threshold", "0.3", "--force", cwd=tmp_path).ok()
    assert "m-003,m,HN,,41,100" in output.read_text("utf-8")


def test_rows_of_each_annotator_as_csv() -> None:
    segments = [*marks("0-9 S Body"), *marks("0-4 HN", annotator="B, the second")]
    made = project(segments, clips("0-9"))
    text = projection_to_csv(made, clips("0-9"), by_annotator=True).decode()
    assert [(row["annotator"], row["level"]) for row in csv.DictReader(io.StringIO(text))] == [
        ("A", "S"),
        ("B, the second", "HN"),
    ]


def test_a_manifest_of_the_workspace_can_be_given_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "marked.toml").write_text('schema = "obygaze-manifest/1"\n', encoding="utf-8")
    write_segments(folder / "marked.csv", marks("0-9 S Body"))
    cut = write_spans(tmp_path / "c.csv", clips("0-9"))
    words = ("-C", tmp_path, "manifest", "project", "marked", "--clips", cut, "--json")
    assert call_obygaze(*words).ok().json()["merged"][0]["level"] == "S"
    other = call_obygaze("-C", tmp_path, "manifest", "project", "marcked", "--clips", cut)
    assert other.code == 1 and "one of marked" in other.stderr


def test_the_published_segments_projected_on_themselves_keep_their_levels(tmp_path: Path) -> None:
    """Each annotator's segments as clips, and all of a clip asked for: nothing may change."""
    published = real_data("mobygaze", "mobygaze_dataframe.no_subtitles.csv")
    call_obygaze("-C", tmp_path, "manifest", "import", "mobygaze", published).ok()
    table = tmp_path / "manifests" / "mobygaze.csv"
    segments, spans = read_inputs(table, table)
    counts = dict.fromkeys(LEVELS, 0)
    for annotator in ("annotator1", "annotator2"):
        own = [segment for segment in segments if segment.annotator == annotator]
        cut = [span for span, s in zip(spans, segments, strict=True) if s.annotator == annotator]
        made = project(own, cut, Fraction(1))
        assert [(row.level, set(row.concepts)) for row in made.merged] == [
            (segment.level, set(segment.concepts)) for segment in own
        ]
        for level, count in made.counts().items():
            counts[level] += count
    assert counts == {"EN": 2407, "HN": 1906, "NS": 289, "S": 1470}


@pytest.mark.parametrize("options", [("--threshold", "1.5"), ("--sweep", "0.1,x")])
def test_a_threshold_that_is_none_is_wrong_usage(tmp_path: Path, options: tuple[str, str]) -> None:
    result = call_obygaze("manifest", "project", "s.csv", "--clips", "c.csv", *options)
    assert result.code == 2 and "not a share from 0 to 1" in result.stderr

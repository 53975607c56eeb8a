"""From segments to clip labels: cases by hand, and a frame-by-frame oracle."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.film import clips, marks, read_inputs, write_segments, write_spans

from obygaze.films.clip_spans import equal_clips
from obygaze.films.exchange import import_segments
from obygaze.films.mark_tables import WATCHED, Marks, Segment
from obygaze.films.projection import (
    ClipLevel,
    ClipSpan,
    as_threshold,
    frames_needed,
    project,
    projection_to_csv,
    threshold_text,
)
from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.model import LEVELS

FIFTH = Fraction(1, 5)


def given_by(
    annotator: str, segments: list[Segment], spans: list[ClipSpan], at: str
) -> list[Any]:
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
        (
            "0.2",
            "0-29 S Body, 30-69 S Look, 70-99 HN",
            ("S", ("Body", "Look"), (40, 100)),
        ),
    ],
)
def test_a_clip_of_a_hundred_frames(
    at: str, marked: str, expected: tuple[Any, ...]
) -> None:
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
        row = given_by(
            "A", marks(f"1000-{999 + fifth} S"), clips(f"1000-{999 + length}"), "0.2"
        )
        assert row == [("S", (), (fifth, length))]
        start, end = 1000 / fps, (1000 + length) / fps
        missed_in_seconds += ((1000 + fifth) / fps - start) / (end - start) < 0.2
    assert missed_in_seconds > 100


def test_an_annotator_has_rows_for_the_films_he_or_she_marked() -> None:
    segments = [
        *marks("0-9 S Body", film="m", annotator="B"),
        *marks("0-9 HN Look", film="m", annotator="A"),
        *marks("0-9 NS", film="n", annotator="A"),
        *marks("0-9 S", film="elsewhere", annotator="C"),
    ]
    spans = [
        *clips("0-9", film="n"),
        *clips("0-9", film="m"),
        *clips("0-9", film="o"),
    ]
    made = project(segments, spans)
    assert list(made.by_annotator) == ["A", "B", "C"]
    ids = {
        name: [row.clip_id for row in rows] for name, rows in made.by_annotator.items()
    }
    assert ids == {"A": ["n-001", "m-001"], "B": ["m-001"], "C": []}
    assert [(row.clip_id, row.level) for row in made.merged] == [
        ("n-001", "NS"),
        ("m-001", "S"),
    ]
    assert made.unseen == ("o-001",)


def test_merging_takes_the_highest_level_its_concepts_and_the_largest_ratio() -> None:
    marked = [
        *marks("0-39 NS Speech|Body", annotator="A"),
        *marks("0-89 HN Clothing", annotator="B"),
        *marks("0-49 NS Body|Voice", annotator="C"),
    ]
    (merged,) = project(marked, clips("0-99")).merged
    concepts = ("Body", "Speech", "Voice")
    assert merged == ClipLevel("m-001", "NS", concepts, (50, 100))


@pytest.mark.parametrize(
    ("rule", "level", "concepts", "ratio", "extra"),
    [
        ("highest", "NS", "Body Voice", (50, 100), {}),
        ("agreed", None, "Body", None, {"differs": "level|Voice"}),
        ("majority", "NS", "Body Voice", (50, 100), {}),
        ("by:A", "HN", "Body", (90, 100), {}),
        # The largest of those who gave this level.
        ("by:B", "NS", "Body Voice", (50, 100), {}),
    ],
)
def test_a_rule_makes_the_label_of_a_clip(
    rule: str,
    level: str | None,
    concepts: str,
    ratio: tuple[int, int] | None,
    extra: dict[str, str],
) -> None:
    marked = [
        *marks("0-89 HN Body", annotator="A"),
        *marks("0-39 NS Body|Voice", annotator="B"),
        *marks("0-49 NS Body|Voice", annotator="C"),
    ]
    made = project(marked, clips("0-99"), rule=rule)
    (merged,) = made.merged
    assert merged.to_json()["level"] == level
    assert merged.concepts == tuple(concepts.split())
    assert merged.ratio == ratio
    assert made.labels["m-001"].extra == extra
    said = {(one.annotator, one.level, one.concepts) for one in made.labels.annotations}
    assert said == {
        ("A", "HN", ("Body",)),
        ("B", "NS", ("Body", "Voice")),
        ("C", "NS", ("Body", "Voice")),
    }
    with pytest.raises(FixUsage, match="unknown rule 'highst'"):
        project(marked, clips("0-99"), rule="highst")


def test_a_column_of_each_annotator_and_no_label() -> None:
    marked = [*marks("0-89 HN Body", annotator="A"), *marks("0-9 S", annotator="B")]
    made = project(marked, clips("0-99"), rule="each")
    assert [row.labelled for row in made.merged] == [False]
    rows = list(
        csv.DictReader(projection_to_csv(made, clips("0-99")).decode().splitlines())
    )
    assert [(row["level"], row["level.A"], row["level.B"]) for row in rows] == [
        ("", "HN", "EN")
    ]


def test_merging_en_keeps_the_ratio_of_the_one_who_marked_it() -> None:
    watched = marks("0-99 watched", annotator="A")
    marked = marks("0-69 EN", annotator="B")
    (merged,) = project([*watched, *marked], clips("0-99")).merged
    assert (merged.level, merged.ratio) == ("EN", (70, 100))
    (merged,) = project(watched, clips("0-99")).merged
    assert merged.ratio is None


def test_a_clip_tiled_by_short_segments_is_a_negative() -> None:
    """As in the paper: no segment reaches the threshold."""
    tiled = "0-32 HN, 33-65 NS, 66-99 S"
    at = as_threshold("0.4")
    alone = project(marks(tiled), clips("0-99"), at)
    assert [(row.level, row.ratio) for row in alone.merged] == [("EN", None)]
    assert alone.unlabelled == ()
    assert alone.counts() == {"EN": 1, "HN": 0, "NS": 0, "S": 0}


def test_a_clip_of_which_less_than_four_fifths_were_seen_has_no_label() -> None:
    for last, unlabelled in ((78, ("m-001",)), (79, ())):
        seen = marks(f"0-{last} watched")
        assert project(seen, clips("0-99")).unlabelled == unlabelled
        # What is marked was seen, in however many pieces it comes.
        partly = marks(f"0-9 S, 5-14 HN, 15-{last} watched")
        assert project(partly, clips("0-99")).unlabelled == unlabelled
        # A label of another annotator is enough.
        both = [*seen, *marks("0-39 NS", annotator="B")]
        assert project(both, clips("0-99")).unlabelled == ()


def test_the_table_of_what_was_watched_may_say_that_nothing_was(tmp_path: Path) -> None:
    """The page makes it with the first mark."""
    table = write_segments(tmp_path / "ada.csv", marks("0-9 S", annotator="ada"))
    spans = write_spans(tmp_path / "c.csv", clips("0-99 100-199 0-9"))
    unknown = project(*read_inputs(table, spans))
    assert [row.labelled for row in unknown.merged] == [True, True, True]
    assert unknown.assumed == (("m", "ada"),)
    write_segments(tmp_path / "ada.watched.csv", [])
    recorded = project(*read_inputs(table, spans))
    assert [row.labelled for row in recorded.merged] == [False, False, True]
    assert recorded.assumed == ()
    # A manifest of segments keeps it.
    manifest = import_segments([table], "marks", 25).manifest
    assert [clip.extra["comment"] for clip in manifest] == ["", "watched"]


def test_every_clip_counts_once_at_each_threshold() -> None:
    segments = marks("0-9 S, 10-39 NS, 40-69 HN, 70-99 S")
    sweep = [
        project(segments, clips("0-99"), as_threshold(text))
        for text in ("0.1", "0.3", "0.4")
    ]
    assert [(made.counts(), len(made.unlabelled)) for made in sweep] == [
        ({"EN": 0, "HN": 0, "NS": 0, "S": 1}, 0),
        ({"EN": 0, "HN": 0, "NS": 0, "S": 1}, 0),
        ({"EN": 1, "HN": 0, "NS": 0, "S": 0}, 0),
    ]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0.2", FIFTH),
        (".2", FIFTH),
        (0.2, FIFTH),
        ("1/3", Fraction(1, 3)),
        ("0", 0),
        ("1.0", 1),
    ],
)
def test_thresholds_are_exact(text: str | float, share: Fraction) -> None:
    assert as_threshold(text) == share


@pytest.mark.parametrize(
    "text", ["", "x", "20%", "1.1", "2/1", "-0.1", "1/0", "nan", "1e-99999999"]
)
def test_what_is_not_a_threshold(text: str) -> None:
    with pytest.raises(FixUsage, match="the threshold must be from 0 to 1"):
        as_threshold(text)


@pytest.mark.parametrize(
    "text", ["0", "0.2", "0.125", "1/3", "1", "333333333/1000000000"]
)
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
).map(
    lambda bounds: [ClipSpan(f"c{i}", "m", s, s + n) for i, (s, n) in enumerate(bounds)]
)
thresholds = st.fractions(0, 1, max_denominator=20)


def by_frames(
    segments: list[Segment], span: ClipSpan, share: Fraction
) -> tuple[str, tuple[str, ...], tuple[int, int] | None, bool]:
    """The rules in the slowest words: every frame of the clip is looked at by itself."""
    frames = range(span.start_frame, span.end_frame + 1)
    covers = [
        (sum(s.start_frame <= frame <= s.end_frame for frame in frames), s)
        for s in segments
    ]
    enough = [(n, s) for n, s in covers if n > 0 and Fraction(n, len(frames)) >= share]
    for level in ("S", "NS", "HN", "EN"):
        winners = [(n, s) for n, s in enough if s.level == level]
        if winners:
            concepts = sorted({concept for _, s in winners for concept in s.concepts})
            return (
                level,
                tuple(concepts),
                (max(n for n, _ in winners), len(frames)),
                True,
            )
    return "EN", (), None, True


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


def test_only_watched_time_can_be_an_easy_negative() -> None:
    # Clips of ten frames. Ada marked frames 0-4, and watched frames 5-15 and 30-37.
    spans = clips("0-9 10-19 20-29 30-39")
    marked = marks("0-4 S")
    (film,) = {span.movie_id for span in spans}
    seen = [
        Segment(film, marked[0].annotator, first, last, WATCHED)
        for first, last in ((5, 15), (30, 37))
    ]
    made = project([*marked, *seen], spans, Fraction(6, 10))
    # Of clip 2 six of ten frames were watched, of clip 4 eight.
    assert [(row.level, row.labelled) for row in made.merged] == [
        ("EN", True),
        ("EN", False),
        ("EN", False),
        ("EN", True),
    ]
    assert made.assumed == ()
    without = project(marked, spans, Fraction(6, 10))
    assert [row.labelled for row in without.merged] == [True, True, True, True]
    assert without.assumed == ((film, marked[0].annotator),)


def test_a_table_says_what_was_watched_in_rows_or_beside_it(tmp_path: Path) -> None:
    header = "movie_id,annotator,start_frame,end_frame,level,concepts,comment\n"
    cut = "clip_id,movie_id,start_frame,end_frame\n1,film,0,9\n2,film,10,19\n"
    (tmp_path / "clips.csv").write_text(cut)
    mark = "film,ada,0,9,S,,\n"
    for row in ("film,ada,10,19,watched,,\n", "film,ada,10,19,,,watched\n"):
        (tmp_path / "s.csv").write_text(header + mark + row)
        segments, spans = read_inputs(tmp_path / "s.csv", tmp_path / "clips.csv")
        assert [one.level for one in segments] == ["S", WATCHED]
        assert project(segments, spans).assumed == ()
    (tmp_path / "s.csv").write_text(header + mark)
    (tmp_path / "s.watched.csv").write_text(header + "film,ada,0,9,watched,,\n")
    segments, spans = read_inputs(tmp_path / "s.csv", tmp_path / "clips.csv")
    assert [row.labelled for row in project(segments, spans).merged] == [True, False]


def test_equal_clips_begin_with_the_film_wherever_its_first_mark_is() -> None:
    """What comes before the first mark counts as watched: without it, shares were too high."""
    # At 23.976 a clip of 10 s has 239.76 frames; the fourth begins at 719.28, which is frame 719.
    rates = {"lake": Fraction(24000, 1001)}
    for first in (0, 479, 480, 718, 719, 720):
        made = Marks((Segment("lake", "ada", first, 5000, "S"),), rates)
        cut = equal_clips(made, Fraction(10))
        assert (len(cut), cut[0].start_frame) == (20, 0)
        assert (cut[3].clip_id, cut[3].start_frame) == ("lake_29.988-39.998", 719)


def test_a_table_of_what_was_watched_needs_no_concepts(tmp_path: Path) -> None:
    header = "movie_id,annotator,start_frame,end_frame,level"
    marks = f"{header},concepts\nfilm,ada,20,29,S,Look\n"
    (tmp_path / "s.csv").write_text(marks)
    (tmp_path / "s.watched.csv").write_text(f"{header}\nfilm,ada,10,29,watched\n")
    clips = "clip_id,movie_id,start_frame,end_frame\na,film,0,9\nb,film,10,19\nc,film,20,29\n"
    (tmp_path / "c.csv").write_text(clips)
    made = project(*read_inputs(tmp_path / "s.csv", tmp_path / "c.csv"))
    assert made.counts() == {"EN": 1, "HN": 0, "NS": 0, "S": 1}
    labels = [(row.labelled, row.level, row.concepts) for row in made.merged[1:]]
    assert labels == [(True, "EN", ()), (True, "S", ("Look",))]
    assert not made.merged[0].labelled


def test_the_share_of_a_clip_that_is_enough_by_default() -> None:
    """Five of 25 frames are a fifth, four are not."""
    spans = clips("0-24 25-49")
    made = project(marks("0-4 S, 30-33 HN"), spans)
    assert made.threshold == Fraction(1, 5)
    assert [row.level for row in made.merged] == ["S", "EN"]

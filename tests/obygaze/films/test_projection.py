"""From marks to what each person says of clips: cases by hand, and an oracle in plain loops."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.film import RATE, clips, marks

from obygaze.films.marks import Mark
from obygaze.films.projection import ClipSpan, Projection, as_threshold, project
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.model import LEVELS, Annotation


def said(projection: Projection, annotator: str = "A") -> list[Annotation]:
    """What one person says of the clips."""
    return [one for one in projection.answers if one.annotator == annotator]


def cell(answer: Annotation, column: str) -> str:
    """The cell of a column, as a table has it."""
    if column == "concepts":
        return "|".join(answer.concepts)
    return answer.level if column == "level" else answer.own[column]


@pytest.mark.parametrize(
    ("at", "marked", "expected"),
    [
        # Two fragments of nineteen are not one of thirty-eight.
        ("0.2", "0-18 S Body, 40-58 S Body", ("EN", ())),
        # A fragment that is too short brings no concept to one that is not.
        ("0.2", "0-18 S Look, 40-59 S Body", ("S", ("Body",))),
        # A mark of a concept is of the level with its span, else of those that it overlaps.
        ("0.2", "0-99 S, 20-79 concepts=Look", ("S", ("Look",))),
        ("0.2", "0-49 HN, 50-99 S, 30-59 concepts=Look", ("S", ("Look",))),
        ("0.2", "0-49 HN Look, 20-99 S Body", ("S", ("Body",))),
        ("0.2", "0-49 HN, 50-99 S, 10-39 concepts=Look", ("S", ())),
        # Explicit EN covers something, and keeps a concept if it was given one.
        ("0.2", "0-98 EN Body", ("EN", ("Body",))),
        ("0.2", "0-29 S Body, 30-69 S Look, 70-99 HN", ("S", ("Body", "Look"))),
    ],
)
def test_a_clip_of_a_hundred_pictures(at, marked, expected) -> None:
    (answer,) = said(project(marks(marked), clips("0-99"), as_threshold(at)))
    assert (answer.level, answer.concepts) == expected


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        # Nothing says what was watched: only what was judged has a label.
        ("0-99 S Body", {"level": ["S", ""], "concepts": ["Body", ""]}),
        ("100-199 Gewalt=stark", {"Gewalt": ["", "stark"]}),
        ("0-99 S, 100-199 comment=odd", {"level": ["S", ""], "comment": ["", "odd"]}),
        # What was watched is said.
        ("0-99 watched, 100-199 S", {"level": ["EN", "S"]}),
        ("0-99 watched=Gewalt, 0-9 Gewalt=stark", {"Gewalt": ["none", ""]}),
    ],
)
def test_a_drawn_clip_that_nobody_judged_is_no_negative(marked, expected) -> None:
    found = said(project(marks(marked), clips("0-99 100-199"), sampled_films=["m"]))
    assert len(found) == 2
    for column, words in expected.items():
        assert [cell(answer, column) for answer in found] == words


def test_people_have_answers_for_the_films_that_they_marked() -> None:
    marked = [
        *marks("0-9 S Body", film="m", annotator="B"),
        *marks("0-9 HN Look", film="m", annotator="A"),
        *marks("0-9 NS", film="n", annotator="A"),
        *marks("0-9 S", film="elsewhere", annotator="C"),
    ]
    films = ("n", "m", "o")
    spans = [span for film in films for span in clips("0-9", film=film)]
    projection = project(marked, spans)
    answers = [(one.clip_id, one.annotator, one.level) for one in projection.answers]
    assert answers == [("n-001", "A", "NS"), ("m-001", "A", "HN"), ("m-001", "B", "S")]
    assert projection.unseen == ["o-001"]


def test_a_concept_where_there_is_no_level_is_counted() -> None:
    marked = marks("0-49 S Body, 60-99 concepts=Look, 40-59 concepts=Voice")
    projection = project(marked, clips("0-99"))
    (answer,) = said(projection)
    assert answer.concepts == ("Body", "Voice")
    assert projection.n_without_level == 1


def test_a_concept_of_a_person_without_levels_is_counted_where_others_gave_levels() -> (
    None
):
    """Else it would be lost between the level of one person and the concepts of another."""
    ada = marks("0-99 S", annotator="ada")
    ben = marks("0-99 concepts=Look", annotator="ben")
    projection = project([*ada, *ben], clips("0-99"))
    assert [one.concepts for one in projection.answers] == [(), ()]
    assert projection.n_without_level == 1
    alone = project(ben, clips("0-99"))
    assert [one.concepts for one in alone.answers] == [("Look",)]
    assert alone.n_without_level == 0


def test_who_watched_and_only_comments_has_seen_nothing() -> None:
    ada = marks("0-199 watched, 0-99 S", annotator="ada")
    ben = marks("0-199 watched, 10-19 comment=dark", annotator="ben")
    answers = said(project([*ada, *ben], clips("0-99 100-199")), "ben")
    assert [one.level for one in answers] == ["EN", "EN"]
    assert [one.own["comment"] for one in answers] == ["dark", ""]


def test_who_watched_for_all_columns_found_nothing_in_those_without_a_mark() -> None:
    ada = marks("0-199 watched, 0-99 S", annotator="ada")
    ben = marks("0-199 watched=Gewalt, 100-199 Gewalt=stark", annotator="ben")
    projection = project([*ada, *ben], clips("0-99 100-199"))
    answers = said(projection, "ada")
    assert [one.own["Gewalt"] for one in answers] == ["none", "none"]
    # Ben watched for one column only.
    assert [one.level for one in said(projection, "ben")] == ["", ""]


def test_a_comment_of_the_clip_before_is_not_one_of_this_clip() -> None:
    """Files of ELAN round an end up to the next millisecond."""
    marked = (Mark("m", 0.0, 3.334, "comment", "dark", "A"),)
    point = Mark("m", 5.0, 5.001, "comment", "cut", "A")
    spans = [ClipSpan("a", "m", 0.0, 10 / 3), ClipSpan("b", "m", 10 / 3, 20 / 3)]
    answers = said(project([*marked, point], spans))
    assert [one.own["comment"] for one in answers] == ["dark", "cut"]


def test_in_a_column_without_an_order_the_longest_value_counts() -> None:
    """Marks of a value are taken together, `none` never competes, and `?` is not known."""
    for text, value in (
        ("0-29 Ort=Bad, 30-69 Ort=Flur", "Flur"),
        # Of equal ones, the first.
        ("0-39 Ort=Flur, 40-79 Ort=Bad", "Flur"),
        ("0-29 Ort=Bad, 30-59 Ort=Flur, 60-89 Ort=Bad", "Bad"),
        ("0-89 Ort=none, 90-99 Ort=Flur", "none"),
        ("0-69 Ort=none, 70-99 Ort=Flur", "Flur"),
        ("0-49 Ort=?, 50-79 Ort=Bad", ""),
        ("0-18 Ort=Bad", "none"),
    ):
        (answer,) = said(project(marks(text), clips("0-99")))
        assert answer.own["Ort"] == value, text


def test_in_a_column_with_an_order_the_highest_value_counts() -> None:
    orders = {"Gewalt": ("schwach", "stark")}
    for text, value in (
        ("0-79 Gewalt=schwach, 80-99 Gewalt=stark", "stark"),
        ("0-80 Gewalt=schwach, 81-99 Gewalt=stark", "schwach"),
        ("0-9 Gewalt=stark, 20-29 Gewalt=stark", "none"),
        ("0-49 Gewalt=?, 50-69 Gewalt=schwach", "schwach"),
        ("0-49 Gewalt=?", ""),
    ):
        (answer,) = said(project(marks(text), clips("0-99"), orders=orders))
        assert answer.own["Gewalt"] == value, text
    with pytest.raises(FixInput, match="words of the annotations are missing: mittel"):
        project(marks("0-9 Gewalt=mittel"), clips("0-9"), orders=orders)


@pytest.mark.parametrize("text", ["", "20%", "1.1", "-0.1", "1/0", "nan"])
def test_what_is_not_a_threshold(text: str) -> None:
    with pytest.raises(FixUsage, match="--threshold: expected a share from 0 to 1"):
        as_threshold(text)


def drawn_mark(annotator: str, first: int, n: int, level: str) -> Mark:
    return Mark("m", first / RATE, (first + n) / RATE, "level", level, annotator)


mark_lists = st.lists(
    st.builds(
        drawn_mark,
        st.sampled_from("AB"),
        st.integers(0, 60),
        st.integers(1, 25),
        st.sampled_from([*LEVELS, "watched"]),
    ).map(lambda m: m._replace(column="watched") if m.value == "watched" else m),
    max_size=12,
)
span_lists = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=5
).map(
    lambda bounds: [
        ClipSpan(f"c{i}", "m", first / RATE, (first + n) / RATE)
        for i, (first, n) in enumerate(bounds)
    ]
)
thresholds = st.fractions(0, 1, max_denominator=20)


def pictures(one: Mark | ClipSpan) -> set[int]:
    return {*range(round(one.start_s * RATE), round(one.end_s * RATE))}


def by_pictures(marked: list[Mark], span: ClipSpan, share: Fraction) -> str:
    """The rules in the slowest words: every picture of the clip is looked at by itself."""
    of_clip = pictures(span)
    covers = []
    seen: set[int] = set()
    for mark in marked:
        seen |= pictures(mark) & of_clip
        if mark.column == "level":
            covers.append((len(pictures(mark) & of_clip), mark.value))
    enough = [(n, level) for n, level in covers if n and n >= share * len(of_clip)]
    for level in ("S", "NS", "HN", "EN"):
        if any(other == level for _, other in enough):
            return level
    has_watched = any(mark.column == "watched" for mark in marked)
    is_seen = not has_watched or 5 * len(seen) >= 4 * len(of_clip)
    return "EN" if is_seen else ""


@settings(max_examples=100)
@given(mark_lists, span_lists, thresholds)
def test_the_oracle_agrees(marked, spans, share) -> None:
    if not any(mark.column == "level" for mark in marked):
        return
    projection = project(marked, spans, share)
    for annotator in {mark.annotator for mark in marked}:
        own = [mark for mark in marked if mark.annotator == annotator]
        for span, answer in zip(spans, said(projection, annotator), strict=True):
            assert answer.level == by_pictures(own, span, share)


def test_a_comment_judges_nothing_and_sampled_clips_are_judged_column_by_column() -> (
    None
):
    said = [
        Mark("m", 0.0, 2.0, "watched", "watched", "An"),
        Mark("m", 0.0, 2.0, "level", "S", "An"),
        Mark("m", 0.0, 2.0, "mood", "sad", "An"),
        Mark("m", 4.0, 6.0, "comment", "black", "An"),
        Mark("m", 8.0, 10.0, "mood", "sad", "An"),
    ]
    spans = [ClipSpan(f"{start_s}", "m", start_s, start_s + 2) for start_s in (0, 4, 8)]
    for sampled, level in (((), "EN"), (("m",), "")):
        answers = project(said, spans, sampled_films=sampled).answers
        assert [one.level for one in answers] == ["S", "", level]
        assert [one.own["mood"] for one in answers] == ["sad", "", "sad"]
        assert answers[1].own["comment"] == "black"

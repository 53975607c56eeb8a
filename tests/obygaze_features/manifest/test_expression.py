from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.errors import UnknownName
from obygaze_features.manifest.expression import (
    MAX_DEPTH,
    BadExpression,
    parse,
    plain_value,
)
from obygaze_features.manifest.model import LEVELS, Clip
from obygaze_features.manifest.spelling import Spelling


def clip(name: str, film: str, words: tuple[str, str, str], **facts: Any) -> Clip:
    """A clip with its annotator, its fold and its moods."""
    columns = ("annotator", "fold:x", "mood")
    return Clip(name, film, extra=dict(zip(columns, words, strict=True)), **facts)


B = {"scene": 2, "start_s": 0.5, "end_s": 2.0, "level": "HN", "concepts": ("Look",)}
C = {"level": "NS", "concepts": ("Body", "Look")}
D = {"scene": 3, "video": "n.mp4", "level": "S", "concepts": ("Type of shot",)}
CLIPS = [
    clip("a", "m", ("A1", "0", ""), scene=1, level="EN"),
    clip("b", "m", ("A2", "1", "joy"), **B),
    clip("c", "m", ("A1", "", "joy|fear"), **C),
    clip("d", "n", ("A 3", "", "fear"), **D),
    clip("e", "n", ("A1", "", ""), level="S", concepts=("Body",)),
    clip("f", "n", ("", "", "")),
]


def holds(text: str) -> list[int]:
    """Rows of the small table for which an expression holds."""
    expression = parse(text)
    return [row for row, clip in enumerate(CLIPS) if expression.holds(clip.values)]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("level == S", [3, 4]),
        ("level in {S, NS,HN}", [1, 2, 3, 4]),
        ('"Look" in concept', [1, 2]),
        ('concept in {Body, "Type of shot"}', [2, 3, 4]),
        ("concept", [1, 2, 3, 4]),
        ("level == EN or level == HN and concept == Body", [0]),
        ("(level == EN or level == HN) and concept == Look", [1]),
        ("not (level == S and concept)", [0, 1, 2, 5]),
        ("\n  level == S\n  and\tconcept == Body ", [4]),
        ("annotator in {A2, 'A 3'}", [1, 3]),
        ("scene in {1, 3}", [0, 3]),
        ("start_s == 0.50 and end_s == 2", [1]),
        ("scene > -1.5", [0, 1, 3]),
        ("scene >= '2'", [1, 3]),
        ("'fold:x'", [0, 1]),
        ("mood == joy", [1, 2]),
        ("mood not in {joy}", [0, 3, 4, 5]),
    ],
)
def test_by_hand(text: str, rows: list[int]) -> None:
    assert holds(text) == rows


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "incomplete or invalid"),
        ("'é' in concept § level", "incomplete or invalid"),
        ("level == X", "unknown level 'X'"),
        ("level in {}", "expected a column or a value"),
        ("mood > 2,5", "write 2,5 as 2.5"),
        ("level < S", "expected a number, got 'S'"),
        ("level == 'S\\x41'", "a backslash is not allowed"),
    ],
)
def test_an_error_says_what_is_wrong_and_in_which_expression(text, what) -> None:
    with pytest.raises(BadExpression) as error:
        parse(text)
    assert what in error.value.message
    assert error.value.hint
    assert error.value.where == text


def test_nothing_can_be_run() -> None:
    for text in ("__import__('os').system('x')", "concept.__class__", "[c for c in x]"):
        with pytest.raises(BadExpression):
            parse(text)


def test_depth_and_length_are_limited() -> None:
    deep = MAX_DEPTH - 1
    assert holds("not (" * deep + "level == S" + ")" * deep) == [0, 1, 2, 5]
    with pytest.raises(BadExpression, match="levels of nesting"):
        parse("not " * 400 + "concept")
    with pytest.raises(BadExpression, match="incomplete or invalid"):
        parse("(" * 1000 + ")" * 1000)
    with pytest.raises(BadExpression, match="at most 2000 characters"):
        parse(" or ".join(["level == S"] * 1000))


def test_a_concept_that_is_not_in_the_vocabulary() -> None:
    # Under both names of the column.
    for column in ("concept", "concepts"):
        with pytest.raises(BadExpression, match=f"unknown {column} 'Bdy'"):
            parse(f"level == S and not (Bdy in {column})", vocabulary=("Body", "Look"))


def test_a_column_that_the_manifest_does_not_have() -> None:
    # Each part is evaluated, so that the wrong name is found whatever the clips are.
    for text in ("level == EN or anotator == A1", "level == S and anotator == A1"):
        with pytest.raises(UnknownName, match=r"no column 'anotator'"):
            holds(text)


NAMES = ("Look", "Body", "Type of shot", "in", "it's")
some_levels = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=3)
some_names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)
levels = st.tuples(st.just("level"), some_levels)
named = st.tuples(st.just("concept"), some_names)
leaves = st.one_of(levels, named, st.just(("any",)))
trees = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.tuples(st.just("not"), part),
        st.tuples(st.sampled_from(["and", "or"]), part, part),
    ),
    max_leaves=8,
)


def written(tree: tuple) -> str:
    match tree:
        case ("any",):
            return "concept"
        case ("level", names):
            return f"level in {{{', '.join(names)}}}"
        case ("concept", names):
            return "concept in {" + ", ".join(f'"{name}"' for name in names) + "}"
        case ("not", part):
            return f"not ({written(part)})"
        case (word, left, right):
            return f"({written(left)}) {word} ({written(right)})"
    raise AssertionError


def meant(tree: tuple, level: str, concepts: tuple[str, ...]) -> bool:
    match tree:
        case ("any",):
            return bool(concepts)
        case ("level", names):
            return level in names
        case ("concept", names):
            return bool(set(names) & set(concepts))
        case ("not", part):
            return not meant(part, level, concepts)
        case ("and", left, right):
            return meant(left, level, concepts) and meant(right, level, concepts)
        case ("or", left, right):
            return meant(left, level, concepts) or meant(right, level, concepts)
    raise AssertionError


@given(
    trees, st.lists(st.tuples(st.sampled_from(LEVELS), st.sets(st.sampled_from(NAMES))))
)
def test_against_a_walk_in_plain_python(tree: tuple, clips: list) -> None:
    rows = [(level, tuple(sorted(concepts))) for level, concepts in clips]
    expected = [meant(tree, *row) for row in rows]
    expression = parse(written(tree))
    made = [Clip("c", "m", level=level, concepts=concepts) for level, concepts in rows]
    assert [expression.holds(clip.values) for clip in made] == expected


@given(st.text(alphabet=" levlconcptSEN{}(),=!\"'andortx.1", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        holds(text)
    except BadExpression as error:
        assert error.message.startswith("label expression: ")
    except UnknownName as error:
        assert error.message.startswith("no column ")


def test_a_comment_is_refused() -> None:
    with pytest.raises(BadExpression, match="# is not allowed outside quotes"):
        parse("mood == joy # and level == S")
    tagged = Clip("a", "m", extra={"tag": "#1"})
    assert parse("tag == '#1' and level != S").holds(tagged.values)


def test_a_number_is_the_same_by_order_and_by_value() -> None:
    clip = Clip("c", "m", extra={"rating": Spelling().cell("002.00", "rating")})
    for text in ("rating == 2", "rating == 02.0", "rating >= 2", "rating in {1, 2}"):
        assert parse(text.replace("02.0", '"02.0"')).holds(clip.values), text
    assert not parse("rating == 20").holds(clip.values)


@pytest.mark.parametrize("word", [".5", "0.5", "+.5", "5e-1", "00.5", "+00.50", "'.5'"])
def test_an_expression_reads_the_numbers_of_tables(word: str) -> None:
    cells = ("0.5", "7")
    clips = [Clip("c", "m", extra={"x": cell}) for cell in cells]
    for text, expected in (
        (f"x == {word}", [True, False]),
        (f"x <= {word}", [True, False]),
        ("x in {007,7.}", [False, True]),
        ("x >= 07 and not x == '007x'", [False, True]),
    ):
        expression = parse(text, words_of=lambda _: cells)
        assert [expression.holds(clip.values) for clip in clips] == expected, text
    short = Clip("c", "m", extra={"x": ".5"})
    assert parse("x < 1").holds(short.values)
    with pytest.raises(BadExpression, match="expected a number, got '1e999'"):
        parse("x > 1e999")
    with pytest.raises(BadExpression, match="incomplete or invalid"):
        parse("x > 2020-01-02")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("level == S AND concept", "write and, not AND"),
        ("NOT (level == S)", "write not, not NOT"),
        ("level in (S, EN)", "write in {S, EN}"),
        ('mood == "" or level', "write mood for clips with a value, and not mood for "),
        ("mood = joy", "use == in place of ="),
        ("mood = 'x AND y'", "use == in place of ="),
    ],
)
def test_a_hint_is_about_the_mistake(text: str, hint: str) -> None:
    with pytest.raises(BadExpression) as error:
        parse(text)
    assert error.value.hint.startswith(hint)


def test_zeros_of_numbers_alone_are_left_out() -> None:
    plain = {
        "00": "0",
        "04.00": "4",
        "-0.0": "0",
        "1.10": "1.10",
        "-01": "-1",
        "100": "100",
        "007x": "007x",
    }
    plain["12345678901234567890"] = "12345678901234567890"
    for word, number in plain.items():
        assert plain_value(word, "code") == number
        assert plain_value(word, "clip_id") == word
    # 1.1 and 1.10 may be two codes, but not two times.
    assert plain_value("01.10", "end_s") == "1.1"

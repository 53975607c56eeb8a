from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.expression import (
    LEVELS,
    MAX_DEPTH,
    BadExpression,
    parse,
)

LEVEL = ["EN", "HN", "NS", "S", "S", ""]
CONCEPTS = [(), ("Look",), ("Body", "Look"), ("Type of shot",), ("Body",), ()]


def holds(text: str) -> list[int]:
    """Rows of the small table for which an expression holds."""
    return np.flatnonzero(parse(text).evaluate(LEVEL, CONCEPTS)).tolist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("level == S", [3, 4]),
        ('level == "S"', [3, 4]),
        ("level == 'S'", [3, 4]),
        ("level != S", [0, 1, 2, 5]),
        ("level in {S}", [3, 4]),
        ("level in {S, NS,HN}", [1, 2, 3, 4]),
        ("level not in {S, NS}", [0, 1, 5]),
        ('"Look" in concept', [1, 2]),
        ("Look in concept", [1, 2]),
        ("Look not in concept", [0, 3, 4, 5]),
        ('"Type of shot" in concept', [3]),
        ("concept == Body", [2, 4]),
        ("concept != Body", [0, 1, 3, 5]),
        ('concept in {Body, "Type of shot"}', [2, 3, 4]),
        ("concept not in {Body, Look}", [0, 3, 5]),
        ("concept", [1, 2, 3, 4]),
        ("not concept", [0, 5]),
        ('level in {S} and "Look" in concept', []),
        ('level == "S" or concept == Body', [2, 3, 4]),
        ("level == EN or level == HN and concept == Body", [0]),
        ("(level == EN or level == HN) and concept == Look", [1]),
        ("not level == S and concept", [1, 2]),
        ("not (level == S and concept)", [0, 1, 2, 5]),
        ("not not level == S", [3, 4]),
        ("level==S and(Body in concept)", [4]),
        ("\n  level == S\n  and\tconcept == Body ", [4]),
    ],
)
def test_by_hand(text: str, rows: list[int]) -> None:
    assert holds(text) == rows


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("level not S", 11, "expected 'in', found 'S'"),
        ("", 1, "expected a name, found the end"),
        ("level", 6, "expected '==', '!=' or 'in' after level, found the end"),
        ("level = S", 7, "a single '='"),
        ("level == X", 10, "unknown level 'X'"),
        ("level == s", 10, "did you mean 'S'?"),
        ("level in {S", 12, "expected '}', found the end"),
        ("level in {}", 11, "expected a name, found '}'"),
        ("level in [S]", 10, "write sets with {...}"),
        ("level == S and", 15, "expected a name, found the end"),
        ("level == S level == EN", 12, "expected 'and', 'or' or the end, found 'level'"),
        ("(level == S", 12, "expected ')', found the end"),
        ("level == S)", 11, "found ')'"),
        ("Look", 5, "expected 'in', found the end"),
        ("Look in level", 9, "expected 'concept', found 'level'"),
        ("Type of shot in concept", 6, "a name of several words needs quotes"),
        ("level == S & concept", 12, "write 'and'"),
        ("level == S | concept", 12, "write 'or'"),
        ("!concept", 1, "write 'not'"),
        ("'Look in concept", 1, "the quote is not closed"),
        ("level < S", 7, "'<' is not allowed here"),
        ("3 in concept", 1, "'3' is not allowed here"),
        ("level == not", 10, "expected a name, found 'not'"),
        ("and", 1, "expected a name, found 'and'"),
    ],
)
def test_an_error_points_at_the_column(text: str, column: int, what: str) -> None:
    with pytest.raises(BadExpression) as error:
        parse(text)
    assert f"column {column}:" in error.value.what
    assert what in error.value.what
    shown, caret = error.value.details
    assert (shown, caret.index("^")) == (text, column - 1)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("open('/etc/passwd')", "calls are not allowed: open(...)"),
        ("__import__('os').system('true')", "calls are not allowed: __import__(...)"),
        ("level == S and len(concept)", "calls are not allowed: len(...)"),
        ("level.upper() == S", "attributes are not allowed"),
        ("concept.__class__", "attributes are not allowed"),
        ("level(S)", "after level, found '('"),
        ("lambda: 1", "':' is not allowed here"),
        ("level == S; concept", "';' is not allowed here"),
        ("`id`", "'`' is not allowed here"),
        ("[c for c in concept]", "write sets with {...}"),
        ("level == $HOME", "'$' is not allowed here"),
    ],
)
def test_nothing_can_be_run(text: str, what: str) -> None:
    with pytest.raises(FixInput) as error:
        parse(text)
    assert what in error.value.what


class TestLimits:
    def test_depth(self) -> None:
        deep = MAX_DEPTH - 1
        assert holds("(" * deep + "level == S" + ")" * deep) == [3, 4]
        for text in ("(" * 1000, "not " * 400 + "concept"):
            with pytest.raises(BadExpression, match="nested deeper"):
                parse(text)

    def test_length(self) -> None:
        with pytest.raises(BadExpression, match="at most 2000 characters"):
            parse(" or ".join(["level == S"] * 1000))

    def test_a_long_chain_is_not_deep(self) -> None:
        assert holds(" or ".join(["level == S"] * 100)) == [3, 4]


class TestVocabulary:
    vocabulary = ("Body", "Look", "Type of shot")

    def test_a_concept_that_is_not_in_it(self) -> None:
        with pytest.raises(BadExpression, match=r"column 21: .*did you mean 'Body'\?"):
            parse("level == S and not (Bdy in concept)", vocabulary=self.vocabulary)

    def test_a_name_like_no_other(self) -> None:
        with pytest.raises(BadExpression, match="known: Body, Look, Type of shot"):
            parse("Weather in concept", vocabulary=self.vocabulary)

    def test_a_close_name_of_several_words(self) -> None:
        with pytest.raises(BadExpression, match="did you mean 'Type of shot'"):
            parse("'Type of shoot' in concept", vocabulary=self.vocabulary)

    def test_known_concepts_pass(self) -> None:
        expression = parse('concept in {Look, "Type of shot"}', vocabulary=self.vocabulary)
        assert expression.evaluate(LEVEL, CONCEPTS).sum() == 3

    def test_the_error_says_where(self) -> None:
        with pytest.raises(BadExpression) as error:
            parse("level == X", where="honest.toml, tasks.S")
        assert "in: honest.toml, tasks.S" in str(error.value)
        assert len(str(error.value).splitlines()) == 3


class TestEvaluate:
    def test_lengths(self) -> None:
        with pytest.raises(FixInput, match="2 levels but concepts of 1"):
            parse("concept").evaluate(["S", "EN"], [()])

    def test_concepts_must_be_lists_of_names(self) -> None:
        with pytest.raises(FixInput, match="not one text"):
            parse("Look in concept").evaluate(["S"], ["Look|Body"])

    def test_no_clips(self) -> None:
        assert parse("level == S and concept").evaluate([], []).shape == (0,)

    def test_concepts_may_be_sets(self) -> None:
        assert parse("Look in concept").evaluate(["S", "S"], [{"Look"}, frozenset()]).tolist() == [
            True,
            False,
        ]


NAMES = ("Look", "Body", "Type of shot", "in", "it's")
leaves = st.one_of(
    st.tuples(st.just("level"), st.lists(st.sampled_from(LEVELS), min_size=1, max_size=3)),
    st.tuples(st.just("concept"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)),
    st.just(("any",)),
)
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


@settings(max_examples=80, deadline=None)
@given(trees, st.lists(st.tuples(st.sampled_from(LEVELS), st.sets(st.sampled_from(NAMES)))))
def test_against_a_walk_in_plain_python(tree: tuple, clips: list) -> None:
    levels = [level for level, _ in clips]
    concepts = [tuple(sorted(c)) for _, c in clips]
    expected = [meant(tree, a, b) for a, b in zip(levels, concepts, strict=True)]
    assert parse(written(tree)).evaluate(levels, concepts).tolist() == expected


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=" levlconcptSEN{}(),=!\"'andortx.1", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text).evaluate(LEVEL, CONCEPTS)
    except FixInput as error:
        assert "column" in error.what

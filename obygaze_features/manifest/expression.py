"""Parse expressions, which select clips by any column of a manifest.

    level in {S, NS} and "Type of shot" in concept
    annotator == A1 and (level == S or not concept)

The grammar, from the weakest binding to the strongest:

    expression  := conjunction ("or" conjunction)*
    conjunction := negation ("and" negation)*
    negation    := "not" negation | "(" expression ")" | test
    test        := column ("==" | "!=") value      the clip has this value in the column
                 | column ["not"] "in" set         the clip has one of these values
                 | value ["not"] "in" column       the same as column == value
                 | column                          the clip has any value
    set         := "{" value ("," value)* "}"
    column, value := letters, digits and _, or text in "double" or 'single' quotes

A cell may have several values, joined with '|'; the column of the concepts is called `concept`.
Nothing is evaluated as Python, whose own parser has other rules for names such as `is` or `007`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_rules import near
from obygaze_features.manifest.vocabulary import LEVELS

Condition = Callable[[Callable[[str], Collection[str]]], bool]
"""Takes the function that returns the values of a column of a clip, such as `clip.values`."""

MAX_LENGTH = 2000
MAX_DEPTH = 40
KEYWORDS = frozenset({"and", "or", "not", "in"})
TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"]*"|'[^']*')|(?P<word>\w+)|(?P<mark>==|!=|[(){},])|(?P<bad>\S))"""
)


class BadExpression(FixInput):
    """An invalid expression; the message names the column and shows it."""


@dataclass(frozen=True)
class Expression:
    """A parsed expression: its text, and whether it holds for a clip: `holds(clip.values)`."""

    text: str
    holds: Condition


def parse(
    text: str, *, vocabulary: Collection[str] | None = None, where: str | None = None
) -> Expression:
    """Return the parsed expression; with a `vocabulary`, a concept outside it is an error."""
    if len(text) > MAX_LENGTH:
        raise BadExpression(
            f"a label expression has at most {MAX_LENGTH} characters, got {len(text)}", where=where
        )
    known = {"level": LEVELS} if vocabulary is None else {"level": LEVELS, "concept": vocabulary}
    return Expression(text, _Parser(text, known, where).whole())


class _Token(NamedTuple):
    kind: str  # text, word, mark, bad, end
    value: str
    column: int


class _Parser:
    """One method for each rule of the grammar; `depth` limits the recursion.

    `known` has the values that a column may have, for some columns.
    """

    def __init__(self, text: str, known: Mapping[str, Collection[str]], where: str | None) -> None:
        self.text, self.known, self.where = text, known, where
        self.tokens = list(_tokens(text))
        self.depth = 0

    def error(self, what: str, token: _Token) -> BadExpression:
        """Return an error that shows the expression with a caret under the token."""
        return BadExpression(
            f"label expression, column {token.column + 1}: {what}",
            where=self.where or self.text,
            hint='for example: level in {S, NS} and "Type of shot" in concept',
            details=[self.text, " " * token.column + "^"],
        )

    def expected(self, what: str) -> BadExpression:
        """Return the error that the next token is not what the grammar expects."""
        token = self.tokens[0]
        found = "the end" if token.kind == "end" else repr(token.value)
        return self.error(f"expected {what}, found {found}", token)

    def take(self, value: str) -> bool:
        """Skip the next token if it is this word or mark; return whether it was."""
        found = self.tokens[0].kind in ("word", "mark") and self.tokens[0].value == value
        del self.tokens[:found]
        return found

    def expect(self, value: str) -> None:
        if not self.take(value):
            raise self.expected(repr(value))

    def whole(self) -> Condition:
        condition = self.expression()
        if self.tokens[0].kind != "end":
            raise self.expected("'and', 'or' or the end")
        return condition

    def expression(self) -> Condition:
        parts = [self.conjunction()]
        while self.take("or"):
            parts.append(self.conjunction())
        return joined(any, parts)

    def conjunction(self) -> Condition:
        parts = [self.negation()]
        while self.take("and"):
            parts.append(self.negation())
        return joined(all, parts)

    def negation(self) -> Condition:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH}", self.tokens[0])
        if self.take("not"):
            condition = negated(self.negation())
        elif self.take("("):
            condition = self.expression()
            self.expect(")")
        else:
            condition = self.test()
        self.depth -= 1
        return condition

    def test(self) -> Condition:
        first = self.name()
        for mark in ("==", "!="):
            if self.take(mark):
                equal = self.has(first, [self.name()])
                return equal if mark == "==" else negated(equal)
        absent = self.take("not")
        if absent:
            self.expect("in")
        elif not self.take("in"):
            return self.has(first, [])
        if self.take("{"):
            values = [self.name()]
            while self.take(","):
                values.append(self.name())
            self.expect("}")
            condition = self.has(first, values)
        else:
            condition = self.has(self.name(), [first])
        return negated(condition) if absent else condition

    def name(self) -> _Token:
        """Read a column or a value."""
        kind, value, column = self.tokens[0]
        if kind not in ("text", "word") or (kind == "word" and value in KEYWORDS):
            raise self.expected("a name")
        del self.tokens[0]
        return _Token(kind, value[1:-1] if kind == "text" else value, column)

    def has(self, column: _Token, values: Sequence[_Token]) -> Condition:
        """Return the condition that a column has one of these values, or without them any value."""
        name, wanted = column.value, frozenset(value.value for value in values)
        for value in values:
            known = self.known.get(name)
            if known is not None and value.value not in known:
                meant = near(value.value, known) or f"; known: {', '.join(known)}"
                raise self.error(f"unknown {name} {value.value!r}{meant}", value)
        if not wanted:
            return lambda values_of: bool(values_of(name))
        return lambda values_of: not wanted.isdisjoint(values_of(name))


def negated(condition: Condition) -> Condition:
    """Return the opposite of a condition."""
    return lambda values_of: not condition(values_of)


def joined(enough: Callable[[list[bool]], bool], parts: Sequence[Condition]) -> Condition:
    """Return the condition that `any` or `all` of these hold."""

    def condition(values_of: Callable[[str], Collection[str]]) -> bool:
        # Each part is evaluated, so that a wrong name is found whatever the clips are.
        holds = [part(values_of) for part in parts]
        return enough(holds)

    return condition


def _tokens(text: str) -> Iterator[_Token]:
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or "bad"
        yield _Token(kind, match[kind], match.start(kind))
    yield _Token("end", "", len(text.rstrip()))

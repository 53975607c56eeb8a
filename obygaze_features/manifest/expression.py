"""Parse label expressions, which select clips by annotation level and concepts.

    level in {S, NS} and "Type of shot" in concept
    level == S or (level == HN and not Body in concept)

The grammar, from the weakest binding to the strongest:

    expression := conjunction ("or" conjunction)*
    conjunction := negation ("and" negation)*
    negation   := "not" negation | "(" expression ")" | test
    test       := "level" ("==" | "!=") value          the clip's level
                | "level" ["not"] "in" set
                | value ["not"] "in" "concept"         the clip has this concept
                | "concept" ("==" | "!=") value        the same
                | "concept" ["not"] "in" set           the clip has one of these concepts
                | "concept"                            the clip has any concept
    set        := "{" value ("," value)* "}"
    value      := a word, or text in "double" or 'single' quotes

The tokens of the text are parsed by recursive descent into one function over whole columns. There
are no calls, no attributes, no numbers and no variables but `level` and `concept`, and nothing is
evaluated as Python. Python's own `ast` is not used: names such as `is` or `None`, names beyond
ASCII and quotes have other rules there, and its syntax errors differ from version to version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_rules import near

BoolArray = NDArray[np.bool_]
Concepts = Sequence[Collection[str]]
Names = Collection[str] | None
Condition = Callable[[NDArray[np.str_], Concepts], BoolArray]
"""Takes the level and the concepts of each clip; returns for which clips it holds."""

LEVELS = ("EN", "HN", "NS", "S")
MAX_LENGTH = 2000
MAX_DEPTH = 40
KEYWORDS = frozenset({"and", "or", "not", "in", "level", "concept"})
TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"]*"|'[^']*')|(?P<word>[^\W\d]\w*)|(?P<mark>==|!=|[(){},])|(?P<bad>\S))"""
)
REASONS = {
    "'": "the quote is not closed",
    '"': "the quote is not closed",
    ".": "attributes are not allowed",
    "=": "a single '=', compare with '=='",
    "&": "'&', write 'and'",
    "|": "'|', write 'or'",
    "!": "'!', write 'not'",
    "[": "'[', write sets with {...}",
}


class BadExpression(FixInput):
    """An invalid label expression; the message names the column and shows it."""


@dataclass(frozen=True)
class Expression:
    """A parsed expression: its text, and the condition that it stands for."""

    text: str
    condition: Condition

    def evaluate(self, levels: Sequence[str], concepts: Concepts) -> BoolArray:
        """Return for which clips it holds; a clip without a level is in no level."""
        if len(levels) != len(concepts):
            raise FixInput(f"{len(levels)} levels but concepts of {len(concepts)} clips")
        if isinstance(concepts, str) or any(isinstance(c, str) for c in concepts):
            raise FixInput("the concepts of a clip must be a list of names, not one text")
        return self.condition(np.asarray(levels, dtype=np.str_), concepts)


def level_in(names: Sequence[str]) -> Condition:
    """Return the condition that the level of a clip is one of these."""
    return lambda levels, concepts: np.isin(levels, names)


def has_concept(names: Collection[str]) -> Condition:
    """Return the condition that a clip has one of these concepts, or with no names any concept."""

    def condition(levels: NDArray[np.str_], concepts: Concepts) -> BoolArray:
        has = (any(n in own for n in names) if names else bool(own) for own in concepts)
        return np.fromiter(has, np.bool_, len(concepts))

    return condition


def negated(condition: Condition) -> Condition:
    """Return the opposite of a condition."""
    return lambda levels, concepts: ~condition(levels, concepts)


def joined(word: str, conditions: Sequence[Condition]) -> Condition:
    """Return the condition that all ("and") or some ("or") of these hold."""
    join = np.logical_and if word == "and" else np.logical_or

    def condition(levels: NDArray[np.str_], concepts: Concepts) -> BoolArray:
        return np.asarray(join.reduce([one(levels, concepts) for one in conditions]), np.bool_)

    return condition


def parse(
    text: str, *, vocabulary: Collection[str] | None = None, where: str | None = None
) -> Expression:
    """Return the parsed expression; with a `vocabulary`, a concept outside it is an error."""
    if len(text) > MAX_LENGTH:
        raise BadExpression(
            f"a label expression has at most {MAX_LENGTH} characters, got {len(text)}", where=where
        )
    return Expression(text, _Parser(text, vocabulary, where).whole())


class _Token(NamedTuple):
    kind: str  # text, word, mark, bad, end
    value: str
    column: int


class _Parser:
    """One method for each rule of the grammar; `depth` limits the recursion."""

    def __init__(self, text: str, vocabulary: Collection[str] | None, where: str | None) -> None:
        self.text, self.where, self.vocabulary = text, where, vocabulary
        self.tokens = list(self._tokens())
        self.at = 0
        self.depth = 0

    def _tokens(self) -> Iterator[_Token]:
        end = len(self.text.rstrip())
        position = 0
        while position < end and (match := TOKEN.match(self.text, position)):
            kind = match.lastgroup or "bad"
            yield _Token(kind, match[kind], match.start(kind))
            if kind == "bad":
                return
            position = match.end()
        yield _Token("end", "", end)

    def error(self, what: str, column: int) -> BadExpression:
        """Return an error that shows the expression with a caret under the column."""
        if self.now.kind == "bad":
            sign = self.now.value
            what, column = REASONS.get(sign, f"{sign!r} is not allowed here"), self.now.column
        return BadExpression(
            f"label expression, column {column + 1}: {what}",
            where=self.where or self.text,
            hint="for example: level in {S} and Body in concept",
            details=[self.text, " " * column + "^"],
        )

    @property
    def now(self) -> _Token:
        return self.tokens[self.at]

    def take(self, *values: str) -> bool:
        """Skip the next token if it is one of these words or marks; return whether it was."""
        if self.now.kind in ("word", "mark") and self.now.value in values:
            self.at += 1
            return True
        return False

    def expect(self, value: str) -> None:
        if not self.take(value):
            raise self.error(f"expected {value!r}, found {self.found()}", self.now.column)

    def found(self) -> str:
        return "the end" if self.now.kind == "end" else repr(self.now.value)

    def whole(self) -> Condition:
        condition = self.expression()
        if self.now.kind != "end":
            what = f"expected 'and', 'or' or the end, found {self.found()}"
            raise self.error(what, self.now.column)
        return condition

    def expression(self) -> Condition:
        return self.chain("or", self.conjunction)

    def conjunction(self) -> Condition:
        return self.chain("and", self.negation)

    def chain(self, word: str, part: Callable[[], Condition]) -> Condition:
        conditions = [part()]
        while self.take(word):
            conditions.append(part())
        return conditions[0] if len(conditions) == 1 else joined(word, conditions)

    def negation(self) -> Condition:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH}", self.now.column)
        try:
            if self.take("not"):
                return negated(self.negation())
            if self.take("("):
                condition = self.expression()
                self.expect(")")
                return condition
            return self.test()
        finally:
            self.depth -= 1

    def test(self) -> Condition:
        self.refuse_call()
        if self.take("level"):
            condition = self.comparison(level_in, LEVELS, "level")
            if condition is None:
                what = f"expected '==', '!=' or 'in' after level, found {self.found()}"
                raise self.error(what, self.now.column)
            return condition
        if self.take("concept"):
            return self.comparison(has_concept, self.vocabulary, "concept") or has_concept(())
        condition = has_concept((self.name(self.vocabulary, "concept"),))
        absent = self.take("not")
        if self.now.kind == "word" and self.now.value not in KEYWORDS:
            raise self.error("a name of several words needs quotes", self.now.column)
        self.expect("in")
        self.expect("concept")
        return negated(condition) if absent else condition

    def refuse_call(self) -> None:
        following = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if self.now.kind == "word" and following.value == "(" and self.now.value not in KEYWORDS:
            raise self.error(f"calls are not allowed: {self.now.value}(...)", self.now.column)

    def comparison(
        self, condition_of: Callable[[list[str]], Condition], allowed: Names, what: str
    ) -> Condition | None:
        """Read `== value`, `!= value`, `in set` or `not in set`; None where none of these comes."""
        if self.take("=="):
            return condition_of([self.name(allowed, what)])
        if self.take("!="):
            return negated(condition_of([self.name(allowed, what)]))
        absent = self.take("not")
        if absent:
            self.expect("in")
        elif not self.take("in"):
            return None
        self.expect("{")
        names = [self.name(allowed, what)]
        while self.take(","):
            names.append(self.name(allowed, what))
        self.expect("}")
        return negated(condition_of(names)) if absent else condition_of(names)

    def name(self, allowed: Names, what: str) -> str:
        """Read a value; without `allowed` names, any will do."""
        token = self.now
        if token.kind != "text" and (token.kind != "word" or token.value in KEYWORDS):
            raise self.error(f"expected a name, found {self.found()}", token.column)
        self.at += 1
        name = token.value[1:-1] if token.kind == "text" else token.value
        if allowed is None or name in allowed:
            return name
        meant = near(name, allowed) or f"; known: {', '.join(allowed)}"
        raise self.error(f"unknown {what} {name!r}{meant}", token.column)

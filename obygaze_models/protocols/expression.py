"""Says which clips belong to a class, in words a protocol file can hold and nothing can run.

    level in {S, NS} and "Type of shot" in concept
    level == S or (level == HN and not Body in concept)

The grammar, from the weakest binding to the strongest:

    expression := conjunction ("or" conjunction)*
    conjunction := negation ("and" negation)*
    negation   := "not" negation | "(" expression ")" | test
    test       := "level" ("==" | "!=") value          the clip's level
                | "level" ["not"] "in" set
                | value ["not"] "in" "concept"         the clip carries this concept
                | "concept" ("==" | "!=") value        the same, said of the concept
                | "concept" ["not"] "in" set           the clip carries one of these
                | "concept"                            the clip carries any concept
    set        := "{" value ("," value)* "}"
    value      := a word, or text in "double" or 'single' quotes

Text is cut into tokens, tokens become a small tree, and the tree is walked over whole columns.
There is no call, no attribute, no number, no name but `level` and `concept`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput

BoolArray = NDArray[np.bool_]
Concepts = Sequence[Collection[str]]

LEVELS = ("EN", "HN", "NS", "S")
MAX_LENGTH = 2000
MAX_DEPTH = 40
KEYWORDS = frozenset({"and", "or", "not", "in", "level", "concept"})
TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"]*"|'[^']*')|(?P<word>[^\W\d]\w*)|(?P<mark>==|!=|[(){},])|(?P<bad>\S))"""
)
REASONS = {
    "'": "a quote that is not closed",
    '"': "a quote that is not closed",
    ".": "attributes cannot be read here",
    "=": "a single '=', compare with '=='",
    "&": "'&', write 'and'",
    "|": "'|', write 'or'",
    "!": "'!', write 'not'",
    "[": "'[', write sets with {...}",
}


class BadExpression(FixInput):
    """A label expression that does not follow the grammar: the message points at the column."""


@dataclass(frozen=True)
class Table:
    """The two columns an expression may look at."""

    levels: NDArray[np.str_]
    concepts: Concepts

    def carries(self, concept: str) -> BoolArray:
        """Which clips carry one concept."""
        return np.fromiter((concept in c for c in self.concepts), np.bool_, len(self.concepts))


@dataclass(frozen=True)
class LevelIn:
    """The clip's level is one of these."""

    levels: tuple[str, ...]

    def of(self, table: Table) -> BoolArray:
        """Evaluate over all clips."""
        return np.isin(table.levels, self.levels)

    def __str__(self) -> str:
        return f"level in {{{', '.join(self.levels)}}}"


@dataclass(frozen=True)
class Carries:
    """The clip carries one of these concepts; of no names, any concept at all."""

    concepts: tuple[str, ...]

    def of(self, table: Table) -> BoolArray:
        """Evaluate over all clips."""
        if not self.concepts:
            return np.fromiter(map(bool, table.concepts), np.bool_, len(table.concepts))
        columns = [table.carries(name) for name in self.concepts]
        return np.asarray(np.logical_or.reduce(columns), dtype=np.bool_)

    def __str__(self) -> str:
        if not self.concepts:
            return "concept"
        return f"concept in {{{', '.join(map(_quote, self.concepts))}}}"


@dataclass(frozen=True)
class Not:
    """The opposite."""

    part: Node

    def of(self, table: Table) -> BoolArray:
        """Evaluate over all clips."""
        return ~self.part.of(table)

    def __str__(self) -> str:
        return f"not ({self.part})"


@dataclass(frozen=True)
class Both:
    """All of several conditions ("and"), or at least one ("or")."""

    word: str
    parts: tuple[Node, ...]

    def of(self, table: Table) -> BoolArray:
        """Evaluate over all clips."""
        join = np.logical_and if self.word == "and" else np.logical_or
        return np.asarray(join.reduce([part.of(table) for part in self.parts]), dtype=np.bool_)

    def __str__(self) -> str:
        return f" {self.word} ".join(f"({part})" for part in self.parts)


Node = LevelIn | Carries | Not | Both


@dataclass(frozen=True)
class Expression:
    """A parsed expression: its text, and what it means."""

    text: str
    root: Node

    def evaluate(self, levels: Sequence[str], concepts: Concepts) -> BoolArray:
        """Which clips it holds for; a clip without a level is in no level."""
        if len(levels) != len(concepts):
            raise FixInput(f"{len(levels)} levels but concepts of {len(concepts)} clips")
        if isinstance(concepts, str) or any(isinstance(c, str) for c in concepts):
            raise FixInput("the concepts of a clip must be a list of names, not one text")
        return self.root.of(Table(np.asarray(levels, dtype=np.str_), concepts))

    def __str__(self) -> str:
        return str(self.root)


def parse(
    text: str, *, vocabulary: Collection[str] | None = None, where: str | None = None
) -> Expression:
    """Read an expression; with a `vocabulary`, a concept that is not in it is an error."""
    if len(text) > MAX_LENGTH:
        raise BadExpression(f"an expression of {len(text)} characters, over {MAX_LENGTH}")
    return Expression(text, _Parser(text, vocabulary, where).whole())


class _Token(NamedTuple):
    kind: str  # text, word, mark, bad, end
    value: str
    column: int


class _Parser:
    """One method for each rule of the grammar; `depth` bounds how deep they may call each other."""

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
        """An error with the expression and a caret under the column."""
        if self.now.kind == "bad":
            sign = self.now.value
            what, column = REASONS.get(sign, f"{sign!r} means nothing here"), self.now.column
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
        """Step over the next token if it is one of these words or marks."""
        if self.now.kind in ("word", "mark") and self.now.value in values:
            self.at += 1
            return True
        return False

    def expect(self, value: str) -> None:
        if not self.take(value):
            raise self.error(f"expected {value!r}, found {self.found()}", self.now.column)

    def found(self) -> str:
        return "the end" if self.now.kind == "end" else repr(self.now.value)

    def whole(self) -> Node:
        node = self.expression()
        if self.now.kind != "end":
            raise self.error(
                f"expected 'and', 'or' or the end, found {self.found()}", self.now.column
            )
        return node

    def expression(self) -> Node:
        return self.joined("or", self.conjunction)

    def conjunction(self) -> Node:
        return self.joined("and", self.negation)

    def joined(self, word: str, part: Callable[[], Node]) -> Node:
        parts = [part()]
        while self.take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Both(word, tuple(parts))

    def negation(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH}", self.now.column)
        try:
            if self.take("not"):
                return Not(self.negation())
            if self.take("("):
                node = self.expression()
                self.expect(")")
                return node
            return self.test()
        finally:
            self.depth -= 1

    def test(self) -> Node:
        self.no_call()
        if self.take("level"):
            return self.level_test()
        if self.take("concept"):
            return self.concept_test()
        concept = self.concept()
        absent = self.take("not")
        if self.now.kind == "word" and self.now.value not in KEYWORDS:
            raise self.error("a name of several words needs quotes", self.now.column)
        self.expect("in")
        self.expect("concept")
        return Not(Carries((concept,))) if absent else Carries((concept,))

    def no_call(self) -> None:
        following = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if self.now.kind == "word" and following.value == "(" and self.now.value not in KEYWORDS:
            raise self.error(f"functions cannot be called: {self.now.value}(...)", self.now.column)

    def level_test(self) -> Node:
        if self.take("=="):
            return LevelIn((self.level(),))
        if self.take("!="):
            return Not(LevelIn((self.level(),)))
        absent = self.take("not")
        if not self.take("in"):
            raise self.error(
                f"expected '==', '!=' or 'in' after level, found {self.found()}", self.now.column
            )
        node = LevelIn(self.set_of(self.level))
        return Not(node) if absent else node

    def concept_test(self) -> Node:
        if self.take("=="):
            return Carries((self.concept(),))
        if self.take("!="):
            return Not(Carries((self.concept(),)))
        if self.take("in"):
            return Carries(self.set_of(self.concept))
        if self.take("not"):
            self.expect("in")
            return Not(Carries(self.set_of(self.concept)))
        return Carries(())

    def set_of(self, member: Callable[[], str]) -> tuple[str, ...]:
        self.expect("{")
        members = [member()]
        while self.take(","):
            members.append(member())
        self.expect("}")
        return tuple(dict.fromkeys(members))

    def value(self) -> str:
        token = self.now
        if token.kind == "text":
            self.at += 1
            return token.value[1:-1]
        if token.kind == "word" and token.value not in KEYWORDS:
            self.at += 1
            return token.value
        raise self.error(f"expected a name, found {self.found()}", token.column)

    def level(self) -> str:
        return self.known(self.value, LEVELS, "level")

    def concept(self) -> str:
        return self.known(self.value, self.vocabulary, "concept")

    def known(self, read: Callable[[], str], allowed: Collection[str] | None, what: str) -> str:
        column = self.now.column
        name = read()
        if allowed is None or name in allowed:
            return name
        folded = {known.casefold(): known for known in allowed}
        near = difflib.get_close_matches(name.casefold(), folded, 1, 0.5)
        meant = (
            f", did you mean {_quote(folded[near[0]])}?"
            if near
            else f"; known: {', '.join(allowed)}"
        )
        raise self.error(f"no {what} is called {name!r}{meant}", column)


def _quote(name: str) -> str:
    bare = re.fullmatch(r"[^\W\d]\w*", name) and name not in KEYWORDS
    return name if bare else f"'{name}'" if '"' in name else f'"{name}"'

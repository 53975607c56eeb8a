"""Parse expressions, which select clips by any column of a manifest.

    level in {S, NS} and "Type of shot" in concept
    annotator == A1 and (level == S or not concept)

A test is one of these, and `not`, `and`, `or` and parentheses combine them:

    COLUMN == VALUE, COLUMN != VALUE
    VALUE in COLUMN, VALUE not in COLUMN              the same as == and !=
    COLUMN in {VALUE, ...}, COLUMN not in {...}       one of these values
    COLUMN < NUMBER, or <=, > or >= NUMBER            the column has such a number
    COLUMN                                            any value; in a task only `concept`, `level`

A cell may have several values, joined with '|'; the column of the concepts is called `concept`.
A name needs quotes if it has blanks or other characters than letters, digits and `_`. Words that
begin with a digit, such as 1990s, and Python's own words, such as `is`, need quotes. Only in a
`--task` with a single test, the name of a column needs no quotes. 4 and 4.0 are equal, but not in
columns of ids; so are 1.5 and 1.50, if all values of the column are numbers.
The grammar is a part of Python's: expressions are parsed by `ast` and never evaluated as Python.
"""

import ast
import keyword
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NoReturn

from obygaze_features.core.errors import FixInput, near
from obygaze_features.core.file_names import printable_line
from obygaze_features.core.tables import is_number, number_of_cell
from obygaze_features.core.unknown_words import is_no_answer
from obygaze_features.manifest.vocabulary import LEVELS, canonical_level

Values = Callable[[str], Collection[str]]
"""A function that returns the values of a column of a clip, such as `clip.values`."""

Condition = Callable[[Values], bool | None]
"""A function of the values of a clip: whether a condition holds, or None if unknown."""

MAX_LENGTH = 2000
MAX_DEPTH = 40
DIGITS = re.compile(r"-?\d+(\.\d+)?")
WHOLE = re.compile(r"-?\d+")
ZEROS_BEFORE = re.compile(r"^(-?)0+(?=\d)")
NAME = re.compile(r"""\w+|"[^"]+"|'[^']+'""")
CONCEPTS = ("concept", "concepts")  # two names of one column
# The columns of ids, names and sentences: a number in them is a name, such as 007.
OF_NAMES = (
    *("clip_id", "movie_id", "video", "video_name", "film_file"),
    *("movie_title", "comment", "differs", *CONCEPTS),
)
# The columns of numbers. In other columns, 1.1 and 1.10 may be two codes, if there are words, too.
OF_NUMBERS = (
    *("start_s", "end_s", "film_start_s", "film_end_s"),
    *("framerate", "start_frame", "end_frame"),
)
ORDERS: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
QUOTED = re.compile(r""""[^"]*"|'[^']*'""")
# Python refuses numbers with zeros before them, such as 007, outside quotes.
ZEROS_OR_QUOTED = re.compile(
    rf"""{QUOTED.pattern}|(?<![^\s({{,=<>])([-+]?0\d+(?:\.\d*)?)(?![^\s)}},=<>!])"""
)
CAPITALS = re.compile(r"""\b(AND|OR|NOT|IN)\b(?=\s*[\w"'({])""")
# A test up to its operator. The text before it may be a column name without quotes.
_TEST = re.compile(
    r"(?:^|\s(?:and|or)\s)\s*(?:not\s|\(|\s)*((?:(?!\s(?:and|or)\s)[^=!<>])+?)"
    r"\s*(?:\s(?:not in|in)(?=[\s{\[(])|[=!<>]=|[=<>])"
)
HINT = (
    "use == in place of =, braces for several values, and quotes around names that have blanks or"
    " other signs, or that begin with a digit:"
    ' level in {S, NS} and "Type of shot" in concept and not mood == "1990s"'
)
HINT_OF_NUMBERS = "use <, <=, > and >= for numbers such as 3 and 2.5, and == for words"


class BadExpression(FixInput):
    """An invalid expression."""


@dataclass(frozen=True)
class Expression:
    """A parsed expression.

    `holds(clip.values)` returns whether the expression is true for a clip, or None if that is
    unknown: no value decides it, but one on which annotators differ, or an empty one, may.
    """

    text: str
    holds: Condition
    # The values that each column is compared with, except levels and concepts.
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # The columns that are compared.
    compared: Collection[str] = ()
    # The concepts that are tested; `concept` alone tests all concepts of the vocabulary.
    concepts: Collection[str] = ()
    # The columns that are compared with a number by <, <=, > or >=.
    numbers: Collection[str] = ()


def parse(
    text: str,
    *,
    vocabulary: Collection[str] | None = None,
    where: str | None = None,
    of_empty: bool | None = False,
    words_of: Callable[[str], Collection[str]] | None = None,
) -> Expression:
    """Return a parsed expression.

    Args:
        text: The expression.
        vocabulary: The known concepts; an unknown concept is an error. None: any word is a concept.
        where: The place that errors state; None: the expression.
        of_empty: The result of a comparison with an empty cell. With None, this comparison is
            unknown, and the expression is unknown (None) unless its other comparisons decide it.
        words_of: The words of a column in the clips, so that 1.50 is 1.5 in a column of numbers;
            None: there are no clips yet.
    """
    parser = _Parser(re.sub(r"\s", " ", text).strip(), where, of_empty, words_of)
    if vocabulary is not None:
        parser.allowed |= dict.fromkeys(CONCEPTS, vocabulary)
    return Expression(
        text,
        parser.parse(),
        dict(parser.values),
        tuple(parser.compared),
        tuple(parser.concepts),
        tuple(parser.numbers),
    )


def compared_names(text: str) -> list[str]:
    """Return the text before the operator of each test, which may be the name of a column."""
    return _TEST.findall(text)


def is_labelled(column: str, values_of: Values) -> bool:
    """Return whether a clip has a label in a column.

    A clip without concepts has a label in the column of concepts if it has a level, or if its
    annotators differ on its level. For such a clip, no concept is the label.
    """
    if values_of(column) or column not in CONCEPTS:
        return bool(values_of(column))
    return bool(values_of("level")) or "level" in values_of("differs")


def plain_number(word: str) -> str | None:
    """Return a number as text, the same for equal numbers, or None if the word is not a number.

    >>> plain_number("1.50"), plain_number("15e-1"), plain_number("1.5.0")
    ('1.5', '1.5', None)
    """
    number = number_of_cell(word)
    if number is None or WHOLE.fullmatch(word):
        # A whole number may have more digits than a float.
        return None if number is None else plain_value(word, "")
    text = format(Decimal(repr(number)), "f").removesuffix(".0")
    return "0" if text == "-0" else text


def typed_value(word: str, column: str, words: Callable[[], Collection[str]]) -> str:
    """Return a typed word as the cells of a column spell it.

    Where all words of the column but those such as NA are numbers, 1.50 is 1.5.

    Args:
        word: The typed word.
        column: The column.
        words: A function that returns the words of the column.
    """
    plain = plain_value(word, column)
    number = None if column in OF_NAMES else plain_number(plain)
    if number is None or number == plain:
        return plain
    known = words()
    are_numbers = all(plain_number(one) == one or is_no_answer(one) for one in known)
    return number if are_numbers and plain not in known else plain


def plain_value(word: str, column: str) -> str:
    """Return the canonical spelling of a word in a column: one line, and 4 for 04 and 4.00.

    Words in columns of names are returned unchanged. All functions that read tables, marks, tiers,
    expressions or options call this function.
    """
    if column in OF_NAMES:
        return word
    plain = printable_line(word)
    if DIGITS.fullmatch(plain) is None:
        return plain
    whole, _, decimals = plain.partition(".")
    if column in OF_NUMBERS:
        decimals = decimals.rstrip("0")
    plain = f"{whole}.{decimals}" if decimals.strip("0") else whole
    plain = ZEROS_BEFORE.sub(r"\1", plain)
    return "0" if plain == "-0" else plain


class _Parser:
    """Turn the tree of Python's parser into one condition."""

    def __init__(
        self,
        text: str,
        where: str | None,
        of_empty: bool | None,
        words_of: Callable[[str], Collection[str]] | None,
    ) -> None:
        self.text = text
        self.quoted = ZEROS_OR_QUOTED.sub(_in_quotes, text)
        self.where = where
        self.of_empty = of_empty
        self.words_of = words_of or (lambda _: ())
        self.allowed: dict[str, Collection[str]] = {"level": LEVELS}
        self.values: dict[str, list[str]] = defaultdict(list)
        self.compared: dict[str, None] = {}
        self.concepts: dict[str, None] = {}
        self.numbers: dict[str, None] = {}

    def parse(self) -> Condition:
        if len(self.text) > MAX_LENGTH:
            self.refuse(f"expected at most {MAX_LENGTH} characters")
        if "\\" in self.text:
            self.refuse("a backslash is not allowed")
        if "#" in QUOTED.sub("", self.text):
            # Python would read the rest of the line as a comment.
            self.refuse("# is not allowed outside quotes")
        try:
            tree = ast.parse(self.quoted, mode="eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            self.refuse("the expression is incomplete or invalid", self.hint())
        return self.condition(tree.body, MAX_DEPTH)

    def condition(self, node: ast.expr, depth: int) -> Condition:
        if not depth:
            self.refuse(f"expected at most {MAX_DEPTH} levels of nesting")
        match node:
            case ast.BoolOp(op, parts):
                conditions = [self.condition(part, depth - 1) for part in parts]
                return combine(conditions, decisive=isinstance(op, ast.Or))
            case ast.UnaryOp(ast.Not(), part):
                return negate(self.condition(part, depth - 1))
            case ast.Tuple():
                self.refuse("a comma is valid in braces only; write 2,5 as 2.5")
            case ast.Compare(column, [ast.Eq() | ast.NotEq() as op], [value]):
                condition = self.has(column, [value])
            case ast.Compare(column, [ast.In() | ast.NotIn() as op], [ast.Set(values)]):
                condition = self.has(column, values)
            case ast.Compare(value, [ast.In() | ast.NotIn() as op], [column]):
                condition = self.has(column, [value])
            case ast.Compare(column, [op], [value]) if type(op) in ORDERS:
                return self.is_beyond(column, ORDERS[type(op)], value)
            case _:
                return self.has(node, [])
        is_negative = isinstance(op, ast.NotEq | ast.NotIn)
        return negate(condition) if is_negative else condition

    def has(self, column: ast.expr, values: Sequence[ast.expr]) -> Condition:
        """Return the condition that a column has one of these values.

        Without values, return the condition that the column has any value.
        """
        name = self.name(column)
        if any(isinstance(one, ast.Constant) and one.value == "" for one in values):
            word = quote_word(name)
            hint = (
                f"write {word} for clips with a value, and not {word} for other clips"
            )
            if self.of_empty is None:
                hint = "leave this test out: a clip with an empty cell has no class"
            self.refuse("expected a value, got an empty text", hint)
        wanted = [self.name(value) for value in values]
        allowed = self.allowed.get(name)
        for word in wanted:
            if allowed is not None and word not in allowed:
                level = canonical_level(word) if name == "level" else None
                meant = near(level or word, allowed)
                meant = meant or f"; known: {', '.join(allowed)}"
                self.refuse(f"unknown {name} {word!r}{meant}")
        if name in CONCEPTS:
            self.concepts.update(dict.fromkeys(wanted or self.allowed.get(name, ())))
        if not wanted:
            if self.of_empty is None and name not in ("level", *CONCEPTS):
                self.refuse(
                    f"expected a condition, got a column: write {name} == VALUE"
                )
            any_concept = self.allowed.get(name, ()) if name in CONCEPTS else ()
            return self.compares(name, bool, any_concept)
        if allowed is None:
            self.values[name] += wanted
        plain = set()
        for word in wanted:
            plain.add(typed_value(word, name, lambda: self.words_of(name)))
        of_concepts = plain if name in CONCEPTS else ()
        return self.compares(
            name, lambda cells: not plain.isdisjoint(cells), of_concepts
        )

    def is_beyond(
        self,
        column: ast.expr,
        is_beyond: Callable[[float, float], bool],
        value: ast.expr,
    ) -> Condition:
        """Return the condition that a column has a number beyond a limit."""
        name = self.name(column)
        word = self.name(value)
        limit = number_of_cell(word)
        if limit is None:
            self.refuse(f"expected a number, got {word!r}", HINT_OF_NUMBERS)
        self.numbers[name] = None

        def any_beyond(cells: Collection[str]) -> bool:
            for cell in cells:
                if not is_number(cell):
                    raise FixInput(
                        f"expected numbers in the column {name}, got {cell!r}",
                        where=self.where or self.text,
                        hint=HINT_OF_NUMBERS,
                    )
            return any(is_beyond(float(cell), limit) for cell in cells)

        return self.compares(name, any_beyond)

    def compares(
        self,
        name: str,
        holds: Callable[[Collection[str]], bool],
        concepts: Collection[str] = (),
    ) -> Condition:
        """Return a condition: `holds` returns True for the values of the clip in the column.

        For a clip without a label in the column, the condition is `of_empty`. If annotators differ
        on the column, it is unknown. If they differ on one of the `concepts`, it is unknown unless
        it holds without this concept.
        """
        self.compared[name] = None

        def condition(values_of: Values) -> bool | None:
            cells = values_of(name)
            differs = values_of("differs")
            if name in differs:
                return None
            if not differs or {*concepts}.isdisjoint(differs):
                is_known = bool(cells) or is_labelled(name, values_of)
                return holds(cells) if is_known else self.of_empty
            decided = [one for one in cells if one not in differs]
            return holds(decided) or None

        return condition

    def name(self, node: ast.expr) -> str:
        """Return the column or value that a node of the tree stands for."""
        word = ast.get_source_segment(self.quoted, node) or ""
        if isinstance(node, ast.Name):
            return word  # as it is written: Python would compose its accents
        is_word = isinstance(node, ast.Constant | ast.UnaryOp)
        if not (is_word and (NAME.fullmatch(word) or is_number(word))):
            hint = self.hint()
            if isinstance(node, ast.Tuple | ast.List) and node.elts:
                hint = f"write in {{{word[1:-1]}}}"
            self.refuse(
                "expected a column or a value: letters, digits and _, or text in quotes, got"
                f" {word!r}",
                hint,
            )
        return word[1:-1] if word[0] in "\"'" else word

    def hint(self) -> str:
        """Return the hint for an expression that is not valid."""
        capitals = CAPITALS.search(QUOTED.sub("''", self.text))
        return f"write {capitals[1].lower()}, not {capitals[1]}" if capitals else HINT

    def refuse(self, problem: str, hint: str = HINT) -> NoReturn:
        where = self.where or self.text
        raise BadExpression(f"label expression: {problem}", where=where, hint=hint)


def _in_quotes(found: re.Match[str]) -> str:
    """Return a number in quotes; text in quotes is returned unchanged."""
    return f'"{found[1]}"' if found[1] else found[0]


def quote_word(word: str) -> str:
    """Return a name or a word for an expression, in quotes if it needs them."""
    if word.isidentifier() and not keyword.iskeyword(word):
        return word
    return f"'{word}'" if '"' in word else f'"{word}"'


def negate(condition: Condition) -> Condition:
    """Return the opposite of a condition."""

    def opposite(values_of: Values) -> bool | None:
        holds = condition(values_of)
        return None if holds is None else not holds

    return opposite


def combine(parts: Sequence[Condition], *, decisive: bool) -> Condition:
    """Return the condition that any part holds, or with decisive=False, that all parts hold."""

    def condition(values_of: Values) -> bool | None:
        # Each part is evaluated, so that an unknown name is always found.
        holds = [part(values_of) for part in parts]
        if decisive in holds:
            return decisive
        return None if None in holds else not decisive

    return condition

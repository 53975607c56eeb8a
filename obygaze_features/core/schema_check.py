"""Read TOML and JSON files into records of msgspec, with errors that name the invalid keys.

    class Source(Record, frozen=True):
        file: str
        sha256: Sha256 = ""

    class Film(Record, frozen=True):
        title: str
        year: Annotated[int, Meta(ge=1888)] = 1888
        sources: tuple[Source, ...] = ()

    document = read_toml(data, "film.toml")
    document.require_schema("obygaze-film/1", "film")
    film = record_of(document, Film, "the film is not valid")

The error lists each violation on one line, such as `film.toml: year: must be int >= 1888, got 3` or
`film.toml: titel: unknown key 'titel' (did you mean 'title'?)`. `Meta(description=...)` describes
valid values; the default is the text of msgspec. Checks of several keys come before the error:

    film = document.check(Film)
    if film and film.year > 2100:
        document.add("year", "must be at most 2100")
    document.raise_if_any("the film is not valid")
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta, inspect

from obygaze_features import __version__
from obygaze_features.core.errors import Corrupt, FixInput, Mismatch, ObygazeError, near
from obygaze_features.core.files import parse_json

MAX_LISTED = 1000
# Of a longer message, only the start and the end are kept.
MAX_MESSAGE = 300
T = TypeVar("T")
Sha256 = Annotated[
    str, Meta(pattern=r"^[0-9a-f]{64}\Z", description="64 hexadecimal digits")
]
Count = Annotated[
    int,
    Meta(ge=0, lt=10**9, description="a whole number, at least 0, at most 999999999"),
]
Filled = Annotated[str, Meta(min_length=1, description="a string that is not empty")]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.+-]{0,79}\Z",
        description="a name of letters, digits, blanks, . _ + -",
    ),
]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a table in a TOML or JSON file, with a typed value for each key."""


class Violations:
    """The violations of one file by column, each with its first line.

    `names` maps the names of columns in obygaze to their names in the file, if they differ.
    """

    def __init__(
        self, path: Path | str, names: Mapping[str, str] | None = None
    ) -> None:
        self.path = str(path)
        self.names = names or {}
        # By column or source, and by message: the first place, the last place and the number of
        # places of the violation.
        self._by_column: dict[str | None, dict[str, tuple[str, str, int]]] = {}

    def __len__(self) -> int:
        n_lines = 0
        for messages in self._by_column.values():
            n_lines += sum(n for _, _, n in messages.values())
        return n_lines

    def add(
        self, line: int | None, column: str | None, message: str, source: str = ""
    ) -> None:
        """Add one violation.

        Args:
            line: The line. None: no line.
            column: The column. None: no column.
            message: What is wrong.
            source: The origin of a value that is not from the file, such as an option. Empty: the
                file.
        """
        where = source or (self.path if line is None else f"{self.path}:{line}")
        if len(message) > MAX_MESSAGE:
            message = f"{message[:80]} ... {message[-150:]}"
        if column is not None:
            message = f"column {self.names.get(column, column)!r}: {message}"
        messages = self._by_column.setdefault(source or column, {})
        first, last, n_places = messages.get(message, (where, "", 0))
        # A row that is read for several annotators is one place.
        if where != last:
            messages[message] = (first, where, n_places + 1)

    @property
    def lines(self) -> list[str]:
        """One line for each violation, by column; equal violations are one line with a count."""
        lines = []
        for messages in self._by_column.values():
            for message, (where, _, n_lines) in messages.items():
                times = f" ({n_lines} times)" if n_lines > 1 else ""
                lines.append(f"{where}: {message}{times}")
        return lines

    def raise_if_any(self, summary: str, hint: str | None = None) -> None:
        """Raise one error that lists all violations, if there are any."""
        raise_together(summary, self, hint=hint)


def raise_together(summary: str, *files: Violations, hint: str | None = None) -> None:
    """Raise one error that lists the violations of several files, if there are any."""
    lines: list[str] = []
    for violations in files:
        lines += violations.lines
    if not lines:
        return
    n_in_all = sum(map(len, files))
    details = lines[:MAX_LISTED]
    if len(lines) > MAX_LISTED:
        details.append(f"... and {len(lines) - MAX_LISTED} more")
    paths = dict.fromkeys(violations.path for violations in files if violations)
    n_problems = "1 problem" if n_in_all == 1 else f"{n_in_all} problems"
    raise FixInput(
        f"{summary}: {n_problems}",
        where=", ".join(paths),
        hint=hint or "correct the listed problems, then run the same command again",
        details=details,
    )


class Document:
    """A TOML or JSON file while it is checked: its tree and its violations.

    A key path is a key with the tables around it: `splits.folds`, `sources[1].sha256`. If the value
    of a key path is not from the file, `overrides` maps the key path to the origin of the value,
    such as an option.
    """

    def __init__(self, tree: Mapping[str, Any], where: str) -> None:
        self.tree = dict(tree)
        self.where = where
        self.violations = Violations(where)
        self.raise_if_any = self.violations.raise_if_any
        self.overrides: Mapping[str, str] = {}
        self.unknown_keys: list[str] = []

    def require_schema(
        self, schema: str, noun: str, *, error: type[ObygazeError] = FixInput
    ) -> None:
        """Raise an error unless the file states this `schema`, such as "obygaze-film/1"."""
        got = self.tree.pop("schema", None)
        if got == schema:
            return
        family = schema.rpartition("/")[0]
        if isinstance(got, str) and got.startswith(f"{family}/"):
            raise Mismatch(
                f"this {noun} has schema {got!r}, but this version of obygaze reads {schema!r}"
                " only",
                where=self.where,
            )
        raise error(
            f"not a {noun}: schema must be {schema!r}, got {got!r}",
            where=self.where,
            hint=f'if the file is a {noun}, write schema = "{schema}" in the first line',
        )

    def add(self, key_path: str, message: str) -> None:
        """Add a violation at a key, such as `tasks.train[0].level`."""
        for key, source in self.overrides.items():
            if key_path == key or key.startswith(f"{key_path}."):
                self.violations.add(None, None, message, source)
                return
        self.violations.add(None, None, f"{key_path}: {message}")

    def check(self, kind: type[T]) -> T | None:
        """Return the record of the file, or add its violations and return None."""
        n_before = len(self.violations)
        self._compare_keys(self.tree, kind, "")
        if len(self.violations) > n_before:
            return None
        return msgspec.convert(self.tree, kind)

    def unknown(
        self, key_path: str, name: str, names: Iterable[str], noun: str = "key"
    ) -> None:
        """Add the violation that `name` is not one of the `names`.

        For a key, the error suggests a similar key. If none is similar, and for other nouns, it
        lists all names.
        """
        names = list(names)
        meant = near(name, names)
        if not meant or noun != "key":
            meant += f"; known: {', '.join(names)}"
        self.add(key_path, f"unknown {noun} {name!r}{meant}")

    def _compare_keys(
        self, table: Mapping[str, Any], kind: type, key_path: str
    ) -> None:
        """Add a violation for each unknown or missing key, and for each invalid value."""
        hints, required = _read_keys(kind)
        prefix = f"{key_path}." if key_path else ""
        for key, value in table.items():
            if key in hints:
                self._compare(value, hints[key], f"{prefix}{key}")
            else:
                self.unknown_keys.append(f"{prefix}{key}")
                self.unknown(f"{prefix}{key}", key, hints)
        for key in required:
            if key not in table:
                self.add(f"{prefix}{key}", "required key is missing")

    def _compare(self, value: Any, hint: Any, key_path: str) -> None:
        """Add a violation for each value of a wrong type, also inside lists and tables."""
        origin = get_origin(hint)
        inner = get_args(hint)
        is_table = isinstance(value, Mapping)
        if is_table and origin in (Union, UnionType):
            # An optional table.
            records = [k for k in inner if isinstance(k, type) and _is_record(k)]
            hint = records[0] if len(records) == 1 else hint
        if is_table and isinstance(hint, type) and _is_record(hint):
            self._compare_keys(value, hint, key_path)
        elif is_table and origin in (dict, Mapping):
            for key, item in value.items():
                self._compare(key, inner[0], f"{key_path}.{key}")
                self._compare(item, inner[1], f"{key_path}.{key}")
        elif isinstance(value, list) and origin is tuple and inner[-1] is ...:
            for number, item in enumerate(value):
                self._compare(item, inner[0], f"{key_path}[{number}]")
        else:
            problem = problem_with(value, hint)
            if problem:
                self.add(key_path, f"{problem}, got {value!r}")


def refuse_newer(tree: Any, kind: type, where: str) -> None:
    """Raise an error if unknown fields are the only violations of a document of obygaze.

    A newer version of obygaze wrote such a document. A document with other violations is damaged,
    which raises an error elsewhere.
    """
    if isinstance(tree, Mapping):
        document = Document(tree, where)
        document.check(kind)
        if len(document.unknown_keys) == len(document.violations):
            refuse_unknown(document.unknown_keys, where)


def refuse_unknown(fields: Sequence[str], where: str) -> None:
    """Raise an error (exit code 5) for unknown fields of a document of obygaze."""
    if fields:
        raise Mismatch(
            f"unknown field {fields[0]}: a version newer than obygaze {__version__} wrote this"
            " file",
            where=where,
        )


def read_toml(
    data: bytes,
    where: str,
    *,
    max_bytes: int = 1 << 20,
) -> Document:
    """Return the document of a TOML file, from its bytes."""
    if len(data) > max_bytes:
        raise FixInput(f"expected a file of at most {max_bytes:,} bytes", where=where)
    try:
        toml = data.decode("utf-8")
        tree = tomllib.loads(toml)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FixInput("not UTF-8", where=f"{where}:{line}") from error
    except tomllib.TOMLDecodeError as error:
        raise FixInput(
            f"not valid TOML: {error}",
            where=where,
            hint='correct this line; put text in quotes: name = "value"',
        ) from error
    except RecursionError as error:
        raise FixInput("not valid TOML: nested too deeply", where=where) from error
    return Document(tree, where)


def read_json(data: bytes, where: str) -> Document:
    """Return the document of a JSON file, from its bytes."""
    try:
        tree = parse_json(data)
        message = "not a JSON object"
    except ValueError as wrong:
        tree = None
        message = f"not valid JSON: {wrong}"
    if not isinstance(tree, dict):
        raise Corrupt(message, where=where)
    return Document(tree, where)


def one_of(words: Iterable[str]) -> Meta:
    """Return the constraint that a string is one of some words; errors do not list the word ""."""
    known = list(words)
    pattern = "|".join(map(re.escape, known))
    named = [word for word in known if word]
    return Meta(
        pattern=rf"^(?:{pattern})\Z",
        description=f"one of {', '.join(named)}",
        extra={"words": named},
    )


def record_of(document: Document, kind: type[T], summary: str, *, hint: str = "") -> T:
    """Return the record of a document, or raise one error that lists every violation."""
    record = document.check(kind)
    document.raise_if_any(summary, hint=hint)
    return cast(T, record)


def problem_with(value: Any, hint: Any) -> str | None:
    """Return a description of the expected value, or None if the value is valid.

    >>> problem_with(3, str), problem_with("rd", Literal["red", "blue"])
    ('must be str', "must be one of red, blue (did you mean 'red'?)")
    """
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        return _in_words(str(error), hint, value)
    return None


def _in_words(message: str, hint: Any, value: Any) -> str:
    """Return a description of the expected value, from the type or a message of msgspec."""
    described = ""
    words: Iterable[str] = ()
    is_union = get_origin(hint) in (Union, UnionType)
    for part in (hint, *get_args(hint)) if is_union else (hint,):
        for meta in getattr(part, "__metadata__", ()):
            if isinstance(meta, msgspec.Meta) and meta.description and not described:
                described = meta.description
                words = (meta.extra or {}).get("words", ())
    if get_origin(hint) is Literal:
        words = [word for word in get_args(hint) if word]
        described = f"one of {', '.join(words)}"
    if described:
        return f"must be {described}{near(str(value), words)}"
    expected, _, _ = message.partition(", got ")
    return expected.replace("Expected", "must be").replace("`", "")


def _is_record(kind: type) -> bool:
    return is_dataclass(kind) or issubclass(kind, msgspec.Struct)


@cache
def _read_keys(kind: type) -> tuple[dict[str, Any], list[str]]:
    """Return the type of each key of a record or dataclass, and the required keys."""
    hints = get_type_hints(kind, include_extras=True)
    info: Any = inspect.type_info(kind)
    required = [one.name for one in info.fields if one.required]
    return {one.name: hints[one.name] for one in info.fields}, required

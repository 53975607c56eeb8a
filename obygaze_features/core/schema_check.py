"""Check TOML and JSON files against a declared schema and report every violation at once.

A schema is a `Table`: the keys of a table, each with its rule. A rule is a function that takes a
value and returns None, or what the value must be (see core.schema_rules). A `Table` inside a table,
`Rows` (a list) are rules too; `Typed` is the rule of a type of msgspec:

    SOURCE = Table({"file": filled, "sha256": matching("[0-9a-f]{64}", "64 hexadecimal digits")})
    FILM = Table({"title": text, "year": whole(1888), "sources": Rows(SOURCE)}, ("title",))

    document = read_toml(data, "film.toml")
    document.require_schema("obygaze-film/1", "film")
    values = document.check(FILM)
    if values["year"] > 2100:                      # checks that need several keys
        document.add("year", "must be at most 2100")
    document.raise_if_any("the film is not valid")

The error lists one line a violation: `film.toml:3: year: must be a whole number, at least 1888, got
'x'`, or `film.toml:4: unknown key 'titel' (did you mean 'title'?)`. Where a dataclass or a `Record`
has the same fields, `table_of(Film)` makes the table from its annotations, and `check` returns a
`Film`:

    class Film(Record, frozen=True):
        title: str
        year: Annotated[int, Meta(ge=1888)] = 1888
        sources: tuple[Source, ...] = ()

    film = record_of(document, Film, "the film is not valid")

A description in `Meta(description=...)` says in errors what a value must be; without one, msgspec
does.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from obygaze_features.core.errors import FixInput, Mismatch, ObygazeError
from obygaze_features.core.files import parse_json
from obygaze_features.core.schema_rules import (
    Rule,
    any_of,
    anything,
    boolean,
    choice,
    list_of,
    near,
    nothing,
    number,
    text,
    whole,
)

AnyRule: TypeAlias = "Rule | Table | Rows"
MAX_LISTED = 1000
# A value may be as long as a file; the message keeps its start and its end.
MAX_MESSAGE = 300
_GOT = re.compile(r", got `[^`]*`")
_INVALID: Any = object()
T = TypeVar("T")
Sha256 = Annotated[
    str, Meta(pattern=r"^[0-9a-f]{64}\Z", description="64 hexadecimal digits")
]
Count = Annotated[
    int,
    Meta(ge=0, lt=10**9, description="a whole number, at least 0, at most 999999999"),
]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a table of a file: a value of the annotated type for each key."""


class Violations:
    """The violations of one file by column, each with the first line that has it.

    `names` maps the columns that a reader uses to the columns of the file, where they differ.
    """

    def __init__(
        self, path: Path | str, names: Mapping[str, str] | None = None
    ) -> None:
        self.path = str(path)
        self.names = names or {}
        # By column, and by what takes the place of values: where a message is true for the first
        # time, and how often it is.
        self._by_column: dict[str | None, dict[str, tuple[str, int]]] = {}

    def __len__(self) -> int:
        n_lines = 0
        for messages in self._by_column.values():
            n_lines += sum(n for _, n in messages.values())
        return n_lines

    def add(self, line: int | None, column: str | None, message: str) -> None:
        """Add one violation; `line` and `column` are None where it has none."""
        where = self.path if line is None else f"{self.path}:{line}"
        self.add_at(where, column, message)

    def add_at(self, where: str, column: str | None, message: str) -> None:
        """Add one violation at a place in the file, or of what takes the place of its values."""
        if len(message) > MAX_MESSAGE:
            message = f"{message[:80]} ... {message[-150:]}"
        if column is not None:
            message = f"column {self.names.get(column, column)!r}: {message}"
        is_line = where.startswith(self.path)
        messages = self._by_column.setdefault(column if is_line else where, {})
        first, n_lines = messages.get(message, (where, 0))
        messages[message] = (first, n_lines + 1)

    @property
    def lines(self) -> list[str]:
        """A sentence on each violation, column after column; equal ones are one with its number."""
        lines = []
        for messages in self._by_column.values():
            for message, (where, n_lines) in messages.items():
                times = f" ({n_lines} times)" if n_lines > 1 else ""
                lines.append(f"{where}: {message}{times}")
        return lines

    def raise_if_any(
        self,
        summary: str,
        hint: str | None = None,
        error: type[ObygazeError] = FixInput,
    ) -> None:
        """Raise one error that lists all violations, if there are any."""
        raise_together(summary, self, hint=hint, error=error)


def raise_together(
    summary: str,
    *files: Violations,
    hint: str | None = None,
    error: type[ObygazeError] = FixInput,
) -> None:
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
    n_violations = "1 violation" if n_in_all == 1 else f"{n_in_all} violations"
    raise error(
        f"{summary}: {n_violations}",
        where=", ".join(paths),
        hint=hint or "correct what is listed, then the same command again",
        details=details,
    )


@dataclass(frozen=True)
class Table:
    """The rules of a table: of its keys, of the values of all `others`, of the `names` of those.

    Without `others`, a key that is not in `keys` is a violation; with `ignore_unknown` it is left
    out. `build` makes the result of `check` from the values, as keyword arguments.
    """

    keys: Mapping[str, AnyRule] = field(default_factory=dict)
    required: Collection[str] = ()
    others: AnyRule | None = None
    names: Rule | None = None
    ignore_unknown: bool = False
    build: Callable[..., Any] = dict


@dataclass(frozen=True)
class Rows:
    """The rule of a list of items, such as [[name]] in TOML; it becomes a tuple."""

    item: AnyRule


@dataclass(frozen=True)
class Typed:
    """The rule of a value that msgspec converts to a type."""

    type: Any

    def __call__(self, value: Any) -> str | None:
        """Return what the value must be; None where it can be converted."""
        try:
            msgspec.convert(value, self.type)
        except msgspec.ValidationError as error:
            for meta in get_args(self.type)[1:]:
                if isinstance(meta, Meta) and meta.description:
                    return f"must be {meta.description}"
            # What was got is said behind it, with its value.
            message = _GOT.sub("", str(error))
            return message[0].lower() + message[1:]
        return None


class Document:
    """One TOML or JSON file while it is checked: its tree and the violations found in it.

    A key path is a key with the tables it is in: `splits.folds`, `sources[1].sha256`. `overrides`
    maps key paths whose value is not from the file to where it is from, such as an option.
    """

    def __init__(
        self,
        tree: Mapping[str, Any],
        where: str,
        *,
        lines: Mapping[str, int] | None = None,
    ) -> None:
        self.tree = dict(tree)
        self.where = where
        self.violations = Violations(where)
        self.raise_if_any = self.violations.raise_if_any
        self.lines = lines or {}
        self.overrides: Mapping[str, str] = {}

    def require_schema(
        self, schema: str, noun: str, *, error: type[ObygazeError] = FixInput
    ) -> None:
        """Raise an error unless the file has `schema`, such as "obygaze-film/1", as that key."""
        got = self.tree.pop("schema", None)
        if got == schema:
            return
        family = schema.rpartition("/")[0]
        if isinstance(got, str) and got.startswith(f"{family}/"):
            raise Mismatch(
                f"this {noun} has schema {got!r}, this version of obygaze reads {schema!r}",
                where=self.where,
            )
        raise error(
            f"not a {noun}: schema must be {schema!r}, got {got!r}",
            where=self.where,
            hint=f'schema = "{schema}" as the first line, if the file is a {noun}',
        )

    def add(self, key_path: str, message: str) -> None:
        """Add a violation at a key, such as `tasks.train[0].level`."""
        for key, source in self.overrides.items():
            if key_path == key or key.startswith(f"{key_path}."):
                self.violations.add_at(source, None, message)
                return
        self.violations.add(self._line_of(key_path), None, f"{key_path}: {message}")

    def check(self, table: Table) -> Any:
        """Return the values that keep the rules of a table; the others become violations.

        Lists become tuples. None where a required key of the document itself is missing.
        """
        values = self._table(self.tree, table, "")
        return None if values is _INVALID else values

    def unknown(
        self, key_path: str, name: str, names: Iterable[str], noun: str = "key"
    ) -> None:
        """Add the violation that `name` is not one of the `names`."""
        names = list(names)
        meant = near(name, names) or f"; known: {', '.join(names)}"
        self.add(key_path, f"unknown {noun} {name!r}{meant}")

    def _table(self, value: Any, table: Table, key_path: str) -> Any:
        if not isinstance(value, Mapping):
            self.add(key_path, f"must be a table, got {value!r}")
            return _INVALID
        values = {}
        for key, item in value.items():
            inner = f"{key_path}.{key}" if key_path else str(key)
            checked = self._item(key, item, table, inner)
            if checked is not _INVALID:
                values[key] = checked
        for key in table.required:
            if key not in value:
                self.add(
                    f"{key_path}.{key}" if key_path else key, "required key is missing"
                )
        if not values.keys() >= set(table.required):
            return _INVALID
        return table.build(**values)

    def _item(self, key: str, value: Any, table: Table, key_path: str) -> Any:
        """Return the value of one key of a table, _INVALID if it is left out."""
        rule = table.keys.get(key, table.others)
        if rule is None:
            if not table.ignore_unknown:
                self.unknown(key_path, key, table.keys)
            return _INVALID
        if key not in table.keys and table.names:
            reason = table.names(key)
            if reason:
                self.add(key_path, f"{reason}, got {key!r}")
        return self._value(value, rule, key_path)

    def _value(self, value: Any, rule: AnyRule, key_path: str) -> Any:
        if isinstance(rule, Table):
            return self._table(value, rule, key_path)
        if isinstance(rule, Rows):
            return self._rows(value, rule, key_path)
        reason = rule(value)
        if reason:
            self.add(key_path, f"{reason}, got {value!r}")
            return _INVALID
        if isinstance(rule, Typed):
            return msgspec.convert(value, rule.type)
        return tuple(value) if isinstance(value, list) else value

    def _rows(self, value: Any, rows: Rows, key_path: str) -> Any:
        if not isinstance(value, list):
            of_tables = " of tables" if isinstance(rows.item, Table) else ""
            self.add(key_path, f"must be a list{of_tables}, got {value!r}")
            return _INVALID
        items = []
        for index, item in enumerate(value):
            checked = self._value(item, rows.item, f"{key_path}[{index}]")
            if checked is not _INVALID:
                items.append(checked)
        return tuple(items)

    def _line_of(self, key_path: str) -> int | None:
        """Return the line of the key, or of the innermost table around it that has one."""
        while key_path and key_path not in self.lines:
            key_path = key_path[: max(key_path.rfind("."), key_path.rfind("["), 0)]
        return self.lines.get(key_path)


def read_toml(
    data: bytes,
    where: str,
    *,
    max_bytes: int = 1 << 20,
) -> Document:
    """Return the document of a TOML file, from its bytes."""
    if len(data) > max_bytes:
        raise FixInput(f"the file has more than {max_bytes:,} bytes", where=where)
    try:
        toml = data.decode("utf-8")
        tree = tomllib.loads(toml)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FixInput("not UTF-8", where=f"{where}:{line}") from error
    except tomllib.TOMLDecodeError as error:
        hint = 'correct this line; text is in quotes: name = "value"'
        raise FixInput(f"not valid TOML: {error}", where=where, hint=hint) from error
    except RecursionError as error:
        raise FixInput("not valid TOML: nested too deeply", where=where) from error
    return Document(tree, where, lines=line_numbers(toml))


def read_json(
    data: bytes, where: str, *, error: type[ObygazeError] = FixInput
) -> Document:
    """Return the document of a JSON file, from its bytes."""
    try:
        tree = parse_json(data)
        message = "not a JSON object"
    except ValueError as wrong:
        tree = None
        message = f"not valid JSON: {wrong}"
    if not isinstance(tree, dict):
        raise error(message, where=where)
    return Document(tree, where)


def line_numbers(toml: str) -> dict[str, int]:
    """Return the line of each table and key of a TOML file, by its key path."""
    line_of: dict[str, int] = {}
    rows: dict[str, int] = {}
    section = ""
    for line_number, line in enumerate(toml.splitlines(), start=1):
        header = re.match(r"\s*(\[+)\s*([^\]]+?)\s*\]+", line)
        key = re.match(r"\s*(\"[^\"]+\"|'[^']+'|[A-Za-z0-9_.-]+)\s*=", line)
        if header:
            section = re.sub(r"[\"']", "", header[2])
            line_of.setdefault(section, line_number)
            if header[1] == "[[":
                rows[section] = rows.get(section, -1) + 1
                section = f"{section}[{rows[section]}]"
                line_of[section] = line_number
        elif key:
            name = re.sub(r"[\"']", "", key[1])
            path = f"{section}.{name}" if section else name
            line_of.setdefault(path, line_number)
    return line_of


def record_of(document: Document, kind: type[T], summary: str) -> T:
    """Return the record of a document, or raise one error that lists every violation."""
    record: T = document.check(table_of(kind))
    document.raise_if_any(summary)
    return record


def table_of(kind: type, **rules: AnyRule) -> Table:
    """Return the table of a dataclass or record: fields without a default are required keys.

    The rule of a field is that of `rules`, else the rule in `Annotated[type, rule]`, else the one
    of its type: str, bool, int, float, a type of msgspec, another dataclass or record, or a tuple,
    a mapping or an optional value of these.

    >>> @dataclass
    ... class Film:
    ...     title: str
    ...     year: Annotated[int, whole(1888)] = 1888
    >>> Document({"title": "Alien"}, "alien.toml").check(table_of(Film))
    Film(title='Alien', year=1888)
    """
    hints = _hints(kind)
    keys = {name: rules.get(name) or _rule_of(hint) for name, hint in hints.items()}
    return Table(keys, _required(kind), build=kind)


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the type of each key of a dataclass or record."""
    hints = get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):
        names = [a_field.name for a_field in fields(kind) if a_field.init]
    else:
        names = [a_field.name for a_field in msgspec.structs.fields(kind)]
    return {name: hints[name] for name in names}


@cache
def _required(kind: type) -> list[str]:
    """Return the keys of a dataclass or record that have no default."""
    if not is_dataclass(kind):
        of_record = msgspec.structs.fields(kind)
        return [a_field.name for a_field in of_record if a_field.required]
    required = []
    for a_field in fields(kind):
        if a_field.init and a_field.default is a_field.default_factory is MISSING:
            required.append(a_field.name)
    return required


def _rule_of(hint: Any) -> Any:
    """Return the rule of a field from its type annotation."""
    plain: dict[Any, Rule] = {
        str: text,
        bool: boolean,
        int: whole(None),
        float: number(),
        Any: anything,
        NoneType: nothing,
    }
    origin = get_origin(hint)
    inner = get_args(hint)
    if origin is Annotated:
        rule = hint.__metadata__[0]
        return Typed(hint) if isinstance(rule, Meta) else rule
    if origin is Literal:
        return choice([word for word in inner if word != ""], may_be_empty="" in inner)
    if origin in (Union, UnionType):
        return any_of(*map(_rule_of, inner))
    if origin is tuple and inner[-1] is not ...:
        return Typed(hint)
    if origin is tuple:
        item = _rule_of(inner[0])
        is_plain = not isinstance(item, Table | Typed)
        return list_of(item, unique=False) if is_plain else Rows(item)
    if origin in (dict, Mapping):
        names = None if inner[0] is str else _rule_of(inner[0])
        return Table(others=_rule_of(inner[1]), names=names)
    if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, Record)):
        return table_of(hint)
    return plain[hint]

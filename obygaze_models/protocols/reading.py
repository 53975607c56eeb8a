"""Reads protocols: shipped ones by name, own ones by path, with `--set` changes; all or nothing.

Every violation of a file is told at once, with its line, and with the key that was probably meant.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.vocabulary import concepts
from obygaze_models.protocols.expression import BadExpression, parse
from obygaze_models.protocols.kinds import KINDS, check_setting, defaults
from obygaze_models.protocols.labels import check_label_map
from obygaze_models.protocols.rules import Rule, near
from obygaze_models.protocols.schema import (
    ROOT_RULES,
    SCHEMA,
    SECTIONS,
    TABLES,
    Model,
    PaperValue,
    Protocol,
    Task,
    rules_of,
)

Raw = dict[str, Any]
MAX_BYTES = 1_000_000


def shipped() -> list[str]:
    """The names of the protocols that come with obygaze."""
    folder = files(__package__).joinpath("shipped")
    names = (item.name for item in folder.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_protocol(name: str | Path, changes: Sequence[str] = ()) -> Protocol:
    """The protocol of a shipped name or of a file, with changes like `splits.quirk=text`."""
    path = Path(name)
    if path.suffix == ".toml" or "/" in str(name):
        if not path.is_file():
            raise NotFound("no such protocol", where=str(path), hint="obygaze run --list")
        data, where = path.read_bytes()[: MAX_BYTES + 1], str(path)
    elif str(name) in shipped():
        data = files(__package__).joinpath("shipped", f"{name}.toml").read_bytes()
        where = f"{name}.toml"
    else:
        hint = f"a file NAME.toml, or one of {', '.join(shipped())}"
        meant = near(str(name), shipped())
        raise NotFound(f"no protocol is called {str(name)!r}{meant}", hint=hint)
    if len(data) > MAX_BYTES:
        raise FixInput("a protocol of more than a megabyte", where=where)
    return parse_protocol(data, where, changes)


def parse_protocol(data: bytes, where: str, changes: Sequence[str] = ()) -> Protocol:
    """The protocol that a file of these bytes is."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FixInput(f"not valid TOML: {error}", where=where) from error
    _refuse_other_schemas(document, where)
    changed = {_change(document, words) for words in changes}
    check = _Checker(where, data.decode("utf-8"), changed)
    protocol = check.protocol(document, Path(where).stem)
    check.violations.raise_if_any("the protocol is not valid")
    return protocol


def _refuse_other_schemas(document: Mapping[str, Any], where: str) -> None:
    schema = document.get("schema")
    if schema == SCHEMA:
        return
    if isinstance(schema, str) and schema.startswith("obygaze-protocol/"):
        raise Mismatch(
            f"this protocol is of schema {schema!r}, this obygaze reads {SCHEMA!r}",
            where=where,
            hint="pip install --upgrade obygaze",
        )
    raise FixInput(f"schema = {SCHEMA!r} is missing: this is not a protocol", where=where)


def _change(document: Raw, words: str) -> str:
    """Set one key of the document; a value is read as TOML, and as a word where it is none."""
    key, equals, value = words.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts) or len(parts) > 4:
        raise FixUsage(f"--set {words!r} is not of the form section.key=value")
    table = document
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise FixUsage(f"--set {words!r}: {part!r} is a value, not a section")
    try:
        table[parts[-1]] = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        table[parts[-1]] = value.strip()
    return ".".join(parts)


class _Checker:
    """Turns a document into a protocol and notes everything that is wrong on the way."""

    def __init__(self, where: str, text: str, changed: set[str]) -> None:
        self.violations = Violations(where)
        self.changed = changed
        self.lines = _line_numbers(text)

    def add(self, place: str, message: str) -> None:
        """Note a violation of the key at a dotted place."""
        if any(place == key or key.startswith(f"{place}.") for key in self.changed):
            self.violations.lines.append(f"--set {place}: {message}")
            return
        line = self.lines.get(place) or self.lines.get(place.rpartition(".")[0]) or 1
        self.violations.add(line, None, f"{place}: {message}")

    def protocol(self, document: Raw, stem: str) -> Protocol:
        """The whole; of no use where violations were noted."""
        sections = (*SECTIONS, *TABLES, "models", "paper")
        self.known(document, [*ROOT_RULES, *sections], "")
        root = self.values({k: v for k, v in document.items() if k in ROOT_RULES}, ROOT_RULES, "")
        root.pop("schema", None)
        parts: dict[str, Any] = {
            name: self.section(document.get(name, {}), kind, name)
            for name, kind in SECTIONS.items()
        }
        for name, kind in TABLES.items():
            parts[name] = self.tables(document.get(name, {}), kind, name)
        quirk = parts["splits"].quirk
        parts["models"] = self.models(document.get("models", {}), quirk)
        parts["paper"] = self.paper(document.get("paper", []))
        if parts["splits"].kind == "published" and quirk != "none":
            root.setdefault("balancing", "rotated")
        protocol = Protocol(**{"name": stem, **root}, **parts)
        if not self.violations:
            self.together(protocol)
        return protocol

    def section(self, table: Any, kind: type, place: str) -> Any:
        """One section as its dataclass."""
        if not isinstance(table, dict):
            self.add(place, "must be a section")
            return kind()
        rules = rules_of(kind)
        self.known(table, rules, place)
        return kind(**self.values(table, rules, f"{place}."))

    def values(self, table: Raw, rules: Mapping[str, Rule], prefix: str) -> Raw:
        """The values that keep their rules."""
        kept: Raw = {}
        for key in table.keys() & rules.keys():
            reason = rules[key](table[key])
            if reason:
                self.add(prefix + key, f"{table[key]!r} {reason}")
            else:
                value = table[key]
                kept[key] = tuple(value) if isinstance(value, list) else value
        return kept

    def known(self, table: Raw, keys: Iterable[str], place: str) -> None:
        """Refuse keys that mean nothing."""
        allowed = list(keys)
        for key in table:
            if key not in allowed:
                meant = near(key, allowed) or f"; known: {', '.join(allowed)}"
                self.add(f"{place}.{key}" if place else key, f"unknown key{meant}")

    def tables(self, table: Any, kind: type, place: str) -> dict[str, Any]:
        """Named tables of one kind, in the order of the file."""
        if not isinstance(table, dict):
            self.add(place, "must be tables, each with a name")
            return {}
        made = {}
        for key, value in table.items():
            made[key] = self.section(value, kind, f"{place}.{key}")
            if isinstance(made[key], Task) and isinstance(value, dict):
                self.task(made[key], f"{place}.{key}")
        return made

    def task(self, task: Task, place: str) -> None:
        """A task says in exactly one way who is positive, and all of it can be read."""
        ways = [bool(task.classes), bool(task.positive), bool(task.column)]
        if sum(ways) != 1:
            self.add(place, "needs one of classes, positive and column")
        if task.negative and not task.positive:
            self.add(f"{place}.negative", "needs positive beside it")
        if bool(task.column) != bool(task.values):
            self.add(place, "column and values go together")
        if task.values and set(task.values.values()) != {0, 1}:
            self.add(f"{place}.values", "must name a class 0 and a class 1")
        for key in ("positive", "negative"):
            self.expression(getattr(task, key), f"{place}.{key}")
        if task.classes:
            try:
                check_label_map(task.classes)
            except FixInput as error:
                self.add(f"{place}.classes", error.what)

    def expression(self, words: str, place: str) -> None:
        """An expression follows the grammar and names known levels and concepts."""
        if words:
            try:
                parse(words, vocabulary=concepts())
            except BadExpression as error:
                self.add(place, error.what.removeprefix("label expression, ") + f": {words}")

    def models(self, table: Any, quirk: str) -> dict[str, Model]:
        """Each model with all its settings."""
        if not isinstance(table, dict):
            self.add("models", "must be tables, each with a name")
            return {}
        made = {}
        for key, value in table.items():
            place = f"models.{key}"
            kind = value.get("kind") if isinstance(value, dict) else None
            if kind not in KINDS:
                meant = near(str(kind), KINDS) or f"; known: {', '.join(KINDS)}"
                self.add(f"{place}.kind", f"no kind of model is called {kind!r}{meant}")
                continue
            self.known(value, ["kind", *KINDS[kind]], place)
            own = {name: item for name, item in value.items() if name in KINDS[kind]}
            for name, item in own.items():
                reason = check_setting(kind, name, item)
                if reason:
                    self.add(f"{place}.{name}", f"{item!r} {reason}")
            made[key] = Model(kind, {**defaults(kind, quirk), **own})
        return made

    def paper(self, listed: Any) -> tuple[PaperValue, ...]:
        """The printed numbers."""
        if not isinstance(listed, list):
            self.add("paper", "must be [[paper]] tables")
            return ()
        return tuple(self.section(item, PaperValue, "paper") for item in listed)

    def together(self, protocol: Protocol) -> None:
        """What only shows when the sections are seen side by side."""
        if not protocol.tasks:
            self.add("tasks", "there is none")
        for key, known in (("train", protocol.tasks), ("test", protocol.tasks)):
            self.all_known(f"grid.{key}", getattr(protocol.grid, key), known, "task")
        self.all_known("grid.models", protocol.grid.models, protocol.models, "model")
        self.all_known("report.argmax", protocol.report.argmax, protocol.tasks, "task")
        if not protocol.model_names and not protocol.grid.baselines:
            self.add("grid", "there is neither a model nor a baseline")
        if not protocol.pairs:
            self.add("grid", "no task both trains and tests")
        if protocol.data.where:
            self.expression(protocol.data.where, "data.where")
        self.splits(protocol)

    def all_known(self, place: str, names: Iterable[str], known: Iterable[str], what: str) -> None:
        """Names that a section refers to are there."""
        for name in names:
            if name not in known:
                meant = near(name, known) or f"; known: {', '.join(known)}"
                self.add(place, f"no {what} is called {name!r}{meant}")

    def splits(self, protocol: Protocol) -> None:
        """The splits have what their kind needs."""
        splits = protocol.splits
        used = {name for pair in protocol.pairs for name in pair}
        if splits.kind == "published":
            lacking = sorted(name for name in used if not protocol.tasks[name].folds)
            for name in lacking:
                self.add(f"tasks.{name}", "published splits need the name of a fold column: folds")
            wanted = "none" if splits.quirk == "none" else "rotated"
            if protocol.balancing not in ("none", wanted):
                self.add("balancing", f"published splits with this quirk have {wanted!r}")
        elif protocol.balancing == "rotated":
            self.add("balancing", "only published splits rotate balancing folds")
        if splits.kind == "fixed" and not (splits.column and splits.test):
            self.add("splits", "fixed splits need column and test")
        if splits.kind == "kfold" and splits.folds < 2:
            self.add("splits.folds", "must be at least 2")
        if splits.kind == "group_kfold" and splits.folds < 2:
            self.add("splits.folds", "must be at least 2")


def _line_numbers(text: str) -> dict[str, int]:
    """The line of each section and key, by dotted place; the first of a kind wins."""
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
        key = re.match(r"\s*(\"[^\"]+\"|'[^']+'|[A-Za-z0-9_.-]+)\s*=", line)
        if header:
            section = _bare(header[1])
            found.setdefault(section, number)
        elif key:
            place = _bare(key[1])
            found.setdefault(f"{section}.{place}" if section else place, number)
    return found


def _bare(place: str) -> str:
    return re.sub(r"[\"']", "", place)

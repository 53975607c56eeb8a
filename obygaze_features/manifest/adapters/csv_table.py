"""Any table of clips, with a mapping that says where each column of a manifest comes from."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import require_file
from obygaze_features.manifest.adapters.common import ClipReader, Imported, Renamed, source_of
from obygaze_features.manifest.model import COLUMNS, LEVELS, UNITS, Header, Manifest
from obygaze_features.manifest.tables import DELIMITERS, Row, Violations, read_table
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level, concepts

NEEDED = ("clip_id", "movie_id")
CONSTANT = "="


@dataclass(frozen=True)
class TableMapping:
    """How a table is to be read: columns, and what its words for levels and concepts mean.

    `columns` names a column of the table for a column of the manifest, or a constant as `=value`.
    `modalities` are further concepts, by name, that the vocabulary does not know.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)
    concepts: Mapping[str, str] = field(default_factory=dict)
    modalities: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ""
    separator: str = "|"
    dataset: str = ""
    unit: str = "clip"
    licence: str = ""
    citation: str = ""


_TABLES = ("columns", "levels", "concepts", "modalities")
_STRINGS = ("delimiter", "separator", "dataset", "unit", "licence", "citation")


def read(
    csv: Path,
    columns: Mapping[str, str] | None = None,
    *,
    mapping: TableMapping | None = None,
    delimiter: str = ",",
    name: str | None = None,
) -> Imported:
    """The manifest of a table. `columns` come before those of `mapping`.

    A column of the table that has the name of a manifest's column needs no mapping; columns that
    nothing asks for are kept under their own name.
    """
    chosen = mapping or TableMapping()
    asked = {**chosen.columns, **(columns or {})}
    delimiter = _checked_delimiter(chosen.delimiter or delimiter)
    source = source_of(csv)
    violations = Renamed(csv, asked)
    table = read_table(csv, required=_required(asked), delimiter=delimiter, violations=violations)
    plan = _plan(asked, table.columns)
    if not table.rows and not violations:
        violations.add(None, None, "there are no rows in it")
    extra = tuple(target for target in plan if target not in COLUMNS)
    known = {**concepts(), **chosen.modalities}
    reader = ClipReader(known, extra, violations)
    words = _Words(chosen, violations)
    clips = tuple(reader.clip(row.line, words.cells(row, plan)) for row in table.rows)
    hint = "declare the words in a --mapping file" if words.unknown else None
    violations.raise_if_any("the table cannot be imported", hint=hint)
    header = Header(
        chosen.dataset or csv.stem,
        known,
        unit=chosen.unit,
        licence=chosen.licence,
        citation=chosen.citation,
        sources=(source,),
    )
    return Imported(Manifest(name or csv.stem, header, clips, extra))


def read_mapping(path: Path) -> TableMapping:
    """A mapping from a TOML file; everything that is wrong with it at once."""
    require_file(path)
    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise FixInput(f"not valid TOML: {error}", where=str(path)) from error
    wrong = Violations(path)
    for key, value in document.items():
        _check_key(key, value, wrong)
    wrong.raise_if_any("this is not a mapping")
    made = TableMapping(**document)
    _check_words(made, wrong)
    wrong.raise_if_any("this is not a mapping")
    return made


def _check_key(key: str, value: Any, wrong: Violations) -> None:
    if key in _STRINGS:
        if not isinstance(value, str) or not value:
            wrong.add(None, key, f"must be a string, is {value!r}")
    elif key not in _TABLES:
        wrong.add(None, key, f"unknown key; known: {', '.join((*_TABLES, *_STRINGS))}")
    elif not isinstance(value, dict):
        wrong.add(None, key, "must be a table of strings")
    else:
        for word, meaning in value.items():
            if not isinstance(meaning, str) or not meaning:
                wrong.add(None, f"{key}.{word}", f"must be a string, is {meaning!r}")


def _check_words(mapping: TableMapping, wrong: Violations) -> None:
    for word, level in mapping.levels.items():
        if level not in LEVELS:
            wrong.add(None, f"levels.{word}", f"{level!r} is not one of {', '.join(LEVELS)}")
    known = {**concepts(), **mapping.modalities}
    for word, concept in mapping.concepts.items():
        if concept not in known:
            told = f"{concept!r} is not a concept; a new one needs its sense in [modalities]"
            wrong.add(None, f"concepts.{word}", told)
    for concept in mapping.modalities:
        if "|" in concept or not concept.strip():
            told = "a concept's name is neither blank nor holds '|'"
            wrong.add(None, f"modalities.{concept}", told)
        elif concept in concepts():
            wrong.add(None, f"modalities.{concept}", "the vocabulary has it already")
    if mapping.unit not in UNITS:
        wrong.add(None, "unit", f"{mapping.unit!r} is not one of {', '.join(UNITS)}")
    if mapping.delimiter and mapping.delimiter not in DELIMITERS:
        wrong.add(None, "delimiter", f"{mapping.delimiter!r} is not one of , ; | or a tab")


def _checked_delimiter(delimiter: str) -> str:
    if delimiter not in DELIMITERS:
        raise FixUsage(f"{delimiter!r} cannot separate cells", hint="one of , ; | or a tab")
    return delimiter


def _required(asked: Mapping[str, str]) -> list[str]:
    """The columns that the table must have."""
    for target in asked:
        if not target or target != target.strip():
            raise FixUsage(f"{target!r} is not the name of a column")
    sources = [source for source in asked.values() if not source.startswith(CONSTANT)]
    return list(dict.fromkeys([*sources, *(name for name in NEEDED if name not in asked)]))


def _plan(asked: Mapping[str, str], columns: tuple[str, ...]) -> dict[str, str]:
    """Where each column of the manifest comes from, those that are kept as they are included."""
    used = set(asked.values())
    # The unnamed first column that some programs write is a row number, not data.
    kept = {name: name for name in columns if name and name not in used and name not in asked}
    return {**asked, **kept}


def _scene_in(clip_id: str, movie_id: str) -> str:
    """The scene that an id of MovieGraphs' form names: film, a hyphen, its number."""
    film, _, number = clip_id.rpartition("-")
    return str(int(number)) if film == movie_id and number.isascii() and number.isdigit() else ""


class _Words:
    """Translates the cells of a row into those of a manifest."""

    def __init__(self, mapping: TableMapping, violations: Violations) -> None:
        self.mapping = mapping
        self.violations = violations
        self.unknown = False

    def cells(self, row: Row, plan: Mapping[str, str]) -> dict[str, str]:
        """The cells of one row under the names of the manifest's columns."""
        cells = {
            target: source.removeprefix(CONSTANT) if source.startswith(CONSTANT) else row[source]
            for target, source in plan.items()
        }
        if "scene" not in plan:
            cells["scene"] = _scene_in(cells["clip_id"], cells["movie_id"])
        cells["level"] = self._level(row, cells.get("level", ""))
        cells["concepts"] = self._concepts(row, cells.get("concepts", ""))
        return cells

    def _level(self, row: Row, word: str) -> str:
        word = word.strip()
        level = self.mapping.levels.get(word) or canonical_level(word)
        if word and level is None:
            self._tell(row, "level", f"{word!r} is not a level")
        return level or ""

    def _concepts(self, row: Row, text: str) -> str:
        names = []
        for word in text.split(self.mapping.separator) if text.strip() else ():
            name = self._concept(word.strip())
            if name is None:
                self._tell(row, "concepts", f"{word!r} is not a known concept")
            else:
                names.append(name)
        return "|".join(names)

    def _concept(self, word: str) -> str | None:
        if word in self.mapping.modalities:
            return word
        return self.mapping.concepts.get(word) or canonical_concept(word)

    def _tell(self, row: Row, column: str, message: str) -> None:
        self.unknown = True
        self.violations.add(row.line, column, message)

"""Any table of clips, with a mapping that says where each column of a manifest comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import require_file
from obygaze_features.core.schema_check import Table, Violations, read_toml, table_of
from obygaze_features.core.schema_rules import choice, filled, matching
from obygaze_features.manifest.adapters.common import (
    ClipReader,
    ImportedManifest,
    Renamed,
    source_of,
)
from obygaze_features.manifest.model import COLUMNS, LEVELS, UNITS, Header, Manifest, concept_name
from obygaze_features.manifest.tables import DELIMITERS, TableRow, read_table
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level, concepts

NEEDED = ("clip_id", "movie_id")
CONSTANT = "="


FILLED_TABLE = Table(others=filled)


@dataclass(frozen=True)
class TableMapping:
    """How to read a table: its columns, and what its words for levels and concepts mean.

    `columns` maps a column of the manifest to a column of the table, or to a constant: `=value`.
    `modalities` adds concepts that are not in the vocabulary, each with its modality.
    """

    columns: Annotated[Mapping[str, str], FILLED_TABLE] = field(default_factory=dict)
    levels: Annotated[Mapping[str, str], Table(others=choice(LEVELS))] = field(default_factory=dict)
    concepts: Annotated[Mapping[str, str], FILLED_TABLE] = field(default_factory=dict)
    modalities: Annotated[Mapping[str, str], Table(others=filled, names=concept_name)] = field(
        default_factory=dict
    )
    delimiter: Annotated[str, matching("[,;|\t]", "one of , ; | or a tab")] = ""
    separator: Annotated[str, filled] = "|"
    dataset: Annotated[str, filled] = ""
    unit: Annotated[str, choice(UNITS)] = "clip"
    licence: Annotated[str, filled] = ""
    citation: Annotated[str, filled] = ""


def read(
    csv: Path,
    columns: Mapping[str, str] | None = None,
    *,
    mapping: TableMapping | None = None,
    delimiter: str = ",",
    name: str | None = None,
) -> ImportedManifest:
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
    return ImportedManifest(Manifest(name or csv.stem, header, clips, extra))


def read_mapping(path: Path) -> TableMapping:
    """Return the mapping in a TOML file, or raise one error of all its violations."""
    require_file(path)
    document = read_toml(path.read_bytes(), str(path))
    mapping: TableMapping = document.check(table_of(TableMapping))
    for word, concept in mapping.concepts.items():
        if concept not in concepts() and concept not in mapping.modalities:
            what = f"unknown concept {concept!r}; give its modality in [modalities]"
            document.add(f"concepts.{word}", what)
    for concept in mapping.modalities:
        if concept in concepts():
            what = "this concept is in the vocabulary already; remove this line"
            document.add(f"modalities.{concept}", what)
    document.raise_if_any("the mapping is not valid")
    return mapping


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

    def cells(self, row: TableRow, plan: Mapping[str, str]) -> dict[str, str]:
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

    def _level(self, row: TableRow, word: str) -> str:
        word = word.strip()
        level = self.mapping.levels.get(word) or canonical_level(word)
        if word and level is None:
            self._tell(row, "level", f"{word!r} is not a level")
        return level or ""

    def _concepts(self, row: TableRow, text: str) -> str:
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

    def _tell(self, row: TableRow, column: str, message: str) -> None:
        self.unknown = True
        self.violations.add(row.line, column, message)

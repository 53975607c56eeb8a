"""Read tables of clips as texts: cells with their line and column, which mean nothing yet.

If several people have a table each, their rows stand one below another, with the name of the file
as that of the person, unless a column says it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.core.tables import CsvTable, TableRow, read_table
from obygaze_features.manifest.adapters.table_coders import (
    ANNOTATOR,
    source_columns,
    targets_of_coders,
)
from obygaze_features.manifest.adapters.table_ids import COUNT, columns_of_form
from obygaze_features.manifest.adapters.table_mapping import TableMapping
from obygaze_features.manifest.expression import plain_value
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import NAME_COLUMN, TARGETS

# How the last row of a table begins if it has totals.
TOTALS = ("total", "totals", "sum", "summe", "somme", "gesamt", "all")


@dataclass(frozen=True)
class ReadTables:
    """The rows of one table or more, as they are written.

    Attributes:
        tables: Each table, by its path.
        columns: The columns of all tables.
        rows: The rows of all tables. A cell of a column that its table does not have is empty.
        violations: What is wrong with each table.
        warnings: What was left out.
    """

    tables: Mapping[str, CsvTable]
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    violations: tuple[Violations, ...]
    warnings: tuple[str, ...]

    @property
    def has_decimal_comma(self) -> bool:
        """Whether 70,5 is a number, because no comma separates cells."""
        return all(table.delimiter != "," for table in self.tables.values())

    @property
    def sheet(self) -> str:
        """The name of the sheet that was read, if others have data too."""
        return next((table.sheet for table in self.tables.values() if table.sheet), "")

    def cells(self, *columns: str) -> list[str]:
        """Return the cells of columns that are not empty."""
        cells = []
        for row in self.rows:
            cells += [row.cells.get(column, "") for column in columns]
        return [cell for cell in cells if cell]


def read_tables(paths: Sequence[Path], mapping: TableMapping) -> ReadTables:
    """Return the rows of tables; an error names all that is no table of the columns mapped."""
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        raise FixUsage(
            "two of the tables have the same name, which becomes that of the person",
            where=", ".join(map(str, paths)),
            hint="rename one of them",
        )
    names_in_table = mapping.names_in_table
    for target, columns in targets_of_coders(mapping.coders).items():
        names_in_table[target] = ", ".join(columns)
    tables = {}
    violations = []
    for path in paths:
        violations.append(Violations(path, names_in_table))
        tables[str(path)] = read_table(
            path,
            required=_required(mapping),
            violations=violations[-1],
            content="clips",
            sheet=mapping.sheet,
            assume_sheet=True,
            header_row=mapping.header_row,
            # Commas of these columns are no decimal ones: 1,2 are two concepts.
            texts=[
                *source_columns("concepts", mapping),
                *source_columns(TITLE, mapping),
            ],
            as_written=[
                *source_columns("video", mapping),
                *source_columns(NAME_COLUMN, mapping),
            ],
        )
    is_text = not any(one.hint for one in violations)
    if not is_text or not all(table.rows for table in tables.values()):
        raise_together(
            "the table cannot be imported", *violations, hint=_hint([*tables.values()])
        )
    names_of_columns = [name for table in tables.values() for name in table.columns]
    stated = (*names_of_columns, *mapping.columns)
    if len(paths) > 1 and ANNOTATOR not in stated and not mapping.coders:
        names_of_columns.append(ANNOTATOR)
    columns_of_all = tuple(dict.fromkeys(names_of_columns))
    rows: list[TableRow] = []
    warnings = []
    for name, table in zip(names, tables.values(), strict=True):
        blank = {**dict.fromkeys(columns_of_all, ""), ANNOTATOR: name}
        warnings += [*table.unnamed, *sheet_warnings(table)]
        kept, totals = _without_totals(table.rows)
        for row in kept:
            cells = {**blank, **row.cells} if len(paths) > 1 else row.cells
            rows.append(replace(row, cells=cells))
        if totals is not None:
            first = next(filter(None, totals.cells.values()))
            warnings.append(
                f"{totals.violations.path}:{totals.line}: {first!r} begins a row of totals, which"
                " is left out"
            )
    read = ReadTables(
        tables, columns_of_all, tuple(rows), tuple(violations), tuple(warnings)
    )
    return _without_no_values(read, mapping)


def _required(mapping: TableMapping) -> list[str]:
    """Return the columns that somebody named, and that each table must have."""
    named = [*mapping.names_in_table.values(), *mapping.coders.values()]
    for name in columns_of_form(mapping.id):
        if name not in (COUNT, *TARGETS, *mapping.columns):
            named.append(name)
    return list(dict.fromkeys(named))


def _hint(tables: Sequence[CsvTable]) -> str | None:
    """Return what to do about tables without some columns, or that are no tables."""
    table = next((table for table in tables if not table.rows), tables[0])
    if not table.columns:
        return "save the table as CSV (UTF-8) or as .xlsx"
    columns = f"the columns of the table: {few([*filter(None, table.columns)])}"
    return "; ".join(filter(None, [table.doubt, columns]))


def sheet_warnings(table: CsvTable) -> list[str]:
    """Return which sheet was read where others have data too."""
    if not table.other_sheets:
        return []
    others = few([repr(name) for name in table.other_sheets], 3)
    return [
        f"the sheet {table.sheet!r} was read; --sheet takes another one with data: {others}"
    ]


def _without_totals(
    rows: Sequence[TableRow],
) -> tuple[Sequence[TableRow], TableRow | None]:
    """Return the rows without a last one of totals, and that row.

    Its first word says so, and a cell is empty that all other rows have.
    """
    if len(rows) < 3:
        return rows, None
    *others, last = rows
    first = next(filter(None, last.cells.values()), "")
    is_called_so = first.rstrip(": ").casefold() in TOTALS
    for column, cell in last.cells.items():
        if is_called_so and not cell and all(row[column] for row in others):
            return others, last
    return rows, None


def _without_no_values(read: ReadTables, mapping: TableMapping) -> ReadTables:
    """Return tables in which the cells are empty that a mapping calls no value."""
    words_of = {}
    for column, listed in mapping.no_value.items():
        if column not in read.columns:
            raise FixInput(
                f"[no_value] names a column that the table has not: {column!r}"
                f"{near(column, read.columns)}"
            )
        words = map(str.strip, listed.split(","))
        words_of[column] = {plain_value(word, column) for word in words}
    rows = []
    for row in read.rows:
        cells = dict(row.cells)
        for column, no_values in words_of.items():
            if plain_value(cells[column].strip(), column) in no_values:
                cells[column] = ""
        rows.append(replace(row, cells=cells))
    return replace(read, rows=tuple(rows))

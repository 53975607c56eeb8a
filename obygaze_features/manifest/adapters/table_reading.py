"""Read tables of clips: each cell as a string, with its line and column.

If each annotator has a table, the rows of all tables are concatenated. The name of the file or of
the sheet is the name of the annotator, unless a column has the names.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.core.tables import (
    CsvTable,
    TableRow,
    read_table,
    thousands_text,
    unread_number_text,
)
from obygaze_features.core.unknown_words import UnknownWords
from obygaze_features.manifest.adapters.table_mapping import (
    ANNOTATOR,
    BAR,
    CONSTANT,
    COUNT,
    SHEET,
    TableMapping,
)
from obygaze_features.manifest.adapters.table_times import ALL_TIMES
from obygaze_features.manifest.annotators import annotator_columns
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import FILM_FILE, NAME_COLUMN, TARGETS
from obygaze_features.manifest.spans import RATE_COLUMN

SUMMARY = "the table cannot be imported"
# First words of a last row of totals.
TOTALS = ("total", "totals", "totale", "sum", "summe", "somme", "suma", "gesamt", "all")


@dataclass(frozen=True)
class TableCells:
    """The cells of one table or more by column, as they are written.

    Attributes:
        tables: Each table, by its path, and by its sheet if several sheets of a file are read.
        rows: The rows of all tables; each has its line, and the violations of its table.
        cells: The cell of each row by column; "" in a column that its table does not have.
        violations: The violations of each table.
        warnings: Sentences about excluded rows, and remarks about the tables.
        words: What the user states about words that may be no answers.
        sheet_of: The sheet of each table, by its name in `tables`, if several sheets are read.
    """

    tables: Mapping[str, CsvTable]
    rows: Sequence[TableRow]
    cells: Mapping[str, Sequence[str]]
    violations: Sequence[Violations]
    warnings: Sequence[str]
    words: UnknownWords
    sheet_of: Mapping[str, str] = field(default_factory=dict)

    @property
    def sheets(self) -> Sequence[str]:
        """The name of the sheet that was assumed in each table, if there is one."""
        first, *others = {table.sheet for table in self.tables.values()}
        return (first,) if first and not others else ()

    @property
    def sheets_of_annotators(self) -> Sequence[str]:
        """The sheets of the only file if one was assumed, and others have the same columns."""
        first, *others = self.tables.values()
        return () if others else first.sheets_alike

    @property
    def n_problems(self) -> int:
        """How many violations there are."""
        return sum(map(len, self.violations))

    def column(self, source: str) -> Sequence[str]:
        """Return the cells of a column or of a constant; "" in all rows if there is no column."""
        constant = source.removeprefix(CONSTANT) if source.startswith(CONSTANT) else ""
        return self.cells.get(source, [constant] * len(self.rows))

    def with_films_of_sheets(self) -> "TableCells":
        """Return the cells with a column of the sheets, which are not of annotators."""
        cells = {name: cell for name, cell in self.cells.items() if name != ANNOTATOR}
        cells[SHEET] = [self.sheet_of[row.violations.path] for row in self.rows]
        return replace(self, cells=cells)

    def number_warnings(self, mapping: TableMapping) -> list[str]:
        """Return a sentence for each column whose numbers may be other numbers, or are texts."""
        of_times: set[str] = set()
        for time in ALL_TIMES:
            of_times.update(mapping.sources(time))
        warnings = []
        for table in self.tables.values():
            for column, number in table.maybe_thousands.items():
                # A rate such as 23,976 has decimals.
                if column not in mapping.sources(RATE_COLUMN):
                    warnings.append(thousands_text(column, number))
            for column, number in table.unread_numbers.items():
                # Each time is read by itself.
                if column not in of_times:
                    warnings.append(unread_number_text(column, number))
        return warnings

    def filled(self, column: str) -> list[str]:
        """Return the cells of a column that have an answer."""
        return [*filter(self.words.is_answer, self.column(column))]


def read_tables(paths: Sequence[Path], mapping: TableMapping) -> TableCells:
    """Return the rows of tables. Raise one error that lists the mapped columns that are missing."""
    sources = _sources(paths, mapping.sheets)
    mapped = (*mapping.columns.values(), *mapping.coders.values())
    required = [column for column in mapped if not column.startswith(CONSTANT)]
    sheet_of = {}
    if len(mapping.sheets) > 1:
        sheet_of = {name: source.sheet for name, source in sources.items()}
    are_of_films = bool(sheet_of) and mapping.columns.get("movie_id") == SHEET
    if are_of_films:
        required.remove(SHEET)
    for name in mapping.columns_of_id:
        if name not in (COUNT, *TARGETS, *mapping.columns):
            required.append(name)
    as_written = []
    for target in ("video", NAME_COLUMN, FILM_FILE):
        as_written += mapping.sources(target)
    tables: dict[str, CsvTable] = {}
    violations = []
    for name, source in sources.items():
        violations.append(Violations(name, mapping.names_in_table))
        tables[name] = read_table(
            source.path,
            required=list(dict.fromkeys(required)),
            violations=violations[-1],
            content="clips",
            sheet=source.sheet,
            assume_sheet=True,
            # A comma in these columns is not a decimal comma: 1,2 are two concepts.
            texts=(*mapping.sources("concepts"), *mapping.sources(TITLE)),
            as_written=as_written,
            words=mapping.unknown_words,
            columns=next(iter(tables.values())).columns if tables else (),
        )
    columns: dict[str, None] = {}
    for table in tables.values():
        columns.update(dict.fromkeys(table.columns))
        if not table.rows:
            hint = (
                f"use the columns of the table: {few([*filter(None, table.columns)])}"
            )
            raise_together(SUMMARY, *violations, hint=hint)
    of_files = {}
    if len(tables) > 1 and not (mapping.coders or ANNOTATOR in mapping.columns):
        columns.setdefault(ANNOTATOR)
        of_files = {name: source.annotator for name, source in sources.items()}
    rows: list[TableRow] = []
    warnings: list[str] = []
    for name, table in tables.items():
        of_table = f"{name}: " if len(tables) > 1 else ""
        warnings += [f"{of_table}{remark}" for remark in table.remarks]
        kept = _without_totals(table.rows)
        for row in table.rows[len(kept) :]:
            first = next(filter(None, row.cells.values()))
            where = f"{row.violations.path}:{row.line}"
            warnings.append(
                f"{where}: the row of {first!r} is a row of totals and not imported"
            )
        rows += kept
    for one, other in combinations(tables, 2):
        if [row.cells for row in tables[one].rows] == [
            row.cells for row in tables[other].rows
        ]:
            warnings.append(
                f"{one} and {other} have equal cells: check that each has the labels of its own"
                " annotator"
            )
    cells = {}
    for column in columns:
        cells[column] = [row.cells.get(column, "") for row in rows]
    if of_files:
        cells[ANNOTATOR] = [
            row.cells.get(ANNOTATOR, of_files[row.violations.path]) for row in rows
        ]
    # A word of a level, such as unclear=?, may be an answer in other columns.
    of_labels: list[str] = []
    for target in ("level", "concepts"):
        for column in mapping.sources(target):
            for cell in cells.get(column, ()):
                of_labels += [cell, *mapping.parts(cell)]
    words = mapping.unknown_words.without(of_labels)
    warnings += _answers_in_other_columns(cells, mapping, words)
    read = TableCells(tables, rows, cells, violations, warnings, words, sheet_of)
    if are_of_films and SHEET not in columns:
        return read.with_films_of_sheets()
    return read


@dataclass(frozen=True)
class _Source:
    """A table to read, and the annotator whose it is if there are several.

    `sheet` is empty for the likely sheet, and for text.
    """

    path: Path
    sheet: str
    annotator: str


def _sources(paths: Sequence[Path], sheets: Sequence[str]) -> dict[str, _Source]:
    """Return the tables to read, by the names that errors have for them."""
    sheet = "".join(sheets[:1])
    if len(sheets) > 1 and len(paths) > 1:
        raise FixUsage(
            "expected one spreadsheet with several --sheet, got several files",
            where=", ".join(map(str, paths)),
            hint="pass one --sheet, or import one of the files",
        )
    sources = {str(path): _Source(path, sheet, path.stem) for path in paths}
    noun = "file"
    if len(sheets) > 1:
        noun = "sheet"
        (path,) = paths
        sources = {
            f"{path} (sheet {name})": _Source(path, name, name) for name in sheets
        }
    n_people = len({source.annotator for source in sources.values()})
    if n_people < max(len(paths), len(sheets)):
        raise FixUsage(
            f"two tables have the same {noun} name, which would be the name of two annotators",
            where=", ".join(map(str, paths)),
            hint="rename one of them",
        )
    return sources


def _answers_in_other_columns(
    cells: Mapping[str, Sequence[str]], mapping: TableMapping, words: UnknownWords
) -> list[str]:
    """Return a warning for each word that is unknown as a label, and an answer elsewhere."""
    only_labels = mapping.unknown_words.unknown - words.unknown
    of_labels = (*mapping.sources("level"), *mapping.sources("concepts"))
    target_of = {source: target for target, source in mapping.columns.items()}
    warnings = []
    for column, of_column in cells.items() if only_labels else ():
        is_own = bool(annotator_columns([target_of.get(column, column)]))
        if column in of_labels or not is_own:
            continue
        n_cells: Counter[str] = Counter()
        for cell in of_column:
            n_cells.update(map(str.strip, cell.split(BAR)))
        for word, n in n_cells.items():
            if word.casefold() not in only_labels:
                continue
            warnings.append(
                f"{word!r} means not known in levels and concepts, but counts as an answer in the"
                f" column {column} ({count(n, 'cell')}); if it means not known there too, write ?"
                " in these cells"
            )
    return warnings


def _without_totals(rows: Sequence[TableRow]) -> Sequence[TableRow]:
    """Return the rows without a last row of totals.

    A row of totals begins with a word of TOTALS, and has an empty cell in a column that all other
    rows fill.
    """
    *others, last = rows
    first = next(filter(None, last.cells.values()), "")
    if len(others) > 1 and first.rstrip(": ").casefold() in TOTALS:
        for column, cell in last.cells.items():
            if not cell and all(row[column] for row in others):
                return others
    return rows

"""The mapping of a table: what its columns and words are in a manifest, as a TOML file.

A table that does not fit gives a draft of its mapping. In a draft, a person writes something in
place of each `?` behind a `=`. A `?` before it is a column that may stay under its own name.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from obygaze_features.core.console import count
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage, near
from obygaze_features.core.file_names import composed
from obygaze_features.core.files import is_workbook, require_file, write_new
from obygaze_features.core.schema_check import (
    Document,
    Filled,
    one_of,
    read_toml,
    record_of,
)
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import CsvTable, TableRow
from obygaze_features.manifest.adapters.table_coders import (
    CODER,
    check_coders,
    made_of_coders,
    targets_of_coders,
)
from obygaze_features.manifest.adapters.table_times import (
    SHORT_TIMES,
    SPAN_COLUMNS,
    is_short,
    is_time,
)
from obygaze_features.manifest.annotators import RULES
from obygaze_features.manifest.expression import CONCEPTS, NUMBER, plain_value
from obygaze_features.manifest.io import toml_lines, toml_string
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    FOLD_PREFIX,
    LEVELS,
    NO_FILMS,
    TARGETS,
    ConceptName,
)
from obygaze_features.manifest.own_labels import has_numbers
from obygaze_features.manifest.spans import FILM_TIMES
from obygaze_features.manifest.vocabulary import (
    MODALITIES,
    canonical_concept,
    canonical_level,
    concepts,
)

NEEDED = ("clip_id", "movie_id")
CONSTANT = "="
# What a table may have between the concepts of a cell, beside `|`.
SEPARATORS = (";", ",", "/")
# A column with this many times for each other cell is one of times.
MOST_WRONG = 4
# Lines of a draft: a column that stays, and what a person is to write.
_STAYS = re.compile(rb"^[ \t]*\?[ \t]*=.*", re.MULTILINE)
OPEN = re.compile(rb'(?:"(?:[^"\\]|\\.)*"|[^#"])*=[ \t]*("?)\?\1[ \t]*(?:#.*)?')


@dataclass(frozen=True)
class WordMapping:
    """The meaning of words for levels and concepts.

    `modalities` adds concepts that are not in the vocabulary, each with its modality; in a file,
    [concepts] may give a word its modality at once. `separator` stands between concepts. A word
    that means several has `|` between them.
    """

    levels: Mapping[str, Annotated[str, one_of(LEVELS)]] = field(default_factory=dict)
    concepts: Mapping[str, Filled] = field(default_factory=dict)
    modalities: Mapping[ConceptName, Annotated[str, one_of(MODALITIES)]] = field(
        default_factory=dict
    )
    separator: Filled = "|"

    def level(self, word: str) -> str | None:
        """Return the level that a word means, None for an unknown word."""
        return _meaning(word, self.levels, LEVELS, canonical_level, "level")

    def concept(self, word: str) -> str | None:
        """Return the concepts that a word means, joined with `|`; None for an unknown word."""
        meanings = {**self.concepts, **{name: name for name in self.modalities}}
        return _meaning(word, meanings, concepts(), canonical_concept, CONCEPTS[0])


def _meaning(
    word: str,
    meanings: Mapping[str, str],
    vocabulary: Collection[str],
    canonical: Callable[[str], str | None],
    column: str,
) -> str | None:
    """Return what a word of a column means; None where nobody knows.

    A word that is not listed means what it does in another spelling, if that is one thing.
    """
    if word in meanings:
        return meanings[word]
    if word in vocabulary:
        return word
    plain = plain_value(word, column).casefold()
    found = set()
    for other, value in meanings.items():
        if plain_value(other, column).casefold() == plain:
            found.add(value)
    if found:
        return found.pop() if len(found) == 1 else None
    return canonical(word)


@dataclass(frozen=True)
class TableMapping(WordMapping):
    """How to read a table: its columns, and the meaning of its words for levels and concepts.

    `columns` maps a column of the manifest to a column of the table, or to a constant: `=value`.
    `id` is the form of clip ids, where they are made of columns. `films` is "none" where the table
    states no films. `times` says what 1:05 is. `no_value` has the words of a column of the table
    that mean an empty cell, separated by commas.
    `coders` has the columns of each person: `ada` that of the level, `ada:concepts` another one.
    `rule` makes one label a clip, and `orders` has the words of columns from the lowest.
    """

    columns: Mapping[str, Filled] = field(default_factory=dict)
    sheet: Filled = ""
    header_row: Annotated[int, Meta(ge=1)] | None = None
    id: Filled = ""
    films: Annotated[str, one_of((NO_FILMS,))] = ""
    times: Annotated[str, one_of(SHORT_TIMES)] = ""
    coders: Mapping[str, Filled] = field(default_factory=dict)
    rule: Filled = ""
    orders: Mapping[str, Filled] = field(default_factory=dict)
    no_value: Mapping[str, Filled] = field(default_factory=dict)
    dataset: Filled = ""
    licence: Filled = ""
    citation: Filled = ""

    def columns_of(self, target: str) -> list[str]:
        """Return the columns of the table for one of the manifest: several if people have each."""
        default = [self.columns.get(target, target)]
        return targets_of_coders(self.coders).get(target, default)


M = TypeVar("M", bound=WordMapping)


def read_mapping(path: Path) -> TableMapping:
    """Return the mapping in a TOML file, or raise one error of all its violations."""
    require_file(path)
    data = _STAYS.sub(b"", path.read_bytes())
    open_lines = []
    section = b""
    for number, line in enumerate(data.splitlines(), start=1):
        section = line if line.startswith(b"[") else section
        is_open = OPEN.fullmatch(line)
        # A column of a table may be called ?, and ? may be no value.
        has_quotes = section.startswith((b"[columns]", b"[no_value]"))
        if is_open and not (is_open[1] and has_quotes):
            shown = line.decode("utf-8", "replace").strip()
            open_lines.append(f"{path}:{number}: {shown}")
    if open_lines:
        raise FixInput(
            "the mapping still has a ? behind a =",
            where=str(path),
            hint="write a value in quotes in place of it, or delete the line",
            details=open_lines,
        )
    return checked_mapping(read_toml(data, str(path)), TableMapping)


def checked_mapping(document: Document, kind: type[M]) -> M:
    """Return the mapping in a document, or raise one error of all its violations."""
    mapping = record_of(document, kind, "the mapping is not valid")
    modality_of = dict(mapping.modalities)
    meanings = {}
    for word, meaning in mapping.concepts.items():
        if meaning in MODALITIES:
            modality_of[word] = meaning
        else:
            meanings[word] = meaning
    for word, meaning in meanings.items():
        for concept in meaning.split("|"):
            if concept not in concepts() and concept not in modality_of:
                document.add(
                    f"concepts.{word}",
                    f"unknown concept {concept!r}, expected {', '.join(concepts())}, or for a"
                    f" concept of your own its modality: {', '.join(MODALITIES)}",
                )
    document.raise_if_any("the mapping is not valid")
    return replace(mapping, concepts=meanings, modalities=modality_of)


def chosen_mapping(
    table: Path,
    mapping: TableMapping | str | Path | None,
    *,
    columns: Mapping[str, str],
    **options: Any,
) -> TableMapping:
    """Return a mapping in which the options that were given take the place of its own."""
    if isinstance(mapping, str | Path):
        mapping = read_mapping(Path(mapping))
    mapping = mapping or TableMapping()
    # A mapping is for tables of both kinds; options are for this one.
    if not is_workbook(table):
        mapping = replace(mapping, sheet="")
    given = {name: value for name, value in options.items() if value}
    joined = {}
    coders = dict(mapping.coders)
    for target, column in {**mapping.columns, **columns}.items():
        if target.startswith(CODER):
            coders[target.removeprefix(CODER)] = composed(column)
        else:
            joined[target] = composed(column)
    check_coders(coders, joined)
    given["orders"] = {**mapping.orders, **given.get("orders", {})}
    # No column of a manifest, but typed as one.
    times = columns.get("times", "times")
    if times != "times":
        del joined["times"]
        given["times"] = checked_times(times)
    return replace(mapping, columns=joined, coders=coders, **given)


def checked_times(times: str) -> str:
    """Return what 1:05 is, as it was typed; an error for another word."""
    if times not in ("", *SHORT_TIMES):
        raise FixUsage(
            f"times are {' or '.join(SHORT_TIMES)}, got {times!r}",
            hint="--map times=m:ss",
        )
    return times


def without_no_values(table: CsvTable, mapping: TableMapping) -> CsvTable:
    """Return a table in which the cells are empty that a mapping calls no value."""
    if not mapping.no_value:
        return table
    words_of = {}
    for column, listed in mapping.no_value.items():
        if column not in table.columns:
            raise FixInput(
                f"[no_value] names a column that the table has not: {column!r}"
                f"{near(column, table.columns)}"
            )
        words = map(str.strip, listed.split(","))
        words_of[column] = {plain_value(word, column) for word in words}
    rows = []
    for row in table.rows:
        cells = dict(row.cells)
        for column, no_values in words_of.items():
            if plain_value(cells[column].strip(), column) in no_values:
                cells[column] = ""
        rows.append(replace(row, cells=cells))
    return replace(table, rows=tuple(rows))


def used_mapping(mapping: TableMapping, rows: Sequence[TableRow]) -> TableMapping:
    """Return a mapping with all columns and words of a table that it, or the program, reads."""
    named = rows[0].cells if rows else {}
    columns = dict(mapping.columns)
    of_coders = made_of_coders(mapping.coders)
    for target in (*CLIP_COLUMNS, "annotator", "movie_title"):
        is_made = target in of_coders or (target == "clip_id" and mapping.id)
        if target in named and not is_made:
            columns.setdefault(target, target)
    levels = dict(mapping.levels)
    for word in _words(rows, *mapping.columns_of("level")):
        level = mapping.level(word)
        if level is not None and level != word:
            levels[word] = level
    meanings = dict(mapping.concepts)
    for cell in _words(rows, *mapping.columns_of("concepts")):
        for word in map(str.strip, cell.split(mapping.separator)):
            concept = mapping.concept(word)
            if concept is not None and concept != word:
                meanings[word] = concept
    return replace(mapping, columns=columns, levels=levels, concepts=meanings)


def _words(rows: Sequence[TableRow], *columns: str) -> list[str]:
    """Return the different cells of columns that are not empty."""
    return list(_counts(rows, *columns))


def words_of_levels(
    mapping: TableMapping, rows: Sequence[TableRow]
) -> dict[str, list[str]]:
    """Return the words of a table for each level."""
    words: dict[str, list[str]] = {}
    for word in _words(rows, *mapping.columns_of("level")):
        words.setdefault(mapping.level(word) or "", []).append(word)
    if "" in mapping.levels:
        words.setdefault(mapping.levels[""], []).append("(no text)")
    return words


def write_mapping_file(path: Path, mapping: object) -> None:
    """Write a mapping, a dataclass of texts, numbers and tables, as a TOML file."""
    lines = []
    tables = []
    for name, value in vars(mapping).items():
        if isinstance(value, Mapping):
            if value:
                tables += ["", f"[{name}]", *toml_lines(value)]
        elif value not in ("", None):
            lines += toml_lines({name: value})
    text = "\n".join([*lines, *tables, ""]).lstrip("\n")
    try:
        write_new(path, text.encode("utf-8"))
    except AlreadyThere as error:
        error.hint = "choose another name, or delete the file"
        raise


@dataclass(frozen=True)
class Draft:
    """A draft of a mapping that was written, in place of a manifest.

    `problems` are why the table does not fit.
    """

    path: Path
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return where the draft is, and why the table does not fit."""
        return {"draft": str(self.path), "problems": list(self.problems)}

    def __str__(self) -> str:
        return f"{self.path}: a draft of a mapping; no manifest is made yet"

    @property
    def notes(self) -> list[str]:
        """Return why the table does not fit, and what to do with the draft."""
        fill = f"fill in the lines with ? in {shell_word(self.path)}"
        return [*self.problems, f"next: {fill}, then {_instead(self.path)}"]


class DraftWritten(FixInput):
    """A table does not fit, and a draft of its mapping was written, as somebody asked."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(str(draft), details=draft.problems)
        self.draft = draft


def write_draft(target: str | Path, draft: str, error: FixInput) -> None:
    """Write a draft of a mapping, and raise an error that has it.

    A file that is there is not replaced, as a person may have written into it; then the error of
    the import says so.
    """
    try:
        write_new(Path(target), draft.encode("utf-8"))
    except AlreadyThere:
        shown = shell_word(target)
        error.hint = f"{shown} is there: correct it, then {_instead(target)}; or name another file"
        return
    raise DraftWritten(Draft(Path(target), error.details)) from error


def _instead(target: str | Path) -> str:
    return f"--mapping {shell_word(target)} in place of --write-mapping"


def draft_hint(target: str | Path, given: object = None) -> str:
    """Return which option writes a draft of a mapping, or that the given one is to be corrected.

    Args:
        target: A file for the draft.
        given: The mapping with which a table was read; a path, if it is one of a file.
    """
    if not isinstance(given, str | Path):
        return f"--write-mapping {shell_word(target)} writes a mapping to fill in"
    there = Path(given)
    other = shell_word(there.with_stem(f"{there.stem}-2"))
    return (
        f"correct {shell_word(there)}; or --write-mapping {other} writes one to fill in"
    )


def draft_of(table: CsvTable, mapping: TableMapping) -> str:
    """Return the text of a mapping of a table that does not fit, with `?` for what is not known.

    Args:
        table: The table, of which only the text was read.
        mapping: What is known already.
    """
    lines = [
        "# Write something in place of each ? behind a =. Then import the table again, with this",
        "# file as --mapping.",
    ]
    if table.doubt:
        lines.append(f"# Of the first lines, some have more cells: {table.doubt}")
    options = ("sheet", "header_row", "films", "rule", "dataset", "licence", "citation")
    for name in options:
        value = getattr(mapping, name)
        if value:
            lines += toml_lines({name: value})
    if mapping.coders and not mapping.rule:
        lines += ["", f"# Where people differ: {', '.join(RULES)}.", 'rule = "?"']
    lines += _draft_of_separator(table, mapping)
    lines += _draft_of_ids(table, mapping)
    lines += _draft_of_times(table, mapping)
    lines += _draft_of_columns(table, mapping)
    lines += _draft_of_levels(table, mapping)
    lines += _draft_of_concepts(table, mapping)
    for name in ("modalities", "coders", "orders", "no_value"):
        known = getattr(mapping, name)
        if known:
            lines += ["", f"[{name}]", *toml_lines(known)]
    return "\n".join([*lines, ""])


def _draft_of_ids(table: CsvTable, mapping: TableMapping) -> list[str]:
    """Return the lines on the form of ids, where ids are not all in one column."""
    if mapping.id:
        return toml_lines({"id": mapping.id})
    clip, film = (mapping.columns.get(name, name) for name in NEEDED)
    if clip not in table.columns:
        return [
            "",
            '# The ids of the clips: "{Shot}" is the column Shot, "{movie_id}-{Shot}" film and',
            '# number, "{movie_id}-{Shot:03d}" has zeros before the number, and',
            '# "{movie_id}-{count:03d}" counts the clips of each film. Features that you have need',
            "# the same ids. Or delete this line, and write clip_id left of a = of a column below.",
            'id = "?"',
        ]
    n_rows = _counts(table.rows, clip)
    if film not in table.columns and max(n_rows.values(), default=0) > 1:
        return [
            "",
            f"# {toml_string(clip)} has equal ids. In several films, they are",
            f'# "{{movie_id}}-{{{clip}}}"; of several annotators, "{{{clip}}}".',
            'id = "?"',
        ]
    films_of_clip: dict[str, set[str]] = {}
    for row in table.rows:
        films_of_clip.setdefault(row[clip], set()).add(row.cells.get(film, ""))
    if any(len(films) > 1 for films in films_of_clip.values()):
        form = toml_string(f"{{movie_id}}-{{{clip}}}")
        return ["", "# The ids begin anew in each film.", f"id = {form}"]
    return []


def _draft_of_times(table: CsvTable, mapping: TableMapping) -> list[str]:
    """Return the lines on times such as 1:05, in columns of times, or that may be such."""
    if mapping.times:
        return toml_lines({"times": mapping.times})
    mapped = {mapping.columns.get(name, name) for name in (*SPAN_COLUMNS, *FILM_TIMES)}
    for column in table.filled_columns:
        cells = _words(table.rows, column)
        unclear = [cell for cell in cells if is_short(cell)]
        if unclear and (column in mapped or has_times(cells)):
            forms = " or ".join(map(toml_string, SHORT_TIMES))
            return [
                "",
                f"# {unclear[0]} in {toml_string(column)} is {forms}.",
                'times = "?"',
            ]
    return []


def has_times(cells: Sequence[str]) -> bool:
    """Return whether a column looks like one of times, some of which may be typing errors."""
    n_times = sum(map(is_time, cells))
    return n_times > MOST_WRONG * (len(cells) - n_times)


def _draft_of_separator(table: CsvTable, mapping: TableMapping) -> list[str]:
    """Return the line on what stands between the concepts of a cell."""
    cells = _words(table.rows, *mapping.columns_of("concepts"))
    if not cells and mapping.separator == WordMapping.separator:
        return []
    unknown = [cell for cell in cells if mapping.concept(cell) is None]
    sign = separator_of(unknown, mapping)
    if sign == mapping.separator:
        return toml_lines({"separator": sign})
    shown = next(cell for cell in unknown if sign in cell)
    return [
        "",
        f"# Such as {toml_string(sign)} in {toml_string(shown)}.",
        'separator = "?"',
    ]


def separator_of(cells: Sequence[str], mapping: WordMapping) -> str:
    """Return what seems to stand between the concepts of cells."""
    for sign in (mapping.separator, *SEPARATORS):
        if any(sign in cell for cell in cells):
            return sign
    return mapping.separator


def _draft_of_columns(table: CsvTable, mapping: TableMapping) -> list[str]:
    """Return a line for each column, and each constant; of an unknown target, with first cells."""
    lines = [
        "",
        "[columns]",
        "# A column may become, left of the =, one of: movie_id (the film, which all tables need,",
        '# or films = "none" above), clip_id, start_s, end_s (or start_frame, end_frame and',
        "# framerate), level, concepts,",
        '# annotator, comment, scene, video, fold:NAME. One film for all is movie_id = "=Juno".',
        "# A column whose ? stays is kept under its own name, for `obygaze run --task COLUMN`. For",
        "# the words of one that becomes level or concepts, give this file as --mapping, and",
        "# --write-mapping with another name: a second draft asks for them.",
        '# Of columns of people: [coders], ada = "COLUMN" of levels, "ada:concepts" = "COLUMN".',
    ]
    target_of = {}
    for target, source in mapping.columns.items():
        if source.startswith(CONSTANT):
            lines += toml_lines({target: source})
        target_of[source] = target
    for column in filter(None, dict.fromkeys(table.columns)):
        if column in TARGETS or column.startswith(FOLD_PREFIX):
            target_of.setdefault(column, column)
        words = _words(table.rows, column)
        if has_times(words):
            # Times have no sign: -1 is a number of something else.
            no_times = [word for word in words if not is_time(word)]
            wrong = [word for word in no_times if not NUMBER.fullmatch(word)]
            for row in table.rows:
                if row[column] in wrong:
                    shown = toml_string(row[column])
                    lines.append(f"# Line {row.line} of the table: {shown} is no time.")
        n_rows = _counts(table.rows, column)
        if column not in target_of and has_numbers([*n_rows.elements()]):
            for word, n in n_rows.items():
                if not NUMBER.fullmatch(word):
                    shown = f"{toml_string(word)} ({count(n, 'time')})"
                    lines.append(
                        f"# {shown} is no number: correct these cells, or name it under [no_value]."
                    )
        if column in target_of:
            lines += toml_lines({target_of[column]: column})
        elif column not in mapping.coders.values():
            shown = ", ".join(words[:3])
            if len(shown) > 40:
                shown = f"{shown[:37]}..."
            lines.append(f"? = {toml_string(column)}  # {shown}".rstrip())
    return lines


def _draft_of_levels(table: CsvTable, mapping: TableMapping) -> list[str]:
    """Return a line for each unknown word of the column of levels."""
    lines = toml_lines(mapping.levels)
    columns = mapping.columns_of("level")
    if set(columns).issubset(table.columns):
        n_rows = _counts(table.rows, *columns)
        unknown = {word: n for word, n in n_rows.items() if mapping.level(word) is None}
        if unknown:
            lines += [
                f"# One of {', '.join(LEVELS)}. Where these words are no levels, write a name of",
                f"# your own for the column {toml_string(columns[0])}, in place of level.",
            ]
        lines += _asked(unknown)
    return ["", "[levels]", *lines] if lines else []


def meanings_of_words() -> list[str]:
    """Return the lines of a draft that say what the words of concepts may mean."""
    return [
        f"# One of {', '.join(concepts())},",
        '# or several, such as "Look|Body",',
        f"# or for a concept of your own its modality: {', '.join(MODALITIES)}.",
    ]


def _draft_of_concepts(table: CsvTable, mapping: TableMapping) -> list[str]:
    """Return a line for each unknown word of the column of concepts."""
    lines = toml_lines(mapping.concepts)
    columns = mapping.columns_of("concepts")
    if set(columns).issubset(table.columns):
        unknown = _parts(table, columns, mapping)
        if unknown:
            lines += [*meanings_of_words(), *_asked(unknown)]
    return ["", "[concepts]", *lines] if lines else []


def _asked(words: Mapping[str, int]) -> list[str]:
    """Return the lines that ask for the meaning of words, each with its number of rows.

    Words that differ by capitals alone are one line, with the first of them.
    """
    first_of: dict[str, str] = {}
    n_rows: Counter[str] = Counter()
    for word, n in words.items():
        n_rows[first_of.setdefault(word.casefold(), word)] += n
    return [
        f'{toml_string(word)} = "?"  # {count(n, "time")}' for word, n in n_rows.items()
    ]


def _parts(
    table: CsvTable, columns: Sequence[str], mapping: TableMapping
) -> Counter[str]:
    """Return the words between separators that are no concepts, each with its number of rows."""
    cells = _counts(table.rows, *columns)
    sign = separator_of(
        [cell for cell in cells if mapping.concept(cell) is None], mapping
    )
    unknown: Counter[str] = Counter()
    for cell, n_rows in cells.items():
        for word in map(str.strip, cell.split(sign)):
            if word and mapping.concept(word) is None:
                unknown[word] += n_rows
    return unknown


def _counts(rows: Sequence[TableRow], *columns: str) -> Counter[str]:
    """Return the cells of columns that are not empty, each with its number of rows."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row.cells.get(column, "") for column in columns)
    del counts[""]
    return counts

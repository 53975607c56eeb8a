"""The mapping of a table: what its columns and words are in a manifest, as options or a TOML file.

Both say the same: `--map level=Urteil --word ja=S` is `level = "Urteil"` under `[columns]` and
`ja = "S"` under `[levels]` of the file that `--mapping` reads and `--write-mapping` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from obygaze_features.core.errors import AlreadyThere, FixUsage
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
from obygaze_features.manifest.adapters.table_times import SHORT_TIMES
from obygaze_features.manifest.annotators import UNKNOWN
from obygaze_features.manifest.expression import CONCEPTS, plain_value
from obygaze_features.manifest.io import toml_lines
from obygaze_features.manifest.model import LEVELS, NO_FILMS, ConceptName
from obygaze_features.manifest.vocabulary import (
    MODALITIES,
    canonical_concept,
    canonical_level,
    concepts,
)

NEEDED = ("clip_id", "movie_id")
CONSTANT = "="
# How --map begins where it names the column of a person: coder:ada=COLUMN.
CODER = "coder:"
BAR = "|"
# What is typed as if it were a column: --map times=m:ss.
AS_COLUMNS = ("times", "separator")
FLAGS = {"columns": "--map", "coders": "--map", "orders": "--order"}
OF_WORDS = ("levels", "concepts", "modalities")

Words = Mapping[str, Filled]


@dataclass(frozen=True)
class TableMapping:
    """How to read a table: its columns, and the meaning of its words for levels and concepts.

    `columns` maps a column of the manifest to a column of the table, or to a constant: `=value`.
    `id` is the form of clip ids, where they are made of columns. `films` is "none" where the table
    states no films. `times` says what 1:05 is, and `separator` what stands between concepts, by
    default `|`. `no_value` has the words of a column of the table that mean an empty cell,
    separated by commas. A word of `levels` or `concepts` that means `?` is no level or concept, and
    one that means several concepts has `|` between them. `modalities` adds concepts that are not in
    the vocabulary, each with its modality; in a file, [concepts] may give a word its modality at
    once. `coders` has the columns of each person: `ada` that of the level, `ada:concepts` another
    one. `rule` makes one label a clip, and `orders` has the words of columns from the lowest.
    """

    sheet: Filled = ""
    header_row: Annotated[int, Meta(ge=1)] | None = None
    id: Filled = ""
    films: Annotated[str, one_of((NO_FILMS,))] = ""
    times: Annotated[str, one_of(SHORT_TIMES)] = ""
    separator: Filled = ""
    rule: Filled = ""
    dataset: Filled = ""
    licence: Filled = ""
    citation: Filled = ""
    columns: Words = field(default_factory=dict)
    coders: Words = field(default_factory=dict)
    levels: Mapping[str, Annotated[str, one_of((*LEVELS, UNKNOWN))]] = field(
        default_factory=dict
    )
    concepts: Words = field(default_factory=dict)
    modalities: Mapping[ConceptName, Annotated[str, one_of(MODALITIES)]] = field(
        default_factory=dict
    )
    orders: Words = field(default_factory=dict)
    no_value: Words = field(default_factory=dict)

    def level(self, word: str) -> str | None:
        """Return the level that a word means, "" if it means none; None for an unknown word."""
        return _meaning(word, self.levels, LEVELS, canonical_level, "level")

    def concept(self, word: str) -> str | None:
        """Return the concepts that a word means, joined with `|`; None for an unknown word."""
        meanings = {**self.concepts, **{name: name for name in self.modalities}}
        return _meaning(word, meanings, concepts(), canonical_concept, CONCEPTS[0])

    def parts(self, cell: str) -> list[str]:
        """Return the words for concepts in a cell; an empty cell has none."""
        return [w.strip() for w in cell.split(self.separator or BAR)] if cell else []

    @property
    def names_in_table(self) -> dict[str, str]:
        """The column of the table for each mapped column that is no constant."""
        return {
            target: column
            for target, column in self.columns.items()
            if not column.startswith(CONSTANT)
        }

    def joined(self, other: TableMapping) -> TableMapping:
        """Return this mapping with all that another one says in place of its own."""
        said: dict[str, Any] = {}
        for name, value in other.filled().items():
            is_table = isinstance(value, Mapping)
            said[name] = {**getattr(self, name), **value} if is_table else value
        return replace(self, **said)

    def filled(self) -> dict[str, Any]:
        """Return the keys that say something."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value}

    def typed(self) -> list[str]:
        """Return the mapping as options of a command; a few keys have none."""
        words = []
        meanings: dict[str, list[str]] = {}
        for name, value in self.filled().items():
            if name in AS_COLUMNS:
                words += ["--map", f"{name}={value}"]
            elif name in OF_WORDS:
                # A word may be one of a level and of a concept.
                for word, meaning in value.items():
                    meanings.setdefault(word, []).append(meaning)
            elif isinstance(value, Mapping):
                prefix = CODER if name == "coders" else ""
                for key, item in value.items():
                    words += [FLAGS[name], f"{prefix}{key}={item}"]
            else:
                words += [f"--{name}", str(value)]
        for word, of_word in meanings.items():
            words += ["--word", f"{word}={BAR.join(dict.fromkeys(of_word))}"]
        return words

    def toml(self, comments: Iterable[str] = ()) -> str:
        """Return the mapping as the text of a file, below comments."""
        lines = [f"# {comment}" for comment in comments]
        tables = []
        for name, value in self.filled().items():
            if isinstance(value, Mapping):
                tables += ["", f"[{name}]", *toml_lines(value)]
            else:
                lines += toml_lines({name: value})
        return "\n".join([*lines, *tables, ""]).lstrip("\n")


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
        return _without_unknown(meanings[word])
    if word in vocabulary:
        return word
    plain = plain_value(word, column).casefold()
    found = set()
    for other, value in meanings.items():
        if plain_value(other, column).casefold() == plain:
            found.add(_without_unknown(value))
    if found:
        return found.pop() if len(found) == 1 else None
    return canonical(word)


def _without_unknown(meaning: str) -> str:
    return "" if meaning == UNKNOWN else meaning


def read_mapping(path: Path) -> TableMapping:
    """Return the mapping in a TOML file, or raise one error of all its violations."""
    require_file(path)
    return _checked(read_toml(path.read_bytes(), str(path)))


def _checked(document: Document) -> TableMapping:
    """Return the mapping in a document, or raise one error of all its violations."""
    mapping = record_of(document, TableMapping, "the mapping is not valid")
    mapping = _with_own_concepts(mapping)
    for word, meaning in mapping.concepts.items():
        for concept in _unknown_parts(meaning, mapping):
            problem = f"unknown concept {concept!r}, expected {_known_concepts()}"
            document.add(f"concepts.{word}", problem)
    document.raise_if_any("the mapping is not valid")
    return mapping


def _with_own_concepts(mapping: TableMapping) -> TableMapping:
    """Return a mapping in which words that mean a modality are concepts of one's own."""
    own = {word: m for word, m in mapping.concepts.items() if m in MODALITIES}
    others = {word: m for word, m in mapping.concepts.items() if word not in own}
    modalities = {**mapping.modalities, **own}
    return replace(mapping, concepts=others, modalities=modalities)


def _unknown_parts(meaning: str, mapping: TableMapping) -> list[str]:
    """Return the concepts in the meaning of a word that are not known."""
    known = {*concepts(), *mapping.modalities, UNKNOWN}
    return [name for name in meaning.split(BAR) if name not in known]


def _known_concepts() -> str:
    """Return what a word for a concept may mean."""
    own = f"for a concept of your own its modality: {', '.join(MODALITIES)}"
    return f"{', '.join(concepts())}, or {own}"


def typed_mapping(
    columns: Mapping[str, str], words: Mapping[str, str], **options: Any
) -> TableMapping:
    """Return the mapping that was typed as options; a word is one of a level or of a concept."""
    # A column may be typed with its accents beside the letters.
    sources = {target: composed(column) for target, column in columns.items()}
    given = {name: value for name, value in options.items() if value}
    for name in AS_COLUMNS:
        # A column of this name keeps it.
        if sources.get(name, name) != name:
            given[name] = sources.pop(name)
    checked_times(given.get("times", ""))
    coders = {
        t.removeprefix(CODER): c for t, c in sources.items() if t.startswith(CODER)
    }
    of_levels = {}
    of_concepts = {}
    for word, meaning in words.items():
        parts = meaning.split(BAR)
        levels = [part for part in parts if part in LEVELS]
        names = [part for part in parts if part not in (*LEVELS, UNKNOWN)]
        if levels or UNKNOWN in parts:
            of_levels[word] = BAR.join(levels) or UNKNOWN
        if names or UNKNOWN in parts:
            of_concepts[word] = BAR.join(names) or UNKNOWN
    typed = TableMapping(
        columns={t: c for t, c in sources.items() if not t.startswith(CODER)},
        coders=coders,
        levels=of_levels,
        concepts=of_concepts,
        **given,
    )
    return _with_own_concepts(typed)


def chosen_mapping(
    table: Path, given: TableMapping | str | Path | None, typed: TableMapping
) -> TableMapping:
    """Return a mapping in which what was typed takes the place of its own."""
    mapping = read_mapping(Path(given)) if isinstance(given, str | Path) else given
    if mapping is not None and not is_workbook(table):
        # A mapping is for tables of both kinds.
        mapping = replace(mapping, sheet="")
    joined = (mapping or TableMapping()).joined(typed)
    known = (*LEVELS, UNKNOWN)
    wrong = {word: m for word, m in typed.levels.items() if m not in known}
    for word, meaning in {**typed.concepts, **wrong}.items():
        if word in wrong or _unknown_parts(meaning, joined):
            shown = shell_word(f"{word}={meaning}")
            raise FixUsage(
                f"--word {shown}: {meaning!r} is neither a level nor a concept",
                hint=f"{', '.join(LEVELS)}; {_known_concepts()}; {UNKNOWN} for not known",
            )
    return joined


def checked_times(times: str) -> str:
    """Return what 1:05 is, as it was typed; an error for another word."""
    if times not in ("", *SHORT_TIMES):
        raise FixUsage(
            f"times are {' or '.join(SHORT_TIMES)}, got {times!r}",
            hint="--map times=m:ss",
        )
    return times


def write_mapping_file(path: Path, mapping: TableMapping) -> None:
    """Write a mapping as a TOML file, which does not replace another one."""
    try:
        write_new(path, mapping.toml().encode("utf-8"))
    except AlreadyThere as error:
        error.hint = "choose another name, or delete the file"
        raise

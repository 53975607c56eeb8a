"""Map the columns and words of a table to those of a manifest: `--map level=Urteil --word ja=S`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.file_names import compose_accents
from obygaze_features.core.shell import shell_word
from obygaze_features.core.unknown_words import (
    UNKNOWN,
    UnknownWords,
    is_no_answer,
)
from obygaze_features.manifest.adapters.table_times import MILLISECONDS, SHORT_TIMES
from obygaze_features.manifest.annotators import annotator_columns
from obygaze_features.manifest.expression import CONCEPTS, plain_value
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.vocabulary import (
    MODALITIES,
    canonical_concept,
    canonical_level,
    concepts,
)

NEEDED = ("clip_id", "movie_id")
ANNOTATOR = "annotator"
COUNT = "count"
CONSTANT = "="
# The column of the name of the sheet, if several sheets are read and none is of an annotator.
SHEET = "sheet"
# The prefix of a column of one annotator in --map: coder:ada=COLUMN.
CODER = "coder:"
BAR = "|"
# Settings that are typed like columns: --map times=m:ss.
AS_COLUMNS = ("times", "separator")
FLAGS = {
    "columns": "--map",
    "coders": "--map",
    "orders": "--order",
    "film_names": "--film",
}
OF_WORDS = ("levels", "concepts", "answers")
# A part of the form of ids: a column, and the number of digits of its number.
PART_OF_ID = re.compile(r"\{(?P<column>[^{}:]+)(?::(?P<digits>0?[0-9]{1,2})d)?\}")

Words = Mapping[str, str]


@dataclass(frozen=True)
class TableMapping:
    """How to read a table: its columns, and the meaning of its words for levels and concepts.

    `columns` maps a column of the manifest to a column of the table, or to a constant: `=value`.
    `coders` maps the columns of each annotator: `ada` is the column of the level, `ada:concepts`
    the column of the concepts. If there are several `sheets`, each is of the annotator whose name
    it has. `id` is the template for ids that are made from columns. `films` is "none" if the table
    states no films. `times` is the format of 1:05 (m:ss or h:mm), or ms for milliseconds.
    `separator` separates concepts, by default `|`. `levels` and `concepts` have the meanings of
    words: `?` is no level or no concept, several concepts are joined with `|`, and a modality makes
    the word a new concept of this modality. `answers` has the words of other columns: `?` is not
    known, and a word such as NA that means itself is an answer. `film_names` has the new name of
    films. `rule` makes one label per clip where annotators differ. `orders` lists the words of
    columns from the lowest to the highest, separated by commas."""

    sheets: Sequence[str] = ()
    id: str = ""
    films: str = ""
    times: str = ""
    separator: str = ""
    rule: str = ""
    film_names: Words = field(default_factory=dict)
    columns: Words = field(default_factory=dict)
    coders: Words = field(default_factory=dict)
    levels: Words = field(default_factory=dict)
    concepts: Words = field(default_factory=dict)
    orders: Words = field(default_factory=dict)
    answers: Words = field(default_factory=dict)

    def level(self, word: str) -> str | None:
        """Return the level of a word, "" if it means no level, or None if it is unknown."""
        if word == UNKNOWN and word not in self.levels:
            return ""
        return _meaning(word, self.levels, LEVELS, canonical_level, "level")

    def concept(self, word: str) -> str | None:
        """Return the concepts of a word, joined with `|`; "" for no concept, None if unknown."""
        meanings = {**self.concepts, **{name: name for name in self.own_concepts}}
        return _meaning(word, meanings, concepts(), canonical_concept, CONCEPTS[0])

    def form_of(self, target: str) -> str:
        """Return the format of the times of a column of the manifest; "": it is not stated.

        A column whose name is already `start_s` has seconds, whatever others have.
        """
        is_in_seconds = self.columns.get(target, target) == target
        return "" if is_in_seconds and self.times == MILLISECONDS else self.times

    @cached_property
    def unknown_words(self) -> UnknownWords:
        """What the user states about words of columns other than levels and concepts."""
        return UnknownWords.of(self.answers)

    @cached_property
    def own_concepts(self) -> dict[str, str]:
        """The concepts that are not in the vocabulary, each with its modality."""
        return {word: m for word, m in self.concepts.items() if m in MODALITIES}

    @property
    def known_concepts(self) -> dict[str, str]:
        """The concepts that clips may have, each with its modality."""
        return {**concepts(), **self.own_concepts}

    def parts(self, cell: str) -> list[str]:
        """Return the words for concepts in a cell."""
        words = cell.split(self.separator or BAR)
        return [word.strip() for word in words if word.strip()]

    @cached_property
    def people(self) -> dict[str, dict[str, str]]:
        """For each annotator, the columns of the table by the columns of the manifest."""
        people: dict[str, dict[str, str]] = {}
        for key, column in self.coders.items():
            name, _, target = key.partition(":")
            target = target or "level"
            is_own = bool(annotator_columns([target]))
            if not name or not (is_own or target in ("level", "concepts")):
                raise FixUsage(
                    f"--map: expected {CODER}NAME or {CODER}NAME:TARGET, got {CODER}{key}",
                    hint="use coder:NAME=COLUMN for the level of an annotator,"
                    " coder:NAME:concepts=COLUMN or coder:NAME:OWN=COLUMN for others",
                )
            people.setdefault(name, {})[target] = column
        return people

    @property
    def annotator_targets(self) -> list[str]:
        """The columns of the manifest that are made from the columns of annotators."""
        targets = dict.fromkeys([ANNOTATOR] if self.coders else [])
        for columns in self.people.values():
            targets.update(dict.fromkeys(columns))
        return [*targets]

    def sources(self, target: str) -> list[str]:
        """Return the columns of the table for a column of the manifest.

        There may be one column, one for each annotator, or none.
        """
        of_people = [one[target] for one in self.people.values() if target in one]
        if of_people or target in self.columns:
            return of_people or [self.columns[target]]
        # A column of this name may be mapped to a different column of the manifest.
        return [] if target in self.columns.values() else [target]

    @property
    def columns_of_id(self) -> list[str]:
        """The columns in the template for ids. Raise an error if the template is invalid."""
        columns = [match["column"] for match in PART_OF_ID.finditer(self.id)]
        between = PART_OF_ID.sub("", self.id)
        if self.id and (not columns or "{" in between or "}" in between):
            raise FixUsage(
                f"--id: expected columns in braces, got {self.id!r}",
                hint="use a form such as '{film}-{n:03d}'; 03d writes n with three digits",
            )
        return columns

    @property
    def names_in_table(self) -> dict[str, str]:
        """The names of columns of the table, as text, for each mapped column of the manifest."""
        targets = (*self.columns, *self.annotator_targets)
        return {target: ", ".join(self.sources(target)) for target in targets}

    def joined(self, other: TableMapping) -> TableMapping:
        """Return this mapping with the values of another mapping added.

        Where both mappings have a value, the value of the other mapping is used.
        """
        updates: dict[str, Any] = {}
        for name, value in other.filled().items():
            is_table = isinstance(value, Mapping)
            updates[name] = {**getattr(self, name), **value} if is_table else value
        return replace(self, **updates)

    def filled(self) -> dict[str, Any]:
        """Return the keys that have a value."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value}

    def typed(self) -> list[str]:
        """Return the mapping as options of a command."""
        words = []
        meanings: dict[str, list[str]] = {}
        for name, value in self.filled().items():
            if name in AS_COLUMNS:
                words += ["--map", f"{name}={value}"]
            elif name in OF_WORDS:
                # A word may be listed under levels and under concepts.
                for word, meaning in value.items():
                    meanings.setdefault(word, []).append(meaning)
            elif isinstance(value, Mapping):
                prefix = CODER if name == "coders" else ""
                for key, item in value.items():
                    words += [FLAGS[name], f"{prefix}{key}={item}"]
            elif name == "sheets":
                for sheet in value:
                    words += ["--sheet", sheet]
            else:
                words += [f"--{name}", str(value)]
        for word, of_word in meanings.items():
            words += ["--word", f"{word}={BAR.join(dict.fromkeys(of_word))}"]
        return words


def _meaning(
    word: str,
    meanings: Mapping[str, str],
    vocabulary: Collection[str],
    canonical: Callable[[str], str | None],
    column: str,
) -> str | None:
    """Return the meaning of a word of a column, or None if it is unknown.

    A word that `meanings` does not list has the meaning of its other spellings in `meanings`. It is
    unknown if these have different meanings.
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


def _wrong_words(mapping: TableMapping) -> dict[str, str]:
    """Return a sentence for each word that is mapped to an unknown concept."""
    known = {*mapping.known_concepts, *MODALITIES, UNKNOWN}
    wrong = {}
    for word, meaning in mapping.concepts.items():
        for name in meaning.split(BAR):
            if name not in known:
                wrong[word] = (
                    f"unknown concept {name!r}, expected {', '.join(concepts())}, or for a concept"
                    f" of your own its modality: {', '.join(MODALITIES)}"
                )
    return wrong


def mapping_of_options(
    columns: Mapping[str, str], words: Mapping[str, str], **options: Any
) -> TableMapping:
    """Return the mapping that is typed as options, such as `--map` and `--word`."""
    # A typed column may have its accents as separate characters.
    sources = {target: compose_accents(column) for target, column in columns.items()}
    filled = {name: value for name, value in options.items() if value}
    if isinstance(filled.get("sheets"), str):
        filled["sheets"] = (filled["sheets"],)
    for name in AS_COLUMNS:
        # With `--map times=times`, the table has a column of this name, which keeps it.
        if sources.get(name, name) != name:
            filled[name] = sources.pop(name)
    check_times(filled.get("times", ""))
    coders = {}
    for target in [*sources]:
        if target.startswith(CODER):
            coders[target.removeprefix(CODER)] = sources.pop(target)
    of_levels = {}
    of_concepts = {}
    answers = {}
    for word, meaning in words.items():
        parts = meaning.split(BAR)
        if is_no_answer(word) and word in parts:
            answers[word] = word
            parts.remove(word)
        elif UNKNOWN in parts:
            answers[word] = UNKNOWN
        levels = [part for part in parts if part in LEVELS]
        names = [part for part in parts if part not in (*LEVELS, UNKNOWN)]
        if levels or UNKNOWN in parts:
            of_levels[word] = BAR.join(levels) or UNKNOWN
        if names or UNKNOWN in parts:
            of_concepts[word] = BAR.join(names) or UNKNOWN
    mapping = TableMapping(
        columns=sources,
        coders=coders,
        levels=of_levels,
        concepts=of_concepts,
        answers=answers,
        **filled,
    )
    wrong = _wrong_words(mapping)
    for word, level in of_levels.items():
        if level not in (*LEVELS, UNKNOWN):
            wrong[word] = f"expected one level, got {level!r}"
    for word, problem in wrong.items():
        meaning = words[word]
        shown = shell_word(f"{word}={meaning}")
        raise FixUsage(
            f"--word {shown}: expected a level or a concept, got {meaning!r}",
            hint=f"use one of {', '.join(LEVELS)}, or {UNKNOWN} for not known; {problem}",
        )
    return mapping


def check_times(times: str) -> str:
    """Return the typed format of times. Raise an error unless it is m:ss, h:mm, ms or ""."""
    if times not in ("", *SHORT_TIMES, MILLISECONDS):
        raise FixUsage(
            f"--map times: expected {', '.join(SHORT_TIMES)} or {MILLISECONDS}, got {times!r}",
            hint="pass --map times=m:ss for minutes and seconds",
        )
    return times

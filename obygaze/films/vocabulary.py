"""Vocabularies of one's own: concepts with a hierarchy, and tiers with values, with definitions.

The file of a vocabulary is TOML that can be cited: it has a title, a version, creators, a licence
and an identifier. A term may name a URI, such as that of the AdA vocabulary, as what it is the same
as.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from obygaze.films.mark_tables import MORE_COLUMNS, SEGMENT_COLUMNS
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import (
    locked,
    sha256_bytes,
    write_atomic,
)
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.schema_check import Document, read_toml, table_of
from obygaze_features.manifest.io import toml_string
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.vocabulary import (
    VOCABULARY,
    canonical_concept,
    concept_meaning,
    packaged,
    subconstructs,
)

SCHEMA = "obygaze-vocabulary/1"
GROUP = "group"
CONCEPT = "concept"
TIER = "tier"
VALUE = "value"
# A group is above concepts and is no choice itself; a value belongs to a tier.
KINDS = (GROUP, CONCEPT, TIER, VALUE)
# The kinds of the terms that may be above a term of each kind.
ABOVE = {GROUP: (GROUP,), CONCEPT: (GROUP, CONCEPT), TIER: (), VALUE: (TIER,)}
# Columns of marks that were made in a queue.
QUEUE_COLUMNS = ("clip_id", "order", "suggested", "otherwise", "seconds")
MAX_TERMS = 2000
MAX_TEXT = 2000
# A file of so many terms, each with its texts, is smaller.
MAX_BYTES = 1 << 25
_NAME = re.compile(r"[^\s|][^|\x00-\x1f\x7f]{0,118}[^\s|]|[^\s|]")
_URI = re.compile(r"(https?://|urn:)[^\s<>\"{}|\\^`]{1,500}")


@dataclass(frozen=True)
class Term:
    """A term: `broader` are the names of the terms above it, `uri` what it is the same as."""

    name: str
    kind: str = CONCEPT
    broader: tuple[str, ...] = ()
    definition: str = ""
    uri: str = ""


@dataclass(frozen=True, repr=False)
class Vocabulary:
    """Terms in their order, and what is needed to cite them.

    `to_toml()` is the file of the vocabulary.
    """

    title: str = ""
    version: str = ""
    creators: tuple[str, ...] = ()
    licence: str = ""
    identifier: str = ""
    terms: tuple[Term, ...] = field(default=())

    def __repr__(self) -> str:
        return short_repr("Vocabulary", self.title, count(len(self.terms), "term"))

    def to_json(self) -> dict[str, Any]:
        """Return the vocabulary as one JSON document."""
        return asdict(self)

    @property
    def concepts(self) -> dict[str, str]:
        """The concepts, each followed by those below it, with their definitions."""
        below: dict[str, list[Term]] = {}
        waiting: list[Term] = []
        concept_terms = [term for term in self.terms if term.kind == CONCEPT]
        names = {term.name for term in concept_terms}
        for term in reversed(concept_terms):
            parents = [name for name in term.broader if name in names]
            if parents:
                below.setdefault(parents[0], []).append(term)
            else:
                waiting.append(term)
        definitions = {}
        while waiting:
            term = waiting.pop()
            definitions[term.name] = term.definition
            waiting += below.get(term.name, ())
        return definitions

    @property
    def tiers(self) -> dict[str, tuple[str, ...]]:
        """The tiers in their order, each with its values."""
        values: dict[str, list[str]] = {}
        for term in self.terms:
            if term.kind == TIER:
                values[term.name] = []
        for term in self.terms:
            if term.kind == VALUE:
                values[term.broader[0]].append(term.name)
        return {tier: tuple(names) for tier, names in values.items()}

    def with_concepts_above(self, concepts: Sequence[str]) -> list[str]:
        """Return concepts and all concepts above them: who marks an instance marks its concept."""
        term_of = {
            term.name: term for term in self.terms if term.kind in (GROUP, CONCEPT)
        }
        marked = dict.fromkeys(concepts)
        waiting = list(concepts)
        while waiting:
            term = term_of.get(waiting.pop())
            if term is None:
                continue
            for name in term.broader:
                if name not in marked and term_of[name].kind == CONCEPT:
                    marked[name] = None
                    waiting.append(name)
        return list(marked)

    def problems(self) -> list[tuple[int | None, str]]:
        """Return what is wrong, each with the number of the term, from 0."""
        problems: list[tuple[int | None, str]] = []
        if len(self.terms) > MAX_TERMS:
            problems.append((None, f"a vocabulary has at most {MAX_TERMS} terms"))
        kind_of: dict[str, str] = {}
        values: set[tuple[str, ...]] = set()
        for number, term in enumerate(self.terms):
            if term.kind != VALUE and term.name in kind_of:
                problems.append((number, f"{term.name!r} is there twice"))
            key = (term.name, *term.broader)
            if term.kind == VALUE and key in values:
                problems.append((number, f"{term.name!r} is there twice"))
            if term.kind == VALUE:
                values.add(key)
            else:
                kind_of[term.name] = term.kind
        for number, term in enumerate(self.terms):
            for problem in _problems_of(term, kind_of):
                problems.append((number, problem))
        if not problems:
            problems += self._circles()
        return problems

    def _circles(self) -> list[tuple[int | None, str]]:
        """Return the terms that are above themselves."""
        above = {term.name: term.broader for term in self.terms if term.kind != VALUE}
        problems: list[tuple[int | None, str]] = []
        for number, term in enumerate(self.terms):
            seen: set[str] = set()
            waiting = list(term.broader)
            while waiting:
                name = waiting.pop()
                if name not in seen:
                    seen.add(name)
                    waiting += above[name]
            if term.kind != VALUE and term.name in seen:
                problems.append((number, f"{term.name!r} is above itself"))
        return problems

    def to_toml(self) -> str:
        """Return the vocabulary as TOML: always the same text for the same vocabulary."""
        creators = ", ".join(map(toml_string, self.creators))
        lines = [
            f"schema = {toml_string(SCHEMA)}",
            f"title = {toml_string(self.title)}",
            f"version = {toml_string(self.version)}",
            f"creators = [{creators}]",
            f"licence = {toml_string(self.licence)}",
            f"identifier = {toml_string(self.identifier)}",
        ]
        for term in self.terms:
            lines += ["", "[[terms]]", f"name = {toml_string(term.name)}"]
            lines.append(f"kind = {toml_string(term.kind)}")
            if term.broader:
                broader = ", ".join(map(toml_string, term.broader))
                lines.append(f"broader = [{broader}]")
            if term.definition:
                lines.append(f"definition = {toml_string(term.definition)}")
            if term.uri:
                lines.append(f"uri = {toml_string(term.uri)}")
        return "\n".join(lines) + "\n"


def _problems_of(term: Term, kind_of: Mapping[str, str]) -> list[str]:
    """Return what is wrong with one term."""
    problems = []
    if not _NAME.fullmatch(term.name):
        problems.append(f"{term.name!r}: a name has 1 to 120 letters, none of them |")
    if term.kind not in KINDS:
        return [f"{term.name!r}: kind must be one of {', '.join(KINDS)}"]
    taken = (*SEGMENT_COLUMNS, *MORE_COLUMNS, *QUEUE_COLUMNS)
    if term.kind == TIER and term.name.casefold() in taken:
        problems.append(f"{term.name!r}: the table of marks has a column of this name")
    if term.kind == CONCEPT and term.name in LEVELS:
        problems.append(f"{term.name!r} is a level")
    for name in term.broader:
        if name not in kind_of:
            problems.append(
                f"{term.name!r}: `broader` has {name!r}, which is no term of this file"
            )
        elif kind_of[name] not in ABOVE[term.kind]:
            kinds = " or a ".join(ABOVE[term.kind])
            rule = f"nothing can be above a {term.kind}"
            if kinds:
                rule = f"above a {term.kind} must be a {kinds}"
            problems.append(f"{term.name!r}: {name!r} is a {kind_of[name]}; {rule}")
    if term.kind == VALUE and len(term.broader) != 1:
        problems.append(f"{term.name!r}: a value has one tier in `broader`")
    if len(term.definition) > MAX_TEXT:
        problems.append(f"{term.name!r}: a definition has at most {MAX_TEXT} letters")
    if term.uri and not _URI.fullmatch(term.uri):
        problems.append(f"{term.name!r}: expected a URI (https://... or urn:...)")
    return problems


def paper_vocabulary(concepts: Iterable[str] | None = None) -> Vocabulary:
    """Return the vocabulary of the papers: sub-constructs, below them concepts, then instances.

    Args:
        concepts: The canonical concepts of interest, by default all of them.
    """
    published = packaged(VOCABULARY)
    entries = {entry["name"]: entry for entry in published["concepts"]}
    names = list(entries) if concepts is None else [c for c in concepts if c in entries]
    groups = []
    concept_terms = []
    instances: dict[str, Term] = {}
    groups_of: dict[str, list[str]] = {name: [] for name in names}
    for group, members in subconstructs().items():
        groups.append(Term(group, GROUP, (), concept_meaning(group)))
        for name in members:
            if name in groups_of:
                groups_of[name].append(group)
    for name in names:
        broader = tuple(groups_of[name])
        concept_terms.append(Term(name, CONCEPT, broader, concept_meaning(name)))
        for instance in entries[name].get("instances", ()):
            known = instances.get(instance["name"])
            above = (*known.broader, name) if known else (name,)
            instances[instance["name"]] = Term(instance["name"], CONCEPT, above)
    terms = (*groups, *concept_terms, *instances.values())
    return Vocabulary(title="Concepts of objectification in film", terms=terms)


def checked_vocabulary(document: Document, message: str) -> Vocabulary:
    """Return the vocabulary of a document, or raise one error of all its violations."""
    vocabulary: Vocabulary | None = document.check(table_of(Vocabulary))
    if vocabulary is None or document.violations:
        document.raise_if_any(message)
        raise FixInput(message, where=document.where)
    for number, problem in vocabulary.problems():
        document.add("terms" if number is None else f"terms[{number}]", problem)
    document.raise_if_any(message)
    return vocabulary


def _parsed_toml(data: bytes, path: Path) -> Vocabulary:
    document = read_toml(data, str(path), max_bytes=MAX_BYTES)
    document.require_schema(SCHEMA, "vocabulary")
    return checked_vocabulary(document, "the vocabulary is not valid")


def unknown_concepts(names: Iterable[str], tables: Iterable[Path]) -> list[str]:
    """Return the concepts that neither the papers nor the vocabularies of tables of marks have.

    The vocabulary of `segments/MANIFEST.NAME.csv` is `segments/MANIFEST.vocabulary.toml`.
    """
    unknown = sorted({name for name in names if canonical_concept(name) is None})
    if not unknown:
        return []
    own: set[str] = set()
    for path in tables:
        manifest = path.stem.rpartition(".")[0]
        if manifest:
            beside = path.with_name(f"{manifest}.vocabulary.toml")
            own.update(VocabularyFile(beside).read()[0].concepts)
    return [name for name in unknown if name not in own]


@dataclass(frozen=True)
class VocabularyFile:
    """The vocabulary of a film page: `segments/MANIFEST.vocabulary.toml`, which may be missing."""

    path: Path

    def read(self) -> tuple[Vocabulary, str]:
        """Return the vocabulary, and the hash of its file; without a file "", and no terms."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return Vocabulary(), ""
        # An exported page may show the message: it has no path of this machine.
        return _parsed_toml(data, Path(self.path.name)), sha256_bytes(data)[:32]

    def save(self, values: Any, state: Any) -> None:
        """Write the vocabulary that the page sent; `state` is the hash of what it was made from."""
        if not isinstance(values, dict):
            raise FixInput("expected a vocabulary")
        names = {a_field.name for a_field in fields(Vocabulary)}
        sent = {name: value for name, value in values.items() if name in names}
        document = Document(sent, "vocabulary")
        vocabulary = checked_vocabulary(document, "Not saved")
        with locked(self.path.parent):
            if self.read()[1] != state:
                problem = "Not saved: the vocabulary was changed in another window"
                raise FixInput(problem, hint="load this page again")
            write_atomic(self.path, vocabulary.to_toml().encode("utf-8"))

"""Vocabularies of one's own: concepts with a hierarchy, and tiers with values, with definitions.

The file of a vocabulary is TOML that can be cited: it has a title, a version, creators, a licence
and an identifier. A term may name a URI, such as that of the AdA vocabulary, as what it is the same
as.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from obygaze.extensions.annotate.elan import xml_root
from obygaze.extensions.annotate.projection import MORE_COLUMNS, SEGMENT_COLUMNS
from obygaze_features.core.console import count, table
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import (
    locked,
    parse_json,
    require_file,
    sha256_bytes,
    write_atomic,
    write_new,
)
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.options import Option
from obygaze_features.core.schema_check import Document, read_toml, table_of
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.io import toml_string
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.vocabulary import (
    THESAURUS,
    canonical_concept,
    concept_meaning,
    packaged,
    subconstructs,
)

SCHEMA = "obygaze-vocabulary/1"
PAPER = "paper"  # the vocabulary of the papers on ObyGaze12, instead of a file
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
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_XSI = "http://www.w3.org/2001/XMLSchema-instance"


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

    def __str__(self) -> str:
        rows = []
        for term in self.terms:
            rows.append(
                (term.name, term.kind, ", ".join(term.broader), term.definition)
            )
        return table(("name", "kind", "broader", "definition"), rows)

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
    thesaurus = packaged(THESAURUS)
    entries = {entry["name"]: entry for entry in thesaurus["concepts"]}
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


def read_vocabulary(source: PathLike) -> Vocabulary:
    """Return the vocabulary in a file: .toml, .jsonld (SKOS), or .eaf and .ecv of ELAN.

    Args:
        source: The file; `paper` is the vocabulary of the papers on ObyGaze12.

    >>> read_vocabulary("paper").with_concepts_above(["partial nudity"])
    ['partial nudity', 'Body']
    """
    if str(source) == PAPER:
        return paper_vocabulary()
    path = Path(source)
    require_file(path)
    if path.suffix not in READERS:
        known = ", ".join(READERS)
        raise FixUsage(f"expected {PAPER}, or a file named {known}", where=str(path))
    return READERS[path.suffix](path)


def _read_toml(path: Path) -> Vocabulary:
    return _parsed_toml(path.read_bytes(), path)


def _parsed_toml(data: bytes, path: Path) -> Vocabulary:
    document = read_toml(data, str(path), max_bytes=MAX_BYTES)
    document.require_schema(SCHEMA, "vocabulary")
    return checked_vocabulary(document, "the vocabulary is not valid")


def _checked(vocabulary: Vocabulary, path: Path) -> Vocabulary:
    problems = [problem for _, problem in vocabulary.problems()]
    if problems:
        raise FixInput(f"not a vocabulary: {'; '.join(problems[:5])}", where=str(path))
    return vocabulary


# ---- ELAN ---------------------------------------------------------------------------------------


def _read_elan(path: Path) -> Vocabulary:
    """Return the controlled vocabularies of a file of ELAN: each is a tier, or has concepts."""
    root = xml_root(path.read_bytes(), path, ("ANNOTATION_DOCUMENT", "CV_RESOURCE"))
    uris = {}
    for element in root.iterfind("EXTERNAL_REF"):
        if element.get("TYPE") != "ecv":
            uris[element.get("EXT_REF_ID", "")] = element.get("VALUE", "")
    terms: list[Term] = []
    for element in root.iterfind("CONTROLLED_VOCABULARY"):
        name = " ".join(element.get("CV_ID", "").split())
        entries = _entries_of(element, uris)
        names = [entry.name for entry in entries]
        if set(names) <= set(LEVELS):
            continue  # levels are the same for all
        n_concepts = sum(canonical_concept(entry) is not None for entry in names)
        if name == CONCEPT or 2 * n_concepts > len(names):
            terms += [replace(entry, kind=CONCEPT) for entry in entries]
            continue
        description = element.findtext("DESCRIPTION") or element.get("DESCRIPTION", "")
        terms.append(Term(name, TIER, (), _line(description)))
        terms += [replace(entry, kind=VALUE, broader=(name,)) for entry in entries]
    if not terms:
        raise FixInput(
            "this file has no controlled vocabulary with other entries than the levels",
            where=str(path),
            hint="in ELAN: Edit > Edit Controlled Vocabularies; or take one of the page, a .toml",
        )
    unique = dict.fromkeys(terms)
    return _checked(Vocabulary(title=path.stem, terms=tuple(unique)), path)


def _entries_of(element: Element, uris: Mapping[str, str]) -> list[Term]:
    """Return the entries of a controlled vocabulary, in its first language."""
    entries = []
    for entry in element.iterfind("CV_ENTRY_ML"):
        value = entry.find("CVE_VALUE")
        if value is not None and _line(value.text):
            definition = _line(value.get("DESCRIPTION", ""))
            uri = uris.get(entry.get("EXT_REF", ""), "")
            uri = uri if _URI.fullmatch(uri) else ""
            entries.append(Term(_line(value.text), "", (), definition, uri))
    for entry in element.iterfind("CV_ENTRY"):  # before ELAN 4.8
        if _line(entry.text):
            definition = _line(entry.get("DESCRIPTION", ""))
            entries.append(Term(_line(entry.text), "", (), definition))
    return entries


def _line(text: str | None) -> str:
    return " ".join((text or "").replace("|", "/").split())


def _to_ecv(vocabulary: Vocabulary) -> bytes:
    """Return the concepts and the tiers as controlled vocabularies, which ELAN imports."""
    ElementTree.register_namespace("xsi", _XSI)
    schema = "http://www.mpi.nl/tools/elan/EAFv2.8.xsd"
    facts = {"AUTHOR": ", ".join(vocabulary.creators), "VERSION": "0.2"}
    # The date is fixed, so that the same vocabulary gives the same bytes.
    facts |= {"DATE": "2000-01-01T00:00:00+00:00"}
    root = Element(
        "CV_RESOURCE", {**facts, f"{{{_XSI}}}noNamespaceSchemaLocation": schema}
    )
    # Terms of one's own may be in any language.
    language = "http://cdb.iso.org/lg/CDB-00130975-001"
    label = "undetermined (und)"
    SubElement(root, "LANGUAGE", LANG_ID="und", LANG_DEF=language, LANG_LABEL=label)
    by_tier: dict[str, list[Term]] = {}
    definitions = {CONCEPT: vocabulary.title}
    for term in vocabulary.terms:
        if term.kind == CONCEPT:
            by_tier.setdefault(CONCEPT, []).append(term)
        elif term.kind == TIER:
            by_tier.setdefault(term.name, [])
            definitions[term.name] = term.definition
        elif term.kind == VALUE:
            by_tier.setdefault(term.broader[0], []).append(term)
    uris: dict[str, str] = {}
    for tier, terms in by_tier.items():
        element = SubElement(root, "CONTROLLED_VOCABULARY", CV_ID=tier)
        SubElement(element, "DESCRIPTION", LANG_REF="und").text = definitions[tier]
        for term in terms:
            digest = sha256_bytes(f"{tier}\n{term.name}".encode())[:16]
            entry = SubElement(element, "CV_ENTRY_ML", CVE_ID=f"cve_{digest}")
            if term.uri:
                entry.set("EXT_REF", uris.setdefault(term.uri, f"er{len(uris) + 1}"))
            value = SubElement(entry, "CVE_VALUE", LANG_REF="und")
            value.set("DESCRIPTION", term.definition)
            value.text = term.name
    for uri, name in uris.items():
        SubElement(
            root, "EXTERNAL_REF", EXT_REF_ID=name, TYPE="resource_url", VALUE=uri
        )
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return data + b"\n"


# ---- SKOS ---------------------------------------------------------------------------------------

_CONTEXT = {
    "skos": _SKOS,
    "dct": "http://purl.org/dc/terms/",
    "owl": "http://www.w3.org/2002/07/owl#",
}


def _to_skos(vocabulary: Vocabulary) -> bytes:
    """Return the vocabulary as SKOS in JSON-LD; a URI of another vocabulary is an exact match."""
    base = vocabulary.identifier or "urn:x-obygaze:vocabulary"

    def id_of(kind: str, name: str, tier: Sequence[str] = ()) -> str:
        words = [kind, *tier, name] if kind == VALUE else [name]
        return f"{base}#{quote('/'.join(words), safe='/')}"

    scheme: dict[str, Any] = {"@id": base, "@type": "skos:ConceptScheme"}
    scheme |= {"dct:title": vocabulary.title, "owl:versionInfo": vocabulary.version}
    scheme |= {
        "dct:creator": list(vocabulary.creators),
        "dct:license": vocabulary.licence,
    }
    scheme |= {"dct:identifier": vocabulary.identifier}
    graph = [scheme]
    for term in vocabulary.terms:
        node: dict[str, Any] = {"@id": id_of(term.kind, term.name, term.broader)}
        node |= {"@type": "skos:Concept", "skos:inScheme": {"@id": base}}
        node |= {"skos:prefLabel": term.name, "dct:type": term.kind}
        node |= {"skos:broader": [{"@id": id_of("", name)} for name in term.broader]}
        if term.definition:
            node["skos:definition"] = term.definition
        if term.uri:
            node["skos:exactMatch"] = {"@id": term.uri}
        source = _source_of(term)
        if source:
            node["dct:source"] = source
        graph.append(node)
    text = json.dumps(
        {"@context": _CONTEXT, "@graph": graph}, ensure_ascii=False, indent=1
    )
    return text.encode("utf-8") + b"\n"


def _source_of(term: Term) -> str:
    """Return where the papers have a term that is as they define it, "" for one's own terms."""
    thesaurus = packaged(THESAURUS)
    for entry in (*thesaurus["subconstructs"], *thesaurus["concepts"]):
        if entry["name"] == term.name and concept_meaning(term.name) == term.definition:
            return str(entry["source"])
        instances = [instance["name"] for instance in entry.get("instances", ())]
        if term.name in instances:
            return str(entry["source"])
    return ""


def _read_skos(path: Path) -> Vocabulary:
    """Return the vocabulary of a file that `_to_skos` made."""
    try:
        graph = parse_json(path.read_bytes())["@graph"]
        scheme, *nodes = graph
        name_of = {node["@id"]: node["skos:prefLabel"] for node in nodes}
        terms = []
        for node in nodes:
            broader = tuple(name_of[above["@id"]] for above in node["skos:broader"])
            definition = node.get("skos:definition", "")
            uri = node.get("skos:exactMatch", {}).get("@id", "")
            name = node["skos:prefLabel"]
            terms.append(Term(name, node["dct:type"], broader, definition, uri))
        vocabulary = Vocabulary(
            title=scheme["dct:title"],
            version=scheme["owl:versionInfo"],
            creators=tuple(scheme["dct:creator"]),
            licence=scheme["dct:license"],
            identifier=scheme["dct:identifier"],
            terms=tuple(terms),
        )
        return _checked(vocabulary, path)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"not a vocabulary of this program in JSON-LD: {error!r}"
        raise FixInput(problem, where=str(path)) from None


READERS = {
    ".toml": _read_toml,
    ".jsonld": _read_skos,
    ".eaf": _read_elan,
    ".ecv": _read_elan,
}
WRITERS = {
    ".toml": lambda vocabulary: vocabulary.to_toml().encode("utf-8"),
    ".jsonld": _to_skos,
    ".ecv": _to_ecv,
}


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
class ConvertedVocabulary:
    """A vocabulary, and the file to which it was written, None if it was only read."""

    vocabulary: Vocabulary
    path: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the vocabulary as one JSON document, with its file."""
        path = None if self.path is None else str(self.path)
        return {**self.vocabulary.to_json(), "path": path}

    def __str__(self) -> str:
        if self.path is None:
            return str(self.vocabulary)
        kinds = Counter(term.kind for term in self.vocabulary.terms)
        counts = [count(kinds[kind], kind) for kind in KINDS if kinds[kind]]
        return f"{self.path}: {', '.join(counts) or 'no terms'}"


def convert_vocabulary(
    source: PathLike,
    *,
    out: Annotated[PathLike | None, Option("-o", metavar="PATH")] = None,
    force: bool = False,
) -> ConvertedVocabulary:
    """Read a vocabulary of concepts and tiers, and write it for another program.

    SOURCE is a .toml, .jsonld (SKOS), .eaf or .ecv (ELAN) file, or `paper`: the sub-constructs,
    concepts and instances of the papers on ObyGaze12. In files of ELAN each controlled vocabulary
    is a tier; one that is called "concept", or most of whose entries are concepts, has concepts.
    The hierarchy is in .toml and .jsonld only. The film page has its vocabulary in
    segments/MANIFEST.vocabulary.toml.

    Args:
        source: The file.
        out: Write it to this file: .toml, .jsonld or .ecv.
        force: Replace that file.

    Commands:
        obygaze manifest vocabulary paper -o segments/films.vocabulary.toml
        obygaze manifest vocabulary own.eaf -o segments/films.vocabulary.toml
        obygaze manifest vocabulary segments/films.vocabulary.toml -o films.ecv
    """
    vocabulary = read_vocabulary(source)
    if out is None:
        return ConvertedVocabulary(vocabulary)
    path = Path(out)
    if path.suffix not in WRITERS:
        known = ", ".join(WRITERS)
        raise FixUsage(f"expected -o with a file named {known}", where=str(path))
    write_new(path, WRITERS[path.suffix](vocabulary), force=force)
    return ConvertedVocabulary(vocabulary, path)


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

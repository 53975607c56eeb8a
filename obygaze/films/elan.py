"""Read the tiers of ELAN files: what each of them is, and the marks that its annotators made.

A tier is used only where it is certain what it means: by the words in it, by its type in files
that this program wrote, or by a mapping. All other tiers are kept as they are.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from obygaze.films.film_segments import Mark, Text, plain
from obygaze.films.projection import WATCHED
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import require_file
from obygaze_features.core.schema_check import Table, read_toml, table_of
from obygaze_features.core.schema_rules import choice, filled
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level

KEEP = "keep"
# What a tier can be; the last one is not used.
ROLES = ("levels", "concepts", "comments", WATCHED, KEEP)
# Types of tiers in files that this program wrote.
OWN_TYPES = {
    "level": "levels",
    "concept": "concepts",
    "comment": "comments",
}
_MS = re.compile(r"-?[0-9]{1,12}")
_SEPARATORS = re.compile(r"[|,;]")


@dataclass(frozen=True)
class TierMapping:
    """What the tiers of ELAN files are, and the meaning of their words.

    `tiers` has the role of a tier by its name, `annotators` who made it. `levels` and `concepts`
    translate words. A tier that is not in `tiers` is what its words and its type say.
    """

    tiers: Annotated[Mapping[str, str], Table(others=choice(ROLES))] = field(
        default_factory=dict
    )
    annotators: Annotated[Mapping[str, str], Table(others=filled)] = field(
        default_factory=dict
    )
    levels: Annotated[Mapping[str, str], Table(others=choice(LEVELS))] = field(
        default_factory=dict
    )
    concepts: Annotated[Mapping[str, str], Table(others=filled)] = field(
        default_factory=dict
    )

    def level(self, word: str) -> str | None:
        """Return the level that a word means, None for an unknown word."""
        return self.levels.get(word.strip()) or canonical_level(word)

    def concept(self, word: str) -> str | None:
        """Return the concept that a word means, None for an unknown word."""
        return self.concepts.get(word.strip()) or canonical_concept(word)


def read_tier_mapping(path: Path) -> TierMapping:
    """Return the mapping in a TOML file, or raise one error of all its violations."""
    require_file(path)
    document = read_toml(path.read_bytes(), str(path))
    mapping: TierMapping = document.check(table_of(TierMapping))
    document.raise_if_any("the mapping is not valid")
    return mapping


@dataclass(eq=False)
class Tier:
    """A tier of an ELAN file; `parent` is the tier that it is linked to, None if there is none.

    A tier that is used is a lane, with a mark for each annotation, or belongs to one.
    """

    element: Element
    name: str
    type_name: str
    annotator: str
    parent: "Tier | None" = None
    role: str = KEEP

    @property
    def belongs_to_parent(self) -> bool:
        """Whether its annotations are concepts or comments of those that they refer to."""
        if self.parent is None or self.role not in ("concepts", "comments"):
            return False
        return self.parent.role not in (KEEP, WATCHED)

    @property
    def is_lane(self) -> bool:
        """Whether each of its annotations is a mark."""
        return self.role != KEEP and not self.belongs_to_parent

    def ancestors(self) -> Iterator["Tier"]:
        """Yield the tier that this one is linked to, then the one of that, and so on."""
        tier = self.parent
        while tier is not None:
            yield tier
            tier = tier.parent

    def elements(self) -> list[Element]:
        """Return its annotations."""
        return [
            element
            for element in self.element.iterfind("ANNOTATION/*")
            if isinstance(element.tag, str)
        ]

    def values(self) -> list[str]:
        """Return the texts of its annotations that are not empty."""
        texts = map(value_of, self.elements())
        return [text for text in texts if text.strip()]

    def made_of(self) -> str:
        """Return in words what became of the tier."""
        if self.role == KEEP:
            return "kept as it is, not used"
        if self.belongs_to_parent and self.parent is not None:
            return f"{self.role} of the tier {self.parent.name}"
        if self.role == WATCHED:
            return f"what {self.annotator} has watched"
        return f"{self.role} of {self.annotator}"


@dataclass(eq=False)
class ElanMark:
    """An annotation of a lane with its times, None where the file has none.

    `dependents` are the annotations of further tiers, used or not, that refer to it or lie in it.
    """

    tier: Tier
    element: Element
    times_ms: tuple[int, int] | None
    dependents: list[tuple[Tier, Element]] = field(default_factory=list)


def value_of(element: Element) -> str:
    """Return the text of an annotation."""
    return element.findtext("ANNOTATION_VALUE") or ""


class _SafeBuilder(ElementTree.TreeBuilder):
    """Build a tree that has the comments of the file; a document type is refused."""

    def __init__(self) -> None:
        super().__init__(insert_comments=True, insert_pis=True)

    def doctype(self, *_: Any) -> None:
        # It could define entities. The parser calls this in every encoding.
        raise ValueError("a document type is not allowed")


class ElanDocument:
    """An ELAN file, with what each tier is.

    >>> data = b"<ANNOTATION_DOCUMENT><HEADER/><TIER TIER_ID='Music'/></ANNOTATION_DOCUMENT>"
    >>> [(tier.name, tier.role) for tier in ElanDocument(data, Path("a.eaf")).tiers]
    [('Music', 'keep')]
    """

    def __init__(
        self, data: bytes, path: Path, mapping: TierMapping | None = None
    ) -> None:
        self.path = path
        self.root = xml_root(data, path, ("ANNOTATION_DOCUMENT",))
        self.mapping = _with_vocabularies(mapping or TierMapping(), self.root)
        self.origin_ms = _origin_ms(self.root)
        self.media_name = _media_name(self.root)
        self.tiers = _linked_tiers(self.root, self.mapping)
        known: set[str] = set()
        for tier in self.tiers:
            self._find_role(tier, known)

    def _find_role(self, tier: Tier, known: set[str]) -> None:
        """Set the role of a tier, after those that it is linked to."""
        if tier.name in known:
            return
        known.add(tier.name)
        if tier.parent is not None:
            self._find_role(tier.parent, known)
        tier.role = self.mapping.tiers.get(tier.name) or self._guessed_role(tier)

    def _guessed_role(self, tier: Tier) -> str:
        """Return what the words and the type of a tier say that it is."""
        words = (tier.type_name.casefold(), *tier.name.casefold().split())
        if WATCHED in words:
            return WATCHED
        values = tier.values()
        own_role = OWN_TYPES.get(tier.type_name)
        parent_role = KEEP if tier.parent is None else tier.parent.role
        # First, as a comment may be the word of a level, such as "not sure".
        is_below = parent_role in ("levels", "concepts")
        if is_below and own_role in ("concepts", "comments"):
            return own_role
        if own_role == "levels" and not values:
            return own_role
        if _are_most(values, lambda text: self.mapping.level(text) is not None):
            return "levels"
        if parent_role == "levels" and _are_most(values, self._is_of_concepts):
            return "concepts"
        return KEEP

    def _is_of_concepts(self, text: str) -> bool:
        """Whether a text is one concept, or several with separators."""
        words = [word for word in _SEPARATORS.split(text) if word.strip()]
        return all(self.mapping.concept(word) for word in words)

    def concepts_in(self, text: str, tier: Tier) -> list[str]:
        """Return the concepts in a text of a tier; unknown ones are as they are written.

        The types of this program have a concept in each annotation, which may have a comma.
        """
        whole = self.mapping.concept(text)
        if whole:
            return [whole]
        words = [word.strip() for word in _SEPARATORS.split(text) if word.strip()]
        is_known = any(self.mapping.concept(word) for word in words)
        if not is_known and tier.type_name in OWN_TYPES:
            return [text]
        return [self.mapping.concept(word) or word for word in words]

    def texts_of(self, mark: ElanMark) -> list[Text]:
        """Return the texts of a mark, each with its kind."""
        texts = self._texts(mark.tier, mark.element)
        for tier, element in mark.dependents:
            lanes_above = [above for above in tier.ancestors() if above.is_lane]
            if tier.belongs_to_parent and lanes_above[0] is mark.tier:
                texts += self._texts(tier, element)
        return texts

    def _texts(self, tier: Tier, element: Element) -> list[Text]:
        """Return the texts of one annotation."""
        if tier.role == WATCHED:
            return [("comment", WATCHED)]
        text = value_of(element)
        if tier.role == "comments":
            return [("comment", text)]
        if tier.role == "concepts":
            return [("concept", name) for name in self.concepts_in(text, tier)]
        return [("level", self.mapping.level(text) or text)]

    def marks(self) -> list[ElanMark]:
        """Return the annotations of all lanes, each with its dependents."""
        references = _References(self.root, self.tiers)
        marks: list[ElanMark] = []
        for lane in self.tiers:
            if not lane.is_lane:
                continue
            marks_of_lane: list[ElanMark] = []
            for element in lane.elements():
                times_ms = references.times_ms(element)
                marks_of_lane.append(ElanMark(lane, element, times_ms))
            marks += marks_of_lane
            finder = _MarkFinder(references, marks_of_lane)
            for tier in self.tiers:
                if lane not in tier.ancestors():
                    continue
                for element in tier.elements():
                    mark = finder.mark_of(element)
                    if mark is not None:
                        mark.dependents.append((tier, element))
        return marks

    def check_times(self, marks: Sequence[ElanMark]) -> list[str]:
        """Return a warning with the number of used annotations that have no times."""
        dependents: set[int] = set()
        for mark in marks:
            dependents.update(id(element) for _, element in mark.dependents)
        n_without = sum(self.film_times_ms(mark) is None for mark in marks)
        for tier in self.tiers:
            if tier.belongs_to_parent:
                n_without += sum(id(one) not in dependents for one in tier.elements())
        if n_without == 0:
            return []
        n_annotations = count(n_without, "annotation")
        return [f"{self.path}: left out, because they have no times: {n_annotations}"]

    def made_of(self, tier: Tier) -> str:
        """Return in words what became of a tier, with its words that are not used as levels."""
        made_of = tier.made_of()
        if tier.role != "levels":
            return made_of
        unknown_words: dict[str, None] = {}
        for word in tier.values():
            if self.mapping.level(word) is None:
                unknown_words[plain(word)] = None
        if not unknown_words:
            return made_of
        return f"{made_of}; not levels, so comments: {few(list(unknown_words), 5)}"

    def film_times_ms(self, mark: ElanMark) -> tuple[int, int] | None:
        """Return the times of a mark in the film, None where they are not known."""
        if mark.times_ms is None or self.origin_ms is None:
            return None
        start_ms, end_ms = mark.times_ms
        return start_ms + self.origin_ms, end_ms + self.origin_ms


class _References:
    """The annotations of a file by their ids, and their times."""

    def __init__(self, root: Element, tiers: Iterable[Tier]) -> None:
        self.element_of: dict[str, Element] = {}
        for tier in tiers:
            for element in tier.elements():
                self.element_of[element.get("ANNOTATION_ID", "")] = element
        self.exact_ms: dict[str, int] = {}
        self.nearest_ms: dict[str, int] = {}
        # Slots are in the order of time; one without a time has that of the slot before it.
        latest_ms = 0
        for slot in root.iterfind("TIME_ORDER/TIME_SLOT"):
            name = slot.get("TIME_SLOT_ID", "")
            written = slot.get("TIME_VALUE", "")
            if _MS.fullmatch(written):
                latest_ms = int(written)
                self.exact_ms[name] = latest_ms
            self.nearest_ms[name] = latest_ms

    def chain(self, element: Element) -> Iterator[Element]:
        """Yield an annotation, the one that it refers to, and so on."""
        seen: set[str] = set()
        next_element: Element | None = element
        while next_element is not None:
            yield next_element
            name = next_element.get("ANNOTATION_REF", "")
            next_element = None if name in seen else self.element_of.get(name)
            seen.add(name)

    def times_ms(self, element: Element) -> tuple[int, int] | None:
        """Return start and end of an annotation, or of the first one that it refers to."""
        *_, first = self.chain(element)
        start_ms = self.exact_ms.get(first.get("TIME_SLOT_REF1", ""))
        end_ms = self.exact_ms.get(first.get("TIME_SLOT_REF2", ""))
        if start_ms is None or end_ms is None:
            return None
        return start_ms, end_ms


class _MarkFinder:
    """Finds the mark of a lane that an annotation refers to, or lies in."""

    def __init__(self, references: _References, marks: Sequence[ElanMark]) -> None:
        self.references = references
        self.mark_by_name: dict[str, ElanMark] = {}
        for mark in marks:
            name = mark.element.get("ANNOTATION_ID", "")
            self.mark_by_name[name] = mark
        with_times = [mark for mark in marks if mark.times_ms]
        self.in_order = sorted(with_times, key=lambda mark: mark.times_ms or (0, 0))
        self.starts_ms = [(mark.times_ms or (0, 0))[0] for mark in self.in_order]

    def mark_of(self, element: Element) -> ElanMark | None:
        """Return the mark of an annotation of a tier below the lane, None if there is none."""
        last = element
        for referred in self.references.chain(element):
            mark = self.mark_by_name.get(referred.get("ANNOTATION_ID", ""))
            if mark is not None:
                return mark
            last = referred
        start_ms = self.references.nearest_ms.get(last.get("TIME_SLOT_REF1", ""))
        if start_ms is None:
            return None
        index = bisect_right(self.starts_ms, start_ms) - 1
        if index < 0:
            return None
        mark = self.in_order[index]
        is_inside = mark.times_ms is not None and start_ms < mark.times_ms[1]
        return mark if is_inside else None


def xml_root(data: bytes, path: Path, tags: Sequence[str]) -> Element:
    """Return the root of a file of ELAN, whose tag is one of those given."""
    parser = ElementTree.XMLParser(target=_SafeBuilder())
    try:
        root: Element = ElementTree.fromstring(data, parser=parser)
        if root.tag not in tags:
            raise ValueError(f"expected an {' or '.join(tags)}, got {root.tag}")
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        problem = f"not a file of ELAN: {error}"
        raise FixInput(problem, where=str(path), hint="save it again in ELAN") from None
    return root


def _films_of(root: Element) -> list[Element]:
    """Return the media of a file, the videos first: the film is the first of them."""
    media = root.findall("HEADER/MEDIA_DESCRIPTOR")
    videos = [one for one in media if one.get("MIME_TYPE", "").startswith("video")]
    return [*videos, *media]


def _media_name(root: Element) -> str:
    """Return the name of the film's file, without the folder that it had; "" without one."""
    films = _films_of(root)
    if not films:
        return ""
    url = films[0].get("RELATIVE_MEDIA_URL") or films[0].get("MEDIA_URL") or ""
    return PureWindowsPath(unquote(url)).name


def _origin_ms(root: Element) -> int | None:
    """Return where in the film's video the times of a file begin; None where it is not a number.

    A file may have several media, each with its own beginning: the film is the first video.
    """
    films = _films_of(root)
    if not films:
        return 0
    origin = films[0].get("TIME_ORIGIN", "0")
    return int(origin) if _MS.fullmatch(origin) else None


def _with_vocabularies(mapping: TierMapping, root: Element) -> TierMapping:
    """Return a mapping that also has the words of the vocabularies of a file."""
    levels = dict(mapping.levels)
    concepts = dict(mapping.concepts)
    for vocabulary in root.iterfind("CONTROLLED_VOCABULARY"):
        levels.update(_other_words(vocabulary, mapping.level))
        concepts.update(_other_words(vocabulary, mapping.concept))
    return replace(mapping, levels=levels, concepts=concepts)


def _other_words(
    vocabulary: Element, meaning_of: Callable[[str], str | None]
) -> dict[str, str]:
    """Return the unknown words of a vocabulary with the meaning of their entry.

    An entry has a word in each language. Where one of them is known, the others mean the same;
    but only in a vocabulary most of whose entries have such a word.
    """
    meanings: dict[str, str] = {}
    n_known = 0
    entries = vocabulary.findall("CV_ENTRY_ML")
    for entry in entries:
        words = [(value.text or "").strip() for value in entry.iterfind("CVE_VALUE")]
        known_meanings = {meaning_of(word) for word in words} - {None}
        if len(known_meanings) != 1:
            continue
        n_known += 1
        meaning = known_meanings.pop()
        for word in words:
            if word and meaning is not None and meaning_of(word) is None:
                meanings[word] = meaning
    return meanings if 2 * n_known > len(entries) else {}


def _linked_tiers(root: Element, mapping: TierMapping) -> list[Tier]:
    """Return the tiers of a file, each with the one that it is linked to."""
    tiers: dict[str, Tier] = {}
    parent_names: dict[str, str] = {}
    for element in root.iterfind("TIER"):
        name = element.get("TIER_ID", "")
        type_name = element.get("LINGUISTIC_TYPE_REF", "")
        annotator = mapping.annotators.get(name) or element.get("ANNOTATOR") or name
        tiers[name] = Tier(element, name, type_name, annotator)
        parent_names[name] = element.get("PARENT_REF", "")
    for name, tier in tiers.items():
        parent = tiers.get(parent_names[name])
        # A circle of tiers is cut where it closes.
        if parent is not None and all(one is not tier for one in _upwards(parent)):
            tier.parent = parent
    return list(tiers.values())


def _upwards(tier: Tier) -> list[Tier]:
    """Return a tier and those that it is linked to."""
    return [tier, *tier.ancestors()]


def _are_most(values: Sequence[str], fits: Callable[[str], bool]) -> bool:
    """Whether more than half of some values fit."""
    return 2 * sum(map(fits, values)) > len(values)


@dataclass(frozen=True)
class TierReport:
    """What an import made of a tier of a file."""

    file: str
    tier: str
    role: str
    made_of: str

    def to_json(self) -> dict[str, str]:
        """Return the fields as a JSON object."""
        return dict(vars(self))


def reports_of(document: ElanDocument) -> list[TierReport]:
    """Return what became of each tier of a file."""
    file = document.path.name
    return [
        TierReport(file, tier.name, tier.role, document.made_of(tier))
        for tier in document.tiers
    ]


def notes_of(reports: Sequence[TierReport]) -> list[str]:
    """Return a line for each tier; what is the same in several files is one line."""
    n_files: dict[tuple[str, str], int] = {}
    for report in reports:
        key = (report.tier, report.made_of)
        n_files[key] = n_files.get(key, 0) + 1
    is_one_file = len({report.file for report in reports}) == 1
    notes = []
    for (tier, made_of), number in n_files.items():
        files = "" if is_one_file else f" ({count(number, 'file')})"
        notes.append(f"tier {tier}: {made_of}{files}")
    return notes


def used_mapping(
    mapping: TierMapping, documents: Sequence[ElanDocument]
) -> TierMapping:
    """Return a mapping with all tiers of files and what they are."""
    roles = dict(mapping.tiers)
    annotators = dict(mapping.annotators)
    levels = dict(mapping.levels)
    concepts = dict(mapping.concepts)
    for document in documents:
        levels = {**document.mapping.levels, **levels}
        concepts = {**document.mapping.concepts, **concepts}
        for tier in document.tiers:
            role = roles.setdefault(tier.name, tier.role)
            if role != tier.role:
                problem = (
                    f"the tier {tier.name} is {role} in one file and {tier.role} in another,"
                    " a mapping has one role for a tier"
                )
                hint = "import these files one after another, or name the tier in --mapping"
                raise FixInput(problem, where=str(document.path), hint=hint)
            if tier.is_lane and tier.element.get("ANNOTATOR") is None:
                annotators.setdefault(tier.name, tier.annotator)
    return TierMapping(roles, annotators, levels, concepts)


def check_names(mapping: TierMapping, documents: Sequence[ElanDocument]) -> None:
    """Raise an error if a mapping names a tier that is in no file."""
    names: list[str] = []
    for document in documents:
        names += [tier.name for tier in document.tiers]
    for table in ("tiers", "annotators"):
        for name in getattr(mapping, table):
            if name not in names:
                tiers_of_files = few(list(dict.fromkeys(names)), 10)
                raise FixInput(
                    f"[{table}] of the mapping names the tier {name!r}, which no file has",
                    hint=f"the tiers of the files: {tiers_of_files}",
                )


def marks_of(document: ElanDocument, warnings: list[str]) -> Iterator[Mark]:
    """Yield the marks of a file that have times; a warning has the number of the others."""
    marks = document.marks()
    warnings += document.check_times(marks)
    for mark in marks:
        times_ms = document.film_times_ms(mark)
        if times_ms is None:
            continue
        start_s = Fraction(times_ms[0], 1000)
        end_s = Fraction(times_ms[1], 1000)
        yield "", mark.tier.annotator, start_s, end_s, document.texts_of(mark)

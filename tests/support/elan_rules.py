"""What the published format of ELAN (EAF 2.7 to 3.0) asks of a file, and what its tiers ask.

Order of elements, required attributes, ids and references are those of its schema. The rules of
tiers are those of the four stereotypes, which no schema can say.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

# The children of each element, in their order.
CHILDREN = {
    "ANNOTATION_DOCUMENT": (
        *("LICENSE", "HEADER", "TIME_ORDER", "TIER", "LINGUISTIC_TYPE", "LOCALE"),
        *("LANGUAGE", "CONSTRAINT", "CONTROLLED_VOCABULARY", "LEXICON_REF"),
        *("REF_LINK_SET", "EXTERNAL_REF"),
    ),
    "HEADER": ("MEDIA_DESCRIPTOR", "LINKED_FILE_DESCRIPTOR", "PROPERTY"),
    "TIME_ORDER": ("TIME_SLOT",),
    "TIER": ("ANNOTATION",),
    "ANNOTATION": ("ALIGNABLE_ANNOTATION", "REF_ANNOTATION"),
    "ALIGNABLE_ANNOTATION": ("ANNOTATION_VALUE",),
    "REF_ANNOTATION": ("ANNOTATION_VALUE",),
    "CONTROLLED_VOCABULARY": ("DESCRIPTION", "CV_ENTRY", "CV_ENTRY_ML"),
    "CV_ENTRY_ML": ("CVE_VALUE",),
    "REF_LINK_SET": ("CROSS_REF_LINK", "GROUP_REF_LINK"),
}
REQUIRED = {
    "ANNOTATION_DOCUMENT": ("AUTHOR", "DATE", "VERSION"),
    "MEDIA_DESCRIPTOR": ("MEDIA_URL", "MIME_TYPE"),
    "LINKED_FILE_DESCRIPTOR": ("LINK_URL", "MIME_TYPE"),
    "TIME_SLOT": ("TIME_SLOT_ID",),
    "TIER": ("TIER_ID", "LINGUISTIC_TYPE_REF"),
    "ALIGNABLE_ANNOTATION": ("ANNOTATION_ID", "TIME_SLOT_REF1", "TIME_SLOT_REF2"),
    "REF_ANNOTATION": ("ANNOTATION_ID", "ANNOTATION_REF"),
    "LINGUISTIC_TYPE": ("LINGUISTIC_TYPE_ID",),
    "LOCALE": ("LANGUAGE_CODE",),
    "LANGUAGE": ("LANG_ID",),
    "CONSTRAINT": ("STEREOTYPE",),
    "CONTROLLED_VOCABULARY": ("CV_ID",),
    "CV_ENTRY_ML": ("CVE_ID",),
    "CVE_VALUE": ("LANG_REF",),
    "DESCRIPTION": ("LANG_REF",),
    "EXTERNAL_REF": ("EXT_REF_ID", "TYPE", "VALUE"),
    "LEXICON_REF": ("LEX_REF_ID", "NAME", "TYPE", "URL"),
    "REF_LINK_SET": ("LINK_SET_ID",),
    "CROSS_REF_LINK": ("REF1", "REF2", "REF_LINK_ID"),
    "GROUP_REF_LINK": ("REFS", "REF_LINK_ID"),
}
# Ids of one space, and the attributes that refer to one or more of them.
IDS = (
    *("TIME_SLOT_ID", "ANNOTATION_ID", "LANGUAGE_CODE", "LANG_ID", "STEREOTYPE"),
    *("EXT_REF_ID", "LEX_REF_ID", "LINK_SET_ID", "REF_LINK_ID"),
)
REFERENCES = (
    *("TIME_SLOT_REF1", "TIME_SLOT_REF2", "ANNOTATION_REF", "PREVIOUS_ANNOTATION"),
    *("DEFAULT_LOCALE", "LANG_REF", "CONSTRAINTS", "EXT_REF", "LEXICON_REF"),
    *("REF1", "REF2", "REFS"),
)
# Names that are unique among elements of their kind, and who refers to them.
KEYS = {
    ("TIER", "TIER_ID"): ("PARENT_REF",),
    ("LINGUISTIC_TYPE", "LINGUISTIC_TYPE_ID"): ("LINGUISTIC_TYPE_REF",),
    ("CONTROLLED_VOCABULARY", "CV_ID"): ("CONTROLLED_VOCABULARY_REF", "CV_REF"),
}
STEREOTYPES_WITH_TIMES = ("", "Time_Subdivision", "Included_In")
Times = tuple[int | None, int | None]


def problems_of(data: bytes) -> list[str]:
    """Return what is wrong with an ELAN file; nothing if it follows all rules."""
    root = ElementTree.fromstring(data)
    return [
        *_problems_of_elements(root),
        *_problems_of_names(root),
        *_problems_of_times(root),
        *_problems_of_tiers(root),
    ]


def _problems_of_elements(root: Element) -> Iterator[str]:
    for parent in root.iter():
        for name in REQUIRED.get(parent.tag, ()):
            if parent.get(name) is None:
                yield f"{parent.tag} has no {name}"
        order = CHILDREN.get(parent.tag, ())
        places = []
        for child in parent:
            if order and child.tag not in order:
                yield f"{parent.tag} has a {child.tag}"
            elif order:
                places.append(order.index(child.tag))
        if places != sorted(places) and parent.tag != "REF_LINK_SET":
            yield f"{parent.tag}: its children are not in their order"


def _problems_of_names(root: Element) -> Iterator[str]:
    ids: Counter[str] = Counter()
    for element in root.iter():
        for attribute in IDS:
            # An annotation, a slot; but LEXICON_REF of a type refers to one.
            if attribute in element.attrib:
                ids[element.attrib[attribute]] += 1
    yield from (f"the id {name} is there {n} times" for name, n in ids.items() if n > 1)
    for element in root.iter():
        for attribute in REFERENCES:
            for name in element.get(attribute, "").split():
                if name not in ids:
                    yield f"{element.tag}: {attribute} {name} is nothing"
    for (tag, attribute), references in KEYS.items():
        names = Counter(element.get(attribute) for element in root.iter(tag))
        yield from (
            f"{tag} {name} is there {n} times" for name, n in names.items() if n > 1
        )
        for element in root.iter():
            for reference in references:
                value = element.get(reference)
                if value is not None and value not in names:
                    yield f"{element.tag}: {reference} {value} is nothing"
    for vocabulary in root.iter("CONTROLLED_VOCABULARY"):
        entries = Counter(one.get("CVE_ID") for one in vocabulary.iter("CV_ENTRY_ML"))
        yield from (
            f"entry {name} is there {n} times" for name, n in entries.items() if n > 1
        )


def _problems_of_times(root: Element) -> Iterator[str]:
    written = [slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")]
    values = [int(value) for value in written if value is not None]
    if values != sorted(values):
        yield "slots are not in the order of time"
    if any(value < 0 for value in values):
        yield "a time is negative"


class _Tiers:
    """The tiers of a file by name, with stereotypes, annotations and their times."""

    def __init__(self, root: Element) -> None:
        self.tiers = {tier.get("TIER_ID", ""): tier for tier in root.iter("TIER")}
        self.constraint_of_type = {
            one.get("LINGUISTIC_TYPE_ID", ""): one.get("CONSTRAINTS", "")
            for one in root.iter("LINGUISTIC_TYPE")
        }
        self.place_of_slot: dict[str, int] = {}
        self.ms_of_slot: dict[str, int | None] = {}
        for number, slot in enumerate(root.iter("TIME_SLOT")):
            name = slot.get("TIME_SLOT_ID", "")
            value = slot.get("TIME_VALUE")
            self.place_of_slot[name] = number
            self.ms_of_slot[name] = None if value is None else int(value)

    def stereotype(self, tier: Element) -> str:
        return self.constraint_of_type.get(tier.get("LINGUISTIC_TYPE_REF", ""), "")

    def annotations(self, tier: Element | None) -> list[Element]:
        return [] if tier is None else list(tier.iterfind("ANNOTATION/*"))

    def times(self, annotation: Element) -> Times:
        start = self.ms_of_slot.get(annotation.get("TIME_SLOT_REF1", ""))
        end = self.ms_of_slot.get(annotation.get("TIME_SLOT_REF2", ""))
        return start, end


def _problems_of_tiers(root: Element) -> Iterator[str]:
    tiers = _Tiers(root)
    for name, tier in tiers.tiers.items():
        stereotype = tiers.stereotype(tier)
        parent = tiers.tiers.get(tier.get("PARENT_REF", ""))
        if (parent is None) != (stereotype == ""):
            yield f"tier {name}: {stereotype or 'no stereotype'}, but parent {parent}"
            continue
        annotations = tiers.annotations(tier)
        tag = "ALIGNABLE_ANNOTATION"
        if stereotype not in STEREOTYPES_WITH_TIMES:
            tag = "REF_ANNOTATION"
        if any(one.tag != tag for one in annotations):
            yield f"tier {name}: all its annotations must be {tag}"
            continue
        if tag == "ALIGNABLE_ANNOTATION":
            problems = _problems_with_times(tiers, annotations)
            if stereotype == "Included_In":
                problems += _not_included(tiers, annotations, parent)
            if stereotype == "Time_Subdivision":
                problems += _not_subdivided(tiers, annotations, parent)
        else:
            problems = _problems_of_references(tiers, annotations, parent, stereotype)
        yield from (f"tier {name}: {problem}" for problem in problems)


def _problems_with_times(tiers: _Tiers, annotations: list[Element]) -> list[str]:
    problems = []
    known: list[tuple[int, int]] = []
    for one in annotations:
        start, end = tiers.times(one)
        first = tiers.place_of_slot.get(one.get("TIME_SLOT_REF1", ""), -1)
        last = tiers.place_of_slot.get(one.get("TIME_SLOT_REF2", ""), -1)
        if first >= last:
            problems.append(f"{one.get('ANNOTATION_ID')} ends before it begins")
        if start is not None and end is not None:
            known.append((start, end))
    known.sort()
    for before, after in itertools.pairwise(known):
        if after[0] < before[1]:
            problems.append(f"annotations overlap at {after[0]} ms")
    return problems


def _not_included(
    tiers: _Tiers, annotations: list[Element], parent: Element | None
) -> list[str]:
    problems = []
    spans = [tiers.times(one) for one in tiers.annotations(parent)]
    for one in annotations:
        start, end = tiers.times(one)
        if start is None or end is None:
            continue
        within = [
            s
            for s, e in spans
            if s is not None and e is not None and s <= start and end <= e
        ]
        if not within:
            problems.append(
                f"{one.get('ANNOTATION_ID')} is in no annotation of the parent"
            )
    return problems


def _not_subdivided(
    tiers: _Tiers, annotations: list[Element], parent: Element | None
) -> list[str]:
    """Each parent that has parts is filled by them: each begins where the one before it ends."""
    next_of = {one.get("TIME_SLOT_REF1", ""): one for one in annotations}
    n_used = 0
    problems = []
    for above in tiers.annotations(parent):
        slot, end = above.get("TIME_SLOT_REF1", ""), above.get("TIME_SLOT_REF2", "")
        if slot not in next_of:
            continue
        while slot in next_of and slot != end:
            n_used += 1
            slot = next_of[slot].get("TIME_SLOT_REF2", "")
        if slot != end:
            problems.append(f"the parts of {above.get('ANNOTATION_ID')} end at {slot}")
    if n_used != len(annotations):
        problems.append(f"{len(annotations) - n_used} annotations are parts of nothing")
    return problems


def _problems_of_references(
    tiers: _Tiers, annotations: list[Element], parent: Element | None, stereotype: str
) -> list[str]:
    problems = []
    names_above = {one.get("ANNOTATION_ID") for one in tiers.annotations(parent)}
    below: dict[str, list[Element]] = {}
    for one in annotations:
        reference = one.get("ANNOTATION_REF", "")
        below.setdefault(reference, []).append(one)
        if reference not in names_above:
            problems.append(f"{reference} is not in the parent")
    for reference, siblings in below.items():
        previous = [one.get("PREVIOUS_ANNOTATION") for one in siblings]
        if stereotype == "Symbolic_Association":
            if len(siblings) > 1:
                problems.append(f"{len(siblings)} annotations of {reference}")
            if any(previous):
                problems.append(f"{reference}: an association has an order")
            continue
        names = [one.get("ANNOTATION_ID") for one in siblings]
        # A chain: one has no previous annotation, each other one is after another sibling.
        wanted = Counter({None: 1, **dict.fromkeys(names, 1)})
        if Counter(previous) - wanted or previous.count(None) != 1:
            problems.append(f"the parts of {reference} are no chain: {previous}")
    return problems

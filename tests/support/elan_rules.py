"""What the published format of ELAN (EAF 2.7 to 3.0) asks of a file, and what its tiers ask.

Order of elements, required attributes, ids and references are those of its schema. That
annotations of a tier do not overlap, no schema can say.
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


def _problems_of_tiers(root: Element) -> Iterator[str]:
    """Yield what is wrong with tiers that are linked to no other: the program writes only these."""
    linked = set()
    for one in root.iter("LINGUISTIC_TYPE"):
        if one.get("CONSTRAINTS"):
            linked.add(one.get("LINGUISTIC_TYPE_ID"))
    slots: dict[str | None, tuple[int, int | None]] = {}
    for place, slot in enumerate(root.iter("TIME_SLOT")):
        ms = slot.get("TIME_VALUE")
        slots[slot.get("TIME_SLOT_ID")] = (place, None if ms is None else int(ms))
    for tier in root.iter("TIER"):
        is_linked = tier.get("LINGUISTIC_TYPE_REF") in linked
        if is_linked != ("PARENT_REF" in tier.attrib):
            yield f"tier {tier.get('TIER_ID')}: a parent without a stereotype, or none"
        if is_linked:
            continue
        known = []
        for one in tier.iterfind("ANNOTATION/*"):
            first, start = slots.get(one.get("TIME_SLOT_REF1"), (-1, None))
            last, end = slots.get(one.get("TIME_SLOT_REF2"), (-1, None))
            if first >= last:
                yield f"{one.get('ANNOTATION_ID')} ends before it begins"
            if start is not None and end is not None:
                known.append((start, end))
        for before, after in itertools.pairwise(sorted(known)):
            if after[0] < before[1]:
                yield f"annotations overlap at {after[0]} ms"

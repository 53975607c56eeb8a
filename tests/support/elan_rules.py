"""What the published format of ELAN (EAF 2.7 to 3.0) asks of a file, and what its tiers ask.

Order of elements, required attributes, ids and references are those of its schema. That
annotations of a tier do not overlap, no schema can say.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

# The children of each element, in their order.
CHILDREN = {
    "ANNOTATION_DOCUMENT": "LICENSE HEADER TIME_ORDER TIER LINGUISTIC_TYPE LOCALE LANGUAGE"
    " CONSTRAINT CONTROLLED_VOCABULARY LEXICON_REF REF_LINK_SET EXTERNAL_REF",
    "HEADER": "MEDIA_DESCRIPTOR LINKED_FILE_DESCRIPTOR PROPERTY",
    "TIME_ORDER": "TIME_SLOT",
    "TIER": "ANNOTATION",
    "ANNOTATION": "ALIGNABLE_ANNOTATION REF_ANNOTATION",
    "ALIGNABLE_ANNOTATION": "ANNOTATION_VALUE",
    "REF_ANNOTATION": "ANNOTATION_VALUE",
    "CONTROLLED_VOCABULARY": "DESCRIPTION CV_ENTRY CV_ENTRY_ML",
    "CV_ENTRY_ML": "CVE_VALUE",
}
REQUIRED = {
    "ANNOTATION_DOCUMENT": "AUTHOR DATE VERSION",
    "MEDIA_DESCRIPTOR": "MEDIA_URL MIME_TYPE",
    "TIME_SLOT": "TIME_SLOT_ID",
    "TIER": "TIER_ID LINGUISTIC_TYPE_REF",
    "ALIGNABLE_ANNOTATION": "ANNOTATION_ID TIME_SLOT_REF1 TIME_SLOT_REF2",
    "REF_ANNOTATION": "ANNOTATION_ID ANNOTATION_REF",
    "LINGUISTIC_TYPE": "LINGUISTIC_TYPE_ID",
    "LANGUAGE": "LANG_ID",
    "CONSTRAINT": "STEREOTYPE",
    "CONTROLLED_VOCABULARY": "CV_ID",
    "CV_ENTRY_ML": "CVE_ID",
    "CVE_VALUE": "LANG_REF",
    "DESCRIPTION": "LANG_REF",
}
# Names that are unique, and the attributes that refer to one of them.
NAMES = {
    "TIME_SLOT_ID": "TIME_SLOT_REF1 TIME_SLOT_REF2",
    "ANNOTATION_ID": "ANNOTATION_REF PREVIOUS_ANNOTATION REF1 REF2",
    "LANG_ID": "LANG_REF",
    "STEREOTYPE": "CONSTRAINTS",
    "TIER_ID": "PARENT_REF",
    "LINGUISTIC_TYPE_ID": "LINGUISTIC_TYPE_REF",
    "CV_ID": "CONTROLLED_VOCABULARY_REF",
    "CVE_ID": "",
}


def problems_of(data: bytes) -> list[str]:
    root = ElementTree.fromstring(data)
    return [*_of_elements(root), *_of_names(root), *_of_times(root), *_of_tiers(root)]


def _of_elements(root: Element) -> Iterator[str]:
    for parent in root.iter():
        for name in REQUIRED.get(parent.tag, "").split():
            if parent.get(name) is None:
                yield f"{parent.tag} has no {name}"
        order = CHILDREN.get(parent.tag, "").split()
        tags = [child.tag for child in parent]
        if order and tags != sorted(tags, key=order.index):
            yield f"{parent.tag}: its children are not in their order"


def _of_names(root: Element) -> Iterator[str]:
    for key, references in NAMES.items():
        names = Counter(one.get(key) for one in root.iter() if key in one.attrib)
        for name, n in names.items():
            if n > 1:
                yield f"{key} {name} is there {n} times"
        for element, reference in itertools.product(root.iter(), references.split()):
            if not names.keys() >= {*filter(None, [element.get(reference)])}:
                yield f"{element.tag}: {reference} names nothing"


def _of_times(root: Element) -> Iterator[str]:
    times = [slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")]
    values_ms = [0, *(int(time) for time in times if time is not None)]
    if values_ms != sorted(values_ms):
        yield "times are negative, or not in their order"


def _of_tiers(root: Element) -> Iterator[str]:
    """Yield what is wrong with tiers that are linked to no other: the program writes only these."""
    slots = {}
    for place, slot in enumerate(root.iter("TIME_SLOT")):
        slots[slot.get("TIME_SLOT_ID")] = place, slot.get("TIME_VALUE")
    for tier in root.iter("TIER"):
        known_ms = []
        for one in tier.iterfind("ANNOTATION/ALIGNABLE_ANNOTATION"):
            first, start = slots[one.get("TIME_SLOT_REF1")]
            last, end = slots[one.get("TIME_SLOT_REF2")]
            if first >= last:
                yield f"{one.get('ANNOTATION_ID')} ends before it begins"
            if start is not None and end is not None:
                known_ms.append((int(start), int(end)))
        for before, after in itertools.pairwise(sorted(known_ms)):
            if after[0] < before[1] and "PARENT_REF" not in tier.attrib:
                yield f"annotations overlap at {after[0]} ms"

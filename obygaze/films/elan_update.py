"""Put the segments of a film into an ELAN file, and leave everything else in it as it is.

An annotation with the frames and the label of a segment is not touched. Where only the label
differs, the annotation gets the new words. Other segments become new annotations. Annotations
that are no segment any more are removed, but only those of annotators who have segments, and never
one that a tier refers to which is not used.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.parsers import expat

from obygaze.films.elan import (
    OWN_TYPES,
    ElanDocument,
    ElanMark,
    Tier,
    value_of,
)
from obygaze.films.film_segments import (
    FilmSegments,
    frames_in_ms,
    label_of,
    plain,
)
from obygaze.films.projection import WATCHED, Segment
from obygaze_features.core.errors import FixInput

# The children of the root in the order that the schema asks for.
ORDER = (
    *("LICENSE", "HEADER", "TIME_ORDER", "TIER", "LINGUISTIC_TYPE", "LOCALE"),
    *("LANGUAGE", "CONSTRAINT", "CONTROLLED_VOCABULARY", "LEXICON_REF"),
    *("REF_LINK_SET", "EXTERNAL_REF"),
)
# The constraint of each type that this program writes, and what ELAN says of it.
CONSTRAINT_OF = {
    "level": "",
    "concept": "Symbolic_Subdivision",
    "comment": "Symbolic_Association",
}
MEANINGS = {
    "Symbolic_Subdivision": (
        "Symbolic subdivision of a parent annotation."
        " Annotations refering to the same parent are ordered"
    ),
    "Symbolic_Association": "1-1 association with a parent annotation",
}
ALIGNABLE = "ALIGNABLE_ANNOTATION"
REFERRING = "REF_ANNOTATION"
_SEPARATOR = re.compile(r"\s*[|,;]\s*")
_NUMBERED = re.compile(r"(?:a|ts)([0-9]{1,15})")
_DECLARATION = b'<?xml version="1.0" encoding="UTF-8"?>\n'

_ENCODING = re.compile(rb"""\s*<\?xml[^>]*encoding\s*=\s*["']([^"']+)""")

# Annotator, first and last frame.
Key = tuple[str, int, int]


@dataclass
class ElanChanges:
    """How many segments were in a file already, changed, or are new; and what was removed."""

    file: str
    unchanged: int = 0
    changed: int = 0
    added: int = 0
    removed: int = 0
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the counts and the warnings as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.file}: segments as they were {self.unchanged}, changed {self.changed},"
            f" new {self.added}, removed {self.removed}"
        )


def put_into(
    document: ElanDocument, data: bytes, film: FilmSegments
) -> tuple[bytes, ElanChanges]:
    """Return an ELAN file with the segments of its film, and what has changed.

    A file that has all of them, and no others, is returned byte for byte.
    """
    changes = ElanChanges(document.path.name)
    marks_by_key: dict[Key, list[ElanMark]] = defaultdict(list)
    for mark in document.marks():
        times_ms = document.film_times_ms(mark)
        if times_ms is not None:
            frames = frames_in_ms(*times_ms, film.fps)
            annotator = plain(mark.tier.annotator) or "cue"
            marks_by_key[annotator, *frames].append(mark)
    segments_that_differ = _without_equal(document, film, marks_by_key, changes)
    new_segments: list[Segment] = []
    update = _Update(document, film)
    for segment in segments_that_differ:
        marks = marks_by_key[_key(segment)]
        of_levels = [mark for mark in marks if mark.tier.role == "levels"]
        if not of_levels or segment.is_watched:
            new_segments.append(segment)
            continue
        marks.remove(of_levels[0])
        update.change(of_levels[0], segment)
        changes.changed += 1
    annotators = {segment.annotator for segment in film.segments}
    marks_left: list[tuple[Key, ElanMark]] = []
    for key, marks in marks_by_key.items():
        for mark in marks:
            # A table of marks need not say what was watched.
            if key[0] in annotators and mark.tier.role != WATCHED:
                marks_left.append((key, mark))
    moved, new_segments = _moved(update, marks_left, new_segments)
    changes.changed += len(moved)
    for (annotator, first, _), mark in marks_left:
        if id(mark) in moved:
            continue
        reference = update.reference_to(mark)
        if reference is None:
            update.remove(mark)
            changes.removed += 1
            continue
        changes.warnings.append(
            f"{document.path}: the annotation of {annotator} from frame {first} is no"
            f" segment any more; it stays, as {reference} refers to it"
        )
    for segment in new_segments:
        update.add(segment)
        changes.added += 1
    if not (changes.changed or changes.added or changes.removed):
        return data, changes
    update.remember_last_id()
    before, after = _around_root(data)
    text: str = ElementTree.tostring(document.root, encoding="unicode")
    # A carriage return in a text is a reference; as a character it would be a line break.
    root = text.replace("\r", "&#13;").encode()
    written = before + root + after
    changes.warnings += _roles_that_differ(document, written)
    return written, changes


def _roles_that_differ(document: ElanDocument, written: bytes) -> list[str]:
    """Return a warning for each tier that would be read as something else than before.

    What a tier is may follow from its words, and new words are not always known ones.
    """
    again = ElanDocument(written, document.path, document.mapping)
    role_again = {tier.name: tier.role for tier in again.tiers}
    warnings = []
    for tier in document.tiers:
        if tier.values() and role_again[tier.name] != tier.role:
            warnings.append(
                f"{document.path}: with its new words, the tier {tier.name} is read as"
                f" {tier.role} only with a mapping that says so ([tiers])"
            )
    return warnings


def _around_root(data: bytes) -> tuple[bytes, bytes]:
    """Return what a file has before and after its root: declarations, comments, instructions."""
    encoding = _ENCODING.match(data)
    is_declared = encoding is None or encoding[1].lower() in (b"utf-8", b"us-ascii")
    if not is_declared or b"\0" in data:  # of UTF-16
        return _DECLARATION, b"\n"
    parser = expat.ParserCreate()
    starts: list[int] = []
    ends: list[int] = []
    parser.StartElementHandler = lambda *_: starts.append(parser.CurrentByteIndex)
    parser.EndElementHandler = lambda *_: ends.append(parser.CurrentByteIndex)
    parser.Parse(data, True)
    end_of_root = data.index(b">", ends[-1]) + 1
    return data[: starts[0]], data[end_of_root:]


def _key(segment: Segment) -> Key:
    return segment.annotator, segment.start_frame, segment.end_frame


def _moved(
    update: "_Update", marks: Sequence[tuple[Key, ElanMark]], segments: list[Segment]
) -> tuple[set[int], list[Segment]]:
    """Move marks to segments that overlap them; return their ids, and the other segments.

    A mark that is moved keeps what else refers to it. The largest overlaps come first.
    """
    overlaps: list[tuple[int, int, int]] = []
    for mark_number, ((annotator, first, last), mark) in enumerate(marks):
        if mark.tier.role != "levels" or mark.element.tag != ALIGNABLE:
            continue
        for segment_number, segment in enumerate(segments):
            if segment.annotator != annotator or segment.is_watched:
                continue
            end_frame = min(last, segment.end_frame)
            n_frames = end_frame - max(first, segment.start_frame) + 1
            if n_frames > 0:
                overlaps.append((-n_frames, segment_number, mark_number))
    mark_of_segment: dict[int, int] = {}
    for _, segment_number, mark_number in sorted(overlaps):
        is_free = mark_number not in mark_of_segment.values()
        if segment_number not in mark_of_segment and is_free:
            mark_of_segment[segment_number] = mark_number
    # One may go where another one was: all that are not needed there leave their places first.
    for mark_number in mark_of_segment.values():
        _, mark = marks[mark_number]
        if update.reference_to(mark) is None:
            update.leave_place(mark)
    moved: set[int] = set()
    left: list[Segment] = []
    for segment_number, segment in enumerate(segments):
        if segment_number not in mark_of_segment:
            left.append(segment)
            continue
        key, mark = marks[mark_of_segment[segment_number]]
        if update.move(mark, key, segment):
            update.change(mark, segment)
            moved.add(id(mark))
        else:
            left.append(segment)
    return moved, left


def _without_equal(
    document: ElanDocument,
    film: FilmSegments,
    marks_by_key: dict[Key, list[ElanMark]],
    changes: ElanChanges,
) -> list[Segment]:
    """Return the segments that no mark is equal to; the marks of the others are taken out."""
    segments_that_differ = []
    for segment in sorted(film.segments, key=_key):
        label = (segment.level, set(segment.concepts), segment.comment)
        marks = marks_by_key[_key(segment)]
        equal_mark = None
        for mark in marks:
            levels, concepts, comment = label_of(document.texts_of(mark))
            first_level = levels[0] if levels else ""
            if (first_level, set(concepts), comment) == label:
                equal_mark = mark
                break
        if equal_mark is None:
            segments_that_differ.append(segment)
            continue
        marks.remove(equal_mark)
        changes.unchanged += 1
    return segments_that_differ


class _Update:
    """The changes in the XML of a document."""

    def __init__(self, document: ElanDocument, film: FilmSegments) -> None:
        self.document = document
        self.film = film
        self.root = document.root
        numbers = [0]
        for element in self.root.iter():
            for value in element.attrib.values():
                match = _NUMBERED.fullmatch(value)
                if match is not None:
                    numbers.append(int(match[1]))
        self.last_id_property = None
        for element in self.root.iterfind("HEADER/PROPERTY"):
            text = (element.text or "").strip()
            is_last_id = element.get("NAME") == "lastUsedAnnotationId"
            if is_last_id and text.isascii() and text.isdecimal():
                self.last_id_property = element
                numbers.append(int(text))
        self.last_number = max(numbers)
        self.links = self._names_in_links()
        # Words and separators as they were before any change.
        self.words_in: dict[str, list[str]] = {}
        self.separator_in: dict[str, str] = {}
        for tier in document.tiers:
            self.words_in[tier.name] = tier.values()
            self.separator_in[tier.name] = self._separator(tier)
        self.used_entries = self._entries_in_use()
        times = self.root.find("TIME_ORDER")
        if times is None:
            times = Element("TIME_ORDER")
            self._insert(times)
        self.time_order = times
        self.slot_ms: dict[str, int] = {}
        for slot in times.iterfind("TIME_SLOT"):
            written = slot.get("TIME_VALUE", "")
            if written.isascii() and written.isdecimal():
                self.slot_ms[slot.get("TIME_SLOT_ID", "")] = int(written)
        # The times of the annotations in a tier, where a new one must not overlap them.
        self.times_in: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for mark in document.marks():
            if mark.times_ms is not None:
                self.times_in[mark.tier.name].append(mark.times_ms)

    def _names_in_links(self) -> set[str]:
        """Return the ids that the links of the file refer to."""
        names: set[str] = set()
        for link in self.root.iterfind("REF_LINK_SET/*"):
            for attribute in ("REF1", "REF2", "REFS"):
                names.update(link.get(attribute, "").split())
        return names

    def _entries_in_use(self) -> dict[str, list[tuple[str, str]]]:
        """Return the ids and words that annotations have of the vocabulary of each type.

        What an external vocabulary has is known from them alone.
        """
        entries: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for tier in self.document.tiers:
            for element in tier.elements():
                name = element.get("CVE_REF", "")
                if name:
                    entries[tier.type_name].append((name, value_of(element)))
        return entries

    def remember_last_id(self) -> None:
        """Write the last number of an id where ELAN looks for it."""
        if self.last_id_property is not None:
            self.last_id_property.text = str(self.last_number)

    def change(self, mark: ElanMark, segment: Segment) -> None:
        """Give a mark in a tier of levels the label of a segment."""
        mapping = self.document.mapping
        value = value_of(mark.element)
        level = mapping.level(value) or ""
        has_other_word = bool(value.strip()) and not level
        if level != segment.level or has_other_word:
            word = self._level_word(mark.tier, segment.level)
            self._set_value(mark.tier, mark.element, word)
        self._write_concepts(mark, segment.concepts)
        self._write_comment(mark, segment.comment)

    def reference_to(self, mark: ElanMark) -> str | None:
        """Return in words what needs a mark, None if it can be removed."""
        for tier, _ in mark.dependents:
            if not tier.belongs_to_parent:
                return f"the tier {tier.name}"
        elements = [mark.element, *(element for _, element in mark.dependents)]
        if any(element.get("ANNOTATION_ID") in self.links for element in elements):
            return "a link"
        return None

    def remove(self, mark: ElanMark) -> None:
        """Remove a mark and what belongs to it."""
        for tier, element in reversed(mark.dependents):
            self._remove_element(tier, element)
        self._remove_element(mark.tier, mark.element)
        self.leave_place(mark)

    def leave_place(self, mark: ElanMark) -> None:
        """Let other annotations have the place of a mark in its tier."""
        times = self.times_in[mark.tier.name]
        if mark.times_ms in times:
            times.remove(mark.times_ms)

    def move(self, mark: ElanMark, key: Key, segment: Segment) -> bool:
        """Give a mark the times of a segment; False, and nothing is changed, where it cannot."""
        if mark.times_ms is None:
            return False
        start_ms, end_ms = mark.times_ms
        _, first, last = key
        # A time whose frame has not changed stays as exact as it was.
        if segment.start_frame != first:
            start_ms = self._ms(segment.start_frame)
        if segment.end_frame != last:
            end_ms = self._ms(segment.end_frame + 1)
        edges = (
            mark.element.get("TIME_SLOT_REF1", ""),
            mark.element.get("TIME_SLOT_REF2", ""),
        )
        self.leave_place(mark)
        is_inside = all(
            start_ms <= ms <= end_ms for ms in self._inner_times_ms(mark, edges)
        )
        has_room = self._has_room(mark.tier, start_ms, end_ms)
        if start_ms < 0 or not is_inside or not has_room:
            if self.reference_to(mark) is not None:
                self.times_in[mark.tier.name].append(mark.times_ms)
            return False
        elements = [mark.element, *(element for _, element in mark.dependents)]
        if start_ms != mark.times_ms[0]:
            self._replace_slot(elements, edges[0], start_ms, is_end=False)
        if end_ms != mark.times_ms[1]:
            self._replace_slot(elements, edges[1], end_ms, is_end=True)
        mark.times_ms = (start_ms, end_ms)
        self.times_in[mark.tier.name].append(mark.times_ms)
        return True

    def _inner_times_ms(self, mark: ElanMark, edges: tuple[str, str]) -> list[int]:
        """Return the times of the annotations in a mark, without those that it has itself."""
        times_ms = []
        for _, element in mark.dependents:
            for attribute in ("TIME_SLOT_REF1", "TIME_SLOT_REF2"):
                slot = element.get(attribute, "")
                if slot not in edges and slot in self.slot_ms:
                    times_ms.append(self.slot_ms[slot])
        return times_ms

    def _replace_slot(
        self, elements: Sequence[Element], slot: str, ms: int, *, is_end: bool
    ) -> None:
        """Give annotations a new time where they have that of a slot."""
        new_slot = self._new_slot(ms, is_end=is_end)
        for element in elements:
            for attribute in ("TIME_SLOT_REF1", "TIME_SLOT_REF2"):
                if element.get(attribute) == slot:
                    element.set(attribute, new_slot)
        self._remove_unused_slots({slot})

    def _ms(self, frame: int) -> int:
        """Return the time of a frame in the file."""
        return self.film.ms(frame) - (self.document.origin_ms or 0)

    def _has_room(self, tier: Tier, start_ms: int, end_ms: int) -> bool:
        """Whether a tier can have an annotation at these times."""
        for start, end in self.times_in[tier.name]:
            if start < end_ms and start_ms < end:
                return False
        if tier.parent is None:
            return True
        if tier.constraint != "Included_In":
            return False
        for element in tier.parent.elements():
            start_slot = element.get("TIME_SLOT_REF1", "")
            end_slot = element.get("TIME_SLOT_REF2", "")
            if start_slot not in self.slot_ms or end_slot not in self.slot_ms:
                continue
            if (
                self.slot_ms[start_slot] <= start_ms
                and end_ms <= self.slot_ms[end_slot]
            ):
                return True
        return False

    def add(self, segment: Segment) -> None:
        """Add an annotation for a segment, in a tier of its annotator where it has room."""
        start_ms = self._ms(segment.start_frame)
        end_ms = self._ms(segment.end_frame + 1)
        if start_ms < 0:
            raise FixInput(
                f"the segment from frame {segment.start_frame} begins before TIME_ORIGIN,"
                " where the linked video begins",
                where=str(self.document.path),
                hint="leave it out, or set the offset of the video to 0 in ELAN",
            )
        tier = self._tier_with_room(segment, start_ms, end_ms)
        word = self._level_word(tier, segment.level)
        if tier.role == WATCHED:
            word = WATCHED
        attributes = {
            "TIME_SLOT_REF1": self._new_slot(start_ms, is_end=False),
            "TIME_SLOT_REF2": self._new_slot(end_ms, is_end=True),
        }
        element = self._add_annotation(tier, ALIGNABLE, attributes, word, start_ms)
        self.times_in[tier.name].append((start_ms, end_ms))
        if tier.role != WATCHED:
            mark = ElanMark(tier, element, (start_ms, end_ms))
            self._write_concepts(mark, segment.concepts)
            self._write_comment(mark, segment.comment)

    def _tier_with_room(self, segment: Segment, start_ms: int, end_ms: int) -> Tier:
        """Return a tier of the annotator without an annotation at these times."""
        role = WATCHED if segment.is_watched else "levels"
        for tier in self._tiers_of(segment.annotator, role):
            if self._has_room(tier, start_ms, end_ms):
                return tier
        name = segment.annotator
        if role == WATCHED:
            name = f"{segment.annotator} {WATCHED}"
        name = self._free_tier_name(name)
        type_name = ""
        if role == "levels":
            type_name = self._type_of_levels()
        if not type_name:
            type_name = self._type_name("level")
        return self._new_tier(name, type_name, role, segment.annotator, None)

    def _type_of_levels(self) -> str:
        """Return the type of a tier of levels in the file, "" if it has none that is not linked.

        A new tier of this type has its vocabulary too.
        """
        for tier in self.document.tiers:
            if tier.role == "levels" and tier.parent is None:
                return tier.type_name
        return ""

    def _tiers_of(self, annotator: str, role: str) -> list[Tier]:
        """Return the tiers of an annotator in which annotations have times."""
        tiers = []
        for tier in self.document.tiers:
            name = plain(tier.annotator) or "cue"
            has_times = tier.parent is None or tier.constraint == "Included_In"
            if tier.role == role and has_times and name == annotator:
                tiers.append(tier)
        return tiers

    def _free_tier_name(self, name: str) -> str:
        """Return a name that no tier has: `ada`, else `ada #2` and so on."""
        names = {tier.name for tier in self.document.tiers}
        numbered = name
        number = 1
        while numbered in names:
            number += 1
            numbered = f"{name} #{number}"
        return numbered

    def _new_tier(
        self, name: str, type_name: str, role: str, annotator: str, parent: Tier | None
    ) -> Tier:
        """Add a tier of a type that the file has."""
        attributes = {
            "ANNOTATOR": annotator,
            "LINGUISTIC_TYPE_REF": type_name,
            "TIER_ID": name,
        }
        if parent is not None:
            attributes["PARENT_REF"] = parent.name
        element = Element("TIER", attributes)
        self._insert(element)
        constraint = ""
        for one in self.root.iterfind("LINGUISTIC_TYPE"):
            if one.get("LINGUISTIC_TYPE_ID") == type_name:
                constraint = one.get("CONSTRAINTS", "")
        tier = Tier(element, name, type_name, constraint, annotator, parent, role)
        self.document.tiers.append(tier)
        return tier

    def _type_name(self, kind: str) -> str:
        """Return the name of a type that this program writes; it is added if it is missing."""
        constraint = CONSTRAINT_OF[kind]
        names = [name for name in OWN_TYPES if name.partition(" ")[0] == kind]
        for name in names:
            selector = f"LINGUISTIC_TYPE[@LINGUISTIC_TYPE_ID='{name}']"
            element = self.root.find(selector)
            if element is None:
                break
            if element.get("CONSTRAINTS", "") == constraint:
                return name
        attributes = {
            "GRAPHIC_REFERENCES": "false",
            "LINGUISTIC_TYPE_ID": name,
            "TIME_ALIGNABLE": "false" if constraint else "true",
        }
        if constraint:
            attributes["CONSTRAINTS"] = constraint
            selector = f"CONSTRAINT[@STEREOTYPE='{constraint}']"
            if self.root.find(selector) is None:
                meaning = MEANINGS[constraint]
                stereotype = {"DESCRIPTION": meaning, "STEREOTYPE": constraint}
                self._insert(Element("CONSTRAINT", stereotype))
        self._insert(Element("LINGUISTIC_TYPE", attributes))
        return name

    def _write_concepts(self, mark: ElanMark, concepts: Sequence[str]) -> None:
        """Make the concepts of a mark those of a segment; what stays is not touched."""
        missing = list(concepts)
        tiers = self._tiers_below(mark.tier, "concepts")
        for tier in tiers:
            for element in mark.elements_in(tier):
                words = self.document.concepts_in(value_of(element), tier)
                names = [self._shown(word) for word in words if word.strip()]
                staying = [name for name in names if name in concepts]
                missing = [name for name in missing if name not in staying]
                if staying != names:
                    self._set_or_remove(tier, element, staying)
        if not missing:
            return
        tier = self._tier_below(mark.tier, "concept", "concepts")
        elements = self._elements_now(mark, tier)
        if tier.constraint == "Symbolic_Subdivision":
            for concept in missing:
                self._add_below(tier, mark, self._concept_word(tier, concept))
            return
        if not elements:
            words = [self._concept_word(tier, concept) for concept in missing]
            separator = self.separator_in.get(tier.name, "; ")
            self._add_below(tier, mark, separator.join(words))
            return
        words_before = self.document.concepts_in(value_of(elements[0]), tier)
        names = [self._shown(word) for word in words_before if word.strip()]
        self._set_value(tier, elements[0], self._joined(tier, [*names, *missing]))

    def _write_comment(self, mark: ElanMark, comment: str) -> None:
        """Make the comment of a mark that of a segment."""
        tiers = self._tiers_below(mark.tier, "comments")
        texts: list[str] = []
        for tier in tiers:
            texts += map(value_of, mark.elements_in(tier))
        before = " ".join(plain(text) for text in texts if text.strip())
        if before == comment:
            return
        is_written = not comment
        for tier in tiers:
            for element in mark.elements_in(tier):
                if is_written:
                    self._set_or_remove(tier, element, [])
                else:
                    self._set_value(tier, element, comment)
                    is_written = True
        if is_written:
            return
        tier = self._tier_below(mark.tier, "comment", "comments")
        self._add_below(tier, mark, comment)

    def _tier_below(self, lane: Tier, kind: str, role: str) -> Tier:
        """Return the tier that is linked to a lane for its concepts or comments, or a new one."""
        for tier in self._tiers_below(lane, role):
            if tier.parent is lane:
                return tier
        name = self._free_tier_name(f"{lane.name} {role}")
        type_name = self._type_name(kind)
        return self._new_tier(name, type_name, role, lane.annotator, lane)

    def _tiers_below(self, lane: Tier, role: str) -> list[Tier]:
        """Return the tiers with the concepts or the comments of a lane."""
        tiers = []
        for tier in self.document.tiers:
            if tier.role == role and tier.belongs_to_parent:
                lanes_above = [above for above in tier.ancestors() if above.is_lane]
                if lanes_above[0] is lane:
                    tiers.append(tier)
        return tiers

    def _elements_now(self, mark: ElanMark, tier: Tier) -> list[Element]:
        """Return the annotations of a mark in a tier that are still in the file."""
        in_tier = {id(element) for element in tier.elements()}
        return [one for one in mark.elements_in(tier) if id(one) in in_tier]

    def _set_or_remove(
        self, tier: Tier, element: Element, concepts: Sequence[str]
    ) -> None:
        """Write the concepts that stay; an annotation without any is removed where it can be.

        One with times has its place among others, and one that others refer to is needed.
        """
        name = element.get("ANNOTATION_ID", "")
        has_references = self.root.find(f".//*[@ANNOTATION_REF='{name}']") is not None
        is_needed = has_references or name in self.links
        if concepts or is_needed or element.tag == ALIGNABLE:
            self._set_value(tier, element, self._joined(tier, concepts))
        else:
            self._remove_element(tier, element)

    def _joined(self, tier: Tier, concepts: Sequence[str]) -> str:
        words = [self._concept_word(tier, concept) for concept in concepts]
        return self.separator_in.get(tier.name, "; ").join(words)

    def _separator(self, tier: Tier) -> str:
        """Return what stands between the concepts in a tier."""
        for value in tier.values():
            match = _SEPARATOR.search(value)
            if match is not None and not self.document.mapping.concept(value):
                return match[0]
        return "; "

    def _level_word(self, tier: Tier, level: str) -> str:
        """Return the word for a level in a tier: of its vocabulary, or the one most in use."""
        if not level:
            return ""
        words = [word for _, word in self._vocabulary(tier)]
        if not words:
            words = self.words_in.get(tier.name, [])
        of_level = [
            word for word in words if self.document.mapping.level(word) == level
        ]
        return Counter(of_level).most_common(1)[0][0] if of_level else level

    def _concept_word(self, tier: Tier, concept: str) -> str:
        """Return the word for a concept in a tier, as `_level_word`."""
        words = [word for _, word in self._vocabulary(tier)]
        if not words:
            for value in self.words_in.get(tier.name, []):
                words += _SEPARATOR.split(value.strip())
        mapping = self.document.mapping
        of_concept = [word for word in words if mapping.concept(word) == concept]
        return Counter(of_concept).most_common(1)[0][0] if of_concept else concept

    @staticmethod
    def _shown(word: str) -> str:
        """Return a concept as a manifest has it."""
        return plain(word).replace("|", "/")

    def _vocabulary(self, tier: Tier) -> list[tuple[str, str]]:
        """Return the entries of the vocabulary of a tier: their ids, and words in its language."""
        vocabulary = ""
        for element in self.root.iterfind("LINGUISTIC_TYPE"):
            if element.get("LINGUISTIC_TYPE_ID") == tier.type_name:
                vocabulary = element.get("CONTROLLED_VOCABULARY_REF", "")
        language = tier.element.get("LANG_REF")
        entries = []
        for element in self.root.iterfind("CONTROLLED_VOCABULARY"):
            if not vocabulary or element.get("CV_ID") != vocabulary:
                continue
            for entry in element.iterfind("CV_ENTRY"):
                entries.append(("", entry.text or ""))
            for entry in element.iterfind("CV_ENTRY_ML"):
                for value in entry.iterfind("CVE_VALUE"):
                    if language is None or value.get("LANG_REF") == language:
                        entries.append((entry.get("CVE_ID", ""), value.text or ""))
        return entries or self.used_entries.get(tier.type_name, [])

    def _set_value(self, tier: Tier, element: Element, text: str) -> None:
        """Set the text of an annotation, and the entry of the vocabulary that it is."""
        value = element.find("ANNOTATION_VALUE")
        if value is None:
            value = ElementTree.SubElement(element, "ANNOTATION_VALUE")
        value.text = text
        element.attrib.pop("CVE_REF", None)
        for entry_id, word in self._vocabulary(tier):
            if entry_id and word == text:
                element.set("CVE_REF", entry_id)
                break

    def _add_below(self, tier: Tier, mark: ElanMark, text: str) -> None:
        """Add a concept or a comment of a mark, as the type of the tier asks for."""
        if tier.constraint in ("Included_In", "Time_Subdivision"):
            attributes = {
                name: mark.element.get(name, "")
                for name in ("TIME_SLOT_REF1", "TIME_SLOT_REF2")
            }
            start_ms = mark.times_ms[0] if mark.times_ms is not None else 0
            element = self._add_annotation(tier, ALIGNABLE, attributes, text, start_ms)
            mark.dependents.append((tier, element))
            return
        owner_id = mark.element.get("ANNOTATION_ID", "")
        attributes = {"ANNOTATION_REF": owner_id}
        siblings = [
            element
            for element in tier.elements()
            if element.get("ANNOTATION_REF") == owner_id
        ]
        if siblings and tier.constraint == "Symbolic_Subdivision":
            attributes["PREVIOUS_ANNOTATION"] = siblings[-1].get("ANNOTATION_ID", "")
        element = self._add_annotation(tier, REFERRING, attributes, text, None)
        mark.dependents.append((tier, element))

    def _add_annotation(
        self,
        tier: Tier,
        tag: str,
        attributes: dict[str, str],
        text: str,
        start_ms: int | None,
    ) -> Element:
        """Add an annotation to a tier, before the first one that begins later."""
        wrapper = Element("ANNOTATION")
        name = self._next_id("a")
        element = ElementTree.SubElement(
            wrapper, tag, {"ANNOTATION_ID": name, **attributes}
        )
        self._set_value(tier, element, text)
        index = len(tier.element)
        if start_ms is not None:
            for position, other in enumerate(tier.element):
                timed = other.find(ALIGNABLE)
                slot = "" if timed is None else timed.get("TIME_SLOT_REF1", "")
                if self.slot_ms.get(slot, start_ms) > start_ms:
                    index = position
                    break
        _insert_indented(tier.element, index, wrapper, level=2)
        return element

    def _remove_element(self, tier: Tier, element: Element) -> None:
        """Remove an annotation, and its times if no other one has them."""
        name = element.get("ANNOTATION_ID", "")
        previous = element.get("PREVIOUS_ANNOTATION")
        for other in tier.elements():
            if name and other.get("PREVIOUS_ANNOTATION") == name:
                other.attrib.pop("PREVIOUS_ANNOTATION")
                if previous is not None:
                    other.set("PREVIOUS_ANNOTATION", previous)
        for wrapper in tier.element.iterfind("ANNOTATION"):
            if element in list(wrapper):
                _remove_indented(tier.element, wrapper)
                break
        names = {
            element.get("TIME_SLOT_REF1", ""),
            element.get("TIME_SLOT_REF2", ""),
        }
        self._remove_unused_slots(names)

    def _remove_unused_slots(self, names: set[str]) -> None:
        """Remove the slots of these names that no annotation has."""
        used_slots = set()
        for other in self.root.iter(ALIGNABLE):
            used_slots.add(other.get("TIME_SLOT_REF1"))
            used_slots.add(other.get("TIME_SLOT_REF2"))
        for slot in self.time_order.findall("TIME_SLOT"):
            slot_name = slot.get("TIME_SLOT_ID")
            if slot_name in names and slot_name not in used_slots:
                _remove_indented(self.time_order, slot)

    def _new_slot(self, ms: int, *, is_end: bool) -> str:
        """Add a time in its order; of equal times an end comes first."""
        name = self._next_id("ts")
        slot = Element("TIME_SLOT", {"TIME_SLOT_ID": name, "TIME_VALUE": str(ms)})
        # Slots without a time lie in an annotation: its start comes before them, its end after.
        index = len(self.time_order) if is_end else 0
        for position, other in enumerate(self.time_order):
            other_ms = self.slot_ms.get(other.get("TIME_SLOT_ID", ""))
            if other_ms is None:
                continue
            if is_end and other_ms >= ms:
                index = position
                break
            if not is_end and other_ms <= ms:
                index = position + 1
        self.slot_ms[name] = ms
        _insert_indented(self.time_order, index, slot, level=2)
        return name

    def _next_id(self, prefix: str) -> str:
        self.last_number += 1
        return f"{prefix}{self.last_number}"

    def _insert(self, element: Element) -> None:
        """Insert a child of the root where the schema asks for it."""
        place = ORDER.index(element.tag)
        index = 0
        for position, other in enumerate(self.root):
            if other.tag in ORDER and ORDER.index(other.tag) <= place:
                index = position + 1
        _insert_indented(self.root, index, element, level=1)


def _insert_indented(
    parent: Element, index: int, child: Element, *, level: int
) -> None:
    """Insert an element with line breaks as ELAN writes them."""
    ElementTree.indent(child, space="    ", level=level)
    if len(parent) == 0:
        parent.text = "\n" + "    " * level
        child.tail = "\n" + "    " * (level - 1)
    elif index == 0:
        child.tail = parent.text
    else:
        before = parent[index - 1]
        child.tail = before.tail
        if index == len(parent):
            before.tail = parent.text if index == 1 else parent[index - 2].tail
    parent.insert(index, child)


def _remove_indented(parent: Element, child: Element) -> None:
    """Remove an element with the white space after it."""
    index = list(parent).index(child)
    if index == len(parent) - 1:
        if index == 0:
            parent.text = child.tail
        else:
            parent[index - 1].tail = child.tail
    parent.remove(child)

"""Write marks as ELAN files, and read the tiers of ELAN files, both with pympi.

In a file that this program writes, each annotator has a tier of levels, below it tiers of concepts
and of comments, and a tier of what was watched. `tiers` says what those of other files are.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from itertools import chain
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import unquote
from xml.parsers import expat

from obygaze.films.mark_tables import (
    WATCHED,
    FilmSegments,
    ReadMark,
    Segment,
    concept_of,
    plain,
)
from obygaze.films.tiers import OWN_TYPES, UNUSED, Tier, TierAnnotation, TierMapping
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.core.lazy import need
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import open_file, whole_number
from obygaze_features.manifest.frame_rate import frame_rate_text, known_frame_rate
from obygaze_features.manifest.model import LEVELS, clock
from obygaze_features.manifest.vocabulary import concept_meaning, concepts

LANGUAGE = "eng"
# The property of a file of this program with the pictures per second of its film.
RATE_PROPERTY = "obygaze:framerate"
# A mark without a level says nothing of its clips, and the time of no mark is an easy negative.
EMPTY = 'write what it is in ELAN, or its level in [levels], such as "" = "EN"'
UNLINKED = f'write "{UNUSED}" for it in [tiers], or link it in ELAN'


# ---- writing -------------------------------------------------------------------------------------


def write_elan(film: FilmSegments, relative_video: str = "") -> bytes:
    """Return the segments of a film as an ELAN file.

    Args:
        film: The segments.
        relative_video: The path of the film's file from the folder of the ELAN file.
    """
    elan = _elan()
    document = elan.Eaf(author="")
    document.adocument["DATE"] = datetime.now(UTC).isoformat(timespec="seconds")
    document.header.update({"MEDIA_FILE": "", "TIME_UNITS": "milliseconds"})
    document.properties[:] = [(RATE_PROPERTY, frame_rate_text(film.fps))]
    document.tiers.clear()
    document.linguistic_types.clear()
    if film.video is not None:
        document.media_descriptors.append(
            {
                "MEDIA_URL": film.video.absolute().as_uri(),
                "MIME_TYPE": "video/*",
                "RELATIVE_MEDIA_URL": relative_video,
            }
        )
    _add_types(document, film)
    _TierWriter(document, film).write()
    text: bytes = elan.to_string(document, encoding="utf-8")
    return text


def _add_types(document: Any, film: FilmSegments) -> None:
    """Add the linguistic types, and the words that annotations of levels and concepts may have."""
    document.add_language(
        LANGUAGE, "http://cdb.iso.org/lg/CDB-00138502-001", "English (eng)"
    )
    names = dict.fromkeys(concepts())
    for segment in film.segments:
        names.update(dict.fromkeys(segment.concepts))
    for vocabulary, words in (("level", LEVELS), ("concept", names)):
        document.add_controlled_vocabulary(vocabulary)
        document.add_cv_description(vocabulary, LANGUAGE)
        for number, word in enumerate(words):
            meaning = concept_meaning(word) if vocabulary == "concept" else ""
            entry = f"cve_{vocabulary}_{number}"
            document.add_cv_entry(vocabulary, entry, [(word, LANGUAGE, meaning)])
    document.add_linguistic_type("level")
    document.add_linguistic_type("concept", "Symbolic_Subdivision", timealignable=False)
    document.add_linguistic_type("comment", "Symbolic_Association", timealignable=False)
    document.add_linguistic_type(WATCHED)
    for name in ("level", "concept"):
        document.linguistic_types[name]["CONTROLLED_VOCABULARY_REF"] = name


class _TierWriter:
    """Adds the tiers of a film.

    pympi looks for the annotation above a new one among all annotations of a tier, and numbers
    times as they come. So annotations are written into its documented tables: times in their order.
    """

    def __init__(self, document: Any, film: FilmSegments) -> None:
        self.document = document
        self.film = film
        self.lanes = _lanes(film.segments)
        # The names of tiers of levels are taken before those of others.
        self.names = {lane.name for lane in self.lanes}
        self.n_annotations = 0
        self.slot_of: dict[tuple[int, int], str] = {}

    def write(self) -> None:
        """Add the times, then the tiers."""
        ends = []
        segments = chain.from_iterable(lane.segments for lane in self.lanes)
        for number, segment in enumerate(segments):
            # Where one segment ends and the next begins, the end comes first.
            ends.append((self.film.ms(segment.end_frame + 1), 0, number))
            ends.append((self.film.ms(segment.start_frame), 1, number))
        for position, (ms, is_start, number) in enumerate(sorted(ends), start=1):
            slot = f"ts{position}"
            self.document.timeslots[slot] = ms
            self.slot_of[is_start, number] = slot
        numbers = iter(range(len(ends)))
        for lane in self.lanes:
            self._write_lane(lane, numbers)

    def _write_lane(self, lane: "_Lane", numbers: Iterator[int]) -> None:
        """Add the tier of a lane, and those of its concepts and comments."""
        annotations = self._tier(lane.name, lane.type_name, lane.annotator, None)[0]
        ids = []
        for segment in lane.segments:
            number = next(numbers)
            text = WATCHED if segment.is_watched else segment.level
            slots = (self.slot_of[1, number], self.slot_of[0, number])
            ids.append(self._new_id())
            annotations[ids[-1]] = (*slots, text, None)
        if lane.type_name == WATCHED:
            return
        texts: dict[str, list[tuple[str, ...]]] = {
            "concept": [segment.concepts for segment in lane.segments],
            "comment": [(one.comment,) if one.comment else () for one in lane.segments],
        }
        for type_name, texts_of_marks in texts.items():
            if not any(texts_of_marks):
                continue
            name = _unused_name(f"{lane.name} {type_name}s", self.names)
            below = self._tier(name, type_name, lane.annotator, lane.name)[1]
            for mark_id, texts_of_mark in zip(ids, texts_of_marks, strict=True):
                previous = None
                for text in texts_of_mark:
                    new_id = self._new_id()
                    below[new_id] = (mark_id, text, previous, None)
                    previous = new_id

    def _tier(
        self, name: str, type_name: str, annotator: str, parent: str | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Add a tier, and return its tables of annotations with times and of those that refer."""
        self.names.add(name)
        self.document.add_tier(name, type_name, parent=parent, ann=annotator)
        aligned, referring, *_ = self.document.tiers[name]
        return aligned, referring

    def _new_id(self) -> str:
        self.n_annotations += 1
        return f"a{self.n_annotations}"


@dataclass
class _Lane:
    """Segments of one annotator that do not overlap, in their order."""

    name: str
    annotator: str
    type_name: str
    segments: list[Segment] = field(default_factory=list)


def _lanes(segments: Iterable[Segment]) -> list[_Lane]:
    """Return segments in lanes, marks before what was watched; what overlaps is in others."""
    lanes_of: dict[tuple[str, str], list[_Lane]] = {}
    for segment in sorted(segments, key=lambda one: (one.annotator, one.start_frame)):
        type_name = WATCHED if segment.is_watched else "level"
        lanes = lanes_of.setdefault((type_name, segment.annotator), [])
        for lane in lanes:
            if lane.segments[-1].end_frame < segment.start_frame:
                lane.segments.append(segment)
                break
        else:
            lanes.append(_Lane("", segment.annotator, type_name, [segment]))
    named: set[str] = set()
    in_order = []
    # A first lane has the name of its annotator alone; no other lane may take it.
    for type_name, annotator in sorted(lanes_of):
        for number, lane in enumerate(lanes_of[type_name, annotator]):
            if type_name == "level" and number == 0:
                lane.name = annotator
                named.add(annotator)
            in_order.append(lane)
    for lane in in_order:
        if not lane.name:
            name = lane.annotator
            if lane.type_name == WATCHED:
                name = f"{name} {WATCHED}"
            lane.name = _unused_name(name, named)
            named.add(lane.name)
    return in_order


def _unused_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number where it is taken."""
    numbered = name
    number = 1
    while numbered in taken:
        number += 1
        numbered = f"{name} #{number}"
    return numbered


# ---- reading -------------------------------------------------------------------------------------


class ElanDocument:
    """An ELAN file, with what each tier is, as far as the file or a mapping says it."""

    def __init__(self, path: Path, mapping: TierMapping) -> None:
        self.path = path
        self.document = _read(path)
        self.mapping = mapping
        media = self.document.media_descriptors
        videos = [one for one in media if one.get("MIME_TYPE", "").startswith("video")]
        # A file may have several media, each with its own beginning: the film is the first video.
        self.film: Mapping[str, str] = next(iter([*videos, *media]), {})
        types = self.document.linguistic_types
        # Whether this program wrote it.
        self.is_own = OWN_TYPES.keys() <= types.keys()
        self.tiers = self._linked_tiers()
        self.slots_ms = self._nearest_ms()

    @property
    def media_name(self) -> str:
        """The name of the film's file, without the folder that it had; "" without one."""
        url = self.film.get("RELATIVE_MEDIA_URL") or self.film.get("MEDIA_URL") or ""
        return PureWindowsPath(unquote(url)).name

    @property
    def video(self) -> Path | None:
        """The film's file: where this file says that it lies, else beside it; None without one."""
        if not self.media_name:
            return None
        folder = self.path.parent
        named = folder / unquote(self.film.get("RELATIVE_MEDIA_URL", ""))
        return named if named.is_file() else folder / self.media_name

    @property
    def frame_rate(self) -> Fraction | None:
        """The rate by which this program wrote the times; None in files of others."""
        return known_frame_rate(dict(self.document.properties).get(RATE_PROPERTY, ""))

    def add_violations(self, violations: Violations) -> None:
        """Add what neither the file nor the mapping says: roles of tiers, meanings of words."""
        path = str(self.path)
        for tier in self.tiers:
            start = f"tier {tier.name}"
            if not tier.role:
                violations.add_at(path, None, f"{start}: not known what it is")
            elif tier.role in ("concepts", "comments") and not tier.belongs_to_parent:
                problem = f"{start}: {tier.role}, but not linked to a tier of levels: {UNLINKED}"
                violations.add_at(path, None, problem)
            for name, annotation in tier.annotations.items():
                for problem in self._problems_of(tier, annotation.text):
                    times_s = self._times_s(tier, name)
                    at = f" at {clock(float(times_s[0]))}" if times_s else ""
                    violations.add_at(f"{path}{at}", None, f"{start}: {problem}")

    def _problems_of(self, tier: Tier, text: str) -> Iterator[str]:
        """Yield what is wrong with the text of an annotation."""
        if tier.role == "levels" and self.mapping.level(text) is None:
            if text:
                yield f"{text!r} is not one of {', '.join(LEVELS)}"
            elif not tier.is_own:
                yield f"an annotation without a text; {EMPTY}"
        if tier.role == "concepts" and not tier.is_own:
            for word in tier.words(text, self.mapping.separator):
                if self.mapping.concept(word) is None:
                    yield f"{word!r} is no concept"

    def marks(self, warnings: list[str]) -> Iterator[ReadMark]:
        """Yield the marks that have times; a warning has the number of annotations without."""
        n_without = 0
        for lane in self.tiers:
            if not lane.is_lane:
                continue
            below, n_lost = self._below(lane)
            n_without += n_lost
            for name, annotation in lane.annotations.items():
                times_s = self._times_s(lane, name)
                if times_s is None:
                    n_without += 1
                    continue
                texts = [(lane, annotation.text), *below.get(name, ())]
                yield self._mark(lane, times_s, texts)
        if n_without:
            n_annotations = count(n_without, "annotation")
            warnings.append(
                f"{self.path}: left out, because they have no times: {n_annotations}"
            )

    def _mark(
        self,
        lane: Tier,
        times_s: tuple[Fraction, Fraction],
        texts: Iterable[tuple[Tier, str]],
    ) -> ReadMark:
        """Return the mark of an annotation, from its text and those that belong to it."""
        level = ""
        names: list[str] = []
        comments: list[str] = []
        for tier, text in texts:
            if tier.role == WATCHED:
                comments.append(WATCHED)
            elif tier.role == "levels":
                level = self.mapping.level(text) or ""
            elif tier.role == "concepts":
                for word in tier.words(text, self.mapping.separator):
                    names += (self.mapping.concept(word) or concept_of(word)).split("|")
            elif text:
                comments.append(text)
        concepts_of_mark = tuple(dict.fromkeys(names))
        comment = " ".join(comments)
        return ReadMark(lane.annotator, *times_s, level, concepts_of_mark, comment)

    def _linked_tiers(self) -> list[Tier]:
        """Return the tiers, each with the one above it."""
        tiers: dict[str, Tier] = {}
        for name, (aligned, referring, facts, _) in self.document.tiers.items():
            annotations = {}
            for key, (start, end, text, _) in aligned.items():
                annotations[key] = TierAnnotation(plain(text), (start, end), "")
            for key, (refers_to, text, *_) in referring.items():
                annotations[key] = TierAnnotation(plain(text), None, refers_to)
            annotator = self.mapping.annotators.get(name) or facts.get("ANNOTATOR")
            # Where a file has no annotator, its tiers are often told apart by this.
            annotator = annotator or facts.get("PARTICIPANT")
            own_role = ""
            if self.is_own:
                own_role = OWN_TYPES.get(facts.get("LINGUISTIC_TYPE_REF", ""), "")
            role = self.mapping.tiers.get(name) or own_role
            # A tier without annotations says nothing.
            role = role or ("" if annotations else UNUSED)
            tiers[name] = Tier(
                name, annotator or name, annotations, role, bool(own_role)
            )
        for name, tier in tiers.items():
            parent = tiers.get(self.document.tiers[name][2].get("PARENT_REF") or "")
            # A circle of tiers is cut where it closes.
            if parent is not None and tier not in (parent, *parent.ancestors()):
                tier.parent = parent
        return list(tiers.values())

    def _tiers_below(self, lane: Tier) -> list[Tier]:
        """Return the tiers with concepts and comments of a lane, from the top."""
        tiers = []
        for tier in sorted(self.tiers, key=lambda one: len(list(one.ancestors()))):
            lanes_above = [above for above in tier.ancestors() if above.is_lane]
            if tier.belongs_to_parent and lanes_above[:1] == [lane]:
                tiers.append(tier)
        return tiers

    def _below(self, lane: Tier) -> tuple[dict[str, list[tuple[Tier, str]]], int]:
        """Return tier and text of what belongs to each mark, and how many belong to none."""
        starts = []
        for name, annotation in lane.annotations.items():
            times_ms = self._exact_ms(annotation)
            if times_ms is not None:
                starts.append((*times_ms, name))
        starts.sort()
        mark_of = {name: name for name in lane.annotations}
        texts_of_mark: dict[str, list[tuple[Tier, str]]] = {}
        n_lost = 0
        for tier in self._tiers_below(lane):
            for name, annotation in tier.annotations.items():
                mark = mark_of.get(annotation.refers_to)
                if annotation.slots is not None:
                    start_ms = self.slots_ms.get(annotation.slots[0], 0)
                    mark = _mark_at(start_ms, starts)
                if mark is None:
                    n_lost += 1
                    continue
                mark_of[name] = mark
                texts_of_mark.setdefault(mark, []).append((tier, annotation.text))
        return texts_of_mark, n_lost

    def _exact_ms(self, annotation: TierAnnotation) -> tuple[int, int] | None:
        """Return the times of an annotation, None where a slot has none."""
        if annotation.slots is None:
            return None
        start_ms, end_ms = (
            self.document.timeslots.get(one) for one in annotation.slots
        )
        if start_ms is None or end_ms is None:
            return None
        return start_ms, end_ms

    def _nearest_ms(self) -> dict[str, int]:
        """Return the time of each slot; one without a time has that of the slot before it."""
        latest_ms = 0
        nearest = {}
        for name, ms in self.document.timeslots.items():
            latest_ms = latest_ms if ms is None else ms
            nearest[name] = latest_ms
        return nearest

    def _times_s(self, tier: Tier, name: str) -> tuple[Fraction, Fraction] | None:
        """Return the times of an annotation in the film, also of one that refers to another."""
        above: Tier | None = tier
        annotation = tier.annotations[name]
        while annotation.slots is None:
            above = None if above is None else above.parent
            if above is None or annotation.refers_to not in above.annotations:
                return None
            annotation = above.annotations[annotation.refers_to]
        times_ms = self._exact_ms(annotation)
        origin_ms = whole_number(self.film.get("TIME_ORIGIN", "0"))
        if times_ms is None or origin_ms is None:
            return None
        start_ms, end_ms = (ms + origin_ms for ms in times_ms)
        return Fraction(start_ms, 1000), Fraction(end_ms, 1000)


def _mark_at(ms: int, starts: Sequence[tuple[int, int, str]]) -> str | None:
    """Return the mark at a time; `starts` has start, end and name of each in order."""
    index = bisect_right(starts, ms, key=lambda one: one[0]) - 1
    if index < 0:
        return None
    _, end_ms, name = starts[index]
    return name if ms < end_ms else None


def _elan() -> Any:
    return need("pympi.Elan", "elan", "reading and writing ELAN files")


def _read(path: Path) -> Any:
    """Return the file as pympi reads it; an error if it is not a file of ELAN."""
    elan = _elan()
    with open_file(path) as stream:
        data = stream.read()
    try:
        _check_xml(data)
        return elan.Eaf(str(path), suppress_version_warning=True)
    except KeyError as error:
        # The name of an attribute may have its namespace before it, in braces.
        name = str(error.args[0]).rpartition("}")[2]
        problem = f"{name} is missing"
    except (expat.ExpatError, LookupError, TypeError, ValueError) as error:
        problem = str(error)
    raise FixInput(f"not a file of ELAN: {problem}", where=str(path))


def _check_xml(data: bytes) -> None:
    """Raise an error for what is no ELAN document, or has a document type.

    That could define entities. The parser calls its handler in every encoding.
    """
    tags: list[str] = []

    def start(tag: str, attributes: Mapping[str, str]) -> None:
        tags.append(tag)
        time = attributes.get("TIME_VALUE", "0")
        if tag == "TIME_SLOT" and not time.removeprefix("-").isdecimal():
            name = attributes.get("TIME_SLOT_ID", "")
            raise ValueError(f"the time slot {name!r} has the time {time!r}, no number")

    def doctype(*_: Any) -> None:
        raise ValueError("a document type is not allowed")

    # With name spaces as pympi reads it, which raises no error of its own for what is wrong there.
    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = start
    parser.Parse(data, True)
    if tags[0] != "ANNOTATION_DOCUMENT":
        raise ValueError(f"expected an ANNOTATION_DOCUMENT, got {tags[0]}")

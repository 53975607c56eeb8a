"""Write marks as ELAN files, and read the tiers of ELAN files, both with pympi.

In a file that this program writes, each annotator has a tier of levels, below it tiers of concepts
and of comments, and a tier of what was watched. The linguistic types of the tiers say what they
are; names of tiers are only names.

In other files a tier is used where it is certain what it means: where most of its words are levels,
or by a mapping. All other tiers are not used, and the import says so.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote
from xml.parsers import expat

from obygaze.films.film_segments import FilmSegments, ReadMark
from obygaze.films.mark_tables import WATCHED, Segment, concept_of, plain
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import require_file
from obygaze_features.core.lazy import need
from obygaze_features.core.schema_check import (
    Filled,
    Record,
    one_of,
    read_toml,
    record_of,
)
from obygaze_features.core.tables import open_file
from obygaze_features.manifest.model import LEVELS, clock
from obygaze_features.manifest.vocabulary import (
    canonical_concept,
    canonical_level,
    concept_meaning,
    concepts,
)

UNUSED = "unused"
# What a tier can be; the last one is not used.
ROLES = ("levels", "concepts", "comments", WATCHED, UNUSED)
# The linguistic types of the tiers in files that this program writes.
OWN_TYPES = {
    "level": "levels",
    "concept": "concepts",
    "comment": "comments",
    WATCHED: WATCHED,
}
LANGUAGE = "eng"
_SEPARATORS = str.maketrans(",;", "||")


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
    document.properties.clear()
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
        for number, segment in enumerate(self._segments()):
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

    def _segments(self) -> Iterator[Segment]:
        for lane in self.lanes:
            yield from lane.segments

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


# ---- what tiers are ------------------------------------------------------------------------------


class TierMapping(Record, frozen=True):
    """What the tiers of ELAN files are, and the meaning of their words.

    `tiers` has the role of a tier by its name, `annotators` who made it. `levels` and `concepts`
    translate words. A tier that is not in `tiers` is what its words and its type say.
    """

    tiers: Mapping[str, Annotated[str, one_of(ROLES)]] = {}
    annotators: Mapping[str, Filled] = {}
    levels: Mapping[str, Annotated[str, one_of(LEVELS)]] = {}
    concepts: Mapping[str, Filled] = {}

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
    return record_of(document, TierMapping, "the mapping is not valid")


class _Annotation(NamedTuple):
    """An annotation with its text: with two time slots, or with the one that it refers to."""

    text: str
    slots: tuple[str, str] | None
    refers_to: str


@dataclass(eq=False)
class Tier:
    """A tier of an ELAN file; `parent` is the tier above it, None if there is none."""

    name: str
    type_name: str
    annotator: str
    annotations: Mapping[str, _Annotation]
    parent: "Tier | None" = None
    role: str = UNUSED

    @property
    def belongs_to_parent(self) -> bool:
        """Whether its annotations are concepts or comments of the marks above them."""
        if self.parent is None or self.role not in ("concepts", "comments"):
            return False
        return self.parent.role in ("levels", "concepts")

    @property
    def is_lane(self) -> bool:
        """Whether each of its annotations is a mark."""
        return self.role != UNUSED and not self.belongs_to_parent

    def ancestors(self) -> Iterator["Tier"]:
        """Yield the tier above this one, then the one above that, and so on."""
        tier = self.parent
        while tier is not None:
            yield tier
            tier = tier.parent

    def texts(self) -> list[str]:
        """Return the texts of its annotations that are not empty."""
        texts = [annotation.text for annotation in self.annotations.values()]
        return [text for text in texts if text.strip()]

    def made_of(self) -> str:
        """Return in words what the import made of the tier."""
        if self.role == UNUSED:
            return "not used"
        if self.belongs_to_parent and self.parent is not None:
            return f"{self.role} of the tier {self.parent.name}"
        if self.role == WATCHED:
            return f"what {self.annotator} has watched"
        return f"{self.role} of {self.annotator}"


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


class ElanDocument:
    """An ELAN file, with what each tier is."""

    def __init__(self, path: Path, mapping: TierMapping | None = None) -> None:
        self.path = path
        self.document = _read(path)
        self.mapping = mapping or TierMapping()
        media = self.document.media_descriptors
        videos = [one for one in media if one.get("MIME_TYPE", "").startswith("video")]
        # A file may have several media, each with its own beginning: the film is the first video.
        self.film: Mapping[str, str] = next(iter([*videos, *media]), {})
        self.tiers = self._linked_tiers()
        self.slots_ms = self._nearest_ms()
        for tier in self._from_the_top():
            given = self.mapping.tiers.get(tier.name)
            tier.role = given or self._guessed_role(tier)

    @property
    def media_name(self) -> str:
        """The name of the film's file, without the folder that it had; "" without one."""
        url = self.film.get("RELATIVE_MEDIA_URL") or self.film.get("MEDIA_URL") or ""
        return PureWindowsPath(unquote(url)).name

    def reports(self) -> list[TierReport]:
        """Return what the import made of each tier."""
        file = self.path.name
        return [
            TierReport(file, tier.name, tier.role, tier.made_of())
            for tier in self.tiers
        ]

    def marks(self, warnings: list[str]) -> Iterator[ReadMark]:
        """Yield the marks that have times; a warning has the number of annotations without."""
        self._check_levels()
        self._check_links()
        n_without = 0
        for lane in self.tiers:
            if not lane.is_lane:
                continue
            tiers_below = self._tiers_below(lane)
            below, n_lost = self._below(lane, tiers_below)
            n_without += n_lost
            for name, annotation in lane.annotations.items():
                times_s = self._times_s(lane, name)
                if times_s is None:
                    n_without += 1
                    continue
                texts = [(lane.role, annotation.text), *below.get(name, ())]
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
        texts: Iterable[tuple[str, str]],
    ) -> ReadMark:
        """Return the mark of an annotation, from the texts of all tiers with what they are."""
        level = ""
        names: list[str] = []
        comments: list[str] = []
        for role, text in texts:
            if role == WATCHED:
                comments.append(WATCHED)
            elif role == "levels":
                level = self.mapping.level(text) or ""
            elif role == "concepts":
                names += self._concepts_in(text, lane)
            elif text.strip():
                comments.append(plain(text))
        concepts_of_mark = tuple(dict.fromkeys(names))
        comment = " ".join(comments)
        return ReadMark(lane.annotator, *times_s, level, concepts_of_mark, comment)

    def _concepts_in(self, text: str, lane: Tier) -> list[str]:
        """Return the concepts in a text; unknown ones are as they are written.

        The types of this program have a concept in each annotation, which may have a comma.
        """
        if not text.strip():
            return []
        whole = self.mapping.concept(text)
        if whole:
            return [whole]
        if lane.type_name in OWN_TYPES:
            return [concept_of(text)]
        return [self.mapping.concept(word) or concept_of(word) for word in _words(text)]

    def _check_levels(self) -> None:
        """Raise an error that lists the words in tiers of levels that are no levels."""
        unknown: dict[str, None] = {}
        for tier in self.tiers:
            if tier.role != "levels":
                continue
            for name, annotation in tier.annotations.items():
                text = annotation.text
                if text.strip() and self.mapping.level(text) is None:
                    times_s = self._times_s(tier, name)
                    place = f" at {clock(float(times_s[0]))}" if times_s else ""
                    unknown[f"tier {tier.name}{place}: {plain(text)!r}"] = None
        if unknown:
            raise FixInput(
                f"{count(len(unknown), 'annotation')} of tiers of levels"
                f" with words that are no levels: {few(list(unknown), 3)}",
                where=str(self.path),
                hint="say what they mean under [levels] in a file for --mapping, or under [tiers]"
                f' that the tier is "{UNUSED}"',
                details=list(unknown),
            )

    def _check_links(self) -> None:
        """Raise an error for tiers of concepts or comments that belong to no marks."""
        for tier in self.tiers:
            if tier.is_lane and tier.role in ("concepts", "comments"):
                raise FixInput(
                    f"the tier {tier.name} has {tier.role}, but is not linked to a tier of levels",
                    where=str(self.path),
                    hint="link it to the tier of levels in ELAN, or say under [tiers] of the"
                    f' mapping that the tier is "{UNUSED}"',
                )

    def _guessed_role(self, tier: Tier) -> str:
        """Return what the type and the words of a tier say that it is."""
        texts = tier.texts()
        own_role = OWN_TYPES.get(tier.type_name)
        parent_role = UNUSED if tier.parent is None else tier.parent.role
        # First, as a comment may be the word of a level, such as "not sure".
        is_below = parent_role in ("levels", "concepts")
        if own_role in ("concepts", "comments") and is_below:
            return own_role
        if own_role in ("levels", WATCHED):
            return own_role
        if texts and all(text.strip() == WATCHED for text in texts):
            return WATCHED
        if _are_most(texts, lambda text: self.mapping.level(text) is not None):
            return "levels"
        if parent_role == "levels" and _are_most(texts, self._is_of_concepts):
            return "concepts"
        return UNUSED

    def _is_of_concepts(self, text: str) -> bool:
        return all(self.mapping.concept(word) for word in _words(text))

    def _linked_tiers(self) -> list[Tier]:
        """Return the tiers, each with the one above it."""
        tiers: dict[str, Tier] = {}
        for name, (aligned, referring, facts, _) in self.document.tiers.items():
            annotations = {}
            for key, (start, end, text, _) in aligned.items():
                annotations[key] = _Annotation(text, (start, end), "")
            for key, (refers_to, text, *_) in referring.items():
                annotations[key] = _Annotation(text, None, refers_to)
            annotator = self.mapping.annotators.get(name) or facts.get("ANNOTATOR")
            type_name = facts.get("LINGUISTIC_TYPE_REF", "")
            tiers[name] = Tier(name, type_name, annotator or name, annotations)
        for name, tier in tiers.items():
            parent = tiers.get(self.document.tiers[name][2].get("PARENT_REF") or "")
            # A circle of tiers is cut where it closes.
            if parent is not None and tier not in (parent, *parent.ancestors()):
                tier.parent = parent
        return list(tiers.values())

    def _from_the_top(self) -> list[Tier]:
        return sorted(self.tiers, key=lambda tier: len(list(tier.ancestors())))

    def _tiers_below(self, lane: Tier) -> list[Tier]:
        """Return the tiers with concepts and comments of a lane."""
        tiers = []
        for tier in self._from_the_top():
            lanes_above = [above for above in tier.ancestors() if above.is_lane]
            if tier.belongs_to_parent and lanes_above[0] is lane:
                tiers.append(tier)
        return tiers

    def _below(
        self, lane: Tier, tiers: Sequence[Tier]
    ) -> tuple[dict[str, list[tuple[str, str]]], int]:
        """Return role and text of what belongs to each mark, and how many belong to none."""
        starts = []
        for name, annotation in lane.annotations.items():
            times_ms = self._exact_ms(annotation)
            if times_ms is not None:
                starts.append((*times_ms, name))
        starts.sort()
        mark_of = {name: name for name in lane.annotations}
        texts_of_mark: dict[str, list[tuple[str, str]]] = {}
        n_lost = 0
        for tier in tiers:
            for name, annotation in tier.annotations.items():
                mark = mark_of.get(annotation.refers_to)
                if annotation.slots is not None:
                    start_ms = self.slots_ms.get(annotation.slots[0], 0)
                    mark = _mark_at(start_ms, starts)
                if mark is None:
                    n_lost += 1
                    continue
                mark_of[name] = mark
                texts_of_mark.setdefault(mark, []).append((tier.role, annotation.text))
        return texts_of_mark, n_lost

    def _exact_ms(self, annotation: _Annotation) -> tuple[int, int] | None:
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
        origin = self.film.get("TIME_ORIGIN", "0")
        if times_ms is None or not origin.removeprefix("-").isdecimal():
            return None
        start_ms, end_ms = (ms + int(origin) for ms in times_ms)
        return Fraction(start_ms, 1000), Fraction(end_ms, 1000)


def _words(text: str) -> list[str]:
    """Return the words of a text that are separated by | , or ;."""
    words = text.translate(_SEPARATORS).split("|")
    return [word.strip() for word in words if word.strip()]


def _mark_at(ms: int, starts: Sequence[tuple[int, int, str]]) -> str | None:
    """Return the mark at a time; `starts` has start, end and name of each in order."""
    index = bisect_right(starts, ms, key=lambda one: one[0]) - 1
    if index < 0:
        return None
    _, end_ms, name = starts[index]
    return name if ms < end_ms else None


def _are_most(texts: Sequence[str], fits: Callable[[str], bool]) -> bool:
    """Whether more than half of some texts fit."""
    return 2 * sum(map(fits, texts)) > len(texts)


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

    def start(tag: str, _: Any) -> None:
        tags.append(tag)
        parser.StartElementHandler = None

    def doctype(*_: Any) -> None:
        raise ValueError("a document type is not allowed")

    # With name spaces as pympi reads it, which raises no error of its own for what is wrong there.
    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = start
    parser.Parse(data, True)
    if tags != ["ANNOTATION_DOCUMENT"]:
        raise ValueError(f"expected an ANNOTATION_DOCUMENT, got {tags[0]}")


# ---- reports and mappings ------------------------------------------------------------------------


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


def check_names(mapping: TierMapping, documents: Sequence[ElanDocument]) -> None:
    """Raise an error if a mapping names a tier that is in no file."""
    names: dict[str, None] = {}
    for document in documents:
        names.update(dict.fromkeys(tier.name for tier in document.tiers))
    for table in ("tiers", "annotators"):
        for name in getattr(mapping, table):
            if name not in names:
                raise FixInput(
                    f"[{table}] of the mapping names the tier {name!r}, which no file has",
                    hint=f"the tiers of the files: {few(list(names), 10)}",
                )

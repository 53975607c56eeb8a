"""ELAN files, read with pympi: a tier is a column, and its texts are values.

Marks are written as new tiers into the XML of a file; the rest of the file stays as it is.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from html import escape
from itertools import accumulate, count
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple
from urllib.parse import unquote
from xml.parsers import expat

from obygaze.films.marks import COMMENT, UNKNOWN, Mark
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.file_names import printable_line
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.tables import open_file

# Values of AUTHOR that name no person.
NOBODY = ("", "unspecified", "pympi")
# A tier with a number: its marks overlap the marks of the tier without the number.
_NUMBERED = re.compile(r"(.+) #\d+")
_MILLISECONDS = re.compile(r"-?[0-9]{1,12}")
_NEW = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2000-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0" \
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">
    <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">{media}</HEADER>
    <TIME_ORDER/>
    <LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="{type}" TIME_ALIGNABLE="true" \
GRAPHIC_REFERENCES="false"{words}
</ANNOTATION_DOCUMENT>
"""
_CHOICES = """ CONTROLLED_VOCABULARY_REF="levels"/>
    <LANGUAGE LANG_ID="und" LANG_LABEL="undetermined (und)" \
LANG_DEF="http://cdb.iso.org/lg/CDB-00130975-001"/>
    <CONTROLLED_VOCABULARY CV_ID="levels">
        <DESCRIPTION LANG_REF="und"/>{entries}
    </CONTROLLED_VOCABULARY>"""
_CHOICE = """
        <CV_ENTRY_ML CVE_ID="cve{number}"><CVE_VALUE DESCRIPTION="{meaning}" \
LANG_REF="und">{word}</CVE_VALUE></CV_ENTRY_ML>"""
# The type of a tier with an empty annotation for each sampled clip.
DRAWN = "drawn clips"
# The words that an annotator can choose for a sampled clip, with their meaning.
CHOICES = {
    "EN": "absent (easy negative)",
    "HN": "absent, but easily mistaken for present (hard negative)",
    "NS": "not sure",
    "S": "sure",
    UNKNOWN: "not known",
}


class Tier(NamedTuple):
    """A tier of a file.

    Attributes:
        name: The name in the file.
        column: The name, without @ and the annotator after it, and without the number that tells
            tiers of one name apart.
        annotator: The annotator named by the tier or by a parent tier, or "" if none is named.
        is_drawn: Whether its annotations are sampled clips, which an annotator fills in.
        annotations: Start and end in the film (in seconds) and text of each annotation with times.
        n_without_times: Number of annotations without times in the film.
    """

    name: str
    column: str
    annotator: str
    is_drawn: bool
    annotations: tuple[tuple[float, float, str], ...]
    n_without_times: int


class ElanFile:
    """An ELAN file.

    `video` is the file name of its first video, and `author` its author, or "" if it names none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_file(path) as stream:
            self._data = stream.read()
        self._document = _read(path, self._data)
        media = self._document.media_descriptors
        videos = [one for one in media if one.get("MIME_TYPE", "").startswith("video")]
        first: Mapping[str, str] = next(iter([*videos, *media]), {})
        url = first.get("RELATIVE_MEDIA_URL") or first.get("MEDIA_URL") or ""
        self.video = PureWindowsPath(unquote(url)).name
        # Some programs do not quote file names in URLs, and unquoting can change such a name.
        self.video_as_written = PureWindowsPath(url).name
        # Times of the file start here in the film; below 0, they start before the film.
        self.origin_ms = int(first.get("TIME_ORIGIN", "0"))
        author = printable_line(self._document.adocument.get("AUTHOR", ""))
        self.author = "" if author.casefold() in NOBODY else author

    def tiers(self) -> Iterator[Tier]:
        """Yield the tiers in the order of the file."""
        names = {printable_line(name) for name in self._document.tiers}
        for name, (aligned, referring, facts, *_) in self._document.tiers.items():
            texts = {key: text for key, (_, _, text, _) in aligned.items()}
            texts |= {key: text for key, (_, text, *_) in referring.items()}
            annotations = []
            for key, text in texts.items():
                span_s = self._span_s(key)
                if span_s is not None:
                    annotations.append((*span_s, printable_line(text)))
            yield Tier(
                printable_line(name),
                _column_and_person(printable_line(name), names)[0],
                self._annotator(name, names),
                facts.get("LINGUISTIC_TYPE_REF") == DRAWN,
                tuple(annotations),
                len(texts) - len(annotations),
            )

    def _annotator(self, name: str, names: Collection[str]) -> str:
        """Return the annotator that a tier or its nearest parent tier names, or "" if none does.

        `names` has the names of all tiers: `mood@Ada #2` beside `mood@Ada` is a tier of Ada.

        The attribute PARTICIPANT is not read: it names the person on the screen.
        """
        tiers = self._document.tiers
        for _ in tiers:
            if name not in tiers:
                break
            facts = tiers[name][2]
            stated = printable_line(facts.get("ANNOTATOR", ""))
            stated = stated or _column_and_person(printable_line(name), names)[1]
            if stated:
                return stated
            name = facts.get("PARENT_REF", "")
        return ""

    def _span_s(self, key: str) -> tuple[float, float] | None:
        """Return start and end of an annotation in seconds, or None if they are missing or invalid.

        An annotation that refers to a parent annotation has the times of this parent. The part of
        an annotation that lies before the film is cut off.
        """
        document = self._document
        for _ in document.annotations:
            if key not in document.annotations:
                break
            aligned, referring, *_ = document.tiers[document.annotations[key]]
            if key in aligned:
                start_ms, end_ms = map(document.timeslots.get, aligned[key][:2])
                if start_ms is None or end_ms is None:
                    return None
                start_s = max(0, start_ms + self.origin_ms) / 1000
                end_s = (end_ms + self.origin_ms) / 1000
                return (start_s, end_s) if start_s < end_s else None
            key = referring[key][0]
        return None

    def with_tiers(self, marks: Iterable[Mark]) -> bytes:
        """Return the file with marks as new tiers; all other bytes stay."""
        if b"\0" in self._data[:4]:
            raise FixInput(
                "expected a file in UTF-8, got UTF-16 or UTF-32", where=str(self.path)
            )
        return with_tiers(self._data, marks, self.origin_ms)


def write_elan(
    marks: Iterable[Mark],
    media: Mapping[str, str] | None = None,
    *,
    are_drawn: bool = False,
) -> bytes:
    """Return the marks of a film as an ELAN file with a tier for each column and annotator.

    Args:
        marks: The marks.
        media: The URLs of the video, as attributes of a MEDIA_DESCRIPTOR; None: no video.
        are_drawn: Whether the marks are sampled clips to fill in; ELAN then offers the levels.
    """
    entries = ""
    for number, (word, meaning) in enumerate(CHOICES.items()):
        entries += _CHOICE.format(number=number, word=word, meaning=meaning)
    data = _NEW.format(
        media=f"<MEDIA_DESCRIPTOR{_attributes(media)}/>" if media else "",
        type=DRAWN if are_drawn else "marks",
        words=_CHOICES.format(entries=entries) if are_drawn else "/>",
    )
    return with_tiers(data.encode(), marks, type_name=DRAWN if are_drawn else "")


def with_tiers(
    data: bytes, marks: Iterable[Mark], origin_ms: int = 0, *, type_name: str = ""
) -> bytes:
    """Return an ELAN file with marks as new tiers; all its other bytes stay.

    Args:
        data: The bytes of the file.
        marks: The marks of its film.
        origin_ms: The time in the film at which the times of the file start, in milliseconds.
        type_name: The type of the new tiers; "": a type of the file that allows any words.
    """
    outline = _Outline(data)
    if outline.end_of_slots is None:
        raise Corrupt("not an ELAN file: TIME_ORDER is missing")
    known_type = type_name or outline.type_name
    # pympi names time slots in the same way, and no program generates annotation ids such as og1.
    new_ids = (f"og{n}" for n in count(1) if f"og{n}" not in outline.ids)
    new_slots = (f"ts{n}" for n in count(1) if f"ts{n}" not in outline.ids)
    slots: list[tuple[int, int, str]] = []
    tiers = []
    shown = [mark for mark in marks if milliseconds(mark.end_s) > origin_ms]
    for name, annotator, lane in _split_overlaps(shown, outline.tier_names):
        facts = {"ANNOTATOR": annotator} if annotator else {}
        facts |= {"LINGUISTIC_TYPE_REF": known_type or "obygaze", "TIER_ID": name}
        tiers.append(f"\n    <TIER{_attributes(facts)}>")
        for mark in lane:
            ids = {"ANNOTATION_ID": next(new_ids)}
            ids |= {
                "TIME_SLOT_REF1": next(new_slots),
                "TIME_SLOT_REF2": next(new_slots),
            }
            # At the same time, the slot of an end comes before the slot of a start.
            start_ms = max(0, milliseconds(mark.start_s) - origin_ms)
            slots.append((start_ms, 1, ids["TIME_SLOT_REF1"]))
            end_ms = milliseconds(mark.end_s) - origin_ms
            slots.append((end_ms, 0, ids["TIME_SLOT_REF2"]))
            tiers.append(
                f"\n        <ANNOTATION><ALIGNABLE_ANNOTATION{_attributes(ids)}>"
                f"<ANNOTATION_VALUE>{escape(mark.value, quote=False)}</ANNOTATION_VALUE>"
                "</ALIGNABLE_ANNOTATION></ANNOTATION>"
            )
        tiers.append("\n    </TIER>")
    if tiers and not known_type:
        tiers.append(
            '\n    <LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="obygaze" TIME_ALIGNABLE="true"'
            ' GRAPHIC_REFERENCES="false"/>'
        )
    edits = [*outline.edits_of_slots(slots)] if slots else []
    edits.append((outline.end_of_tiers, outline.end_of_tiers, "".join(tiers)))
    parts = []
    position = 0
    for start_byte, end_byte, text in edits:
        new = text.encode(outline.encoding, "xmlcharrefreplace")
        parts += [data[position:start_byte], new]
        position = end_byte
    return b"".join([*parts, data[position:]])


def milliseconds(time_s: float) -> int:
    """Return the first whole millisecond that is not before a time.

    A time that is less than 1e-9 s after a whole millisecond is a rounding error.

    >>> milliseconds(100 * 1001 / 24000), milliseconds(2.0)
    (4171, 2000)
    """
    return -int(-(time_s - 1e-9) * 1000 // 1)


def _attributes(values: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items())


def _split_overlaps(
    marks: Iterable[Mark], taken: Iterable[str]
) -> Iterator[tuple[str, str, list[Mark]]]:
    """Yield the name of each new tier, its annotator, and its marks, which do not overlap.

    All values that an annotator gives to one span in a column become one annotation, joined by |.
    Comments are not joined.
    """
    values: dict[Mark, dict[str, None]] = {}
    for mark in sorted(marks):
        key = mark if mark.column == COMMENT else mark._replace(value="")
        values.setdefault(key, {})[mark.value] = None
    lanes_of: dict[tuple[str, str], list[list[Mark]]] = {}
    joined = [mark._replace(value="|".join(words)) for mark, words in values.items()]
    for mark in sorted(joined):
        lanes = lanes_of.setdefault((mark.column, mark.annotator), [])
        for lane in lanes:
            # Marks that follow each other may overlap by a rounding error of their seconds.
            if milliseconds(lane[-1].end_s) <= milliseconds(mark.start_s):
                lane.append(mark)
                break
        else:
            lanes.append([mark])
    columns = [column for column, _ in lanes_of]
    used = {*taken}
    # Sorted, so that neither times nor texts of marks decide the order of the tiers.
    for (column, annotator), lanes in sorted(lanes_of.items()):
        name = column
        is_unclear = "@" in column or _NUMBERED.fullmatch(column) is not None
        if annotator and (is_unclear or columns.count(column) > 1):
            name = f"{column}@{annotator.replace('@', '_')}"
        for lane in lanes:
            numbered = (f"{name} #{number}" for number in count(2))
            unused = name
            while unused in used:
                unused = next(numbered)
            used.add(unused)
            yield unused, annotator, lane


def _column_and_person(name: str, names: Collection[str]) -> tuple[str, str]:
    """Return the column of a tier, and the annotator after the @ of its name, or "".

    A number after the name, such as " #2", is removed if `names` has the name without it.
    """
    numbered = _NUMBERED.fullmatch(name)
    if numbered and numbered[1] in names:
        name = numbered[1]
    column, _, person = name.rpartition("@")
    return (column, person) if column and person else (name, "")


def _read(path: Path, data: bytes) -> Any:
    """Read a file with pympi; raise an error if it is not an ELAN file."""
    elan = import_optional("pympi.Elan", "elan", "reading files of ELAN")
    try:
        _Outline(data)
        return elan.Eaf(str(path), suppress_version_warning=True)
    except KeyError as error:
        # The name of an attribute may have its namespace before it, in braces.
        name = str(error.args[0]).rpartition("}")[2]
        problem = f"{name} is missing"
    except (expat.ExpatError, LookupError, TypeError, ValueError) as error:
        problem = str(error)
    raise Corrupt(f"not an ELAN file: {problem}", where=str(path))


class _Outline:
    """The positions (in bytes) of the parts of an ELAN file.

    A document that is not an ELAN file raises an error. A document type (DOCTYPE) raises an error,
    because it can define entities. The parser finds a document type in every encoding. An id that
    is there twice raises an error, because pympi keeps the last of both without a word.
    """

    def __init__(self, data: bytes) -> None:
        self.ids: set[str] = set()
        self._stated: set[tuple[str, str]] = set()
        self.tier_names: set[str] = set()
        # A type whose tiers have their own times and allow any words.
        self.type_name = ""
        self.encoding = "utf-8"
        self.end_of_slots: int | None = None
        self.end_of_tiers = 0
        self._has_slots = True
        self._slots: list[tuple[int, int]] = []
        self._root = ""
        self._data = data
        # pympi reads namespaces but reports no error in them, so this parser checks them.
        self._parser = expat.ParserCreate(namespace_separator="}")
        self._parser.XmlDeclHandler = self._declaration
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.Parse(data, True)
        if self._root != "ANNOTATION_DOCUMENT":
            raise ValueError(f"expected an ANNOTATION_DOCUMENT, got {self._root}")

    def edits_of_slots(
        self, slots: Iterable[tuple[int, int, str]]
    ) -> Iterator[tuple[int, int, str]]:
        """Yield the edits that insert new time slots, in order of time."""
        # A slot without a time stays after the slot before it.
        latest_ms = [*accumulate((ms for _, ms in self._slots), max)]
        end = self.end_of_slots or 0
        if not self._has_slots:
            yield end - 2, end, ">"
        for ms, _, name in sorted(slots):
            after = bisect_right(latest_ms, ms)
            place = self._slots[after][0] if after < len(latest_ms) else end
            slot = f'<TIME_SLOT TIME_SLOT_ID="{name}" TIME_VALUE="{ms}"/>\n        '
            yield place, place, slot
        if not self._has_slots:
            yield end, end, "</TIME_ORDER>"

    def _declaration(self, version: str, encoding: str | None, alone: int) -> None:
        self.encoding = encoding or "utf-8"

    def _doctype(self, *_: Any) -> None:
        raise ValueError("a document type is not allowed")

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._root = self._root or tag
        for name in ("TIME_VALUE", "TIME_ORIGIN"):
            time = attributes.get(name, "0")
            if not _MILLISECONDS.fullmatch(time):
                raise ValueError(
                    f"expected a number for {name} of {tag}, got {time[:20]!r}"
                )
        units = attributes.get("TIME_UNITS", "milliseconds")
        if units != "milliseconds":
            raise ValueError(f"expected times in milliseconds, got {units!r}")
        if tag == "TIME_SLOT":
            ms = int(attributes.get("TIME_VALUE", "0"))
            self._slots.append((self._parser.CurrentByteIndex, ms))
        for name in ("TIER_ID", "ANNOTATION_ID", "TIME_SLOT_ID"):
            if (name, attributes.get(name)) in self._stated:
                raise ValueError(f"{name} {attributes[name]!r} is there twice")
            if name in attributes:
                self._stated.add((name, attributes[name]))
                self.ids.add(attributes[name])
        self.tier_names.add(printable_line(attributes.get("TIER_ID", "")))
        if tag == "LINGUISTIC_TYPE" and not (
            {"CONSTRAINTS", "CONTROLLED_VOCABULARY_REF"} & attributes.keys()
        ):
            name = attributes.get("LINGUISTIC_TYPE_ID", "")
            self.type_name = self.type_name or name

    def _end(self, tag: str) -> None:
        if tag not in ("TIME_ORDER", "TIER"):
            return
        position = self._parser.CurrentByteIndex
        # For a tag such as <TIER/>, the position is after the tag.
        has_end = self._data.startswith(f"</{tag}".encode(), position)
        if tag == "TIME_ORDER":
            self.end_of_slots = position
            self._has_slots = has_end
        self.end_of_tiers = position
        if has_end:
            self.end_of_tiers = self._data.index(b">", position) + 1

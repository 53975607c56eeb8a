"""ELAN files: a tier is a column, its words are values. pympi reads them.

What is written becomes new tiers in the XML of a file; all else in the file stays as it is.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import accumulate, count
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple
from urllib.parse import unquote
from xml.parsers import expat

from obygaze.films.marks import COMMENT, UNKNOWN, Mark
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.file_names import printable_line
from obygaze_features.core.lazy import need
from obygaze_features.core.tables import open_file

# What programs write where nobody said who the author is.
NOBODY = ("", "unspecified", "pympi")
# The tier of marks that overlap those in the tier of the same name without a number.
_NUMBERED = re.compile(r"(.+) #\d+")
_MILLISECONDS = re.compile(r"-?[0-9]{1,12}")
_NEW = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2000-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0" \
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">
    <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">{media}</HEADER>
    <TIME_ORDER/>
    {types}
</ANNOTATION_DOCUMENT>
"""
_ANY_WORDS = """<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="marks" TIME_ALIGNABLE="true" \
GRAPHIC_REFERENCES="false"/>"""
# The type of a tier with an empty annotation for each clip that was drawn.
DRAWN = "drawn clips"
# What a person may choose for it, with what it says.
CHOICES = {
    "EN": "looked: nothing (easy negative)",
    "HN": "looked: nothing, though it seems so (hard negative)",
    "NS": "not sure",
    "S": "sure",
    UNKNOWN: "cannot be told",
}


class TierAnnotation(NamedTuple):
    """The text of an annotation, and its span in the film."""

    start_s: float
    end_s: float
    text: str


class Tier(NamedTuple):
    """A tier of a file.

    Attributes:
        name: The name in the file.
        column: The name without the person behind @.
        annotator: Who annotated.
        names_annotator: Whether the tier, or one above it, says who.
        is_drawn: Whether its annotations are clips that were drawn, each of which is to be judged.
        annotations: The annotations that have times.
        n_without_times: The number of the others.
    """

    name: str
    column: str
    annotator: str
    names_annotator: bool
    is_drawn: bool
    annotations: tuple[TierAnnotation, ...]
    n_without_times: int


class ElanFile:
    """A file of ELAN; `video` is the name of the first video of its film, "" without any."""

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
        # Some programs do not quote the names of files.
        self.video_as_written = PureWindowsPath(url).name
        self._origin_ms = int(first.get("TIME_ORIGIN", "0"))

    @property
    def end_s(self) -> float:
        """The last time of the file."""
        times_ms = filter(None, self._document.timeslots.values())
        return (max(times_ms, default=0) + self._origin_ms) / 1000

    def tiers(self) -> Iterator[Tier]:
        """Yield the tiers in their order."""
        names = {printable_line(name) for name in self._document.tiers}
        for name, (aligned, referring, *_) in self._document.tiers.items():
            texts = {key: text for key, (_, _, text, _) in aligned.items()}
            texts |= {key: text for key, (_, text, *_) in referring.items()}
            annotations = []
            for key, text in texts.items():
                span_s = self._span_s(key)
                if span_s is not None:
                    annotations.append(TierAnnotation(*span_s, printable_line(text)))
            column = _column_and_person(printable_line(name), names)[0]
            n_without = len(texts) - len(annotations)
            stated = self._stated(name)
            yield Tier(
                printable_line(name),
                column,
                stated or self._annotator(),
                bool(stated),
                self._document.tiers[name][2].get("LINGUISTIC_TYPE_REF") == DRAWN,
                tuple(annotations),
                n_without,
            )

    def _stated(self, name: str | None) -> str:
        """Return who annotated a tier, as it says, else as the tier above; "" if none does."""
        seen = set()
        while name and name in self._document.tiers and name not in seen:
            seen.add(name)
            facts = self._document.tiers[name][2]
            stated = _stated_annotator(name, facts)
            if stated:
                return stated
            name = facts.get("PARENT_REF")
        return ""

    def _annotator(self) -> str:
        """Return who annotated a tier that names nobody: the author, else the file."""
        author = printable_line(self._document.adocument.get("AUTHOR", ""))
        return printable_line(self.path.stem) if author.casefold() in NOBODY else author

    def _span_s(self, key: str) -> tuple[float, float] | None:
        """Return the times of an annotation, or of the one above it that has some."""
        document = self._document
        seen = set()
        while key in document.annotations and key not in seen:
            seen.add(key)
            aligned, referring, *_ = document.tiers[document.annotations[key]]
            if key in aligned:
                start_ms, end_ms = map(document.timeslots.get, aligned[key][:2])
                if start_ms is None or end_ms is None:
                    return None
                start_ms += self._origin_ms
                end_ms += self._origin_ms
                return (
                    (start_ms / 1000, end_ms / 1000) if 0 <= start_ms < end_ms else None
                )
            key = referring[key][0]
        return None

    def with_tiers(self, marks: Iterable[Mark]) -> bytes:
        """Return the file with marks as new tiers; all else stays to the byte."""
        if b"\0" in self._data[:4]:
            raise FixInput("expected a file in UTF-8", where=str(self.path))
        return with_tiers(self._data, marks, self._origin_ms)


def write_elan(
    marks: Iterable[Mark],
    media: Mapping[str, str] | None = None,
    *,
    are_drawn: bool = False,
) -> bytes:
    """Return the marks of a film as a file: a tier for each column and annotator.

    Args:
        marks: The marks.
        media: The URLs of the video, as attributes of a MEDIA_DESCRIPTOR.
        are_drawn: Whether the marks are clips that are to be judged, with a list of levels to
            choose from.
    """
    descriptor = ""
    if media:
        shown = " ".join(f"{name}={_quoted(value)}" for name, value in media.items())
        descriptor = f"<MEDIA_DESCRIPTOR {shown}/>"
    types = _types_of_drawn() if are_drawn else _ANY_WORDS
    data = _NEW.format(media=descriptor, types=types).encode()
    return with_tiers(data, marks, type_name=DRAWN if are_drawn else "")


def _types_of_drawn() -> str:
    """Return the type of a tier of drawn clips, and the words to choose from."""
    entries = ""
    for number, (word, meaning) in enumerate(CHOICES.items()):
        entries += (
            f'\n        <CV_ENTRY_ML CVE_ID="cve{number}">'
            f'<CVE_VALUE DESCRIPTION="{meaning}" LANG_REF="und">{word}</CVE_VALUE>'
            "</CV_ENTRY_ML>"
        )
    return (
        f'<LINGUISTIC_TYPE CONTROLLED_VOCABULARY_REF="levels" LINGUISTIC_TYPE_ID="{DRAWN}"'
        ' TIME_ALIGNABLE="true" GRAPHIC_REFERENCES="false"/>'
        '\n    <LANGUAGE LANG_ID="und" LANG_LABEL="undetermined (und)"'
        ' LANG_DEF="http://cdb.iso.org/lg/CDB-00130975-001"/>'
        '\n    <CONTROLLED_VOCABULARY CV_ID="levels">\n        <DESCRIPTION LANG_REF="und"/>'
        f"{entries}\n    </CONTROLLED_VOCABULARY>"
    )


def with_tiers(
    data: bytes, marks: Iterable[Mark], origin_ms: int = 0, *, type_name: str = ""
) -> bytes:
    """Return a file with more tiers; all else stays, also what no library knows.

    Args:
        data: The file.
        marks: The marks of its film.
        origin_ms: The time in the film that the file calls 0.
        type_name: The type of the new tiers; by default one of the file that takes any words.
    """
    outline = _Outline(data)
    if outline.end_of_slots is None:
        raise Corrupt("not a file of ELAN: TIME_ORDER is missing")
    known_type = type_name or outline.type_name
    used_type = known_type or "obygaze"
    # pympi writes files whose times are called so, and no program counts ids such as og1.
    new_ids = (f"og{n}" for n in count(1) if f"og{n}" not in outline.ids)
    new_slots = (f"ts{n}" for n in count(1) if f"ts{n}" not in outline.ids)
    slots: list[tuple[int, int, str]] = []
    tiers = []
    shown = [mark for mark in marks if milliseconds(mark.end_s) > origin_ms]
    for name, annotator, lane in _lanes(shown, outline.tier_names):
        by = f" ANNOTATOR={_quoted(annotator)}" if annotator else ""
        lines = [
            f"\n    <TIER{by} LINGUISTIC_TYPE_REF={_quoted(used_type)}"
            f" TIER_ID={_quoted(name)}>"
        ]
        for mark in lane:
            key = next(new_ids)
            start = next(new_slots)
            end = next(new_slots)
            # Where one mark ends and the next begins, the end comes first.
            start_ms = max(0, milliseconds(mark.start_s) - origin_ms)
            slots.append((start_ms, 1, start))
            slots.append((milliseconds(mark.end_s) - origin_ms, 0, end))
            lines.append(
                f'<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="{key}"'
                f' TIME_SLOT_REF1="{start}" TIME_SLOT_REF2="{end}">'
                f"<ANNOTATION_VALUE>{escape(mark.value, quote=False)}</ANNOTATION_VALUE>"
                "</ALIGNABLE_ANNOTATION></ANNOTATION>"
            )
        tiers.append("\n        ".join(lines) + "\n    </TIER>")
    if tiers and not known_type:
        tiers.append(
            f'\n    <LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="{used_type}" TIME_ALIGNABLE="true"'
            ' GRAPHIC_REFERENCES="false"/>'
        )
    edits = [*outline.edits_of_slots(slots)] if slots else []
    edits.append((outline.end_of_tiers, outline.end_of_tiers, "".join(tiers)))
    parts = []
    position = 0
    for start_byte, end_byte, text in edits:
        parts += [data[position:start_byte], _encoded(text, outline.encoding)]
        position = end_byte
    return b"".join([*parts, data[position:]])


def milliseconds(time_s: float) -> int:
    """Return the first whole millisecond at which a picture is shown; 1e-9 s is rounding.

    >>> milliseconds(100 * 1001 / 24000), milliseconds(2.0)
    (4171, 2000)
    """
    return -int(-(time_s - 1e-9) * 1000 // 1)


def _encoded(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "xmlcharrefreplace")


def _lanes(
    marks: Iterable[Mark], taken: set[str]
) -> Iterator[tuple[str, str, list[Mark]]]:
    """Yield the name of each new tier, its annotator, and marks that do not overlap."""
    lanes_of: dict[tuple[str, str], list[list[Mark]]] = {}
    for mark in _joined(marks):
        lanes = lanes_of.setdefault((mark.column, mark.annotator), [])
        for lane in lanes:
            if lane[-1].end_s <= mark.start_s:
                lane.append(mark)
                break
        else:
            lanes.append([mark])
    columns = [column for column, _ in lanes_of]
    taken = set(taken)
    for (column, annotator), lanes in lanes_of.items():
        name = column
        is_unclear = "@" in column or _NUMBERED.fullmatch(column) is not None
        if annotator and (is_unclear or columns.count(column) > 1):
            name = f"{column}@{annotator.replace('@', '_')}"
        for lane in lanes:
            unused = name
            number = 1
            while unused in taken:
                number += 1
                unused = f"{name} #{number}"
            taken.add(unused)
            yield unused, annotator, lane


def _joined(marks: Iterable[Mark]) -> list[Mark]:
    """Return marks in order; the values of one span in a column are one annotation."""
    comments = []
    values: dict[Mark, dict[str, None]] = {}
    for mark in sorted(marks):
        if mark.column == COMMENT:
            comments.append(mark)
        else:
            values.setdefault(mark._replace(value=""), {})[mark.value] = None
    joined = [mark._replace(value="|".join(words)) for mark, words in values.items()]
    return sorted([*joined, *comments])


def _column_and_person(name: str, names: set[str]) -> tuple[str, str]:
    """Return the column of a tier, and who is behind the @ of its name, "" for nobody."""
    numbered = _NUMBERED.fullmatch(name)
    if numbered and numbered[1] in names:
        name = numbered[1]
    column, _, person = name.rpartition("@")
    return (column, person) if column and person else (name, "")


def _stated_annotator(name: str, facts: Mapping[str, str]) -> str:
    """Return who annotated, as a tier says it; its participant is who is seen or heard."""
    return (
        printable_line(facts.get("ANNOTATOR", ""))
        or _column_and_person(printable_line(name), set())[1]
    )


def _read(path: Path, data: bytes) -> Any:
    """Return the file as pympi reads it; an error if it is not a file of ELAN."""
    elan = need("pympi.Elan", "elan", "reading files of ELAN")
    try:
        _Outline(data)
        return elan.Eaf(str(path), suppress_version_warning=True)
    except KeyError as error:
        # The name of an attribute may have its namespace before it, in braces.
        name = str(error.args[0]).rpartition("}")[2]
        problem = f"{name} is missing"
    except (expat.ExpatError, LookupError, TypeError, ValueError) as error:
        problem = str(error)
    raise Corrupt(f"not a file of ELAN: {problem}", where=str(path))


class _Outline:
    """Where the parts of a file are, in bytes; an error for what is no ELAN document.

    A document type is an error, too: it could define entities. The parser calls its handler in
    every encoding.
    """

    def __init__(self, data: bytes) -> None:
        self.ids: set[str] = set()
        self.tier_names: set[str] = set()
        # A type of tiers that have times of their own, and any words.
        self.type_name = ""
        self.encoding = "utf-8"
        self.end_of_slots: int | None = None
        self.end_of_tiers = 0
        self._has_slots = True
        self._slots: list[tuple[int, int]] = []
        self._tags: list[str] = []
        self._data = data
        # With name spaces as pympi reads it, which raises no error for what is wrong there.
        self._parser = expat.ParserCreate(namespace_separator="}")
        self._parser.XmlDeclHandler = self._declaration
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.Parse(data, True)
        if self._tags[0] != "ANNOTATION_DOCUMENT":
            raise ValueError(f"expected an ANNOTATION_DOCUMENT, got {self._tags[0]}")

    def edits_of_slots(
        self, slots: Iterable[tuple[int, int, str]]
    ) -> Iterator[tuple[int, int, str]]:
        """Yield where to put new times among those that are there, in their order."""
        # A slot without a time stays behind the one before it.
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
        self._tags.append(tag)
        for name in ("TIME_VALUE", "TIME_ORIGIN"):
            time = attributes.get(name, "0")
            if not _MILLISECONDS.fullmatch(time):
                raise ValueError(f"{name} of a {tag} is {time[:20]!r}, no number")
        if attributes.get("TIME_UNITS", "milliseconds") != "milliseconds":
            raise ValueError("its times are not in milliseconds")
        if tag == "TIME_SLOT":
            ms = int(attributes.get("TIME_VALUE", "0"))
            self._slots.append((self._parser.CurrentByteIndex, ms))
        for name in ("ANNOTATION_ID", "TIME_SLOT_ID"):
            self.ids.add(attributes.get(name, ""))
        if tag == "TIER":
            self.tier_names.add(printable_line(attributes.get("TIER_ID", "")))
        has_words = (
            "CONSTRAINTS" in attributes or "CONTROLLED_VOCABULARY_REF" in attributes
        )
        if tag == "LINGUISTIC_TYPE" and not has_words:
            name = attributes.get("LINGUISTIC_TYPE_ID", "")
            self.type_name = self.type_name or name

    def _end(self, tag: str) -> None:
        if tag not in ("TIME_ORDER", "TIER"):
            return
        position = self._parser.CurrentByteIndex
        # Of a tag such as <TIER/>, this is behind it.
        has_end = self._data.startswith(f"</{tag}".encode(), position)
        if tag == "TIME_ORDER":
            self.end_of_slots = position
            self._has_slots = has_end
        self.end_of_tiers = position
        if has_end:
            self.end_of_tiers = self._data.index(b">", position) + 1


def _quoted(text: str) -> str:
    """Return a text as the value of an attribute, in quotes."""
    return f'"{escape(text)}"'

"""Exchange segments, labels and predictions with annotation tools and editing programs.

A template writes the segments of one film in each format; a function reads each format into
marks. Times are exact fractions of frames. Milliseconds are rounded up, so that a player that
seeks to one shows the frame; reading takes the nearest frame.
"""

import html
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.adapters import ImportedManifest, source_of
from obygaze_features.manifest.frame_rate import frame_rate, frame_rate_text, known_frame_rate
from obygaze_features.manifest.link import film_span
from obygaze_features.manifest.model import Clip, Header, Manifest, ascii_id
from obygaze_features.manifest.projection import Segment
from obygaze_features.manifest.tables import open_file, read_table
from obygaze_features.manifest.vocabulary import (
    canonical_concept,
    canonical_level,
    concept_meaning,
    concepts,
)

# The template of each format; its extension is that of the files.
FORMATS = {
    path.stem: path for path in sorted(Path(__file__).with_name("exchange_formats").iterdir())
}
EXTRA = ("annotator", "start_frame", "end_frame", "framerate", "comment")
SHOT_COLUMNS = {"Start Frame": "start_frame", "End Frame": "end_frame", "Scene Number": "comment"}
_SCORE = re.compile(r"score|cosine|p:.*|score:.*")
_TIME = r"(?:([0-9]{2,6}):)?([0-9]{2}):([0-9]{2}\.[0-9]{3})"
_CUE = re.compile(rf"(?:.*\n)?{_TIME}[ \t]+-->[ \t]+{_TIME}(?:[ \t].*)?\n([^\0]*)")
_VOICE = re.compile(r"<v(?:\.[^ \t>]*)?[ \t]+([^>]*)>")
_TEXT = re.compile(r"<c\.(level|concept|comment)>([^<]*)</c>|<[^>]*>|([^<\n]+)")
_MS = re.compile(r"-?[0-9]{1,12}")

# A text of an annotation with its kind: level, concept, comment, or any other word.
Text = tuple[str, str]
Marked = tuple[str, str, str, tuple[str, ...], str]
# Film and annotator, "" if the file does not name them; start and end in seconds; texts.
Mark = tuple[str, str, Fraction, Fraction, Sequence[Text]]


@dataclass(frozen=True)
class FilmSegments:
    """The segments of one film."""

    movie_id: str
    fps: Fraction
    video: Path | None
    segments: list[Segment] = field(default_factory=list)

    def ms(self, frame: int) -> int:
        """Return the first whole millisecond at which a frame is shown."""
        return math.ceil(1000 * frame / self.fps)

    def lanes(self) -> dict[str, list[Segment]]:
        """Return the segments of each annotator in order; overlapping ones in further lanes."""
        lanes: dict[str, list[Segment]] = {}
        for one in sorted(self.segments, key=lambda s: (s.annotator, s.start_frame, s.end_frame)):
            for number in range(1, len(self.segments) + 1):
                name = one.annotator if number == 1 else f"{one.annotator} #{number}"
                lane = lanes.setdefault(name, [])
                if not lane or lane[-1].end_frame < one.start_frame:
                    lane.append(one)
                    break
        return lanes


def frames_between(start_s: Fraction, end_s: Fraction, fps: Fraction) -> tuple[int, int]:
    """Return the first and the last frame between two times, at least one frame."""
    first = max(0, round(start_s * fps))
    return first, max(first, round(end_s * fps) - 1)


def plain(text: str) -> str:
    """Return text on one line, without characters that cannot be printed."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def films_of(
    manifest: Manifest, predictions: Path | None = None, *, fps: float | str | None = None
) -> tuple[list[FilmSegments], list[str]]:
    """Return the segments of each film, and the clips left out because they have no times in it.

    `predictions`, a table with clip_id and scores, takes the place of levels and concepts. `fps`
    is the frame rate of clips without a column `framerate`.
    """
    films, without = dict[str, FilmSegments](), []
    for clip_id, annotator, level, names, comment in _marked(manifest, predictions):
        clip = manifest[clip_id]
        in_film = (clip.start_s, clip.end_s) if manifest.header.unit == "window" else None
        span = [Fraction(repr(at)) for at in in_film or film_span(clip) or () if at is not None]
        if not span:
            without.append(clip_id)
            continue
        written = clip.extra.get("framerate") or fps or ""
        rate = known_frame_rate(written)
        if rate is None:
            what = f"the frame rate of clip {clip_id} is not known, got {str(written)!r}"
            raise FixUsage(what, hint="--fps 24, or that of the film")
        frames = frames_between(span[0], span[1], rate)
        video = Path(manifest.header.video_root, clip.video) if clip.video else None
        film = films.setdefault(clip.movie_id, FilmSegments(clip.movie_id, rate, video))
        who, own = plain(annotator), tuple(dict.fromkeys(map(plain, names)))
        one = Segment(clip.movie_id, who, *frames, level, own, plain(comment))
        film.segments.append(one)
    if not films:
        what = "no clip has a level and times in its film; nothing to export"
        raise FixInput(what, where=manifest.name, hint="obygaze manifest link --help")
    return list(films.values()), without


def _marked(manifest: Manifest, predictions: Path | None) -> Iterator[Marked]:
    """Yield what is to be exported: clip, annotator, level, concepts, comment."""
    if predictions is None:
        for clip in manifest:
            who, comment = clip.extra.get("annotator", ""), clip.extra.get("comment", "")
            if who or clip.level:
                yield clip.clip_id, who or manifest.name, clip.level, clip.concepts, comment
        return
    table = read_table(predictions, required=("clip_id",), content="predictions")
    makers = [name for name in ("task", "model", "feature", "seed") if name in table.columns]
    for row in table.rows:
        who = " ".join(row[name] for name in makers) or predictions.stem
        scores = [f"{name} {cell}" for name, cell in row.cells.items() if _SCORE.fullmatch(name)]
        level = row.cells.get("decision", "")
        yield row["clip_id"], who, canonical_level(level) or "", (), ", ".join(scores)


def export(films: Iterable[FilmSegments], kind: str, folder: Path) -> dict[Path, bytes]:
    """Return the files of films in one of the `FORMATS`, by their paths in a folder."""
    from jinja2 import Template

    text, ending = FORMATS[kind].read_text("utf-8"), FORMATS[kind].suffix
    template = Template(text, autoescape=True, trim_blocks=True, extensions=["jinja2.ext.do"])
    meanings = {name: concept_meaning(name) for name in concepts()}
    files: dict[Path, bytes] = {}
    for film in films:
        text = template.render(film=film, fps_text=frame_rate_text(film.fps), meanings=meanings)
        files[folder / f"{film.movie_id}{ending}"] = text.encode()
    return files


def read_elan(text: str, path: Path, fps: Fraction) -> Iterator[Mark]:
    """Yield the annotations of an ELAN file that have times, each with those that refer to it."""
    try:
        if "<!DOCTYPE" in text:
            raise ValueError("a document type is not allowed")  # it could define entities
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        what = f"not a file of ELAN: {error}"
        raise FixInput(what, where=str(path), hint="save it again in ELAN") from None
    media = root.find("HEADER/MEDIA_DESCRIPTOR[@TIME_ORIGIN]")
    origin = "0" if media is None else media.get("TIME_ORIGIN", "")
    times = {one.get("TIME_SLOT_ID"): one.get("TIME_VALUE", "") for one in root.iter("TIME_SLOT")}
    texts, timed = dict[str, list[Text]](), list[tuple[str, str, list[str]]]()
    for tier in root.iterfind("TIER"):
        who, kind = tier.get("ANNOTATOR") or tier.get("TIER_ID"), tier.get("LINGUISTIC_TYPE_REF")
        for one in tier.iterfind("ANNOTATION/*"):
            name = one.get("ANNOTATION_ID", "")
            slots = [times.get(one.get(f"TIME_SLOT_REF{n}"), "") for n in (1, 2)]
            if all(map(_MS.fullmatch, [*slots, origin])):
                timed.append((name, who or "", slots))
            said = kind or "", one.findtext("ANNOTATION_VALUE") or ""
            texts.setdefault(one.get("ANNOTATION_REF", name), []).append(said)
    for name, annotator, slots in timed:
        start, end = (Fraction(int(origin) + int(ms), 1000) for ms in slots)
        yield "", annotator, start, end, texts[name]


def read_vtt(text: str, path: Path, fps: Fraction) -> Iterator[Mark]:
    """Yield the cues of a WebVTT file; the annotator of a cue is its voice."""
    for cue in filter(None, map(_CUE.fullmatch, re.split(r"\n{2,}", text))):
        *cells, payload = cue.groups("0")
        start, end = (
            3600 * int(hours) + 60 * int(minutes) + Fraction(seconds)
            for hours, minutes, seconds in (cells[:3], cells[3:])
        )
        voice, found = _VOICE.search(payload), _TEXT.finditer(payload)
        texts = [(one[1] or "", html.unescape(one[2] or one[3] or "")) for one in found]
        yield "", html.unescape(voice[1]) if voice else "", start, end, texts


def read_rows(text: str, path: Path, fps: Fraction) -> Iterator[Mark]:
    """Yield the rows of a table of segments, or of the shots that PySceneDetect found."""
    base = int("Scene Number" in text)  # it counts frames from 1, below a line of timecodes
    text = text.partition("\n")[2] if text.startswith("Timecode List") else text
    for title, column in SHOT_COLUMNS.items():
        text = text.replace(title, column, 1)
    rows = read_table(path, required=EXTRA[1:3], content="rows", data=text.encode()).rows
    for row in rows:
        first, last = row.frames() or (base, base)
        said = [("concept", name) for name in row.cells.get("concepts", "").split("|")]
        said += [(kind, row.cells.get(kind, "")) for kind in ("level", "comment")]
        who, film = row.cells.get("annotator", "shots"), row.cells.get("movie_id", "")
        yield film, who, (first - base) / fps, (last + 1 - base) / fps, said
    rows[0].violations.raise_if_any("this table cannot be read")


READERS = {".eaf": read_elan, ".vtt": read_vtt, ".csv": read_rows}


def label_of(texts: Iterable[Text]) -> tuple[str, tuple[str, ...], str]:
    """Return level, concepts and comment; text of another kind is what its words say it is."""
    found: dict[str, list[str]] = {"level": [], "concept": [], "comment": []}
    for kind, text in ((kind, plain(text)) for kind, text in texts if text.strip()):
        names = {"level": canonical_level(text), "concept": canonical_concept(text)}
        if kind not in found or (kind == "level" and not names["level"]):
            kind = next((kind for kind, name in names.items() if name), "comment")
        found[kind].append(names.get(kind) or text)
    own = tuple(dict.fromkeys(name.replace("|", "/") for name in found["concept"]))
    return "".join(found["level"][:1]), own, " ".join(found["comment"])


def import_segments(files: Sequence[Path], name: str, fps: float | str) -> ImportedManifest:
    """Return the manifest of the segments in files (`READERS`), each called after its film."""
    rate = frame_rate(fps)
    clips: list[Clip] = []
    for path in files:
        if path.suffix not in READERS:
            raise FixUsage(f"expected a file named {', '.join(READERS)}", where=str(path))
        with open_file(path) as stream:
            text = stream.read().decode("utf-8-sig", "replace").replace("\r\n", "\n")
        stem = ascii_id(path.stem.removesuffix("-Scenes"))
        for given, who, start, end, texts in READERS[path.suffix](text, path, rate):
            film, (level, own, comment) = given or stem, label_of(texts)
            first, last = frames_between(start, end, rate)
            clip_id = ascii_id(f"{film}-{who or 'cue'}-{len(clips) + 1:04d}")
            cells = (plain(who) or "cue", str(first), str(last), frame_rate_text(rate), comment)
            span = (float(first / rate), float((last + 1) / rate))
            extra = dict(zip(EXTRA, cells, strict=True))
            clips.append(Clip(clip_id, film, None, "", *span, level, own, extra))
    if not clips:
        hint = "check that the program that wrote the file opens it and shows annotations"
        raise FixInput("no annotation has times", where=", ".join(map(str, files)), hint=hint)
    known = {name: "unknown" for clip in clips for name in clip.concepts} | {**concepts()}
    header = Header(name, known, unit="segment", sources=tuple(map(source_of, files)))
    return ImportedManifest(Manifest(name, header, tuple(clips), EXTRA))

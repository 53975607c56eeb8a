"""Marks as WebVTT: a cue for each, with the annotator as its voice."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from obygaze.films.mark_tables import FilmSegments, ReadMark, Segment, concept_of, plain
from obygaze_features.core.cues import vtt_cues
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.vocabulary import canonical_level

# Without a block of styles: FFmpeg 5 reads no cue of a file that has one.
_HEAD = "WEBVTT {film}\n\n"
# A tag ends before the next one: without this, many marks "<" take hours.
_VOICE = re.compile(r"<v(?:\.[^ \t<>]*)?[ \t]+([^<>]*)>")
_TEXT = re.compile(r"<c\.(level|concept|comment)>([^<]*)</c>|<[^<>]*>|([^<\n]+)")


def write_vtt(film: FilmSegments) -> bytes:
    """Return the marks of a film as WebVTT; time that was only watched is left out."""
    parts = [_HEAD.format(film=film.movie_id)]
    in_order = sorted(
        film.marks, key=lambda mark: (mark.start_frame, mark.end_frame, mark.annotator)
    )
    for number, mark in enumerate(in_order, start=1):
        start = _clock(film.ms(mark.start_frame))
        end = _clock(film.ms(mark.end_frame + 1))
        parts.append(f"{number}\n{start} --> {end}\n{_payload(mark)}\n\n")
    return "".join(parts).encode()


def _payload(mark: Segment) -> str:
    texts = [("level", mark.level)] if mark.level else []
    texts += [("concept", name) for name in mark.concepts]
    if mark.comment:
        texts.append(("comment", mark.comment))
    spoken = [f"<c.{kind}>{_escaped(text)}</c>" for kind, text in texts]
    return f"<v {_escaped(mark.annotator)}>{' '.join(spoken)}</v>"


def _escaped(text: str) -> str:
    """Return text as a cue has it; quotation marks stay, as players do not read `&#x27;`."""
    return html.escape(text, quote=False)


def _clock(ms: int) -> str:
    seconds, ms = divmod(ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}.{ms:03d}"


def read_vtt(data: bytes, path: Path) -> Iterator[ReadMark]:
    """Yield the cues of a file; the annotator of a cue is its voice."""
    for cue in vtt_cues(_text_of(data, path).split("\n"), path):
        voices = {html.unescape(name) for name in _VOICE.findall(cue.text)}
        if len(voices) > 1:
            raise FixInput(
                f"the cue {cue.timing} has several voices, expected one",
                where=str(path),
                hint="make a cue for each voice",
            )
        mark = ReadMark("".join(voices), cue.start_s, cue.end_s)
        yield _mark_of(mark, cue.text, cue.timing, path)


def _mark_of(mark: ReadMark, spoken: str, timed: str, path: Path) -> ReadMark:
    """Return a mark with what is said in its cue; text without a class is a comment."""
    levels: list[str] = []
    concepts: list[str] = []
    comments: list[str] = []
    for match in _TEXT.finditer(spoken):
        kind, marked, other = match.groups("")
        text = plain(html.unescape(marked or other))
        if not text:
            continue
        if kind == "level":
            level = canonical_level(text)
            if level is None:
                expected = f"expected one of {', '.join(LEVELS)}"
                raise FixInput(
                    f"the cue {timed} has the level {text!r}, {expected}",
                    where=str(path),
                )
            levels.append(level)
        elif kind == "concept":
            concepts.append(concept_of(text))
        else:
            comments.append(text)
    if len(set(levels)) > 1:
        raise FixInput(
            f"the cue {timed} has the levels {', '.join(levels)}, expected one",
            where=str(path),
        )
    return mark._replace(
        level=levels[0] if levels else "",
        concepts=tuple(dict.fromkeys(concepts)),
        comment=" ".join(comments),
    )


def _text_of(data: bytes, path: Path) -> str:
    """Return the text of a file with the line breaks of Unix."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"byte 0x{data[error.start]:02X} is not UTF-8, which WebVTT must be"
        hint = "save it as UTF-8: iconv -f latin1 -t utf-8 OLD.vtt > NEW.vtt"
        raise FixInput(problem, where=f"{path}:{line}", hint=hint) from None

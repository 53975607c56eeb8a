"""WebVTT: a cue for each mark, with the annotator as its voice and the column as a class."""

import html
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from obygaze.films.elan import milliseconds
from obygaze.films.marks import COMMENT, WATCHED, Mark, plain
from obygaze_features.core.cues import read_cues
from obygaze_features.core.errors import FixInput

# Without a block of styles: FFmpeg 5 reads no cue of a file that has one.
_HEAD = "WEBVTT {film}\n\n"
# A tag ends before the next one: without this, many marks "<" take hours.
_VOICE = re.compile(r"<v(?:\.[^ \t<>]*)?[ \t]+([^<>]*)>")
_COLUMN = re.compile(r"<c\.column>([^<]*)</c>")
_TAG = re.compile(r"<[^<>]*>")


def write_vtt(film: str, marks: Iterable[Mark]) -> bytes:
    """Return the marks of a film as WebVTT; time that was only watched is no subtitle."""
    parts = [_HEAD.format(film=film)]
    shown = [mark for mark in sorted(marks) if mark.column != WATCHED]
    for number, mark in enumerate(shown, start=1):
        start = _clock(milliseconds(mark.start_s))
        end = _clock(milliseconds(mark.end_s))
        text = _escaped(mark.value)
        if mark.column != COMMENT:
            text = f"<c.column>{_escaped(mark.column)}</c> {text}"
        if mark.annotator:
            text = f"<v {_escaped(mark.annotator)}>{text}</v>"
        parts.append(f"{number}\n{start} --> {end}\n{text}\n\n")
    return "".join(parts).encode()


def _escaped(text: str) -> str:
    """Return text as a cue has it; quotation marks stay, as players do not read `&#x27;`."""
    return html.escape(text, quote=False)


def _clock(ms: int) -> str:
    seconds, ms = divmod(ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}.{ms:03d}"


def read_vtt(path: Path, film: str) -> Iterator[Mark]:
    """Yield the cues of a file; a cue without a column is a comment."""
    for cue in read_cues(path):
        voices = {plain(html.unescape(name)) for name in _VOICE.findall(cue.text)}
        if len(voices) > 1:
            raise FixInput(
                f"the cue {cue.timing} has several voices, expected one",
                where=str(path),
                hint="make a cue for each voice",
            )
        named = _COLUMN.search(cue.text)
        column = plain(html.unescape(named[1])) if named else ""
        text = plain(html.unescape(_TAG.sub("", _COLUMN.sub("", cue.text))))
        annotator = "".join(voices) or plain(path.stem)
        span_s = (float(cue.start_s), float(cue.end_s))
        yield Mark(film, *span_s, column or COMMENT, text, annotator)

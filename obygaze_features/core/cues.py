"""Subtitle cues with their times, read from SubRip and WebVTT files."""

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.errors import FixInput
from obygaze_features.core.tables import text_lines

# Hours, minutes, seconds.
_VTT = re.compile(r"(?:([0-9]{2,6}):)?([0-5][0-9]):([0-5][0-9]\.[0-9]{3})")
_SRT = re.compile(r"([0-9]{1,6}):([0-5]?[0-9]):([0-5]?[0-9](?:[.,][0-9]{1,3})?)")
_ARROW = "-->"
# A line of times with a damaged arrow, as in 0:00:01,000 -> 0:00:02,000, which is not speech.
_CLOCK = r"(?:[0-9]{1,6}:){1,2}[0-9]{1,2}[.,][0-9]{1,3}"
_TWO_TIMES = re.compile(rf"{_CLOCK}[^0-9]{{0,9}}{_CLOCK}")
# Override tags of SubStation Alpha, which files of SubRip have too.
_OVERRIDES = re.compile(r"\{\\[^{}]*\}")
_BREAKS = re.compile(r"\\[Nnh]|<br ?/?>", re.IGNORECASE)
_TAGS = re.compile(r"</?[A-Za-z][^<>]*>|<[0-9:.]+>")
_MUSIC = re.compile("[♩♪♫♬♭♯]")
# Joiners without width, which Persian spelling needs.
_JOINERS = "\u200c\u200d"


class Cue(NamedTuple):
    """A subtitle cue: text, and the times at which it is shown.

    Attributes:
        start_s: Start time, in seconds.
        end_s: End time, in seconds.
        text: The text of the file, with the tags of its format; `spoken` removes tags.
        where: The file and the line.
    """

    start_s: Fraction
    end_s: Fraction
    text: str
    where: str = ""


def spoken(text: str) -> str:
    """Return the words of a cue on one line, without tags, positions and music symbols.

    The result is empty for a cue without letters and digits, such as "..." or "-".

    >>> spoken("{\\\\an8}<i>Tea</i> &amp; ♪ cake")
    'Tea & cake'
    """
    text = _TAGS.sub("", _BREAKS.sub(" ", _OVERRIDES.sub("", text)))
    text = _MUSIC.sub(" ", html.unescape(text))
    printable = []
    for sign in text:
        if sign.isprintable() or sign in _JOINERS:
            printable.append(sign)
        elif unicodedata.category(sign) != "Cf":
            printable.append(" ")
    line = " ".join("".join(printable).split())
    return line if n_words(line) else ""


def n_words(text: str) -> int:
    """Return the number of words; a word contains a letter or digit, and blanks separate words."""
    n = 0
    for word in text.split():
        if any(map(str.isalnum, word)):
            n += 1
    return n


def read_cues(path: Path) -> list[Cue]:
    """Return the cues of a subtitle file, in the order of the file; an error names the line."""
    lines = [line.rstrip("\r\n") for line in text_lines(path)]
    cues = list(READERS[path.suffix.lower()](lines, path))
    if not cues:
        raise FixInput("the file has no cues", where=str(path))
    return cues


def vtt_cues(lines: Sequence[str], path: Path) -> Iterator[Cue]:
    """Yield the cues of WebVTT; a cue ends at the next empty line."""
    for timing, said in _timed_lines(lines):
        end = said.index("") if "" in said else len(said)
        yield _cue(_VTT, lines[timing], said[:end], f"{path}:{timing + 1}")


def srt_cues(lines: Sequence[str], path: Path) -> Iterator[Cue]:
    """Yield the cues of SubRip.

    A cue may contain empty lines. It ends before the next line with times, or, if cues are
    numbered, before the number above that line.
    """
    cues = list(_timed_lines(lines))
    first = next((timing for timing, _ in cues), 0)
    before_times = [lines[:first], *(said for _, said in cues[:-1])]
    # In a file with numbered cues, some numbers may be missing. In other files, a line of text may
    # be a number.
    n_numbers = sum(map(_ends_with_number, before_times))
    is_numbered = n_numbers > len(before_times) / 2
    for timing, said in cues:
        is_last = timing + 1 + len(said) == len(lines)
        if is_numbered and not is_last and _ends_with_number(said):
            said = _strip_empty_end(said)[:-1]
        yield _cue(_SRT, lines[timing], said, f"{path}:{timing + 1}")


def _ends_with_number(lines: Sequence[str]) -> bool:
    """Return whether the last non-empty line is a number."""
    return any(line.strip().isdecimal() for line in _strip_empty_end(lines)[-1:])


def _strip_empty_end(lines: Sequence[str]) -> Sequence[str]:
    """Return lines without the empty lines at the end."""
    n_lines = len(lines)
    while n_lines and not lines[n_lines - 1].strip():
        n_lines -= 1
    return lines[:n_lines]


READERS: Mapping[str, Callable[[Sequence[str], Path], Iterator[Cue]]] = {
    ".srt": srt_cues,
    ".vtt": vtt_cues,
}


def _timed_lines(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the index of each line with times, and the lines between it and the next such line."""
    places = [place for place, line in enumerate(lines) if _ARROW in line]
    for place, after in pairwise([*places, len(lines)]):
        yield place, lines[place + 1 : after]


def _cue(form: re.Pattern[str], timing: str, said: Sequence[str], where: str) -> Cue:
    """Return the cue of a line with times; screen positions after the times are ignored."""
    start, _, rest = timing.partition(_ARROW)
    after_arrow = rest.split()
    end = after_arrow[0] if after_arrow else ""
    times = []
    for text in (start.strip(), end):
        match = form.fullmatch(text)
        if match is None:
            raise FixInput(
                f"expected times such as 00:01:02.500 --> 00:01:04.000, got {timing[:60]!r}",
                where=where,
            )
        hours, minutes, seconds = match.groups("0")
        exact = Fraction(seconds.replace(",", "."))
        times.append(3600 * int(hours) + 60 * int(minutes) + exact)
    start_s, end_s = times
    for line in said:
        if _TWO_TIMES.match(line.replace(" ", "")):
            raise FixInput(
                f"expected text, or {_ARROW} between two times, got {line[:60]!r}",
                where=where,
            )
    if end_s < start_s:
        raise FixInput(f"the cue ends before it begins: {timing}", where=where)
    return Cue(start_s, end_s, "\n".join(said), where)

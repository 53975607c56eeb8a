"""Read the times in a table: seconds, milliseconds, clock times, and short times such as 1:05."""

import re
from collections.abc import Sequence
from fractions import Fraction

from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.tables import TableRow, number_of_cell
from obygaze_features.manifest.spans import FILM_TIMES

SPAN_COLUMNS = ("start_s", "end_s")
ALL_TIMES = (*SPAN_COLUMNS, *FILM_TIMES)
# The columns of the same times as clock times, which `manifest show` writes, too.
CLOCK_COLUMNS = ("start", "end")
# The formats that 1:05 may have. Excel shows times without seconds as h:mm.
MINUTES = "m:ss"
HOURS = "h:mm"
SHORT_TIMES = (MINUTES, HOURS)
# The format of times that are whole milliseconds.
MILLISECONDS = "ms"
# The words of a header with times in milliseconds, in minutes or hours, and those of other formats:
# hh:mm:ss.ms.
_IN_MILLISECONDS = (
    "ms msec msecs millis millisecond milliseconds millisekunde millisekunden milliseconde"
    " millisecondes millisecondi milisegundos"
)
_IN_MINUTES = "min mins minute minutes minuten minuti minutos h hour hours stunden heures ore horas"
_IN_OTHERS = "s sec secs second seconds sek sekunden secondes secondi segundos ss mm hh"
_SECONDS = re.compile(r"[0-9]+(?:[.,][0-9]+)?")
_MAYBE_THOUSANDS = re.compile(r"[0-9]{1,3}[.,][0-9]{3}")
# With hours, minutes are below 60.
_CLOCK = re.compile(
    r"(?:(?P<hours>[0-9]{1,9}):(?=[0-5]?[0-9]:))?(?P<minutes>[0-9]{1,9})"
    r":(?P<seconds>[0-5]?[0-9](?:[.,][0-9]{1,400})?)"
)
# Short times, except 0:00, which is the same in minutes and in hours.
_SHORT = re.compile(r"(?=.*[1-9])[0-9]{1,9}:[0-5]?[0-9](?:[.,][0-9]{1,400})?")
# A column of times has more than 4 times for each cell that is not a time.
MOST_WRONG = 4


def says_milliseconds(column: str) -> bool:
    """Return whether a header says that a column has milliseconds.

    >>> says_milliseconds("Begin Time - msec"), says_milliseconds("Begin Time - ss.msec")
    (True, False)
    """
    return _says(column, _IN_MILLISECONDS)


def says_seconds(column: str) -> bool:
    """Return whether a header says that a column has seconds or clock times.

    >>> says_seconds("Start (s)"), says_seconds("In")
    (True, False)
    """
    return not header_words(column).isdisjoint(_IN_OTHERS.split())


def says_minutes(column: str) -> bool:
    """Return whether a header says that a column has minutes or hours.

    >>> says_minutes("Start (min)"), says_minutes("Start (min:sec)")
    (True, False)
    """
    return _says(column, _IN_MINUTES)


def _says(column: str, unit: str) -> bool:
    words = header_words(column)
    return words.isdisjoint(_IN_OTHERS.split()) and not words.isdisjoint(unit.split())


def header_words(column: str) -> set[str]:
    """Return the words of a header in lower case and without accents.

    >>> sorted(header_words("Début [s]")), sorted(header_words("startTime"))
    (['debut', 's'], ['start', 'starttime', 'time'])
    """
    plain = ascii_id(column)
    words = re.findall("[A-Za-z]+", plain) + re.findall("[A-Z]?[a-z]+", plain)
    return {word.casefold() for word in words}


def is_short(text: str) -> bool:
    """Return whether a time such as 1:05 may be m:ss or h:mm."""
    return _SHORT.fullmatch(text.strip()) is not None


def is_time(text: str) -> bool:
    """Return whether a cell is a time: seconds, a clock time, or a short time such as 1:05."""
    return bool(_SECONDS.fullmatch(text.strip()) or _CLOCK.fullmatch(text.strip()))


def has_times(cells: Sequence[str]) -> bool:
    """Return whether most cells of a column are times; the others may be typing errors."""
    n_times = sum(map(is_time, cells))
    return n_times > MOST_WRONG * (len(cells) - n_times)


def has_clock_times(cells: Sequence[str]) -> bool:
    """Return whether most cells of a column are times, and some have minutes."""
    return has_times(cells) and ":" in "".join(cells)


def comes_before(starts: Sequence[str], ends: Sequence[str]) -> bool:
    """Return whether the clock time in each cell of a column is before that of another column.

    >>> comes_before(["0:08", "1:05"], ["0:10", "1:07,5"]), comes_before(["0:08"], ["0:02"])
    (True, False)
    """
    pairs = [both for both in zip(starts, ends, strict=True) if all(map(is_time, both))]
    return bool(pairs) and all(
        time_size(one) < time_size(other) for one, other in pairs
    )


def time_size(time: str) -> float:
    """Return a number that grows with a clock time, in whichever unit."""
    size = 0.0
    for part in time.strip().replace(",", ".").split(":"):
        size = 60 * size + float(part)
    return size


def in_seconds(text: str, *, has_decimal_comma: bool, form: str = "") -> str:
    """Return a time in seconds as a manifest writes it; other text is returned unchanged.

    Args:
        text: The cell.
        has_decimal_comma: Whether 70,5 is a number.
        form: The format of 1:05, one of `SHORT_TIMES`, or `MILLISECONDS`. Without the first, a time
            such as 1:05 stays unchanged.

    >>> in_seconds("0:01:10.1", has_decimal_comma=False), in_seconds("x", has_decimal_comma=False)
    ('70.1', 'x')
    >>> [in_seconds("1:05", has_decimal_comma=False, form=form) for form in SHORT_TIMES]
    ['65.0', '3900.0']
    >>> in_seconds("70100", has_decimal_comma=False, form=MILLISECONDS)
    '70.1'
    """
    stripped = text.strip()
    if "," in stripped and not has_decimal_comma:
        return text
    if _SECONDS.fullmatch(stripped) and form == MILLISECONDS:
        # The sign may separate thousands.
        if _MAYBE_THOUSANDS.fullmatch(stripped):
            return f"{stripped} ms"
        return repr(float(Fraction(stripped.replace(",", ".")) / 1000))
    if _SECONDS.fullmatch(stripped):
        return stripped.replace(",", ".")
    time = _CLOCK.fullmatch(stripped)
    if time is None or (is_short(stripped) and form not in SHORT_TIMES):
        return text
    # The parts are fractions, so that 0:01:10.1 is 70.1 and not 70.09999999999999.
    parts = [Fraction((part or "0").replace(",", ".")) for part in time.groups()]
    hours, minutes, seconds = parts
    exact = 3600 * hours + 60 * minutes + seconds
    is_in_hours = form == HOURS and not time["hours"]
    return repr(float(60 * exact if is_in_hours else exact))


def unclear_time(text: str) -> str:
    """Return the sentence for a time that may be minutes or hours."""
    ways = []
    for form in SHORT_TIMES:
        seconds = in_seconds(text, has_decimal_comma=True, form=form)
        ways.append(f"{seconds.removesuffix('.0')} s with --map times={form}")
    return f"{text!r} may be minutes or hours: {', '.join(ways)}"


def check_clock(
    row: TableRow, shown: str, seconds: str, columns: tuple[str, str]
) -> None:
    """Add a violation if a clock time differs from the seconds in the same row.

    The user may have corrected one of the two, but only the seconds are read.

    Args:
        row: The row.
        shown: The clock time.
        seconds: The time in seconds.
        columns: The columns of the clock time and of the seconds.
    """
    number = number_of_cell(seconds)
    in_text = in_seconds(shown, has_decimal_comma=True)
    if number is None or shown.count(":") != 2 or ":" in in_text:
        return
    # A spreadsheet may show fewer decimals.
    n_decimals = len(shown.replace(",", ".").partition(".")[2])
    if abs(float(in_text) - number) >= 0.1**n_decimals:
        clock, column = columns
        row.add(
            clock,
            f"{shown} differs from {column}, {number:.10g} s; correct one of the two, or rename"
            " this column",
        )

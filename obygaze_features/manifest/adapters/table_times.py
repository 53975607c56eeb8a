"""The times in a table: seconds, clock times with hours, and times such as 1:05 of one meaning."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from obygaze_features.core.tables import TableRow, number_of_cell

SPAN_COLUMNS = ("start_s", "end_s")
# The same times as a person reads them, which `manifest show` writes beside the seconds.
CLOCK_COLUMNS = ("start", "end")
# What 1:05 may be. Excel shows its times without seconds in the second way.
MINUTES = "m:ss"
HOURS = "h:mm"
SHORT_TIMES = (MINUTES, HOURS)
_SECONDS = re.compile(r"[0-9]+(?:[.,][0-9]+)?")
_SHORT = re.compile(
    r"(?P<first>[0-9]{1,9}):(?P<second>[0-5]?[0-9](?:[.,][0-9]{1,400})?)"
)
_LONG = re.compile(
    r"(?P<hours>[0-9]{1,9}):(?P<minutes>[0-5]?[0-9]):(?P<seconds>[0-5]?[0-9](?:[.,][0-9]{1,400})?)"
)


def is_short(text: str) -> bool:
    """Return whether a time may be minutes or hours; 0:00 is the same in both."""
    time = _SHORT.fullmatch(text.strip())
    return time is not None and any(digit in "123456789" for digit in text)


def is_time(text: str) -> bool:
    """Return whether a cell is a time in any form."""
    forms = (_SECONDS, _SHORT, _LONG)
    return any(form.fullmatch(text.strip()) for form in forms)


def in_seconds(text: str, *, has_decimal_comma: bool, short: str = "") -> str:
    """Return a time in seconds as a manifest writes it; other text is returned unchanged.

    Args:
        text: The cell.
        has_decimal_comma: Whether 70,5 is a number.
        short: What 1:05 is, one of `SHORT_TIMES`; without it, such a time is returned unchanged.

    >>> in_seconds("0:01:10.1", has_decimal_comma=False), in_seconds("x", has_decimal_comma=False)
    ('70.1', 'x')
    >>> [in_seconds("1:05", has_decimal_comma=False, short=short) for short in SHORT_TIMES]
    ['65.0', '3900.0']
    """
    stripped = text.strip()
    if "," in stripped and not has_decimal_comma:
        return text
    if _SECONDS.fullmatch(stripped):
        return stripped.replace(",", ".")
    time = _LONG.fullmatch(stripped)
    if time is not None:
        units: tuple[int, ...] = (3600, 60, 1)
    else:
        time = _SHORT.fullmatch(stripped)
        if time is None or (is_short(stripped) and not short):
            return text
        units = (3600, 60) if short == HOURS else (60, 1)
    # As fractions, so that 0:01:10.1 is 70.1 and not 70.09999999999999.
    parts = [Fraction(part.replace(",", ".")) for part in time.groups()]
    exact = sum(unit * part for unit, part in zip(units, parts, strict=True))
    return repr(float(exact))


def add_unclear(rows: Iterable[TableRow], column: str, cells: Sequence[str]) -> None:
    """Add one violation for the times of a column that may be minutes or hours.

    Args:
        rows: The rows.
        column: The column.
        cells: The cell of each row.
    """
    first = next(filter(is_short, cells), "")
    # A spreadsheet may show it as 0:01:00.
    ways = []
    for form in SHORT_TIMES:
        seconds = in_seconds(first, has_decimal_comma=True, short=form)
        ways.append(f"{seconds.removesuffix('.0')} s with --map times={form}")
    problem = f"{first!r} may be minutes or hours: {', '.join(ways)}"
    for row, cell in zip(rows, cells, strict=True):
        if is_short(cell):
            row.add(column, problem)


def check_clocks(rows: Sequence[TableRow], cells: Sequence[Mapping[str, str]]) -> None:
    """Add a violation for each clock time that differs from the seconds beside it.

    A person may have corrected one of the two, and the seconds alone are read.
    """
    for row, values in zip(rows, cells, strict=True):
        for column, clock in zip(SPAN_COLUMNS, CLOCK_COLUMNS, strict=True):
            shown = values.get(clock, "").strip()
            seconds = number_of_cell(values.get(column))
            if seconds is None or not _LONG.fullmatch(shown):
                continue
            in_text = in_seconds(shown, has_decimal_comma=True)
            # A spreadsheet may show fewer decimals.
            n_decimals = len(shown.replace(",", ".").partition(".")[2])
            if abs(float(in_text) - seconds) >= 0.1**n_decimals:
                problem = f"{shown} is not the time in {column}, {seconds:.10g} s"
                row.add(
                    clock,
                    f"{problem}: correct one of them, or give this column another name",
                )

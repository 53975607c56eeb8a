"""The times in a table: seconds or clock times with hours."""

import re
from fractions import Fraction

from obygaze_features.core.tables import TableRow

TIMES = ("start_s", "end_s")
_SECONDS = re.compile(r"[0-9]+(?:[.,][0-9]+)?")
_SHORT = re.compile(r"[0-9]+:[0-5]?[0-9](?:[.,][0-9]+)?")
_LONG = re.compile(
    r"(?P<hours>[0-9]+):(?P<minutes>[0-5]?[0-9]):(?P<seconds>[0-5]?[0-9](?:[.,][0-9]+)?)"
)


def in_seconds(
    row: TableRow, column: str, text: str, *, has_decimal_comma: bool
) -> str:
    """Return a time in seconds as a manifest writes it; other text is returned unchanged.

    Args:
        row: Gets the violation of a time that may mean two things.
        column: The column of the time.
        text: The cell.
        has_decimal_comma: Whether 70,5 is a number.
    """
    stripped = text.strip()
    if "," in stripped and not has_decimal_comma:
        return text
    if _SECONDS.fullmatch(stripped):
        return stripped.replace(",", ".")
    if _SHORT.fullmatch(stripped):
        problem = f"{text!r} may be minutes or hours; write hours too: 0:{stripped}"
        row.add(column, problem)
        return ""
    time = _LONG.fullmatch(stripped)
    if time is None:
        return text
    # As a fraction, so that 0:01:10.1 is 70.1 and not 70.09999999999999.
    seconds = Fraction(time["seconds"].replace(",", "."))
    exact = 3600 * int(time["hours"]) + 60 * int(time["minutes"]) + seconds
    return repr(float(exact))

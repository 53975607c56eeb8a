"""The times in a table: seconds or clock times, with what 1:10 means."""

from dataclasses import dataclass
from fractions import Fraction
from re import Match, compile
from typing import Literal

from obygaze_features.manifest.tables import TableRow

# What a time of two numbers is: minutes and seconds, or hours and minutes.
TimeForm = Literal["m:ss", "h:mm"]
TIMES = ("start_s", "end_s")
_SECONDS = compile(r"[0-9]+(?:[.,][0-9]+)?")
_SHORT = compile(r"(?P<first>[0-9]+):(?P<second>[0-5]?[0-9](?:[.,][0-9]+)?)")
_LONG = compile(
    r"(?P<hours>[0-9]+):(?P<minutes>[0-5]?[0-9]):(?P<seconds>[0-5]?[0-9](?:[.,][0-9]+)?)"
)


@dataclass(frozen=True)
class TableTimes:
    """How to read the times of a table.

    Attributes:
        form: What 1:10 means; "" where nobody said it, so that it is an error.
        has_decimal_comma: Whether 70,5 is a number.
        is_spreadsheet: Whether a program that takes 1:10 for 1:10:00 may have written the times.
    """

    form: str
    has_decimal_comma: bool
    is_spreadsheet: bool

    def seconds(self, row: TableRow, column: str, text: str) -> str:
        """Return a time in seconds as a manifest writes it; other text is returned unchanged.

        Args:
            row: Gets the violation of a time that may mean two things.
            column: The column of the time.
            text: The cell.
        """
        stripped = text.strip()
        if "," in stripped and not self.has_decimal_comma:
            return text
        if _SECONDS.fullmatch(stripped):
            return stripped.replace(",", ".")
        short = _SHORT.fullmatch(stripped)
        if short is not None:
            return self._seconds_of_short(row, column, text, short)
        long = _LONG.fullmatch(stripped)
        if long is None:
            return text
        if self.form == "m:ss" and self.is_spreadsheet:
            row.add(
                column,
                f"{text!r} has hours: times = 'm:ss' of the mapping is for cells of text",
            )
            return ""
        return _in_seconds(long["hours"], long["minutes"], long["seconds"])

    def _seconds_of_short(
        self, row: TableRow, column: str, text: str, short: Match[str]
    ) -> str:
        """Return the seconds of a time of two numbers."""
        if self.form == "m:ss":
            return _in_seconds(0, short["first"], short["second"])
        is_minutes = short["second"].isdigit()
        if self.form == "h:mm" and is_minutes:
            return _in_seconds(short["first"], short["second"], "0")
        if self.form == "h:mm":
            return text
        row.add(
            column,
            f"{text!r} may be minutes or hours; write hours too: 0:{text.strip()}, or "
            "times = 'm:ss' or 'h:mm' in a file for --mapping",
        )
        return ""


def _in_seconds(hours: str | int, minutes: str, seconds: str) -> str:
    """Return a time in seconds as text."""
    # As a fraction, so that 0:01:10.1 is 70.1 and not 70.09999999999999.
    exact = 3600 * int(hours) + 60 * int(minutes) + Fraction(seconds.replace(",", "."))
    return repr(float(exact))

"""The times in a table: seconds or clock times, with what 1:10 means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from re import Match, compile
from typing import Literal

from obygaze_features.core.console import few
from obygaze_features.manifest.tables import TableRow

# What a time of two numbers is: minutes and seconds, or hours and minutes.
TimeForm = Literal["m:ss", "h:mm"]
TIMES = ("start_s", "end_s")
_SECONDS = compile(r"[0-9]+(?:[.,][0-9]+)?")
_SHORT = compile(r"(?P<first>[0-9]+):(?P<second>[0-5]?[0-9](?:[.,][0-9]+)?)")
_LONG = compile(
    r"(?P<hours>[0-9]+):(?P<minutes>[0-5]?[0-9]):(?P<seconds>[0-5]?[0-9](?:[.,][0-9]+)?)"
)
_WHOLE_MINUTES = compile(r"[0-9]+:[0-5][0-9]:00")
FEWEST_TIMES = 3


@dataclass(frozen=True)
class TableTimes:
    """How to read the times of a table.

    Attributes:
        form: What 1:10 means; "" where nobody said it, so that it is an error.
        has_decimal_comma: Whether 70,5 is a number.
        is_spreadsheet: Whether cells of times were typed into a spreadsheet, which takes 1:10 for
            1:10:00.
        texts: All times of the table but 0.
    """

    form: str
    has_decimal_comma: bool
    is_spreadsheet: bool
    texts: frozenset[str]

    @classmethod
    def of_rows(
        cls,
        rows: Sequence[TableRow],
        targets: Mapping[str, str],
        *,
        form: str,
        has_decimal_comma: bool,
        is_spreadsheet: bool,
    ) -> "TableTimes":
        """Return how to read the times of some rows; `targets` names the columns."""
        columns = [targets.get(target, target) for target in TIMES]
        texts = set()
        for row in rows:
            for column in columns:
                texts.add(row.cells.get(column, "").strip())
        # A 0 was typed in any form.
        texts -= {"", "0"}
        return cls(form, has_decimal_comma, is_spreadsheet, frozenset(texts))

    @property
    def are_whole_minutes(self) -> bool:
        """Whether all times are such as 1:10:00, which a spreadsheet makes of 1:10."""
        return bool(self.texts) and all(map(_WHOLE_MINUTES.fullmatch, self.texts))

    @property
    def warnings(self) -> list[str]:
        """Return what should be known of times that are all whole minutes."""
        if not self.are_whole_minutes:
            return []
        shown = few(sorted(self.texts), 3)
        if self.form == "m:ss":
            return [
                f"all times are whole minutes, such as {shown}: with --times m:ss, 1:10:00 is 1"
                " minute 10 seconds, typed as 1:10"
            ]
        if self.form or len(self.texts) < FEWEST_TIMES:
            return []
        return [
            f"all times are whole minutes, such as {shown}; where 1:10 was typed for 1 minute"
            " 10 seconds, a spreadsheet made 1 hour 10 minutes of it: --times m:ss, or type"
            " 0:01:10"
        ]

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
        if self.form == "m:ss" and _WHOLE_MINUTES.fullmatch(stripped):
            if self.are_whole_minutes:
                return _in_seconds(0, long["hours"], long["minutes"])
            if self.is_spreadsheet:
                row.add(
                    column,
                    f"{text!r} may have been typed as m:ss or as h:mm:ss: other times have seconds",
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
            f"{text!r} may be minutes or hours; write hours too: 0:{text.strip()}",
        )
        return ""


def _in_seconds(hours: str | int, minutes: str, seconds: str) -> str:
    """Return a time in seconds as text."""
    # As a fraction, so that 0:01:10.1 is 70.1 and not 70.09999999999999.
    exact = 3600 * int(hours) + 60 * int(minutes) + Fraction(seconds.replace(",", "."))
    return repr(float(exact))

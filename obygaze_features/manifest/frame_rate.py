"""Parse frame rates as people write them, and write them so that they are parsed the same."""

import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

# NTSC films have one of these rates times 1000/1001. Tables state them rounded: 23.976, 29.97.
NTSC_NOMINAL = (15, 24, 30, 48, 60, 120, 240)
# 23.98 differs from 24000/1001 by .004 and is the same rate; 24 differs by .024 and is not.
ROUNDED_BY = Fraction(1, 200)
_DECIMAL = r"(?=.*[1-9])[0-9]{1,3}(\.[0-9]{1,16})?"
_FRACTION = r"[1-9][0-9]{0,8}/[1-9][0-9]{0,8}"
_WRITTEN = re.compile(rf"{_DECIMAL}|{_FRACTION}")
MAX_RATE = 1000


@lru_cache(maxsize=256)
def parse_frame_rate(written: float | str | Fraction) -> Fraction | None:
    """Return a frame rate as an exact fraction, or None if this is not a frame rate.

    A number that rounds the rate of NTSC films, such as 23.976, 23.98 or 59.94, stands for that
    rate; every other number is taken as it is.

    >>> parse_frame_rate("23.976")
    Fraction(24000, 1001)
    >>> parse_frame_rate(5)
    Fraction(5, 1)
    >>> parse_frame_rate("25 fps")
    """
    text = str(written)
    if _WRITTEN.fullmatch(text) is None:
        return None
    rate = Fraction(text)
    if rate >= MAX_RATE:
        return None
    for nominal in NTSC_NOMINAL:
        slowed_down = Fraction(1000 * nominal, 1001)
        if abs(rate - slowed_down) < ROUNDED_BY:
            return slowed_down
    return rate


def frame_times_s(first: int, last: int, rate: Fraction) -> tuple[float, float]:
    """Return the start of the first frame and the end of the last frame, in seconds.

    >>> frame_times_s(25, 49, Fraction(25))
    (1.0, 2.0)
    """
    return float(first / rate), float((last + 1) / rate)


def frame_rate_text(rate: Fraction) -> str:
    """Return a frame rate as text that `parse_frame_rate` reads as the same rate.

    >>> frame_rate_text(Fraction(30000, 1001))
    '29.97'
    >>> frame_rate_text(Fraction(25, 3))
    '25/3'
    """
    rounded = f"{float(rate):.5g}"
    if parse_frame_rate(rounded) == rate:
        return rounded
    decimal = f"{Decimal(rate.numerator) / Decimal(rate.denominator):f}"
    return decimal if parse_frame_rate(decimal) == rate else str(rate)

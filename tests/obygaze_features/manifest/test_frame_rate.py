"""Frame rates as they are written, against arithmetic by hand."""

from fractions import Fraction

import pytest

from obygaze_features.manifest.frame_rate import (
    frame_rate_text,
    known_frame_rate,
)

# What players show, and the rate that it rounds.
NTSC = {
    "14.985": Fraction(15000, 1001),
    "23.976": Fraction(24000, 1001),
    "23.98": Fraction(24000, 1001),
    "23.976023976": Fraction(24000, 1001),
    "29.97": Fraction(30000, 1001),
    "47.952": Fraction(48000, 1001),
    "59.94": Fraction(60000, 1001),
    "59.9400599400": Fraction(60000, 1001),
    "119.88": Fraction(120000, 1001),
}
WHOLE = [1, 2, 3, 4, 5, 8, 10, 12, 15, 16, 18, 24, 25, 30, 48, 50, 60, 100, 120]
MORE = ["12.5", "6.25", "24000/1001", "25/3", "0.5", "23.9", "9.99", "4.995", "24.01"]


@pytest.mark.parametrize("written", NTSC)
def test_a_rounded_ntsc_rate_is_the_exact_one(written: str) -> None:
    assert known_frame_rate(written) == NTSC[written]
    assert known_frame_rate(float(written)) == NTSC[written]


@pytest.mark.parametrize("rate", WHOLE)
def test_a_whole_rate_is_that_rate(rate: int) -> None:
    assert known_frame_rate(rate) == rate
    assert known_frame_rate(float(rate)) == rate
    assert known_frame_rate(str(rate)) == rate


@pytest.mark.parametrize("written", MORE)
def test_any_other_rate_is_taken_as_it_is(written: str) -> None:
    assert known_frame_rate(written) == Fraction(written)


@pytest.mark.parametrize("written", [*NTSC, *map(str, WHOLE), *MORE])
def test_a_rate_is_read_as_it_was_written(written: str) -> None:
    rate = known_frame_rate(written)
    assert known_frame_rate(frame_rate_text(rate)) == rate


@pytest.mark.parametrize(
    "written", ["", "0", "25 fps", "nan", "inf", "-25", "1e3", "1000", "1/0"]
)
def test_what_is_not_a_rate_is_refused(written: str) -> None:
    assert known_frame_rate(written) is None


@pytest.mark.parametrize("written", [float("nan"), float("inf"), 0.0, -1.0, 1e9])
def test_numbers_that_are_not_rates_are_refused(written: float) -> None:
    assert known_frame_rate(written) is None

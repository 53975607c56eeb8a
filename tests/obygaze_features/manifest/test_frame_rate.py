"""Frame rates as they are written, against arithmetic by hand."""

from fractions import Fraction

import pytest

from obygaze_features.manifest.frame_rate import frame_rate_text, parse_frame_rate

# What players show, and the rate that it rounds.
NTSC = {
    "14.985": Fraction(15000, 1001),
    "23.976": Fraction(24000, 1001),
    "23.98": Fraction(24000, 1001),
    "29.97": Fraction(30000, 1001),
    "59.9400599400": Fraction(60000, 1001),
    "119.88": Fraction(120000, 1001),
}
EXACT = ["1", "24", "25", "120", "12.5", "24000/1001", "25/3", "23.9", "4.995", "24.01"]
RATES = {**NTSC, **{text: Fraction(text) for text in EXACT}}


@pytest.mark.parametrize("text", RATES)
def test_a_rounded_ntsc_rate_is_the_exact_one_and_others_are_as_written(text) -> None:
    rate = RATES[text]
    assert parse_frame_rate(text) == rate
    assert "/" in text or parse_frame_rate(float(text)) == rate
    assert parse_frame_rate(frame_rate_text(rate)) == rate


@pytest.mark.parametrize(
    "written",
    ["", "0", "25 fps", "nan", "-25", "1e3", "1000", "1/0", float("nan"), 0.0, -1, 1e9],
)
def test_an_invalid_rate_is_not_read(written: str | float) -> None:
    assert parse_frame_rate(written) is None

from fractions import Fraction

import pytest

from obygaze_features.manifest.frame_rate import frame_rate_text, parse_frame_rate
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.spans import NAME_COLUMN, span_in_file, span_in_film
from obygaze_features.manifest.times import (
    IN_A_ROW,
    IN_FILM,
    Piece,
    film_times,
    spans_in_films,
)


def own_file(number: int, start_s: str, end_s: str) -> Clip:
    """Return a clip that is a whole file, with its times in the film."""
    extra = {"film_start_s": start_s, "film_end_s": end_s}
    return Clip(f"lake-{number}", "lake", number, f"{number}.mp4", extra=extra)


def test_clips_without_a_named_file_have_times_of_the_film_after_link_too() -> None:
    before = Clip("lake-1", "lake", None, "", 62.0, 64.0)
    found = Clip(
        "lake-1", "lake", None, "a/lake.mkv", 62.0, 64.0, extra={NAME_COLUMN: ""}
    )
    assert span_in_film(before) == span_in_film(found) == (62.0, 64.0)
    assert (span_in_file(before), span_in_file(found)) == (None, (62.0, 64.0))
    times = film_times([found], length_of=lambda video: 100.0)
    assert times.axis == IN_FILM
    assert times.pieces == [Piece(0.0, 100.0, "a/lake.mkv", 0.0)]


def test_times_in_a_file_are_not_times_in_the_film() -> None:
    extra = {"film_start_s": "60", "film_end_s": "65"}
    clip = Clip("lake-1", "lake", 1, "1.mp4", 2.0, 7.0, extra=extra)
    assert (span_in_file(clip), span_in_film(clip)) == ((2.0, 7.0), (60.0, 65.0))
    times = film_times([clip])
    assert times.spans == {"lake-1": (60.0, 65.0)}
    assert times.pieces == [Piece(60.0, 65.0, "1.mp4", 2.0)]


def test_one_piece_that_is_there_is_not_the_film() -> None:
    clips = [
        Clip("lake-1", "lake", 1, "1.mp4", 0.0, 5.0, extra={NAME_COLUMN: "1.mp4"}),
        Clip("lake-2", "lake", 2, "", 0.0, 5.0, extra={NAME_COLUMN: "2.mp4"}),
        Clip("lake-3", "lake", 3, "", extra={NAME_COLUMN: "3.mp4"}),
    ]
    times = film_times(clips, length_of=lambda video: 9.0)
    assert times.axis == IN_A_ROW
    assert times.unknown == ["lake-3"]
    linked = Clip("lake-1", "lake", 1, "1.mp4", extra={NAME_COLUMN: "1.mp4"})
    in_film = Clip("lake-2", "lake", 2, "", 70.0, 75.0)
    times = film_times([linked, in_film], length_of=lambda video: 9.0)
    assert (times.axis, times.pieces, times.end_s) == (IN_FILM, [], 75.0)


def test_the_file_of_a_film_is_all_of_it() -> None:
    first = own_file(1, "0", "4")
    second = Clip("lake-2", "lake", 2, extra={"film_start_s": "9", "film_end_s": "11"})
    assert film_times([first]).file == "1.mp4"
    assert film_times([first, second]).file == ""
    in_a_row = [Clip(f"lake-{n}", "lake", n, "1.mp4" * (n == 1)) for n in (1, 2)]
    assert film_times(in_a_row).file == ""
    linked = Clip("lake-1", "lake", 1, "lake.mp4", 0.0, 4.0, extra={NAME_COLUMN: ""})
    assert film_times([linked, second]).file == "lake.mp4"


def test_without_times_in_the_film_clips_follow_each_other() -> None:
    clips = [Clip("b", "lake", 2, "b.mp4"), Clip("a", "lake", 1, "a.mp4", 3.0, 5.0)]
    times = film_times(clips, length_of={"a.mp4": 9.0, "b.mp4": 4.0}.__getitem__)
    assert times.axis == IN_A_ROW
    assert times.spans == {"a": (0, 2), "b": (2, 6)}
    assert [piece.offset_s for piece in times.pieces] == [3.0, 0.0]
    without_lengths = film_times(clips)
    assert without_lengths.unknown == ["b.mp4"]
    assert spans_in_films(clips) == {}
    parts = [Clip(one, "lake", n, f"{one}.mp4", 0.0, 5.0) for n, one in enumerate("ab")]
    assert film_times(parts).spans["b"] == (5.0, 10.0)
    assert spans_in_films(parts) == {}


def test_a_clip_alone_without_a_scene_is_the_whole_film() -> None:
    whole = [Clip("lake", "lake", None, "lake.mp4")]
    times = film_times(whole, length_of=lambda video: 24.0)
    assert (times.axis, times.spans) == (IN_FILM, {"lake": (0, 24)})
    scene = [Clip("lake-2", "lake", 2, "lake-2.mp4")]
    assert film_times(scene, length_of=lambda video: 9.0).axis == IN_A_ROW


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

"""The timeline of a film: what is in it is decided before it is drawn, and drawn the same twice."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.cli import Result, call_obygaze
from support.film import clips, marks, write_segments, write_spans

from obygaze_features.core.errors import FixUsage, NotFound
from obygaze_features.core.figures import LEVEL_COLORS
from obygaze_features.manifest.figures import TimelineBar, draw_timeline, timeline
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.projection import ClipSpan, Segment, as_threshold, project

SPANS = clips("0-99 100-199 200-299")
SEGMENTS = [
    *marks("0-9 S Body, 90-199 HN Clothing, 200-232 HN, 233-265 NS, 266-299 S"),
    *marks("100-149 S Body|Look, 150-299 EN", annotator="B"),
]
FIFTH, MORE = as_threshold("0.2"), as_threshold("0.4")


def svg_text(path: Path) -> str:
    root = ElementTree.parse(path).getroot()
    return "\n".join(text for element in root.iter() if (text := (element.text or "").strip()))


def test_each_annotator_has_segments_and_clips_and_the_merge_comes_last() -> None:
    panels = timeline(SEGMENTS, SPANS, project(SEGMENTS, SPANS, MORE), "m")
    assert list(panels) == ["A: segments", "A: clips", "B: segments", "B: clips", "merged: clips"]
    assert [bar.level for bar in panels["A: segments"]] == ["S", "HN", "HN", "NS", "S"]
    # Thirds of the last clip are too short for two fifths, and so is the rest: it has no label.
    assert panels["A: clips"] == [TimelineBar(0, 99, "EN"), TimelineBar(100, 199, "HN")]
    assert panels["merged: clips"] == [
        TimelineBar(0, 99, "EN"),
        TimelineBar(100, 199, "S"),
        TimelineBar(200, 299, "EN"),
    ]


def test_a_stretch_of_the_film_is_drawn_with_what_touches_it(tmp_path: Path) -> None:
    made = project(SEGMENTS, SPANS, FIFTH)
    svg, _ = draw_timeline(SEGMENTS, SPANS, made, "m", tmp_path / "part", between=(9, 90))
    drawn = svg.read_text("utf-8")
    # Only EN, HN and S are marked in these frames; the key names all levels once.
    assert drawn.count(f"fill: {LEVEL_COLORS['NS']}") == 1
    assert drawn.count(f"fill: {LEVEL_COLORS['HN']}") > 1


def test_other_films_are_left_out() -> None:
    both = [*SEGMENTS, *marks("0-50000 S", movie="n", annotator="Z")]
    spans = [*SPANS, *clips("0-50000", movie="n")]
    film = timeline(both, spans, project(both, spans, FIFTH), "m")
    assert film == timeline(SEGMENTS, SPANS, project(SEGMENTS, SPANS, FIFTH), "m")


def test_a_film_without_clips_or_marks_has_no_timeline(tmp_path: Path) -> None:
    made = project(SEGMENTS, SPANS, FIFTH)
    with pytest.raises(NotFound, match="the film 'x' has no clips"):
        timeline(SEGMENTS, SPANS, made, "x")
    with pytest.raises(NotFound, match="has no segments"):
        timeline([], SPANS, made, "m")
    with pytest.raises(FixUsage, match="the last frame must be after the first"):
        draw_timeline(SEGMENTS, SPANS, made, "m", tmp_path / "none", between=(9, 3))


def test_the_picture_says_what_it_shows_and_is_the_same_twice(tmp_path: Path) -> None:
    made = project(SEGMENTS, SPANS, MORE)
    svg, png = draw_timeline(SEGMENTS, SPANS, made, "m", tmp_path / "one")
    again = draw_timeline(SEGMENTS, SPANS, made, "m", tmp_path / "two")
    assert [path.read_bytes() for path in again] == [svg.read_bytes(), png.read_bytes()]
    assert png.read_bytes().startswith(b"\x89PNG")
    text = svg_text(svg)
    for words in ("a threshold of 40 % of the clip", "A: segments", "merged: clips", "frame"):
        assert words in text
    drawn = svg.read_text("utf-8")
    assert all(LEVEL_COLORS[level] in drawn for level in LEVELS)


def test_the_axis_in_time(tmp_path: Path) -> None:
    # Two hours at 25 frames a second: a tick each ten minutes.
    long = [Segment("m", "A", 0, 179_999, "HN")]
    span = [ClipSpan("m-001", "m", 0, 179_999)]
    svg, _ = draw_timeline(long, span, project(long, span), "m", tmp_path / "time", fps=25)
    text = svg_text(svg)
    assert "h:mm:ss" in text and "0:10:00" in text and "1:50:00" in text and "0:05:00" not in text


def test_names_with_dollar_signs_are_names(tmp_path: Path) -> None:
    odd = [Segment("m", r"$\frac", 0, 99, "S"), Segment("m", "<b>&", 0, 99, "S")]
    svg, _ = draw_timeline(odd, SPANS, project(odd, SPANS), "m", tmp_path / "odd")
    assert r"$\frac: segments" in svg_text(svg) and "<b>&" in svg_text(svg)


def run(folder: Path, *options: str, segments: list[Segment] = SEGMENTS) -> Result:
    marked = write_segments(folder / "s.csv", segments)
    cut = write_spans(folder / "c.csv", [*SPANS, *clips("0-9", movie="n")])
    return call_obygaze("manifest", "project", marked, "--clips", cut, *options, cwd=folder)


def test_the_command_draws_the_only_film_that_can_be_drawn(tmp_path: Path) -> None:
    result = run(tmp_path, "--figure", "pictures/film.png", "--json", "--between", "0", "150").ok()
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        "film.png",
        "film.svg",
    ]
    assert "wrote pictures/film.svg" in result.stderr
    assert result.json()["unlabelled"] == 0


def test_the_command_asks_which_film_where_there_are_several(tmp_path: Path) -> None:
    several = [*SEGMENTS, *marks("0-9 S", movie="n")]
    refused = run(tmp_path, "--figure", "film", segments=several)
    assert refused.code == 2 and "--movie m, n" in refused.stderr
    run(tmp_path, "--figure", "film", "--movie", "n", segments=several).ok()
    missing = run(tmp_path, "--figure", "film", "--movie", "x", segments=several)
    assert missing.code == 1 and "the film 'x' has no clips" in missing.stderr


def test_options_of_the_figure_without_a_figure_are_wrong_usage(tmp_path: Path) -> None:
    for option in (("--movie", "m"), ("--between", "0", "9")):
        refused = run(tmp_path, *option)
        assert refused.code == 2 and "--figure PATH" in refused.stderr

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.figures import (
    COLORS,
    draw_dots,
    draw_label,
    page_markup,
    render_figure,
    row_canvas,
    spread_dots,
)

SVG = "{http://www.w3.org/2000/svg}"


@given(st.lists(st.floats(0, 100), max_size=12), st.floats(0.01, 20))
def test_any_two_dots_are_a_dot_or_a_step_apart(values, least) -> None:
    moved = spread_dots(values, least)
    assert sum(moved) == pytest.approx(0)
    for i in range(len(values)):
        for j in range(i):
            assert abs(values[i] - values[j]) >= least or abs(moved[i] - moved[j]) >= 1


def figure_of_one_row() -> Any:
    with row_canvas(20, 0, (0, 4), "AP <b>") as (figure, axes):
        draw_label(
            axes,
            10,
            "a name & \x1b[2J that is too long for two lines of a label, $x_^$",
            letters=34,
        )
        draw_dots(axes, [1, 3], [10, 10], "model", 6, about=["a <b> & c", "the\nother"])
    return figure


def test_a_file_has_the_colours_of_paper_and_a_page_its_own() -> None:
    file = render_figure(figure_of_one_row(), ".svg", "title <i>")
    root = ElementTree.fromstring(file)
    assert root.attrib["aria-label"] == "title <i>"
    dots = list(root.iter(f"{SVG}use"))
    assert [dot.findtext(f"{SVG}title") for dot in dots] == ["a <b> & c", "the other"]
    labels = [str(text.text) for text in root.iter(f"{SVG}text")]
    assert "AP <b>" in labels
    long_label = {
        "a name & \\x1b[2J that is too long",
        "for two lines of a label, $x_^$",
    }
    assert long_label < {*labels}
    places = [
        text.attrib["x"]
        for text in root.iter(f"{SVG}text")
        if text.text in ("1.0", "3.0")
    ]
    assert [dot.attrib["x"] for dot in dots] == places
    text = file.decode()
    assert COLORS["model"] in text and "var(" not in text

    page = page_markup(file, "a")
    assert "fill: var(--model)" in page and "var(--ink)" in page
    assert not any(color in page for color in COLORS.values())
    assert not {"width", "height"} & set(ElementTree.fromstring(page).attrib)
    ids = re.findall(' id="([^"]+)"', page)
    assert len(ids) == len({*ids}) == 2, "a dot, and where lines are cut"
    used = re.findall(r'href="#([^"]+)|url\(#([^)]+)', page)
    assert {first or second for first, second in used} == {*ids}
    assert {*ids}.isdisjoint(re.findall(' id="([^"]+)"', page_markup(file, "b")))


def test_signs_that_no_file_can_have_are_escapes_in_every_text() -> None:
    with row_canvas(20, 0, (0, 4), "AP\x08\ufffe $x_^$") as (figure, axes):
        axes.set_title("two\nlines\x00")
    root = ElementTree.fromstring(render_figure(figure, ".svg"))
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"AP\\x08\\ufffe $x_^$", "two", "lines\\x00"} <= texts


@pytest.mark.parametrize("suffix", [".svg", ".pdf"])
def test_the_same_figure_is_the_same_bytes(suffix: str) -> None:
    first = render_figure(figure_of_one_row(), suffix)
    assert render_figure(figure_of_one_row(), suffix) == first
    begins = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    assert first.startswith(begins[suffix])

"""A real browser shows the page light, dark and printed."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browsers import browser, go, open_page, resize, text, wait
from support.film_pages import film_clips, segment, served, site
from support.videos import write_video

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [pytest.mark.check("drives a browser"), pytest.mark.timeout(240)]

# Visible elements whose text has less than 4.5 times the luminance of its background, or reversed.
LOW_CONTRAST = """
const curve = (share) => ((share + 0.055) / 1.055) ** 2.4;
const channel = (value) => (value <= 10.31475 ? value / 3294.6 : curve(value / 255));
const numbers = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
function behind(element) {
  for (let one = element; one; one = one.parentElement) {
    const color = numbers(getComputedStyle(one).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
  }
  return numbers(getComputedStyle(document.body).backgroundColor);
}
const isText = (node) => node.nodeType === 3 && node.data.trim();
const hasText = (element) => [...element.childNodes].some(isText);
const seen = (element) => element.checkVisibility() && !element.disabled && hasText(element);
return [...document.body.querySelectorAll("*")].filter(seen).filter((element) => {
  const pair = [luminance(numbers(getComputedStyle(element).color)), luminance(behind(element))];
  return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05) < 4.5;
}).map((element) => element.outerHTML.slice(0, 200));"""


def film_page(folder: Path) -> Any:
    write_video(folder / "lake.mp4", numbers=range(250))
    levels = ("EN", "HN", "NS", "S")
    segments = [
        segment(50 * k, 50 * k + 49, level=level) for k, level in enumerate(levels)
    ]
    return site(folder, film_clips("lake", "lake.mp4"), "eva", segments=segments)


def prefer(browser: Any, mode: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": mode}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_texts_can_be_read_in_both_modes(
    browser: Any, tmp_path: Path, mode: str
) -> None:
    with served(film_page(tmp_path)) as server:
        prefer(browser, mode)
        open_page(browser, server.new_address(), "films")
        paper = browser.execute_script(
            "return getComputedStyle(document.body).backgroundColor"
        )
        assert (paper == "rgb(255, 255, 255)") == (mode == "light")
        assert browser.execute_script(LOW_CONTRAST) == []
        go(browser, film="lake", t=1)
        wait(lambda: "picture 25" in text(browser, "#picture"))
        browser.execute_script(
            "document.querySelectorAll('details').forEach((one) => (one.open = true))"
        )
        assert browser.execute_script(LOW_CONTRAST) == []
        # The time line follows a change of the mode.
        ink = "return INK"
        shown = browser.execute_script(ink)
        prefer(browser, "dark" if mode == "light" else "light")
        wait(lambda: browser.execute_script(ink) != shown)
        prefer(browser, "light")


def test_levels_are_apart_in_grey_where_they_are_printed(
    browser: Any, tmp_path: Path
) -> None:
    script = """const lane = film.lanes.find((one) => one.name === "ada");
        const g = document.getElementById("canvas").getContext("2d"), ratio = devicePixelRatio;
        return lane.bars.map((bar) => {
          const left = Math.round((bar.start + 1) * film.scale * ratio);
          const width = Math.round(0.8 * film.scale * ratio);
          const top = lane.y * ratio + 3, height = lane.height * ratio - 6;
          return [...g.getImageData(left, top, width, height).data];
        });"""

    def greys() -> list[Any]:
        made = []
        for data in browser.execute_script(script):
            pixels = np.array(data).reshape(-1, 4)[:, :3]
            made.append(pixels @ [0.299, 0.587, 0.114])
        return made

    with served(film_page(tmp_path)) as server:
        prefer(browser, "dark")
        open_page(browser, server.new_address(), "films")
        resize(browser, 1200)
        go(browser, film="lake", t=9)
        wait(lambda: "picture 225" in text(browser, "#picture"))
        on_screen = [grey.mean() for grey in greys()]
        assert min(abs(np.diff(sorted(on_screen)))) < 25  # HN and NS are alike in grey
        browser.execute_script("dispatchEvent(new Event('beforeprint'))")
        paper = "return getComputedStyle(document.body).backgroundColor"
        assert browser.execute_script(paper) == "rgb(255, 255, 255)"
        printed = greys()
        for one, other in combinations(printed, 2):
            differs = abs(one.mean() - other.mean()) > 25
            # Plain or hatched; and hatched by upright lines or by slanted ones.
            differs |= (one.std() > 15) != (other.std() > 15)
            differs |= _is_upright(browser, one) != _is_upright(browser, other)
            assert differs
        browser.execute_script("dispatchEvent(new Event('afterprint'))")
        assert browser.execute_script(paper) != "rgb(255, 255, 255)"
        prefer(browser, "light")


def _is_upright(browser: Any, grey: Any) -> bool:
    """Whether all rows of a bar are the same."""
    height = browser.execute_script(
        "return film.lanes.find((one) => one.name === 'ada').height * devicePixelRatio - 6"
    )
    rows = grey.reshape(int(height), -1)
    return bool((abs(rows - rows[0]) < 1).all())

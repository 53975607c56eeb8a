"""A real browser shows lanes of numbers, of the sound and of subtitles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browsers import browser, go, open_page, text, wait
from support.film_pages import film_clips, served, site
from support.videos import write_video

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [pytest.mark.check("drives a browser"), pytest.mark.timeout(240)]


def film_page(folder: Path) -> Any:
    write_video(folder / "lake.mp4", numbers=range(250), audio=True)
    (folder / "lake.vtt").write_text(
        "WEBVTT\n\n00:01.000 --> 00:02.000\nÉlan vital\n\n00:05.000 --> 00:06.000\nthe end\n",
        "utf-8",
    )
    rows = ["movie_id,time_s,length,length_low,length_high"]
    for k in range(10):
        rows.append(f"lake,{k},{k / 10},{k / 10 - 0.2},{k / 10 + 0.2}")
    (folder / "numbers.csv").write_text("\n".join(rows) + "\n", "utf-8")
    page = site(folder, film_clips("lake", "lake.mp4"))
    return page.with_lanes([folder / "numbers.csv"])


def test_lanes_of_numbers_sound_and_subtitles_are_drawn_and_told(
    browser: Any, tmp_path: Path
) -> None:
    with served(film_page(tmp_path)) as server:
        open_page(browser, server.new_address(), "films")
        go(browser, film="lake", t=5.5)
        wait(lambda: "lake" in browser.title)
        script = "return film.lanes.map((lane) => lane.label)"
        wait(lambda: "sound" in browser.execute_script(script))
        labels = browser.execute_script(script)
        assert labels[:4] == [
            *("clips: annotated level", "sound", "subtitles", "length, -0.2 to 1.1")
        ]
        wait(lambda: "subtitle: the end" in text(browser, "#here"))
        told = text(browser, "#here").split("\n")
        assert "length: 0.5 (0.3 to 0.7)" in told
        assert not any(line.startswith("sound") for line in told)  # it is 4 s long
        # At the time 5.5, the middle of the lane is the value .5, on a scale from -.2 to 1.1.
        found = browser.execute_script(
            """const lane = film.lanes.find((one) => one.kind === "numbers");
            const g = document.getElementById("canvas").getContext("2d");
            const ratio = devicePixelRatio, x = Math.round(5.7 * film.scale * ratio);
            const data = g.getImageData(x, lane.y * ratio, 1, lane.height * ratio).data;
            return [lane.height, ratio, [...data]];"""
        )
        height, ratio, data = found
        pixels = np.array(data).reshape(-1, 4)
        is_line = (pixels[:, :3] == [0x2F, 0x5D, 0x8A]).all(axis=1)
        middle = np.flatnonzero(is_line).mean() / (height * ratio)
        assert middle == pytest.approx(1 - (0.5 + 0.2) / 1.3, abs=0.05)
        n_painted = (pixels[:, 3] > 0).sum()
        assert n_painted / (height * ratio) == pytest.approx(0.4 / 1.3, abs=0.06)
        go(browser, film="lake", t=1.5)
        wait(lambda: "sound: silent" in text(browser, "#here").split("\n"))


def test_subtitles_are_searched_without_accents_and_lead_to_their_picture(
    browser: Any, tmp_path: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    with served(film_page(tmp_path)) as server:
        open_page(browser, server.new_address(), "films")
        go(browser, film="lake", t=8)
        wait(lambda: "lake" in browser.title)
        field = browser.find_element("css selector", "#find input")
        field.send_keys("elan", Keys.ENTER)
        wait(lambda: text(browser, "#n-hits") == "1 of 2 subtitles")
        assert text(browser, "#hits").split() == ["0:00:01", "Élan", "vital"]
        browser.find_element("css selector", "#hits button").send_keys(Keys.ENTER)
        wait(lambda: text(browser, "#picture") == "picture 25")
        field.clear()
        field.send_keys("absent", Keys.ENTER)
        wait(lambda: text(browser, "#n-hits") == "0 of 2 subtitles")
        assert text(browser, "#hits") == ""

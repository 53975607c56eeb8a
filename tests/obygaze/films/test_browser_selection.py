"""A real browser keeps filters in the address, counts what is shown, and saves stills to cite."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from PIL import Image
from support.browsers import browser, go, open_page, resize, text, wait
from support.film_pages import film_clips, mark, segment, served, site
from support.videos import read_number, write_video

from obygaze_features.manifest.model import Clip

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [pytest.mark.check("drives a browser"), pytest.mark.timeout(240)]


def film_page(folder: Path) -> Any:
    write_video(folder / "lake.mp4", numbers=range(250), size=(320, 240))
    clips = [
        replace(clip, extra={"year": "1999", "movie_title": "Le lac <b>"})
        for clip in film_clips("lake", "lake.mp4")
    ]
    segments = [segment(25, 49), segment(40, 74), segment(100, 124, level="HN")]
    return site(folder, clips, segments=segments)


def test_filters_are_in_the_address_and_searches_are_kept(
    browser: Any, tmp_path: Path
) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select

    with served(film_page(tmp_path)) as server:
        open_page(
            browser,
            server.new_address() + "#level=S&where=movie_id+%3D%3D+lake",
            "films",
        )
        wait(lambda: text(browser, "#n-clips") == "5 of 10 clips")
        level = browser.find_element("name", "level")
        Select(level).select_by_value("EN")
        wait(lambda: "#level=EN" in browser.current_url)
        assert browser.current_url.endswith("#level=EN&where=movie_id+%3D%3D+lake")
        link = browser.find_element("id", "table-csv").get_attribute("href")
        assert link.endswith("/table/csv?level=EN&where=movie_id+%3D%3D+lake")
        browser.find_element("css selector", "#keep input").send_keys(
            "late EN", Keys.ENTER
        )
        wait(lambda: "late EN" in text(browser, "#searches"))
        go(browser)
        wait(lambda: text(browser, "#n-clips") == "10 of 10 clips")
        browser.find_element("css selector", "#searches a").send_keys(Keys.ENTER)
        wait(lambda: text(browser, "#n-clips") == "5 of 10 clips")
        browser.find_element("css selector", "#clip-statistics summary").send_keys(
            Keys.ENTER
        )
        wait(lambda: "5 clips of 1 film" in text(browser, "#clip-statistics"))
        assert "EN easy negative 5 100.0 %" in " ".join(
            text(browser, "#clip-statistics").split()
        )
        headers = browser.find_elements("css selector", "#clip-statistics th")
        assert all(header.text for header in headers)
        browser.find_element("css selector", "#searches button").send_keys(Keys.ENTER)
        wait(lambda: text(browser, "#searches") == "")
        # The button is gone: who uses keys alone is not thrown back to the top of the page.
        assert browser.switch_to.active_element.get_attribute("name") == "name"


def test_statistics_are_those_of_the_visible_time(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    with served(film_page(tmp_path)) as server:
        open_page(browser, server.new_address(), "films")
        resize(browser, 1200)
        go(browser, film="lake", t=1)
        wait(lambda: "picture 25" in text(browser, "#picture"))
        browser.find_element("css selector", "#film-statistics summary").send_keys(
            Keys.ENTER
        )
        wait(lambda: "seconds" in text(browser, "#film-statistics"))
        browser.execute_script("placeLanes(); press('0')")  # a scroll bar has come
        wait(lambda: "10.0 seconds" in text(browser, "#film-statistics"))
        rows = [
            " ".join(row.text.split())
            for row in browser.find_elements("css selector", "#film-statistics tr")
        ]
        # Two segments of S from 1 to 3 s overlap, and count once.
        assert "ada S 2 2.0 20.0 %" in rows
        assert "ada HN 1 1.0 10.0 %" in rows
        assert "clips: annotated level S 5 5.0 50.0 %" in rows


# Press the button, and return the name and the bytes of what the browser would save.
SAVE = """
const done = arguments[0], made = URL.createObjectURL;
let saved;
URL.createObjectURL = (blob) => (saved = blob, made(blob));
HTMLAnchorElement.prototype.click = function () {
  const reader = new FileReader(), name = this.download;
  reader.onload = () => done([name, reader.result]);
  reader.readAsDataURL(saved);
};
document.getElementById("cite").dispatchEvent(new MouseEvent("click"));"""


def test_a_still_is_saved_with_its_citation(browser: Any, tmp_path: Path) -> None:
    with served(film_page(tmp_path)) as server:
        open_page(browser, server.new_address(), "films")
        go(browser, film="lake", t=1.49)
        wait(lambda: text(browser, "#picture") == "picture 37")
        known = "return Boolean(film.times.get(film.pieces[0].key))"
        wait(lambda: browser.execute_script(known))
        name, data = browser.execute_async_script(SAVE)
        lines = text(browser, "#citation").split("\n")
    lines = [line for line in lines if line]
    assert lines[0] == "Le lac <b> (1999), 0:00:01.480, picture 37"
    assert lines[1] == (
        "ada: S sure; Look. annotation of the clip lake-001: S sure; Look."
    )
    assert lines[2].startswith("Data: a test. obygaze:films#film=lake&t=1.48")
    assert name == "lake-37.png"
    png = base64.b64decode(data.split(",")[1])
    picture = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    assert picture.shape[1] == 640 and picture.shape[0] > 240
    assert read_number(picture[:240, 160:480]) == 37
    assert (picture[240:] < 128).any()


def test_a_citation_has_the_terms_of_the_data_and_stays_with_its_film(
    browser: Any, tmp_path: Path
) -> None:
    for name in ("lake", "pond"):
        write_video(tmp_path / f"{name}.mp4", numbers=range(100), size=(320, 240))
    whole = [Clip(name, name, None, f"{name}.mp4") for name in ("lake", "pond")]
    made = site(tmp_path, whole, "ada")
    assert made.marks is not None
    made.marks.save(mark(1, start_frame=25, end_frame=49))
    header = made.manifest.header
    header = structs.replace(header, citation="Dupont, Films, 2026", licence="CC0-1.0")
    page = replace(made, manifest=replace(made.manifest, header=header))
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        go(browser, film="lake", t=1.49)
        wait(lambda: text(browser, "#picture") == "picture 37")
        known = "return Boolean(film.times.get(film.pieces[0].key))"
        wait(lambda: browser.execute_script(known))
        browser.execute_async_script(SAVE)
        lines = [line for line in text(browser, "#citation").split("\n") if line]
        # The clip of the whole film has no label: it says nothing of the picture.
        assert lines[1] == "ada: S sure; Look, Body; “why”."
        assert lines[2].startswith("Data: a test; Dupont, Films, 2026; CC0-1.0. ")
        go(browser, film="pond", t=1)
        wait(lambda: "pond" in browser.title)
        wait(lambda: text(browser, "#citation") == "")
        assert not browser.find_element("id", "citation-title").is_displayed()


def test_a_link_opens_its_picture(browser: Any, tmp_path: Path) -> None:
    with served(film_page(tmp_path)) as server:
        open_page(browser, server.new_address() + "#film=lake&picture=61", "Le lac")
        wait(lambda: text(browser, "#picture") == "picture 61")
        browser.execute_script("press('c')")
        wait(lambda: "obygaze view" in text(browser, "#status"))
        link = text(browser, "#status").split('"')[1]
        open_page(
            browser, server.new_address() + "#" + link.partition("#")[2], "Le lac"
        )
        wait(lambda: text(browser, "#picture") == "picture 61")


def test_a_note_is_written_at_its_picture(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    write_video(tmp_path / "lake.mp4", numbers=range(250), size=(320, 240))
    page = site(tmp_path, film_clips("lake", "lake.mp4"), "eva")
    with served(page) as server:
        open_page(browser, server.new_address() + "#film=lake&t=2", "lake")
        wait(lambda: text(browser, "#note-picture") == "picture 50")
        field = browser.find_element("css selector", "#note textarea")
        field.send_keys("a <b> door")
        # The film goes on; the note stays that of its picture.
        browser.execute_script("seek(3 + EPS)")
        wait(lambda: text(browser, "#picture") == "picture 75")
        assert text(browser, "#note-picture") == "picture 50"
        save = browser.find_element("css selector", "#note button")
        save.send_keys(Keys.ENTER)
        wait(lambda: text(browser, "#notes").endswith("eva: a <b> door"))
        wait(lambda: text(browser, "#note-picture") == "picture 75")
        assert field.get_property("value") == ""
        button = browser.find_element("css selector", "#notes button")
        button.send_keys(Keys.ENTER)
        wait(lambda: text(browser, "#picture") == "picture 50")
        assert field.get_property("value") == "a <b> door"
        assert "note of eva: a <b> door" in text(browser, "#here")
        labels = browser.execute_script("return film.lanes.map((lane) => lane.label)")
        assert "notes" in labels
        field.clear()
        save.send_keys(Keys.ENTER)
        wait(lambda: text(browser, "#notes") == "")

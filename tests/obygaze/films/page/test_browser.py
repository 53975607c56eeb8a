"""A real browser shows the page: pictures that were asked for, by keys alone, at three widths."""

from __future__ import annotations

import json
import random
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from support.browsers import (
    browser,
    go,
    in_page,
    keys_to_body,
    open_page,
    resize,
    settled,
    text,
    times_are_known,
    wait,
    wait_for_film,
    wait_for_picture,
    wait_for_text,
    wait_for_title,
)
from support.film_pages import film_clips, segment, served, site, write_marks
from support.seeds import amount
from support.video_kinds import KINDS
from support.videos import write_video

from obygaze.films.marks import Mark
from obygaze.films.page.export import export_page
from obygaze.films.page.site import Site
from obygaze.films.page.view import leading_page
from obygaze_features.core.errors import AlreadyThere
from obygaze_features.manifest.model import Clip

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [
    pytest.mark.check("drives a browser"),
    pytest.mark.timeout(300),
]

N_SEEKS = amount(12, 300)
SEEN = ("mp4_h264_pyramid", "mkv_variable_rate", "webm_vp9")
MARKUP = "<img src=x onerror='window.attacked=1'><script>window.attacked=1</script>"


def films(folder: Path, **more: Any) -> Site:
    """A page of a lake with a picture of its number at each time, and marks of two people."""
    write_video(folder / "lake.mp4", numbers=range(250), options={"g": "50"})
    segments = write_marks(
        folder / "segments.csv",
        segment(1, 2),
        segment(2, 2.44, level="HN"),
        segment(1.2, 2, "ben"),
    )
    clips = film_clips("lake", "lake.mp4")
    return site(folder, clips, "eva", segments=segments, **more)


def open_lake(browser: Any, server: Any) -> None:
    open_page(browser, f"{server.new_address()}#film=lake", "lake")
    wait(lambda: times_are_known(browser, "lake"))


# ---- pictures ------------------------------------------------------------------------------------


def test_seeks_show_the_picture_that_was_asked_for(
    browser: Any, tmp_path: Path
) -> None:
    made = {name: KINDS[name](tmp_path) for name in SEEN}
    clips = [Clip(name, name, 1, one.path.name, 0.0, 1.0) for name, one in made.items()]
    page = site(tmp_path, clips)
    draw = random.Random(1)
    far = []
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        for name, one in made.items():
            times = page.media.boundaries(one.path.name)
            go(browser, film=name)
            wait_for_film(browser, name)
            for _ in range(N_SEEKS // len(made)):
                asked = draw.uniform(0, float(times[-1]))
                want = max(int(np.searchsorted(times[:-1], asked, side="right")) - 1, 0)
                in_page(browser, "player.seek(given[0]);", asked)
                found = settled(browser, one.numbers[want])
                far.append((abs(one.numbers.index(found) - want), name, asked))
        stated = text(browser, "#picture")
    print(f"{len(far)} seeks, {sum(not n for n, *_ in far)} exact")
    assert len(far) == N_SEEKS // len(made) * len(made)
    assert max(far)[0] <= 1, max(far)
    assert sum(not n for n, *_ in far) >= 0.95 * len(far)
    assert stated.startswith("picture ")


def test_a_film_of_several_files_is_one_time_line(browser: Any, tmp_path: Path) -> None:
    for number in range(3):
        numbers = range(50 * number, 50 * number + 50)
        path = tmp_path / f"{number}.mp4"
        write_video(path, numbers=numbers, options={"g": "10"})
    clips = [Clip(f"lake-{k}", "lake", k, f"{k}.mp4", level="EN") for k in range(3)]
    page = site(tmp_path, clips, "eva")
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        for picture in (0, 49, 50, 99, 100, 149):
            in_page(browser, "player.seek(given[0] + 1e-6);", picture / 25)
            wait(lambda: in_page(browser, "return player.knowsPictures();"))
            wait_for_picture(browser, picture)
        # Steps cross from file to file.
        in_page(browser, "player.seek(given[0] + 1e-6);", 99 / 25)
        wait_for_picture(browser, 99)
        keys_to_body(browser, ".")
        wait_for_picture(browser, 100)
        keys_to_body(browser, ",")
        wait_for_picture(browser, 99)
        # From the last picture of a file it plays the next one, not this one again.
        keys_to_body(browser, " ")
        wait(lambda: in_page(browser, "return player.plays();"))
        wait(lambda: in_page(browser, "return player.now();") >= 4)
        in_page(browser, "await player.hold();")
        # It is looked at, and not marked.
        assert text(browser, "#picture") == ""
        assert not browser.find_element("id", "mark").is_displayed()
        said = "This film can be looked at, not marked: there is no file of the whole film."
        assert text(browser, "#not-shown") == said


@pytest.mark.parametrize(("name", "late"), [("lake.mkv", 75)])
def test_pictures_are_counted_and_their_times_are_those_of_the_file(
    browser: Any, name: str, late: int, tmp_path: Path
) -> None:
    """They begin later than the sound."""
    ticks = range(late, late + 200)
    options = {"g": "10"}
    write_video(
        tmp_path / name, numbers=range(200), ticks=ticks, audio=True, options=options
    )
    with served(site(tmp_path, film_clips("lake", name, 7), "eva")) as server:
        open_lake(browser, server)
        for time_s in (4.0, 5.0, 3.02, 0.0):
            number = max(int(25 * time_s + 1e-6) - late, 0)
            in_page(browser, "player.seek(given[0] + 1e-6);", time_s)
            wait_for_picture(browser, number)
            wait_for_text(browser, "#picture", f"picture {number}")
        starts = in_page(
            browser, "return [0, 75, 100, 200].map((one) => player.startOf(one));"
        )
        expected = [(late + number) / 25 for number in (0, 75, 100, 200)]
        np.testing.assert_allclose(starts, expected, atol=1e-9)
        keys_to_body(browser, ".")
        wait_for_text(browser, "#picture", "picture 1")
        keys_to_body(browser, ",")
        wait_for_text(browser, "#picture", "picture 0")


# ---- the time line -------------------------------------------------------------------------------


# ---- what everybody can use ----------------------------------------------------------------------


def nameless_elements(browser: Any) -> list[str]:
    """Return what can be used and has no name; [] while the page is being drawn."""
    from selenium.common.exceptions import StaleElementReferenceException

    shown = "input, select, textarea, button, a, video, [tabindex='0']"
    nameless = []
    try:
        for one in browser.find_elements("css selector", shown):
            if one.is_displayed() and not one.accessible_name:
                nameless.append(one.get_attribute("outerHTML"))
    except StaleElementReferenceException:
        return []
    return nameless or ["all have names"]


def test_nothing_is_wider_than_the_window_and_all_have_names(
    browser: Any, tmp_path: Path
) -> None:
    script = (
        "const root = document.documentElement; return [innerWidth, root.scrollWidth]"
    )

    def fits(width: int) -> bool:
        inner, wide = browser.execute_script(script)
        return inner == width >= wide

    with served(films(tmp_path)) as server:
        open_page(browser, server.new_address(), "films")
        for place in ({}, {"film": "lake"}, {"clip": "lake-001"}):
            go(browser, **place)
            title = next(iter(place.values()), "films")
            wait_for_title(browser, title)
            assert wait(lambda: nameless_elements(browser)) == ["all have names"]
            for width in (390, 1280, 1920):
                resize(browser, width)
                wait(lambda width=width: fits(width))
    resize(browser, 1400)


@pytest.mark.parametrize(("width", "height"), [(1280, 720)])
def test_film_and_form_and_time_line_are_in_sight_together(
    browser: Any, tmp_path: Path, width: int, height: int
) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    boxes = """return ["video", "mark", "bar", "scroll"].map((id) => {
      const box = document.getElementById(id).getBoundingClientRect();
      return [box.left, box.top, box.right, box.bottom];
    });"""
    with served(films(tmp_path)) as server:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        open_lake(browser, server)
        video, form, bar, line = browser.execute_script(boxes)
        for left, top, right, bottom in (video, form, bar):
            assert left >= 0 and right <= width
            assert top >= 0 and bottom <= height
        # At least two rows of the time line, below the ruler and the pictures.
        assert line[1] + 120 <= height
        # The film is left of the form, and at least as wide.
        assert video[2] <= form[0]
        assert video[2] - video[0] >= form[2] - form[0]
        assert video[3] - video[1] >= height / 3
        keys_to_body(browser, "F")
        is_full = "return Boolean(document.fullscreenElement)"
        wait(lambda: browser.execute_script(is_full))
        video, form, bar, line = browser.execute_script(boxes)
        # The film is behind the form, which is still in sight.
        assert (video[0], video[1]) == (0, 0)
        assert form[2] <= video[2] and form[3] <= video[3]
        keys_to_body(browser, "F")
        wait(lambda: not browser.execute_script(is_full))
    resize(browser, 1400)


# ---- nothing for others --------------------------------------------------------------------------


def test_text_of_others_is_never_markup(browser: Any, tmp_path: Path) -> None:
    write_video(tmp_path / "lake.mp4", numbers=range(30))
    extra = {"movie_title": MARKUP, "comment": MARKUP, "annotator": MARKUP}
    clips = [Clip("lake-1", "lake", 1, "lake.mp4", 0.0, 1.0, "S", ("Look",), extra)]
    tier = Mark("lake", 0, 0.4, "mood", MARKUP, "ada")
    table = write_marks(tmp_path / "marks.csv", segment(0, 0.4, MARKUP), [tier])
    page = site(tmp_path, clips, "eva", segments=table)
    name = MARKUP.replace("|", "/")
    vocabulary = (
        'schema = "obygaze-vocabulary/1"\n[[concepts]]\n'
        f"name = {json.dumps(name[:100])}\ndefinition = {json.dumps(MARKUP)}\n"
    )
    (tmp_path / "segments" / "films.vocabulary.toml").write_text(vocabulary, "utf-8")
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        places = (
            {"film": "lake"},
            {"clip": "lake-1"},
            {"film": MARKUP},
            {"clip": MARKUP},
        )
        for place in places:
            go(browser, **place)
            # A request after which what was asked before is answered.
            in_page(browser, "await tools.load('overview');")
            wait(lambda: in_page(browser, "return document.images.length;") < 4)
            assert browser.execute_script("return window.attacked") is None
        assert MARKUP[:100] in browser.execute_script(
            "return document.body.textContent"
        )


def requests_of(browser: Any) -> set[str]:
    urls = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            urls.add(message["params"]["request"]["url"])
    return {url for url in urls if not url.startswith(("data:", "about:"))}


def test_no_request_leaves_the_machine_and_nothing_fails(
    browser: Any, tmp_path: Path
) -> None:
    page = films(tmp_path)
    # The page of the test before asks no more.
    browser.get("about:blank")
    browser.get_log("performance")
    browser.get_log("browser")
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        go(browser, film="lake", t=3)
        wait(lambda: settled(browser, 75) == 75)
        go(browser, clip="lake-001")
        wait(lambda: "lake-001" in browser.title)
        assert "token" not in browser.current_url
        assert {urlsplit(url).netloc for url in requests_of(browser)} == {server.host}
    severe = [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert severe == []


def test_an_exported_page_needs_no_server_and_sends_nothing(
    browser: Any, tmp_path: Path
) -> None:
    page = films(tmp_path)
    clips = [replace(clip, extra={"mood": "tense"}) for clip in page.manifest]
    page = replace(page, manifest=page.manifest.with_clips(clips))
    folder = tmp_path / "page"
    export_page(page, folder)
    names = {path.name for path in folder.iterdir()}
    assert names == {"index.html", "page.css", "page.js", "data.js"}
    data = (folder / "data.js").read_text("utf-8")
    assert str(tmp_path) not in data
    documents = json.loads(data.removeprefix("const EXPORTED = "))
    assert documents["overview"]["annotator"] is None
    browser.get("about:blank")
    browser.get_log("performance")
    browser.get_log("browser")
    resize(browser, 1400)
    open_page(browser, (folder / "index.html").as_uri(), "films")
    assert "10 of 10 clips" in text(browser, "#n-clips")
    assert "mood: tense" in text(browser, ".card")
    go(browser, film="lake", t=1.2)
    wait(lambda: text(browser, "#time") == "0:00:01.200")
    wait(lambda: "clip lake-001: S sure; Look" in text(browser, "#here"))
    assert "ada: S sure; Look" in text(browser, "#here")
    assert not browser.find_element("id", "mark").is_displayed()
    assert text(browser, "#refused") == (
        "This copy of the page has no videos and no pictures."
    )
    # Where a film has no video, there is no player, and all rows are in sight.
    for key, is_there in ((" ", False), ("q", False), ("n", True)):
        (button,) = browser.find_elements("css selector", f"[data-key='{key}']")
        assert button.is_displayed() == is_there
    assert browser.find_element("id", "screen").rect["height"] < 300
    assert browser.execute_script(
        "return document.getElementById('lanes').getBoundingClientRect().bottom < innerHeight"
    )
    go(browser, clip="lake-001")
    wait(lambda: browser.title.startswith("lake-001"))
    assert text(browser, "#clip-facts").endswith("S sure: Look; mood: tense")
    assert {urlsplit(url).scheme for url in requests_of(browser)} == {"file"}
    # It has no pictures: none is asked for, and none is drawn as an empty frame.
    assert browser.get_log("browser") == []
    assert browser.find_elements("css selector", ".card img, .blank") == []
    (folder / "thesis.txt").write_text("mine", "utf-8")
    with pytest.raises(AlreadyThere, match=r"also holds 'thesis\.txt'"):
        export_page(page, folder)
    assert (folder / "thesis.txt").read_text("utf-8") == "mine"


def test_a_private_file_leads_the_browser_to_the_page(
    browser: Any, tmp_path: Path
) -> None:
    """The cookie is for the page alone, also if the way to it begins in a file."""
    with served(films(tmp_path)) as server:
        with leading_page(server.new_address(), tmp_path) as path:
            assert path.parent == tmp_path
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            browser.get(path.as_uri())
            wait(lambda: "films" in browser.title)
        assert not path.exists()
        browser.refresh()
        wait(lambda: "films" in browser.title)
        assert "token" not in browser.current_url

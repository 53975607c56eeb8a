"""A real browser shows the page from a file: pictures that were asked for, by keys alone."""

import json
import random
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
    wait,
    wait_for_picture,
    wait_for_text,
    wait_for_title,
)
from support.film_pages import (
    film_clips,
    manifest,
    page_file,
    segment,
    site,
    write_marks,
)
from support.run_tables import MANIFEST, Clips, MadeCell, labels_of, made_run
from support.seeds import amount
from support.video_kinds import KINDS
from support.videos import write_video

from obygaze.films.marks import Mark
from obygaze.films.page.media import picture_times
from obygaze.films.page.site import Site
from obygaze_features.manifest.model import Clip

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [pytest.mark.check("drives a browser"), pytest.mark.timeout(300)]

OTHER_IMAGES = "return document.querySelectorAll('img:not(#still)').length;"
N_SEEKS = amount(12, 300)
SEEN = ("mp4_h264_pyramid", "mkv_variable_rate", "webm_vp9")
MARKUP = (
    "</script><img src=x onerror='window.attacked=1'><script>window.attacked=1</script>"
)


def films(folder: Path) -> Site:
    """A page of a lake with a picture of its number at each time, and marks of two people."""
    write_video(folder / "lake.mp4", numbers=range(250), options={"g": "50"})
    own = [
        Mark("lake", 1, 2, "comment", "a mirror", "ada"),
        Mark("lake", 1, 3, "mood", "calm", "ben"),
    ]
    marks = (segment(1, 2), segment(2, 2.44, level="HN"), segment(1.2, 2, "ben"), own)
    write_marks(folder / "segments" / "films.both.csv", *marks)
    return site(folder, film_clips("lake", "lake.mp4"))


# ---- pictures ------------------------------------------------------------------------------------


def test_seeks_show_the_picture_that_was_asked_for(browser, tmp_path) -> None:
    made = {name: KINDS[name](tmp_path) for name in SEEN}
    clips = [Clip(name, name, 1, one.path.name, 0.0, 1.0) for name, one in made.items()]
    page = site(tmp_path, clips)
    draw = random.Random(1)
    far = []
    for name, one in made.items():
        found_times = picture_times(one.path, tmp_path / "indexes")
        assert found_times is not None
        times = found_times[1:]
        open_page(browser, page_file(page, name), name)
        for _ in range(N_SEEKS // len(made)):
            asked = draw.uniform(0, float(times[-1]))
            want = max(int(np.searchsorted(times[:-1], asked, side="right")) - 1, 0)
            in_page(browser, "player.seek(given[0]);", asked)
            found = settled(browser, one.numbers[want])
            far.append((abs(one.numbers.index(found) - want), name, asked))
    assert max(far)[0] <= 1, max(far)
    assert sum(not n for n, *_ in far) >= 0.95 * len(far)
    assert text(browser, "#picture").startswith("picture ")


def test_a_film_of_several_files_is_one_time_line(browser: Any, tmp_path: Path) -> None:
    for number in range(3):
        numbers = range(50 * number, 50 * number + 50)
        path = tmp_path / f"{number}.mp4"
        write_video(path, numbers=numbers, options={"g": "10"})
    clips = [Clip(f"lake-{k}", "lake", k, f"{k}.mp4", level="EN") for k in range(3)]
    open_page(browser, page_file(site(tmp_path, clips)), "lake")
    for picture in (0, 49, 50, 99, 100, 149):
        in_page(browser, "player.seek(given[0] + 1e-6);", picture / 25)
        wait_for_picture(browser, picture)
    # Steps cross from file to file. From the last picture of a file it plays the next one.
    in_page(browser, "player.seek(given[0] + 1e-6);", 100 / 25)
    wait_for_picture(browser, 100)
    keys_to_body(browser, ",")
    wait_for_picture(browser, 99)
    keys_to_body(browser, " ")
    wait(lambda: in_page(browser, "return player.plays();"))
    wait(lambda: in_page(browser, "return player.now();") >= 4)
    in_page(browser, "await player.hold();")
    assert text(browser, "#picture") == ""


def test_files_that_overlap_and_clips_in_a_row_are_looked_at(browser, tmp_path) -> None:
    clips = []
    for name, (start, end) in {"long": (0, 12), "short": (2, 4)}.items():
        numbers = range(25 * (end - start))
        write_video(tmp_path / f"{name}.mp4", numbers=numbers, options={"g": "10"})
        span = {"film_start_s": str(start), "film_end_s": str(end)}
        clips.append(Clip(name, "lake", None, f"{name}.mp4", extra=span))
    for k in (2, 1):
        path = tmp_path / f"{k}.avi"
        write_video(path, codec="mpeg4", numbers=range(25 * k, 25 * k + 25))
        clips.append(Clip(f"pond-{k}", "pond", k, path.name))
    page = site(tmp_path, clips)
    open_page(browser, page_file(page), "lake")
    for time_s, picture in ((3, 25), (8, 200)):
        in_page(browser, "player.seek(given[0] + 1e-6);", time_s)
        wait_for_picture(browser, picture)
    open_page(browser, page_file(page, "pond"), "pond")
    given = "return state.page.clips.map((one) => [one.id, one.still]);"
    still_of = dict(in_page(browser, given))
    for k in (1, 2):
        in_page(browser, "player.seek(given[0]);", k - 0.5)
        shown = browser.find_element("id", "still")
        assert shown.is_displayed()
        assert shown.get_attribute("src") == still_of[f"pond-{k}"] != ""
    go(browser, clips="")
    wait(lambda: "pond-2" in text(browser, "#grid"))
    assert text(browser, "#grid").index("pond-1") < text(browser, "#grid").index(
        "pond-2"
    )


def test_pictures_are_counted_and_their_times_are_those_of_the_file(browser, tmp_path):
    """They begin later than the sound."""
    late = 75
    path = tmp_path / "lake.mkv"
    ticks = range(late, late + 200)
    write_video(path, numbers=range(200), ticks=ticks, audio=True, options={"g": "10"})
    page = site(tmp_path, film_clips("lake", path.name, 7))
    open_page(browser, page_file(page), "lake")
    for time_s in (4.0, 3.02, 0.0):
        number = max(int(25 * time_s + 1e-6) - late, 0)
        in_page(browser, "player.seek(given[0] + 1e-6);", time_s)
        wait_for_picture(browser, number)
        wait_for_text(browser, "#picture", f"picture {number}")
    starts = in_page(browser, "return [0, 75, 200].map((one) => player.startOf(one));")
    expected = [(late + number) / 25 for number in (0, 75, 200)]
    np.testing.assert_allclose(starts, expected, atol=1e-9)
    keys_to_body(browser, ".")
    wait_for_text(browser, "#picture", "picture 1")


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


def test_nothing_is_wider_than_the_window_and_all_have_names(browser, tmp_path) -> None:
    script = (
        "const root = document.documentElement; return [innerWidth, root.scrollWidth]"
    )

    def fits(width: int) -> bool:
        inner, wide = browser.execute_script(script)
        return inner == width >= wide

    open_page(browser, page_file(films(tmp_path)), "lake")
    for place in ({}, {"clips": ""}, {"clip": "lake-001"}):
        go(browser, **place)
        wait_for_title(browser, place.get("clip", "lake"))
        assert wait(lambda: nameless_elements(browser)) == ["all have names"]
        for width in (390, 1280):
            resize(browser, width)
            wait(lambda width=width: fits(width))
    resize(browser, 1400)


# ---- nothing for others --------------------------------------------------------------------------


def test_text_of_others_is_never_markup(browser: Any, tmp_path: Path) -> None:
    write_video(tmp_path / "lake.mp4", numbers=range(30))
    extra = {"movie_title": MARKUP, "comment": MARKUP, "annotator": MARKUP}
    clips = [Clip("lake-1", "lake", 1, "lake.mp4", 0.0, 1.0, "S", ("Look",), extra)]
    tier = Mark("lake", 0, 0.4, "mood", MARKUP, "ada")
    write_marks(
        tmp_path / "segments" / "films.ada.csv", segment(0, 0.4, MARKUP), [tier]
    )
    browser.get("about:blank")
    browser.get(page_file(site(tmp_path, clips)))
    wait(lambda: "obygaze" in browser.title)
    for place in ({}, {"clips": ""}, {"clip": "lake-1"}, {"clip": MARKUP}):
        go(browser, **place)
        wait(lambda: in_page(browser, OTHER_IMAGES) == 0)
        assert browser.execute_script("return window.attacked") is None
    go(browser)
    wait(lambda: MARKUP in text(browser, "#here"))
    assert browser.execute_script("return window.attacked") is None


def requests_of(browser: Any) -> set[str]:
    urls = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            urls.add(message["params"]["request"]["url"])
    return {url for url in urls if not url.startswith(("data:", "about:"))}


def test_the_page_needs_no_server_and_asks_for_its_video_alone(browser, tmp_path):
    page = films(tmp_path)
    address = page_file(page)
    # The page of the test before asks no more.
    browser.get("about:blank")
    browser.get_log("performance")
    browser.get_log("browser")
    open_page(browser, f"{address}#t=3", "lake")
    wait(lambda: settled(browser, 75) == 75)
    go(browser, clips="")
    wait(lambda: "10 of 10 clips" in text(browser, "#n-clips"))
    go(browser, clip="lake-001")
    wait(lambda: "lake-001" in browser.title)
    video = (tmp_path / "lake.mp4").absolute().as_uri()
    assert {url.partition("#")[0] for url in requests_of(browser)} == {address, video}
    severe = [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert severe == []


def test_clips_of_less_than_a_pixel_are_drawn_in_the_whole_time_line(browser, tmp_path):
    resize(browser, 1400)
    clips = film_clips("lake", "", 2000)
    browser.get_log("browser")
    open_page(browser, page_file(site(tmp_path, clips)), "lake")
    # The two rows that are drawn are those of the clips and of their concept.
    painted = """const canvas = document.getElementById("canvas");
      const right = canvas.width - 40, [clips, look] = state.lanes;
      return [clips, look].map(({ y, height }) => {
        const pixels = canvas.getContext("2d").getImageData(right, y, 40, height).data;
        return pixels.filter((_, place) => place % 4 === 3).filter(Boolean).length > 0;
      });"""
    wait(lambda: in_page(browser, painted) == [True, True])
    severe = [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert severe == []


def test_a_comment_does_not_hide_a_level(browser: Any, tmp_path: Path) -> None:
    comment = [Mark("lake", 3.0, 5.0, "comment", "here", "ada")]
    write_marks(tmp_path / "segments" / "ada.csv", segment(0, 9), comment)
    resize(browser, 1400)
    open_page(browser, page_file(site(tmp_path, film_clips("lake", ""))), "lake")
    # The colours of the row in the comment and before it.
    colours = """const [{ y, height }] = state.lanes;
      const g = document.getElementById("canvas").getContext("2d");
      const at = (time) => time / state.film.end_s * g.canvas.width + 6;
      return [at(3), at(2)].map((x) => [...g.getImageData(x, y + height - 3, 1, 1).data]);"""
    wait(lambda: any(in_page(browser, colours)[1]))
    in_comment, of_level = in_page(browser, colours)
    assert in_comment == of_level


def test_a_page_without_its_video_has_all_else(browser: Any, tmp_path: Path) -> None:
    page = films(tmp_path)
    clips = [replace(one, video="", extra={"mood": "tense"}) for one in page.manifest]
    page = replace(page, manifest=page.manifest.with_clips(clips))
    resize(browser, 1400)
    open_page(browser, f"{page_file(page)}#t=1.2", "lake")
    wait(lambda: text(browser, "#time") == "0:00:01.200")
    wait(lambda: "clip lake-001: S sure; Look" in text(browser, "#here"))
    said = text(browser, "#here")
    assert "ada: S sure; Look" in said
    assert "a mirror" in said and "mood, ben: calm" in said
    assert text(browser, "#refused") == "There is no video for this part of the film."
    # Where a film has no video, there is no player, and all rows are in sight.
    for key, is_there in ((" ", False), ("q", False), ("n", True)):
        (button,) = browser.find_elements("css selector", f"[data-key='{key}']")
        assert button.is_displayed() == is_there
    assert browser.find_element("id", "screen").rect["height"] < 300
    assert browser.execute_script(
        "return document.getElementById('lanes').getBoundingClientRect().bottom < innerHeight"
    )
    go(browser, clips="")
    wait(lambda: "mood: tense" in text(browser, ".card"))
    go(browser, clip="lake-001")
    wait(lambda: browser.title.startswith("lake-001"))
    assert text(browser, "#clip-facts").endswith("S sure: Look; mood: tense")
    assert {urlsplit(url).scheme for url in requests_of(browser)} == {"file"}


# ---- models --------------------------------------------------------------------------------------


def test_a_model_with_one_decision_agrees_with_nothing(browser, tmp_path) -> None:
    """A score next to 0, where the decision changes, shows its side."""
    clips = film_clips("lake", "")
    ids = tuple(clip.clip_id for clip in clips)
    tested = Clips(ids, ("lake",) * 10, np.arange(10) % 2 == 1)
    cell = MadeCell("ridge", tested, np.array([-0.00004, *[-0.5] * 9]))
    about = {**MANIFEST, "labels": labels_of(manifest(tmp_path, clips))}
    run = made_run(tmp_path / "run", [cell], manifest={**about, "name": "films"})
    open_page(browser, f"{page_file(site(tmp_path, clips, run=run))}#clips=", "lake")
    wait(lambda: "score" in text(browser, "#grid"))
    cards = text(browser, "#grid")
    assert (cards.count("score -0.50"), cards.count("score -0.50: differs")) == (9, 5)
    assert "negative" not in cards
    go(browser, clip="lake-000")
    wait(lambda: browser.title.startswith("lake-000"))
    of_clip = text(browser, "#clip-more")
    assert of_clip == "ridge: score -0.00004; it calls every clip negative"

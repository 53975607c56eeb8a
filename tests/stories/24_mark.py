"""Story 24: I want to mark what I see in a film, and lose nothing.

What is stored is what was on the screen, while the film plays and picture by picture, at each frame
rate. What was not seen is no negative. A crash and a second window take nothing away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import pytest
from support.browsers import browser, wait
from support.videos import write_video

from stories.film_page import LEVEL_KEYS, FilmPage, Server, viewed
from stories.workspace import Workspace

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [pytest.mark.check("drives a browser"), pytest.mark.timeout(600)]

ANNOTATOR = "eva"
MARKS = f"segments/films.{ANNOTATOR}.csv"
# Each film has 300 pictures, whose numbers no other film has.
N_PICTURES = 300
RATES = {
    "slow": Fraction(24000, 1001),
    "even": Fraction(25),
    "fast": Fraction(30000, 1001),
}
FIRST = {film: N_PICTURES * number for number, film in enumerate(RATES)}
CLIP = 10  # pictures of a clip


def write_films(ws: Workspace, *films: str) -> None:
    ws.path("videos").mkdir()
    for film in films:
        rate = RATES[film]
        write_video(
            ws.path(f"videos/{film}.mp4"),
            numbers=range(FIRST[film], FIRST[film] + N_PICTURES),
            tick=1 / rate,
            rate=rate,
            options={"g": "48"},
        )
    ws("manifest import videos -o films")


@contextmanager
def marking(browser: Any, ws: Workspace) -> Iterator[FilmPage]:
    """Open the page of the film `even`, to mark in it."""
    with viewed(ws, "films", "--annotate", ANNOTATOR) as server:
        page = FilmPage(browser, server.address)
        page.choose_film("even")
        page.wait_for_picture(FIRST["even"])
        yield page


def rows_of(ws: Workspace, column: str) -> list[tuple[str, int, int, str]]:
    """Return film, first and last picture and value of the rows of a column of the table."""
    if not ws.path(MARKS).exists():
        return []
    rows = []
    for row in ws.read_table(MARKS):
        if row["column"] == column:
            film = row["movie_id"]
            ends = [float(row[name]) * RATES[film] for name in ("start_s", "end_s")]
            first, after = map(round, ends)
            assert ends == pytest.approx([first, after], abs=0.05)
            rows.append((film, first, after - 1, row["value"]))
    return sorted(rows)


def saved(ws: Workspace) -> list[tuple[str, int, int, str]]:
    """Return film, first and last picture and level of the marks in the table."""
    return rows_of(ws, "level")


def save(page: FilmPage, ws: Workspace, level: str) -> None:
    """Give the mark its level, save it, and wait until the table has one more."""
    from selenium.webdriver.common.keys import Keys

    n_before = len(saved(ws))
    page.press(LEVEL_KEYS[level], Keys.ENTER)
    wait(lambda: len(saved(ws)) == n_before + 1)


def mark_at(page: FilmPage, ws: Workspace, first: int, last: int, level: str) -> None:
    """Mark pictures of the film `even`."""
    start_of_film = FIRST["even"]
    for picture, key in ((first, "i"), (last + 1, "o")):
        page.go_to(f"picture {picture}")
        page.wait_for_picture(start_of_film + picture)
        page.press(key)
    save(page, ws, level)


# ---- what is stored is what was on the screen ----------------------------------------------------


def test_marks_are_the_pictures_on_the_screen_when_stepping(
    browser: Any, ws: Workspace
) -> None:
    write_films(ws, *RATES)
    expected = []
    with viewed(ws, "films", "--annotate", ANNOTATOR) as server:
        page = FilmPage(browser, server.address)
        for film, first in FIRST.items():
            page.choose_film(film)
            page.wait_for_picture(first)
            page.press(".", ".", ".", ",")
            page.wait_for_picture(first + 2)
            page.press("i")
            # Two seconds later is picture int(2 * rate).
            page.go_to("0:02")
            page.wait_for_picture(first + int(2 * RATES[film]))
            page.press(".", ".")
            page.wait_for_picture(first + int(2 * RATES[film]) + 2)
            page.press("o")
            save(page, ws, "S")
            # The mark ends before the picture that is on the screen.
            expected.append((film, 2, int(2 * RATES[film]) + 1, "S"))
    assert saved(ws) == sorted(expected)


# The pictures that the browser brings to the screen, one after another, and where the last one
# stood in this list when a key was pressed.
RECORDER = """
const rate = arguments[0], video = document.querySelector("video");
window.onScreen = [];
window.atKey = [];
const number = (time) => Math.floor(time * rate + 0.01);
const look = (_, frame) => {
  window.onScreen.push(number(frame.mediaTime));
  video.requestVideoFrameCallback(look);
};
video.requestVideoFrameCallback(look);
addEventListener("keydown", (event) => {
  if ("io".includes(event.key)) window.atKey.push(window.onScreen.length - 1);
}, true);
"""


def record(page: FilmPage, rate: Fraction) -> Callable[[], set[int]]:
    """Return a function that says which pictures were on the screen from now on."""
    page.browser.execute_script(RECORDER, float(rate))
    script = "return window.onScreen"
    return lambda: set(page.browser.execute_script(script))


def play(page: FilmPage, seen: Callable[[], set[int]], until: int) -> None:
    """Play until a picture was on the screen; the film goes on."""
    page.press(" ")
    wait(lambda: max(seen(), default=-1) >= until)


def test_marks_are_the_pictures_on_the_screen_while_the_film_plays(
    browser: Any, ws: Workspace
) -> None:
    write_films(ws, *RATES)
    expected = []
    with viewed(ws, "films", "--annotate", ANNOTATOR) as server:
        page = FilmPage(browser, server.address)
        for film, rate in RATES.items():
            page.choose_film(film)
            page.wait_for_picture(FIRST[film])
            seen = record(page, rate)
            stored = []
            for key in "io":
                # The key stops the film at the picture that is on the screen.
                play(page, seen, until=max(seen(), default=0) + 5)
                page.press(key)
                stored.append(page.picture_at_rest() - FIRST[film])
                shown = page.browser.execute_script("return window.onScreen")
                at_key = page.browser.execute_script("return window.atKey.at(-1)")
                # It was there when the key was pressed, or it was the next picture that the
                # browser showed.
                assert stored[-1] in shown[at_key : at_key + 2]
            save(page, ws, "HN")
            expected.append((film, stored[0], stored[1] - 1, "HN"))
            page.browser.refresh()
            page.wait_for_film(film)
    assert saved(ws) == sorted(expected)


# ---- what was not seen is no negative ------------------------------------------------------------


def watched_pictures(ws: Workspace) -> set[int]:
    pictures: set[int] = set()
    for _, first, last, _ in rows_of(ws, "watched"):
        pictures.update(range(first, last + 1))
    return pictures


def far_from(seen: set[int]) -> set[int]:
    """Return the pictures that are far from every one that was seen.

    A browser that is busy leaves out a few.
    """
    near: set[int] = set()
    for picture in seen:
        near.update(range(picture - 8, picture + 9))
    return set(range(N_PICTURES)) - near


def slow_down(page: FilmPage) -> None:
    """Play at a quarter of the speed, so that a busy machine shows every picture."""
    page.press("d", "d", "d")


def test_what_was_not_seen_has_no_label(browser: Any, ws: Workspace) -> None:
    write_films(ws, "even")
    with marking(browser, ws) as page:
        seen = record(page, RATES["even"])
        slow_down(page)
        # Two clips of ten pictures are seen whole, before and after a long jump.
        play(page, seen, until=24)
        page.press(" ")
        page.go_to("picture 200")
        page.wait_for_picture(FIRST["even"] + 200)
        play(page, seen, until=224)
        page.press("i")
        first = page.picture_at_rest()
        page.press(".")
        page.wait_for_picture(first + 1)
        page.press("o")
        save(page, ws, "S")
        wait(lambda: max(watched_pictures(ws), default=0) >= 224)
        never_seen = far_from(seen())
    pictures = watched_pictures(ws)
    assert {*range(1, 24), *range(201, 224)} <= pictures
    assert len(never_seen) > 100
    assert not pictures & never_seen
    rows = ["clip_id,movie_id,start_s,end_s"]
    for number in range(N_PICTURES // CLIP):
        start_s = CLIP * number / 25
        rows.append(f"even-{number},even,{start_s},{start_s + CLIP / 25}")
    ws.write("clips.csv", "\n".join(rows) + "\n")
    ws(f"manifest project {MARKS} --clips clips.csv --threshold 1 -o projected")
    projected = ws.read_table("manifests/projected.csv")
    level_of = {row["clip_id"]: row["level"] or None for row in projected}
    assert level_of["even-1"] == "EN"
    assert level_of["even-21"] == "EN"
    for number in range(N_PICTURES // CLIP):
        if never_seen >= set(range(CLIP * number, CLIP * number + CLIP)):
            assert level_of[f"even-{number}"] is None


# ---- a crash, two windows ------------------------------------------------------------------


def test_a_crash_takes_no_mark_away(browser: Any, ws: Workspace) -> None:
    from selenium.webdriver.common.keys import Keys

    write_films(ws, "even")
    server = Server(ws, "films", "--annotate", ANNOTATOR)
    try:
        page = FilmPage(browser, server.address)
        page.choose_film("even")
        page.wait_for_picture(FIRST["even"])
        mark_at(page, ws, 10, 19, "S")
    finally:
        server.crash()
    assert saved(ws) == [("even", 10, 19, "S")]
    # The page says that it could not save, and what was saved stays.
    page.go_to("picture 30")
    page.press("i", ".", ".", "o", LEVEL_KEYS["HN"], Keys.ENTER)
    page.wait_for("has stopped")
    assert saved(ws) == [("even", 10, 19, "S")]
    with marking(browser, ws) as page:
        page.go_to("picture 15")
        page.wait_for_picture(FIRST["even"] + 15)
        wait(lambda: f"{ANNOTATOR} (you): S sure" in page.at_this_time())
        mark_at(page, ws, 40, 49, "EN")
    assert saved(ws) == [("even", 10, 19, "S"), ("even", 40, 49, "EN")]


def test_of_two_windows_one_marks_and_the_other_looks(
    browser: Any, ws: Workspace
) -> None:
    write_films(ws, "even")
    with marking(browser, ws) as page:
        one_window = browser.current_window_handle
        address = browser.current_url
        mark_at(page, ws, 10, 19, "S")
        browser.switch_to.new_window("tab")
        try:
            other_page = FilmPage(browser, address, "even")
            other_page.wait_for_film("even")
            mark_at(other_page, ws, 60, 69, "EN")
            both = [("even", 10, 19, "S"), ("even", 60, 69, "EN")]
            assert saved(ws) == both
            browser.switch_to.window(one_window)
            page.go_to("picture 12")
            page.wait_for_picture(FIRST["even"] + 12)
            page.press(LEVEL_KEYS["HN"])
            page.wait_for("This window only looks: another window marks now.")
            assert saved(ws) == both
            page.go_to("picture 62")
            page.wait_for_picture(FIRST["even"] + 62)
            wait(lambda: f"{ANNOTATOR} (you): EN" in page.at_this_time())
            page.click("#mark-here")
            page.wait_for("New mark")
            page.press(LEVEL_KEYS["NS"])
            wait(lambda: ("even", 60, 69, "NS") in saved(ws))
        finally:
            for handle in browser.window_handles:
                if handle != one_window:
                    browser.switch_to.window(handle)
                    browser.close()
            browser.switch_to.window(one_window)
    assert saved(ws) == [("even", 10, 19, "S"), ("even", 60, 69, "NS")]


# ---- from a folder of films to a mark ------------------------------------------------------------


def test_a_scholar_with_a_folder_of_films_marks_at_once(
    browser: Any, ws: Workspace
) -> None:
    """The manifest of a folder is made by the page: one command leads to a saved mark."""
    ws.path("my films").mkdir()
    write_video(
        ws.path("my films/even.mp4"), numbers=range(300), options={"g": "48"}, rate=25
    )
    table = f"segments/my_films.{ANNOTATOR}.csv"
    with viewed(ws, "my films", "--annotate", ANNOTATOR) as server:
        page = FilmPage(browser, server.address, "my_films")
        page.choose_film("even")
        page.wait_for_picture(0)
        page.go_to("picture 10")
        page.wait_for_picture(10)
        page.press("i", ".", ".")
        page.wait_for_picture(12)
        page.press("o", LEVEL_KEYS["S"])
        wait(lambda: "level" in columns_of(ws, table))
    for row in ws.read_table(table):
        if row["column"] == "level":
            assert (row["movie_id"], row["value"]) == ("even", "S")
            assert (row["start_s"], row["end_s"]) == ("0.4", "0.48")


def columns_of(ws: Workspace, table: str) -> list[str]:
    if not ws.path(table).exists():
        return []
    return [row["column"] for row in ws.read_table(table)]

"""Story 23: I want to look at a film: its clips, levels, concepts, and what a model says of them.

A page of each film shows them from a file, without a server, by mouse and by keyboard alone. Above
the scores stands what the run says of the model, so that nobody takes a score for a fact.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.browsers import (
    browser,
    keys_to_body,
    open_page,
    picture_shown,
    resize,
    text,
    wait,
    wait_for_picture,
    wait_for_title,
)
from support.once import made_once

from stories.films import first_number, rows_of_clips
from stories.made import begin_with_extracted_films
from stories.workspace import Workspace

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [pytest.mark.check("drives a browser"), pytest.mark.timeout(600)]

PICTURES_OF_CLIP = 25
ROWS = {row["clip_id"]: row for row in rows_of_clips()}
SETTINGS = (
    """--set 'grid.models=["ridge"]' --set 'grid.train=["EN_S"]' """
    """--set 'grid.test=["EN_S"]' --set report.replicates=20 --jobs 1"""
)


# How the page is built is known here alone; else a story uses its words and keys.
ALL_CLIPS = "#all-clips"
CARD = "#grid .card"
HERE = "#here"
LANE_NAMES = "#lane-names li"
WATCH_IN_FILM = "#clip-watch"
TIME_LINE = "#scroll"
LEVEL_CHOICE = "#filters [name=level]"
SHOW_CLIPS = "#filters button"
FILM_CHOICE = "#film-choice"
SCORES_CHOICE = "#cell-choice"


def viewed(ws: Workspace, words: str) -> dict[str, str]:
    pages = ws(f"view {words} --no-browser --json").json()["pages"]
    paths = [ws.path(page) for page in pages]
    return {path.stem: path.absolute().as_uri() for path in paths}


class FilmPage:
    def __init__(self, browser: Any, pages: dict[str, str], film: str) -> None:
        self.browser = browser
        resize(browser, 1400)
        open_page(browser, pages[film], film)

    def text(self) -> str:
        """Everything that a person reads on the page, with each run of blanks as one blank."""
        return " ".join(text(self.browser, "body").split())

    def wait_for(self, words: str) -> None:
        wait(lambda: words in self.text())

    def wait_for_film(self, film: str) -> None:
        wait_for_title(self.browser, film)
        wait(lambda: self.picture() >= 0)

    def choose(self, field: str, words: str) -> None:
        from selenium.webdriver.support.select import Select

        choice = Select(self.browser.find_element("css selector", field))
        (entry,) = [one.text for one in choice.options if one.text.startswith(words)]
        choice.select_by_visible_text(entry)

    def choose_by_keys(self, field: str, words: str) -> None:
        """Choose the entry of a list that begins with these words by Tab and the arrow down."""
        from selenium.webdriver.common.keys import Keys
        from selenium.webdriver.support.select import Select

        name = field.removeprefix("#")
        self.focus_reaches(lambda one: one.get_attribute("id") == name)
        choice = Select(self.browser.find_element("css selector", field))
        for _ in choice.options:
            self.press(Keys.ARROW_DOWN)
            if choice.first_selected_option.text.startswith(words):
                return
        raise AssertionError("the arrow down does not lead there")

    def picture(self) -> int:
        """Return the number of the picture that is on the screen; -1 while none can be read."""
        return picture_shown(self.browser)

    def wait_for_picture(self, number: int) -> None:
        wait_for_picture(self.browser, number)

    def press(self, *keys: str) -> None:
        """Press keys, one after another, wherever the focus is."""
        for key in keys:
            keys_to_body(self.browser, key)

    def click(self, selector: str, x: float = 0.5) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        element = self.browser.find_element("css selector", selector)
        across = round((x - 0.5) * element.size["width"])
        actions = ActionChains(self.browser)
        actions.move_to_element_with_offset(element, across, 0).click().perform()

    def cards(self) -> list[str]:
        cards = self.browser.find_elements("css selector", CARD)
        return [" ".join(card.text.split()) for card in cards]

    def focus_reaches(self, is_there: Callable[[Any], bool]) -> None:
        """Press Tab until the focus is where it should be."""
        from selenium.webdriver.common.keys import Keys

        for _ in range(60):
            self.press(Keys.TAB)
            if is_there(self.browser.switch_to.active_element):
                return
        raise AssertionError("Tab does not lead there")

    def go_to(self, place: str) -> None:
        """Go to a time or a picture by keys: `g`, Ctrl and `a`, the place, Enter."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        self.press("g")
        actions = ActionChains(self.browser).key_down(Keys.CONTROL).send_keys("a")
        actions.key_up(Keys.CONTROL).perform()
        self.press(place, Keys.ENTER)

    def at_this_time(self) -> str:
        """Return what the page says of the picture that is shown, in words."""
        found = self.browser.find_element("css selector", HERE)
        return " ".join(found.text.split())


def begin_with_run(ws: Workspace) -> None:
    def make(folder: Path) -> None:
        made = Workspace(folder)
        begin_with_extracted_films(made)
        made(
            f"run honest --store films.descriptors --manifest films -o honest {SETTINGS}"
        )

    ws.copy_of(made_once("stories", make, "a run to look at"))
    ws("manifest link films videos")


def predictions(ws: Workspace) -> dict[str, dict[str, str]]:
    table = ws.read_table("runs/honest/predictions.csv")
    rows = [row for row in table if row["model"] == "ridge"]
    assert len({row["clip_id"] for row in rows}) == len(rows)
    return {row["clip_id"]: row for row in rows}


def words_on_card(row: dict[str, str]) -> str:
    decision = "positive" if row["decision"] == "1" else "negative"
    verdict = "" if row["decision"] == row["y"] else ": differs"
    return f"score {float(row['score']):.2f}, {decision}{verdict}"


def test_all_clips_of_a_film_have_their_level_concepts_and_score(browser, ws) -> None:
    begin_with_run(ws)
    scored = predictions(ws)
    pages = viewed(ws, "films --run honest")
    assert [*pages] == ["harbour", "lake", "night", "station"]
    page = FilmPage(browser, pages, "harbour")
    page.wait_for_film("harbour")
    lanes = browser.find_elements("css selector", LANE_NAMES)
    assert {"clips: annotated level", "Look", "Body"} < {lane.text for lane in lanes}
    # The time line is as wide as the film of ten clips: click the middle of the third.
    page.click(TIME_LINE, 0.25)
    wait(
        lambda: (
            f"clip harbour-003: {ROWS['harbour-003']['level']}" in page.at_this_time()
        )
    )
    first = first_number("harbour") + 2 * PICTURES_OF_CLIP
    wait(lambda: first <= page.picture() < first + PICTURES_OF_CLIP)
    page.click(ALL_CLIPS)
    page.wait_for("10 of 10 clips")
    cards = page.cards()
    # From page to page by the list of films.
    page.choose(FILM_CHOICE, "station")
    page.wait_for_film("station")
    page.click(ALL_CLIPS)
    page.wait_for("10 of 10 clips")
    card_of_clip = {card.split()[0]: card for card in [*cards, *page.cards()]}
    films = ("harbour", "station")
    assert [*card_of_clip] == [name for name in ROWS if ROWS[name]["movie_id"] in films]
    for clip_id, card in card_of_clip.items():
        row = ROWS[clip_id]
        assert f" {row['level']}" in card
        assert row["concepts"] in card
        if clip_id in scored:
            assert card.endswith(words_on_card(scored[clip_id]))
        else:
            assert "score" not in card
    # What the run says of the model stands on the page.
    assert re.search(r"On unseen films, ridge has AP \.[0-9]{2} \[", page.text())
    page.choose(LEVEL_CHOICE, "HN")
    page.click(SHOW_CLIPS)
    page.wait_for("2 of 10 clips")
    shown = {card.split()[0] for card in page.cards()}
    of_film = [name for name in ROWS if ROWS[name]["movie_id"] == "station"]
    assert shown == {name for name in of_film if ROWS[name]["level"] == "HN"}


def test_a_clip_and_its_film_are_reached_by_keyboard_alone(browser, ws) -> None:
    from selenium.webdriver.common.keys import Keys

    begin_with_run(ws)
    scored = predictions(ws)
    page = FilmPage(browser, viewed(ws, "films --run honest"), "harbour")
    page.choose_by_keys(SCORES_CHOICE, "ridge")
    all_clips = ALL_CLIPS.removeprefix("#")
    page.focus_reaches(lambda one: one.get_attribute("id") == all_clips)
    page.press(Keys.ENTER)
    page.wait_for("10 of 10 clips")
    card_class = CARD.rpartition(".")[2]
    page.focus_reaches(lambda one: one.get_attribute("class") == card_class)
    page.press(Keys.ENTER)
    wait(lambda: "harbour-001" in browser.title)
    link = WATCH_IN_FILM.removeprefix("#")
    page.focus_reaches(lambda one: one.get_attribute("id") == link)
    page.press(Keys.ENTER)
    page.wait_for_film("harbour -")
    first = first_number("harbour")
    page.wait_for_picture(first)
    # Picture by picture, by a second, and to the next and the previous clip.
    page.press(".", ".", ".", ",")
    page.wait_for_picture(first + 2)
    page.press(Keys.ARROW_RIGHT)
    page.wait_for_picture(first + 27)
    page.press(Keys.ARROW_LEFT)
    page.wait_for_picture(first + 2)
    page.press("n", "n")
    page.wait_for_picture(first + 50)
    page.press("p")
    page.wait_for_picture(first + 25)
    page.go_to("0:07.5")
    page.wait_for_picture(first + 187)
    page.go_to("0")
    page.wait_for_picture(first)
    # From difference to difference of model and annotation.
    differ = []
    for number in range(10):
        row = scored.get(f"harbour-{number + 1:03d}")
        if number and row and row["decision"] != row["y"]:
            differ.append(number)
    assert differ
    for number in differ:
        page.press("e")
        page.wait_for_picture(first + PICTURES_OF_CLIP * number)
        assert "differs from the annotation" in page.at_this_time()

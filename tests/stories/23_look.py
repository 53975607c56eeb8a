"""Story 23: I want to look at a film: its clips, levels, concepts, and what a model says of them.

A page of each film shows them from a file, without a server, by mouse and by keyboard alone. Above
the scores stands what the run says of the model, so that nobody takes a score for a fact.
"""

import re
from pathlib import Path

import pytest
from support.browsers import browser, wait
from support.once import made_once

from stories.film_page import (
    ALL_CLIPS,
    CARD,
    FILM_CHOICE,
    LANE_NAMES,
    LEVEL_CHOICE,
    SCORES_CHOICE,
    SHOW_CLIPS,
    TIME_LINE,
    WATCH_IN_FILM,
    FilmPage,
    viewed,
)
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


def begin_with_run(ws: Workspace) -> None:
    """Begin with four films and the run `honest` of a model on their features."""

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
    assert re.search(r"ridge (ranks|orders) clips.* AP 0?\.[0-9]{2} \[", page.text())
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

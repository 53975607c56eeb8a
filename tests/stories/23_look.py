"""Story 23: I want to look at a film: its clips, levels, concepts, and what a model says of them.

A page of each film shows them from a file, without a server, by mouse and by keyboard alone. Above
the scores stands what the run says of the model, so that nobody takes a score for a fact.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

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

FILM = "lake"
PICTURES_OF_CLIP = 25
ROWS = {row["clip_id"]: row for row in rows_of_clips()}
WORDS = {"EN": "easy negative", "HN": "hard negative", "NS": "not sure", "S": "sure"}
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


def predictions(ws: Workspace) -> dict[str, dict[str, Any]]:
    """Return the score, the decision and the annotation of each test clip of the run."""
    with ws.path("runs/honest/predictions.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["model"] == "ridge"]
    assert len({row["clip_id"] for row in rows}) == len(rows)
    found = {}
    for row in rows:
        found[row["clip_id"]] = {
            "score": float(row["score"]),
            "decision": int(row["decision"]),
            "y": int(row["y"]),
        }
    return found


def words_of_score(prediction: dict[str, Any]) -> str:
    decision = "positive" if prediction["decision"] else "negative"
    agrees = prediction["decision"] == prediction["y"]
    verdict = "agrees with the annotation" if agrees else "differs from the annotation"
    return f"ridge: score {prediction['score']:.2f}, {decision}: {verdict}"


def words_on_card(prediction: dict[str, Any]) -> str:
    decision = "positive" if prediction["decision"] else "negative"
    verdict = "" if prediction["decision"] == prediction["y"] else ": differs"
    return f"score {prediction['score']:.2f}, {decision}{verdict}"


def test_all_clips_of_a_film_have_their_level_concepts_and_score(
    browser: Any, ws: Workspace
) -> None:
    begin_with_run(ws)
    scored = predictions(ws)
    pages = viewed(ws, "films --run honest")
    assert [*pages] == ["harbour", "lake", "night", "station"]
    page = FilmPage(browser, pages, "harbour")
    page.click(ALL_CLIPS)
    page.wait_for("10 of 10 clips")
    # From page to page by the list of films.
    cards: dict[str, str] = {}
    for film in pages:
        if film != "harbour":
            page.choose(FILM_CHOICE, film)
            page.wait_for_film(film)
            page.click(ALL_CLIPS)
            page.wait_for("10 of 10 clips")
        cards |= {card.split()[0]: card for card in page.cards()}
    assert cards.keys() == ROWS.keys()
    for clip_id, card in cards.items():
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
    of_film = {name: row for name, row in ROWS.items() if row["movie_id"] == "station"}
    assert shown == {name for name, row in of_film.items() if row["level"] == "HN"}


def test_a_film_is_watched_by_mouse(browser: Any, ws: Workspace) -> None:
    begin_with_run(ws)
    scored = predictions(ws)
    pages = viewed(ws, f"films {FILM} --run honest")
    assert [*pages] == [FILM]
    page = FilmPage(browser, pages, FILM)
    page.wait_for_film(FILM)
    lanes = page.browser.find_elements("css selector", LANE_NAMES)
    names = [lane.text for lane in lanes]
    assert names[0] == "clips: annotated level"
    assert {"Look", "Body", "Posture", "Clothing"} < set(names)
    for number in (2, 6, 8, 1):
        # The time line is as wide as the film of ten clips: click the middle of one.
        page.click(TIME_LINE, (number + 0.5) / 10)
        clip_id = f"{FILM}-{number + 1:03d}"
        row = ROWS[clip_id]
        wait(lambda clip_id=clip_id: clip_id in page.at_this_time())
        said = page.at_this_time()
        assert f"clip {clip_id}: {row['level']} {WORDS[row['level']]}" in said
        assert row["concepts"] in said
        if clip_id in scored:
            assert words_of_score(scored[clip_id]) in said
        first = first_number(FILM) + PICTURES_OF_CLIP * number
        wait(lambda first=first: first <= page.picture() < first + PICTURES_OF_CLIP)


def test_a_clip_and_its_film_are_reached_by_keyboard_alone(
    browser: Any, ws: Workspace
) -> None:
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
        prediction = scored.get(f"harbour-{number + 1:03d}")
        if number and prediction and prediction["decision"] != prediction["y"]:
            differ.append(number)
    assert differ
    for number in differ:
        page.press("e")
        page.wait_for_picture(first + PICTURES_OF_CLIP * number)
        assert "differs from the annotation" in page.at_this_time()

"""A real browser judges the clips of a queue."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.browsers import browser, open_page, text, wait
from support.film_pages import film_clips, served, site
from support.videos import write_video

from obygaze.films.queue import ASSISTED, BLIND, QueuedClip

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [pytest.mark.check("drives a browser"), pytest.mark.timeout(240)]


def test_clips_of_a_queue_are_judged_by_keys_alone(
    browser: Any, tmp_path: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    write_video(tmp_path / "lake.mp4", numbers=range(250), options={"g": "50"})
    model = {"model": "ridge", "score": "0.7500", "suggested": "S", "otherwise": "EN"}
    queue = [
        QueuedClip("lake-004", "lake", "random", ASSISTED, **model),
        QueuedClip("lake-001", "lake", "random", BLIND, **model),
    ]
    clips = film_clips("lake", "lake.mp4")
    page = replace(site(tmp_path, clips, "eva", blind=True), queue=queue)
    with served(page) as server:
        open_page(browser, server.new_address(), "lake")
        wait(lambda: text(browser, "#judge-title") == "Clip 1 of 2: lake-004")
        wait(lambda: text(browser, "#picture") == "picture 100")
        assert text(browser, "#judge-suggestion") == (
            "The model ridge suggests S sure (score 0.75)."
        )
        # Its level is hidden, without an empty place for it.
        assert "clip lake-004" in text(browser, "#here").split("\n")
        assert not browser.find_element("id", "mark").is_displayed()
        form = browser.find_element("id", "judge")
        save = form.find_element("css selector", "button:not([type=button])")
        save.send_keys(Keys.ENTER)
        wait(lambda: "choose its level" in text(browser, "#judge-status"))
        for name in ("[value=S]", "[name=judge-concept][value=Look]"):
            form.find_element("css selector", name).send_keys(Keys.SPACE)
        save.send_keys(Keys.ENTER)
        wait(lambda: text(browser, "#judge-title") == "Clip 2 of 2: lake-001")
        wait(lambda: text(browser, "#picture") == "picture 25")
        assert text(browser, "#judge-suggestion") == (
            "For this clip no suggestion is shown."
        )
        form.find_element("css selector", "[value=EN]").send_keys(Keys.SPACE)
        save.send_keys(Keys.ENTER)
        wait(lambda: text(browser, "#judge-title").startswith("All 2 clips"))
        browser.refresh()
        wait(lambda: text(browser, "#judge-title").startswith("All 2 clips"))
    with page.marks.path.open(encoding="utf-8", newline="") as stream:  # type: ignore[union-attr]
        rows = list(csv.DictReader(stream))
    names = ("clip_id", "start_frame", "end_frame", "level", "concepts", "arm")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("lake-001", "25", "49", "EN", "", "blind"),
        ("lake-004", "100", "124", "S", "Look", "assisted"),
    ]
    assert all(0 < float(row["seconds"]) < 60 for row in rows)


def test_a_clip_is_played_up_to_its_end(browser: Any, tmp_path: Path) -> None:
    write_video(tmp_path / "lake.mp4", numbers=range(250), options={"g": "50"})
    clips = film_clips("lake", "lake.mp4")
    queue = [QueuedClip("lake-004", "lake", "random", BLIND)]
    page = replace(site(tmp_path, clips, "eva", blind=True), queue=queue)
    with served(page) as server:
        open_page(browser, server.new_address(), "lake")
        wait(lambda: text(browser, "#picture") == "picture 100")
        browser.execute_script("document.getElementById('judge-play').click()")
        script = "return video.paused && stopAt === null && film.at"
        stopped = wait(lambda: browser.execute_script(script))
        # The browser reports its time each quarter of a second.
        assert 5.0 - 1e-3 <= stopped < 9.9

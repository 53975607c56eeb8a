"""Story 37: how much is there in films that nobody annotated, and does it change with the decade?

A sample of their clips is drawn and marked blind. The share has an interval over films. Counting
what a model predicts is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from support.browsers import browser, wait
from support.seeds import amount, least_by_chance, most_by_chance
from support.videos import write_video

from stories.film_page import FilmPage, viewed
from stories.workspace import Workspace

__all__ = ["browser"]
RATE = 25
SECONDS = 2  # of a clip
N_FILMS = 24
PER_FILM = 40
MARKS = ("movie_id", "annotator", "start_frame", "end_frame", "level", "framerate")


def write_clips(ws: Workspace, n_films: int = N_FILMS) -> None:
    """Make the manifest `films` of clips in films, half of each decade, without a label."""
    rows = []
    for film in range(n_films):
        decade = "1980s" if film < n_films // 2 else "2010s"
        for clip in range(PER_FILM):
            start = SECONDS * clip
            times = {"start_s": start, "end_s": start + SECONDS}
            name = f"film{film:02d}"
            ids = {"clip_id": f"{name}-{clip:02d}", "movie_id": name}
            rows.append({**ids, **times, "decade": decade, "level": "", "concepts": ""})
    ws.write_table("clips.csv", rows)
    ws("manifest import clips.csv -o films")


def world(shares: dict[str, float], seed: int, n_films: int = N_FILMS) -> set[str]:
    """Return the clips that are S, in films whose shares differ around that of their decade."""
    draws = np.random.default_rng([37, seed])
    clips = set()
    for film in range(n_films):
        share = shares["1980s" if film < n_films // 2 else "2010s"]
        share_of_film = draws.beta(6 * share, 6 * (1 - share))
        for clip in range(PER_FILM):
            if draws.random() < share_of_film:
                clips.add(f"film{film:02d}-{clip:02d}")
    return clips


def mark(
    ws: Workspace, in_s: set[str], drawn: str = "drawn", left_out: Iterable[str] = ()
) -> None:
    """Watch the drawn clips and mark those that are S, as the table of the page has it."""
    marks = []
    watched = []
    ws(f"manifest export {drawn} drawn.csv --force")
    for row in ws.read_table("drawn.csv"):
        if row["clip_id"] in left_out:
            continue
        first = round(float(row["start_s"]) * RATE)
        last = round(float(row["end_s"]) * RATE) - 1
        cells = (row["movie_id"], "eva", first, last)
        watched.append(dict(zip(MARKS, (*cells, "watched", RATE), strict=True)))
        if row["clip_id"] in in_s:
            marks.append(dict(zip(MARKS, (*cells, "S", RATE), strict=True)))
    ws.write_table("marks.csv", [*watched, *marks])


def audit(ws: Workspace, words: str = "--marks marks.csv --by decade") -> Any:
    return ws(f"audit share drawn {words} --json").json()


def test_the_share_and_the_planted_difference_of_two_decades(ws: Workspace) -> None:
    write_clips(ws)
    ws("manifest sample films -n 120 -o drawn")
    in_s = world({"1980s": 0.15, "2010s": 0.5}, seed=0)
    mark(ws, in_s)
    document = audit(ws)
    shares = {share["group"]: share for share in document["shares"]}
    truth = len(in_s) / (N_FILMS * PER_FILM)
    assert shares["all films"]["low"] < truth < shares["all films"]["high"]
    drawn = {row["clip_id"] for row in ws.read_table("drawn.csv")}
    # All films are of one length, and each has five drawn clips.
    assert shares["all films"]["share"] == pytest.approx(len(drawn & in_s) / 120)
    assert shares["1980s"]["n_marked"] == shares["2010s"]["n_marked"] == 60
    (pair,) = document["differences"]
    assert pair["groups"] == ["1980s", "2010s"]
    assert pair["p"] < 0.05
    text = ws("audit share drawn --marks marks.csv --by decade --report how.html").text
    assert "1980s and 2010s differ: -0." in text
    page = ws.read("how.html")
    for words in (document["answer"], "1980s", "<svg"):
        assert words.replace("'", "&#39;") in page


def test_counting_predictions_is_refused_with_the_reason(ws: Workspace) -> None:
    write_clips(ws)
    text = ws("audit share films --predictions scores.csv", code=1).text
    assert "counting predictions is wrong: nobody knows how many errors" in text
    assert "manifest sample films -n 120 -o drawn" in text
    ws("manifest sample films -n 120 -o drawn")
    text = ws("audit share drawn", code=1).text
    assert "got marks in 0 films" in text


def test_predictions_make_the_interval_narrower_and_are_never_counted(
    ws: Workspace,
) -> None:
    write_clips(ws)
    ws("manifest sample films -n 120 -o drawn")
    in_s = world({"1980s": 0.3, "2010s": 0.3}, seed=1)
    mark(ws, in_s)
    draws = np.random.default_rng(37)
    for scores, explains in (("good", True), ("useless", False)):
        rows = []
        for row in ws.read_table("clips.csv"):
            signal = 3.0 * (row["clip_id"] in in_s) if explains else 0.0
            # A model that calls nearly every clip S.
            score = 5 + signal + draws.normal()
            ids = {name: row[name] for name in ("clip_id", "movie_id")}
            rows.append({**ids, "basis": "unseen", "score:S": score})
        ws.write_table(f"{scores}.csv", rows)
    alone = audit(ws)["shares"][0]
    good = audit(ws, "--marks marks.csv --predictions good.csv")
    assert good["explained"] > 0.4
    (share,) = good["shares"]
    assert share["width_of_marks"] == pytest.approx(alone["high"] - alone["low"])
    assert share["high"] - share["low"] < share["width_of_marks"]
    assert share["low"] < len(in_s) / (N_FILMS * PER_FILM) < share["high"]
    useless = audit(ws, "--marks marks.csv --predictions useless.csv")
    assert useless["shares"][0]["share"] == pytest.approx(alone["share"], abs=0.02)
    # Scores of other clips say nothing of these.
    others = [{**row, "movie_id": "film01"} for row in rows]
    ws.write_table("other.csv", others)
    text = ws(
        "audit share drawn --marks marks.csv --predictions other.csv", code=5
    ).text
    assert "are not what the manifest drawn has under the same ids" in text


def test_what_is_missing_is_counted_and_said(ws: Workspace) -> None:
    write_clips(ws)
    ws("manifest sample films -n 120 -o drawn")
    ws("manifest export drawn drawn.csv")
    drawn = [row["clip_id"] for row in ws.read_table("drawn.csv")]
    of_last_film = [clip for clip in drawn if clip.startswith("film23-")]
    left_out = {drawn[0], drawn[7], *of_last_film}
    mark(ws, world({"1980s": 0.3, "2010s": 0.3}, seed=2), left_out=left_out)
    text = ws("audit share drawn --marks marks.csv --by decade").text
    assert "7 of 120 drawn clips have no mark" in text
    assert "No mark in 1 film (film23): the share is that of the others" in text
    document = audit(ws)
    assert document["shares"][0]["n_films"] == N_FILMS - 1
    assert document["shares"][0]["n_marked"] == 113


@pytest.mark.check("audits many made-up worlds")
def test_a_difference_is_found_where_there_is_one_and_seldom_claimed_elsewhere(
    ws: Workspace,
) -> None:
    write_clips(ws)
    n_worlds = amount(5, 40)
    n_found = {}
    for name, of_late_films in (("planted", 0.65), ("none", 0.2)):
        n_found[name] = 0
        for seed in range(n_worlds):
            ws(f"manifest sample films -n 120 --seed {seed} -o drawn --force")
            mark(ws, world({"1980s": 0.2, "2010s": of_late_films}, seed=seed))
            (pair,) = audit(ws)["differences"]
            n_found[name] += pair["p"] < 0.05
    # Of 40, where each finds it in 99 of 100 cases, and claims it in 5 of 100 without one.
    assert n_found["planted"] >= least_by_chance(n_worlds, 0.99, 0.01)
    assert n_found["none"] <= most_by_chance(n_worlds, 0.05, 0.33)


# ---- marks of the page ---------------------------------------------------------------------------

SECONDS_OF_FILM = 6
# Whether the clips of a film are S.
FILMS_IN_S = {"one": False, "three": False, "two": True}
ORDER_CHOICE = "#filters [name=order]"


MARKED = "segments/drawn.eva.csv"


def rows_of(ws: Workspace, column: str) -> list[dict[str, str]]:
    """Return the marks of a column that the page has written."""
    rows = ws.read_table(MARKED) if ws.path(MARKED).exists() else []
    return [row for row in rows if row["column"] == column]


def n_seen(ws: Workspace, film: str, first: int) -> int:
    """Return how many pictures of a clip the page has written down as watched."""
    clip = range(first, first + RATE)
    seen: set[int] = set()
    for row in rows_of(ws, "watched"):
        if row["movie_id"] == film:
            start_s, end_s = float(row["start_s"]), float(row["end_s"])
            seen.update(range(round(start_s * RATE), round(end_s * RATE)))
    return len(seen.intersection(clip))


def watch(page: FilmPage, ws: Workspace, film: str, first: int, number: int) -> None:
    """Play a clip, again if the browser was too busy to show most of its pictures."""
    while n_seen(ws, film, first) < 0.9 * RATE:
        page.go_to(f"picture {first}")
        page.wait_for_picture(number)
        page.press(" ")
        wait(lambda: page.picture() >= number + RATE - 2)
        page.press(".")  # stops the film, a second before what was seen is sent
        time.sleep(2)


def mark_in_page(page: FilmPage, first: int, after: int) -> None:
    """Mark pictures as S, from the first to the one before the second."""
    from selenium.webdriver.common.keys import Keys

    page.go_to(f"picture {first}")
    page.picture_at_rest()
    page.press("i")
    page.go_to(f"picture {after}")
    page.picture_at_rest()
    page.press("o", "4", Keys.ENTER)


@pytest.mark.check("drives a browser")
@pytest.mark.timeout(600)
def test_marks_made_in_the_page_are_what_the_audit_reads(
    browser: Any, ws: Workspace
) -> None:
    n_pictures = RATE * SECONDS_OF_FILM
    ws.path("videos").mkdir()
    for number, film in enumerate(FILMS_IN_S):
        numbers = range(n_pictures * number, n_pictures * (number + 1))
        options = {"g": str(RATE)}
        write_video(ws.path(f"videos/{film}.mp4"), numbers=numbers, options=options)
    ws("manifest windows videos -o cut --seconds 1")
    ws("manifest sample cut -n 3 -o drawn")
    ws("manifest export drawn drawn.csv")
    n_marks = 0
    with viewed(ws, "drawn", "--annotate", "eva") as server:
        page = FilmPage(browser, server.address, "drawn")
        overview = browser.execute_script(
            'return import("/state.js").then(({ state }) => state.page)'
        )
        assert (overview["blind"], overview["scored_by"]) == (True, None)
        assert not browser.find_element("css selector", ORDER_CHOICE).is_displayed()
        assert len(page.cards()) == 3
        page.choose_film("one")
        page.press("d", "d")  # slower, so that a busy machine shows every picture
        for row in ws.read_table("drawn.csv"):
            film = row["movie_id"]
            number = [*FILMS_IN_S].index(film)
            first = round(float(row["start_s"]) * RATE)
            page.choose_film(film)
            watch(page, ws, film, first, n_pictures * number + first)
            if FILMS_IN_S[film]:
                # The last picture of a film has none after it.
                mark_in_page(page, first, min(first + RATE, n_pictures - 1))
                n_marks += 1
                expected = n_marks
                wait(lambda expected=expected: len(rows_of(ws, "level")) == expected)
    document = ws(f"audit share drawn --marks {MARKED} --json").json()
    (share,) = document["shares"]
    assert share["n_marked"] == 3
    assert share["share"] == pytest.approx(n_marks / 3)
    assert n_marks == 1

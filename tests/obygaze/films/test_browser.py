"""A real browser shows the page: pictures that were asked for, by keys alone, at two widths."""

from __future__ import annotations

import csv
import json
import os
import random
import stat
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from support.browsers import (
    browser,
    go,
    keys_to_body,
    open_page,
    resize,
    settled,
    text,
    times_are_known,
    wait,
)
from support.cli import call_obygaze
from support.film import write_segments
from support.film_pages import OneText, film_clips, segment, served, site, table
from support.stores import a_recipe, made_store
from support.video_kinds import KINDS
from support.videos import write_video

from obygaze.films import site as pages
from obygaze.films.app import export
from obygaze.films.site import Site
from obygaze.films.view import leading_page
from obygaze_features.core.console import Console
from obygaze_features.manifest.model import Clip
from obygaze_features.store import Row

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [
    pytest.mark.check("drives a browser"),
    pytest.mark.timeout(240),
]

# 40 seeks here; the number for all kinds together can be raised by hand.
N_SEEKS = int(os.environ.get("OBYGAZE_TEST_SEEKS", "40"))
SEEN = ("mp4_h264_pyramid", "mkv_variable_rate", "webm_vp9", "avi_packed_b")
MARKUP = "<img src=x onerror='window.attacked=1'><script>window.attacked=1</script>"


def test_seeks_show_the_picture_that_was_asked_for(
    browser: Any, tmp_path: Path
) -> None:
    made = {name: KINDS[name](tmp_path) for name in SEEN}
    clips = [Clip(name, name, 1, one.path.name, 0.0, 1.0) for name, one in made.items()]
    page, draw, far = site(tmp_path, clips), random.Random(1), []
    page.media.make_proxies(Console(verbosity=-1).progress)
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        for name, one in made.items():
            times = np.frombuffer(page.media.times(one.path.name))[1:]
            go(browser, film=name)
            wait(lambda name=name: times_are_known(browser, name))
            for _ in range(N_SEEKS // len(made)):
                asked = draw.uniform(0, float(times[-1]))
                want = int(np.searchsorted(times[:-1], asked, side="right")) - 1
                go(browser, film=name, t=f"{asked:.6f}")
                found = settled(browser, one.numbers[max(want, 0)])
                far.append((abs(one.numbers.index(found) - max(want, 0)), name, asked))
        stated = text(browser, "#picture")
    print(f"{len(far)} seeks, {sum(not n for n, *_ in far)} exact")
    assert len(far) == N_SEEKS // len(made) * len(made)
    assert max(far)[0] <= 1, max(far)
    assert sum(not n for n, *_ in far) >= 0.95 * len(far)
    assert stated.startswith("picture ")


def films(folder: Path, **more: Any) -> Site:
    """A page of a lake with a picture of its number at each time, and marks of two people."""
    write_video(folder / "lake.mp4", numbers=range(250), options={"g": "50"})
    write_segments(
        folder / "segments.csv",
        [segment(25, 49), segment(50, 60, level="HN"), segment(30, 49, "ben")],
    )
    from obygaze.films.mark_tables import read_segments

    clips = film_clips("lake", "lake.mp4")
    return site(
        folder, clips, "eva", segments=read_segments(folder / "segments.csv"), **more
    )


def test_lanes_equal_the_table(browser: Any, tmp_path: Path) -> None:
    page = films(tmp_path)
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        lanes = browser.execute_script(
            "return film.lanes.map((lane) => [lane.label, lane.bars.map((bar) =>"
            " [bar.start, bar.end, bar.level ?? null])])"
        )
        names = text(browser, "#lane-names").split("\n")
    found = dict(lanes)
    assert names == [label for label, _ in lanes]
    with (tmp_path / "segments.csv").open(encoding="utf-8") as stream:
        for annotator in ("ada", "ben"):
            stream.seek(0)
            want = [
                [
                    int(row["start_frame"]) / 25,
                    (int(row["end_frame"]) + 1) / 25,
                    row["level"],
                ]
                for row in csv.DictReader(stream)
                if row["annotator"] == annotator
            ]
            np.testing.assert_allclose(
                [bar[:2] for bar in found[annotator]],
                [row[:2] for row in want],
                atol=1e-5,
            )
            assert [bar[2] for bar in found[annotator]] == [row[2] for row in want]
    want_clips = [[k, k + 1, "S" if k % 2 else "EN"] for k in range(10)]
    assert found["clips: annotated level"] == want_clips


def test_concepts_are_those_of_one_source(browser: Any, tmp_path: Path) -> None:
    """Bars of annotators and clips in one lane looked as if all of them agreed."""
    page = films(tmp_path)
    look = "return film.lanes.find((lane) => lane.name === 'Look').bars.map((bar) => bar.start)"
    choose = (
        "$('concept-source').value = arguments[0]; $('concept-source').onchange();"
        + look
    )
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        assert browser.execute_script(choose, "ada") == [1, 2]
        assert browser.execute_script(choose, "ben") == [1.2]
        assert browser.execute_script(choose, "clips") == [1, 3, 5, 7, 9]
        said = browser.execute_script(
            "const lane = film.lanes.find((lane) => lane.name === 'Look');"
            "return describe(lane, lane.bars[0])"
        )
        assert said == "Look, in clip lake-001 of clips: annotated level"


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_window_and_all_have_names(
    browser: Any, tmp_path: Path, width: int
) -> None:
    with served(films(tmp_path)) as server:
        resize(browser, width)
        open_page(browser, server.new_address(), "films")
        for place in ({}, {"film": "lake"}, {"clip": "lake-001"}):
            go(browser, **place)
            title = next(iter(place.values()), "films")
            wait(lambda title=title: browser.title.startswith(title))
            time.sleep(0.3)
            root = "const root = document.documentElement;"
            inner, wide = browser.execute_script(
                f"{root} return [innerWidth, root.scrollWidth]"
            )
            assert inner == width >= wide
            shown = "input, select, textarea, button, a, video, [tabindex='0']"
            nameless = [
                one.get_attribute("outerHTML")
                for one in browser.find_elements("css selector", shown)
                if one.is_displayed() and not one.accessible_name
            ]
            assert nameless == []
    resize(browser, 1400)


def test_text_of_others_is_never_markup(browser: Any, tmp_path: Path) -> None:
    write_video(tmp_path / "lake.mp4", numbers=range(30))
    extra = {"movie_title": MARKUP, "comment": MARKUP, "annotator": MARKUP}
    clips = [Clip("lake-1", "lake", 1, "lake.mp4", 0.0, 1.0, "S", ("Look",), extra)]
    page = site(tmp_path, clips, "eva", segments=[segment(0, 9, MARKUP)])
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        for place in (
            {"film": "lake"},
            {"clip": "lake-1"},
            {"film": MARKUP},
            {"clip": MARKUP},
        ):
            go(browser, **place)
            time.sleep(0.4)
            assert browser.execute_script("return window.attacked") is None
            assert browser.execute_script("return document.images.length") < 4
    export(page, tmp_path / "page")
    for place, title in (("film=lake", "onerror"), ("clip=lake-1", "lake-1")):
        open_page(
            browser, f"{(tmp_path / 'page' / 'index.html').as_uri()}#{place}", title
        )
        assert browser.execute_script("return window.attacked") is None


def test_a_text_ranks_the_clips_and_its_failure_is_a_message(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from selenium.webdriver.common.keys import Keys

    words, space = "a <i>dog</i>", "ef" * 32
    tower = OneText(words, np.array([1, 0], dtype=np.float32), f"l@m#{space}")
    monkeypatch.setattr(pages, "load_text_tower", lambda *args, **options: tower)
    recipe = a_recipe(
        backbone={"name": "gone", "family": "clip", "levels": {"clip": "frame-mean"}},
        weights={"tensors": space},
    )
    clips = film_clips("lake", "", 4)
    vectors = np.array([[0, 1], [3, 4], [1, 0], [-1, 0]], dtype=np.float32)
    rows = [Row(clip.clip_id, "lake") for clip in clips]
    store = made_store(tmp_path / "s", rows, {"clip": vectors}, recipe=recipe)
    with served(site(tmp_path, clips, store=store)) as server:
        open_page(browser, server.new_address(), "films")
        field = browser.find_element("css selector", "#filters [name=text]")
        field.send_keys(words + Keys.ENTER)
        wait(lambda: text(browser, "#n-clips").startswith("4 of 4 clips, the most"))
        assert text(browser, "#n-clips").endswith(f"like “{words}” first")
        cards = [
            card.text for card in browser.find_elements("css selector", "#grid .card")
        ]
        assert [card.split()[0] for card in cards] == [
            f"lake-00{k}" for k in (2, 1, 0, 3)
        ]
        for card, cosine in zip(
            cards, ("1.000", "0.600", "0.000", "-1.000"), strict=True
        ):
            assert f"similarity {cosine} (cosine)" in card
        browser.execute_script(
            "document.querySelector('#filters [name=level]').value = 'S'"
        )
        field.send_keys(Keys.ENTER)
        wait(lambda: text(browser, "#n-clips").startswith("2 of 4 clips"))
        field.send_keys(" of others" + Keys.ENTER)
        wait(lambda: "too many tokens" in text(browser, "#n-clips"))
        assert text(browser, "#n-clips").endswith("Try: use a shorter prompt")
        assert text(browser, "#grid") == ""
        field.clear()
        field.send_keys(Keys.ENTER)
        wait(lambda: text(browser, "#n-clips") == "2 of 4 clips")
        assert "cosine" not in text(browser, "#grid")
        open_page(browser, f"{server.new_address()}#clip=lake-001", "lake-001")
        assert not browser.find_element("id", "maps").is_displayed()


def requests_of(browser: Any) -> set[str]:
    messages = [
        json.loads(entry["message"])["message"]
        for entry in browser.get_log("performance")
    ]
    sent = [
        one["params"]
        for one in messages
        if one["method"] == "Network.requestWillBeSent"
    ]
    return {one["request"]["url"] for one in sent}


def test_no_request_leaves_the_machine_and_nothing_fails(
    browser: Any, tmp_path: Path
) -> None:
    page = films(tmp_path)
    browser.get_log("performance")
    browser.get_log("browser")
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        go(browser, film="lake", t=3)
        wait(lambda: settled(browser, 75) == 75)
        go(browser, clip="lake-001")
        wait(lambda: "lake-001" in browser.title)
        assert "token" not in browser.current_url
        host = server.host
        asked = {
            url
            for url in requests_of(browser)
            if not url.startswith(("data:", "about:"))
        }
        assert {urlsplit(url).netloc for url in asked} == {host}
    export(page, tmp_path / "page", thumbnails=True)
    open_page(browser, (tmp_path / "page" / "index.html").as_uri(), "films")
    go(browser, film="lake", t=3)
    wait(lambda: "0:00:03" in text(browser, "#time"))
    assert "without videos" in text(browser, "#refused")
    asked = {
        url for url in requests_of(browser) if not url.startswith(("data:", "about:"))
    }
    assert {urlsplit(url).scheme for url in asked} == {"file"}
    assert [one for one in browser.get_log("browser") if one["level"] == "SEVERE"] == []


def test_segments_that_meet_at_a_cut_share_no_picture(
    browser: Any, tmp_path: Path
) -> None:
    """`o` and `i` at one cut put its picture into both, and ELAN made a second tier of them."""
    page = films(tmp_path)
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        for picture, keys in ((10, "i"), (40, "x"), (70, "x"), (249, "o")):
            browser.execute_script("seek(arguments[0])", (picture + 0.5) / 25)
            wait(lambda picture=picture: settled(browser, picture) == picture)
            n_marks = browser.execute_script("return film.marks.length")
            browser.execute_script("document.querySelector('#mark [value=S]').click()")
            keys_to_body(browser, keys)
            if keys == "x":
                wait(
                    lambda n_marks=n_marks: (
                        browser.execute_script("return film.marks.length") > n_marks
                    )
                )
        assert text(browser, "#end_frame").endswith("before picture 250")
        browser.execute_script("saveMark()")
        wait(lambda: browser.execute_script("return film.marks.length") == 3)
        # An end before the start is said, and not sent.
        for picture, key in ((100, "i"), (90, "o")):
            browser.execute_script("seek(arguments[0])", (picture + 0.5) / 25)
            wait(lambda picture=picture: settled(browser, picture) == picture)
            keys_to_body(browser, key)
        browser.execute_script("document.querySelector('#mark [value=S]').click()")
        browser.execute_script("saveMark()")
        wait(lambda: "ends before it starts" in text(browser, "#mark-status"))
    with page.marks.path.open(encoding="utf-8", newline="") as stream:  # type: ignore[union-attr]
        spans = [
            (row["start_frame"], row["end_frame"]) for row in csv.DictReader(stream)
        ]
    assert spans == [("10", "39"), ("40", "69"), ("70", "249")]


def test_the_start_after_a_cut_holds_only_while_the_cut_does(
    browser: Any, tmp_path: Path
) -> None:
    """The next mark started at a cut that had been moved, or at a picture of another film."""
    next_start = "newMark(); return mark.start_frame ?? null"

    def press_at(picture: int, key: str) -> None:
        browser.execute_script("seek(arguments[0])", (picture + 0.5) / 25)
        wait(lambda: settled(browser, picture) == picture)
        keys_to_body(browser, key)

    with served(films(tmp_path)) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        press_at(40, "x")
        wait(lambda: browser.execute_script("return mark.end_frame") == 39)
        press_at(60, "o")
        wait(lambda: browser.execute_script("return mark.end_frame") == 59)
        assert browser.execute_script(next_start) is None
        press_at(249, "x")
        wait(lambda: "picture 249" in text(browser, "#mark-status"))
        assert browser.execute_script("return mark.end_frame") == 248
        assert browser.execute_script(next_start) == 249
        press_at(40, "x")
        wait(lambda: browser.execute_script("return mark.end_frame") == 39)
        browser.execute_script("film.id = ''; return openFilm('lake', 0)")
        wait(lambda: browser.execute_script("return mark.end_frame ?? null") is None)
        assert browser.execute_script("return mark.start_frame ?? null") is None


def test_rows_that_are_no_marks_are_shown_and_set_aside(
    browser: Any, tmp_path: Path
) -> None:
    page = films(tmp_path)
    assert page.marks is not None
    page.marks.path.write_text(
        "movie_id,annotator,start_frame,end_frame,level,concepts\n"
        "lake,eva,10,20,S,Look\nlake,eva,30,25,S,\n",
        "utf-8",
    )
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: browser.execute_script("return film?.marks.length") == 1)
        assert "films.eva.csv:3" in text(browser, "#bad-rows-list")
        assert "30, 25" in text(browser, "#bad-rows-list")
        assert browser.execute_script("return $('mark').hidden") is False
        browser.execute_script("$('set-aside').click()")
        wait(lambda: browser.execute_script("return $('bad-rows').hidden"))
        assert "films.eva.aside.csv" in text(browser, "#status")
        keys_to_body(browser, "u")
        wait(lambda: not browser.execute_script("return $('bad-rows').hidden"))
        assert "30, 25" in text(browser, "#bad-rows-list")
        keys_to_body(browser, "U")
        wait(lambda: browser.execute_script("return $('bad-rows').hidden"))
        assert browser.execute_script("return film.marks.length") == 1
        # A table that cannot be read at all closes the form, not the film.
        page.marks.path.write_text("mine\n1\n", "utf-8")
        browser.execute_script("return guarded(refreshMarks)")
        wait(lambda: browser.execute_script("return $('mark').hidden"))
        assert "required column" in text(browser, "#cannot-mark")


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


def test_subtitles_are_read_by_the_browser(browser: Any, tmp_path: Path) -> None:
    page = films(tmp_path)
    (tmp_path / "lake.srt").write_text(
        "\ufeff1\n00:00:01,500 --> 00:00:02,000\nHello <b>you</b>\n", "utf-8"
    )
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        cues = wait(
            lambda: browser.execute_script(
                "const track = document.getElementById('video').textTracks[0];"
                "if (track) track.mode = 'hidden';"
                "return [...(track?.cues ?? [])].map((cue) => [cue.startTime, cue.endTime])"
            )
        )
    assert cues == [[1.5, 2]]


def test_a_film_of_three_hours_is_drawn(browser: Any, tmp_path: Path) -> None:
    """20 lanes and 10,000 marks; the times of frames are printed, not judged."""
    n, names = 500, [f"annotator{k:02d}" for k in range(20)]
    marks = [
        segment(
            540 * k + 7 * lane, 540 * k + 7 * lane + 300, name, ("EN", "HN", "S")[k % 3]
        )
        for lane, name in enumerate(names)
        for k in range(n)
    ]
    clips = [Clip("lake-1", "lake", 1, "", 0.0, 10_800.0, "S", (), {"framerate": "25"})]
    with served(site(tmp_path, clips, segments=marks)) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        assert len(text(browser, "#lane-names").split("\n")) >= 20
        total = "return film.lanes.slice(0, 20).reduce((sum, lane) => sum + lane.bars.length, 0)"
        assert browser.execute_script(total) == 10_000
        for zooms in (0, 5):
            for _ in range(zooms):
                keys_to_body(browser, "+")
            times = browser.execute_async_script(
                """const done = arguments[0], scroll = document.getElementById("scroll"), took = [];
                let last = performance.now();
                function frame(now) {
                  took.push(now - last);
                  last = now;
                  scroll.scrollLeft += 40;
                  const start = performance.now();
                  draw();
                  drawn.push(performance.now() - start);
                  if (took.length < 90) requestAnimationFrame(frame); else done([took, drawn]);
                }
                const drawn = [];
                requestAnimationFrame(frame);"""
            )
            frames, drawn = (np.array(one)[5:] for one in times)
            print(
                f"zoom {2**zooms}: frames median {np.median(frames):.1f} ms,"
                f" 95 % {np.quantile(frames, 0.95):.1f} ms;"
                f" drawing median {np.median(drawn):.2f} ms, longest {drawn.max():.2f} ms"
            )


# The picture that is drawn at the moment of the key, and the one that was stored for it.


@pytest.fixture(scope="module")
def three_films(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Site]:
    """A function of an annotator that returns a page of three films, of 23.976, 25 and 29.97
    pictures a second; browsers do not play the last one.
    """
    folder = tmp_path_factory.mktemp("films")
    n, names = 480, ("slow.mp4", "even.webm", "fast.avi")
    rates = (Fraction(24000, 1001), Fraction(25), Fraction(30000, 1001))
    codecs = ("libx264", "libvpx", "mpeg4")
    options: tuple[dict[str, str], ...] = ({"g": "48"}, {"deadline": "realtime"}, {})
    for name, rate, codec, chosen in zip(names, rates, codecs, options, strict=True):
        tick = 1 / rate
        write_video(
            folder / name, codec, numbers=range(n), tick=tick, rate=rate, options=chosen
        )
    clips = []
    for name in names:
        film = name.partition(".")[0]
        clips += [
            Clip(f"{film}-{k}", film, k, name, float(4 * k), float(4 * k + 4))
            for k in range(4)
        ]
    site(folder, clips).media.make_proxies(Console(verbosity=-1).progress)
    return lambda annotator: site(folder, clips, annotator)


def test_marks_of_films_of_three_rates_become_labels_without_a_rate(
    browser: Any, three_films: Callable[[str], Site]
) -> None:
    page = three_films("eva")
    folder = page.workspace.root
    rates = {"slow": 24000 / 1001, "even": 25.0, "fast": 30000 / 1001}
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        for film, rate in rates.items():
            go(browser, film=film)
            wait(lambda film=film: times_are_known(browser, film))
            # Just the third clip of each film: from second 8 to second 12.
            first, last = round(8 * rate), round(12 * rate) - 1
            for picture, key in ((first, "i"), (last + 1, "o")):
                browser.execute_script("seek(arguments[0])", (picture + 0.5) / rate)
                wait(lambda picture=picture: settled(browser, picture) == picture)
                keys_to_body(browser, key)
            browser.execute_script(
                "document.querySelector('#mark [value=S]').checked = true; saveMark()"
            )
            wait(lambda: browser.execute_script("return film.marks.length") == 1)
        browser.execute_script("document.getElementById('watched-all').click()")
        wait(lambda: "100 %" in text(browser, "#watched-share"))
    (folder / "clips.csv").write_text(
        "clip_id,movie_id,start_s,end_s\n"
        + "".join(
            f"{c.clip_id},{c.movie_id},{c.start_s},{c.end_s}\n" for c in page.manifest
        )
    )
    words = ("manifest", "project", "segments/films.eva.csv", "--clips", "clips.csv")
    done = call_obygaze(*words, "--json", cwd=folder).ok()
    levels = {row["clip_id"]: row["level"] for row in done.json()["merged"]}
    assert levels == {
        f"{film}-{k}": "S" if k == 2 else "EN" for film in rates for k in range(4)
    }
    # Of the film that was called watched it is known that nothing else is in it.
    assert "eva in even, eva in slow" in done.stderr
    assert "fast" not in done.stderr
    contradicting = call_obygaze(*words, "--fps", "24", cwd=folder)
    assert "23.976 is not the rate given by --fps" in contradicting.stderr


def test_of_two_films_chosen_one_after_the_other_the_last_is_shown(
    browser: Any, three_films: Callable[[str], Site]
) -> None:
    page = three_films("ben")
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        # The answer about the first film comes last.
        browser.execute_script(
            """const plain = window.fetch;
            window.fetch = async (address, options) => {
              const isSlow = String(address).includes("film=slow");
              if (isSlow) await new Promise((done) => (window.answer = done));
              const answer = await plain(address, options);
              if (isSlow) window.isAnswered = true;
              return answer;
            };"""
        )
        go(browser, film="slow")
        wait(lambda: browser.execute_script("return Boolean(window.answer)"))
        go(browser, film="even")
        wait(lambda: browser.title.startswith("even"))
        browser.execute_script("answer()")
        wait(lambda: browser.execute_script("return window.isAnswered"))
        wait(lambda: times_are_known(browser, "even"))
        shown = browser.execute_script("return [film.id, mark.movie_id]")
        assert (shown, text(browser, "#film-title")) == (["even", "even"], "even")


def test_a_link_leads_to_the_picture_that_was_shown(
    browser: Any, three_films: Callable[[str], Site]
) -> None:
    page = three_films("")
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        go(browser, film="slow")
        wait(lambda: times_are_known(browser, "slow"))
        for picture in (1, 7, 100, 101, 250, 333, 479):
            browser.execute_script("seek(arguments[0])", (picture + 0.5) * 1001 / 24000)
            link = browser.execute_script("copyLink(); return location.href")
            browser.execute_script("seek(0)")
            asked = float(parse_qs(urlsplit(link).fragment)["t"][0])
            browser.execute_script("seek(arguments[0])", asked)
            assert text(browser, "#picture") == f"picture {picture}"


def test_found_clips_are_in_a_row_only_where_they_follow_each_other(
    browser: Any, tmp_path: Path
) -> None:
    with served(films(tmp_path)) as server:
        open_page(browser, server.new_address(), "films")
        runs = browser.execute_script(
            """const clip = (start, end) => ({ start, end, positive: true });
            const runs = inARow([clip(0, 10), clip(10, 20), clip(620, 630)]);
            return runs.map((run) => [run.start, run.end, run.n]);"""
        )
    assert runs == [[0, 20, 2], [620, 630, 1]]


def test_a_concept_that_another_window_lacks_is_not_lost(
    browser: Any, tmp_path: Path
) -> None:
    from support.film_pages import mark, save

    page = films(tmp_path)
    with served(page) as server:
        assert save(server, mark(1, concepts=["Look"], comment="why")).status == 200
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: browser.execute_script("return film?.marks.length") == 1)
        browser.execute_script("edit(film.marks[0])")
        # The other window saves the same mark again; this one adds a concept to it.
        assert (
            save(server, mark(1, version=1, concepts=["Look"], comment="why")).status
            == 200
        )
        browser.execute_script(
            "document.querySelector('#mark [value=Body]').click(); saveMark()"
        )
        wait(lambda: "another window changed" in text(browser, "#mark-status"))
        browser.execute_script("document.getElementById('mark-mine').click()")
        wait(lambda: text(browser, "#mark-status").startswith("Saved"))
    (left,) = table(tmp_path, page.manifest, "eva").read().marks.values()
    assert left["concepts"] == ["Look", "Body"]


def test_what_is_typed_while_a_save_runs_stays_in_the_form(
    browser: Any, tmp_path: Path
) -> None:
    page = films(tmp_path)
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        browser.execute_script(
            """window.plain = window.fetch;
            window.fetch = async (address, options) => {
              const isMark = String(address) === "api/mark";
              if (isMark) await new Promise((done) => (window.answer = done));
              return plain(address, options);
            };
            Object.assign(mark, { start_frame: 10, end_frame: 20 });
            document.querySelector("#mark [value=S]").checked = true;
            saveMark();"""
        )
        wait(lambda: browser.execute_script("return Boolean(window.answer)"))
        browser.find_element("name", "comment").send_keys("later")
        browser.execute_script("window.fetch = plain; answer()")
        wait(lambda: "not saved yet" in text(browser, "#mark-status"))
        assert browser.execute_script("return form.elements.comment.value") == "later"
        browser.execute_script("saveMark()")
        wait(lambda: text(browser, "#mark-status").startswith("Saved at"))
    (left,) = table(tmp_path, page.manifest, "eva").read().marks.values()
    assert (left["comment"], left["version"]) == ("later", 2)

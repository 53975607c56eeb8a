"""A real browser makes marks: each is saved at once, and every change can be undone."""

from __future__ import annotations

import csv
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.browsers import (
    browser,
    go,
    in_page,
    keys_to_body,
    open_page,
    resize,
    settled,
    show_picture,
    text,
    times_are_known,
    wait,
    wait_for_film,
)
from support.cli import call_obygaze
from support.film_pages import film_clips, mark, save, served, site, table
from support.killed_server import running
from support.seeds import amount
from support.videos import write_video

from obygaze.films.page.site import Site
from obygaze_features.manifest.model import Clip

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [pytest.mark.check("drives a browser"), pytest.mark.timeout(500)]

# Start, end, level, concepts and comment of a mark.
Values = tuple[int, int, str, tuple[str, ...], str]
N_FRAMES = 2500
N_EDITS = amount(40, 500)
LEVELS = ("EN", "HN", "NS", "S")


def long_film(folder: Path, annotator: str = "eva") -> Site:
    """A page of a film of 100 seconds without a video."""
    clips = [Clip("lake-1", "lake", 1, "", 0.0, 100.0, "S", (), {"framerate": "25"})]
    return site(folder, clips, annotator)


def lake(folder: Path) -> Site:
    """A page of ten seconds of pictures with their numbers, for eva."""
    write_video(folder / "lake.mp4", numbers=range(250), options={"g": "50"})
    return site(folder, film_clips("lake", "lake.mp4"), "eva")


def open_lake(browser: Any, address: str, *, has_video: bool = True) -> None:
    open_page(browser, f"{address}#film=lake", "lake")
    if has_video:
        wait(lambda: times_are_known(browser, "lake"))
    else:
        wait(lambda: in_page(browser, "return state.film?.id === 'lake';"))


def wait_for_match(browser: Any, selector: str, pattern: re.Pattern[str]) -> None:
    """Wait until a pattern is in what an element says."""
    wait(lambda: pattern.search(text(browser, selector)))


@contextmanager
def offline(browser: Any) -> Iterator[None]:
    """Let no request of the page reach the server."""
    conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    command = "Network.emulateNetworkConditions"
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd(command, {**conditions, "offline": True})
    try:
        yield
    finally:
        browser.execute_cdp_cmd(command, {**conditions, "offline": False})


def values_of(one: dict[str, Any]) -> Values:
    concepts = tuple(sorted(one["concepts"]))
    return (
        one["start_frame"],
        one["end_frame"],
        one["level"],
        concepts,
        one["comment"],
    )


def saved_values(folder: Path, page: Site, annotator: str = "eva") -> list[Values]:
    marks = table(folder, page.manifest, annotator).read().marks
    return sorted(values_of(one) for one in marks.values())


def shown_values(browser: Any) -> list[Values]:
    marks = in_page(browser, "return [...state.film.marks.values()];")
    return sorted(values_of(one) for one in marks)


# Put the mark with these values into the form, and go to a picture.
TAKE = """
const [picture, start, end, level, comment, concepts] = given[0];
const isIt = (one) => one.start_frame === start && one.end_frame === end && one.level === level
  && one.comment === comment && [...one.concepts].sort().join("|") === concepts;
const found = [...state.film.marks.values()].find(isIt);
if (!found) throw new Error("the page has no such mark");
await marks.choose(found.mark);
player.seek(player.startOf(picture) + 1e-6);
"""


class Model:
    """The table as it should be: lists of values, one for each state that can be undone."""

    def __init__(self) -> None:
        self.states: list[list[Values]] = [[]]
        self.number = 0

    @property
    def marks(self) -> list[Values]:
        return self.states[self.number]

    def did(self, marks: Sequence[Values]) -> None:
        self.states = [*self.states[: self.number + 1], sorted(marks)]
        self.number += 1

    def undo(self) -> None:
        self.number = max(self.number - 1, 0)

    def redo(self) -> None:
        self.number = min(self.number + 1, len(self.states) - 1)

    def without(self, *removed: Values) -> list[Values]:
        left = list(self.marks)
        for one in removed:
            left.remove(one)
        return left


def edit_at_random(browser: Any, model: Model, draw: random.Random) -> str:
    """One change by the functions that keys and buttons call, in the page and in the model."""
    names = ("new", "level", "concept", "comment", "move", "delete")
    weights = (4, 2, 2, 1, 2, 1)
    name = draw.choices((*names, "undo", "redo"), weights=(*weights, 6, 3))[0]
    if name == "undo":
        model.undo()
        in_page(browser, "await marks.undo();")
        return name
    if name == "redo":
        model.redo()
        in_page(browser, "await marks.redo();")
        return name
    if name == "new" or not model.marks:
        start = draw.randrange(N_FRAMES - 100)
        made = (start, start + draw.randrange(1, 99), draw.choice(LEVELS), (), "")
        script = """
        await marks.choose(null);
        await marks.beginSpan(given[0], given[1]);
        """
        model.did(model.marks)
        in_page(browser, script, made[0], made[1])
        model.did([*model.marks, made])
        in_page(browser, "await marks.setLevel(given[0]);", made[2])
        return "new"
    chosen = draw.choice(model.marks)
    start, end, level, concepts, comment = chosen

    def take(picture: int, script: str, *more: Any) -> None:
        given = [picture, start, end, level, comment, "|".join(concepts)]
        in_page(browser, TAKE + script, given, *more)

    def became(changed: Values) -> None:
        model.did([*model.without(chosen), changed])

    if name == "level":
        new_level = draw.choice([one for one in LEVELS if one != level])
        became((start, end, new_level, concepts, comment))
        take(start, "await marks.setLevel(given[1]);", new_level)
    elif name == "concept":
        concept = draw.choice(("Look", "Body"))
        switched = tuple(sorted({*concepts} ^ {concept}))
        became((start, end, level, switched, comment))
        take(start, "await marks.switchConcept(given[1]);", concept)
    elif name == "comment":
        new_comment = f"{comment} {draw.randrange(9)}".strip()[-20:].strip()
        if new_comment != comment:
            became((start, end, level, concepts, new_comment))
        take(start, "await marks.setComment(given[1]);", new_comment)
    elif name == "move":
        # A new start inside the mark, as by `i`, or a new end after its start, as by `o`.
        picture = draw.randrange(start, end + 1)
        if draw.random() < 0.5:
            if picture != start:
                became((picture, end, level, concepts, comment))
            take(picture, "await marks.setStart();")
        elif picture > start:
            if picture - 1 != end:
                became((start, picture - 1, level, concepts, comment))
            take(picture, "await marks.setEnd();")
    elif name == "delete":
        model.did(model.without(chosen))
        take(start, "await marks.remove();")
    return name


def test_random_edits_equal_a_model_of_the_table(browser: Any, tmp_path: Path) -> None:
    page, model, draw = long_film(tmp_path), Model(), random.Random(11)
    with served(page) as server:
        open_lake(browser, server.new_address(), has_video=False)
        for number in range(N_EDITS):
            name = edit_at_random(browser, model, draw)
            assert saved_values(tmp_path, page) == model.marks, (number, name)
            assert shown_values(browser) == model.marks, (number, name)
            if number == N_EDITS // 2:
                # Nothing can be saved now, and nothing is lost.
                with offline(browser):
                    failed = in_page(
                        browser, "return marks.undo().catch((error) => error.message);"
                    )
                    assert failed is None or "has stopped" in failed
        while model.number:
            model.undo()
            in_page(browser, "await marks.undo();")
            assert saved_values(tmp_path, page) == model.marks
        assert saved_values(tmp_path, page) == []
        while model.number < len(model.states) - 1:
            model.redo()
            in_page(browser, "await marks.redo();")
            assert saved_values(tmp_path, page) == model.marks


def test_changes_whose_answer_was_lost_can_be_undone_too(
    browser: Any, tmp_path: Path
) -> None:
    """The server is killed in the middle of saves, and starts again at its port."""
    page, draw = long_film(tmp_path), random.Random(12)
    n_saved = n_lost = port = 0
    expected: list[list[Values]] = [[]]
    first_window = browser.current_window_handle
    add = """
    await marks.choose(null);
    await marks.beginSpan(given[0], given[0] + 9);
    return marks.setLevel("S").then(() => "saved", (error) => error.message);
    """
    for number in range(16):
        with running(page, port) as server:
            if not port:
                port = server.port
                open_lake(browser, server.address, has_video=False)
            else:
                # A new tab has the cookie of the new server, for all tabs.
                browser.switch_to.new_window("tab")
                open_page(browser, server.address, "films")
                browser.close()
                browser.switch_to.window(first_window)
            assert saved_values(tmp_path, page) == expected[-1]
            wait(lambda: shown_values(browser) == expected[-1])
            server.kill_at(draw.randrange(1, 12))
            in_page(browser, "await tools.load('overview');")
            said = in_page(browser, add, 20 * number)
            assert said == "saved" or "has stopped" in said
            made = (20 * number, 20 * number + 9, "S", (), "")
            found = saved_values(tmp_path, page)
            assert found in (expected[-1], sorted([*expected[-1], made]))
            if found != expected[-1]:
                expected.append(found)
                n_saved += said != "saved"
            n_lost += said != "saved"
    assert n_lost > 8
    assert n_saved > 1
    with running(page, port) as server:
        browser.switch_to.new_window("tab")
        open_page(browser, server.address, "films")
        browser.close()
        browser.switch_to.window(first_window)
        in_page(
            browser, "dispatchEvent(new Event('focus')); await marks.inTurn(() => {});"
        )
        # Each state of the table comes back, one after another.
        seen = [saved_values(tmp_path, page)]
        while in_page(browser, "return state.undo.length;"):
            in_page(browser, "await marks.undo();")
            found = saved_values(tmp_path, page)
            if found != seen[-1]:
                seen.append(found)
        assert seen == expected[::-1]


@pytest.mark.parametrize("is_read", [False, True])
def test_a_change_that_arrives_after_it_was_sent_again_is_made_once(
    browser: Any, tmp_path: Path, is_read: bool
) -> None:
    """Its answer was lost, and the server does it after the page has asked whether it is saved.

    The page may read the marks once more before the person goes on.
    """
    page = long_film(tmp_path)
    send_late = """
    const fetchNow = window.fetch;
    window.fetch = (address, options) => {
      if (address !== "api/marks" || options?.method !== "POST") return fetchNow(address, options);
      window.fetch = fetchNow;
      window.arrive = () => fetchNow(address, options);
      return Promise.reject(new TypeError("lost"));
    };
    """
    first_try = """
    await marks.beginSpan(5, 14);
    return marks.setLevel("S").then(() => "saved", (error) => error.message);
    """
    with running(page) as server:
        open_lake(browser, server.address, has_video=False)
        in_page(browser, send_late)
        assert "Perhaps not saved" in in_page(browser, first_try)
        # The page reads the marks, and does not find it.
        look = "dispatchEvent(new Event('focus')); await marks.inTurn(() => {});"
        in_page(browser, look)
        assert saved_values(tmp_path, page) == []
        in_page(browser, "await window.arrive();")
        if is_read:
            in_page(browser, look)
        in_page(browser, "await marks.done();")
        assert saved_values(tmp_path, page) == [(5, 14, "S", (), "")]
        in_page(browser, "await marks.undo();")
        assert saved_values(tmp_path, page) == []


# ---- keys and the mouse --------------------------------------------------------------------------


def drag(browser: Any, from_s: float, to_s: float, *, release: bool = True) -> None:
    """Drag in the row of the person from one time to another, with the mouse."""
    from selenium.webdriver.common.action_chains import ActionChains

    place = """
    const lane = state.lanes.find((one) => one.name === "your marks");
    const canvas = document.getElementById("canvas");
    canvas.scrollIntoView({ block: "nearest" });
    const box = canvas.getBoundingClientRect();
    return [box.left, box.top + lane.y + lane.height / 2, box.width / state.film.end_s];
    """
    left, y, scale = in_page(browser, place)
    actions = ActionChains(browser, duration=20)
    pointer: Any = actions.w3c_actions.pointer_action
    pointer.move_to_location(round(left + from_s * scale), round(y))
    pointer.pointer_down()
    for share in (0.5, 1):
        time = from_s + (to_s - from_s) * share
        pointer.move_to_location(round(left + time * scale), round(y))
    if release:
        pointer.pointer_up()
    actions.perform()


def test_marks_are_drawn_and_dragged_and_the_picture_follows(
    browser: Any, tmp_path: Path
) -> None:
    page = lake(tmp_path)

    def spans() -> list[tuple[int, int]]:
        return [one[:2] for one in saved_values(tmp_path, page)]

    with served(page) as server:
        resize(browser, 1400)
        open_lake(browser, server.new_address())
        # One pixel is less than a quarter of a picture: edges are those of pictures.
        drag(browser, 2, 4)
        wait(lambda: text(browser, "#start_frame").endswith("picture 50"))
        assert text(browser, "#end_frame").endswith("before picture 100")
        # The last picture of the stretch is shown.
        wait(lambda: settled(browser, 99) == 99)
        assert spans() == []
        keys_to_body(browser, "4")
        wait(lambda: spans() == [(50, 99)])
        drag(browser, 4, 5)
        wait(lambda: spans() == [(50, 124)])
        wait(lambda: settled(browser, 124) == 124)
        drag(browser, 2, 1)
        wait(lambda: spans() == [(25, 124)])
        wait(lambda: settled(browser, 25) == 25)
        drag(browser, 3, 4)
        wait(lambda: spans() == [(50, 149)])
        # It stays within the film, and an edge behind the other one.
        drag(browser, 3, 9.9)
        wait(lambda: spans() == [(150, 249)])
        drag(browser, 6, 9.99)
        wait(lambda: spans() == [(249, 249)])

        def undo_to(expected: tuple[int, int]) -> None:
            keys_to_body(browser, "u")
            wait(lambda: spans() == [expected])

        for expected in ((150, 249), (50, 149), (25, 124), (50, 124), (50, 99)):
            undo_to(expected)
        # Esc while the button is down: nothing is changed.
        drag(browser, 3, 4, release=False)
        keys_to_body(browser, "\ue00c")
        wait(lambda: in_page(browser, "return state.film.marks.size;") == 1)
        assert spans() == [(50, 99)]
        # A click in a mark puts it into the form.
        keys_to_body(browser, "\ue007")
        wait(lambda: text(browser, "#mark-title") == "New mark")
        drag(browser, 3, 3)
        wait(lambda: text(browser, "#mark-title") == "Your mark")


def test_segments_that_meet_at_a_cut_share_no_picture(
    browser: Any, tmp_path: Path
) -> None:
    """`o` and `i` at one cut put its picture into both, and ELAN made a second tier of them."""
    page = lake(tmp_path)
    assert page.marks is not None
    with served(page) as server:
        open_lake(browser, server.new_address())
        keys_at = ((10, "i4"), (40, "o\ue007i4"), (70, "o\ue007i4"), (249, "o"))
        for picture, keys in keys_at:
            show_picture(browser, picture)
            for key in keys:
                keys_to_body(browser, key)
            if "i" in keys:
                # The mark before is whole; the next one has its start.
                is_next = re.compile(rf"picture {picture}$")
                wait_for_match(browser, "#start_frame", is_next)
        wait(lambda: len(saved_values(tmp_path, page)) == 3)
        assert text(browser, "#end_frame").endswith("before picture 250")
        keys_to_body(browser, "\ue007")
        # An end before the start is said, and changes nothing.
        for picture, key in ((100, "i"), (90, "o")):
            show_picture(browser, picture)
            keys_to_body(browser, key)
        wait(lambda: "would end before it starts" in text(browser, "#status"))
    with page.marks.path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    spans = [(row["start_frame"], row["end_frame"]) for row in rows]
    assert spans == [("10", "39"), ("40", "69"), ("70", "249")]


@pytest.fixture(scope="module")
def three_films(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Site]:
    """A function of an annotator that returns a page of three films, of 23.976, 25 and 29.97
    pictures a second.
    """
    folder = tmp_path_factory.mktemp("films")
    n, names = 480, ("slow.mp4", "even.webm", "fast.mkv")
    rates = (Fraction(24000, 1001), Fraction(25), Fraction(30000, 1001))
    codecs = ("libx264", "libvpx", "libx264")
    options: tuple[dict[str, str], ...] = ({"g": "48"}, {"deadline": "realtime"}, {})
    for name, rate, codec, chosen in zip(names, rates, codecs, options, strict=True):
        tick = 1 / rate
        write_video(
            folder / name, codec, numbers=range(n), tick=tick, rate=rate, options=chosen
        )
    clips = []
    for name in names:
        film = name.partition(".")[0]
        for k in range(4):
            start = float(4 * k)
            clips.append(Clip(f"{film}-{k}", film, k, name, start, start + 4))
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
            wait_for_film(browser, film)
            # Just the third clip of each film: from second 8 to second 12.
            first, last = round(8 * rate), round(12 * rate) - 1
            for picture, key in ((first, "i"), (last + 1, "o")):
                show_picture(browser, picture)
                keys_to_body(browser, key)
            keys_to_body(browser, "4")
            wait(lambda: in_page(browser, "return state.film.marks.size;") == 1)
    page.save_watched({"movie_id": "fast", "stretches": [[0, 479]]})
    lines = ["clip_id,movie_id,start_s,end_s"]
    for clip in page.manifest:
        lines.append(f"{clip.clip_id},{clip.movie_id},{clip.start_s},{clip.end_s}")
    (folder / "clips.csv").write_text("\n".join(lines) + "\n", "utf-8")
    words = ("manifest", "project", "segments/films.eva.csv", "--clips", "clips.csv")
    done = call_obygaze(*words, "--json", cwd=folder).ok()
    levels = {row["clip_id"]: row["level"] for row in done.json()["merged"]}
    # Of the films that nobody watched, only the marked clip has a label.
    expected = {}
    for film in rates:
        for k in range(4):
            unmarked = "EN" if film == "fast" else None
            expected[f"{film}-{k}"] = "S" if k == 2 else unmarked
    assert levels == expected
    contradicting = call_obygaze(*words, "--fps", "24", cwd=folder)
    assert "23.976 is not the rate given by --fps" in contradicting.stderr


# ---- other windows, other programs ---------------------------------------------------------------


def test_a_change_of_a_mark_that_another_window_changed_is_refused_once(
    browser: Any, tmp_path: Path
) -> None:
    page = lake(tmp_path)
    with served(page) as server, served(lake(tmp_path)) as other_server:
        shown = save(server, mark(1, comment="")).json()["state"]
        open_lake(browser, server.new_address())
        in_page(browser, "await marks.choose([...state.film.marks.keys()][0]);")
        # The other server is another process as far as the table is concerned.
        changed = mark(1, shown, comment="", concepts=["Look"], level="NS")
        assert save(other_server, changed).status == 200
        failed = in_page(
            browser,
            """
            const plain = window.fetch;
            // The page has not asked again yet.
            await marks.inTurn(() => {});
            return marks.setLevel("HN").then(() => "", (error) => error.message);
            """,
        )
        if failed:
            assert failed.startswith(
                "Not saved: another window changed this mark to NS"
            )
            assert saved_values(tmp_path, page)[0][2] == "NS"
            in_page(browser, "await marks.setLevel('HN');")
        wait(lambda: saved_values(tmp_path, page)[0][2] == "HN")
        # What the other one changed beside it is still there.
        assert saved_values(tmp_path, page)[0][3] == ("Look",)
        # A mark that the other one deleted cannot come back by a change.
        in_page(browser, "await marks.setLevel('S');")
        (left,) = table(tmp_path, page.manifest, "eva").read().marks.values()
        gone = mark(1, left["state"], deleted=True)
        assert save(other_server, gone).status == 200
        in_page(browser, "await marks.setLevel('EN').catch(() => {});")
        wait(lambda: in_page(browser, "return state.film.marks.size;") == 0)
        assert saved_values(tmp_path, page) == []
        # Nor can it be undone.
        failed = in_page(
            browser, "return marks.undo().then(() => '', (error) => error.message);"
        )
        assert "was changed since" in failed
        assert saved_values(tmp_path, page) == []


def test_an_answer_from_before_a_save_is_not_shown_after_it(
    browser: Any, tmp_path: Path
) -> None:
    """A window that gets the focus asks for the marks; a slow answer hid what was saved since."""
    page = long_film(tmp_path)
    with served(page) as server:
        open_lake(browser, server.new_address(), has_video=False)
        script = """
            const plain = window.fetch;
            let answered;
            const slow = new Promise((done) => (answered = done));
            window.fetch = async (address, options) => {
              const answer = await plain(address, options);
              if (!options && String(address).startsWith("api/marks")) await slow;
              return answer;
            };
            dispatchEvent(new Event("focus"));
            const saved = marks.beginSpan(5, 9).then(() => marks.setLevel("S"));
            answered();
            await saved;
            await marks.inTurn(() => {});
            window.fetch = plain;
        """
        in_page(browser, script)
        assert shown_values(browser) == [(5, 9, "S", (), "")]
        assert saved_values(tmp_path, page) == [(5, 9, "S", (), "")]


def test_what_is_typed_while_something_is_saved_stays(
    browser: Any, tmp_path: Path
) -> None:
    page = lake(tmp_path)
    with served(page) as server:
        assert save(server, mark(1, comment="why")).status == 200
        open_lake(browser, server.new_address())
        in_page(browser, "await marks.choose([...state.film.marks.keys()][0]);")
        browser.find_element("id", "comment").send_keys(" and when")
        in_page(browser, "await marks.setLevel('HN');")
        value = "return document.getElementById('comment').value"
        assert browser.execute_script(value) == "why and when"
        browser.find_element("id", "comment").send_keys("\ue007")
        wait(lambda: saved_values(tmp_path, page)[0][4] == "why and when")
        assert saved_values(tmp_path, page)[0][2] == "HN"


def test_what_is_written_by_hand_is_shown_or_refused(
    browser: Any, tmp_path: Path
) -> None:
    page = lake(tmp_path)
    assert page.marks is not None
    rows = "movie_id,annotator,start_frame,end_frame,level,concepts\nlake,eva,10,20,S,Look\n"
    page.marks.path.write_text(rows, "utf-8")
    with served(page) as server:
        open_lake(browser, server.new_address())
        assert len(shown_values(browser)) == 1
        page.marks.path.write_text(f"{rows}lake,eva,30,45,S,\n", "utf-8")
        wait(lambda: len(shown_values(browser)) == 2)
        # A table that cannot be read stops marking, not the film, and stays as it is.
        bad = f"{rows}lake,eva,30,25,S,\n"
        page.marks.path.write_text(bad, "utf-8")
        wait(lambda: "films.eva.csv:3" in text(browser, "#cannot-mark"))
        assert browser.find_element("id", "video").is_displayed()
        failed = in_page(
            browser,
            "await marks.beginSpan(50, 59);"
            "return marks.setLevel('HN').catch((error) => error.message);",
        )
        assert failed.startswith("Not saved: ")
        assert page.marks.path.read_text("utf-8") == bad


def test_a_concept_is_chosen_however_fast_its_keys_are_typed(
    browser: Any, tmp_path: Path
) -> None:
    """While a key before them waited for its turn, the second key of `k1` chose a level."""
    page = long_film(tmp_path)
    type_at_once = """
    for (const key of given[0]) document.dispatchEvent(new KeyboardEvent("keydown", { key }));
    """
    with served(page) as server:
        open_lake(browser, server.new_address(), has_video=False)
        in_page(browser, type_at_once, "ik1k24")
        begun = "return state.begun;"
        wait(lambda: (in_page(browser, begun) or {}).get("level"))
        found = in_page(browser, begun)
    assert (found["start_frame"], found["level"]) == (0, "S")
    assert found["concepts"] == ["Look", "Body"]


def test_keys_act_on_the_film_in_which_they_were_pressed(
    browser: Any, tmp_path: Path
) -> None:
    """A key that waited while another film opened marked pictures of that film."""
    clips = []
    for film in ("lake", "pond"):
        more = {"framerate": "25"}
        clips.append(Clip(film, film, 1, "", 0.0, 100.0, "S", (), more))
    page = site(tmp_path, clips, "eva")
    with served(page) as server:
        open_lake(browser, server.new_address(), has_video=False)
        in_page(browser, "player.seek(player.startOf(77) + 1e-6);")
        # Something before takes long.
        in_page(
            browser,
            "marks.inTurn(() => new Promise((done) => (window.release = done)));",
        )
        keys_to_body(browser, "i")
        go(browser, film="pond")
        asked = "return performance.getEntriesByType('resource').map((one) => one.name)"
        wait(
            lambda: any(
                url.endswith("film=pond") for url in browser.execute_script(asked)
            )
        )
        # The key is pressed while the answer about the other film is there, and lake is shown.
        is_lake = in_page(browser, "return state.film.id === 'lake';")
        keys_to_body(browser, "2")
        browser.execute_script("release()")
        wait(lambda: in_page(browser, "return state.film.id === 'pond';"))
        in_page(browser, "await marks.inTurn(() => {});")
        found = in_page(
            browser, "return [state.begun, state.undo.map((one) => one.film)];"
        )
    assert is_lake
    assert found == [None, ["lake"]]
    assert saved_values(tmp_path, page) == []


# ---- what was seen -------------------------------------------------------------------------------

# The pictures that the browser brings to the screen, one after another.
RECORDER = """
window.onScreen = [];
const video = document.getElementById("video");
const look = (_, { mediaTime }) => {
  window.onScreen.push(Math.floor(mediaTime * 25 + 0.01));
  video.requestVideoFrameCallback(look);
};
video.requestVideoFrameCallback(look);
"""


def seen_by_the_program(page: Site) -> set[int]:
    assert page.watched is not None
    pictures: set[int] = set()
    for first, last in page.watched.stretches("lake"):
        pictures.update(range(first, last + 1))
    return pictures


def on_screen(browser: Any) -> list[int]:
    found: list[int] = browser.execute_script("return window.onScreen")
    return found


def test_stepping_counts_the_pictures_that_it_shows(
    browser: Any, tmp_path: Path
) -> None:
    page = lake(tmp_path)
    with served(page) as server:
        open_lake(browser, server.new_address())
        show_picture(browser, 100)
        browser.execute_script(RECORDER)
        for _ in range(20):
            keys_to_body(browser, ".")
        wait(lambda: settled(browser, 120) == 120)
        for _ in range(30):
            keys_to_body(browser, ",")
        wait(lambda: settled(browser, 90) == 90)
        wait(lambda: seen_by_the_program(page) >= set(on_screen(browser)))
        shown = set(on_screen(browser))
    # Each step waits for its picture or is overtaken by the next one.
    assert {90, 120} <= shown
    assert seen_by_the_program(page) == shown


def wait_for_n_seen(page: Site, n_pictures: int) -> None:
    wait(lambda: len(seen_by_the_program(page)) == n_pictures)


# A film at four times its speed, which a busy browser stops late, and the pictures that it brings
# to the screen, one after another, with the place of the last one when `i` was pressed.
SLOW_TO_STOP = """
const pause = HTMLMediaElement.prototype.pause, video = document.querySelector("video");
HTMLMediaElement.prototype.pause = function () { setTimeout(() => pause.call(this), 300); };
video.defaultPlaybackRate = video.playbackRate = 4;
window.onScreen = [];
const look = (_, frame) => {
  window.onScreen.push(Math.floor(frame.mediaTime * 25 + 0.01));
  video.requestVideoFrameCallback(look);
};
video.requestVideoFrameCallback(look);
addEventListener("keydown", (event) => {
  if (event.key === "i") window.atKey = window.onScreen.length - 1;
}, true);
"""


def test_a_mark_starts_at_the_picture_of_its_key_though_the_film_stops_late(
    browser: Any, tmp_path: Path
) -> None:
    """It started at the picture at which a busy browser had stopped at last."""
    with served(lake(tmp_path)) as server:
        open_lake(browser, server.new_address())
        browser.execute_script(SLOW_TO_STOP)
        keys_to_body(browser, " ")
        wait(lambda: browser.execute_script("return onScreen.length") > 5)
        keys_to_body(browser, "i")
        wait(lambda: "picture" in text(browser, "#start_frame"))
        marked = int(text(browser, "#start_frame").rpartition(" ")[2])
        shown, at_key = browser.execute_script("return [onScreen, atKey]")
        assert marked == shown[at_key]


def test_seeking_counts_nothing(browser: Any, tmp_path: Path) -> None:
    page = lake(tmp_path)
    draw = random.Random(3)
    with served(page) as server:
        open_lake(browser, server.new_address())
        for _ in range(30):
            show_picture(browser, draw.randrange(250))
        for _ in range(10):
            keys_to_body(browser, draw.choice(("\ue012", "\ue014", "n", "p")))
        # The first mark makes the table of what was watched: nothing.
        in_page(browser, "await marks.beginSpan(10, 19); await marks.setLevel('S');")
        assert page.watched is not None and page.watched.path.exists()
        show_picture(browser, 60)
        keys_to_body(browser, ".")
        wait(lambda: seen_by_the_program(page) == {61})
        # A table without stretches says that nothing was watched, and not that nothing is known.
        assert text(browser, "#watched-share") == "You have watched 0 % of this film."


def test_playing_counts_what_was_presented_and_the_little_between(
    browser: Any, tmp_path: Path
) -> None:
    page = lake(tmp_path)
    with served(page) as server:
        open_lake(browser, server.new_address())
        show_picture(browser, 50)
        browser.execute_script(RECORDER)
        keys_to_body(browser, " ")
        wait(lambda: max(on_screen(browser), default=0) >= 110)
        # A jump while the film plays.
        in_page(browser, "player.seek(8);")
        wait(lambda: max(on_screen(browser)) >= 220)
        keys_to_body(browser, " ")
        in_page(browser, "await player.hold();")
        shown = on_screen(browser)
        wait(lambda: max(seen_by_the_program(page), default=0) >= max(shown) - 1)
    seen = seen_by_the_program(page)
    # By hand: what lies between two presented pictures that are at most 6 pictures apart.
    near: set[int] = set()
    # The first one was presented before the recorder ran.
    for before, after in pairwise([50, *shown]):
        if 0 <= after - before <= 6:
            near.update(range(before, after + 1))
    assert seen <= near
    # The picture at which the film stopped, or at which it was when it jumped, may be missing.
    assert len(near - seen) <= 4
    assert not seen & set(range(130, 200)), "what was jumped over"


def test_more_than_a_browser_sends_while_it_closes_is_saved(
    browser: Any, tmp_path: Path
) -> None:
    """Stretches of more than 64 KiB were refused by the browser, again and again."""
    clips = [Clip("lake-1", "lake", 1, "", 0.0, 1000.0, "S", (), {"framerate": "25"})]
    page = site(tmp_path, clips, "eva")
    with served(page) as server:
        open_lake(browser, server.new_address(), has_video=False)
        in_page(
            browser,
            """const { changed } = await import("/state.js");
            for (let number = 0; number < 24_000; number += 4) changed("stepped", number);""",
        )
        wait_for_n_seen(page, 6000)
    assert seen_by_the_program(page) == set(range(0, 24_000, 4))


# ---- many ----------------------------------------------------------------------------------------


def test_a_film_with_20000_marks_is_opened_and_changed(
    browser: Any, tmp_path: Path
) -> None:
    """The times of a browser are printed, not judged."""
    page = long_film(tmp_path)
    assert page.marks is not None
    rows = ["movie_id,annotator,start_frame,end_frame,level,concepts,comment"]
    for number in range(20_000):
        first = number % 2400
        last = first + number % 90
        rows.append(f"lake,eva,{first},{last},{LEVELS[number % 4]},Look,{number}")
    page.marks.path.write_text("\n".join(rows) + "\n", "utf-8")
    with served(page) as server:
        open_lake(browser, server.new_address(), has_video=False)
        assert in_page(browser, "return state.film.marks.size;") == 20_000
        script = """
        const took = {};
        const timed = async (name, task) => {
          const start = performance.now();
          await task();
          took[name] = Math.round(performance.now() - start);
        };
        await timed("load", () => tools.load("film", { film: "lake" }));
        await timed("choose", () => marks.choose([...state.film.marks.keys()][7]));
        await timed("level", () => marks.setLevel(given[0]));
        await timed("refresh", () => {
          dispatchEvent(new Event("focus"));
          return marks.inTurn(() => {});
        });
        await timed("undo", () => marks.undo());
        return took;
        """
        print(in_page(browser, script, "HN"))
        assert in_page(browser, "return state.film.marks.size;") == 20_000
    assert len(saved_values(tmp_path, page)) == 20_000


# Enter in the comment, and what somebody goes on to type, in one moment.
ENTER_AND_ON = """
const press = (key) => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
["Enter", ..."uodi4 ", "Enter", "Delete", "ArrowLeft"].forEach(press);
return document.activeElement.id;
"""


def test_enter_in_the_comment_makes_the_mark_and_what_is_typed_next_is_no_command(
    browser: Any, tmp_path: Path
) -> None:
    """The letters after Enter were commands: the comment was undone, and marks moved."""
    page = lake(tmp_path)
    with served(page) as server:
        open_lake(browser, server.new_address())
        show_picture(browser, 10)
        keys_to_body(browser, "i")
        show_picture(browser, 20)
        keys_to_body(browser, "o")
        keys_to_body(browser, "4")
        made = (10, 19, "S", (), "she looks")
        wait(lambda: saved_values(tmp_path, page) == [(*made[:4], "")])
        browser.find_element("id", "comment").send_keys("she looks")
        # A word that is still being composed, such as one of Japanese, goes on.
        composing = """
        const facts = { key: "Enter", isComposing: true, bubbles: true };
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", facts));
        return document.activeElement.id;
        """
        assert browser.execute_script(composing) == "comment"
        assert browser.execute_script(ENTER_AND_ON) == "main"
        wait(lambda: saved_values(tmp_path, page) == [made])
        wait(lambda: text(browser, "#start_frame") == "not set")
        in_page(browser, "await marks.inTurn(() => {});")
        assert saved_values(tmp_path, page) == [made]
        assert text(browser, "#speed") == "1 ×"
        assert in_page(browser, "return player.plays();") is False
        # After a moment keys are commands again.
        time.sleep(1)
        keys_to_body(browser, "u")
        wait(lambda: saved_values(tmp_path, page) == [(*made[:4], "")])


def test_a_line_says_that_nothing_is_saved_until_the_server_answers(
    browser: Any, tmp_path: Path
) -> None:
    """It said only that what was watched is not saved, of a mark that was lost too."""
    page = lake(tmp_path)
    is_said = "return !document.getElementById('stopped').hidden"
    with served(page) as server:
        open_lake(browser, server.new_address())
        show_picture(browser, 10)
        assert not browser.execute_script(is_said)
        with offline(browser):
            # Stepping counts as watching.
            keys_to_body(browser, ".")
            wait(lambda: browser.execute_script(is_said))
            assert "nothing is saved" in text(browser, "#stopped")
            assert "What you watched" not in text(browser, "#status")
        browser.execute_script("dispatchEvent(new Event('focus'))")
        wait(lambda: not browser.execute_script(is_said))

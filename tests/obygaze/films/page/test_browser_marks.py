"""A real browser makes marks: each is saved at once, and every change can be undone."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
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
from support.film_pages import film_clips, served, site
from support.killed_server import running
from support.seeds import amount
from support.videos import read_numbers, write_video

from obygaze.films.marks import LEVEL, WATCHED, Mark, read_marks
from obygaze.films.page.site import Site
from obygaze_features.manifest.model import Clip
from obygaze_features.video import PictureView, decode_clip
from obygaze_features.video.resize import Resize

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [pytest.mark.check("drives a browser"), pytest.mark.timeout(500)]

# Start, end, level, concepts and comment of a mark.
Values = tuple[int, int, str, tuple[str, ...], str]
N_FRAMES = 250
N_EDITS = amount(25, 500)
LEVELS = ("EN", "HN", "NS", "S")


def lake(folder: Path) -> Site:
    """A page of ten seconds of pictures with their numbers."""
    if not (folder / "lake.mp4").exists():
        write_video(folder / "lake.mp4", numbers=range(N_FRAMES), options={"g": "50"})
    return site(folder, film_clips("lake", "lake.mp4"), "eva")


def open_lake(browser: Any, address: str) -> None:
    open_page(browser, f"{address}#film=lake", "lake")
    wait(lambda: times_are_known(browser, "lake"))


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
    return (one["first"], one["last"], one["level"], concepts, one["comment"])


def saved_rows(folder: Path) -> list[Mark]:
    path = folder / "segments" / "films.eva.csv"
    return [*read_marks([path])] if path.exists() else []


def saved_values(folder: Path) -> list[Values]:
    """The marks of the table, whose times are worked out from the rate of the film."""
    spans: dict[tuple[float, float], dict[str, list[str]]] = {}
    for row in saved_rows(folder):
        if row.column != WATCHED:
            said = spans.setdefault((row.start_s, row.end_s), {})
            said.setdefault(row.column, []).append(row.value)
    found = []
    for (start_s, end_s), said in spans.items():
        assert abs(start_s * 25 - round(start_s * 25)) < 1e-3
        first, last = round(start_s * 25), round(end_s * 25) - 1
        (level,) = said["level"]
        concepts = tuple(sorted(said.get("concepts", ())))
        found.append((first, last, level, concepts, "".join(said.get("comment", ()))))
    return sorted(found)


def shown_values(browser: Any) -> list[Values]:
    marks = in_page(browser, "return [...state.film.marks.values()];")
    return sorted(values_of(one) for one in marks)


# Put the mark with these values into the form, and go to a picture.
TAKE = """
const [picture, first, last] = given[0];
if (!state.film.marks.has(`${first}-${last}`)) throw new Error("the page has no such mark");
await marks.choose(`${first}-${last}`);
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
        start = draw.randrange(N_FRAMES - 50)
        end = start + draw.randrange(1, 49)
        if any(one[:2] == (start, end) for one in model.marks):
            return "taken"
        made = (start, end, draw.choice(LEVELS), (), "")
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
        given = [picture, start, end]
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
        taken = {one[:2] for one in model.marks if one != chosen}
        if {(picture, end), (start, picture - 1)} & taken:
            return "taken"
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
    page, model, draw = lake(tmp_path), Model(), random.Random(11)
    with served(page) as server:
        open_lake(browser, server.new_address())
        for number in range(N_EDITS):
            name = edit_at_random(browser, model, draw)
            assert saved_values(tmp_path) == model.marks, (number, name)
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
            assert saved_values(tmp_path) == model.marks
        assert saved_values(tmp_path) == []
        while model.number < len(model.states) - 1:
            model.redo()
            in_page(browser, "await marks.redo();")
            assert saved_values(tmp_path) == model.marks


def test_changes_whose_answer_was_lost_are_made_and_can_be_undone(
    browser: Any, tmp_path: Path
) -> None:
    """The server is killed in the middle of saves, and starts again at its port."""
    page, draw = lake(tmp_path), random.Random(12)
    n_lost = port = 0
    expected: list[Values] = []
    first_window = browser.current_window_handle
    add = """
    await marks.choose(null);
    await marks.beginSpan(given[0], given[0] + 9);
    return marks.setLevel("S").then(() => "saved", (error) => error.message);
    """

    def refresh(server: Any) -> None:
        """Give the browser the cookie of the new server by a new tab, and go on in the first."""
        browser.switch_to.new_window("tab")
        open_page(browser, server.address, "films")
        browser.close()
        browser.switch_to.window(first_window)
        in_page(browser, "await marks.refresh();")

    for number in range(3):
        with running(page, port) as server:
            if not port:
                port = server.port
                open_lake(browser, server.address)
            else:
                refresh(server)
            # What was not saved, or whose answer was lost, is saved now.
            assert saved_values(tmp_path) == expected == shown_values(browser)
            server.kill_at(draw.randrange(1, 12))
            in_page(browser, "await tools.load('overview');")
            said = in_page(browser, add, 12 * number)
            assert said == "saved" or "has stopped" in said
            made = (12 * number, 12 * number + 9, "S", (), "")
            assert saved_values(tmp_path) in (expected, [*expected, made])
            expected.append(made)
            n_lost += said != "saved"
    assert n_lost
    with running(page, port) as server:
        refresh(server)
        assert saved_values(tmp_path) == expected
        while in_page(browser, "return state.undo.length;"):
            in_page(browser, "await marks.undo();")
            found = saved_values(tmp_path)
            assert found in (expected, expected[:-1])
            expected = found
    assert expected == []


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
        return [one[:2] for one in saved_values(tmp_path)]

    with served(page) as server:
        resize(browser, 1400)
        open_lake(browser, server.new_address())
        # One pixel is less than a quarter of a picture: edges are those of pictures.
        drag(browser, 2, 4)
        wait(lambda: text(browser, "#first").endswith("picture 50"))
        assert text(browser, "#last").endswith("before picture 100")
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
                wait_for_match(browser, "#first", is_next)
        wait(lambda: len(saved_values(tmp_path)) == 3)
        assert text(browser, "#last").endswith("before picture 250")
        keys_to_body(browser, "\ue007")
        # An end before the start is said, and changes nothing.
        for picture, key in ((100, "i"), (90, "o")):
            show_picture(browser, picture)
            keys_to_body(browser, key)
        wait(lambda: "would end before it starts" in text(browser, "#status"))
    spans = [one[:2] for one in saved_values(tmp_path)]
    assert spans == [(10, 39), (40, 69), (70, 249)]


# Pictures that begin later than the sound, and those of a varying rate, in ticks of 1 ms.
FILMS = {
    "late.mp4": [200 + 40 * k for k in range(100)],
    "later.mkv": [3000 + 40 * k for k in range(100)],
    "slow.mp4": [round(k * 1001 / 24) for k in range(100)],
    "varying.mkv": [40 * k + 15 * (k % 3) + 300 * (k // 25) for k in range(100)],
    "varying_late.mp4": [1500 + 33 * k + 20 * (k % 2) for k in range(100)],
}
N_MARKS = amount(10, 300)


def test_what_is_stored_are_the_pictures_that_were_on_the_screen(
    browser: Any, tmp_path: Path
) -> None:
    clips = []
    for name, ticks in FILMS.items():
        write_video(
            tmp_path / name,
            numbers=range(100),
            ticks=ticks,
            tick=Fraction(1, 1000),
            audio=True,
            options={"g": "20", "bf": "0"},
        )
        film = name.partition(".")[0]
        clips.append(Clip(film, film, 1, name, 0.0, ticks[-1] / 1000))
    page = site(tmp_path, clips, "eva")
    draw = random.Random(90)
    expected: dict[str, set[tuple[int, int]]] = {}
    with served(page) as server:
        open_page(browser, server.new_address(), "films")
        for name in FILMS:
            film = name.partition(".")[0]
            go(browser, film=film)
            wait_for_film(browser, film)
            spans = set()
            while len(spans) < N_MARKS // len(FILMS):
                spans.add(tuple(sorted(draw.sample(range(100), 2))))
            for count, (first, after) in enumerate(sorted(spans)):
                for picture, key in ((first, "i"), (after, "o")):
                    show_picture(browser, picture)
                    keys_to_body(browser, key)
                keys_to_body(browser, "4")
                keys_to_body(browser, "\ue007")
                wait(lambda count=count: len(shown_values(browser)) == count + 1)
            # The last picture of a film has none after it: a mark that ends there has it.
            expected[film] = {(a, b if b < 99 else 100) for a, b in spans}
    wrong = []
    rows = [row for row in saved_rows(tmp_path) if row.column == LEVEL]
    for row in rows:
        (name,) = (one for one in FILMS if one.startswith(f"{row.movie_id}."))
        view = PictureView(100, "even", Resize(120))
        part = decode_clip(tmp_path / name, view, start_s=row.start_s, end_s=row.end_s)
        numbers = sorted({*read_numbers(part.pictures)})
        span = (numbers[0], numbers[-1] + 1)
        if span not in expected[row.movie_id]:
            wrong.append((row.movie_id, span))
        assert numbers == [*range(*span)]
    print(f"{len(rows)} marks, {len(wrong)} with a wrong picture")
    assert len(rows) == sum(map(len, expected.values()))
    assert wrong == []


# ---- other programs ------------------------------------------------------------------------------


def test_keys_act_on_the_film_in_which_they_were_pressed(
    browser: Any, tmp_path: Path
) -> None:
    """A key that waited while another film opened marked pictures of that film."""
    write_video(tmp_path / "lake.mp4", numbers=range(100))
    clips = [*film_clips("lake", "lake.mp4", 2), *film_clips("pond", "lake.mp4", 2)]
    page = site(tmp_path, clips, "eva")
    with served(page) as server:
        open_lake(browser, server.new_address())
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
    assert saved_values(tmp_path) == []


# ---- what was seen -------------------------------------------------------------------------------

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
        wait(lambda: "picture" in text(browser, "#first"))
        marked = int(text(browser, "#first").rpartition(" ")[2])
        shown, at_key = browser.execute_script("return [onScreen, atKey]")
        assert marked == shown[at_key]


# ---- many ----------------------------------------------------------------------------------------


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
        wait(lambda: saved_values(tmp_path) == [(*made[:4], "")])
        browser.find_element("id", "comment").send_keys("she looks")
        # A word that is still being composed, such as one of Japanese, goes on.
        composing = """
        const facts = { key: "Enter", isComposing: true, bubbles: true };
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", facts));
        return document.activeElement.id;
        """
        assert browser.execute_script(composing) == "comment"
        assert browser.execute_script(ENTER_AND_ON) == "main"
        wait(lambda: saved_values(tmp_path) == [made])
        wait(lambda: text(browser, "#first") == "not set")
        in_page(browser, "await marks.inTurn(() => {});")
        assert saved_values(tmp_path) == [made]
        assert text(browser, "#speed") == "1 ×"
        assert in_page(browser, "return player.plays();") is False
        # After a moment keys are commands again.
        time.sleep(1)
        keys_to_body(browser, "u")
        wait(lambda: saved_values(tmp_path) == [(*made[:4], "")])

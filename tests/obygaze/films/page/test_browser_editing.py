"""A real browser changes marks: every change can be undone, also after a stop of the server."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.browsers import (
    browser,
    keys_to_body,
    open_page,
    resize,
    settled,
    text,
    times_are_known,
    wait,
)
from support.film_pages import film_clips, mark, served, site, table
from support.killed_server import running
from support.videos import write_video

from obygaze.films.marks import MarkChange
from obygaze.films.page.routes import server_of
from obygaze.films.page.server import PageServer
from obygaze.films.page.site import Site
from obygaze.films.vocabulary import (
    Term,
    Vocabulary,
)
from obygaze_features.manifest.model import Clip

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = [pytest.mark.check("drives a browser"), pytest.mark.timeout(400)]

# Start, end, level, concepts and comment of a mark.
Values = tuple[int, int, str, tuple[str, ...], str]
N_FRAMES = 2500
LEVELS = ("EN", "HN", "NS", "S")


def long_film(folder: Path, annotator: str = "eva") -> Site:
    """A page of a film of 100 seconds without a video."""
    clips = [Clip("lake-1", "lake", 1, "", 0.0, 100.0, "S", (), {"framerate": "25"})]
    return site(folder, clips, annotator)


@contextmanager
def served_at(page: Site, port: int) -> Iterator[PageServer]:
    with server_of(page, (port,)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


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


def act(browser: Any, script: str, *values: Any) -> str | None:
    """Run statements of the page to their end; the message of an error."""
    body = (
        "const done = arguments[arguments.length - 1], given = [...arguments];"
        f"(async () => {{ {script} }})().then(() => done(null), (error) => done(error.message))"
    )
    message: str | None = browser.execute_async_script(body, *values)
    return message


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
    return sorted(values_of(one) for one in browser.execute_script("return film.marks"))


# Put the mark with these values into the form, and go to a picture.
TAKE = """
const [picture, start, end, level, comment] = given[0];
const isIt = (one) => one.start_frame === start && one.end_frame === end
  && one.level === level && one.comment === comment;
const chosen = film.marks.filter(isIt).find((one) => conceptsOf(one) === given[0][5]);
if (!chosen) throw new Error("the page has no such mark");
isUnsaved = false;
fillForm(chosen);
seek((picture + 0.5) / film.rate);
"""
SET_LEVEL = "form.querySelector(`[name=level][value=${given[1]}]`).checked = true;"


def take(browser: Any, chosen: Values, picture: int, script: str, *more: Any) -> None:
    start, end, level, concepts, comment = chosen
    given = [picture, start, end, level, comment, "|".join(concepts)]
    check(act(browser, TAKE + script, given, *more))


def check(message: str | None) -> None:
    """A change may fail only where its server has ended."""
    assert message is None or "has stopped" in message


# How many changes of marks are done, as the page knows it.
DONE = "return changes.slice(0, nDone).filter((one) => one.kind === 'marks').length"

UNDONE = DONE.replace("0, nDone", "nDone")


class Model:
    """The table as it should be: lists of values, one for each state that was saved."""

    def __init__(self) -> None:
        self.states: list[list[Values]] = [[]]
        self.number = 0

    @property
    def marks(self) -> list[Values]:
        return self.states[self.number]

    def save(self, marks: Sequence[Values]) -> None:
        if sorted(marks) == self.marks:
            return
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
    names = ("new", "change", "move", "split", "merge", "delete", "undo", "redo")
    name = draw.choices(names, weights=(3, 2, 2, 2, 2, 1, 4, 2))[0]
    if name == "undo":
        model.undo()
        act(browser, "await undo();")
        return name
    if name == "redo":
        model.redo()
        act(browser, "await redo();")
        return name
    if name == "new" or not model.marks:
        start = draw.randrange(N_FRAMES - 100)
        made = (start, start + draw.randrange(1, 99), draw.choice(LEVELS), (), "")
        script = (
            "isUnsaved = false; newMark(); setFrame('start_frame', given[0]);"
            f"setFrame('end_frame', given[2]); {SET_LEVEL} await saveMark();"
        )
        check(act(browser, script, made[0], made[2], made[1]))
        model.save([*model.marks, made])
        return "new"
    chosen = draw.choice(model.marks)
    start, end, level, concepts, comment = chosen
    if name == "change":
        # A level that changes for certain: a save of an unchanged mark is a new version of it.
        new_level = draw.choice([one for one in LEVELS if one != level])
        new_comment = f"{comment} {draw.randrange(9)}".strip()[-20:].strip()
        script = (
            f"{SET_LEVEL} form.elements.comment.value = given[2];"
            "form.querySelector('[value=Look]').checked = true; await saveMark();"
        )
        take(browser, chosen, start, script, new_level, new_comment)
        with_look = tuple(sorted({*concepts, "Look"}))
        changed = (start, end, new_level, with_look, new_comment)
        model.save([*model.without(chosen), changed])
    elif name == "move":
        by = draw.randrange(-40, 41)
        moved_by = min(max(by, -start), N_FRAMES - 1 - end)
        take(browser, chosen, start, "await moveMark(given[1]);", by)
        moved = (start + moved_by, end + moved_by, level, concepts, comment)
        model.save([*model.without(chosen), moved])
    elif name == "split" and end > start:
        picture = draw.randrange(start + 1, end + 1)
        take(browser, chosen, picture, "await splitMark();")
        parts = [
            (start, picture - 1, level, concepts, comment),
            (picture, end, level, concepts, comment),
        ]
        model.save([*model.without(chosen), *parts])
    elif name == "merge":
        later = [one for one in model.marks if one[0] > start]
        is_alone = sum(one[0] == start for one in model.marks) == 1
        if later and is_alone:
            first_later = min(one[0] for one in later)
            following = [one for one in later if one[0] == first_later]
            if len(following) == 1:
                (other,) = following
                take(browser, chosen, start, "await mergeMarks();")
                texts = list(dict.fromkeys([comment, other[4]]))
                merged = (
                    start,
                    max(end, other[1]),
                    level,
                    tuple(sorted({*concepts, *other[3]})),
                    "; ".join(text for text in texts if text),
                )
                model.save([*model.without(chosen, other), merged])
    elif name == "delete":
        take(browser, chosen, start, "await deleteMark();")
        model.save(model.without(chosen))
    return name


def test_random_edits_equal_a_model_of_the_table(browser: Any, tmp_path: Path) -> None:
    page, model, draw = long_film(tmp_path), Model(), random.Random(11)
    n_edits, port = 0, 0
    while n_edits < 100:
        # The server ends and starts again at the same port; the page is loaded again in its tab.
        with served_at(page, port) as server:
            port = server.server_port
            browser.get(server.new_address() + "#film=lake")
            wait(lambda: browser.title.startswith("lake"))
            assert shown_values(browser) == model.marks
            for _ in range(50):
                name = edit_at_random(browser, model, draw)
                n_edits += 1
                assert saved_values(tmp_path, page) == model.marks, (n_edits, name)
                assert shown_values(browser) == model.marks, (n_edits, name)
            # Nothing can be saved now, and nothing is lost.
            before = browser.execute_script("return [nDone, changes.length]")
            with offline(browser):
                assert "has stopped" in (act(browser, "await undo();") or "")
            assert browser.execute_script("return [nDone, changes.length]") == before
        assert saved_values(tmp_path, page) == model.marks
    with served_at(page, port) as server:
        browser.get(server.new_address() + "#film=lake")
        wait(lambda: browser.title.startswith("lake"))
        while model.number:
            model.undo()
            act(browser, "await undo();")
            assert saved_values(tmp_path, page) == model.marks
        assert saved_values(tmp_path, page) == []
        act(browser, "await undo();")
        while model.number < len(model.states) - 1:
            model.redo()
            act(browser, "await redo();")
        assert saved_values(tmp_path, page) == model.marks


def open_again(browser: Any, address: str) -> None:
    """Open the film in the same tab, and forget the steps in the form of a mark not saved."""
    browser.get(address + "#film=lake")
    wait(lambda: browser.title.startswith("lake"))
    wait(lambda: browser.execute_script("return unanswered === null"))
    forget = (
        "changes.filter((one) => one.kind === 'form')"
        ".forEach((one) => forgetFormChanges(one.after.mark))"
    )
    browser.execute_script(forget)


def test_edits_whose_answer_was_lost_can_be_undone_too(
    browser: Any, tmp_path: Path
) -> None:
    """The server is killed in the middle of saves: what it saved is in the list of changes."""
    page, model, draw = long_film(tmp_path), Model(), random.Random(12)
    n_kills, n_saved, port, last = 0, 0, 0, ""
    while n_kills < 10:
        with running(page, port) as server:
            port = server.port
            open_again(browser, server.address)
            assert shown_values(browser) == model.marks
            assert browser.execute_script(DONE) == model.number, last
            # After steps in the form of a mark that was not saved, nothing can be done again.
            n_undone = browser.execute_script(UNDONE)
            n_states = model.number + 1 + n_undone
            assert n_undone == 0 or n_states == len(model.states)
            model.states = model.states[:n_states]
            for _ in range(3):
                edit_at_random(browser, model, draw)
                assert saved_values(tmp_path, page) == model.marks
            before = (list(model.states), model.number)
            marks_before = model.marks
            server.kill_at(draw.randrange(1, 9))
            browser.execute_async_script(
                "load('marks', { film: film.id }).then(arguments[0])"
            )
            last = edit_at_random(browser, model, draw)
            found = saved_values(tmp_path, page)
            if found != model.marks:
                assert found == marks_before
                model.states, model.number = before
            elif found != marks_before and server.ended():
                n_saved += 1
            n_kills += 1
    assert n_saved > 3
    with running(page, port) as server:
        open_again(browser, server.address)
        while model.number:
            model.undo()
            act(browser, "await undo();")
            assert saved_values(tmp_path, page) == model.marks
        while model.number < len(model.states) - 1:
            model.redo()
            act(browser, "await redo();")
            assert saved_values(tmp_path, page) == model.marks


def lake(folder: Path) -> Site:
    """A page of ten seconds of pictures with their numbers, for eva."""
    write_video(folder / "lake.mp4", numbers=range(250), options={"g": "50"})
    return site(folder, film_clips("lake", "lake.mp4"), "eva")


def test_edges_and_bodies_are_dragged_and_the_picture_follows(
    browser: Any, tmp_path: Path
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    page = lake(tmp_path)
    assert page.marks is not None
    page.marks.save(mark(1, start_frame=50, end_frame=99, comment=""))
    with served(page) as server:
        resize(browser, 1400)
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        canvas = browser.find_element("id", "canvas")
        browser.execute_script("arguments[0].scrollIntoView()", canvas)

        def drag(from_s: float, to_s: float, *, release: bool = True) -> None:
            place = (
                "const lane = ownLane(), box = $('canvas').getBoundingClientRect();"
                "return [box.left, box.top + lane.y + lane.height / 2, film.scale]"
            )
            left, y, scale = browser.execute_script(place)
            actions = ActionChains(browser, duration=20)
            pointer = actions.w3c_actions.pointer_action
            pointer.move_to_location(round(left + from_s * scale), round(y))
            pointer.pointer_down()
            pointer.move_to_location(
                round(left + (from_s + to_s) / 2 * scale), round(y)
            )
            pointer.move_to_location(round(left + to_s * scale), round(y))
            if release:
                pointer.pointer_up()
            actions.perform()

        def spans() -> list[tuple[int, int]]:
            return [one[:2] for one in saved_values(tmp_path, page)]

        # One pixel is less than a picture here: 250 pictures on more than 1,000 pixels.
        assert browser.execute_script("return film.scale") > 100
        drag(4.0, 6.0)
        wait(lambda: spans() == [(50, 149)])
        assert settled(browser, 149) == 149
        drag(2.0, 3.0)
        wait(lambda: spans() == [(75, 149)])
        assert settled(browser, 75) == 75
        drag(4.5, 3.5)
        wait(lambda: spans() == [(50, 124)])
        assert settled(browser, 50) == 50
        drag(4.5, 0.5)  # not before the film
        wait(lambda: spans() == [(0, 74)])
        # Esc ends a drag; nothing is saved.
        drag(1.0, 2.0, release=False)
        wait(lambda: browser.execute_script("return drag.after.start_frame") == 25)
        keys_to_body(browser, "\ue00c")
        browser.execute_script("return 0")
        actions = ActionChains(browser)
        actions.w3c_actions.pointer_action.pointer_up()
        actions.perform()
        assert spans() == [(0, 74)]
        for want in ([(50, 124)], [(75, 149)], [(50, 149)], [(50, 99)]):
            keys_to_body(browser, "u")
            wait(lambda want=want: spans() == want)
        keys_to_body(browser, "U")
        wait(lambda: spans() == [(50, 149)])
        # To the end of the film, after which there is no picture.
        drag(6.0, 9.99)
        wait(lambda: spans() != [(50, 149)])
        assert spans() == [(50, 249)]


def test_two_marks_are_merged_without_a_silent_loss(
    browser: Any, tmp_path: Path
) -> None:
    """The tiers of the second mark were lost, and a long comment was cut off."""
    tiers = {"camera": ("pan", "still"), "tone": ("warm",)}
    terms = []
    for tier, values in tiers.items():
        terms.append(Term(tier, "tier"))
        terms += [Term(value, "value", (tier,)) for value in values]
    vocabulary = Vocabulary(terms=tuple(terms))
    page = lake(tmp_path)
    assert page.marks is not None
    page.vocabulary.path.write_text(vocabulary.to_toml(), "utf-8")
    first = mark(1, start_frame=0, end_frame=9, comment="a", tiers={"camera": "still"})
    both = {"camera": "pan", "tone": "warm"}
    second = mark(2, start_frame=20, end_frame=29, comment="b", tiers=both)
    third = mark(3, start_frame=40, end_frame=49, comment="c" * 1999)
    changes = [MarkChange(one) for one in (first, second, third)]
    page.marks.save_all(changes, vocabulary)

    def rows() -> list[tuple[int, int, str, dict[str, str]]]:
        marks = table(tmp_path, page.manifest, "eva").read().marks.values()
        facts = ("start_frame", "end_frame", "comment", "more")
        return sorted(tuple(one[name] for name in facts) for one in marks)

    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        chosen = "film.marks.find((one) => one.start_frame === 0)"
        merge = f"fillForm({chosen}); await mergeMarks();"
        before = rows()
        assert act(browser, merge) is None
        assert rows()[0] == (0, 29, "a; b", {"camera": "still", "tone": "warm"})
        assert "its camera pan became still" in text(browser, "#status")
        message = act(browser, merge)
        assert message is not None and "both together have 2005" in message
        assert act(browser, "await undo();") is None
        assert rows() == before


def test_a_step_that_cannot_be_undone_does_not_keep_others_from_it(
    browser: Any, tmp_path: Path
) -> None:
    """One mark that another window had changed made every earlier change stay for ever."""
    page = lake(tmp_path)
    assert page.marks is not None
    saved = page.marks.save(mark(1, start_frame=0, end_frame=9, comment=""))
    page.marks.save(mark(2, start_frame=30, end_frame=39, comment=""))
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        chosen = "film.marks.find((one) => one.start_frame === given[0])"
        move = f"fillForm({chosen}); await moveMark(5);"
        for start in (30, 0):
            assert act(browser, move, start) is None
        page.marks.save({**saved, "version": 2, "state": None, "level": "HN"})
        assert act(browser, "await refreshMarks();") is None
        message = act(browser, "await undo();")
        assert message is not None and "This step is left out of the list." in message
        assert act(browser, "await undo();") is None
        spans = [one[:3] for one in saved_values(tmp_path, page)]
        assert spans == [(0, 9, "HN"), (30, 39, "S")]
        assert text(browser, "#undo") == "Undo"


def test_a_mark_that_got_a_concept_above_its_own_is_taken_back(
    browser: Any, tmp_path: Path
) -> None:
    """Its state was not the one that was sent, so that undo said that somebody had changed it."""
    page = lake(tmp_path)
    assert page.marks is not None
    page.marks.save(mark(1, start_frame=0, end_frame=9, concepts=["Body"]))
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        vocabulary = Vocabulary(terms=(Term("Look"), Term("Body", broader=("Look",))))
        page.vocabulary.path.write_text(vocabulary.to_toml(), "utf-8")
        move = "fillForm(film.marks[0]); await moveMark(5);"
        places = []
        for script in (move, "await undo();", "await redo();", "await undo();"):
            assert act(browser, script) is None
            places.append([one[0] for one in saved_values(tmp_path, page)])
        assert places == [[5], [0], [5], [0]]


def test_all_of_a_film_that_was_called_watched_is_taken_back(
    browser: Any, tmp_path: Path
) -> None:
    page = lake(tmp_path)
    assert page.watched is not None
    with served(page) as server:
        stretches = {"movie_id": "lake", "stretches": [[0, 24], [50, 60]]}
        page.save_watched(stretches)
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        keys_to_body(browser, "v")
        wait(lambda: text(browser, "#picture") == "picture 25")
        browser.execute_script("seek(2.3)")
        keys_to_body(browser, "v")
        wait(lambda: text(browser, "#picture") == "picture 61")
        browser.execute_script("$('watched-all').click()")
        wait(lambda: page.watched.stretches("lake") == [(0, 249)])  # type: ignore[union-attr]
        keys_to_body(browser, "v")
        wait(lambda: "watched all" in text(browser, "#status"))
        keys_to_body(browser, "u")
        wait(
            lambda: page.watched.stretches("lake") == [(0, 24), (50, 60)]  # type: ignore[union-attr]
        )
        keys_to_body(browser, "U")
        wait(lambda: page.watched.stretches("lake") == [(0, 249)])  # type: ignore[union-attr]


def test_a_segment_is_played_again_and_again(browser: Any, tmp_path: Path) -> None:
    page = lake(tmp_path)
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        for _ in range(2):
            keys_to_body(browser, "f")
        assert browser.execute_script("return video.playbackRate") == 1.5
        browser.execute_script(
            "Object.assign(mark, { start_frame: 50, end_frame: 64 })"
        )
        browser.execute_script(
            "window.seen = []; window.timer = setInterval(() => seen.push(frame()), 10)"
        )
        keys_to_body(browser, "l")
        starts = "return seen.filter((now, k) => k && now < seen[k - 1]).length"
        wait(lambda: browser.execute_script(starts) >= 3)
        keys_to_body(browser, "l")
        keys_to_body(browser, " ")
        seen = browser.execute_script("clearInterval(timer); return seen")
    in_segment = [number for number in seen if 50 <= number <= 64]
    assert len(in_segment) > 0
    # Each time it goes back to the first picture of the segment, and never before it.
    first = seen.index(in_segment[0])
    assert min(seen[first:]) >= 50


@pytest.mark.parametrize(
    ("place", "want"),
    [
        ("12", 12),
        ("#12", 12),
        ("picture 12", 12),
        ("2 s", 50),
        ("2.5", 62),
        ("0:03", 75),
        ("0:00:04.04", 101),
        ("0:04,04", 101),
    ],
)
def test_places_to_go_to(browser: Any, tmp_path: Path, place: str, want: int) -> None:
    with served(long_film(tmp_path)) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        assert act(browser, "goToText(given[0]);", place) is None
        assert text(browser, "#picture") == f"picture {want}"
        for bad in ("soon", "1:2:3:4", "-1", "0x10", ""):
            assert "Expected a time" in (act(browser, "goToText(given[0]);", bad) or "")
        for late in ("2500", "0:01:40"):
            assert "The film ends at" in (
                act(browser, "goToText(given[0]);", late) or ""
            )


# The lanes as they are drawn, and as they would be drawn if all were made anew.
LANES = """
const inOrder = (a, b) => a.start - b.start || (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);
const state = () => JSON.stringify([film.end, film.lanes.map((lane) => {
  const bars = [...lane.bars].sort(inOrder).map((bar) => Object.entries(bar).sort());
  return [lane.kind, lane.name, lane.label, lane.y, bars, lane.reach];
})]);
const shown = state();
makeLanes();
return [shown, state()];
"""


def test_lanes_that_are_changed_equal_lanes_that_are_made_anew(
    browser: Any, tmp_path: Path
) -> None:
    """A save changes the lanes of marks in place: a film may have 20,000 of them."""
    page = lake(tmp_path)
    (tmp_path / "segments").mkdir(exist_ok=True)
    terms = (Term("Camera", "tier"), Term("pan", "value", ("Camera",)))
    vocabulary = Vocabulary("of a test", terms=terms)
    path = tmp_path / "segments" / "films.vocabulary.toml"
    path.write_text(vocabulary.to_toml(), "utf-8")
    new = (
        "newMark(); setFrame('start_frame', given[0]); setFrame('end_frame', given[1]);"
        "form.querySelector(`[name=level][value=${given[2]}]`).checked = true;"
        "for (const name of given[3]) form.querySelector(`[value=${name}]`).checked = true;"
        "form.elements.tier.value = given[4]; await saveMark();"
    )
    other = {"movie_id": "lake", "level": "HN", "concepts": ["Body"], "comment": ""}
    other |= {"mark": "a" * 32, "version": 0, "start_frame": 3, "end_frame": 5}
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        choose = "$('concept-source').value = 'your marks'; makeLanes();"
        steps: list[tuple[str, tuple[Any, ...]]] = [
            (new, (50, 99, "S", ["Look"], "pan")),
            (choose, ()),
            (new, (10, 30, "HN", ["Body"], "")),
            (new, (60, 70, "S", ["Look", "Body"], "pan")),
            ("seek(2.5); await splitMark();", ()),
            ("await undo();", ()),
            ("await undo();", ()),
            ("await redo();", ()),
            ("seek(2.5); await moveMark(7);", ()),
            ("seek(0.5); await deleteMark();", ()),
            ("await refreshMarks();", ()),
            ("await putNote('lake', 5, 'a note', '');", ()),
            ("await putNote('lake', 7, 'another', '');", ()),
            ("await postWatched('lake', [[0, 30]]);", ()),
            ("await postWatched('lake', [[60, 90]]);", ()),
            ("await undo(); await undo(); await undo(); await undo();", ()),
            ("await undo(); await undo(); await undo(); await undo();", ()),
            ("await redo(); await redo(); await redo();", ()),
        ]
        for script, given in steps:
            assert act(browser, script, *given) is None, script
            shown, anew = browser.execute_script(LANES)
            assert shown == anew, script
        assert page.marks is not None
        page.marks.save(other)
        assert act(browser, "await refreshMarks();") is None
        assert (3, 5, "HN", ("Body",), "") in shown_values(browser)
        shown, anew = browser.execute_script(LANES)
        assert shown == anew


def test_an_answer_from_before_a_save_is_not_shown_after_it(
    browser: Any, tmp_path: Path
) -> None:
    """A window that gets the focus asks for the marks; a slow answer hid what was saved since."""
    page = long_film(tmp_path)
    with served(page) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        script = """
            const plain = window.fetch;
            window.fetch = async (address, options) => {
              const answer = await plain(address, options);
              const isSlow = String(address).startsWith("api/marks");
              if (isSlow) await new Promise((done) => setTimeout(done, 700));
              return answer;
            };
            dispatchEvent(new Event("focus"));
            setFrame("start_frame", 5);
            setFrame("end_frame", 9);
            form.querySelector("[name=level][value=S]").checked = true;
            await saveMark();
            await new Promise((done) => setTimeout(done, 1000));
        """
        assert act(browser, script) is None
        assert shown_values(browser) == [(5, 9, "S", (), "")]
        assert saved_values(tmp_path, page) == [(5, 9, "S", (), "")]


def test_a_loop_crosses_the_files_of_a_film_and_ends_with_it(
    browser: Any, tmp_path: Path
) -> None:
    for number, name in enumerate(("one.mp4", "two.mp4")):
        numbers = range(50 * number, 50 * number + 50)
        write_video(tmp_path / name, numbers=numbers, options={"g": "10"})
    clips = [
        Clip("lake-1", "lake", 1, "one.mp4", None, None, "S"),
        Clip("lake-2", "lake", 2, "two.mp4", None, None, "S"),
        Clip("pond-1", "pond", 1, "one.mp4", None, None, "S"),
    ]
    with served(site(tmp_path, clips, "eva")) as server:
        open_page(browser, f"{server.new_address()}#film=lake", "lake")
        wait(lambda: times_are_known(browser, "lake"))
        browser.execute_script(
            "Object.assign(mark, { start_frame: 40, end_frame: 59 });"
            "window.seen = []; window.timer = setInterval(() => seen.push(frame()), 10)"
        )
        keys_to_body(browser, "l")
        starts = "return seen.filter((now, k) => k && now < seen[k - 1]).length"
        wait(lambda: browser.execute_script(starts) >= 2)
        seen = browser.execute_script("clearInterval(timer); return seen")
        # It goes on in the second file before it starts again.
        assert max(seen) >= 50
        pressed = "return $('loop').getAttribute('aria-pressed')"
        assert browser.execute_script(pressed) == "true"
        browser.execute_script("video.pause(); location.hash = '#film=pond'")
        wait(lambda: times_are_known(browser, "pond"))
        assert browser.execute_script(pressed) == "false"

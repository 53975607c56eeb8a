"""The film page in a real browser, as a person uses it: what is on the screen, and keys.

This is the only place of the stories that knows how the page is built. What else a story uses of it
are words that a person reads, keys that a person presses, and the tables that are saved.
"""

from __future__ import annotations

import io
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image
from support.browsers import keys_to_body, open_page, resize, text, wait, wait_for_film
from support.cli import environment, obygaze_argv
from support.videos import read_number

from stories.workspace import Workspace

VIDEO = "#video"
CARD = "#grid .card"
HERE = "#here"
LANE_NAMES = "#lane-names li"
WATCH_IN_FILM = "#clip-watch"
TIME_LINE = "#scroll"
LEVEL_CHOICE = "#filters [name=level]"
SHOW_CLIPS = "#filters button"
FILM_CHOICE = "#film-choice"
SCORES_CHOICE = "#cell-choice"
# Collects what the page says in its line of messages, also if it is what stood there before.
LISTEN = """
const line = document.querySelector("#status");
window.said = [];
window.listener?.disconnect();
window.listener = new MutationObserver(() => window.said.push(line.textContent));
window.listener.observe(line, { childList: true, characterData: true, subtree: true });
"""
LEVEL_KEYS = {"EN": "1", "HN": "2", "NS": "3", "S": "4"}


class Server:
    """`obygaze view` in a process of its own, and the address that it said."""

    def __init__(self, ws: Workspace, *words: str) -> None:
        # Its errors go to a file: a pipe that nobody reads is full one day.
        errors = ws.folder.with_name("errors-of-view.txt")
        with errors.open("w", encoding="utf-8") as stream:
            self._process = subprocess.Popen(
                obygaze_argv("view", *words, "--no-browser"),
                cwd=ws.folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                encoding="utf-8",
            )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        if not self.address.startswith("http://127.0.0.1:"):
            self._process.communicate()
            said = errors.read_text(encoding="utf-8")
            raise AssertionError(f"view said no address: {self.address} {said}")

    def crash(self) -> None:
        """End the process with SIGKILL, as a computer that is switched off."""
        self._process.kill()
        self._process.communicate()

    def stop(self) -> int:
        """End the process with Ctrl-C, and return its exit code."""
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=120)
        return self._process.returncode

    def is_running(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.poll() is None


@contextmanager
def viewed(ws: Workspace, *words: str) -> Iterator[Server]:
    """Type `obygaze view` and stop it at the end with Ctrl-C."""
    server = Server(ws, *words)
    try:
        yield server
        if server.is_running():
            assert server.stop() == 0
    finally:
        if server.is_running():
            server.crash()


class FilmPage:
    """The page in one window of the browser."""

    def __init__(self, browser: Any, address: str, manifest: str = "films") -> None:
        self.browser = browser
        resize(browser, 1400)
        open_page(browser, address, manifest)

    def text(self) -> str:
        """Everything that a person reads on the page, with each run of blanks as one blank."""
        return " ".join(text(self.browser, "body").split())

    def says(self, words: str) -> bool:
        """Return whether the page says these words."""
        return words in self.text()

    def wait_for(self, words: str) -> None:
        """Wait until the page says these words."""
        wait(lambda: self.says(words))

    def choose_film(self, film: str) -> None:
        """Choose a film in the list of films, and wait until it is shown."""
        self.choose(FILM_CHOICE, film)
        self.wait_for_film(film)

    def wait_for_film(self, film: str) -> None:
        """Wait until a film is shown and its pictures are known."""
        wait_for_film(self.browser, film)
        wait(lambda: self.picture() >= 0)

    def choose(self, field: str, words: str) -> None:
        """Choose the entry of a list that begins with these words."""
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
        video = self.browser.find_element("css selector", VIDEO)
        if not video.is_displayed():
            return -1
        screen = np.asarray(
            Image.open(io.BytesIO(video.screenshot_as_png)).convert("RGB")
        )
        height, width = screen.shape[:2]
        # The pictures are 160 x 120; beside or above them the video is empty.
        shown_width = min(width, height * 4 // 3)
        shown_height = min(height, width * 3 // 4)
        left = (width - shown_width) // 2
        top = (height - shown_height) // 2
        return read_number(screen[top : top + shown_height, left : left + shown_width])

    def wait_for_picture(self, number: int) -> None:
        """Wait until this picture is on the screen, and stays there."""
        wait(lambda: self.picture() == number)

    def picture_at_rest(self) -> int:
        """Return the number of the picture that stays on the screen."""
        looks = [-1]
        while looks[-1] < 0 or looks[-3:] != [looks[-1]] * 3:
            time.sleep(0.1)
            looks.append(self.picture())
        return looks[-1]

    def press(self, *keys: str) -> None:
        """Press keys, one after another, wherever the focus is."""
        for key in keys:
            keys_to_body(self.browser, key)

    def press_until_said(self, key: str, words: str) -> None:
        """Press a key once, and wait until the page says a message that begins with these words."""
        self.browser.execute_script(LISTEN)
        self.press(key)
        try:
            wait(lambda: any(said.startswith(words) for said in self._said()))
        except AssertionError:
            raise AssertionError(f"{words!r} is not in {self._said()}") from None

    def _said(self) -> list[str]:
        found: list[str] = self.browser.execute_script("return window.said")
        return found

    def click(self, selector: str, x: float = 0.5) -> None:
        """Click an element with the mouse, at a share of its width."""
        from selenium.webdriver.common.action_chains import ActionChains

        element = self.browser.find_element("css selector", selector)
        across = round((x - 0.5) * element.size["width"])
        actions = ActionChains(self.browser)
        actions.move_to_element_with_offset(element, across, 0).click().perform()

    def cards(self) -> list[str]:
        """Return what the cards of the clips say."""
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
        """Go to a time or a picture by keys: `g`, the place, Enter."""
        from selenium.webdriver.common.keys import Keys

        self.press("g")
        self.press_with_control("a")
        self.press(place, Keys.ENTER)

    def press_with_control(self, key: str) -> None:
        """Press a key while Ctrl is held down."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        actions = ActionChains(self.browser).key_down(Keys.CONTROL)
        actions.send_keys(key).key_up(Keys.CONTROL).perform()

    def at_this_time(self) -> str:
        """Return what the page says of the picture that is shown, in words."""
        found = self.browser.find_element("css selector", HERE)
        return " ".join(found.text.split())

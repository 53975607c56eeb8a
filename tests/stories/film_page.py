"""The film page in a real browser, as a person uses it: what is on the screen, and keys.

This is the only place of the stories that knows how the page is built. What else a story uses of it
are words that a person reads, and keys that a person presses.
"""

from collections.abc import Callable
from typing import Any

from support.browsers import (
    keys_to_body,
    open_page,
    picture_shown,
    resize,
    text,
    wait,
    wait_for_picture,
    wait_for_title,
)

from stories.workspace import Workspace

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
    """Type `obygaze view`, and return the address of the page of each film."""
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

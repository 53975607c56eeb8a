"""A real browser for tests of the film page, and what they do with it."""

import io
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from support.servers import need_program
from support.videos import read_number

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-extensions", "--no-first-run", "--mute-audio"),
    "--force-device-scale-factor=1",
    "--autoplay-policy=no-user-gesture-required",
)


# A busy machine may take long for anything; a page that never gets there fails after this time.
WAIT_S = 120


def start_browser() -> Any:
    webdriver = pytest.importorskip("selenium.webdriver")
    driver = need_program("chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = need_program("chromium")
    for flag in FLAGS:
        options.add_argument(flag)
    logs = {"browser": "ALL", "performance": "ALL"}
    options.set_capability("goog:loggingPrefs", logs)
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    made.set_script_timeout(WAIT_S)
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    made = start_browser()
    yield made
    made.quit()


def resize(browser: Any, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def wait(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, "the page did not get there in time"
        time.sleep(0.03)
    return found


def text(browser: Any, selector: str) -> str:
    found: str = browser.execute_script(
        "return document.querySelector(arguments[0]).innerText", selector
    )
    return found


def open_page(browser: Any, address: str, title: str) -> None:
    browser.get("about:blank")
    browser.get(address)
    wait(lambda: title in browser.title)


def go(browser: Any, **place: Any) -> None:
    script = "location.hash = new URLSearchParams(arguments[0])"
    browser.execute_script(script, {key: str(value) for key, value in place.items()})


def picture_shown(browser: Any) -> int:
    size = browser.execute_script(
        """const video = document.getElementById("video");
        if (video.hidden || video.seeking || video.readyState < 2) return null;
        return [video.videoWidth, video.videoHeight];"""
    )
    video = browser.find_element("css selector", "#video")
    if size is None or not video.is_displayed():
        return -1
    screen = np.asarray(Image.open(io.BytesIO(video.screenshot_as_png)).convert("RGB"))
    height, width = screen.shape[:2]
    # Beside or above the pictures the video is empty.
    scale = min(width / size[0], height / size[1])
    across, down = int(size[0] * scale), int(size[1] * scale)
    left, top = (width - across) // 2, (height - down) // 2
    return read_number(screen[top : top + down, left : left + across])


# The modules of the film page by their names, and its state.
IN_PAGE = """
const done = arguments[arguments.length - 1], given = [...arguments];
const { state: { state }, tools, player, timeline, clips, keys } = modules;
(async () => {
  SCRIPT
})().then((found) => done([true, found ?? null]), (error) => done([false, error.message]));
"""


def in_page(browser: Any, script: str, *values: Any) -> Any:
    """Run statements of the film page to their end, and return what they return.

    They see the modules by their names, the page's `state`, and the values as `given`.
    """
    body = IN_PAGE.replace("SCRIPT", script)
    is_done, found = browser.execute_async_script(body, *values)
    assert is_done, found
    return found


def wait_for_picture(browser: Any, picture: int) -> None:
    wait(lambda: settled(browser, picture) == picture)


def wait_for_text(browser: Any, selector: str, words: str) -> None:
    wait(lambda: text(browser, selector) == words)


def wait_for_title(browser: Any, start: str) -> None:
    wait(lambda: browser.title.startswith(start))


def settled(browser: Any, want: int) -> int:
    """The picture that is shown in the end: the one wanted, if it comes at all."""
    end, found = time.monotonic() + WAIT_S / 2, -1
    while found != want and time.monotonic() < end:
        found = picture_shown(browser)
        time.sleep(0.01)
    return found


def keys_to_body(browser: Any, key: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(key).perform()

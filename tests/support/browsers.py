"""A real browser for tests of the film page, and what they do with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.servers import need_program

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ),
    *(
        "--no-first-run",
        "--disable-extensions",
        "--mute-audio",
        "--force-device-scale-factor=1",
    ),
    "--autoplay-policy=no-user-gesture-required",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    driver = need_program("chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = need_program("chromium")
    for flag in FLAGS:
        options.add_argument(flag)
    logs = {"browser": "ALL", "performance": "ALL"}
    options.set_capability("goog:loggingPrefs", logs)
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    made.set_script_timeout(60)
    yield made
    made.quit()


def resize(browser: Any, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def wait(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """What a condition returns once it holds."""
    end = time.monotonic() + seconds
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
    """Follow a link within the page."""
    script = "location.hash = new URLSearchParams(arguments[0])"
    browser.execute_script(script, {key: str(value) for key, value in place.items()})


def press(browser: Any, *keys: str) -> None:
    for key in keys:
        browser.switch_to.active_element.send_keys(key)

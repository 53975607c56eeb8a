"""A real browser opens the page: no error, no request, nothing wider than the window."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path

import pytest
from support.runs import cell, usual, write_run
from support.servers import need_program

from obygaze_models.report.page import write_report

pytestmark = pytest.mark.check("opens a browser")

FLAGS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ),
    *("--disable-dev-shm-usage", "--disable-extensions", "--virtual-time-budget=4000"),
)
WIDTHS = (1400, 390)


def chromium(page: Path, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Open a page with a fresh profile, and print what it became."""
    program = need_program("chromium")
    profile = f"--user-data-dir={folder / 'profile'}"
    words = [program, *FLAGS, profile, *flags, "--dump-dom", page.as_uri()]
    return subprocess.run(
        words,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
        cwd=folder,
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    folders = [write_run(folder / "one", usual()), write_run(folder / "two", [cell()])]
    return write_report(folders, formats=["html"])[0]


@pytest.mark.timeout(180)
def test_the_page_opens_without_an_error_and_without_a_request(page, tmp_path):
    log = tmp_path / "net.json"
    logging = ("--enable-logging=stderr", "--v=0", f"--log-net-log={log}")
    done = chromium(page, tmp_path, *logging)
    assert "A run made by hand" in done.stdout
    assert "CONSOLE" not in done.stderr
    asked = set(re.findall(r'"url":\s*"([^"]*)"', log.read_text(encoding="utf-8")))
    # The browser itself may look for updates; a page is asked for by its own address alone.
    assert {url for url in asked if not url.startswith(("data:", "file:"))} <= at_home(
        asked
    )


def at_home(asked: set[str]) -> set[str]:
    """Addresses of the browser's makers, which it asks whatever it shows."""
    return {
        url for url in asked if re.match(r"https?://[\w.-]*(google|gvt1)[\w.-]*/", url)
    }


@pytest.mark.timeout(180)
def test_nothing_is_wider_than_the_window_at_two_widths(page, tmp_path):
    """Each width is a frame around the page; a script outside of it measures."""
    held = html.escape(page.read_text(encoding="utf-8"), quote=True)
    frames = "".join(
        f'<iframe width="{width}" height="800" style="border:0" srcdoc="{held}"></iframe>'
        for width in WIDTHS
    )
    measure = """
        onload = () => {
            const seen = [...document.querySelectorAll('iframe')].map(frame => {
                const root = frame.contentDocument.documentElement
                const images = [...frame.contentDocument.images]
                // Regions that scroll count as well, and what is folded is opened first.
                frame.contentDocument.querySelectorAll('details').forEach(d => d.open = true)
                const all = [root, ...frame.contentDocument.querySelectorAll('.wide')]
                const wider = Math.max(...all.map(e => e.scrollWidth - e.clientWidth))
                return [frame.clientWidth, wider, images.every(i => i.naturalWidth > 0)]
            })
            document.title = JSON.stringify(seen)
        }
    """
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(
        f"<!doctype html><body>{frames}<script>{measure}</script>", encoding="utf-8"
    )
    done = chromium(wrapper, tmp_path, "--window-size=1600,2000")
    found = re.search(r"<title>(.*?)</title>", done.stdout)
    assert found is not None
    measured = json.loads(html.unescape(found[1]))
    # Inside each frame: its width, what the page is wider by, and whether each picture came.
    assert measured == [[width, 0, True] for width in WIDTHS]

"""The site: every public name is on a page, links hold, search works without a network."""

import importlib
import json
import re
import subprocess
import sys
import threading
import zlib
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from support.cli import ROOT, environment
from support.servers import need_program
from test_public_api import ROOMS

pytest.importorskip("myst_nb")

pytestmark = pytest.mark.check("builds the site and opens it in a browser")
CHROMIUM = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--no-first-run", "--disable-dev-shm-usage", "--virtual-time-budget=20000"),
)
PAGES = ("README", "docs/guide/extraction", "docs/commands", "docs/howto/student")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site."""
    folder = tmp_path_factory.mktemp("site")
    script = ROOT / "scripts" / "make-command-reference"
    subprocess.run([sys.executable, script], check=True, env=environment())
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs"]
    words += ["-d", folder / "trees", ".", folder / "html"]
    done = subprocess.run(words, cwd=ROOT, env=environment(), stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()
    return folder / "html"


class Page(HTMLParser):
    """The links of a page, what it loads, and the places in it that can be linked to."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.places = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.add(given["href"])
        elif tag in {"script", "img"} and given.get("src"):
            self.loaded.add(given["src"])
        elif tag == "link" and given.get("href"):
            self.loaded.add(given["href"])


@pytest.fixture(scope="module")
def parsed(site) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


@pytest.mark.timeout(600)
def test_every_public_name_is_on_a_page(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(inventory).decode().splitlines()
    listed = {line.split()[0] for line in lines}
    exported = {
        f"{room}.{name}"
        for room in ("obygaze", *ROOMS)
        for name in importlib.import_module(room).__all__
    }
    assert len(exported) > 100
    assert exported - listed == set()


def test_every_link_inside_the_site_holds_and_nothing_is_loaded_from_elsewhere(parsed):
    for path, page in parsed.items():
        for link in page.links | page.loaded:
            target = urlsplit(link)
            if target.scheme:
                assert link not in page.loaded or not target.netloc, link
                continue
            there = (
                (path.parent / unquote(target.path)).resolve() if target.path else path
            )
            assert there.is_file(), f"{path.name}: {link}"
            if there in parsed and not target.fragment.startswith(":~:"):
                assert unquote(target.fragment) in parsed[there].places, (
                    f"{path.name}: {link}"
                )


def chromium(address: str, folder: Path) -> str:
    """Open an address with a fresh profile, and return what the page became."""
    words = [need_program("chromium"), *CHROMIUM, f"--user-data-dir={folder}"]
    words += ["--dump-dom", address]
    return subprocess.run(
        words, capture_output=True, encoding="utf-8", timeout=120, check=True
    ).stdout


@pytest.mark.timeout(180)
def test_search_works_from_a_folder(site, tmp_path):
    shown = chromium(f"{(site / 'search.html').as_uri()}?q=verify", tmp_path)
    found = re.findall(r'<a href="(docs/[^"?#]+)', shown)
    assert {"docs/guide/stores.html", "docs/api/store.html"} <= set(found)


@pytest.mark.timeout(180)
def test_no_page_is_wider_than_a_telephone_or_a_desk(site, tmp_path):
    frames = "".join(
        f'<iframe width="{width}" height="800" src="{page}.html"></iframe>'
        for page in PAGES
        for width in (390, 1400)
    )
    measure = """
        onload = () => {
            const seen = [...document.querySelectorAll('iframe')].map(frame => {
                const root = frame.contentDocument.documentElement
                return [frame.src, frame.width, root.scrollWidth - root.clientWidth]
            })
            document.title = JSON.stringify(seen)
        }
    """
    text = f"<title></title><script>{measure}</script><body>{frames}"
    (site / "measured.html").write_text(text, encoding="utf-8")
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        shown = chromium(
            f"http://127.0.0.1:{server.server_port}/measured.html", tmp_path
        )
        server.shutdown()
    measured = json.loads(re.search(r"<title>(.*?)</title>", shown)[1])
    assert len(measured) == 2 * len(PAGES)
    assert [row for row in measured if row[2] > 0] == []

"""The addresses of the page: each is a function of its documents, pictures or videos."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from obygaze.films.page.server import PageServer, Reply
from obygaze.films.page.site import Site

STATIC = {"index.html": "text/html", "page.css": "text/css"}
# Each imports only some of those before it.
SCRIPTS = (
    "state",
    "tools",
    "player",
    "marks",
    "watched",
    "timeline",
    "form",
    "clips",
    "keys",
    "main",
)
STATIC |= {f"{name}.js": "text/javascript" for name in SCRIPTS}
Asked = Mapping[str, str]


def server_of(site: Site, port: int = 0) -> PageServer:
    """Return a server of the page, which does not run yet.

    Args:
        site: The page.
        port: The port; a free one where it is 0, or used by another program.
    """
    media = site.media

    def static(name: str, asked: Asked) -> Reply:
        data = files(__package__).joinpath("static", name).read_bytes()
        return Reply(data, f"{STATIC[name]}; charset=utf-8")

    def document(make: Callable[..., Any], asked: Asked) -> Reply:
        values: dict[str, Any] = dict(asked)
        if "cell" in values:
            values["cell"] = int(values["cell"])
        return Reply.of(make(**values))

    def picture(draw: Callable[..., bytes], kind: str, *values: Any) -> Reply:
        headers = {"Cache-Control": "private, max-age=3600"}
        return Reply(draw(*values), kind, headers=headers)

    def thumbnail(asked: Asked) -> Reply:
        return picture(media.thumbnail, "image/jpeg", site.shown[asked["key"]])

    def sheet(asked: Asked) -> Reply:
        is_dark = asked.get("paper") == "dark"
        return picture(media.sheet, "image/png", site.shown[asked["key"]], is_dark)

    def of_video(make: Callable[..., bytes | Path], kind: str, asked: Asked) -> Reply:
        return Reply(make(media.by_key[asked["key"]]), kind)

    get: dict[str, Callable[[Asked], Reply]] = {
        "": partial(static, "index.html"),
        **{name: partial(static, name) for name in STATIC},
        "api/overview": partial(document, site.overview),
        "api/scores": partial(document, site.scores),
        "api/film": partial(document, site.film),
        "api/clip": partial(document, site.clip),
        "api/marks": partial(document, site.marks_of),
        "thumb/": thumbnail,
        "sheet/": sheet,
        "times/": partial(of_video, media.times, "application/octet-stream"),
        "media/": partial(of_video, media.path, ""),
    }
    post: dict[str, Callable[[Mapping[str, Any]], Reply]] = {}
    if site.marks:
        post["api/turn"] = lambda sent: Reply.of(site.take_turn(sent))
        post["api/marks"] = lambda sent: Reply.of(site.save_marks(sent))
        post["api/watched"] = lambda sent: Reply.of(site.save_watched(sent))
    return PageServer(get, post, port)

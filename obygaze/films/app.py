"""The page as functions behind the addresses of a server, and as files for a colleague."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from obygaze.films.selection import selected_table
from obygaze.films.server import PageServer, Reply
from obygaze.films.site import Site
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import json_values, write_then_rename
from obygaze_features.core.own_results import OwnFolder, check_folder

STATIC = {
    "index.html": "text/html",
    "view.css": "text/css",
}
# The scripts of the page share one scope, in the order of index.html. They are no modules: browsers
# refuse modules in an exported page, which has no server.
SCRIPTS = (
    "texts",
    "tools",
    "clips",
    "lanes",
    "player",
    "watched",
    "watching",
    "changes",
    "marks",
    "edits",
    "vocabulary",
    "tracks",
    "selection",
    "cite",
    "notes",
    "queue",
    "keys",
    "view",
)
STATIC |= {f"{name}.js": "text/javascript" for name in SCRIPTS}
DATA_FILE = "data.js"
DATA_START = b"const EXPORTED = "
Asked = Mapping[str, str]
NUMBERS = ("cell", "position")  # parameters that are whole numbers


def server_of(site: Site, ports: Sequence[int] = (0,)) -> PageServer:
    """Return a server of the page, which does not run yet.

    Args:
        site: The page.
        ports: Numbers of ports, of which the first free one is used; 0 is any.
    """
    media = site.media

    def static(name: str, asked: Asked) -> Reply:
        return Reply(_static_bytes(name), f"{STATIC[name]}; charset=utf-8")

    def document(make: Callable[..., Any], asked: Asked) -> Reply:
        return Reply.of(
            make(**{k: int(v) if k in NUMBERS else v for k, v in asked.items()})
        )

    def of_clip(draw: Callable[..., bytes], kind: str, asked: Asked) -> Reply:
        direction = [asked["direction"]] if "direction" in asked else []
        picture = draw(site.shown[asked["key"]], *direction)
        return Reply(picture, kind, headers={"Cache-Control": "private, max-age=3600"})

    def of_video(make: Callable[..., bytes | Path], kind: str, asked: Asked) -> Reply:
        number = [int(asked["picture"])] if "picture" in asked else []
        return Reply(make(media.by_key[asked["key"]], *number), kind)

    def table(asked: Asked) -> Reply:
        filters: dict[str, Any] = dict(asked)
        kind = filters.pop("key")
        if "cell" in filters:
            filters["cell"] = int(filters["cell"])
        data, media_type = selected_table(site, kind, **filters)
        name = f'attachment; filename="clips.{kind}"'
        return Reply(data, media_type, headers={"Content-Disposition": name})

    get: dict[str, Callable[[Asked], Reply]] = {
        "": partial(static, "index.html"),
        **{name: partial(static, name) for name in STATIC},
        # An exported page has data there.
        DATA_FILE: lambda asked: Reply(b"", "text/javascript"),
        "api/overview": partial(document, site.overview),
        "api/scores": partial(document, site.scores),
        "api/film": partial(document, site.film),
        "api/clip": partial(document, site.clip),
        "api/where": partial(document, site.where),
        "api/search": partial(document, site.search),
        "api/queue": partial(document, site.queued),
        "thumb/": partial(of_clip, media.thumbnail, "image/jpeg"),
        "sheet/": partial(of_clip, media.sheet, "image/png"),
        "map/": partial(of_clip, media.map_sheet, "image/png"),
        "table/": table,
        "picture/": partial(of_video, media.whole_picture, "image/png"),
        "still/": partial(of_video, media.still, "image/jpeg"),
        "times/": partial(of_video, media.times, "application/octet-stream"),
        "sound/": partial(of_video, media.loudness, "application/octet-stream"),
        "media/": partial(of_video, media.playable, ""),
        "subtitles/": partial(of_video, media.subtitles, "text/vtt; charset=utf-8"),
    }
    post: dict[str, Callable[[Mapping[str, Any]], Reply]] = {}
    if site.marks:
        get["api/marks"] = partial(document, site.marks_of)
        post["api/mark"] = lambda sent: Reply.of(site.save_mark(sent))
        post["api/marks"] = lambda sent: Reply.of(site.save_marks(sent))
        get["api/paper-terms"] = lambda asked: Reply.of(site.paper_terms())
        post["api/vocabulary"] = lambda sent: Reply.of(site.save_vocabulary(sent))
        post["api/draft"] = lambda sent: Reply.of(site.save_draft(sent))
        post["api/set-aside"] = lambda sent: Reply.of(site.set_aside(sent))
        post["api/note"] = lambda sent: Reply.of(site.save_note(sent))
        post["api/judge"] = lambda sent: Reply.of(site.judge(sent))
        post["api/watched"] = lambda sent: Reply.of(site.save_watched(sent))
    return PageServer(get, post, ports)


def export(site: Site, folder: Path, *, thumbnails: bool = False) -> None:
    """Write the page as files that a browser opens without a server; they contain no video.

    Args:
        site: The page.
        folder: The new folder; an exported page there is replaced, if nothing was added to it.
        thumbnails: Write a small picture of each clip, and its maps, too.
    """
    site = replace(site, marks=None, queue=(), maps=site.maps if thumbnails else None)
    pictures = dict[str, bytes]()
    media = site.media
    for clip in site.shown.values() if thumbnails else ():
        # No picture of a clip whose video is missing or damaged.
        with suppress(ObygazeError):
            pictures[clip.clip_id] = media.thumbnail(clip)
    maps: list[tuple[str, str]] = []
    for clip_id in site.shown:
        maps += [(clip_id, facts["name"]) for facts in media.directions(clip_id)]
    content: dict[str, Any] = {
        "overview": site.overview(),
        "pictures": [*pictures],
        "maps": maps,
    }
    content |= {
        f"film {film}": {**site.film(film), "pieces": [], "subtitles": []}
        for film in site.films
    }
    n_cells = len((content["overview"]["run"] or {"cells": []})["cells"])
    content |= {f"scores {cell}": site.scores(cell) for cell in range(n_cells)}
    content |= {f"clip {clip}": site.clip(clip) for clip in site.shown}
    data = json.dumps(json_values(content), allow_nan=False).encode("utf-8")
    check_folder(folder, EXPORT, force=True)
    with write_then_rename(folder) as draft:
        draft.mkdir()
        for name in STATIC:
            (draft / name).write_bytes(_static_bytes(name))
        (draft / DATA_FILE).write_bytes(DATA_START + data + b"\n")
        (draft / "thumb").mkdir()
        # An id may not be a name of a file.
        for number, picture in enumerate(pictures.values()):
            (draft / "thumb" / f"{number}.jpg").write_bytes(picture)
        for number, (clip_id, name) in enumerate(maps):
            with suppress(ObygazeError):
                sheet = media.map_sheet(site.shown[clip_id], name)
                (draft / "thumb" / f"map{number}.png").write_bytes(sheet)


def _static_bytes(name: str) -> bytes:
    return files(__package__).joinpath("static", name).read_bytes()


def _not_exported(folder: Path) -> str:
    file = folder / DATA_FILE
    if not (file.is_file() and file.read_bytes().startswith(DATA_START)):
        return f"it has no {DATA_FILE} of an exported page"
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    names = sorted(found - {DATA_FILE, "thumb", *STATIC})
    more = [
        name for name in names if not re.fullmatch(r"thumb/(map)?\d+\.(jpg|png)", name)
    ]
    return f"it also holds {more[0]!r}" if more else ""


EXPORT = OwnFolder("exported page", _not_exported)

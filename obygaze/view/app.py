"""The page as functions behind the addresses of a server, and as files for a colleague."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from obygaze.view.pictures import picture_times, sheet, still, thumbnail
from obygaze.view.server import PageServer, Reply
from obygaze.view.site import Site, as_webvtt, subtitles_of
from obygaze_features.core.drafts import OwnFolder, new_folder
from obygaze_features.core.errors import NotFound, ObygazeError
from obygaze_features.core.files import json_values

STATIC = {"index.html": "text/html", "view.css": "text/css", "view.js": "text/javascript"}
DATA_FILE, DATA_START = "data.js", b"const EXPORTED = "
Asked = Mapping[str, str]


def server_of(site: Site) -> PageServer:
    """Return a server of the page, which does not run yet."""
    indexes = site.workspace.folder("indexes")

    def static(name: str, asked: Asked) -> Reply:
        return Reply(_static_bytes(name), f"{STATIC[name]}; charset=utf-8")

    def document(make: Callable[..., Any], asked: Asked) -> Reply:
        return Reply.of(make(**{k: int(v) if k == "cell" else v for k, v in asked.items()}))

    def of_clip(draw: Callable[..., bytes], kind: str, asked: Asked) -> Reply:
        clip = site.clip_of(asked["key"])
        picture = draw(site.path_of(clip.video), indexes, clip.start_s, clip.end_s)
        return Reply(picture, kind, headers={"Cache-Control": "private, max-age=3600"})

    def one_still(asked: Asked) -> Reply:
        path = site.path_of(site.video_of(asked["key"]))
        return Reply(still(path, indexes, int(asked["n"])), "image/jpeg")

    def times(asked: Asked) -> Reply:
        video = site.video_of(asked["key"])
        found = picture_times(site.path_of(video), indexes).astype("<f8")
        if site.playable(video) != site.path_of(video):
            found[0] = 0.0  # proxies begin at 0
        return Reply(found.tobytes(), "application/octet-stream")

    def media(asked: Asked) -> Reply:
        return Reply(site.playable(site.video_of(asked["key"])))

    def subtitles(asked: Asked) -> Reply:
        found = subtitles_of(site.path_of(site.video_of(asked["key"])))
        if found is None:
            raise NotFound("no subtitles beside this video")
        return Reply(as_webvtt(found), "text/vtt; charset=utf-8")

    get: dict[str, Callable[[Asked], Reply]] = {
        "": partial(static, "index.html"),
        "view.css": partial(static, "view.css"),
        "view.js": partial(static, "view.js"),
        DATA_FILE: lambda asked: Reply(b"", "text/javascript"),  # an exported page has data there
        "api/overview": partial(document, site.overview),
        "api/film": partial(document, site.film),
        "api/clip": partial(document, site.clip),
        "api/where": partial(document, site.where),
        "api/marks": partial(document, site.own_marks),
        "thumb/": partial(of_clip, thumbnail, "image/jpeg"),
        "sheet/": partial(of_clip, sheet, "image/png"),
        "still/": one_still,
        "times/": times,
        "media/": media,
        "subtitles/": subtitles,
    }
    return PageServer(get, {"api/mark": lambda wanted: Reply.of(site.save(wanted))})


def export(site: Site, folder: Path, *, thumbnails: bool = False) -> None:
    """Write the page as files that a browser opens without a server; they contain no video.

    Args:
        site: The page.
        folder: The new folder; an exported page there is replaced.
        thumbnails: Write a small picture of each clip, too.
    """
    pictures, indexes = dict[str, bytes](), site.workspace.folder("indexes")
    for clip in site.shown.values() if thumbnails else ():
        with suppress(ObygazeError):  # no picture of a clip whose video is missing or damaged
            path = site.path_of(clip.video)
            pictures[clip.clip_id] = thumbnail(path, indexes, clip.start_s, clip.end_s)
    documents = {name: {**made, "pieces": []} for name, made in site.documents()}
    content = json_values({**documents, "pictures": list(pictures)})
    data = json.dumps(content, allow_nan=False).encode("utf-8")
    with new_folder(folder, EXPORT, force=True) as draft:
        for name in STATIC:
            (draft / name).write_bytes(_static_bytes(name))
        (draft / DATA_FILE).write_bytes(DATA_START + data + b"\n")
        (draft / "thumb").mkdir()
        for clip_id, picture in pictures.items():
            (draft / "thumb" / f"{clip_id}.jpg").write_bytes(picture)


def _static_bytes(name: str) -> bytes:
    return files(__package__).joinpath("static", name).read_bytes()


def _not_exported(folder: Path) -> str:
    file = folder / DATA_FILE
    is_own = file.is_file() and file.read_bytes().startswith(DATA_START)
    return "" if is_own else f"it has no {DATA_FILE} of an exported page"


EXPORT = OwnFolder("exported page", _not_exported)

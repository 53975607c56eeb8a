"""Film pages for tests: manifests over numbered videos, and servers of them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze.films.marks import CONCEPTS_COLUMN, LEVEL, Mark, written
from obygaze.films.page.routes import server_of
from obygaze.films.page.server import PageServer
from obygaze.films.page.site import Site
from obygaze.films.writer import MarkFile
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.model import Clip, Header, Manifest
from support.servers import in_a_thread

CONCEPT_KINDS = {"Look": "visual", "Body": "visual"}
Sent = dict[str, Any]


def manifest(root: Path, clips: Sequence[Clip], *columns: str) -> Manifest:
    """The manifest "films" over the videos of a folder."""
    return Manifest(
        "films", Header("a test", CONCEPT_KINDS, video_root=str(root)), clips, columns
    )


def film_clips(film: str, video: str, n: int = 10) -> list[Clip]:
    """Clips of one second each in a video; every second one has the level S and a concept."""
    levels = ("EN", "S")
    return [
        Clip(
            f"{film}-{k:03d}",
            film,
            k,
            video,
            float(k),
            float(k + 1),
            levels[k % 2],
            ("Look",) if k % 2 else (),
        )
        for k in range(n)
    ]


def site(
    folder: Path,
    clips: Sequence[Clip],
    annotator: str = "",
    *,
    blind: bool = False,
    **more: Any,
) -> Site:
    """A page over the videos in a folder, which is its workspace too."""
    films = manifest(folder, clips)
    marks = table(folder, annotator) if annotator else None
    return Site(Workspace(folder), films, marks=marks, blind=blind, **more)


def table(folder: Path, annotator: str) -> MarkFile:
    """The marks of an annotator in a workspace."""
    return MarkFile(folder / "segments" / f"films.{annotator}.csv", annotator)


def mark(first: int = 10, last: int = 20, level: str = "S", **changes: Any) -> Sent:
    """A mark as the page sends it."""
    more = {"concepts": ["Body", "Look"], "comment": "why"}
    return {"first": first, "last": last, "level": level, **more, **changes}


def change(
    turn: str, *new: Sent, gone: Sequence[Sent] = (), film: str = "lake"
) -> Sent:
    """What the page sends to put marks in the place of others."""
    return {"turn": turn, "movie_id": film, "gone": [*gone], "new": [*new]}


def segment(
    start_s: float, end_s: float, annotator: str = "ada", level: str = "S"
) -> list[Mark]:
    """The rows of a mark of the film lake: a level, and the concept Look."""
    span = ("lake", start_s, end_s)
    return [
        Mark(*span, LEVEL, level, annotator),
        Mark(*span, CONCEPTS_COLUMN, "Look", annotator),
    ]


def write_marks(path: Path, *marks: Sequence[Mark]) -> Path:
    """Write a table of marks."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(written(row for rows in marks for row in rows))
    return path


@contextmanager
def served(page: Site) -> Iterator[PageServer]:
    """A running server of a page."""
    with server_of(page) as server, in_a_thread(server):
        yield server


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The document in the body."""
        return json.loads(self.body)


def ask(
    server: PageServer,
    path: str,
    headers: Mapping[str, str | None] | None = None,
    method: str = "GET",
    sent: Any = None,
) -> Answer:
    """Send one request with the right cookie, Host and Origin; `headers` change them."""
    usual = {"Host": server.host, "Cookie": f"{server.cookie}={server.secret}"}
    body = None
    if sent is not None:
        body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
        usual |= {
            "Origin": f"http://{server.host}",
            "Content-Type": "application/json",
        }
    wanted = {
        name: value for name, value in {**usual, **(headers or {})}.items() if value
    }
    connection = http.client.HTTPConnection(server.host, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in wanted.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()

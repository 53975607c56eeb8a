"""Film pages for tests: manifests over numbered videos, and servers of them."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze.films.mark_tables import Segment
from obygaze.films.marks import MarkTable
from obygaze.films.page.routes import server_of
from obygaze.films.page.server import PageServer
from obygaze.films.page.site import Site
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.model import Clip, Header, Manifest

CONCEPTS = {"Look": "visual", "Body": "visual"}


def manifest(root: Path, clips: Sequence[Clip], *columns: str) -> Manifest:
    """The manifest "films" over the videos of a folder."""
    return Manifest(
        "films", Header("a test", CONCEPTS, video_root=str(root)), clips, columns
    )


def film_clips(film: str, video: str, n: int = 10, seconds: float = 1.0) -> list[Clip]:
    """Clips of one second each in a video; every second one has the level S and a concept."""
    levels = ("EN", "S")
    return [
        Clip(
            f"{film}-{k:03d}",
            film,
            k,
            video,
            k * seconds,
            (k + 1) * seconds,
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
    marks = table(folder, films, annotator) if annotator else None
    return Site(Workspace(folder), films, marks=marks, blind=blind, **more)


def table(folder: Path, films: Manifest, annotator: str) -> MarkTable:
    """The marks of an annotator in a workspace."""
    path = folder / "segments" / f"{films.name}.{annotator}.csv"
    return MarkTable(path, annotator, films.films, tuple(films.header.concepts))


def mark(number: int = 0, state: str | None = None, **changes: Any) -> dict[str, Any]:
    """What the page sends to save a mark, new or as it was shown in a state."""
    values = {"movie_id": "lake", "start_frame": 10, "end_frame": 20, "level": "S"}
    more = {"concepts": ["Body", "Look"], "comment": "why"}
    own = {"mark": f"00000000-0000-4000-8000-{number:012d}", "state": state}
    return {**values, **more, **own, **changes}


def segment(first: int, last: int, annotator: str = "ada", level: str = "S") -> Segment:
    """A segment of the film lake."""
    return Segment("lake", annotator, first, last, level, ("Look",))


@contextmanager
def served(page: Site) -> Iterator[PageServer]:
    """A running server of a page."""
    with server_of(page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


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


def save(server: PageServer, wanted: Mapping[str, Any]) -> Answer:
    """Save a mark as the page does."""
    return ask(server, "/api/marks", method="POST", sent=wanted)

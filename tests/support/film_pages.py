"""Film pages for tests: manifests over numbered videos, and pages of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from obygaze.films.marks import CONCEPTS_COLUMN, LEVEL, Mark, written
from obygaze.films.page.html import render_page
from obygaze.films.page.site import Site
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.model import Clip, Header, Manifest

CONCEPT_KINDS = {"Look": "visual", "Body": "visual"}


def manifest(root: Path, clips: Sequence[Clip], *columns: str) -> Manifest:
    return Manifest(
        "films", Header("a test", CONCEPT_KINDS, video_root=str(root)), clips, columns
    )


def film_clips(film: str, video: str, n: int = 10) -> list[Clip]:
    """Clips of one second each in a video; every second one has the level S and a concept."""
    labels = (("EN", ()), ("S", ("Look",)))
    return [
        Clip(f"{film}-{k:03d}", film, k, video, float(k), k + 1.0, *labels[k % 2])
        for k in range(n)
    ]


def site(folder: Path, clips: Sequence[Clip], **more: Any) -> Site:
    return Site(Workspace(folder), manifest(folder, clips), **more)


def document(page: Site, film: str = "lake") -> dict[str, Any]:
    """What the page of a film shows, for a page in the workspace itself."""
    names = {one: f"{one}.html" for one in page.films}
    return page.document(film, page.workspace.root, names)


def page_file(page: Site, film: str = "lake") -> str:
    path = page.workspace.root / f"{film}.html"
    path.write_bytes(render_page(document(page, film)))
    return path.absolute().as_uri()


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
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(written(row for rows in marks for row in rows))
    return path

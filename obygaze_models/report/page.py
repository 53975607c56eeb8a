"""One HTML page that needs nothing but itself: tables, figures, provenance."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from obygaze_features import __version__
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_atomic
from obygaze_models.protocols.runner.records import Run, read_run
from obygaze_models.report.content import Section, all_tables, sections_of
from obygaze_models.report.figures import Figure, draw_all

FORMATS = ("html", "md", "latex", "csv")
# Where each figure stands on the page, by the beginning of its key.
PLACES = {
    "intervals": "results",
    "confusion": "results",
    "films": "films",
    "timeline": "films",
    "calibration": "calibration",
}


@dataclass(frozen=True)
class Chapter:
    """One run on the page."""

    run: Run
    sections: Sequence[Section]
    figures: Sequence[Figure]

    @property
    def title(self) -> str:
        """What the protocol calls itself."""
        protocol = self.run.protocol
        found = protocol.get("report", {}).get("title") or protocol.get("name")
        return str(found or self.run.folder.name)

    def figures_of(self, section: str) -> list[Figure]:
        """The figures that belong to a section."""
        return [f for f in self.figures if PLACES.get(f.key.split("-")[0]) == section]


def report(
    folders: Sequence[Path], out: Path | None = None, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write what runs found: one page for all, tables and figures in each run's own folder.

    Returns the files, the page first.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not folders:
        raise FixUsage(f"no report of {', '.join(unknown) or 'nothing'}", hint=", ".join(FORMATS))
    chapters = [_chapter(folder) for folder in folders]
    written = [path for chapter in chapters for path in _write_tables(chapter, formats)]
    written += [path for chapter in chapters for f in chapter.figures for path in (f.svg, f.png)]
    if "html" not in formats:
        return written
    page = out or folders[0] / "report.html"
    write_atomic(page, page_html(chapters).encode("utf-8"))
    return [page, *written]


def page_html(chapters: Sequence[Chapter]) -> str:
    """The page; every picture and style is inside it."""
    return str(
        _template().render(
            chapters=chapters,
            style=_resource("style.css"),
            version=__version__,
            picture=_picture,
            title=chapters[0].title if len(chapters) == 1 else f"{len(chapters)} runs",
        )
    )


def _chapter(folder: Path) -> Chapter:
    run = read_run(folder)
    return Chapter(run, sections_of(run), draw_all(run, folder / "figures"))


def _write_tables(chapter: Chapter, formats: Sequence[str]) -> list[Path]:
    folder, tables = chapter.run.folder / "tables", all_tables(chapter.sections)
    written = []
    if "csv" in formats:
        written += [_write(folder / f"{t.key}.csv", t.as_csv()) for t in tables]
    if "latex" in formats:
        written += [_write(folder / f"{t.key}.tex", t.as_latex()) for t in tables]
    if "md" in formats:
        written.append(_write(chapter.run.folder / "report.md", markdown(chapter)))
    return written


def markdown(chapter: Chapter) -> str:
    """The whole report as Markdown, figures by their paths."""
    parts = [f"# {chapter.title}", ""]
    for section in chapter.sections:
        parts += [f"## {section.title}", "", *(f"{text}\n" for text in section.sentences)]
        parts += [table.as_markdown() for table in section.tables]
        for figure in chapter.figures_of(section.key):
            parts += [f"![{figure.title}](figures/{figure.png.name})", "", figure.caption, ""]
    return "\n".join(parts)


def _write(path: Path, text: str) -> Path:
    write_atomic(path, text.encode("utf-8"))
    return path


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    # Whatever comes from a run is escaped; the page runs no script at all.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(_resource("report.html"))


def _resource(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text("utf-8")


def _picture(figure: Figure) -> str:
    data = base64.b64encode(figure.svg.read_bytes()).decode("ascii")
    return f"data:image/svg+xml;base64,{data}"

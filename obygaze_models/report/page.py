"""One HTML page that needs nothing but itself: tables, figures, provenance."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from obygaze_features import __version__
from obygaze_features.core.errors import AlreadyThere, Corrupt, FixUsage
from obygaze_features.core.files import write_atomic
from obygaze_models.protocols.runner.records import RESULTS_FILE, Run, read_run
from obygaze_models.report.content import HEADINGS, all_tables, sections_of
from obygaze_models.report.figure import Figure
from obygaze_models.report.figures import draw_all
from obygaze_models.report.section import Section
from obygaze_models.report.tables import plain

FORMATS = ("html", "md", "latex", "csv")
SERIF_LESS = "'DejaVu Sans', Verdana, 'Helvetica Neue', sans-serif"


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
        return [figure for figure in self.figures if figure.section == section]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The few numbers a reader wants before anything else."""
        about = self.run.about
        stores = ", ".join(f"{name} ({s['backbone']})" for name, s in about["stores"].items())
        manifest = about["manifest"]
        return [
            ("clips", f"{manifest['n_clips']} of {manifest['n_movies']} films"),
            ("manifest", f"{manifest['name']}, {manifest['view']} view"),
            ("features", stores or "none"),
            ("splits", str(self.run.protocol.get("splits", {}).get("kind", ""))),
            ("leaked test clips", str(max((c["leaked"] for c in self.run.cells), default=0))),
        ]


def report(
    folders: Sequence[Path], out: Path | None = None, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write what runs found: one page for all, tables and figures in each run's own folder.

    Returns the files, the page first.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not folders:
        raise FixUsage(f"no report of {', '.join(unknown) or 'nothing'}", hint=", ".join(FORMATS))
    page = out or folders[0] / "report.html"
    if out is not None and os.path.lexists(out) and not _is_page(out):
        raise AlreadyThere(
            "this exists and is not an obygaze report", where=str(out), hint="another name with -o"
        )
    chapters = [_chapter(folder) for folder in folders]
    written = [path for chapter in chapters for path in _write_tables(chapter, formats)]
    written += [path for chapter in chapters for f in chapter.figures for path in (f.svg, f.png)]
    if "html" not in formats:
        return written
    write_atomic(page, page_html(chapters).encode("utf-8"))
    return [page, *written]


def _is_page(path: Path) -> bool:
    """Whether an earlier report wrote this file; its template names the generator."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return b'<meta name="generator" content="obygaze ' in stream.read(1000)


def page_html(chapters: Sequence[Chapter]) -> str:
    """The page; every picture and style is inside it."""
    return str(
        _template().render(
            chapters=chapters,
            style=_resource("style.css"),
            version=__version__,
            picture=_picture,
            width=_width,
            title=chapters[0].title if len(chapters) == 1 else f"{len(chapters)} runs",
        )
    )


def _chapter(folder: Path) -> Chapter:
    run = read_run(folder)
    try:
        return _told(run, folder / "figures")
    except (KeyError, TypeError) as error:
        raise Corrupt(
            f"this run lacks what a report tells: {error}",
            where=str(folder / RESULTS_FILE),
            hint="the same obygaze run again, with --force",
        ) from error


def _told(run: Run, folder: Path) -> Chapter:
    figures = draw_all(run, folder)
    own = {section.key: section for section in sections_of(run)}
    # A section may have nothing but figures.
    for figure in figures:
        own.setdefault(figure.section, Section(figure.section, HEADINGS[figure.section]))
    ordered = [own[key] for key in HEADINGS if key in own]
    return Chapter(run, ordered, figures)


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
    parts = [f"# {plain(chapter.title)}", ""]
    for section in chapter.sections:
        parts += [f"## {section.title}", "", *(f"{plain(text)}\n" for text in section.sentences)]
        for figure in chapter.figures_of(section.key):
            path = figure.png.relative_to(chapter.run.folder).as_posix()
            parts += [f"![{plain(figure.title)}]({path})", "", plain(figure.caption), ""]
        parts += [table.as_markdown() for table in section.tables]
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
    text = figure.svg.read_text("utf-8")
    # Elsewhere than on the machine that drew it, the font may be missing; these are as wide.
    text = re.sub(r"'DejaVu Sans'(?!,)", SERIF_LESS, text)
    data = base64.b64encode(text.encode("utf-8")).decode("ascii")
    return f"data:image/svg+xml;base64,{data}"


def _width(figure: Figure) -> int:
    """How wide a figure is drawn, in pixels of the page."""
    found = re.search(r'width="([0-9.]+)pt"', figure.svg.read_text("utf-8")[:2000])
    return round(float(found[1]) * 4 / 3) if found else 720

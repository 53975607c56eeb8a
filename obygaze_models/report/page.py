"""The report of runs: one HTML page without external files, with tables and figures beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features import __version__
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import AlreadyThere, Corrupt, FixUsage, ObygazeError
from obygaze_features.core.files import write_atomic
from obygaze_features.manifest.vocabulary import concept_meaning
from obygaze_models.audits.result import read_findings
from obygaze_models.protocols.runner.processes import map_jobs
from obygaze_models.protocols.runner.records import AGAIN, RESULTS_FILE, read_run
from obygaze_models.report import figure_concepts, figure_films, figure_results
from obygaze_models.report.figure import Figure, FigureSet
from obygaze_models.report.lookup import ReportRun
from obygaze_models.report.sections import Section, sections_of
from obygaze_models.report.tables import cell_parts, latex_text, markdown_text, shown, slug
from obygaze_models.report.texts import report_text, sentence

if TYPE_CHECKING:
    from jinja2 import Environment

# What code raises over a record with an invalid value.
INVALID = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
FORMATS = ("html", "md", "latex", "csv")
FIGURES = (*figure_films.FIGURES, *figure_results.FIGURES, *figure_concepts.FIGURES)


@dataclass(frozen=True)
class Chapter:
    """One run on the page."""

    run: ReportRun
    sections: Sequence[Section]

    @property
    def title(self) -> str:
        """The title of the protocol; without one, its name."""
        title = self.run.settings.get("title") or self.run.protocol.get("name")
        return str(title or self.run.folder.name)

    @property
    def facts(self) -> dict[str, str]:
        """The facts at the top of the page."""
        about = self.run.about
        stores = ", ".join(f"{name} ({s['backbone']})" for name, s in about["stores"].items())
        manifest = about["manifest"]
        return {
            "clips": f"{manifest['n_clips']} of {manifest['n_movies']} films",
            "manifest": f"{manifest['name']}, {manifest['view']} view",
            "features": stores or "none",
            "splits": str(self.run.protocol.get("splits", {}).get("kind", "")),
            "leaked test clips": str(max((c["leaked"] for c in self.run.cells), default=0)),
        }


def report(
    folders: Sequence[Path],
    out: Path | None = None,
    formats: Sequence[str] = FORMATS,
    progress: Progress | None = None,
) -> list[Path]:
    """Write the report of one or more runs and return its files, the page first.

    Args:
        folders: The folders of the runs; each gets its own tables and figures.
        out: The file of the page. The default is report.html in the folder of the first run.
        formats: Any of html, md, latex and csv.
        progress: Is advanced after each of the FIGURES of each run.
    """
    if unknown := [name for name in formats if name not in FORMATS]:
        raise FixUsage(f"unknown format {unknown[0]!r}", hint=f"one of {', '.join(FORMATS)}")
    if not folders:
        raise FixUsage("no run given", hint="obygaze report RUN")
    page = out or folders[0] / "report.html"
    if out is not None and os.path.lexists(out) and not _is_page(out):
        raise AlreadyThere(
            "this exists and is not an obygaze report", where=str(out), hint="another name with -o"
        )
    chapters, written = [], []
    for folder in folders:
        with _explaining(folder):
            chapters.append(_chapter(folder, "html" in formats, progress or Quiet()))
            written += _write_tables(chapters[-1], formats)
    sections = [section for chapter in chapters for section in chapter.sections]
    written += [path for s in sections for f in s.figures for path in (f.svg, f.png)]
    if "html" not in formats:
        return written
    title = chapters[0].title if len(chapters) == 1 else f"{len(chapters)} runs"
    with _explaining(folders[0]):
        words = {"glossary": _glossary(chapters), "how_to_read": sentence("read")}
        text = render("report.html", chapters=chapters, title=title, **words)
    return [_write(page, text), *written]


def _glossary(chapters: Sequence[Chapter]) -> dict[str, str]:
    """Return the words of all reports, and the concepts of these runs."""
    heads = [head for chapter in chapters for head in chapter.run.heads]
    names = dict.fromkeys(name for head in heads for name in head["concepts"])
    meanings = {name: concept_meaning(name) for name in names}
    return {**report_text().glossary, **{name: text for name, text in meanings.items() if text}}


def _is_page(path: Path) -> bool:
    """Return whether a file is an earlier report, by the generator that it names."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return b'<meta name="generator" content="obygaze ' in stream.read(1000)


def _chapter(folder: Path, for_page: bool, progress: Progress) -> Chapter:
    run = ReportRun.of_run(read_run(folder))
    figures = draw_figures(run, folder / "figures", for_page=for_page, progress=progress)
    return Chapter(run, sections_of(run, figures))


@contextmanager
def _explaining(folder: Path) -> Iterator[None]:
    """Explain what records raise that were edited."""
    try:
        yield
    except ObygazeError:
        raise
    except Exception as error:
        of_template = type(error).__module__.startswith("jinja2.")
        if not of_template and not isinstance(error, INVALID):
            raise
        raise Corrupt(
            f"a record of this run has no value or an invalid value: {error}",
            where=str(folder / RESULTS_FILE),
            hint=AGAIN,
        ) from error


def draw_figures(
    run: ReportRun, folder: Path, *, for_page: bool = False, progress: Progress | None = None
) -> list[Figure]:
    """Draw all figures that a run has records for, and return them with those of its audits."""
    import matplotlib.figure  # noqa: F401 - once, before other processes start

    def draw(kind: Callable[[ReportRun, FigureSet], None]) -> list[Figure]:
        made = FigureSet(folder, for_page=for_page)
        kind(run, made)
        return made.figures

    drawn = map_jobs([partial(draw, kind) for kind in FIGURES], 0, progress or Quiet())
    made = FigureSet(folder, [figure for figures in drawn for figure in figures])
    for name, finding in read_findings(run.folder).items():
        if svg := finding.svg(run.folder):
            png, key = svg.with_suffix(".png"), f"audit-{slug(name)}"
            made.add("audit", key, svg, png, name=finding.title)
    return made.figures


def _write_tables(chapter: Chapter, formats: Sequence[str]) -> list[Path]:
    folder, written = chapter.run.folder / "tables", []
    for table in (table for section in chapter.sections for table in section.tables):
        # A key holds names from the run, which must not lead out of the folder.
        stem = re.sub(r"[^A-Za-z0-9_.-]", "-", table.key)
        if "csv" in formats:
            written.append(_write(folder / f"{stem}.csv", table.as_csv()))
        if "latex" in formats:
            written.append(_write(folder / f"{stem}.tex", render("table.tex", table=table)))
    if "md" in formats:
        text = render("report.md", chapter=chapter)
        written.append(_write(chapter.run.folder / "report.md", text))
    return written


def _write(path: Path, text: str) -> Path:
    write_atomic(path, text.encode("utf-8"))
    return path


def render(template: str, **values: Any) -> str:
    """Return a template of this package with values; text is escaped for the format."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=PackageLoader("obygaze_models.report"),
        autoescape=select_autoescape(["html"], default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"markdown": markdown_text, "latex": latex_text, "slug": slug, "shown": shown}
    made.globals |= {"version": __version__, "cell_parts": cell_parts}
    return made

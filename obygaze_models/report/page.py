"""The report of runs: one HTML page without external files, with tables and figures beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from obygaze_features import __version__
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import Corrupt, FixUsage, ObygazeError
from obygaze_features.core.file_names import FileNames
from obygaze_features.core.files import write_atomic
from obygaze_features.core.metadata import environment
from obygaze_features.core.own_results import OwnFolder, check_file
from obygaze_features.manifest.vocabulary import concept_meaning
from obygaze_models.protocols.results.whole_run import Coverage, Remark
from obygaze_models.protocols.runner.processes import map_jobs
from obygaze_models.protocols.runner.records import AGAIN, RESULTS_FILE, read_folder
from obygaze_models.report import (
    bars,
    comparisons,
    concepts,
    contrasts,
    decisions,
    films,
    paper,
    results,
    store_choice,
    success,
    summary,
)
from obygaze_models.report.compared_runs import names_of
from obygaze_models.report.figure import Figure, FigureSet
from obygaze_models.report.lookup import ReportRun, grouped
from obygaze_models.report.side_by_side import side_by_side
from obygaze_models.report.tables import (
    Part,
    ResultTable,
    Row,
    cell_parts,
    latex_text,
    make_table,
    report_text,
    shown,
    slug,
)

if TYPE_CHECKING:
    from jinja2 import Environment

# What code raises over a record with an invalid value.
INVALID = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
FORMATS = ("html", "md", "latex", "csv")
PAGE = OwnFolder.marked(
    "report", "the generator", rb'<meta name="generator" content="obygaze '
)
FIGURES = (
    films.draw_timelines,
    bars.draw_bars,
    results.draw_intervals,
    success.draw_factors,
    decisions.draw_calibration,
    concepts.draw_concepts,
)
NOT_STATED = "not stated"
MAX_MISSING = 50


class Section(NamedTuple):
    """The sentences, figures and tables under one heading."""

    key: str
    title: str
    sentences: Sequence[str]
    figures: Sequence[Figure]
    tables: Sequence[ResultTable]


def write_report(
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
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise FixUsage(
            f"unknown format {unknown[0]!r}", hint=f"one of {', '.join(FORMATS)}"
        )
    if not folders:
        raise FixUsage("no run given", hint="obygaze report RUN")
    page = out or folders[0] / "report.html"
    if out is not None:
        check_file(out, force=True, expected=PAGE)
        _check_page(out, formats)
    chapters = []
    written = []
    figure_files = []
    for folder in folders:
        with _explaining(folder):
            run = ReportRun.of_run(read_folder(folder))
            figures = draw_figures(run, folder / "figures", progress)
            sections = sections_of(run, figures)
            chapters.append((run, sections))
            written += _write_tables(run, sections, formats)
        for section in sections:
            for figure in section.figures:
                figure_files += [figure.svg, figure.png]
    written += figure_files
    if "html" not in formats:
        return written
    with _explaining(folders[0]):
        runs = [run for run, _ in chapters]
        text = render(
            "report.html",
            chapters=chapters,
            compared=side_by_side(runs),
            run_names=names_of(runs),
        )
    return [_write(page, text), *written]


def sections_of(run: ReportRun, figures: Sequence[Figure] = ()) -> list[Section]:
    """Return the sections of a run that are not empty, in the order of the page."""
    drawn = grouped(figures, lambda figure: figure.section)
    # A key names files and anchors. Names from the run may be equal after cleaning, and must not
    # lead out of the folder.
    names = FileNames()
    made = []
    for key, title in report_text()["headings"].items():
        sentences: list[str] = []
        tables: list[ResultTable] = []
        for part in PARTS.get(key, ()):
            for item in part(run):
                if isinstance(item, ResultTable):
                    tables.append(replace(item, key=names.name_of(item.key)))
                else:
                    sentences.append(item)
        if sentences or tables or key in drawn:
            made.append(Section(key, title, sentences, drawn.get(key, []), tables))
    return made


def remarks(run: ReportRun) -> Part:
    """Yield what could mislead a reader."""
    yield from (remark.text for remark in run.of(Remark))


def coverage(run: ReportRun) -> Part:
    """Yield the clips without features and the reasons."""
    for record in run.of(Coverage):
        n_missing = record.n_missing
        if not n_missing:
            continue
        rows = [
            (clip.clip_id, clip.reason, ", ".join(clip.tasks))
            for clip in record.missing[:MAX_MISSING]
        ]
        more = ""
        if n_missing > MAX_MISSING:
            more = f" The first {MAX_MISSING} of {n_missing} are listed."
        yield make_table(
            "coverage",
            f"coverage-{slug(record.feature)}",
            rows,
            feature=record.feature,
            n_missing=n_missing,
            n_clips=record.n_clips,
            more=more,
        )


def provenance(run: ReportRun) -> Part:
    """Yield checksums, versions, own code and seeds: what is needed to run the experiment again."""
    about = run.about
    manifest = about["manifest"]
    rows: list[Row] = [
        ("protocol", about["protocol"].get("name", ""), about["protocol_sha256"]),
        (
            "manifest",
            f"{manifest['name']} ({manifest['view']} view)",
            manifest["sha256"],
        ),
    ]
    for name, store in about["stores"].items():
        array = f"array {store['array']}, {store['width']} wide"
        contents = f"{name}: {store['backbone']}, {array}"
        rows.append(("store", contents, store["fingerprint"]))
    rows.append(("results", "results.json", about["results_sha256"]))
    rows += [("version", name, version) for name, version in about["versions"].items()]
    for kind, packages in about.get("parts", {}).items():
        rows += [
            (f"own code ({kind})", name, package) for name, package in packages.items()
        ]
    for name, model in about["protocol"].get("models", {}).items():
        package = model.get("settings", {}).get("package")
        if package:
            rows.append(("code (models)", name, package))
    rows += [("seed", name, str(seed)) for name, seed in about["seeds"].items()]
    rows.append(("created", about.get("created", ""), about.get("created_by", "")))
    yield make_table("provenance", "provenance", rows)


def sources(run: ReportRun) -> Part:
    """Yield the licence and the citation of the annotations and of the features of a run."""
    manifest = run.about["manifest"]
    used = [("annotations", manifest["name"], manifest)]
    for name, store in run.about["stores"].items():
        used.append(("features", name, store))
    rows: list[Row] = []
    for kind, name, facts in used:
        licence = facts.get("licence", "")
        citation = facts.get("citation", "")
        if licence or citation:
            rows.append(
                (kind, name, licence or NOT_STATED, citation or NOT_STATED),
            )
    if rows:
        yield make_table("sources", "sources", rows)


PARTS: dict[str, tuple[Callable[[ReportRun], Part], ...]] = {
    "summary": (summary.summary,),
    "questions": (comparisons.questions,),
    "remarks": (remarks,),
    "results": (
        bars.bars,
        results.results,
        store_choice.store_choices,
        results.argmax,
        results.learning,
    ),
    "contrast": (contrasts.contrasts,),
    "paper": (paper.paper,),
    "films": (films.metric_by_film, films.clip_tables),
    "comparisons": (comparisons.differences,),
    "concepts": (concepts.concepts,),
    "analysis": (success.factors,),
    "decisions": (decisions.decisions,),
    "coverage": (coverage,),
    "provenance": (sources, provenance),
}


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
    run: ReportRun,
    folder: Path,
    progress: Progress | None = None,
) -> list[Figure]:
    """Draw all figures that a run has records for, and return them."""
    import matplotlib.figure  # noqa: F401 - once, before other processes start

    def draw(kind: Callable[[ReportRun, FigureSet], None]) -> list[Figure]:
        made = FigureSet(folder)
        kind(run, made)
        return made.figures

    jobs = [partial(draw, kind) for kind in FIGURES]
    drawn = map_jobs(jobs, 0, progress or Quiet())
    made = FigureSet(folder, list(chain.from_iterable(drawn)))
    return made.figures


def _check_page(page: Path, formats: Sequence[str]) -> None:
    """Raise an error unless this is the name of an HTML file, and a page is written."""
    if "html" not in formats:
        raise FixUsage(
            f"-o is the file of the page, which --format {formats[0]} leaves out",
            where=str(page),
            hint="leave out -o: tables and report.md are written into the folder of the run",
        )
    suffix = page.suffix.lower()
    if suffix in (".html", ".htm"):
        return
    hint = "a name with .html"
    if suffix == ".pdf":
        hint = "a name with .html; a browser prints the page as PDF"
    format_of_suffix = {".md": "md", ".tex": "latex", ".csv": "csv"}
    if suffix in format_of_suffix:
        hint = (
            f"a name with .html, or without -o --format {format_of_suffix[suffix]}, which writes "
            "into the folder of the run"
        )
    raise FixUsage("-o is the file of the page, HTML", where=str(page), hint=hint)


def _write_tables(
    run: ReportRun, sections: Sequence[Section], formats: Sequence[str]
) -> list[Path]:
    folder = run.folder / "tables"
    written = []
    for table in chain.from_iterable(section.tables for section in sections):
        if "csv" in formats:
            written.append(_write(folder / f"{table.key}.csv", table.as_csv()))
        if "latex" in formats:
            text = render("table.tex", table=table)
            written.append(_write(folder / f"{table.key}.tex", text))
    if "md" in formats:
        text = render("report.md", run=run, sections=sections)
        written.append(_write(run.folder / "report.md", text))
    return written


def _write(path: Path, text: str) -> Path:
    write_atomic(path, text.encode("utf-8"))
    return path


def render(template: str, **values: Any) -> str:
    """Return a template of this package with values; text is escaped for the format."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    made = environment("obygaze_models.report")
    made.filters |= {"latex": latex_text, "slug": slug, "shown": shown}
    made.globals |= {
        "version": __version__,
        "cell_parts": cell_parts,
        "text": report_text(),
    }
    made.globals |= {"concept_meaning": concept_meaning}
    return made

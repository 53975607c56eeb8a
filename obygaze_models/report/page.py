"""`obygaze report`: one page about runs, with tables and figures beside it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features import __version__
from obygaze_features.core.console import count
from obygaze_features.core.errors import AlreadyThere, FixUsage, ObygazeWarning
from obygaze_features.core.figures import COLORS, DARK_COLORS, SUFFIXES
from obygaze_features.core.file_names import FileNames
from obygaze_features.core.files import write_atomic
from obygaze_features.core.own_results import REPORT, REPORT_ENDINGS, check_file
from obygaze_features.core.rendering import environment
from obygaze_features.manifest.vocabulary import concept_meaning
from obygaze_models.evaluation.metrics import RANKING_METRICS, metric_name
from obygaze_models.report.figures import Figure, figure_of_pair, figure_of_senses
from obygaze_models.report.lookup import ReportRun, explaining, pair_of_cell
from obygaze_models.report.sections import Section, sections_of, sentence_of_concepts
from obygaze_models.report.tables import ResultTable, cell_parts, latex_text, slug
from obygaze_models.evaluation.basis import interval_is_not_of, interval_is_of
from obygaze_models.runner.limits import warnings_of
from obygaze_models.runner.summary import (
    answer,
    films_with_value,
    first_question,
    further_answers,
    has_levels,
    short,
    size_text,
    why_this_model,
)
from obygaze_models.runner.tables import RUN_AGAIN, read_folder

if TYPE_CHECKING:
    from jinja2 import Environment

USUAL_FORMATS = ("html", "csv", "latex", "svg")
FORMATS = (*USUAL_FORMATS, "png", "pdf")


class ReportFiles(list[Path]):
    """The files of a report, the page first."""

    def to_json(self) -> dict[str, Any]:
        """Return the paths of the files."""
        return {"files": [str(path) for path in self]}

    @property
    def has_page(self) -> bool:
        """Whether a page was written; it is the first of the files."""
        return bool(self) and self[0].suffix.lower() in REPORT_ENDINGS

    def __str__(self) -> str:
        """Return the page; without one, all files."""
        shown = self[:1] if self.has_page else self
        return "\n".join(map(str, shown))

    @property
    def notes(self) -> list[str]:
        """How many files there are beside the page, and in which folders."""
        if not self.has_page:
            return ["no page: html was not asked for"]
        folders = dict.fromkeys(str(path.parent) for path in self[1:])
        if not folders:
            return []
        return [f"and {len(self) - 1} tables and figures in {', '.join(folders)}"]


@dataclass(frozen=True)
class Chapter:
    """What a page says about one run; `figure` is that of the first screen."""

    run: ReportRun
    name: str
    asked: str
    about: str
    answers: Sequence[str]
    figure: Figure | None
    limits: Sequence[str]
    sections: Sequence[Section]

    @property
    def has_levels(self) -> bool:
        """Whether the clips have levels or concepts."""
        return has_levels(self.run)

    @property
    def figures(self) -> list[Figure]:
        """All figures."""
        figures = [] if self.figure is None else [self.figure]
        for section in self.sections:
            figures += section.figures
        return figures

    @property
    def tables(self) -> list[ResultTable]:
        """All tables."""
        tables = []
        for section in self.sections:
            tables += section.tables
        return tables

    @property
    def concept_meanings(self) -> dict[str, str]:
        """What the concepts of the bottlenecks of the run mean, as far as it is known."""
        meanings = {}
        for row in self.run.table("concepts.csv"):
            meaning = concept_meaning(row["concept"])
            if meaning:
                meanings[row["concept"]] = meaning
        return meanings


def write_report(
    folders: Sequence[Path],
    out: Path | None = None,
    formats: Sequence[str] = USUAL_FORMATS,
) -> list[Path]:
    """Write the report of one or more runs and return its files, the page first.

    Args:
        folders: The folders of the runs; each gets its own tables and figures.
        out: The file of the page. The default is report.html in the folder of the first run.
        formats: Any of html, csv, latex, svg, png and pdf; the last two are not written by default.
    """
    from obygaze_models.report.comparison import compare_runs

    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise FixUsage(
            f"unknown format {unknown[0]!r}", hint=f"one of {', '.join(FORMATS)}"
        )
    if not folders:
        raise FixUsage("no run given", hint="obygaze report --help")
    page = out or folders[0] / "report.html"
    if out is not None:
        check_file(out, REPORT)
        _check_page(out, formats)
    chapters = []
    written = []
    for folder in folders:
        run = ReportRun.of(read_folder(folder))
        with explaining(run):
            chapter = chapter_of(run)
            for sentence in _changed(run):
                warnings.warn(sentence, ObygazeWarning, stacklevel=2)
            chapters.append(chapter)
            written += _write_beside(chapter, formats)
    if "html" not in formats:
        return written
    runs = [chapter.run for chapter in chapters]
    compared = compare_runs(runs) if len(runs) > 1 else None
    with explaining(*runs):
        text = render_template("page.html", chapters=chapters, compared=compared)
    write_atomic(page, text.encode("utf-8"))
    return [page, *written]


def chapter_of(run: ReportRun) -> Chapter:
    """Return what a page says about a run."""
    figure = None
    if run.gain is not None:
        figure = figure_of_senses(run, run.gain)
    elif run.main is not None:
        figure = figure_of_pair(run, pair_of_cell(run.main))
    return Chapter(
        run,
        run.folder.name,
        _asked(run),
        _data(run),
        [answer(run), *further_answers(run)],
        figure,
        [
            *_changed(run),
            *_scale(run),
            *(warning.text for warning in warnings_of(run)),
        ],
        sections_of(run),
    )


def _asked(run: ReportRun) -> str:
    """Return the question that is answered; the title where it is not of unseen films."""
    question = first_question(run)
    if question is None or not run.tests_unseen_films:
        return run.title
    return question.text or run.title


def _data(run: ReportRun) -> str:
    """Return the tasks of the answer, the clips, and the features."""
    manifest = run.about["manifest"]
    parts = []
    if run.main is not None:
        parts.append(run.task_name(pair_of_cell(run.main)))
    text = f"{size_text(run)} ({manifest['name']})"
    where = run.protocol["data"]["where"]
    parts.append(f"{text} with {where}" if where else text)
    for name, facts in run.about["stores"].items():
        made_by = " + ".join(facts.get("parts", [facts["backbone"]]))
        array = f", array {facts['array']}" if len(facts.get("arrays", ())) > 1 else ""
        parts.append(f"features {name}: {made_by}{array}")
    return " · ".join(parts)


def _changed(run: ReportRun) -> Iterator[str]:
    """Yield a sentence for what was changed after the run: its manifest, and each store."""
    if run.labels.changed:
        hidden = (
            " The page has no levels and concepts of clips." if has_levels(run) else ""
        )
        yield f"{run.labels.changed}{hidden}"
    for name in run.changed_stores:
        yield (
            f"The store {name} was changed after the run {run.folder.name}: something was "
            "added or withdrawn, or it was made anew. The page shows the run as it was; "
            f"{RUN_AGAIN}, reads the store as it is now."
        )


def _scale(run: ReportRun) -> Iterator[str]:
    """Yield why this model, what a random order has, what intervals are over, and the concepts."""
    cell = run.main
    if cell is None:
        return
    name = metric_name(run.ranking)
    yield from why_this_model(run, run.all_cells)
    chance = run.chance(cell)
    if cell.is_ranked(run.ranking):
        text = f"Clips in random order have {name} {short(chance)}"
        if RANKING_METRICS[run.ranking].chance is None:
            text += (
                " (the share of positive clips in a fold, more where a fold has few)"
            )
        yield f"{text}; in perfect order they have 1."
    if cell.has_interval(run.ranking):
        yield (
            f"The interval is over {count(cell.n_films, run.unit)}, and is of"
            f" {interval_is_of(cell.basis, run.units)};"
            f" {interval_is_not_of(cell.basis, run.units)}."
        )
        known = films_with_value([cell.film_counts(run.ranking)], run.unit)
        if known:
            yield f"{known}."
    sentence = sentence_of_concepts(run)
    if sentence:
        yield sentence


def _check_page(page: Path, formats: Sequence[str]) -> None:
    """Raise an error unless this is the name of an HTML file, and a page is written."""
    if "html" not in formats:
        raise FixUsage(
            f"-o is the file of the page, which --format {formats[0]} leaves out",
            where=str(page),
            hint="leave out -o: tables and figures are written into the folder of the run",
        )
    suffix = page.suffix.lower()
    if suffix in REPORT_ENDINGS:
        return
    hint = "a name with .html"
    if suffix == ".pdf":
        hint = "a name with .html; a browser prints the page as PDF"
    raise FixUsage("-o is the file of the page, HTML", where=str(page), hint=hint)


def _write_beside(chapter: Chapter, formats: Sequence[str]) -> list[Path]:
    """Write the tables and figures of a run into its folder, and return the files."""
    folder = chapter.run.folder
    files: dict[Path, bytes] = {}
    # Names of tasks and models may be equal after cleaning.
    names = FileNames()
    for table in chapter.tables:
        stem = folder / "tables" / names.name_of(table.key)
        if "csv" in formats:
            files[stem.with_suffix(".csv")] = table.as_csv()
        if "latex" in formats:
            text = render_template("table.tex", table=table)
            files[stem.with_suffix(".tex")] = text.encode("utf-8")
    names = FileNames()
    for figure in chapter.figures:
        name = names.name_of(figure.key)
        for suffix in SUFFIXES:
            if suffix.removeprefix(".") in formats:
                files[folder / "figures" / f"{name}{suffix}"] = figure.file(suffix)
    for path, data in files.items():
        if path.parent.is_symlink():
            raise AlreadyThere(
                "this is a link, which may lead to files of somebody else",
                where=str(path.parent),
            )
        write_atomic(path, data)
    return list(files)


def render_template(template: str, **values: Any) -> str:
    """Return a template of this package with values; text is escaped for the format."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    made = environment("obygaze_models.report")
    made.filters |= {"latex": latex_text, "slug": slug}
    made.globals |= {"version": __version__, "cell_parts": cell_parts}
    made.globals |= {"light": COLORS, "dark": DARK_COLORS}
    return made

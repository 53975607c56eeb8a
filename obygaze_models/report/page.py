"""`obygaze report`: write a page about runs, with tables and figures."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from obygaze_features.core.console import count
from obygaze_features.core.errors import (
    AlreadyThere,
    FixUsage,
    ObygazeError,
    ObygazeWarning,
)
from obygaze_features.core.figures import SUFFIXES
from obygaze_features.core.file_names import FileNames
from obygaze_features.core.files import write_atomic
from obygaze_features.core.overwrite import REPORT, REPORT_ENDINGS, check_file
from obygaze_features.core.workspace import is_url
from obygaze_features.manifest.vocabulary import concept_meaning
from obygaze_features.store import open_store
from obygaze_models.evaluation.basis import interval_is_not_of
from obygaze_models.report.figures import (
    Figure,
    figure_of_differences,
    figure_of_pair,
)
from obygaze_models.report.lookup import (
    explain_invalid_runs,
    unit_titles,
)
from obygaze_models.report.sections import PictureOf, Section, make_sections
from obygaze_models.report.tables import render_template
from obygaze_models.runner.answer import (
    about_p,
    about_tested,
    answers,
    asked_results,
    clips_text,
    compared_metric,
    has_levels,
    held_out_text,
    intervals_hold_for,
    question,
)
from obygaze_models.runner.files import RUN_AGAIN, ResultRows, Run, read_folder
from obygaze_models.runner.labels import current_labels
from obygaze_models.runner.limits import ON_FIRST_SCREEN, find_limits

USUAL_FORMATS = ("html", "csv", "latex", "svg")
FORMATS = (*USUAL_FORMATS, "png", "pdf")
LEVELS_MEAN = (
    "Levels of a clip: easy negative (no sign of objectification), hard negative (signs, but the"
    " annotators decided that the clip does not objectify), not sure, sure."
)


class ReportFiles(list[Path]):
    """The files of a report, the page first."""

    def to_json(self) -> dict[str, Any]:
        """Return the paths of the files."""
        return {"files": [str(path) for path in self]}

    @property
    def has_page(self) -> bool:
        """Whether a page was written. The page is the first of the files."""
        return bool(self) and self[0].suffix.lower() in REPORT_ENDINGS

    def __str__(self) -> str:
        """Return the path of the page, or the paths of all files if there is no page."""
        shown = self[:1] if self.has_page else self
        return "\n".join(map(str, shown))

    @property
    def notes(self) -> list[str]:
        """A line with the number of tables and figures and their folders, if any were written.

        If no page was written, the line states the reason.
        """
        if not self.has_page:
            return ["no page was written, because --format does not include html"]
        folders = dict.fromkeys(str(path.parent) for path in self[1:])
        if not folders:
            return []
        return [f"and {len(self) - 1} tables and figures in {', '.join(folders)}"]


@dataclass(frozen=True)
class Chapter:
    """The content of a page about one run.

    Attributes:
        run: The run.
        asked: The heading: the question that the run answers, or the title.
        about: The line above the heading: the run, its clips, and how films are tested.
        answers: The sentences of the answer.
        figures: The figures of the first screen: values, and differences.
        changed: Sentences on labels that were changed after the run or cannot be read, and on
            stores that were changed after the run.
        limits: The sentences below the figures: `changed`, and limits of the run.
        sections: The sections below the first screen.
        definitions: Sentences at the foot of the page, on p and on comparisons.
        words: Words that the page explains, with their meanings.
    """

    run: Run
    asked: str
    about: str
    answers: Sequence[str]
    figures: Sequence[Figure]
    changed: Sequence[str]
    limits: Sequence[str]
    sections: Sequence[Section]
    definitions: Sequence[str]
    words: Sequence[tuple[str, str]]


def write_report(
    folders: Sequence[Path],
    out: Path | None = None,
    formats: Sequence[str] = USUAL_FORMATS,
    picture_of: PictureOf | None = None,
) -> list[Path]:
    """Write the report of one or more runs and return its files, the page first.

    Args:
        folders: The folders of the runs. Tables and figures are written into the folder of their
            run.
        out: The file of the page. None: report.html in the folder of the run, or reports.html in
            the folder of the first of several runs.
        formats: Any of html, csv, latex, svg, png and pdf; png and pdf are not written by default.
        picture_of: Returns the picture of a clip as a data URL. None: no pictures of clips.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise FixUsage(
            f"unknown format {unknown[0]!r}", hint=f"use one of {', '.join(FORMATS)}"
        )
    if not folders:
        raise FixUsage(
            "expected at least one run",
            hint="name a run or its folder",
        )
    if out is not None and not out.suffix and out.name.strip("."):
        out = out.with_suffix(REPORT_ENDINGS[0])
    # The page of several runs does not replace the page of the first run.
    page = out or folders[0] / ("report.html" if len(folders) == 1 else "reports.html")
    if out is not None:
        check_file(out, REPORT)
        _check_page(out, formats)
    chapters = []
    written = []
    for folder in folders:
        run = read_folder(folder)
        with explain_invalid_runs(run):
            chapter = make_chapter(run, picture_of)
            for sentence in chapter.changed:
                warnings.warn(sentence, ObygazeWarning, stacklevel=2)
            chapters.append(chapter)
            written += _write_beside(chapter, formats)
    if "html" not in formats:
        return written
    runs = [chapter.run for chapter in chapters]
    compared = None
    if len(runs) > 1:
        from obygaze_models.report.comparison import compare_runs

        compared = compare_runs(runs)
    with explain_invalid_runs(*runs):
        text = render_template("page.html", chapters=chapters, compared=compared)
    write_atomic(page, text.encode("utf-8"))
    return [page, *written]


def make_chapter(run: Run, picture_of: PictureOf | None = None) -> Chapter:
    """Return the content of a page about a run."""
    labels = current_labels(run)
    titles = unit_titles(run, labels.manifest)
    cell = next(iter(asked_results(run)), None)
    changed = [*_changed_stores(run)]
    if labels.changed:
        hidden = "The page has no levels and concepts of clips."
        changed.insert(
            0, f"{labels.changed} {hidden if has_levels(run) else ''}".strip()
        )
    limits = [one.text for one in find_limits(run) if one.name in ON_FIRST_SCREEN]
    figures = []
    if cell is not None:
        figures.append(figure_of_pair(run, cell.pair, titles))
        figures += filter(None, [figure_of_differences(run)])
    definitions = [about_p(run)]
    if run.has_groups:
        definitions.append(about_tested(run))
    return Chapter(
        run=run,
        asked=question(run),
        about=_about(run),
        answers=answers(run),
        figures=figures,
        changed=changed,
        limits=[*changed, *_scope(run, cell), *limits],
        sections=make_sections(run, labels, picture_of),
        definitions=[*filter(None, definitions)],
        words=[*_words(run)],
    )


def _about(run: Run) -> str:
    """Return the line above the heading: the run, its clips, and how films are tested."""
    facts = (run.folder.name, clips_text(run), held_out_text(run))
    return " · ".join(filter(None, facts))


def _words(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the words that the page explains, with their meanings."""
    intervals = intervals_hold_for(run, run.cells)
    if intervals:
        why = f"Whole {run.units} are resampled, because clips of one {run.unit} are alike."
        yield "interval", f"Likely values for {intervals}. {why}"
    if has_levels(run):
        yield "EN, HN, NS, S", LEVELS_MEAN
    for concept in dict.fromkeys(run.table("concepts.csv")["concept"]):
        if concept_meaning(concept):
            yield concept, concept_meaning(concept)


def _changed_stores(run: Run) -> Iterator[str]:
    """Yield a sentence for each store whose content changed since the run."""
    for name, facts in run.about["stores"].items():
        for of_part in facts.get("parts", {name: facts}).values():
            location = run.place(of_part["location"])
            # A store that was moved or removed is not reported.
            with suppress(ObygazeError, OSError):
                if (
                    not is_url(location)
                    and open_store(Path(location)).seal != of_part["seal"]
                ):
                    yield (
                        f"The store {name} was changed after the run {run.folder.name}: clips were"
                        " added, or it was created again. The page shows the run as it was. To read"
                        f" the store as it is now, {RUN_AGAIN}."
                    )
                    break


def _scope(run: Run, cell: ResultRows | None) -> Iterator[str]:
    """Yield what the intervals of the first screen hold for."""
    if cell is not None and cell.has_interval(compared_metric(run)):
        yield (
            f"Intervals over {count(cell.films, run.unit)} hold for"
            f" {intervals_hold_for(run, [cell])}; {interval_is_not_of(cell.basis, run.units)}."
        )


def _check_page(page: Path, formats: Sequence[str]) -> None:
    """Raise an error unless the file is HTML and the formats include HTML."""
    if "html" not in formats:
        raise FixUsage(
            f"-o names the file of the page, but --format {formats[0]} writes no page",
            where=str(page),
            hint="omit -o (tables and figures are written into the folder of the run), or add"
            " --format html",
        )
    suffix = page.suffix.lower()
    if suffix in REPORT_ENDINGS:
        return
    hint = "use a name with .html"
    if suffix == ".pdf":
        hint = "use a name with .html; a browser prints the page as PDF"
    raise FixUsage(
        f"expected a file with .html for the page, got {suffix or 'no ending'}",
        where=str(page),
        hint=hint,
    )


def _write_beside(chapter: Chapter, formats: Sequence[str]) -> list[Path]:
    """Write the tables and figures of a run into its folder, and return the files."""
    folder = chapter.run.folder
    files: dict[Path, bytes] = {}
    # Different tasks or models may have the same file name, so `FileNames` adds numbers.
    names = FileNames()
    for table in chain.from_iterable(section.tables for section in chapter.sections):
        stem = folder / "tables" / names.unique_name(table.key)
        if "csv" in formats:
            files[stem.with_suffix(".csv")] = table.as_csv()
        if "latex" in formats:
            text = render_template("table.tex", table=table, run=folder.name)
            files[stem.with_suffix(".tex")] = text.encode("utf-8")
    names = FileNames()
    for figure in chain(
        chapter.figures, *(section.figures for section in chapter.sections)
    ):
        name = names.unique_name(figure.key)
        for suffix in SUFFIXES:
            if suffix.removeprefix(".") in formats:
                files[folder / "figures" / f"{name}{suffix}"] = figure.file(suffix)
    for path, data in files.items():
        if path.parent.is_symlink():
            raise AlreadyThere(
                "expected a folder, got a link: the files would be written elsewhere",
                where=str(path.parent),
            )
        write_atomic(path, data)
    return list(files)

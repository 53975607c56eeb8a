"""Every figure of a run, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from obygaze_models.protocols.runner.records import Run
from obygaze_models.report.figure import Figure
from obygaze_models.report.figure_concepts import draw_concepts
from obygaze_models.report.figure_films import draw_clips, draw_timelines
from obygaze_models.report.figure_grids import draw_calibration, draw_confusion
from obygaze_models.report.figure_results import draw_factors, draw_films, draw_intervals
from obygaze_models.report.figure_tree import draw_trees
from obygaze_models.report.findings import findings, picture_of

MAKERS: tuple[Callable[[Run, Path], Iterable[Figure]], ...] = (
    draw_clips,
    draw_intervals,
    draw_films,
    draw_timelines,
    draw_concepts,
    draw_trees,
    draw_factors,
    draw_confusion,
    draw_calibration,
)


def draw_all(run: Run, folder: Path) -> list[Figure]:
    """Every figure that the run has the records for."""
    made = [figure for make in MAKERS for figure in make(run, folder)]
    return [*made, *_of_audits(run)]


def _of_audits(run: Run) -> Iterable[Figure]:
    for name, held in findings(run.folder):
        path = picture_of(run.folder, held)
        if path is not None:
            title = str(held["title"])
            png = path.with_suffix(".png")
            yield Figure(f"audit-{name}", title, title, path, png, "audits")

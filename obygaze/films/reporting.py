"""Write reports of runs, with pictures of films if asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from obygaze_features.core.workspace import PathLike

if TYPE_CHECKING:
    from obygaze_models.report.page import ReportFiles
    from obygaze_models.runner.files import Run


def report(
    *runs: PathLike | Run,
    formats: Sequence[Literal["html", "csv", "latex", "svg", "png", "pdf"]]
    | None = None,
    output: PathLike | None = None,
    pictures: bool = False,
    workspace: PathLike | None = None,
) -> ReportFiles:
    """Write the report of runs: a page, tables, figures.

    The page contains all its figures and loads nothing from the network. Tables are written as CSV
    and LaTeX, figures as SVG, PNG or PDF, into the folder of each run.

    Args:
        runs: Names of runs of the workspace, or their folders.
        formats: Write only this format.
        output: File of the page, with .html.
        pictures: Show a picture of each clip below the errors to look at. The page then contains
            pictures of films.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> og.report("first")[0].name
        'report.html'
    """
    from obygaze_models.report.lookup import open_runs
    from obygaze_models.report.page import USUAL_FORMATS, ReportFiles, write_report

    picture_of = None
    if pictures:
        from obygaze.films.page.media import still

        picture_of = partial(still, workspace=workspace)
    folders = [run.folder for run in open_runs(runs, workspace)]
    page = None if output is None else Path(output)
    return ReportFiles(
        write_report(folders, page, formats or USUAL_FORMATS, picture_of)
    )

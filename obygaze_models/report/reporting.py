"""Write reports and comparisons of runs. What they need is imported when they are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import check_table_name

if TYPE_CHECKING:
    from obygaze_models.report.comparison import ComparedRuns
    from obygaze_models.report.page import ReportFiles
    from obygaze_models.runner.files import Run

LATEX = ".tex"
Format = Literal["html", "csv", "latex", "svg", "png", "pdf"]


def report(
    *runs: PathLike | Run,
    formats: Sequence[Literal["html", "csv", "latex", "svg", "png", "pdf"]]
    | None = None,
    output: PathLike | None = None,
    workspace: PathLike | None = None,
) -> ReportFiles:
    """Write the report of runs: a page, tables, figures.

    The page contains all its figures and loads nothing from the network. Tables are written as CSV
    and LaTeX, figures as SVG, PNG or PDF, into the folder of each run.

    Args:
        runs: Names of runs of the workspace, or their folders.
        formats: Write only this format.
        output: File of the page, with .html.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> og.report("first")[0].name
        'report.html'
    """
    from obygaze_models.report.lookup import open_runs
    from obygaze_models.report.page import USUAL_FORMATS, ReportFiles, write_report

    folders = [run.folder for run in open_runs(runs, workspace)]
    page = None if output is None else Path(output)
    return ReportFiles(write_report(folders, page, formats or USUAL_FORMATS))


def compare(
    *runs: PathLike | Run,
    models: Sequence[str] = (),
    metric: str | None = None,
    workspace: PathLike | None = None,
) -> ComparedRuns:
    """Compare runs on their common clips and tasks.

    The table has the value of each model in each run and its difference from the first run, on the
    clips that all runs with this model tested. Runs of other folds have no difference: their values
    are of another kind, and the table says so. A difference of AP or AUC has an interval over films
    and a p that is corrected for all differences of the table. Runs must hold out the same units:
    films, or groups of one column. Models are matched by store only if a run has several stores,
    and by name only if a run has several models. The result can be written as
    CSV, .xlsx or LaTeX (.tex).

    Args:
        runs: Names of runs of the workspace, or their folders. The first run is the reference.
        models: The model to compare; or a model for each run.
        metric: The metric, such as ap or auc.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> compared = og.compare("first", "first")
        >>> compared.warnings
        []
    """
    from obygaze_models.report.comparison import compare_runs
    from obygaze_models.report.lookup import open_runs

    place = Workspace.of(workspace)
    known = set(place.names("stores")) - set(place.names("runs"))
    if runs and all(isinstance(name, str) and name in known for name in runs):
        stores = " ".join(f"--store {shell_word(name)}" for name in runs)
        raise FixUsage(
            f"expected runs, got the stores {' and '.join(map(str, runs))}",
            hint=f"obygaze run honest {stores}",
        )
    return compare_runs(open_runs(runs, workspace), metric, models)


def check_compared(output: str | Path | None) -> None:
    """Raise an error unless a comparison can be written to the file that -o names, if any."""
    if output is not None and Path(output).suffix.lower() != LATEX:
        check_table_name(output)

"""`obygaze report`: from names of runs to the files of their report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from obygaze_features.core.console import ProgressBars, progress_bars
from obygaze_features.core.function_commands import command_of
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_models.protocols.runner.records import Run, listed_runs

Format = Literal["html", "md", "latex", "csv"]


class ReportFiles(list[Path]):
    """The files of a report, the page first."""

    def to_json(self) -> dict[str, Any]:
        """Return the paths of the files."""
        return {"files": [str(path) for path in self]}

    def __str__(self) -> str:
        return str(self[0])

    @property
    def notes(self) -> list[str]:
        """How many files there are beside the page, and in which folders."""
        folders = dict.fromkeys(str(path.parent) for path in self[1:])
        if not folders:
            return []
        return [f"and {len(self) - 1} tables and figures in {', '.join(folders)}"]


def report(
    *runs: PathLike | Run,
    formats: Annotated[
        Sequence[Format] | None, Option("--format", shown_default="all")
    ] = None,
    output: Annotated[
        PathLike | None,
        Option(
            "-o --output", metavar="PATH", shown_default="report.html in the first run"
        ),
    ] = None,
    progress: bool | ProgressBars = False,
    workspace: PathLike | None = None,
) -> ReportFiles:
    """Write the report of runs: a page, tables, figures.

    The page contains all its figures and loads nothing from the network. Tables are written as CSV,
    LaTeX and Markdown, figures as SVG and PNG, into the folder of each run.

    Args:
        runs: Names of runs of the workspace, or their folders.
        formats: Write only this format.
        output: File of the page, with .html.
        progress: Show a progress bar on stderr, or a function that makes the bar.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> og.report("first")[0].name
        'report.html'

    Commands:
        obygaze report honest-desc
        obygaze report runs/paper-table2 runs/paper-table4 -o paper.html
        obygaze report honest-desc --format latex --format csv
    """
    from obygaze_models.report.page import FIGURES, FORMATS, write_report

    its_workspace = Workspace.of(workspace)
    folders = [
        run.folder if isinstance(run, Run) else its_workspace.existing("runs", run)
        for run in listed_runs(runs)
    ]
    page = None if output is None else Path(output)
    bars = progress_bars(progress, "figures")
    with bars("report", len(folders) * len(FIGURES)) as shown:
        files = write_report(folders, page, formats or FORMATS, shown)
    return ReportFiles(files)


command = command_of(report, "report", unit="figures")

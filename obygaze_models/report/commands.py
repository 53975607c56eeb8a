"""`obygaze report`: what runs found, as a page, tables and figures."""

from __future__ import annotations

from pathlib import Path

import click

from obygaze_features.core.commands import Session, command

FORMATS = ("html", "md", "latex", "csv")


@command()
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(FORMATS),
    help="Write only this format; repeatable. [default: all]",
)
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path),
    help="File of the page. [default: report.html in the first run]",
)
def report(
    session: Session,
    runs: tuple[str, ...],
    formats: tuple[str, ...],
    out: Path | None,
) -> None:
    """Write the report of runs: a page, tables, figures.

    The page contains all its figures and loads nothing from the network. Tables are written as CSV,
    LaTeX and Markdown, figures as SVG and PNG, into the folder of each run.

    Examples:
        obygaze report honest-desc
        obygaze report runs/paper-table2 runs/paper-table4 -o paper.html
        obygaze report honest-desc --format latex --format csv
    """
    from obygaze_models.report.page import FIGURES
    from obygaze_models.report.page import report as make

    folders = [session.workspace.existing("runs", name) for name in runs]
    with session.console.progress("report", len(folders) * len(FIGURES), "figures") as progress:
        written = make(folders, out, formats or FORMATS, progress)
    session.console.show({"files": [str(path) for path in written]}, str(written[0]))
    if not session.console.as_json:
        session.console.note(f"and {len(written) - 1} tables and figures")

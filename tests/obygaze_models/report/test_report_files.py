"""What a report says of the files that it wrote."""

from __future__ import annotations

from pathlib import Path

from obygaze_models.report.runs import ReportFiles


def test_a_report_says_where_its_tables_and_figures_are() -> None:
    page = Path("report.html")
    paths = [Path("runs/a/tables/x.csv"), Path("runs/a/tables/y.csv")]
    figure = Path("runs/a/figures/x.svg")
    files = ReportFiles([page, *paths, figure])
    folders = f"{paths[0].parent}, {figure.parent}"
    assert files.notes == [f"and 3 tables and figures in {folders}"]
    assert ReportFiles([page]).notes == []

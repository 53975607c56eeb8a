"""What all audits' commands share: where results go, and the random numbers behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from obygaze_features.core.commands import Session, force_option, json_option
from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.figures import figure_stem
from obygaze_features.core.files import pretty_json, write_new
from obygaze_models.audits.filing import file_finding
from obygaze_models.audits.finding import Audit

if TYPE_CHECKING:
    from obygaze_models.audits.texts import Record

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(dir_okay=False, path_type=Path)
RESULTS = ("out", "rows", "figure", "report", "force", "as_json")


def result_options(function: F) -> F:
    """-o, --table, --figure, --report, --force and --json."""
    options = [
        click.option("-o", "out", type=_FILE, help="Write the JSON document to this file."),
        click.option("--table", "rows", type=_FILE, help="Write the table to this CSV file."),
        click.option("--figure", type=_FILE, help="Draw it: PATH.svg and PATH.png."),
        click.option("--report", metavar="RUN", help="Let this run's report tell of it too."),
        force_option,
        json_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


def seed_option(function: F) -> F:
    """--seed, for whatever is drawn at random."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Of all random draws.",
    )(function)


def delimiter_option(function: F) -> F:
    """--delimiter, of the cells of a table."""
    return click.option("--delimiter", default=",", show_default=True, help="Of a table's cells.")(
        function
    )


def read_records(
    session: Session, source: str, columns: Sequence[str], delimiter: str
) -> list[Record]:
    """The texts of a CSV table or of a manifest, by name or path."""
    from obygaze_features.manifest.io import read_manifest
    from obygaze_models.audits.texts import records_of_manifest, records_of_table

    path = Path(source)
    if path.suffix == ".csv" and not path.with_suffix(".toml").exists():
        if len(delimiter) != 1:
            raise FixUsage("--delimiter is one character", hint="--delimiter ';'")
        return records_of_table(path, columns, delimiter)
    manifest = read_manifest(session.workspace.existing_manifest(source))
    return records_of_manifest(manifest, columns)


def deliver(
    session: Session,
    audit: Audit,
    *,
    out: Path | None,
    rows: Path | None,
    figure: Path | None,
    report: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write what was asked for, and print the document or the finding."""
    finding, document = audit.finding(), audit.to_json()
    written = []
    if out is not None:
        write_new(out, pretty_json(document), force=force)
        written.append(out)
    if rows is not None:
        write_new(rows, finding.to_csv(), force=force)
        written.append(rows)
    if figure is not None:
        written += _drawn(audit, figure, force)
    if report is not None:
        run = Path(report) if "/" in report else session.workspace.folder("runs") / report
        written += file_finding(run, audit, force=force)
    for path in written:
        session.console.note(f"wrote {path}")
    if as_json:
        session.console.json(document)
    else:
        session.console.result(finding.to_text())


def _drawn(audit: Audit, figure: Path, force: bool) -> list[Path]:
    stem = figure_stem(figure)
    for path in (stem.with_name(f"{stem.name}{end}") for end in (".svg", ".png")):
        if path.exists() and not force:
            raise AlreadyThere("there is a figure of this name", where=str(path), hint="--force")
    return list(audit.draw(stem))

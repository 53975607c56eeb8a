"""What all audits' commands share: where results go, and the random numbers behind them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from obygaze_features.core.commands import Session, force_option, json_option
from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.figures import figure_stem
from obygaze_features.core.files import pretty_json, write_new
from obygaze_models.audits.finding import Audit, Finding

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(dir_okay=False, path_type=Path)


def result_options(function: F) -> F:
    """-o, --table, --figure, --force and --json."""
    options = [
        click.option("-o", "out", type=_FILE, help="Write the JSON document to this file."),
        click.option("--table", "rows", type=_FILE, help="Write the table to this CSV file."),
        click.option("--figure", type=_FILE, help="Draw it: PATH.svg and PATH.png."),
        force_option,
        json_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


def seed_option(function: F) -> F:
    """--seed, for whatever is drawn at random."""
    return click.option("--seed", default=0, show_default=True, help="Of all random draws.")(
        function
    )


def deliver(
    session: Session,
    audit: Audit,
    *,
    out: Path | None,
    rows: Path | None,
    figure: Path | None,
    force: bool,
    as_json: bool,
) -> Finding:
    """Write what was asked for and print the rest; the finding, with its figure if there is one."""
    finding, document = audit.finding(), audit.to_json()
    written = []
    if out is not None:
        write_new(out, pretty_json(document), force=force)
        written.append(out)
    if rows is not None:
        write_new(rows, finding.to_csv(), force=force)
        written.append(rows)
    if figure is not None:
        finding = finding.with_figure(_drawn(audit, figure, force))
        written += _both(figure)
    for path in written:
        session.console.note(f"wrote {path}")
    if as_json:
        session.console.json(document)
    else:
        session.console.result(finding.to_text())
    return finding


def _drawn(audit: Audit, figure: Path, force: bool) -> Path:
    for path in _both(figure):
        if path.exists() and not force:
            raise AlreadyThere("there is a figure of this name", where=str(path), hint="--force")
    return audit.draw(figure_stem(figure))[0]


def _both(figure: Path) -> list[Path]:
    stem = figure_stem(figure)
    return [stem.with_name(f"{stem.name}{end}") for end in (".svg", ".png")]

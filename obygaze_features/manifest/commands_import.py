"""`obygaze manifest import`: one sub-command for each data set's own files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from obygaze_features.core.commands import (
    ExampleCommand,
    LazyGroup,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.adapters.common import ImportedManifest
from obygaze_features.manifest.io import manifest_sha256, read_manifest, write_manifest
from obygaze_features.manifest.stats import compute_stats

F = TypeVar("F", bound=Callable[..., Any])
_HERE = "obygaze_features.manifest.commands_import"
DATASETS = {
    "obygaze12": (f"{_HERE}:obygaze12", "The clips and labels of ObyGaze12, with its splits."),
    "mobygaze": (f"{_HERE}:mobygaze", "The segments of MObyGaze, annotators kept apart."),
    "moviegraphs": (f"{_HERE}:moviegraphs", "Clip times of MovieGraphs, or of a plain table."),
    "liris-accede": (f"{_HERE}:liris_accede", "The clips of MediaEval 2015 (LIRIS-ACCEDE)."),
    "csv": (f"{_HERE}:csv_", "Any table, with a mapping of its columns."),
}
FILE = click.Path(path_type=Path)


@click.group("import", cls=LazyGroup, table=DATASETS)
def import_() -> None:
    """Make a manifest from a data set's own files."""


def _output_options(function: F) -> F:
    """-o, --force and --json: what all imports share."""
    option = click.option("-o", "name", help="Name of the manifest. [default: the data set's]")
    return option(force_option(json_option(function)))


def _strict_option(function: F) -> F:
    return click.option("--strict", is_flag=True, help="Refuse files that are not the known ones.")(
        function
    )


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze manifest import obygaze12 ObyGaze12_thresh_02.csv --splits splits/
    obygaze manifest import obygaze12 ObyGaze12_thresh_02.csv --times moviegraphs -o oby
    """,
)
@click.argument("csv", type=FILE)
@click.option("--splits", type=FILE, help="Folder of the published split files.")
@click.option("--times", help="A manifest (moviegraphs) that knows when each clip is.")
@_strict_option
@_output_options
@pass_session
def obygaze12(
    session: Session,
    /,
    csv: Path,
    splits: Path | None,
    times: str | None,
    strict: bool,
    **output: Any,
) -> None:
    """The clips and labels of ObyGaze12, with its splits."""
    from obygaze_features.manifest.adapters.obygaze12 import read

    known = read_manifest(session.workspace.existing_manifest(times)) if times else None
    name = _name(session, output, "obygaze12")
    _keep(session, read(csv, splits=splits, times=known, name=name, strict=strict), output)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze manifest import mobygaze mobygaze_dataframe.csv
    obygaze manifest import mobygaze mobygaze_dataframe.csv --strict -o segments
    """,
)
@click.argument("csv", type=FILE)
@_strict_option
@_output_options
@pass_session
def mobygaze(session: Session, /, csv: Path, strict: bool, **output: Any) -> None:
    """The segments of MObyGaze, annotators kept apart."""
    from obygaze_features.manifest.adapters.mobygaze import read

    _keep(session, read(csv, name=_name(session, output, "mobygaze"), strict=strict), output)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze manifest import moviegraphs MovieGraphs/mg_videoinfo
    obygaze manifest import moviegraphs clips.csv --fps 23.976 --offset tt0108160=2.5
    """,
)
@click.argument("source", type=FILE)
@click.option("--offset", "offsets", multiple=True, metavar="FILM=SECONDS", help="Shift a film.")
@click.option("--fps", type=float, help="Frames a second, where the table has no such column.")
@_output_options
@pass_session
def moviegraphs(
    session: Session, /, source: Path, offsets: Sequence[str], fps: float | None, **output: Any
) -> None:
    """Clip times of MovieGraphs, or of a plain table.

    SOURCE is the folder that holds scene_boundaries/ and video_boundaries/, or a table with the
    columns clip_id, movie_id, start, end (and fps).
    """
    from obygaze_features.manifest.adapters.moviegraphs import read

    shifts = {film: _seconds(film, text) for film, text in _pairs(offsets, "--offset").items()}
    name = _name(session, output, "moviegraphs")
    _keep(session, read(source, offsets=shifts, fps=fps, name=name), output)


@click.command(
    "liris-accede",
    cls=ExampleCommand,
    examples="""
    obygaze manifest import liris-accede LIRIS-ACCEDE/annotations
    obygaze manifest import liris-accede ACCEDEaffect.txt ACCEDEsets.txt shots-devset-nl.txt
    """,
)
@click.argument("files", nargs=-1, required=True, type=FILE)
@_output_options
@pass_session
def liris_accede(session: Session, /, files: Sequence[Path], **output: Any) -> None:
    """The clips of MediaEval 2015 (LIRIS-ACCEDE).

    FILES are the annotation files or the folder that holds them; rows are joined by id.
    """
    from obygaze_features.manifest.adapters.liris_accede import read

    _keep(session, read(files, name=_name(session, output, "liris-accede")), output)


@click.command(
    "csv",
    cls=ExampleCommand,
    examples="""
    obygaze manifest import csv mine.csv --map clip_id=id --map movie_id=film -o mine
    obygaze manifest import csv mine.csv --mapping mine.toml -o mine
    """,
)
@click.argument("csv", type=FILE)
@click.option("--map", "pairs", multiple=True, metavar="TARGET=COLUMN", help="Where a column is.")
@click.option("--mapping", type=FILE, help="The same, and more, as a TOML file.")
@click.option("--delimiter", default=",", show_default=True, help="What separates the cells.")
@_output_options
@pass_session
def csv_(
    session: Session,
    /,
    csv: Path,
    pairs: Sequence[str],
    mapping: Path | None,
    delimiter: str,
    **output: Any,
) -> None:
    """Any table, with a mapping of its columns.

    TARGET is a column of a manifest, COLUMN one of the table; TARGET==VALUE sets a constant.
    """
    from obygaze_features.manifest.adapters.csv_table import read, read_mapping

    chosen = read_mapping(mapping) if mapping else None
    name = _name(session, output, csv.stem)
    given = _pairs(pairs, "--map")
    _keep(session, read(csv, given, mapping=chosen, delimiter=delimiter, name=name), output)


def _name(session: Session, output: dict[str, Any], default: str) -> str:
    return _path(session, output, default).stem


def _path(session: Session, output: dict[str, Any], default: str) -> Path:
    name: str | None = output["name"]
    return session.workspace.manifest(default if name is None else name)


def _keep(session: Session, imported: ImportedManifest, output: dict[str, Any]) -> None:
    """Write what was imported and say what it is."""
    made = imported.manifest
    path = _path(session, output, made.name)
    write_manifest(made, path, force=output["force"])
    for warning in imported.warnings:
        session.console.warn(warning)
    stats = compute_stats(made)
    if output["as_json"]:
        summary = {"name": made.name, "path": str(path), "sha256": manifest_sha256(made)}
        document = {**summary, "warnings": list(imported.warnings), **stats.to_json()}
        session.console.json(document)
        return
    levels = ", ".join(f"{level} {n}" for level, n in stats.levels.items() if n)
    what = f"{count(len(made), made.header.unit)} of {count(stats.movies, 'film')}"
    session.console.result(f"{path}: {what}" + (f" ({levels})" if levels else ""))


def _pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not (key and separator and value):
            raise FixUsage(f"{option} {text!r} is not of the form NAME=VALUE")
        if key in pairs:
            raise FixUsage(f"{option} names {key!r} twice")
        pairs[key] = value
    return pairs


def _seconds(film: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FixUsage(f"--offset {film}={text}: not a number of seconds") from None

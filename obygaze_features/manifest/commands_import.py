"""`obygaze manifest import`, one sub-command for each data set, and `join`."""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import (
    LazyGroup,
    Session,
    command,
    force_option,
    named_values,
    option_group,
)
from obygaze_features.core.console import count, table
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.core.extension_commands import extension_commands
from obygaze_features.core.plugins import DATASETS, Plugin, find_plugin, plugins
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    csv_table,
    liris_accede,
    mobygaze,
    moviegraphs,
    obygaze12,
)
from obygaze_features.manifest.installed import read_installed
from obygaze_features.manifest.io import (
    manifest_sha256,
    read_manifest,
    update_manifest,
    write_manifest,
)
from obygaze_features.manifest.link import manifest_of_folder
from obygaze_features.manifest.model import Manifest, ascii_id
from obygaze_features.manifest.stats import compute_stats

FILE = click.Path(path_type=Path)
name_option = click.option(
    "-o", "name", help="Name of the manifest. [default: the data set's]"
)

terms_options = option_group(
    "Options",
    click.option(
        "--licence", default="", show_default=False, help="The licence of the labels."
    ),
    click.option(
        "--citation", default="", show_default=False, help="What to cite for them."
    ),
)


@click.group("import", cls=LazyGroup)
def import_() -> None:
    """Make a manifest from a data set's own files."""


def importer(
    dataset: str,
) -> Callable[[Callable[..., ImportedManifest]], click.Command]:
    """Return a decorator that makes an import command of a function that reads a data set."""

    def decorate(read: Callable[..., ImportedManifest]) -> click.Command:
        @wraps(read)
        def import_dataset(
            session: Session,
            /,
            name: str | None,
            force: bool,
            licence: str,
            citation: str,
            **given: Any,
        ) -> None:
            default = dataset
            if dataset in ("csv", "folder"):
                default = ascii_id(given[dataset].resolve().stem) or dataset
            path = session.workspace.manifest(default if name is None else name)
            imported = read(session, name=path.stem, **given).with_terms(
                licence, citation
            )
            lost_columns: list[str] = []
            if force and path.is_file():
                lost_columns = _lost(path, imported.manifest)
            write_manifest(imported.manifest, path, force=force)
            _report(session, imported, path)
            if lost_columns:
                names = ", ".join(lost_columns)
                session.console.warn(f"only the old manifest had: {names}")

        with_options = name_option(force_option(terms_options(import_dataset)))
        return command(dataset)(with_options)

    return decorate


def _importer(
    dataset: str,
) -> Callable[[Callable[..., ImportedManifest]], click.Command]:
    """Return a decorator like that of `importer`, which adds the command to the group."""

    def decorate(read: Callable[..., ImportedManifest]) -> click.Command:
        made = importer(dataset)(read)
        import_.add_command(made)
        return made

    return decorate


def _lost(path: Path, made: Manifest) -> list[str]:
    """Return the columns that have values in the manifest at a path, and none in a new one."""

    try:
        columns_before = _filled_columns(read_manifest(path))
    except ObygazeError:
        return []  # it is replaced, whatever it was
    columns_now = _filled_columns(made)
    return [name for name in columns_before if name not in columns_now]


def _filled_columns(manifest: Manifest) -> list[str]:
    """Return the columns, and `video`, that at least one clip has a value in."""
    return [
        name
        for name in ("video", *manifest.columns)
        if _n_with_value(manifest, name) > 0
    ]


def _n_with_value(manifest: Manifest, column: str) -> int:
    """Return the number of clips that have a value in a column."""
    return sum(bool(clip.values(column)) for clip in manifest)


def _report(session: Session, imported: ImportedManifest, path: Path) -> None:
    for warning in imported.warnings:
        session.console.warn(warning)
    made = imported.manifest
    stats = compute_stats(made)
    summary = {"name": made.name, "path": str(path), "sha256": manifest_sha256(made)}
    document = {**summary, "warnings": list(imported.warnings), **stats.to_json()}
    levels = ", ".join(f"{level} {n}" for level, n in stats.levels.items() if n)
    text = (
        f"{path}: {count(len(made), made.header.unit)} of {count(stats.movies, 'film')}"
    )
    if levels:
        text += f" ({levels})"
    session.console.show(document, text)


@_importer("obygaze12")
@click.argument("csv", type=FILE)
@click.option("--splits", type=FILE, help="Folder of the published split files.")
def import_obygaze12(session: Session, /, **given: Any) -> ImportedManifest:
    """The clips and labels of ObyGaze12, with its splits.

    Examples:
        obygaze manifest import obygaze12 ObyGaze12_thresh_02.csv --splits splits/
        obygaze manifest import obygaze12 ObyGaze12_thresh_02.csv -o oby
    """
    return obygaze12.read(**given)


@_importer("mobygaze")
@click.argument("csv", type=FILE)
def import_mobygaze(session: Session, /, **given: Any) -> ImportedManifest:
    """The segments of MObyGaze, one row for each annotator.

    Examples:
        obygaze manifest import mobygaze mobygaze_dataframe.csv
        obygaze manifest import mobygaze mobygaze_dataframe.csv -o segments
    """
    return mobygaze.read(**given)


@_importer("moviegraphs")
@click.argument("source", type=FILE)
@click.option(
    "--offset", "offsets", multiple=True, metavar="FILM=SECONDS", help="Shift a film."
)
def import_moviegraphs(
    session: Session, /, offsets: Sequence[str], **given: Any
) -> ImportedManifest:
    """Clip times of MovieGraphs.

    SOURCE is the folder that holds scene_boundaries/ and video_boundaries/.

    Examples:
        obygaze manifest import moviegraphs MovieGraphs/mg_videoinfo
        obygaze manifest import moviegraphs MovieGraphs/mg_videoinfo --offset tt0108160=2.5
    """
    try:
        shifts = {
            film: float(s) for film, s in named_values(offsets, "--offset").items()
        }
    except ValueError as error:
        raise FixUsage(f"--offset must be FILM=SECONDS: {error}") from None
    return moviegraphs.read(offsets=shifts, **given)


@_importer("liris-accede")
@click.argument("files", nargs=-1, required=True, type=FILE)
def import_liris_accede(session: Session, /, **given: Any) -> ImportedManifest:
    """The clips of MediaEval 2015 (LIRIS-ACCEDE).

    FILES are the annotation files or the folder that holds them; rows are joined by id.

    Examples:
        obygaze manifest import liris-accede LIRIS-ACCEDE/annotations
        obygaze manifest import liris-accede ACCEDEaffect.txt ACCEDEsets.txt shots-devset-nl.txt
    """
    return liris_accede.read(**given)


@_importer("csv")
@click.argument("csv", type=FILE)
@click.option(
    "--map", "pairs", multiple=True, metavar="TARGET=COLUMN", help="Map a column."
)
@click.option(
    "--mapping", type=FILE, help="Map columns, levels and concepts in a TOML file."
)
def import_csv(
    session: Session, /, pairs: Sequence[str], mapping: Path | None, **given: Any
) -> ImportedManifest:
    """Any table, with a mapping of its columns.

    TARGET is a column of a manifest, COLUMN one of the table; TARGET==VALUE sets a constant.

    Examples:
        obygaze manifest import csv mine.csv --map clip_id=id --map movie_id=film -o mine
        obygaze manifest import csv mine.csv --mapping mine.toml -o mine
    """
    chosen = csv_table.read_mapping(mapping) if mapping else None
    return csv_table.read(columns=named_values(pairs, "--map"), mapping=chosen, **given)


@command()
@click.argument("name")
@click.argument("csv", type=FILE)
@click.option(
    "--map", "pairs", multiple=True, metavar="TARGET=COLUMN", help="Rename a column."
)
@click.option("--force", is_flag=True, help="Replace columns of the manifest.")
def join(
    session: Session, name: str, csv: Path, pairs: Sequence[str], force: bool
) -> None:
    """Add the columns of a table to the clips of a manifest.

    CSV has a column clip_id, or one that --map names. Several values of a clip, in one cell or in
    several rows, are joined with '|', and an expression tests each: joy in emotions.

    Examples:
        obygaze manifest join obygaze12 emotions.csv
        obygaze manifest join obygaze12 graphs.csv --map clip_id=scene --map emotion=attribute
    """
    path = session.workspace.existing_manifest(name)
    manifest = read_manifest(path)
    joined, warnings = csv_table.join(
        manifest, csv, named_values(pairs, "--map"), force=force
    )
    update_manifest(manifest, joined, path)
    for warning in warnings:
        session.console.warn(warning)
    n_values_added = {
        column: _n_with_value(joined, column)
        for column in joined.columns
        if force or column not in manifest.columns
    }
    document = {
        "name": manifest.name,
        "columns": n_values_added,
        "warnings": list(warnings),
    }
    text = table(("column", "clips with a value"), n_values_added.items())
    session.console.show(document, text)


@_importer("folder")
@click.argument("folder", type=FILE)
def import_folder(session: Session, /, **given: Any) -> ImportedManifest:
    """A folder of videos: one clip for each file, without labels.

    The film of a clip is the folder that the file is in; of a file at the top, its name up to the
    scene's number (lake of lake-001.mp4).

    Examples:
        obygaze manifest import folder /data/films -o films
        obygaze manifest import folder clips/ --json
    """
    return ImportedManifest(manifest_of_folder(**given))


def _add_installed(plugin: Plugin) -> None:
    """Add the import command of a plugin; its code is loaded when the command runs."""

    def read(session: Session, name: str, files: Sequence[Path]) -> ImportedManifest:
        return read_installed(find_plugin(DATASETS, plugin.name), files, name)

    read.__doc__ = (
        f"The data set that the package {plugin.package} reads.\n\n"
        f"Examples:\n    obygaze manifest import {plugin.name} FILES"
    )
    _importer(plugin.name)(
        click.argument("files", nargs=-1, required=True, type=FILE)(read)
    )


_of_extensions = extension_commands().get("manifest import", {})
for _plugin in plugins(DATASETS):
    if _plugin.name not in {*import_.commands, *_of_extensions}:
        _add_installed(_plugin)

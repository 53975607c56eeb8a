"""`obygaze manifest import` and `export`: the table of formats and data sets.

The ending of a file determines its format. `--as` names a data set, or the format of a file whose
ending does not determine it. A new format is added only here.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol, runtime_checkable

from obygaze.films.exporting import ExportedFiles, export_table
from obygaze.films.marks import ELAN
from obygaze_features.core import written_tables
from obygaze_features.core.console import count
from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    NotFound,
    ObygazeError,
    near,
)
from obygaze_features.core.files import csv_bytes, find_files, import_of_features
from obygaze_features.core.parquet_tables import text_of_value
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.adapters import SavedManifest
from obygaze_features.manifest.history import command_line, without_command
from obygaze_features.manifest.importing import (
    DATASETS,
    FILMS_IN_FOLDER,
    TABLE_OF_CLIPS,
    ManifestFormat,
    import_clips,
)
from obygaze_features.manifest.link import find_videos
from obygaze_features.manifest.model import Manifest
from obygaze_features.store.layout import STORE_JSON

# The name of a pandas table in errors.
TABLE_IN_MEMORY = "table"
COMMAND = f"obygaze manifest import {TABLE_IN_MEMORY}.csv"
FLAGS = {
    **{"columns": "--map", "form": "--id", "orders": "--order"},
    **{"words": "--word", "film_names": "--film"},
}


@runtime_checkable
class Frame(Protocol):
    """What is used of a pandas table, which is imported only by those who have one."""

    @property
    def index(self) -> Any:
        """The names of its rows."""

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Each column with its label."""

    def reset_index(self) -> Any:
        """Return the table with its index as columns."""

    def __iter__(self) -> Iterator[Any]:
        """The labels of the columns."""


FORMATS = (TABLE_OF_CLIPS, FILMS_IN_FOLDER, *DATASETS)
BY_NAME = {known.name: known for known in FORMATS}
BY_ENDING: dict[str, ManifestFormat] = {}
for _known in FORMATS:
    BY_ENDING.update(dict.fromkeys(_known.endings, _known))


def import_manifest(
    sources: str | Path | Sequence[str | Path] | Frame,
    name: str | None = None,
    *,
    format: str | None = None,
    force: bool = False,
    columns: Mapping[str, str] | None = None,
    form: str = "",
    films: Literal["none"] | None = None,
    sheet: str | Sequence[str] = (),
    film_names: Mapping[str, str] | None = None,
    rule: str = "",
    orders: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
    splits: str | Path | None = None,
    workspace: PathLike | None = None,
) -> SavedManifest:
    """Make a manifest of a table, a folder of films, or a data set.

    docs/guide/data.md describes tables: columns, mappings, times, annotators.

    Args:
        sources: A table, or a folder of films; or one table per annotator; or a pandas table of
            clips, which is read and refused as its CSV file would be.
        name: Name of the manifest; by default the name of the source.
        format: A data set: liris-accede, mobygaze, moviegraphs, obygaze12.
        force: Replace the output if it exists.
        columns: The column to read as TARGET.
        form: Form of clip ids made of columns: '{film}-{n:03d}'.
        films: none: the table has no films.
        sheet: The sheet of a spreadsheet; by default the likely one. If each annotator has a sheet,
            their names.
        film_names: The new name of films that are spelled another way in the table.
        rule: If annotators differ: agreed, majority, highest, mean or by:NAME.
        orders: Words from the lowest: mood=calm,tense.
        words: Replace a word; ? stands for not known.
        splits: Folder of the split files of obygaze12.
        workspace: The workspace, if it is not the current one.
    """
    given: dict[str, Any] = {
        **{"columns": columns, "form": form, "films": films, "sheet": sheet},
        **{"film_names": film_names, "rule": rule, "orders": orders},
        **{"words": words, "splits": splits},
    }
    given = {
        option: value for option, value in given.items() if value not in (None, "", ())
    }
    options_of = {known.name: known.options for known in FORMATS}
    if isinstance(sources, Frame):
        _refuse_options(TABLE_OF_CLIPS.name, given, options_of)
        return _import_frame(sources, name, given, force=force, workspace=workspace)
    typed = [sources] if isinstance(sources, str | Path) else sources
    paths = [Path(source) for source in typed]
    chosen = _choose_format(paths, format)
    _refuse_options(chosen.name, given, options_of)
    called = chosen.default_name(paths) if name is None else name
    path = Workspace.of(workspace).new_manifest(called)
    flags: dict[str, Any] = {"-o": path.stem, "--as": format}
    for option, value in given.items():
        is_path = option == "splits" and isinstance(value, str)
        flags[_flag(option)] = Path(value) if is_path else value
    return import_clips(
        chosen,
        paths,
        given,
        name=name,
        words_of_format=["--as", format] if format else [],
        command=command_line("manifest import", paths, flags, workspace),
        force=force,
        workspace=workspace,
    )


def _import_frame(
    frame: Frame,
    name: str | None,
    options: Mapping[str, Any],
    *,
    force: bool,
    workspace: PathLike | None,
) -> SavedManifest:
    """Make a manifest of a pandas table, as of a CSV file with the same cells.

    Lines in errors are those of this file: the header is line 1.
    """
    if name is None:
        raise FixUsage(
            "expected a name for the manifest of this table",
            hint='use og.manifest.import_(table, "NAME")',
        )
    if any(label is not None for label in frame.index.names):
        frame = frame.reset_index()
    stated = "".join(f", {option}={value!r}" for option, value in options.items())
    done = f"{name} was made in Python: og.manifest.import_(table, {name!r}{stated})"
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{TABLE_IN_MEMORY}.csv"
        _write_frame(frame, path)
        try:
            return import_clips(
                TABLE_OF_CLIPS,
                [path],
                options,
                name=name,
                command=without_command(done),
                force=force,
                workspace=workspace,
            )
        except ObygazeError as error:
            raise _in_python(error, str(Path(folder, "_"))[:-1], name) from None


def _in_python(error: ObygazeError, folder: str, name: str) -> ObygazeError:
    """Return an error of the same class whose command is a line of Python.

    Its texts do not name the temporary folder.
    """

    def plain(text: str | None) -> str:
        return (text or "").replace(folder, "")

    known = type(error).__new__(type(error))
    vars(known).update(vars(error))
    vars(known).pop("__notes__", None)
    ObygazeError.__init__(
        known,
        plain(error.message),
        where=plain(error.where),
        hint=_as_call(plain(error.hint), name),
        details=[plain(line) for line in error.details],
    )
    return known


def _as_call(hint: str, name: str) -> str:
    """Return the line of Python for a command that imports the table; any other hint as it is."""
    if not hint.startswith(COMMAND):
        return hint
    option_of = {flag: option for option, flag in FLAGS.items()}
    given: dict[str, Any] = {}
    words = iter(shlex.split(hint.removeprefix(COMMAND)))
    for flag in words:
        option = option_of.get(flag, flag.lstrip("-"))
        if option == "force":
            given[option] = True
        elif option in ("columns", "words", "orders", "film_names"):
            key, _, value = next(words).partition("=")
            given.setdefault(option, {})[key] = value
        else:
            given[option] = next(words)
    given.pop("o", None)
    stated = "".join(f", {option}={value!r}" for option, value in given.items())
    return f"og.manifest.import_(table, {name!r}{stated})"


def _write_frame(frame: Frame, path: Path) -> None:
    """Write the cells of a pandas table as a CSV file; lists in cells are refused."""
    columns = []
    for label, column in frame.items():
        values = column.astype(object).where(column.notna(), None).tolist()
        if any(isinstance(value, list | tuple | dict | set) for value in values):
            raise FixInput(
                f"expected one value per cell, got lists in the column {label!r}",
                hint="join the concepts of a clip with |, such as 'Look|Body'",
            )
        columns.append([text_of_value(value) for value in values])
    rows = zip(*columns, strict=True)
    path.write_bytes(csv_bytes([str(label) for label in frame], rows))


def _choose_format(paths: Sequence[Path], name: str | None) -> ManifestFormat:
    """Return the format of this name, or without a name the common format of all paths."""
    if name is not None and name not in BY_NAME:
        raise FixUsage(
            f"--as: unknown format {name!r}{near(name, BY_NAME)}",
            hint=f"pass --as with one of {', '.join(BY_NAME)}",
        )
    if name is not None:
        return BY_NAME[name]
    formats = {known.name: known for known in map(_format_by_ending, paths)}
    if len(formats) != 1:
        raise FixUsage(
            f"expected files of one format, got {count(len(formats), 'format')}:"
            f" {', '.join(formats)}"
        )
    (chosen,) = formats.values()
    return chosen


def _format_by_ending(path: Path) -> ManifestFormat:
    """Return the format of a file by its ending, or of a folder by its files."""
    if path.is_dir():
        # Only folders need it.
        from obygaze_features.store.importing.zarr import is_zarr, lines_of_labels

        if is_zarr(path) and not (path / STORE_JSON).exists():
            raise FixUsage(
                "a group of Zarr is not a table of clips",
                where=str(path),
                hint="run these lines in Python; og.manifest.import_ takes tables of pandas",
                details=lines_of_labels(path),
            )
        if find_files(path, (ELAN,)) and not find_videos(path):
            raise FixUsage(
                "the folder has ELAN files and no films",
                where=str(path),
                hint=f"obygaze marks import {shell_word(path)}",
            )
        return FILMS_IN_FOLDER
    if not path.exists():
        is_format = str(path) in BY_NAME
        raise NotFound(
            "no such file or folder",
            where=str(path),
            hint=f"pass FILE --as {shell_word(path)}"
            if is_format
            else "check the name",
        )
    ending = path.suffix.lower()
    if ending == ELAN:
        raise FixUsage(
            "an ELAN file has marks, not clips",
            where=str(path),
            hint=f"obygaze marks import {shell_word(path)}",
        )
    if ending not in BY_ENDING:
        raise FixUsage(
            f"cannot import {path.suffix or 'files without an ending'}",
            where=str(path),
            hint=import_of_features(path)
            or f"pass {', '.join(BY_ENDING)}; or --as with one of {', '.join(BY_NAME)}",
        )
    return BY_ENDING[ending]


def _refuse_options(
    chosen: str, given: Iterable[str], options_of: Mapping[str, Sequence[str]]
) -> None:
    """Raise an error if a given option is not an option of the chosen format."""
    for option in given:
        names = [name for name, options in options_of.items() if option in options]
        if chosen not in names:
            raise FixUsage(
                f"{_flag(option)} is for {', '.join(names)}, not for {chosen}"
            )


def _flag(option: str) -> str:
    """Return the option of the command for a parameter of the function."""
    return FLAGS.get(option, f"--{option.replace('_', '-')}")


def export_manifest(
    manifest: PathLike | Manifest,
    output: PathLike,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write the clips of a manifest as a table, which `og.manifest.import_` reads.

    The annotations are a table next to the table of clips, such as films.annotators.csv.

    Args:
        manifest: The clips.
        output: A new table: .csv or .xlsx.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    path = Path(output)
    if path.suffix.lower() not in written_tables.SUFFIXES:
        raise FixUsage(
            f"cannot export to {path.suffix or 'files without an ending'}",
            where=str(path),
            hint=f"use one of {', '.join(written_tables.SUFFIXES)}; for ELAN: obygaze marks"
            " --help",
        )
    return export_table(manifest, path, force=force, workspace=workspace)

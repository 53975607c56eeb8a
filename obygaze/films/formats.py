"""`obygaze manifest import` and `export`: the table of formats and data sets.

The ending of a file determines its format. `--as` names a data set, or the format of a file whose
ending does not determine it. A new format is added only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from obygaze.films.exporting import ExportedFiles, export_elan, export_table
from obygaze.films.importing import ImportedMarks, import_marks
from obygaze_features.core import written_tables
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixUsage, NotFound, near
from obygaze_features.core.files import import_of_features
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.adapters import SavedManifest
from obygaze_features.manifest.adapters.csv_table import Draft
from obygaze_features.manifest.adapters.table_mapping import TableMapping
from obygaze_features.manifest.history import command_line
from obygaze_features.manifest.importing import (
    DATASETS,
    FILMS_IN_FOLDER,
    TABLE_OF_CLIPS,
    ManifestFormat,
    import_clips,
)
from obygaze_features.manifest.link import find_videos
from obygaze_features.manifest.model import Manifest

OF_MARKS = ("tiers", "words")
OF_ELAN = (*OF_MARKS, "coded")
FLAGS = {
    **{"columns": "--map", "form": "--id", "orders": "--order"},
    **{"tiers": "--tier", "words": "--word", "people": "--person"},
}


ELAN = ManifestFormat("elan", import_marks, (".eaf",), options=OF_ELAN, several=True)
MARKS = ManifestFormat("marks", import_marks, options=OF_MARKS, several=True)
FORMATS = (TABLE_OF_CLIPS, ELAN, MARKS, FILMS_IN_FOLDER, *DATASETS)
BY_NAME = {known.name: known for known in FORMATS}
BY_ENDING: dict[str, ManifestFormat] = {}
for _known in FORMATS:
    BY_ENDING.update(dict.fromkeys(_known.endings, _known))
# The format of an exported file, by its ending.
WRITTEN = {**dict.fromkeys(written_tables.SUFFIXES, "table"), ".eaf": "elan"}


def import_manifest(
    sources: str | Path | Sequence[str | Path],
    name: str | None = None,
    *,
    format: str | None = None,
    force: bool = False,
    columns: Mapping[str, str] | None = None,
    form: str = "",
    films: Literal["none"] | None = None,
    sheet: str = "",
    rule: str = "",
    orders: Mapping[str, str] | None = None,
    mapping: TableMapping | str | Path | None = None,
    write_mapping: str | Path | None = None,
    tiers: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
    coded: Sequence[str] = (),
    splits: str | Path | None = None,
    workspace: PathLike | None = None,
) -> SavedManifest | ImportedMarks | Draft:
    """Make a manifest of a table, a folder of films or a data set, or a table of marks.

    The ending of SOURCE determines its format: a table, or an ELAN file (.eaf). A folder has films
    or ELAN files. If the ending does not determine the format, --as names it. docs/guide/data.md
    describes tables: columns, mappings, times, annotators. docs/guide/films.md describes marks.

    Args:
        sources: A file or folder; or files of marks; or one table per annotator.
        name: Name of the manifest. [default: from SOURCE]
        format: marks, or a data set: liris-accede, mobygaze, moviegraphs, obygaze12.
        force: Replace the output if it exists.
        columns: The column to read as TARGET.
        form: Form of clip ids made of columns: '{film}-{n:03d}'.
        films: none: the table has no films.
        sheet: The sheet of a spreadsheet. [default: the likely one]
        rule: If annotators differ: agreed, majority, highest, mean or by:NAME.
        orders: Words from the lowest: mood=calm,tense.
        mapping: TOML file with the mapping of columns and words.
        write_mapping: New file for the mapping, or for a draft of it.
        tiers: The column of a tier: level, or level@anna.
        words: Replace a word; ? stands for not known.
        coded: Column that was coded in the whole film.
        splits: Folder of the split files of obygaze12.
        workspace: The workspace, if it is not the current one.
    """
    given: dict[str, Any] = {
        **{"columns": columns, "form": form, "films": films, "sheet": sheet},
        **{"rule": rule, "orders": orders, "mapping": mapping},
        **{"write_mapping": write_mapping, "splits": splits},
        **{"tiers": tiers, "words": words, "coded": coded},
    }
    given = {
        option: value for option, value in given.items() if value not in (None, "", ())
    }
    typed = [sources] if isinstance(sources, str | Path) else sources
    paths = [Path(source) for source in typed]
    chosen = _choose_format(paths, format)
    options_of = {known.name: known.options for known in FORMATS}
    _refuse_options(chosen.name, given, options_of)
    called = chosen.default_name(paths) if name is None else name
    path = Workspace.of(workspace).new_manifest(called)
    if chosen.read is import_marks:
        files = chosen.files_in(paths)
        return import_marks(files, path.stem, force=force, workspace=workspace, **given)
    flags: dict[str, Any] = {"-o": path.stem, "--as": format}
    for option, value in given.items():
        is_path = option in ("mapping", "splits") and isinstance(value, str)
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
        elan = ELAN.files_of_folder(path)
        if elan and find_videos(path):
            raise FixUsage(
                f"the folder has films and ELAN files, such as {elan[0].name}",
                where=str(path),
                hint="pass --as folder to import the films, or --as elan",
            )
        return ELAN if elan else FILMS_IN_FOLDER
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
    format: str | None = None,
    force: bool = False,
    predictions: PathLike | None = None,
    into: PathLike | None = None,
    people: Sequence[str] = (),
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write clips or marks for other programs.

    The ending of OUTPUT determines the format: .csv or .xlsx is a table of all clips, which
    `manifest import` reads; .eaf is an ELAN file with the marks of one film. For several films,
    OUTPUT is a folder, and the format is --as elan: each film becomes a file.

    For ELAN, MANIFEST is a table of marks (a file, or a name in segments/) or a manifest. Each
    label of a clip becomes a mark with its annotator; an unknown label becomes `?`. Clips from
    `manifest sample` become an empty tier for each --person, with the levels to choose
    from. --predictions takes a table of `models predict -o` or `search -o`, or the predictions.csv
    of a run: each model becomes a tier of scores, or several if clips overlap. Baselines are
    excluded if the run has models. --into adds these tiers to an existing ELAN file, or to each
    file of a folder, and changes nothing else in the files.

    The annotations are a table next to the table of clips, such as films.annotators.csv.

    Args:
        manifest: The marks, or clips with labels.
        output: The file; or for several films the folder.
        format: The format of the files in a folder: elan.
        force: Replace the output if it exists.
        predictions: For ELAN: CSV file with scores of clips, written instead of the labels.
        into: For ELAN: the file or folder to copy to OUTPUT with new tiers.
        people: For sampled clips: an annotator, who gets an empty tier to fill in.
        workspace: The workspace, if it is not the current one.
    """
    path = Path(output)
    by_ending = WRITTEN.get(path.suffix.lower())
    # Only ELAN files get new tiers.
    of_folder = "elan" if into is not None and Path(into).is_dir() else None
    chosen = format or by_ending or of_folder
    is_written = chosen in WRITTEN.values() and by_ending in (None, chosen)
    if chosen is None or not is_written:
        raise FixUsage(
            f"cannot export to {format or path.suffix or 'files without an ending'}",
            where=str(path),
            hint=f"use one of {', '.join(WRITTEN)}; or for several films FOLDER --as elan",
        )
    given: dict[str, Any] = {"predictions": predictions, "into": into, "people": people}
    given = {option: value for option, value in given.items() if value}
    _refuse_options(chosen, given, {"elan": ("predictions", "into", "people")})
    if chosen == "table":
        return export_table(manifest, path, force=force, workspace=workspace)
    return export_elan(manifest, path, force=force, workspace=workspace, **given)

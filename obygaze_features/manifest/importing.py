"""Make manifests from tables, from folders of films, and from the files of data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import find_files
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    SavedManifest,
    csv_table,
    folder,
    liris_accede,
    mobygaze,
    moviegraphs,
    obygaze12,
)


@dataclass(frozen=True)
class ManifestFormat:
    """A format that can be imported.

    Attributes:
        name: The value of `--as`.
        read: The function that reads a file or folder, or a list of files if `several`.
        endings: The file extensions of the format.
        options: The names of the options that this format has in addition to the common options.
        several: Whether several files become one manifest.
        is_dataset: Whether a manifest is named after the format; False: after its file.
    """

    name: str
    read: Callable[..., Any]
    endings: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    several: bool = False
    is_dataset: bool = False

    def files_in(self, paths: Iterable[Path]) -> list[Path]:
        """Return the paths; a folder is replaced by its files of this format if it has any."""
        files = []
        for path in paths:
            files += self.files_of_folder(path) or [path]
        return files

    def files_of_folder(self, path: Path) -> list[Path]:
        """Return the files of this format in a folder and below, without hidden files."""
        return find_files(path, self.endings)

    def default_name(self, paths: Sequence[Path]) -> str:
        """Return the name of a manifest if the user gives none."""
        if self.is_dataset:
            return self.name
        if len(paths) > 1:
            raise FixUsage(
                "--output is required for several files", hint="pass -o NAME"
            )
        return ascii_id(paths[0].resolve().stem) or self.name


TABLE_OF_CLIPS = ManifestFormat(
    "table",
    csv_table.read,
    (".csv", ".tsv", ".txt", ".xlsx", ".xlsm", ".parquet"),
    options=(
        *("columns", "form", "films", "sheet", "film_names", "rule", "orders", "words"),
    ),
    several=True,
)
FILMS_IN_FOLDER = ManifestFormat("folder", folder.read)
DATASETS = (
    ManifestFormat("liris-accede", liris_accede.read, several=True, is_dataset=True),
    ManifestFormat("mobygaze", mobygaze.read, is_dataset=True),
    ManifestFormat("moviegraphs", moviegraphs.read, is_dataset=True),
    ManifestFormat("obygaze12", obygaze12.read, options=("splits",), is_dataset=True),
)


def import_clips(
    source: ManifestFormat,
    paths: Sequence[Path],
    options: Mapping[str, Any],
    *,
    name: str | None = None,
    words_of_format: Sequence[str] = (),
    command: str,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SavedManifest:
    """Make a manifest from files.

    Args:
        source: The format of the files.
        paths: The files or folders.
        options: The values of the options of the format, by name.
        name: The name of the manifest; None: the name of the file or of the data set.
        words_of_format: The options that name the format in the command, such as `--as mobygaze`.
        command: The command that imports these files.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    called = source.default_name(paths) if name is None else name
    path = Workspace.of(workspace).new_manifest(called)
    given = dict(options)
    if source.read is csv_table.read:
        typed_name = [] if name is None else ["-o", name]
        forced = ["--force"] if force else []
        typed = [*map(str, paths), *typed_name, *words_of_format, *forced]
        given["command"] = ["obygaze", "manifest", "import", *typed]
    if not source.several and len(paths) > 1:
        raise FixUsage(
            f"expected one source for {source.name}, got {count(len(paths), 'source')}",
            hint="import each source separately, then run obygaze manifest merge",
        )
    files = source.files_in(paths) if source.several else paths[0]
    imported: ImportedManifest = source.read(files, name=path.stem, **given)
    return imported.save(path, command, force=force)

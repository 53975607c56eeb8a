"""The commands that made and changed a manifest, which its header keeps.

Paths in them are relative to the workspace: typed there, beside the same files, the commands make
an equal manifest. A hash shows whether the manifest was changed by hand after the last of them.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from obygaze_features.core.file_names import single_line
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.shell import shell_line
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.io import (
    annotations_to_csv,
    header_to_toml,
    manifest_path,
    rows_to_csv,
)
from obygaze_features.manifest.model import Manifest

# A line that begins with this is no command, but says that something was done without one.
COMMENT = "# "


def without_command(text: str) -> str:
    """Return the line of something that was done without a command."""
    return COMMENT + single_line(text)


def command_line(
    command: str,
    arguments: Iterable[str | Path],
    options: Mapping[str, Any],
    workspace: PathLike | None,
) -> str:
    """Return the command that a person would type in the workspace.

    Args:
        command: The words of the command, such as `manifest import`.
        arguments: Its arguments. A `Path` becomes a path relative to the workspace.
        options: The value of each option, such as `--map`: a text, number or path; True for a flag;
            a list of values, or a mapping of names to values, for an option that is repeated.
            Options without a value are left out.
        workspace: The workspace.
    """
    root = Workspace.of(workspace).root
    words = ["obygaze", *command.split(), *(_word(one, root) for one in arguments)]
    for flag, value in options.items():
        values = [value]
        if isinstance(value, Mapping):
            values = [f"{name}={new}" for name, new in value.items()]
        elif isinstance(value, list | tuple):
            values = list(value)
        for one in values:
            if one is True:
                words.append(flag)
            elif one not in (None, False, ""):
                words += [flag, _word(one, root)]
    return shell_line(words)


def _word(value: Any, root: Path) -> str:
    """Return a value as a word; a `Path` becomes relative to a folder."""
    if not isinstance(value, Path):
        return str(value)
    path = value.absolute()
    try:
        word = Path(os.path.relpath(path, root.absolute())).as_posix()
    except ValueError:
        # On Windows, the path may be on another drive.
        word = path.as_posix()
    # A word that begins with - would be an option.
    return f"./{word}" if word.startswith("-") else word


def manifest_word(
    manifest: PathLike | Manifest, workspace: PathLike | None
) -> str | Path:
    """Return how a command names a manifest: its name in the workspace, or else its path."""
    if isinstance(manifest, Manifest):
        return manifest.name
    path = manifest_path(manifest, workspace=workspace)
    folder = Workspace.of(workspace).folder("manifests")
    return path.stem if path.parent.absolute() == folder.absolute() else path


def with_command(manifest: Manifest, command: str, *parents: Manifest) -> Manifest:
    """Return a manifest whose header has the command that made it, after those of its parents.

    Args:
        manifest: The manifest that the command made.
        command: The command.
        parents: The manifests that the command read, with the one that it changed.
    """
    lines = {line: None for parent in parents for line in commands_of(parent)}
    commands = (*lines, command)
    made = _with_header(manifest, commands=commands, commands_sha256="")
    return _with_header(made, commands_sha256=_sha256(made))


def commands_of(manifest: Manifest) -> list[str]:
    """Return the commands that made a manifest, with a comment for what no command did."""
    header = manifest.header
    if not header.commands:
        return [f"{COMMENT}{manifest.name} was written without a command"]
    unsigned = _with_header(manifest, commands_sha256="")
    if header.commands_sha256 == _sha256(unsigned):
        return [*header.commands]
    return [*header.commands, f"{COMMENT}{manifest.name} was then changed by hand"]


def _with_header(manifest: Manifest, **changes: Any) -> Manifest:
    return replace(manifest, header=structs.replace(manifest.header, **changes))


def _sha256(manifest: Manifest) -> str:
    """Return the sha256 of the header and the tables of a manifest."""
    header = header_to_toml(manifest.header).encode()
    tables = rows_to_csv(manifest) + annotations_to_csv(manifest.annotations)
    return sha256_bytes(header + tables)

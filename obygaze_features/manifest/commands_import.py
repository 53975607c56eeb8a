"""`obygaze manifest import`: a command for each data set, made of the function that reads it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import click

from obygaze_features.core.commands import Session, SessionCommand
from obygaze_features.core.function_commands import (
    FunctionGroup,
    call_function,
    parameters_of,
    parse_docstring,
    show_result,
    typed_values,
)
from obygaze_features.core.options import PYTHON_ONLY
from obygaze_features.core.parts import Part, find_part, is_own_code, label_of, trust
from obygaze_features.manifest.adapters import ImportedManifest
from obygaze_features.manifest.model import ascii_id
from obygaze_features.manifest.own import read_own

_HERE = "obygaze_features.manifest.adapters"
READERS = {
    "csv": f"{_HERE}.csv_table:read",
    "xlsx": f"{_HERE}.csv_table:read",
    "folder": f"{_HERE}.folder:read",
    "liris-accede": f"{_HERE}.liris_accede:read",
    "mobygaze": f"{_HERE}.mobygaze:read",
    "moviegraphs": f"{_HERE}.moviegraphs:read",
    "obygaze12": f"{_HERE}.obygaze12:read",
}


def import_command(
    read: Callable[..., ImportedManifest], dataset: str
) -> click.Command:
    """Return the command of a function that reads a data set; its result is saved."""
    saving = parameters_of(ImportedManifest.save, skip_self=True)
    names_of_saving = {param.name for param in saving}
    params = [*saving, *parameters_of(read)]

    def run(session: Session, /, **values: Any) -> None:
        arguments = typed_values(values, params)
        chosen = {key: arguments.pop(key) for key in names_of_saving}
        name = chosen.pop("name")
        if name is None:
            name = _default_name(dataset, arguments)
        path = session.workspace.new_manifest(name)
        imported = call_function(session, read, **arguments, name=path.stem)
        show_result(session.console, imported.save(path, **chosen))

    about = parse_docstring(read).help
    made = SessionCommand(name=dataset, params=params, callback=run, help=about)
    made.function = read
    return made


def _default_name(dataset: str, arguments: dict[str, Any]) -> str:
    # A spreadsheet is read by the function that reads CSV files.
    parameter = "csv" if dataset == "xlsx" else dataset
    if parameter not in arguments:
        return dataset
    return ascii_id(Path(arguments[parameter]).resolve().stem) or dataset


class _ImportGroup(FunctionGroup):
    """The data sets by name, and as FILE.py:NAME or package.module:NAME an own function."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a data set; own code that was typed may run."""
        if not is_own_code(cmd_name):
            return super().get_command(ctx, cmd_name)
        trust([cmd_name])
        return import_command(_reader(find_part(cmd_name)), label_of(cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names, which may be an own function or a table."""
        is_named = is_own_code(args[0]) or args[0] in self.table
        if not is_named and Path(args[0]).is_file():
            args = ["csv", *args]
        if is_own_code(args[0]):
            return args[0], self.get_command(ctx, args[0]), args[1:]
        return super().resolve_command(ctx, args)


@click.group("import", cls=_ImportGroup, table=READERS, make=import_command)
def import_() -> None:
    """Make a manifest from a data set's own files.

    With FILE.py:NAME or package.module:NAME in place of a command, a function of yours makes it.
    """


def _reader(part: Part) -> Callable[..., ImportedManifest]:
    """Return the function that reads a data set with own code."""
    label = label_of(part.name)

    def read(
        files: Sequence[str], *, name: Annotated[str, PYTHON_ONLY] = label
    ) -> ImportedManifest:
        return read_own(part, [Path(file) for file in files], name)

    read.__doc__ = f"""The data set that {part.name} reads.

    Args:
        files: The files of the data set.
        name: The name of the manifest.

    Commands:
        obygaze manifest import {part.name} FILES
    """
    return read

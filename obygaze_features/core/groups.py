"""Groups whose commands are created when they are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import click

from obygaze_features.core.commands import (
    add_global_options,
    refuse_repeated_options,
)
from obygaze_features.core.declared import import_object, read_docstring
from obygaze_features.core.function_commands import make_command
from obygaze_features.core.options import Command

# Commands of a group by name; a text `module:attribute` is a click command or a group.
Table: TypeAlias = Mapping[str, Command | str]


class LazyGroup(click.Group):
    """A group of the commands of a table.

    A key of several words, such as "manifest join", is a command of the group of its first word.
    The help of the program lists commands under headings.

    Listing commands does not import them: their lines of help are read from the source. Only the
    command that runs is imported.
    """

    def __init__(
        self,
        *args: Any,
        table: Table,
        headings: Mapping[str, Iterable[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.table: dict[str, Command | str] = {}
        self.tables_of_groups: dict[str, dict[str, Command | str]] = {}
        self.headings = headings or {}
        self.add_entries(table)
        # The root group has its own options, which create the session.
        if not self.params:
            add_global_options(self)

    def add_entries(self, entries: Table) -> None:
        """Add commands of this group and of its subgroups."""
        for words, entry in entries.items():
            name, _, rest = words.partition(" ")
            if rest:
                self.tables_of_groups.setdefault(name, {})[rest] = entry
            else:
                self.table[name] = entry

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; raise an error if an option that takes one value is repeated."""
        refuse_repeated_options(self, ctx, args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return [*self.table]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, made from its entry in the table or imported."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        if isinstance(entry, Command):
            return make_command(entry, cmd_name)
        command: click.Command = import_object(entry)
        if isinstance(command, LazyGroup):
            command.add_entries(self.tables_of_groups.get(cmd_name, {}))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word; an error suggests a similar command."""
        name = args[0]
        names = self.list_commands(ctx)
        is_option = name.startswith("-")
        if name not in names and not is_option and not ctx.resilient_parsing:
            raise click.NoSuchCommand(name, f"No such command {name!r}.", names, ctx)
        return super().resolve_command(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands with one line each, under headings if there are any."""
        for heading, names in (self.headings or {"Commands": self.table}).items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.summary(name)) for name in names])

    def summary(self, name: str) -> str:
        """Return the line of help of a command, without importing the command."""
        entry = self.table[name]
        target = entry.target if isinstance(entry, Command) else entry
        line, _, _ = read_docstring(target).partition("\n")
        return line

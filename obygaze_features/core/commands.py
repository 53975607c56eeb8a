"""What all click commands share: lazy groups, groups of options, examples, --json."""

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from obygaze_features.core.console import Console
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.lazy import docstrings_of
from obygaze_features.core.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Session:
    """The workspace and the console that the global options chose."""

    workspace: Workspace
    console: Console


pass_session = click.make_pass_decorator(Session)


def _console_option(
    *names: str, louder: int = 0, as_json: bool = False, **settings: Any
) -> Callable[[F], F]:
    """Return an option that changes the console of the session."""

    def apply(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        session = ctx.find_object(Session)
        if value and session is not None:
            before = session.console
            console = Console(before.verbosity + louder, before.as_json or as_json)
            ctx.obj = replace(session, console=console)

    return click.option(
        *names, is_flag=True, expose_value=False, callback=apply, **settings
    )


json_option = _console_option("--json", as_json=True, help="Print one JSON document.")
_hidden_json_option = _console_option("--json", as_json=True, hidden=True)
# They may stand after any word of the command line.
_quiet_option = _console_option("-q", "--quiet", louder=-1, hidden=True)
_verbose_option = _console_option("-v", "--verbose", louder=1, hidden=True)


def refuse_repeated_options(
    command: click.Command, ctx: click.Context, args: list[str]
) -> None:
    """Raise an error for an option of one value that is given twice: click takes the last."""
    _, _, given = command.make_parser(ctx).parse_args(list(args))
    for param in given:
        if not isinstance(param, click.Option) or param.is_flag or param.multiple:
            continue
        if given.count(param) > 1:
            flag = "/".join(param.opts)
            raise FixUsage(f"{flag} is given twice", hint=f"{ctx.command_path} --help")


class SessionCommand(click.Command):
    """A command whose function gets the session first; every command has --json, -q and -v.

    Its help lists options by group. It ends with the lines of the docstring after `Examples:`.
    `function` is the public function of the command.
    """

    function: Callable[..., Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        about, _, examples = inspect.cleandoc(kwargs["help"] or "").partition(
            "\nExamples:\n"
        )
        kwargs |= {"help": about, "callback": pass_session(kwargs["callback"])}
        kwargs["context_settings"] = {"show_default": True}
        super().__init__(*args, **kwargs)
        self.examples = textwrap.dedent(examples)
        if not any("--json" in param.opts for param in self.params):
            json_option(self)
        _verbose_option(_quiet_option(self))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line; an option of one value may stand there once."""
        refuse_repeated_options(self, ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a usage error without a hint points to the command's help."""
        try:
            return super().invoke(ctx)
        except FixUsage as error:
            error.hint = error.hint or f"{ctx.command_path} --help"
            raise

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the arguments, then the options by group, as the groups first appear."""
        described = [
            (param.make_metavar(ctx), vars(param)["description"])
            for param in self.get_params(ctx)
            if "description" in vars(param)
        ]
        if described:
            with formatter.section("Arguments"):
                formatter.write_dl(described)
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and not isinstance(param, click.Argument):
                groups.setdefault(getattr(param, "group", "Options"), []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they were typed, unwrapped."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            formatter.write_paragraph()
            formatter.write("Examples:\n")
            for line in self.examples.splitlines():
                formatter.write(f"  {line}\n" if line else "\n")


class LazyGroup(click.Group):
    """A group whose table has 'module:attribute' for each command.

    A key of several words, such as "manifest agree", is a command of the group that its first words
    name. The help of the program itself lists the commands of each heading.

    Listing the commands imports none of them: their lines of help are read from the docstrings of
    the modules. Only the command that runs is imported.
    """

    command_class = SessionCommand

    def __init__(
        self,
        *args: Any,
        table: Mapping[str, str] | None = None,
        headings: Mapping[str, Iterable[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.table: dict[str, str] = {}
        self.tables_of_groups: dict[str, dict[str, str]] = {}
        self.headings = headings or {}
        self.add_entries(table or {})
        # The root group has options of its own, which make the session.
        if not self.params:
            _verbose_option(_quiet_option(_hidden_json_option(self)))

    def add_entries(self, entries: Mapping[str, str]) -> None:
        """Add commands of this group, and commands of the groups in it."""
        for words, target in entries.items():
            name, _, rest = words.partition(" ")
            if rest:
                self.tables_of_groups.setdefault(name, {})[rest] = target
            else:
                self.table[name] = target

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line; an option of one value may stand there once."""
        refuse_repeated_options(self, ctx, args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return [*self.table, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the one command that was asked for."""
        command = super().get_command(ctx, cmd_name)
        if cmd_name in self.table:
            module, attribute = self.table[cmd_name].split(":")
            command = getattr(importlib.import_module(module), attribute)
        if isinstance(command, LazyGroup):
            command.add_entries(self.tables_of_groups.get(cmd_name, {}))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; an error suggests a similar one."""
        name = args[0]
        names = self.list_commands(ctx)
        is_option = name.startswith("-")
        if name not in names and not is_option and not ctx.resilient_parsing:
            raise click.NoSuchCommand(name, f"No such command {name!r}.", names, ctx)
        return super().resolve_command(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands with their one line, without importing them.

        The program itself lists them under its headings.
        """
        if not self.headings:
            with formatter.section("Commands"):
                formatter.write_dl(self._rows(ctx))
        for heading, names in self.headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.summary(name)) for name in names])

    def summary(self, name: str) -> str:
        """Return the line of help of a command of the table, without importing it."""
        module, attribute = self.table[name].split(":")
        line, _, _ = docstrings_of(module)[attribute].partition("\n")
        return line

    def _rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        rows = []
        for name in self.list_commands(ctx):
            if name in self.table:
                rows.append((name, self.summary(name)))
                continue
            command = super().get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=80)))
        return rows


def named_values(
    words: Iterable[str], option: str, *, may_be_empty: bool = False
) -> dict[str, str]:
    """Return the words NAME=VALUE of a repeatable option as a mapping."""
    values: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        is_pair = sign and (may_be_empty or (name and value))
        if not is_pair:
            raise FixUsage(f"{option} must be of the form NAME=VALUE, got {word!r}")
        if name in values:
            raise FixUsage(f"{option} names {name!r} twice")
        values[name] = value
    return values


def command(
    public: Callable[..., Any],
) -> Callable[[Callable[..., Any]], SessionCommand]:
    """Make a command of what is called with the session; `public` is its function in Python."""

    def decorate(callback: Callable[..., Any]) -> SessionCommand:
        made = click.command(cls=SessionCommand)(callback)
        made.function = public
        return made

    return decorate

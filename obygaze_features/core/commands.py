"""The base of all click commands: the session, groups of options, examples, --json."""

import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from obygaze_features.core.console import Console
from obygaze_features.core.errors import FixUsage, NotFound
from obygaze_features.core.shell import shell_word
from obygaze_features.core.value_types import TypedPath
from obygaze_features.core.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Session:
    """The workspace and the console, which the global options select.

    `is_named` is true if -C named the workspace.
    """

    workspace: Workspace
    console: Console
    is_named: bool = False


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
# These options are allowed after any word of the command line.
_quiet_option = _console_option("-q", "--quiet", louder=-1, hidden=True)
_verbose_option = _console_option("-v", "--verbose", louder=1, hidden=True)


def workspace_at(folder: Path) -> Workspace:
    """Return the workspace in a folder; raise an error if the folder is missing."""
    if not folder.is_dir():
        raise NotFound(
            "no such workspace: the folder of -C or OBYGAZE_WORKSPACE does not exist",
            where=str(folder),
            hint=f"check the name, or create the folder: mkdir {shell_word(folder)}",
        )
    return Workspace(folder)


def _choose_workspace(
    ctx: click.Context, param: click.Parameter, value: Path | None
) -> None:
    """Change the workspace of the session."""
    session = ctx.find_object(Session)
    if value is None or session is None:
        return
    if session.is_named:
        flag = "/".join(param.opts)
        raise FixUsage(f"{flag} is given twice", hint=f"{ctx.command_path} --help")
    ctx.obj = replace(session, workspace=workspace_at(value), is_named=True)


_workspace_option = click.option(
    "-C",
    "--workspace",
    type=TypedPath(file_okay=False, path_type=Path),
    hidden=True,
    expose_value=False,
    callback=_choose_workspace,
)


def add_global_options(command: click.Command) -> None:
    """Add the options of the program to a command or group."""
    if not any("--json" in param.opts for param in command.params):
        _hidden_json_option(command)
    _workspace_option(_verbose_option(_quiet_option(command)))


def refuse_repeated_options(
    command: click.Command, ctx: click.Context, args: list[str]
) -> None:
    """Raise an error if an option that takes one value is repeated; click would take the last."""
    _, _, given = command.make_parser(ctx).parse_args(list(args))
    for param in given:
        if not isinstance(param, click.Option) or param.is_flag or param.multiple:
            continue
        if given.count(param) > 1:
            flag = "/".join(param.opts)
            raise FixUsage(f"{flag} is given twice", hint=f"{ctx.command_path} --help")


class SessionCommand(click.Command):
    """A command that passes the session to its function; it has --json, -q and -v.

    The help lists options by group, and ends with the lines of the docstring after `Examples:`.

    With `takes_any_option`, unknown options and `--` are words of the first argument.
    """

    def __init__(
        self, *args: Any, takes_any_option: bool = False, **kwargs: Any
    ) -> None:
        about, _, examples = inspect.cleandoc(kwargs["help"] or "").partition(
            "\nExamples:\n"
        )
        kwargs |= {"help": about, "callback": pass_session(kwargs["callback"])}
        kwargs["context_settings"] = {"show_default": True}
        super().__init__(*args, **kwargs)
        self.ignore_unknown_options = takes_any_option
        self.examples = textwrap.dedent(examples)
        json_option(self)
        add_global_options(self)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; raise an error if an option that takes one value is repeated."""
        if self.ignore_unknown_options and "--" in args:
            # click would drop a single `--`.
            place = args.index("--")
            args = [*args[:place], "--", *args[place:]]
        refuse_repeated_options(self, ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. If a usage error has no hint, its hint is the help of the command."""
        try:
            return super().invoke(ctx)
        except FixUsage as error:
            error.hint = error.hint or f"{ctx.command_path} --help"
            raise

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the arguments, and then the options by group; groups come in order of appearance."""
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
        """Write the examples without wrapping lines."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            formatter.write_paragraph()
            formatter.write("Examples:\n")
            for line in self.examples.splitlines():
                formatter.write(f"  {line}\n" if line else "\n")


def named_values(
    words: Iterable[str], option: str, *, may_be_empty: bool = False
) -> dict[str, str]:
    """Return the words NAME=VALUE of a repeatable option as a mapping.

    With `may_be_empty`, the words are OLD=NEW: one side may be empty, and OLD may contain "=".
    """
    values: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if may_be_empty:
            name, sign, value = word.rpartition("=")
        is_pair = sign and (may_be_empty or (name and value))
        if not is_pair:
            raise FixUsage(f"{option} must be of the form NAME=VALUE, got {word!r}")
        if name in values:
            raise FixUsage(f"{option} names {name!r} twice")
        values[name] = value
    return values

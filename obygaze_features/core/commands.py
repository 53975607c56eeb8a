"""What all click commands share: lazy groups, groups of options, examples, --json."""

import copy
import importlib
import inspect
import itertools
import re
import shlex
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from obygaze_features import __version__
from obygaze_features.core import aliases
from obygaze_features.core.console import Console
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError, first_line
from obygaze_features.core.extension_commands import (
    HEADINGS,
    CommandEntry,
    extension_commands,
    read_commands,
)
from obygaze_features.core.options import ADVANCED
from obygaze_features.core.plugins import Plugin, warn_once
from obygaze_features.core.schema_rules import near
from obygaze_features.core.usage_errors import unexpected_words
from obygaze_features.core.value_types import ClipWords, Items, NameOrPath
from obygaze_features.core.workspace import Workspace

_PLUGIN = "obygaze.plugin"  # the key of a context for the plugin whose command runs
_AS_OPTIONS = "obygaze.as_options"  # that for the arguments that were typed as options
F = TypeVar("F", bound=Callable[..., Any])
# Takes the workspace and the values typed before, by parameter.
Lister = Callable[[Workspace, Mapping[str, Any]], Iterable[str]]


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


class _Text(click.types.StringParamType):
    """Text that a shell completes: by the names that the parameter takes, else by files."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so, or let the shell find files and folders."""
        items = [
            CompletionItem(name)
            for name in _names_for(ctx, param)
            if name.startswith(incomplete)
        ]
        return items or [CompletionItem(incomplete, type="file")]


class _NameOrPathText(_Text, NameOrPath):
    """A name or path that a shell completes."""


class _ListedText(Items):
    """Names in one word, of which a shell completes the last."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the word with each name that may follow in it."""
        before, separator, last = incomplete.rpartition(self.separator)
        return [
            CompletionItem(f"{before}{separator}{name}")
            for name in _names_for(ctx, param)
            if name.startswith(last)
        ]


class _ClipText(_ListedText, ClipWords):
    """Ids of clips in one word, of which a shell completes the last."""


def _names_for(ctx: click.Context, param: click.Parameter) -> Iterable[str]:
    """Return the names that a parameter takes; none where they cannot be read."""
    root = ctx.find_root()
    listers = root.command.listers if isinstance(root.command, LazyGroup) else {}
    _, _, words = ctx.command_path.partition(" ")
    name = param.name or ""
    lister = listers.get(f"{words} {name}") or listers.get(name)
    if lister is None:
        return ()
    workspace = Workspace(root.params["workspace"])
    try:
        return lister(workspace, _typed_before(ctx))
    except (ObygazeError, OSError, LookupError, TypeError, ValueError):
        return ()  # a line that is being completed has no place for an error


def _typed_before(ctx: click.Context) -> dict[str, Any]:
    """Return the values that were typed before the word to complete, by parameter.

    Behind an option that has no value yet, click has not told the arguments apart.
    """
    typed = {name: value for name, value in ctx.params.items() if value is not None}
    arguments = [
        param.name or ""
        for param in ctx.command.params
        if isinstance(param, click.Argument)
    ]
    for name, word in zip(arguments, ctx.args, strict=False):
        typed.setdefault(name, word)
    return typed


class SessionCommand(click.Command):
    """A command whose function gets the session first; every command has --json, -q and -v.

    Its help lists options by group. It ends with the lines of the docstring after `Examples:`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        about, _, examples = inspect.cleandoc(kwargs["help"] or "").partition(
            "\nExamples:\n"
        )
        kwargs |= {"help": about, "callback": pass_session(kwargs["callback"])}
        kwargs["context_settings"] = {"show_default": True}
        super().__init__(*args, **kwargs)
        self.examples = textwrap.dedent(examples)
        for param in self.params:
            if type(param.type) is click.types.StringParamType:
                param.type = _Text()
            if type(param.type) is NameOrPath:
                param.type = _NameOrPathText()
            if type(param.type) is ClipWords:
                param.type = _ClipText(param.type.separator)
            if type(param.type) is Items:
                param.type = _ListedText(param.type.separator)
        if not any("--json" in param.opts for param in self.params):
            json_option(self)
        _verbose_option(_quiet_option(self))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line; an error knows the command it belongs to."""
        typed = list(args)
        try:
            if not ctx.resilient_parsing:
                args = self._with_format(args)
                ctx.meta[_AS_OPTIONS] = self._arguments_as_options(args)
                self._refuse_repeated(ctx, args)
            extra = super().parse_args(ctx, args)
            if not ctx.resilient_parsing:
                self._reorder_names(ctx)
            return extra
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            error.hint = self._line_that_works(ctx, error, typed)  # type: ignore[attr-defined]
            raise

    def _line_that_works(
        self, ctx: click.Context, error: click.UsageError, typed: Sequence[str]
    ) -> str | None:
        """Return what to type in place of a wrong line, None if that is not known."""
        if isinstance(error, click.NoSuchOption):
            _, _, words = ctx.command_path.partition(" ")
            others = [word for word in typed if word != error.option_name]
            return aliases.option_instead(words, error.option_name, others)
        file_line = None
        if typed and isinstance(error, click.BadParameter):
            _, _, words = ctx.command_path.partition(" ")
            file_line = aliases.file_instead(words, typed)
        if file_line is not None:
            return file_line
        if unexpected_words(error) and "--where" in typed:
            return "quotes around an expression: --where 'level == S'"
        for word in unexpected_words(error):
            for param in ctx.command.params:
                is_option = isinstance(param, click.Option)
                if is_option and word in _names_for(ctx, param):
                    others = [other for other in typed if other != word]
                    return shlex.join(
                        [*ctx.command_path.split(), *others, param.opts[0], word]
                    )
        missing = error.param if isinstance(error, click.MissingParameter) else None
        if isinstance(missing, click.Option):
            line = [*ctx.command_path.split(), *typed, missing.opts[0]]
            return f"{shlex.join(line)} {missing.make_metavar(ctx)}"
        # A line that ends with a backslash goes on in the next one.
        joined = re.sub(r"\\\n\s*", "", self.examples)
        examples = [line for line in joined.splitlines() if line.strip()]
        if examples and missing is not None:
            completed = self._completed_line(ctx, typed, examples[0])
            return f"{completed}; {ctx.command_path} --help"
        takes_arguments = any(isinstance(p, click.Argument) for p in self.params)
        is_too_much = takes_arguments and unexpected_words(error)
        if examples and is_too_much:
            return f"{examples[0].strip()}; {ctx.command_path} --help"
        return None

    def _completed_line(
        self, ctx: click.Context, typed: Sequence[str], example: str
    ) -> str:
        """Return the example of a command with the names that were typed, at their places."""
        words_of_path = ctx.command_path.split()
        before_the_shell = example.partition(" > ")[0]
        try:
            words = shlex.split(before_the_shell)[len(words_of_path) :]
        except ValueError:  # quotes of a plugin that a shell would not take
            return example.strip()
        arguments = [
            param for param in self.params if isinstance(param, click.Argument)
        ]
        places = words[: len(arguments)]
        options = words[len(arguments) :]
        has_options = any(word.startswith("-") for word in [*typed, *places])
        if len(places) < len(arguments) or has_options:
            return example.strip()
        line = []
        n_typed = 0
        for param, word in zip(arguments, places, strict=True):
            names = sorted(_names_for(ctx, param))
            fitting = [name for name in typed if name in names]
            if not fitting and word not in names:
                fitting = names[:1]
            n_typed += bool(fitting and fitting[0] in typed)
            line.append(fitting[0] if fitting else word)
        if n_typed < len(typed):
            return example.strip()
        return shlex.join([*words_of_path, *line, *options])

    def _reorder_names(self, ctx: click.Context) -> None:
        """Accept names in another order, if each of them can be only one argument."""
        arguments = [
            param
            for param in self.params
            if isinstance(param, click.Argument)
            and isinstance(ctx.params.get(param.name or ""), str)
        ]
        values = [ctx.params[param.name or ""] for param in arguments]
        names = [set(_names_for(ctx, param)) for param in arguments]
        if len(values) < 2 or not all(names) or _fits(values, names):
            return
        orders = {
            order for order in itertools.permutations(values) if _fits(order, names)
        }
        if len(orders) != 1:
            return
        order = orders.pop()
        for param, value in zip(arguments, order, strict=True):
            ctx.params[param.name or ""] = value
        session = ctx.find_object(Session)
        if session is not None:
            session.console.note(
                f"read as {shlex.join([*ctx.command_path.split(), *order])}"
            )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; an argument that was typed as an option is an option."""
        as_options = ctx.meta.get(_AS_OPTIONS, {})
        return [as_options.get(param.name, param) for param in super().get_params(ctx)]

    def make_parser(self, ctx: click.Context) -> click.parser._OptionParser:
        """Return the parser, which knows the other names of options too."""
        parser = super().make_parser(ctx)
        for param in self.get_params(ctx):
            names = self._other_names(param) if isinstance(param, click.Option) else []
            if names:
                alias = copy.copy(param)
                alias.opts = names
                alias.secondary_opts = []
                alias.add_to_parser(parser, ctx)
        return parser

    def _known_flags(self) -> set[str]:
        """Return the names of all options, and those that arguments have as options."""
        flags: set[str] = set()
        for param in self.params:
            if isinstance(param, click.Argument):
                flags.update(aliases.flags_of_argument(param.name or ""))
            else:
                flags.update(param.opts, param.secondary_opts)
        return flags

    def _other_names(self, option: click.Option) -> list[str]:
        """Return the names of an option that the help does not list."""
        known = self._known_flags()
        names = aliases.other_names(option.opts, known, is_switch=option.is_flag)
        if "--output" in option.opts and option.metavar == "NAME":
            names.append("--name")
        return [name for name in names if name not in option.opts]

    def _with_format(self, args: list[str]) -> list[str]:
        """Return the words with the format first, where the first argument is one."""
        first = next((p for p in self.params if isinstance(p, click.Argument)), None)
        if (
            first is None
            or not isinstance(first.type, click.Choice)
            or not first.required
        ):
            return args
        return aliases.with_format(args, [str(kind) for kind in first.type.choices])

    def _arguments_as_options(self, args: list[str]) -> dict[str, click.Option]:
        """Return an option for each argument that was typed as one, by the argument's name."""
        end = args.index("--") if "--" in args else len(args)
        typed = {word.partition("=")[0] for word in args[:end] if word.startswith("-")}
        known = self._known_flags()
        flags_of_options = {
            flag
            for param in self.params
            if isinstance(param, click.Option)
            for flag in [*param.opts, *self._other_names(param)]
        }
        options = {}
        for param in self.params:
            if not isinstance(param, click.Argument) or not param.name:
                continue
            flags = aliases.flags_of_argument(param.name)
            flags += aliases.other_names(flags, known)
            flags = [flag for flag in flags if flag not in flags_of_options]
            if typed & {*flags}:
                options[param.name] = _as_option(param, flags)
        return options

    def _refuse_repeated(self, ctx: click.Context, args: list[str]) -> None:
        """Refuse a second value for an option that takes one: click would keep the last alone."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        given = [param.name for param in order]
        for param in order:
            takes_one = isinstance(param, click.Option) and not (
                param.multiple or param.is_flag or param.count
            )
            n_given = given.count(param.name)
            if takes_one and n_given > 1:
                name = max(param.opts, key=len)
                raise click.UsageError(
                    f"{name} takes one value, and is given {n_given} times", ctx
                )

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
        """List the arguments, then the options by group, as the groups first appear.

        The group of options that few people need comes last.
        """
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
        if ADVANCED in groups:
            groups[ADVANCED] = groups.pop(ADVANCED)
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


def _fits(values: Sequence[str], names: Sequence[Collection[str]]) -> bool:
    """Return whether each value is among the names at its place."""
    return all(value in known for value, known in zip(values, names, strict=True))


def _as_option(argument: click.Argument, flags: Sequence[str]) -> click.Option:
    """Return the option for an argument that was typed as one."""
    return click.Option(
        [argument.name or "", *flags],
        type=argument.type,
        required=argument.required,
        multiple=argument.nargs == -1,
        callback=argument.callback,
    )


class LazyGroup(click.Group):
    """A group whose table has 'module:attribute' and one line of help for each command.

    The table of the program itself has a heading too, under which its help lists the command.

    Listing the commands imports none of them; only the command that runs is imported. `words` are
    what a person types before the commands: () for the program itself, ("manifest",) for that
    group. Extensions add commands by these words, and a group without them has no extensions.
    `listers` of the program has for a parameter what lists the names that a shell offers for it.
    """

    command_class = SessionCommand

    def __init__(
        self,
        *args: Any,
        table: Mapping[str, tuple[str, str] | tuple[str, str, str]] | None = None,
        words: tuple[str, ...] | None = None,
        listers: Mapping[str, Lister] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.table = {
            name: CommandEntry(*entry) for name, entry in (table or {}).items()
        }
        self.words = words
        self.listers = dict(listers or {})
        # The root group has options of its own, which make the session.
        if not self.params:
            _verbose_option(_quiet_option(_hidden_json_option(self)))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table, then those of extensions."""
        listed = [*self.table, *super().list_commands(ctx)]
        added = [name for name in self.lazy_table() if name not in self.table]
        return [*listed, *added]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the one command that was asked for."""
        table = self.lazy_table()
        command = super().get_command(ctx, cmd_name)
        if cmd_name in table:
            module, attribute = table[cmd_name].target.split(":")
            command = getattr(importlib.import_module(module), attribute)
        if self.words is not None:
            words_of_command = (*self.words, cmd_name)
            if isinstance(command, LazyGroup):
                command.words = words_of_command
            else:
                _warn_without_group(words_of_command)
        return command

    def lazy_table(self) -> dict[str, CommandEntry]:
        """Return the commands of the table and of extensions; no extension replaces a command."""
        table = dict(self.table)
        if self.words is None:
            return table
        for name, entry in extension_commands().get(" ".join(self.words), {}).items():
            if name in self.table or name in self.commands:
                typed = " ".join([*self.words, name])
                where = entry.plugin.where if entry.plugin else "an extension"
                warn_once(
                    f"{where} adds {typed!r}, a command of obygaze; it is skipped"
                )
                continue
            table[name] = entry
        depth = len(self.words)
        for group_words in extension_commands():
            words = tuple(group_words.split())
            is_below = len(words) > depth and words[:depth] == self.words
            if is_below and words[depth] not in {*table, *self.commands}:
                _warn_without_group(words[: depth + 1])
        return table

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; an error suggests a similar one."""
        names = self.list_commands(ctx)
        is_known = args[0] in names or args[0].startswith("-")
        if not is_known and not ctx.resilient_parsing:
            args = self._with_known_command(ctx, args, names)
        name = args[0]
        entry = self.lazy_table().get(name)
        if entry is not None and entry.plugin is not None:
            ctx.meta[_PLUGIN] = entry.plugin  # read by `invoke`
        return super().resolve_command(ctx, args)

    def _with_known_command(
        self, ctx: click.Context, args: list[str], names: Sequence[str]
    ) -> list[str]:
        """Return the words with the command that the first one stands for.

        An error names the commands that were perhaps meant.
        """
        typed, *others = args
        if typed == "help":
            if not others:
                click.echo(ctx.get_help(), color=ctx.color)
                ctx.exit()
            return [*others, "--help"]
        if typed == "version" and not self.words:
            click.echo(f"obygaze {__version__}")
            ctx.exit()
        command = aliases.command_named(typed, names)
        if command is not None:
            return [command, *others]
        reader = aliases.command_for_file(self.words or (), typed)
        if reader is not None:
            return [reader, *args]
        group = " ".join(self.words or ())
        workspace = Workspace(ctx.find_root().params.get("workspace", "."))
        folder = aliases.FOLDERS.get(group)
        if folder and not others and typed in workspace.names(folder):
            return [aliases.SHOWN_BY[group], typed]
        below = self._commands_below(ctx, typed, others)
        if len(below) == 1:
            return [*below[0], *others]
        lines = [" ".join([ctx.command_path, *words, *others]) for words in below]
        if group == "extract" and typed in workspace.names("manifests"):
            lines = [f"{ctx.command_path} run {shlex.join(args)}"]
        if not lines:
            lines = aliases.lines_instead(self.words or (), args)
        error = click.UsageError(f"no command {typed!r}{near(typed, names)}", ctx)
        error.hint = ", or ".join(lines)  # type: ignore[attr-defined]
        raise error

    def _commands_below(
        self, ctx: click.Context, typed: str, others: Sequence[str]
    ) -> list[tuple[str, str]]:
        """Return the groups of the program with the commands that a word may stand for there.

        Where the next word names a manifest, a store or a model, the groups of these alone.
        """
        if self.words != ():
            return []
        below = []
        for name in self.list_commands(ctx):
            group = self.get_command(ctx, name)
            if not isinstance(group, LazyGroup):
                continue
            names = group.list_commands(ctx)
            command = typed if typed in names else aliases.command_named(typed, names)
            if command is not None:
                below.append((name, command))
        if not others:
            return below
        workspace = Workspace(ctx.params["workspace"])
        named = [
            (name, command)
            for name, command in below
            if name in aliases.FOLDERS
            and others[0] in workspace.names(aliases.FOLDERS[name])
        ]
        return named or below

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was typed; an error in the code of a package names the package."""
        try:
            return super().invoke(ctx)
        except (ObygazeError, click.ClickException, OSError, MemoryError):
            raise
        except (click.exceptions.Exit, click.exceptions.Abort):
            raise
        except Exception as error:
            plugin = ctx.meta.get(_PLUGIN)
            if plugin is None or plugin.is_ours:
                raise
            failed = (
                f"{plugin.where} failed: {type(error).__name__}: {first_line(error)}"
            )
            hint = (
                f"tell the authors of {plugin.package}; the same command with OBYGAZE_DEBUG=1 shows"
                " the traceback"
            )
            raise FixInput(failed, hint=hint) from error

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands with their one line, without importing them.

        The program itself lists them under its headings.
        """
        if self.words != ():
            with formatter.section("Commands"):
                formatter.write_dl(self._rows(ctx))
            return
        table = self.lazy_table()
        for heading in HEADINGS:
            rows = [row for row in self._rows(ctx) if table[row[0]].heading == heading]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the commands without importing them."""
        rows = [row for row in self._rows(ctx) if row[0].startswith(incomplete)]
        commands = [CompletionItem(name, help=summary) for name, summary in rows]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def _rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        table = self.lazy_table()
        rows = []
        for name in self.list_commands(ctx):
            if name in table:
                rows.append((name, table[name].summary))
                continue
            command = super().get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=80)))
        return rows


def _warn_without_group(words: Sequence[str]) -> None:
    """Warn of each command of an extension that is below these words, which are no group."""
    for group_words, table in extension_commands().items():
        if tuple(group_words.split())[: len(words)] != tuple(words):
            continue
        for name, entry in table.items():
            where = entry.plugin.where if entry.plugin else "an extension"
            warn_once(
                f"{where} adds '{group_words} {name}', but there is no group"
                f" {' '.join(words)!r}; it is skipped"
            )


def check_commands(plugin: Plugin, root: LazyGroup) -> None:
    """Raise an error for a plugin of which a command does not work or is never used.

    Args:
        plugin: A plugin of the group `obygaze.commands`.
        root: The group of the program itself.
    """
    ctx = click.Context(root)
    for words in read_commands(plugin):
        *group_words, name = words.split()
        group: click.Command | None = root
        for word in group_words:
            if isinstance(group, LazyGroup):
                group = group.get_command(ctx, word)
        if not isinstance(group, LazyGroup):
            typed = " ".join(group_words)
            raise plugin.refuse(f"adds {words!r}, but there is no group {typed!r}")
        entry = group.lazy_table().get(name)
        if entry is None or entry.plugin is None:
            raise plugin.refuse(f"adds {words!r}, a command of obygaze")
        if entry.plugin != plugin:
            raise plugin.refuse(f"adds {words!r}, as does {entry.plugin.where}")
        load = partial(group.get_command, ctx, name)
        plugin.call(load, f"has a command {words!r} that does not work")


def option_group(title: str, *options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine options into one decorator; the help lists them together under `title`.

    Example:
        @command()
        @option_group("Machine", click.option("--device"), click.option("--workers", type=int))
        def run(session: Session, device: str, workers: int) -> None: ...
    """

    def decorate(function: F) -> F:
        before = len(getattr(function, "__click_params__", ()))
        for option in reversed(options):
            function = option(function)
        for param in function.__click_params__[before:]:  # type: ignore[attr-defined]
            param.group = title  # read by SessionCommand
        return function

    return decorate


def named_values(words: Iterable[str], option: str) -> dict[str, str]:
    """Return the words NAME=VALUE of a repeatable option as a mapping."""
    values: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if not (name and value):
            raise FixUsage(f"{option} must be of the form NAME=VALUE, got {word!r}")
        if name in values:
            raise FixUsage(f"{option} names {name!r} twice")
        values[name] = value
    return values


force_option = click.option(
    "--force", is_flag=True, help="Replace the output if it exists."
)


def command(name: str | None = None) -> Callable[[Callable[..., Any]], SessionCommand]:
    """Make a command of a function; its name is that of the function by default."""
    return click.command(name, cls=SessionCommand)

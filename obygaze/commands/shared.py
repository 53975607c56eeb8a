"""What all commands share: the session, options, help, and how a result is printed.

A command is a function with the decorators of click. It calls one function of the program, and
returns its result. `Command` prints the result, as JSON of `to_json()` or as text. For None it
prints nothing, or with --json a document without a result. The result may also have

- `warnings`, sentences for stderr; a warning may be a pair of a sentence and a hint,
- `notes`, and `details` for -v: sentences for stderr, which are not printed with --json,
- `require_ok()`, which raises an error after all is printed,
- `without_details`, a note that is printed without -v if there are `details`,
- `quiet_text`, the text that is printed with -q,
- `parts`, results whose texts and notes are printed instead of the text of the result,
- `exit_code`, the exit code of the command; the default is 0,
- `json_in_one_line`, true for scripts that read the last line of the output.
"""

import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from obygaze_features.core import system
from obygaze_features.core.clip_ids import clip_ids, ids_of_word, is_file_name
from obygaze_features.core.console import Console, ProgressBars, count
from obygaze_features.core.errors import FixUsage, NotFound, near
from obygaze_features.core.shell import named_values, shell_word
from obygaze_features.core.workspace import Workspace
from obygaze_features.core.written_tables import Listing

F = TypeVar("F", bound=Callable[..., object])


class Result(Protocol):
    """What a command returns."""

    def to_json(self) -> Mapping[str, Any]:
        """Return the document that --json prints."""


@dataclass(frozen=True)
class Session:
    """The workspace and the console, which the global options select.

    `is_named` is true if -C named the workspace.
    """

    workspace: Workspace
    console: Console
    is_named: bool = False

    @property
    def root(self) -> Path:
        """The folder of the workspace."""
        return self.workspace.root

    @property
    def bars(self) -> ProgressBars:
        """The function that makes progress bars."""
        return partial(self.console.progress, unit="steps")

    def note_files(self, paths: Sequence[Path]) -> None:
        """Print a note for each file that was written."""
        for path in paths:
            self.console.note(f"wrote {path}")


def workspace_at(folder: Path) -> Workspace:
    """Return the workspace in a folder; raise an error if the folder is missing."""
    if not folder.is_dir():
        raise NotFound(
            "no such workspace: the folder of -C or OBYGAZE_WORKSPACE does not exist",
            where=str(folder),
            hint=f"check the name, or create the folder: mkdir {shell_word(folder)}",
        )
    return Workspace(folder)


# ---- types of values ---------------------------------------------------------------------------


class _Name(click.ParamType[str]):
    """A name in the workspace, a path or a URL, with `/` between folders on every system."""

    name = "path"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the text."""
        return system.typed_path(str(value))


class TypedPath(click.Path):
    """A typed path, with `/` between folders on every system."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.name = "path"  # the help shows PATH for files and folders alike

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Return the path."""
        if isinstance(value, str):
            value = system.typed_path(value)
        return super().convert(value, param, ctx)


class FiniteFloat(click.FloatRange):
    """A number within a range; not a number, and infinity, are refused."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Choice(click.Choice[str]):
    """One of several words; an error suggests the most similar word."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the expected words, with the word that is most like the typed value."""
        *others, last = self.choices
        listed = f"{', '.join(others)} or {last}" if others else last
        return f"must be {listed}, got {value!r}{near(str(value), self.choices)}"


NAME = _Name()
FILE = TypedPath(dir_okay=False)
WORKSPACE_FOLDER = TypedPath(file_okay=False, path_type=Path)


# ---- options that are allowed after any word ---------------------------------------------------


def _choose_workspace(
    ctx: click.Context, param: click.Parameter, value: Path | None
) -> None:
    """Change the workspace of the session."""
    session = ctx.find_object(Session)
    if value is None or session is None:
        return
    if session.is_named:
        raise _given_twice(ctx, param)
    ctx.obj = replace(session, workspace=workspace_at(value), is_named=True)


def _change_console(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Change the console of the session."""
    session = ctx.find_object(Session)
    if value and session is not None:
        louder = {"quiet": -1, "verbose": 1}.get(param.name, 0)
        verbosity = session.console.verbosity + louder
        as_json = session.console.as_json or param.name == "json"
        ctx.obj = replace(session, console=Console(verbosity, as_json))


def _global_options() -> list[click.Parameter]:
    """Return the options of the program that are allowed after any word."""
    switch = partial(
        click.Option, is_flag=True, expose_value=False, callback=_change_console
    )
    return [
        switch(["--json"], help="Print one JSON document."),
        click.Option(
            ["-C", "--workspace"],
            type=WORKSPACE_FOLDER,
            metavar="FOLDER",
            expose_value=False,
            callback=_choose_workspace,
            help="Work in this workspace.",
        ),
        switch(["-q", "--quiet"], hidden=True),
        switch(["-v", "--verbose"], hidden=True),
    ]


# ---- commands and groups -----------------------------------------------------------------------


def _given_twice(ctx: click.Context, param: click.Parameter) -> FixUsage:
    return FixUsage(
        f"{'/'.join(param.opts)} is given twice", hint=f"{ctx.command_path} --help"
    )


def _refuse_repeated_options(
    command: click.Command, ctx: click.Context, args: list[str]
) -> None:
    """Raise an error if an option that takes one value is repeated; click would take the last."""
    _, _, given = command.make_parser(ctx).parse_args(list(args))
    for param in given:
        if not isinstance(param, click.Option) or param.is_flag or param.multiple:
            continue
        if given.count(param) > 1:
            raise _given_twice(ctx, param)


@contextmanager
def _help_as_hint(ctx: click.Context) -> Iterator[None]:
    """Make the help of the command the hint of a usage error without a hint."""
    try:
        yield
    except FixUsage as error:
        error.hint = error.hint or f"{ctx.command_path} --help"
        raise


class Command(click.Command):
    """A command whose result is printed. The lines after `Examples:` are not wrapped.

    `headings` has the names of options under each heading of the help; other options are listed
    under "Options". With `prints`, the command prints to stdout itself.
    """

    def __init__(
        self,
        *args: Any,
        headings: Mapping[str, str] | None = None,
        prints: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.context_settings["show_default"] = True
        self.headings = headings or {}
        self.prints = prints
        about, _, examples = inspect.cleandoc(self.help or "").partition(
            "\nExamples:\n"
        )
        self.help = about
        self.examples = inspect.cleandoc(f"\n{examples}")
        self.params += _global_options()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; raise an error if an option that takes one value is repeated."""
        _refuse_repeated_options(self, ctx, args)
        with _help_as_hint(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        """Run the command and print its result; what user code prints goes to stderr."""
        session = ctx.find_object(Session)
        assert session is not None
        with _help_as_hint(ctx):
            with nullcontext() if self.prints else redirect_stdout(sys.stderr):
                result = super().invoke(ctx)
            show_result(session.console, result)

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the options under their headings."""
        heading_of = {}
        for heading, names in self.headings.items():
            heading_of.update(dict.fromkeys(names.split(), heading))
        sections: dict[str, list[tuple[str, str]]] = {
            heading: [] for heading in self.headings
        }
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                name = max(param.opts, key=len).lstrip("-")
                heading = heading_of.get(name, "Options")
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples without wrapping lines."""
        if self.examples:
            formatter.write("\nExamples:\n")
            for line in self.examples.splitlines():
                formatter.write(f"  {line}\n")


class Group(click.Group):
    """A group that lists its commands under headings, in the order of work."""

    command_class = Command

    def __init__(
        self, *args: Any, headings: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.headings = headings or {}
        # The root group has its own options, which create the session.
        if not self.params:
            self.params += _global_options()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; raise an error if an option that takes one value is repeated."""
        _refuse_repeated_options(self, ctx, args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the help."""
        listed = " ".join(self.headings.values()).split()
        return list(dict.fromkeys([*listed, *self.commands]))

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands with one line each, under their headings."""
        names = self.list_commands(ctx)
        for heading, listed in (self.headings or {"Commands": " ".join(names)}).items():
            rows = [(name, self.summary(ctx, name)) for name in listed.split()]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return the first line of the help of a command."""
        command = self.get_command(ctx, name)
        assert command is not None
        return (command.help or "").partition("\n")[0]


# ---- options that commands share ---------------------------------------------------------------

force_option = click.option(
    "--force", is_flag=True, help="Replace the output if it exists."
)
table_output_option = click.option(
    "-o",
    "--output",
    type=NAME,
    metavar="PATH",
    help="Write the table to this file: .csv or .xlsx.",
)


def mapping_option(
    *names: str,
    metavar: str,
    help: str,
    may_be_empty: bool = False,
    is_path: bool = False,
    show_default: str | bool = False,
) -> Callable[[F], F]:
    """Return a repeatable option for NAME=VALUE. Its value is a mapping, or None if not typed.

    Args:
        names: The option, and the name of the parameter.
        metavar: Placeholder in the help.
        help: The text in the help.
        may_be_empty: Whether NAME or VALUE may be empty.
        is_path: Whether the values are names of the workspace or paths.
        show_default: The default in the help, if any.
    """

    def read(
        ctx: click.Context, param: click.Parameter, words: Sequence[str]
    ) -> Mapping[str, str] | None:
        with _help_as_hint(ctx):
            pairs = named_values(words, param.opts[0], may_be_empty=may_be_empty)
        if is_path:
            pairs = {name: system.typed_path(text) for name, text in pairs.items()}
        return pairs or None

    return click.option(
        *names,
        multiple=True,
        callback=read,
        metavar=metavar,
        show_default=show_default,
        help=f"{help} Repeatable.",
    )


def clips_option(help: str) -> Callable[[F], F]:
    """Return the option --clips, for clip ids or files that list clip ids."""
    return click.option(
        "--clips",
        multiple=True,
        callback=_read_clips,
        metavar="IDS|FILE",
        help=f"{help} Repeatable.",
    )


def _read_clips(
    ctx: click.Context, param: click.Parameter, words: Sequence[str]
) -> Sequence[str]:
    """Return the ids in words: an id, several with commas between them, or a file of ids."""
    ids: list[str] = []
    for word in words:
        ids_in_word: list[str] = []
        if is_file_name(word):
            ids_in_word = clip_ids(word)
        else:
            for name in split_items(word):
                ids_in_word += ids_of_word(name)
        if not ids_in_word:
            raise click.BadParameter(
                "must be ids separated by commas, or a file", ctx, param
            )
        ids += ids_in_word
    return tuple(ids)


def split_items(text: str) -> Sequence[str]:
    """Return the items of a text with commas between them."""
    stripped = (item.strip() for item in text.split(","))
    return tuple(item for item in stripped if item)


# ---- results -----------------------------------------------------------------------------------


def write_listing(
    session: Session, listing: Listing, output: str | None, *, force: bool
) -> None:
    """Write the table of a result to a file, and print a note with the number of its rows."""
    for path in listing.write(output, force=force):
        session.console.note(f"wrote {path}: {count(listing.n_rows, 'row')}")


def show_result(console: Console, result: Result | None) -> None:
    """Print a result, its warnings and its notes, and exit with its exit code."""
    if result is None:
        if console.as_json:
            console.json({})
        return
    for warning in _optional_attribute(result, "warnings", ()):
        sentence, hint = (warning, "") if isinstance(warning, str) else warning
        console.warn(sentence, hint)
    if console.as_json:
        one_line = _optional_attribute(result, "json_in_one_line", False)
        console.json(result.to_json(), one_line=one_line)
    else:
        parts = _optional_attribute(result, "parts", [result])
        for part in parts:
            text = str(part)
            if console.verbosity < 0:
                text = _optional_attribute(part, "quiet_text", text)
            if text:
                console.result(text)
            if part is not result:
                _show_notes(console, part)
        _show_notes(console, result)
    require_ok = _optional_attribute(result, "require_ok", None)
    if require_ok is not None:
        require_ok()
    exit_code = _optional_attribute(result, "exit_code", 0)
    if exit_code:
        click.get_current_context().exit(exit_code)


def _optional_attribute(result: object, name: str, missing: Any) -> Any:
    """Return an optional attribute of a result, or `missing` if the result lacks it.

    An AttributeError that the attribute itself raises is not hidden.
    """
    is_there = inspect.getattr_static(result, name, None) is not None
    return getattr(result, name) if is_there else missing


def _show_notes(console: Console, result: object) -> None:
    """Print the notes and details of a result to stderr."""
    for note in _optional_attribute(result, "notes", ()):
        console.note(note)
    details = _optional_attribute(result, "details", ())
    for detail in details:
        console.detail(detail)
    instead = _optional_attribute(result, "without_details", "")
    if instead and details and console.verbosity < 1:
        console.note(instead)

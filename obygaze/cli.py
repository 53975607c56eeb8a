"""The `obygaze` command: its global options, and the exit code of each error."""

import errno
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from obygaze.commands.shared import WORKSPACE_FOLDER, Group, Session, workspace_at
from obygaze_features import __version__
from obygaze_features.core import system
from obygaze_features.core.console import (
    JSON_VERSION,
    Console,
    json_text,
    printable,
)
from obygaze_features.core.errors import (
    EXIT_INTERRUPTED,
    ObygazeError,
    ObygazeWarning,
    Stopped,
)
from obygaze_features.core.signals import on_signals

# The number of details that are printed above an error without -v.
SHOWN_DETAILS = 10

# Hints for errors of the operating system, where "check the path" is not enough.
SYSTEM_HINTS = {
    errno.EACCES: "use a file or folder with read and write permission",
    errno.EPERM: "use a file or folder with read and write permission",
    errno.EROFS: "choose another folder; this disk is read-only",
    errno.ENOSPC: "free space on the disk, then run the same command again",
    errno.EFBIG: "allow larger files (ulimit -f), or choose a disk that allows them",
    errno.EDQUOT: "free space within your quota, then run the same command again",
}


# The groups and commands under each heading of the help, in the order of work, with the first line
# of their help: the help of the program imports none of them.
COMMANDS = {
    "Start": {
        "demo": "Try everything on made-up films, offline, in a minute or two.",
        "doctor": "Check the installation and this machine.",
        "ls": "List what is in the workspace.",
    },
    "Clips and labels": {
        "manifest": "Import, look at and change tables of clips.",
        "marks": "Read and write marks in films: ELAN files.",
        "video": "Look into a video file.",
    },
    "Features": {
        "backbones": "List and download the models that make features.",
        "extract": "Compute the features of clips.",
        "store": "Look at, check, cut and share stores of features.",
        "search": "Find the clips that are most like a text or a clip.",
    },
    "Experiments": {
        "protocols": "List and print the protocols that `run` takes.",
        "run": "Train and test the models of a protocol.",
        "train": "Train, test and save one model.",
        "report": "Write the page, tables and figures of runs.",
        "compare": "Compare runs on the clips they share.",
        "models": "Use and share saved models.",
    },
    "Films": {
        "view": "Watch films with their labels and scores.",
        "explain": "Draw where and when a model sees a concept.",
    },
    "Labels and bias": {
        "agree": "Measure how far annotators agree.",
        "audit": "Test labels, captions and features for bias.",
    },
}
SUMMARIES = {
    name: line for listed in COMMANDS.values() for name, line in listed.items()
}
# The module in `obygaze/commands` of a command whose name is not the name of its module.
MODULES = {
    "demo": "start",
    "doctor": "start",
    "ls": "start",
    "search": "extract",
    "run": "experiments",
    "train": "experiments",
    "report": "experiments",
    "compare": "experiments",
    "agree": "audit",
}


class Program(Group):
    """The group of all commands; a module of commands is imported when it is used."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command."""
        if cmd_name not in SUMMARIES:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"obygaze.commands.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return the first line of the help of a command."""
        return SUMMARIES[name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word; an error suggests a similar command."""
        name = args[0]
        names = self.list_commands(ctx)
        is_option = name.startswith("-")
        if name not in names and not is_option and not ctx.resilient_parsing:
            raise click.NoSuchCommand(name, possibilities=names, ctx=ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Program,
    headings={heading: " ".join(listed) for heading, listed in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "-C",
    "--workspace",
    "workspace",
    type=WORKSPACE_FOLDER,
    envvar="OBYGAZE_WORKSPACE",
    default=".",
    metavar="FOLDER",
    help="Work in this workspace instead of the current folder.",
)
@click.option(
    "-q", "--quiet", is_flag=True, help="Print only results, warnings and errors."
)
@click.option("-v", "--verbose", is_flag=True, help="Print more details.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.version_option(
    __version__, message="obygaze %(version)s", help="Print the version and exit."
)
@click.pass_context
def root(
    ctx: click.Context, workspace: Path, quiet: bool, verbose: bool, as_json: bool
) -> None:
    """Features of film clips in stores, and small models that are tested on unseen films.

    Names are looked up in the workspace: the current folder, or that of -C.
    """
    source = ctx.get_parameter_source("workspace")
    is_typed = source is not None and source.name == "COMMANDLINE"
    console = Console(verbosity=verbose - quiet, as_json=as_json)
    ctx.obj = Session(workspace_at(workspace), console, is_named=is_typed)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit with its exit code."""
    system.use_utf8_streams()
    exit_code = run_line(argv)
    if exit_code == EXIT_INTERRUPTED:
        # Python would wait for threads that compute a clip.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)
    sys.exit(exit_code)


def run_line(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error becomes at most three lines."""
    words = list(sys.argv[1:] if argv is None else argv)
    options = words[: words.index("--")] if "--" in words else words
    # With None, the stream decides about colours.
    color = False if os.environ.get("NO_COLOR") else None
    try:
        with (
            on_signals(("SIGTERM", *system.HANGUP_SIGNALS), _terminate),
            _warnings_in_a_line(),
        ):
            code = root.main(
                args=argv, prog_name="obygaze", standalone_mode=False, color=color
            )
        return code if type(code) is int else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True, color=color)
        return error.exit_code
    except Exception as error:
        is_abort = isinstance(error, click.exceptions.Abort)
        if is_abort and isinstance(error.__cause__, EOFError):
            error = error.__cause__  # click treats a file that ends too early as Ctrl-D
        is_of_click = isinstance(error, click.ClickException | click.exceptions.Abort)
        if os.environ.get("OBYGAZE_DEBUG") and not is_of_click:
            raise error
        explained = _printable_error(error)
        with suppress(OSError):  # the terminal may be closed
            _print(explained, color, options)
        return explained.exit_code


def _print(error: ObygazeError, color: bool | None, options: Sequence[str]) -> None:
    """Print the details of an error, and below them the error.

    With --json, print all of this as a JSON document in one line.
    """
    if "--json" in options:
        document = {
            key: getattr(error, key) for key in ("message", "where", "hint", "details")
        }
        document = {"error": document, "exit_code": error.exit_code}
        click.echo(json_text({"json_version": JSON_VERSION, **document}), err=True)
        return
    for line in _details_to_print(
        error, is_verbose=bool({"-v", "--verbose"} & {*options})
    ):
        click.echo(printable(line), err=True)
    label = click.style("Error: ", fg="red", bold=True)
    click.echo(label + printable(error.text), err=True, color=color)


def _details_to_print(error: ObygazeError, *, is_verbose: bool) -> list[str]:
    """Return the details to print above an error.

    With -v these are all details. Without -v they are the first details, and the number of the
    other details.
    """
    if is_verbose:
        return list(error.details)
    shown = list(error.details[:SHOWN_DETAILS])
    n_more = len(error.details) - len(shown)
    if n_more:
        shown.append(f"... and {n_more} more lines; -v shows them")
    return shown


def _printable_error(error: Exception) -> ObygazeError:
    """Return the error to print, with the exit code of the process."""
    if isinstance(error, ObygazeError):
        return error
    if isinstance(error, click.exceptions.Abort):
        return _abort_error(error)
    if isinstance(error, click.ClickException):
        return _click_error(error)
    if isinstance(error, OSError):
        return _system_error(error)
    if isinstance(error, ModuleNotFoundError):
        explained = ObygazeError(
            f"the package {error.name!r} is not installed",
            hint="obygaze doctor",
        )
        explained.exit_code = 2
        return explained
    from obygaze_features.core.machine import is_out_of_memory

    first = (str(error).splitlines() or [""])[0]
    if is_out_of_memory(error) and "CUDA" in first:
        return ObygazeError(
            "not enough free memory on the GPU",
            hint="use --dtype bfloat16, fewer backbones in one run, or a different --device;"
            " nvidia-smi lists the programs that use the GPU",
        )
    if is_out_of_memory(error):
        return ObygazeError(
            ": ".join(filter(None, ["not enough memory", first])),
            hint="use fewer --jobs, features with fewer values per clip, or a machine with more"
            " memory",
        )
    return ObygazeError(
        f"a bug in obygaze: {type(error).__name__}: {first}",
        hint="run the same command with OBYGAZE_DEBUG=1 to see the traceback",
    )


def _abort_error(error: click.exceptions.Abort) -> ObygazeError:
    """Return the error to print after a signal or Ctrl-C.

    The last note of the exception that caused `error` becomes the hint. All other notes of this
    exception state what was kept, and become part of the message.
    """
    notes = list(getattr(error.__cause__, "__notes__", []))
    hint = notes.pop() if notes else None
    message = "interrupted"
    exit_code = EXIT_INTERRUPTED
    if isinstance(error.__cause__, _Terminated):
        message = f"stopped by {error.__cause__.signal_name}"
        exit_code = Stopped.exit_code
    explained = ObygazeError(": ".join([message, *notes]), hint=hint)
    explained.exit_code = exit_code
    return explained


def _click_error(error: click.ClickException) -> ObygazeError:
    """Return an error of options and arguments; its hint is the command that shows the help."""
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.option_name == "--force":
        # click would suggest an option of a similar name, which does something else.
        message = "No such option '--force'."
    hint = None
    if isinstance(error, click.UsageError) and error.ctx:
        hint = f"{error.ctx.command_path} --help"
    explained = ObygazeError(message, hint=hint)
    explained.exit_code = error.exit_code
    return explained


def _system_error(error: OSError) -> ObygazeError:
    """Return an error of the operating system, with the file and what to do."""
    where = None
    if isinstance(error.filename, str | Path):
        where = os.fspath(error.filename)
    hint = SYSTEM_HINTS.get(error.errno or 0)
    if not hint and where:
        hint = "check the path"
    return ObygazeError(error.strerror or str(error), where=where, hint=hint)


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Print each warning of obygaze once, as the console prints it.

    All other warnings are printed as Python prints them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", ObygazeWarning)
        show_as_python = warnings.showwarning
        shown: set[str] = set()

        def show(
            message: Warning | str,
            category: type[Warning],
            *position: Any,
            **output: Any,
        ) -> None:
            if issubclass(category, ObygazeWarning):
                if str(message) not in shown:
                    Console().warn(str(message))
                shown.add(str(message))
            else:
                show_as_python(message, category, *position, **output)

        warnings.showwarning = show
        yield


class _Terminated(KeyboardInterrupt):
    """A signal asked the command to end. The command cleans up as it does after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.signal_name = signal.Signals(number).name


def _terminate(number: int, frame: object) -> None:
    # A closing terminal may send two signals, and the second must not interrupt the cleanup.
    signal.signal(number, signal.SIG_IGN)
    raise _Terminated(number)

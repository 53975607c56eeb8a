"""The `obygaze` command: the table of sub-commands, global options, errors to exit codes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from obygaze_features import __version__
from obygaze_features.core.commands import LazyGroup, Session
from obygaze_features.core.console import JSON_VERSION, Console, json_text, printable, wants_color
from obygaze_features.core.errors import (
    EXIT_INTERRUPTED,
    NotFound,
    ObygazeError,
    Stopped,
    without_secrets,
)
from obygaze_features.core.workspace import Workspace

COMMANDS = {
    "doctor": ("obygaze.doctor:doctor", "Show versions, codecs, caches, and what is missing."),
    "demo": (
        "obygaze.demo.tour:demo",
        "Run all steps on made-up films, offline, in under a minute.",
    ),
    "manifest": (
        "obygaze_features.manifest.commands:manifest",
        "Import, inspect and edit manifests: clips, labels, splits.",
    ),
    "video": (
        "obygaze_features.video.commands:video",
        "Describe video files, and save the pictures that a model sees of them.",
    ),
    "backbones": (
        "obygaze_features.backbones.commands:backbones",
        "List and check the video and image models.",
    ),
    "store": (
        "obygaze_features.store.commands:store",
        "Inspect, verify, edit and share feature stores.",
    ),
    "extract": (
        "obygaze_features.extraction.commands:extract",
        "Extract features from videos, with several backbones in one pass.",
    ),
    "train": (
        "obygaze.commands_run:train",
        "Train one model, evaluate it on unseen films, and save it.",
    ),
    "run": (
        "obygaze.commands_run:run",
        "Run an experiment: train and test every cell of a protocol.",
    ),
    "report": (
        "obygaze_models.report.commands:report",
        "Write the report of runs: a page, tables, figures.",
    ),
    "models": (
        "obygaze_models.zoo.commands:models",
        "Inspect, verify, use and share saved models.",
    ),
    "audit": (
        "obygaze_models.audits.commands:audit",
        "Measure bias in vectors and texts, or score MediaEval runs.",
    ),
    "bench": (
        "obygaze_features.extraction.commands_bench:bench",
        "Measure this machine on your own films, backbones and stores.",
    ),
}

# Hints for errors of the operating system that have no message of their own.
SYSTEM_HINTS = {
    errno.EACCES: "use a file or folder with read and write permission",
    errno.EPERM: "use a file or folder with read and write permission",
    errno.EROFS: "choose another folder with -C or -o; this disk is read-only",
    errno.ENOSPC: "free space on the disk, then run the same command again",
    errno.EDQUOT: "free space within your quota, then run the same command again",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ENOENT: "check the name",
    errno.ENOTDIR: "check the path: a part of it is a file",
    errno.EEXIST: "check the path: it exists already",
    errno.EISDIR: "check the path: it is a folder",
}


def _choose_color(ctx: click.Context, param: click.Parameter, value: str) -> None:
    # Eager, so that an error in the rest of the line has the chosen colour.
    ctx.color = wants_color(value)
    if isinstance(ctx.obj, _ErrorPrinter):
        ctx.obj.color = ctx.color


@click.group(
    cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "-C",
    "workspace",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="OBYGAZE_WORKSPACE",
    default=".",
    help="Work in this workspace instead of the current folder.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only results, warnings and errors.")
@click.option("-v", "--verbose", is_flag=True, help="Print more details.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    is_eager=True,
    expose_value=False,
    callback=_choose_color,
    help="Use colour.",
)
@click.version_option(
    __version__, message="obygaze %(version)s", help="Print the version and exit."
)
@click.pass_context
def root(ctx: click.Context, workspace: Path, quiet: bool, verbose: bool) -> None:
    """Extract features of film clips into stores, and train models on them."""
    if not workspace.is_dir():
        raise NotFound(
            "no such workspace: the folder of -C or OBYGAZE_WORKSPACE does not exist",
            where=str(workspace),
            hint=f"check the name, or mkdir {workspace}",
        )
    console = Console(verbosity=verbose - quiet, color=ctx.color)
    ctx.obj = Session(workspace=Workspace(workspace), console=console)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit with its exit code."""
    sys.exit(run(argv))


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error becomes at most three lines."""
    words = list(sys.argv[1:] if argv is None else argv)
    options = words[: words.index("--")] if "--" in words else words
    printer = _ErrorPrinter(wants_color("auto"), as_json="--json" in options)
    try:
        with _interrupted_by_sigterm():
            code = root.main(args=argv, prog_name="obygaze", standalone_mode=False, obj=printer)
        return code if type(code) is int else 0
    except click.exceptions.Abort as abort:
        return _interrupted(printer, abort)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True, color=printer.color)
        return error.exit_code
    except click.ClickException as error:
        return printer.error(error.format_message(), None, _usage_hint(error), error.exit_code)
    except ObygazeError as error:
        _reraise_if_debugging()
        return printer.error(error.what, error.where, error.hint, error.exit_code, error.details)
    except OSError as error:
        _reraise_if_debugging()
        where = os.fspath(error.filename) if isinstance(error.filename, str | Path) else None
        return printer.error(
            error.strerror or str(error), where, SYSTEM_HINTS.get(error.errno or 0)
        )
    except Exception as error:  # noqa: BLE001 - a bug is reported in at most three lines too
        _reraise_if_debugging()
        return _bug(printer, error)


@dataclass
class _ErrorPrinter:
    """Prints errors; the root command sets the colour once the options are parsed."""

    color: bool | None
    as_json: bool = False

    def error(
        self,
        what: str,
        where: str | None = None,
        hint: str | None = None,
        code: int = 1,
        details: Sequence[str] = (),
    ) -> int:
        """Print an error below its details in at most three lines, and return its exit code.

        Line breaks in a message become spaces. With --json it is one line, a JSON document.
        """
        if self.as_json:
            error = {"what": what, "where": where, "hint": hint, "details": list(details)}
            document = {"json_version": JSON_VERSION, "error": error, "exit_code": code}
            click.echo(json_text(document), err=True)
            return code
        for line in details:
            click.echo(printable(line), err=True)
        lines = [click.style("Error: ", fg="red", bold=True) + _one_line(what)]
        lines += [f"  in: {_one_line(where)}"] if where else []
        lines += [f"  Try: {_one_line(hint)}"] if hint else []
        click.echo(printable("\n".join(lines)), err=True, color=self.color)
        return code


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def _interrupted(printer: _ErrorPrinter, abort: click.exceptions.Abort) -> int:
    # click treats a file that ends too early (EOFError) as Ctrl-D.
    if isinstance(abort.__cause__, EOFError):
        _reraise_if_debugging()
        return _bug(printer, abort.__cause__)
    hint = " ".join(getattr(abort.__cause__, "__notes__", [])) or None
    if isinstance(abort.__cause__, _Terminated):
        return printer.error("stopped by SIGTERM", hint=hint, code=Stopped.exit_code)
    return printer.error("interrupted", hint=hint, code=EXIT_INTERRUPTED)


class _Terminated(KeyboardInterrupt):
    """SIGTERM: the command cleans up as after Ctrl-C."""


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    def terminate(number: int, frame: object) -> None:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():
        yield  # where Python allows no handlers
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _bug(printer: _ErrorPrinter, error: Exception) -> int:
    first_line = without_secrets((str(error).splitlines() or [""])[0])
    return printer.error(
        f"a bug in obygaze: {type(error).__name__}: {first_line}",
        hint="run the same command with OBYGAZE_DEBUG=1 to see the traceback",
    )


def _usage_hint(error: click.ClickException) -> str | None:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return f"{ctx.command_path} --help" if ctx else None


def _reraise_if_debugging() -> None:
    if os.environ.get("OBYGAZE_DEBUG"):
        raise

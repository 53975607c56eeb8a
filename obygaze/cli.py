"""The `obygaze` command: a lazy table of sub-commands, global options, error to exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from obygaze_features.core.commands import LazyGroup, Session
from obygaze_features.core.console import Console, wants_color
from obygaze_features.core.errors import EXIT_INTERRUPTED, ObygazeError
from obygaze_features.core.workspace import Workspace

COMMANDS = {
    "doctor": ("obygaze.doctor:doctor", "Versions, codecs, caches, what is missing."),
    "demo": (
        "obygaze.demo.tour:demo",
        "Take the tour on made-up films, offline, in under a minute.",
    ),
    "manifest": ("obygaze_features.manifest.commands:manifest", "Clips, labels, concepts, splits."),
    "video": (
        "obygaze_features.video.commands:video",
        "What a video file holds, and what a model would see of it.",
    ),
    "backbones": (
        "obygaze_features.backbones.commands:backbones",
        "Video and image models, and what is known of each.",
    ),
    "store": ("obygaze_features.store.commands:store", "Feature stores: look, check, cut, share."),
    "extract": (
        "obygaze_features.extraction.commands:extract",
        "From videos to stores, from many backbones in one pass.",
    ),
    "train": (
        "obygaze.commands_run:train",
        "Train one model, judge it on unseen films, and keep it.",
    ),
    "run": (
        "obygaze.commands_run:run",
        "Run an experiment: train, test and judge every cell of a protocol.",
    ),
    "report": (
        "obygaze_models.report.commands:report",
        "Write what runs found: a page, tables, figures.",
    ),
    "models": (
        "obygaze_models.zoo.commands:models",
        "Saved models, looked at, checked, asked and shared.",
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

# What to do about an answer of the system that no room has words of its own for.
WAYS_OUT = {
    errno.EACCES: "a file or folder that you may read, or write to, here",
    errno.EPERM: "a file or folder that you may read, or write to, here",
    errno.EROFS: "another folder with -C or -o: this disk cannot be written to",
    errno.ENOSPC: "make room on the disk, then the same command again",
    errno.EDQUOT: "make room within your quota, then the same command again",
    errno.ENAMETOOLONG: "a shorter name",
    errno.ENOENT: "look at the name again",
    errno.ENOTDIR: "look at the path again: a part of it is a file",
    errno.EEXIST: "look at the path again: it is something else",
    errno.EISDIR: "look at the path again: it is a folder",
}


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from obygaze_features import __version__

        click.echo(f"obygaze {__version__}")
        ctx.exit()


def _choose_color(ctx: click.Context, param: click.Parameter, value: str) -> None:
    # Eager, so that an error in the rest of the line is told in the colour that was asked for.
    ctx.color = wants_color(value)
    if isinstance(ctx.obj, _Talk):
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
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but results, warnings and errors.")
@click.option("-v", "--verbose", is_flag=True, help="Say more.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    is_eager=True,
    expose_value=False,
    callback=_choose_color,
    help="Use colour.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version and stop.",
)
@click.pass_context
def root(ctx: click.Context, workspace: Path, quiet: bool, verbose: bool) -> None:
    """Features of film clips in stores that can be shared, and models that learn from them."""
    console = Console(verbosity=verbose - quiet, color=ctx.color)
    ctx.obj = Session(workspace=Workspace(workspace), console=console)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code."""
    sys.exit(run(argv))


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error becomes at most three lines."""
    talk = _Talk(wants_color("auto"))
    try:
        code = root.main(args=argv, prog_name="obygaze", standalone_mode=False, obj=talk)
        return code if type(code) is int else 0
    except click.exceptions.Abort as abort:
        return _interrupted(talk, abort)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True, color=talk.color)
        return error.exit_code
    except click.ClickException as error:
        talk.error(error.format_message(), hint=_usage_hint(error))
        return error.exit_code
    except ObygazeError as error:
        _reraise_if_debugging()
        for line in error.details:
            click.echo(line, err=True)
        talk.error(error.what, error.where, error.hint)
        return error.exit_code
    except OSError as error:
        _reraise_if_debugging()
        where = os.fspath(error.filename) if isinstance(error.filename, str | Path) else None
        talk.error(error.strerror or str(error), where, WAYS_OUT.get(error.errno or 0))
        return 1
    except Exception as error:  # noqa: BLE001 - the last line of defence: bugs end in lines too
        _reraise_if_debugging()
        return _bug(talk, error)


@dataclass
class _Talk:
    """How errors are told; the root command corrects the colour once it knows the options."""

    color: bool | None

    def error(self, what: str, where: str | None = None, hint: str | None = None) -> None:
        """At most three lines, whatever line breaks a message from elsewhere has."""
        lines = [click.style("Error: ", fg="red", bold=True) + _one_line(what)]
        lines += [f"  in: {_one_line(where)}"] if where else []
        lines += [f"  Try: {_one_line(hint)}"] if hint else []
        click.echo("\n".join(lines), err=True, color=self.color)


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def _interrupted(talk: _Talk, abort: click.exceptions.Abort) -> int:
    # click takes a file that ends too early (EOFError) for a person's Ctrl-D.
    if isinstance(abort.__cause__, EOFError):
        _reraise_if_debugging()
        return _bug(talk, abort.__cause__)
    talk.error("interrupted")
    return EXIT_INTERRUPTED


def _bug(talk: _Talk, error: Exception) -> int:
    first_line = (str(error).splitlines() or [""])[0]
    talk.error(
        f"a bug in obygaze: {type(error).__name__}: {first_line}",
        hint="the same command with OBYGAZE_DEBUG=1 shows where",
    )
    return 1


def _usage_hint(error: click.ClickException) -> str | None:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return f"{ctx.command_path} --help" if ctx else None


def _reraise_if_debugging() -> None:
    if os.environ.get("OBYGAZE_DEBUG"):
        raise

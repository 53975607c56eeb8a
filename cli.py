"""The `obygaze` command: a lazy table of sub-commands, global options, error to exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from obygaze_features.core.commands import LazyGroup, Session
from obygaze_features.core.console import Console, wants_color
from obygaze_features.core.errors import EXIT_INTERRUPTED, ObygazeError
from obygaze_features.core.workspace import Workspace

COMMANDS = {
    "doctor": ("obygaze_features.core.doctor:doctor", "Versions, codecs, caches, what is missing."),
    "manifest": ("obygaze_features.manifest.commands:manifest", "Clips, labels, concepts, splits."),
}


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from obygaze_features import __version__

        click.echo(f"obygaze {__version__}")
        ctx.exit()


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
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Use colour."
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version)
@click.pass_context
def root(ctx: click.Context, workspace: Path, quiet: bool, verbose: bool, color: str) -> None:
    """Features of film clips in stores that can be shared, and models that learn from them."""
    console = Console(verbosity=verbose - quiet, color=wants_color(color))
    ctx.color = console.color
    ctx.obj = Session(workspace=Workspace(workspace), console=console)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code."""
    sys.exit(run(argv))


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error becomes at most three lines."""
    try:
        code = root.main(args=argv, prog_name="obygaze", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Abort:
        _tell("interrupted")
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        _tell(error.format_message(), hint=_usage_hint(error))
        return error.exit_code
    except ObygazeError as error:
        _reraise_if_debugging()
        for line in error.details:
            click.echo(line, err=True)
        _tell(error.what, error.where, error.hint)
        return error.exit_code
    except OSError as error:
        _reraise_if_debugging()
        _tell(error.strerror or str(error), where=str(error.filename) if error.filename else None)
        return 1
    except Exception as error:  # noqa: BLE001 - the last line of defence: bugs end in lines too
        _reraise_if_debugging()
        first_line = (str(error).splitlines() or [""])[0]
        _tell(
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


def _tell(what: str, where: str | None = None, hint: str | None = None) -> None:
    click.echo(click.style("Error: ", fg="red", bold=True) + what, err=True)
    if where:
        click.echo(f"  in: {where}", err=True)
    if hint:
        click.echo(f"  Try: {hint}", err=True)


if __name__ == "__main__":
    main()

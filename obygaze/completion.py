"""`obygaze completion`: the script with which a shell completes commands and names on Tab."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from obygaze_features.core.commands import Session, command
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_atomic
from obygaze_features.core.value_types import Words

PROGRAM = "obygaze"
SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True)
class Startup:
    """Where the script of a shell lies, and the line of its start-up file that reads it.

    A shell that finds the script by itself has no such line.
    """

    script: Path
    file: Path | None = None
    line: str = ""


@command()
@click.argument("shell", type=Words(SHELLS), required=False)
@click.option(
    "--install", is_flag=True, help="Write it where the shell reads it when it starts."
)
def completion(session: Session, shell: str | None, install: bool) -> None:
    """Let a shell complete commands and names on Tab.

    Names are those of manifests, stores, films, clips, concepts, arrays, backbones, models,
    protocols, tasks and runs. The script for bash, zsh or fish is printed, or with --install set up
    for every terminal that is opened from then on. SHELL is by default the shell of this terminal.

    Examples:
      obygaze completion --install
      obygaze completion zsh
    """
    chosen = shell or _shell_of_terminal()
    script = script_of(chosen)
    if not install:
        session.console.result(script.rstrip("\n"))
        return
    startup = startup_of(chosen)
    for path in written(startup, script):
        session.console.note(f"wrote {path}")
    session.console.result(f"Tab completes {PROGRAM} in the next {chosen} you open")


def script_of(shell: str) -> str:
    """Return what a shell must read to complete the words of the program."""
    from obygaze.cli import root

    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise FixUsage(
            f"no completion for {shell!r}", hint=f"one of {', '.join(SHELLS)}"
        )
    variable = f"_{PROGRAM.upper()}_COMPLETE"
    return completion_class(root, {}, PROGRAM, variable).source()


def startup_of(shell: str) -> Startup:
    """Return where the script of a shell is written, in the home of this person."""
    home = Path.home()
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return Startup(config / "fish" / "completions" / f"{PROGRAM}.fish")
    script = home / f".{PROGRAM}-complete.{shell}"
    reads_script = f". {shlex.quote(str(script))}"
    if shell == "zsh":
        file = Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
        return Startup(
            script, file, f"autoload -Uz compinit && compinit && {reads_script}"
        )
    return Startup(script, home / ".bashrc", reads_script)


def written(startup: Startup, script: str) -> list[Path]:
    """Write the script, and its line unless the start-up file has it; return what was written."""
    startup.script.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(startup.script, script.encode())
    if startup.file is None:
        return [startup.script]
    before = ""
    if startup.file.exists():
        # Start-up files may be in any encoding; only our own line is looked for.
        before = startup.file.read_text(encoding="utf-8", errors="surrogateescape")
    if startup.line in before.splitlines():
        return [startup.script]
    needs_newline = before and not before.endswith("\n")
    with startup.file.open("a", encoding="utf-8") as out:
        if needs_newline:
            out.write("\n")
        out.write(f"{startup.line}\n")
    return [startup.script, startup.file]


def _shell_of_terminal() -> str:
    """Return the shell that this person uses; an error if it is another than the three."""
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise FixUsage(
            f"expected bash, zsh or fish, got {shell!r} in the variable SHELL",
            hint="obygaze completion bash",
        )
    return shell

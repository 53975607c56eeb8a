"""The commands of the program, each with the function of `og` that does its work."""

from collections.abc import Iterator
from typing import Any

import click

import obygaze as og
from obygaze.cli import root

# The commands whose functions have other names than those of the words that are typed.
OTHER_NAMES = {
    "demo": "write_demo",
    "doctor": "check_up",
    "extract run": "extraction.run",
    "extract plan": "extraction.plan",
    "extract slurm": "extraction.slurm",
    "extract status": "extraction.status",
    "extract text": "extraction.text",
    "extract words": "extraction.words",
    "manifest import": "manifest.import_",
    "marks import": "marks.import_",
    "store import": "store.import_",
}


def commands_of(group: click.Group, ctx: click.Context) -> Iterator[list[str]]:
    """The words of every command of a group."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            inner = click.Context(command, parent=ctx)
            yield from ([name, *words] for words in commands_of(command, inner))
        else:
            yield [name]


def functions_of_commands() -> Iterator[tuple[str, Any]]:
    """Every command with its function, which is found as `og` has it."""
    for words in commands_of(root, click.Context(root)):
        group, *rest = (word.replace("-", "_") for word in words)
        usual = f"{group}.{'_'.join(rest)}" if rest else group
        line = " ".join(words)
        function: Any = og
        for name in OTHER_NAMES.get(line, usual).split("."):
            assert name in dir(function), line
            function = getattr(function, name)
        yield line, function

"""The functions of the commands by name: `obygaze store verify` is `og.store.verify`.

The names are those of the commands, with `_` in place of `-` and of blanks. A name that Python
reserves ends with `_`: `og.store.import_`.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from obygaze.command_table import COMMANDS

if TYPE_CHECKING:
    import click

# `og.extract` is the function of `extract run`; `obygaze.demo` and `obygaze.doctor` are modules.
OTHER_NAMES = {"demo": "write_demo", "doctor": "check_up", "extract": "extraction"}


class Namespace:
    """The functions of a group of commands; each is imported when it is first used.

    Args:
        group: The name of the group on the command line.
    """

    def __init__(self, group: str) -> None:
        self._group = group

    def __getattr__(self, name: str) -> Callable[..., Any]:
        # A copy looks for the methods of copying before it has its attributes.
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._commands:
            raise AttributeError(f"{self!r} has no function {name!r}")
        return function_of(self._commands[name])

    def __dir__(self) -> Iterable[str]:
        return sorted(self._commands)

    def __repr__(self) -> str:
        return f"<Functions of obygaze {self._group}>"

    @cached_property
    def _commands(self) -> Mapping[str, tuple[str, ...]]:
        """The words of each command by the name of its function."""
        return {
            python_name(words[1:]): words
            for words in _commands_of_group((self._group,))
        }


def find(name: str) -> Any:
    """Return the function of a command, or the functions of a group, by their name in `og`."""
    for command, target in _top_level().items():
        if name == OTHER_NAMES.get(command, command):
            return Namespace(command) if _is_group(target) else function_of((command,))
    raise AttributeError(f"module 'obygaze' has no attribute {name!r}")


def names() -> list[str]:
    """Return the names in `og` of the commands and groups of the command line."""
    return [OTHER_NAMES.get(command, command) for command in _top_level()]


def python_name(words: Iterable[str]) -> str:
    """Return the name of a function: the words of its command in the group.

    >>> python_name(["import"])
    'import_'
    """
    name = "_".join(words).replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def function_of(words: Iterable[str]) -> Callable[..., Any]:
    """Return the function of a command."""
    function: Callable[..., Any] = vars(_find_command(words))["function"]
    return function


def _top_level() -> dict[str, str]:
    """Return the commands and groups that are no part of a group."""
    return {words: target for words, target in COMMANDS.items() if " " not in words}


def _is_group(target: str) -> bool:
    """Return whether an entry of a table is a group: its module is a table of commands."""
    module = target.partition(":")[0]
    return module.rpartition(".")[2].startswith("commands")


def _find_command(words: Iterable[str]) -> click.Command:
    """Return a command or group by its words."""
    import click

    from obygaze.cli import root

    command: Any = root
    for word in words:
        command = command.get_command(click.Context(command), word)
    found: click.Command = command
    return found


def _commands_of_group(group: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the words of all commands of a group and of the groups in it."""
    commands: list[tuple[str, ...]] = []
    table = vars(_find_command(group))["table"]
    for name, target in table.items():
        words = (*group, name)
        commands += _commands_of_group(words) if _is_group(target) else [words]
    return commands

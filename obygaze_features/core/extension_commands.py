"""Commands that extensions add to the program: their tables, found by entry points.

The entry point of an extension names a mapping from the words that are typed to what runs::

    COMMANDS = {
        "audit": ("my_package.commands:audit", "Measure bias in vectors and texts."),
        "manifest agree": ("my_package.commands:agree", "Compare annotators."),
    }

Reading the tables imports the modules that hold them, so these import nothing heavy.
"""

from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module

from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.core.plugins import (
    COMMANDS,
    Plugin,
    plugins,
    short_value,
    skip,
    warn_once,
)

# By the name of a command: the module and attribute that hold it, and one line of help.
CommandTable = Mapping[str, tuple[str, str]]


def read_commands(plugin: Plugin) -> CommandTable:
    """Return the table of an extension; an error names the extension."""
    table = plugin.load()
    if not isinstance(table, Mapping):
        raise plugin.refuse(f"must be a mapping of commands, got {short_value(table)}")
    for words, entry in table.items():
        if not isinstance(words, str) or not words.split():
            raise plugin.refuse(f"has a command without a name: {short_value(words)}")
        is_pair = isinstance(entry, tuple | list) and len(entry) == 2
        if not is_pair or not all(isinstance(part, str) for part in entry):
            raise plugin.refuse(
                f"must give 'module:attribute' and a line of help for {words!r},"
                f" got {short_value(entry)}"
            )
        if entry[0].count(":") != 1:
            raise plugin.refuse(
                f"must name {words!r} as 'module:attribute', got {entry[0]!r}"
            )
    return {words: (entry[0], entry[1]) for words, entry in table.items()}


@cache
def extension_commands() -> Mapping[str, CommandTable]:
    """Return the tables of all extensions, by the group they add to ("" is the program itself).

    An extension that does not work is skipped with a warning, and so is a command that another
    extension has already added.
    """
    tables: dict[str, dict[str, tuple[str, str]]] = {}
    for plugin in plugins(COMMANDS):
        try:
            table = read_commands(plugin)
        except ObygazeError as error:
            skip(error)
            continue
        for words, entry in table.items():
            *group_words, name = words.split()
            group = tables.setdefault(" ".join(group_words), {})
            if name in group:
                warn_once(
                    f"two extensions add the command {words!r}; that of {plugin.where} is skipped"
                )
                continue
            group[name] = entry
    return tables


def check_plugin(plugin: Plugin) -> None:
    """Raise an error for an extension whose table cannot be read, or lists a missing command."""
    for words, (target, _) in read_commands(plugin).items():
        module, attribute = target.split(":")
        load = partial(import_module, module)
        holder = plugin.call(load, f"cannot load {words!r}")
        if not hasattr(holder, attribute):
            raise FixInput(
                f"{plugin.where} lists {words!r} as {target}, which does not exist"
            )

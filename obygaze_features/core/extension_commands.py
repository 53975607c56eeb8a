"""Commands that extensions add to the program: their tables, found by entry points.

The entry point of an extension names a mapping from the words that are typed to what runs::

    COMMANDS = {
        "audit": ("my_package.commands:audit", "Measure bias in vectors and texts.", "Look"),
        "manifest agree": ("my_package.commands:agree", "Compare annotators."),
    }

The third text is one of `HEADINGS`: where `obygaze --help` lists the command.

Reading the tables imports the modules that hold them, so these import nothing heavy.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.plugins import (
    COMMANDS,
    Plugin,
    plugins,
    short_value,
    skip,
    warn_once,
)

# The groups of `obygaze --help`, in the order of work.
HEADINGS = ("Start here", "Data", "Features", "Experiments", "Look", "Share", "More")


class CommandEntry(NamedTuple):
    """A command that is not imported yet.

    `target` is the module and attribute that hold it, `summary` one line of help, and `heading`
    the group of `obygaze --help` that lists it. `plugin` is the extension that adds the command.
    """

    target: str
    summary: str
    heading: str = HEADINGS[-1]
    plugin: Plugin | None = None


# By the name of a command.
CommandTable = Mapping[str, CommandEntry]


def read_commands(plugin: Plugin) -> CommandTable:
    """Return the table of an extension; an error names the extension."""
    table = plugin.load()
    if not isinstance(table, Mapping):
        raise plugin.refuse(f"must be a mapping of commands, got {short_value(table)}")
    commands: dict[str, CommandEntry] = {}
    for words, texts in table.items():
        if not isinstance(words, str) or not words.split():
            raise plugin.refuse(f"has a command without a name: {short_value(words)}")
        has_texts = isinstance(texts, tuple | list) and len(texts) in {2, 3}
        if not has_texts or not all(isinstance(text, str) for text in texts):
            raise plugin.refuse(
                f"must give 'module:attribute' and a line of help for {words!r},"
                f" got {short_value(texts)}"
            )
        entry = CommandEntry(*texts)
        if entry.target.count(":") != 1:
            raise plugin.refuse(
                f"must name {words!r} as 'module:attribute', got {entry.target!r}"
            )
        if entry.heading not in HEADINGS:
            raise plugin.refuse(
                f"must list {words!r} under {', '.join(HEADINGS)}, got {entry.heading!r}"
            )
        commands[" ".join(words.split())] = entry._replace(plugin=plugin)
    return commands


@cache
def extension_commands() -> Mapping[str, CommandTable]:
    """Return the tables of all extensions, by the group they add to ("" is the program itself).

    An extension that does not work is skipped with a warning, and so is a command that another
    extension has already added.
    """
    tables: dict[str, dict[str, CommandEntry]] = {}
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
                first = group[name].plugin
                warn_once(
                    f"two extensions add the command {words!r}: that of {plugin.where} is skipped,"
                    f" that of {first.where if first else 'obygaze'} is used"
                )
                continue
            group[name] = entry
    return tables

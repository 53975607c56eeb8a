"""`obygaze store`: the table of its commands; each lives in one of the commands_* modules."""

from __future__ import annotations

import click

from obygaze_features.core.commands import LazyGroup

_HERE = "obygaze_features.store"
COMMANDS = {
    "ls": (f"{_HERE}.commands_look:ls", "List the stores of the workspace."),
    "info": (f"{_HERE}.commands_look:info", "Explain what a store holds and how it was made."),
    "verify": (f"{_HERE}.commands_look:verify_", "Check that a store is whole and undamaged."),
    "diff": (f"{_HERE}.commands_look:diff", "Compare two stores: recipes, clips, features."),
    "subset": (
        f"{_HERE}.commands_copy:subset_",
        "Make a store of some clips or levels of another.",
    ),
    "merge": (f"{_HERE}.commands_copy:merge_", "Make one store of several of the same recipe."),
    "pack": (f"{_HERE}.commands_copy:pack_", "Put a store into one zip file."),
    "unpack": (f"{_HERE}.commands_copy:unpack_", "Make a store of a packed one."),
    "push": (f"{_HERE}.commands_copy:push_", "Send a store to a bucket, the hub or a folder."),
    "pull": (f"{_HERE}.commands_copy:pull_", "Fetch a store, or a part of it."),
    "import": (
        f"{_HERE}.commands_interchange:import_",
        "Make a store from features in another format.",
    ),
    "export": (
        f"{_HERE}.commands_interchange:export",
        "Write the features of a store in another format.",
    ),
    "card": (f"{_HERE}.commands_look:card", "Print the card of a store, as the hub shows it."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def store() -> None:
    """Inspect, verify, edit and share feature stores."""

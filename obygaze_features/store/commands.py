"""`obygaze store`: the table of its commands, with the function of each."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_features.store.functions"
COMMANDS = {
    "ls": (
        f"{_HERE}:list_stores",
        "List the stores of the workspace.",
    ),
    "info": (
        f"{_HERE}:info_command",
        "Show what a store has and how it was made.",
    ),
    "verify": (
        f"{_HERE}:verify",
        "Check that a store is whole and undamaged.",
    ),
    "subset": (
        f"{_HERE}:subset",
        "Make a store of some clips or arrays of a store, or withdraw clips of it.",
    ),
    "merge": (
        f"{_HERE}:merge",
        "Make one store of several, which have one recipe and equal arrays.",
    ),
    "join": (
        f"{_HERE}:join",
        "Make one store of several, with their vectors of each clip side by side.",
    ),
    "import": (
        f"{_HERE}:import_features",
        "Make a store from features in another format.",
    ),
    "export": (
        f"{_HERE}:export_features",
        "Write the features of a store in another format.",
    ),
    "push": (
        f"{_HERE}:push",
        "Send a store to a folder, a bucket or the hub.",
    ),
    "pull": (
        f"{_HERE}:pull",
        "Copy a store to this machine.",
    ),
    "card": (
        f"{_HERE}:describe_as_card",
        "Print the card of a store, as the hub shows it.",
    ),
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def store() -> None:
    """Inspect, verify, change and share feature stores."""

"""`obygaze store`: the table of its commands, with the function of each."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_features.store"
COMMANDS = {
    "ls": (
        f"{_HERE}.read.overview:list_stores",
        "List the stores of the workspace.",
    ),
    "info": (
        f"{_HERE}.read.overview:info_command",
        "Explain what a store holds and how it was made.",
    ),
    "verify": (
        f"{_HERE}.read.verify:verify",
        "Check that a store is whole and undamaged.",
    ),
    "diff": (
        f"{_HERE}.read.diff:diff_stores",
        "Compare two stores: recipes, clips, films, numbers and their formats.",
    ),
    "log": (
        f"{_HERE}.read.log:store_log",
        "List the versions of a store: what each changed, why, by whom and when.",
    ),
    "withdraw": (
        f"{_HERE}.write.withdraw:withdraw",
        "Withdraw clips or films from a store, as a new version of it.",
    ),
    "derive": (
        f"{_HERE}.write.levels:derive",
        "Add the mean or the maximum of an array to a store, as a new version of it.",
    ),
    "upgrade": (
        f"{_HERE}.write.upgrade:upgrade",
        "Bring a store of an earlier obygaze to the newest format, as a new version of it.",
    ),
    "purge": (
        f"{_HERE}.write.purge:purge",
        "Make a store in which the features of withdrawn clips are nowhere.",
    ),
    "uses": (
        f"{_HERE}.read.uses:store_uses",
        "List what was made with a store and what has its withdrawn clips.",
    ),
    "subset": (
        f"{_HERE}.write.edit:subset",
        "Make a store of some clips or arrays of another.",
    ),
    "merge": (
        f"{_HERE}.write.edit:merge",
        "Make one store of several of the same recipe.",
    ),
    "licence": (
        f"{_HERE}.write.licence:store_licence",
        "Show or state the licence and the citation of a store.",
    ),
    "pack": (f"{_HERE}.remote.send:pack", "Put a store into one zip file."),
    "unpack": (f"{_HERE}.remote.fetch:unpack", "Make a store of a packed one."),
    "push": (
        f"{_HERE}.remote.send:push",
        "Send a store to a bucket, the hub or a folder.",
    ),
    "pull": (f"{_HERE}.remote.fetch:pull", "Fetch a store, or a part of it."),
    "import": (
        f"{_HERE}.interchange.importing:import_features",
        "Make a store from features in another format.",
    ),
    "export": (
        f"{_HERE}.interchange.export:export_store",
        "Write the features of a store in another format.",
    ),
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def store() -> None:
    """Inspect, verify, edit and share feature stores."""

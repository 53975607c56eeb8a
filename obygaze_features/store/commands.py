"""`obygaze store`: the table of its commands, with the module of each."""

import click

from obygaze_features.core.commands import LazyGroup

LOOK, COPY, INTERCHANGE = (
    f"obygaze_features.store.commands_{name}"
    for name in ("look", "copy", "interchange")
)
COMMANDS = {
    "ls": (f"{LOOK}:ls", "List the stores of the workspace."),
    "info": (f"{LOOK}:info", "Explain what a store holds and how it was made."),
    "verify": (f"{LOOK}:verify_", "Check that a store is whole and undamaged."),
    "diff": (
        f"{LOOK}:diff",
        "Compare two stores: recipes, clips, movies, numbers and their formats.",
    ),
    "subset": (f"{COPY}:subset_", "Make a store of some clips or levels of another."),
    "merge": (f"{COPY}:merge_", "Make one store of several of the same recipe."),
    "licence": (
        f"{COPY}:licence_",
        "Show or state the licence and the citation of a store.",
    ),
    "pack": (f"{COPY}:pack_", "Put a store into one zip file."),
    "unpack": (f"{COPY}:unpack_", "Make a store of a packed one."),
    "push": (f"{COPY}:push_", "Send a store to a bucket, the hub or a folder."),
    "pull": (f"{COPY}:pull_", "Fetch a store, or a part of it."),
    "import": (
        f"{INTERCHANGE}:import_",
        "Make a store from features in another format.",
    ),
    "export": (
        f"{INTERCHANGE}:export",
        "Write the features of a store in another format.",
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def store() -> None:
    """Inspect, verify, edit and share feature stores."""

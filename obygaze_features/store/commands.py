"""The table of the commands of `obygaze store`, with the function of each command."""

import click

from obygaze_features.core.groups import LazyGroup
from obygaze_features.core.options import CLIPS, Bar, Command, Option

COMMANDS = {
    "info": Command(
        "obygaze_features.store.describing:describe_store",
        {
            "output": Option("-o --output", metavar="PATH"),
        },
        then="obygaze_features.core.written_tables:Listing.write",
    ),
    "verify": Command(
        "obygaze_features.store.verifying:verify",
        {
            "hashes": Option("--hash"),
            "expect": Option(metavar="SHA256"),
            "progress": Bar("verify"),
        },
    ),
    "subset": Command(
        "obygaze_features.store.changing:subset",
        {
            "path": Option("-o --output", metavar="NAME"),
            "films": Option("--film"),
            "clips": CLIPS,
            "arrays": Option("--array", shown_default="all"),
            "without": Option(metavar="FILM|CLIP"),
            "progress": Bar("copy"),
        },
    ),
    "merge": Command(
        "obygaze_features.store.changing:merge",
        {
            "path": Option("-o --output", metavar="NAME"),
            "progress": Bar("copy"),
        },
    ),
    "import": Command(
        "obygaze_features.store.importing:import_features",
        {
            "source": Option(exists="path"),
            "path": Option("-o --output", metavar="NAME"),
            "arrays": Option(
                "--array", metavar="NAME=KEY", group="What is in the files"
            ),
            "id_key": Option(group="What is in the files"),
            "manifest": Option(group="What is in the files"),
            "pool": Option(group="How they are stored"),
            "keep_frames": Option(group="How they are stored"),
            "backbone": Option(group="Facts to keep"),
            "licence": Option(group="Facts to keep"),
            "citation": Option(group="Facts to keep"),
            "progress": Bar("import"),
        },
    ),
    "export": Command(
        "obygaze_features.store.exporting:export_features",
        {
            "path": Option(metavar="OUTPUT"),
            "format": Option("--as"),
            "arrays": Option("--array", shown_default="all"),
            "labels": Option("--with-labels", metavar="MANIFEST"),
            "progress": Bar("export"),
        },
    ),
    "push": Command(
        "obygaze_features.store.copying:push",
        {
            "licence": Option(group="Licence"),
            "citation": Option(group="Licence"),
            "no_licence": Option(group="Licence"),
            "progress": Bar("push"),
        },
    ),
    "pull": Command(
        "obygaze_features.store.copying:pull",
        {
            "path": Option("-o --output", metavar="NAME"),
            "expect": Option(metavar="SHA256"),
            "progress": Bar("pull"),
        },
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def store() -> None:
    """Inspect, verify, change and share feature stores."""

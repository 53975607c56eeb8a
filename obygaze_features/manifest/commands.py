"""`obygaze manifest`: the table of its commands, with the function of each."""

import click

from obygaze_features.core.groups import LazyGroup
from obygaze_features.core.options import Command, Option

COMMANDS = {
    "join": Command(
        "obygaze_features.manifest.adapters.join_table:join_columns",
        {
            "columns": Option("--map", metavar="TARGET=COLUMN"),
            "sheet": Option(metavar="NAME"),
        },
    ),
    "merge": Command(
        "obygaze_features.manifest.merging:merge_manifests",
        {"name": Option("-o --output", metavar="NAME")},
    ),
    "labels": Command(
        "obygaze_features.manifest.merging:make_labels",
        {
            "name": Option("-o --output", metavar="NAME"),
            "rule": Option(metavar="RULE"),
            "orders": Option("--order", metavar="COLUMN=WORDS"),
        },
    ),
    "windows": Command(
        "obygaze_features.extraction.cut_films:write_windows",
        {
            "name": Option("-o --output", metavar="NAME"),
            "window": Option(minimum=1, group="Grid"),
            "stride": Option(minimum=1, group="Grid"),
            "seconds": Option(above=0, group="Grid"),
            "every": Option(above=0, group="Grid"),
        },
    ),
    "show": Command(
        "obygaze_features.manifest.overview:show_manifest",
        {
            "where": Option(metavar="EXPRESSION"),
            "limit": Option(minimum=0),
            "output": Option("-o --output", metavar="PATH"),
        },
        then="obygaze_features.core.written_tables:Listing.write",
    ),
    "stats": Command(
        "obygaze_features.manifest.stats:compute_stats",
        {
            "where": Option(metavar="EXPRESSION"),
            "figure": Option(metavar="PATH"),
        },
        then="obygaze_features.manifest.stats:draw_stats",
    ),
    "group": Command(
        "obygaze_features.manifest.grouping:group",
        {
            "name": Option("-o --output", metavar="NAME"),
        },
    ),
    "link": Command(
        "obygaze_features.extraction.linking:link_manifest",
        {
            "folder": Option(exists="folder"),
        },
    ),
    "folds": Command(
        "obygaze_features.manifest.folds:assign_folds",
        {
            "k": Option("-k --folds"),
        },
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def manifest() -> None:
    """Import, inspect and edit manifests: clips, labels, splits."""

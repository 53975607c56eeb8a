"""`obygaze manifest`: the table of its commands, with the function of each."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_features.manifest"
COMMANDS = {
    "join": f"{_HERE}.adapters.join_table:join_columns",
    "merge": f"{_HERE}.merging:merge_manifests",
    "labels": f"{_HERE}.merging:make_labels",
    "windows": "obygaze_features.extraction.cut_films:write_windows",
    "show": f"{_HERE}.overview:show_command",
    "stats": f"{_HERE}.stats:stats_command",
    "group": f"{_HERE}.grouping:group",
    "link": "obygaze_features.extraction.linking:link_manifest",
    "folds": f"{_HERE}.functions:assign_folds",
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def manifest() -> None:
    """Import, inspect and edit manifests: clips, labels, splits."""

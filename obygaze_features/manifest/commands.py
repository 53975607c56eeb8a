"""`obygaze manifest`: the table of its commands, with the function of each."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_features.manifest"
COMMANDS = {
    "import": (
        f"{_HERE}.commands_import:import_",
        "Make a manifest from a data set's own files.",
    ),
    "join": (
        f"{_HERE}.adapters.join_table:join_columns",
        "Add the columns of a table to the clips of a manifest.",
    ),
    "merge": (
        f"{_HERE}.merging:merge_manifests",
        "Merge manifests: clips that two labs annotated become rows of two annotators.",
    ),
    "windows": (
        "obygaze_features.extraction.cut_films:write_windows",
        "Cut whole films into windows.",
    ),
    "ls": (f"{_HERE}.overview:list_manifests", "List the manifests of the workspace."),
    "show": (f"{_HERE}.overview:show_command", "Show a manifest's header and clips."),
    "check": (
        f"{_HERE}.overview:check_manifests",
        "Check manifests against the schema.",
    ),
    "stats": (
        f"{_HERE}.overview:stats_command",
        "Count levels, concepts, films and folds; each film has a row.",
    ),
    "group": (
        f"{_HERE}.grouping:group",
        "List the sub-constructs, or make a manifest whose concepts are groups of concepts.",
    ),
    "link": (
        f"{_HERE}.link:link_manifest",
        "Find the video of each clip under a folder.",
    ),
    "folds": (
        f"{_HERE}.functions:assign_folds",
        "Assign each film, with all its clips, to one fold.",
    ),
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def manifest() -> None:
    """Import, inspect and edit manifests: clips, labels, splits."""

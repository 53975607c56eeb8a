"""`obygaze store`: the table of its commands, with the function of each."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_features.store.functions"
COMMANDS = {
    "info": f"{_HERE}:info_command",
    "verify": f"{_HERE}:verify",
    "subset": f"{_HERE}:subset",
    "merge": f"{_HERE}:merge",
    "join": f"{_HERE}:join",
    "import": f"{_HERE}:import_features",
    "export": f"{_HERE}:export_features",
    "push": f"{_HERE}:push",
    "pull": f"{_HERE}:pull",
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def store() -> None:
    """Inspect, verify, change and share feature stores."""

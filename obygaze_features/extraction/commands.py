"""The commands of `obygaze extract`; each command is made from a function of this package."""

import click

from obygaze_features.core.groups import LazyGroup
from obygaze_features.core.machine import MAX_WORKERS
from obygaze_features.core.options import PYTHON_ONLY, Command, Option, Options

# The options of `plan` and `run` that say what is computed.
SHARED: Options = {
    "backbones": Option(
        "-b --backbone", metavar="NAME", group="Features", is_repeated=True
    ),
    "arrays": Option(metavar="A,B", separator=",", group="Features"),
    "weights": Option(metavar="[NAME=]PATH", group="Features", is_repeated=True),
    "stores": Option("--store", metavar="NAME=STORE", group="Features"),
    "dtype": Option(group="Features"),
    "workers": Option(minimum=1, maximum=MAX_WORKERS, shown_default="one per core"),
}
EXTRACT = Command(
    "obygaze_features.extraction.extracting:extract",
    {
        **SHARED,
        "timeout_s": Option("--timeout", above=0),
        "licence": Option(group="Features"),
        "batch": Option(minimum=1),
        "watch": PYTHON_ONLY,
    },
)
COMMANDS = {
    "plan": Command("obygaze_features.extraction.costs:plan_extraction", SHARED),
    "run": EXTRACT,
    "slurm": Command(
        "obygaze_features.extraction.slurm:write_slurm_script",
        {
            "words": Option(metavar="MANIFEST -b BACKBONE..."),
            "tasks": Option(minimum=1),
            "out": Option("-o --output", is_file=True),
        },
        takes_any_option=True,
    ),
    "status": Command("obygaze_features.extraction.stored:extraction_status"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def extract_group() -> None:
    """Extract features from videos, with several backbones in one pass."""

"""How soon the command line answers, beside a bare Python and beside click alone."""

from __future__ import annotations

import sys

from benchmarks.timing import OBYGAZE, Comparison, Contestant, Settings, compare

REFERENCE = "python -c 'import click'"
CONTESTANTS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    REFERENCE: [sys.executable, "-c", "import click"],
    "obygaze --help": [*OBYGAZE, "--help"],
    "obygaze manifest --help": [*OBYGAZE, "manifest", "--help"],
    "import numpy, zarr": [sys.executable, "-c", "import numpy, zarr"],
}


def measure(settings: Settings) -> Comparison:
    """Time the command's help beside a bare Python and beside click alone."""
    return compare(
        "Start-up of the command line",
        [Contestant(name, argv) for name, argv in CONTESTANTS.items()],
        reference=REFERENCE,
        rounds=settings.rounds_or(9),
        packages=("click", "numpy", "zarr"),
    )

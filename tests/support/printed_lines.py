"""The lines of Python that an error prints, run as a person would."""

import contextlib
from pathlib import Path


def run_printed_lines(printed: str, folder: Path) -> None:
    """Run the lines from the first import to the call that writes a store, in a folder."""
    lines = [line.strip() for line in printed.splitlines()]
    (last,) = [n for n, line in enumerate(lines) if line.startswith("og.store.write(")]
    code = lines[lines.index("import numpy as np") : last + 1]
    with contextlib.chdir(folder):
        exec("\n".join(code), {})

"""Run the program as another version of it would run."""

from __future__ import annotations

import os

from stories.workspace import Workspace

VERSION = "9.9.9"

_CUSTOMIZE = f"""\
import obygaze_features
from obygaze_features.store import records

obygaze_features.__version__ = "{VERSION}"
records.NUMBERS += 1
"""


def another_version(ws: Workspace) -> dict[str, str | None]:
    """Return the variables of a process in which the program has the version 9.9.9.

    It computes other numbers.
    """
    folder = ws.write("newer/sitecustomize.py", _CUSTOMIZE).parent
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}

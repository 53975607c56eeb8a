"""Start the recording of parts, in a process with settings that make its bits the same."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from golden.tolerances import SETTINGS

RECORDED = Path(__file__).with_name("recorded")
TESTS = Path(__file__).parents[1]
# Each is a folder of tables; `making.py` has their functions.
PARTS = (
    "honest",
    "papers",
    "other-data",
    "abilities",
    "models",
    "labels",
    "files",
    "refused",
)


def record_in_a_process(parts: Sequence[str], into: Path) -> str:
    paths = os.pathsep.join((str(TESTS.parent), str(TESTS)))
    done = subprocess.run(
        [sys.executable, "-m", "golden", "--here", "--into", str(into), *parts],
        env={**os.environ, **SETTINGS, "PYTHONPATH": paths},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(
            f"{parts} cannot be recorded:\n{done.stdout}\n{done.stderr}"
        )
    return done.stdout

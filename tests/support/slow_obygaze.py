"""The `obygaze` command with a backbone that takes its time, so that a test can hit it at work.

Each clip takes OBYGAZE_TEST_SECONDS more, and its coming is a line in the file OBYGAZE_TEST_LOG.
No clip is begun before OBYGAZE_TEST_TOGETHER processes have a clip in hand.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from obygaze_features.backbones.descriptors import Descriptors
from support.servers import wait_until

# Processes that spawn run their parent's main file again, so workers of any engine are slow too.
PROGRAM = """\
#!{python}
import sys
sys.path[:] = {path!r}
from obygaze import cli
from support.slow_obygaze import slow_down
slow_down()
if __name__ == "__main__":
    cli.main()
"""


def slow_down() -> None:
    """Make this process's backbone slow."""
    quick = Descriptors.normalise

    def slow(self: Descriptors, pictures: Any) -> Any:
        log = os.environ.get("OBYGAZE_TEST_LOG")
        if log:
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(f"{os.getpid()}\n")
            together = int(os.environ.get("OBYGAZE_TEST_TOGETHER", "1"))
            wait_until(
                lambda: _n_processes(Path(log)) >= together, "other processes", 60
            )
        time.sleep(float(os.environ.get("OBYGAZE_TEST_SECONDS", "0")))
        return quick(self, pictures)

    Descriptors.normalise = slow  # type: ignore[method-assign]


def _n_processes(log: Path) -> int:
    return len(set(log.read_text(encoding="utf-8").split()))


def install(folder: Path) -> Path:
    """Put an executable called `obygaze` into a folder."""
    path = folder / "obygaze"
    text = PROGRAM.format(
        python=sys.executable, path=[str(Path(p).resolve()) for p in sys.path]
    )
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def clips_begun(log: Path) -> int:
    """How many clips were worked on, those of lost blocks too."""
    return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0

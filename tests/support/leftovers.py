"""Hidden names of processes that have ended, for tests of what killed commands leave."""

import os
import subprocess
from pathlib import Path

from obygaze_features.core import temporary_names
from obygaze_features.core.temporary_names import hidden_name


def name_of_ended(path: Path, word: str = "") -> Path:
    ended = subprocess.Popen(["true"])
    ended.wait()
    hidden = hidden_name(path, word)
    return hidden.with_name(hidden.name.replace(f"-{os.getpid()}-", f"-{ended.pid}-"))


def name_of_another_machine(path: Path) -> Path:
    """A hidden name that another machine made: its first part is other digits."""
    name = hidden_name(path).name
    machine = temporary_names._machine()
    return path.with_name(name.replace(machine, f"{int(machine, 16) ^ 1:08x}"))

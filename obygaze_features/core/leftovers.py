"""Hidden names of what is not finished, whose they are, and what killed commands left there.

A file or folder is written under a hidden name beside its own, and renamed when it is finished. The
name says which process writes it: `.NAME.[WORD-]MACHINE-PROCESS-START-RANDOM.tmp`. So the next
command for NAME removes what a killed one left, and nothing of a command that still runs. Where
this cannot be known, as of a process on another machine, in another container or before a restart,
nothing is removed, and `obygaze doctor` names what is there.
"""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from obygaze_features.core import system
from obygaze_features.core.shell import shell_word

State = Literal["running", "ended", "unknown"]
# What was there before, where two names cannot be exchanged in one step.
OLD_FILE = "before-"
# A copy that was interrupted: any process may go on with it.
PULL = "pull-"

# With all its parts a name has at most 255 bytes, of which a character may take four.
_NAME_CHARACTERS = 50
_HIDDEN = re.compile(
    r"\.(?P<name>.+)\.(?P<word>(before-|[0-9a-f]{8}-)?)"
    r"(?P<machine>[0-9a-f]{8})-(?P<process>[0-9]+)-(?P<start>[0-9]+)-[0-9a-f]{8}\.tmp(\.html)?",
    re.DOTALL,
)
_PULLED = re.compile(r"\.(?P<name>.+)\.(?P<word>pull-)[0-9a-f]{16}", re.DOTALL)


class Leftover(NamedTuple):
    """Something with a hidden name.

    Args:
        path: The file or folder.
        name: The name that it was to get; of a long name, its beginning.
        word: What the command has in its names, or "".
        state: Whether its process still runs.
    """

    path: Path
    name: str
    word: str
    state: State

    @property
    def n_bytes(self) -> int:
        """The bytes of its files."""
        paths = [self.path]
        if not self.path.is_symlink():
            for folder, _, names in os.walk(self.path):
                paths += [Path(folder, name) for name in names]
        n_bytes = 0
        for path in paths:
            with suppress(FileNotFoundError):  # another command may remove it
                facts = path.lstat()
                n_bytes += 0 if stat.S_ISDIR(facts.st_mode) else facts.st_size
        return n_bytes

    @property
    def reason(self) -> str:
        """Why it is there."""
        if self.state == "ended":
            return f"left of {self.name} by a command that was killed"
        if self.word == PULL:
            return f"a copy of {self.name} that was interrupted; the same pull goes on with it"
        return (
            f"of {self.name}: left by a command that was killed, or of one that still runs, perhaps"
            " on another machine"
        )

    @property
    def command(self) -> str:
        """The line that removes it."""
        return f"rm -rf {shell_word(self.path)}"

    def to_json(self) -> dict[str, Any]:
        """Return what it is, its size, and the line that removes it."""
        return {
            "path": str(self.path),
            "bytes": self.n_bytes,
            "reason": self.reason,
            "command": self.command,
        }


def hidden_name(path: Path, word: str = "") -> Path:
    """Return a new hidden name beside a path, which says that this process writes it."""
    process = os.getpid()
    owner = f"{_machine()}-{process}-{_start_of(process)}-{os.urandom(4).hex()}"
    return path.with_name(f".{path.name[:_NAME_CHARACTERS]}.{word}{owner}.tmp")


def pulled_name(path: Path, seal: str) -> Path:
    """Return the hidden name of a copy of a store: any process goes on with it after a stop."""
    return path.with_name(f".{path.name[:_NAME_CHARACTERS]}.{PULL}{seal[:16]}")


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return 8 digits for this machine and its start, and for the container of this process."""
    return hashlib.sha256(system.machine_start().encode()).hexdigest()[:8]


@lru_cache(maxsize=1)
def _start_of(process: int) -> str:
    return system.process_start(process)


def read_hidden(path: Path) -> Leftover | None:
    """Return what a hidden name says; None for other names."""
    parts = _HIDDEN.fullmatch(path.name)
    if parts is None:
        parts = _PULLED.fullmatch(path.name)
        return parts and Leftover(path, parts["name"], parts["word"], "unknown")
    state: State = "unknown"
    if parts["machine"] == _machine():
        start = system.process_start(int(parts["process"]))
        # "0": it is not known when this process began, which may be another one of its number.
        if start != "0":
            state = "running" if start == parts["start"] else "ended"
    return Leftover(path, parts["name"], parts["word"], state)


def named_beside(path: Path) -> Path:
    """Return the path of the name that a hidden one was to get; of other names, the path."""
    hidden = read_hidden(path)
    return path.with_name(hidden.name) if hidden else path


def hidden_of(target: Path) -> list[Leftover]:
    """Return what has a hidden name of a target."""
    name = target.name[:_NAME_CHARACTERS]
    start = f".{name}."
    try:
        with os.scandir(target.parent) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(start)]
    except OSError:  # the folder is not there, or may be written to and not read
        return []
    all_hidden = [read_hidden(target.with_name(name)) for name in names]
    return [hidden for hidden in all_hidden if hidden and hidden.name == name]


def remove_leftovers(target: Path) -> None:
    """Remove what killed commands left of a target; what cannot be removed stays, and is named."""
    for hidden in hidden_of(target):
        if hidden.state != "ended":
            continue
        with suppress(OSError):
            if hidden.word == OLD_FILE and not os.path.lexists(target):
                # The command was killed between its two renames.
                system.rename_folder(hidden.path, target)
            else:
                remove_hidden(hidden.path)


def remove_hidden(path: Path) -> None:
    """Remove a file or folder that has a hidden name; another process may remove it too."""
    if path.is_dir() and not path.is_symlink():
        with suppress(FileNotFoundError):
            shutil.rmtree(path, onerror=_remove_read_only)
    else:
        system.remove_file(path)


def _remove_read_only(
    remove: Callable[[str], object], path: str, reason: tuple[Any, ...]
) -> None:
    """Try again where Windows does not remove a file that is read-only.

    What cannot be removed, because a program has it open, stays in the hidden folder.
    """
    if not isinstance(reason[1], FileNotFoundError):
        with suppress(OSError):
            Path(path).chmod(stat.S_IWRITE)
            remove(path)


def find_leftovers(root: Path) -> Iterator[Leftover]:
    """Yield what killed commands left in a folder and those below it, in the order of names."""
    for folder, folders, files in os.walk(root):
        for name in sorted([*folders, *files]):
            hidden = read_hidden(Path(folder, name)) if name.startswith(".") else None
            if hidden and hidden.state != "running":
                yield hidden
        folders[:] = sorted(name for name in folders if not name.startswith("."))

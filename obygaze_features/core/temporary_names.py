"""Temporary names of unfinished files and folders, and the leftovers of killed commands.

A file or folder is written under a temporary name in its folder, and renamed when it is finished.
The name identifies the process that writes: `.NAME.[WORD-]MACHINE-PROCESS-START-RANDOM.tmp`. The
next command for NAME removes leftovers of killed processes, but no file of a running process. If
the process is on another machine, in another container or from before a restart, its state is
unknown: nothing is removed, and `obygaze doctor` lists the leftover.
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
# The word for a replaced folder, if two names cannot be exchanged in one step.
OLD_FILE = "before-"
# The word for a copy of a store that is not finished, which any process may continue.
PULL = "pull-"

# File systems allow 255 bytes for a name, and a character may have four bytes. The end of a longer
# name is replaced by a part of its hash.
_NAME_CHARACTERS = 50
_HASH_CHARACTERS = 8
_HIDDEN = re.compile(
    r"\.(?P<name>.+)\.(?P<word>(before-|[0-9a-f]{8}-)?)"
    r"(?P<machine>[0-9a-f]{8})-(?P<process>[0-9]+)-(?P<start>[0-9]+)-[0-9a-f]{8}\.tmp(\.html)?",
    re.DOTALL,
)
_PULLED = re.compile(r"\.(?P<name>.+)\.(?P<word>pull-)[0-9a-f]{16}", re.DOTALL)


class Leftover(NamedTuple):
    """A file or folder with a temporary name.

    Args:
        path: The file or folder.
        name: The final name, or the start of a long final name with a part of its hash.
        word: The word after the name, such as `pull-`; empty: no word.
        state: The state of the process that writes it: running, ended or unknown.
    """

    path: Path
    name: str
    word: str
    state: State

    @property
    def n_bytes(self) -> int:
        """The size of the file, or of all files in the folder, in bytes."""
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
        """Why the leftover exists."""
        if self.state == "ended":
            return f"unfinished {self.name}, left by a killed command"
        if self.word == PULL:
            return f"unfinished copy of {self.name}; the same `store pull` continues it"
        return (
            f"unfinished {self.name}, left by a killed command or in use by a running command,"
            " perhaps on another machine"
        )

    @property
    def command(self) -> str:
        """The command that removes this temporary file or folder."""
        return f"rm -rf {shell_word(self.path)}"

    def to_json(self) -> dict[str, Any]:
        """Return the path, the size, the reason and the command that removes it."""
        return {
            "path": str(self.path),
            "bytes": self.n_bytes,
            "reason": self.reason,
            "command": self.command,
        }


def hidden_name(path: Path, word: str = "") -> Path:
    """Return a new temporary name next to a path, owned by this process."""
    process = os.getpid()
    owner = f"{_machine()}-{process}-{_process_start(process)}-{os.urandom(4).hex()}"
    return path.with_name(f".{_short_name(path)}.{word}{owner}.tmp")


def pulled_name(path: Path, seal: str) -> Path:
    """Return the temporary name of a copy of a store, which any process may continue."""
    return path.with_name(f".{_short_name(path)}.{PULL}{seal[:16]}")


def _short_name(path: Path) -> str:
    """Return the name of a path; if it is long, its start and a part of its hash."""
    if len(path.name) <= _NAME_CHARACTERS:
        return path.name
    digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:_HASH_CHARACTERS]
    return f"{path.name[: _NAME_CHARACTERS - _HASH_CHARACTERS - 1]}-{digest}"


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return 8 hexadecimal digits that identify this machine, its start and the container."""
    return hashlib.sha256(system.machine_start().encode()).hexdigest()[:8]


@lru_cache(maxsize=1)
def _process_start(process: int) -> str:
    return system.process_start(process)


def read_hidden(path: Path) -> Leftover | None:
    """Return the parts of a temporary name, or None for other names."""
    parts = _HIDDEN.fullmatch(path.name)
    if parts is None:
        parts = _PULLED.fullmatch(path.name)
        return parts and Leftover(path, parts["name"], parts["word"], "unknown")
    state: State = "unknown"
    if parts["machine"] == _machine():
        start = system.process_start(int(parts["process"]))
        # "0": the start is unknown, and another process may have the same number.
        if start != "0":
            state = "running" if start == parts["start"] else "ended"
    return Leftover(path, parts["name"], parts["word"], state)


def final_path(path: Path) -> Path:
    """Return the final path of a temporary name; other paths are returned unchanged."""
    hidden = read_hidden(path)
    return path.with_name(hidden.name) if hidden else path


def find_hidden(target: Path) -> list[Leftover]:
    """Return the files and folders whose temporary names stand for the name of `target`."""
    name = _short_name(target)
    start = f".{name}."
    try:
        with os.scandir(target.parent) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(start)]
    except OSError:  # the folder is missing or not readable
        return []
    all_hidden = [read_hidden(target.with_name(name)) for name in names]
    return [hidden for hidden in all_hidden if hidden and hidden.name == name]


def remove_leftovers(target: Path) -> None:
    """Remove the leftovers of killed commands for a target; errors of removal are ignored.

    If a command was killed between the two renames that replace a folder, the old folder gets its
    name back.
    """
    for hidden in find_hidden(target):
        if hidden.state != "ended":
            continue
        with suppress(OSError):
            if hidden.word == OLD_FILE and not os.path.lexists(target):
                # The command was killed between its two renames.
                system.rename_folder(hidden.path, target)
            else:
                remove_hidden(hidden.path)


def remove_hidden(path: Path) -> None:
    """Remove a file or folder with a temporary name, even if another process is removing it."""
    if path.is_dir() and not path.is_symlink():
        with suppress(FileNotFoundError):
            shutil.rmtree(path, onerror=_remove_read_only)
    else:
        system.remove_file(path)


def _remove_read_only(
    remove: Callable[[str], object], path: str, reason: tuple[Any, ...]
) -> None:
    """Make a file writable and retry its removal, because Windows keeps read-only files.

    A file that a program has open is not removed, and stays in the temporary folder.
    """
    if not isinstance(reason[1], FileNotFoundError):
        with suppress(OSError):
            Path(path).chmod(stat.S_IWRITE)
            remove(path)


def find_leftovers(root: Path) -> Iterator[Leftover]:
    """Yield the leftovers in a folder and its subfolders, sorted by name."""
    for folder, folders, files in os.walk(root):
        for name in sorted([*folders, *files]):
            hidden = read_hidden(Path(folder, name)) if name.startswith(".") else None
            if hidden and hidden.state != "running":
                yield hidden
        folders[:] = sorted(name for name in folders if not name.startswith("."))

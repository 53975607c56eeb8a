"""What a command line passes to the function of its command, without calling the function."""

import inspect
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from obygaze import cli
from obygaze_features.core.console import Progress, silent
from support.cli import call_obygaze, commands
from support.functions import functions_of_commands

# Functions that commands call besides: with the result of the first, or before it.
FURTHER = (
    "obygaze_features.core.written_tables:check_output",
    "obygaze_features.manifest.stats:draw_stats",
    "obygaze_models.report.comparison:check_compared",
)
# Files and folders that must be there before a function is called.
FILES = ("affect.txt", "all.h5", "charades.h5", "run1.txt", "violence.qrels")
FOLDERS = ("FEATURES", "data/films", "data/moviegraphs/clips", "folder")


class Recorded:
    """Stands in for the result of a function."""

    n_rows = 1

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def write(self, output: object = None, **values: Any) -> Any:
        """Stand in for the methods that write a table or an audit."""
        self.calls.append(f"write({shown({'output': output, **values})})")
        return WrittenFiles(self.calls)

    def opened(self, **values: Any) -> Any:
        self.calls.append(f"opened({shown(values)})")
        return self

    def to_json(self) -> Mapping[str, Any]:
        return {}

    def __str__(self) -> str:
        return ""


class WrittenFiles(Recorded, tuple):
    """Stands in for the files that a method has written, or for what it returns instead."""

    def __new__(cls, calls: list[str]) -> "WrittenFiles":
        return tuple.__new__(cls)


def shown(values: Mapping[str, object]) -> str:
    """Return the values that were typed, as Python writes them."""
    typed = {
        name: value for name, value in values.items() if value not in (None, False)
    }
    return ", ".join(f"{name}={as_text(value)}" for name, value in typed.items())


class Recorder:
    """Replaces the functions of all commands, and writes down how they are called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        # All modules are imported first: a module that is imported later would keep a recorder.
        for _, function in [*functions_of_commands()]:
            module = sys.modules[function.__module__]
            monkeypatch.setattr(module, function.__name__, self.instead_of(function))
        for target in FURTHER:
            module_name, _, name = target.partition(":")
            module = import_module(module_name)
            further = self.instead_of(getattr(module, name), returned=())
            monkeypatch.setattr(module, name, further)

    def instead_of(
        self, function: Callable[..., Any], returned: object = None
    ) -> Callable[..., Any]:
        """Return a function that writes down a call, without the values that are defaults."""
        signature = inspect.signature(function)

        def record(*args: Any, **values: Any) -> Any:
            given = signature.bind(*args, **values).arguments
            texts = [
                f"{name}={as_text(value)}"
                for name, value in given.items()
                if not isinstance(value, Recorded)
                and as_text(value) != as_text(signature.parameters[name].default)
            ]
            self.calls.append(f"{function.__name__}({', '.join(texts)})")
            return Recorded(self.calls) if returned is None else returned

        return record

    def calls_of(self, line: str, folder: Path) -> list[str]:
        """Return the calls that a line leads to."""
        self.calls.clear()
        done = call_obygaze(*words_of(line), cwd=folder)
        assert done.code == 0, f"{line}\n{done.stderr}"
        return list(self.calls)


def words_of(line: str) -> list[str]:
    """Return the words after `obygaze`, without what a shell does; /data is a folder beside."""
    words = shlex.split(line)[1:]
    if ">" in words:
        words = words[: words.index(">")]
    return [re.sub("^/data/", "data/", word) for word in words]


def as_text(value: Any) -> str:
    """Return a value as Python writes it; a list is a tuple, and a bar says what it counts."""
    if isinstance(value, Path):
        return f"Path({value.as_posix()!r})"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(as_text, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Mapping):
        pairs = [f"{as_text(name)}: {as_text(item)}" for name, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, Progress):
        return f"<{value.label} {value.unit}>"
    if value is silent:
        return "<silent>"
    if callable(value) and not isinstance(value, type):
        try:
            with value("label", 1) as bar:
                return f"<bars of {bar.unit}>"
        except TypeError:
            return "<note>"
    return repr(value)


def write_inputs(folder: Path) -> None:
    """Write what must be there before a function is called."""
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    for name in FILES:
        (folder / name).touch()
    for name in ("x.npz", "xclip.npz", "xclip.zarr", "file.csv"):
        (folder / name).touch()
    (folder / "chosen.txt").write_text("tt1-001\ntt1-002\n", encoding="utf-8")


def examples() -> list[str]:
    """Return the lines of the examples of all commands."""
    found = []
    for _, command in commands(cli.root):
        text = getattr(command, "examples", "").replace("\\\n", " ")
        found += [
            " ".join(line.split())
            for line in text.splitlines()
            if line.strip().startswith("obygaze ")
        ]
    return found


def options() -> set[tuple[str, str]]:
    """Return every option of every command that is not an option of all commands."""
    return {
        (words, option.opts[0])
        for words, command in commands(cli.root)
        for option in command.params
        if isinstance(option, click.Option)
        and not option.hidden
        and option.opts[0] not in ("--json", "-C")
    }


RECORDED = Path(__file__).parents[1] / "obygaze" / "calls.txt"


def blocks(text: str) -> list[tuple[str, list[str]]]:
    """Return the lines that are typed in a file of calls, each with its calls."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif line and not line.startswith("#"):
            found[-1][1].append(line)
    return found


def record(folder: Path) -> None:
    """Write anew what each line of the recorded file calls."""
    write_inputs(folder)
    with pytest.MonkeyPatch.context() as monkeypatch:
        recorder = Recorder(monkeypatch)
        text = []
        for line in RECORDED.read_text(encoding="utf-8").splitlines():
            if line.startswith("$ "):
                calls = recorder.calls_of(line.removeprefix("$ "), folder)
                text += [line, *calls]
            elif not line or line.startswith("#"):
                text.append(line)
    RECORDED.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        record(Path(name))

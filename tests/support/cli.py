"""The `obygaze` command as tests use it: a real process, or this one where time matters."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[2]


# What a new process reads first: a finder of modules that does not find some.
_HIDE = """
import sys
from importlib.machinery import PathFinder


class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in {names!r} else super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
"""


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        return json.loads(self.stdout)

    def ok(self) -> Result:
        """The same, or a failure that shows what the command said."""
        if self.code != 0:
            raise AssertionError(f"exit {self.code}\n{self.stdout}\n{self.stderr}")
        return self


def obygaze_argv(*args: str | os.PathLike[str]) -> list[str]:
    return [sys.executable, "-m", "obygaze", *map(os.fspath, args)]


def run_obygaze(
    *args: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    timeout: float = 280,
    stdin: str = "",
) -> Result:
    """Run the command as a person would; `env` adds variables, None takes one away."""
    done = subprocess.run(
        obygaze_argv(*args),
        cwd=cwd,
        env=environment(env),
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def begins_with(folder: Path, program: str) -> dict[str, str | None]:
    """The variables of a process that runs a program before all else."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(program, encoding="utf-8")
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def without_packages(folder: Path, *names: str) -> dict[str, str | None]:
    """The variables of a process that does not find these packages."""
    return begins_with(folder, _HIDE.format(names=names))


def environment(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    merged: dict[str, str | None] = {**os.environ, **(changes or {})}
    return {name: value for name, value in merged.items() if value is not None}


def commands(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        elif command is not None:
            yield " ".join((*words, name)), command


def call_obygaze(
    *args: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    into: io.StringIO | None = None,
) -> Result:
    """Run the command inside this process: quick, for tests of what it says and not how.

    Where `into` is given, both streams go there.
    """
    from obygaze import cli

    out, err = into or io.StringIO(), into or io.StringIO()
    with (
        _surroundings(cwd, env),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = cli.run_line([os.fspath(word) for word in args])
    return Result(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _surroundings(cwd: str | os.PathLike[str] | None, env) -> Iterator[None]:
    before = dict(os.environ)
    try:
        changed = environment(env)
        os.environ.clear()
        os.environ.update(changed)
        with contextlib.chdir(cwd or Path.cwd()):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)

"""Type commands in a workspace and read what they say, as a person does."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.advice import follow
from support.cli import call_obygaze, environment, obygaze_argv

ExitCode = int | tuple[int, ...]
# The variables to set; None takes one away.
Environment = Mapping[str, str | None] | None


@dataclass(frozen=True)
class Answer:
    line: str
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return " ".join(f"{self.out}\n{self.err}".split())

    def json(self) -> Any:
        return json.loads(self.out)


class Workspace:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Running] = []
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(
        self, line: str, *, code: ExitCode = 0, env: Environment = None
    ) -> Answer:
        """Type a line, such as "manifest stats films", and demand its exit code.

        What the line "Try:" of an error names is typed too, in a copy of the folder.
        Several codes are allowed where a promise that is not kept yet will change the code.

        The line runs inside this process, which is quick. A command that needs a process of its
        own is typed with `process`.
        """
        words = shlex.split(line)
        done = call_obygaze(*words, cwd=self.folder, env=env)
        answer = checked(Answer(line, done.code, done.stdout, done.stderr), code)
        if done.code != 0:
            follow(words, done, self.folder, env)
        return answer

    def process(
        self, line: str, *, code: ExitCode = 0, env: Environment = None
    ) -> Answer:
        """Type a line in a process of its own, and demand its exit code."""
        return self.start(line, env=env).wait(code=code)

    def start(self, line: str, *, env: Environment = None) -> Running:
        running = Running(line, self.folder, env)
        self._started.append(running)
        return running

    def end_all(self) -> None:
        for running in self._started:
            if running.is_running():
                running.kill()

    def path(self, name: str) -> Path:
        return self.folder / name

    def read(self, name: str) -> str:
        return self.path(name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> Path:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def read_table(self, name: str) -> list[dict[str, str]]:
        with self.path(name).open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))

    def write_table(self, name, rows, separator: str = ",") -> Path:
        rows = list(rows)
        path = self.write(name, "")
        with path.open("w", encoding="utf-8", newline="") as stream:
            form = {"delimiter": separator, "lineterminator": "\n"}
            writer = csv.DictWriter(stream, list(rows[0]), **form)
            writer.writeheader()
            writer.writerows(rows)
        return path

    def import_table(self, rows, manifest: str, table: str = "") -> Answer:
        name = f"{table or manifest}.csv"
        self.write_table(name, rows)
        return self(f"manifest import {name} -o {manifest}")

    def features_of(self, store: str) -> dict[str, bytes]:
        """Return the files of a store but store.json and README.md, which have its time."""
        files = self.bytes_of(f"stores/{store}")
        return {
            name: files[name] for name in files.keys() - {"store.json", "README.md"}
        }

    def bytes_of(self, name: str) -> dict[str, bytes]:
        root = self.path(name)
        assert root.is_dir(), f"{name} is no folder of the workspace"
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}

    def copy_of(self, made: Path) -> None:
        shutil.copytree(made, self.folder, dirs_exist_ok=True, symlinks=True)


def checked(answer: Answer, code: ExitCode) -> Answer:
    codes = (code,) if isinstance(code, int) else code
    assert answer.code in codes, (
        f"obygaze {answer.line}\nended with {answer.code}, expected {code}\n"
        f"{answer.out}\n{answer.err}"
    )
    return answer


class Running:
    def __init__(self, line: str, folder: Path, env: Environment) -> None:
        self.line = line
        self._process = subprocess.Popen(
            obygaze_argv(*shlex.split(line)),
            cwd=folder,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            # A group of its own, so that a kill reaches the processes that it started.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> Answer:
        """Kill the process and every process that it started, as a node that fails does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._ended()

    def wait(self, *, code: ExitCode = 0) -> Answer:
        return checked(self._ended(), code)

    def _ended(self) -> Answer:
        try:
            out, err = self._process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise
        return Answer(self.line, self._process.returncode, out, err)


def wait_until(holds: Callable[[], bool], running: Running | None = None) -> None:
    """Wait until `holds()` is true; a command that ends before is an error."""
    for _ in range(12_000):
        if holds():
            return
        if running is not None and not running.is_running():
            assert holds(), f"obygaze {running.line}\nended too early"
            return
        time.sleep(0.01)
    raise AssertionError("waited two minutes for something that did not happen")

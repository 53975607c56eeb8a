"""Real shells with the completion that the guide installs: what becomes of a line on Tab."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.pages import guide_blocks

TIMEOUT_S = 120


def installed(shell: str, home: Path) -> dict[str, str]:
    """Type what the guide says for a shell, in a home of its own; the environment it then has."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    script = Path(sys.executable).with_name("obygaze")
    if not script.exists():
        pytest.skip("obygaze is not installed as a script here")
    env = {
        "HOME": str(home),
        "PATH": os.pathsep.join(
            [str(script.parent), os.environ.get("PATH", "/usr/bin:/bin")]
        ),
        "SHELL": shell,
        "TERM": "dumb",
        "LANG": "C.UTF-8",
    }
    words = next(
        block.commands
        for block in guide_blocks()
        if "completion --install" in block.text
    )
    subprocess.run(["bash", "-eu", "-c", words], cwd=home, env=env, check=True)
    return env


def on_tab(shell: str, line: str, workspace: Path, env: dict[str, str]) -> str:
    """The line after Tab was pressed at its end."""
    if shell == "fish":
        words = f"complete -C {_quoted(line)}"
        done = subprocess.run(
            ["fish", "-c", words],
            cwd=workspace,
            env=env,
            capture_output=True,
            check=True,
        )
        found = [word.partition("\t")[0] for word in done.stdout.decode().splitlines()]
        assert len(found) == 1, found
        return line[: len(line) - len(line.split(" ")[-1])] + found[0].rstrip("/")
    with _typing([shell, "-i"], workspace, env) as keyboard:
        _until(keyboard, b"echo read$((3*7))\n", rb"read21")
        # Ctrl-A and an echo: what the shell then prints is the line as Tab has left it.
        said = _until(
            keyboard, line.encode() + b"\t\x01echo got$((3*7)): \n", rb"got21:[^\n]*\n"
        )
        return said.decode().partition("got21:")[2].strip().rstrip("/")


def _quoted(line: str) -> str:
    assert "'" not in line
    return f"'{line}'"


@contextmanager
def _typing(argv: list[str], workspace: Path, env: dict[str, str]) -> Iterator[int]:
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this system")
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        argv,
        cwd=workspace,
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield ours
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def _until(keyboard: int, typed: bytes, answer: bytes) -> bytes:
    """Type, and read until the answer is there; what came until then."""
    os.write(keyboard, typed)
    said, end = b"", time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        if select.select([keyboard], [], [], 1)[0]:
            said += os.read(keyboard, 65536)
            if found := re.search(answer, said):
                return found[0]
    raise AssertionError(f"no answer to {typed!r}, only {said!r}")

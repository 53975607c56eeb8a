"""Type a command whose exit code will be another one once a defect is mended."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from support.cli import call_obygaze, run_obygaze

from stories.workspace import Answer, Workspace


def type_line(
    ws: Workspace,
    line: str,
    *,
    codes: tuple[int, ...],
    env: Mapping[str, str | None] | None = None,
) -> Answer:
    """Type a line and demand that it ends with one of the exit codes.

    With `env`, it runs in a process of its own, with these variables.
    """
    call = call_obygaze if env is None else run_obygaze
    done = call(*shlex.split(line), cwd=ws.folder, env=env)
    answer = Answer(line, done.code, done.stdout, done.stderr)
    assert answer.code in codes, (
        f"obygaze {line}\nended with {answer.code}, expected one of {codes}\n"
        f"{answer.out}\n{answer.err}"
    )
    return answer

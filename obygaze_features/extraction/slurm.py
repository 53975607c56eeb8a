"""Write a Slurm script: an array of tasks that run `extract run` and fill the same stores.

No job is submitted or recorded: the stores alone show what is done.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from obygaze_features.backbones.devices import AUTO_DEVICE, check_device_name
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_new
from obygaze_features.core.function_commands import make_command, typed_values
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.commands import EXTRACT
from obygaze_features.extraction.planning import (
    ExtractionPlan,
    StorePlan,
    choose_backbones,
    plan_stores,
)
from obygaze_features.extraction.results import SlurmScript
from obygaze_features.manifest.io import read_manifest
from obygaze_features.store.layout import choose_block_rows


def write_slurm_script(
    words: Sequence[str],
    *,
    tasks: int,
    out: PathLike,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SlurmScript:
    """Write a Slurm script whose tasks extract features together.

    The options are the options of `obygaze extract run`; options of sbatch follow after --. No
    weights are downloaded: `obygaze backbones fetch` downloads missing weights. The exit codes of a
    task are the exit codes of `obygaze extract run`. A task is queued again if it is preempted or
    its node fails; after a time limit, submit the script again. Logs are in the folder logs of the
    workspace.

    Args:
        words: Arguments and options of `extract run`; after --, options of sbatch, which override
            the options in the script.
        tasks: Number of tasks.
        out: File of the new script.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze extract slurm films -b descriptors --tasks 8 -o night.sh
        obygaze extract slurm films -b clip-b16 --device cuda --tasks 4 -o night.sh -- --gres gpu:1
        obygaze extract slurm films -b descriptors --tasks 8 -o night.sh -- -p long --time 8:00:00
    """
    from obygaze_features.core.rendering import render

    run_words = list(words)
    sbatch_options: list[str] = []
    if "--" in run_words:
        place = run_words.index("--")
        sbatch_options = run_words[place + 1 :]
        run_words = run_words[:place]
    root = Workspace.of(workspace).root.resolve()
    plan = _check_plan(run_words, root)
    n_blocks = max(
        _missing_blocks(store, windows=plan.grid is not None) for store in plan.stores
    )
    if not n_blocks:
        raise FixUsage(
            "no features are missing, so the tasks would have nothing to compute"
        )
    if tasks > n_blocks:
        raise FixUsage(
            f"--tasks: expected at most {n_blocks}, one for each missing block of clips, got"
            f" {tasks}",
            hint=f"use --tasks {n_blocks}",
        )
    logs = root / "logs"
    words = [*_obygaze_program(), "-C", str(root), "extract", "run", *run_words]
    text = render(
        "slurm.sh",
        "obygaze_features.extraction",
        name="obygaze-" + re.sub(r"[^\w.-]", "-", plan.manifest),
        tasks=tasks,
        log=_for_sbatch(f"{_as_pattern(logs)}/%x-%A_%a.log"),
        sbatch_options=" ".join(map(_for_sbatch, sbatch_options)),
        folder=_one_line(shell_word(Path.cwd())),
        command=_one_line(shlex.join(words)),
    )
    # Slurm starts no task whose log it cannot write.
    logs.mkdir(exist_ok=True)
    write_new(Path(out), text.encode("utf-8"), force=force)
    return SlurmScript(Path(out), tasks)


def _check_plan(run_words: Sequence[str], workspace: Path) -> ExtractionPlan:
    """Return the plan of a run.

    This raises the errors of `extract run` now: a task may wait for days before it raises them.
    """
    run = make_command(EXTRACT, "run")
    try:
        ctx = run.make_context("obygaze extract run", list(run_words))
    except click.NoSuchOption as error:
        raise FixUsage(
            error.format_message(),
            hint=f"if it is an option of sbatch, write it at the end: -- {error.option_name}",
        ) from error
    values = typed_values(ctx.params, run.params)
    if values["seal_now"]:
        raise FixUsage(
            "--seal-now would leave no clips to the tasks of the script",
            hint="remove --seal-now; when the tasks have ended, run: obygaze extract run ..."
            " --seal-now",
        )
    if values["device"] != AUTO_DEVICE:
        check_device_name(values["device"])
    targets = choose_backbones(
        values.get("backbones", ()),
        arrays=values.get("arrays", ()),
        weights=values.get("weights", ()),
        stores=values.get("stores"),
        dtype=values["dtype"],
    )
    here = Workspace.of(workspace)
    plan = plan_stores(
        read_manifest(values["manifest"], workspace=here),
        targets,
        here,
        retry_failed=values["retry_failed"],
        is_elsewhere=True,
    )
    plan.refuse()
    return plan


def _missing_blocks(store: StorePlan, *, windows: bool) -> int:
    """Return the number of missing blocks of a store."""
    if store.filling is not None:
        return len(store.filling.missing())
    row_bytes = sum(array.row_bytes for array in store.arrays)
    block_rows = choose_block_rows(len(store.work.rows), row_bytes, windows=windows)
    computed_rows = np.flatnonzero(store.work.computed)
    return len(np.unique(computed_rows // block_rows))


def _obygaze_program() -> list[str]:
    """Return the words of a command line that start this installation of the program."""
    called = Path(sys.argv[0])
    if called.name == "obygaze" and called.is_file():
        return [str(called.absolute())]
    beside = Path(sys.executable).with_name("obygaze")
    return [str(beside)] if beside.is_file() else [sys.executable, "-m", "obygaze"]


def _as_pattern(folder: Path) -> str:
    """Return a folder for the name of a log, with each % doubled, because Slurm replaces %."""
    # Slurm replaces nothing in a name with a backslash: all tasks would have one log.
    if "\\" in str(folder):
        raise FixUsage(
            "Slurm cannot write logs to a folder with a backslash in its name",
            where=str(folder),
        )
    # It replaces what follows a single % in the name of a folder too.
    return str(folder).replace("%", "%%")


def _for_sbatch(word: str) -> str:
    """Return a word as it must be written in a line of #SBATCH."""
    # Slurm reads quotes, backslashes and # nearly as a shell does, within quotes as well.
    if word and re.search(r"[\s'\"\\#]", _one_line(word)) is None:
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _one_line(text: str) -> str:
    """Return a text unchanged; raise an error if it has line breaks or control characters.

    In a script, the text after a line break would be a command.
    """
    if not text.isprintable():
        raise FixUsage(
            f"a Slurm script cannot have line breaks or control characters in: {text!r}"
        )
    return text

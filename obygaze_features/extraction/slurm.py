"""Write a Slurm script: an array of tasks that run `extract run` and fill the same stores.

A second array may keep the pictures first, so that the GPUs of the tasks do not wait for decoding.

No job is submitted or recorded: the stores alone show what is done.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from obygaze_features.backbones.cards import FRAMES_OF
from obygaze_features.backbones.devices import AUTO_DEVICE, check_device_name
from obygaze_features.core.clip_ids import each_name
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_all_new
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.extracting import TIMEOUT_S
from obygaze_features.extraction.planning import (
    ChosenBackbone,
    ExtractionPlan,
    StorePlan,
    choose_backbones,
    plan_stores,
)
from obygaze_features.extraction.results import SlurmScript
from obygaze_features.manifest.io import read_manifest
from obygaze_features.store.layout import choose_block_rows
from obygaze_features.video.decoded_clip import PictureView


def write_slurm_script(
    manifest: PathLike,
    backbones: str | Sequence[str] = (),
    *,
    tasks: int,
    out: PathLike,
    sbatch: Sequence[str] = (),
    retry_failed: bool = False,
    accept_damaged: bool = False,
    timeout_s: float = TIMEOUT_S,
    arrays: Sequence[str] = (),
    weights: Sequence[str] | Mapping[str, PathLike] = (),
    stores: Mapping[str, PathLike] | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    licence: str = "",
    device: str = AUTO_DEVICE,
    workers: int | None = None,
    batch: int | None = None,
    decode_first: bool = False,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SlurmScript:
    """Write a Slurm script whose tasks extract features together, as `extract` does.

    No weights are downloaded: `og.backbones.fetch` downloads missing weights. The exit codes of a
    task are those of the command `extract run`. A task is queued again before its time ends, and if
    it is preempted or its node fails. Logs are in the folder logs of the workspace.

    With `decode_first`, a second script, NAME-frames.sh, keeps the pictures on CPUs. The tasks of
    the script begin when all pictures are kept, and read these.

    Args:
        manifest: The clips, linked to their videos.
        backbones: Names of backbones, or your own code (FILE.py:NAME).
        tasks: Number of tasks.
        out: File of the new script.
        sbatch: Options of sbatch, which override the options in the script.
        retry_failed: Try failed clips again.
        accept_damaged: Use damaged pictures and sound as they are decoded.
        timeout_s: Largest time to decode one clip, in seconds.
        arrays: Arrays to store; by default all but tokens.
        weights: Files or folders of weights.
        stores: The store of a backbone, if it is not MANIFEST.NAME.
        dtype: Precision of the computation.
        licence: Licence of the features; kept frames get none.
        device: Device that computes: auto (an idle GPU, else the CPU), cpu, cuda or cuda:1.
        workers: Processes that decode or read clips.
        batch: Number of clips that are computed at once.
        decode_first: Keep the pictures first, by a second script without the options of sbatch.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    here = Workspace.of(workspace)
    # A task may wait for days before it raises the errors of the plan: they are raised now.
    if device != AUTO_DEVICE:
        check_device_name(device)
    targets = choose_backbones(
        backbones, arrays=arrays, weights=weights, stores=stores, dtype=dtype
    )
    plan = _plan_tasks(manifest, targets, here, retry_failed=retry_failed, tasks=tasks)
    of_decoding: dict[str, object] = {
        "--timeout": timeout_s if timeout_s != TIMEOUT_S else None,
        "--workers": workers,
    }
    of_computing: dict[str, object] = {
        "--dtype": dtype if dtype != "float32" else None,
        "--licence": licence or None,
        "--device": device if device != AUTO_DEVICE else None,
        "--batch": batch,
    }
    flags = {"--retry-failed": retry_failed, "--accept-damaged": accept_damaged}
    run_words = _words_of_run(
        manifest,
        backbones,
        arrays=arrays,
        weights=weights,
        stores=stores,
        values=of_decoding | of_computing,
        flags=flags,
    )
    name = "obygaze-" + re.sub(r"[^\w.-]", "-", plan.manifest)
    path = Path(out)
    scripts = {path: _script(here, name, tasks, run_words, sbatch)}
    before = None
    if decode_first:
        frames = _frames_of(plan)
        targets = choose_backbones(
            frames, arrays=(), weights=(), stores=None, dtype="float32"
        )
        _plan_tasks(manifest, targets, here, retry_failed=retry_failed, tasks=tasks)
        run_words = _words_of_run(
            manifest,
            frames,
            arrays=(),
            weights=(),
            stores=None,
            values=of_decoding,
            flags=flags,
        )
        before = path.with_name(f"{path.stem}-frames{path.suffix}")
        scripts[before] = _script(here, f"{name}-frames", tasks, run_words, ())
    # Slurm starts no task whose log it cannot write.
    (here.root.resolve() / "logs").mkdir(exist_ok=True)
    write_all_new(
        {place: text.encode("utf-8") for place, text in scripts.items()}, force=force
    )
    return SlurmScript(path, tasks, before)


def _plan_tasks(
    manifest: PathLike,
    targets: Sequence[ChosenBackbone],
    workspace: Workspace,
    *,
    retry_failed: bool,
    tasks: int,
) -> ExtractionPlan:
    """Return the plan of the tasks; raise its errors, and one if a task would have no block."""
    plan = plan_stores(
        read_manifest(manifest, workspace=workspace),
        targets,
        workspace,
        retry_failed=retry_failed,
        is_elsewhere=True,
    )
    plan.refuse()
    names = ", ".join(target.backbone for target in targets)
    n_blocks = max(_missing_blocks(store) for store in plan.stores)
    if not n_blocks:
        raise FixUsage(
            f"nothing is missing of {names}, so the tasks would have nothing to compute"
        )
    if tasks > n_blocks:
        raise FixUsage(
            f"--tasks: expected at most {n_blocks}, one for each missing block of clips, got"
            f" {tasks}",
            hint=f"use --tasks {n_blocks}",
        )
    return plan


def _frames_of(plan: ExtractionPlan) -> list[str]:
    """Return the backbones frames:NAME for the incomplete stores of a plan, each view once."""
    names: dict[PictureView, str] = {}
    for store in plan.stores:
        if isinstance(store.view, PictureView) and _missing_blocks(store):
            names.setdefault(store.view, f"{FRAMES_OF}{store.target.backbone}")
    if not names:
        raise FixUsage("--decode-first: no backbone with missing clips takes pictures")
    return list(names.values())


def _script(
    workspace: Workspace,
    name: str,
    tasks: int,
    run_words: Sequence[str],
    sbatch: Sequence[str],
) -> str:
    """Return the script of an array of tasks that call `extract run` with these words."""
    from obygaze_features.core.rendering import render

    root = workspace.root.resolve()
    words = [*_obygaze_program(), "-C", str(root), "extract", "run", *run_words]
    return render(
        "slurm.sh",
        "obygaze_features.extraction",
        name=name,
        tasks=tasks,
        log=_for_sbatch(f"{_as_pattern(root / 'logs')}/%x-%A_%a.log"),
        sbatch_options=" ".join(map(_for_sbatch, sbatch)),
        folder=_one_line(shell_word(Path.cwd())),
        command=_one_line(shlex.join(words)),
    )


def _words_of_run(
    manifest: PathLike,
    backbones: str | Sequence[str],
    *,
    arrays: Sequence[str],
    weights: Sequence[str] | Mapping[str, PathLike],
    stores: Mapping[str, PathLike] | None,
    values: Mapping[str, object],
    flags: Mapping[str, bool],
) -> list[str]:
    """Return the words after `extract run` for these values; a value of None is left out."""
    words = [os.fspath(manifest)]
    for name in each_name(backbones):
        words += ["-b", name]
    if arrays:
        words += ["--arrays", ",".join(arrays)]
    if isinstance(weights, Mapping):
        weights = _named_words(weights)
    for word in weights:
        words += ["--weights", word]
    for word in _named_words(stores or {}):
        words += ["--store", word]
    for option, value in values.items():
        if value is not None:
            words += [option, str(value)]
    words += [option for option, is_set in flags.items() if is_set]
    return words


def _named_words(paths: Mapping[str, PathLike]) -> list[str]:
    """Return the words NAME=PATH of a mapping."""
    return [f"{name}={os.fspath(path)}" for name, path in paths.items()]


def _missing_blocks(store: StorePlan) -> int:
    """Return the number of missing blocks of a store."""
    if store.filling is not None:
        return len(store.filling.missing())
    row_bytes = sum(array.row_bytes for array in store.arrays)
    block_rows = choose_block_rows(len(store.work.rows), row_bytes)
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

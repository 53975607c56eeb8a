"""Extract on several devices of one machine, with a process for each."""

import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from obygaze_features.core.console import silent
from obygaze_features.core.errors import EXIT_INTERRUPTED, FixUsage, ObygazeError
from obygaze_features.core.lazy import need
from obygaze_features.extraction.plan import ExtractPlan, plan_from_bytes
from obygaze_features.extraction.run import (
    Resources,
    RowProgress,
    extract_plan,
    refuse_retry,
    refuse_unusable,
)
from obygaze_features.extraction.shared_machine import StopFlag, stop_on_signals
from obygaze_features.extraction.sources import units_again
from obygaze_features.extraction.status import (
    StoreStatus,
    missing_units,
    status_of_stores,
)

POLL_S = 0.2
# How long a process may take to write what it has finished.
INTERRUPT_S = 5.0


def devices_of(text: str) -> list[str]:
    """Return the devices of an option: one, several, or all GPUs (cuda:all).

    Example:
        >>> devices_of("cuda:0,cuda:2")
        ['cuda:0', 'cuda:2']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["cuda:all"]:
        cuda = need("torch", "extract", "computing on a GPU").cuda
        names = [f"cuda:{index}" for index in range(cuda.device_count())]
        if not names:
            raise FixUsage("this machine has no CUDA device", hint="--device cpu")
    if not names:
        raise FixUsage(
            f"--device names no device: {text!r}", hint="cpu, cuda, or cuda:1"
        )
    kinds = {name.partition(":")[0] for name in names}
    for name in names:
        if not re.fullmatch("cpu|cuda(:[0-9]+)?", name):
            raise FixUsage(f"unknown device {name!r}", hint="cpu, cuda, or cuda:1")
    if len(kinds) > 1:
        raise FixUsage(
            f"expected only GPUs or only cpu, got {text}: features of a GPU differ slightly",
            hint="run the command once for each, with a store of its own",
        )
    return names


def extract_on_devices(
    plan: ExtractPlan,
    shares: Sequence[Resources],
    stop: StopFlag,
    *,
    rows: Sequence[int] | None = None,
    worker: str | None = None,
    retry_failed: bool = False,
    changed: bool = False,
    mixed: bool = False,
    progress: RowProgress | None = None,
    note: Callable[[str], object] = silent,
) -> list[StoreStatus]:
    """Extract what is missing of a plan's stores on several devices.

    Return the status of the stores, that of `rows` if given.

    With one share, this process extracts. The processes of several take the missing units in turns,
    and one that has finished takes over units of the others. If one of them ends early, the others
    stop too; the same call extracts what is left.

    Args:
        plan: The clips, backbones and stores.
        shares: What each process may use; a device may be in several of them.
        stop: The flag that stops the run.
        rows: Rows of whole units to extract. The default is all rows.
        worker: The worker whose rows these are, such as 0/8. After them, it takes over units of
            other workers.
        retry_failed: Extract all rows again that failed or had no video, and no others.
        changed: With `retry_failed`, also rows of clips whose times or video changed.
        mixed: Add to stores whose clips were made in another way.
        progress: The progress bar. The default shows nothing.
        note: Is called with what this process takes over of other workers.
    """
    settings: dict[str, bool] = {
        "retry_failed": retry_failed,
        "changed": changed,
        "mixed": mixed,
    }
    if len(shares) == 1:
        return extract_plan(
            plan,
            shares[0],
            stop,
            rows=rows,
            worker=worker,
            retry_failed=retry_failed,
            changed=changed,
            mixed=mixed,
            progress=progress,
            note=note,
        )
    refuse_unusable(plan, rows, only_sealed=changed)
    units = _units_to_extract(plan, rows, retry_failed=retry_failed, changed=changed)
    running: dict[Any, SpawnProcess] = {}
    n_rows = 0
    for first, share in enumerate(shares):
        rows_of_share: list[int] = []
        for unit in units[first :: len(shares)]:
            rows_of_share += plan.unit_range(unit)
        n_rows += len(rows_of_share)
        if rows_of_share:
            # Rows that are given without a worker are the only ones to extract.
            is_limited = rows is not None and worker is None
            part = None if is_limited else part_of_worker(worker, first, len(shares))
            connection, process = _started(plan, share, rows_of_share, part, settings)
            running[connection] = process
    progress = progress or RowProgress()
    progress.begin(n_rows)
    try:
        errors = _wait_for_all(running, stop, progress)
    except KeyboardInterrupt:
        _interrupt(list(running.values()))
        raise
    if errors and not stop:
        raise errors[0]
    # After an early stop, there may be no stores yet.
    return status_of_stores(plan, rows)


def part_of_worker(worker: str | None, index: int, n_parts: int) -> str:
    """Return the worker that is one of the parts of a worker, or of the only one.

    Example:
        >>> part_of_worker(None, 1, 2)
        '1/2'
        >>> part_of_worker("3/8", 1, 2)
        '11/16'
    """
    first, _, n_workers = (worker or "0/1").partition("/")
    return f"{int(first) + index * int(n_workers)}/{int(n_workers) * n_parts}"


def _units_to_extract(
    plan: ExtractPlan,
    rows: Sequence[int] | None,
    *,
    retry_failed: bool,
    changed: bool,
) -> Sequence[int]:
    """Return the units that are missing, or with `retry_failed` those to extract again."""
    if retry_failed:
        refuse_retry(plan, rows)
        units = units_again(plan, changed=changed)
    else:
        units = missing_units(plan)
    if rows is None:
        return units
    units_of_rows = {row // plan.unit_rows for row in rows}
    return [unit for unit in units if unit in units_of_rows]


def _wait_for_all(
    processes: Mapping[Any, SpawnProcess], stop: StopFlag, progress: RowProgress
) -> list[ObygazeError]:
    """Show the rows of processes until all have ended; return their errors.

    After an error, and after a signal, the other processes are ended too.
    """
    running = dict(processes)
    errors: list[ObygazeError] = []
    while running:
        for connection in wait(list(running), POLL_S):
            message = _received(connection, running[connection])  # type: ignore[arg-type]
            if isinstance(message, tuple):
                progress(*message)
                continue
            del running[connection]
            if message is not None:
                errors.append(message)
        if stop or errors:
            for process in running.values():
                process.terminate()
    for process in processes.values():
        process.join()
    return errors


def _interrupt(processes: Sequence[SpawnProcess]) -> None:
    """End processes without waiting for clips at work; each keeps what it has finished."""
    for process in processes:
        process.terminate()  # the first signal, where the terminal has sent none
        if process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGINT)
    for process in processes:
        process.join(INTERRUPT_S)
        process.kill()
        process.join()


def _started(
    plan: ExtractPlan,
    resources: Resources,
    rows: Sequence[int],
    worker: str | None,
    settings: Mapping[str, bool],
) -> tuple[Connection, SpawnProcess]:
    """Start a process that extracts rows, named after its device; return its messages and it."""
    spawn = multiprocessing.get_context("spawn")
    messages, sender = spawn.Pipe(duplex=False)
    work = sender, plan.to_bytes(), resources, rows, worker, settings
    process = spawn.Process(target=_work, name=resources.device, args=work)
    process.start()
    sender.close()
    return messages, process


def _received(messages: Connection, process: SpawnProcess) -> Any:
    """Return the next row or error of a process; None once it has ended as it should."""
    try:
        return messages.recv()
    except EOFError:
        process.join()
    code = process.exitcode or 0
    if not code:
        return None
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return ObygazeError(
        f"the process of {process.name} ended ({how}) before its clips were extracted",
        hint="run the same command again to resume",
    )


class _Sender(RowProgress):
    """Sends the rows of a process to the process that shows them."""

    def __init__(self, messages: Connection) -> None:
        super().__init__()
        self.messages = messages

    def __call__(self, row: int, failed: bool) -> None:
        """Send a row."""
        self.messages.send((row, failed))


def _work(
    messages: Connection,
    plan: bytes,
    resources: Resources,
    rows: Sequence[int],
    worker: str | None,
    settings: Mapping[str, bool],
) -> None:
    # If the process that shows the rows was killed, this one ends with its next row.
    with stop_on_signals() as stop, suppress(BrokenPipeError):
        try:
            extract_plan(
                plan_from_bytes(plan, "plan"),
                resources,
                stop,
                rows=rows,
                worker=worker,
                progress=_Sender(messages),
                retry_failed=settings["retry_failed"],
                changed=settings["changed"],
                mixed=settings["mixed"],
            )
        except ObygazeError as error:
            messages.send(error)
        except KeyboardInterrupt:
            # Python would wait for threads that compute a clip.
            os._exit(EXIT_INTERRUPTED)

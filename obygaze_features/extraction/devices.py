"""Extract on several devices of one machine: a process for each, all workers of the same stores."""

import multiprocessing
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from obygaze_features.core.errors import EXIT_INTERRUPTED, FixUsage, ObygazeError
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import count_gpus_as_nvidia_smi
from obygaze_features.extraction.results import Listener
from obygaze_features.extraction.stopping import StopFlag, stop_on_signals

# A GPU with more memory in use is not idle; a screen takes less.
_IDLE_MB = 2000
_NVIDIA_SMI_S = 30
_POLL_S = 0.2

# Is called with what a device is to do, the flag that stops it, and what hears of its work.
WorkOfDevice = Callable[[Any, StopFlag, Listener], Any]


def devices_of(text: str) -> list[str]:
    """Return the devices of an option: one, several, or all idle GPUs (cuda:all).

    Example:
        >>> devices_of("cuda:0,cuda:2")
        ['cuda:0', 'cuda:2']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["cuda:all"]:
        return idle_gpus()
    for name in names:
        if not re.fullmatch("cpu|cuda(:[0-9]+)?", name):
            raise FixUsage(f"unknown device {name!r}", hint="cpu, cuda, or cuda:1")
    if not names:
        raise FixUsage(
            f"--device names no device: {text!r}", hint="cpu, cuda, or cuda:1"
        )
    kinds = {name.partition(":")[0] for name in names}
    if len(kinds) > 1:
        raise FixUsage(
            f"expected only GPUs or only cpu, got {text!r}: their features differ slightly",
        )
    return names


def idle_gpus() -> list[str]:
    """Return the visible GPUs of which hardly any memory is in use; an error if there is none."""
    count_gpus_as_nvidia_smi()
    cuda = need("torch", "extract", "computing on a GPU").cuda
    used_mb = _used_mb()
    devices = []
    for number, name in enumerate(_visible(cuda.device_count())):
        # Of a GPU that nvidia-smi does not name so, such as a part of one, nothing is known.
        if used_mb.get(name, 0) <= _IDLE_MB:
            devices.append(f"cuda:{number}")
    if not devices:
        n_gpus = cuda.device_count()
        problem = "no idle GPU" if n_gpus else "no CUDA device"
        raise FixUsage(f"this machine has {problem}", hint="--device cpu, or cuda:0")
    return devices


def _visible(n_devices: int) -> list[str]:
    """Return the number or the UUID of each device that CUDA sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(map(str, range(n_devices)))
    return [name.strip() for name in visible.split(",")][:n_devices]


def _used_mb() -> dict[str, int]:
    """Return the MB in use of each GPU, by its number and by its UUID."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = "--query-gpu=index,uuid,memory.used"
    words = [program, query, "--format=csv,noheader,nounits"]
    try:
        printed = subprocess.run(
            words, capture_output=True, text=True, timeout=_NVIDIA_SMI_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    used = {}
    for line in printed.splitlines():
        number, uuid, mb = [part.strip() for part in line.split(",")]
        if mb.isdigit():
            used[number] = used[uuid] = int(mb)
    return used


def work_on_devices(
    work: WorkOfDevice,
    of_devices: Sequence[tuple[str, Any]],
    stop: StopFlag,
    listener: Listener,
) -> tuple[list[Any], list[ObygazeError]]:
    """Call a function in a process for each device; return what they return, and their errors.

    A process that fails leaves its work to the others.

    Args:
        work: The function.
        of_devices: Each device with what it is to do; a device may be there twice.
        stop: The flag that stops all processes.
        listener: Hears what the processes say of their work.
    """
    running: dict[Any, SpawnProcess] = {}
    for device, task in of_devices:
        connection, process = _started(work, device, task)
        running[connection] = process
    processes = list(running.values())
    try:
        return _wait_for_all(running, stop, listener)
    except BaseException:
        # Nobody reads their words any more, and they would wait for a reader. Finished blocks are
        # kept, whenever a process ends.
        for process in processes:
            process.kill()
        raise
    finally:
        for process in processes:
            process.join()


def _wait_for_all(
    processes: Mapping[Any, SpawnProcess], stop: StopFlag, listener: Listener
) -> tuple[list[Any], list[ObygazeError]]:
    running = dict(processes)
    results: list[Any] = []
    errors: list[ObygazeError] = []
    while running:
        ready: list[Any] = wait(list(running), _POLL_S)
        for connection in ready:
            try:
                kind, *values = connection.recv()
            except (EOFError, OSError):
                # It ended, perhaps in the middle of a word.
                process = running.pop(connection)
                process.join()
                if process.exitcode:
                    errors.append(_died(process))
                continue
            if kind == "result":
                results += values
            elif kind == "error":
                errors += values
            else:
                getattr(listener, kind)(*values)
        if stop:
            for process in running.values():
                process.terminate()
    return results, errors


def _died(process: SpawnProcess) -> ObygazeError:
    code = process.exitcode or 0
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return ObygazeError(
        f"the process of {process.name} ended ({how}) before all clips were extracted",
        hint="run the same command again to resume",
    )


def _started(
    work: WorkOfDevice, device: str, task: Any
) -> tuple[Connection, SpawnProcess]:
    """Start a process, named after its device; return its messages and it."""
    spawn = multiprocessing.get_context("spawn")
    messages, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_work, name=device, args=(work, task, sender))
    process.start()
    sender.close()
    return messages, process


class _Sender:
    """The listener in the process of a device: sends what it hears."""

    def __init__(self, messages: Connection) -> None:
        self._messages = messages
        self._one_at_a_time = threading.Lock()

    def send(self, *words: Any) -> None:
        with self._one_at_a_time:
            self._messages.send(words)

    def expect(self, n_clips: int) -> None:
        self.send("expect", n_clips)

    def row(self, clip_id: str, row: int, failed: bool) -> None:
        self.send("row", clip_id, row, failed)

    def note(self, text: str) -> None:
        self.send("note", text)


def _work(work: WorkOfDevice, task: Any, messages: Connection) -> None:
    sender = _Sender(messages)
    # If the process that listens was killed, this one ends with its next word.
    with stop_on_signals() as stop, suppress(BrokenPipeError):
        try:
            sender.send("result", work(task, stop, sender))
        except ObygazeError as error:
            sender.send("error", error)
        except KeyboardInterrupt:
            # Python would wait for threads that compute a clip.
            os._exit(EXIT_INTERRUPTED)

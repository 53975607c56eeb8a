"""Lock the pages of memory in which decoded pictures arrive, so that a GPU copies them itself."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from obygaze_features.core.console import silent

# The pages are locked for every GPU of the process, not only for the present one.
PORTABLE = 1


class GpuPageLocks:
    """Locks mapped memory for a GPU, by the driver.

    A GPU copies locked pages while the host goes on. Without them, the host first copies the
    pictures to memory that is locked. That is slower, so a driver that refuses is a note.

    Args:
        device: The GPU.
        note: Is called once if the driver refuses.
    """

    def __init__(self, device: str, note: Callable[[str], object] = silent) -> None:
        import torch

        self.device = device
        self.note = note
        self.is_refused = False
        self._cuda: Any = torch.cuda
        self._guard = threading.Lock()
        self._addresses: set[int] = set()

    def lock(self, memory: mmap.mmap) -> None:
        """Lock the pages of memory, unless the driver has refused before.

        The threads of the decoders call this. The driver keeps an error for the thread that made
        it, and the next kernel of that thread would fail.
        """
        with self._guard:
            if self.is_refused:
                return
            address = _address(memory)
            runtime = self._cuda.cudart()
            with self._cuda.device(self.device):
                error = runtime.cudaHostRegister(address, len(memory), PORTABLE)
            if int(error) == 0:
                self._addresses.add(address)
                return
            self.is_refused = True
        self.note(
            f"the driver does not lock shared memory for {self.device} (CUDA error {int(error)}):"
            " the host copies each picture once more"
        )

    def unlock(self, memory: mmap.mmap) -> None:
        """Unlock the pages of memory, after all copies of the GPU."""
        with self._guard:
            address = _address(memory)
            if address not in self._addresses:
                return
            self._addresses.remove(address)
            # A GPU that has failed reads no memory, and its error is that of the run.
            with suppress(RuntimeError), self._cuda.device(self.device):
                self._cuda.synchronize(self.device)
                self._cuda.cudart().cudaHostUnregister(address)


def _address(memory: mmap.mmap) -> int:
    """Return where memory is mapped."""
    address: int = np.frombuffer(memory, np.uint8).ctypes.data
    return address


def free_gpu_memory(device: str) -> int:
    """Return the bytes of a GPU that are free, with those that torch keeps for later."""
    import torch

    kept_bytes = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(
        device
    )
    return int(torch.cuda.mem_get_info(device)[0]) + int(kept_bytes)


def gpu_name(device: str) -> str:
    """Return the model of a GPU."""
    import torch

    return str(torch.cuda.get_device_name(device))

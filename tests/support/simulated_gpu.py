"""A simulated GPU: torch's streams, events and copies for "cuda", computed on the CPU.

Inside `with SimulatedGpu() as gpu:` the program runs as on a GPU, without a line of its own for it.
Tensors moved to "cuda" are marked, and so is all that is computed from them. A clock says when each
stream would have done its work, and the host waits where CUDA would make it wait: for an event,
and for every copy that is not asynchronous. A copy to the host changes its memory only then, so
that numbers that are read too early are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from obygaze_features.backbones.backbone import Backbone
from obygaze_features.backbones.placement import Placement

# Functions of a tensor that wait for the device.
_READS = {
    "cpu",
    "item",
    "tolist",
    "numpy",
    "__bool__",
    "__int__",
    "__float__",
    "nonzero",
}


class _Stream:
    """Work that is done in order; `ready` is when all of it is done."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu
        self.ready = 0.0


class _Event:
    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu
        self.at = 0.0

    def record(self, stream: _Stream) -> None:
        """Put the event after the present work of a stream."""
        self.at = stream.ready

    def synchronize(self) -> None:
        """Wait until the work before the event is done."""
        self.gpu.wait("event", self.at)


class SimulatedGpu(TorchFunctionMode):
    """Torch's "cuda" on the CPU, with so much memory."""

    def __init__(self, memory_bytes: int = 10**11) -> None:
        super().__init__()
        # Seconds, which pass where the host waits.
        self.now = 0.0
        self.memory_bytes = memory_bytes
        # The memory that torch keeps for each backbone, and the largest since the last reset.
        self.reserved: dict[object, int] = {}
        self.largest_use = 0
        self.current = self.default = _Stream(self)
        self.waits: list[tuple[str, float]] = []
        self._landing: list[tuple[float, torch.Tensor, torch.Tensor]] = []
        self._patch = mock.patch.multiple(
            torch.cuda,
            Stream=lambda device=None: _Stream(self),
            Event=lambda blocking=False: _Event(self),
            current_stream=lambda device=None: self.current,
            stream=self._use,
            is_available=lambda: True,
            device_count=lambda: 1,
            empty_cache=lambda: self.reserved.clear(),
            mem_get_info=lambda device=None: (self.free_bytes, memory_bytes),
            memory_allocated=lambda device=None: 0,
            memory_reserved=lambda device=None: sum(self.reserved.values()),
            max_memory_allocated=lambda device=None: self.largest_use,
            reset_peak_memory_stats=self._reset_peak,
            synchronize=self._synchronize,
            device=lambda device=None: nullcontext(),
            get_device_name=lambda device=None: "Simulated GPU",
        )

        # Its argument is checked before the function can be replaced below.
        self._record = mock.patch.object(
            torch.Tensor, "record_stream", lambda tensor, stream: None
        )

    def __enter__(self) -> SimulatedGpu:
        self._patch.start()
        self._record.start()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._record.stop()
        self._patch.stop()

    @property
    def blocking_copies(self) -> int:
        """How often the host waited for a copy or a value."""
        return sum(kind != "event" for kind, _ in self.waits)

    @property
    def free_bytes(self) -> int:
        """The memory of the device that torch has not."""
        return self.memory_bytes - sum(self.reserved.values())

    def use(self, owner: object, n_bytes: int) -> None:
        """Use memory of the device, which torch keeps for the same tensors of later batches."""
        self.largest_use = max(self.largest_use, n_bytes)
        more = max(0, n_bytes - self.reserved.get(owner, 0))
        if more > self.free_bytes:
            raise RuntimeError("CUDA out of memory. The device is simulated.")
        self.reserved[owner] = self.reserved.get(owner, 0) + more

    def _reset_peak(self, device: Any = None) -> None:
        self.largest_use = 0

    def _synchronize(self, device: Any = None) -> None:
        self.now = max(self.now, self.current.ready)

    def work(self, seconds: float) -> float:
        """Give work to the current stream; return when it is done."""
        self.current.ready = max(self.current.ready, self.now) + seconds
        return self.current.ready

    def wait(self, kind: str, until: float) -> None:
        """Let the host wait for the device."""
        self.waits.append((kind, max(0.0, until - self.now)))
        self.now = max(self.now, until)
        for at, target, values in self._landing:
            if at <= until:
                target.numpy()[...] = values.numpy()
        self._landing = [copy for copy in self._landing if copy[0] > until]

    @contextmanager
    def _use(self, stream: _Stream) -> Iterator[None]:
        before = self.current
        self.current = stream
        try:
            yield
        finally:
            self.current = before

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run a function of torch as a GPU would."""
        options = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        first: Any = args[0] if args else None
        if func == vars(torch.Tensor.__base__)["is_cuda"].__get__:
            return _is_on(first)
        if func == vars(torch.Tensor.__base__)["device"].__get__:
            return torch.device("cuda" if _is_on(first) else "cpu")
        if name == "pin_memory":
            return self._pin(first)
        if name == "to":
            return self._to(func, args, options)
        if name == "copy_" and _is_on(args[1]) and not _is_on(first):
            return self._copy_out(first, args[1], options)
        if name in _READS and _is_on(first):
            self.wait(name, self.current.ready)
            return func(*args, **options)
        return self._compute(func, args, options)

    def _compute(self, func: Any, args: Any, options: dict[str, Any]) -> Any:
        """Run a function on the CPU; its result is where its arguments or its device are."""
        wanted = options.get("device")
        to_device = wanted is not None and torch.device(wanted).type == "cuda"
        if to_device:
            options["device"] = "cpu"
        pinned = options.pop("pin_memory", False)
        result = func(*args, **options)
        mark = "pinned" if pinned else ""
        if to_device or any(map(_is_on, _tensors((args, tuple(options.values()))))):
            mark = "on_device"
        for tensor in _tensors(result):
            _mark(tensor, mark)
        return result

    def _pin(self, source: torch.Tensor) -> torch.Tensor:
        """Return a copy of a tensor in memory whose pages are locked."""
        return _mark(source.clone(), "pinned")

    def _to(self, func: Any, args: Any, options: dict[str, Any]) -> Any:
        source = args[0]
        words = [*args[1:], *options.values()]
        devices = [str(word) for word in words if isinstance(word, str | torch.device)]
        dtype = next(
            (word for word in words if isinstance(word, torch.dtype)), source.dtype
        )
        on = devices[0].startswith("cuda") if devices else _is_on(source)
        if not on and not _is_on(source):
            return func(*args, **options)
        if on != _is_on(source):
            overlaps = options.get("non_blocking") and hasattr(source, "pinned")
            if not overlaps or not on:
                self.wait("copy", self.work(0.0))
            source = source.detach().clone()
        result = source if dtype == source.dtype else func(source, dtype)
        return _mark(result, "on_device") if on else result

    def _copy_out(
        self, target: torch.Tensor, source: torch.Tensor, options: Any
    ) -> torch.Tensor:
        ready_at = self.work(0.0)
        if not (options.get("non_blocking") and hasattr(target, "pinned")):
            self.wait("copy", ready_at)
        target.numpy()[...] = 1 if target.dtype == torch.bool else np.nan
        self._landing.append((ready_at, target, source.detach().clone()))
        return target


def _is_on(value: Any) -> bool:
    return hasattr(value, "on_device")


def _mark(tensor: torch.Tensor, name: str) -> torch.Tensor:
    if name:
        setattr(tensor, name, True)
    return tensor


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)


class TimedBackbone:
    """A backbone with the arrays of another one, which occupies a simulated GPU for some time."""

    takes_mask = False

    def __init__(
        self,
        inner: Backbone,
        gpu: SimulatedGpu,
        seconds: float,
        bytes_of_clip: int = 0,
    ) -> None:
        self.card = inner.card
        self.geometry = inner.geometry
        self.activation_bytes = inner.activation_bytes
        self.arrays = inner.arrays
        self.resize = inner.resize
        self.view = inner.view
        self.gpu = gpu
        self.seconds = seconds
        self.bytes_of_clip = bytes_of_clip
        self.placement = Placement("cuda")
        self.started: list[float] = []

    def normalise(self, pictures: torch.Tensor) -> torch.Tensor:
        """Return the first number of each picture."""
        return pictures.flatten(1)[:, :1]

    def forward(
        self, pixels: torch.Tensor, mask: Any = None, only: Any = ()
    ) -> dict[str, Any]:
        """Return arrays that are the sum of the clip's pixels everywhere."""
        self.started.append(self.gpu.now)
        self.gpu.use(self, self.bytes_of_clip * len(pixels))
        self.gpu.work(self.seconds * len(pixels))
        total = pixels.float().flatten(1).sum(1)
        return {
            name: total.view(-1, *[1] * len(array.shape)).expand(-1, *array.shape)
            for name, array in self.arrays.items()
            if name in only
        }

"""A simulated GPU: torch's streams, events and copies for "cuda", computed on the CPU.

Inside `with SimulatedGpu() as gpu:` the program runs as on a GPU, without a line of its own for it.
Tensors moved to "cuda" are marked, and so is all that is computed from them. The host waits where
CUDA would make it wait: for an event, and for every copy that is not asynchronous. A copy to the
host changes its memory only then, so that numbers that are read too early are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from obygaze_features.backbones.backbone import Backbone
from obygaze_features.extraction.clips import Decoded, RowJob, Source, ViewedClip
from obygaze_features.extraction.compute import BatchComputer
from obygaze_features.extraction.loop import StoreFiller, fill
from obygaze_features.extraction.recipes import make_arrays, make_maker, make_recipe
from obygaze_features.extraction.stopping import StopFlag
from obygaze_features.store import Row
from obygaze_features.store.filling import Filling, plan_filling
from obygaze_features.store.layout import Array
from obygaze_features.store.records import ManifestMark

# Functions of a tensor that wait for the device.
_READS = {"cpu", "item", "tolist", "numpy", "nonzero"}
_READS |= {"__bool__", "__int__", "__float__"}


class _Event:
    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu

    def record(self, stream: object) -> None:
        """Put the event after the present work of a stream."""

    def synchronize(self) -> None:
        """Wait until the work before the event is done."""
        self.gpu.wait("event")


class SimulatedGpu(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        # What the host waited for, in order.
        self.waits: list[str] = []
        self._landing: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._patch = mock.patch.multiple(
            torch.cuda,
            Stream=lambda device=None: object(),
            Event=lambda blocking=False: _Event(self),
            current_stream=lambda device=None: object(),
            stream=self._use,
            is_available=lambda: True,
            device_count=lambda: 1,
            empty_cache=lambda: None,
            memory_reserved=lambda device=None: 0,
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

    def wait(self, kind: str) -> None:
        """Let the host wait for the device."""
        self.waits.append(kind)
        for target, values in self._landing:
            target.numpy()[...] = values.numpy()
        self._landing = []

    @contextmanager
    def _use(self, stream: object) -> Iterator[None]:
        yield

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
            self.wait(name)
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
                self.wait("copy")
            source = source.detach().clone()
        result = source if dtype == source.dtype else func(source, dtype)
        return _mark(result, "on_device") if on else result

    def _copy_out(self, target, source: torch.Tensor, options: Any) -> torch.Tensor:
        if not (options.get("non_blocking") and hasattr(target, "pinned")):
            self.wait("copy")
        target.numpy()[...] = 1 if target.dtype == torch.bool else np.nan
        self._landing.append((target, source.detach().clone()))
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


# Gives the pictures of a row.
Decode = Callable[[int], ViewedClip]


def a_clip(seed: int, n_frames: int = 16, n_masked: int = 0) -> ViewedClip:
    random = np.random.default_rng(seed)
    pictures = random.integers(0, 256, (n_frames, 40, 56, 3), dtype=np.uint8)
    places = np.arange(n_frames)
    times_s = places / 25
    mask = places < n_frames - n_masked
    arrays = {"time_s": times_s, "asked_s": times_s, "mask": mask, "clean": True}
    return ViewedClip(pictures, places, mask, arrays, 99)


def arrays_of_features(backbone: Backbone) -> list[Array]:
    arrays = make_arrays(backbone, list(backbone.arrays))
    return [array for array in arrays if array.name in backbone.arrays]


def new_filling(
    target: Path, inner: Backbone, n_clips: int, computed: Sequence[bool] | None = None
) -> Filling:
    target.parent.mkdir(parents=True, exist_ok=True)
    recipe = make_recipe(inner)
    return plan_filling(
        target,
        [Row(f"c-{number:04d}", "c") for number in range(n_clips)],
        arrays=make_arrays(inner),
        recipe=recipe,
        manifest=ManifestMark("m", "0" * 64),
        kind=make_maker(inner, recipe).kind,
        computed=computed,
    )


@contextmanager
def new_filler(
    backbone: Any, filling: Filling, inner: Backbone, batch: int
) -> Iterator[StoreFiller]:
    arrays = [array for array in filling.arrays if array.name in inner.arrays]
    with ThreadPoolExecutor(1, "write") as writing:
        maker = make_maker(inner, make_recipe(inner))
        computer = BatchComputer(backbone, arrays)
        yield StoreFiller(filling, maker, computer, batch, writing)


def fill_stores(fillers: Sequence[StoreFiller], decode: Decode) -> None:
    def decode_rows(rows: Iterable[RowJob]) -> Generator[Decoded, None, None]:
        for job in rows:
            views = dict.fromkeys(job.views, decode(job.row))
            yield Decoded(job.row, Source(), views)

    with (
        mock.patch("secrets.randbelow", lambda most: 0),
        closing(fill(fillers, decode_rows, StopFlag())) as filled,
    ):
        for _ in filled:
            continue

"""Compute the features of decoded clips: one by one in threads on a CPU, in batches on a GPU.

On a CPU, the last bits of the features of a batch depend on the size of the batch and on the number
of threads of torch. There each clip is computed alone, by torch with one thread, so its features do
not depend on other clips. Several clips are computed at the same time, each in its own thread.
"""

from __future__ import annotations

import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.backbone import (
    Backbone,
    PictureBackbone,
    as_arrays,
    blank_padding,
    on_device,
)
from obygaze_features.backbones.sound import SoundBackbone
from obygaze_features.core import system
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.machine import usable_cores
from obygaze_features.extraction.clips import DecodedView, HeardClip, ViewedClip
from obygaze_features.store.layout import Array
from obygaze_features.video.decoded_clip import pictures_of_view

if TYPE_CHECKING:
    from torch import Tensor

# The interval in which a waiting thread handles signals.
SIGNALS_S = 1.0
# Decoded clips that wait may take this part (1/8) of the memory of the machine.
_SHARE_OF_MEMORY = 8
# Larger batches are not faster.
MAX_BATCH = 16
# Code of the user may not work in several threads, and several backbones may share its state.
_USER_CODE = threading.Lock()


@dataclass(frozen=True)
class Computed:
    """The arrays of some clips as they are stored [B, ...].

    `finite` has, for each array, whether all its values for a clip are finite [B].
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    finite: Mapping[str, npt.NDArray[np.bool_]]


@dataclass(eq=False)
class Computer(ABC):
    """A backbone, the arrays to compute as they are stored, and how clips are computed."""

    backbone: Backbone
    specs: Sequence[Array]

    @abstractmethod
    def start(self, clips: Sequence[DecodedView]) -> Callable[[], Computed]:
        """Start to compute clips; return a function that waits for their features."""

    @abstractmethod
    def split(self, at_once: int) -> tuple[int, int]:
        """Return the number of clips of one `start`, and the number of starts at the same time.

        `at_once` is the number of clips that may be computed at the same time.
        """

    def compute_all(self, clips: Sequence[DecodedView]) -> list[Computed]:
        """Start to compute all clips, and then wait for them."""
        n_clips = self.split(len(clips))[0]
        results = [
            self.start(clips[i : i + n_clips]) for i in range(0, len(clips), n_clips)
        ]
        return [result() for result in results]

    @abstractmethod
    def pictures(self, clips: Sequence[ViewedClip]) -> Any:
        """Return the pictures of clips, those of one clip after those of another."""

    def forward(self, clips: Sequence[DecodedView]) -> dict[str, Any]:
        """Return the arrays of clips."""
        names = [spec.name for spec in self.specs]
        backbone = self.backbone
        if isinstance(backbone, SoundBackbone):
            heard = cast(Sequence[HeardClip], clips)
            return backbone.forward([clip.heard for clip in heard], only=names)
        seeing = cast(PictureBackbone, backbone)
        seen = cast(Sequence[ViewedClip], clips)
        mask = None
        pixels = seeing.normalise(self.pictures(seen))
        pixels = pixels.reshape(len(seen), -1, *pixels.shape[1:])
        if seeing.takes_mask:
            mask = np.stack([clip.mask for clip in seen])
            pixels = blank_padding(pixels, mask)
        return seeing.forward(pixels, mask, only=names)


def _wait_for(future: Future[Computed]) -> Computed:
    """Return the result of a thread; signals are handled during the wait.

    The wait is repeated every `SIGNALS_S` seconds. If a signal arrives just before a wait begins,
    Python handles it when this wait ends.
    """
    while not wait([future], timeout=SIGNALS_S).done:
        continue
    return future.result()


@dataclass(eq=False)
class ThreadComputer(Computer):
    """Compute each clip alone, in a thread of `pool`."""

    pool: Executor

    def start(self, clips: Sequence[DecodedView]) -> Callable[[], Computed]:
        """Start to compute one clip."""
        (clip,) = clips
        return partial(_wait_for, self.pool.submit(self._compute, clip))

    def split(self, at_once: int) -> tuple[int, int]:
        """Return one clip for each `start`, and the number of starts at the same time.

        That number is `at_once`, or 1 if the backbone is code of the user.
        """
        return 1, 1 if self.backbone.card.code else at_once

    def pictures(self, clips: Sequence[ViewedClip]) -> Any:
        """Return the pictures of one clip."""
        (clip,) = clips
        return pictures_of_view(clip.pictures, clip.rows, clip.mask)

    def _compute(self, clip: DecodedView) -> Computed:
        with _USER_CODE if self.backbone.card.code else nullcontext():
            exact = as_arrays(self.forward([clip]))
        arrays = {}
        finite = {}
        for spec in self.specs:
            with np.errstate(over="ignore"):  # what overflows is not finite
                array = exact[spec.name].astype(spec.dtype)
            arrays[spec.name] = array
            finite[spec.name] = np.array([np.isfinite(array).all()])
        return Computed(arrays, finite)


@dataclass(eq=False)
class Uploads:
    """Pictures on a GPU, copied there once for all backbones that take pictures of their size.

    A copy is kept as long as the decoded pictures are in memory: until the last backbone has begun
    to compute the clip.
    """

    device: str
    n_copies: int = 0
    # By the id of the array of decoded pictures; a later array may have the same id.
    _copies: dict[int, tuple[weakref.ref[Any], Tensor]] = field(default_factory=dict)

    def pictures(self, clips: Sequence[ViewedClip]) -> Tensor:
        """Return the pictures of clips on the device, those of one clip after those of another.

        The host does not wait until they are copied. The number of kernels does not grow with the
        number of clips, except for the copies.
        """
        import torch

        on_gpu = []
        rows = []
        # Clips of one sweep share their pictures.
        before: dict[int, int] = {}
        n_before = 0
        for clip in clips:
            if id(clip.pictures) not in before:
                before[id(clip.pictures)] = n_before
                on_gpu.append(self._upload(clip.pictures))
                n_before += len(clip.pictures)
            rows.append(clip.rows + before[id(clip.pictures)])
        pictures = on_gpu[0] if len(on_gpu) == 1 else torch.cat(on_gpu)
        pictures = pictures.index_select(
            0, on_device(np.concatenate(rows), self.device)
        )
        is_real = np.concatenate([clip.mask for clip in clips])
        if not is_real.all():
            padding = np.flatnonzero(~is_real)
            pictures.index_fill_(0, on_device(padding, self.device), 0)
        return pictures

    def _upload(self, shared: npt.NDArray[np.uint8]) -> Tensor:
        known = self._copies.get(id(shared))
        if known is not None and known[0]() is shared:
            return known[1]
        tensor = on_device(shared, self.device)
        self.n_copies += 1
        self._copies = {
            key: copy for key, copy in self._copies.items() if copy[0]() is not None
        }
        self._copies[id(shared)] = weakref.ref(shared), tensor
        return tensor


class BatchComputer(Computer):
    """Compute batches on a GPU; the CPU waits only for the copies of the features."""

    def __init__(
        self,
        backbone: Backbone,
        specs: Sequence[Array],
        uploads: Uploads | None = None,
    ) -> None:
        import torch

        super().__init__(backbone, specs)
        self.device = backbone.placement.device
        self.cuda: Any = torch.cuda
        self.uploads = uploads or Uploads(self.device)

    def pictures(self, clips: Sequence[ViewedClip]) -> Any:
        """Return the pictures of clips on the device."""
        return self.uploads.pictures(clips)

    def start(self, clips: Sequence[DecodedView]) -> Callable[[], Computed]:
        """Start to compute a batch, and to copy its features to pinned memory of the host."""
        import torch

        computed = self.forward(clips)
        arrays = {}
        finite = {}
        for spec in self.specs:
            kind = getattr(torch, spec.dtype)
            array = computed[spec.name].to(kind).contiguous()
            arrays[spec.name] = _copy_to_host(array)
            finite[spec.name] = _copy_to_host(torch.isfinite(array).flatten(1).all(1))
        # Blocking: a host that spins would take a core from the decoders.
        done = self.cuda.Event(blocking=True)
        done.record(self.cuda.current_stream(self.device))

        def result() -> Computed:
            done.synchronize()
            return Computed(
                {name: copy.numpy() for name, copy in arrays.items()},
                {name: copy.numpy() for name, copy in finite.items()},
            )

        return result

    def split(self, at_once: int) -> tuple[int, int]:
        """Return the number of clips of a batch, and the number of started batches.

        Two batches are started: one is computed while the other is prepared.
        """
        return at_once, 2


def _copy_to_host(tensor: Tensor) -> Tensor:
    """Start to copy a tensor to pinned memory, which torch reuses once the copy is freed."""
    import torch

    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return copy.copy_(tensor, non_blocking=True)


def make_computer(
    backbone: Backbone,
    specs: Sequence[Array],
    pool: Executor,
    uploads: Uploads | None = None,
) -> Computer:
    """Return the object that computes the clips of a backbone on its device.

    Args:
        backbone: The backbone.
        specs: The arrays of a store; arrays other than features are ignored.
        pool: The threads that compute on a CPU.
        uploads: The pictures on the GPU, which several backbones share.
    """
    specs = [spec for spec in specs if spec.name in backbone.arrays]
    on_gpu = backbone.placement.device.startswith("cuda")
    if on_gpu and backbone.card.family.needs_torch:
        return BatchComputer(backbone, specs, uploads)
    return ThreadComputer(backbone, specs, pool)


@contextmanager
def clip_threads(n_threads: int) -> Iterator[Executor]:
    """Return threads that compute clips.

    In the `with` block, torch computes with one thread in each of these threads.
    """
    before = _set_torch_threads(1)
    # The number of torch's threads is a setting of each thread.
    pool = ThreadPoolExecutor(n_threads, "compute", _set_torch_threads, (1,))
    wait = True
    try:
        yield pool
    except KeyboardInterrupt:
        # A clip may take a minute, and its thread cannot be stopped.
        wait = False
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)
        _set_torch_threads(before)


def _set_torch_threads(n_threads: int) -> int:
    """Set the number of threads of torch; return the previous one, or 1 if torch is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return 1
    before = int(torch.get_num_threads())
    torch.set_num_threads(n_threads)
    return before


@dataclass(frozen=True)
class Resources:
    """The device, processes and batch of a run, which do not change the features.

    `workers` processes decode, and `batch` clips are computed at once. If `batch` is None, these
    are 16 clips on a GPU. On a CPU, it is one clip for each core, or fewer if the memory is small.
    """

    device: str = "cpu"
    workers: int = 1
    batch: int | None = None

    def __post_init__(self) -> None:
        """Check the number of clips; the pool checks the workers."""
        if (self.batch or 1) < 1:
            raise FixUsage(f"batch must be at least 1, got {self.batch}")

    @property
    def compute_threads(self) -> int:
        """The number of threads that compute on the CPU.

        It is the number of cores: decoders that wait for these threads need no core.
        """
        return usable_cores()

    def batch_size(self, computer: Computer) -> int:
        """Return the number of clips that are computed at once.

        If the memory of a GPU is full, the run halves this number later.
        """
        if self.batch:
            return self.batch
        if isinstance(computer, BatchComputer):
            return MAX_BATCH
        # On a CPU one clip a thread, in a quarter of the memory: no error shows that it is full.
        cpu_bytes = system.memory_bytes() // 4
        clips_in_memory = cpu_bytes // max(computer.backbone.activation_bytes, 1)
        return max(1, min(clips_in_memory, self.compute_threads))

    @property
    def bytes_of_clips_ahead(self) -> int:
        """The bytes of decoded clips that may wait until they are computed."""
        return int(system.memory_bytes()) // _SHARE_OF_MEMORY

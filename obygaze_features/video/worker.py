"""The process that decodes clips one after another, so that only it can crash or hang.

Where there can be no such process, the pool calls `decoded` itself.

For each clip the pool sends a line of JSON and an open file of shared memory. The worker writes the
pictures into that memory and replies with a line of JSON: pictures are not copied. The memory has
no name, so that nothing is left behind when a process is killed.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import queue
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from obygaze_features.core import system
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import file_facts
from obygaze_features.video.container import BadVideo, OnProgress, av, no_progress
from obygaze_features.video.decode import decode_views
from obygaze_features.video.decoded_clip import (
    Allocate,
    DecodedClip,
    PictureView,
    new_arrays,
)
from obygaze_features.video.film import make_index
from obygaze_features.video.resize import Pixels
from obygaze_features.video.sound import SoundView

View = PictureView | SoundView
PROGRESS_S = 1.0

_Requests = queue.SimpleQueue[tuple[dict[str, Any], int]]


@dataclass(frozen=True)
class DecodeJob:
    """One clip to decode, in all the views wanted of it: pictures, sound, or both.

    The clip is what is between two times, or the pictures of `ranks`, which have no sound.

    `indexes` is the folder that keeps the index of the film, for files with many clips. A job
    without views only makes that index; `with_sound`, it makes that of the sound too.
    """

    path: Path | str
    views: tuple[View, ...]
    start_s: float | None = None
    end_s: float | None = None
    indexes: str | None = None
    ranks: Sequence[int] | None = None
    with_sound: bool = False

    @property
    def is_of_many(self) -> bool:
        """Whether jobs for the same film follow this one: it makes the index, or has ranks."""
        return self.ranks is not None or not self.views

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a job from plain values, as `dataclasses.asdict` returns them."""
        views = tuple(_view_of(view) for view in value["views"])
        return cls(**{**value, "views": views})


def _view_of(value: Mapping[str, Any]) -> View:
    """Return a view of pictures or of sound from plain values."""
    kind = SoundView if "rate" in value else PictureView
    return kind.from_json(value)


def main(handle: int) -> None:
    """Reply to requests from the socket `handle` until the pool is gone."""
    channel = socket.socket(fileno=handle)
    requests: _Requests = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(channel, requests), daemon=True).start()
    av()
    channel.sendall(b"{}\n")
    memories: dict[int, SharedMemory] = {}
    while True:
        request, handle = requests.get()
        for number in request["dropped"]:
            memories.pop(number, None)
        number = request["memory"]
        if number in memories:
            os.close(handle)
        else:
            memories[number] = SharedMemory(handle)
        memory = memories[number]
        sent_at = time.monotonic()

        def progress() -> None:
            nonlocal sent_at
            if time.monotonic() - sent_at >= PROGRESS_S:
                sent_at = time.monotonic()
                channel.sendall(b"{}\n")

        reply = _decode(request, memory, progress)
        channel.sendall(json.dumps(reply).encode("ascii") + b"\n")


def _receive(channel: socket.socket, requests: _Requests) -> None:
    # This runs in a separate thread, so that a worker that hangs in a file ends with its pool.
    line = b""
    handles = list[int]()
    try:
        while True:
            data, sent_handles = system.receive_with_files(channel)
            if not data:
                break
            line = line + data
            handles = handles + sent_handles
            if line.endswith(b"\n"):
                requests.put((json.loads(line), handles[0]))
                line = b""
                handles = []
    finally:
        os._exit(0)


def _decode(
    request: Mapping[str, Any], memory: SharedMemory, progress: OnProgress
) -> dict[str, Any]:
    job = DecodeJob.from_json(request["job"])
    try:
        clips, facts = decoded(job, memory.arrays, progress)
    except BadVideo as error:
        return {
            "error": {
                "message": error.message,
                "path": str(job.path),
                "stage": error.stage,
                "reason": error.reason,
            }
        }
    return _packed(clips) | {"file_facts": facts}


def decoded(
    job: DecodeJob,
    allocate: Allocate = new_arrays,
    progress: OnProgress = no_progress,
) -> tuple[dict[PictureView, DecodedClip], tuple[int, str] | None]:
    """Decode a clip in this process; return its views, and the facts of the file before that.

    Without views, make the index of the film. Each error is a `BadVideo`: no file may end a run.

    Args:
        job: What is asked for.
        allocate: Returns arrays for pictures, as for `decode_views`.
        progress: Called again and again while the index of a film is made.
    """
    path = job.path
    try:
        # If the file is replaced from now on, what is recorded of it differs from the new one.
        facts = file_facts(path)
        if not job.views:
            make_index(Path(path), Path(job.indexes or ""), progress)
            return {}, facts
        views = [view for view in job.views if isinstance(view, PictureView)]
        clips = decode_views(
            path,
            views,
            start_s=job.start_s,
            end_s=job.end_s,
            ranks=job.ranks,
            allocate=allocate,
            indexes=job.indexes,
            progress=progress,
        )
        return clips, facts
    except BadVideo:
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, ObygazeError):
            message = error.message
        raise BadVideo(message, path=path, stage="decode", reason="error") from error


class SharedMemory:
    """An open file that has no name, in memory where the system can; the pool and workers map it.

    They keep it mapped for the next clip: writing memory for the first time costs more than
    decoding into it.
    """

    def __init__(self, handle: int | None = None) -> None:
        if handle is None:
            handle = system.open_memory()
        self.handle = handle
        self.mapped: mmap.mmap | None = None
        weakref.finalize(self, os.close, handle)

    def arrays(
        self,
        shapes: Sequence[tuple[int, ...]],
        released: Callable[[], object] | None = None,
    ) -> list[Pixels]:
        """Return arrays of these shapes; `released` is called when none of them is in use."""
        ends = np.cumsum(
            [math.prod(shape) for shape in shapes], dtype=np.int64
        ).tolist()
        if self.mapped is None or len(self.mapped) < ends[-1]:
            os.ftruncate(self.handle, max(ends[-1], os.fstat(self.handle).st_size))
            self.mapped = mmap.mmap(self.handle, ends[-1])
        whole = np.frombuffer(self.mapped, np.uint8, ends[-1])
        if released is not None:
            weakref.finalize(whole, released)
        parts = np.split(whole, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _packed(clips: Mapping[PictureView, DecodedClip]) -> dict[str, Any]:
    """Return clips as JSON, with the shapes of their pictures and not the pictures."""
    layers = list(
        {
            id(clip.shared_pictures): clip.shared_pictures for clip in clips.values()
        }.values()
    )
    numbers = {id(pictures): number for number, pictures in enumerate(layers)}
    packed = []
    for clip in clips.values():
        facts = vars(clip) | {
            "path": str(clip.path),
            "shared_pictures": numbers[id(clip.shared_pictures)],
        }
        packed.append(
            {
                k: v.tolist() if isinstance(v, np.ndarray) else v
                for k, v in facts.items()
            }
        )
    return {"shapes": [pictures.shape for pictures in layers], "clips": packed}


def unpacked(
    reply: Mapping[str, Any], views: Iterable[PictureView], layers: Sequence[Pixels]
) -> dict[PictureView, DecodedClip]:
    """Return the clips of a reply to a request for views, given the pictures of its shapes."""
    clips = {}
    for view, packed in zip(dict.fromkeys(views), reply["clips"], strict=True):
        facts: dict[str, Any] = packed
        facts = {k: np.array(v) if isinstance(v, list) else v for k, v in facts.items()}
        facts |= {
            "path": Path(facts["path"]),
            "shared_pictures": layers[facts["shared_pictures"]],
        }
        clips[view] = DecodedClip(**facts)
    return clips


if __name__ == "__main__":
    main(int(sys.argv[1]))

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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from obygaze_features.core import system
from obygaze_features.core.errors import FixUsage, ObygazeError
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
from obygaze_features.video.sound import DecodedSound, SoundView, decode_sounds
from obygaze_features.video.sound_index import make_sound_index

T = TypeVar("T")
ClipView = PictureView | SoundView
PROGRESS_S = 1.0

_Requests = queue.SimpleQueue[tuple[dict[str, Any], int]]


@dataclass(frozen=True)
class DecodeJob:
    """One clip to decode, in all the views wanted of it: pictures, sound, or both.

    The clip is what is between two times, or the pictures of `ranks`, which have no sound.
    `indexes` is the folder that keeps the index of the film, for files with many clips. A job
    without views only makes that index, and with `with_sound` that of the sound too.
    """

    path: Path | str
    views: tuple[ClipView, ...]
    start_s: float | None = None
    end_s: float | None = None
    indexes: str | None = None
    ranks: Sequence[int] | None = None
    with_sound: bool = False

    def __post_init__(self) -> None:
        """Check that no sound is asked for by ranks."""
        has_sound = any(isinstance(view, SoundView) for view in self.views)
        if has_sound and self.ranks is not None:
            raise FixUsage("a job with ranks has no sound; use start_s and end_s")

    @property
    def is_of_many(self) -> bool:
        """Whether jobs for the same film follow this one: it makes the index, or has ranks."""
        return self.ranks is not None or not self.views

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a job from plain values, as `dataclasses.asdict` returns them."""
        views = tuple(_view_of(view) for view in value["views"])
        return cls(**{**value, "views": views})


def _view_of(value: Mapping[str, Any]) -> ClipView:
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
        outcome = decoded(job, memory.arrays, progress)
    except BadVideo as error:
        return {"error": _packed_error(job, error)}
    return packed(job, outcome, memory)


class Outcome(NamedTuple):
    """The result of a job: what each view sees or hears, or why it does not.

    `file_facts` are those of the file before it was decoded.
    """

    clips: Mapping[PictureView, DecodedClip]
    sounds: Mapping[SoundView, DecodedSound]
    failures: Mapping[ClipView, BadVideo]
    file_facts: tuple[int, str] | None


def decoded(
    job: DecodeJob,
    allocate: Allocate = new_arrays,
    progress: OnProgress = no_progress,
) -> Outcome:
    """Decode a clip in this process. Each error is a `BadVideo`: no file may end a run.

    Without views, make the index of the film. If there is no sound, the pictures are returned with
    the error of the sound, and the other way round; without views of the other kind, the error is
    raised.

    Args:
        job: What is asked for.
        allocate: Returns arrays for pictures, as for `decode_views`.
        progress: Called again and again while the index of a film is made.
    """
    path = Path(job.path)
    # If the file is replaced from now on, what is recorded of it differs from the new one.
    facts = _as_bad_video(path, lambda: file_facts(path))
    if not job.views:
        _as_bad_video(path, lambda: _make_indexes(path, job, progress))
        return Outcome({}, {}, {}, facts)
    picture_views = [view for view in job.views if isinstance(view, PictureView)]
    sound_views = [view for view in job.views if isinstance(view, SoundView)]
    of_clip: dict[str, Any] = {
        "start_s": job.start_s,
        "end_s": job.end_s,
        "indexes": job.indexes,
        "progress": progress,
    }

    def see() -> dict[PictureView, DecodedClip]:
        return decode_views(
            path, picture_views, ranks=job.ranks, allocate=allocate, **of_clip
        )

    def hear() -> dict[SoundView, DecodedSound]:
        return decode_sounds(path, sound_views, **of_clip)

    clips: dict[PictureView, DecodedClip] = {}
    sounds: dict[SoundView, DecodedSound] = {}
    failures: dict[ClipView, BadVideo] = {}
    try:
        if picture_views:
            clips = _as_bad_video(path, see)
    except BadVideo as error:
        if not sound_views:
            raise
        failures |= dict.fromkeys(picture_views, error)
    try:
        if sound_views:
            sounds = _as_bad_video(path, hear)
    except BadVideo as error:
        if not picture_views:
            raise
        failures |= dict.fromkeys(sound_views, error)
    return Outcome(clips, sounds, failures, facts)


def _make_indexes(path: Path, job: DecodeJob, progress: OnProgress) -> None:
    """Make the index of the pictures of a film and, if it is asked for, that of its sound."""
    indexes = Path(job.indexes or "")
    if job.with_sound:
        # Each clip has a row with the reason.
        with suppress(BadVideo):
            make_sound_index(path, indexes, progress)
    make_index(path, indexes, progress)


def _as_bad_video(path: Path, work: Callable[[], T]) -> T:
    """Return the result of some work; any error of it becomes a `BadVideo`."""
    try:
        return work()
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


def _packed_error(job: DecodeJob, error: BadVideo) -> dict[str, str]:
    """Return an error as JSON."""
    return {
        "message": error.message,
        "path": str(job.path),
        "stage": error.stage,
        "reason": error.reason,
    }


def packed(job: DecodeJob, outcome: Outcome, memory: SharedMemory) -> dict[str, Any]:
    """Return the result of a job as JSON, with the shapes of what is in the memory.

    The pictures are there already; the samples of sounds are written behind them.
    """
    pictures = [clip.shared_pictures for clip in outcome.clips.values()]
    layers = list({id(shared): shared for shared in pictures}.values())
    numbers = {id(shared): number for number, shared in enumerate(layers)}
    clips = []
    for clip in outcome.clips.values():
        clips.append(_plain(clip, shared_pictures=numbers[id(clip.shared_pictures)]))
    n_of_pictures = len(layers)
    sounds = []
    for sound in outcome.sounds.values():
        sounds.append(_plain(sound, view=None, samples=len(layers)))
        layers.append(sound.samples.view(np.uint8))
    shapes = [layer.shape for layer in layers]
    if sounds:
        places = memory.arrays(shapes)
        for number in range(n_of_pictures, len(layers)):
            places[number][:] = layers[number]
    failures = {
        job.views.index(view): _packed_error(job, error)
        for view, error in outcome.failures.items()
    }
    return {
        "shapes": shapes,
        "clips": clips,
        "sounds": sounds,
        "failures": failures,
        "file_facts": outcome.file_facts,
    }


def _plain(found: DecodedClip | DecodedSound, **instead: Any) -> dict[str, Any]:
    """Return the facts of a clip in types that JSON has, with others for what is in the memory."""
    facts = vars(found) | instead | {"path": str(found.path)}
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in facts.items()}


def unpacked(
    job: DecodeJob, reply: Mapping[str, Any], layers: Sequence[Pixels]
) -> Outcome:
    """Return the result of a job from the reply to it, given what the memory has."""
    failures: dict[ClipView, BadVideo] = {
        job.views[int(number)]: BadVideo(**error)
        for number, error in reply["failures"].items()
    }
    views = [view for view in dict.fromkeys(job.views) if view not in failures]
    pictures = [view for view in views if isinstance(view, PictureView)]
    heard = [view for view in views if isinstance(view, SoundView)]
    clips = {}
    for view, listed in zip(pictures, reply["clips"], strict=True):
        facts: dict[str, Any] = {}
        for name, value in listed.items():
            facts[name] = np.array(value) if isinstance(value, list) else value
        facts["path"] = Path(listed["path"])
        facts["shared_pictures"] = layers[listed["shared_pictures"]]
        clips[view] = DecodedClip(**facts)
    sounds = {}
    for sound_view, listed in zip(heard, reply["sounds"], strict=True):
        # Samples follow pictures, at any byte: a copy has the place that numbers need.
        samples = layers[listed["samples"]].copy().view(np.float32)
        stretches = {
            name: np.array(listed[name]).reshape(-1, 2)
            for name in ("missing_s", "damaged_s")
        }
        of_view = {
            "path": Path(listed["path"]),
            "view": sound_view,
            "samples": samples,
            "bounds_s": tuple(listed["bounds_s"]),
        }
        sounds[sound_view] = DecodedSound(**listed | stretches | of_view)
    file_facts = reply["file_facts"]
    return Outcome(clips, sounds, failures, tuple(file_facts) if file_facts else None)


if __name__ == "__main__":
    main(int(sys.argv[1]))

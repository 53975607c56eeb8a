"""The process that decodes clips one after another; a crash ends only this process.

On systems without worker processes, the pool calls `decode_job` in its own process.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from obygaze_features.core import system
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import file_facts
from obygaze_features.video.container import BadVideo, OnProgress, av, no_progress
from obygaze_features.video.decode import Part, decode_parts, decode_views
from obygaze_features.video.decoded_clip import (
    Allocate,
    DecodedClip,
    PictureView,
    new_arrays,
)
from obygaze_features.video.film import film_index
from obygaze_features.video.resize import Pixels
from obygaze_features.video.sound import DecodedSound, SoundView, decode_sounds
from obygaze_features.video.sound_index import make_sound_index

T = TypeVar("T")
ClipView = PictureView | SoundView
PROGRESS_S = 1.0

_Requests = queue.SimpleQueue[tuple[dict[str, Any], int]]


@dataclass(frozen=True)
class DecodeJob:
    """A clip to decode, in some views: pictures, sound, or both.

    The clip is the part between two times. `indexes` is the folder of stored indexes, for films
    with many clips. A job without views only makes the index of the pictures of the film, and, if
    `with_sound` is true, the index of its sound. If `parts_s` is given, the job is a sweep: all
    these parts of the film are decoded in one pass.
    """

    path: Path | str
    views: tuple[ClipView, ...]
    start_s: float | None = None
    end_s: float | None = None
    indexes: str | None = None
    with_sound: bool = False
    parts_s: Sequence[Part] = ()

    @property
    def parts(self) -> list[DecodeJob]:
        """The job of each part of a sweep."""
        return [
            replace(self, start_s=start_s, end_s=end_s, parts_s=())
            for start_s, end_s in self.parts_s
        ]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a job from plain values, as `dataclasses.asdict` returns them."""
        views: list[ClipView] = []
        for view in value["views"]:
            kind = SoundView if "rate" in view else PictureView
            views.append(kind.from_json(view))
        return cls(**{**value, "views": tuple(views)})


@dataclass(frozen=True)
class DecodeResult:
    """The result of a job: the clip in each view, not yet checked for damage, or the error.

    `error` is the error of the whole job. `failures` holds errors of single views: a film without
    sound may still have pictures, and a film without pictures may have sound. `file_facts` are the
    size and the quick hash of the file before it was decoded, since it may be replaced later.
    `parts` holds the results of the parts of a sweep.
    """

    job: DecodeJob
    clips: Mapping[PictureView, DecodedClip]
    error: BadVideo | None = None
    file_facts: tuple[int, str] | None = None
    sounds: Mapping[SoundView, DecodedSound] = field(default_factory=dict)
    failures: Mapping[ClipView, BadVideo] = field(default_factory=dict)
    parts: Sequence[DecodeResult] = ()

    def clip(self, view: PictureView) -> DecodedClip:
        """Return the pictures of a view, or raise its error."""
        self._raise_failure(view)
        return self.clips[view]

    def sound(self, view: SoundView) -> DecodedSound:
        """Return the sound of a view, or raise its error."""
        self._raise_failure(view)
        return self.sounds[view]

    def _raise_failure(self, view: ClipView) -> None:
        failure = self.failures.get(view, self.error)
        if failure is not None:
            raise failure


def main(handle: int) -> None:
    """Reply to requests from the socket `handle` until the pool ends."""
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

        job = DecodeJob.from_json(request["job"])
        if job.parts_s:
            results = decode_sweep(job, memory.arrays, progress)
        else:
            results = [decode_job(job, memory.arrays_or_exit, progress)]
        reply = pack_results(results, memory)
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


def decode_job(
    job: DecodeJob,
    allocate: Allocate = new_arrays,
    progress: OnProgress = no_progress,
    decoded: dict[PictureView, DecodedClip] | BadVideo | None = None,
) -> DecodeResult:
    """Decode a clip in this process.

    Errors are not raised but are part of the result, so that no file ends a run. Without views,
    make the index of the film. If only the sound or only the pictures fail, the result contains the
    other kind of views, and the error under `failures`. If all views are of one kind, an error is
    the error of the job.

    Args:
        job: The clip and its views.
        allocate: Returns an array for each shape that it gets, to hold pictures.
        progress: Called regularly while the index of a film is made.
        decoded: The pictures of the clip, or their error, if a sweep has decoded them.
    """
    path = Path(job.path)
    picture_views = [view for view in job.views if isinstance(view, PictureView)]
    sound_views = [view for view in job.views if isinstance(view, SoundView)]
    of_clip: dict[str, Any] = {
        "start_s": job.start_s,
        "end_s": job.end_s,
        "indexes": job.indexes,
        "progress": progress,
    }
    clips: dict[PictureView, DecodedClip] = {}
    sounds: dict[SoundView, DecodedSound] = {}
    failures: dict[ClipView, BadVideo] = {}
    try:
        with _as_bad_video(path):
            # If the file is replaced from now on, its new facts differ from these.
            facts = file_facts(path)
            if not job.views:
                _make_indexes(path, job, progress)
    except BadVideo as error:
        return DecodeResult(job, {}, error)
    try:
        with _as_bad_video(path):
            if isinstance(decoded, BadVideo):
                raise decoded
            if decoded is not None:
                clips = decoded
            elif picture_views:
                clips = decode_views(path, picture_views, allocate=allocate, **of_clip)
    except BadVideo as error:
        if not sound_views:
            return DecodeResult(job, {}, error)
        failures |= dict.fromkeys(picture_views, error)
    try:
        with _as_bad_video(path):
            if sound_views:
                sounds = decode_sounds(path, sound_views, **of_clip)
    except BadVideo as error:
        if not picture_views:
            return DecodeResult(job, {}, error)
        failures |= dict.fromkeys(sound_views, error)
    return DecodeResult(job, clips, file_facts=facts, sounds=sounds, failures=failures)


def decode_sweep(
    job: DecodeJob,
    allocate: Allocate = new_arrays,
    progress: OnProgress = no_progress,
) -> list[DecodeResult]:
    """Return the results of the parts of a sweep; none if they must be decoded one by one.

    The pictures are decoded in one pass. Sound is decoded part by part, from sections that stay in
    memory.
    """
    views = [view for view in job.views if isinstance(view, PictureView)]
    parts: Sequence[dict[PictureView, DecodedClip] | BadVideo | None]
    parts = [None] * len(job.parts_s)
    try:
        facts = file_facts(Path(job.path))
        if views:
            parts = decode_parts(
                job.path,
                views,
                job.parts_s,
                allocate=allocate,
                indexes=job.indexes,
                progress=progress,
            )
    except Exception:  # noqa: BLE001 - each part by itself gives its own error
        return []
    jobs = zip(job.parts, parts, strict=True)
    results = [decode_job(part, allocate, progress, clips) for part, clips in jobs]
    # If the file was replaced meanwhile, its facts differ.
    is_same = all(result.file_facts in (facts, None) for result in results)
    return results if is_same else []


def _make_indexes(path: Path, job: DecodeJob, progress: OnProgress) -> None:
    """Make the index of the pictures of a film and, if the job wants it, of its sound."""
    indexes = Path(job.indexes or "")
    if job.with_sound:
        # A film without sound still has pictures; the row of each clip states the reason.
        with suppress(BadVideo):
            make_sound_index(path, indexes, progress)
    film_index(path, indexes, progress)


@contextmanager
def _as_bad_video(path: Path) -> Iterator[None]:
    """Raise any error as a `BadVideo`."""
    try:
        yield
    except BadVideo:
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, ObygazeError):
            message = error.message
        raise BadVideo(message, path=path, reason="error") from error


class SharedMemory:
    """An open file without a name, in memory if possible, which the pool and its workers map.

    The file stays mapped for the next clip, because writing to new memory for the first time takes
    longer than decoding into used memory.
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
        """Return arrays of these shapes. When none is in use any more, `released` is called."""
        ends = np.cumsum(
            [math.prod(shape) for shape in shapes], dtype=np.int64
        ).tolist()
        # An empty file cannot be mapped, and a sound may have no samples.
        n_bytes = max(ends[-1], 1)
        if self.mapped is None or len(self.mapped) < n_bytes:
            os.ftruncate(self.handle, max(n_bytes, os.fstat(self.handle).st_size))
            self.mapped = mmap.mmap(self.handle, n_bytes)
        whole = np.frombuffer(self.mapped, np.uint8, ends[-1])
        if released is not None:
            weakref.finalize(whole, released)
        parts = np.split(whole, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def arrays_or_exit(self, shapes: Sequence[tuple[int, ...]]) -> list[Pixels]:
        """Return arrays. End the worker if there is no memory, since the file is not at fault."""
        try:
            return self.arrays(shapes)
        except OSError as error:
            raise SystemExit(f"no memory for a clip: {error}") from error


def _pack_error(job: DecodeJob, error: BadVideo) -> dict[str, str]:
    """Return an error as JSON."""
    return {
        "message": error.message,
        "path": str(job.path),
        "reason": error.reason,
    }


def pack_results(
    results: Sequence[DecodeResult], memory: SharedMemory
) -> dict[str, Any]:
    """Return the results of a job as JSON, with the shapes of the arrays in the memory.

    The memory already contains the pictures. The samples of sounds are written after them.
    """
    layers = list[Pixels]()
    sounds = list[DecodedSound]()
    # The place of each array in the memory, by the id of the pictures or of the sound.
    numbers: dict[int, int] = {}
    for result in results:
        for clip in result.clips.values():
            if id(clip.shared_pictures) not in numbers:
                numbers[id(clip.shared_pictures)] = len(layers)
                layers.append(clip.shared_pictures)
        sounds += result.sounds.values()
    n_of_pictures = len(layers)
    for sound in sounds:
        numbers[id(sound)] = len(layers)
        layers.append(sound.samples.view(np.uint8))
    shapes = [layer.shape for layer in layers]
    if sounds:
        places = memory.arrays(shapes)
        for number in range(n_of_pictures, len(layers)):
            places[number][:] = layers[number]
    parts = [_pack_result(result, numbers) for result in results]
    return {"shapes": shapes, "parts": parts}


def _pack_result(result: DecodeResult, numbers: Mapping[int, int]) -> dict[str, Any]:
    """Return a result as JSON; `numbers` is that of `pack_results`."""
    if result.error is not None:
        return {"error": _pack_error(result.job, result.error)}
    clips = []
    for clip in result.clips.values():
        clips.append(_to_json(clip, shared_pictures=numbers[id(clip.shared_pictures)]))
    sounds = []
    for sound in result.sounds.values():
        sounds.append(_to_json(sound, view=None, samples=numbers[id(sound)]))
    failures = {
        result.job.views.index(view): _pack_error(result.job, error)
        for view, error in result.failures.items()
    }
    return {
        "clips": clips,
        "sounds": sounds,
        "failures": failures,
        "file_facts": result.file_facts,
    }


def _to_json(found: DecodedClip | DecodedSound, **instead: Any) -> dict[str, Any]:
    """Return the fields of a clip or sound as JSON values; `instead` replaces some of them."""
    facts = vars(found) | instead | {"path": str(found.path)}
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in facts.items()}


def _from_json(kind: type[T], listed: Mapping[str, Any], **instead: Any) -> T:
    """Return an object of `kind` from the fields of `_to_json`; `instead` replaces some of them."""
    facts: dict[str, Any] = {}
    for name, value in listed.items():
        facts[name] = np.array(value) if isinstance(value, list) else value
    return kind(**facts | instead | {"path": Path(listed["path"])})


def unpack_result(
    job: DecodeJob, reply: Mapping[str, Any], layers: Sequence[Pixels]
) -> DecodeResult:
    """Return the result of a job from the reply of a worker and the arrays in the memory."""
    if "error" in reply:
        return DecodeResult(job, {}, BadVideo(**reply["error"]))
    failures: dict[ClipView, BadVideo] = {
        job.views[int(number)]: BadVideo(**error)
        for number, error in reply["failures"].items()
    }
    views = [view for view in dict.fromkeys(job.views) if view not in failures]
    pictures = [view for view in views if isinstance(view, PictureView)]
    heard = [view for view in views if isinstance(view, SoundView)]
    clips = {}
    for view, listed in zip(pictures, reply["clips"], strict=True):
        shared = layers[listed["shared_pictures"]]
        clips[view] = _from_json(DecodedClip, listed, shared_pictures=shared)
    sounds = {}
    for sound_view, listed in zip(heard, reply["sounds"], strict=True):
        # Samples follow pictures at any byte: a copy is aligned as numbers need it.
        samples = layers[listed["samples"]].copy().view(np.float32)
        sounds[sound_view] = _from_json(
            DecodedSound,
            listed,
            view=sound_view,
            samples=samples,
            missing_s=np.array(listed["missing_s"]).reshape(-1, 2),
            damaged_s=np.array(listed["damaged_s"]).reshape(-1, 2),
            bounds_s=tuple(listed["bounds_s"]),
        )
    facts = reply["file_facts"]
    return DecodeResult(
        job,
        clips,
        file_facts=tuple(facts) if facts else None,
        sounds=sounds,
        failures=failures,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))

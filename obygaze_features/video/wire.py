"""How a decode pool and its workers talk: small JSON messages, and pictures in shared memory.

Pictures are written by the worker straight into memory that has no name, and the pool is handed
the open file of it: nothing is copied, and nothing is left behind when either side is killed.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import socket
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.video.decode import Clip, View
from obygaze_features.video.errors import REASONS, BadVideo
from obygaze_features.video.picture import Pixels

_LENGTH = struct.Struct("<I")
_ALIGN = 64


class Closed(Exception):
    """The other side is gone."""


def send(channel: socket.socket, message: Mapping[str, Any], handle: int | None = None) -> None:
    """Send one message, with an open file where there is one."""
    body = json.dumps(message).encode("ascii")
    head = _LENGTH.pack(len(body))
    try:
        if handle is None:
            channel.sendall(head + body)
        else:
            socket.send_fds(channel, [head], [handle])
            channel.sendall(body)
    except OSError as error:
        raise Closed from error


def receive(channel: socket.socket) -> tuple[dict[str, Any], int | None]:
    """Receive one message and the open file that came with it; may raise TimeoutError."""
    try:
        head, handles, _, _ = socket.recv_fds(channel, _LENGTH.size, 1)
        handle = handles[0] if handles else None
        head += _exactly(channel, _LENGTH.size - len(head)) if head else b""
        if not head:
            raise Closed
        body = _exactly(channel, _LENGTH.unpack(head)[0])
    except ConnectionError as error:
        raise Closed from error
    message: dict[str, Any] = json.loads(body)
    return message, handle


def _exactly(channel: socket.socket, n_bytes: int) -> bytes:
    parts = bytearray()
    while len(parts) < n_bytes:
        part = channel.recv(n_bytes - len(parts))
        if not part:
            raise Closed
        parts += part
    return bytes(parts)


class SharedFrames:
    """Memory for the pictures of one clip that another process can take over."""

    def __init__(self) -> None:
        self.handle: int | None = None

    def allocate(self, shapes: Sequence[tuple[int, ...]]) -> Sequence[Pixels]:
        """Arrays of zeros of these shapes, one behind the other in one piece of memory."""
        self.close()
        self.handle = _nameless_file()
        os.ftruncate(self.handle, max(1, _offsets(shapes)[-1]))
        return map_frames(self.handle, shapes)

    def close(self) -> None:
        """Let go of the file; the memory lives as long as an array of it."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


def map_frames(handle: int, shapes: Sequence[tuple[int, ...]]) -> Sequence[Pixels]:
    """The arrays in a piece of shared memory, without a copy."""
    offsets = _offsets(shapes)
    memory = mmap.mmap(handle, max(1, offsets[-1]))
    return [
        np.frombuffer(memory, np.uint8, math.prod(shape), offset).reshape(shape)
        for shape, offset in zip(shapes, offsets, strict=False)
    ]


def _offsets(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    offsets = [0]
    for shape in shapes:
        offsets.append(offsets[-1] + -(-math.prod(shape) // _ALIGN) * _ALIGN)
    return offsets


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("obygaze-frames", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


_ARRAYS = ("index", "time_s", "asked_s", "substituted", "mask")
_FACTS = ("total", "damaged", "missing")


def pack_clips(clips: Mapping[View, Clip]) -> dict[str, Any]:
    """Everything about clips but their pictures, as JSON."""
    return {
        "clips": [
            {
                "view": asdict(view),
                "path": str(clip.path),
                "shape": clip.frames.shape,
                **{name: getattr(clip, name).tolist() for name in _ARRAYS},
                **{name: getattr(clip, name) for name in _FACTS},
            }
            for view, clip in clips.items()
        ]
    }


def unpack_clips(message: Mapping[str, Any], handle: int) -> dict[View, Clip]:
    """The clips of a message, their pictures in the memory that came with it."""
    packed = message["clips"]
    pictures = map_frames(handle, [tuple(one["shape"]) for one in packed])
    clips = {}
    for one, frames in zip(packed, pictures, strict=True):
        rest: dict[str, Any] = {name: np.array(one[name]) for name in _ARRAYS}
        rest |= {name: one[name] for name in _FACTS}
        clips[View(**one["view"])] = Clip(path=Path(one["path"]), frames=frames, **rest)
    return clips


def pack_error(error: BadVideo) -> dict[str, Any]:
    """A bad video as JSON."""
    return {
        "error": {
            "what": error.what,
            "path": error.where,
            "hint": error.hint,
            "stage": error.stage,
            "reason": error.reason,
        }
    }


def unpack_error(message: Mapping[str, Any]) -> BadVideo:
    """The bad video of a message."""
    error = dict(message["error"])
    if error["reason"] not in REASONS:
        error["reason"] = "crashed"
    return BadVideo(error.pop("what"), **error)

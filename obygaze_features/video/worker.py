"""The process in which one clip after another is decoded, so that only it can crash or hang."""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import ObygazeError
from obygaze_features.video.decode import View, decode_views
from obygaze_features.video.errors import BadVideo
from obygaze_features.video.source import av
from obygaze_features.video.wire import (
    Closed,
    SharedFrames,
    pack_clips,
    pack_error,
    receive,
    send,
)


def main(handle: int) -> None:
    """Answer requests until the pool is gone."""
    channel = socket.socket(fileno=handle)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, requests), daemon=True).start()
    av()
    send(channel, {"ready": True})
    while True:
        _answer(channel, requests.get())


def _listen(channel: socket.socket, requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    # In a thread of its own, so that a worker stuck in a file still dies with its pool.
    try:
        while True:
            requests.put(receive(channel)[0])
    except Closed:
        os._exit(0)


def _answer(channel: socket.socket, request: dict[str, Any]) -> None:
    frames = SharedFrames()
    try:
        clips = decode_views(
            request["path"],
            [View(**view) for view in request["views"]],
            start_s=request["start_s"],
            end_s=request["end_s"],
            allocate=frames.allocate,
        )
        send(channel, pack_clips(clips), frames.handle)
    except Closed:
        os._exit(0)
    except Exception as error:  # noqa: BLE001 - whatever a file does, it is the file's row
        send(channel, pack_error(_as_bad_video(error, request["path"])))
    finally:
        frames.close()


def _as_bad_video(error: Exception, path: str) -> BadVideo:
    if isinstance(error, BadVideo):
        return error
    words = error.what if isinstance(error, ObygazeError) else f"{type(error).__name__}: {error}"
    return BadVideo(words, path=Path(path), stage="decode", reason="crashed")


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""Read one film with one reader, and print what it took and which pictures it returned.

    python -m benchmarks.decode.readers READER FILE COUNT

Imports are not timed. Every reader has one thread and returns RGB arrays of the full size.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decode.films import read_stamp
from obygaze_features.core.errors import first_line
from obygaze_features.video.index import sample_indices
from obygaze_features.video.resize import Pixels

Read = Callable[[str, int], Sequence[Pixels]]


def _obygaze() -> Read:
    from obygaze_features.video.container import av
    from obygaze_features.video.decode import decode_clip
    from obygaze_features.video.decoded_clip import PictureView

    av()

    def read(path: str, count: int) -> Sequence[Pixels]:
        return list(decode_clip(path, PictureView(count)).pictures)

    return read


def _decord() -> Read:
    import decord

    def read(path: str, count: int) -> Sequence[Pixels]:
        reader = decord.VideoReader(path, num_threads=1)
        index = sample_indices(len(reader), count).tolist()
        return list(reader.get_batch(index).asnumpy())

    return read


def _torchcodec() -> Read:
    import torch
    from torchcodec.decoders import VideoDecoder

    torch.set_num_threads(1)

    def read(path: str, count: int) -> Sequence[Pixels]:
        # The other readers return NHWC.
        decoder = VideoDecoder(path, dimension_order="NHWC", num_ffmpeg_threads=1)
        index = sample_indices(len(decoder), count).tolist()
        return list(decoder.get_frames_at(index).data.numpy())

    return read


def _torchcodec_one_by_one() -> Read:
    import torch
    from torchcodec.decoders import VideoDecoder

    torch.set_num_threads(1)

    def read(path: str, count: int) -> Sequence[Pixels]:
        decoder = VideoDecoder(path, dimension_order="NHWC", num_ffmpeg_threads=1)
        pictures = []
        for number in sample_indices(len(decoder), count).tolist():
            # A picture that fails is none, and takes no other with it.
            picture = np.zeros((64, 64, 3), np.uint8)
            with suppress(RuntimeError, IndexError):
                picture = decoder.get_frame_at(number).data.numpy()
            pictures.append(picture)
        return pictures

    return read


def _opencv() -> Read:
    import cv2

    cv2.setNumThreads(1)

    def read(path: str, count: int) -> Sequence[Pixels]:
        reader = cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        index = sample_indices(
            int(reader.get(cv2.CAP_PROP_FRAME_COUNT)), count
        ).tolist()
        pictures = []
        for number in index:
            reader.set(cv2.CAP_PROP_POS_FRAMES, number)
            read_it, picture = reader.read()
            if not read_it:
                raise ValueError(f"frame {number} cannot be read")
            pictures.append(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))
        return pictures

    return read


def _in_order() -> Read:
    import av

    def read(path: str, count: int) -> Sequence[Pixels]:
        with av.open(path) as container:
            total = sum(1 for packet in container.demux(video=0) if packet.size)
        index = sample_indices(total, count).tolist()
        pictures: list[Any] = []
        wanted = set(index)
        with av.open(path) as container:
            container.streams.video[0].codec_context.thread_count = 1
            for number, frame in enumerate(container.decode(video=0)):
                if number in wanted:
                    pictures += [frame.to_ndarray(format="rgb24")] * index.count(number)
        return pictures

    return read


READERS: dict[str, Callable[[], Read]] = {
    "obygaze": _obygaze,
    "decord": _decord,
    "torchcodec": _torchcodec,
    "torchcodec, one by one": _torchcodec_one_by_one,
    "opencv": _opencv,
    "pyav in order": _in_order,
}


def main(reader: str, path: str, count: int) -> None:
    """Read, and print what it took as JSON."""
    try:
        read = READERS[reader]()
    except (ImportError, OSError, RuntimeError) as error:
        sys.stdout.write(json.dumps({"absent": first_line(error, 120)}))
        return
    cpu = time.process_time()
    wall = time.perf_counter()
    try:
        pictures = read(path, count)
    except Exception as error:  # noqa: BLE001 - that a reader fails on a file is a result
        sys.stdout.write(json.dumps({"failed": first_line(error, 120)}))
        return
    taken = {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "numbers": [read_stamp(np.asarray(picture)) for picture in pictures],
    }
    sys.stdout.write(json.dumps(taken))


if __name__ == "__main__":
    main(sys.argv[1], str(Path(sys.argv[2])), int(sys.argv[3]))

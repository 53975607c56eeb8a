"""Read the sound of one film with one reader, and print what it took and how late its clicks are.

    python -m benchmarks.sound.readers READER FILE RATE CLIPS SECONDS

Imports are not timed. With CLIPS, so many clips of SECONDS are read one after another; with 0, the
film is read whole and compared with its flashes. Every reader has one thread and returns one
channel.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.sound.films import click_errors
from obygaze_features.core.errors import first_line
from obygaze_features.video.resample import Samples

# Samples of a part of a film, and the time in the film at which they begin.
Read = Callable[[str, int, float | None, float | None], tuple[Samples, float]]


def _obygaze() -> Read:
    from obygaze_features.video.sound import SoundView, decode_sound

    folder = TemporaryDirectory()

    def read(
        path: str, rate: int, start_s: float | None, end_s: float | None
    ) -> tuple[Samples, float]:
        sound = decode_sound(
            path,
            SoundView(rate),
            start_s=start_s,
            end_s=end_s,
            indexes=Path(folder.name),
        )
        return sound.samples, sound.start_s

    return read


def _torchcodec() -> Read:
    import av
    import torch
    from torchcodec.decoders import AudioDecoder

    torch.set_num_threads(1)

    def read(
        path: str, rate: int, start_s: float | None, end_s: float | None
    ) -> tuple[Samples, float]:
        decoder = AudioDecoder(path, sample_rate=rate, num_channels=1)
        if start_s is None:
            # Its clock is that of the container, which begins anywhere.
            with av.open(path) as container:
                origin_s = (container.start_time or 0) / av.time_base
            all_samples = decoder.get_all_samples()
            return all_samples.data[0].numpy(), all_samples.pts_seconds - origin_s
        part = decoder.get_samples_played_in_range(start_s, end_s)
        return part.data[0].numpy(), part.pts_seconds

    return read


def _wav() -> Read:
    import av

    whole: list[Samples] = []

    def read(
        path: str, rate: int, start_s: float | None, end_s: float | None
    ) -> tuple[Samples, float]:
        # As in a file that FFmpeg writes, the first sample is at second 0.
        if not whole:
            parts = []
            with av.open(path) as container:
                container.streams.audio[0].codec_context.thread_count = 1
                resampler = av.AudioResampler("fltp", "mono", rate)
                for frame in container.decode(audio=0):
                    frame.pts = None
                    parts += [of.to_ndarray()[0] for of in resampler.resample(frame)]
                parts += [of.to_ndarray()[0] for of in resampler.resample(None)]
            whole.append(np.concatenate(parts))
        first = round((start_s or 0) * rate)
        last = None if end_s is None else round(end_s * rate)
        return whole[0][first:last], start_s or 0.0

    return read


READERS: dict[str, Callable[[], Read]] = {
    "obygaze": _obygaze,
    "torchcodec": _torchcodec,
    "wav": _wav,
}


def main(reader: str, path: str, rate: int, clips: int, seconds: float) -> None:
    """Read, and print what it took as JSON."""
    try:
        read = READERS[reader]()
    except (ImportError, OSError, RuntimeError) as error:
        sys.stdout.write(json.dumps({"absent": first_line(error, 120)}))
        return
    cpu = time.process_time()
    taken: dict[str, Any] = {}
    try:
        for number in range(clips):
            read(path, rate, number * seconds, (number + 1) * seconds)
        if not clips:
            samples, begin_s = read(path, rate, None, None)
            taken["late"] = click_errors(Path(path), samples, rate, begin_s)
    except Exception as error:  # noqa: BLE001 - that a reader fails on a file is a result
        taken["failed"] = first_line(error, 120)
    taken["cpu_s"] = time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken["peak_rss_bytes"] = peak * 1024
    sys.stdout.write(json.dumps(taken))


if __name__ == "__main__":
    rate, clips = map(int, sys.argv[3:5])
    main(sys.argv[1], sys.argv[2], rate, clips, float(sys.argv[5]))

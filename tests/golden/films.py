"""Small films without loss: what is decoded of them is what was drawn, on each machine."""

from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

SAMPLE_RATE = 16_000
HEIGHT, WIDTH = 48, 64


def write_film(
    path: Path,
    luma: npt.NDArray[np.uint8],
    rate: int,
    samples: npt.NDArray[np.int16] | None = None,
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Grey in both planes of colour, which have a quarter of the pixels.
    chroma = np.full((HEIGHT // 2, WIDTH), 128, np.uint8)
    # Without these, the file has a random number and the version of FFmpeg.
    exact = {"fflags": "+bitexact"}
    with av.open(str(path), "w", options=exact) as out:
        video: Any = out.add_stream("ffv1", rate=rate)
        video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        audio: Any = None
        if samples is not None:
            audio = out.add_stream("pcm_s16le", rate=SAMPLE_RATE, layout="mono")
        for number, picture in enumerate(luma):
            planes = np.vstack([picture, chroma])
            frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
            frame.pts = number
            out.mux(video.encode(frame))
        out.mux(video.encode())
        if samples is not None:
            sound = av.AudioFrame.from_ndarray(samples[None], "s16", "mono")
            sound.sample_rate, sound.pts = SAMPLE_RATE, 0
            out.mux(audio.encode(sound))
            out.mux(audio.encode())


def drawn_pictures(
    draws: np.random.Generator, brightness: npt.NDArray[np.float64]
) -> npt.NDArray[np.uint8]:
    noise = draws.normal(0, 25, (len(brightness), HEIGHT, WIDTH))
    levels = np.clip(np.round(brightness[:, None, None] + noise), 16, 235)
    return levels.astype(np.uint8)


def drawn_samples(draws: np.random.Generator, seconds: float) -> npt.NDArray[np.int16]:
    n_samples = round(seconds * SAMPLE_RATE)
    loudness = np.linspace(500, 6000, n_samples)
    return np.round(draws.normal(size=n_samples) * loudness).astype(np.int16)

"""Small films with sound: pictures of one colour, and whatever samples a test plays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

RATE = 16000
FPS = 10
Samples = npt.NDArray[np.float32]


def noise(seconds: float, seed: int = 0, level: float = 0.1) -> Samples:
    random = np.random.default_rng(seed)
    samples = level * random.standard_normal(round(seconds * RATE))
    return samples.astype(np.float32)


def tone(seconds: float, hertz: float = 440.0, level: float = 0.3) -> Samples:
    at_s = np.arange(round(seconds * RATE)) / RATE
    return (level * np.sin(2 * np.pi * hertz * at_s)).astype(np.float32)


def write_film(
    path: Path, seconds: float, samples: Samples | None, *, seed: int = 0
) -> Path:
    """A film of so many seconds in FLAC and H.264 in Matroska; without samples it is silent."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    with av.open(str(path), "w") as out:
        video: Any = out.add_stream("libx264", rate=FPS, options={"g": "5"})
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        audio: Any = None
        if samples is not None:
            audio = out.add_stream("flac", rate=RATE, layout="mono")
        for _ in range(round(seconds * FPS)):
            picture = np.broadcast_to(random.integers(0, 256, 3), (48, 64, 3))
            frame = av.VideoFrame.from_ndarray(picture.astype(np.uint8), format="rgb24")
            out.mux(video.encode(frame))
        out.mux(video.encode())
        if samples is not None:
            whole = np.clip(np.round(samples * 32768), -32768, 32767).astype(np.int16)
            for start in range(0, len(whole), 4096):
                part = whole[None, start : start + 4096]
                sound = av.AudioFrame.from_ndarray(part, format="s16", layout="mono")
                sound.rate, sound.pts = RATE, start
                out.mux(audio.encode(sound))
            out.mux(audio.encode(None))
    return path

"""Try the decoder of a GPU before a run: what fails for every film is an error of the run."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.lazy import need
from obygaze_features.video.container import BadVideo, av
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import CUDA, View
from obygaze_features.video.hardware import torchcodec

# What is encoded for the test: large enough for the decoders of all GPUs.
WIDTH = 320
HEIGHT = 192
N_PICTURES = 24
VIEW = View(6, decoder=CUDA)


@cache
def require_gpu_decoder(device: str) -> None:
    """Raise an error unless a GPU decodes a small film exactly.

    Args:
        device: The GPU in the words of PyTorch, such as cuda:1.
    """
    torchcodec()
    if not need("torch", "gpu", "decoding on a GPU").cuda.is_available():
        raise FixUsage(
            "--decoder cuda needs a GPU, and PyTorch finds none",
            hint="obygaze doctor says why, or: --decoder cpu",
        )
    with tempfile.TemporaryDirectory(prefix="obygaze-film-") as folder:
        film = Path(folder) / "film.mp4"
        write_coloured_film(film)
        try:
            decode_clip(film, VIEW, device=device)
        except BadVideo as error:
            raise FixInput(
                f"{device} does not decode a test film: {error.message}",
                hint="--decoder cpu",
            ) from error


def write_coloured_film(
    path: Path, colour_space: int = 1, width: int = WIDTH, n_black: int = 0
) -> None:
    """Write a film of moving colours, in H.264 with pictures that are stored out of order.

    Args:
        path: Where to write.
        colour_space: The number that FFmpeg has for its colour space.
        width: The width of its pictures.
        n_black: How many of the first pictures are black.
    """
    with av().open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width = width
        stream.height = HEIGHT
        stream.pix_fmt = "yuv420p"
        stream.codec_context.gop_size = 12
        stream.codec_context.max_b_frames = 2
        stream.codec_context.colorspace = colour_space
        for number in range(N_PICTURES):
            picture = coloured_picture(number, width)
            if number < n_black:
                picture[:] = 0
            container.mux(stream.encode(av().VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())


def coloured_picture(number: int, width: int = WIDTH) -> np.ndarray:
    """Return a picture [H, W, 3] in which every colour moves with its number."""
    y, x = np.mgrid[0:HEIGHT, 0:width]
    red = (x + 5 * number) % 256
    green = (2 * y + 3 * number) % 256
    blue = (x + y - 4 * number) % 256
    return np.stack([red, green, blue], axis=2).astype(np.uint8)

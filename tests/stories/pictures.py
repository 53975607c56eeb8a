"""Pictures of films and pixels of models, made with PyAV and Pillow alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from PIL import Image

Pictures = list[npt.NDArray[np.uint8]]

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)


def decoded(film: Path, numbers: Sequence[int]) -> Pictures:
    """Return pictures of a film by their place in it, decoded from its beginning."""
    wanted = set(numbers)
    found = {}
    with av.open(str(film)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number in wanted:
                found[number] = frame.to_ndarray(format="rgb24")
    return [found[number] for number in numbers]


def pixels_of_clip_models(pictures: Pictures, size: int) -> npt.NDArray[np.float32]:
    """Return pixels [T, 3, size, size] as CLIP was trained: bicubic, cropped in the middle."""
    pixels = []
    for picture in pictures:
        image = Image.fromarray(picture)
        shortest = min(image.size)
        width = int(image.width * size / shortest)
        height = int(image.height * size / shortest)
        resized = image.resize((width, height), Image.Resampling.BICUBIC)
        left = (width - size) // 2
        top = (height - size) // 2
        cropped = resized.crop((left, top, left + size, top + size))
        levels = np.asarray(cropped, dtype=np.float32) / 255
        normalised = (levels - np.float32(MEAN)) / np.float32(STD)
        pixels.append(normalised.transpose(2, 0, 1))
    return np.stack(pixels)

"""A model of the user's own, which reads the numbers in the pictures of the made-up films.

It sees the 20 blocks of which each picture consists, and multiplies their levels by a gain. So its
features say which pictures it was given, and in which order.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from support.videos import numbered

from stories.films import PICTURES, first_number
from stories.workspace import Workspace

BLOCKS = '''\
"""A model that sees the blocks of which the pictures of the made-up films consist."""

import torch
from obygaze_features.backbones import Preset, module_card

ROWS, COLUMNS = 4, 5


class Blocks(torch.nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.gain = torch.nn.Parameter(gain)

    def forward(self, pixels):
        grey = pixels.float().mean(2)
        means = torch.nn.functional.adaptive_avg_pool2d(grey, (ROWS, COLUMNS))
        return self.gain * means.flatten(2)


def load():
    return Blocks(torch.load("gain.pt", weights_only=True))


def run(module, pixels):
    frames = module(pixels)
    return {"clip": frames.mean(1), "frames": frames}


def card(name, frames):
    arrays = {"clip": [20], "frames": [frames, 20]}
    shape = {"frames": frames, "height": 120, "width": 160}
    facts = {"values": "levels", "licence": "CC0-1.0", "preset": Preset(resize="squash")}
    return module_card(name, load, run, arrays=arrays, **shape, **facts)


def blocks():
    return card("blocks", 4)


def many_blocks():
    return card("many-blocks", 16)
'''


def write_model(ws: Workspace, gain: float = 0.5) -> None:
    ws.write("blocks.py", BLOCKS)
    write_gain(ws, gain)


def write_gain(ws: Workspace, gain: float) -> None:
    import torch

    torch.save(torch.tensor(gain), ws.path("gain.pt"))


def numbers_in(frames: npt.NDArray[Any]) -> list[list[int]]:
    is_set = frames[..., :10] > frames[..., 10:]
    return (is_set * 2 ** np.arange(10)).sum(axis=-1).tolist()


def levels_of(number: int) -> npt.NDArray[np.float64]:
    picture = numbered(number).astype(np.float64)
    blocks = picture.reshape(4, 30, 5, 32).mean(axis=(1, 3))
    return blocks.reshape(20)


def numbers_of_clip(first: int, length: int, count: int = 4) -> list[int]:
    """Return the numbers of `count` pictures that lie evenly in a clip of `length` pictures."""
    return [first + step * length // count for step in range(count)]


def numbers_of_films(films: tuple[str, ...], per_film: int) -> list[list[int]]:
    length = PICTURES // per_film
    return [
        numbers_of_clip(first_number(film) + clip * length, length)
        for film in films
        for clip in range(per_film)
    ]

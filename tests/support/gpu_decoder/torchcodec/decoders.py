"""The decoder, with the parameters and answers that the program uses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
import torch

# The luma coefficients of red and blue.
COEFFICIENTS = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722)}
BT709 = 1
FULL_RANGE = 2


@contextmanager
def set_cuda_backend(name: str) -> Iterator[None]:
    assert name == "nvdec"
    yield


@dataclass
class FrameBatch:
    data: torch.Tensor
    pts_seconds: torch.Tensor


class Fallback:
    def __bool__(self) -> bool:
        return lie() == "fallback"

    def __str__(self) -> str:
        return "Video not supported"


class VideoDecoder:
    def __init__(
        self,
        source: str,
        *,
        stream_index: int,
        dimension_order: str,
        num_ffmpeg_threads: int,
        device: str,
        custom_frame_mappings: str,
    ) -> None:
        assert dimension_order == "NHWC" and num_ffmpeg_threads == 1
        assert device.startswith("cuda")
        if lie() == "cannot open":
            raise RuntimeError("Could not open input file\nmore lines")
        self.cpu_fallback = Fallback()
        frames = json.loads(custom_frame_mappings)["frames"]
        self.times = [frame["pts"] for frame in frames]
        assert self.times == sorted(self.times) and frames[0]["duration"] > 0
        with av.open(source) as container:
            stream = container.streams[stream_index]
            self.tick_s = float(stream.time_base)
            self.pictures = {
                frame.pts: rgb_as_on_a_gpu(frame) for frame in container.decode(stream)
            }

    def get_frames_at(self, ranks: Sequence[int]) -> FrameBatch:
        if lie() == "fails":
            raise RuntimeError("Could not push packet to decoder: -22")
        if lie() == "full":
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        times = [self.times[rank] for rank in ranks]
        pictures = [self.pictures[time] for time in times]
        seconds = [time * self.tick_s for time in times]
        # The key frame, which is asked for alone, is right.
        if lie() == "late" and len(ranks) > 1:
            seconds[-1] += self.tick_s
        if lie() == "no time":
            seconds[0] = float("nan")
        if lie() == "missing" and len(ranks) > 1:
            del pictures[-1], seconds[-1]
        if lie() == "another picture":
            later = [self.times[min(rank + 1, len(self.times) - 1)] for rank in ranks]
            pictures = [self.pictures[time] for time in later]
        batch = np.stack(pictures)
        if lie() == "smaller":
            batch = batch[:, :-2]
        data: Any = torch.from_numpy(batch)
        if lie() == "floats":
            data = data / 255
        return FrameBatch(data, torch.tensor(seconds, dtype=torch.float64))


def lie() -> str:
    return os.environ.get("OBYGAZE_TEST_LIE", "")


def rgb_as_on_a_gpu(frame: Any) -> np.ndarray:
    """Convert a picture by the formula of torchcodec's kernel: single precision, cut off."""
    luma, blue, red = (
        _plane(plane) for plane in frame.reformat(format=_format(frame)).planes
    )
    blue, red = (
        np.repeat(np.repeat(plane, 2, 0), 2, 1)[: luma.shape[0], : luma.shape[1]] - 128
        for plane in (blue, red)
    )
    is_bt709 = frame.colorspace == BT709
    if lie() == "other colours":
        is_bt709 = not is_bt709
    of_red, of_blue = map(np.float32, COEFFICIENTS["bt709" if is_bt709 else "bt601"])
    of_green = 1 - of_red - of_blue
    if frame.format.name != "yuvj420p" and frame.color_range != FULL_RANGE:
        luma = (luma - 16) * np.float32(255 / 219)
        blue, red = (plane * np.float32(255 / 224) for plane in (blue, red))
    from_red = 2 * (1 - of_red) * red
    from_blue = 2 * (1 - of_blue) * blue
    green = luma - (of_red * from_red + of_blue * from_blue) / of_green
    rgb = np.stack([luma + from_red, green, luma + from_blue], axis=2)
    return rgb.clip(0, 255).astype(np.uint8)


def _format(frame: Any) -> str:
    name: str = frame.format.name
    return name if name in {"yuv420p", "yuvj420p"} else "yuv420p"


def _plane(plane: Any) -> np.ndarray:
    rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
    return rows[:, : plane.width].astype(np.float32)

"""Videos that carry the number of each picture in its pixels, so that a wrong one is visible."""

import os
import shutil
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from support.once import made_once

BITS = 10
COLUMNS, ROWS = 5, 4
DARK, LIGHT = 48, 208
# A codec, samples of 16 bits, and their rate.
Sound = tuple[str, np.ndarray, int]
SILENCE: Sound = ("aac", np.zeros(4 * 44100, np.int16), 44100)


def numbered(number: int, width: int = 160, height: int = 120) -> np.ndarray:
    """A grey picture [h, w] of 20 blocks: ten bits of its number, then the same inverted."""
    bits = [(number >> bit) & 1 for bit in range(BITS)]
    cells = np.array(bits + [1 - bit for bit in bits]).reshape(ROWS, COLUMNS)
    levels = np.where(cells == 1, LIGHT, DARK)
    rows = np.arange(height) * ROWS // height
    columns = np.arange(width) * COLUMNS // width
    picture = levels[rows][:, columns]
    # A drifting texture gives the coder motion to follow; it cancels out within a block.
    texture = 12 * np.sin((np.arange(width) + 3 * number) / 4)
    return picture.astype(np.uint8) + texture.astype(np.int8).astype(np.uint8)[None, :]


@cache
def _averages(n_cells: int, length: int) -> np.ndarray:
    """The weights [cells, length] that average the inner half of each cell of a side."""
    weights = np.zeros((n_cells, length), np.float32)
    for cell in range(n_cells):
        start, end = (cell * length) / n_cells, ((cell + 1) * length) / n_cells
        margin = (end - start) / 4
        weights[cell, int(start + margin) : int(end - margin) + 1] = 1
    return weights / weights.sum(axis=1, keepdims=True)


def read_number(picture: np.ndarray) -> int:
    """The number in a picture of any size; -1 where it cannot be read beyond doubt."""
    height, width = picture.shape[:2]
    lines = _averages(ROWS, height) @ picture.reshape(height, -1).astype(np.float32)
    grey = lines.reshape(ROWS, width, -1).mean(axis=2)
    cells = (grey @ _averages(COLUMNS, width).T).ravel()
    difference = cells[:BITS] - cells[BITS:]
    if np.abs(difference).min() < 60:
        return -1
    return int(sum(1 << bit for bit in range(BITS) if difference[bit] > 0))


def read_numbers(pictures: np.ndarray) -> list[int]:
    return [read_number(picture) for picture in pictures]


def write_video(path: Path, codec: str = "libx264", **settings: Any) -> Path:
    """Write what `encode_video` writes; a file that these tests have encoded before is copied."""
    if any(callable(value) for value in settings.values()):
        return encode_video(path, codec, **settings)

    def make(folder: Path) -> None:
        encode_video(folder / f"video{path.suffix}", codec, **settings)

    made = made_once("video", make, path.suffix, codec, settings)
    shutil.copyfile(made / f"video{path.suffix}", path)
    return path


def encode_video(
    path: Path,
    codec: str = "libx264",
    *,
    numbers: Sequence[int] = range(100),
    pictures: Sequence[np.ndarray] = (),
    ticks: Sequence[int] | None = None,
    tick: Fraction = Fraction(1, 25),
    rate: int | Fraction = 25,
    size: tuple[int, int] = (160, 120),
    pix_fmt: str = "yuv420p",
    format: str | None = None,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    setup: Callable[[Any], None] | None = None,
    cover: bool = False,
    audio: bool | Sound = False,
    turn: int = 0,
) -> Path:
    """Write numbered pictures, or other ones [h, w, 3]; `ticks` are their times.

    `turn` turns the stored pictures counterclockwise, so that they must be turned back.
    """
    import av
    from av.video.reformatter import VideoReformatter

    # One for the film: a new one for each picture takes longer than to code it.
    reformatter = VideoReformatter()
    with av.open(str(path), "w", format=format, options=container_options or {}) as out:
        stream: Any = out.add_stream(codec, rate=rate, options=options or {})
        stream.width, stream.height = size[::-1] if turn % 180 else size
        stream.pix_fmt = pix_fmt
        stream.codec_context.thread_count = 1
        stream.time_base = stream.codec_context.time_base = tick
        if setup:
            setup(stream)
        extras = _add_extras(out, cover, audio)
        for order, picture in enumerate(
            pictures or (numbered(n, *size) for n in numbers)
        ):
            turned = np.ascontiguousarray(np.rot90(picture, turn // 90))
            kind = "gray" if turned.ndim == 2 else "rgb24"
            plain = av.VideoFrame.from_ndarray(turned, format=kind)
            frame = reformatter.reformat(plain, format=pix_fmt, threads=1)
            frame.pts = ticks[order] if ticks is not None else order
            frame.time_base = tick
            out.mux(stream.encode(frame))
        out.mux([*stream.encode(), *extras])
    _without_real_time()
    return path


def _without_real_time() -> None:
    """Undo what SVT-AV1 does as root: all later work would be real-time and starve the others."""
    if hasattr(os, "sched_setscheduler"):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _add_extras(out: Any, cover: bool, audio: bool | Sound) -> list[Any]:
    import av

    packets: list[Any] = []
    if cover:
        stream = out.add_stream("mjpeg", rate=1)
        stream.width, stream.height, stream.pix_fmt = 640, 480, "yuvj420p"
        stream.disposition = av.stream.Disposition.attached_pic
        picture = np.full((480, 640, 3), 128, dtype=np.uint8)
        packets += stream.encode(
            av.VideoFrame.from_ndarray(picture).reformat(format="yuvj420p")
        )
        packets += stream.encode()
    if audio:
        codec, samples, rate = SILENCE if isinstance(audio, bool) else audio
        stream = out.add_stream(codec, rate=rate, layout="mono")
        n_samples = stream.codec_context.frame_size or 960
        for start in range(0, len(samples), n_samples):
            part = samples[None, start : start + n_samples]
            frame = av.AudioFrame.from_ndarray(part, format="s16", layout="mono")
            frame.sample_rate, frame.pts = rate, start
            packets += stream.encode(frame)
        packets += stream.encode()
    return packets


def packet_of(packet: Any, data: bytes) -> Any:
    import av

    other = av.Packet(data)
    for name in ("pts", "dts", "time_base", "duration", "is_keyframe"):
        setattr(other, name, getattr(packet, name))
    return other


def remux(
    source: Path,
    target: Path,
    each_packet: Callable[[int, Any], Any],
    *,
    format: str | None = None,
    options: dict[str, str] | None = None,
) -> Path:
    """Copy the coded pictures of a file into another, each packet through `each_packet`."""
    import av

    with (
        av.open(str(source)) as old,
        av.open(str(target), "w", format=format, options=options or {}) as new,
    ):
        stream = old.streams.video[0]
        # Opaque: no encoder of the codec is needed.
        copy = new.add_stream_from_template(stream, opaque=True)
        for number, packet in enumerate(p for p in old.demux(stream) if p.size):
            changed = each_packet(number, packet)
            if changed is not None:
                changed.stream = copy
                new.mux(changed)
    return target

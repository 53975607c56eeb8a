"""Films decoded by a GPU beside the decoder of obygaze: pictures, colours and speed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decoding.films import RATE, FilmSpec, make_film, read_stamp
from obygaze_features.video.container import av
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.index import sample_indices
from obygaze_features.video.picture import PictureConverter, geometry_of
from obygaze_features.video.pool import DecodeJob, DecodePool
from obygaze_features.video.resize import Pixels, Resize

COUNT = 32
WIDTH = 1280
FILM_S = 12
N_CLIPS = 64
# The name of each codec, its encoder and the options of the encoder.
FAST = {"preset": "veryfast"}
CODECS = {
    "h264": ("libx264", FAST),
    "hevc": ("libx265", {**FAST, "x265-params": "log-level=error"}),
    "mpeg-4": ("mpeg4", {}),
}
Row = dict[str, Any]


@dataclass(frozen=True)
class HardwareClip:
    """The pictures of a film from the decoder of a device, and whether the device decoded them."""

    pictures: Pixels
    on_device: bool


def hardware_rows(
    folder: Path, device: str, *, quick: bool, workers: int
) -> Iterator[Row]:
    """Yield a row for each codec: the same pictures, their colours, clips a second of both."""
    n_clips, n_frames, width = (
        (2, COUNT, 640) if quick else (N_CLIPS, FILM_S * RATE, WIDTH)
    )
    for name, (codec, options) in CODECS.items():
        suffix = ".avi" if codec == "mpeg4" else ".mp4"
        spec = FilmSpec(
            name, suffix, codec, options=options, n_frames=n_frames, width=width
        )
        film = make_film(spec, folder)
        row: Row = {"codec": name, "decoded by": None, "same pictures": None}
        row |= dict.fromkeys(
            ("mean difference, levels", "largest", "clips/s", "clips/s by CPU")
        )
        try:
            row |= _compared(film, device, n_clips, workers)
        except av().FFmpegError as error:  # that a device fails on a codec is a result
            row["decoded by"] = f"fails: {error}"
        yield row


def _compared(film: Path, device: str, n_clips: int, workers: int) -> Row:
    """Return the pictures and colours that a device decodes beside ours, and both speeds."""
    of_cpu = decode_clip(film, View(COUNT))
    of_device = decode_on(device, film)
    gaps = np.abs(of_cpu.pictures.astype(int) - of_device.pictures)
    same = sum(
        read_stamp(a) == read_stamp(b)
        for a, b in zip(of_cpu.pictures, of_device.pictures, strict=True)
    )
    films = [film] * n_clips
    return {
        "decoded by": "the device" if of_device.on_device else "the CPU (fallback)",
        "same pictures": f"{same} of {COUNT}",
        "mean difference, levels": float(gaps.mean()),
        "largest": int(gaps.max()),
        "clips/s": n_clips / _in_threads(device, films, workers),
        "clips/s by CPU": n_clips / _in_pool(films, workers),
    }


def decode_on(device: str, film: Path, resize: Resize | None = None) -> HardwareClip:
    """Decode pictures spread evenly over a film with NVDEC; without it FFmpeg uses the CPU."""
    chosen = device.partition(":")[2] or None
    accelerator = (
        av().codec.hwaccel.HWAccel("cuda", chosen)
        if device.startswith("cuda")
        else None
    )
    with av().open(str(film), hwaccel=accelerator) as container:
        stream = container.streams.video[0]
        total = sum(1 for packet in container.demux(stream) if packet.size)
        wanted = sample_indices(total, COUNT).tolist()
        pictures = list[Pixels]()
        container.seek(0)
        converter = None
        for number, frame in enumerate(container.decode(stream)):
            if number in wanted:
                converter = converter or PictureConverter(geometry_of(frame, stream))
                picture = converter.convert(frame)
                picture = picture if resize is None else resize(picture[None])[0]
                pictures += [np.array(picture)] * wanted.count(number)
        return HardwareClip(np.stack(pictures), bool(stream.codec_context.is_hwaccel))


def _in_threads(device: str, films: Sequence[Path], workers: int) -> float:
    """Decode films on a device in threads, resized as for a model; return the seconds."""
    started = time.monotonic()
    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(lambda film: decode_on(device, film, Resize(224, 224)), films))
    return time.monotonic() - started


def _in_pool(films: Sequence[Path], workers: int) -> float:
    """Decode films as a run does; the seconds begin when a decoder has started."""
    view = View(COUNT, resize=Resize(224, 224))
    with DecodePool(workers) as pool:
        next(pool.map([DecodeJob(films[0], (view,))]))
        started = time.monotonic()
        for result in pool.map(DecodeJob(film, (view,)) for film in films):
            if result.error:
                raise result.error
        return time.monotonic() - started

"""Decode pictures on a GPU: those of the program's own index, exact or refused with a reason.

The decoder of torchcodec is given the times and key frames of the index, and asked for pictures by
their rank in it. What it answers counts only if nothing speaks against the file, each picture has
the time of the index, and one that tells formulas of colours apart has the levels that the CPU
decodes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import FixInput, first_line
from obygaze_features.core.lazy import need
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decoded_clip import CUDA, Canvas
from obygaze_features.video.index import FrameIndex
from obygaze_features.video.losses import NO_ZEROS, has_unwritten_zeros
from obygaze_features.video.picture import PictureConverter
from obygaze_features.video.resize import Pixels
from obygaze_features.video.resize_on_device import (
    has_the_same_bits,
    resize_on_device,
)
from obygaze_features.video.source import VideoSource

# The rule by which pictures are asked for, compared and resized; raise it with any change of them.
RULE = 1
# Codecs whose standard says every level of a picture, so that all decoders give the same. VP9 is
# not one of them here: torchcodec gives its pictures times by counting them.
EXACT_CODECS = ("h264", "hevc", "av1", "vp8")
PIXEL_FORMATS = ("yuv420p", "yuvj420p")
# The numbers that FFmpeg has for colour spaces: BT.709, unknown, and the two of BT.601.
BT709 = 1
BT601 = 5
COLOUR_SPACES = (BT709, 2, BT601, 6)
# The largest difference of a picture from that of the CPU. The formula of torchcodec for its
# GPU and that of FFmpeg here differ by at most 2 levels, for every luma and chroma.
MAX_LEVELS = 3
# How many bytes of pictures are asked for at once.
ASKED_BYTES = 256 * 1024 * 1024
# How many open films a process keeps.
OPEN_FILMS = 2
# What torchcodec raises for a file.
_FAILURES = (RuntimeError, ValueError, IndexError, TypeError)


def torchcodec() -> Any:
    """Return the module of torchcodec; an error names the extra, or says why it does not work."""
    try:
        need("torchcodec.decoders", "gpu", "decoding on a GPU")
        return need("torchcodec", "gpu", "decoding on a GPU")
    except RuntimeError as error:
        raise FixInput(
            f"torchcodec is installed and does not work: {first_line(error)}",
            hint="install FFmpeg's libraries, and the version of torchcodec for that of torch",
        ) from error


def hardware_recipe() -> dict[str, Any]:
    """Return the section of a recipe on pictures that a GPU decodes."""
    version = str(torchcodec().__version__)
    return {
        "name": "torchcodec",
        # What follows names the build, such as for CUDA 13.
        "version": version.partition("+")[0],
        "device": CUDA,
        "rule": RULE,
    }


def draw_on_device(canvas: Canvas, device: str) -> None:
    """Draw the wanted pictures of a clip, decoded and resized by a device; or raise BadVideo.

    Args:
        canvas: What is wanted, of a film that is open.
        device: The device in the words of PyTorch, such as cuda:1.
    """
    source = canvas.source
    index = canvas.index
    ranks = list(canvas.wanted)
    problem = _problem_of_film(source, index) or _problem_of_packets(
        source, index, ranks
    )
    if problem:
        raise _refused(source, problem)
    film = _opened(source, index, device)
    key = _key_rank(source, index, ranks[0])
    key_picture = film.pictures([key])[0]
    for resize in canvas.rows:
        if resize and not has_the_same_bits(resize, str(key_picture.device)):
            raise _refused(source, "it resizes a test picture to other pixels")
    shows_colours = _compare_with_cpu(film, key, key_picture)
    most_coloured = None
    height, width = source.geometry.upright
    at_once = max(1, ASKED_BYTES // (height * width * 3))
    for first in range(0, len(ranks), at_once):
        asked = ranks[first : first + at_once]
        pictures = film.pictures(asked)
        try:
            _draw(canvas, asked, pictures)
        except RuntimeError as error:  # resizing needs memory too
            raise _refused(source, _failure(error)) from error
        if not shows_colours:
            most_coloured = _most_coloured(asked, pictures, most_coloured)
    if most_coloured is not None and most_coloured.spread > 2 * MAX_LEVELS:
        _compare_with_cpu(film, most_coloured.rank, most_coloured.picture)


@dataclass(frozen=True)
class _Coloured:
    """A picture, and how far the red, green and blue of one of its pixels are apart."""

    rank: int
    picture: Any
    spread: int


@dataclass(frozen=True)
class _FilmOnDevice:
    """A film that a device has open, and what its pictures must be like."""

    source: VideoSource
    index: FrameIndex
    decoder: Any

    def pictures(self, ranks: Sequence[int]) -> Any:
        """Return pictures as a tensor [T, H, W, 3] on the device; BadVideo if they are others."""
        try:
            batch = self.decoder.get_frames_at(list(ranks))
        except _FAILURES as error:
            raise _refused(self.source, _failure(error)) from error
        fallback = self.decoder.cpu_fallback
        if fallback:
            raise _refused(self.source, f"it leaves the file to the CPU: {fallback}")
        pictures = batch.data
        n_wanted = len(ranks)
        if len(pictures) != n_wanted or len(batch.pts_seconds) != n_wanted:
            problem = f"it answers {len(pictures)} pictures, {n_wanted} were asked for"
            raise _refused(self.source, problem)
        height, width = self.source.geometry.upright
        if tuple(pictures.shape[1:]) != (height, width, 3):
            shape = " x ".join(map(str, pictures.shape[1:]))
            problem = f"its pictures are {shape}, not {height} x {width} x 3"
            raise _refused(self.source, problem)
        if "uint8" not in str(pictures.dtype):
            raise _refused(self.source, f"its levels are {pictures.dtype}, not uint8")
        self._compare_times(ranks, batch.pts_seconds)
        return pictures

    def _compare_times(self, ranks: Sequence[int], answered_s: Any) -> None:
        """Raise an error unless each picture has the time of its rank, to the tick."""
        expected = self.index.pts[self.index.order[list(ranks)]]
        seconds = np.asarray(answered_s, dtype=np.float64)
        tick_s = self.index.seconds_per_tick
        is_time = np.isfinite(seconds)
        answered = np.rint(np.where(is_time, seconds, 0) / tick_s).astype(np.int64)
        (wrong,) = np.nonzero(~is_time | (answered != expected))
        if len(wrong):
            row = int(wrong[0])
            wanted_s = expected[row] * tick_s
            problem = (
                f"its picture {ranks[row]} is of {seconds[row]:.6f} s,"
                f" not of {wanted_s:.6f} s, and {len(wrong)} of {len(ranks)} differ so"
            )
            raise _refused(self.source, problem)


def _failure(error: BaseException) -> str:
    """Return how an error of the decoder reads as the cause of a refusal."""
    if "out of memory" in str(error):
        return "its memory is full; use fewer --workers, then --retry-failed"
    return f"it fails: {first_line(error)}"


def _refused(source: VideoSource, problem: str) -> BadVideo:
    message = f"the decoder of the GPU cannot be used: {problem}"
    return BadVideo(message, path=source.path, stage="decode", reason="gpu")


def _problem_of_film(source: VideoSource, index: FrameIndex) -> str:
    """Return what is in a film that a GPU may decode to other pictures; empty if nothing is."""
    if not index.timed:
        return "the pictures have no reliable times"
    if source.damaged:
        return "the file is damaged, and only the CPU says which pictures that affects"
    if source.codec not in EXACT_CODECS:
        return f"the codec is {source.codec}, which is not one of {', '.join(EXACT_CODECS)}"
    if index.gradual is not None and index.gradual.any():
        return "key frames renew only a part of the picture (intra refresh)"
    stream = source.decoder
    if stream.pix_fmt not in PIXEL_FORMATS:
        formats = " or ".join(PIXEL_FORMATS)
        return f"the pixel format is {stream.pix_fmt}, not {formats}"
    if int(stream.colorspace) not in COLOUR_SPACES:
        return f"the colours are of space {int(stream.colorspace)} of FFmpeg, not BT.709 or BT.601"
    geometry = source.geometry
    if geometry.sar != 1:
        return f"the pixels are not square ({geometry.sar})"
    if geometry.rotation or geometry.flip:
        return "the pictures are turned"
    return ""


def _problem_of_packets(
    source: VideoSource, index: FrameIndex, ranks: Sequence[int]
) -> str:
    """Return whether packets that are needed hold zeros that their codec never writes.

    The decoder of the CPU would report most of this damage, that of a GPU reports none.
    """
    if source.codec not in NO_ZEROS:
        return ""
    for run in index.runs(index.order[ranks].tolist()):
        for position, packet in source.packets(run.start, run.stop):
            if has_unwritten_zeros(source.codec, bytes(packet), source.length_size):
                return f"packet {position} is damaged"
    return ""


def _opened(source: VideoSource, index: FrameIndex, device: str) -> _FilmOnDevice:
    """Return a film that a device has open, if possible one from an earlier clip."""
    facts = source.path.stat()
    identity = (
        str(source.path.absolute()),
        facts.st_size,
        facts.st_mtime_ns,
        source.stream.index,
        _Mapping(index),
        device,
    )
    try:
        decoder = _decoder(*identity)
    except _FAILURES as error:
        raise _refused(source, _failure(error)) from error
    return _FilmOnDevice(source, index, decoder)


class _Mapping:
    """What a decoder is told of the pictures of a film; equal for equal pictures."""

    def __init__(self, index: FrameIndex) -> None:
        self.index = index
        pts = index.pts[index.order]
        self._content = (pts.tobytes(), index.key[index.order].tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Mapping) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    def to_json(self) -> str:
        """Return the times, the durations and the key frames of all pictures, in ticks."""
        index = self.index
        times = index.pts[index.order].tolist()
        last = max(1, round(index.last_s / index.seconds_per_tick))
        durations = [after - time for time, after in pairwise(times)]
        durations.append(last)
        frames = [
            {"pts": time, "duration": duration, "key_frame": int(is_key)}
            for time, duration, is_key in zip(
                times, durations, index.key[index.order].tolist(), strict=True
            )
        ]
        return json.dumps({"frames": frames})


@lru_cache(maxsize=OPEN_FILMS)
def _decoder(
    path: str,
    n_bytes: int,
    modified_ns: int,
    stream: int,
    mapping: _Mapping,
    device: str,
) -> Any:
    """Return torchcodec's decoder of a file; the size and time of a file make it another one."""
    decoders = torchcodec().decoders
    with ExitStack() as stack:
        if device.startswith(CUDA):
            stack.enter_context(decoders.set_cuda_backend("nvdec"))
        return decoders.VideoDecoder(
            # Without the prefix, a name with a colon would be read as an address.
            f"file:{Path(path)}",
            stream_index=stream,
            dimension_order="NHWC",
            num_ffmpeg_threads=1,
            device=device,
            custom_frame_mappings=mapping.to_json(),
        )


def _compare_with_cpu(film: _FilmOnDevice, rank: int, answered: Any) -> bool:
    """Raise an error unless a picture has the levels that the CPU decodes.

    Return whether another formula for its colours would have been seen: not in a black picture.
    """
    source = film.source
    frame = _decoded_by_cpu(source, film.index, rank)
    if frame is None:
        problem = f"the CPU does not decode picture {rank}, to compare it with"
        raise _refused(source, problem)
    if frame.interlaced_frame:
        raise _refused(source, "the pictures are interlaced")
    converter = PictureConverter(source.geometry, source.path)
    expected = converter.convert(frame).astype(np.int16)
    furthest = int(np.abs(expected - answered.cpu().numpy()).max())
    if furthest > MAX_LEVELS:
        problem = f"its picture {rank} differs by {furthest} of 255 levels from that of the CPU"
        raise _refused(source, problem)
    colour_space = frame.colorspace
    frame.colorspace = BT601 if colour_space == BT709 else BT709
    in_other_colours = converter.convert(frame)
    frame.colorspace = colour_space
    return int(np.abs(expected - in_other_colours).max()) > 2 * MAX_LEVELS


def _decoded_by_cpu(source: VideoSource, index: FrameIndex, rank: int) -> Any:
    """Return a picture from the decoder of the CPU; None if it does not come out intact."""
    frames: list[Any] = []
    position = int(index.order[rank])
    if source.first is not None and source.first[0] == position:
        return source.first[1]

    def take(at: int, frame: Any) -> None:
        if at == position:
            frames.append(frame)

    (run,) = index.runs([position])
    fine = source.run(run, take, skip=True, record=False)
    return frames[0] if fine and frames else None


def _key_rank(source: VideoSource, index: FrameIndex, rank: int) -> int:
    """Return the rank of the key frame that a picture is decoded from, if it is shown.

    A film that was cut may begin with a key frame that it does not show.
    """
    key = int(index.ranks[index.start_of(int(index.order[rank]))])
    return key if key >= 0 else rank


def _most_coloured(
    ranks: Sequence[int], pictures: Any, before: _Coloured | None
) -> _Coloured:
    """Return the picture with the strongest colour, of some pictures and one from before."""
    spread = pictures.amax(-1) - pictures.amin(-1)
    of_picture = spread.flatten(1).amax(1).tolist()
    number = int(np.argmax(of_picture))
    most = _Coloured(ranks[number], pictures[number].clone(), of_picture[number])
    if before is not None and before.spread >= most.spread:
        return before
    return most


def _draw(canvas: Canvas, ranks: Sequence[int], pictures: Any) -> None:
    """Resize pictures on their device, and copy them to the rows of each size."""
    for resize, rows in canvas.rows.items():
        inside = [number for number, rank in enumerate(ranks) if rank in rows]
        if not inside:
            continue
        chosen = pictures[inside]
        resized = chosen if resize is None else resize_on_device(resize, chosen)
        target: Pixels = canvas.pictures[resize]
        target[[rows[ranks[number]] for number in inside]] = resized.cpu().numpy()
    canvas.drawn |= {rank: rank for rank in ranks}

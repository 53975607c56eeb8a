"""What browsers play of a video, and playable copies of videos that they do not play.

A copy, in H.264 and AAC, has the pictures of its original at the same times, so that a picture has
the same number in both. It is named after the hash of the original, and is only seen when it is
whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from obygaze_features.core.console import Progress
from obygaze_features.core.drafts import new_file
from obygaze_features.core.files import quick_sha256
from obygaze_features.video.container import av, open_video
from obygaze_features.video.film import film_index, open_film
from obygaze_features.video.picture import PictureConverter, PictureGeometry

CONTAINERS = {"mov", "matroska", "webm"}
VIDEO_CODECS, PIXELS = {"h264", "vp8", "vp9", "av1"}, {"yuv420p", "yuvj420p"}
AUDIO_CODECS = {"aac", "mp3", "opus", "vorbis", "flac"}
MOST_LINES = 720
TICK = Fraction(1, 90_000)
MP4 = {"movflags": "faststart", "video_track_timescale": str(TICK.denominator)}
X264 = {"preset": "veryfast", "crf": "23", "g": "48"}


@dataclass(frozen=True)
class MediaFacts:
    """The length and rate of a video, 0 if unknown, and what browsers do not play of it, or ""."""

    duration_s: float = 0.0
    rate: float = 0.0
    refused: str = ""


@lru_cache(maxsize=4096)
def media_facts(path: Path) -> MediaFacts:
    """Return the facts in the header of a video; BadVideo if it cannot be opened."""
    with open_video(path) as (container, stream):
        name, codec = container.format.name, stream.codec_context.codec.canonical_name
        sound = [one.codec_context.codec.canonical_name for one in container.streams.audio[:1]]
        refused = [f"{name} files"] if CONTAINERS.isdisjoint(name.split(",")) else []
        if codec not in VIDEO_CODECS or stream.codec_context.pix_fmt not in PIXELS:
            refused.append(f"{codec} video ({stream.codec_context.pix_fmt})")
        refused += [f"{one} sound" for one in sound if one not in AUDIO_CODECS]
        rate = float(stream.guessed_rate or stream.average_rate or 0)
        return MediaFacts((container.duration or 0) / 1e6, rate, ", ".join(refused))


def proxy_path(video: Path, folder: Path) -> Path:
    """Return the file of a video's playable copy, which may not exist."""
    return folder / f"{quick_sha256(video)[1][:32]}.mp4"


def make_proxy(video: Path, folder: Path, indexes: Path, progress: Progress) -> Path:
    """Write the playable copy of a video and return its path.

    Args:
        video: The original.
        folder: The folder of all copies.
        indexes: The folder that keeps the indexes of films.
        progress: Counts the seconds of the film.
    """
    index, target = film_index(video, indexes)[0], proxy_path(video, folder)
    with new_file(target, force=True) as draft, open_film(video, indexes, threads=0) as source:
        convert = _converter(source.geometry)
        with av().open(str(draft), "w", format="mp4", options=MP4) as out:
            rate = Fraction(index.rate).limit_denominator(1001)
            pictures = out.add_stream("libx264", rate=rate, options=X264)
            pictures.pix_fmt, pictures.codec_context.time_base = "yuv420p", TICK
            sound = _Sound(video, out, index.origin_s)
            last = -1

            def take(position: int, frame: Any) -> None:
                nonlocal last
                rank = int(index.ranks[position])
                if rank <= last:  # it is not shown, or damage has changed the order
                    return
                picture = convert(frame)
                if last < 0:
                    pictures.width, pictures.height = picture.width, picture.height
                time_s = float(index.times_s[rank])
                picture.pts, picture.time_base = round(time_s / TICK), TICK
                out.mux(pictures.encode(picture))
                sound.encode_until(time_s)
                progress.advance(int(time_s) - int(index.times_s[max(last, 0)]))
                last = rank

            source.run(source.whole, take)
            out.mux(pictures.encode())
            sound.encode_until(math.inf)
    return target


def _converter(geometry: PictureGeometry) -> Callable[[Any], Any]:
    """Return the function that makes a picture upright, with square pixels, and not too large."""
    height, width = geometry.upright
    scale = min(1.0, MOST_LINES / height)
    size = [2 * max(1, round(scale * edge / 2)) for edge in (width, height)]
    turn = PictureConverter(geometry).convert if geometry.rotation or geometry.flip else None

    def convert(frame: Any) -> Any:
        if turn is not None:
            frame = av().VideoFrame.from_ndarray(turn(frame).copy(), format="rgb24")
        return frame.reformat(*size, format="yuv420p")

    return convert


class _Sound:
    """Encodes the first sound of a video as stereo AAC, step by step beside the pictures."""

    def __init__(self, video: Path, out: Any, origin_s: float) -> None:
        self.out, self.origin_s, self.frames = out, origin_s, _sound_of(video)
        self.next: Any = next(self.frames, None)
        self.stream: Any = None
        if self.next is not None:
            self.stream = out.add_stream("aac", rate=self.next.sample_rate, layout="stereo")

    def encode_until(self, time_s: float) -> None:
        """Encode the sound up to a time; up to infinity, all of it."""
        while self.next is not None and (start_s := self.next.time - self.origin_s) <= time_s:
            rate = self.next.sample_rate
            self.next.pts, self.next.time_base = round(start_s * rate), Fraction(1, rate)
            self.out.mux(self.stream.encode(self.next))
            self.next = next(self.frames, None)
        if self.stream is not None and math.isinf(time_s):
            self.out.mux(self.stream.encode())


def _sound_of(video: Path) -> Iterator[Any]:
    """Yield the decoded sound of a video; of damaged sound the beginning."""
    with open_video(video) as (container, _), suppress(av().FFmpegError):
        for frame in container.decode(audio=0) if container.streams.audio else ():
            if frame.time is not None:
                yield frame

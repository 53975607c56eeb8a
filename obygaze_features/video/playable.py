"""What browsers play of a video, and playable copies of videos that they do not play.

A copy, in H.264 and AAC, has the pictures of its original at the same times, so that a picture has
the same number in both. It is named after the hash of the original, and is only seen when it is
whole.
"""

import math
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from obygaze_features.core.console import Progress
from obygaze_features.core.drafts import new_file
from obygaze_features.core.files import quick_sha256
from obygaze_features.video.container import av, open_video
from obygaze_features.video.film import film_index, open_film
from obygaze_features.video.picture import PictureConverter

CONTAINERS = {"mov", "matroska", "webm"}
VIDEO_CODECS, PIXELS = {"h264", "vp8", "vp9", "av1"}, {"yuv420p", "yuvj420p"}
AUDIO_CODECS = {"aac", "mp3", "opus", "vorbis", "flac"}
MOST_LINES = 720
TICK = Fraction(1, 90_000)
MP4 = {"movflags": "faststart", "video_track_timescale": str(TICK.denominator)}
X264 = {"preset": "veryfast", "crf": "23", "g": "48"}


class MediaFacts(NamedTuple):
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
    """Write the playable copy of a video to the folder of copies, and return its path.

    `indexes` is the folder that keeps the indexes of films; `progress` counts the pictures.
    """
    index, target = film_index(video, indexes)[0], proxy_path(video, folder)
    with new_file(target, force=True) as draft, open_film(video, indexes, threads=0) as source:
        geometry = source.geometry
        turn = PictureConverter(geometry).convert if geometry.rotation or geometry.flip else None
        scale = min(1.0, MOST_LINES / geometry.upright[0])
        height, width = (2 * max(1, round(scale * edge / 2)) for edge in geometry.upright)
        with av().open(str(draft), "w", format="mp4", options=MP4) as out:
            rate = Fraction(index.rate).limit_denominator(1001)
            pictures = out.add_stream("libx264", rate=rate, options=X264)
            pictures.pix_fmt, pictures.codec_context.time_base = "yuv420p", TICK
            pictures.width, pictures.height = width, height
            sound = _encoded_sound(video, out, index.origin_s)
            sound_s, last = next(sound, math.inf), -1
            progress.expect(index.frames, "pictures")

            def take(position: int, frame: Any) -> None:
                nonlocal sound_s, last
                rank = int(index.ranks[position])
                if rank <= last:  # it is not shown, or damage has changed the order
                    return
                if turn is not None:
                    frame = av().VideoFrame.from_ndarray(turn(frame).copy(), format="rgb24")
                picture = frame.reformat(width, height, format="yuv420p")
                # Files begin with a picture: the first is shown from 0 on.
                time_s = float(index.times_s[rank]) if last >= 0 else 0.0
                picture.pts, picture.time_base = round(time_s / TICK), TICK
                out.mux(pictures.encode(picture))
                while sound_s <= time_s:
                    sound_s = next(sound, math.inf)
                progress.advance(rank - last)
                last = rank

            source.run(source.whole, take)
            out.mux(pictures.encode())
            deque(sound, maxlen=0)
    return target


def _encoded_sound(video: Path, out: Any, origin_s: float) -> Iterator[float]:
    """Encode the first sound, up to damage, as stereo AAC; yield the time before each piece."""
    with open_video(video) as (container, _):
        if not container.streams.audio:
            return
        source = container.streams.audio[0]
        stream = out.add_stream("aac", rate=source.rate, layout="stereo")
        with suppress(av().FFmpegError):
            for frame in container.decode(source):
                if frame.time is not None:
                    start_s, rate = frame.time - origin_s, frame.sample_rate
                    yield start_s
                    frame.pts, frame.time_base = round(start_s * rate), Fraction(1, rate)
                    out.mux(stream.encode(frame))
        out.mux(stream.encode())

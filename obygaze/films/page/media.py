"""The videos of a manifest for the page: what is played of them, their pictures, their times.

Of a video that browsers do not play, a copy is played, in H.264 and AAC. It has the pictures of its
original at the same times, so that a picture has the same number in both. It is named after the
hash of the original, and is only seen when it is whole.
"""

import io
import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from obygaze.maps.drawing import drawn_directions, map_sheets
from obygaze.maps.stores import MAPS, beside_random, map_names, real_steps
from obygaze_features.core.console import Progress, ProgressBars
from obygaze_features.core.errors import InstallExtra, NotFound, ObygazeError
from obygaze_features.core.files import quick_sha256, write_then_rename
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.link import EXTENSIONS
from obygaze_features.manifest.model import Clip
from obygaze_features.store import Store
from obygaze_features.video import DecodedClip, View, decode_clip
from obygaze_features.video.container import av, open_video
from obygaze_features.video.decoded_clip import contact_sheet
from obygaze_features.video.film import film_index, open_film
from obygaze_features.video.picture import PictureConverter
from obygaze_features.video.resize import Resize

THUMBNAIL = View(2, "even", Resize(108))  # the second of two is in the middle
AT_RANDOM = "A random direction, on the same scale: this is what chance paints."
SHEET = View(12, "even", Resize(144))
STILL = View(1, "even", Resize(480))
STRIP = View(1, "even", Resize(54))
STRIP_WIDTH = 96
STRIP_HEIGHT = 54
# The decoders of all threads share one cache of films.
_LOCK = Lock()

CONTAINERS = {"mov", "matroska", "webm"}
VIDEO_CODECS = {"h264", "vp8", "vp9", "av1"}
PIXELS = {"yuv420p", "yuvj420p"}
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


@dataclass(frozen=True)
class Media:
    """The videos under a folder, and the maps of their clips."""

    root: str
    names: Sequence[str]
    workspace: Workspace
    maps: Store | None = None

    @cached_property
    def by_key(self) -> dict[str, str]:
        """The name of the video by its key, which is its number."""
        return {str(number): name for number, name in enumerate(self.names)}

    def path(self, name: str) -> Path:
        """Return the file of a video."""
        path = Path(self.root, name)
        if (
            not self.root
            or not name
            or path.suffix.lower() not in EXTENSIONS
            or not path.is_file()
        ):
            raise NotFound("the video is missing", where=str(path))
        return path

    def facts(self, name: str) -> MediaFacts:
        """Return the facts of a video; of one that cannot be read, the reason."""
        try:
            return media_facts(self.path(name))
        except InstallExtra:
            return MediaFacts()
        except ObygazeError as error:
            return MediaFacts(refused=error.message)

    def playable(self, name: str) -> Path:
        """Return the file to play: the copy, if browsers do not play the video and it was made."""
        path = self.path(name)
        if not self.facts(name).refused:
            return path
        proxy = proxy_path(path, self.workspace.folder("proxies"))
        return proxy if proxy.is_file() else path

    def describe(self, name: str) -> dict[str, Any]:
        """Return how the page plays a video, or why browsers do not play it."""
        facts = self.facts(name)
        is_copied = (
            facts.refused and facts.rate and self.playable(name) != self.path(name)
        )
        refused = "" if is_copied else facts.refused
        subtitles = bool(self._subtitle_files(name))
        return {
            "key": self.names.index(name),
            "refused": refused,
            "subtitles": subtitles,
        }

    def make_proxies(self, bars: ProgressBars) -> None:
        """Make the playable copies that are missing."""
        folder = self.workspace.folder("proxies")
        indexes = self.workspace.folder("indexes")
        for name in self.names:
            facts = self.facts(name)
            # Without a rate, the video cannot be read.
            if facts.refused and facts.rate and self.playable(name) == self.path(name):
                with bars(name, 0) as progress:
                    make_proxy(self.path(name), folder, indexes, progress)

    def _subtitle_files(self, name: str) -> list[Path]:
        files = (
            Path(self.root, name).with_suffix(suffix) for suffix in (".vtt", ".srt")
        )
        return [file for file in files if file.is_file()]

    def subtitles(self, name: str) -> bytes:
        """Return the subtitles beside a video as WebVTT."""
        text = (
            self._subtitle_files(name)[0]
            .read_bytes()
            .decode("utf-8-sig", errors="replace")
            .replace("\r\n", "\n")
        )
        # SubRip differs in the first line and in its times.
        if not text.startswith("WEBVTT"):
            text = "WEBVTT\n\n" + re.sub(r"(\d\d:\d\d),(\d{3})", r"\1.\2", text)
        return text.encode("utf-8")

    def times(self, name: str) -> bytes:
        """Return the times of the pictures of a video in seconds, as float64.

        The first is that of the file at which the others are 0: browsers count from the beginning
        of time, and copies begin at 0. Then come the times at which each picture is shown, and the
        end of the last one.
        """
        with _LOCK:
            index = film_index(self.path(name), self.workspace.folder("indexes"))[0]
        origin_s = index.origin_s if self.playable(name) == self.path(name) else 0.0
        times_s = [max(origin_s, 0.0), *self.boundaries(name)]
        return np.array(times_s, "<f8").tobytes()

    def boundaries(self, name: str) -> NDArray[np.float64]:
        """Return when each picture of a video is shown, in seconds, and when the last one ends."""
        with _LOCK:
            index = film_index(self.path(name), self.workspace.folder("indexes"))[0]
        return np.append(index.times_s, index.times_s[-1] + index.last_s).astype(float)

    def thumbnail(self, clip: Clip) -> bytes:
        """Return the middle picture of a clip as a small JPEG."""
        return _jpeg(self._of_clip(clip, THUMBNAIL).pictures[1])

    def sheet(self, clip: Clip) -> bytes:
        """Return pictures of a clip, evenly spread and with their times, as a PNG."""
        return contact_sheet(self._of_clip(clip, SHEET))

    def still(self, name: str, number: int) -> bytes:
        """Return a picture of a video by its number, as a JPEG."""
        return _jpeg(self._decoded(name, STILL, ranks=[number]).pictures[0])

    def strip(self, places: Sequence[tuple[str, float] | None]) -> bytes:
        """Return small pictures in a row, as one JPEG.

        Args:
            places: For each picture a video and a time in it, in seconds; None for a blank one.
        """
        row = Image.new("RGB", (len(places) * STRIP_WIDTH, STRIP_HEIGHT))
        for number, place in enumerate(places):
            if place is None:
                continue
            # A picture that is damaged stays blank. The lock is free between two pictures.
            with suppress(ObygazeError):
                picture = Image.fromarray(self._picture_at(*place))
                picture.thumbnail((STRIP_WIDTH, STRIP_HEIGHT))
                left = (STRIP_WIDTH - picture.width) // 2
                top = (STRIP_HEIGHT - picture.height) // 2
                row.paste(picture, (number * STRIP_WIDTH + left, top))
        return _jpeg(np.asarray(row))

    def _picture_at(self, name: str, time_s: float) -> NDArray[np.uint8]:
        times_s = self.boundaries(name)
        number = int(np.searchsorted(times_s[:-1], time_s, side="right")) - 1
        picture: NDArray[np.uint8]
        picture = self._decoded(name, STRIP, ranks=[max(number, 0)]).pictures[0]
        return picture

    def _of_clip(self, clip: Clip, view: View) -> DecodedClip:
        return self._decoded(clip.video, view, start_s=clip.start_s, end_s=clip.end_s)

    def directions(self, clip_id: str) -> list[dict[str, str]]:
        """Return the directions whose maps of a clip are drawn, each with what it is worth."""
        if self.maps is None:
            return []
        maps_of_clip = self.maps.matrix(MAPS, clips=[clip_id], missing="drop")
        if not len(maps_of_clip):
            return []
        names = map_names(self.maps)
        real = real_steps(self.maps, maps_of_clip.rows)[0]
        compared = beside_random(names, maps_of_clip.values[0][:, real])
        directions = []
        for name in drawn_directions(names):
            about = AT_RANDOM
            if name in compared:
                about = str(compared[name])
            directions.append({"name": name, "about": about})
        return directions

    def map_sheet(self, clip: Clip, direction: str) -> bytes:
        """Return the maps of a direction over the pictures of a clip, as PNG."""
        with _LOCK:
            return _map_sheets(self.workspace, self.maps, clip.clip_id)[direction]

    def _decoded(self, name: str, view: View, **part: Any) -> DecodedClip:
        path = self.path(name)
        indexes = self.workspace.folder("indexes")
        with _LOCK:
            return decode_clip(path, view, **part, accept_damaged=True, indexes=indexes)


# The page asks for each direction of a clip; all are drawn at once.
@lru_cache(maxsize=2)
def _map_sheets(
    workspace: Workspace, maps: Store | None, clip_id: str
) -> dict[str, bytes]:
    return dict(map_sheets(workspace, maps, clip_id)) if maps else {}


def _jpeg(picture: NDArray[np.uint8]) -> bytes:
    data = io.BytesIO()
    Image.fromarray(picture).save(data, "JPEG", quality=85)
    return data.getvalue()


@lru_cache(maxsize=4096)
def media_facts(path: Path) -> MediaFacts:
    """Return the facts in the header of a video; BadVideo if it cannot be opened."""
    with open_video(path) as (container, stream):
        name = container.format.name
        codec = stream.codec_context.codec.canonical_name
        codecs_of_sound = [
            track.codec_context.codec.canonical_name
            for track in container.streams.audio[:1]
        ]
        refused = [f"{name} files"] if CONTAINERS.isdisjoint(name.split(",")) else []
        if codec not in VIDEO_CODECS or stream.codec_context.pix_fmt not in PIXELS:
            refused.append(f"{codec} video ({stream.codec_context.pix_fmt})")
        refused += [
            f"{codec_of_track} sound"
            for codec_of_track in codecs_of_sound
            if codec_of_track not in AUDIO_CODECS
        ]
        rate = float(stream.guessed_rate or stream.average_rate or 0)
        length_s = (container.duration or 0) / 1e6
        return MediaFacts(length_s, rate, ", ".join(refused))


def proxy_path(video: Path, folder: Path) -> Path:
    """Return the file of a video's playable copy, which may not exist."""
    return folder / f"{quick_sha256(video)[1][:32]}.mp4"


def make_proxy(video: Path, folder: Path, indexes: Path, progress: Progress) -> Path:
    """Write the playable copy of a video to the folder of copies, and return its path.

    `indexes` is the folder that keeps the indexes of films; `progress` counts the pictures.
    """
    index = film_index(video, indexes)[0]
    target = proxy_path(video, folder)
    with (
        write_then_rename(target) as draft,
        open_film(video, indexes) as source,
    ):
        geometry = source.geometry
        turn = (
            PictureConverter(geometry, video).convert
            if geometry.rotation or geometry.flip
            else None
        )
        scale = min(1.0, MOST_LINES / geometry.upright[0])
        height, width = (
            2 * max(1, round(scale * edge / 2)) for edge in geometry.upright
        )
        with av().open(str(draft), "w", format="mp4", options=MP4) as out:
            rate = Fraction(index.rate).limit_denominator(1001)
            pictures = out.add_stream("libx264", rate=rate, options=X264)
            pictures.pix_fmt = "yuv420p"
            pictures.codec_context.time_base = TICK
            pictures.width = width
            pictures.height = height
            sound = _encoded_sound(video, out, index.origin_s)
            sound_s = next(sound, math.inf)
            last = -1
            progress.expect(index.frames, "pictures")

            def take(position: int, frame: Any) -> None:
                nonlocal sound_s, last
                rank = int(index.ranks[position])
                if rank <= last:  # it is not shown, or damage has changed the order
                    return
                if turn is not None:
                    frame = av().VideoFrame.from_ndarray(
                        turn(frame).copy(), format="rgb24"
                    )
                picture = frame.reformat(width, height, format="yuv420p")
                # Files begin with a picture: the first is shown from 0 on.
                time_s = float(index.times_s[rank]) if last >= 0 else 0.0
                picture.pts = round(time_s / TICK)
                picture.time_base = TICK
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
                    start_s = frame.time - origin_s
                    rate = frame.sample_rate
                    yield start_s
                    frame.pts = round(start_s * rate)
                    frame.time_base = Fraction(1, rate)
                    out.mux(stream.encode(frame))
        out.mux(stream.encode())

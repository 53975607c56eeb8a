"""The videos of a manifest for the page: what is played of them, their pictures, their times."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from obygaze_features.core.errors import InstallExtra, NotFound, ObygazeError
from obygaze_features.core.files import VIDEO_SUFFIXES
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.model import Clip
from obygaze_features.video import DecodedClip, PictureView, decode_clip
from obygaze_features.video.container import open_video
from obygaze_features.video.decoded_clip import contact_sheet
from obygaze_features.video.film import film_index
from obygaze_features.video.resize import Resize

THUMBNAIL = PictureView(2, "even", Resize(108))  # the second of two is in the middle
SHEET = PictureView(12, "even", Resize(144))
# The decoders of all threads share one cache of films.
_LOCK = Lock()

CONTAINERS = {"mov", "matroska", "webm"}
VIDEO_CODECS = {"h264", "vp8", "vp9", "av1"}
PIXELS = {"yuv420p", "yuvj420p"}
AUDIO_CODECS = {"aac", "mp3", "opus", "vorbis", "flac"}


class MediaFacts(NamedTuple):
    """What the header of a video says.

    Attributes:
        duration_s: Its length; 0 if it is not known.
        refused: What browsers do not play of it; "" for nothing.
    """

    duration_s: float = 0.0
    refused: str = ""


@dataclass(frozen=True)
class Media:
    """The videos under a folder."""

    root: str
    names: Sequence[str]
    workspace: Workspace

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
            or path.suffix.lower() not in VIDEO_SUFFIXES
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

    def describe(self, name: str) -> dict[str, Any]:
        """Return the key of a video, and what browsers do not play of it."""
        return {"key": self.names.index(name), "refused": self.facts(name).refused}

    def times(self, name: str) -> bytes:
        """Return the times of the pictures of a video in seconds, as float64.

        The first is that of the file at which the others are 0: browsers count from the beginning
        of time. Then come the times at which each picture is shown, and the end of the last one.
        """
        with _LOCK:
            index = film_index(self.path(name), self.workspace.folder("indexes"))[0]
        times_s = [max(index.origin_s, 0.0), *self.boundaries(name)]
        return np.array(times_s, "<f8").tobytes()

    def boundaries(self, name: str) -> NDArray[np.float64]:
        """Return when each picture of a video is shown, in seconds, and when the last one ends."""
        with _LOCK:
            index = film_index(self.path(name), self.workspace.folder("indexes"))[0]
        return np.append(index.times_s, index.times_s[-1] + index.last_s).astype(float)

    def thumbnail(self, clip: Clip) -> bytes:
        """Return the middle picture of a clip as a small JPEG."""
        return _jpeg(self._of_clip(clip, THUMBNAIL).pictures[1])

    def sheet(self, clip: Clip, is_dark: bool = False) -> bytes:
        """Return pictures of a clip, evenly spread and with their times, as a PNG."""
        return contact_sheet(self._of_clip(clip, SHEET), is_dark=is_dark)

    def _of_clip(self, clip: Clip, view: PictureView) -> DecodedClip:
        return self._decoded(clip.video, view, start_s=clip.start_s, end_s=clip.end_s)

    def _decoded(self, name: str, view: PictureView, **part: Any) -> DecodedClip:
        path = self.path(name)
        indexes = self.workspace.folder("indexes")
        # Only a sheet marks damaged pictures.
        part["accept_damaged"] = view is SHEET
        with _LOCK:
            return decode_clip(path, view, **part, indexes=indexes)


def _jpeg(picture: NDArray[np.uint8]) -> bytes:
    data = io.BytesIO()
    Image.fromarray(picture).save(data, "JPEG", quality=85)
    return data.getvalue()


@lru_cache(maxsize=4096)
def media_facts(path: Path) -> MediaFacts:
    """Return the facts in the header of a video; BadVideo if it cannot be opened."""
    with open_video(path) as (container, stream, _):
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
        length_s = (container.duration or 0) / 1e6
        return MediaFacts(length_s, ", ".join(refused))

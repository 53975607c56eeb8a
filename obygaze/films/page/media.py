"""The videos of a manifest: what browsers play of them, and when their pictures are shown."""

import base64
import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import InstallExtra, NotFound, ObygazeError
from obygaze_features.core.files import VIDEO_SUFFIXES
from obygaze_features.core.workspace import Workspace
from obygaze_features.video.container import open_video
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.film import film_index

CONTAINERS = {"mov", "matroska", "webm"}
VIDEO_CODECS = {"h264", "vp8", "vp9", "av1"}
PIXELS = {"yuv420p", "yuvj420p"}
STILL_EDGE = 480  # pixels of the longer side of a picture on a page
AUDIO_CODECS = {"aac", "mp3", "opus", "vorbis", "flac"}


class MediaFacts(NamedTuple):
    """What the header of a video says.

    Attributes:
        duration_s: Its length; 0 if it is not known.
        refused: What browsers do not play of it; "" for nothing.
    """

    duration_s: float = 0.0
    refused: str = ""


class PictureTimes(NamedTuple):
    """When the pictures of a video are shown, in seconds.

    Attributes:
        origin_s: The time of the file at which the others are 0: browsers count from the beginning
            of time.
        boundaries_s: When each picture begins, and when the last one ends.
    """

    origin_s: float
    boundaries_s: NDArray[np.float64]


@dataclass(frozen=True)
class Media:
    """The videos under a folder."""

    root: str
    workspace: Workspace

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

    def times(self, name: str) -> PictureTimes | None:
        """Return the times of the pictures of a video; None if it cannot be read."""
        try:
            index = film_index(self.path(name), self.workspace.folder("indexes"))[0]
        except ObygazeError:
            return None
        return PictureTimes(float(max(index.origin_s, 0.0)), index.boundaries_s)

    def still(self, name: str, start_s: float | None, end_s: float | None) -> str:
        """Return a picture of a part of a video as an address of its data; "" if there is none."""
        from PIL import Image

        try:
            clip = decode_clip(
                self.path(name),
                PictureView(1),
                start_s=start_s,
                end_s=end_s,
                accept_damaged=True,
                indexes=self.workspace.folder("indexes"),
            )
        except ObygazeError:
            return ""
        picture = Image.fromarray(clip.pictures[0])
        picture.thumbnail((STILL_EDGE, STILL_EDGE))
        data = io.BytesIO()
        picture.save(data, "JPEG")
        return f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"


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

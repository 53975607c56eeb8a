"""The videos of a film page: whether browsers play them, the times of their pictures, a still."""

import base64
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import InstallExtra, ObygazeError
from obygaze_features.core.files import VIDEO_SUFFIXES
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.video.container import open_video
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.film import film_index

CONTAINERS = {"mov", "matroska", "webm"}
VIDEO_CODECS = {"h264", "vp8", "vp9", "av1"}
PIXELS = {"yuv420p", "yuvj420p"}
AUDIO_CODECS = {"aac", "mp3", "opus", "vorbis", "flac"}
STILL_EDGE = 480  # The longer side of a still, in pixels.


class MediaFacts(NamedTuple):
    """The length of a video, and the reason why browsers do not play it.

    The length is 0 if it is unknown. The reason is "" if browsers play the video.
    """

    duration_s: float = 0.0
    refused: str = ""


def media_facts(path: Path) -> MediaFacts:
    """Return the length of a video, and the reason why browsers do not play it."""
    if path.suffix.lower() not in VIDEO_SUFFIXES or not path.is_file():
        return MediaFacts(refused="the video is missing")
    try:
        with open_video(path) as (container, stream, _):
            name = container.format.name
            codec = stream.codec_context.codec.canonical_name
            pixels = stream.codec_context.pix_fmt
            sounds = container.streams.audio[:1]
            codecs_of_sound = {s.codec_context.codec.canonical_name for s in sounds}
            length_s = (container.duration or 0) / 1e6
    except InstallExtra:
        return MediaFacts()
    except ObygazeError as error:
        return MediaFacts(refused=error.message)
    refused = [f"{name} files"] if CONTAINERS.isdisjoint(name.split(",")) else []
    if codec not in VIDEO_CODECS or pixels not in PIXELS:
        refused.append(f"{codec} video ({pixels})")
    refused += [f"{codec} sound" for codec in codecs_of_sound - AUDIO_CODECS]
    return MediaFacts(length_s, ", ".join(refused))


def picture_times(path: Path, indexes: Path) -> NDArray[np.float64] | None:
    """Return the times of the pictures of a video in seconds, or None if it cannot be read.

    The first number is the time in the file from which the other numbers count; browsers count from
    time 0 of the file. The other numbers are the start of each picture, followed by the end of the
    last picture.
    """
    try:
        index = film_index(path, indexes)[0]
    except ObygazeError:
        return None
    return np.append([float(max(index.origin_s, 0.0))], index.boundaries_s)


def still(manifest: Manifest, clip: Clip, *, workspace: PathLike | None = None) -> str:
    """Return the first picture of a clip, made small, as a data URL.

    Args:
        manifest: The manifest of the clip, linked to videos.
        clip: The clip.
        workspace: The workspace, if it is not the current one.

    Returns:
        The data URL of a JPEG file, or "" if the clip has no video that can be decoded.
    """
    from PIL import Image

    root = manifest.header.video_root
    if not (root and clip.video):
        return ""
    try:
        decoded = decode_clip(
            Path(root, clip.video),
            PictureView(1),
            start_s=clip.start_s,
            end_s=clip.end_s,
            accept_damaged=True,
            indexes=Workspace.of(workspace).folder("indexes"),
        )
    except ObygazeError:
        return ""
    picture = Image.fromarray(decoded.pictures[0])
    picture.thumbnail((STILL_EDGE, STILL_EDGE))
    data = io.BytesIO()
    picture.save(data, "JPEG")
    return f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"

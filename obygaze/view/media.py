"""The videos of a manifest for the page: what is played of them, their pictures, their times."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from obygaze.features import ProgressBars
from obygaze_features.core.errors import InstallExtra, NotFound, ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.link import EXTENSIONS
from obygaze_features.manifest.model import Clip
from obygaze_features.video import DecodedClip, View, decode_clip
from obygaze_features.video.film import film_index
from obygaze_features.video.playable import MediaFacts, make_proxy, media_facts, proxy_path
from obygaze_features.video.resize import Resize
from obygaze_features.video.saving import contact_sheet

THUMBNAIL = View(2, "even", Resize(108))  # the second of two is in the middle
SHEET = View(12, "even", Resize(144))
STILL = View(1, "even", Resize(480))
# The decoders of all threads share one cache of films.
_LOCK = Lock()


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
        if not self.root or not name or path.suffix.lower() not in EXTENSIONS or not path.is_file():
            raise NotFound("the video is missing", where=str(path), hint="obygaze manifest link")
        return path

    def facts(self, name: str) -> MediaFacts:
        """Return the facts of a video; of one that cannot be read, the reason."""
        try:
            return media_facts(self.path(name))
        except InstallExtra:
            return MediaFacts()
        except ObygazeError as error:
            return MediaFacts(refused=error.what)

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
        is_copied = facts.refused and facts.rate and self.playable(name) != self.path(name)
        refused = "" if is_copied else facts.refused
        subtitles = bool(self._subtitle_files(name))
        return {"key": self.names.index(name), "refused": refused, "subtitles": subtitles}

    def make_proxies(self, bars: ProgressBars) -> None:
        """Make the playable copies that are missing."""
        folder, indexes = self.workspace.folder("proxies"), self.workspace.folder("indexes")
        for name in self.names:
            facts = self.facts(name)
            # Without a rate, the video cannot be read.
            if facts.refused and facts.rate and self.playable(name) == self.path(name):
                with bars(name, 0) as progress:
                    make_proxy(self.path(name), folder, indexes, progress)

    def _subtitle_files(self, name: str) -> list[Path]:
        files = (Path(self.root, name).with_suffix(suffix) for suffix in (".vtt", ".srt"))
        return [file for file in files if file.is_file()]

    def subtitles(self, name: str) -> bytes:
        """Return the subtitles beside a video as WebVTT."""
        text = self._subtitle_files(name)[0].read_bytes().decode("utf-8-sig", errors="replace")
        if not text.startswith("WEBVTT"):  # SubRip differs in the first line and in its times
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
        end_s = index.times_s[-1] + index.last_s
        return np.array([max(origin_s, 0.0), *index.times_s, end_s], "<f8").tobytes()

    def thumbnail(self, clip: Clip) -> bytes:
        """Return the middle picture of a clip as a small JPEG."""
        return _jpeg(self._of_clip(clip, THUMBNAIL).frames[1])

    def sheet(self, clip: Clip) -> bytes:
        """Return pictures of a clip, evenly spread and with their times, as a PNG."""
        return contact_sheet(self._of_clip(clip, SHEET))

    def still(self, name: str, number: int) -> bytes:
        """Return a picture of a video by its number, as a JPEG."""
        return _jpeg(self._decoded(name, STILL, ranks=[number]).frames[0])

    def _of_clip(self, clip: Clip, view: View) -> DecodedClip:
        return self._decoded(clip.video, view, start_s=clip.start_s, end_s=clip.end_s)

    def _decoded(self, name: str, view: View, **part: Any) -> DecodedClip:
        path, indexes = self.path(name), self.workspace.folder("indexes")
        with _LOCK:
            return decode_clip(path, view, **part, max_substituted=1, indexes=indexes)


def _jpeg(picture: NDArray[np.uint8]) -> bytes:
    data = io.BytesIO()
    Image.fromarray(picture).save(data, "JPEG", quality=85)
    return data.getvalue()

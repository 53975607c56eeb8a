"""Describe a video file: its pictures counted from packets, its geometry, its damage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.video.film import exact_index, open_film
from obygaze_features.video.index import FrameIndex
from obygaze_features.video.picture import PictureGeometry


@dataclass(frozen=True)
class VideoInfo:
    """The description of a video; `missing` is the share of pictures that a broken file lacks."""

    path: Path
    container: str
    codec: str
    geometry: PictureGeometry
    index: FrameIndex
    damaged: bool
    missing: float

    def to_json(self) -> dict[str, Any]:
        """Return the description for programs."""
        return {
            "frames": self.index.frames,
            "width": self.geometry.width,
            "height": self.geometry.height,
            "rotation": self.geometry.rotation,
            "codec": self.codec,
            "container": self.container,
            "duration_s": self.index.duration_s,
            "times": "packets" if self.index.timed else "none",
            "damaged": self.damaged,
            "sar": str(self.geometry.sar),
            "rate": self.index.rate,
            "key_frames": len(self.index.keys),
            "missing": self.missing,
        }

    def to_text(self) -> str:
        """Return the description for people, one line for each fact."""
        index, shape = self.index, self.geometry
        height, width = shape.upright
        stored = f"stored {shape.width} x {shape.height}"
        lines = [
            ("pictures", f"{index.frames}, {len(index.keys)} key frames"),
            ("seconds", f"{index.duration_s:.3f}"),
            ("size", f"{width} x {height} as shown, {stored}, turned {shape.rotation} degrees"),
            ("codec", f"{self.codec} in {self.container}"),
            ("times", "exact, from packets" if index.timed else "not reliable; pictures counted"),
            ("damage", "yes" if self.damaged else "none found"),
        ]
        if self.missing:
            lines.append(("missing", f"{self.missing:.0%} of the pictures"))
        return "\n".join(f"{name:9}{value}" for name, value in lines)


def probe(path: Path | str, *, decode: bool = False, threads: int = 1) -> VideoInfo:
    """Describe a video from one pass over its packets.

    Args:
        path: the video file.
        decode: decode every picture too. This is slower, finds damage inside pictures, and makes
            the count exact for files whose packets have no usable times.
        threads: how many threads may decode.
    """
    with open_film(Path(path), threads=threads) as source:
        index = exact_index(source) if decode else source.film.index
        return VideoInfo(
            path=source.path,
            container=source.container.format.name,
            codec=source.codec,
            geometry=source.geometry,
            index=index,
            damaged=source.damaged,
            missing=source.film.missing_share(index, (0, index.frames), None),
        )

"""Describe a video file: its pictures counted from packets, its geometry, its damage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.video.container import BadVideo
from obygaze_features.video.index import NO_PTS, FrameIndex, PacketRun
from obygaze_features.video.packet_decoder import PacketDecoder
from obygaze_features.video.picture import PictureGeometry, geometry_of
from obygaze_features.video.source import open_source

# How many key frames are tried for a first picture before a file counts as having none.
TRIES = 8
# How many packets are decoded to read the geometry, or to check the order of suspicious times.
CHECKED = 64


@dataclass(frozen=True)
class VideoInfo:
    """The description of a video that `probe` returns.

    `broken` is true if packets are damaged or missing, `damaged` also if pictures are.
    """

    path: Path
    container: str
    codec: str
    geometry: PictureGeometry
    index: FrameIndex
    damaged: bool
    broken: bool
    declared_s: float

    def missing_share(self, index: FrameIndex, span: tuple[int, int], end_s: float | None) -> float:
        """Return the share of a span's pictures that is missing from the file, if it is broken."""
        if not self.broken:
            return 0.0
        until_s = self.declared_s if end_s is None else min(self.declared_s, end_s)
        missing = index.count_missing(span, until_s)
        return missing / (missing + span[1] - span[0])

    @property
    def missing(self) -> float:
        """Return the share of all pictures that is missing from the file, if it is broken."""
        return self.missing_share(self.index, (0, self.index.frames), None)

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
    with open_source(Path(path)) as source:
        decoder = PacketDecoder(source, threads=threads)
        info = describe(decoder)
        if not decode:
            return info
        index = decoder.exact_index()
        return replace(info, index=index, damaged=info.damaged or len(decoder.damage) > 0)


def describe(decoder: PacketDecoder) -> VideoInfo:
    """Describe an open source; remove leading pictures that cannot be decoded from its index."""
    source = decoder.source
    geometry = _first_geometry(decoder)
    if not source.described:
        source.index = _without_undecodable_head(decoder)
        source.index = _without_times_of_decoding(decoder)
    if not source.index.frames:
        raise _no_frames(source.path)
    return VideoInfo(
        path=source.path,
        container=source.container.format.name,
        codec=source.codec,
        geometry=geometry,
        index=source.index,
        damaged=source.broken,
        broken=source.broken,
        declared_s=source.declared_s,
    )


def _first_geometry(decoder: PacketDecoder) -> PictureGeometry:
    found: list[tuple[int, Any]] = []

    def take(position: int, frame: Any) -> bool:
        found.append((position, frame))
        return True

    source = decoder.source
    for start in source.index.keys[:TRIES].tolist() or [0]:
        stop = min(start + CHECKED, decoder.whole.stop)
        fine = decoder.run(PacketRun(start, stop, frozenset()), take, record=False)
        if found:
            decoder.first = found[0] if fine else None
            return geometry_of(found[0][1], source.stream)
    raise _no_frames(source.path)


def _without_undecodable_head(decoder: PacketDecoder) -> FrameIndex:
    """Return the index without pictures that depend on packets before the beginning of the file.

    A recording that begins in the middle of a group has some; those that can be decoded are kept.
    """
    index = decoder.source.index
    if not index.timed or not len(index.keys) or index.counted:
        return index
    first = int(index.keys[0])
    head = index.order[(index.order < first) | (index.pts[index.order] < index.pts[first])]
    if not len(head) or index.pts[first] == NO_PTS:
        return index
    lost = np.setdiff1d(head, decoder.positions(int(head.max()), record=False))
    return replace(index, order=index.order[~np.isin(index.order, lost)])


def _without_times_of_decoding(decoder: PacketDecoder) -> FrameIndex:
    """Return the index without its times if they are those of decoding, not of showing.

    In a copy from AVI the codec reorders pictures, but the times are in the order of the file.
    """
    index = decoder.source.index
    reorders = decoder.source.stream.codec_context.reorder_depth > 0
    if not (index.timed and reorders and (np.diff(index.order) > 0).all()):
        return index
    out = decoder.positions(min(CHECKED, decoder.whole.stop), record=False)
    return index if index.agrees_with(out) else index.without_times()


def _no_frames(path: Path) -> BadVideo:
    return BadVideo("no picture can be decoded", path=path, stage="decode", reason="no-frames")

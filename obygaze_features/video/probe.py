"""What a video file holds: its pictures counted from packets, its shape, what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.video.errors import BadVideo
from obygaze_features.video.index import NO_PTS, FrameIndex, Run
from obygaze_features.video.picture import Geometry, geometry_of
from obygaze_features.video.reading import Reader, census
from obygaze_features.video.source import Source, open_source

# How many key frames are tried for a first picture before a file counts as having none.
TRIES = 8
# How many packets are decoded to see whether suspicious times are those of showing.
CHECKED = 64


@dataclass(frozen=True)
class VideoInfo:
    """A video as its packets tell it."""

    path: Path
    container: str
    codec: str
    geometry: Geometry
    index: FrameIndex
    damaged: bool
    broken: bool
    declared_s: float

    def missing(self, index: FrameIndex, part: tuple[int, int], end_s: float | None) -> float:
        """The share of the pictures of a part that the file lacks, where it is broken."""
        if not self.broken:
            return 0.0
        until_s = self.declared_s if end_s is None else min(self.declared_s, end_s)
        lost = index.lost(part, until_s)
        return lost / (lost + part[1] - part[0])

    def missing_in_all(self) -> float:
        """The share of all pictures that the file lacks, where it is broken."""
        return self.missing(self.index, (0, self.index.frames), None)

    def as_json(self) -> dict[str, Any]:
        """The facts for programs."""
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
            "missing": self.missing_in_all(),
        }

    def as_text(self) -> str:
        """The facts for people."""
        index, shape = self.index, self.geometry
        height, width = shape.upright
        stored = f"stored {shape.width} x {shape.height}"
        lines = [
            ("pictures", f"{index.frames}, {len(index.keys)} key frames"),
            ("seconds", f"{index.duration_s:.3f}"),
            ("size", f"{width} x {height} as shown, {stored}, turned {shape.rotation} degrees"),
            ("codec", f"{self.codec} in {self.container}"),
            ("times", "exact, from packets" if index.timed else "none to trust: counted"),
            ("damage", "yes" if self.damaged else "none found"),
        ]
        if missing := self.missing_in_all():
            lines.append(("missing", f"{missing:.0%} of the pictures"))
        return "\n".join(f"{name:9}{value}" for name, value in lines)


def probe(path: Path | str, *, decode: bool = False, threads: int = 1) -> VideoInfo:
    """Describe a video from one pass over its packets.

    With `decode`, every picture is decoded too: slower, but it finds damage inside pictures, and
    the count is exact for files whose packets carry no usable times.
    """
    with open_source(Path(path)) as source:
        reader = Reader(source, threads=threads)
        info = examine(reader)
        if not decode:
            return info
        index = census(reader)
        damaged = info.damaged or bool(len(reader.damage))
        return replace(info, index=index, damaged=damaged)


def examine(reader: Reader) -> VideoInfo:
    """Describe an open source; its index loses leading pictures that nothing can decode."""
    source = reader.source
    geometry = _first_geometry(reader)
    source.index = _without_undecodable_head(reader)
    if _times_may_be_those_of_decoding(source):
        source.index = _checked_order(reader)
    if not source.index.frames:
        raise _no_frames(source)
    return VideoInfo(
        path=source.path,
        container=source.container.format.name,
        codec=source.stream.codec_context.codec.canonical_name,
        geometry=geometry,
        index=source.index,
        damaged=source.broken,
        broken=source.broken,
        declared_s=source.declared_s,
    )


def _first_geometry(reader: Reader) -> Geometry:
    found: list[tuple[int, Any]] = []

    def look(position: int, frame: Any) -> bool:
        found.append((position, frame))
        return True

    last = len(reader.source.index.pts) - 1
    starts = reader.source.index.keys[:TRIES].tolist() or [0]
    for start in starts:
        damage = reader.damage.copy()
        fine = reader.run(Run(start, min(start + 64, last), frozenset()), look)
        reader.damage = damage
        if found:
            reader.first = found[0] if fine else None
            return geometry_of(found[0][1], reader.source.stream)
    raise _no_frames(reader.source)


def _without_undecodable_head(reader: Reader) -> FrameIndex:
    """The index without pictures that hang on packets before the beginning of the file.

    A recording that begins in the middle of a group holds some; what comes out is kept.
    """
    index = reader.source.index
    if not index.timed or not len(index.keys) or index.counted:
        return index
    first = int(index.keys[0])
    head = index.order[(index.order < first) | (index.pts[index.order] < index.pts[first])]
    if not len(head) or index.pts[first] == NO_PTS:
        return index
    out: set[int] = set()
    damage = reader.damage.copy()
    reader.run(Run(0, int(head.max()), frozenset()), lambda position, _: out.add(position))
    reader.damage = damage
    gone = np.setdiff1d(head, np.array(sorted(out), dtype=np.int64))
    return replace(index, order=index.order[~np.isin(index.order, gone)])


def _times_may_be_those_of_decoding(source: Source) -> bool:
    # A copy out of AVI: the codec holds pictures back, yet the times never do.
    index, held_back = source.index, source.stream.codec_context.reorder_depth
    return index.timed and held_back > 0 and bool((np.diff(index.order) > 0).all())


def _checked_order(reader: Reader) -> FrameIndex:
    """The index, without its times where the first pictures do not come out in their order."""
    index = reader.source.index
    out: list[int] = []
    damage = reader.damage.copy()
    stop = min(CHECKED, len(index.pts) - 1)
    reader.run(Run(0, stop, frozenset()), lambda position, _: out.append(position))
    reader.damage = damage
    return index if index.agrees_with(out) else index.without_times()


def _no_frames(source: Source) -> BadVideo:
    return BadVideo(
        "no picture can be decoded", path=source.path, stage="decode", reason="no-frames"
    )

"""What a clip of a long film costs in each container, beside the same clip as a separate file."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.decoding.films import RATE, FilmSpec, make_film
from benchmarks.timing import Settings
from obygaze_features.core.console import table
from obygaze_features.core.machine import this_machine
from obygaze_features.video.container import av
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import DecodedClip, View
from obygaze_features.video.film import make_index
from obygaze_features.video.resize import Resize

CLIP_S = 40
N_CLIPS = 180
QUICK_CLIPS = 3
# How many of the clips are decoded: with the index, and without it, along the film.
N_MEASURED = 12
N_WITHOUT = 3
VIEW = View(32, resize=Resize(224))
# The name of each container, its codec and the options of the codec.
X264 = ("libx264", {"preset": "veryfast"})
MPEG4 = ("mpeg4", {"bf": "1", "g": "250", "b": "900k"})
CONTAINERS: dict[str, tuple[str, dict[str, str]]] = {
    "mp4": X264,
    "mov": MPEG4,
    "mkv": X264,
    "webm": (
        "libvpx",
        {"deadline": "realtime", "cpu-used": "15", "b": "900k", "g": "240"},
    ),
    "flv": X264,
    "ts": X264,
    "mpg": ("mpeg2video", {"bf": "2", "g": "15", "b": "1500k"}),
    "avi": MPEG4,
    "wmv": ("wmv2", {"g": "240", "b": "900k"}),
}


@dataclass(frozen=True)
class Cost:
    """The median CPU time of a clip, and the mean number of bytes read for it."""

    cpu_s: float
    n_bytes: float


@dataclass(frozen=True)
class ContainerCost:
    """The cost of a clip as a separate file, in the film, and in the film without its index.

    `index` is what making the index costs, once for the film. `n_same` of `n_clips` have the
    pictures of the separate file, to the bit.
    """

    container: str
    codec: str
    n_bytes: int
    separate: Cost
    film: Cost
    without: Cost
    index: Cost
    n_same: int
    n_clips: int


@dataclass(frozen=True)
class ContainerCosts:
    """The costs in every container."""

    costs: tuple[ContainerCost, ...]
    minutes: float

    def to_text(self) -> str:
        """Return the table."""
        headers = (
            "container",
            "codec",
            "film MB",
            "separate s",
            "film s",
            "ratio",
            "film MB/clip",
            "no index s",
            "no index MB/clip",
            "index s",
            "same",
        )
        rows = [
            (
                cost.container,
                cost.codec,
                f"{cost.n_bytes / 1e6:.0f}",
                f"{cost.separate.cpu_s:.3f}",
                f"{cost.film.cpu_s:.3f}",
                f"{cost.film.cpu_s / cost.separate.cpu_s:.2f}",
                f"{cost.film.n_bytes / 1e6:.1f}",
                f"{cost.without.cpu_s:.2f}",
                f"{cost.without.n_bytes / 1e6:.0f}",
                f"{cost.index.cpu_s:.1f}",
                f"{cost.n_same} of {cost.n_clips}",
            )
            for cost in self.costs
        ]
        title = f"CPU time and bytes read for {VIEW.count} pictures of {CLIP_S} s of a film of"
        return f"{title} {self.minutes:g} minutes\n\n{table(headers, rows)}\n"

    def to_json(self) -> dict[str, Any]:
        """Return every cost, and the machine."""
        return {**asdict(self), "machine": asdict(this_machine(("av",)))}


def measure(settings: Settings) -> ContainerCosts:
    """Measure a clip in each container; the film is one part of 40 s, again and again."""
    n_clips = QUICK_CLIPS if settings.quick else N_CLIPS
    with TemporaryDirectory() as folder:
        costs = tuple(_measure(name, Path(folder), n_clips) for name in CONTAINERS)
    return ContainerCosts(costs, n_clips * CLIP_S / 60)


def _measure(container: str, folder: Path, n_clips: int) -> ContainerCost:
    codec, options = CONTAINERS[container]
    suffix = ".mp4" if codec == "libx264" else ".avi"
    if container in ("webm", "mpg"):
        suffix = f".{container}"
    spec = FilmSpec(
        "part", suffix, codec, options=options, n_frames=CLIP_S * RATE, width=640
    )
    part = make_film(spec, folder)
    single = repeat(part, folder / f"single.{container}", 1, CLIP_S)
    film = repeat(part, folder / f"film.{container}", n_clips, CLIP_S)
    indexes = folder / f"indexes-{container}"
    _, index = _cost(lambda: make_index(film, indexes))
    # The first round of each imports and fills caches, and is not counted.
    wanted = decode_clip(single, VIEW)
    chosen = sorted(set(np.linspace(0, n_clips - 1, N_MEASURED).astype(int).tolist()))
    few = sorted(set(np.linspace(0, n_clips - 1, N_WITHOUT).astype(int).tolist()))

    def clip(number: int, folder: Path | None) -> DecodedClip:
        start = number * CLIP_S
        # The first picture of the next part is not in the clip, whatever rounding does.
        end = start + CLIP_S - 0.25 / RATE
        return decode_clip(
            film, VIEW, start_s=start - 0.25 / RATE, end_s=end, indexes=folder
        )

    clip(0, indexes)
    # In turns, because the speed of a machine changes.
    separate = list[Cost]()
    pairs = list[tuple[DecodedClip, Cost]]()
    for number in chosen:
        separate.append(_cost(lambda: decode_clip(single, VIEW))[1])
        pairs.append(_cost(partial(clip, number, indexes)))
    without = [_cost(partial(clip, n, None))[1] for n in few]
    film_bytes = film.stat().st_size
    film.unlink()
    return ContainerCost(
        container,
        codec,
        film_bytes,
        _typical(separate),
        _typical([cost for _, cost in pairs]),
        _mean(without),
        index,
        sum(np.array_equal(decoded.pictures, wanted.pictures) for decoded, _ in pairs),
        len(pairs),
    )


def _cost(work: Callable[[], Any]) -> tuple[Any, Cost]:
    n_bytes = _n_bytes_read()
    started = time.process_time()
    result = work()
    return result, Cost(time.process_time() - started, _n_bytes_read() - n_bytes)


def _n_bytes_read() -> int:
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(lines[0].removeprefix("rchar: "))


def _typical(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.cpu_s for cost in costs),
        statistics.fmean(cost.n_bytes for cost in costs),
    )


def _mean(costs: Sequence[Cost]) -> Cost:
    """Return the mean, since the cost grows along some films."""
    return Cost(
        statistics.fmean(cost.cpu_s for cost in costs),
        statistics.fmean(cost.n_bytes for cost in costs),
    )


def repeat(part: Path, target: Path, times: int, seconds: int) -> Path:
    """Copy the coded pictures of a file of some seconds into another one, several times."""
    with av().open(str(part)) as old:
        stream = old.streams.video[0]
        packets = [packet for packet in old.demux(stream) if packet.size]
        ticks = int(Fraction(seconds) / stream.time_base)
        has_times = all(packet.dts is not None for packet in packets)
        with av().open(str(target), "w") as new:
            copy = new.add_stream_from_template(stream)
            for number in range(times):
                for order, packet in enumerate(packets):
                    again = av().Packet(bytes(packet))
                    again.time_base = stream.time_base
                    again.is_keyframe = packet.is_keyframe
                    again.duration = packet.duration
                    shift = number * ticks
                    again.dts = shift + (packet.dts if has_times else order)
                    if packet.pts is not None:
                        again.pts = shift + packet.pts
                    again.stream = copy
                    new.mux(again)
    return target

"""What a sweep over the windows of a film costs, beside a plain decode of all its pictures."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.decoding.containers import repeat
from benchmarks.decoding.films import RATE, FilmSpec, make_film
from benchmarks.timing import Comparison, Contestant, Settings, compare
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import planned_clips
from obygaze_features.extraction.windows import decode_windows, make_windows
from obygaze_features.manifest.windows import Grid
from obygaze_features.video.container import av
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.picture import PictureConverter, PictureGeometry
from obygaze_features.video.pool import DecodePool
from obygaze_features.video.resize import Resize

WIDTH = 1280
HEIGHT = 720
PART_S = 20
WINDOW = 16
STRIDES = (16, 4)


@dataclass(frozen=True)
class PictureSize:
    """The pictures that windows hold, and how many parts the film has: resizing takes longer."""

    name: str
    resize: Resize | None
    n_parts: int


SIZES = (PictureSize("full size", None, 6), PictureSize("224 pixels", Resize(224), 2))


@dataclass(frozen=True)
class SweepCosts:
    """The times of all ways, for each size of the pictures that windows hold."""

    comparisons: tuple[Comparison, ...]

    def to_text(self) -> str:
        """Return the tables."""
        return (
            "\n\n".join(comparison.to_text() for comparison in self.comparisons) + "\n"
        )

    def to_json(self) -> dict[str, Any]:
        """Return every single time."""
        return {
            "comparisons": [comparison.to_json() for comparison in self.comparisons]
        }


def measure(settings: Settings) -> SweepCosts:
    """Measure sweeps over a film that is one part of 20 s, again and again."""
    spec = FilmSpec("part", n_frames=PART_S * RATE, width=WIDTH, height=HEIGHT)
    comparisons = []
    with TemporaryDirectory() as folder:
        part = make_film(spec, Path(folder))
        for size in SIZES:
            n_parts = 1 if settings.quick else size.n_parts
            size_folder = Path(folder) / size.name
            size_folder.mkdir()
            film = repeat(part, size_folder / "film.mp4", n_parts, PART_S)
            comparisons.append(
                compare_ways(film, size, n_parts * PART_S, settings.rounds_or(1))
            )
    return SweepCosts(tuple(comparisons))


def compare_ways(
    film: Path, size: PictureSize, seconds: int, rounds: int
) -> Comparison:
    """Compare sweeps over a film with a plain decode of all its pictures in one process."""
    plain = "decode and convert" + ("" if size.resize is None else " and resize")
    ways: dict[str, Callable[[], object]] = {
        "decode": lambda: deque(_pictures(film), maxlen=0),
        plain: lambda: _convert(film, size.resize),
    }
    for stride in STRIDES:
        ways[f"sweep, stride {stride}"] = partial(
            _sweep, film, Grid(WINDOW, stride), size.resize
        )
    return compare(
        f"windows of {WINDOW} pictures, {size.name}: {WIDTH} x {HEIGHT}, {seconds} s, one worker",
        [Contestant(name, work) for name, work in ways.items()],
        reference=plain,
        rounds=rounds,
        warmups=0,
        packages=("av",),
    )


def _pictures(film: Path) -> Iterator[Any]:
    with av().open(str(film)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        yield from container.decode(stream)


def _convert(film: Path, resize: Resize | None) -> None:
    """Convert each picture as a model sees it, one after another, and drop it."""
    converter = PictureConverter(PictureGeometry(WIDTH, HEIGHT, Fraction(1), 0, False))
    for frame in _pictures(film):
        picture = converter.convert(frame)
        if resize is not None:
            resize(picture[None])


def _sweep(film: Path, grid: Grid, resize: Resize | None) -> None:
    """Decode all windows of a film in one sweep, and drop each."""
    with TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        manifest = make_windows(film.parent, grid, workspace=workspace, name="film")
        view = View(WINDOW, resize=resize)
        planned = [
            (row, clip, (view,)) for row, clip in enumerate(planned_clips(manifest))
        ]
        with DecodePool(1) as pool:
            indexes = str(workspace.folder("indexes"))
            for result in decode_windows(grid, planned, pool, indexes):
                if result.error is not None:
                    raise result.error

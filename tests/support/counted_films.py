"""Films of many rates in many containers, and clips of them that a table counts in pictures.

Each picture has its number in its pixels, and the sound of late films begins with the file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

from support.once import made_once
from support.videos import encode_video

RATES = {name: Fraction(name) for name in ("24", "25", "30", "48", "50", "60")}
RATES |= {"23.976": Fraction(24000, 1001), "29.97": Fraction(30000, 1001)}
# The encoders of each container.
CONTAINERS = {
    "mp4": ("libx264", "aac"),
    "mkv": ("libx264", "aac"),
    "webm": ("libvpx", "libopus"),
    "ts": ("libx264", "mp2"),
    "flv": ("libx264", "aac"),
    "avi": ("mpeg4", "mp3"),
}
OPTIONS = {
    "libx264": {"preset": "ultrafast", "g": "24", "bf": "2"},
    "libvpx": {"deadline": "realtime", "cpu-used": "8", "b": "600k", "g": "24"},
    "mpeg4": {"g": "24", "b": "800k"},
}
LATE_S = Fraction(152, 100)
N_PICTURES = 150
# First and last picture of the clips: both ends of the film, single pictures, neighbours.
CLIPS = (
    *((0, 0), (0, 11), (1, 1), (7, 31), (12, 23), (24, 36)),
    *((37, 37), (50, 74), (75, 98), (99, 123), (124, 148), (149, 149)),
)
SIZE = (80, 60)


@dataclass(frozen=True)
class CountedFilm:
    """A film: its rate as people write it, its container, and whether its pictures begin late."""

    rate: str
    container: str
    is_late: bool = False

    @property
    def name(self) -> str:
        when = "late" if self.is_late else "early"
        return f"{self.container}_{self.rate.replace('.', '_')}_{when}"


def all_films() -> Iterator[CountedFilm]:
    """Every rate in every container, late where the container has times of pictures."""
    for container, rate, is_late in product(CONTAINERS, RATES, (False, True)):
        if not (is_late and container == "avi"):
            yield CountedFilm(rate, container, is_late)


def make_film(film: CountedFilm, folder: Path) -> Path:
    suffix = f".{film.container}"

    def make(made: Path) -> None:
        _encode(made / f"film{suffix}", film)

    made = made_once("counted", make, film, CONTAINERS, OPTIONS, N_PICTURES, SIZE)
    target = folder / f"{film.name}{suffix}"
    target.write_bytes((made / f"film{suffix}").read_bytes())
    return target


def _encode(path: Path, film: CountedFilm) -> None:
    codec, sound = CONTAINERS[film.container]
    rate = RATES[film.rate]
    steps = 100 if film.is_late else 1
    tick = 1 / (rate * steps)
    late = round(LATE_S / tick) if film.is_late else 0
    ticks = [late + number * steps for number in range(N_PICTURES)]
    facts = {"tick": tick, "rate": rate, "size": SIZE, "options": OPTIONS[codec]}
    # Two seconds of silence, from the beginning of the file.
    audio = film.is_late and (sound, np.zeros(96_000, np.int16), 48_000)
    numbers = range(N_PICTURES)
    encode_video(path, codec, numbers=numbers, ticks=ticks, audio=audio, **facts)


def write_clips(path: Path, films: Sequence[CountedFilm]) -> None:
    lines = ["clip_id,movie_id,start_frame,end_frame,framerate,mood"]
    for film in films:
        for number, (first, last) in enumerate(CLIPS):
            cells = f"{film.name}-{number},{film.name},{first},{last},{film.rate}"
            lines.append(f"{cells},{'calm' if number % 2 else 'tense'}")
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")

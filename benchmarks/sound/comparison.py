"""How late the sound of a film is, and what an hour of it costs, beside the readers people use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.decode.comparison import readers_environment, result_of
from benchmarks.sound.films import FILMS, SoundFilm, make_film, make_long
from benchmarks.sound.readers import READERS
from obygaze_features.core.console import human, table
from obygaze_features.core.machine import this_machine

PACKAGES = ("av", "torchcodec")
# What models of sound take.
RATE = 16000
CLIP_S = 30.0
CLIPS = 120


def measure(quick: bool) -> str:
    """Measure how late clicks are in all kinds of films, then an hour as 120 clips."""
    films = FILMS[:3] if quick else FILMS
    n_clips = 2 if quick else CLIPS
    with (
        TemporaryDirectory(prefix="obygaze-bench-") as name,
        readers_environment() as environment,
    ):
        folder = Path(name)
        lateness = lateness_text(films, folder, environment)
        cost = cost_text(n_clips, folder, environment)
    return f"{lateness}\n\n{cost}\n{this_machine(PACKAGES).line()}"


def lateness_text(
    films: Sequence[SoundFilm], folder: Path, environment: Mapping[str, str]
) -> str:
    """Return the largest error of each reader on each film, in samples at the rate of the film."""
    rows: list[list[str | None]] = []
    for film in films:
        path = make_film(film, folder)
        rate = film.tracks[film.heard].rate
        cells: list[str | None] = []
        for reader in READERS:
            words = reader, path, rate, 0, CLIP_S
            result = result_of("benchmarks.sound.readers", words, environment)
            late = result.get("late")
            worst = None if late is None else str(max(late, key=abs))
            cells.append("fails" if "failed" in result else worst)
        rows.append([film.name, str(rate), *cells])
    title = "Error of the click that is most off, in samples"
    return f"{title}\n{table(['film', 'rate', *READERS], rows)}"


def cost_text(n_clips: int, folder: Path, environment: Mapping[str, str]) -> str:
    """Return what the clips of a long film cost each reader."""
    path = make_long(folder, n_clips * CLIP_S)
    rows: list[list[str | None]] = []
    for reader in READERS:
        words = reader, path, RATE, n_clips, CLIP_S
        whole = result_of("benchmarks.sound.readers", words, environment)
        if "failed" in whole:
            rows.append([reader, whole["failed"], None])
        elif "absent" not in whole:
            peak = human(whole["peak_rss_bytes"])
            rows.append([reader, f"{whole['cpu_s']:.1f} s", peak])
    title = f"{n_clips} clips of {CLIP_S:.0f} s of one film of AAC, at {RATE} samples a second"
    return f"{title}\n{table(['reader', 'CPU', 'peak memory'], rows)}"

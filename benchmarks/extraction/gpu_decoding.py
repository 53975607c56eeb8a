"""Films decoded with `--decoder cuda` beside the CPU: each picture compared, or the refusal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decoding.films import RATE, FilmSpec, make_film, odd_films
from obygaze_features.core.errors import FixInput, InstallExtra
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import CPU, CUDA, View
from obygaze_features.video.hardware import torchcodec
from obygaze_features.video.pool import DecodeJob, DecodePool
from obygaze_features.video.resize import Resize

COUNT = 32
SEEN = Resize(224, 224)
FILM_S = 12
N_CLIPS = 64
Row = dict[str, Any]


def decoder_rows(
    folder: Path, device: str, *, quick: bool, workers: int
) -> Iterator[Row]:
    """Yield a row for each film: exact or refused, the difference in levels, clips a second.

    On a device that is a CPU, that of torchcodec is in the place of a GPU's decoder.
    """
    try:
        torchcodec()
    except (InstallExtra, FixInput) as error:
        yield _row("all", f"not tried: {error.message}")
        return
    n_clips = 2 if quick else N_CLIPS
    with DecodePool(workers, device=device) as pool:
        for spec in _films(quick=quick):
            film = make_film(spec, folder)
            try:
                differences = _differences(film, device)
            except BadVideo as error:
                yield _row(spec.name, f"refused: {error.message}")
                continue
            speeds = {
                "clips/s": n_clips / _seconds(film, CUDA, pool, n_clips, workers),
                "clips/s by CPU": n_clips / _seconds(film, CPU, pool, n_clips, workers),
            }
            yield _row(spec.name, "exact", **differences, **speeds)


def _films(*, quick: bool) -> list[FilmSpec]:
    """Return films as they are common, and small ones of unusual kinds."""
    size: dict[str, Any] = {"n_frames": FILM_S * RATE, "width": 1280}
    if quick:
        size = {"n_frames": 2 * COUNT, "width": 640}
    fast = {"preset": "veryfast"}
    hevc = fast | {"x265-params": "log-level=error"}
    return [
        FilmSpec("h264", options=fast, **size),
        FilmSpec("hevc", codec="libx265", options=hevc, **size),
        *odd_films(),
    ]


def _row(name: str, answer: str, **values: Any) -> Row:
    """Return a row; without values, one of a film that was not compared."""
    row: Row = {"film": name, "answer": answer}
    row |= dict.fromkeys(
        (
            "same times",
            "mean difference, levels",
            "largest",
            "clips/s",
            "clips/s by CPU",
        )
    )
    return row | values


def _differences(film: Path, device: str) -> Row:
    """Return how the pictures of a device differ from those of the CPU, in full size."""
    of_device = decode_clip(film, View(COUNT, decoder=CUDA), device=device)
    of_cpu = decode_clip(film, View(COUNT))
    gaps = np.abs(of_cpu.pictures.astype(int) - of_device.pictures)
    same_times = int((of_cpu.time_s == of_device.time_s).sum())
    return {
        "same times": f"{same_times} of {COUNT}",
        "mean difference, levels": float(gaps.mean()),
        "largest": int(gaps.max()),
    }


def _seconds(
    film: Path, decoder: str, pool: DecodePool, n_clips: int, workers: int
) -> float:
    """Decode a film again and again as a run does; return the time after the decoders started."""
    job = DecodeJob(film, (View(COUNT, resize=SEEN, decoder=decoder),))
    _decode(job, pool, workers)
    started = time.monotonic()
    _decode(job, pool, n_clips)
    return time.monotonic() - started


def _decode(job: DecodeJob, pool: DecodePool, n_clips: int) -> None:
    for result in pool.map([job] * n_clips):
        if result.error:
            raise result.error

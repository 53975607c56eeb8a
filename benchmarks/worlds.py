"""Made-up films that are as uneven as real ones: how they are drawn, and their features.

Each world differs from the films of ObyGaze12 (`raw`) in one respect, which its name states. The
films of a world, their clips and features are drawn anew each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import signal as filters
from scipy import special

from obygaze_features.manifest.model import Clip

WIDTH = 64
N_SIGNAL = 4
# Clips of each film of ObyGaze12 by annotation level (EN, HN, S): of the raw annotations, of the
# visual view, and of the published splits.
REAL_LEVELS = {
    "raw": (
        (22, 46, 19),
        (54, 31, 15),
        (88, 34, 32),
        (60, 87, 0),
        (18, 81, 21),
        (36, 45, 21),
        (21, 64, 58),
        (23, 39, 52),
        (54, 106, 31),
        (14, 60, 36),
        (8, 36, 40),
        (55, 82, 28),
    ),
    "visual": (
        (63, 19, 13),
        (83, 15, 13),
        (104, 26, 26),
        (106, 46, 0),
        (81, 27, 19),
        (52, 34, 18),
        (57, 36, 56),
        (85, 5, 39),
        (134, 33, 30),
        (44, 41, 32),
        (37, 13, 38),
        (157, 14, 26),
    ),
    "published": (
        (22, 19, 13),
        (54, 15, 13),
        (85, 25, 26),
        (56, 46, 0),
        (18, 27, 19),
        (36, 34, 18),
        (20, 35, 54),
        (22, 4, 39),
        (47, 33, 30),
        (14, 40, 32),
        (8, 12, 38),
        (54, 14, 26),
    ),
}
CORRELATION = 0.8  # of a clip with the next, where levels run on along a film


@dataclass(frozen=True)
class World:
    """How the films, clips and features of a world are drawn.

    Attributes:
        table: The films whose sizes and shares are followed, a key of `REAL_LEVELS`.
        n_films: The number of films.
        positives: The mean share of S among EN and S; None: the real one.
        look: How far films differ in their features.
        runs_on: Levels and features of a clip are like those of the clip before.
        n_clips: The clips of each film, all EN or S; None: as the real films have them.
        n_valued: The films that have clips of both levels, and the others only EN; None: any.
    """

    table: str = "raw"
    n_films: int = 12
    positives: float | None = None
    look: float = 0.3
    runs_on: bool = False
    n_clips: int | None = None
    n_valued: int | None = None


WORLDS: Mapping[str, World] = {
    "raw": World(),
    "visual": World("visual"),
    "published": World("published"),
    "rare-positives": World(positives=0.05),
    "strong-look": World(look=1.0),
    "runs-of-levels": World(runs_on=True),
    "5-films": World(n_films=5),
    "6-films": World(n_films=6),
    "20-films": World(n_films=20),
    "30-films": World(n_films=30),
    "3-of-12-films": World(n_clips=14, n_valued=3),
    "4-of-12-films": World(n_clips=14, n_valued=4),
    "6-of-12-films": World(n_clips=14, n_valued=6),
    "8-of-12-films": World(n_clips=14, n_valued=8),
}


def clips_of(world: World, rng: np.random.Generator) -> list[Clip]:
    """Return the clips of the films of a world; all but those of level EN have a concept.

    The share of S among EN and S, and the share of HN, follow Beta distributions with the mean and
    the variance of the real films. Where S is rarer, its shares are these, times a factor.
    """
    real = np.array(REAL_LEVELS[world.table])
    n_easy, n_hard, n_sure = real.T
    sure_shares = _shares(n_sure / (n_easy + n_sure), world, world.positives, rng)
    hard_shares = _shares(n_hard / real.sum(axis=1), world, None, rng)
    if world.n_clips is not None:
        hard_shares[:] = 0
    clips = []
    sizes = _sizes(real.sum(axis=1), world, rng)
    for number, size in enumerate(sizes):
        film = f"film{number:03d}"
        # A clip is HN, else S, at the rates of its film.
        is_hard = _uniform(size, world, rng) < hard_shares[number]
        is_sure = _uniform(size, world, rng) < sure_shares[number]
        if world.n_valued is not None:
            is_sure &= number < world.n_valued
            # A film may have another share until it has clips of both levels.
            while number < world.n_valued and (is_sure.all() or not is_sure.any()):
                is_sure = _uniform(size, world, rng) < rng.choice(sure_shares)
        levels = np.where(is_hard, "HN", np.where(is_sure, "S", "EN")).tolist()
        for scene, level in enumerate(levels, start=1):
            clip = Clip(f"{film}-{scene:04d}", film, scene, level=level)
            clips.append(clip if level == "EN" else replace(clip, concepts=("Body",)))
    return clips


def _sizes(
    real: NDArray[np.int64], world: World, rng: np.random.Generator
) -> list[int]:
    """Return the number of clips of each film."""
    if world.n_clips is not None:
        return [world.n_clips] * world.n_films
    if world.n_films == len(real):
        return [int(size) for size in real]
    return [int(size) for size in rng.choice(real, world.n_films)]


def _shares(
    real: NDArray[np.float64],
    world: World,
    mean: float | None,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return a share for each film."""
    first, second = beta_of(real)
    drawn = rng.beta(first, second, world.n_films)
    if mean is None:
        return drawn
    return np.asarray(drawn * mean / real.mean())


def beta_of(shares: NDArray[np.float64]) -> tuple[float, float]:
    """Return the two parameters of the Beta distribution with the mean and variance of shares."""
    mean = float(shares.mean())
    variance = float(shares.var(ddof=1))
    n = mean * (1 - mean) / variance - 1
    return mean * n, (1 - mean) * n


def _uniform(size: int, world: World, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a number from 0 to 1 for each clip of a film, in the order of the film."""
    if not world.runs_on:
        return rng.random(size)
    return np.asarray(special.ndtr(_running_on(rng.normal(size=(size, 1)))[:, 0]))


def _running_on(noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows of variance 1 that are correlated with the row before."""
    start = noise[:1]
    steps = (1 - CORRELATION**2) ** 0.5 * noise[1:]
    rows = np.concatenate([start, steps])
    return np.asarray(filters.lfilter([1.0], [1.0, -CORRELATION], rows, axis=0))


def features_of(
    world: World,
    film_of_row: NDArray[np.intp],
    is_sure: NDArray[np.bool_],
    signal: float,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """Return the features of rows: noise, a look of each film, and sure rows that stand out.

    Rows of one film follow each other. With a signal, a film's sure rows also lean where those of
    other films do not.
    """
    n_films = int(film_of_row.max()) + 1
    shape = (len(film_of_row), WIDTH)
    X = rng.normal(size=shape)
    if world.runs_on:
        for film in range(n_films):
            rows = np.flatnonzero(film_of_row == film)
            X[rows] = _running_on(X[rows])
    looks = rng.normal(size=(n_films, WIDTH))
    X += world.look * looks[film_of_row]
    X[:, :N_SIGNAL] += signal * is_sure[:, None]
    if signal > 0:
        leans = world.look * rng.normal(size=(n_films, WIDTH))
        X += leans[film_of_row] * is_sure[:, None]
    return np.asarray(X, dtype=np.float32)

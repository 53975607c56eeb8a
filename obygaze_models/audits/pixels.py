"""The audit of pixels: how much of the pictures of films a small decoder recovers from features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

from obygaze_features.core.errors import FixInput
from obygaze_features.store import Store, open_store
from obygaze_features.store.format.schema import PICTURES
from obygaze_models.audits.figure import BLUE, DOT, Drawing, Mark, Panel, Row
from obygaze_models.audits.result import Audit, Finding, ratio_interval

Floats = NDArray[np.float32]
SIDE, FOLDS, MAX_CLIPS = 16, 5, 1_000
PENALTIES = 10.0 ** np.arange(-4, 5)  # of a feature; the larger the less is learned


@dataclass(frozen=True)
class Recovered:
    """What is recovered from one level, on films that the decoder has not seen.

    `r2` is the share of the variance that it explains beyond the mean picture, with its interval
    over films; `psnr` and `blind_psnr`, that of the mean picture, are in decibels.
    """

    level: str
    r2: float
    interval: tuple[float | None, float | None]
    psnr: float
    blind_psnr: float


@dataclass(frozen=True, eq=False, repr=False)
class PixelAudit(Audit):
    """How much of small grey pictures is recovered from each level of a store."""

    store: str
    store_sha256: str
    n_clips: int
    n_films: int
    levels: tuple[Recovered, ...]

    @property
    def sentences(self) -> list[str]:
        """What the card of the store says: a sentence for each level."""
        return [
            f"{one.level}: a linear decoder explains {one.r2:.2f} of the variance of grey pictures "
            f"of {SIDE} x {SIDE} pixels beyond the mean picture, in films it has not seen, with a "
            f"PSNR of {one.psnr:.1f} dB; the mean picture has {one.blind_psnr:.1f} dB "
            f"({self.n_clips} clips of {self.n_films} films)."
            for one in self.levels
        ]

    def to_json(self) -> dict[str, Any]:
        """Return every number, and the sentences."""
        return {**asdict(self), "sentences": self.sentences}

    def finding(self) -> Finding:
        """Return one row per level, and a sentence for each."""
        rows = [(x.level, x.r2, *x.interval, x.psnr, x.blind_psnr) for x in self.levels]
        headers = ("level", "R2", "low", "high", "PSNR", "PSNR of the mean picture")
        title = f"Pixels recovered from {self.store}"
        return Finding(title, headers, tuple(rows), sentences=tuple(self.sentences))

    def drawing(self) -> Drawing:
        """Return the share of each level with its interval."""
        rows = [Row(x.level, [Mark(DOT, x.r2, BLUE, x.interval)]) for x in self.levels]
        xlabel = "share of the variance of small pictures, with 95 % over films"
        return Drawing([Panel("Pixels recovered", rows, xlabel, line=0.0)])


def audit_pixels(
    store: str | Path, pictures: str | Path, levels: Sequence[str] | None = None
) -> PixelAudit:
    """Measure how much of the pictures can be recovered from the features of the same clips.

    A ridge regression learns the picture in the middle of each clip, in grey and 16 x 16 pixels,
    from the features (those of the frame in the middle where a level has frames), and is tested on
    other films. At most 1,000 clips are used, evenly spread.

    Args:
        store: The store of features.
        pictures: The private store of the pictures of the same clips.
        levels: The levels; by default all.

    Example:
        audit = audit_pixels("films.xclip", "films.frames-32x224-bicubic")
    """
    features, films = open_store(store), open_store(pictures)
    clips = films.clip_ids[np.isin(films.clip_ids, features.clip_ids)]
    clips = clips[:: math.ceil(len(clips) / MAX_CLIPS) or 1]
    targets = _rows(films, PICTURES, clips)
    found, used = [], set[str]()
    for level in levels or features.levels:
        rows = _rows(features, level, clips)
        ids = [clip for clip in clips if clip in rows and clip in targets]
        movies = films.movie_ids[np.isin(films.clip_ids, ids)].tolist()
        if len(set(movies)) < 2:
            what = "clips of at least 2 films must have features and pictures"
            raise FixInput(what, where=f"{store}: {level}")
        X, Y = (np.stack([source[clip] for clip in ids]) for source in (rows, targets))
        found.append(recovered(X, Y, movies, level))
        used.update(ids)
    n_films = len(set(films.movie_ids[np.isin(films.clip_ids, list(used))].tolist()))
    name = Path(features.location).name
    return PixelAudit(name, features.plan.sha256, len(used), n_films, tuple(found))


def recovered(X: ArrayLike, Y: ArrayLike, films: Sequence[str], level: str = "") -> Recovered:
    """Return how well pictures are decoded from features, each by a fit on other films.

    Args:
        X: The features of each clip.
        Y: The pictures, as numbers from 0 to 1 in rows.
        films: The film of each clip.
        level: The name of the level.
    """
    features, pictures = np.asarray(X, np.float32), np.asarray(Y, np.float32)
    errors, blind = np.empty(len(films)), np.empty(len(films))
    folds = GroupKFold(min(FOLDS, len(set(films))))
    for train, test in folds.split(features, groups=films):
        scaler = StandardScaler().fit(features[train])
        decoder = RidgeCV(PENALTIES * features.shape[1])
        decoder.fit(scaler.transform(features[train]), pictures[train])
        decoded = np.clip(decoder.predict(scaler.transform(features[test])), 0, 1)
        errors[test] = ((decoded - pictures[test]) ** 2).mean(1)
        blind[test] = ((pictures[train].mean(0) - pictures[test]) ** 2).mean(1)
    low, high = ratio_interval(errors, blind, films)
    interval = (None if high is None else 1 - high, None if low is None else 1 - low)
    psnr, blind_psnr = (-10 * float(np.log10(max(x.mean(), 1e-10))) for x in (errors, blind))
    return Recovered(level, 1 - float(errors.sum() / blind.sum()), interval, psnr, blind_psnr)


def _rows(store: Store, level: str, clips: ArrayLike) -> dict[str, Floats]:
    """Return one vector for each clip that has the level: of its frame in the middle, if any."""
    spec, found = store.plan.array(level), dict[str, Floats]()
    for block in store.stream(level, clips=clips, missing="drop"):
        values = np.asarray(block.values)
        if spec.dims[:1] == ("frame",):
            values = values[:, values.shape[1] // 2]
        rows = _small(values) if level == PICTURES else values.reshape(len(values), -1)
        found |= dict(zip(block.clip_ids.tolist(), rows.astype(np.float32), strict=True))
    return found


def _small(pictures: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return pictures [n, height, width, 3] in grey and 16 x 16 pixels, as rows from 0 to 1."""
    grey = pictures.mean(axis=-1) / 255
    n, height, width = grey.shape
    y, x = height // SIDE, width // SIDE
    cells = grey[:, : y * SIDE, : x * SIDE].reshape(n, SIDE, y, SIDE, x)
    small: NDArray[np.float64] = cells.mean(axis=(2, 4)).reshape(n, -1)
    return small

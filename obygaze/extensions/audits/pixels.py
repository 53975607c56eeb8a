"""The audit of pixels: how much of the pictures of films a small decoder recovers from features."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

from obygaze.extensions.audits.figure import Plot, Point
from obygaze.extensions.audits.result import Audit, audit_command, ratio_interval
from obygaze_features.core.errors import FixInput
from obygaze_features.core.options import Option
from obygaze_features.store import Store, open_store
from obygaze_features.store.format.schema import PICTURES
from obygaze_models.report.findings import Finding

Floats = NDArray[np.float32]
SIDE = 16
FOLDS = 5
MAX_CLIPS = 1_000
PENALTIES = 10.0 ** np.arange(-4, 5)  # of a feature; the larger the less is learned


class Recovered(NamedTuple):
    """What is recovered from one array, on films that the decoder has not seen.

    `r2` is the share of the variance explained beyond the mean picture, with its interval over
    films; `psnr` and `blind_psnr`, that of the mean picture, are in decibels.
    """

    array: str
    r2: float
    low: float | None
    high: float | None
    psnr: float
    blind_psnr: float
    n_clips: int
    n_films: int

    def __str__(self) -> str:
        return (
            f"{self.array}: a linear decoder explains {self.r2:.2f} of the variance of grey "
            f"pictures of {SIDE} x {SIDE} pixels beyond the mean picture, in films it has not "
            f"seen, with a PSNR of {self.psnr:.1f} dB; the mean picture has {self.blind_psnr:.1f} "
            f"dB ({self.n_clips} clips of {self.n_films} films)."
        )


@dataclass(frozen=True, eq=False, repr=False)
class PixelAudit(Audit):
    """How much of small grey pictures is recovered from each array of a store."""

    store: str
    store_sha256: str
    arrays: tuple[Recovered, ...]

    def to_json(self) -> dict[str, Any]:
        """Return every number, and the sentences for the card of the store."""
        arrays = [x._asdict() for x in self.arrays]
        sentences = [str(x) for x in self.arrays]
        return {**vars(self), "arrays": arrays, "sentences": sentences}

    def finding(self) -> Finding:
        """Return one row per array, and a sentence for each."""
        title = f"Pixels recovered from {self.store}"
        sentences = tuple(map(str, self.arrays))
        return Finding(title, Recovered._fields, self.arrays, sentences=sentences)

    def plot(self) -> Plot:
        """Return the share of each array with its interval."""
        points = [Point(x.array, x.r2, (x.low, x.high)) for x in self.arrays]
        xlabel = "share of the variance of small pictures, with 95 % over films"
        return Plot("Pixels recovered", points, xlabel, 0.0)


def audit_pixels(
    store: Store | str | Path,
    pictures: Store | str | Path,
    *,
    arrays: Annotated[Sequence[str], Option("--array")] = (),
    workspace: str | Path | None = None,
) -> PixelAudit:
    """Measure how much of the pictures can be recovered from the features of the same clips.

    A ridge regression learns the picture in the middle of each clip, in grey and 16 x 16 pixels,
    from the features (those of the frame in the middle where an array has frames), and is tested on
    other films. At most 1,000 clips are used, evenly spread.

    Args:
        store: The store of features.
        pictures: The private store of the pictures of the same clips.
        arrays: The arrays; by default all.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_pixels("films.xclip", "films.frames-32x224-bicubic")

    Commands:
        obygaze audit pixels films.xclip films.frames-32x224-bicubic -o pixels.json
        obygaze store publish films.xclip --to zenodo --creator "Doe, Jane" --recovered pixels.json
    """
    features = open_store(store, workspace=workspace)
    films = open_store(pictures, workspace=workspace)
    clips = films.clip_ids[np.isin(films.clip_ids, features.clip_ids)].tolist()
    clips = clips[:: math.ceil(len(clips) / MAX_CLIPS) or 1]
    film_of = dict(zip(films.clip_ids.tolist(), films.movie_ids.tolist(), strict=True))
    targets = _rows(films, PICTURES, clips)
    recovered_arrays = []
    for array in arrays or features.feature_arrays:
        rows = _rows(features, array, clips)
        ids = [clip for clip in clips if clip in rows and clip in targets]
        if len({film_of[clip] for clip in ids}) < 2:
            message = "clips of at least 2 films must have features and pictures"
            raise FixInput(message, where=f"{features.location}: {array}")
        X = np.stack([rows[clip] for clip in ids])
        Y = np.stack([targets[clip] for clip in ids])
        films_of_clips = [film_of[clip] for clip in ids]
        recovered_arrays.append(recovered(X, Y, films_of_clips, array))
    name = Path(features.location).name
    return PixelAudit(name, features.plan.sha256, tuple(recovered_arrays))


def recovered(
    X: ArrayLike, Y: ArrayLike, films: Sequence[str], array: str = ""
) -> Recovered:
    """Return how well pictures are decoded from features, each by a fit on other films.

    Args:
        X: The features of each clip.
        Y: The pictures, as numbers from 0 to 1 in rows.
        films: The film of each clip.
        array: The name of the array.
    """
    features = np.asarray(X, np.float32)
    pictures = np.asarray(Y, np.float32)
    errors = np.empty(len(films))
    blind = np.empty(len(films))
    folds = GroupKFold(min(FOLDS, len(set(films))))
    for train, test in folds.split(features, groups=films):
        scaler = StandardScaler().fit(features[train])
        decoder = RidgeCV(PENALTIES * features.shape[1])
        decoder.fit(scaler.transform(features[train]), pictures[train])
        decoded = np.clip(decoder.predict(scaler.transform(features[test])), 0, 1)
        errors[test] = ((decoded - pictures[test]) ** 2).mean(1)
        blind[test] = ((pictures[train].mean(0) - pictures[test]) ** 2).mean(1)
    r2 = 1 - float(errors.sum() / blind.sum())
    # Where the error is least, most is recovered.
    high, low = (
        end if end is None else 1 - end for end in ratio_interval(errors, blind, films)
    )
    n_films = len(set(films))
    return Recovered(
        array, r2, low, high, _psnr(errors), _psnr(blind), len(films), n_films
    )


def _psnr(errors: NDArray[np.float64]) -> float:
    """Return the ratio of signal to noise, in decibels, of the squared errors of pictures."""
    return -10 * float(np.log10(max(errors.mean(), 1e-10)))


def _rows(store: Store, array: str, clips: Sequence[str]) -> dict[str, Floats]:
    """Return one vector for each clip that has the array: of its frame in the middle, if any."""
    spec = store.plan.array(array)
    vectors = dict[str, Floats]()
    for block in store.stream(array, clips=clips, missing="drop"):
        values = np.asarray(block.values)
        if spec.dims[:1] in (("frame",), ("step",)):
            values = _in_the_middle(values, store.real_frames(array, block.rows))
        if array == PICTURES:
            values = _small_and_grey(values)
        rows = values.reshape(len(values), -1).astype(np.float32)
        vectors |= dict(zip(block.clip_ids.tolist(), rows, strict=True))
    return vectors


def _small_and_grey(pictures: NDArray[Any]) -> NDArray[Any]:
    """Return pictures in grey and 16 x 16 pixels, from 0 to 1, each as one row."""
    grey = pictures.mean(axis=-1) / 255
    pixels = []
    for strip in np.array_split(grey, SIDE, axis=1):
        for cell in np.array_split(strip, SIDE, axis=2):
            pixels.append(cell.mean(axis=(1, 2)))
    return np.stack(pixels, axis=1)


def _in_the_middle(
    values: NDArray[Any], real: NDArray[np.bool_] | None
) -> NDArray[Any]:
    """Return the frame in the middle of each clip; frames that pad a short clip do not count."""
    n_frames = values.shape[1]
    if real is None:
        return np.asarray(values[:, n_frames // 2])
    middle = []
    for is_real in real:
        position = n_frames // 2
        if is_real.any():
            position = np.flatnonzero(is_real)[is_real.sum() // 2]
        middle.append(position)
    return np.asarray(values[np.arange(len(values)), middle])


command = audit_command(audit_pixels, "pixels")

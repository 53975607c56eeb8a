"""Trains every perceptron of a protocol on one store in one go: folds, tasks, seeds, settings.

Jobs that share training rows and seed are one trajectory (`mlp.fit_many`), and trajectories do not
depend on each other, so two processes that share them give the same bits as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.mlp import Job, MLPFit, MLPSettings, fit_many
from obygaze_models.protocols.runner.processes import map_parts, workers_for

MIN_FITS = 8  # below this, starting a process costs more than it saves


def settings_of(settings: dict[str, Any]) -> MLPSettings:
    """The settings of a protocol as those of the training."""
    own = dict(settings)
    own["hidden"] = tuple(own["hidden"])
    own["class_weight"] = None if own["class_weight"] == "none" else own["class_weight"]
    return MLPSettings(**own)


def fit_all(
    X: NDArray[np.float32], work: Sequence[tuple[MLPSettings, Job]], n_jobs: int = 0
) -> list[MLPFit]:
    """All fits in the order given; `n_jobs` processes (0: as many as there are cores)."""
    parts = _share_out(work, workers_for(n_jobs))
    done = map_parts(lambda part, _: _fit(X, [work[i] for i in parts[part]]), len(parts))
    fits: dict[int, MLPFit] = {}
    for part, found in zip(parts, done, strict=True):
        fits.update(zip(part, found, strict=True))
    return [fits[i] for i in range(len(work))]


def _fit(X: NDArray[np.float32], work: Sequence[tuple[MLPSettings, Job]]) -> list[MLPFit]:
    fits: dict[int, MLPFit] = {}
    for settings in dict.fromkeys(own for own, _ in work):
        own = [i for i, (wanted, _) in enumerate(work) if wanted == settings]
        fits.update(zip(own, fit_many(X, [work[i][1] for i in own], settings), strict=True))
    return [fits[i] for i in range(len(work))]


def _share_out(work: Sequence[tuple[MLPSettings, Job]], n_jobs: int) -> list[list[int]]:
    """Numbers of the fits for each process; fits that share a trajectory stay together."""
    if len(work) < MIN_FITS or n_jobs < 2:
        return [list(range(len(work)))]
    together: dict[tuple[Any, ...], list[int]] = {}
    for number, (settings, job) in enumerate(work):
        key = (settings, job.seed, job.train.tobytes(), job.labels[job.train].tobytes())
        together.setdefault(key, []).append(number)
    parts: list[list[int]] = [[] for _ in range(min(n_jobs, len(together)))]
    for place, group in enumerate(together.values()):
        parts[place % len(parts)] += group
    return parts

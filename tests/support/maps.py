"""A made-up store of tokens in which a patch of a concept moves through the frames of its clips."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Array, Row, Store
from support.stores import a_recipe, made_store

GRID = (4, 5, 5)
WIDTH = 16
STRENGTH = 6.0


def places(n_clips: int, seed: int = 5) -> NDArray[np.int64]:
    """Row and column of the patch, [clip, step, 2]: it moves one place a step, on a torus."""
    rng = np.random.default_rng(seed)
    start, step = (
        rng.integers(0, 5, (n_clips, 1, 2)),
        rng.integers(-1, 2, (n_clips, 1, 2)),
    )
    found: NDArray[np.int64] = (start + step * np.arange(GRID[0])[:, None]) % 5
    return found


def token_store(
    path: Path,
    manifest: Manifest,
    concepts: Sequence[str],
    seed: int = 2,
    n_frames: int = GRID[0],
) -> Store:
    """A store: tokens of noise, and of the k-th concept a patch along the k-th dimension.

    A token of class comes first in each frame, as large along all dimensions. `pooled` is the
    maximum over the patches.
    """
    rng, at = np.random.default_rng(seed), places(len(manifest))
    tokens = rng.normal(size=(len(manifest), GRID[0], 26, WIDTH))
    tokens[:, :, 0] = 2 * STRENGTH
    steps = np.arange(GRID[0])
    for k, concept in enumerate(concepts):
        for clip in np.flatnonzero([concept in one.concepts for one in manifest]):
            tokens[clip, steps, 1 + at[clip, :, 0] * 5 + at[clip, :, 1], k] += STRENGTH
    values: dict[str, Any] = {"tokens": tokens.astype(np.float16)}
    values["pooled"] = tokens[:, :, 1:].max(axis=(1, 2)).astype(np.float32)
    values["time_s"] = np.tile(steps / 2.0, (len(manifest), 1))
    backbone = {
        "name": "toy",
        "card_sha256": "ab" * 32,
        "geometry": {"grid": list(GRID), "frames": n_frames},
    }
    rows = [Row(clip.clip_id, clip.movie_id) for clip in manifest]
    arrays = (
        Array.of("pooled", "float32", (WIDTH,)),
        Array.of("tokens", "float16", (GRID[0], 26, WIDTH), ("step", "token", "width")),
        Array.of("time_s", "float64", (GRID[0],), ("step",)),
    )
    recipe = a_recipe(backbone=backbone)
    return made_store(path, rows, values, arrays=arrays, recipe=recipe)

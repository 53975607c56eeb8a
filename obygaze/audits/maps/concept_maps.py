"""Concept maps: where in a picture and when in a clip a direction is found, from stored tokens.

A direction is the weight vector of a linear model of a concept. The model is fitted on one feature
vector for each clip. A map has the projection of each spatial token of a clip on a direction. The
directions for the clips of a film are fitted without this film.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.maps.stores import (
    Directions,
    WrittenMaps,
    random_directions,
    token_grid,
    write_maps,
)
from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.store import Reason, Store, open_store
from obygaze_features.store.making import new_store
from obygaze_features.store.rows import FAILED
from obygaze_models.models.registry import DEFAULT_TASK, VECTORS

if TYPE_CHECKING:
    from obygaze_models.runner.inputs import Inputs

TOKENS = "tokens"


def write_concept_maps(
    path: PathLike,
    store: PathLike | Store,
    manifest: PathLike | Manifest,
    *,
    workspace: PathLike | None = None,
) -> WrittenMaps:
    """Project concept vectors on the stored tokens of each clip.

    The directions for a film are fitted without this film. The command needs neither the films nor
    the weights of a model.

    For a map, the mean of the clips is subtracted from each token, and the result is projected on
    the direction of length 1. The store has the reason for each clip without maps.

    Args:
        path: The new store.
        store: A store with tokens, and with vectors of the same width for the fit.
        manifest: The clips and their labels.
        workspace: The workspace, if it is not the current one.
    """
    from obygaze_models.runner.inputs import gather
    from obygaze_models.runner.training import training_protocol

    folder = new_store(Workspace.of(workspace), path)
    clips_of_manifest = read_manifest(manifest, workspace=workspace)
    opened = open_store(store, workspace=workspace)
    grid = token_grid(opened)
    protocol = training_protocol(VECTORS, DEFAULT_TASK, clips_of_manifest)
    inputs = gather(
        protocol, clips_of_manifest, clips_of_manifest.name, {"store": opened}
    )
    (features,) = inputs.stores
    array = features.origin["array"]
    X = features.X
    if opened.array(TOKENS).shape[-1:] != X.shape[1:]:
        raise FixInput(f"expected an array with the width of a token, got {array}")
    directions_of_film = directions_by_film(inputs)
    names = common_names(directions_of_film)
    if not names:
        raise FixInput(
            "no direction could be fitted for all films", where=opened.location
        )
    named = {
        film: {name: of_film[name] for name in names}
        for film, of_film in directions_of_film.items()
    }
    random = random_directions(X.shape[1])
    present = np.array(inputs.table.ids)[features.present]
    selected = opened.select(clips=[clips_of_manifest[clip] for clip in present])
    clips = opened.clip_ids[np.sort(selected.rows)].tolist()
    film_of = dict(zip(inputs.table.ids, inputs.table.groups.tolist(), strict=True))
    directions_of = {
        clip: {**named[film_of[clip]], **random}
        for clip in clips
        if film_of[clip] in named
    }
    origin = X.mean(axis=0, dtype=np.float64)
    facts = {"method": "projection", "model": VECTORS, "run": inputs.identity}
    results = _results_of_clips(opened, clips, directions_of, origin, grid)
    return write_maps(folder, opened, clips, [*names, *random], facts, results)


def _results_of_clips(
    store: Store,
    clips: Sequence[str],
    directions_of: Mapping[str, Directions],
    origin: NDArray[Any],
    grid: tuple[int, int, int],
) -> Iterator[NDArray[Any] | Reason]:
    """Yield the maps of each clip, or the reason why it has none."""
    from obygaze_models.models.common import with_padding

    for part in store.stream(TOKENS, clips=clips):
        values = with_padding(part.values, store.real_frames(TOKENS, part.rows))
        for clip, tokens in zip(part.clip_ids.tolist(), values, strict=True):
            if clip not in directions_of:
                yield Reason(
                    FAILED, "no direction could be fitted without the film of the clip"
                )
                continue
            is_padding = np.isnan(tokens).all(axis=(1, 2))
            maps = maps_of_tokens(tokens, directions_of[clip], origin, grid)
            maps[:, is_padding] = 0
            yield maps


def common_names(directions_of_film: Mapping[str, Directions]) -> list[str]:
    """Return the names of the directions that all films have."""
    if not directions_of_film:
        return []
    first, *others = directions_of_film.values()
    in_all_films = set(first).intersection(*others)
    return [name for name in first if name in in_all_films]


def directions_by_film(inputs: Inputs) -> Mapping[str, Directions]:
    """Return for each film the directions by name, fitted on the clips of all other films."""
    from obygaze_models.models.common import FixTraining
    from obygaze_models.models.preprocessing import last_step
    from obygaze_models.runner.store_run import fit_model, store_runs

    (store,) = store_runs(inputs)
    (model,) = store.models.values()
    seed = store.protocol.fit.seed
    directions: dict[str, dict[str, NDArray[np.float64]]] = {}
    for (train, _), _, held in store.every_fold:
        try:
            (fitted,) = fit_model(store, model, train, [held.merge_validation()], seed)
        except FixTraining:
            continue
        (direction,) = np.asarray(last_step(fitted.estimator).coef_, dtype=np.float64)
        if not direction.any():
            continue  # All features are equal, so there is no direction.
        for film in held.hidden_films:
            directions.setdefault(film, {})[train] = direction
    return directions


def maps_of_tokens(
    tokens: NDArray[Any],
    directions: Directions,
    origin: NDArray[Any],
    grid: tuple[int, int, int],
) -> NDArray[np.float32]:
    """Return maps [direction, step, row, column] of the tokens [step, token, width] of a clip.

    `origin` is subtracted from each token before the projection on the directions.
    """
    vectors = np.stack(list(directions.values()))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    margins = (
        tokens.astype(np.float32) - origin.astype(np.float32)
    ) @ vectors.T.astype(np.float32)
    # Tokens before the patches have no place in the picture, so they are excluded.
    patches = margins[:, margins.shape[1] - grid[1] * grid[2] :]
    return np.moveaxis(patches, -1, 0).reshape(-1, *grid)
